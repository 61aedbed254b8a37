"""h1 by every protocol: equal to the plain one within its derived bound, and to integer arithmetic
exactly; bad input."""

import math

import numpy as np
import pytest
import torch
from transcripts import seen_by

from ppkit.spnn.fixed_point import encode
from ppkit.spnn.layer import KINDS, costs
from ppkit.spnn.messages import Transcript, holder_names
from ppkit.spnn.paillier_keys import generate_keys
from ppkit.spnn.protocols import PROTOCOLS, protocol_of
from ppkit.spnn.randomness import Stream

KEYS = generate_keys(256, teaching=True)[1]
VARIANTS = {
    "plain": {"name": "plain"},
    "masked": {"name": "masked"},
    "he": {"name": "he", "keys": KEYS},
    "he elementwise": {"name": "he", "keys": KEYS, "elementwise": True},
    "lean": {"name": "ss", "form": "lean"},
    "published": {"name": "ss", "form": "published"},
    "published, dealer": {"name": "ss", "form": "published", "truncation": "dealer"},
    "published, floor": {"name": "ss", "form": "published", "truncation": "floor"},
    "dealerless": {"name": "ss", "form": "dealerless", "key_bits": 512, "teaching": True},
}
FOR_TWO = ("published, floor", "dealerless")
HOLDERS = {2: [3, 2], 3: [2, 2, 1], 5: [1, 1, 1, 1, 1]}
CASES = [(variant, k) for variant in VARIANTS for k in HOLDERS if k == 2 or variant not in FOR_TWO]
N, WIDTH = 23, 3
ROOM = {
    "he": 2.0**23,
    "he elementwise": 2.0**23,
    "masked": 2.0**14,
    "lean": 2.0**14,
    "published": 2.0**14,
    "dealerless": 2.0**14,
}


def made(
    variant, k=2, *, n=N, scale=1.0, seed=0, keep="payloads", dtype=torch.float64, width=WIDTH
):
    """A protocol with random data prepared, and one theta a holder."""
    rng = torch.Generator().manual_seed(seed)
    parts = [torch.randn(n, d, generator=rng, dtype=dtype) * scale for d in HOLDERS[k]]
    thetas = [torch.randn(d, width, generator=rng, dtype=dtype) for d in HOLDERS[k]]
    choices = dict(VARIANTS[variant])
    protocol = protocol_of(
        choices.pop("name"),
        HOLDERS[k],
        transcript=Transcript(keep),
        dtype=dtype,
        stream=Stream.seeded_for_teaching(seed),
        **choices,
    )
    protocol.prepare(parts)
    return protocol, parts, thetas


def exact(parts, thetas, *, theta_bits=16):
    """X theta of the rounded numbers, in Python's whole numbers:
    an array of ints with 16 + theta_bits fractional bits."""
    X = torch.cat([encode(part) for part in parts], dim=1).numpy().astype(object)
    return X @ torch.cat(
        [encode(theta, fractional_bits=theta_bits) for theta in thetas]
    ).numpy().astype(object)


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_every_protocol_agrees_with_the_plain_product_within_its_bound(variant, k):
    protocol, parts, thetas = made(variant, k, scale=3.0)
    for rows in (slice(None), slice(2, 9), torch.tensor([5, 0, 5]), [7]):
        protocol.transcript.next_step()
        h1, bound = protocol.forward(rows, thetas), protocol.error_bound(rows, thetas)
        plain = sum(part[rows] @ theta for part, theta in zip(parts, thetas))
        assert h1.dtype == torch.float64 and h1.shape == plain.shape == bound.shape
        assert bool(((h1 - plain).abs() <= bound + 1e-12).all())
        assert bound.max() < 2**-10


@pytest.mark.parametrize(
    ("variant", "k"), [case for case in CASES if case[0] not in ("plain", "he elementwise")]
)
def test_the_bound_is_not_idle(variant, k):
    """Some entry comes close to it: at least a tenth for products of so few terms."""
    protocol, parts, thetas = made(variant, k, n=40 if "he" in variant.split() else 300)
    protocol.transcript.next_step()
    plain = sum(part @ theta for part, theta in zip(parts, thetas))
    ratio = (protocol.forward(slice(None), thetas) - plain).abs() / protocol.error_bound(
        slice(None), thetas
    )
    assert ratio.max() > 0.1


@pytest.mark.parametrize(
    "variant", ["published", "published, dealer", "published, floor", "dealerless"]
)
def test_algorithm_2_is_integer_arithmetic_up_to_the_last_digit(variant):
    protocol, parts, thetas = made(variant, scale=100.0)
    z = exact(parts, thetas)
    got = (protocol.forward(slice(None), thetas) * 2**16).long().numpy().astype(object)
    least = -2 if variant == "published, floor" else -1
    off = [int(a) * 2**16 - int(b) for a, b in zip(got.flat, z.flat)]
    assert all(least * 2**16 < d < 2**16 for d in off) and any(off)


@pytest.mark.parametrize("k", HOLDERS)
def test_lean_rounds_the_exact_product_by_at_most_k_halves_and_without_bias(k):
    """Hoeffding on n errors in [-k/2, k/2] of mean 0:
    P(|mean| > t) <= 2 exp(-2 n t^2 / k^2) = 1e-9 at t."""
    protocol, parts, thetas = made("lean", k, n=4_000, scale=100.0)
    z = exact(parts, thetas, theta_bits=32)
    got = (protocol.forward(slice(None), thetas) * 2**16).long().numpy().astype(object)
    off = np.array([(int(a) * 2**32 - int(b)) / 2**32 for a, b in zip(got.flat, z.flat)])
    assert np.abs(off).max() <= k / 2 and np.abs(off).max() > 0.5
    assert abs(off.mean()) < k * math.sqrt(math.log(2 / 1e-9) / (2 * len(off)))


@pytest.mark.parametrize("k", HOLDERS)
def test_masked_and_both_kinds_of_he_give_exactly_the_sum_of_the_rounded_parts(k):
    for variant in ("masked", "he", "he elementwise"):
        protocol, parts, thetas = made(variant, k)
        wanted = sum(encode(part @ theta) for part, theta in zip(parts, thetas)).double() / 2**16
        assert torch.equal(protocol.forward(slice(None), thetas), wanted), variant


@pytest.mark.parametrize("variant", ["lean", "masked"])
def test_words_hold_what_they_say_up_to_the_edge(variant):
    """h1 = +-(2^15 - 1): sums that wrap inside, and the sign of the last word."""
    protocol, _, _ = made(variant)
    protocol.prepare(
        [torch.tensor([[4.0, 0, 0], [-4.0, 0, 0]]), torch.tensor([[2.0, 0], [-2.0, 0]])]
    )
    thetas = [
        torch.full((3, 1), 4095.0, dtype=torch.float64),
        torch.full((2, 1), 8191.0, dtype=torch.float64),
    ]
    assert protocol.forward(slice(None), thetas).flatten().tolist() == [32762.0, -32762.0]


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_part_without_room_is_refused_with_its_holder_its_size_and_the_range(variant, dtype):
    protocol, parts, thetas = made(variant, dtype=dtype)
    reach = ROOM[variant.split(",")[0]]
    protocol.prepare([parts[0], torch.tensor([[1.0, 0.0]] * N)])
    large = [thetas[0], torch.full((2, WIDTH), -1.01 * reach, dtype=dtype)]
    with pytest.raises(
        ValueError,
        match=r"holder B reaches -[\d.e+]+, outside the range \+-[\d.e+]+ .* for each of [12]",
    ):
        protocol.forward(slice(None), large)
    fits = [theta * 0.9 / 1.01 for theta in large[1:]]
    protocol.transcript.next_step()
    h1 = protocol.forward(slice(None), [torch.zeros_like(thetas[0]), *fits])
    assert torch.allclose(h1, fits[0][:1].expand(N, -1), rtol=1e-6)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "plain"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_theta_that_is_not_finite_is_refused(variant, value):
    protocol, _, thetas = made(variant)
    thetas[1][0, 0] = value
    with pytest.raises(ValueError, match="finite"):
        protocol.forward(slice(None), thetas)
    assert "B" not in {message.sender for message in seen_by(protocol.transcript, "server")}


def test_what_does_not_fit_the_quick_bound_is_looked_at_exactly():
    """One feature is large and its weight small: the bound of the whole row says no, the product
    fits."""
    protocol, _, _ = made("lean")
    X = torch.tensor([[2.0**13, 1.0, 0.0]] * 2, dtype=torch.float64)
    protocol.prepare([X, torch.zeros(2, 2)])
    thetas = [
        torch.tensor([[0.5], [4.0], [0.0]], dtype=torch.float64),
        torch.zeros(2, 1, dtype=torch.float64),
    ]
    assert protocol.forward(slice(None), thetas).tolist() == [[4100.0], [4100.0]]


@pytest.mark.parametrize("variant", ["lean", "published", "published, dealer"])
def test_triples_can_be_dealt_ahead_for_batches_in_order(variant):
    protocol, parts, thetas = made(variant)
    batches = [torch.tensor([1, 2]), slice(3, 9), [4, 4]]
    for rows in batches:
        protocol.deal(rows, WIDTH)
    dealt = len(protocol.transcript.messages)
    for rows in batches:
        protocol.transcript.next_step()
        plain = sum(part[rows] @ theta for part, theta in zip(parts, thetas))
        assert torch.allclose(protocol.forward(rows, thetas), plain, rtol=0, atol=1e-3)
    assert {message.phase for message in protocol.transcript.messages[dealt:]} == {"online"}
    protocol.deal(torch.tensor([1, 2]), WIDTH)
    with pytest.raises(ValueError, match="dealt for another batch"):
        protocol.forward(torch.tensor([1, 3]), thetas)
    sent = len(protocol.transcript.messages)
    protocol.forward(torch.tensor([1, 2]), thetas)  # the refusal has used nothing up
    assert {message.phase for message in protocol.transcript.messages[sent:]} == {"online"}


def test_preparing_anew_gives_the_new_data_and_forgets_triples_of_the_old():
    for variant in VARIANTS:
        protocol, parts, thetas = made(variant)
        if "lean" in variant:
            protocol.deal(slice(None), WIDTH)
        protocol.prepare([part[:7] * 2 for part in parts])
        protocol.transcript.next_step()
        plain = sum(part[:7] * 2 @ theta for part, theta in zip(parts, thetas))
        assert torch.allclose(protocol.forward(slice(None), thetas), plain, rtol=0, atol=1e-3), (
            variant
        )


@pytest.mark.slow
def test_bytes_and_rounds_are_those_of_the_formulas():
    """n rows, d = sum of d_i features, w wide: 8 bytes a ring element, 4 a word, 512 a ciphertext
    of 62 or fewer numbers."""
    (n, w, a, b), table = (40, 4, 3, 2), costs((3, 2), 4, n_rows=40, key_bits=2048)
    d = a + b
    published = 8 * (n * d + d * w + 2 * 2 * (n * d + d * w))
    ciphertexts = 512 * math.ceil(n * w / (2047 // 41))
    assert table["between holders"].to_dict() == {
        "plain": 0,
        "ss, published": published,
        "ss, lean": 2 * 8 * d * w,
        "masked": 0,
        "he": ciphertexts,
    }
    assert table["to server"].to_dict() == {
        "plain": 8 * n * w,
        "ss, published": 16 * n * w,
        "ss, lean": 8 * n * w,
        "masked": 8 * n * w,
        "he": ciphertexts,
    }
    assert table["from server"].tolist() == [8 * n * w] * 5
    assert table["rounds"].to_dict() == {
        "plain": 1,
        "ss, published": 3,
        "ss, lean": 2,
        "masked": 1,
        "he": 2,
    }
    assert table["dealer"].to_dict() == {
        "plain": 0,
        "ss, published": 4 * 8 * (n * d + d * w + n * w),
        "ss, lean": 8 * n * w,
        "masked": 0,
        "he": 0,
    }
    assert table.loc[["plain", "ss, published", "ss, lean", "masked"], "once"].tolist() == [
        0,
        0,
        4 * 32 + 2 * 8 * n * d,
        32,
    ]
    assert table.loc["masked", "server received"] == "masked X theta from A, masked X theta from B"
    assert table.loc["he", "server received"] == "Enc(X theta) from B"
    assert list(table.index) == list(KINDS)


def test_holders_have_names():
    assert holder_names(28)[24:] == ["Y", "Z", "H27", "H28"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "mpc"}, "protocol must be one of plain, ss, he, masked, got 'mpc'"),
        ({"holders": [28]}, r"SPNN needs at least 2 holders, got 1: \[28\]"),
        ({"holders": []}, "at least 2 holders, got 0"),
        ({"holders": [3, 0]}, r"at least 1 feature, got holders=\[3, 0\]"),
        ({"form": "lean"}, "form is a choice of protocol 'ss', got form='lean' with 'plain'"),
        (
            {"name": "ss", "form": "short"},
            "form must be one of None, published, lean, dealerless, got 'short'",
        ),
        (
            {"name": "ss", "form": "published", "truncation": "up"},
            "truncation must be one of .* got 'up'",
        ),
        (
            {"name": "ss", "form": "published", "truncation": "secureml", "holders": [1, 1, 1]},
            "is for 2 holders, got 3",
        ),
        (
            {"name": "he", "key_bits": 1024},
            "bits must be a multiple of 16 and at least 2,048, got 1024",
        ),
        (
            {"name": "he", "key_bits": 64, "teaching": True, "value_bits": 63},
            "a key of 64 bits is too small for the packing: it holds 63 bits and one field takes "
            "64",
        ),
    ],
)
def test_a_choice_that_is_not_there_is_refused(change, message):
    arguments = {"name": "plain", "holders": [3, 2], "transcript": Transcript()} | change
    with pytest.raises(ValueError, match=message):
        protocol_of(arguments.pop("name"), arguments.pop("holders"), **arguments)


def test_a_choice_of_another_protocol_is_refused():
    with pytest.raises(TypeError, match="truncation"):
        protocol_of("masked", [1, 1], transcript=Transcript(), truncation="floor")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            [torch.zeros(5, 3), torch.zeros(4, 2)],
            "all holders must have the same rows in the same order, got row counts A 5, B 4",
        ),
        ([torch.zeros(5, 3)], "one part of X per holder, got 1 for 2 holders"),
        (
            [torch.zeros(5, 3), torch.zeros(5, 3)],
            r"holder B's features must be \(N, 2\), got \(5, 3\)",
        ),
        ([torch.zeros(5, 3), torch.zeros(5)], r"holder B's features must be \(N, 2\), got \(5,\)"),
        (
            [torch.zeros(5, 3), torch.full((5, 2), math.nan)],
            "holder B's features must be finite, got 10 of 10 values",
        ),
        (
            [torch.full((5, 3), math.inf), torch.zeros(5, 2)],
            "holder A's features must be finite, got 15 of 15 values",
        ),
        ([torch.zeros(0, 3), torch.zeros(0, 2)], "the data set must have at least one row, got 0"),
    ],
)
def test_data_that_does_not_fit_is_refused(parts, message):
    for name in PROTOCOLS:
        choices = {"keys": KEYS} if name == "he" else {}
        protocol = protocol_of(name, [3, 2], transcript=Transcript(), **choices)
        with pytest.raises(ValueError, match=message):
            protocol.prepare(parts)


def test_a_batch_before_any_data_is_refused():
    with pytest.raises(ValueError, match="prepare\\(X_parts\\) must come before the first batch"):
        protocol_of("plain", [3, 2], transcript=Transcript()).forward(slice(None), [])


@pytest.mark.parametrize("variant", ["plain", "masked", "he", "lean", "published", "dealerless"])
def test_rows_that_are_not_there_are_refused_before_anything_is_sent(variant):
    protocol, _, thetas = made(variant, n=10)
    sent = len(protocol.transcript.messages)
    for rows, got in (
        (torch.tensor([0, 10]), "10"),
        ([-1], "-1"),
        ([], r"numbers of shape \(0,\)"),
        (torch.ones(10) > 0, "torch.bool"),
        (torch.ones(2), "torch.float32"),
        (slice(0, 0), r"the empty slice\(0, 0, None\)"),
        (7, r"numbers of shape \(\)"),
    ):
        for ask in (protocol.forward, *([protocol.deal] if hasattr(protocol, "deal") else [])):
            with pytest.raises(ValueError, match=f"rows must be 0 to 9, at least one, got {got}"):
                ask(rows, WIDTH if ask == getattr(protocol, "deal", None) else thetas)
    assert len(protocol.transcript.messages) == sent


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_theta_that_is_not_finite_is_named_with_its_holder(variant):
    protocol, _, thetas = made(variant, n=4)
    for bad in (math.nan, math.inf):
        with pytest.raises(
            ValueError, match="theta of holder B is not finite: has the training diverged"
        ):
            protocol.forward(slice(None), [thetas[0], torch.full_like(thetas[1], bad)])
