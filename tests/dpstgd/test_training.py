import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import make_classification

from ppkit.dpstgd.training import Participant, run_arm, run_arms, train
from ppkit.dpstgd.uploads import DPSGD, DPSTGD, PlainSGD
from ppkit.evaluation import auc
from ppkit.models import mlp, n_parameters

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


def vector(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()


@dataclass
class Recorder:
    """An upload that notes who called and always points the same way, after so many draws."""

    direction: float = 1.0
    draws: int = 0
    seen: list = field(default_factory=list)

    def __call__(self, model, X, y, *, expected_batch, rng):
        self.seen.append((X.clone(), expected_batch))
        rng.random(self.draws)
        return torch.full((n_parameters(model),), self.direction, dtype=X.dtype)

    def bits(self, size):
        return 1


SETTINGS = dict(sample_rate=0.5, n_rounds=3, lr=0.1)


def test_full_batches_and_plain_uploads_are_torch_sgd():
    data = banks()
    model, oracle = network(), network()
    train(
        model,
        data,
        upload=PlainSGD(),
        sample_rate=1.0,
        n_rounds=5,
        lr=lambda t: 1 / t,
        rng=np.random.default_rng(0),
    )
    for t in range(1, 6):
        for X, y in data:
            optimiser = torch.optim.SGD(oracle.parameters(), lr=1 / t)
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                oracle(torch.from_numpy(X)), torch.from_numpy(y).long()
            )
            loss.backward()
            optimiser.step()
    assert (vector(model) - vector(oracle)).abs().max() < 1e-12
    assert (vector(model) - vector(network())).abs().max() > 0.1


def test_a_training_whose_samples_are_all_empty_still_uploads_and_counts():
    model = network(dtype=torch.float32)
    history = train(
        model,
        banks(2, n_rows=1, dtype=np.float32),
        upload=DPSTGD(1.0, 4, 0.5),
        sample_rate=1e-12,
        n_rounds=3,
        lr=0.1,
        rng=np.random.default_rng(0),
    )
    assert history.bits == 6 * 4 * (6 + 1)
    assert int((vector(model) != vector(network(dtype=torch.float32))).sum()) > 4


@pytest.mark.slow
def test_the_sample_is_poisson():
    n_rows, rate, draws = 8, 0.3, 20_000
    member = Participant(torch.zeros(n_rows, 1), torch.zeros(n_rows), np.random.default_rng(5))
    included = np.zeros((draws, n_rows), dtype=bool)
    for row in included:
        row[member.sample(rate)] = True
    # exact law of the 2^8 patterns; every count is binomial; union bound over 256 two-sided tests
    weight = 2 ** np.arange(n_rows)
    counts = np.bincount(included @ weight, minlength=256)
    sizes = np.array([bin(pattern).count("1") for pattern in range(256)])
    chances = rate**sizes * (1 - rate) ** (n_rows - sizes)
    tail = 1e-6 / (4 * 256)
    assert (counts >= stats.binom.ppf(tail, draws, chances)).all()
    assert (counts <= stats.binom.ppf(1 - tail, draws, chances)).all()


def test_participants_answer_in_turn_each_from_its_own_rows():
    data, recorder = banks(3), Recorder()
    train(network(), data, upload=recorder, rng=np.random.default_rng(0), **SETTINGS)
    assert len(recorder.seen) == 9
    for call, (X, expected_batch) in enumerate(recorder.seen):
        own = {row.tobytes() for row in data[call % 3][0]}
        assert len(X) and {row.tobytes() for row in X.numpy()} <= own
        assert expected_batch == 20.0


@pytest.mark.parametrize(
    "lr, step", [(0.25, 0.25 * 6), (lambda t: 1.0 / t, 2 * (1 + 1 / 2 + 1 / 3))]
)
def test_the_learning_rate_follows_the_round(lr, step):
    model = network()
    train(
        model,
        banks(2),
        upload=Recorder(),
        sample_rate=0.5,
        n_rounds=3,
        lr=lr,
        rng=np.random.default_rng(0),
    )
    assert (vector(network()) - vector(model) - step).abs().max() < 1e-12


def test_history_says_what_was_evaluated_and_sent():
    history = train(
        network(),
        banks(3),
        upload=DPSTGD(1.0, 5, 0.1),
        sample_rate=0.5,
        n_rounds=7,
        lr=0.1,
        rng=np.random.default_rng(0),
        evaluate=lambda model: float(vector(model) @ torch.arange(47.0, dtype=torch.float64)),
        every=3,
    )
    assert history.rounds == (0, 3, 6, 7) and len(set(history.values)) == 4
    assert history.bits == 21 * 5 * (6 + 1)  # 47 parameters: 6 bits an index, 1 a sign
    dense = train(network(), banks(3), upload=PlainSGD(), rng=np.random.default_rng(0), **SETTINGS)
    assert dense.bits == 9 * 32 * 47


def test_the_generator_decides_everything_and_participants_do_not_share_randomness():
    uploads = (DPSTGD(1.0, 5, 0.1), PlainSGD(), DPSGD(1.0, 1.0))
    for upload in uploads:
        ends = []
        for seed in (0, 0, 1):
            model = network()
            train(model, banks(3), upload=upload, rng=np.random.default_rng(seed), **SETTINGS)
            ends.append(vector(model))
        assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])
    same_rows, together, alone = banks(1) * 2, Recorder(), Recorder()
    train(network(), same_rows, upload=together, rng=np.random.default_rng(0), **SETTINGS)
    train(network(), same_rows[:1], upload=alone, rng=np.random.default_rng(0), **SETTINGS)
    assert not torch.equal(together.seen[0][0], together.seen[1][0])
    assert all(
        torch.equal(X, Y) for (X, _), (Y, _) in zip(together.seen[::2], alone.seen, strict=True)
    )


def arm_problem():
    X, y = make_classification(
        1500, SIZES[0], n_informative=4, n_redundant=0, class_sep=1.5, flip_y=0.0, random_state=0
    )
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    split = SimpleNamespace(
        participants=tuple(np.array_split(np.arange(1000), 4)), test=np.arange(1000, 1500)
    )
    return X, y.astype(np.int8), split


def arm(upload, *, lr, seed=0, n_rounds=60, **settings):
    return run_arm(
        *arm_problem(),
        upload=upload,
        sample_rate=0.1,
        n_rounds=n_rounds,
        lr=lr,
        seed=seed,
        hidden=(5,),
        every=20,
        **settings,
    )


@pytest.mark.slow
def test_every_method_learns_and_noise_costs():
    ends = {
        name: arm(upload, lr=lr).values
        for name, upload, lr in (
            ("plain", PlainSGD(), 0.5),
            ("dpsgd", DPSGD(0.5, 1.0), 0.5),
            ("weak", DPSTGD(10.0, 10, 1.0), 0.02),
            ("strong", DPSTGD(0.001, 10, 1.0), 0.02),
        )
    }
    assert all(values[0] == ends["plain"][0] for values in ends.values())  # one seed, one start
    assert min(ends["plain"][-1], ends["dpsgd"][-1], ends["weak"][-1]) > 0.9
    assert ends["strong"][-1] < 0.85


@pytest.mark.slow
def test_from_zero_plain_sgd_stays_and_noise_breaks_the_symmetry():
    assert set(arm(PlainSGD(), lr=0.5, start="zero").values) == {0.5}
    assert arm(DPSTGD(1.0, 10, 1.0), lr=0.02, start="zero", n_rounds=200).values[-1] > 0.8


@pytest.mark.slow
def test_arms_run_side_by_side_give_the_same():
    one = [arm(DPSTGD(1.0, 10, 1.0), lr=0.02, seed=seed, n_rounds=5) for seed in (0, 1)]
    many = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(arm)(DPSTGD(1.0, 10, 1.0), lr=0.02, seed=seed, n_rounds=5) for seed in (0, 1)
    )
    assert one == many and one[0] != one[1]


@pytest.mark.slow
def test_arms_together_are_to_the_bit_what_they_are_one_by_one():
    uploads = {"private": DPSTGD(1.0, 10, 1.0), "plain": PlainSGD(), "dpsgd": DPSGD(0.5, 1.0)}
    rates = {"private": 0.02, "plain": lambda t: 0.5 / t, "dpsgd": 0.5}
    about = dict(sample_rate=0.1, n_rounds=5, seed=3, hidden=(5,), every=2)
    arms = {name: dict(upload=upload, lr=rates[name]) for name, upload in uploads.items()}
    arms["more"] = arms["private"] | {"sample_rate": 0.2}
    arms["longer"] = arms["plain"] | {"n_rounds": 7}
    together = run_arms(*arm_problem(), arms, **about)
    alone = {name: run_arm(*arm_problem(), **about | arms[name]) for name in arms}
    assert together == alone and list(together) == list(arms)
    ends = {history.values[-1] for history in together.values()}
    assert together["plain"].rounds == (0, 2, 4, 5) and len(ends) == 5


def test_a_history_has_the_network_that_gave_its_last_value():
    X, y, split = arm_problem()
    done = arm(DPSTGD(1.0, 10, 1.0), lr=0.02, n_rounds=5)
    with torch.no_grad():
        odds = torch.diff(done.model(torch.from_numpy(X[split.test])))[:, 0].numpy()
    assert auc(y[split.test], odds) == done.values[-1]


def test_arms_of_one_seed_see_the_same_rows_whatever_noise_they_draw():
    seen = []
    for noise in (0, 7):
        recorder = Recorder(draws=noise)
        train(network(), banks(2), upload=recorder, rng=np.random.default_rng(0), **SETTINGS)
        seen.append([X for X, _ in recorder.seen])
    assert all(torch.equal(X, Y) for X, Y in zip(*seen, strict=True))


def test_the_data_decide_the_precision_and_may_be_read_only():
    X, y, split = arm_problem()
    settings = dict(
        upload=PlainSGD(), sample_rate=0.1, n_rounds=40, lr=0.5, seed=0, hidden=(5,), every=40
    )
    ends = []
    for dtype in (np.float32, np.float64):
        X = X.astype(dtype)
        X.flags.writeable = False
        ends.append(run_arm(X, y, split, **settings).values[-1])
    assert min(ends) > 0.9 and ends[0] != ends[1]  # torch draws another start at another precision


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sample_rate": 0.0}, r"sample_rate must be in \(0, 1\], got 0.0"),
        ({"sample_rate": 1.1}, r"sample_rate must be in \(0, 1\], got 1.1"),
        ({"sample_rate": math.nan}, r"sample_rate must be in \(0, 1\], got nan"),
        ({"n_rounds": 0}, "n_rounds must be a whole number >= 1, got 0"),
        ({"every": 0}, "every must be a whole number >= 1, got 0"),
        ({"lr": 0.0}, "lr in round 1 must be > 0, got 0.0"),
        ({"lr": lambda t: 2.0 - t}, "lr in round 2 must be > 0, got 0.0"),
        ({"upload": DPSTGD(1.0, 48, 1.0)}, "n_uploads must be from 1 to n_parameters = 47, got 48"),
    ],
)
def test_bad_settings_are_named(change, message):
    settings = SETTINGS | {"upload": PlainSGD()} | change
    with pytest.raises(ValueError, match=message):
        train(network(), banks(3), rng=np.random.default_rng(0), **settings)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda X, y: (X[:0], y[:0]), "participant 1: a participant has no data: X has 0 rows"),
        (
            lambda X, y: (X, y[1:]),
            r"participant 1: y must be \(40,\), one label a row, got \(39,\)",
        ),
        (
            lambda X, y: (np.where(X > 2, np.nan, X), y),
            "participant 1: X must be finite, got [1-9]",
        ),
        (
            lambda X, y: (X, np.where(np.arange(40) == 3, 2, y)),
            r"participant 1: labels must be 0 or 1, got 2",
        ),
    ],
)
def test_bad_data_name_the_participant(spoil, message):
    data = banks(3)
    data[1] = spoil(*data[1])
    with pytest.raises(ValueError, match=message):
        train(network(), data, upload=PlainSGD(), rng=np.random.default_rng(0), **SETTINGS)


@pytest.mark.parametrize("upload", [PlainSGD(), DPSGD(1.0, 1.0), DPSTGD(1.0, 3, 1.0)])
def test_a_frozen_parameter_is_refused_and_stays(upload):
    model = network()
    model[2].bias.requires_grad_(False)
    before = vector(model)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="2.bias of the model is frozen"):
        train(model, banks(), upload=upload, rng=rng, **SETTINGS)
    assert torch.equal(vector(model), before)


def test_nobody_is_refused():
    with pytest.raises(ValueError, match="n_participants must be a whole number >= 1, got 0"):
        train(network(), [], upload=PlainSGD(), rng=np.random.default_rng(0), **SETTINGS)


def test_read_only_arrays_are_accepted():
    data = banks(1)
    for values in data[0]:
        values.flags.writeable = False
    train(network(), data, upload=PlainSGD(), rng=np.random.default_rng(0), **SETTINGS)
