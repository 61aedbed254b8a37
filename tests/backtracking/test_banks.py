"""The federation of kanodia2020: its tree, its rule against what it should be, and limits in which
federated is central."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from ppkit import datasets, gradients
from ppkit.backtracking import banks
from ppkit.backtracking.banks import (
    BY_ROWS,
    PAPER_WEIGHTS,
    Aggregation,
    Training,
    fit,
    logistic,
    network,
    one_server,
    scores,
    split_tree,
)

pytestmark = pytest.mark.slow


def run(X, y, tree, *, rule="add", weights=PAPER_WEIGHTS, send_back=False, **settings):
    """A federation whose aggregation is told field by field."""
    aggregation = Aggregation(rule, weights, send_back)
    return banks.run(X, y, tree, aggregation=aggregation, **settings)


def pooled(tree):
    """The same tree with one bank in place of all: in each iteration it holds all banks' rows."""
    return tree._replace(
        iterations=tuple((np.sort(np.concatenate(parts)),) for parts in tree.iterations)
    )


PAPER_CUTS = {
    "iteration by iteration": {
        (0, 0): (10, 30),
        (0, 1): (30, 45),
        (0, 2): (45, 50),
        (1, 0): (50, 70),
        (1, 1): (70, 85),
        (1, 2): (85, 90),
    },
    "bank by bank": {
        (0, 0): (10, 30),
        (1, 0): (30, 50),
        (0, 1): (50, 65),
        (1, 1): (65, 80),
        (0, 2): (80, 85),
        (1, 2): (85, 90),
    },
}


def parts(tree):
    return [tree.start, *(rows for iteration in tree.iterations for rows in iteration), tree.test]


def rows(n_rows=600, n_features=4, seed=0, noise=1.0):
    """Rows whose label follows a line, a third of them 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = (X @ np.arange(1, n_features + 1) / 2 - 1 + noise * rng.logistic(size=n_rows) > 0).astype(
        np.int8
    )
    return X, y


def vector(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()


@pytest.mark.parametrize("reading", banks.READINGS)
@pytest.mark.parametrize("n_rows", [20, 97, 1_000, 284_807])
def test_the_tree_is_disjoint_covers_all_rows_and_keeps_its_shares(reading, n_rows):
    tree = split_tree(n_rows, reading=reading)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts(tree))), np.arange(n_rows))
    assert [len(iteration) for iteration in tree.iterations] == [3, 3]
    for (t, k), (first, last) in PAPER_CUTS[reading].items():
        held = tree.iterations[t][k]
        assert abs(len(held) - n_rows * (last - first) / 100) < 1
        assert (
            abs(held[0] - n_rows * first / 100) < 1 and abs(held[-1] + 1 - n_rows * last / 100) < 1
        )
        assert (np.diff(held) == 1).all()
    assert abs(len(tree.start) - n_rows / 10) < 1 and tree.start[0] == 0
    assert abs(len(tree.test) - n_rows / 10) <= 1 and tree.test[-1] == n_rows - 1


def test_sorting_deals_the_banks_rows_anew_and_leaves_start_and_test():
    amount = np.random.default_rng(0).exponential(size=1_000).round(1)
    plain = split_tree(1_000)
    for reading in banks.READINGS:
        tree = split_tree(1_000, reading=reading, sort_by=amount)
        np.testing.assert_array_equal(tree.start, plain.start)
        np.testing.assert_array_equal(tree.test, plain.test)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts(tree))), np.arange(1_000))
        assert all((np.diff(held) > 0).all() for held in parts(tree))
        in_order = [
            tree.iterations[t][k]
            for t, k in sorted(PAPER_CUTS[reading], key=PAPER_CUTS[reading].get)
        ]
        assert all(
            amount[one].max() <= amount[two].min() for one, two in zip(in_order, in_order[1:])
        )
        assert [len(held) for held in parts(tree)] == [len(held) for held in parts(plain)]
    for one, two in zip(parts(split_tree(1_000, sort_by=np.zeros(1_000))), parts(plain)):
        np.testing.assert_array_equal(one, two)  # ties stay in file order


@pytest.mark.parametrize("reading", banks.READINGS)
def test_ten_trees_around_the_file_have_each_row_once_in_their_tests(reading):
    amount = np.random.default_rng(0).exponential(size=1_003)
    firsts = [k * 1_003 // 10 for k in range(10)]
    trees = [split_tree(1_003, reading=reading, sort_by=amount, first=first) for first in firsts]
    tested = np.bincount(np.concatenate([tree.test for tree in trees]), minlength=1_003)
    assert (tested >= 1).all() and tested.sum() <= 1_003 + 10  # a tenth is cut within a row
    for tree, first in zip(trees, firsts):
        np.testing.assert_array_equal(np.sort(np.concatenate(parts(tree))), np.arange(1_003))
        assert first in tree.start and (first - 1) % 1_003 in tree.test
        one, two = tree.iterations[0][:2]
        assert amount[one].max() <= amount[two].min() or reading == "bank by bank"
    np.testing.assert_array_equal(
        split_tree(1_003, first=100).start, (split_tree(1_003).start + 100) % 1_003
    )


def test_one_server_holds_all_rows_but_the_test():
    tree = split_tree(500)
    server = one_server(tree)
    assert server.iterations == ()
    np.testing.assert_array_equal(server.start, np.arange(450))
    np.testing.assert_array_equal(server.test, tree.test)


def test_one_bank_with_all_rows_is_central_training():
    """The whole run against a training loop that knows nothing of banks, models of both kinds, to
    1e-12."""
    X, y = rows(300)
    tree = pooled(split_tree(len(y)))
    data = torch.from_numpy(X), torch.from_numpy(y).long()
    training = Training(n_epochs=2, batch_size=16, optimizer=partial(torch.optim.SGD, lr=0.3))
    for make in (logistic, network):
        history = run(
            X,
            y,
            tree,
            rule="average",
            weights=(1,),
            send_back=True,
            model=make,
            training=training,
            seed=7,
        )
        first_shuffle, start = banks._generators(7, 0)
        then_shuffle, _ = banks._generators(7, 1)
        central = make(X.shape[1], start)
        for held, rng in (
            (tree.start, first_shuffle),
            (tree.iterations[0][0], then_shuffle),
            (tree.iterations[1][0], then_shuffle),
        ):
            plain_sgd(central, data[0][held], data[1][held], rng, lr=0.3, size=16, n_epochs=2)
        assert (vector(central) - history.parameters[-1]).abs().max() < 1e-12


def plain_sgd(model, X, y, rng, *, lr, size, n_epochs):
    """Oracle: mini-batch SGD written out."""
    for _ in range(n_epochs):
        order = torch.randperm(len(y), generator=rng)
        for first in range(0, len(y), size):
            batch = order[first : first + size]
            logits = model(X[batch])
            loss = (
                (functional.softplus(logits[:, 0]) - y[batch] * logits[:, 0]).mean()
                if logits.shape[1] == 1
                else functional.nll_loss(logits.log_softmax(dim=1), y[batch])
            )
            steps = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, step in zip(model.parameters(), steps):
                    parameter -= lr * step


def test_one_full_batch_step_of_three_banks_by_rows_is_one_step_of_one_server():
    """FedSGD: weights in proportion to the rows make the mean of the banks' gradients the gradient
    of all rows."""
    X, y = rows(1_000)
    tree = split_tree(1_000)
    training = Training(n_epochs=1, batch_size=1_000)
    for make in (logistic, network):
        arm = partial(run, X, y, rule="average", send_back=True, model=make, training=training)
        three, one = arm(tree=tree, weights=BY_ROWS), arm(tree=pooled(tree), weights=(1,))
        assert (three.parameters[-1] - one.parameters[-1]).abs().max() < 1e-12
        other = arm(tree=tree, weights=PAPER_WEIGHTS)
        assert (
            other.parameters[-1] - one.parameters[-1]
        ).abs().max() > 1e-6  # .55 of 40 rows is not half of them


def test_equal_models_with_any_weights_stay_what_they_are():
    same = torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for weights in ((1, 1, 1), PAPER_WEIGHTS, BY_ROWS):
        torch.testing.assert_close(Aggregation("average", weights)(same, [same] * 3), same)
        torch.testing.assert_close(Aggregation("add", weights)(same, [same] * 3), 2 * same)


def test_the_papers_rule_step_by_step():
    """The history obeys section 4.2.3 with its printed weights, and without sending back the banks
    never hear of it."""
    X, y = rows()
    training = Training(n_epochs=1, batch_size=32)
    history = run(X, y, split_tree(len(y)), training=training, seed=3)
    for t in (1, 2):
        one, two, three = history.uploads[t - 1]
        expected = history.parameters[t - 1] + 0.55 * one + 0.35 * two + 0.10 * three
        torch.testing.assert_close(history.parameters[t], expected, rtol=1e-12, atol=0)
    other = run(X, y, split_tree(len(y)), rule="average", training=training, seed=3)
    for one, two in zip(history.uploads, other.uploads):
        assert all(torch.equal(a, b) for a, b in zip(one, two))
    sent = run(X, y, split_tree(len(y)), send_back=True, training=training, seed=3)
    assert torch.equal(sent.parameters[0], history.parameters[0]) and not torch.equal(
        sent.uploads[0][0], history.uploads[0][0]
    )


def test_sent_back_each_bank_starts_from_the_global_weights():
    """With a learning rate of 0 what a bank uploads is where it started."""
    X, y = rows()
    still = Training(optimizer=partial(torch.optim.SGD, lr=0.0))
    sent = run(X, y, split_tree(len(y)), send_back=True, training=still)
    for t in (0, 1):
        assert all(torch.equal(upload, sent.parameters[t]) for upload in sent.uploads[t])
    torch.testing.assert_close(sent.parameters[2], 4 * sent.parameters[0])
    own = run(X, y, split_tree(len(y)), training=still)
    assert all(torch.equal(one, two) for one, two in zip(*own.uploads))
    assert len({tuple(upload.tolist()) for upload in (*own.uploads[0], own.parameters[0])}) == 4


def test_a_bank_trains_on_its_own_rows_only():
    """NaN-free poison: changing what bank 3 holds moves bank 3 alone, and the test rows move
    nobody."""
    X, y = rows()
    tree = split_tree(len(y))
    before = run(X, y, tree)
    changed = X.copy()
    changed[tree.iterations[1][2]] += 1
    after = run(changed, y, tree)
    assert all(torch.equal(a, b) for a, b in zip(before.uploads[0], after.uploads[0]))
    assert [torch.equal(a, b) for a, b in zip(before.uploads[1], after.uploads[1])] == [
        True,
        True,
        False,
    ]
    changed = X.copy()
    changed[tree.test] += 1
    after = run(changed, y, tree)
    assert (
        torch.equal(before.parameters[-1], after.parameters[-1]) and before.scores != after.scores
    )


def test_adding_weights_triples_a_logistic_regression_that_has_converged():
    """AUC, average precision and accuracy stay; log-loss breaks; the calibration slope falls to a
    third.

    Banks of one distribution, 20,000 noisy rows: deterministic by seed.  The exact factor is 3 when
    all banks agree.
    """
    X, y = rows(20_000)
    training = Training(n_epochs=6, batch_size=64, optimizer=partial(torch.optim.SGD, lr=0.5))
    tree = split_tree(len(y))
    literal = run(X, y, tree, training=training)
    fedavg = run(X, y, tree, rule="average", send_back=True, training=training)
    ratio = literal.parameters[2].norm() / fedavg.parameters[2].norm()
    assert ratio == pytest.approx(3, abs=0.15)
    adds, right = literal.scores[2], fedavg.scores[2]
    assert adds.auc == pytest.approx(right.auc, abs=2e-3)
    assert adds.average_precision == pytest.approx(right.average_precision, abs=5e-3)
    assert adds.accuracy == pytest.approx(right.accuracy, abs=0.01)
    assert right.slope == pytest.approx(1, abs=0.1) and adds.slope == pytest.approx(
        right.slope / 3, abs=0.03
    )
    assert adds.log_loss > 1.3 * right.log_loss
    assert [literal.scores[t].slope * (1 + t) for t in (1, 2)] == pytest.approx(
        [literal.scores[0].slope] * 2, rel=0.15
    )


def test_scores_are_those_of_the_models_that_the_history_names():
    X, y = rows()
    tree = split_tree(len(y))
    for make in (logistic, network):
        history = run(X, y, tree, model=make)
        model = make(X.shape[1], torch.Generator())
        kept = [
            *zip(history.parameters, history.scores),
            (history.uploads[0][2], history.bank_scores[0][2]),
            (history.uploads[1][0], history.bank_scores[1][0]),
        ]
        for parameters, found in kept:
            torch.nn.utils.vector_to_parameters(parameters, model.parameters())
            assert scores(model, torch.from_numpy(X[tree.test]), y[tree.test]) == found
        assert found.auc > 0.6


def test_scores_read_two_logits_as_one():
    X, y = rows()
    model = network(X.shape[1], torch.Generator().manual_seed(0))
    p = model(torch.from_numpy(X)).softmax(dim=1)[:, 1].detach().numpy()
    found = scores(model, torch.from_numpy(X), y)
    assert found.log_loss == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))))
    assert found.accuracy == np.mean((p > 0.5) == y)


def test_every_holder_shuffles_by_a_generator_of_its_own():
    """Bank k's upload is what a plain loop gives from its own start, its rows and its own shuffles,
    and nobody else's."""
    X, y = rows()
    tree, training = split_tree(len(y)), Training(n_epochs=2, batch_size=16)
    uploads = run(X, y, tree, training=training, seed=7).uploads[0]
    shuffles = [
        torch.Generator().manual_seed(int(np.random.SeedSequence([7, holder]).generate_state(2)[0]))
        for holder in range(4)
    ]
    orders = [torch.randperm(20, generator=rng).tolist() for rng in shuffles]
    assert len({tuple(order) for order in orders}) == 4
    for k, (upload, held) in enumerate(zip(uploads, tree.iterations[0]), start=1):
        for holder in range(1, 4):
            shuffle, start = (
                torch.Generator().manual_seed(int(state))
                for state in np.random.SeedSequence([7, holder]).generate_state(2)
            )
            _, own = (
                torch.Generator().manual_seed(int(state))
                for state in np.random.SeedSequence([7, k]).generate_state(2)
            )
            model = logistic(4, own)
            for _ in range(2):
                for some in torch.randperm(len(held), generator=shuffle).split(16):
                    loss = functional.binary_cross_entropy_with_logits(
                        model(torch.from_numpy(X[held][some.numpy()]))[:, 0],
                        torch.from_numpy(y[held][some.numpy()]).double(),
                    )
                    grads = torch.autograd.grad(loss, list(model.parameters()))
                    with torch.no_grad():
                        for p, g in zip(model.parameters(), grads):
                            p -= 0.5 * g
            assert torch.allclose(vector(model), upload, rtol=0, atol=1e-12) == (holder == k)


def test_banks_that_are_not_judged_have_no_scores_and_nothing_else_changes():
    X, y = rows()
    judged, not_judged = (
        run(X, y, split_tree(len(y)), judge_banks=judge) for judge in (True, False)
    )
    assert [len(scores) for scores in judged.bank_scores] == [3, 3] and not_judged.bank_scores == ()
    assert (
        torch.equal(judged.parameters[-1], not_judged.parameters[-1])
        and judged.scores == not_judged.scores
    )


def test_one_server_is_its_first_model_and_seeds_decide_everything():
    X, y = rows()
    tree = split_tree(len(y))
    server = run(X, y, one_server(tree), seed=4)
    assert len(server.parameters) == len(server.scores) == 1 and server.uploads == ()
    again, other = run(X, y, one_server(tree), seed=4), run(X, y, one_server(tree), seed=5)
    assert torch.equal(server.parameters[0], again.parameters[0])
    assert not torch.equal(server.parameters[0], other.parameters[0])
    state = torch.get_rng_state()
    run(X, y, tree)
    assert torch.equal(state, torch.get_rng_state())


def test_a_gradient_of_ones_own_takes_the_place_of_the_mean():
    X, y = (torch.from_numpy(a) for a in rows(200))
    plain = Training(batch_size=32)
    mine = Training(
        batch_size=32,
        gradient=lambda m, X, y: gradients.clipped_sum(m, X, y, max_grad_norm=math.inf) / len(X),
    )
    still = Training(
        batch_size=32, gradient=lambda m, X, y: torch.zeros(vector(m).shape, dtype=X.dtype)
    )
    models = [network(4, torch.Generator().manual_seed(0)) for _ in range(4)]
    for model, training in zip(models, (plain, mine, still)):
        fit(model, X, y.long(), training=training, rng=torch.Generator().manual_seed(1))
    assert (vector(models[0]) - vector(models[1])).abs().max() < 1e-12
    assert torch.equal(vector(models[2]), vector(models[3])) and not torch.equal(
        vector(models[0]), vector(models[3])
    )


def test_a_frozen_layer_stays_and_a_gradient_of_ones_own_would_train_it():
    X, y = (torch.from_numpy(a) for a in rows(200))
    rng = torch.Generator().manual_seed(0)
    model = network(4, rng)
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    fit(model, X, y.long(), training=Training(batch_size=32), rng=rng)
    assert torch.equal(model[0].weight, before)
    mine = Training(batch_size=32, gradient=gradients.mean_plain)
    with pytest.raises(ValueError, match="0.weight of the model is frozen"):
        fit(model, X, y.long(), training=mine, rng=rng)


def test_clipping_each_record_undoes_one_gross_outlier():
    """Section 6.3 on noisy rows: one feature of one row times 10,000 ruins plain SGD and hardly
    moves the clipped one."""
    X, y = rows(3_000)
    spoilt = X.copy()
    spoilt[5, 0] *= 1e4
    test = torch.from_numpy(rows(3_000, seed=1)[0]), rows(3_000, seed=1)[1]

    def auc(features, gradient):
        model = banks.mlp((4, 2), rng=torch.Generator().manual_seed(0), dtype=torch.float64)
        fit(
            model,
            torch.from_numpy(features),
            torch.from_numpy(y).long(),
            training=Training(gradient=gradient),
            rng=torch.Generator().manual_seed(1),
        )
        return scores(model, *test).auc

    def clipped(model, X, y):
        return gradients.clipped_sum(model, X, y, max_grad_norm=1.0) / len(X)

    assert auc(X, None) > 0.9 and auc(spoilt, None) < auc(X, None) - 0.05
    assert auc(spoilt, clipped) > auc(X, None) - 0.01


def test_the_card_transactions_come_out_as_they_are_loaded():
    data = datasets.load("creditcard", source="standin", rows=20_000)
    tree = split_tree(data.n_rows, sort_by=data.X[:, -1])
    history = run(datasets.standardise(data, tree.start)[:, 1:], data.y, tree, seed=1)
    assert all(math.isfinite(score.log_loss) for score in history.scores)
    run(
        data.X[:, 1:], data.y, tree, training=Training(optimizer=partial(torch.optim.SGD, lr=1e-4))
    )  # read-only arrays


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda X, y: split_tree(13), "13 rows are too few for the tree"),
        (lambda X, y: split_tree(0), "0 rows are too few for the tree"),
        (lambda X, y: split_tree(100, first=100), "first must be one of the 100 rows.* got 100"),
        (
            lambda X, y: split_tree(100, reading="by bank"),
            "reading must be one of .* got 'by bank'",
        ),
        (
            lambda X, y: run(X, y, split_tree(600), weights=(0, 0, 0)),
            r"and not all 0, got \(0, 0, 0\)",
        ),
        (
            lambda X, y: run(X, y, split_tree(600), weights=(1, 1)),
            r"weights must be 3 numbers >= 0, one a vector, and not all 0, got \(1, 1\)",
        ),
        (lambda X, y: run(X, y, split_tree(600), rule="sum"), "rule must be one of .* got 'sum'"),
        (lambda X, y: run(X, 2 * y, split_tree(600)), "labels must be 0 or 1, got 2"),
        (
            lambda X, y: run(np.where(X > 2, np.nan, X), y, split_tree(600)),
            "X must be finite, got [0-9]+ of 2400 values that are NaN",
        ),
        (lambda X, y: Training(n_epochs=0), "n_epochs must be a whole number >= 1, got 0"),
        (lambda X, y: Training(batch_size=2.5), "batch_size must be a whole number >= 1, got 2.5"),
        (
            lambda X, y: run(
                1e200 * X,
                y,
                split_tree(600),
                training=Training(optimizer=partial(torch.optim.SGD, lr=1e200)),
            ),
            "scores must be finite",
        ),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(*rows())
