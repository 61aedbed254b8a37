"""The rules that turn a measurement into a verdict. A rule and its reason are set before the run
that it decides.

A new rule is a function of `Evidence` and a line in RULES, which says all that the verdicts must
know of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, ROUND_UP, Decimal, InvalidOperation
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page that shows what rules have decided needs no arithmetic
    import numpy as np

# given by a rule, below
REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
REFUTED = "refuted"
DECIDED = (REPRODUCED, NOT_REPRODUCED, REFUTED)
# given by `robustness.settled` (settings, other rows) and `ledger.decided` (other data); then the
# choice
DEPENDS = "depends on"
# given by `ledger.record` (few positives) and `ledger.decided` (something missing, other data); a
# rule may give it, too, and then says in `detail` what would decide
UNDECIDED = "undecided"
# given by `ledger.decided`; the file, machine or figure follows a colon
OUT_OF_REACH = "out of reach"
VERDICTS = (*DECIDED, DEPENDS, UNDECIDED, OUT_OF_REACH)
NOT_TRIED = "not tried"  # of a row that a run has not measured: no verdict
OPEN = (NOT_TRIED, UNDECIDED)  # what excludes no other verdict
# what stands beside a verdict
DIRECTION = "the direction holds"
BETTER = "better than printed"
GAP = "the proof has a gap"
# of questions and checks: no verdict on a paper
ANSWERED, PASSED, FAILED = "answered", "passed", "failed"

# how a value has the printed digits
ROUNDED, CUT, RAISED = "rounded", "cut, not rounded", "rounded up"
SEED_SHARE = 0.8  # of the seeds must agree: a mean that one seed carries is no result


@dataclass(frozen=True)
class Outcome:
    """What a rule found: the verdict, our headline number, its spread over seeds, a word on why,
    and what stands beside the verdict (DIRECTION, BETTER, GAP; "" for nothing)."""

    verdict: str
    value: float | None
    spread: float | None = None
    why: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Evidence:
    """What a notebook hands to a rule.

    values: a number, one per seed, or (for orderings and slopes) a dict from arm, or point, to
    either.
    against: what the claim says it is (a number, or one per point), where the rule needs it.
    proven: an upper bound that holds by proof, for `claim_fails_if_attained`.
    halfwidth: of the 95% interval of one value, given where fewer than 100 positives decide.
    """

    values: object
    against: object = None
    proven: float | None = None
    halfwidth: float = 0.0
    printed: str | None = None
    options: dict = field(default_factory=dict)

    @property
    def by_arm(self) -> dict:
        """The values of an ordering or a slope.  ValueError if they are of another kind."""
        if not isinstance(self.values, dict):
            raise ValueError(
                f"this rule takes a dict from arm, or point, to values, got {self.values!r}"
            )
        return self.values


def answer(evidence: Evidence) -> Outcome:
    """What a question of ours gets: the mean and its spread over seeds, no verdict."""
    seeds = _seeds(evidence.values)
    return Outcome(ANSWERED, float(seeds.mean()), _spread(seeds))


def digits(evidence: Evidence) -> Outcome:
    """Reproduced if the value equals the printed text when rounded or cut off to as many digits,
    or, with `rounded_up = true`, when rounded up.

    rounded_up: for a bound (a budget, say), which stays one when it is rounded up."""
    value = _one(evidence.values)
    how = agreement(value, _printed(evidence))
    if how in (ROUNDED, CUT) or (how == RAISED and evidence.options.get("rounded_up")):
        return Outcome(REPRODUCED, value, why="" if how == ROUNDED else how)
    return Outcome(
        NOT_REPRODUCED, value, why="the printed digits do not follow from the paper's own formula"
    )


def agreement(value: float, printed: str) -> str:
    """Whether a value has the printed digits: ROUNDED, CUT or RAISED to as many, "" if not.

    >>> agreement(18.506, "18.51"), agreement(18.506, "18.50"), agreement(9830.03, "9830.1")
    ('rounded', 'cut, not rounded', 'rounded up')
    """
    exact, shown = Decimal(repr(float(value))), Decimal(printed)
    if shown in (exact.quantize(shown, mode) for mode in (ROUND_HALF_UP, ROUND_HALF_EVEN)):
        return ROUNDED
    if shown == exact.quantize(shown, ROUND_DOWN):
        return CUT
    return RAISED if shown == exact.quantize(shown, ROUND_UP) else ""


def within(evidence: Evidence) -> Outcome:
    """Reproduced if the mean (its interval included) and 80% of seeds lie within abs (or rel times
    the target) of the target; over splits and starts the interval alone decides.

    level: true where the number is no difference (an AUC), so that its sign says nothing: no
    direction holds.  better: "higher" or "lower", where a number on that side of the target is
    better than printed."""
    seeds = _seeds(evidence.values)
    target = _one(_printed(evidence) if evidence.against is None else evidence.against)
    options = evidence.options
    tolerance = options["abs"] if "abs" in options else options["rel"] * abs(target)
    value, spread = float(seeds.mean()), _spread(seeds)
    near = (abs(seeds - target) <= tolerance).mean() >= SEED_SHARE
    if near and abs(value - target) + evidence.halfwidth <= tolerance:
        return Outcome(REPRODUCED, value, spread)
    above = {"higher": 1, "lower": -1}.get(options.get("better", ""), 0)
    if above * (value - target) > 0:
        return Outcome(NOT_REPRODUCED, value, spread, detail=BETTER)
    same_sign = seeds > 0 if target > 0 else seeds < 0
    if not options.get("level") and target != 0 and same_sign.mean() >= SEED_SHARE:
        return Outcome(
            NOT_REPRODUCED, value, spread, "the sign holds, the size does not", DIRECTION
        )
    return Outcome(NOT_REPRODUCED, value, spread)


def ordering(evidence: Evidence) -> Outcome:
    """Reproduced if, in the asked share of seeds, the arms rise in the paper's order (each step to
    within `slack`) and the last lies above the first by more than `slack`. The value is last minus
    first."""
    import numpy as np

    arms, slack = evidence.options["ordering"], evidence.options.get("slack", 0.0)
    if missing := [arm for arm in arms if arm not in evidence.by_arm]:
        given = ", ".join(map(repr, evidence.by_arm))
        raise ValueError(f"the ordering's arms {missing} have no values, which are of {given}")
    table = np.stack([_seeds(evidence.by_arm[arm]) for arm in arms])
    steps, total = np.diff(table, axis=0), table[-1] - table[0]
    # of a difference of two values; pairing would only make it smaller
    noise = evidence.halfwidth * math.sqrt(2)
    good = np.all(steps - noise >= -slack, axis=0) & (total - noise > slack)
    value, spread = float(total.mean()), _spread(total)
    if good.mean() >= evidence.options.get("seeds", SEED_SHARE):
        return Outcome(REPRODUCED, value, spread)
    if (total > 0).mean() >= SEED_SHARE:
        return Outcome(
            NOT_REPRODUCED, value, spread, "first to last it rises, not at every step", DIRECTION
        )
    return Outcome(NOT_REPRODUCED, value, spread, "the order does not hold")


def flat(evidence: Evidence) -> Outcome:
    """Reproduced if the values differ by at most `spread` (largest minus smallest)."""
    seeds = _seeds(evidence.values)
    width = float(seeds.max() - seeds.min()) + 2 * evidence.halfwidth
    return Outcome(REPRODUCED if width <= evidence.options["spread"] else NOT_REPRODUCED, width)


def slope(evidence: Evidence) -> Outcome:
    """Reproduced if log(mean) rises over log(point) with the slope `at`, to within `abs`, and the
    95% interval of the slope is no wider than that to either side; the direction holds if the whole
    interval has the sign of `at`.

    values: a dict from point (at least three, > 0) to measured values (> 0), one per run. Ordinary
    least squares over the points; the interval is Student's over their residuals, so that a line
    that bends has a wide one.
    """
    value, low, high = _fitted(evidence)
    at, tolerance, halfwidth = evidence.options["at"], evidence.options["abs"], high - value
    why = f"95% interval {low:.2f} to {high:.2f}"
    if abs(value - at) <= tolerance and halfwidth <= tolerance:
        return Outcome(REPRODUCED, value, why=why)
    if abs(value) > halfwidth and value * at > 0:
        return Outcome(NOT_REPRODUCED, value, why=why, detail=DIRECTION)
    return Outcome(NOT_REPRODUCED, value, why=why)


def at_least(evidence: Evidence) -> Outcome:
    """Reproduced if the mean (its interval included) and 80% of seeds reach the threshold; over
    splits and starts the interval alone decides. The direction holds if 80% exceed 0."""
    return _one_sided(evidence, sign=1)


def at_most(evidence: Evidence) -> Outcome:
    """Reproduced if the mean (its interval included) and 80% of seeds stay at or under the
    threshold; over splits and starts the interval alone decides."""
    return _one_sided(evidence, sign=-1)


def bound(evidence: Evidence) -> Outcome:
    """Reproduced if measured <= bound at every point; refuted by one point above it (exact
    computation, 1e-9 slack).

    The value is the largest measured / bound.
    """
    measured, limit = _seeds(evidence.values), _seeds(_against(evidence))
    if limit.shape not in ((1,), measured.shape) or (limit <= 0).any():
        raise ValueError(
            f"against must be one bound > 0, or one for each of the {measured.size} values, "
            f"got {evidence.against!r}"
        )
    ratio = float((measured / limit).max())
    if ratio <= 1 + 1e-9:
        return Outcome(REPRODUCED, ratio, why=f"largest measured/bound over {measured.size} points")
    return Outcome(REFUTED, ratio, why="measured above the bound")


def claim_fails_if_attained(evidence: Evidence) -> Outcome:
    """Mathematics and security: refuted if the attained value lies above what is claimed (1e-9
    relative slack); reproduced only if an upper bound that holds by proof lies at or under it; else
    the proof has a gap."""
    attained, claimed = _one(evidence.values), _one(_against(evidence))
    if attained > claimed + 1e-9 * abs(claimed):
        return Outcome(
            REFUTED,
            attained,
            why=f"the claim allows at most {claimed:.4g}, attained {attained:.4g}",
        )
    if evidence.proven is not None and evidence.proven <= claimed + 1e-9 * abs(claimed):
        return Outcome(
            REPRODUCED, evidence.proven, why=f"a bound of {evidence.proven:.4g} holds by proof"
        )
    return Outcome(NOT_REPRODUCED, attained, why=f"attained {attained:.4g}, no proof", detail=GAP)


def proof_step(evidence: Evidence) -> Outcome:
    """A line inside a proof: as `bound`, but a false line is a gap of the proof and no refutation,
    since what it should prove may still be true."""
    found = bound(evidence)
    if found.verdict == REPRODUCED:
        return found
    return replace(found, verdict=NOT_REPRODUCED, detail=GAP)


def _places() -> np.ndarray:
    """Places in an interval, from its lower to its upper end."""
    import numpy as np

    return np.linspace(-1, 1, 101)


def by_mean(evidence: Evidence, halfwidth: float) -> list:
    """For a rule that looks at the mean: one number in the place of all seeds."""
    mean, width = _interval(evidence.values, halfwidth)
    return [] if width is None else [*(mean + width * _places())]


def by_arms(evidence: Evidence, halfwidth: float) -> list:
    """For an ordering: the interval of each step from an arm to the next, paired by seed, as the
    rule itself looks at it; all steps lie at the same place of theirs."""
    import numpy as np

    arms = evidence.options["ordering"]
    table = np.stack([_seeds(evidence.by_arm[arm]) for arm in arms])
    of_a_step = halfwidth * math.sqrt(2)  # of a difference of two values
    steps = [_interval(step, of_a_step) for step in np.diff(table, axis=0)]
    if any(width is None for _, width in steps):
        return []
    first = float(table[0].mean())
    moved = [np.cumsum([first, *(mean + by * width for mean, width in steps)]) for by in _places()]
    return [dict(zip(arms, one)) for one in moved]


def by_slope(evidence: Evidence, _halfwidth: float) -> list:
    """For a slope: exact lines whose slopes lie in the interval of the fitted one."""
    value, _, high = _fitted(evidence)
    slopes = value + (high - value) * _places()
    return [{point: float(point) ** one for point in evidence.by_arm} for one in slopes]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule, with all that the verdicts must know of it.

    decide: gives the outcome. The first paragraph of its docstring is what every page says of the
    rule.
    needs: the options that a claim must give it; "abs or rel" asks for one of the two.
    may: the options that a claim may give it.
    interval: of (evidence, half-width of one value or 0), gives values from end to end of the 95%
    interval of what was measured, in the middle what was measured, or none where no interval is
    known. `by_mean`, `by_arms` and `by_slope` are for rules that look at means, at means in an
    order, and at a slope. A rule that looks at something else, a median say, has a function of its
    own, or None: its interval is not known.
    width: the half-width of the rule's own value, in those of one measured value: an ordering's is
    a difference of two. None where the value has an interval of its own, or none.
    one_number: whether it can decide on one number; only then may it judge the number of a row
    with another rule, as a witness.
    compares_with_print: whether it compares with what the claim prints.
    """

    decide: Callable[[Evidence], Outcome]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    interval: Callable[[Evidence, float], list] | None = None
    width: float | None = 1.0
    one_number: bool = False
    compares_with_print: bool = False

    @property
    def options(self) -> list[str]:
        needed = [name for need in self.needs for name in need.split(" or ")]
        return [*needed, *self.may]


RULES = {
    "digits": Rule(decide=digits, may=("rounded_up",), one_number=True, compares_with_print=True),
    "within": Rule(
        decide=within,
        needs=("abs or rel",),
        may=("level", "better"),
        interval=by_mean,
        one_number=True,
        compares_with_print=True,
    ),
    "ordering": Rule(
        decide=ordering,
        needs=("ordering",),
        may=("slack", "seeds"),
        interval=by_arms,
        width=math.sqrt(2),
    ),
    "flat": Rule(decide=flat, needs=("spread",)),
    "slope": Rule(decide=slope, needs=("at", "abs"), interval=by_slope, width=None),
    "at_least": Rule(decide=at_least, needs=("at_least",), interval=by_mean, one_number=True),
    "at_most": Rule(decide=at_most, needs=("at_most",), interval=by_mean, one_number=True),
    "bound": Rule(decide=bound, one_number=True),
    "claim_fails_if_attained": Rule(decide=claim_fails_if_attained, one_number=True),
    "proof_step": Rule(decide=proof_step, one_number=True),
}
QUESTION = Rule(decide=answer)  # of a row without a rule


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_arms(value) -> bool:
    arms = isinstance(value, list) and all(isinstance(arm, str) for arm in value)
    return arms and len(value) == len(set(value)) >= 2


TRUTH = (lambda value: isinstance(value, bool), "true or false")
# what an option may be, and the words for it; the others are numbers
NUMBER = (_is_number, "a number")
OPTIONS: dict[str, tuple[Callable[[object], bool], str]] = {
    "rounded_up": TRUTH,
    "level": TRUTH,
    "better": (lambda value: value in ("higher", "lower"), '"higher" or "lower"'),
    "ordering": (_is_arms, "a list of two or more names of arms, each once"),
}


def possible(rule: Rule, evidence: Evidence, halfwidth: float = 0.0) -> list[str]:
    """The verdicts that a rule gives somewhere in the 95% interval of what was measured.

    halfwidth: of the interval of one value; 0 takes Student's for the mean over seeds.  A slope has
    its own.  Within the interval only the mean counts, so that seeds which disagree make nothing
    firm.
    Returns an empty list where no interval is known: one number without a half-width, exact or
    not, and rules without one (`Rule.interval`).
    """
    moved = rule.interval(evidence, halfwidth) if rule.interval else []
    asked = [evidence.values, *moved] if moved else []
    given = {rule.decide(replace(evidence, values=one, halfwidth=0.0)).verdict for one in asked}
    return [verdict for verdict in DECIDED if verdict in given]


def exclude(verdicts: Collection[str]) -> bool:
    """Whether these verdicts exclude each other: one is for the paper and one against it.

    "Not reproduced" and "refuted" do not: an attack that failed shows no setting at which the claim
    holds.

    >>> exclude(["reproduced", "refuted"]), exclude(["not reproduced", "refuted"])
    (True, False)
    """
    return REPRODUCED in verdicts and not {NOT_REPRODUCED, REFUTED}.isdisjoint(verdicts)


def plain(verdict: str) -> str:
    """The verdict without its addition: "depends on the clip" is "depends on".

    ValueError if it is none.
    """
    for name in (*VERDICTS, NOT_TRIED, ANSWERED, PASSED, FAILED):
        if verdict.startswith(name):
            return name
    raise ValueError(f"{verdict!r} is no verdict")


def parse(given: str | dict | None) -> tuple[str, dict]:
    """A claim's rule as (name, options): "digits", or {within = {abs = .01}}, or {ordering = [...],
    slack = .005}.

    ValueError if no rule, or more than one, is named, if it has an option that the rule does not
    have, or of another kind, or lacks one that it needs.
    """
    named = [given] if isinstance(given, str) else []
    if isinstance(given, dict):
        named = [key for key in given if key in RULES]
    if len(named) != 1 or named[0] not in RULES:
        raise ValueError(f"a claim has exactly one rule of {', '.join(RULES)}, got {given!r}")
    name, options = named[0], {}
    if isinstance(given, dict):
        main = given[name]
        options = {key: value for key, value in given.items() if key != name}
        options |= main if isinstance(main, dict) else {name: main}
    _refuse_other_options(name, options)
    return name, options


def _refuse_other_options(name: str, options: dict) -> None:
    rule = RULES[name]
    unknown = [option for option in options if option not in rule.options]
    if unknown:
        has = f"the rule {name} has the options {', '.join(rule.options) or 'none'}"
        if name in unknown:  # it was written `name = 0.1`
            raise ValueError(f"{has}, by their names, got {options[name]!r}")
        raise ValueError(f"{has}, got {', '.join(unknown)}")
    for need in rule.needs:
        if sum(option in options for option in need.split(" or ")) != 1:
            got = ", ".join(options) or "no option"
            raise ValueError(f"the rule {name} needs the option {need}, got {got}")
    for option, value in options.items():
        fits, words = OPTIONS.get(option, NUMBER)
        if not fits(value):
            raise ValueError(f"the option {option} of the rule {name} is {words}, got {value!r}")


def fitted_slope(x, y_runs) -> tuple[float, float, float]:
    """The exponent of a power law y = c x^slope, fitted to means of runs, with its interval.

    The slope of log(mean of runs) over log(x), least squares, and Student's 95% interval over
    the points' residuals.

    x: (S,) > 0, S >= 3.  y_runs: (S,) or (S, n_runs), each mean > 0.
    Returns (slope, low, high). A line that bends has a wide interval; so has a noisy one.
    ValueError if an argument is out of range.

    >>> [round(value, 9) for value in fitted_slope([1, 10, 100], [5.0, 0.05, 0.0005])]
    [-2.0, -2.0, -2.0]
    """
    import numpy as np
    from scipy import stats  # it takes a second, which few rows need

    x, y = np.asarray(x, dtype=float), np.asarray(y_runs, dtype=float)
    means = y.reshape(len(y), -1).mean(axis=1) if y.size else y
    fits = x.ndim == 1 and x.size >= 3 and x.shape == means.shape and np.ptp(x) > 0
    if not fits or not all((one > 0).all() and np.isfinite(one).all() for one in (x, means)):
        raise ValueError(
            "a slope needs three points > 0 or more, not all equal, and as many means of runs > 0, "
            f"got points {x} and means {means}"
        )
    line = stats.linregress(np.log(x), np.log(means))  # whose stderr is nan where all are equal
    half = stats.t.ppf(0.975, x.size - 2) * line.stderr if np.ptp(means) > 0 else 0.0
    return float(line.slope), float(line.slope - half), float(line.slope + half)


def _one_sided(evidence: Evidence, *, sign: int) -> Outcome:
    threshold = evidence.options["at_least" if sign > 0 else "at_most"]
    seeds = _seeds(evidence.values)
    value, spread = float(seeds.mean()), _spread(seeds)
    good = sign * (seeds - threshold) >= 0
    agree = good.mean() >= SEED_SHARE
    if agree and sign * (value - threshold) - evidence.halfwidth >= 0:
        return Outcome(REPRODUCED, value, spread)
    why = ""
    if good.any() and not good.all():
        do = "reach" if sign > 0 else "stay at or under"
        why = f"{good.sum()} of {good.size} seeds {do} {threshold}"
    elif good.all() and evidence.halfwidth:
        why = f"its interval reaches {'under' if sign > 0 else 'over'} {threshold}"
    if sign > 0 and (seeds > 0).mean() >= SEED_SHARE:
        why = f"positive, but {why or f'it is under {threshold}'}"
        return Outcome(NOT_REPRODUCED, value, spread, why, DIRECTION)
    return Outcome(NOT_REPRODUCED, value, spread, why)


def _printed(evidence: Evidence) -> str:
    return number_in(evidence.printed)


def number_in(printed: str | None) -> str:
    """What a claim prints, for a rule that compares with it.  ValueError if it is no number."""
    if printed is None:
        raise ValueError(
            "this rule compares with a number: the claim has neither printed nor computed"
        )
    try:
        finite = Decimal(printed).is_finite()
    except InvalidOperation:
        finite = False
    if not finite:
        raise ValueError(
            "this rule compares with a printed number, which stands alone, its unit in `measure`, "
            f"got {printed!r}"
        )
    return printed


def _against(evidence: Evidence):
    if evidence.against is None:
        raise ValueError("this rule compares with what the claim says it is: give it as against")
    return evidence.against


def _array(values) -> np.ndarray:
    import numpy as np

    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"this rule takes numbers, got {values!r}") from None


def _one(values) -> float:
    import numpy as np

    array = _array(values)
    if array.size != 1 or np.isnan(array).any():
        raise ValueError(f"this rule takes one number, got {values!r}")
    return float(array.reshape(()))


def _seeds(values) -> np.ndarray:
    import numpy as np

    array = np.atleast_1d(_array(values))
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"values must be finite numbers, one per seed, got {values!r}")
    return array


def _fitted(evidence: Evidence) -> tuple[float, float, float]:
    import numpy as np

    points = np.array([float(point) for point in evidence.by_arm])
    means = np.array([_seeds(runs).mean() for runs in evidence.by_arm.values()])
    return fitted_slope(points, means)


def _interval(values, halfwidth: float) -> tuple[float, float | None]:
    seeds = _seeds(values)
    if halfwidth or seeds.size == 1:
        return float(seeds.mean()), halfwidth or None
    from scipy import special  # as stats, slow to import

    student = special.stdtrit(seeds.size - 1, 0.975) * seeds.std(ddof=1) / math.sqrt(seeds.size)
    return float(seeds.mean()), float(student)


def _spread(seeds: np.ndarray) -> float | None:
    return float(seeds.std(ddof=1)) if seeds.size > 1 else None
