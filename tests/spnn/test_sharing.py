import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom
from uniform_bytes import unusual_bytes

from ppkit.spnn.dealer import Dealer
from ppkit.spnn.randomness import Stream
from ppkit.spnn.sharing import (
    add,
    beaver_matmul,
    reveal,
    share,
    truncate,
    truncated_part,
    with_mask,
)

EDGES = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 65536, -65537]


def signed(value):
    """Oracle: a Python integer mod 2^64, as a number in [-2^63, 2^63)."""
    return (value + 2**63) % 2**64 - 2**63


def tensor(values):
    return torch.tensor([signed(value) for value in values])


def summed(shares):
    """Oracle: shares added up in Python's integers."""
    return [signed(sum(column)) for column in zip(*(each.flatten().tolist() for each in shares))]


RING = st.integers(-(2**63), 2**63 - 1)
PARTIES = st.integers(2, 6)


@given(st.lists(st.tuples(RING, RING)), PARTIES)
@example(list(zip(EDGES, reversed(EDGES))), 2)
def test_reveal_gives_back_integers_and_their_sums_mod_2_to_the_64(secrets, n_parties):
    x, y = (torch.tensor(some, dtype=torch.int64) for some in list(zip(*secrets)) or ([], []))
    x_shares, y_shares = share(x, n_parties=n_parties), share(y, n_parties=n_parties)
    assert len(x_shares) == n_parties
    assert reveal(x_shares).tolist() == summed(x_shares) == x.tolist()
    both = add(x_shares, y_shares)
    assert reveal(both).tolist() == summed(both) == [signed(a + b) for a, b in secrets]


@pytest.mark.parametrize("secret", [0, -1, 2**62 + 12345])
def test_whatever_the_secret_each_share_and_each_sum_of_all_but_one_is_uniform(secret):
    """Chance of a false alarm: 1e-9 a call, 10 calls a case, 3 cases."""
    for n_parties in (2, 3):
        shares = share(torch.full((60_000,), secret), n_parties=n_parties)
        assert [unusual_bytes(each) for each in shares] == [0] * n_parties
        for some in itertools.combinations(shares, n_parties - 1):
            assert unusual_bytes(reveal(some)) == 0
    assert (
        unusual_bytes(torch.full((60_000,), secret)) > 0
    )  # the check does see what is not uniform
    assert unusual_bytes(shares[0] >> 1) > 0


def test_the_random_shares_do_not_look_at_the_secret():
    """With one key, two secrets get the same s_1 .. s_(k-1); s_0 moves by their difference: a
    bijection of the pad."""
    x, y = tensor(EDGES), tensor(reversed(EDGES))
    one, two = (
        share(secret, n_parties=3, stream=Stream.seeded_for_teaching(1)) for secret in (x, y)
    )
    assert torch.equal(one[1], two[1]) and torch.equal(one[2], two[2])
    assert torch.equal(one[0] - two[0], x - y)


def test_shares_are_fresh_every_time():
    secret, stream = tensor(EDGES), Stream()
    first, second, third = share(secret, stream=stream), share(secret, stream=stream), share(secret)
    for a, b in itertools.combinations((first, second, third), 2):
        assert not (a[0] == b[0]).any() and not (a[1] == b[1]).any()  # chance 54 / 2^64


def test_a_share_can_travel_as_a_seed():
    own = [Stream(), Stream()]
    shares = share(tensor(EDGES), n_parties=3, stream=own)
    for stream, drawn in zip(own, shares[1:]):
        assert torch.equal(Stream(stream.key).words((len(EDGES),)), drawn)
    assert reveal(shares).tolist() == EDGES


@given(st.data(), PARTIES)
def test_products_on_shares_equal_python_integers(data, n_parties):
    n, k, m = (data.draw(st.integers(1, 5)) for _ in range(3))
    x, y = (torch.from_numpy(data.draw(arrays(np.int64, shape))) for shape in ((n, k), (k, m)))
    x_shares, y_shares = (share(secret, n_parties=n_parties) for secret in (x, y))
    z = beaver_matmul(x_shares, y_shares, Dealer().matmul_triple(n, k, m, n_parties))
    columns = list(zip(*y.tolist()))
    assert reveal(z).tolist() == [
        [signed(sum(p * q for p, q in zip(row, column))) for column in columns]
        for row in x.tolist()
    ]


@pytest.mark.parametrize("n_parties", [2, 3])
def test_what_a_matrix_product_opens_and_leaves_is_uniform_for_fixed_secrets(n_parties):
    """A false alarm: 1e-9 a call, at most 8 calls a case, 2 cases."""
    long, square = torch.full((10_000, 6), 3 << 16), torch.full((6, 6), -5 << 16)
    for x, y in ((long, square), (square, long.t().contiguous())):
        triple = Dealer().matmul_triple(len(x), 6, y.shape[1], n_parties)
        z = beaver_matmul(share(x, n_parties=n_parties), share(y, n_parties=n_parties), triple)
        masked = x - reveal(triple.U) if x is long else y - reveal(triple.V)
        assert unusual_bytes(masked) == 0
        assert [unusual_bytes(each) for each in z] == [0] * n_parties


def test_the_papers_formula_for_party_1_needs_a_minus():
    """Section 3.3.1 in our copy adds e f on party 1's side, beside shares of a and b:
    3ab - 2av - 2ub + 2uv, not ab."""
    a, b = torch.arange(50), torch.arange(50) + 7
    u, v = Stream().words((2, 50))
    (a_0, a_1), (b_0, b_1), (w_0, w_1) = share(a), share(b), share(u * v)
    e, f = a - u, b - v

    def paper(sign):
        return (f * a_0 + e * b_0 + w_0) + sign * e * f + f * a_1 + e * b_1 + w_1

    assert torch.equal(paper(-1), a * b)
    assert torch.equal(paper(1), 3 * a * b - 2 * a * v - 2 * u * b + 2 * u * v) and not torch.equal(
        paper(1), a * b
    )


# Truncation. All 2^f low parts of one share are gone through, so means are exact integers, not
# samples.
def every_low_part(z, bits, high):
    """Shares of z with z_0 = high 2^f + r for r = 0 .. 2^f - 1."""
    zero = torch.arange(2**bits) + signed(high << bits)
    return [zero, torch.full_like(zero, z) - zero]


BITS = st.integers(1, 12)


@given(BITS, st.integers(-(2**44), 2**44), st.sampled_from(["middle", "top"]))
@example(16, 3 * 65536 + 12345, "middle")
@example(16, -9 * 65536 - 54321, "top")
@example(8, 65536, "top")
def test_mean_and_range_of_the_local_truncation_are_exactly_as_derived(bits, z, where):
    high = (
        2 ** (63 - bits) + 2**45 + 5 if where == "top" else 2 ** (62 - bits) + 3
    )  # z_0 above or below 2^63
    shares = every_low_part(z, bits, high)
    published = reveal(truncate(shares, bits))
    assert int(published.sum()) == z  # the mean is z / 2^f: no bias at all
    assert set(published.tolist()) == ({z >> bits, -(-z >> bits)})  # floor or ceiling


def by_pair(shares, bits, pair):
    """(what is opened, shares of z / 2^bits), with the dealer's help."""
    c = reveal([with_mask(i, z, r) for i, (z, r) in enumerate(zip(shares, pair.mask))])
    parts = enumerate(zip(pair.high, pair.top))
    return c, [truncated_part(i, c, high, top, bits) for i, (high, top) in parts]


@given(BITS, st.integers(-(2**62), 2**62 - 1), st.integers(0, 2**64 - 1), PARTIES)
@example(16, 2**62 - 1, 2**64 - 1, 2)
@example(16, -(2**62), 0, 3)
@example(8, 2**62 - 54321, 2**63 - 1, 2)
@example(8, 3 * 65536 + 12345, 2**63, 2)
@example(1, 2**62 - 1, 2**62, 3)
def test_mean_and_range_of_the_dealers_truncation_are_exact_and_it_never_fails(
    bits, z, mask, n_parties
):
    high = mask >> bits
    r = torch.arange(2**bits) + signed(high << bits)
    pair = Dealer().truncation_pair(2**bits, bits, n_parties)
    top = 2 * high // 2 ** (64 - bits)
    for shares, wanted in (
        (pair.mask, r),
        (pair.high, torch.full_like(r, high)),
        (pair.top, torch.full_like(r, top)),
    ):
        shares[-1] += wanted - reveal(shares)
    z_shares = share(torch.full((2**bits,), z), n_parties=n_parties)
    opened, parts = by_pair(z_shares, bits, pair)
    result = reveal(parts) - (z >> bits)
    assert int(result.sum()) == z % 2**bits
    assert set(result.unique().tolist()) == {0, int(z % 2**bits > 0)}
    assert torch.equal(opened, r + z + 2**62)


def test_what_the_dealers_truncation_opens_is_uniform():
    """A false alarm: 1e-9 a call, 3 calls."""
    pair = Dealer().truncation_pair(60_000, 16)
    opened, parts = by_pair(share(torch.full((60_000,), 12345678)), 16, pair)
    assert [unusual_bytes(each) for each in (opened, *parts)] == [0, 0, 0]


@given(st.integers(-(2**61), -2) | st.integers(1, 2**61))
def test_a_local_truncation_fails_for_exactly_z_of_the_2_to_the_64_shares(z):
    """They are a run from one end of the range of z_0; both ends of the run are looked at."""
    run = (0, z - 1) if z > 0 else (2**64 + z, 2**64 - 1)
    at = [run[0] - 1, run[0], run[1], run[1] + 1]
    zero = tensor(at)
    error = reveal(truncate([zero, z - zero], 16)).double() - z / 2**16
    fails = [abs(value) >= 2 for value in error.tolist()]
    assert fails == [False, True, True, False]
    assert all(
        abs(value) == pytest.approx(2.0**48, abs=2)
        for value, bad in zip(error.tolist(), fails)
        if bad
    )


@pytest.mark.parametrize("z", [2**61 + 99, -(2**61) - 99])
def test_a_local_truncation_of_a_large_number_fails_as_often_as_derived(z):
    """|z| / 2^64 = 1/8 of 40,000: exact binomial tails, 1e-8 in each of 2 cases."""
    error = reveal(truncate(share(torch.full((40_000,), z)), 16)) - (z >> 16)
    bad = int((error.abs() > 2).sum())
    assert binom.cdf(bad, 40_000, 1 / 8) > 5e-9 and binom.sf(bad - 1, 40_000, 1 / 8) > 5e-9
    assert set((error[error.abs() > 2].abs() / 2.0**48).round().tolist()) == {1.0}
    pair = Dealer().truncation_pair(40_000, 16)
    _, parts = by_pair(share(torch.full((40_000,), z)), 16, pair)
    assert set((reveal(parts) - (z >> 16)).tolist()) <= {0, 1}


def test_bad_input_is_refused():
    for n_parties in (1, 0):
        with pytest.raises(
            ValueError, match=f"n_parties must be a whole number >= 2, got {n_parties}"
        ):
            share(tensor(EDGES), n_parties=n_parties)
    with pytest.raises(ValueError, match="secret must be an int64 tensor, got torch.float32"):
        share(torch.ones(3))
    with pytest.raises(ValueError, match="stream must be one Stream or 2 of them, got 1"):
        share(tensor(EDGES), n_parties=3, stream=[Stream()])
