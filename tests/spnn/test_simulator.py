"""All parties in one process: data, batches, what is dealt ahead, seeds; bad input; forks."""

import hashlib
import math

import pytest
import torch
from forked import in_a_fork
from spnn_parties import VARIANTS, WIDTH, made, simulator

from ppkit.spnn.randomness import Stream


@pytest.mark.parametrize(
    ("variant", "widths", "digest"),
    [
        ("masked", [2, 1, 1], "2e57c6b85e8cac0d"),
        ("lean", [2, 1, 1], "1de7dac236f6bdb8"),
        ("published", [2, 1], "69c1b7d0a53630c2"),
        ("published", [2, 1, 1], "14461212f9ff98e0"),
    ],
)
def test_a_teaching_stream_gives_the_messages_it_always_gave(variant, widths, digest):
    """A pin, on numbers whose products are exact in any arithmetic: what repeats from a seed does
    so in the next version too."""
    protocol = simulator(variant, widths, 3, stream=Stream.seeded_for_teaching(1))
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


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("variant", ["lean", "published"])
def test_triples_can_be_dealt_ahead_for_batches_in_order(variant, k):
    protocol, parts, thetas = made(variant, k)
    batches = [torch.tensor([1, 2]), slice(3, 9), [4, 4]]
    for rows in batches:
        protocol.deal(rows)
    dealt = len(protocol.transcript.messages)
    for rows in batches:
        protocol.transcript.next_step()
        plain = sum(part[rows] @ theta for part, theta in zip(parts, thetas))
        assert torch.allclose(protocol.forward(rows, thetas), plain, rtol=0, atol=1e-3)
    assert {message.phase for message in protocol.transcript.messages[dealt:]} == {"online"}
    protocol.deal(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="dealt for another batch"):
        protocol.forward(torch.tensor([1, 3]), thetas)
    sent = len(protocol.transcript.messages)
    protocol.forward(torch.tensor([1, 2]), thetas)  # the refusal has used nothing up
    assert {message.phase for message in protocol.transcript.messages[sent:]} == {"online"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_preparing_anew_gives_the_new_data(variant):
    protocol, parts, thetas = made(variant)
    protocol.prepare([part[:7] * 2 for part in parts])
    protocol.transcript.next_step()
    plain = sum(part[:7] * 2 @ theta for part, theta in zip(parts, thetas))
    assert torch.allclose(protocol.forward(slice(None), thetas), plain, rtol=0, atol=1e-3)


def test_what_was_dealt_for_the_old_data_is_used_before_new_data_come():
    protocol, parts, thetas = made("lean")
    protocol.deal(slice(None))
    with pytest.raises(ValueError, match="1 batches were dealt for and not used"):
        protocol.prepare(parts)
    protocol.forward(slice(None), thetas)
    protocol.prepare(parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            [torch.zeros(5, 3), torch.zeros(4, 2)],
            "must have the same rows in the same order, got row counts {'A': 5, 'B': 4}",
        ),
        ([torch.zeros(5, 3)], "one part of X per holder, got 1 for 2 holders"),
        (
            [torch.zeros(5, 3), torch.zeros(5, 3)],
            r"holder B's features must be \(N, 2\), at least one row, got \(5, 3\)",
        ),
        (
            [torch.zeros(5, 3), torch.zeros(5)],
            r"holder B's features must be \(N, 2\), at least one row, got \(5,\)",
        ),
        (
            [torch.zeros(5, 3), torch.full((5, 2), math.nan)],
            "holder B's features must be finite, got 10 of 10 values",
        ),
        (
            [torch.full((5, 3), math.inf), torch.zeros(5, 2)],
            "holder A's features must be finite, got 15 of 15 values",
        ),
        ([torch.zeros(0, 3), torch.zeros(0, 2)], r"at least one row, got \(0, 3\)"),
    ],
)
def test_data_that_does_not_fit_is_refused(parts, message):
    for variant in VARIANTS:
        with pytest.raises(ValueError, match=message):
            simulator(variant, [3, 2], WIDTH).prepare(parts)


def test_a_batch_before_any_data_is_refused():
    with pytest.raises(ValueError, match="holder A has no data yet: prepare comes before"):
        simulator("plain", [3, 2], 1).forward(slice(None), [torch.zeros(3, 1), torch.zeros(2, 1)])


@pytest.mark.parametrize("variant", ["plain", "masked", "he", "lean", "published", "dealerless"])
def test_rows_that_are_not_there_are_refused_before_anything_is_sent(variant):
    protocol, _, thetas = made(variant, n=10)
    sent = len(protocol.transcript.messages)
    for rows in (
        torch.tensor([0, 10]),
        [-1],
        [],
        torch.ones(10) > 0,
        torch.ones(2),
        slice(0, 0),
        7,
    ):
        for ask in (lambda rows: protocol.forward(rows, thetas), protocol.deal):
            with pytest.raises(ValueError, match="rows must be 0 to 9, at least one, got "):
                ask(rows)
    assert len(protocol.transcript.messages) == sent


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_theta_that_is_not_finite_is_named_with_its_holder(variant):
    protocol, _, thetas = made(variant, n=4)
    for bad in (math.nan, math.inf):
        with pytest.raises(
            ValueError, match="theta of holder B is not finite: has the training diverged"
        ):
            protocol.forward(slice(None), [thetas[0], torch.full_like(thetas[1], bad)])


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # Python 3.12 on
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_forked_process_uses_no_mask_and_no_share_that_its_parent_uses(variant, ahead):
    """The same step in parent and child, one weight apart: their messages under one mask would
    differ by X (theta_t - theta_s)."""
    protocol = simulator(variant, [1, 1], 1, dtype=torch.float64)
    protocol.prepare([torch.ones(3, 1), torch.ones(3, 1)])
    if ahead:
        protocol.deal(slice(None))

    def step(weight):
        before = len(protocol.transcript.messages)
        protocol.forward(slice(None), [torch.tensor([[weight]], dtype=torch.float64)] * 2)
        sent = [message.payload for message in protocol.transcript.messages[before:]]
        return b"".join(
            part if isinstance(part, bytes) else part.contiguous().numpy().tobytes()
            for part in sent
        )

    in_child, in_parent = in_a_fork(lambda: step(2.0)), step(1.0)
    if variant == "plain":  # has nothing to lose
        assert len(in_child) == len(in_parent) == 48
    else:
        assert in_child == b"RuntimeError"
