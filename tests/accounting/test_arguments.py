"""Every public function about budgets, noise and attacks on it, each argument at odd values:
the answer is a number, or the refusal is one sentence that names the argument."""

import inspect
import math

import numpy as np
import pytest

from ppkit import accounting, audit, mechanisms
from ppkit.accounting import renyi
from ppkit.backtracking import noise
from ppkit.collaboration import privacy
from ppkit.dpstgd import formulas

ODD = (1e300, 1e-300, 5e-324, 0, -1, math.nan, math.inf, -math.inf, 1.5, 5.0, True, "word", None)
UPLOAD = dict(sample_rate=0.01, n_uploads=3, n_parameters=8, delta=1e-6)
COUNTED = UPLOAD | dict(epsilon=0.5, neighbouring="add_remove", mechanism="laplace")
RATIO = dict(t=1.0, mean_top=0.3, sd_top=1.0, mean_bottom=1.0, sd_bottom=2.0)
ANSWERS = dict(gradient_bound=1.0, n_records=100, horizon=10, epsilon=1.0, kappa=2, delta=1e-6)
ORDERS = np.arange(2.0, 10.0)
VECTOR, RNG = np.array([0.5, -1.0, 0.0]), np.random.default_rng(0)
CHOSEN = dict(g=VECTOR, n=2, scale=1.0, rng=RNG)
RANDOM = dict(values=VECTOR, scale=1.0, rng=RNG)
CALLS = {
    accounting.get_upload_budget: COUNTED | dict(n_rounds=3, rows_per_unit=2),
    accounting.get_upload_budgets: COUNTED | dict(n_rounds=3, rows_per_unit=2),
    accounting.kov_epsilon: dict(epsilon=0.5, k=4, delta=1e-6),
    accounting.calibrate_upload: UPLOAD | dict(total=1.0),
    accounting.rounds_within: UPLOAD | dict(total=1.0, epsilon=0.5, at_most=20),
    accounting.bounded_range_curve: dict(width=1.0, n_selections=2),
    accounting.laplace_curve: dict(shift=1.0, n_values=2),
    accounting.to_epsilon: dict(orders=ORDERS, log_moments=ORDERS, delta=1e-6),
    accounting.curve_epsilon: dict(curve=lambda orders: orders, delta=1e-6, n_rounds=3),
    accounting.sampled_log_moments: dict(
        curve=lambda orders: orders, sample_rate=0.01, neighbouring="replace_one"
    ),
    accounting.sampled_epsilon: dict(
        log_moments=np.zeros(len(renyi.ORDERS)), delta=1e-6, n_rounds=3
    ),
    accounting.amplified: dict(epsilon=0.5, q=0.1),
    audit.exact_top_n: dict(
        epsilon=0.5, sample_rate=0.1, n=3, d=8, neighbouring="add_remove", mechanism="gumbel"
    ),
    audit.sign_count: COUNTED,
    audit.rounds_attained: COUNTED | dict(n_rounds=3, pushed=7),
    audit.returned_values: dict(epsilon=0.5, n_parameters=3),
    audit.laplace_l2: dict(epsilon=0.5, n_parameters=3),
    audit.selection_probability: dict(magnitudes=VECTOR),
    audit.magnitudes_of: dict(magnitudes=VECTOR),
    audit.empirical_epsilon: dict(hits=5, trials=9, other_hits=1, other_trials=8, failure=1e-6),
    audit.told_apart: dict(
        without=np.array([0.5, 0.5]), with_it=np.array([0.2, 0.8]), n_times=3, delta=1e-6
    ),
    audit.largest_sum: dict(noise_multiplier=1.0, n_batches=5, n_epochs=2, delta=1e-6, without=1.0),
    mechanisms.laplace: RANDOM,
    mechanisms.gaussian: RANDOM,
    mechanisms.gumbel_top_n: CHOSEN,
    mechanisms.laplace_top_n: CHOSEN,
    mechanisms.laplace_signed_values: CHOSEN,
    mechanisms.laplace_true_sign: CHOSEN,
    formulas.sampled_epsilon: dict(epsilon=0.5, sample_rate=0.1),
    formulas.basic_budget: dict(epsilon=0.5, sample_rate=0.1, n_uploads=3),
    formulas.advanced_budget: dict(epsilon=0.5, sample_rate=0.1, n_uploads=3, delta=1e-6),
    formulas.selection_ratio_bound: dict(gap=1.0),
    formulas.selection_probability_product: dict(magnitudes=VECTOR),
    formulas.upload_bits: dict(n_uploads=3, n_parameters=8),
    formulas.dense_bits: dict(n_parameters=8),
    noise.ratio_cdf: RATIO,
    noise.error_cdf: dict(error=0.1, value=1.0, bias_grad=0.5, noise_scale=0.1, n_rounds=3),
    noise.rounds_until: dict(error=0.5, p=0.9, value=1.0, bias_grad=0.5, noise_scale=0.1),
    privacy.laplace_scale: ANSWERS,
    privacy.gaussian_scale: ANSWERS,
    privacy.zcdp_budget: dict(epsilon=1.0, delta=1e-6),
}
INFINITE = {  # what may be infinite, and why
    accounting.amplified,  # of an infinite budget
    formulas.advanced_budget,  # the paper's formula has e^epsilon in it
    accounting.bounded_range_curve,  # a function
}
MADE_OF = {"kappa": "epsilon"}  # each data set promises epsilon / kappa
ARRAYS = ("values", "g", "magnitudes", "without", "with_it", "orders", "log_moments")


def public(module):
    return [
        f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and name[0] != "_"
    ]


def test_no_public_function_is_left_out():
    for module in (accounting, audit, mechanisms, formulas, noise):
        assert set(public(module)) <= set(CALLS)


def numbers_in(answer):
    """All numbers of an answer; a curve is looked at where it is used."""
    if callable(answer):
        answer = answer(ORDERS)
    if isinstance(answer, accounting.Budget):
        answer = answer.epsilon
    if isinstance(answer, (list, tuple)):
        return np.concatenate([numbers_in(one) for one in answer])
    return np.ravel(np.asarray(answer, dtype=float))


CASES = [
    pytest.param(f, name, id=f"{f.__module__.partition('.')[2]}.{f.__name__}-{name}")
    for f, settings in CALLS.items()
    for name in settings
    if name not in ("rng", "curve")
]


@pytest.mark.parametrize("function, name", CASES)
def test_odd_values_are_answered_or_refused_in_one_sentence(function, name):
    settings = CALLS[function]
    assert np.isfinite(numbers_in(function(**settings))).all()
    array = name in ARRAYS or function.__module__ == noise.__name__
    for value in ODD[:-2] if array else ODD:  # words are numpy's to refuse
        try:
            answer = function(**settings | {name: value})
        except ValueError as refusal:
            said = str(refusal)
            assert name in said or MADE_OF.get(name, name) in said, said
            assert "\n" not in said and len(said) < 250, said
        else:
            assert value != "word", "any word was taken"
            found = numbers_in(answer)
            assert not np.isnan(found).any(), (value, found)
            assert function in INFINITE or np.isfinite(found).all(), (value, found)


WHOLE = [case for case in CASES if isinstance(CALLS[case.values[0]][case.values[1]], int)]


@pytest.mark.parametrize("function, name", WHOLE)
def test_whole_numbers_may_be_floats(function, name):
    settings, answers = CALLS[function], []
    for number in (settings[name], float(settings[name])):
        same_noise = {"rng": np.random.default_rng(0)} if "rng" in settings else {}
        answers.append(numbers_in(function(**settings | {name: number} | same_noise)))
    np.testing.assert_array_equal(*answers)
