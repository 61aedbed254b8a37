import copy
import math

import pytest
import torch
from scipy import stats
from torch import nn

from ppkit.dpsgd import DPOptimizer, fixed_batch, fixed_batches
from ppkit.gradients import capture, group_norms
from ppkit.models import classification_loss, mlp

MODELS = {
    "relu net": lambda rng: mlp((30, 24, 6, 3), rng=rng, dtype=torch.float64),
    "logistic regression": lambda rng: mlp((30, 1), rng=rng, dtype=torch.float64),
    "two logits": lambda rng: mlp((30, 2), rng=rng, dtype=torch.float64),
}
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.3),
    "momentum": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


def problem(name="relu net", n_records=24, seed=0):
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = MODELS[name](rng)
    X = torch.randn(n_records, 30, generator=rng, dtype=torch.float64)
    return model, X, torch.randint(0, 2, (n_records,), generator=rng)


def defend(model, *, optimizer="SGD", l2_norm_clip=1.0, noise_multiplier=0.0, rng=None, **settings):
    return DPOptimizer(
        OPTIMIZERS[optimizer](model.parameters()),
        l2_norm_clip=l2_norm_clip,
        noise_multiplier=noise_multiplier,
        rng=rng or torch.Generator().manual_seed(5),
        **settings,
    )


def flat(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def microbatch_gradients(model, X, y, size, loss=classification_loss):
    """Oracle: one backward pass of autograd per microbatch; (M, P)."""
    rows = []
    for at in range(0, len(X), size):
        grads = torch.autograd.grad(
            loss(model(X[at : at + size]), y[at : at + size]), list(model.parameters())
        )
        rows.append(torch.cat([g.flatten() for g in grads]))
    return torch.stack(rows)


def clipped(rows, bound):
    return rows * (bound / rows.norm(dim=1)).clamp(max=1)[:, None]


@pytest.mark.parametrize("num_microbatches", [None, 6, 1])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["relu net", "logistic regression"])
def test_without_noise_and_bound_it_is_the_plain_optimizer(name, optimizer, num_microbatches):
    model, X, y = problem(name)
    plain = copy.deepcopy(model)
    ours, theirs = (
        defend(
            model, optimizer=optimizer, l2_norm_clip=math.inf, num_microbatches=num_microbatches
        ),
        OPTIMIZERS[optimizer](plain.parameters()),
    )
    for _ in range(20):
        ours.step(model, X, y)
        theirs.zero_grad()
        classification_loss(plain(X), y).backward()
        theirs.step()
    moved = [(p - q).abs().max() for p, q in zip(model.parameters(), problem(name)[0].parameters())]
    assert min(moved) > 1e-4
    assert max((p - q).abs().max() for p, q in zip(model.parameters(), plain.parameters())) < 1e-12


@pytest.mark.parametrize("num_microbatches", [None, 24, 12, 8, 6, 4, 3, 2, 1])
@pytest.mark.parametrize("name", MODELS)
def test_the_clipped_average_equals_the_oracle_for_every_microbatch_size(name, num_microbatches):
    model, X, y = problem(name)
    size = 24 // (num_microbatches or 24)
    rows = microbatch_gradients(model, X, y, size)
    bound = float(rows.norm(dim=1).median()) if len(rows) > 1 else float(rows.norm()) / 3
    defend(model, l2_norm_clip=bound, num_microbatches=num_microbatches).backward(model, X, y)
    expected = clipped(rows, bound).mean(dim=0)
    assert (expected - rows.mean(dim=0)).norm() > 1e-3 * expected.norm()
    torch.testing.assert_close(flat(model), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 24])
def test_the_norms_of_groups_equal_the_oracle_by_either_way(size):
    model, X, y = problem()
    ways = {
        size * (a.shape[1] + delta.shape[1]) < a.shape[1] * delta.shape[1]
        for a, delta in capture(model, X, y)
    }
    assert len(ways) == (
        1 if size in (1, 24) else 2
    )  # 30-24-6-3: in between, layers differ in what is cheaper
    torch.testing.assert_close(
        group_norms(capture(model, X, y), size),
        microbatch_gradients(model, X, y, size).norm(dim=1),
        rtol=1e-12,
        atol=0,
    )


def test_float32_norms_hold_where_the_records_of_a_microbatch_nearly_cancel():
    rng = torch.Generator().manual_seed(0)
    model = mlp(
        (30, 24), rng=rng, start="zero"
    )  # the same p for every record, so the gradient is linear in X
    X = 1e4 * torch.randn(20, 30, generator=rng).repeat_interleave(2, dim=0)
    X[::2] *= -1.0001
    y = torch.randint(0, 24, (20,), generator=rng).repeat_interleave(2)
    assert 2 * (30 + 24) < 30 * 24  # by inner products
    exact = copy.deepcopy(model).double()
    expected = microbatch_gradients(exact, X.double(), y, 2).norm(dim=1)
    single = group_norms(capture(exact, X.double(), y)).view(20, 2).amax(dim=1)
    assert (expected < 1e-3 * single).all()
    off = (group_norms(capture(model, X, y), 2) - expected).abs()
    assert (off < 1e-6 * single).all()


def first_moved(model, X, y, size, record, label):
    """Sum over microbatches of size `size` (clip .5, no noise) with record 0 put in, or with its
    gradient zero (None)."""
    X, y = X.clone(), y.clone()
    X[0], y[0] = record, label
    defend(model, l2_norm_clip=0.5, num_microbatches=24 // size).backward(model, X, y)
    return flat(model) * (24 // size)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_replacing_one_record_moves_a_microbatch_from_one_end_of_the_ball_to_the_other(size):
    model, X, y = problem("logistic regression")
    model.load_state_dict({name: torch.zeros_like(p) for name, p in model.named_parameters()})
    huge = torch.full((30,), 1e6, dtype=torch.float64)
    moved = first_moved(model, X, y, size, huge, 1) - first_moved(model, X, y, size, huge, 0)
    assert float(moved.norm()) == pytest.approx(2 * 0.5, rel=1e-4)
    assert float(moved.norm()) <= 2 * 0.5 * (1 + 1e-12)


@pytest.mark.parametrize("size, most", [(1, 0.5), (2, 1.0)])
def test_a_record_that_leaves_moves_its_clip_alone_and_twice_the_clip_in_a_microbatch(size, most):
    model, X, y = problem("logistic regression")
    model.load_state_dict({name: torch.zeros_like(p) for name, p in model.named_parameters()})
    huge = torch.full((30,), 1e6, dtype=torch.float64)
    with torch.no_grad():
        model[0].weight.fill_(
            25e-6
        )  # a logit of 750 for `huge`: with label 1 its gradient is 0, as if it had left
    X[1], y[1] = -huge / 1e3, 0  # its neighbour pulls the other way, by less than a thousandth
    moved = first_moved(model, X, y, size, huge, 0) - first_moved(model, X, y, size, huge, 1)
    assert float(moved.norm()) == pytest.approx(most, rel=1e-4)
    assert float(moved.norm()) <= most * (1 + 1e-12)


@pytest.mark.parametrize(
    "name, settings, divisor",
    [
        ("relu net", {}, 24),
        ("relu net", {"num_microbatches": 6}, 6),
        ("logistic regression", {"num_microbatches": 8}, 8),
    ],
)
def test_the_noise_has_the_stated_spread_and_is_fresh_at_every_step(name, settings, divisor):
    model, X, y = problem(name)
    defend(model, l2_norm_clip=0.5, **settings).backward(model, X, y)
    signal = flat(model)
    noisy = defend(model, l2_norm_clip=0.5, noise_multiplier=3.0, **settings)
    draws = []
    for _ in range(40):
        noisy.backward(model, X, y)
        draws.append((flat(model) - signal) * divisor / (3.0 * 0.5))
    noise = torch.stack(draws)
    # 40 P squares of standard normals; the correlations of successive steps add up to a normal of
    # variance 39 P
    n = noise.numel()
    low, high = stats.chi2.ppf([1e-7, 1 - 1e-7], df=n)
    assert stats.chi2.cdf(low, n) + stats.chi2.sf(high, n) < 3e-7
    assert low < float(noise.square().sum()) < high
    successive = float((noise[1:] * noise[:-1]).sum()) / math.sqrt(noise[1:].numel())
    assert 2 * stats.norm.sf(6) < 1e-8 and abs(successive) < 6
    assert abs(float(noise.sum())) / math.sqrt(n) < 6


def test_gradients_that_were_kept_stay_and_a_schedule_works():
    model, X, y = problem()
    defended = defend(model, noise_multiplier=1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(defended.optimizer, gamma=0.5)
    defended.step(model, X, y)
    kept, value = model[0].weight.grad, model[0].weight.grad.clone()
    schedule.step()
    before = model[0].weight.detach().clone()
    defended.step(model, X, y)
    assert torch.equal(kept, value) and not torch.equal(model[0].weight.grad, value)
    torch.testing.assert_close(before - model[0].weight, 0.15 * model[0].weight.grad)


def test_labels_of_one_logit_are_the_binary_cross_entropy():
    one, two = (
        mlp((30, 1), rng=torch.Generator(), start="zero", dtype=torch.float64),
        problem("two logits")[0],
    )
    with torch.no_grad():
        one[0].weight.copy_(two[0].weight[1:] - two[0].weight[:1])
        one[0].bias.copy_(two[0].bias[1:] - two[0].bias[:1])
    _, X, y = problem()
    torch.testing.assert_close(
        classification_loss(one(X), y), classification_loss(two(X), y), rtol=1e-12, atol=0
    )
    torch.testing.assert_close(
        capture(one, X, y)[0].delta, capture(two, X, y)[0].delta[:, 1:], rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"l2_norm_clip": 0.0}, "l2_norm_clip must be > 0, got 0.0"),
        ({"l2_norm_clip": math.nan}, "l2_norm_clip must be > 0, got nan"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must be a finite number >= 0, got -1.0"),
        ({"noise_multiplier": math.inf}, "noise_multiplier must be a finite number >= 0, got inf"),
        (
            {"l2_norm_clip": math.inf, "noise_multiplier": 1.0},
            "noise needs a finite l2_norm_clip to be measured by, got inf",
        ),
        ({"num_microbatches": 0}, "num_microbatches must be a whole number >= 1, got 0"),
        ({"num_microbatches": 2.5}, "num_microbatches must be a whole number >= 1, got 2.5"),
    ],
)
def test_bad_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        defend(problem()[0], **change)


def poisoned(X, y):
    X[5, 2] = math.nan
    return X, y


@pytest.mark.parametrize(
    "name, settings, change, message",
    [
        (
            "relu net",
            {"num_microbatches": 7},
            lambda X, y: (X, y),
            "num_microbatches must divide the batch of 24 records, got 7",
        ),
        (
            "relu net",
            {"num_microbatches": 48},
            lambda X, y: (X, y),
            "num_microbatches must divide the batch of 24 records, got 48",
        ),
        ("relu net", {}, lambda X, y: (X[:0], y[:0]), "the batch is empty: X has 0 records"),
        (
            "relu net",
            {},
            poisoned,
            "X must be finite, got 1 of 720 values that are NaN or infinite",
        ),
        (
            "relu net",
            {},
            lambda X, y: (X * 1e200, y),
            "the gradient of 24 of 24 microbatches is NaN, infinite or too large",
        ),
        ("relu net", {}, lambda X, y: (X, y + 2), "labels must be 0..2, got 3"),
        ("logistic regression", {}, lambda X, y: (X, y + 1), "labels must be 0..1, got 2"),
    ],
)
def test_bad_batches_are_named_and_change_nothing(name, settings, change, message):
    model, X, y = problem(name)
    before = copy.deepcopy(model)
    rng = torch.Generator().manual_seed(4)
    defended = defend(model, noise_multiplier=1.0, rng=rng, **settings)
    with pytest.raises(ValueError, match=message):
        defended.step(model, *change(X, y))
    assert all(
        torch.equal(p, q) and p.grad is None
        for p, q in zip(model.parameters(), before.parameters())
    )
    assert torch.equal(rng.get_state(), torch.Generator().manual_seed(4).get_state())


def test_a_frozen_parameter_is_refused_and_stays():
    model, X, y = problem()
    model[0].weight.requires_grad_(False)
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match="0.weight of the model is frozen"):
        defend(model, noise_multiplier=1.0).step(model, X, y)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before.parameters()))


def test_models_that_do_not_fit_are_named():
    model, X, y = problem()
    with pytest.raises(ValueError, match="must hold the parameters of the model, and no others"):
        defend(model).step(copy.deepcopy(model), X, y)
    with pytest.raises(ValueError, match="must hold the parameters of the model, and no others"):
        defend(model[-1:]).step(model, X, y)
    normed = nn.Sequential(nn.Linear(30, 3), nn.BatchNorm1d(3)).double()
    with pytest.raises(ValueError, match="model must be an nn.Sequential of Linear"):
        defend(normed).step(normed, X, y)
    layer = nn.Linear(30, 30).double()
    with pytest.raises(ValueError, match="no layer twice"):
        defend(twice := nn.Sequential(layer, nn.ReLU(), layer)).step(twice, X, y)


def test_noise_of_float32_models_is_drawn_in_float64_and_rounded():
    """A float32 normal of torch ends at 5.77 standard deviations, a float64 one at 8.57."""
    model = mlp((30, 24, 6, 3), rng=torch.Generator().manual_seed(0))
    X, y = torch.zeros(24, 30), torch.zeros(24, dtype=torch.int64)
    defend(model).backward(model, X, y)
    signal = flat(model)
    defend(model, noise_multiplier=1e6).backward(model, X, y)
    drawn = torch.empty(len(signal), dtype=torch.float64).normal_(
        generator=torch.Generator().manual_seed(5)
    )
    wanted = (signal.double() + drawn * 1e6 / 24).float()
    assert flat(model).dtype == torch.float32
    assert torch.equal(flat(model), wanted)
    assert math.sqrt(2 * 24 * math.log(2)) == pytest.approx(5.77, abs=0.01)  # by Box and Muller
    assert math.sqrt(2 * 53 * math.log(2)) == pytest.approx(8.57, abs=0.01)


def test_batches_of_many_steps_are_those_of_one_step_after_the_other_in_one_piece():
    kept = fixed_batches(50, batch_size=6, n_steps=9, rng=torch.Generator().manual_seed(3))
    rng = torch.Generator().manual_seed(3)
    assert torch.equal(kept, torch.stack([fixed_batch(50, batch_size=6, rng=rng) for _ in kept]))
    assert kept.untyped_storage().nbytes() == 9 * 6 * 8
    with pytest.raises(ValueError, match="n_steps must be a whole number >= 1, got 0"):
        fixed_batches(50, batch_size=6, n_steps=0, rng=rng)
    with pytest.raises(ValueError, match="batch_size"):
        fixed_batches(50, batch_size=51, n_steps=2, rng=rng)


def test_fixed_batches_take_no_row_twice_and_each_row_alike():
    rng = torch.Generator().manual_seed(2)
    draws = torch.stack([fixed_batch(20, batch_size=7, rng=rng) for _ in range(2000)])
    assert all(len(row.unique()) == 7 for row in draws)
    low, high = stats.binom.ppf([1e-9, 1 - 1e-9], 2000, 7 / 20)
    assert all(low <= count <= high for count in draws.flatten().bincount(minlength=20))
    first = draws[:, 0].bincount(
        minlength=20
    )  # the order is random too: microbatches are cut from it
    assert all(
        stats.binom.ppf(1e-9, 2000, 1 / 20) <= count <= stats.binom.isf(1e-9, 2000, 1 / 20)
        for count in first
    )


def test_a_whole_number_may_be_a_float():
    draw = lambda n, size: fixed_batch(n, batch_size=size, rng=torch.Generator().manual_seed(1))
    assert torch.equal(draw(20.0, 7.0), draw(20, 7))


@pytest.mark.parametrize(
    "size, message",
    [
        (0, "batch_size must be a whole number >= 1, got 0"),
        (2.5, "batch_size must be a whole number >= 1, got 2.5"),
        (11, "batch_size must be a whole number from 1 to n_records 10, got 11"),
    ],
)
def test_a_batch_that_cannot_be_drawn_is_refused(size, message):
    with pytest.raises(ValueError, match=message):
        fixed_batch(10, batch_size=size, rng=torch.Generator())
