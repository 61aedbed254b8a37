"""Keys live as long as a run can go on; rows are their user's alone; a wrong key ends a run."""

import os
import stat

import pytest
from network_runs import alone, made, parts_of, same, small_rows, started

from spnn_system import config, example, launch, preflight
from spnn_system.roles.party import Party
from spnn_system.roles.protocol_side import kept_key
from spnn_system.run.checkpoints import root_secret
from spnn_system.run.reports import named
from spnn_system.run.role_folder import SECRETS
from spnn_system.transport import certificates

pytestmark = pytest.mark.processes


PROTOCOLS = {
    "lean": dict(protocol="ss", form="lean", secrets="os"),
    "he": dict(protocol="he", key_bits=512),
    "dealerless": dict(protocol="ss", form="dealerless", key_bits=512),
}
HAVE_KEYS = {"he": ["server"], "dealerless": ["A", "B"]}


def stopped(conf):
    """A run that was interrupted once every role had a checkpoint."""

    def stop(step, _):
        if step >= 3:
            raise KeyboardInterrupt

    with pytest.raises(launch.Interrupted, match="goes on from step"):
        launch.run(conf.path, progress=stop)


def keys_of(conf) -> dict[str, bytes]:
    """All files of a run that are called a key, by role and name."""
    found = conf.folder.rglob("*.key*")
    return {str(path.relative_to(conf.folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_keys_stay_while_a_run_can_go_on_and_go_when_it_has_ended(tmp_path, forked, name):
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical, latency=0.02, **PROTOCOLS[name])
    stopped(conf)
    working = set(conf.roles) - {"coordinator"}
    keys = keys_of(conf)
    assert keys.keys() == {f"{role}/secret.key" for role in working} | {
        f"{role}/paillier.key" for role in HAVE_KEYS.get(name, [])
    }
    assert len(set(keys.values())) == len(keys)  # each has its own
    assert all(len(bytes.fromhex(keys[f"{role}/secret.key"].decode())) == 32 for role in working)
    for file in keys:
        assert stat.S_IMODE((conf.folder / file).stat().st_mode) == 0o600
    assert launch.run(conf.path, resume=True).code == 0
    assert not keys_of(conf)
    if name in HAVE_KEYS:
        same(conf, alone(conf, vertical))
    for role in working:
        with pytest.raises(ValueError, match="or has ended; --fresh starts anew$"):
            Party(conf, role, resume=True)
    assert not keys_of(conf) and parts_of(conf)  # and the refusal has changed nothing


def test_a_new_run_takes_away_the_keys_and_all_else_of_one_that_never_ended(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    conf.folder_of("server").mkdir(parents=True)
    left = [
        *SECRETS,  # of a run with protocol he, say
        "step-000000020.checkpoint",
        "step-000000030.checkpoint.7.part",
        "journal.txt",
        "messages.jsonl",
        "received.frames",
        "parameters.npz",
    ]
    for name in left:
        (conf.folder_of("server") / name).write_text("0" * 64)
    part = Party(conf, "server", resume=False)
    part.folder.close()
    assert {path.name for path in part.folder.path.iterdir()} == {"lock", "secret.key"}
    assert keys_of(conf).keys() == {"server/secret.key"}
    assert keys_of(conf)["server/secret.key"] != b"0" * 64


def test_rows_and_the_folders_of_a_run_are_their_users_alone(tmp_path):
    """Also where files that others make are open to all: what is made here is told its mode."""
    before = os.umask(0)
    try:
        path = example.write(tmp_path / "deep" / "first", small_rows())
        conf = config.load(path)
        certificates.make(conf.network.certificates, conf.roles)
        preflight.check(conf, conf.roles)
    finally:
        os.umask(before)
    folder = path.parent

    def modes(*names):
        return {stat.S_IMODE((folder / name).stat().st_mode) for name in names}

    assert modes("A.parquet", "B.parquet", "certificates/A/key.pem") == {0o600}
    assert modes(".", "run", *(f"run/{role}" for role in conf.roles)) == {0o700}
    path.unlink()
    with pytest.raises(ValueError, match="there is a A.parquet in .+ already: name a new folder"):
        example.write(folder, small_rows())  # whoever could read the old file reads no new rows


@pytest.mark.parametrize("name", ["secret.key", "paillier.key"])
def test_a_secret_that_others_may_read_is_not_used_again(tmp_path, name):
    folder = tmp_path
    root_secret(folder, resume=False)
    kept_key(folder / "paillier.key", resume=False, key_bits=512, teaching=True)
    use = {
        "secret.key": lambda: root_secret(folder, resume=True),
        "paillier.key": lambda: kept_key(
            folder / "paillier.key", resume=True, key_bits=512, teaching=True
        ),
    }[name]
    assert use() == use()
    (folder / name).chmod(0o640)
    with pytest.raises(ValueError, match=rf"{name} is open to other users .*mode 0640"):
        use()


WRONG_KEY = """
from ppkit.spnn import dealerless, encrypted
encrypted.key_out = dealerless.key_out = lambda public: {payload}
"""
WRONG = {
    "a power": (
        "((2**256 - 189) ** 2).to_bytes(64, 'big')",
        ": a public key must be a product of two large primes, 512 bits long: this one",
    ),
    "too short": (
        "public.n.to_bytes(64, 'big')[:32]",
        " must be 64 bytes, a key of 512 bits, got 32 bytes",
    ),
    "with h_n": (
        "public.n.to_bytes(64, 'big') + bytes(127) + b'\\x01'",
        " must be 64 bytes, a key of 512 bits, got 192 bytes",
    ),
}


@pytest.mark.parametrize(
    ("what", "name"), [*((what, "he") for what in WRONG), ("a power", "dealerless")]
)
def test_a_role_with_a_wrong_public_key_ends_the_run_and_is_named(tmp_path, what, name):
    conf = made(tmp_path / "it", small_rows(), **PROTOCOLS[name])
    (payload, why), wrong = WRONG[what], HAVE_KEYS[name][-1]
    roles = started(conf, first={wrong: WRONG_KEY.format(payload=payload)})
    assert {role: each.wait() for role, each in roles.items()} == dict.fromkeys(roles, 1)
    assert "Traceback" not in roles[wrong].said()
    assert any(f"'public key' of {named(wrong)}{why}" in each.said() for each in roles.values())
    sentence = f"got something malformed from {named(wrong)}"
    assert all(sentence in each.said() for each in roles.values())
    assert not (conf.folder_of("A") / "parameters.npz").exists()
