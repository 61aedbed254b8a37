"""The record of messages: what was sent, how large, in which round, and who saw it."""

import pytest
import torch
from transcripts import seen_by

from ppkit.spnn.messages import COLUMNS, Mailroom, Receive, Send, Transcript, holder_names, nothing


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
    transcript.send("A", "B", "words", words)
    words += 1
    assert transcript.messages[0].payload.tolist() == [0, 1, 2, 3]


def test_only_sizes_are_kept_if_asked():
    transcript, words = Transcript(keep="sizes"), torch.arange(4)
    transcript.send("A", "B", "words", words)
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


def says(*steps, result=None):
    """A program that takes these steps; what it got, if there is no other result."""
    got = []
    for step in steps:
        got.append((yield step))
    return got if result is None else result


def one(number):
    return torch.tensor([number])


def test_a_round_is_what_can_travel_at_the_same_time():
    transcript = Transcript()
    room = Mailroom(transcript)
    room.run(
        {
            "A": says(
                Send("B", "x", one(1)),
                Receive("B", "y"),
                Send("B", "z", one(3)),
                Send("B", "u", one(3)),
            ),
            "B": says(
                Send("A", "y", one(2)),
                Receive("A", "x"),
                Receive("A", "z"),
                Receive("A", "u"),
                Send("C", "w", one(4)),
            ),
            "C": says(Send("A", "v", one(5)), Send("A", "v", one(6))),
        }
    )
    assert [(m.round, m.sender, m.receiver, m.name) for m in transcript.messages] == [
        (0, "A", "B", "x"),
        (0, "B", "A", "y"),
        (0, "C", "A", "v"),
        (0, "C", "A", "v"),
        (1, "A", "B", "z"),
        (1, "A", "B", "u"),
        (2, "B", "C", "w"),
    ]
    got = room.run({"A": says(Receive("C", "v"), Receive("C", "v")), "C": says(Receive("B", "w"))})
    assert got == {"A": [one(5), one(6)], "C": [one(4)]}
    assert transcript.round == 2  # what was delivered before is there at once
    assert room.run({}) == {}


def test_messages_of_one_link_stay_in_order_between_runs():
    room = Mailroom(Transcript())
    for number in (1, 2, 3):
        room.run({"dealer": says(Send("A", "triple", one(number)))})
    assert [
        room.run({"A": says(Receive("dealer", "triple"))})["A"][0].item() for _ in range(3)
    ] == [1, 2, 3]


def test_sizes_and_phases_are_written_down_as_said():
    transcript = Transcript()
    Mailroom(transcript).run(
        {"dealer": says(Send("A", "<W>", one(1), "offline"), Send("A", "seed", b"abc"))}
    )
    assert [(m.name, m.phase, m.n_bytes) for m in transcript.messages] == [
        ("<W>", "offline", 8),
        ("seed", "online", 3),
    ]
    assert "tensor" not in repr(Send("A", "<W>", one(1)))


def test_holders_have_names():
    assert holder_names(28)[24:] == ["Y", "Z", "H27", "H28"]


def test_a_message_out_of_turn_or_parties_that_all_wait_break_the_room():
    """Some have drawn secrets that others have not: nothing may go on."""
    for programs, sentence in (
        (
            {"A": says(Receive("B", "theta")), "B": says(Send("A", "X", one(1)))},
            "A waits for .*theta.*, and .*X.* came",
        ),
        (
            {"A": says(Receive("B", "theta")), "B": says(Receive("A", "X"))},
            "nobody can go on, all wait: .*theta.*",
        ),
    ):
        room = Mailroom(Transcript())
        with pytest.raises(RuntimeError, match=sentence):
            room.run(programs)
        with pytest.raises(RuntimeError, match="an earlier run was broken off"):
            room.run({"A": nothing()})


def test_what_a_program_raises_goes_on_and_breaks_the_room():
    def bad():
        yield Send("A", "now", one(1))
        raise ValueError("no room")

    room = Mailroom(Transcript())
    with pytest.raises(ValueError, match="no room"):
        room.run({"A": says(Receive("B", "never")), "B": bad()})
    with pytest.raises(RuntimeError, match="an earlier run was broken off"):
        room.run({"A": says(Receive("B", "now"))})
