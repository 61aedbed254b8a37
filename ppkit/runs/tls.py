"""The files with which one connects over TLS, and the scheduler at the other end, looked at before
Dask is: it says of whatever does not fit that nobody answers."""

import datetime
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from ppkit.runs import Refused, reason

FILES = ("tls_ca_file", "tls_client_cert", "tls_client_key")
ANSWERS_IN = 10.0  # seconds that a connection may take


def check(files: Mapping[str, Path | None]) -> None:
    """Refuse files that do not fit: which one, and what is wrong.  Nothing is connected, nobody is
    asked for a password.

    files: by the names of FILES.
    """
    missing = [name for name in FILES if not (files.get(name) and files[name].is_file())]
    if missing:
        options = ", ".join(_option(name) for name in missing)
        raise Refused(f"tls:// needs a file that is there for {options}")
    of_authority = _certificates("tls_ca_file", files)
    chain = _certificates("tls_client_cert", files)
    for certificate in chain[:1]:
        _must_be_valid_now(files["tls_client_cert"], certificate)
    if _key(files["tls_client_key"]) != _spki(chain[0].public_key()):
        raise Refused(
            f"the key {files['tls_client_key']} (--tls-client-key) belongs to another certificate "
            f"than {files['tls_client_cert']}"
        )
    issuers = [*chain[1:], *of_authority]
    if not any(_issued(chain[0], issuer) for issuer in issuers):
        raise Refused(
            f"the certificate {files['tls_client_cert']} (--tls-client-cert) was not issued by "
            f"the authority {files['tls_ca_file']} (--tls-ca-file)"
        )
    for issuer in of_authority:
        if _issued(chain[0], issuer):
            _must_be_valid_now(files["tls_ca_file"], issuer)


def knock(host: str, port: int, files: Mapping[str, Path]) -> None:
    """Connect once, as Dask will.

    files: that `check` has passed.
    Refused with what is wrong: nobody there, no TLS, the certificate of the other end, or ours for
    it.
    """
    address = f"tls://{host}:{port}"
    context = ssl.create_default_context(cafile=files["tls_ca_file"])
    context.check_hostname = False  # as Dask has it: whoever the authority vouches for
    context.load_cert_chain(files["tls_client_cert"], files["tls_client_key"], lambda: "")
    try:
        with socket.create_connection((host, port), ANSWERS_IN) as plain:
            with context.wrap_socket(plain) as line:
                line.recv(1)  # in TLS 1.3 the other end refuses only now
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"the scheduler at {address} shows a certificate that {files['tls_ca_file']} "
            f"(--tls-ca-file) does not vouch for: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            raise Refused(
                f"the scheduler at {address} does not take {files['tls_client_cert']} "
                f"(--tls-client-cert): {_words(error)}"
            ) from None
        raise Refused(f"what answers at {address} does not speak TLS: {_words(error)}") from None
    except OSError as error:
        raise Refused(f"no scheduler answers at {address}: {reason(error)}") from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _read(name: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Refused(f"{file} ({_option(name)}) cannot be read: {reason(error)}") from None


def _certificates(name: str, files: Mapping[str, Path]) -> list[x509.Certificate]:
    text = _read(name, files[name])
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        raise Refused(f"{files[name]} ({_option(name)}) holds no certificate in PEM") from None


def _key(file: Path) -> bytes:
    """The public half of a private key."""
    text = _read("tls_client_key", file)
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except TypeError:
        raise Refused(
            f"the key {file} (--tls-client-key) is encrypted: give one without a password, such as "
            f"`openssl pkey -in {file} -out key.pem` writes"
        ) from None
    except ValueError:
        raise Refused(f"{file} (--tls-client-key) holds no private key in PEM") from None
    return _spki(key.public_key())


def _spki(key) -> bytes:
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, kind)


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _must_be_valid_now(file: Path, certificate: x509.Certificate) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if now > certificate.not_valid_after_utc:
        raise Refused(f"the certificate {file} ended on {certificate.not_valid_after_utc:%Y-%m-%d}")
    if now < certificate.not_valid_before_utc:
        raise Refused(
            f"the certificate {file} begins on {certificate.not_valid_before_utc:%Y-%m-%d}"
        )
