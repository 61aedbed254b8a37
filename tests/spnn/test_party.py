"""Parties that are each on their own: run in one room, by any order of delivery, alone with a
record, and from the middle on."""

import pickle
import random
from collections import defaultdict, deque

import pytest
import torch
from spnn_parties import (
    CASES,
    COLUMNS,
    NAMES,
    STAGES,
    VARIANTS,
    WIDTH,
    N,
    alone,
    as_sent,
    one_side,
    program,
    received_by,
    recorded,
    roles,
)

from ppkit.spnn.messages import Mailroom, Malformed, Receive, Send, Transcript
from ppkit.spnn.party import Setup
from ppkit.spnn.protocols import party_of


def sent_by(role, messages, *, after=-1):
    return [
        (m.receiver, m.name, m.phase, as_sent(m.payload))
        for m in messages
        if m.sender == role and m.step > after
    ]


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_sides_built_apart_send_what_the_protocol_in_one_process_sends(variant, k):
    sides, transcript, found = (
        [one_side(variant, k, role) for role in roles(variant, k)],
        Transcript(),
        [],
    )
    room = Mailroom(transcript)
    for stage in STAGES:
        if stage in (0, 1, 2):
            transcript.next_step()
        elif stage == "prepare" and variant == "lean":
            transcript.next_round()
        found.append(room.run({side.name: program(side, stage, k) for side in sides})["server"])
    messages, wanted = recorded(variant, k)
    ours, theirs = (
        [
            (m.step, m.round, m.sender, m.receiver, m.name, m.phase, m.n_bytes, as_sent(m.payload))
            for m in each
        ]
        for each in (transcript.messages, messages)
    )
    assert ours == theirs
    assert [as_sent(h1) for h1 in found[2:]] == wanted


class Anyhow:
    """The oracle of the Mailroom: one party at a time, drawn at random, every message a copy, on
    its way for a random time."""

    def __init__(self, seed):
        self.rng, self.links, self.sent = random.Random(seed), defaultdict(deque), defaultdict(list)

    def run(self, programs):
        running, wants, results = dict(programs), {}, {}
        while running:
            party = self.rng.choice(sorted(running))
            wanted, payload = wants.get(party), None
            if wanted is not None:
                link = self.links[wanted.sender, party]
                if not link or self.rng.random() < 0.5:
                    continue
                name, payload = pickle.loads(link.popleft())
                assert name == wanted.name
            try:
                asked = running[party].send(payload)
            except StopIteration as end:
                results[party] = end.value
                del running[party]
                continue
            wants[party] = asked if isinstance(asked, Receive) else None
            if isinstance(asked, Send):
                self.sent[party, asked.receiver].append(
                    (asked.name, asked.phase, as_sent(asked.payload))
                )
                self.links[party, asked.receiver].append(pickle.dumps((asked.name, asked.payload)))
        return results


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_in_whichever_order_messages_come_each_link_and_h1_are_the_same(variant, k):
    sides, room = [one_side(variant, k, role) for role in roles(variant, k)], Anyhow(k)
    found = [
        room.run({side.name: program(side, stage, k) for side in sides})["server"]
        for stage in STAGES
    ]
    messages, wanted = recorded(variant, k)
    links = defaultdict(list)
    for m in messages:
        links[m.sender, m.receiver].append((m.name, m.phase, as_sent(m.payload)))
    assert room.sent == links and not any(room.links.values())
    assert [as_sent(h1) for h1 in found[2:]] == wanted


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_one_side_alone_with_what_it_received_sends_what_it_sent(variant, k):
    """No other party's X, theta or secrets are there at all: whatever a side sends comes from its
    own and from messages."""
    messages, wanted = recorded(variant, k)
    for role in roles(variant, k):
        side, received = one_side(variant, k, role), received_by(role, messages)
        done = [alone(side, stage, k, received) for stage in STAGES]
        assert [message for sent, _ in done for message in sent] == sent_by(role, messages), role
        assert not any(received.values()), role
        if role == "server":
            assert [as_sent(h1) for _, h1 in done[2:]] == wanted


@pytest.mark.parametrize("done", [1, 2])
@pytest.mark.parametrize(("variant", "k"), CASES)
def test_a_side_made_again_goes_on_from_noted_positions_with_the_same_messages(variant, k, done):
    """After `done` steps nothing of a side is left but its root secret and the positions of its
    streams."""
    messages, _ = recorded(variant, k)
    for role in roles(variant, k):
        first, received = one_side(variant, k, role), received_by(role, messages)
        for stage in STAGES[: 2 + done]:
            alone(first, stage, k, received)
        noted = {name: stream.position for name, stream in first.streams.items()}
        again, received = one_side(variant, k, role), received_by(role, messages, steps=[0])
        for stage in STAGES[:2]:
            alone(again, stage, k, received)
        assert set(again.streams) == set(noted), role
        for name, stream in again.streams.items():
            stream.seek(noted[name])
        received = received_by(role, messages, steps=range(done + 1, 4))
        sent = [
            message
            for stage in STAGES[2 + done :]
            for message in alone(again, stage, k, received)[0]
        ]
        assert sent == sent_by(role, messages, after=done), role
        if sent and noted:
            assert {name: stream.position for name, stream in again.streams.items()} != noted, role
        for name, stream in again.streams.items():
            if noted[name]:
                with pytest.raises(ValueError, match="forward only"):
                    stream.seek(noted[name] - 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([28], r"SPNN needs at least 2 holders, got 1: \[28\]"),
        ([], "at least 2 holders, got 0"),
        ([3, 0], r"at least 1 feature, got holders=\[3, 0\]"),
    ],
)
def test_a_group_of_holders_that_cannot_be_is_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Setup(["A", "B"][: len(columns)], columns, 4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_out_of_place_or_with_bad_input_is_refused_before_the_program_runs(variant):
    side = party_of("B", Setup(NAMES[2], COLUMNS[2], WIDTH), **VARIANTS[variant])
    theta = torch.zeros(2, WIDTH)
    with pytest.raises(
        ValueError, match="holder B has no data yet: prepare comes before the first batch"
    ):
        side.step([0], theta)
    for X, message in (
        (
            torch.zeros(3, 3),
            r"holder B's features must be \(N, 2\), at least one row, got \(3, 3\)",
        ),
        (torch.zeros(0, 2), r"at least one row, got \(0, 2\)"),
        (torch.full((3, 2), torch.nan), "holder B's features must be finite, got 6 of 6"),
    ):
        with pytest.raises(ValueError, match=message):
            side.load(X)
    side = one_side(variant, 2, "B")
    received = received_by("B", recorded(variant, 2)[0])
    alone(side, "connect", 2, received)
    early = pytest.raises(
        ValueError,
        match=r"prepare\(\) must come before the first batch: holder B has no X - U of this",
    )
    if variant == "lean":
        with early:
            side.step([0], theta)
    alone(side, "prepare", 2, received)
    if variant == "lean":
        side.load(torch.zeros(N, 2))  # X - U was that of the data before
        with early:
            side.step([0], theta)
        return
    with pytest.raises(ValueError, match="rows must be 0 to 22, at least one, got tensor"):
        side.step([23], theta)
    with pytest.raises(ValueError, match=r"theta of holder B must be \(2, 4\), got \(3, 4\)"):
        side.step([0], torch.zeros(3, WIDTH))
    with pytest.raises(ValueError, match="theta of holder B is not finite"):
        side.step([0], theta / 0)
    if variant != "plain":
        with pytest.raises(ValueError, match="X theta of holder B reaches"):
            side.step(slice(None), theta + 2.0**26)


def test_a_dealer_without_data_and_rows_that_are_not_there_are_refused():
    for form in ("lean", "published"):
        dealer = party_of("dealer", Setup(NAMES[2], COLUMNS[2], WIDTH), protocol="ss", form=form)
        with pytest.raises(ValueError, match="rows must be 0 to -1"):
            dealer.deal([0])
        Mailroom(Transcript()).run({"dealer": dealer.prepare(5)})
        with pytest.raises(ValueError, match="rows must be 0 to 4, at least one, got tensor"):
            dealer.deal([5])


@pytest.mark.parametrize(
    ("variant", "sender", "receiver", "name", "says"),
    [
        (
            "masked",
            "A",
            "server",
            "masked X theta",
            r"'masked X theta' of holder A must have shape \(7, 4\), got \(1, 1\)",
        ),
        (
            "plain",
            "B",
            "server",
            "X theta",
            r"'X theta' of holder B must have shape \(7, 4\), got \(1, 1\)",
        ),
        (
            "lean",
            "B",
            "server",
            "<X theta> mod 2^32",
            r"of holder B must have shape \(7, 4\), got \(1, 1\)",
        ),
        (
            "lean",
            "A",
            "B",
            "theta - V",
            r"'theta - V' of holder A must have shape \(5, 4\), got \(1, 1\)",
        ),
        (
            "lean",
            "dealer",
            "B",
            "<W>",
            r"'<W>' of the dealer must have shape \(7, 4\), got \(1, 1\)",
        ),
        ("lean", "A", "B", "X - U", r"'X - U' of holder A must have shape \(23, 5\), got \(1, 1\)"),
        (
            "published",
            "B",
            "A",
            "X - U",
            r"'X - U' of holder B must have shape \(7, 5\), got \(1, 1\)",
        ),
        (
            "published",
            "dealer",
            "A",
            "<U>, <V>, <W> for AB",
            r"'<U>, <V>, <W> for AB' of the dealer must have shape \(83,\), got \(1, 1\)",
        ),
        ("published", "B", "A", "<X>", r"'<X>' of holder B must have shape \(7, 2\), got \(1, 1\)"),
        (
            "published",
            "B",
            "A",
            "<theta>",
            r"'<theta>' of holder B must have shape \(2, 4\), got \(1, 1\)",
        ),
        ("masked", "A", "B", "seed", "'seed' of holder A must be 32 bytes, got Tensor"),
        ("lean", "dealer", "B", "seed", "'seed' of the dealer must be 32 bytes, got Tensor"),
        (
            "he",
            "A",
            "B",
            "Enc(X theta)",
            r"'Enc\(X theta\)' of holder A must be \d+ bytes, got Tensor",
        ),
        (
            "he",
            "B",
            "server",
            "Enc(X theta)",
            r"'Enc\(X theta\)' of holder B must be \d+ bytes, got Tensor",
        ),
        (
            "he",
            "server",
            "B",
            "public key",
            "'public key' of the server must be 32 bytes, a key of 256 bits, got Tensor",
        ),
    ],
)
def test_a_payload_of_another_size_is_refused_with_its_sender(
    variant, sender, receiver, name, says
):
    messages, _ = recorded(variant, 2)
    side, received = one_side(variant, 2, receiver), received_by(receiver, messages)
    link = received[sender]
    at = [each for each, _ in link].index(name)
    link[at] = name, torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(Malformed, match=says) as refused:
        for stage in STAGES:
            alone(side, stage, 2, received)
    assert refused.value.role == sender


@pytest.mark.parametrize(
    ("variant", "sender", "receiver", "name"),
    [
        ("masked", "A", "server", "masked X theta"),
        ("plain", "B", "server", "X theta"),
        ("lean", "B", "server", "<X theta> mod 2^32"),
        ("published", "B", "server", "<X theta>"),
        ("lean", "A", "B", "theta - V"),
        ("lean", "dealer", "B", "<W>"),
        ("lean", "A", "B", "X - U"),
        ("published", "B", "A", "Y - V"),
        ("published", "dealer", "A", "<U>, <V>, <W> for AB"),
        ("published", "B", "A", "<X>"),
        ("published", "B", "A", "<theta>"),
    ],
)
def test_a_payload_of_another_type_or_no_tensor_or_not_finite_is_refused_with_its_sender(
    variant, sender, receiver, name
):
    messages, _ = recorded(variant, 2)
    for spoil, says in [
        (lambda x: x.double(), "must be torch.*, got torch.float64"),
        (lambda x: x.to(torch.uint8), "got torch.uint8"),
        (lambda x: b"abc", "must be a tensor, got bytes"),
        (lambda x: {"a": 1}, "must be a tensor, got dict"),
        *([(lambda x: x / 0, "must be finite")] if variant == "plain" else []),
    ]:
        side, received = one_side(variant, 2, receiver), received_by(receiver, messages)
        link = received[sender]
        at = [each for each, _ in link].index(name)
        link[at] = name, spoil(link[at][1])
        with pytest.raises(Malformed, match=says) as refused:
            for stage in STAGES:
                alone(side, stage, 2, received)
        assert refused.value.role == sender
