"""A journal that lets nothing else be sent than what was sent."""

import os

import pytest
import torch

from spnn_system.run.checkpoints import Damaged
from spnn_system.run.journal import Journal, SentBefore, digest

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
