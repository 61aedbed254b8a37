"""Triples that two holders make themselves: exact, no field runs over, and what each side sees."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import uniform_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from ppkit.spnn import ring
from ppkit.spnn.dealerless import MASK_BITS, Fields, answer, offer, opened
from ppkit.spnn.messages import Mailroom, Malformed, Transcript
from ppkit.spnn.paillier_keys import generate_keys
from ppkit.spnn.party import Setup
from ppkit.spnn.protocols import names_received, party_of, simulator_of
from ppkit.spnn.randomness import Stream

PUBLIC, PRIVATE = generate_keys(512, teaching=True)
SMALL = Setup(["A", "B"], [2, 1], 3, key_bits=512, teaching=True)
FORM = dict(protocol="ss", form="dealerless")
LARGEST = 2**64 - 1


def words(rows):
    return torch.from_numpy(np.array(rows, dtype=np.uint64).view(np.int64))


def triple(U, V, *, seed=0):
    """(W of the first, W of the second, what the second decrypts)."""
    fields, stream = Fields(len(V), V.shape[1], 512), Stream.seeded_for_teaching(seed)
    answered, first = answer(
        PUBLIC, offer(PUBLIC, V, fields, stream=stream), U, fields, stream=stream
    )
    return (
        first,
        opened(PRIVATE, answered, fields),
        fields.unpack(PRIVATE.decrypt_integers(answered)),
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 3),
    d=st.integers(1, 5),
    width=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    extreme=st.booleans(),
)
def test_the_shares_add_up_to_the_product_in_the_ring(n, d, width, seed, extreme):
    draw = np.random.default_rng(seed)
    U, V = (draw.integers(0, 2**64, shape, dtype=np.uint64) for shape in ((n, d), (d, width)))
    if extreme:
        U[:], V[:] = LARGEST, LARGEST
    U, V = (torch.from_numpy(a.view(np.int64)) for a in (U, V))
    first, second, _ = triple(U, V, seed=seed)
    assert torch.equal(first + second, ring.matmul(U, V))


@pytest.mark.parametrize("d", [1, 2, 3, 28, 556, 2**20])
def test_no_field_runs_over_and_the_mask_is_long_enough(d):
    fields = Fields(d, 8, 2048)
    most, mask = d * LARGEST**2, 2 ** (8 * fields.mask_bytes)
    assert most + mask - 1 < 2**fields.field_bits
    # uniform R and R + s differ by s / |R| in statistical distance, exactly
    assert most * 2**MASK_BITS <= mask


def test_the_largest_sums_stay_in_their_fields(monkeypatch):
    """All factors and all of R as large as they can be."""
    monkeypatch.setattr(
        Stream, "random_bytes", lambda stream, n_bytes: b"\xff" * n_bytes
    )  # the randomness of ciphertexts too, which changes no plaintext
    U, V = words([[LARGEST] * 3] * 2), words([[LARGEST] * 5] * 3)
    first, second, seen = triple(U, V)
    assert torch.equal(first + second, ring.matmul(U, V))
    assert {m for row in seen for m in row} == {3 * LARGEST**2 + 2**176 - 1}


@pytest.mark.slow
def test_what_the_second_holder_decrypts_looks_the_same_for_any_factors():
    """Its low 64 bits are uniform, and so is what lies above the product's own bits.  Chance of a
    false alarm: 1e-9 for each of four."""
    for U, V in (
        (words([[0, 0]] * 600), words([[0] * 40] * 2)),
        (words([[LARGEST, 1]] * 600), words([[LARGEST] * 40] * 2)),
    ):
        _, second, seen = triple(U, V)
        assert uniform_bytes.unusual_bytes(second) == 0
        high = words([[m >> 112 & LARGEST for m in row] for row in seen])
        assert uniform_bytes.unusual_bytes(high) == 0


def test_who_gets_what():
    """Ciphertexts travel under the key of who may open them, and are fresh for every batch."""
    received = names_received("A", protocol="ss", form="dealerless", names=["A", "B"])
    offline = {"public key", "Enc(V)", "Enc(U V + R)"}
    assert received == {"B": offline | {"<X>", "<theta>", "X - U", "Y - V"}}
    transcript = Transcript()
    protocol = simulator_of(SMALL, transcript=transcript, **FORM)
    keys = {holder.name: holder._private for holder in protocol.holders}
    assert keys["A"] != keys["B"]
    protocol.prepare([torch.ones(4, 2), torch.ones(4, 1)])
    for _ in range(2):
        transcript.next_step()
        protocol.forward(slice(None), [torch.ones(2, 3), torch.ones(1, 3)])
    sent = [m for m in transcript.messages if m.phase == "offline"]
    assert len(sent) == 8 and len({m.payload for m in sent}) == 8  # fresh for every batch
    for message in sent:
        owner = {"Enc(V)": message.sender, "Enc(U V + R)": message.receiver}[message.name]
        width = keys[owner].public.ciphertext_bytes
        numbers = [
            int.from_bytes(message.payload[i : i + width])
            for i in range(0, len(message.payload), width)
        ]
        assert keys[owner].decrypt_integers(numbers)


@pytest.mark.parametrize("name", ["Enc(V)", "Enc(U V + R)"])
@pytest.mark.parametrize("kind", ["short", "tensor", "no ciphertext"])
def test_what_is_no_ciphertext_is_refused_with_its_sender(name, kind):
    sides = {role: party_of(role, SMALL, **FORM) for role in ("A", "B", "server")}

    def spoilt(program):
        answer = None
        while True:
            try:
                step = program.send(answer)
            except StopIteration:
                return
            if getattr(step, "payload", None) is not None and step.name == name:
                bad = {
                    "short": step.payload[:-1],
                    "tensor": torch.zeros(3),
                    "no ciphertext": b"\0" * len(step.payload),
                }[kind]
                step = type(step)(step.receiver, step.name, bad, step.phase)
            answer = yield step

    room = Mailroom(Transcript())
    room.run({name: side.connect() for name, side in sides.items()})
    for role, n in (("A", 2), ("B", 1)):
        sides[role].load(torch.ones(4, n))
    programs = {
        role: sides[role].step(slice(None), torch.ones(n, 3)) for role, n in (("A", 2), ("B", 1))
    }
    programs["B"] = spoilt(programs["B"])
    with pytest.raises(Malformed, match=re.escape(name)) as refused:
        room.run(programs)
    assert refused.value.role == "B"


def test_keys_and_groups_that_do_not_do_are_refused():
    with pytest.raises(ValueError, match="without a dealer there are 2 holders, got 3"):
        party_of("A", Setup(["A", "B", "C"], [1, 1, 1], 3), **FORM)
    with pytest.raises(ValueError, match="bits must be a multiple of 16 and at least 2,048"):
        party_of("A", replace(SMALL, teaching=False), **FORM)
    short = lambda: party_of("A", replace(SMALL, key_bits=128), **FORM)
    for refuse in (lambda: Fields(2, 1, 128), short):
        with pytest.raises(ValueError, match="a key of 128 bits is too short for a triple"):
            refuse()
    # one key for both would open what each sends the other
    with pytest.raises(Malformed, match="it is the key of holder A, who needs another's"):
        simulator_of(replace(SMALL, keys=PRIVATE), transcript=Transcript(), **FORM)
    assert Fields(1, 1, 256).n_plaintexts == 1
