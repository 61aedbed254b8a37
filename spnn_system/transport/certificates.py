"""Who may speak as whom: a key that each role makes for itself, and a certificate for it from the
run's own authority.

A role makes its key where it will use it (`request`), and only a signing request leaves the
machine. The authority signs the requests of all roles at once (`sign`) and its own key is forgotten
then: nobody can add a role later, or one more "A". Both ends of every connection show their
certificate (mutual TLS). Which role it is stands in it: the caller checks that it reached that
role, the callee that the sender of a message is the role it says.
"""

import hashlib
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from ppkit.atomic_writing import read_secret, write_whole

FILES = ("ca.pem", "certificate.pem", "key.pem")
REQUEST = "request.pem"
# what reading one raises that was changed on its way: as a whole, or in its name or key
UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)
_CLOCK_SKEW, _VALID = timedelta(minutes=5), timedelta(days=30)
_PEM = serialization.Encoding.PEM


def request(folder: Path | str, role: str, *, fresh: bool = False) -> str:
    """A new key for one role, folder/<role>/key.pem (0600), and what asks for its certificate,
    request.pem.

    role: as the config names it.  fresh: replace a key that is there, and drop its certificate.
    The key is ECDSA on P-256, from the operating system's CSPRNG. It stays on this machine: the
    authority needs request.pem alone, which holds nothing secret.
    Returns the request's `fingerprint`.  ValueError where a key is already.
    """
    place = Path(folder) / role
    if (place / "key.pem").exists() and not fresh:
        raise ValueError(
            f"there is a key in {place} already: --fresh replaces it, and then every role needs "
            "a new certificate"
        )
    for file in (*FILES, REQUEST):
        (place / file).unlink(missing_ok=True)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    secret = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_whole(place / "key.pem", secret, mode=0o600)
    builder = x509.CertificateSigningRequestBuilder().subject_name(_named(role))
    asked = builder.sign(key, hashes.SHA256())
    (place / REQUEST).write_bytes(asked.public_bytes(_PEM))
    return fingerprint(asked)


def sign(folder: Path | str, roles: Sequence[str], *, fresh: bool = False) -> dict[str, str]:
    """A new authority signs the requests of all roles: ca.pem and certificate.pem beside each
    folder/<role>/request.pem, which hold for 30 days from now on (and since five minutes, for
    clocks that disagree).

    The authority's key is never written, so all roles of a run are signed at once.
    roles: names as a config has them, each once.  fresh: replace certificates that are there.
    Returns every role's `fingerprint`: the authority asks each role's owner for it, by a way that
    nobody else can change, before it sends the certificates back.
    ValueError, with nothing written: certificates that are there; a request that is missing,
    damaged, another role's or not signed by its own key; two roles with one key.
    """
    folder = Path(folder)
    there = [role for role in roles if (folder / role / "certificate.pem").exists()]
    if there and not fresh:
        raise ValueError(
            f"there are certificates in {folder} already: "
            "--fresh replaces them, and then every role needs its new ones"
        )
    requests = {role: _request(folder / role / REQUEST, role) for role in roles}
    marks = {role: fingerprint(asked) for role, asked in requests.items()}
    first: dict[str, str] = {}
    for role, mark in marks.items():
        other = first.setdefault(mark, role)
        if other != role:
            raise ValueError(f"{other} and {role} ask with the same key: each must make its own")
    now = datetime.now(UTC)
    span = now - _CLOCK_SKEW, now + _VALID
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _named("ppkit: the authority of one run's certificates")
    authority = _signed(
        name, name, authority_key.public_key(), authority_key, span, is_authority=True
    )
    for role, asked in requests.items():
        certificate = _signed(
            asked.subject,
            name,
            asked.public_key(),
            authority_key,
            span,
            alternatives=[x509.DNSName(target(role))],
        )
        (folder / role / "ca.pem").write_bytes(authority.public_bytes(_PEM))
        (folder / role / "certificate.pem").write_bytes(certificate.public_bytes(_PEM))
    return marks


def make(folder: Path | str, roles: Sequence[str], *, fresh: bool = False) -> None:
    """`request` for every role and `sign`, all on this machine: for trials.

    Who makes all keys can read all messages and speak as any role. Arguments and errors: as those
    two.
    """
    for role in roles:
        request(folder, role, fresh=fresh)
    sign(folder, roles)


def fingerprint(asked: x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key that a request is for, 64 hexadecimal digits."""
    public = asked.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(public).hexdigest()


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
            f"`ppkit spnn request {config} {shlex.quote(role)}` makes a key and a request here, "
            f"`ppkit spnn sign {config}` the certificates; for a trial on one machine `ppkit spnn "
            f"certs {config}` makes all"
        )
    authority, certificate = (_certificate(place / file) for file in FILES[:2])
    key = _key(place / FILES[2])
    verifier = PolicyBuilder().store(Store([authority]))
    try:
        verifier.build_server_verifier(x509.DNSName(target(role))).verify(certificate, [])
    except VerificationError as error:
        raise ValueError(
            f"{place / 'certificate.pem'} is for {_role_in(certificate)!r} until "
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and no certificate of {role!r} "
            f"by the authority in {place / 'ca.pem'} that holds now "
            f"({str(error).split(' (')[0]}): `ppkit spnn sign {config} --fresh` makes new ones, "
            "for all roles"
        ) from None
    if certificate.public_key() != key.public_key():
        raise ValueError(f"{place / 'key.pem'} is not the key of {place / 'certificate.pem'}")


def serving(folder: Path | str, role: str) -> grpc.ServerCredentials:
    """What the role's server shows; who calls must show a certificate of the same authority."""
    authority, certificate, key = _contents(Path(folder) / role)
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)


def dialling(folder: Path | str, role: str) -> grpc.ChannelCredentials:
    """What the role shows when it calls another; the other must be `target(other)` by a certificate
    of the same authority.
    """
    authority, certificate, key = _contents(Path(folder) / role)
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


def _role_in(signed: x509.Certificate | x509.CertificateSigningRequest) -> str:
    names = signed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
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


def _contents(place: Path) -> tuple[bytes, bytes, bytes]:
    """Of the FILES of one role."""
    authority, certificate, key = FILES
    return (
        (place / authority).read_bytes(),
        (place / certificate).read_bytes(),
        read_secret(place / key),
    )


def _certificate(path: Path) -> x509.Certificate:
    """ValueError if there is none."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        _role_in(certificate)  # a damaged name is read only when it is asked for
    except UNREADABLE:
        raise ValueError(f"{path} is no certificate in PEM form") from None
    if not _ends_in_its_signature(certificate):
        raise ValueError(f"{path} was changed: it does not end in its signature")
    return certificate


def _ends_in_its_signature(signed: x509.Certificate | x509.CertificateSigningRequest) -> bool:
    """Whether the file ends as it was written: in the signature's whole bytes.

    A bit string says how many of its last bits are unused. Changed from 0 to 4, it leaves a
    signature that ends in four zeros as it is, and the file would pass as another one.
    """
    return signed.public_bytes(serialization.Encoding.DER).endswith(b"\0" + signed.signature)


def _key(path: Path):
    """ValueError if there is none, or if others may read it."""
    content = read_secret(path)
    try:
        return serialization.load_pem_private_key(content, password=None)
    except UNREADABLE:
        raise ValueError(f"{path} is no key in PEM form") from None


def _request(path: Path, role: str) -> x509.CertificateSigningRequest:
    """A role's request, checked; ValueError in one sentence otherwise."""
    if not path.is_file():
        raise ValueError(
            f"there is no {path}: {role} makes it by `ppkit spnn request` on its own machine, and "
            "it belongs here"
        )
    try:
        asked = x509.load_pem_x509_csr(path.read_bytes())
        name = _role_in(asked)
    except UNREADABLE:
        raise ValueError(
            f"{path} is no signing request in PEM form: {role} sends it again"
        ) from None
    if name != role:
        raise ValueError(f"{path} is for {name!r}, not for {role!r}")
    try:
        is_signed = asked.is_signature_valid
    except UNREADABLE:  # a key that is none
        is_signed = False
    if not (is_signed and _ends_in_its_signature(asked)):
        raise ValueError(
            f"{path} was not signed by the key that it asks for, or was changed on its way: {role} "
            "sends it again"
        )
    return asked
