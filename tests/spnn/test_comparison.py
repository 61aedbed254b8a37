"""Secure comparison and activations built on it: exact against plain integers, and uniform to each
party."""

import contextlib
import math
from unittest import mock

import numpy as np
import pytest
import torch
from transcripts import seen_by

from ppkit.spnn import dealer
from ppkit.spnn.comparison import ONE, _planes, activate, below, deal_activation, deal_masks
from ppkit.spnn.dealer import NAMES, TwoPartyDealer
from ppkit.spnn.messages import Transcript
from ppkit.spnn.randomness import Stream
from ppkit.spnn.sharing import TwoParties

SIGMOID = (-ONE // 2, ONE // 2)
FAILURE = 1e-7  # of a whole test of uniformity, by the bound it states


class World:
    """Two parties, a dealer and a stream of x's shares, all from one seed."""

    def __init__(self, seed=0, keep="payloads"):
        root = Stream.seeded_for_teaching(seed)
        self.transcript, self.shares = Transcript(keep), root.derive("shares")
        self.dealer, self.pair = (
            TwoPartyDealer(self.transcript, stream=root.derive("dealer")),
            TwoParties(self.transcript),
        )

    def share(self, x):
        first = self.shares.words(tuple(x.shape))
        return [first, x - first]

    def below(self, x, thresholds):
        _, masks = deal_masks(self.dealer, len(x), len(thresholds))
        _, bits = below(self.pair, self.share(x), thresholds, masks)
        return [(bits[0] ^ bits[1]) >> 4 * t & 1 for t in range(len(thresholds))]

    def activation(self, z, kind, backward=True):
        masks = deal_activation(self.dealer, len(z), kind, backward=backward)
        out, slope = activate(self.pair, self.share(z), masks)
        return out[0] + out[1], slope


def numbers(n=4000, seed=0):
    """Signed numbers of every size, both signs, and those at every power of two."""
    x = Stream.seeded_for_teaching(seed).words(n)
    x = x >> (torch.arange(n) % 62 + 1)
    powers = torch.tensor(
        [sign * 2**k + d for k in range(62) for sign in (-1, 1) for d in (-1, 0, 1)]
    )
    return torch.cat([x, powers, torch.tensor([0, 2**63 - 1 - ONE, -(2**63) + ONE])])


@pytest.mark.parametrize("thresholds", [(0,), (5,), (-(2**40),), SIGMOID, (-3, 2**33)])
def test_signs_equal_those_of_plain_integers(thresholds):
    x = numbers()
    if len(thresholds) == 1 and thresholds != (0,):
        x = x >> 1
    x = x if max(map(abs, thresholds)) <= ONE else x >> 2
    got = World().below(x, thresholds)
    for bits, t in zip(got, thresholds):
        assert bits.tolist() == [int(number < t) for number in x.tolist()]


def test_a_borrow_runs_through_all_64_positions():
    """c - r at every length of borrow: x = 0 and -1 under masks r = 2^k and 2^k - 1, the circuit's
    longest chains."""
    powers = torch.tensor([1 << k for k in range(63)] + [-(2**63)])

    class Chosen(World):
        def below_under(self, x, r):
            mask, self.dealer.mask = (
                self.dealer.mask,
                lambda shape: [r - 12345, torch.full_like(r, 12345)],
            )
            _, masks = deal_masks(self.dealer, len(x), 1)
            self.dealer.mask = mask
            _, bits = below(self.pair, self.share(x), (0,), masks)
            return (bits[0] ^ bits[1]) & 1

    for r in (powers, powers - 1, -powers):
        for x in (0, -1, 1, 2**62, -(2**62)):
            assert bool((Chosen().below_under(torch.full_like(r, x), r) == int(x < 0)).all())


def test_planes_put_every_bit_where_they_say():
    for g in range(4):
        for m in range(4):
            for b in range(4):
                bit = 16 * g + 4 * m + b
                word = torch.tensor([1 << bit if bit < 63 else -(2**63)])
                planes = [int(plane) & 0xFFFF for plane in _planes(word)]
                assert planes == [1 << 4 * m + g if i == b else 0 for i in range(4)]


@pytest.mark.parametrize("n", [1, 7, 8, 1001])
def test_the_piecewise_sigmoid_and_its_slope_are_exact(n):
    z = torch.cat(
        [
            torch.tensor([0, ONE // 2, ONE // 2 - 1, -ONE // 2, -ONE // 2 - 1, 2**40, -(2**40)]),
            numbers() >> 40,
        ]
    )[:n]
    world = World()
    out, slope = world.activation(z, "piecewise")
    assert torch.equal(out, (z + ONE // 2).clamp(0, ONE))
    delta = torch.arange(n) * 77 - 1000
    back = slope.times(world.pair, world.share(delta))
    assert torch.equal(back[0] + back[1], delta * ((z >= -ONE // 2) & (z < ONE // 2)))


def test_relu_and_its_slope_are_exact():
    z, world = torch.cat([torch.tensor([0, 1, -1]), numbers()]), World()
    out, slope = world.activation(z, "relu")
    assert torch.equal(out, z.clamp(min=0))
    delta = torch.arange(len(z)) - 2000
    back = slope.times(world.pair, world.share(delta))
    assert torch.equal(back[0] + back[1], delta * (z >= 0))


@contextlib.contextmanager
def drawn():
    """{key: all that was drawn from Streams of this key, in the form in which it was wanted}."""
    found, words, uniform = {}, Stream.words, dealer._uniform

    def packed(stream, shape, dtype):
        with mock.patch.object(Stream, "words", words):
            found.setdefault(stream.key, []).append(uniform(stream, shape, dtype))
        return found[stream.key][-1]

    def plain(stream, shape):
        found.setdefault(stream.key, []).append(words(stream, shape))
        return found[stream.key][-1]

    with mock.patch.object(Stream, "words", plain), mock.patch.object(dealer, "_uniform", packed):
        yield found


def opened(transcript):
    """What both parties know of each exchange between them: the sum of what they sent, or the
    exclusive or of bits."""
    sent = [
        [m.payload for m in transcript.messages if m.sender == name and m.phase == "online"]
        for name in NAMES
    ]
    return [a + b if a.dtype == torch.int64 else a ^ b for a, b in zip(*sent, strict=True)]


def view(kind, x, seed, party):
    """All that a party knows of one activation and its backward product, and the bits that must
    stay hidden.

    It knows what it receives, every word that its seed gives it, and what is opened.
    """
    with drawn() as words:
        world = World(seed)
        _, slope = world.activation(x, kind)
        slope.times(world.pair, world.share(3 * x))
    n, seen = len(x), seen_by(world.transcript, party)
    [key] = [message.payload for message in seen if message.name == "seed"]
    known = (
        [message.payload.clone() for message in seen if message.name != "seed"]
        + words[key]
        + opened(world.transcript)
    )
    columns = []
    for each in known:
        if each.shape[-1] != n:  # packed: 8 numbers a byte
            columns.append(np.unpackbits(each.numpy(), axis=1, count=n).T)
        else:
            rows = each.reshape(-1, n).t().contiguous().numpy()
            columns.append(np.unpackbits(rows.view(np.uint8).reshape(n, -1), axis=1))
    secret = np.stack([(x < -ONE // 2).numpy(), (x < ONE // 2).numpy(), (x < 0).numpy()], axis=1)
    return np.concatenate(columns, axis=1), secret


def worst_correlation(bits):
    """Largest |mean| over the signs of all columns, and of all products of two; both with the
    number of such means."""
    signs = 1.0 - 2.0 * bits.astype(np.float32)
    products = np.abs(signs.T @ signs) / len(signs)
    np.fill_diagonal(products, 0)
    return max(float(np.abs(signs.mean(axis=0)).max()), float(products.max())), bits.shape[1] * (
        bits.shape[1] + 1
    ) // 2


@pytest.mark.slow
@pytest.mark.parametrize("party", NAMES)
@pytest.mark.parametrize("kind", ["piecewise", "relu"])
def test_all_that_a_party_knows_is_uniform_and_independent_of_the_signs(kind, party):
    """Every bit, every two bits together, and every bit beside the three secret ones: unbiased,
    over 20,000 numbers.

    Hoeffding over n independent numbers, and a union bound over M means:
    P(some |mean| > t) <= 2 M exp(-n t^2 / 2), which is FAILURE at t below (for truly random
    streams; the seed here is fixed). A mask used for two bits gives a mean of 1.
    """
    x = numbers(n := 20_000)[:n] >> 30
    x[::2] = torch.arange(n // 2) * 17 % (2 * ONE) - ONE
    bits, secret = view(kind, x, seed=1, party=party)
    received, n_means = worst_correlation(bits)
    bound = math.sqrt(2 * math.log(2 * n_means / FAILURE) / n)
    assert received < bound < 0.06
    signs = 1.0 - 2.0 * bits.astype(np.float32)
    beside = np.abs(signs.T @ (1.0 - 2.0 * secret)).max() / n
    assert beside < bound


def test_the_simulator_gives_the_same_messages_from_nothing():
    """Semi-honest security: the simulator knows the public sizes only, and what it writes is what
    the party receives: the same names in the same order, shapes and types, and uniform (the test
    above), whatever x is."""
    n = 64

    def simulate(party, rng=Stream.seeded_for_teaching(5)):
        """Uniform words of the protocol's shapes."""
        masks = [("products of masks", 22, 1), ("products of masks", 22, 1)]
        dealt = [
            ("bits of r", 15, 2),
            ("top bit of r", 1, 1),
            *masks,
            ("q", 2, 8),
            ("q r", 1, 8),
            ("q u", 1, 8),
        ]
        fold = [("g + a", 2, 2), ("p + b", 2, 2), ("g + a", 1, 1), ("p + b", 1, 1)]
        online = [("x + r", 1, 8), *fold, ("s ^ q", 2, 0.125), ("delta + u", 1, 8)]
        for name, rows, width in (dealt if party == "B" else []) + online:
            yield (
                name,
                rng.words(math.ceil(rows * n * width / 8))
                .numpy()
                .view(np.uint8)[: int(rows * n * width)],
            )

    for party in NAMES:
        world = World(2)
        _, slope = world.activation(torch.full((n,), 2**50), "piecewise")
        slope.times(world.pair, world.share(torch.arange(n)))
        real = [message for message in seen_by(world.transcript, party) if message.name != "seed"]
        made = list(simulate(party))
        assert [(message.name, message.n_bytes) for message in real] == [
            (name, len(words)) for name, words in made
        ]
        assert {message.phase for message in real if message.sender == "dealer"} <= {"offline"}


def test_each_party_draws_its_masks_from_its_own_seed():
    """In the order of the calls, rings and bits alike; so no party knows the other's share of a
    mask."""
    world = World()
    numbers_, bits = world.dealer.mask(6), world.dealer.bits((3, 10), torch.int16)
    alone = [world.dealer.streams()[party].words((2, 3)) for party in range(2)]
    of_bits = world.dealer.share_bits("bits", torch.arange(24, dtype=torch.uint8))
    for party, name in enumerate(NAMES):
        [seed] = [
            message.payload for message in seen_by(world.transcript, name) if message.name == "seed"
        ]
        own = Stream(seed)
        assert torch.equal(own.words(6), numbers_[party])
        assert torch.equal(own.words(8).view(torch.int16)[:30].view(3, 10), bits[party])
        assert torch.equal(own.words((2, 3)), alone[party])
        if name == "A":  # whose share of dealt bits is never sent
            assert torch.equal(own.words(3).view(torch.uint8), of_bits[0])
        assert (own.words(1000)[:, None] != of_bits[1].view(torch.int64)).all()
    assert torch.equal(of_bits[0] ^ of_bits[1], torch.arange(24, dtype=torch.uint8))
    first, second = world.dealer.streams()
    assert first.key != second.key


def test_masks_are_fresh_every_time():
    x = torch.zeros(50, dtype=torch.int64)
    world = World()
    for _ in range(2):
        world.activation(x, "piecewise")
    for name in ("x + r", "g + a", "p + b", "s ^ q"):
        sent = [
            message.payload for message in seen_by(world.transcript, "A") if message.name == name
        ]
        half = len(sent) // 2
        assert half and not any(torch.equal(a, b) for a, b in zip(sent[:half], sent[half:]))
    other = World(seed=1)
    other.activation(x, "piecewise")
    first = [
        next(m.payload for m in seen_by(w.transcript, "A") if m.name == "x + r")
        for w in (world, other)
    ]
    assert not torch.equal(*first)


def test_rounds_and_bytes_of_an_activation():
    for kind, n_bytes in (("piecewise", 18.25), ("relu", 14.125)):
        world, n = World(keep="sizes"), 800
        world.activation(torch.zeros(n, dtype=torch.int64), kind)
        table = world.transcript.table()
        online = table[table["phase"] == "online"]
        assert online.groupby("sender")["n_bytes"].sum().to_dict() == {
            "A": n * n_bytes,
            "B": n * n_bytes,
        }
        assert online["round"].nunique() == 4 and set(
            table[table["phase"] == "offline"]["receiver"]
        ) == {"A", "B"}
        assert table[(table["phase"] == "offline") & (table["receiver"] == "A")][
            "n_bytes"
        ].tolist() == [32]


def test_a_reused_mask_is_refused():
    world = World()
    x = world.share(torch.zeros(3, dtype=torch.int64))
    _, masks = deal_masks(world.dealer, 3, 1)
    below(world.pair, x, (0,), masks)
    sent = len(world.transcript.messages)
    with pytest.raises(
        ValueError,
        match="Masks can serve once and was used before: opening two secrets under one mask",
    ):
        below(world.pair, x, (0,), masks)
    assert len(world.transcript.messages) == sent
    _, slope = world.activation(torch.zeros(3, dtype=torch.int64), "relu")
    slope.times(world.pair, x)
    with pytest.raises(ValueError, match="Slope can serve once and was used before"):
        slope.times(world.pair, x)
