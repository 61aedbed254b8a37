"""Parties of the first layer, apart and in one process, on data that all tests of them share."""

import functools
from collections import defaultdict, deque

import torch

from ppkit.spnn.fixed_point import encode
from ppkit.spnn.messages import Send, Transcript, holder_names
from ppkit.spnn.paillier_keys import generate_keys
from ppkit.spnn.party import Setup
from ppkit.spnn.protocols import party_of, simulator_of
from ppkit.spnn.randomness import Stream

KEYS = generate_keys(256, teaching=True)[1]
HE = {"keys": KEYS, "key_bits": 256, "teaching": True}
VARIANTS = {
    "plain": {"protocol": "plain"},
    "masked": {"protocol": "masked"},
    "he": {"protocol": "he"},
    "lean": {"protocol": "ss", "form": "lean"},
    "published": {"protocol": "ss", "form": "published"},
}
COLUMNS, NAMES = {2: [3, 2], 3: [2, 2, 1]}, {2: ["A", "B"], 3: ["A", "B", "C"]}
CASES = [(variant, k) for variant in VARIANTS for k in COLUMNS]
BATCHES, N, WIDTH = [slice(0, 7), torch.tensor([3, 1, 3]), [22, 0]], 23, 4
STAGES = ["connect", "prepare", 0, 1, 2]  # the last are numbers of batches


# for `made`
HOLDERS = {2: [3, 2], 3: [2, 2, 1], 5: [1, 1, 1, 1, 1]}


def simulator(variant, columns, width, *, transcript=None, **setup):
    """All parties of a variant in one process."""
    keys = {"he": HE, "dealerless": {"key_bits": 512, "teaching": True}}.get(variant, {})
    setup = Setup(holder_names(len(columns)), columns, width, **keys | setup)
    transcript = Transcript() if transcript is None else transcript
    choices = VARIANTS.get(variant) or {"protocol": "ss", "form": variant}
    return simulator_of(setup, transcript=transcript, **choices)


def made(
    variant, k=2, *, n=N, scale=1.0, seed=0, keep="payloads", dtype=torch.float64, width=WIDTH
):
    """All parties of a variant with random data prepared, and one theta a holder."""
    rng = torch.Generator().manual_seed(seed)
    parts = [torch.randn(n, d, generator=rng, dtype=dtype) * scale for d in HOLDERS[k]]
    thetas = [torch.randn(d, width, generator=rng, dtype=dtype) for d in HOLDERS[k]]
    stream, transcript = Stream.seeded_for_teaching(seed), Transcript(keep)
    protocol = simulator(
        variant, HOLDERS[k], width, transcript=transcript, dtype=dtype, stream=stream
    )
    protocol.prepare(parts)
    return protocol, parts, thetas


@functools.cache
def data(k):
    rng = torch.Generator().manual_seed(3)
    return (
        [torch.randn(N, d, generator=rng) for d in COLUMNS[k]],
        [[torch.randn(d, WIDTH, generator=rng) for d in COLUMNS[k]] for _ in BATCHES],
    )


def one_side(variant, k, role):
    """A side made of what its role has: public sizes, its own root secret, and its own X."""
    stream = Stream.seeded_for_teaching(5).derive(role)
    keys = HE if variant == "he" else {}
    setup = Setup(NAMES[k], COLUMNS[k], WIDTH, stream, **keys)
    side = party_of(role, setup, **VARIANTS[variant])
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
    protocol = simulator(variant, COLUMNS[k], WIDTH, stream=Stream.seeded_for_teaching(5))
    parts, thetas = data(k)
    protocol.prepare(parts)
    found = []
    for rows, theta in zip(BATCHES, thetas):
        protocol.transcript.next_step()
        found.append(as_sent(protocol.forward(rows, theta)))
    return protocol.transcript.messages, found


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


def exact(parts, thetas, *, theta_bits=16):
    """X theta of the rounded numbers, in Python's whole numbers:
    an array of ints with 16 + theta_bits fractional bits."""
    X = torch.cat([encode(part) for part in parts], dim=1).numpy().astype(object)
    return X @ torch.cat(
        [encode(theta, fractional_bits=theta_bits) for theta in thetas]
    ).numpy().astype(object)
