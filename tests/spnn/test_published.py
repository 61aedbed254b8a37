"""Algorithm 2: integer arithmetic up to the last digit, and what it opens and deals for it."""

import weakref
from collections import defaultdict

import pytest
from spnn_parties import HOLDERS, WIDTH, N, exact, made

from ppkit.spnn.dealer import Dealer
from ppkit.spnn.messages import DEALER

CASES = [("published", 2), ("published", 3), ("published", 5), ("dealerless", 2)]


@pytest.mark.parametrize(("variant", "k"), CASES)
def test_algorithm_2_is_integer_arithmetic_up_to_the_last_digit(variant, k):
    protocol, parts, thetas = made(variant, k, scale=100.0)
    z = exact(parts, thetas)
    got = (protocol.forward(slice(None), thetas) * 2**16).long().numpy().astype(object)
    off = [int(a) * 2**16 - int(b) for a, b in zip(got.flat, z.flat)]
    assert all(-(2**16) < d < 2**16 for d in off) and any(off)


def one_step(k):
    """{name: payloads} of one batch of all rows."""
    protocol, _, thetas = made("published", k)
    protocol.transcript.next_step()
    protocol.forward(slice(None), thetas)
    found = defaultdict(list)
    for message in protocol.transcript.messages:
        if message.step == 1:
            found[message.name].append(message)
    return found


@pytest.mark.parametrize("k", [3, 5])
def test_more_than_two_holders_open_each_factor_of_one_product_once(k):
    """Under the masks of a triple of all: what is opened plus the mask is the sum of the shares."""
    sent, d = one_step(k), sum(HOLDERS[k])
    [name] = [name for name in sent if name.startswith("<U>, <V>, <W>")]
    triple = [message.payload for message in sent[name]]
    assert len(triple) == k and all(message.phase == "offline" for message in sent[name])
    U, V, W = sum(triple).split([N * d, d * WIDTH, N * WIDTH])
    assert (U.view(N, d) @ V.view(d, WIDTH)).flatten().equal(W)
    for opened in ("X - U", "Y - V", "z + r"):
        shares, sums = sent[f"<{opened}>"], sent[opened]
        assert {message.receiver for message in shares} == {"A"}
        assert {message.sender for message in sums} == {"A"}
        assert len(shares) == len(sums) == k - 1
        assert all(message.payload.equal(sums[0].payload) for message in sums)


@pytest.mark.parametrize("k", [3, 5])
def test_bytes_of_more_than_two_holders_are_those_of_the_formulas(k):
    """n rows, d columns, w wide, 8 bytes a number: shares to each of the others, three values
    opened by 2 (k - 1) messages, and a triple and a truncation pair in k parts."""
    sent, d, size = one_step(k), sum(HOLDERS[k]), N * WIDTH
    n_bytes = lambda messages: sum(message.n_bytes for message in messages)
    everything = [message for messages in sent.values() for message in messages]
    from_dealer = [message for message in everything if message.sender == DEALER]
    to_server = [message for message in everything if message.receiver == "server"]
    factors = N * d + d * WIDTH
    assert n_bytes(from_dealer) == 8 * k * (factors + size + 3 * size)
    assert n_bytes(to_server) == 8 * k * size
    between = n_bytes(everything) - n_bytes(from_dealer) - n_bytes(to_server)
    assert between == 8 * (k - 1) * (factors + 2 * (factors + size))


@pytest.mark.parametrize("k", [2, 3])
def test_triples_are_gone_when_their_batch_is_done(monkeypatch, k):
    dealt = []

    def noted(self, *sizes):
        parts = deal(self, *sizes)
        dealt.extend(weakref.ref(part) for part in parts)
        return parts

    deal = Dealer.matmul_vectors
    monkeypatch.setattr(Dealer, "matmul_vectors", noted)
    protocol, _, thetas = made("published", k, keep="sizes")
    protocol.forward(slice(None), thetas)
    assert len(dealt) == {2: 4, 3: 3}[k]
    assert [part() for part in dealt] == [None] * len(dealt)
