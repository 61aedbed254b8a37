"""Masks: they cancel, each is given once, and what happens otherwise."""

import pytest
import torch
from spnn_parties import HOLDERS, made
from transcripts import seen_by
from uniform_bytes import unusual_bytes

from ppkit.spnn.fixed_point import encode
from ppkit.spnn.masked import MaskReused, PairMasks
from ppkit.spnn.randomness import Stream


def masks_of(k, *, seed=0):
    seeds = [{} for _ in range(k)]
    for i in range(k):
        for j in range(i + 1, k):
            key = Stream.seeded_for_teaching(1000 * seed + 10 * i + j).key
            seeds[i][j], seeds[j][i] = Stream(key), Stream(key)
    return [PairMasks(i, seeds[i]) for i in range(k)]


@pytest.mark.parametrize("k", [2, 3, 5])
def test_masks_cancel_and_any_k_minus_1_of_them_do_not(k):
    drawn = [masks.mask((500, 81)) for masks in masks_of(k)]
    assert not sum(drawn).any()
    for left_out in range(k):
        rest = sum(mask for i, mask in enumerate(drawn) if i != left_out)
        assert unusual_bytes(rest.T[:80].contiguous().view(-1).view(torch.int64)) == 0


def test_no_word_of_a_mask_comes_twice():
    """Else the difference of two records would be in the clear. 64 bits a word:
    chance 40,000^2 / 2^65 = 5e-11."""
    mask = masks_of(2)[0].mask((500, 80))
    words = mask.T.contiguous().view(-1).view(torch.int64)
    assert len(words.unique()) == len(words)


def test_masks_go_from_step_to_step_and_on_from_a_noted_one():
    counted, again, late = (masks_of(2)[0] for _ in range(3))
    assert counted.position == 0
    drawn = [counted.mask((3, 2)) for _ in range(3)]
    assert counted.position == 3 and not torch.equal(drawn[0], drawn[1])
    assert all(torch.equal(again.mask((3, 2)), mask) for mask in drawn)
    late.seek(3)
    assert late.position == 3 and torch.equal(late.mask((3, 2)), counted.mask((3, 2)))


def test_masks_of_a_spent_step_are_not_given_again():
    masks = masks_of(2)[0]
    masks.seek(3)
    with pytest.raises(MaskReused, match="masks go forward only: step 3 is spent, got 2"):
        masks.seek(2)
    masks.seek(3)
    masks.mask((2, 2))
    with pytest.raises(MaskReused, match="step 4 is spent, got 3"):
        masks.seek(3)


def test_a_long_training_leaves_no_list_of_steps():
    seed = Stream.seeded_for_teaching(1)
    masks, before = PairMasks(0, {1: seed}), {n: repr(v) for n, v in vars(seed).items()}
    for _ in range(20):
        masks.mask((2, 2))
    assert {name: repr(value) for name, value in vars(seed).items()} == before


def test_a_batch_that_is_refused_spends_no_mask():
    protocol, parts, thetas = made("masked")
    with pytest.raises(ValueError, match="holder B reaches"):
        protocol.forward(slice(None), [thetas[0], thetas[1] + 2.0**26])
    assert [holder.masks.position for holder in protocol.holders] == [0, 0]
    plain = sum(part @ theta for part, theta in zip(parts, thetas))
    assert torch.allclose(protocol.forward(slice(None), thetas), plain, rtol=0, atol=1e-4)


def test_a_reused_mask_gives_away_what_changed():
    """The same seeds and step twice: words_t - words_s = round(X_A theta_t) - round(X_A theta_s),
    exactly."""
    words = []
    for change in (0, 0.01):
        # one seed: what a protocol without fresh masks amounts to
        protocol, parts, thetas = made("masked", n=150)
        protocol.forward(slice(None), [theta + change for theta in thetas])
        words.append(seen_by(protocol.transcript, "server")[0].payload.long())
    change = encode(parts[0] @ (thetas[0] + 0.01)) - encode(parts[0] @ thetas[0])
    assert torch.equal((words[1] - words[0]).to(torch.int32).long(), change)


def test_rounding_comes_before_masking():
    """A whole mask on an unrounded number leaves its fraction in the clear, and the fraction tells
    which row it was."""
    protocol, parts, thetas = made("masked", n=150)
    scaled = parts[0] @ thetas[0] * 2**16
    leaky = scaled + masks_of(2)[0].mask(tuple(scaled.shape))
    fractions = leaky - leaky.floor()
    known = scaled - scaled.floor()
    assert float((fractions - known).abs().max()) < 1e-5
    row = 17  # who has a list of candidate rows finds the one behind a word
    assert int((known - fractions[row]).abs().sum(dim=1).argmin()) == row
    protocol.forward(slice(None), thetas)
    sent = seen_by(protocol.transcript, "server")[0].payload
    assert sent.dtype == torch.int32
    mask = made("masked", n=150)[0].holders[0].masks.mask(tuple(sent.shape))
    assert torch.equal((sent - mask).long(), encode(parts[0] @ thetas[0]))


def test_the_server_gets_exactly_the_sum_of_the_rounded_parts():
    for k in HOLDERS:
        protocol, parts, thetas = made("masked", k)
        wanted = sum(encode(part @ theta) for part, theta in zip(parts, thetas)).double() / 2**16
        assert torch.equal(protocol.forward(slice(None), thetas), wanted)
