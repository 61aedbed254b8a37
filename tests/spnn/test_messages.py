"""The record of messages: what was sent, how large, in which round, and who saw it."""

import pytest
import torch
from transcripts import seen_by

from ppkit.spnn.messages import COLUMNS, Transcript


def test_every_message_is_written_down_with_its_size_round_and_step():
    transcript = Transcript()
    transcript.send("dealer", "A", "seed", b"\0" * 32, phase="offline")
    transcript.next_step()
    transcript.send("A", "server", "words", torch.zeros(5, 8, dtype=torch.int32))
    transcript.send("B", "server", "words", torch.zeros(5, 8, dtype=torch.int64))
    transcript.next_round()
    transcript.send("server", "A", "packed", torch.zeros(3), n_bytes=7)
    assert [tuple(row) for row in transcript.table().itertuples(index=False)] == [
        (0, 0, "offline", "dealer", "A", "seed", 32),
        (1, 1, "online", "A", "server", "words", 160),
        (1, 1, "online", "B", "server", "words", 320),
        (1, 2, "online", "server", "A", "packed", 7),
    ]
    assert [message.name for message in seen_by(transcript, "A")] == ["seed", "packed"]
    assert [message.sender for message in seen_by(transcript, "server")] == ["A", "B"]


def test_what_is_kept_is_a_copy_of_what_was_sent_and_the_receiver_gets_the_thing_itself():
    transcript, words = Transcript(), torch.arange(4)
    assert transcript.send("A", "B", "words", words) is words
    words += 1
    assert transcript.messages[0].payload.tolist() == [0, 1, 2, 3]


def test_only_sizes_are_kept_if_asked():
    transcript, words = Transcript(keep="sizes"), torch.arange(4)
    assert transcript.send("A", "B", "words", words) is words
    assert transcript.messages[0].payload is None and transcript.messages[0].n_bytes == 32


def test_an_empty_transcript_has_an_empty_table_with_all_columns():
    assert list(Transcript().table().columns) == COLUMNS and len(Transcript().table()) == 0


def test_what_to_keep_is_one_of_two():
    with pytest.raises(ValueError, match="keep must be 'payloads' or 'sizes', got 'all'"):
        Transcript(keep="all")


def test_a_message_in_print_shows_no_payload():
    transcript = Transcript()
    transcript.send("A", "B", "seed", b"secret seed")
    assert "secret" not in repr(transcript.messages[0]) and "name='seed'" in repr(
        transcript.messages[0]
    )
