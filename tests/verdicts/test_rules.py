"""Each rule gives each of its verdicts on values worked out by hand, and nothing empirical is ever
refuted."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ppkit.verdicts import ledger, rules, wording
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
    found = rules.RULES[name].decide(evidence)
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
        (9830.035, "9830.1", "not reproduced"),
        (0.3749999, "0.37", "reproduced"),
        (14312, "14312", "reproduced"),
    ],
)
def test_digits_takes_rounded_and_cut(value, printed, expected):
    assert verdict("digits", value, printed=printed) == expected


@pytest.mark.parametrize(
    "value, printed, expected",
    [
        (9830.035, "9830.1", "reproduced"),
        (9830.035, "9830.0", "reproduced"),
        (9830.035, "9830.2", "not reproduced"),
        (9830.0, "9830.1", "not reproduced"),  # nothing to round
    ],
)
def test_digits_takes_a_number_rounded_up_where_the_claim_says_so(value, printed, expected):
    assert verdict("digits", value, printed=printed, rounded_up=True) == expected


def test_digits_says_when_a_number_was_cut_or_rounded_up():
    assert rules.digits(Evidence(18.506, printed="18.50")).why == "cut, not rounded"
    assert rules.digits(Evidence(18.506, printed="18.51")).why == ""
    allowed = Evidence(9830.035, printed="9830.1", options={"rounded_up": True})
    assert rules.digits(allowed).why == "rounded up"


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
    evidence = Evidence(values, halfwidth=halfwidth, options={name: 0.02})
    assert rules.RULES[name].decide(evidence).why == why


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
    assert rules.possible(rules.RULES["proof_step"], Evidence(1.1, against=1.0)) == []


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
    with pytest.raises(ValueError, match="finite numbers|one bound > 0|give it as against"):
        verdict("bound", values, against=against)


def test_a_claim_that_is_just_met_is_not_refuted_whatever_its_sign():
    assert verdict("claim_fails_if_attained", -1.0, against=-1.0) == GAP
    with pytest.raises(ValueError, match="takes one number"):
        verdict("claim_fails_if_attained", 1.0, against=float("nan"))


# ---- a rule as RULES describes it

MATHEMATICS = {"bound", "claim_fails_if_attained", "proof_step"}
YES, NO, REFUTED = "reproduced", "not reproduced", "refuted"
LINE = {x: [0.9 * x**-2, 1.1 * x**-2] for x in POINTS}
EXAMPLES = {  # of each rule: its options, and evidence on which it decides one way and the other
    "digits": ({}, (0.5, YES), (0.6, NO)),
    "within": ({"abs": 0.2}, (0.6, YES), ([0.4, 0.5, 0.5, 0.7], YES), (0.8, NO)),
    "ordering": (
        {"ordering": ["a", "b"]},
        ({"a": [0.1, 0.2], "b": [0.3, 0.6]}, YES),
        ({"a": [0.3, 0.6], "b": [0.1, 0.2]}, NO),
    ),
    "flat": ({"spread": 0.1}, ([0.5, 0.55], YES), ([0.5, 0.7], NO)),
    "slope": ({"at": -2, "abs": 0.1}, (LINE, YES), ({x: [2.0 + 0.1 * x] for x in POINTS}, NO)),
    "at_least": ({"at_least": 0.5}, (0.6, YES), ([0.5, 0.6, 0.9], YES), (0.4, NO)),
    "at_most": ({"at_most": 0.5}, (0.4, YES), ([0.5, 0.4, 0.1], YES), (0.6, NO)),
    "bound": ({}, (0.6, YES), ([0.1, 0.6], YES), (0.8, REFUTED)),
    "claim_fails_if_attained": ({}, (0.6, NO), (0.8, REFUTED)),
    "proof_step": ({}, (0.6, YES), (0.8, NO), ([0.6, 0.8], NO)),
}
AGAINST = 0.7  # of the rules of mathematics


def evidence_of(name: str, values, printed: str = "0.5") -> Evidence:
    against = AGAINST if name in MATHEMATICS else None
    return Evidence(values, against=against, printed=printed, options=EXAMPLES[name][0])


def scaled(values, by: float):
    """The same numbers, each times `by`."""
    if isinstance(values, dict):
        return {key: scaled(of, by) for key, of in values.items()}
    return (by * np.asarray(values)).tolist()


def test_every_rule_has_examples_that_it_decides_both_ways():
    assert set(EXAMPLES) == set(rules.RULES)
    for name, (options, *examples) in EXAMPLES.items():
        assert rules.parse({name: options} if options else name) == (name, options)
        given = [rules.RULES[name].decide(evidence_of(name, one)).verdict for one, _ in examples]
        assert given == [verdict for _, verdict in examples] and len(set(given)) == 2, name


@pytest.mark.parametrize("name", sorted(set(rules.RULES) - MATHEMATICS))
def test_empirical_rules_cannot_refute(name):
    """On multiples of its examples, above 0 and below; a slope has no line below 0."""
    least = 0.05 if name == "slope" else -3.0
    for values, _ in EXAMPLES[name][1:]:
        for by in np.linspace(least, 3.0, 100):
            found = rules.RULES[name].decide(evidence_of(name, scaled(values, by)))
            assert found.verdict in (YES, NO), (values, by)


@pytest.mark.parametrize("name", sorted(rules.RULES))
def test_in_the_middle_of_an_interval_is_what_the_rule_measures(name):
    """A rule on a median that took the interval of the mean would be seen here."""
    rule = rules.RULES[name]
    for values, _ in EXAMPLES[name][1:]:
        evidence = evidence_of(name, values)
        moved = rule.interval(evidence, 0.1) if rule.interval else []
        if moved:
            middle = replace(evidence, values=moved[len(moved) // 2])
            assert rule.decide(middle).value == pytest.approx(rule.decide(evidence).value)


@pytest.mark.parametrize("name", sorted(rules.RULES))
def test_a_rule_that_may_judge_a_witness_decides_on_one_number_both_ways(name):
    single = [verdict for one, verdict in EXAMPLES[name][1:] if np.ndim(one) == 0]
    assert len(set(single)) == 2 or not rules.RULES[name].one_number


@pytest.mark.parametrize("name", sorted(rules.RULES))
def test_only_a_rule_that_compares_with_the_print_heeds_it(name):
    decide = rules.RULES[name].decide
    changed = [
        decide(evidence_of(name, one, printed="30.5")).verdict != verdict
        for one, verdict in EXAMPLES[name][1:]
    ]
    assert any(changed) == rules.RULES[name].compares_with_print


def median_within(evidence: Evidence) -> rules.Outcome:
    """Reproduced if the median lies within `abs` of the printed number."""
    median = float(np.median(evidence.values))
    near = abs(median - float(evidence.printed)) <= evidence.options["abs"]
    return rules.Outcome(YES if near else NO, median)


def test_a_new_rule_needs_no_more_than_its_line_in_the_table(monkeypatch):
    rule = rules.Rule(decide=median_within, needs=("abs",), compares_with_print=True)
    monkeypatch.setitem(rules.RULES, "median_within", rule)
    given = {"median_within": {"abs": 0.1}}
    assert rules.parse(given) == ("median_within", {"abs": 0.1})
    asks = "Reproduced if the median lies within abs of the printed number. (abs 0.1)"
    assert wording.rule(given) == asks
    evidence = Evidence([0.4, 0.5, 9.0], printed="0.5", options={"abs": 0.1})
    assert rule.decide(evidence).verdict == YES and rules.possible(rule, evidence) == []


@pytest.mark.parametrize(
    "rule, why",
    [
        (
            {"within": {"ab": 0.1}},
            "the rule within has the options abs, rel, level, better, got ab",
        ),
        ({"at_least": 0.1, "slack": 0.2}, "the rule at_least has the options at_least, got slack"),
        (
            {"within": 0.1},
            "within has the options abs, rel, level, better, by their names, got 0.1",
        ),
        ({"digits": 3}, "the rule digits has the options rounded_up, by their names, got 3"),
        ({"within": {}}, "the rule within needs the option abs or rel, got no option"),
        ("within", "the rule within needs the option abs or rel, got no option"),
        (
            {"within": {"abs": 1, "rel": 1}},
            "the rule within needs the option abs or rel, got abs, rel",
        ),
        ({"slope": {"at": -2}}, "the rule slope needs the option abs, got at"),
        ("at_least", "the rule at_least needs the option at_least, got no option"),
    ],
)
def test_an_option_that_is_unknown_or_forgotten_is_refused_in_a_sentence(rule, why):
    with pytest.raises(ValueError, match=why):
        rules.parse(rule)


# ---- what an interval leaves possible


def possible(name, values, halfwidth=0.0, **options):
    evidence = Evidence(values, printed="0.90", options={name: None, **options})
    return rules.possible(rules.RULES[name], evidence, halfwidth)


def test_the_interval_of_a_mean_over_seeds_is_student_s():
    seeds = np.array([0.45, 0.5, 0.55, 0.6])
    low, high = stats.t.interval(0.95, 3, seeds.mean(), stats.sem(seeds))
    assert possible("at_least", seeds, at_least=low - 1e-6) == [YES]
    assert possible("at_least", seeds, at_least=low + 1e-2) == [YES, NO]
    assert possible("at_least", seeds, at_least=high + 1e-6) == [NO]
    assert possible("at_most", seeds, at_most=high + 1e-6) == [YES]
    assert possible("at_most", seeds, at_most=low - 1e-6) == [NO]


def test_seeds_that_disagree_make_nothing_firm():
    seeds = [0.9, -0.1, -0.1, -0.1, -0.1]  # "not reproduced", whatever the mean
    assert possible("at_least", seeds, at_least=0.05) == [YES, NO]


def test_a_half_width_comes_before_the_seeds_and_a_row_keeps_what_either_leaves_open():
    assert possible("at_most", [0.1, 0.1], 0.5, at_most=0.4) == [YES, NO]
    assert possible("at_most", [0.1, 0.3], 0.05, at_most=0.4) == [YES]
    assert possible("at_most", [0.1, 0.3], at_most=0.4) == [YES, NO]
    assert possible("at_most", 0.1, 0.5, at_most=0.4) == [YES, NO]
    book = ledger.Ledger("wang2018", notebook="n", profile="quick")
    few = dict(data=ledger.FORMULA, positives=66, halfwidth=0.01)
    row = book.record("fig6.beats", [0.3, 0.1], **few)
    assert (row.alone, row.possible) == (YES, [NO, YES])  # 66 frauds decide, seeds doubt


def test_within_may_be_missed_on_either_side():
    assert possible("within", 0.9, 0.5, abs=0.05, better="higher") == [YES, NO]
    assert possible("within", 0.9, 0.04, abs=0.05) == [YES]


def test_the_seeds_of_an_ordering_are_compared_each_with_itself():
    asked = dict(ordering=["a", "b"], slack=0.0)
    of_a = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert possible("ordering", {"a": of_a, "b": of_a + [0.1, 0.2, 0.15, 0.1, 0.2]}, **asked) == [
        YES
    ]
    # these five steps have a mean of .15 and Student's half-width of 2.776 * .15 / sqrt(5) = .186
    uneven = of_a + [0.0, 0.3, 0.0, 0.3, 0.15]
    assert possible("ordering", {"a": of_a, "b": uneven}, **asked) == [YES, NO]
    # arms that each move little, but against each other
    one, other = np.array([0.0, 0.1, 0.0, 0.1, 0.05]), np.array([0.25, 0.05, 0.25, 0.05, 0.15])
    assert possible("ordering", {"a": one, "b": other}, **asked) == [YES, NO]


def test_an_ordering_may_be_off_at_every_step():
    arms = {"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.3, 0.3]}
    asked = dict(ordering=["a", "b", "c"], slack=0.0)
    assert possible("ordering", arms, 0.01, **asked) == [YES]
    assert possible("ordering", arms, 0.2, **asked) == [YES, NO]
    swapped = dict(ordering=["a", "c", "b"], slack=0.0)
    assert possible("ordering", arms, 0.01, **swapped) == [NO]
    assert possible("ordering", arms, 0.08, **swapped) == [YES, NO]
    assert possible("ordering", {arm: of[0] for arm, of in arms.items()}, **asked) == []


def test_a_slope_has_its_own_interval():
    exact = {n: [n**-2.0] for n in (1.0, 2.0, 4.0, 8.0)}
    assert possible("slope", exact, at=-2, abs=0.1) == [YES]
    assert possible("slope", exact, at=-3, abs=0.1) == [NO]
    bent = {1.0: [1.0], 2.0: [0.3], 4.0: [0.07], 8.0: [0.012]}
    assert possible("slope", bent, at=-2, abs=0.1) == [YES, NO]


def test_no_interval_is_known_of_one_number_or_of_points():
    assert possible("at_least", 0.3, at_least=0.5) == []
    assert possible("flat", [0.1, 0.2], 0.1, flat={"spread": 1}) == []
    without = [name for name, rule in rules.RULES.items() if rule.interval is None]
    assert without == ["digits", "flat", "bound", "claim_fails_if_attained", "proof_step"]


@pytest.mark.parametrize(
    "rule, why",
    [
        ({"within": {"abs": "0.1"}}, "the option abs of the rule within is a number, got '0.1'"),
        ({"within": {"rel": True}}, "the option rel of the rule within is a number, got True"),
        ({"within": {"abs": 1, "level": 1}}, "is true or false, got 1"),
        ({"within": {"abs": 1, "better": "more"}}, 'is "higher" or "lower", got \'more\''),
        ({"ordering": "ab"}, "a list of two or more names of arms, each once, got 'ab'"),
        ({"ordering": ["a", "a"]}, "a list of two or more names of arms, each once"),
        (["digits"], "a claim has exactly one rule"),
    ],
)
def test_an_option_of_another_kind_is_refused_when_the_claim_is_read(rule, why):
    with pytest.raises(ValueError, match=why):
        rules.parse(rule)


@pytest.mark.parametrize("name", ["bound", "proof_step", "claim_fails_if_attained"])
def test_a_rule_that_compares_with_a_claim_asks_for_against(name):
    with pytest.raises(ValueError, match="give it as against"):
        verdict(name, 1.0)


@pytest.mark.parametrize("values", [{"a": 1.0}, [[1.0], [1.0, 2.0]], "many"])
@pytest.mark.parametrize("name, options", [("digits", {}), ("within", {"abs": 1.0})])
def test_what_is_no_number_is_refused_in_a_sentence(name, options, values):
    with pytest.raises(ValueError, match="this rule takes numbers, got "):
        verdict(name, values, printed="1", **options)


def test_an_ordering_names_the_arms_that_have_no_values():
    with pytest.raises(ValueError, match=r"arms \['b'\] have no values, which are of 'a', 'c'"):
        verdict("ordering", {"a": 1.0, "c": 2.0}, ordering=["a", "b"])
