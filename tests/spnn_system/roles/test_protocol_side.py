"""Which messages a role takes; keys live as long as a run can go on; a wrong key ends a run."""

import signal
import stat

import pytest
import torch
from network_pair import opened
from network_runs import alone, made, nursery, parts_of, same, small_rows, started
from waiting import FAR

from spnn_system import launch
from spnn_system.roles.party import Party
from spnn_system.roles.protocol_side import admission, kept_key
from spnn_system.run.checkpoints import root_secret
from spnn_system.run.reports import named
from spnn_system.transport.links import Rejected

pytestmark = pytest.mark.processes


def test_a_role_takes_only_the_messages_of_its_protocol(tmp_path):
    """A holder that sends the server what it may not is refused; the server, which has not even
    begun, stays as it was.
    """
    conf = made(tmp_path / "it", small_rows())
    assert admission(conf, "server") == {
        "A": {"masked X theta", "dL/dh_L", "test rows"},
        "B": {"masked X theta"},
    }
    assert admission(conf, "A") == {"server": {"h_L", "dL/dh1"}, "B": {"rows and ids"}}
    assert admission(conf, "B") == {"server": {"dL/dh1"}, "A": {"seed", "rows and ids", "order"}}
    server = nursery().start(conf, "server")
    with opened(
        "B", conf.addresses, run=conf.run, certificates=conf.network.certificates, timeout=FAR
    ) as intruder:
        intruder.send("server", "dL/dh_L", torch.zeros(3), step=0)
        with pytest.raises(Rejected, match="B may not send 'dL/dh_L' to server"):
            intruder.flush()
        with pytest.raises(Rejected, match="only the coordinator gives orders here"):
            intruder.call("server", "order", {"kind": "go"})
    assert server.code() is None
    server.signal(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL


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
