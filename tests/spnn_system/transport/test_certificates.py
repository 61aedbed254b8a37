"""Certificates of one run: who gets what, and every way in which a folder of them can be wrong, in
one sentence.
"""

import base64
import re
import shutil
import stat
from datetime import UTC, datetime, timedelta

import pytest
from certificates_at import made_at
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from spnn_system.transport import certificates

ROLES = ["coordinator", "server", "A", "Bank B"]


@pytest.fixture
def folder(tmp_path):
    certificates.make(tmp_path / "certificates", ROLES)
    return tmp_path / "certificates"


def read(folder, role, file="certificate.pem"):
    return x509.load_pem_x509_certificate((folder / role / file).read_bytes())


def test_every_role_gets_its_own_and_they_pass(folder):
    for role in ROLES:
        certificates.check(folder, role)
    assert {file.name for file in folder.rglob("*") if file.is_file()} == {
        *certificates.FILES,
        certificates.REQUEST,
    }
    assert len({(folder / role / "ca.pem").read_bytes() for role in ROLES}) == 1
    assert len({(folder / role / "key.pem").read_bytes() for role in ROLES}) == len(ROLES)
    alternatives = (
        read(folder, "server").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    )
    assert alternatives.get_values_for_type(x509.DNSName) == [certificates.target("server")]


def test_keys_are_for_their_owner_alone_and_the_authoritys_is_nowhere(folder):
    authority = read(folder, "A", "ca.pem").public_key()
    for role in ROLES:
        key = folder / role / "key.pem"
        assert (
            stat.S_IMODE(key.stat().st_mode) == 0o600
            and stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        )
        assert serialization.load_pem_private_key(key.read_bytes(), None).public_key() != authority


def test_only_the_authority_can_sign(folder):
    basic = lambda certificate: (
        certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    )
    assert (
        basic(read(folder, "A", "ca.pem")).ca
        and basic(read(folder, "A", "ca.pem")).path_length == 0
    )
    assert not any(basic(read(folder, role)).ca for role in ROLES)


def test_they_hold_for_thirty_days(tmp_path):
    made_at(datetime(2026, 1, 1, tzinfo=UTC), tmp_path)
    for file in ("certificate.pem", "ca.pem"):
        certificate = read(tmp_path, "A", file)
        assert certificate.not_valid_before_utc == datetime(2025, 12, 31, 23, 55, tzinfo=UTC)
        assert certificate.not_valid_after_utc == datetime(2026, 1, 31, tzinfo=UTC)


def another(tmp_path, since=timedelta()):
    """Of another authority, made so long ago."""
    made_at(datetime.now(UTC) - since, tmp_path / "other")
    return tmp_path / "other"


def swap(folder, tmp_path, file):
    shutil.copy(another(tmp_path) / "A" / file, folder / "A" / file)


WRONG = {
    "missing": (
        lambda f, t: (f / "A" / "key.pem").unlink(),
        r"A.*key\.pem missing; `ppkit spnn request CONFIG A` makes a key",
    ),
    "no folder": (
        lambda f, t: shutil.rmtree(f / "A"),
        r"ca\.pem, certificate\.pem, key\.pem missing",
    ),
    "another role's": (
        lambda f, t: shutil.copytree(f / "server", f / "A", dirs_exist_ok=True),
        r"certificate\.pem is for 'server' until .*, and no certificate of 'A' by",
    ),
    "another authority": (
        lambda f, t: swap(f, t, "ca.pem"),
        r"no certificate of 'A' by the authority in .*ca\.pem .*signature does not match",
    ),
    "another key": (
        lambda f, t: swap(f, t, "key.pem"),
        r"key\.pem is not the key of .*certificate\.pem",
    ),
    "no certificate": (
        lambda f, t: (f / "A" / "certificate.pem").write_text("hello"),
        r"certificate\.pem is no certificate in PEM",
    ),
    "no key": (
        lambda f, t: (f / "A" / "key.pem").write_text("hello"),
        r"key\.pem is no key in PEM",
    ),
    "expired": (
        lambda f, t: shutil.copytree(
            another(t, timedelta(days=31)) / "A", f / "A", dirs_exist_ok=True
        ),
        r"until \d{4}-\d\d-\d\d .*not valid at validation time\): `ppkit spnn sign .* --fresh`",
    ),
    "not yet": (
        lambda f, t: shutil.copytree(
            another(t, timedelta(days=-1)) / "A", f / "A", dirs_exist_ok=True
        ),
        r"that holds now \(.*not valid at validation time\)",
    ),
}


@pytest.mark.parametrize("spoil, says", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence(folder, tmp_path, spoil, says):
    spoil(folder, tmp_path)
    with pytest.raises(ValueError, match=says) as refused:
        certificates.check(folder, "A")
    assert "\n" not in str(refused.value)
    certificates.check(folder, "Bank B")


def test_certificates_that_are_there_are_not_written_over(folder):
    before = {file: file.read_bytes() for file in folder.rglob("*.pem")}
    with pytest.raises(ValueError, match="there is a key in .*/A already: --fresh replaces it"):
        certificates.make(folder, ["A", "C"])
    assert {file: file.read_bytes() for file in folder.rglob("*.pem")} == before


def test_different_roles_have_different_names_for_tls():
    names = {certificates.target(role) for role in (*ROLES, "a", "A ", "bank b", "übung")}
    assert len(names) == len(ROLES) + 4 and all(
        name.isascii() and name.endswith(".role.ppkit.invalid") for name in names
    )


def test_a_key_that_others_may_read_is_refused(tmp_path):
    certificates.make(tmp_path, ["A"])
    key = tmp_path / "A" / "key.pem"
    for mode in (0o640, 0o604, 0o620, 0o601):
        key.chmod(mode)
        with pytest.raises(
            ValueError,
            match=rf"A/key.pem is open to other users of this machine \(mode {mode:04o}\)",
        ):
            certificates.check(tmp_path, "A")
    key.chmod(0o400)
    certificates.check(tmp_path, "A")
    key.unlink()
    with pytest.raises(ValueError, match="`ppkit spnn certs my/config.toml` makes all"):
        certificates.check(tmp_path, "A", config="my/config.toml")


def requested(tmp_path, roles=("A", "Bank B")):
    """Each role's key on a machine of its own, and a folder of the authority with the requests."""
    authority, marks = tmp_path / "authority", {}
    for role in roles:
        marks[role] = certificates.request(tmp_path / f"at {role}", role)
        shutil.copytree(
            tmp_path / f"at {role}",
            authority,
            ignore=shutil.ignore_patterns("key.pem"),
            dirs_exist_ok=True,
        )
    return authority, marks


def test_each_role_makes_its_key_and_only_the_request_travels(tmp_path):
    authority, marks = requested(tmp_path)
    assert certificates.sign(authority, ["A", "Bank B"]) == marks and len({*marks.values()}) == 2
    assert not list(authority.rglob("key.pem"))
    for role in marks:
        home = tmp_path / f"at {role}"
        assert stat.S_IMODE((home / role / "key.pem").stat().st_mode) == 0o600
        for file in ("ca.pem", "certificate.pem"):
            shutil.copy(authority / role / file, home / role / file)
        certificates.check(home, role)
    asked = x509.load_pem_x509_csr((authority / "A" / "request.pem").read_bytes())
    assert asked.public_key() == read(authority, "A").public_key()
    assert certificates.fingerprint(asked) == marks["A"]


def asking(key, name):
    named = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(named)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def forged(path):
    """A request for A's key, with a signature that is not A's."""
    der = bytearray(
        x509.load_pem_x509_csr(path.read_bytes()).public_bytes(serialization.Encoding.DER)
    )
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)


WRONG_REQUESTS = {
    "missing": (lambda f: (f / "A/request.pem").unlink(), r"there is no .*A/request\.pem: A makes"),
    "not one": (
        lambda f: (f / "A/request.pem").write_text("hello"),
        r"A/request\.pem is no signing request in PEM form",
    ),
    "another role's": (
        lambda f: shutil.copy(f / "Bank B/request.pem", f / "A/request.pem"),
        "request\\.pem is for 'Bank B', not for 'A'",
    ),
    "another's signature": (
        lambda f: (f / "A/request.pem").write_bytes(forged(f / "A/request.pem")),
        r"A/request\.pem was not signed by the key that it asks for",
    ),
}


@pytest.mark.parametrize("spoil, says", WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
def test_a_wrong_request_is_refused_and_nobody_is_signed(tmp_path, spoil, says):
    authority, _ = requested(tmp_path)
    spoil(authority)
    with pytest.raises(ValueError, match=says) as refused:
        certificates.sign(authority, ["Bank B", "A"])
    assert "\n" not in str(refused.value) and not list(authority.rglob("ca.pem"))


def one_letter_changed(pem: bytes, place: int) -> bytes:
    """The same file with another letter at one place of its base64."""
    first, *lines, last = pem.decode().splitlines()
    body = "".join(lines)
    other = "A" if body[place] != "A" else "B"
    return "\n".join([first, body[:place] + other + body[place + 1 :], last, ""]).encode()


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("file", ["request.pem", "certificate.pem", "key.pem"])
def test_one_letter_that_was_changed_is_refused_by_the_files_name(tmp_path, file):
    """At every place, and whatever the reader trips over: its key, its curve, its name."""
    certificates.make(tmp_path, ["A"])
    certificates.request(tmp_path / "own", "A")
    path = (tmp_path / "own" if file == "request.pem" else tmp_path) / "A" / file
    good = path.read_bytes()
    n_letters = sum(map(len, good.decode().splitlines()[1:-1]))
    for place in range(0, n_letters, 1 if file == "request.pem" else 2):
        path.write_bytes(one_letter_changed(good, place))
        with pytest.raises(ValueError) as refused:
            if file == "request.pem":
                certificates.sign(tmp_path / "own", ["A"], fresh=True)
            else:
                certificates.check(tmp_path, "A")
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_two_roles_with_one_key_are_refused(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    for role in ("A", "Bank B"):
        (tmp_path / role).mkdir()
        (tmp_path / role / "request.pem").write_bytes(asking(key, role))
    with pytest.raises(ValueError, match="A and Bank B ask with the same key"):
        certificates.sign(tmp_path, ["A", "Bank B"])
    assert not list(tmp_path.rglob("ca.pem"))


def test_a_key_or_a_certificate_that_is_there_is_replaced_only_by_fresh(tmp_path):
    authority, _ = requested(tmp_path)
    home = tmp_path / "at A"
    before = (home / "A/key.pem").read_bytes()
    with pytest.raises(ValueError, match="there is a key in .*A already: --fresh"):
        certificates.request(home, "A")
    assert (home / "A/key.pem").read_bytes() == before
    certificates.sign(authority, ["A", "Bank B"])
    signed = (authority / "A/certificate.pem").read_bytes()
    with pytest.raises(ValueError, match="there are certificates in .* already: --fresh"):
        certificates.sign(authority, ["A", "Bank B"])
    assert (authority / "A/certificate.pem").read_bytes() == signed
    certificates.sign(authority, ["A", "Bank B"], fresh=True)
    assert (authority / "A/certificate.pem").read_bytes() != signed
    certificates.request(home, "A", fresh=True)
    assert (home / "A/key.pem").read_bytes() != before


def test_a_key_that_was_opened_later_is_not_used_for_a_connection(folder):
    (folder / "A" / "key.pem").chmod(0o644)
    for use in (
        lambda: certificates.dialling(folder, "A"),
        lambda: certificates.serving(folder, "A"),
    ):
        with pytest.raises(ValueError, match=r"key\.pem is open to other users"):
            use()


def with_unused_bits(pem: bytes) -> bytes:
    """The same file, whose signature says that its last four bits are unused."""
    first, *lines, last = pem.decode().splitlines()
    content = bytearray(base64.b64decode("".join(lines)))
    signature = content.rindex(b"\x03", 0, -64)  # the last bit string
    content[signature + 2] = 4
    body = base64.b64encode(bytes(content)).decode()
    return "\n".join([first, body, last, ""]).encode()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["request.pem", "certificate.pem"])
def test_a_signature_of_fewer_bits_is_refused(tmp_path, file):
    """One in sixteen signatures ends in four zeros: such a file was taken as it was.

    260 keys: none of them has such a signature with a chance of (15/16)^260 < 1e-7."""
    refusals = []
    for k in range(260):
        place = tmp_path / str(k)
        certificates.make(place, ["A"])
        path = place / "A" / file
        path.write_bytes(with_unused_bits(path.read_bytes()))
        with pytest.raises(ValueError, match=re.escape(str(path))) as refused:
            certificates.sign(place, ["A"], fresh=True) if "req" in file else certificates.check(
                place, "A"
            )
        refusals.append(str(refused.value))
    assert any("changed" in said for said in refusals)
