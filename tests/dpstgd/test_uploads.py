import math

import numpy as np
import pytest
import torch
from scipy import stats

from ppkit.dpstgd.uploads import DPSGD, DPSTGD, PlainSGD
from ppkit.gradients import clipped_sum, mean_clipped, mean_plain
from ppkit.mechanisms import SELECTIONS
from ppkit.models import mlp

SIZES = (6, 5, 2)  # 47 parameters


def network(seed=0, dtype=torch.float64, **settings):
    return mlp(SIZES, rng=torch.Generator().manual_seed(seed), dtype=dtype, **settings)


def banks(n_participants=3, n_rows=40, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            rng.normal(size=(n_rows, SIZES[0])).astype(dtype),
            rng.integers(0, 2, n_rows).astype(np.int8),
        )
        for _ in range(n_participants)
    ]


def problem(n_records=40, dtype=torch.float64):
    rng = torch.Generator().manual_seed(0)
    model = mlp((12, 8, 2), rng=rng, dtype=dtype)
    X = torch.randn(n_records, 12, generator=rng, dtype=dtype)
    return model, X, torch.randint(0, 2, (n_records,), generator=rng)


@pytest.mark.slow
@pytest.mark.parametrize("selection", ["gumbel", "laplace", "laplace_true_sign"])
@pytest.mark.parametrize("n_uploads", [1, 7, 47])
def test_without_noise_the_upload_is_b_sign_of_the_largest_gradients(selection, n_uploads):
    model, (X, y) = network(), banks(1)[0]
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    # at a bound above every gradient, clipping changes nothing: the plain gradient decides
    upload = DPSTGD(math.inf, n_uploads, 50.0, selection)(
        model, X, y, expected_batch=40, rng=np.random.default_rng(0)
    )
    plain = mean_plain(model, X, y)
    chosen = upload != 0
    assert int(chosen.sum()) == n_uploads
    assert torch.equal(upload[chosen], 50.0 * torch.sign(plain[chosen]))
    left = plain[
        ~chosen
    ].abs()  # the two logits mirror each other: equal sizes up to rounding, hence 1e-12
    assert len(left) == 0 or plain[chosen].abs().min() >= left.max() - 1e-12


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
def test_uploads_are_ternary_with_n_entries(selection):
    model, (X, y) = network(), banks(1)[0]
    upload = DPSTGD(0.5, 9, 0.01, selection)(
        model,
        torch.from_numpy(X),
        torch.from_numpy(y),
        expected_batch=40,
        rng=np.random.default_rng(0),
    )
    assert int((upload != 0).sum()) == 9
    assert set(upload.abs().tolist()) == {0.0, 0.01}


def test_the_realised_sample_size_cancels():
    model, (X, y) = network(), banks(1)[0]
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    upload = DPSTGD(0.5, 9, 0.01)(model, X, y, expected_batch=7.0, rng=np.random.default_rng(3))
    total = 40 * mean_clipped(model, X, y, clip_bound=0.01)
    indices, signs = SELECTIONS["gumbel"](
        total.numpy(), 9, scale=2 * 0.01 / 0.5, rng=np.random.default_rng(3)
    )
    assert np.array_equal(np.flatnonzero(upload), indices)
    assert np.array_equal(np.sign(upload.numpy()[indices]), signs)


@pytest.mark.slow
def test_more_noise_chooses_the_largest_gradient_less_often():
    model, (X, y) = network(), banks(1)[0]
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    largest = int(mean_clipped(model, X, y, clip_bound=1.0).abs().argmax())
    hits = []
    for epsilon in (0.01, 2.0):
        rng = np.random.default_rng(0)
        upload = DPSTGD(epsilon, 1, 1.0)
        hits.append(
            sum(bool(upload(model, X, y, expected_batch=40, rng=rng)[largest]) for _ in range(1000))
        )
    # Scores of a mean in [-1, 1] under Gumbel noise of scale 2 / (40 eps): weights exp(g_j / scale)
    # differ by a factor of at most exp(2 / scale), so the largest is picked with probability at
    # most that factor / 47.
    chance = math.exp(0.01 * 40) / 47
    assert stats.binom.sf(70, 1000, chance) < 1e-6 and hits[0] <= 70 < hits[1]


def test_an_empty_sample_is_answered_by_noise_alone():
    model, (X, y) = network(), banks(1)[0]
    empty = torch.from_numpy(X[:0]), torch.from_numpy(y[:0])
    rng = np.random.default_rng(0)
    uploads = torch.stack(
        [DPSTGD(1.0, 10, 0.5)(model, *empty, expected_batch=1.0, rng=rng) for _ in range(2000)]
    )
    assert torch.equal((uploads != 0).sum(dim=1), torch.full((2000,), 10))
    # each coordinate is chosen with probability 10/47, each sign is fair; union over 47 + 1
    # binomials
    low, high = stats.binom.ppf([5e-9, 1 - 5e-9], 2000, 10 / 47)
    plus_low, plus_high = stats.binom.ppf([5e-9, 1 - 5e-9], 20_000, 0.5)
    assert 48 * (2 * 5e-9) < 1e-6
    counts = (uploads != 0).sum(dim=0)
    assert low <= counts.min() and counts.max() <= high
    assert plus_low <= int((uploads > 0).sum()) <= plus_high
    assert not PlainSGD()(model, *empty, expected_batch=1.0, rng=rng).any()


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_bad_ternary_uploads_are_named(value):
    with pytest.raises(ValueError, match=f"epsilon must be > 0, got {value}"):
        DPSTGD(value, 5, 1.0)
    with pytest.raises(ValueError, match=f"clip_bound must be a finite number > 0, got {value}"):
        DPSTGD(1.0, 5, value)


def test_bad_selections_are_named():
    with pytest.raises(ValueError, match="n_uploads must be a whole number >= 1, got 0"):
        DPSTGD(1.0, 0, 1.0)
    with pytest.raises(ValueError, match=r"selection must be one of gumbel, .* got 'cauchy'"):
        DPSTGD(1.0, 5, 1.0, "cauchy")


def test_without_noise_and_bound_it_is_plain_sgd():
    model, X, y = problem()
    upload = DPSGD(0.0, math.inf)(model, X, y, expected_batch=40, rng=np.random.default_rng(0))
    assert (upload - mean_plain(model, X, y)).abs().max() < 1e-12


@pytest.mark.parametrize("n_records", [0, 40])
def test_the_noise_has_the_stated_spread_and_leaves_an_empty_sample_too(n_records):
    model, X, y = problem(n_records)
    upload = DPSGD(2.0, 0.5)(model, X, y, expected_batch=10.0, rng=np.random.default_rng(1))
    signal = clipped_sum(model, X, y, max_grad_norm=0.5) if n_records else 0.0
    noise = (upload * 10.0 - signal).numpy()
    # sum of (noise / scale)^2 is chi-squared with P degrees of freedom
    low, high = stats.chi2.ppf([2.5e-7, 1 - 2.5e-7], df=noise.size)
    assert stats.chi2.cdf(low, noise.size) + stats.chi2.sf(high, noise.size) < 1e-6
    assert low < ((noise / (2.0 * 0.5)) ** 2).sum() < high


def test_float32_stays_float32_and_its_noise_is_drawn_in_float64():
    model, X, y = problem(0, dtype=torch.float32)
    upload = DPSGD(2.0, 1.0)(model, X, y, expected_batch=1.0, rng=np.random.default_rng(0))
    assert upload.dtype == torch.float32
    drawn = 2.0 * np.random.default_rng(0).standard_normal(len(upload))
    assert np.array_equal(upload.numpy(), drawn.astype(np.float32))


def test_bad_uploads_are_named():
    with pytest.raises(ValueError, match="noise_multiplier must be a finite number >= 0, got -1"):
        DPSGD(-1, 1.0)
    with pytest.raises(ValueError, match="max_grad_norm must be > 0, got 0"):
        DPSGD(1.0, 0)


@pytest.mark.parametrize("value", [0, -3, math.nan, math.inf, "40", None])
def test_an_upload_is_divided_by_a_finite_positive_size_only(value):
    """Before: 0 and nan gave an upload of NaN, -3 one of the wrong sign."""
    model, X, y = problem()
    with pytest.raises(ValueError, match=f"^expected_batch must be .* > 0, got {value!r}$"):
        DPSGD(1.0, 1.0)(model, X, y, expected_batch=value, rng=np.random.default_rng(0))


@pytest.mark.parametrize("upload", [DPSGD(1.0, 1.0), DPSTGD(1.0, 3, 0.5), PlainSGD()])
def test_an_empty_sample_has_the_model_s_width_and_no_labels(upload):
    model, X, y = problem()
    for rows, labels, message in [
        (X[:0], y, r"y must be \(0,\) integer classes, got \(40,\)"),
        (X[:0, :11], y[:0], r"X must be \(N, 12\) of torch.float64, got \(0, 11\)"),
        (X[:0].float(), y[:0], r"X must be \(N, 12\) of torch.float64, got \(0, 12\)"),
        (X[:0], y[:0].double(), "y must be .* of torch.float64"),
    ]:
        with pytest.raises(ValueError, match=message):
            upload(model, rows, labels, expected_batch=40, rng=np.random.default_rng(0))
