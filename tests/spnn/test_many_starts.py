"""Many starts at once are each start by itself, by the plain loop of `training`; what is held in
fixed point is a multiple of 2^-16, and moves nothing else."""

import pytest
import torch

from ppkit import evaluation
from ppkit.spnn import many_starts, rivals, training

NAMES = (
    *(f"Company = {i}" for i in range(4)),
    "x1",
    "x2",
    "x3",
    *(f"x80 = {i}" for i in range(3)),
    "x4",
)
HOLDERS = [6, 5]  # the second has x3, the codes of x80 and x4


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(n, seed):
    """(parts, y) of a small table with two coded columns."""
    source = rng(seed)
    numbers = torch.randn(n, 4, generator=source)
    company, x80 = (torch.randint(k, (n,), generator=source) for k in (4, 3))
    hot = lambda code, k: torch.nn.functional.one_hot(code, k).float()
    X = torch.cat([hot(company, 4), numbers[:, :3], hot(x80, 3), numbers[:, 3:]], dim=1)
    y = (numbers[:, 0] + company + 0.5 * torch.randn(n, generator=source) > 2).long()
    return list(X.split(HOLDERS, dim=1)), y


def coded(parts):
    names = [NAMES[: HOLDERS[0]], NAMES[HOLDERS[0] :]]
    return [many_starts.columns(part, of) for part, of in zip(parts, names)]


TRAIN, TEST = rows(90, 1), rows(70, 2)
KINDS = {
    "NN": (rivals.NN, {"activation": ("sigmoid", "relu")}),
    "SplitNN": (rivals.SplitNN, {"activation": ("sigmoid", "relu")}),
    "SplitNN, two layers a holder": (
        rivals.SplitNN,
        {"activation": ("sigmoid", "relu"), "depth": 2},
    ),
    "SecureML": (
        rivals.PiecewiseNet,
        {"activation": ("piecewise", "relu"), "dtype": torch.float32},
    ),
}


def nets(kind="NN", n=3):
    make, about = KINDS[kind]
    return [make(HOLDERS, (7, 4), rng=rng(10 + i), **about) for i in range(n)]


def train(many, schedule=None, **how):
    schedule = schedule or training.Schedule(5, 32, order="reshuffled")
    about = {"lr": 0.7, "rng": rng(3), "test": (coded(TEST[0]), TEST[1])} | how
    return many_starts.train(many, coded(TRAIN[0]), TRAIN[1], schedule, **about)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_each_of_many_starts_is_trained_as_by_itself(kind, loss):
    schedule = training.Schedule(5, 32, order="reshuffled", loss=loss)
    lr = 0.7 if loss == "mean" else 0.7 / 32
    many, single = nets(kind), nets(kind)
    criterion = getattr(many[0], "loss", many_starts.classification_loss)
    found = train(many, schedule, lr=lr, criterion=criterion)
    for net, own, record in zip(many, single, found, strict=True):
        alone = training.train(
            own,
            *TRAIN,
            schedule,
            optimiser=torch.optim.SGD(own.parameters(), lr=lr),
            criterion=criterion,
            rng=rng(3),
            test=TEST,
        )
        curve = record.curve.drop(columns="train_auc")
        assert list(curve) == list(alone.curve)
        assert abs(curve - alone.curve).to_numpy().max() < 1e-5
        of_train = evaluation.auc(TRAIN[1].numpy(), own.logits(TRAIN[0])[:, 0].numpy())
        assert abs(record.curve.train_auc.iloc[-1] - of_train) < 1e-3
        assert abs(record.test_logits - alone.test_logits).max() < 1e-4
        for mine, theirs in zip(net.parameters(), own.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)  # and in place
    starts = torch.stack([net.output.weight.detach() for net in nets(kind)])
    ends = torch.stack([net.output.weight.detach() for net in many])
    assert float((ends - starts).abs().max()) > 0.05  # they have moved


def test_the_product_of_coded_columns_and_its_gradient_are_those_of_the_matrix():
    for part, own in zip(TRAIN[0], coded(TRAIN[0]), strict=True):
        theta = torch.randn(part.shape[1], 6, generator=rng(4))
        torch.testing.assert_close(own.times(theta), part @ theta)
        slope, moved = torch.randn(len(part), 6, generator=rng(5)), theta.clone()
        own.descend(moved, slope, lr=0.3)
        torch.testing.assert_close(moved, theta - 0.3 * part.T @ slope)
        some = torch.tensor([4, 4, 1])
        torch.testing.assert_close(own[some].times(theta), part[some] @ theta)


def on_grid(values):
    scaled = values.detach().double() * 2**16
    return bool((scaled == scaled.round()).all())


@pytest.mark.parametrize(
    "held, theta, rest",
    [
        ((), False, False),
        (("h1",), False, False),
        (("h1", "theta"), True, False),
        (many_starts.HELD, True, True),
    ],
)
def test_what_is_held_in_fixed_point_is_a_multiple_and_nothing_else_is(held, theta, rest):
    many = nets()
    train(many, held=held)
    for net in many:
        assert all(on_grid(own) == theta for own in net.theta)
        behind = [p for name, p in net.named_parameters() if not name.startswith("theta")]
        assert all(on_grid(own) == rest for own in behind)


def test_rounding_h1_moves_the_logits_by_little_and_not_by_nothing():
    plain, held = train(nets()), train(nets(), held=("h1",))
    apart = max(abs(p.test_logits - q.test_logits).max() for p, q in zip(plain, held))
    assert 0 < apart < 1e-2


def test_an_update_below_half_a_step_is_lost_where_theta_is_held():
    many = nets()
    before = [theta.detach().clone() for theta in many[0].theta]
    train(many, lr=1e-7, held=("theta",))
    for theta, was in zip(many[0].theta, before, strict=True):
        assert torch.equal(theta, many_starts.rounded(was))


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(ValueError, match="3 names for columns of the shape"):
        many_starts.columns(TRAIN[0][0], NAMES[:3])
    with pytest.raises(ValueError, match="the codes of Company must be one 1 a row among zeros"):
        many_starts.columns(TRAIN[0][0] * 2, NAMES[:6])
    with pytest.raises(ValueError, match="lr must be a finite number > 0, got 0"):
        train(nets(), lr=0)
    with pytest.raises(ValueError, match="held must be one of h1, theta, rest, got 'bias'"):
        train(nets(), held=("bias",))
    with pytest.raises(ValueError, match="the nets must be of one kind"):
        train([*nets("NN", 1), *nets("SplitNN", 1)])
    with pytest.raises(ValueError, match="the nets must be of one kind"):
        train([])
    with pytest.raises(ValueError, match="needs rng"):
        train(nets(), rng=None)
    with pytest.raises(ValueError, match="lower the learning rate"):
        train(nets(), lr=1e38)
