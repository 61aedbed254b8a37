"""Each rule gives each of its verdicts on values worked out by hand, and nothing empirical is ever
refuted."""

import numpy as np
import pytest

from ppkit.verdicts import rules
from ppkit.verdicts.rules import Evidence


def verdict(name, values, *, against=None, proven=None, halfwidth=0.0, printed=None, **options):
    """The verdict, with what stands beside it in brackets."""
    evidence = Evidence(
        values,
        against=against,
        proven=proven,
        halfwidth=halfwidth,
        printed=printed,
        options=options,
    )
    found = rules.RULES[name](evidence)
    return f"{found.verdict} ({found.detail})" if found.detail else found.verdict


HOLDS = "not reproduced (the direction holds)"
GAP = "not reproduced (the proof has a gap)"


@pytest.mark.parametrize(
    "value, printed, expected",
    [
        (18.506, "18.50", "reproduced"),  # cut
        (18.506, "18.51", "reproduced"),  # rounded
        (18.506, "18.52", "not reproduced"),
        (14312.0, "14312.4", "not reproduced"),
        (0.3749999, "0.37", "reproduced"),
        (14312, "14312", "reproduced"),
    ],
)
def test_digits_takes_rounded_and_cut(value, printed, expected):
    assert verdict("digits", value, printed=printed) == expected


def test_digits_says_when_a_number_was_cut():
    assert rules.digits(Evidence(18.506, printed="18.50")).why == "cut, not rounded"
    assert rules.digits(Evidence(18.506, printed="18.51")).why == ""


@pytest.mark.parametrize(
    "values, options, expected",
    [
        ([0.95, 0.97], dict(abs=0.02), "reproduced"),
        ([0.90, 0.90], dict(abs=0.02), HOLDS),
        ([-0.5, -0.5], dict(abs=0.02), "not reproduced"),
        ([0.99, 0.99], dict(abs=0.02, better="higher"), "not reproduced (better than printed)"),
        ([0.90, 0.90], dict(abs=0.02, better="higher"), HOLDS),
        ([0.90, 0.90], dict(abs=0.02, better="lower"), "not reproduced (better than printed)"),
        ([0.99, 0.99], dict(abs=0.02, better="lower"), HOLDS),
        ([0.97, 0.97], dict(abs=0.02, better="higher"), "reproduced"),
        ([1.04], dict(rel=0.1), "reproduced"),
    ],
)
def test_within(values, options, expected):
    assert verdict("within", values, printed="0.96", **options) == expected


def test_within_of_zero_has_no_direction():
    assert verdict("within", [0.3], against=0.0, abs=0.1) == "not reproduced"


RISING = {
    "a": [0.80, 0.81, 0.82, 0.80, 0.81],
    "b": [0.90, 0.91, 0.92, 0.90, 0.91],
    "c": [0.95, 0.96, 0.97, 0.95, 0.96],
}


def test_ordering_wants_every_step_in_most_seeds():
    assert (
        verdict("ordering", RISING, ordering=["a", "b", "c"], slack=0.005, seeds=0.8)
        == "reproduced"
    )
    assert verdict("ordering", RISING, ordering=["a", "c", "b"], slack=0.005, seeds=0.8) == HOLDS
    assert (
        verdict("ordering", RISING, ordering=["c", "b", "a"], slack=0.005, seeds=0.8)
        == "not reproduced"
    )


def test_a_flat_line_does_not_rise():
    assert (
        verdict("ordering", {"a": [0.9], "b": [0.9]}, ordering=["a", "b"], slack=0.005)
        == "not reproduced"
    )


def test_slack_forgives_a_small_step_down_only():
    arms = {"a": [0.8], "b": [0.95], "c": [0.947]}
    assert verdict("ordering", arms, ordering=["a", "b", "c"], slack=0.005) == "reproduced"
    assert verdict("ordering", arms, ordering=["a", "b", "c"], slack=0.001) == HOLDS


def test_a_level_has_no_direction():
    assert verdict("within", 0.6, printed="0.9", abs=0.02) == HOLDS
    assert verdict("within", 0.6, printed="0.9", abs=0.02, level=True) == "not reproduced"


def test_few_positives_are_decided_by_the_interval():
    assert verdict("within", 0.95, printed="0.96", abs=0.02, halfwidth=0.005) == "reproduced"
    assert verdict("within", 0.95, printed="0.96", abs=0.02, halfwidth=0.05) == HOLDS
    assert verdict("at_least", 0.03, at_least=0.01, halfwidth=0.05) == HOLDS
    assert (
        verdict(
            "ordering", {"a": [0.90], "b": [0.93]}, ordering=["a", "b"], slack=0.0, halfwidth=0.03
        )
        == HOLDS
    )


def test_a_direction_that_holds_says_whether_the_value_or_its_interval_falls_short():
    by_interval = rules.at_least(Evidence(0.03, halfwidth=0.05, options={"at_least": 0.0}))
    by_value = rules.at_least(Evidence(0.03, options={"at_least": 0.1}))
    assert (
        by_interval.why == "positive, but its interval reaches under 0.0"
        and by_value.why == "positive, but it is under 0.1"
    )


def test_thresholds():
    assert verdict("at_least", [0.02, 0.04], at_least=0.01) == "reproduced"
    assert verdict("at_least", [0.002, 0.004], at_least=0.01) == HOLDS
    assert verdict("at_least", [-0.02, 0.04], at_least=0.05) == "not reproduced"
    assert verdict("at_most", 1, at_most=1) == "reproduced"
    assert verdict("at_most", 7, at_most=1) == "not reproduced"
    assert verdict("flat", [0.95, 0.96], spread=0.02) == "reproduced"
    assert verdict("flat", [0.95, 0.98], spread=0.02) == "not reproduced"


def test_a_mean_that_one_seed_carries_is_no_result():
    assert verdict("at_least", [0.9, -0.1, -0.1, -0.1, -0.1], at_least=0.05) == "not reproduced"
    assert verdict("within", [0.5, -0.5, 0.01], against=0.0, abs=0.05) == "not reproduced"
    assert verdict("at_most", [-9.0, 2.0, 2.0], at_most=1) == "not reproduced"


@pytest.mark.parametrize(
    "name, values, halfwidth, why",
    [
        ("at_most", [0.01, 0.01, 0.03, 0.03, 0.03], 0.0, "2 of 5 seeds stay at or under 0.02"),
        ("at_most", [0.03, 0.04], 0.0, ""),  # all on one side: the value says it
        ("at_most", 0.03, 0.0, ""),
        ("at_most", [0.01, 0.01], 0.05, "its interval reaches over 0.02"),
        ("at_most", [0.01, 0.01, 0.03, 0.03, 0.03], 0.05, "2 of 5 seeds stay at or under 0.02"),
        ("at_least", [-0.01, 0.01, 0.03], 0.0, "1 of 3 seeds reach 0.02"),
        (
            "at_least",
            [0.01, 0.01, 0.09],
            0.0,
            "positive, but 1 of 3 seeds reach 0.02",
        ),  # though the mean does
        ("at_most", [0.01, 0.01], 0.0, ""),
    ],
)
def test_a_one_sided_rule_says_when_seeds_disagree_or_the_interval_decides(
    name, values, halfwidth, why
):
    assert rules.RULES[name](Evidence(values, halfwidth=halfwidth, options={name: 0.02})).why == why


POINTS = (1.0, 2.0, 4.0, 8.0, 16.0)


def test_a_slope_is_that_of_the_means_in_logarithms():
    line = {
        x: [3 * x**-2 * 0.5, 3 * x**-2 * 1.5] for x in POINTS
    }  # means on the line, runs beside it
    outcome = rules.slope(Evidence(line, options={"at": -2, "abs": 0.1}))
    assert outcome.verdict == "reproduced" and outcome.value == pytest.approx(-2, abs=1e-12)
    assert verdict("slope", line, at=-1, abs=0.1) == HOLDS
    assert verdict("slope", line, at=1, abs=0.1) == "not reproduced"


def test_a_line_that_bends_or_a_wide_interval_is_no_slope():
    bent = {x: 3 * x**-2 + 0.05 for x in POINTS}
    outcome = rules.slope(Evidence(bent, options={"at": -2, "abs": 0.1}))
    assert verdict("slope", bent, at=-2, abs=0.1) == HOLDS
    x, y = (
        np.log(POINTS),
        np.log([3 * p**-2 + 0.05 for p in POINTS]),
    )  # least squares and Student's interval, by hand
    w = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    rest = y - y.mean() - (w @ y) * (x - x.mean())
    half = 3.18244630528371 * np.sqrt((rest**2).sum() / 3 * (w**2).sum())
    assert (
        outcome.value == pytest.approx(w @ y)
        and outcome.why == f"95% interval {w @ y - half:.2f} to {w @ y + half:.2f}"
    )
    wild = {1.0: 1.0, 2.0: 4.0, 4.0: 0.01, 8.0: 1.0}
    assert (
        verdict(
            "slope",
            wild,
            at=rules.slope(Evidence(wild, options={"at": 9, "abs": 1})).value,
            abs=0.1,
        )
        == "not reproduced"
    )


@pytest.mark.parametrize(
    "values", [{1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0, 4: 0.0}, {0: 1.0, 2: 1.0, 4: 1.0}]
)
def test_a_slope_needs_three_points_above_zero(values):
    with pytest.raises(ValueError, match="a slope needs three points > 0 or more"):
        rules.slope(Evidence(values, options={"at": -2, "abs": 0.1}))


def test_bound_is_refuted_by_one_point():
    assert verdict("bound", [1.0, 2.0], against=[1.0, 3.0]) == "reproduced"
    assert verdict("bound", [1.0, 3.1], against=[1.0, 3.0]) == "refuted"


def test_a_guarantee_is_refuted_supported_or_left_with_a_gap():
    assert verdict("claim_fails_if_attained", 1.068, against=0.951) == "refuted"
    assert verdict("claim_fails_if_attained", 0.5, against=0.951, proven=0.9) == "reproduced"
    assert verdict("claim_fails_if_attained", 0.5, against=0.951, proven=1.2) == GAP
    assert verdict("claim_fails_if_attained", 0.5, against=0.951) == GAP


def test_a_false_line_of_a_proof_is_a_gap_and_no_refutation():
    assert verdict("proof_step", [0.5, 1.0], against=1.0) == "reproduced"
    assert verdict("proof_step", [0.5, 1.1], against=1.0) == GAP
    assert rules.possible("proof_step", Evidence(1.1, against=1.0)) == []


MATHEMATICS = {"bound", "claim_fails_if_attained", "proof_step"}


@pytest.mark.parametrize("name", sorted(set(rules.RULES) - MATHEMATICS))
def test_empirical_rules_cannot_refute(name):
    rng = np.random.default_rng(0)
    options = {
        "abs": 0.1,
        "ordering": ["a", "b"],
        "spread": 0.1,
        "at": -2,
        "at_least": 0.5,
        "at_most": 0.5,
    }
    for _ in range(200):
        values = {
            "ordering": {"a": rng.normal(size=3), "b": rng.normal(size=3)},
            "slope": {x: rng.exponential(size=3) for x in POINTS},
        }.get(name, float(rng.normal()))
        assert "refuted" not in verdict(name, values, printed="0.5", **options)


@pytest.mark.parametrize("values", [float("nan"), [], [1.0, float("inf")]])
def test_numbers_that_are_none_are_refused(values):
    with pytest.raises(ValueError, match="values must be finite|takes one number"):
        verdict("within", values, printed="0.5", abs=0.1)


@pytest.mark.parametrize(
    "said, plain",
    [
        ("depends on the clip", "depends on"),
        ("out of reach: all 284,807 cards", "out of reach"),
        ("not tried: needs 40 rows", "not tried"),
        ("not reproduced", "not reproduced"),
        ("undecided", "undecided"),
        ("answered", "answered"),
    ],
)
def test_a_verdict_without_its_addition(said, plain):
    assert rules.plain(said) == plain


@pytest.mark.parametrize("said", ["direction only", "open: depends on the data", "nearly", ""])
def test_what_is_no_verdict_is_refused(said):
    with pytest.raises(ValueError, match=f"{said!r} is no verdict"):
        rules.plain(said)


@pytest.mark.parametrize(
    "rule", ["nearly", {"within": {"abs": 1}, "ordering": ["a"]}, {"slack": 1}]
)
def test_a_claim_has_exactly_one_known_rule(rule):
    with pytest.raises(ValueError, match="exactly one rule"):
        rules.parse(rule)


def test_a_flat_line_is_decided_by_its_interval():
    assert verdict("flat", [0.95, 0.96], spread=0.02, halfwidth=0.004) == "reproduced"
    assert verdict("flat", [0.95, 0.96], spread=0.02, halfwidth=0.006) == "not reproduced"


@pytest.mark.parametrize(
    "values, against",
    [
        ([0.5, float("nan")], 1.0),
        ([0.5], None),
        ([0.5, 0.6], [1.0, 2.0, 3.0]),
        ([0.5, 0.6], [[1.0], [2.0]]),
        ([-3.0], [-2.0]),
        ([0.0], [0.0]),
    ],
)
def test_bound_refuses_what_it_cannot_compare(values, against):
    with pytest.raises(ValueError, match="finite numbers|one bound > 0"):
        verdict("bound", values, against=against)


def test_a_claim_that_is_just_met_is_not_refuted_whatever_its_sign():
    assert verdict("claim_fails_if_attained", -1.0, against=-1.0) == GAP
    with pytest.raises(ValueError, match="takes one number"):
        verdict("claim_fails_if_attained", 1.0, against=float("nan"))


def test_every_rule_says_its_options_and_its_interval():
    assert set(rules.OPTIONS) == set(rules.INTERVALS) == set(rules.RULES)
    assert set(rules.INTERVALS.values()) == {"mean", "arms", "slope", None}


def test_an_option_that_a_rule_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(ValueError, match="the rule within has the options abs, rel, level, better"):
        rules.parse({"within": {"ab": 0.1}})
    with pytest.raises(ValueError, match="the rule at_least has the options at_least, got slack"):
        rules.parse({"at_least": 0.1, "slack": 0.2})
    for name, options in rules.OPTIONS.items():
        rule = {name: dict.fromkeys(options, 1)} if options else name
        assert rules.parse(rule) == (name, dict.fromkeys(options, 1))
