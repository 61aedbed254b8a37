"""Equations 1 and 2 against themselves written out, the loop against a plain torch loop, SPNN
against plaintext."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from ppkit import evaluation
from ppkit.attacks import label_defences
from ppkit.spnn.layer import SPNN
from ppkit.spnn.randomness import Stream
from ppkit.spnn.rivals import NN, PiecewiseNet, SplitNN
from ppkit.spnn.training import SGLD, Schedule, equal_drift_lr, train

HOLDERS, HIDDEN = [4, 3], (5, 4)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def problem(n=103, seed=1, dtype=torch.float64):
    X = torch.randn(n, 7, generator=rng(seed), dtype=dtype)
    y = (
        X[:, 0] * X[:, 5] + X[:, 1] + 0.3 * torch.randn(n, generator=rng(seed + 1), dtype=dtype)
        > 0.5
    ).long()
    return [part.contiguous() for part in X.split(HOLDERS, dim=1)], y


def network(seed=0, make=NN, **settings):
    return make(HOLDERS, HIDDEN, rng=rng(seed), dtype=torch.float64, **settings)


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


# ---------------------------------------------------------------- equations 1 and 2


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_one_step_of_sgld_has_the_mean_and_the_variance_of_equation_2(temperature):
    """n = 10^6 draws of N(-lr/2 g, T lr): mean and variance within 6 deviations;
    failure chance 2 * 2e-9 for a pair."""
    n, lr, g = 1_000_000, 0.3, 2.0
    theta = torch.nn.Parameter(torch.full((n,), 1.5, dtype=torch.float64))
    theta.grad = torch.full_like(theta, g)
    SGLD([theta], lr=lr, temperature=temperature, rng=rng(7)).step()
    moved, variance = theta.detach() - 1.5, temperature * lr
    assert abs(float(moved.mean()) + lr / 2 * g) < 6 * math.sqrt(variance / n)
    assert abs(float(moved.var()) / variance - 1) < 6 * math.sqrt(2 / n)


def test_sgld_by_a_stream_has_the_mean_and_the_variance_of_equation_2():
    """n = 10^6 draws of N(-lr/2 g, lr) by AES: mean and variance within 6 deviations; failure
    chance 2 * 2e-9 for the pair.
    """
    n, lr, g = 1_000_000, 0.3, 2.0
    theta = torch.nn.Parameter(torch.full((n,), 1.5, dtype=torch.float64))
    theta.grad = torch.full_like(theta, g)
    SGLD([theta], lr=lr, rng=Stream()).step()
    moved = theta.detach() - 1.5
    assert abs(float(moved.mean()) + lr / 2 * g) < 6 * math.sqrt(lr / n)
    assert abs(float(moved.var()) / lr - 1) < 6 * math.sqrt(2 / n)


def test_a_streams_noise_is_rounded_once_in_float32():
    start = torch.randn(7, 3, generator=rng(1))
    theta = torch.nn.Parameter(start.clone())
    theta.grad = torch.zeros_like(theta)
    SGLD([theta], lr=0.2, rng=Stream(bytes(32))).step()
    noise = math.sqrt(0.2) * Stream(bytes(32)).normals((7, 3))
    assert torch.equal(theta.detach(), (start.double() - noise).float())


def test_sgld_equals_equation_2_written_out_with_the_same_draws():
    start = (
        torch.randn(3, 4, generator=rng(1), dtype=torch.float64),
        torch.randn(5, generator=rng(2), dtype=torch.float64),
    )
    thetas = [torch.nn.Parameter(value.clone()) for value in start]
    optimiser, draws, expected = SGLD(thetas, lr=0.2, rng=rng(3)), rng(3), list(start)
    for step in range(4):
        for i, theta in enumerate(thetas):
            theta.grad = torch.sin(theta.detach() + step)
            eta = math.sqrt(0.2) * torch.empty_like(expected[i]).normal_(generator=draws)
            expected[i] = expected[i] - (0.2 / 2 * torch.sin(expected[i] + step) + eta)
        optimiser.step()
    for theta, value in zip(thetas, expected):
        torch.testing.assert_close(theta.detach(), value, rtol=1e-12, atol=1e-14)


def test_noise_comes_from_rng_alone_and_is_another_one_for_every_parameter_and_step():
    before = torch.get_rng_state()
    theta, other = (torch.nn.Parameter(torch.zeros(6)) for _ in range(2))
    theta.grad, other.grad = torch.zeros(6), torch.zeros(6)
    optimiser = SGLD([theta, other], lr=1.0, rng=rng())
    optimiser.step()
    first = theta.detach().clone()
    assert not torch.equal(theta, other)
    optimiser.step()
    assert not torch.equal(theta.detach() - first, first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_parameter_without_a_gradient_stays():
    theta = torch.nn.Parameter(torch.ones(3))
    SGLD([theta], lr=1.0, rng=rng()).step()
    assert theta.tolist() == [1, 1, 1]


def test_sgld_follows_a_schedule():
    theta = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimiser = SGLD([theta], lr=0.5, temperature=0.0, rng=rng())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: 1 / (1 + t))

    for _ in range(2):
        optimiser.zero_grad()
        (2 * theta.sum()).backward()
        optimiser.step()
        schedule.step()
    assert theta.item() == pytest.approx(1 - 0.25 * 2 - 0.125 * 2, abs=1e-15)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"lr": 0.0}, "lr must be a finite number > 0, got 0.0"),
        ({"lr": math.nan}, "lr must be a finite number > 0, got nan"),
        ({"lr": math.inf}, "lr must be a finite number > 0, got inf"),
        ({"temperature": -1.0}, "temperature must be a finite number >= 0, got -1.0"),
        ({"temperature": math.inf}, "temperature must be a finite number >= 0, got inf"),
    ],
)
def test_bad_settings_of_sgld_are_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        SGLD([torch.nn.Parameter(torch.zeros(1))], rng=rng(), **{"lr": 0.1, **wrong})


@pytest.mark.parametrize(
    "optimiser_of, loss, drift",
    [
        (lambda p: torch.optim.SGD(p, lr=0.3), "mean", lambda size: 0.3 / size),  # equation 1
        (
            lambda p: torch.optim.SGD(p, lr=0.003),
            "sum",
            lambda size: 0.003,
        ),  # equation 1 without its |B|
        (
            lambda p: SGLD(p, lr=0.003, temperature=0.0, rng=rng()),
            "sum",
            lambda size: 0.003 / 2,
        ),  # equation 2's drift
        (
            lambda p: SGLD(p, lr=0.3, temperature=0.0, rng=rng()),
            "mean",
            lambda size: 0.3 / 2 / size,
        ),
    ],
)
def test_training_equals_the_equations_written_out(optimiser_of, loss, drift):
    """The gradient of the loss summed over the batch, as the equations have it; |B| where they have
    it; uneven last batch."""
    parts, y = problem()
    net, oracle = network(), network()
    train(
        net,
        parts,
        y,
        Schedule(epochs=3, batch=20, loss=loss),
        optimiser=optimiser_of(net.parameters()),
    )
    oracle.prepare(parts)
    for _ in range(3):
        for start in range(0, 103, 20):
            rows = torch.arange(start, min(start + 20, 103))
            summed = functional.binary_cross_entropy_with_logits(
                oracle(rows)[:, 0], y[rows].double(), reduction="sum"
            )
            for p, g in zip(
                oracle.parameters(), torch.autograd.grad(summed, list(oracle.parameters()))
            ):
                p.data -= drift(len(rows)) * g
    assert (flat(net) - flat(oracle)).abs().max() < 1e-12
    assert (flat(net) - flat(network())).abs().max() > 1e-2  # and it did move


@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_at_equal_drift_sgld_without_noise_is_sgd(loss):
    parts, y = problem(n=100)
    plain, langevin = network(), network()
    train(
        plain,
        parts,
        y,
        Schedule(epochs=4, batch=25),
        optimiser=torch.optim.SGD(plain.parameters(), lr=0.4),
    )
    alpha = equal_drift_lr(0.4, batch=25) if loss == "sum" else 2 * 0.4
    optimiser = SGLD(langevin.parameters(), lr=alpha, temperature=0.0, rng=rng())
    train(langevin, parts, y, Schedule(epochs=4, batch=25, loss=loss), optimiser=optimiser)
    assert (flat(plain) - flat(langevin)).abs().max() < 1e-12


def test_equal_drift_by_hand():
    """At alpha = .001 and |B| = 5,000 equation 2 drifts as equation 1 does at lr 2.5: 2,500 times
    further."""
    assert equal_drift_lr(2.5, batch=5000) == pytest.approx(0.001, rel=1e-15)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"lr": -1.0}, "lr must be a finite number > 0, got -1.0"),
        ({"batch": None}, "batch must be a whole number >= 1, got None"),
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
    ],
)
def test_equal_drift_refuses(wrong, said):
    with pytest.raises(ValueError, match=said):
        equal_drift_lr(**{"lr": 1.0, "batch": 10, **wrong})


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize("make", [NN, SplitNN])
def test_the_loop_is_the_one_anybody_would_write(make):
    parts, y = problem()
    net, oracle = network(make=make), network(make=make)
    record = train(
        net,
        parts,
        y,
        Schedule(epochs=5, batch=40, order="reshuffled"),
        optimiser=torch.optim.Adam(net.parameters(), lr=0.01),
        rng=rng(9),
        test=(parts, y),
    )
    optimiser, shuffled = torch.optim.Adam(oracle.parameters(), lr=0.01), rng(9)
    oracle.prepare(parts)
    for _ in range(5):
        order = torch.randperm(103, generator=shuffled)
        for rows in (order[:40], order[40:80], order[80:]):
            optimiser.zero_grad()
            functional.binary_cross_entropy_with_logits(
                oracle(rows)[:, 0], y[rows].double()
            ).backward()
            optimiser.step()
    assert (flat(net) - flat(oracle)).abs().max() < 1e-12
    logits = oracle.logits(parts)[:, 0].numpy()
    np.testing.assert_allclose(record.test_logits, logits, rtol=1e-10)
    assert record.auc == pytest.approx(evaluation.auc(y.numpy(), logits))
    assert record.curve["train_loss"].iloc[-1] == pytest.approx(
        evaluation.log_loss(y.numpy(), logits), rel=1e-10
    )
    assert record.curve["test_loss"].iloc[-1] == record.curve["train_loss"].iloc[-1]


def test_secureml_in_the_clear_takes_the_same_loop_with_its_own_loss():
    parts, y = problem()
    net, oracle = network(make=PiecewiseNet), network(make=PiecewiseNet)
    record = train(
        net,
        parts,
        y,
        Schedule(epochs=3, batch=40),
        optimiser=torch.optim.SGD(net.parameters(), lr=0.3),
        criterion=PiecewiseNet.loss,
        test=(parts, y),
    )
    oracle.prepare(parts)
    for _ in range(3):
        for rows in torch.arange(103).split(40):
            oracle.step(rows, y[rows], lr=0.3)
    assert (flat(net) - flat(oracle)).abs().max() < 1e-12
    own = float(PiecewiseNet.loss(oracle.logits(parts), y))
    assert (
        record.curve["train_loss"].iloc[-1]
        == record.curve["test_loss"].iloc[-1]
        == pytest.approx(own, rel=1e-12)
    )


@pytest.mark.parametrize(
    "every, steps", [(None, [0, 3, 6]), (1, [0, 1, 2, 3, 4, 5, 6]), (4, [0, 4, 6]), (100, [0, 6])]
)
def test_measurements_stand_where_they_were_asked_for(every, steps):
    parts, y = problem()
    net = network()
    curve = train(
        net,
        parts,
        y,
        Schedule(epochs=2, batch=40),
        optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
        every=every,
    ).curve
    assert curve["step"].tolist() == steps and curve["epoch"].tolist() == [
        step / 3 for step in steps
    ]
    assert list(curve.columns) == ["step", "epoch", "train_loss"]
    assert curve["train_loss"].iloc[0] == pytest.approx(
        evaluation.log_loss(y.numpy(), network().logits(parts)[:, 0].numpy()), rel=1e-12
    )


def test_measuring_changes_nothing():
    parts, y = problem()
    nets = network(), network()
    for net, extra in zip(nets, ({}, {"every": 1, "test": (parts, y), "look_at": range(9)})):
        train(
            net,
            parts,
            y,
            Schedule(epochs=3, batch=40),
            optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
            **extra,
        )
    assert torch.equal(flat(nets[0]), flat(nets[1]))


def test_fixed_order_takes_consecutive_rows_and_reshuffled_order_every_row_once_an_epoch():
    parts, y = problem()
    rows = {}
    for order in ("fixed", "reshuffled"):
        net = network()
        looks = train(
            net,
            parts,
            y,
            Schedule(epochs=2, batch=40, order=order),
            optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
            rng=rng(4),
            look_at=range(6),
        ).looks
        assert [(look.step, look.epoch, len(look.rows)) for look in looks] == [
            (0, 0, 40),
            (1, 0, 40),
            (2, 0, 23),
            (3, 1, 40),
            (4, 1, 40),
            (5, 1, 23),
        ]
        rows[order] = [
            torch.cat([look.rows for look in looks if look.epoch == epoch]) for epoch in (0, 1)
        ]
    assert all(torch.equal(epoch, torch.arange(103)) for epoch in rows["fixed"])
    assert all(torch.equal(epoch.sort().values, torch.arange(103)) for epoch in rows["reshuffled"])
    assert not torch.equal(*rows["reshuffled"]) and not torch.equal(
        rows["reshuffled"][0], rows["fixed"][0]
    )


@pytest.mark.parametrize("make", [NN, SPNN])
def test_a_look_shows_h1_and_the_gradients_that_the_step_was_made_of(make):
    """h1 before the step, G = dL/dh1 with theta_i's change = -lr X_i^T G,
    and dL/dh_last = (p - y) w / |B|."""
    parts, y = problem()
    net = network(make=make, **({"protocol": "plain"} if make is SPNN else {}))
    before, weight = (
        [theta.detach().clone() for theta in net.theta],
        net.output.weight.detach().clone(),
    )
    bias = net.output.bias.detach().clone()
    [look] = train(
        net,
        parts,
        y,
        Schedule(epochs=1, batch=103),
        optimiser=torch.optim.SGD(net.parameters(), lr=0.7),
        look_at=[0],
    ).looks
    torch.testing.assert_close(
        look.h1, sum(part @ theta for part, theta in zip(parts, before)), rtol=1e-12, atol=1e-13
    )
    for part, old, new in zip(parts, before, net.theta):
        torch.testing.assert_close(
            new.detach(), old - 0.7 * part.T @ look.h1_grad, rtol=1e-12, atol=1e-13
        )
    p = torch.sigmoid(look.h_last @ weight.T + bias)[:, 0]
    torch.testing.assert_close(
        look.h_last_grad, (p - y)[:, None] * weight / 103, rtol=1e-11, atol=1e-15
    )


def test_looks_on_the_summed_loss_are_the_batch_times_those_on_the_mean():
    parts, y = problem()
    seen = {}
    for loss in ("mean", "sum"):
        net = network()
        seen[loss] = train(
            net,
            parts,
            y,
            Schedule(epochs=1, batch=40, loss=loss),
            optimiser=torch.optim.SGD(net.parameters(), lr=1e-9),
            look_at=[2],
        ).looks[0]
    torch.testing.assert_close(
        seen["sum"].h1_grad, 23 * seen["mean"].h1_grad, rtol=1e-5, atol=1e-12
    )


def test_looks_are_kept_apart_from_what_follows():
    parts, y = problem()
    net = network()
    looks = train(
        net,
        parts,
        y,
        Schedule(epochs=2, batch=103),
        optimiser=torch.optim.SGD(net.parameters(), lr=5.0),
        look_at=[0, 1],
    ).looks
    assert not torch.equal(looks[0].h1, looks[1].h1) and not torch.equal(
        looks[0].h1_grad, looks[1].h1_grad
    )
    assert not looks[0].h1.requires_grad


def test_a_look_is_kept_as_it_is_asked_for():
    parts, y = problem()
    records = []
    for kept in (None, lambda look: replace(look, h1=None)):
        net = network()
        optimiser = torch.optim.SGD(net.parameters(), lr=5.0)
        about = dict(optimiser=optimiser, look_at=[0, 1], kept=kept)
        records.append(train(net, parts, y, Schedule(epochs=2, batch=103), **about))
    whole, less = (record.looks for record in records)
    assert [look.h1 for look in less] == [None, None]
    assert all(torch.equal(a.h1_grad, b.h1_grad) for a, b in zip(whole, less, strict=True))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"epochs": 0}, "epochs must be a whole number >= 1, got 0"),
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"loss": "max"}, "loss must be one of mean, sum, got 'max'"),
        ({"order": "random"}, "order must be one of fixed, reshuffled, got 'random'"),
    ],
)
def test_bad_settings_of_a_schedule_are_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        Schedule(**{"epochs": 1, "batch": 40} | wrong)


def test_reshuffling_needs_a_generator():
    parts, y = problem()
    net = network()
    with pytest.raises(ValueError, match="order='reshuffled' needs rng, a torch.Generator"):
        train(
            net,
            parts,
            y,
            Schedule(1, 40, order="reshuffled"),
            optimiser=torch.optim.SGD(net.parameters(), lr=1.0),
        )
    assert torch.equal(flat(net), flat(network()))


def test_rows_that_do_not_fit_the_labels_are_named():
    parts, y = problem()
    net = network()
    for X, labels, test in (
        ([parts[0], parts[1][:-1]], y, None),
        (parts, y[:-1], None),
        (parts, y, (parts, y[:-1])),
    ):
        with pytest.raises(ValueError, match="must have the same rows, got"):
            train(
                net,
                X,
                labels,
                Schedule(epochs=1, batch=40),
                optimiser=torch.optim.SGD(net.parameters(), lr=1.0),
                test=test,
            )


def test_labels_and_features_that_cannot_be_are_named_before_anything_moves():
    parts, y = problem()
    net = network()
    spoilt = [parts[0], parts[1].clone()]
    spoilt[1][2, 0] = torch.nan
    unknown = y.double()
    unknown[1] = torch.nan
    for X, labels, said in (
        (parts, 2 * y, "labels must be 0 to 1 .*, got 2"),
        (parts, unknown, "labels must .*, got nan"),
        (spoilt, y, "the features of holder 1 must be finite, got 1 of"),
    ):
        with pytest.raises(ValueError, match=said):
            train(
                net,
                X,
                labels,
                Schedule(epochs=1, batch=40),
                optimiser=torch.optim.SGD(net.parameters(), lr=1.0),
            )
    assert torch.equal(flat(net), flat(network()))


def test_labels_may_be_an_array_or_numbers_that_stand_for_labels():
    parts, y = problem()
    trained = []
    for labels in (y, y.numpy(), y.double()):
        net = network()
        record = train(
            net,
            parts,
            labels,
            Schedule(epochs=1, batch=40),
            optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
            test=(parts, y.numpy()),
        )
        trained.append(flat(net))
        assert 0 <= record.auc <= 1
    assert torch.equal(trained[0], trained[1]) and torch.allclose(trained[0], trained[2])


def test_several_classes_layers_of_ones_own_and_torchs_optimiser_are_anybodys_loop():
    """Batch normalisation keeps running means, which measuring must not move."""
    parts, y = problem()
    y = y + (parts[1][:, 0] > 0.3)  # 0, 1, 2
    own = lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 4)).double()
    nets = [network(make=SPNN, protocol="plain", n_outputs=3) for _ in range(2)]
    for net in nets:
        torch.manual_seed(3)
        net.hidden = own()
    adam = [torch.optim.Adam(net.parameters(), lr=0.05) for net in nets]
    record = train(
        nets[0], parts, y, Schedule(epochs=2, batch=40), optimiser=adam[0], test=(parts, y), every=1
    )
    net = nets[1]
    net.prepare(parts)
    for rows in [*torch.arange(len(y)).split(40)] * 2:
        adam[1].zero_grad()
        functional.cross_entropy(net(rows), y[rows]).backward()
        adam[1].step()
    for one, other in zip(nets[0].state_dict().values(), net.state_dict().values()):
        assert torch.equal(one, other)
    logits = net.eval().logits(parts)
    assert np.array_equal(record.test_logits, logits.numpy()) and logits.shape == (len(y), 3)
    last = record.curve.iloc[-1]
    assert last["test_accuracy"] == float((logits.argmax(1) == y).double().mean()) > 0.4
    assert last["test_loss"] == float(functional.cross_entropy(logits, y))
    with pytest.raises(ValueError, match="there is no AUC: .* several classes"):
        _ = record.auc
    with pytest.raises(ValueError, match="labels must be 0 to 2 .*, got 3"):
        train(net, parts, y + 1, Schedule(epochs=1, batch=40), optimiser=adam[1])


def test_a_training_that_diverges_says_so_and_a_record_without_test_rows_too():
    parts, y = problem()
    net = network(activation="relu")
    with pytest.raises(
        ValueError, match="the loss is nan after [0-9]+ steps: lower the learning rate"
    ):
        train(
            net,
            parts,
            y,
            Schedule(epochs=3, batch=40),
            optimiser=torch.optim.SGD(net.parameters(), lr=1e200),
        )
    net = network()
    record = train(
        net,
        parts,
        y,
        Schedule(epochs=1, batch=40),
        optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
    )
    assert record.test_logits is None
    with pytest.raises(ValueError, match="train was given no test rows"):
        _ = record.auc


# ---------------------------------------------------------------- SPNN beside plaintext


@pytest.mark.parametrize("holders", [[14, 14], [10, 9, 9]])
def test_spnn_in_plaintext_is_nn_bit_for_bit_from_the_same_seed(holders):
    X = torch.randn(400, 28, generator=rng(1))
    parts, y = [part.contiguous() for part in X.split(holders, dim=1)], (X[:, 0] > 1).long()
    records = []
    for net in (
        NN(holders, (8, 8), rng=rng(5)),
        SPNN(holders, (8, 8), protocol="plain", rng=rng(5)),
    ):
        optimiser = SGLD(net.parameters(), lr=0.001, rng=rng(6))
        records.append(
            train(
                net,
                parts,
                y,
                Schedule(epochs=3, batch=100, loss="sum"),
                optimiser=optimiser,
                look_at=[5],
            )
        )
    assert torch.allclose(records[0].looks[0].h1, records[1].looks[0].h1, rtol=0, atol=1e-6)
    assert np.allclose(records[0].curve, records[1].curve, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["masked", "ss"])
def test_a_whole_training_by_protocol_drifts_at_most_three_times_as_far_as_one_on_rounded_inputs(
    protocol,
):
    """The issue's bar, over 100 steps: largest difference of the loss and of h1 from the plaintext
    run, same seed."""
    X = torch.randn(1000, 28, generator=rng(1), dtype=torch.float64)
    y = (X[:, :4].sum(dim=1) + X[:, 20] * X[:, 3] > 2).long()

    def run(net, X):
        parts = [part.contiguous() for part in X.split([14, 14], dim=1)]
        record = train(
            net,
            parts,
            y,
            Schedule(epochs=25, batch=250),
            optimiser=torch.optim.SGD(net.parameters(), lr=3.0),
            look_at=range(0, 100, 5),
            every=1,
        )
        return record.curve["train_loss"].to_numpy(), torch.stack(
            [look.h1 for look in record.looks]
        )

    def drift(other):
        return [float(abs(a - b).max()) for a, b in zip(other, plain)]

    def fresh():
        return NN([14, 14], (8, 8), rng=rng(3), dtype=torch.float64)

    plain = run(fresh(), X)
    allowed = drift(run(fresh(), (X * 2**16).round() / 2**16))
    ours = drift(run(SPNN([14, 14], (8, 8), protocol=protocol, rng=rng(3), dtype=torch.float64), X))
    assert plain[0][-1] < 0.8 * plain[0][0]  # it learns
    assert all(0 < mine <= 3 * bar for mine, bar in zip(ours, allowed)), (ours, allowed)


def test_a_net_is_asked_for_its_classes_once_whatever_is_measured():
    """A defence may draw noise in each call, so that one call more would move all that follow."""
    asked = []

    class Counted(NN):
        def logits(self, parts):
            asked.append(len(parts[0]))
            return super().logits(parts)

    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(6, 3, generator=generator), torch.tensor([0, 1, 0, 1, 0, 1])
    net = Counted([3], (2,), rng=generator, dtype=X.dtype)
    steps = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, [X], y, Schedule(1, 6), optimiser=steps, test=([X[:4]], y[:4]))
    assert asked.count(1) == 1


def foreign():
    """A net of two holders, its parts, and labels of 30 rows, as another's data may be."""
    rng = torch.Generator().manual_seed(0)
    parts = [torch.randn((30, width), generator=rng) for width in (2, 1)]
    y = (parts[0][:, 0] > 0).long()
    return (
        parts,
        y,
        lambda n_outputs=1: SPNN([2, 1], (4, 4), n_outputs=n_outputs, protocol="masked", rng=rng),
    )


@pytest.mark.parametrize(
    "n_outputs, of, said",
    [
        (1, lambda y: 40 + torch.linspace(0, 30, len(y)), r"labels must be 0 to 1 \(chances in"),
        (
            1,
            lambda y: np.where(y == 1, "malignant", "benign"),
            "labels must be numbers from 0, got",
        ),
        (1, lambda y: y[:, None], r"labels of a net with 1 logits must have shape \(30,\), got"),
        (3, lambda y: y[:, None], r"with 3 logits must have shape \(30,\), got \(30, 1\)"),
        (3, lambda y: y.float(), r"labels in floating point of a net with 3 .*\(30, 3\), got"),
        (1, lambda y: y.double() + 1, r"two values that add up to 1, .* got 2.0: number them"),
        (1, lambda y: 2.0 * y - 1, "got -1.0: number them from 0"),
        (1, lambda y: 0.0 * y + 7, "got 7.0: number them from 0"),
        (1, lambda y: y + 1, "got 2: number them from 0, with an output of the net for each class"),
    ],
)
def test_labels_of_somebody_else_are_refused_in_a_sentence(n_outputs, of, said):
    parts, y, made = foreign()
    net = made(n_outputs)
    steps = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=said):
        train(net, parts, of(y), Schedule(1, 30), optimiser=steps)


def test_labels_are_taken_from_pandas_and_as_chances(recwarn):
    parts, y, made = foreign()
    losses = []
    for labels in (y, pd.Series(y.numpy()), pd.Series(y.numpy() == 1), y.double()):
        parts, y, made = foreign()
        net = made()
        steps = torch.optim.SGD(net.parameters(), lr=0.1)
        losses.append(train(net, parts, labels, Schedule(2, 30), optimiser=steps).curve.train_loss)
    assert all(np.allclose(one, losses[0]) for one in losses)
    assert not [warning for warning in recwarn.list if "writable" in str(warning.message)]
    flipped = label_defences.randomised(y, epsilon=1.0, rng=torch.Generator().manual_seed(0))
    assert len(flipped.unique()) == 2 and flipped.min() < 0
    for stand_in in (flipped, flipped.float()):
        train(net, parts, stand_in, Schedule(1, 30), optimiser=steps)
    chances = torch.linspace(0, 1, 30)
    train(net, parts, chances, Schedule(1, 30), optimiser=steps)
    shares = torch.full((30, 3), 1 / 3)
    net = made(3)
    train(net, parts, shares, Schedule(1, 30), optimiser=torch.optim.SGD(net.parameters(), lr=0.1))


def test_parts_of_somebody_else_are_refused_in_a_sentence():
    parts, y, made = foreign()
    net = made()
    steps = torch.optim.SGD(net.parameters(), lr=0.1)
    tables = [pd.DataFrame(part.numpy()) for part in parts]
    with pytest.raises(ValueError, match="the features of holder 0 must be a tensor .* DataFrame"):
        train(net, tables, y, Schedule(1, 30), optimiser=steps)
    with pytest.raises(ValueError, match=r"parts must have 2 \+ 1 columns .*\(1, 1\), \(1, 2\)"):
        train(net, parts[::-1], y, Schedule(1, 30), optimiser=steps)
    with pytest.raises(ValueError, match=r"parts must have 2 \+ 1 columns and the same rows"):
        train(net, parts, y, Schedule(1, 30), optimiser=steps, test=(parts[::-1], y))


def test_a_holder_takes_tables_and_names_itself_where_one_has_text():
    parts, _, made = foreign()
    tables = [pd.DataFrame(part.numpy()) for part in parts]
    net = made()
    net.prepare(tables)
    got = net(slice(None))
    net.prepare(parts)
    assert torch.allclose(got, net(slice(None)), atol=1e-6)
    with pytest.raises(ValueError, match="holder B's features must be numbers, .*'F'"):
        net.prepare([tables[0], pd.DataFrame({"sex": ["F"] * 30})])
