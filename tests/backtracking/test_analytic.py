"""One record out of a gradient: exact on random nets, and every refusal for a reason found again
here."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from torch import nn

from ppkit.backtracking.analytic import (
    first_layer,
    from_adam_step,
    from_snapshots,
    reconstruct,
    shared_gradient,
)
from ppkit.models import classification_loss, mlp

ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


def first_delta(model, kind, x, y):
    """Oracle: back-propagation by hand in numpy; dL/dz of the first layer, and the factors that it
    is a product of."""
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    a, slopes = x, []
    for k, layer in enumerate(linear):
        z = layer.weight.detach().numpy() @ a + (
            0 if layer.bias is None else layer.bias.detach().numpy()
        )
        if k < len(linear) - 1:
            a = {"relu": np.maximum(z, 0), "sigmoid": expit(z), "tanh": np.tanh(z)}[kind]
            slopes.append({"relu": (z > 0) * 1.0, "sigmoid": a * (1 - a), "tanh": 1 - a * a}[kind])
    delta = expit(z) - y if len(z) == 1 else softmax(z) - np.eye(len(z))[y]
    factors = [delta, *slopes]
    for layer, slope in zip(linear[:0:-1], slopes[::-1]):
        delta = (layer.weight.detach().numpy().T @ delta) * slope
    return delta, factors


def random_net(rng):
    """Widths 1..40, 0 to 4 hidden layers, three activations, weights and rows of sizes 1e-6 to 1e6,
    some without bias."""
    kind = str(rng.choice(list(ACTIVATIONS)))
    sizes = [int(v) for v in rng.integers(1, 41, size=rng.integers(0, 5) + 1)] + [
        int(rng.integers(1, 6))
    ]
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    model = mlp(sizes, rng=generator, dtype=torch.float64)
    for k in range(1, len(model), 2):
        model[k] = ACTIVATIONS[kind]()
    scale = 10.0 ** rng.uniform(-6, 6, size=2) if rng.random() < 0.7 else np.ones(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= scale[0]
    if rng.random() < 0.05:
        model[0].bias = None
    x = scale[1] * rng.standard_normal(sizes[0])
    return model, kind, x, int(rng.integers(max(2, sizes[-1])))


@pytest.mark.slow
def test_a_thousand_random_nets_and_the_cause_of_every_refusal():
    rng = np.random.default_rng(0)
    recovered = refused = 0
    causes = set()
    for _ in range(1000):
        model, kind, x, y = random_net(rng)
        X, label = torch.tensor(x[None]), torch.tensor([y])
        if model[0].bias is None:
            with pytest.raises(ValueError, match="the weight and the bias of its first layer"):
                shared_gradient(model, X, label)
            causes.add("no bias")
            continue
        dW, db, *_ = shared_gradient(model, X, label)
        found = reconstruct(dW, db)
        delta, factors = first_delta(model, kind, x, y)
        loud = np.abs(delta).max() > 1e-12
        if found.row is None:
            assert not loud and found.confidence is None
            dead = any(not factor.any() for factor in factors)
            small = math.prod(float(np.abs(factor).max()) for factor in factors) < 1e-12
            assert "0 or too small for its digits" in found.why
            assert dead or small
            causes.add("dead" if dead else "small")
        elif loud:
            good = np.linalg.norm(found.row - x) <= 1e-6 * np.linalg.norm(x)
            recovered, refused = recovered + good, refused + (not good)
            assert found.confidence is None or found.confidence > 1 - 1e-9
    assert recovered + refused > 500 and recovered >= 0.95 * (recovered + refused)
    assert {"no bias", "dead"} <= causes


def test_the_row_is_the_least_squares_one():
    rng = np.random.default_rng(1)
    dW, db = rng.standard_normal((7, 4)), rng.standard_normal(7)
    expected, left, *_ = np.linalg.lstsq(db[:, None], dW, rcond=None)
    found = reconstruct(dW, db)
    np.testing.assert_allclose(found.row, expected[0], rtol=1e-12)
    assert found.confidence == pytest.approx(1 - left.sum() / (dW**2).sum(), rel=1e-12)
    assert "several records, noise, or clipping" in found.why
    by_neuron = np.average(dW / db[:, None], axis=0, weights=db**2)
    np.testing.assert_allclose(found.row, by_neuron, rtol=1e-12)


def test_each_thing_that_cannot_be_recovered_is_said():
    for dW, db in ((np.zeros((3, 2)), np.zeros(3)), ([[1.0, 2.0]], [0.0]), ([[1e-309]], [4e-310])):
        found = reconstruct(dW, db)
        assert found.row is None and "the bias gradient is 0 or too small" in found.why
    assert reconstruct([[1e-38]], [1e-38]).row == [1.0]
    assert (
        reconstruct([[0.0, 0.0], [0.0, 0.0]], [1.0, 2.0]).confidence == 1.0
    )  # a row of zeros is a row


@pytest.mark.parametrize(
    "dtype, limit", [(torch.float16, 1e-2), (torch.float32, 1e-5), (torch.float64, 1e-12)]
)
def test_a_gradient_below_the_normal_numbers_of_its_dtype_has_no_row(dtype, limit):
    """The loss grows flat: the last gradients are a few steps of the smallest number, and all of
    one step would agree on a wrong row."""
    rng = torch.Generator().manual_seed(5)
    x = torch.randn(30, generator=rng, dtype=torch.float64)
    delta = torch.rand(32, generator=rng, dtype=torch.float64) + 0.5
    tiny = torch.finfo(dtype).tiny
    for size in 2.0 ** torch.arange(-14, 4, dtype=torch.float64):
        db = (delta * tiny * size).to(dtype)
        found = reconstruct((delta[:, None] * x * tiny * size).to(dtype), db)
        if db.abs().max() < tiny:
            assert found.row is None and "too small for its digits" in found.why
        else:
            assert np.abs(found.row - x.numpy()).max() < limit


def test_confidence_is_none_where_nothing_can_be_checked():
    rng = torch.Generator().manual_seed(3)
    X = torch.randn(5, 4, generator=rng, dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0, 1])
    for n_logits, word in ((1, "one neuron only"), (2, "mirror each other")):
        for n_records in (1, 5):
            dW, db = shared_gradient(
                mlp((4, n_logits), rng=rng, dtype=torch.float64), X[:n_records], y[:n_records]
            )
            found = reconstruct(dW, db)
            assert found.confidence is None and word in found.why and found.row is not None
    one = reconstruct([[2.0, 4.0], [0.0, 0.0]], [2.0, 0.0])
    assert one.confidence is None and np.array_equal(one.row, [1.0, 2.0])
    assert (
        reconstruct([[2.0, 4.0], [1.0, 0.0]], [2.0, 0.0]).confidence < 1
    )  # a weight gradient without bias gradient


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_l2_clipping_changes_nothing_at_any_clip(dtype, limit):
    rng = torch.Generator().manual_seed(4)
    x = torch.randn(1, 30, generator=rng, dtype=dtype)
    gradient = shared_gradient(mlp((30, 64, 2), rng=rng, dtype=dtype), x, torch.tensor([1]))
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
    for clip in (1e-9, 1e-3, 1.0, 1e3):
        dW, db = (g * min(1.0, clip / norm) for g in gradient[:2])
        found = reconstruct(dW, db)
        assert np.abs(found.row - x[0].numpy()).max() < limit and found.confidence > 1 - 1e-6


def test_element_wise_clipping_disturbs_and_in_the_end_leaves_signs():
    rng = torch.Generator().manual_seed(5)
    x = torch.randn(1, 30, generator=rng, dtype=torch.float64)
    dW, db = shared_gradient(mlp((30, 64, 2), rng=rng, dtype=torch.float64), x, torch.tensor([1]))[
        :2
    ]
    sizes = torch.cat([dW.flatten(), db]).abs()
    sizes = sizes[sizes > 0]
    errors = []
    for share in (0.0, 0.1, 0.5, 0.9):  # of the entries that are clipped
        bound = float(sizes.quantile(1 - share))
        found = reconstruct(dW.clamp(-bound, bound), db.clamp(-bound, bound))
        errors.append(np.median(np.abs(found.row - x[0].numpy())))
    assert errors[0] < 1e-12 < 1e-3 < errors[1] < errors[2] < errors[3]
    bound = 0.9 * float(sizes.min())
    found = reconstruct(dW.clamp(-bound, bound), db.clamp(-bound, bound))
    np.testing.assert_allclose(found.row, np.sign(x[0].numpy()), rtol=1e-12)
    assert found.confidence is None and "only its signs are known" in found.why


ONE_HOT = np.eye(12)[[3]]
PLAIN_ROWS = {
    "one-hot": ONE_HOT,
    "several ones": ONE_HOT + np.eye(12)[[7]] + np.eye(12)[[0]],
    "ones and minus ones": np.where(np.arange(12) % 2, 1.0, -1.0)[None],
    "all ones": np.ones((1, 12)),
    "zeros": np.zeros((1, 12)),
    "constant": np.full((1, 12), 2.5),
    "sparse": 7 * ONE_HOT,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(12, 64, 2), (12, 16, 8, 1), (12, 3)])
@pytest.mark.parametrize("name", PLAIN_ROWS)
def test_a_row_of_zeros_and_ones_is_known_where_its_gradient_is_no_sign(name, sizes, dtype):
    rng = torch.Generator().manual_seed(8)
    X = torch.tensor(PLAIN_ROWS[name], dtype=dtype)
    model = mlp(sizes, rng=rng, dtype=dtype)
    found = reconstruct(*shared_gradient(model, X, torch.tensor([0]))[:2])
    np.testing.assert_allclose(found.row, X[0], atol=1e-5)
    assert found.why == "" and found.confidence > 1 - 1e-6


@pytest.mark.parametrize("n_logits", [1, 2])
def test_one_neuron_cannot_tell_a_one_hot_row_from_a_sign(n_logits):
    """One line +-delta (x, 1): clipped below |delta| any row of the same signs gives the same."""
    model = mlp((12, n_logits), rng=torch.Generator().manual_seed(8), dtype=torch.float64)
    of_one_hot = shared_gradient(model, torch.tensor(ONE_HOT), torch.tensor([0]))
    of_sparse = shared_gradient(model, torch.tensor(7 * ONE_HOT), torch.tensor([0]))
    bound = 0.9 * float(min(g.abs().max() for g in (*of_one_hot, *of_sparse)))
    clipped = [[g.clamp(-bound, bound) for g in grads] for grads in (of_one_hot, of_sparse)]
    assert all(torch.allclose(one, other) for one, other in zip(*clipped))
    for grads in (of_one_hot, *clipped):
        found = reconstruct(*grads)
        assert found.confidence is None and "no second one to check the row by" in found.why
        np.testing.assert_allclose(found.row, ONE_HOT[0], atol=1e-12)


@pytest.mark.parametrize("settings", [{"foreach": True}, {}])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_steps_that_are_signs_are_said_to_be_signs(kind, settings):
    if kind is torch.optim.RMSprop:
        settings = {"alpha": 0.0}
    if kind is torch.optim.AdamW:
        settings = {**settings, "weight_decay": 0.0}
    before, after, x = trained((30, 64, 2), optimiser=kind, n_steps=1, lr=1e-3, **settings)
    found = from_snapshots(before, after)
    assert found.confidence is None and "only its signs are known" in found.why
    np.testing.assert_allclose(found.row, np.sign(x), atol=1e-3)


def trained(sizes, *, optimiser, n_steps, seed=6, dtype=torch.float64, **settings):
    """A net before and after n_steps of an optimiser on one record, and the record."""
    rng = torch.Generator().manual_seed(seed)
    before = mlp(sizes, rng=rng, dtype=dtype)
    x = torch.randn(1, sizes[0], generator=rng, dtype=dtype)
    after = copy.deepcopy(before)
    steps = optimiser(after.parameters(), **settings)
    for _ in range(n_steps):
        steps.zero_grad()
        classification_loss(after(x), torch.tensor([1])).backward()
        steps.step()
    return before, after, x[0].double().numpy()


@pytest.mark.parametrize("sizes", [(30, 1), (30, 64, 2), (30, 16, 8, 2)])
@pytest.mark.parametrize(
    "settings",
    [{"lr": 0.1}, {"lr": 0.003, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.5, "nesterov": True}],
)
@pytest.mark.parametrize("n_steps", [1, 7])
def test_two_snapshots_are_enough_for_any_number_of_steps_of_sgd(sizes, settings, n_steps):
    before, after, x = trained(sizes, optimiser=torch.optim.SGD, n_steps=n_steps, **settings)
    for found in (
        from_snapshots(before, after),
        from_snapshots((before[0].weight, before[0].bias), (after[0].weight, after[0].bias)),
    ):
        np.testing.assert_allclose(found.row, x, rtol=1e-9, atol=1e-10)


def test_snapshots_in_float32_keep_the_digits_of_the_difference():
    before, after, x = trained(
        (30, 64, 2), optimiser=torch.optim.SGD, n_steps=5, lr=0.1, dtype=torch.float32
    )
    found = from_snapshots(before, after)
    assert 1e-9 < np.abs(found.row - x).max() < 1e-4 and found.confidence > 1 - 1e-8


@pytest.mark.parametrize("sizes", [(30, 64, 2), (30, 16, 8, 2), (4, 31, 2)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weight_decay_disturbs_and_is_undone_without_knowing_it(sizes, momentum):
    before, after, x = trained(
        sizes, optimiser=torch.optim.SGD, n_steps=5, lr=0.05, momentum=momentum, weight_decay=0.05
    )
    plain, undone = from_snapshots(before, after), from_snapshots(before, after, decayed=True)
    assert np.linalg.norm(plain.row - x) > 1e-3 * np.linalg.norm(x) and plain.confidence < 1 - 1e-5
    assert (
        np.linalg.norm(undone.row - x) < 1e-9 * np.linalg.norm(x) and undone.confidence > 1 - 1e-12
    )
    still = trained(sizes, optimiser=torch.optim.SGD, n_steps=5, lr=0.05)
    np.testing.assert_allclose(
        from_snapshots(*still[:2], decayed=True).row, still[2], rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adams_first_step_looks_like_signs_and_says_so(dtype):
    before, after, x = trained(
        (30, 64, 2), optimiser=torch.optim.Adam, n_steps=1, lr=1e-3, dtype=dtype
    )
    found = from_snapshots(before, after)
    assert (np.sign(found.row) == np.sign(x)).all() and np.linalg.norm(
        found.row - x
    ) > 0.3 * np.linalg.norm(x)
    assert found.confidence is None and "only its signs are known" in found.why
    assert (
        from_snapshots(*trained((30, 64, 2), optimiser=torch.optim.SGD, n_steps=1, lr=1e-3)[:2]).why
        == ""
    )


def test_adams_first_step_is_undone_in_float64_and_not_in_float32():
    before, after, x = trained((30, 64, 2), optimiser=torch.optim.Adam, n_steps=1, lr=1e-3)
    found = from_adam_step(before, after, lr=1e-3)
    assert np.linalg.norm(found.row - x) < 1e-5 * np.linalg.norm(x) and found.confidence > 1 - 1e-9
    before, after, x = trained(
        (30, 64, 2), optimiser=torch.optim.Adam, n_steps=1, lr=1e-3, dtype=torch.float32
    )
    found = from_adam_step(before, after, lr=1e-3)
    assert np.linalg.norm(found.row - x) > 0.1 * np.linalg.norm(x) and found.confidence < 0.99
    rng = np.random.default_rng(
        7
    )  # gradients as small as eps: the step is no sign, and float32 suffices
    x, delta, W = (
        rng.standard_normal(30),
        1e-8 * rng.standard_normal(64),
        0.1 * rng.standard_normal((64, 31)),
    )
    g = np.outer(delta, np.append(x, 1.0))
    for dtype, limit in ((np.float64, 1e-9), (np.float32, 0.01)):
        old, new = W.astype(dtype), (W - 1e-3 * g / (np.abs(g) + 1e-8)).astype(dtype)
        found = from_adam_step((old[:, :30], old[:, 30]), (new[:, :30], new[:, 30]), lr=1e-3)
        assert np.abs(found.row - x).max() < limit
    with pytest.raises(ValueError, match="lr must be > 0, got 0"):
        from_adam_step(before, after, lr=0)


def plain(*layers):
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(4, 2))


class Scaled(nn.Module):
    """An own module; with `scaled`, a parameter of its own comes before those of its layer."""

    def __init__(self, scaled):
        super().__init__()
        if scaled:
            self.scale = nn.Parameter(torch.ones(1))
        self.layer = nn.Linear(3, 2)

    def forward(self, X):
        return self.layer(X)


@pytest.mark.parametrize(
    "model, said",
    [
        (plain(nn.Linear(3, 4, bias=False)), "its first layer, got 0.weight and 2.weight"),
        (nn.Linear(3, 2, bias=False), "its first layer, got weight"),
        (Scaled(True), "its first layer, got scale and layer.weight"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), "is Linear, got _WeightNorm"),
        (plain(nn.BatchNorm1d(3), nn.Linear(3, 4)), "is Linear, got BatchNorm1d"),
        (plain(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(2, 4)), "is Linear, got Conv1d"),
    ],
)
def test_a_model_that_begins_otherwise_has_no_gradient_to_take_apart(model, said):
    """Batch normalisation refuses a single record by itself: ours speaks first."""
    with pytest.raises(ValueError, match="the attack needs a model whose first .*" + said):
        shared_gradient(model, torch.ones(1, 3), torch.tensor([1]))


@pytest.mark.parametrize(
    "make", [lambda: Scaled(False), lambda: plain(nn.Flatten(), nn.Linear(3, 4))]
)
def test_an_own_module_and_layers_without_parameters_are_taken(make):
    X = torch.tensor([[1.0, 2.0, 4.0]])
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of this seed some neuron is on
        model = make()
    found = reconstruct(*shared_gradient(model, X, torch.tensor([1]))[:2])
    np.testing.assert_allclose(found.row, X[0], rtol=1e-5)


def first_layers():
    """Every layer of torch.nn that is made without arguments or with a few sizes."""
    sizes = {"GroupNorm": (1, 3), "Threshold": (0.1, 0), "Unflatten": (1, (1, 3)), "Fold": (3, 1)}
    for kind in dir(nn):
        layer = getattr(nn, kind)
        if not (isinstance(layer, type) and issubclass(layer, nn.Module)) or "Loss" in kind:
            continue
        for arguments in (sizes.get(kind, ()), (3,), (3, 3), (3, 3, 1), (3, 1, 1), (2, 3, 4, 5)):
            try:
                yield kind, layer(*arguments)
                break
            except (TypeError, ValueError, AssertionError):
                pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's about layers of odd sizes
def test_whatever_layer_comes_first_is_taken_or_named_in_a_line():
    refused = set()
    for kind, layer in first_layers():
        model = nn.Sequential(layer, nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        try:
            shared_gradient(model, torch.ones(1, 3), torch.tensor([1]))
        except ValueError as error:
            refused.add(kind)
            assert "first layer" in str(error) and "\n" not in str(error), kind
            assert len(str(error)) < 300
    assert {"Conv1d", "LSTM", "Embedding", "BatchNorm1d", "LayerNorm", "Dropout"} <= refused
    assert not refused & {"Flatten", "Identity", "Linear"}


def test_a_single_record_under_batch_normalisation_in_evaluation_comes_back():
    X = torch.tensor([[1.0, 2.0, 4.0]])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    found = reconstruct(*shared_gradient(model.eval(), X, torch.tensor([1]))[:2])
    np.testing.assert_allclose(found.row, X[0], rtol=1e-4)


@pytest.mark.parametrize("n_logits, y", [(1, [0.3, 2.5]), (1, [0.0, 1.0]), (2, [0.5, 0.5])])
def test_a_target_that_is_no_class_is_refused(n_logits, y):
    """One logit and float targets would pass torch in silence, as binary cross-entropy."""
    with pytest.raises(ValueError, match="y must be integer class labels, got a tensor of torch.f"):
        shared_gradient(nn.Linear(3, n_logits), torch.ones(2, 3), torch.tensor(y))
    for kind in (torch.int8, torch.int64, torch.bool):
        assert shared_gradient(nn.Linear(3, n_logits), torch.ones(2, 3), torch.ones(2).to(kind))


def test_bad_input_is_named():
    for dW, db, shapes in (
        (np.ones((2, 3)), np.ones(3), r"\(2, 3\) and \(3,\)"),
        (np.ones(3), 1.0, r"\(3,\) and \(\)"),
    ):
        with pytest.raises(
            ValueError, match=r"weight must be \(H, F\) and bias \(H,\), got " + shapes
        ):
            reconstruct(dW, db)
    with pytest.raises(ValueError, match="bias must be finite, got 1 of 2 values that are NaN"):
        reconstruct(np.ones((2, 3)), [1.0, math.nan])
    with pytest.raises(ValueError, match="X must be finite, got 1 of [0-9]+ values that are NaN"):
        shared_gradient(nn.Linear(3, 2), torch.tensor([[1.0, math.nan, 0.0]]), torch.tensor([1]))
    convolution = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="a model whose first layer is Linear, got Conv1d"):
        from_snapshots(convolution, convolution)
    with pytest.raises(ValueError, match="a model whose first layer is Linear, got ReLU"):
        first_layer(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    with pytest.raises(ValueError, match="a model whose first layer is Linear, got no layer"):
        first_layer(nn.Sequential(nn.Flatten()))
    assert first_layer(nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(3, 2)))).in_features == 3
    with pytest.raises(
        ValueError, match="weight decay is told apart from 3 neurons and 2 features on, got 2 and 3"
    ):
        from_snapshots(nn.Linear(3, 2), nn.Linear(3, 2), decayed=True)
