"""Who may speak as whom: a private certificate authority, and one certificate and key for every
role.

The authority signs the roles' certificates and its key is forgotten: nobody can add a role later,
or one more "A". Both ends of every connection show their certificate (mutual TLS). Which role it is
stands in it: the caller checks that it reached that role, the callee that the sender of a message
is the role it says.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FILES = ("ca.pem", "certificate.pem", "key.pem")
_CLOCK_SKEW = timedelta(minutes=5)
_PEM = serialization.Encoding.PEM


def make(
    folder: Path | str,
    roles: Sequence[str],
    *,
    days: float = 30,
    start: datetime | None = None,
    fresh: bool = False,
) -> None:
    """A new authority, and for every role folder/<role>/ with ca.pem, certificate.pem and key.pem
    (0600).

    Each role needs its own folder on its own machine and nothing else. The authority's key is never
    written.
    roles: names as a config has them, each once.  days: how long they hold, > 0.  start: from when
    on, with a time zone; default now, and five minutes earlier for clocks that disagree.  fresh:
    replace those that are there.
    Keys are ECDSA on P-256, from the operating system's CSPRNG.
    ValueError for a wrong number of days, and where certificates are already: they would no
    longer fit the others.
    """
    folder = Path(folder)
    there = [path for role in roles for file in FILES if (path := folder / role / file).exists()]
    if there and not fresh:
        raise ValueError(
            f"there are certificates in {folder} already: "
            "--fresh replaces them, and then every role needs its new ones"
        )
    if not 0 < days <= 3650:
        raise ValueError(f"days must be > 0 and at most 3650, got {days}")
    for path in there:
        path.unlink()
    begin = start or datetime.now(UTC) - _CLOCK_SKEW
    span = begin, begin + timedelta(days=days)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _named("ppkit: the authority of one run's certificates")
    authority = _signed(
        name, name, authority_key.public_key(), authority_key, span, is_authority=True
    )
    for role in roles:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(
            _named(role),
            name,
            key.public_key(),
            authority_key,
            span,
            alternatives=[x509.DNSName(target(role))],
        )
        place = folder / role
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / "ca.pem").write_bytes(authority.public_bytes(_PEM))
        (place / "certificate.pem").write_bytes(certificate.public_bytes(_PEM))
        secret = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with os.fdopen(
            os.open(place / "key.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(secret)


def check(folder: Path | str, role: str, *, config: str = "CONFIG") -> None:
    """None if folder/<role>/ holds a certificate of this role, valid now, with its key, of the
    authority beside it.

    The key must be closed to other users, as ssh wants it.  config: the run's file, for the command
    in a sentence.
    ValueError otherwise: one sentence that names the file and what is wrong with it.
    """
    place = Path(folder) / role
    missing = [file for file in FILES if not (place / file).is_file()]
    if missing:
        raise ValueError(
            f"the certificates of {role} are not in {place}: {', '.join(missing)} missing; "
            f"`ppkit spnn certs {config}` makes them, for all roles"
        )
    if os.name == "posix" and (mode := stat.S_IMODE((place / "key.pem").stat().st_mode)) & 0o077:
        raise ValueError(
            f"{place / 'key.pem'} is open to other users of this machine (mode {mode:04o}): make "
            "new ones if "
            "others may have read it, else `chmod 600` it"
        )
    authority, certificate, key = (_read(place / file) for file in FILES)
    if _role_in(certificate) != role:
        raise ValueError(
            f"{place / 'certificate.pem'} is for {_role_in(certificate)!r}, not for {role!r}"
        )
    try:
        certificate.verify_directly_issued_by(authority)
    # InvalidSignature, ValueError or TypeError, by what differs
    except Exception:
        raise ValueError(
            f"{place / 'certificate.pem'} was not signed by the authority in {place / 'ca.pem'}"
        ) from None
    if certificate.public_key() != key.public_key():
        raise ValueError(f"{place / 'key.pem'} is not the key of {place / 'certificate.pem'}")
    now = datetime.now(UTC)
    for file, what in (("certificate.pem", certificate), ("ca.pem", authority)):
        if now > what.not_valid_after_utc:
            raise ValueError(
                f"{place / file} expired on {what.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: "
                f"`ppkit spnn certs {config} --fresh` makes new ones, for all roles"
            )
        if now < what.not_valid_before_utc:
            raise ValueError(
                f"{place / file} holds only from {what.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
            )


def serving(folder: Path | str, role: str, on_handshake) -> grpc.ServerCredentials:
    """What the role's server shows; who calls must show a certificate of the same authority.

    on_handshake: called, with nothing, whenever a connection begins to shake hands.
    """
    authority, certificate, key = ((Path(folder) / role / file).read_bytes() for file in FILES)
    pairs = grpc.ssl_server_certificate_configuration([(key, certificate)], authority)
    return grpc.dynamic_ssl_server_credentials(
        pairs, lambda: on_handshake(), require_client_authentication=True
    )


def dialling(folder: Path | str, role: str) -> grpc.ChannelCredentials:
    """What the role shows when it calls another; the other must be `target(other)` by a certificate
    of the same authority.
    """
    authority, certificate, key = ((Path(folder) / role / file).read_bytes() for file in FILES)
    return grpc.ssl_channel_credentials(authority, key, certificate)


def target(role: str) -> str:
    """A role's name in the form of a host name, which is what TLS compares: any text becomes
    letters and digits.

    >>> target("server")
    'b3eacd33433b31b5252351032c9b3e7a.role.ppkit.invalid'
    """
    return f"{hashlib.sha256(role.encode()).hexdigest()[:32]}.role.ppkit.invalid"


def peer(context: grpc.ServicerContext) -> str:
    """The role that the certificate of a connection's other end carries."""
    return context.auth_context()["x509_common_name"][0].decode()


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _role_in(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _signed(
    subject, issuer, public_key, signing_key, span, *, is_authority=False, alternatives=()
) -> x509.Certificate:
    """A certificate that can do what it is for: an authority signs, a role serves and calls."""
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(
            x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                **usage,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
    )
    if not is_authority:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False).add_extension(
            x509.SubjectAlternativeName(alternatives), critical=False
        )
    return builder.sign(signing_key, hashes.SHA256())


def _read(path: Path):
    """A certificate or a key; ValueError if it is none."""
    try:
        if path.name == "key.pem":
            return serialization.load_pem_private_key(path.read_bytes(), password=None)
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (ValueError, TypeError):
        raise ValueError(
            f"{path} is no {'key' if path.name == 'key.pem' else 'certificate'} in PEM form"
        ) from None
