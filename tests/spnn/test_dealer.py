"""What the dealer deals: it satisfies its relation, travels as seeds, and serves once."""

import pytest
import torch
from forked import in_a_fork

from ppkit.spnn.dealer import Dealer
from ppkit.spnn.randomness import Stream
from ppkit.spnn.sharing import beaver_matmul, beaver_part, flat, reveal, share


def signed(value):
    """Oracle: a Python integer mod 2^64, as a number in [-2^63, 2^63)."""
    return (value + 2**63) % 2**64 - 2**63


def summed(shares):
    """Oracle: shares added up in Python's integers."""
    return [signed(sum(column)) for column in zip(*(each.flatten().tolist() for each in shares))]


@pytest.mark.parametrize("n_parties", [2, 3])
def test_one_u_serves_many_products_each_with_a_fresh_v(n_parties):
    """X - U is opened once; the parts of all parties add up to the product for any rows of X."""
    stream, dealer = Stream.seeded_for_teaching(5), Dealer()
    X = stream.words((40, 6))
    U = dealer.mask((40, 6), n_parties)
    E, seen = X - reveal(U), []
    for step in range(3):
        rows, theta = torch.arange(step, 40, 3), stream.words((6, 4))
        V, W = dealer.products(reveal(U)[rows], 4, n_parties)
        F = theta - reveal(V)
        z = [beaver_part(i, U[i][rows], V[i], W[i], E[rows], F) for i in range(n_parties)]
        assert torch.equal(reveal(z), X[rows] @ theta)
        seen.append(reveal(V))
    assert not (seen[0] == seen[1]).any() and not (seen[1] == seen[2]).any()


@pytest.mark.parametrize("n_parties", [2, 3])
def test_what_is_dealt_in_a_row_is_what_is_dealt_in_matrices(n_parties):
    in_matrices, in_a_row = (Dealer(Stream.seeded_for_teaching(6)) for _ in range(2))
    for _ in range(2):  # the second finds the streams where the first left them
        triple = in_matrices.matmul_triple(7, 3, 2, n_parties)
        vectors = in_a_row.matmul_vectors(7, 3, 2, n_parties)
        assert all(map(torch.equal, flat([triple.U, triple.V, triple.W]), vectors))
        pair = in_matrices.truncation_pair((5, 2), 16, n_parties)
        vectors = in_a_row.truncation_vectors(10, 16, n_parties)
        assert all(map(torch.equal, flat([pair.mask, pair.high, pair.top]), vectors))


@pytest.mark.parametrize("n_parties", [2, 3])
def test_seeds_and_one_correction_are_all_that_the_dealer_sends(n_parties):
    """Each party redraws its shares from its 32 bytes, in the order of the calls; the last one
    lacks W, high and top."""
    dealer = Dealer()
    triple = dealer.matmul_triple(7, 3, 2, n_parties)
    pair = dealer.truncation_pair(5, 16, n_parties)
    own = [Stream(each.key) for each in dealer.streams(n_parties)]
    expected = [
        (triple.U, (7, 3)),
        (triple.V, (3, 2)),
        (triple.W, (7, 2)),
        (pair.mask, 5),
        (pair.high, 5),
        (pair.top, 5),
    ]
    for shares, shape in expected:
        corrected = any(shares is each for each in (triple.W, pair.high, pair.top))
        for party in range(n_parties - corrected):
            assert torch.equal(shares[party], own[party].words(shape))
    assert len({each.key for each in dealer.streams(n_parties)}) == n_parties


def test_dealt_pairs_satisfy_their_relation():
    for n_parties in (2, 4):
        pair = Dealer().truncation_pair(1000, 13, n_parties)
        r = [value % 2**64 for value in summed(pair.mask)]
        assert summed(pair.high) == [value >> 13 for value in r] and summed(pair.top) == [
            value >> 63 for value in r
        ]


def test_nothing_dealt_can_be_used_twice():
    x, triple = share(torch.ones((2, 2), dtype=torch.int64)), Dealer().matmul_triple(2, 2, 2)
    beaver_matmul(x, x, triple)
    with pytest.raises(
        ValueError,
        match="was used before: opening two secrets under one mask gives away their difference",
    ):
        beaver_matmul(x, x, triple)


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # Python 3.12 on
def test_what_was_dealt_before_a_fork_serves_in_the_parent_only():
    triple = Dealer().matmul_triple(2, 2, 2)
    x = share(torch.ones((2, 2), dtype=torch.int64))
    assert in_a_fork(lambda: beaver_matmul(x, x, triple)[0].numpy().tobytes()) == b"RuntimeError"
    assert len(beaver_matmul(x, x, triple)) == 2
