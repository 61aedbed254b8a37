"""Certificates of one run: who gets what, and every way in which a folder of them can be wrong, in
one sentence.
"""

import shutil
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

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
    assert {file.name for file in folder.rglob("*") if file.is_file()} == set(certificates.FILES)
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


def test_they_hold_for_the_days_asked_for(tmp_path):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificates.make(tmp_path, ["A"], days=2, start=start)
    for file in ("certificate.pem", "ca.pem"):
        assert read(tmp_path, "A", file).not_valid_before_utc == start
        assert read(tmp_path, "A", file).not_valid_after_utc == start + timedelta(days=2)


def another(tmp_path, **choices):
    certificates.make(tmp_path / "other", ["A", "Bank B"], **choices)
    return tmp_path / "other"


def swap(folder, tmp_path, file):
    shutil.copy(another(tmp_path) / "A" / file, folder / "A" / file)


NOW = datetime.now(UTC)
WRONG = {
    "missing": (
        lambda f, t: (f / "A" / "key.pem").unlink(),
        r"A.*key\.pem missing; `ppkit spnn certs",
    ),
    "no folder": (
        lambda f, t: shutil.rmtree(f / "A"),
        r"ca\.pem, certificate\.pem, key\.pem missing",
    ),
    "another role's": (
        lambda f, t: shutil.copytree(f / "server", f / "A", dirs_exist_ok=True),
        "is for 'server', not for 'A'",
    ),
    "another authority": (
        lambda f, t: swap(f, t, "ca.pem"),
        r"not signed by the authority in .*ca\.pem",
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
            another(t, start=NOW - timedelta(days=9), days=8) / "A", f / "A", dirs_exist_ok=True
        ),
        r"certificate\.pem expired on \d{4}-\d\d-\d\d",
    ),
    "not yet": (
        lambda f, t: shutil.copytree(
            another(t, start=NOW + timedelta(days=1)) / "A", f / "A", dirs_exist_ok=True
        ),
        r"certificate\.pem holds only from \d{4}-\d\d-\d\d",
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
    with pytest.raises(ValueError, match="there are certificates in .* already: --fresh"):
        certificates.make(folder, ["C", "A"])
    assert {file: file.read_bytes() for file in folder.rglob("*.pem")} == before and not (
        folder / "C"
    ).exists()


@pytest.mark.parametrize(
    "roles, choices, says",
    [(["A"], {"days": 0}, "days must be > 0.*got 0"), (["A"], {"days": 4000}, "got 4000")],
)
def test_wrong_settings_are_refused_and_nothing_is_written(tmp_path, roles, choices, says):
    with pytest.raises(ValueError, match=says):
        certificates.make(tmp_path / "c", roles, **choices)
    assert not (tmp_path / "c").exists()


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
    with pytest.raises(ValueError, match="`ppkit spnn certs my/config.toml` makes them"):
        certificates.check(tmp_path, "A", config="my/config.toml")
