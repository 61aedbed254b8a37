"""Sides that are each on their own: run in one room, by any order of delivery, alone with a record,
and from the middle on."""

import functools
import hashlib
import pickle
import random
from collections import defaultdict, deque

import pytest
import torch

from ppkit.models import classification_loss
from ppkit.spnn.encrypted import key_from, key_out
from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import Mailroom, Malformed, Receive, Send, Transcript, nothing
from ppkit.spnn.paillier_keys import generate_keys
from ppkit.spnn.protocols import names_received, protocol_of, side_of
from ppkit.spnn.randomness import Stream

KEYS = generate_keys(256, teaching=True)[1]
VARIANTS = {
    "plain": {"protocol": "plain"},
    "masked": {"protocol": "masked"},
    "he": {"protocol": "he", "keys": KEYS},
    "lean": {"protocol": "ss", "form": "lean"},
    "published": {"protocol": "ss", "form": "published"},
    "published, dealer": {"protocol": "ss", "form": "published", "truncation": "dealer"},
    "published, floor": {"protocol": "ss", "form": "published", "truncation": "floor"},
}
COLUMNS, NAMES = {2: [3, 2], 3: [2, 2, 1]}, {2: ["A", "B"], 3: ["A", "B", "C"]}
CASES = [
    (variant, k) for variant in VARIANTS for k in COLUMNS if k == 2 or variant != "published, floor"
]
BATCHES, N, WIDTH = [slice(0, 7), torch.tensor([3, 1, 3]), [22, 0]], 23, 4
STAGES = ["connect", "prepare", 0, 1, 2]  # the last are numbers of batches


@functools.cache
def data(k):
    rng = torch.Generator().manual_seed(3)
    return (
        [torch.randn(N, d, generator=rng) for d in COLUMNS[k]],
        [[torch.randn(d, WIDTH, generator=rng) for d in COLUMNS[k]] for _ in BATCHES],
    )


def one_side(variant, k, role):
    """A side made of what its role has: public sizes, its own root secret, and its own X."""
    side = side_of(
        role,
        names=NAMES[k],
        columns=COLUMNS[k],
        width=WIDTH,
        stream=Stream.seeded_for_teaching(5).derive(role),
        **VARIANTS[variant],
    )
    if role in NAMES[k]:
        side.load(data(k)[0][NAMES[k].index(role)])
    return side


def roles(variant, k):
    return [*["dealer"] * (VARIANTS[variant]["protocol"] == "ss"), *NAMES[k], "server"]


def program(side, stage, k):
    """What one side does in one stage."""
    if stage == "connect":
        return side.connect()
    if stage == "prepare":
        return side.prepare() if side.name in NAMES[k] else side.prepare(N)
    if side.name == "dealer":
        return side.deal(BATCHES[stage])
    if side.name == "server":
        return side.step(len(torch.arange(N)[BATCHES[stage]]))
    return side.step(BATCHES[stage], data(k)[1][stage][NAMES[k].index(side.name)])


def as_sent(payload):
    """All of a payload that can be told apart: bytes, type, shape and how it lies in memory."""
    if isinstance(payload, bytes):
        return payload
    return (
        payload.contiguous().numpy().tobytes(),
        payload.dtype,
        tuple(payload.shape),
        payload.stride(),
    )


@functools.cache
def recorded(variant, k):
    """All messages, and h1 of each batch, of the in-process class, one batch a step."""
    choices = dict(VARIANTS[variant])
    protocol = protocol_of(
        choices.pop("protocol"),
        COLUMNS[k],
        transcript=Transcript(),
        stream=Stream.seeded_for_teaching(5),
        **choices,
    )
    parts, thetas = data(k)
    protocol.prepare(parts)
    found = []
    for rows, theta in zip(BATCHES, thetas):
        protocol.transcript.next_step()
        found.append(as_sent(protocol.forward(rows, theta)))
    return protocol.transcript.messages, found


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


def alone(side, stage, k, received):
    """Run one side with nobody else there: what it waits for comes from a record. Returns what it
    sent, and its result."""
    asks, sent, payload = program(side, stage, k), [], None
    while True:
        try:
            asked = asks.send(payload)
        except StopIteration as end:
            return sent, end.value
        payload = None
        if isinstance(asked, Send):
            sent.append((asked.receiver, asked.name, asked.phase, as_sent(asked.payload)))
        else:
            name, payload = received[asked.sender].popleft()
            assert name == asked.name


def received_by(role, messages, *, steps=range(4)):
    """What one party received in some steps (0: before the first), by sender."""
    received = defaultdict(deque)
    for m in messages:
        if m.receiver == role and m.step in steps:
            received[m.sender].append((m.name, m.payload))
    return received


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


@pytest.mark.parametrize("k", [2, 3])
def test_holders_take_what_was_dealt_ahead_and_send_the_same(k):
    for variant in ("lean", "published", "published, dealer"):
        sides, transcript = (
            {role: one_side(variant, k, role) for role in roles(variant, k)},
            Transcript(),
        )
        room = Mailroom(transcript)
        for stage in STAGES[:2]:
            room.run({role: program(side, stage, k) for role, side in sides.items()})
        for rows in BATCHES:
            room.run({role: side.deal(rows) for role, side in sides.items() if role != "server"})
        for stage in STAGES[2:]:
            room.run(
                {role: program(side, stage, k) for role, side in sides.items() if role != "dealer"}
            )
        messages, _ = recorded(variant, k)
        for role in sides:
            assert sent_by(role, transcript.messages) == sent_by(role, messages)


@pytest.mark.parametrize(
    ("variant", "digest"),
    [
        ("masked", "2e57c6b85e8cac0d"),
        ("lean", "1de7dac236f6bdb8"),
        ("published", "69c1b7d0a53630c2"),
        ("published, dealer", "bd2d53a8eef5234b"),
    ],
)
def test_a_teaching_stream_gives_the_messages_it_always_gave(variant, digest):
    """A pin, on numbers whose products are exact in any arithmetic: what repeats from a seed does
    so in the next version too."""
    choices, widths = dict(VARIANTS[variant]), [2, 1] if variant == "published" else [2, 1, 1]
    protocol = protocol_of(
        choices.pop("protocol"),
        widths,
        transcript=Transcript(),
        stream=Stream.seeded_for_teaching(1),
        **choices,
    )
    protocol.prepare((torch.arange(6.0 * sum(widths)).view(6, -1) / 8).split(widths, dim=1))
    for rows in ([0, 5], slice(None)):
        protocol.transcript.next_step()
        protocol.forward(rows, [torch.full((width, 3), 0.25) for width in widths])
    found = hashlib.sha256()
    for m in sorted(
        protocol.transcript.messages, key=lambda m: (m.step, m.round, m.sender, m.receiver, m.name)
    ):
        found.update(f"{m.step} {m.sender} {m.receiver} {m.name} {m.phase}".encode())
        found.update(
            m.payload if isinstance(m.payload, bytes) else m.payload.contiguous().numpy().tobytes()
        )
    assert found.hexdigest()[:16] == digest


# --- who may send what ---


@pytest.mark.parametrize("label_holder", [None, "A", "B"])
@pytest.mark.parametrize(("variant", "k"), CASES)
def test_the_table_of_names_is_what_a_training_sends_and_no_more(variant, k, label_holder):
    choices = dict(VARIANTS[variant])
    if label_holder is None:
        messages = recorded(variant, k)[0]
    else:
        net = SPNN(
            COLUMNS[k],
            (WIDTH, 2),
            rng=torch.Generator().manual_seed(0),
            transcript=Transcript(keep="sizes"),
            label_holder=NAMES[k].index(label_holder),
            **choices,
        )
        net.prepare(data(k)[0])
        classification_loss(net(BATCHES[0]), torch.ones(7)).backward()
        messages = net.transcript.messages
    found = defaultdict(lambda: defaultdict(set))
    for m in messages:
        found[m.receiver][m.sender].add(m.name)
    choices.pop("keys", None)
    for role in ["dealer", "server", *NAMES[k]]:
        table = names_received(role, names=NAMES[k], label_holder=label_holder, **choices)
        assert table == found[role], role


# --- the room ---


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


def test_a_message_out_of_turn_and_parties_that_all_wait_are_errors_and_leave_an_empty_room():
    room = Mailroom(Transcript())
    with pytest.raises(RuntimeError, match="A waits for 'theta' from B, and 'X' came"):
        room.run(
            {
                "A": says(Receive("B", "theta")),
                "B": says(Send("A", "X", one(1)), Send("A", "theta", one(2))),
            }
        )
    with pytest.raises(
        RuntimeError, match="nobody can go on, all wait: A for 'theta' from B; B for 'X' from A"
    ):
        room.run(
            {
                "A": says(Receive("B", "theta")),
                "B": says(Receive("A", "X")),
                "C": says(Send("A", "seed", b"")),
            }
        )
    with pytest.raises(RuntimeError, match="all wait: A for 'seed' from C"):
        room.run({"A": says(Receive("C", "seed"))})


def test_what_a_program_raises_goes_on_and_the_others_are_closed():
    closed = []

    def careful():
        try:
            yield Receive("B", "never")
        finally:
            closed.append(True)

    def bad():
        yield Send("A", "now", one(1))
        raise ValueError("no room")

    room, waiting = Mailroom(Transcript()), careful()  # kept here: nothing but close() ends it
    with pytest.raises(ValueError, match="no room"):
        room.run({"A": waiting, "B": bad()})
    assert closed == [True]
    with pytest.raises(RuntimeError, match="all wait"):
        room.run({"A": says(Receive("B", "now"))})
    assert room.run({"A": nothing()}) == {"A": None}


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"role": "D"}, ValueError, "role must be one of A, B, server, got 'D'"),
        ({"role": "dealer"}, ValueError, "role must be one of A, B, server, got 'dealer'"),
        (
            {"role": "D", "protocol": "ss"},
            ValueError,
            "role must be one of A, B, server, dealer, got 'D'",
        ),
        ({"columns": [3, 0]}, ValueError, r"at least 1 feature, got holders=\[3, 0\]"),
        ({"protocol": "mpc"}, ValueError, "protocol must be one of .* got 'mpc'"),
        ({"form": "lean"}, ValueError, "form is a choice of protocol 'ss'"),
        ({"truncation": "floor"}, TypeError, "protocol 'masked' knows no choice 'truncation'"),
        (
            {"protocol": "he", "elementwise": True},
            TypeError,
            "protocol 'he' knows no choice 'elementwise'",
        ),
        (
            {"role": "dealer", "protocol": "ss", "form": "published", "truncation": "up"},
            ValueError,
            "truncation must be one of .* got 'up'",
        ),
    ],
)
def test_a_side_that_cannot_be_is_refused(change, error, message):
    arguments = {
        "role": "A",
        "protocol": "masked",
        "names": ["A", "B"],
        "columns": [3, 2],
        "width": 4,
    } | change
    with pytest.raises(error, match=message):
        side_of(arguments.pop("role"), **arguments)


def test_a_table_of_no_protocol_is_refused():
    with pytest.raises(ValueError, match="protocol must be one of"):
        names_received("A", protocol="x", names=["A", "B"])


def test_a_choice_of_another_party_is_left_aside():
    common = dict(
        protocol="he",
        names=NAMES[2],
        columns=COLUMNS[2],
        width=WIDTH,
        key_bits=256,
        teaching=True,
        value_bits=30,
    )
    holder, server = side_of("A", **common), side_of("server", **common)
    assert holder.packing == server.packing and server.private.public.bits == 256


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_out_of_place_or_with_bad_input_is_refused_before_the_program_runs(variant):
    side = side_of("B", names=NAMES[2], columns=COLUMNS[2], width=WIDTH, **VARIANTS[variant])
    theta = torch.zeros(2, WIDTH)
    with pytest.raises(
        ValueError, match=r"load\(X\) must come before the first batch: holder B has no data yet"
    ):
        side.step([0], theta)
    for X, message in (
        (torch.zeros(3, 3), r"holder B's features must be \(N, 2\), got \(3, 3\)"),
        (torch.zeros(0, 2), "the data set must have at least one row, got 0"),
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
    with pytest.raises(ValueError, match="rows must be 0 to 22, at least one, got 23"):
        side.step([23], theta)
    with pytest.raises(ValueError, match=r"theta of holder B must be \(2, width\), got \(3, 4\)"):
        side.step([0], torch.zeros(3, WIDTH))
    with pytest.raises(ValueError, match="theta of holder B is not finite"):
        side.step([0], theta / 0)
    if variant != "plain":
        with pytest.raises(ValueError, match="X theta of holder B reaches"):
            side.step(slice(None), theta + 2.0**26)


def test_a_dealer_without_data_and_rows_that_are_not_there_are_refused():
    for form in ("lean", "published"):
        dealer = side_of(
            "dealer", protocol="ss", form=form, names=NAMES[2], columns=COLUMNS[2], width=WIDTH
        )
        with pytest.raises(ValueError, match=r"prepare\(n_rows\) must come before the first batch"):
            dealer.deal([0])
        Mailroom(Transcript()).run({"dealer": dealer.prepare(5)})
        with pytest.raises(ValueError, match="rows must be 0 to 4, at least one, got 5"):
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
            r"'part for this batch' of the dealer must have shape \(83,\), got \(1, 1\)",
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


def test_a_public_key_travels_as_n_alone():
    sent = key_out(KEYS.public)
    assert key_from("server", sent, 256) == KEYS.public and len(sent) == 32
    for payload in (b"", b"1234", sent + b"5"):
        said = f"must be 32 bytes, a key of 256 bits, got {len(payload)} bytes"
        with pytest.raises(Malformed, match=said):
            key_from("server", payload, 256)
