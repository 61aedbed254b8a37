"""The paper's formula, what is attained and what is proved, side by side: Table I, the order of
the two bounds everywhere, CSV, and the command that prints them."""

import csv
import io
import math
import subprocess
import sys
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import FAR

from ppkit import accounting, audit
from ppkit.dpstgd import costs, formulas
from ppkit.dpstgd.formulas import TABLE_1

ROW_5 = dict(sample_rate=0.01, n_uploads=1_431)

# One upload at delta 2^-30, a row added or removed: attained, proved for Laplace and for Gumbel.
EXPECTED = (
    (6.52, 43.72, 7.19),
    (12.31, 43.72, 13.26),
    (8.68, 47.08, 9.34),
    (51.36, 53.11, 55.12),
    (85.17, 567.17, 92.16),
    (148.28, 567.17, 158.89),
    (89.37, 576.68, 96.42),
    (509.21, 593.48, 637.49),
)


@pytest.mark.parametrize("row, expected", list(zip(TABLE_1, EXPECTED, strict=True)))
def test_table_1(row, expected):
    where = dict(sample_rate=row.sample_rate, n_uploads=row.n_uploads)
    laplace, gumbel = costs.upload_costs(row.epsilon, n_rounds=1, **where)
    assert (laplace.mechanism, gumbel.mechanism) == ("laplace", "gumbel")
    assert laplace.formula == formulas.advanced_budget(row.epsilon, **where) == gumbel.formula
    printed = float(row.printed_advanced)
    assert laplace.formula == pytest.approx(printed, abs=0.08)  # the last row is a misprint
    assert (laplace.attained, laplace.proved, gumbel.proved) == pytest.approx(expected, abs=0.006)
    if row.sample_rate < 1:
        assert laplace.attained > printed  # so the printed budget is wrong


def test_all_rounds_of_row_5():
    one, every, *_ = costs.upload_costs(0.5, n_rounds=200, **ROW_5)
    assert (one.n_rounds, every.n_rounds) == (1, 200)
    assert (one.formula, one.attained, one.proved) == pytest.approx(
        (2.351, 85.17, 567.17), abs=0.01
    )
    assert (every.attained, every.proved) == pytest.approx((489.90, 7458.77), abs=0.01)
    # Theorem 2.5 by hand: 2 * 200 * 1,431 mechanisms of ln(1 + .01 (e^.5 - 1)) each
    each, k = math.log(1 + 0.01 * math.expm1(0.5)), 2 * 200 * 1_431
    by_hand = math.sqrt(2 * k * 30 * math.log(2)) * each + k * each * math.expm1(each)
    assert every.formula == pytest.approx(by_hand, rel=1e-9) and every.formula < every.attained
    assert every.formula_by.endswith("all choices of all rounds at once (Theorem 2.5)")


@pytest.mark.parametrize(
    "epsilon, n_uploads, n_rounds, source",
    [
        (0.5, 1, 1, "Theorem 4.2, basic"),
        (0.5, 1_431, 1, "Theorem 4.2, advanced"),
        (0.01, 1, 3, "Theorem 4.2, basic, rounds added up (Theorem 2.4)"),
    ],
)
def test_the_formula_is_the_least_that_the_theorems_give(epsilon, n_uploads, n_rounds, source):
    where = dict(sample_rate=0.01, n_uploads=n_uploads)
    *_, last = costs.upload_costs(epsilon, n_rounds=n_rounds, mechanisms=["laplace"], **where)
    basic = n_rounds * formulas.basic_budget(epsilon, **where)
    assert last.formula_by == source
    assert last.formula <= basic and (last.formula == basic) == ("basic" in source)


@given(
    epsilon=st.floats(1e-3, 50),
    sample_rate=st.floats(1e-3, 1),
    sizes=st.tuples(st.integers(1, 300), st.integers(0, 3_000)),
    n_rounds=st.integers(1, 400),
    delta=st.sampled_from([2.0**-30, 1e-5, 1e-60]),
    neighbouring=st.sampled_from(accounting.NEIGHBOURING),
)
def test_no_more_is_attained_than_proved(
    epsilon, sample_rate, sizes, n_rounds, delta, neighbouring
):
    n_uploads, others = sizes
    found = costs.upload_costs(
        epsilon,
        sample_rate=sample_rate,
        n_uploads=n_uploads,
        n_parameters=n_uploads + others,
        n_rounds=n_rounds,
        delta=delta,
        neighbouring=neighbouring,
    )
    assert len(found) == (2 if n_rounds == 1 else 4)
    for cost in found:
        assert 0 <= cost.attained <= cost.proved * (1 + 1e-9) and cost.formula > 0
    for first, *last in (found[: len(found) // 2], found[len(found) // 2 :]):
        for every in last:
            assert every.attained >= first.attained * (1 - 1e-9)
            assert every.formula >= first.formula


def test_a_contradiction_is_not_printed(monkeypatch):
    monkeypatch.setattr(costs, "rounds_attained", lambda *_, **__: 1e6)
    with pytest.raises(ValueError, match="is proved to hold: one of the two is wrong"):
        costs.upload_costs(0.5, n_rounds=1, **ROW_5)


@pytest.mark.parametrize(
    "changed, sentence",
    [
        (dict(epsilon=0.0), "epsilon must be a finite number > 0, got 0.0"),
        (dict(n_rounds=0), "n_rounds must be a whole number >= 1, got 0"),
        (dict(n_uploads=1.5), "n_uploads must be a whole number >= 1, got 1.5"),
        (dict(delta=0.0), "delta must be > 0, got 0.0"),
        (dict(mechanisms=["gauss"]), "mechanism must be one of laplace, gumbel, got 'gauss'"),
        (dict(neighbouring="swap"), "neighbouring must be one of add_remove, replace_one, got"),
        (dict(n_parameters=1_000), "n_uploads must be at most n_parameters = 1000, got 1431"),
    ],
)
def test_what_is_out_of_range_is_refused(changed, sentence):
    settings = dict(epsilon=0.5, n_rounds=1) | ROW_5 | changed
    with pytest.raises(ValueError, match=sentence):
        costs.upload_costs(**settings)


def test_csv_keeps_every_digit():
    kept = costs.upload_costs(0.5, n_rounds=200, neighbouring="replace_one", **ROW_5)
    read = list(csv.DictReader(io.StringIO(costs.as_csv(kept))))
    for cost, line in zip(kept, read, strict=True):
        values = asdict(cost)
        assert {name: type(values[name])(text) for name, text in line.items()} == values


def test_the_command_prints_the_three_columns(ppkit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    asked = ("--epsilon", ".5", "--sample-rate", ".01", "--uploads", "1431")
    code, said, wrong = ppkit("budget", *asked, "--rounds", "200")
    assert (code, wrong) == (0, "")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "a row added or removed (add_remove)" in lines[0]
    assert "noise, uploads the paper's formula an attacker attains proved" in lines
    assert "laplace, 1 upload 2.35 85.17 567.17" in lines
    assert "laplace, 200 uploads 55.56 489.90 7,458.77" in lines
    assert "gumbel, 200 uploads 55.56 489.90 906.36" in lines
    assert "proved: few samples (laplace, 200 uploads; gumbel, 200 uploads)" in lines


def test_the_command_prints_csv_of_one_noise_and_relation(ppkit):
    asked = ("--epsilon", ".5", "--sample-rate", ".01", "--uploads", "1431", "--csv")
    code, said, _ = ppkit(
        "budget", *asked, "--mechanism", "gumbel", "--neighbouring", "replace_one"
    )
    assert code == 0
    assert said == costs.as_csv(
        costs.upload_costs(
            0.5, n_rounds=1, neighbouring="replace_one", mechanisms=["gumbel"], **ROW_5
        )
    )


def test_the_command_refuses_in_one_sentence(ppkit):
    asked = ("--epsilon", "0", "--sample-rate", ".01", "--uploads", "1431")
    said = "ppkit: epsilon must be a finite number > 0, got 0.0\n"
    assert ppkit("budget", *asked) == (2, "", said)


def test_the_floor_is_that_of_the_best_set_of_counts():
    [cost] = costs.upload_costs(0.5, n_rounds=1, mechanisms=["laplace"], **ROW_5)
    counted = audit.sign_count(0.5, n_parameters=14_312, neighbouring="add_remove", **ROW_5)
    assert cost.attained == pytest.approx(counted)


@pytest.mark.slow
@pytest.mark.processes
def test_formulas_need_no_torch():
    code = "import sys\nfrom ppkit import dpstgd\ndpstgd.upload_costs\n"
    code += "assert 'torch' not in sys.modules\ndpstgd.DPSGD\nassert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=FAR)
