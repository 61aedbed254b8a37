"""The files with which one connects over TLS, and the scheduler at the other end, tried before Dask
is: it says of whatever does not fit that nobody answers."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from ppkit.runs import Refused, reason

FILES = ("tls_ca_file", "tls_client_cert", "tls_client_key")
ANSWERS_IN = 10.0  # seconds that a connection may take


def given(files: Mapping[str, Path | None]) -> dict[str, Path]:
    """The files by the names of FILES; Refused if one is not given or not there."""
    there = {name: file for name, file in files.items() if file is not None and file.is_file()}
    missing = [f"--{name.replace('_', '-')}" for name in FILES if name not in there]
    if missing:
        raise Refused(f"tls:// needs a file that is there for {', '.join(missing)}")
    return there


def knock(host: str, port: int, files: Mapping[str, Path]) -> None:
    """Connect once, as Dask will; nobody is asked for a password.

    files: as `given`.
    Refused with what is wrong: a file, nobody there, no TLS, the certificate of the other end, or
    ours for it.
    """
    authority, certificate, private = (files[name] for name in FILES)
    address = f"tls://[{host}]:{port}" if ":" in host else f"tls://{host}:{port}"
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise Refused(
            f"{authority} (--tls-ca-file) holds no certificate in PEM: {_words(error)}"
        ) from None
    context.check_hostname = False  # as Dask has it: whoever the authority vouches for
    try:
        context.load_cert_chain(certificate, private, lambda: "")
    except OSError as error:
        raise Refused(
            f"{certificate} (--tls-client-cert) and {private} (--tls-client-key) are no "
            f"certificate and its key, in PEM and without a password: {_words(error)}"
        ) from None
    try:
        with socket.create_connection((host, port), ANSWERS_IN) as plain:
            with context.wrap_socket(plain) as line:
                line.recv(1)  # in TLS 1.3 the other end refuses only now
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"the scheduler at {address} shows a certificate that {authority} (--tls-ca-file) "
            f"does not vouch for: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            raise Refused(
                f"the scheduler at {address} does not take {certificate} (--tls-client-cert): "
                f"{_words(error)}"
            ) from None
        raise Refused(f"what answers at {address} does not speak TLS: {_words(error)}") from None
    except OSError as error:
        raise Refused(f"no scheduler answers at {address}: {reason(error)}") from None
    except UnicodeError:
        raise Refused(f"no scheduler answers at {address}: {host!r} is no name of a host") from None


def _words(error: OSError) -> str:
    """What OpenSSL or the system says, in words."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return reason(error)
