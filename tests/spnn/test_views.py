"""What each party sees of the first layer: every message uniform, every view made again by a
simulator from outputs alone.

All runs take seeded streams, so that nothing here fails by chance; the chances stated are those of
truly random streams.
"""

import functools
import math

import pytest
import torch
import uniform_bytes
from spnn_parties import simulator
from transcripts import seen_by

from ppkit.spnn.fixed_point import encode
from ppkit.spnn.messages import Transcript
from ppkit.spnn.randomness import Stream

pytestmark = pytest.mark.slow

VARIANTS = ("masked", "lean", "published")
CASES = [(variant, k) for variant in VARIANTS for k in (2, 3)]
HOLDERS, N, BATCH, WIDTH, STEPS = {2: [6, 4], 3: [4, 3, 3]}, 2_000, slice(100, 250), 128, 45
LOCAL = ("published", 2)  # shares cut off by 16 bits, before they go to the server


def unusual_bytes(words):
    """As in `uniform_bytes`, on at most 40,000 words spread over all of them."""
    words = words.reshape(-1)
    return uniform_bytes.unusual_bytes(words[:: max(1, len(words) // 40_000)])


def protocol_for(variant, k, *, seed=0, keep="payloads"):
    stream, transcript = Stream.seeded_for_teaching(seed), Transcript(keep)
    return simulator(
        variant, HOLDERS[k], WIDTH, transcript=transcript, dtype=torch.float64, stream=stream
    )


def inputs(k, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return (
        [torch.randn(N, d, generator=rng, dtype=torch.float64) for d in HOLDERS[k]],
        [torch.randn(d, WIDTH, generator=rng, dtype=torch.float64) for d in HOLDERS[k]],
    )


@functools.cache
def run(variant, k):
    """The same batch with the same weights STEPS times, two batches a step: whatever changes is
    randomness."""
    protocol, (parts, thetas) = protocol_for(variant, k), inputs(k)
    protocol.prepare(parts)
    h1 = []
    for i in range(STEPS):
        if i % 2 == 0:
            protocol.transcript.next_step()
        h1.append(protocol.forward(BATCH, thetas))
    return protocol, torch.stack(h1)


def words_of(message, case):
    """A payload as int64 words that are uniform if the payload is; seeds are none."""
    payload = message.payload
    if case == LOCAL and message.receiver == "server":
        filler = Stream.seeded_for_teaching(message.round).words(tuple(payload.shape))
        return (payload << 16 | filler & 0xFFFF).flatten()
    if payload.dtype == torch.int32:
        return payload.T.contiguous().view(-1).view(torch.int64)
    return payload.flatten()


def series(variant, k, receiver):
    """{(sender, name): words of all its messages, one row a message} of what one party received."""
    found = {}
    for message in seen_by(run(variant, k)[0].transcript, receiver):
        if not isinstance(message.payload, bytes):
            found.setdefault((message.sender, message.name), []).append(
                words_of(message, (variant, k))
            )
    return {key: torch.stack(rows) for key, rows in found.items()}


def parties(k):
    return ["server", "A", "B", "C"][: k + 1]


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_every_message_alone_is_uniform(variant, k):
    """Chance of a false alarm: 1e-9 a kind of message, at most 40 kinds."""
    kinds = {
        (party, *key): words
        for party in parties(k)
        for key, words in series(variant, k, party).items()
    }
    assert len(kinds) >= k
    assert {kind: unusual_bytes(words) for kind, words in kinds.items()} == dict.fromkeys(kinds, 0)


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_no_pad_serves_twice(variant, k):
    """Same rows, same weights: the difference of two messages of a kind, one batch or one step
    apart, is uniform, as is that of two kinds; but for the server's two words with two holders,
    which add up to h1. Chance: 1e-9 each, at most 200."""
    for party in parties(k):
        kinds = series(variant, k, party)
        for one in kinds.values():
            for lag in (1, 2):
                if len(one) > lag:
                    assert unusual_bytes(one[lag:] - one[:-lag]) == 0
        keys = [key for key in kinds if not (party == "server" and k == 2)]
        for i, one in enumerate(keys):
            for other in keys[i + 1 :]:
                if kinds[one].shape == kinds[other].shape:
                    assert unusual_bytes(kinds[one] - kinds[other]) == 0, (party, one, other)
                    assert unusual_bytes(kinds[one] + kinds[other]) == 0, (party, one, other)


def test_these_tests_see_what_is_not_uniform():
    parts, thetas = inputs(2)
    part = encode(parts[0][BATCH] @ thetas[0])
    pad = Stream.seeded_for_teaching(3).words(tuple(part.shape))
    assert unusual_bytes(part) > 0
    assert unusual_bytes((part + pad) - (encode(parts[0][BATCH] @ (thetas[0] * 1.1)) + pad)) > 0


# --- simulators: from a party's own output and public sizes; nobody else's input goes in ---


def simulate_server(variant, names, h1, rng):
    """k - 1 words at random, the last one is what is left of h1; under a local truncation the
    random one has 48 bits."""
    total = (h1 * 2**16).round().long()
    if (variant, len(names)) == LOCAL:
        drawn = [rng.words(tuple(total.shape)) >> 16 & (2**48 - 1)]
    else:
        drawn = [rng.words(tuple(total.shape)) for _ in names[1:]]
    words = [*drawn, total - sum(drawn)]
    kind = torch.int32 if variant in ("masked", "lean") else torch.int64
    name = {"masked": "masked X theta", "lean": "<X theta> mod 2^32"}.get(variant, "<X theta>")
    return [(sender, name, word.to(kind)) for sender, word in zip(names, words)]


def simulate_holder(variant, k, me, rng):
    """What one holder receives in one batch: uniform words of public sizes; a holder has no output
    before the backward pass."""
    names, d, n = "ABC"[:k], HOLDERS[k], BATCH.stop - BATCH.start
    i, total = names.index(me), sum(d)
    others = [j for j in range(k) if j != i]
    if variant == "masked":
        return []
    if variant == "lean":
        W = [("dealer", "<W>", (n, WIDTH))] if i == k - 1 else []
        shapes = W + [(names[j], "theta - V", (total, WIDTH)) for j in others]
    else:
        triple = n * total + total * WIDTH + n * WIDTH
        masked = {"X - U": (n, total), "Y - V": (total, WIDTH)}
        shapes = []
        for j in others:
            shapes += [(names[j], "<X>", (n, d[j])), (names[j], "<theta>", (d[j], WIDTH))]
        if k == 2:
            shapes += [("dealer", f"<U>, <V>, <W> for {pair}", (triple,)) for pair in ("AB", "BA")]
            opened = 2 * [(names[others[0]], name, shape) for name, shape in masked.items()]
        else:
            shapes += [("dealer", "<U>, <V>, <W> for ABC", (triple,))]
            shapes += [("dealer", "<r>, <r / 2^16>, <top bit>", (3 * n * WIDTH,))]
            masked["z + r"] = (n, WIDTH)
            # A adds up what the others send, and sends them the sums
            opened = [
                (names[j], f"<{name}>" if i == 0 else name, shape)
                for j in (others if i == 0 else [0])
                for name, shape in masked.items()
            ]
        shapes += opened
    return [(sender, name, rng.words(shape)) for sender, name, shape in shapes]


def outline(view):
    return sorted(
        (sender, name, payload.dtype, tuple(payload.shape)) for sender, name, payload in view
    )


def real_view(variant, k, party):
    """One list a batch of (sender, name, payload), without what was sent once."""
    messages = [m for m in seen_by(run(variant, k)[0].transcript, party) if m.step > 0]
    size = len(messages) // STEPS
    assert size * STEPS == len(messages)
    return [
        [(m.sender, m.name, m.payload) for m in messages[i * size : (i + 1) * size]]
        for i in range(STEPS)
    ]


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_the_servers_view_is_made_from_h1_alone(variant, k):
    """Real and simulated views have one outline, satisfy one relation (the words add up to h1 mod
    2^w), and any k - 1 words are uniform in both (the test above; here for what is simulated):
    together that fixes the distribution."""
    rng, (_, h1) = Stream.seeded_for_teaching(9), run(variant, k)
    made = [simulate_server(variant, "ABC"[:k], each, rng) for each in h1]
    seen = real_view(variant, k, "server")
    for real, simulated, each in zip(seen, made, h1):
        assert outline(real) == outline(simulated)
        for view in (real, simulated):
            assert torch.equal(sum(payload for _, _, payload in view).double() * 2**-16, each)
    for i in range(k):
        simulated = torch.stack([view[i][2] for view in made])
        if (variant, k) == LOCAL:
            filler = Stream.seeded_for_teaching(i).words(tuple(simulated.shape))
            assert unusual_bytes(simulated << 16 | filler & 0xFFFF) == 0
        else:
            assert unusual_bytes(simulated.contiguous().view(-1).view(torch.int64)) == 0
    if (variant, k) == LOCAL:
        for (_, _, real), (_, _, simulated) in zip(seen[0], made[0]):
            for word in (real, simulated):
                assert 2.0**47 < word.abs().max() <= 2.0**48


@pytest.mark.parametrize(("variant", "k"), [case for case in CASES if case[0] != "masked"])
def test_the_servers_words_do_not_tell_how_h1_was_rounded(variant, k):
    """What the simulator's order of drawing needs: every bit of the first holder's word is
    independent of the rounding that h1 happened to get. Hoeffding over n numbers, union over 64
    bits: chance 1e-9 at the bound below."""
    protocol, h1 = run(variant, k)
    parts, thetas = inputs(k)
    X = torch.cat([encode(part[BATCH]) for part in parts], dim=1).double()
    bits = 32 if variant == "lean" else 16
    z = (
        X
        @ torch.cat([encode(theta, fractional_bits=bits) for theta in thetas]).double()
        * 2.0**-bits
    )
    up = torch.where(h1 * 2**16 > z, 1.0, -1.0).flatten().numpy()
    words = torch.stack([view[0][2] for view in real_view(variant, k, "server")]).flatten().numpy()
    width = 8 * words.dtype.itemsize - (16 if (variant, k) == LOCAL else 0)
    bound = math.sqrt(2 * math.log(2 * 64 / 1e-9) / len(up))
    assert bound < 0.01
    for bit in range(width):
        assert abs(float((up * (1.0 - 2.0 * (words >> bit & 1))).mean())) < bound


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_a_holders_view_is_made_from_public_sizes_alone(variant, k):
    """One outline, and everything in it uniform: in the real view by the tests above, one message
    alone and two together."""
    rng = Stream.seeded_for_teaching(10)
    for me in "ABC"[:k]:
        for real in real_view(variant, k, me):
            assert outline(real) == outline(simulate_holder(variant, k, me, rng))


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_what_is_sent_once_is_seeds_that_nobody_has_twice_and_x_minus_u(variant, k):
    protocol, _ = run(variant, k)
    once = [message for message in protocol.transcript.messages if message.step == 0]
    seeds = [message.payload for message in once if message.name == "seed"]
    assert all(len(seed) == 32 for seed in seeds) and len(set(seeds)) == len(seeds)
    pairs = k * (k - 1)
    wanted = {"masked": pairs // 2, "lean": pairs + k}.get(variant, 0)
    assert len(seeds) == wanted and len(once) - len(seeds) == (pairs if variant == "lean" else 0)
    assert not [message for message in once if message.receiver == "server"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_holders_input_moves_what_another_holder_sees_but_by_a_shift_of_its_pad(variant):
    """Two inputs of B, one randomness: each message that A receives moves by a constant that only
    the inputs set, so that the same randomness shifted by it gives the same view. For a message
    that is a pad it does not move at all."""
    views = []
    for seed in (0, 1):
        protocol, (parts, thetas), (others, weights) = (
            protocol_for(variant, 2),
            inputs(2),
            inputs(2, seed),
        )
        protocol.prepare([parts[0], others[1]])
        protocol.transcript.next_step()
        protocol.forward(BATCH, [thetas[0], weights[1]])
        views.append(
            [m for m in seen_by(protocol.transcript, "A") if not isinstance(m.payload, bytes)]
        )
    X, T = (
        [encode(inputs(2, s)[part][1], fractional_bits=f) for s in (0, 1)]
        for part, f in ((0, 16), (1, 32 if variant == "lean" else 16))
    )
    zeros = torch.zeros(N, 6, dtype=torch.int64), torch.zeros(6, WIDTH, dtype=torch.int64)
    X, T = torch.cat([zeros[0], X[1] - X[0]], dim=1), torch.cat([zeros[1], T[1] - T[0]])
    for one, two in zip(*views, strict=True):
        moved = two.payload - one.payload
        if one.name == "X - U" and moved.any():
            assert torch.equal(moved, X if variant == "lean" else X[BATCH])
        elif one.name in ("theta - V", "Y - V") and moved.any():
            assert torch.equal(moved, T)
        elif one.name == "z + r":  # B's share of the product moves by what A has not
            assert moved.any()
        else:
            assert not moved.any() or one.name in ("X - U", "Y - V", "theta - V"), one.name


def test_a_server_that_colludes_with_one_of_three_holders_gets_the_sum_of_the_others_and_no_more():
    protocol, (parts, thetas) = run("masked", 3)[0], inputs(3)
    spare = protocol_for("masked", 3).holders[2].masks  # C's seeds, in the server's hands
    drawn = {
        name: torch.stack(
            [m.payload for m in seen_by(protocol.transcript, "server") if m.sender == name]
        )
        for name in "AB"
    }
    for i in range(3):  # C's mask is minus what A and B added for C
        total = drawn["A"][i] + drawn["B"][i] + spare.mask((BATCH.stop - BATCH.start, WIDTH))
        assert torch.equal(total.long(), sum(encode(parts[j][BATCH] @ thetas[j]) for j in (0, 1)))
    for words in drawn.values():
        assert unusual_bytes(words.contiguous().view(-1).view(torch.int64)) == 0


def test_without_protection_the_server_tells_two_ways_to_the_same_h1_apart():
    """No simulator can make the plain view from h1: it is the parts themselves."""
    protocol = simulator("plain", [1, 1], 1, dtype=torch.float64)
    protocol.prepare([torch.tensor([[1.0]]), torch.tensor([[1.0]])])
    ways = [
        [torch.tensor([[value]], dtype=torch.float64) for value in way]
        for way in ((2.0, 3.0), (4.0, 1.0))
    ]
    assert [protocol.forward([0], way).item() for way in ways] == [5.0, 5.0]
    assert [m.payload.item() for m in seen_by(protocol.transcript, "server")] == [
        2.0,
        3.0,
        4.0,
        1.0,
    ]
