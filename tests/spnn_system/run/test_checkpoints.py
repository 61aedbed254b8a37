"""A role's own files: checkpoints whole or not there, a journal that lets nothing else be sent, a
secret for one run.
"""

import os
import stat

import numpy as np
import pytest

from spnn_system.run.checkpoints import Changed, Checkpoints, Damaged, root_secret, write_secret

ABOUT = {"run": "r", "role": "A", "config": "c" * 64, "data": "d" * 64}


THETA = {"theta": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "A").mkdir()
    return Checkpoints(tmp_path / "A", about=ABOUT)


def test_what_was_saved_comes_back_to_the_bit(kept):
    kept.save(10, THETA, {"streams": {"masks": 10}, "losses": [0.1 + 0.2], "running": 1e-300})
    arrays, notes = kept.load(10)
    assert notes == {"streams": {"masks": 10}, "losses": [0.1 + 0.2], "running": 1e-300}
    assert arrays.keys() == {"theta"} and arrays["theta"].dtype == np.float32
    assert arrays["theta"].tobytes() == THETA["theta"].tobytes()
    assert stat.S_IMODE(kept.path(10).stat().st_mode) == 0o600
    assert [path.name for path in kept.folder.iterdir()] == ["step-000000010.checkpoint"]


def test_every_changed_byte_and_every_cut_is_found(kept):
    kept.save(3, {"theta": np.ones((2, 2), np.float32)}, {})
    good = kept.path(3).read_bytes()
    for at in range(0, len(good), 7):
        kept.path(3).write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        with pytest.raises(Damaged, match="step 3 is damaged"):
            kept.load(3)
    for length in (0, 10, len(good) // 2, len(good) - 1):
        kept.path(3).write_bytes(good[:length])
        with pytest.raises(Damaged, match="step 3"):
            kept.load(3)
    kept.path(3).write_bytes(good)
    assert kept.usable() == [3]


@pytest.mark.parametrize("what", ["config", "data", "run"])
def test_a_run_that_changed_does_not_go_on(kept, what):
    kept.save(3, {}, {})
    with pytest.raises(Changed, match=f"the {what} changed since the checkpoint of step 3"):
        Checkpoints(kept.folder, about=ABOUT | {what: "other"}).usable()


def test_the_damaged_are_said_and_not_usable_and_keep_removes_the_others(kept, capsys):
    for step in (0, 5, 10, 15):
        kept.save(step, THETA, {})
    with open(kept.path(10), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert kept.usable() == [0, 5, 15]
    said = capsys.readouterr().err
    assert said == "ppkit: the checkpoint of step 10 is damaged, and is not used\n"
    kept.keep({5, 15})
    assert kept.steps() == [5, 15]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(kept, full):
    kept.save(5, THETA, {})
    before = kept.path(5).read_bytes()
    for step in (5, 10):
        full(kept.path(step).name)
        with pytest.raises(OSError, match="No space left"):
            kept.save(step, THETA, {"longer": "x" * 10_000})
    assert os.listdir(kept.path(5).parent) == [kept.path(5).name]
    assert kept.path(5).read_bytes() == before and kept.steps() == [5] and kept.usable() == [5]


def test_write_replaces_and_leaves_no_half(tmp_path):
    write_secret(tmp_path / "a", b"one")
    write_secret(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two" and os.listdir(tmp_path) == ["a"]


def test_the_root_secret_is_new_for_a_new_run_and_the_same_for_a_resumed_one(tmp_path):
    first = root_secret(tmp_path, resume=False)
    assert len(first) == 32 and root_secret(tmp_path, resume=True) == first
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert root_secret(tmp_path, resume=False) != first
    with pytest.raises(ValueError, match="there is nothing to go on from: .*--fresh"):
        root_secret(tmp_path / "elsewhere", resume=True)
