"""A role's own files: checkpoints whole or not there, a journal that lets nothing else be sent, a
secret for one run.
"""

import os
import stat
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from ppkit.spnn.randomness import Stream
from spnn_system.config import Training
from spnn_system.roles.control_channel import Progress
from spnn_system.roles.saves import Saves
from spnn_system.roles.weights import Optimiser
from spnn_system.run.checkpoints import Changed, Checkpoints, Damaged, root_secret, write_secret
from spnn_system.run.journal import Journal, SentBefore, digest
from spnn_system.run.role_folder import MessageLog

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


# the journal

WORDS = torch.arange(12, dtype=torch.int32).view(4, 3)


@pytest.fixture
def opened(tmp_path):
    """opened(recall): the journal of a role, as a new process opens it; closed at the end."""
    journals = []

    def open_one(*, recall=False):
        journals.append(Journal(tmp_path))
        if recall:
            journals[-1].recall(0)
        journals[-1].begin()
        return journals[-1]

    yield open_one
    for journal in journals:
        journal.close()


def test_the_same_again_may_be_sent_and_nothing_else(tmp_path, opened):
    first = opened()
    first.sending(0, "B", "seed", b"s" * 32)
    first.sending(11, "server", "masked X theta", WORDS)
    first.sending(11, "B", "masked X theta", WORDS + 1)
    first.close()
    again = opened(recall=True)
    size = again.size
    again.sending(11, "server", "masked X theta", WORDS)
    assert again.size == size  # it stands there once
    with pytest.raises(
        SentBefore, match="step 11 another 'masked X theta' was sent to B .* start without --resume"
    ):
        again.sending(11, "B", "masked X theta", WORDS)
    with pytest.raises(SentBefore):
        again.sending(0, "B", "seed", b"t" * 32)
    # what was not reached before is free
    again.sending(12, "B", "masked X theta", WORDS)


def test_messages_of_one_name_in_one_step_are_counted(tmp_path, opened):
    first = opened()
    for payload in (b"one", b"two"):
        first.sending(4, "B", "X - U", payload)
    first.close()
    again = opened(recall=True)
    again.sending(4, "B", "X - U", b"one")
    again.sending(4, "B", "X - U", b"two")
    swapped = opened(recall=True)
    with pytest.raises(SentBefore):
        swapped.sending(4, "B", "X - U", b"two")


def test_a_line_that_a_kill_cut_off_binds_nothing_and_the_file_goes_on_whole(tmp_path, opened):
    first = opened()
    first.sending(1, "B", "w", b"one")
    noted = first.size
    first.sending(2, "B", "w", b"two")
    first.close()
    first.path.write_bytes(first.path.read_bytes()[:-9])
    Journal(tmp_path).recall(noted)
    again = opened(recall=True)
    again.sending(2, "B", "w", b"else")
    again.close()
    third = opened(recall=True)
    with pytest.raises(SentBefore):
        third.sending(1, "B", "w", b"else")
    third.sending(2, "B", "w", b"else")
    assert first.path.read_text().count("\n") == 2


def test_a_journal_that_lost_a_part_is_not_taken_for_an_empty_one(tmp_path, opened):
    first = opened()
    first.sending(0, "B", "seed", b"s" * 32)
    first.sending(11, "server", "w", WORDS)
    noted = first.size
    first.sending(21, "server", "w", WORDS)
    first.close()
    Journal(tmp_path).recall(noted)
    whole = first.path.read_bytes()
    for content in (None, b"", whole[: noted - 1], b"eleven" + whole):
        first.path.unlink() if content is None else first.path.write_bytes(content)
        with pytest.raises(Damaged, match="gone or damaged: start without --resume"):
            Journal(tmp_path).recall(noted)
        if content is None:
            with pytest.raises(Damaged):
                Journal(tmp_path).recall(0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_what_cannot_be_written_down_is_not_to_be_sent(tmp_path):
    journal = Journal(tmp_path)
    journal.begin()
    os.dup2(os.open("/dev/full", os.O_WRONLY), journal._file)
    with pytest.raises(OSError, match="No space left"):
        journal.sending(1, "B", "w", b"x")
    journal.close()


def test_digests_tell_values_kinds_shapes_and_layouts_apart():
    x = torch.arange(6.0).view(2, 3)
    different = [
        x,
        x + 1,
        x.double(),
        x.view(3, 2),
        x.T.contiguous().T,
        x.int(),
        x.numpy().tobytes(),
        {"n": 1},
        {"n": 2},
    ]
    assert len({digest(payload) for payload in different}) == len(different)
    assert digest(x) == digest(x.clone()) and digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(torch.zeros(3, 0)) != digest(torch.zeros(0, 3))


def test_the_root_secret_is_new_for_a_new_run_and_the_same_for_a_resumed_one(tmp_path):
    first = root_secret(tmp_path, resume=False)
    assert len(first) == 32 and root_secret(tmp_path, resume=True) == first
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert root_secret(tmp_path, resume=False) != first
    with pytest.raises(ValueError, match="there is nothing to go on from: .*--fresh"):
        root_secret(tmp_path / "elsewhere", resume=True)


def of_sgld(folder, journal):
    """A linear part under SGLD, whose role saves into this folder."""
    rng = torch.Generator().manual_seed(1)
    part = nn.Linear(3, 2)
    for parameter in part.parameters():
        parameter.data.normal_(generator=rng)
    training = Training(train_rows=1, optimiser="sgld", lr=0.1)
    optimiser = Optimiser(part, training, Stream(bytes(32)))
    progress = Progress(last=9)
    saves = Saves(
        Checkpoints(folder, about={}),
        journal,
        MessageLog(folder / "messages.jsonl"),
        SimpleNamespace(tell=lambda kind, **what: None),
        progress,
    )
    return part, optimiser, saves, progress


def moved(part, optimiser, steps) -> None:
    for step in steps:
        for parameter in part.parameters():
            parameter.grad = torch.full_like(parameter, float(step))
        optimiser.step()


def test_sgld_goes_on_with_the_noise_that_it_would_have_had(tmp_path):
    no_protocol = SimpleNamespace(streams={})
    with closing(Journal(tmp_path)) as journal:
        journal.begin()
        whole, optimiser, saves, progress = of_sgld(tmp_path, journal)
        saves.begin(None, no_protocol, whole, optimiser)
        moved(whole, optimiser, range(4))
        progress.step = 4
        saves.save()
        moved(whole, optimiser, range(4, 9))
        part, optimiser, saves, progress = of_sgld(tmp_path, journal)
        saves.begin(4, no_protocol, part, optimiser)
    assert progress.step == 4
    at_4 = part.weight.detach().clone()
    moved(part, optimiser, range(4, 9))
    assert torch.equal(part.weight, whole.weight) and torch.equal(part.bias, whole.bias)
    assert not torch.equal(part.weight, at_4)


def test_torchs_generator_has_no_part_in_the_noise_of_sgld(tmp_path):
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        part, optimiser, *_ = of_sgld(tmp_path, None)
        before = torch.get_rng_state()
        moved(part, optimiser, range(2))
        assert torch.equal(torch.get_rng_state(), before)
        found.append(part.weight.detach().clone())
    assert torch.equal(*found)
