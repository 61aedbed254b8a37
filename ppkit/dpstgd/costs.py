"""What uploads cost, three times: by the formula of wang2018, for an attacker, and by a proof.

The paper's formula claims a ceiling.  What is attained is a floor: no true budget lies below it.
What is proved is a ceiling that holds.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ppkit.accounting import NEIGHBOURING, get_upload_budget
from ppkit.audit import rounds_attained
from ppkit.dpstgd.formulas import advanced_budget, basic_budget
from ppkit.validation import must_be, not_above, one_of

NOISES = ("laplace", "gumbel")  # the paper's, and ours
N_PARAMETERS = 14_312  # of the paper's network, 264-50-20-2
IN_WORDS = {"add_remove": "a row added or removed", "replace_one": "a row replaced by another"}


@dataclass(frozen=True)
class Cost:
    """The epsilon at `delta` of n_rounds uploads of one participant, three times.

    mechanism: the noise.  n_rounds: uploads, each on a sample of its own.
    neighbouring: the relation that `attained` and `proved` are for; the paper's formula names none.
    epsilon: of one choice.  sample_rate, n_uploads, n_parameters, delta: as in `upload_costs`.
    formula, attained, proved: epsilons; attained <= proved.
    formula_by: the paper's theorems.  attained_by: the attacker's event.  proved_by: the bound, as
    `accounting.get_upload_budgets` names it.
    """

    mechanism: str
    n_rounds: int
    neighbouring: str
    epsilon: float
    sample_rate: float
    n_uploads: int
    n_parameters: int
    delta: float
    formula: float
    attained: float
    proved: float
    formula_by: str
    attained_by: str
    proved_by: str

    @property
    def line(self) -> str:
        """Of which uploads, in words."""
        uploads = "1 upload" if self.n_rounds == 1 else f"{self.n_rounds:,} uploads"
        return f"{self.mechanism}, {uploads}"


def upload_costs(
    epsilon: float,
    *,
    sample_rate: float,
    n_uploads: int,
    n_rounds: int,
    n_parameters: int = N_PARAMETERS,
    delta: float = 2.0**-30,
    neighbouring: str = "add_remove",
    mechanisms: Sequence[str] = NOISES,
) -> list[Cost]:
    """What one upload costs and what all rounds cost, for each noise: by the paper's formula, what
    an attacker attains, and what is proved.

    epsilon: of one choice, from 1e-9 to 1e6.  sample_rate: q in (0, 1], a fresh Poisson sample each
    round, one for all choices of an upload.  n_uploads: n, entries sent, 1 <= n <= n_parameters, at
    most 10^6.  n_rounds: uploads of this participant, 1 to 10^6.  n_parameters: d, at most 10^9.
    delta: from 1e-300 to below q.  neighbouring: "add_remove" or "replace_one".
    mechanisms: one or more of "laplace" and "gumbel".
    Returns for each mechanism a Cost of one upload and, if n_rounds > 1, one of all rounds.
    ValueError if an argument is out of range.
    Guarantee: `proved` holds, `attained` is attained by a named event, as in
    `accounting.get_upload_budget` and `audit.rounds_attained`; `formula` has no guarantee for
    q < 1.
    Source: wang2018, Theorems 2.4, 2.5 and 4.2.
    Departs from the paper: it prints no total of its rounds, so we take the smallest that its
    theorems give.

    >>> one, *_ = upload_costs(0.5, sample_rate=0.01, n_uploads=1431, n_rounds=200)
    >>> one.mechanism, round(one.formula, 2), round(one.attained), round(one.proved)
    ('laplace', 2.35, 85, 567)
    """
    must_be("a whole number >= 1", n_rounds=n_rounds, n_uploads=n_uploads)
    must_be("> 0", delta=delta)
    one_of(NEIGHBOURING, neighbouring=neighbouring)
    for mechanism in mechanisms:
        one_of(NOISES, mechanism=mechanism)
    where: dict[str, Any] = dict(
        neighbouring=neighbouring,
        sample_rate=sample_rate,
        n_uploads=int(n_uploads),
        n_parameters=n_parameters,
        delta=delta,
    )
    scopes = sorted({1, int(n_rounds)})
    return [
        _cost(epsilon, where | dict(mechanism=mechanism, n_rounds=scope))
        for mechanism in mechanisms
        for scope in scopes
    ]


def side_by_side(costs: Iterable[Cost]) -> dict[str, dict[str, float]]:
    """The three columns by line, "laplace, 200 uploads", for a table.

    costs: of one setting, as `upload_costs` returns them.
    """
    return {
        cost.line: {
            "the paper's formula": cost.formula,
            "an attacker attains": cost.attained,
            "proved": cost.proved,
        }
        for cost in costs
    }


def sources(costs: Sequence[Cost]) -> dict[tuple[str, str], list[str]]:
    """Where the numbers come from: by column and source, the lines that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for column in ("formula", "attained", "proved"):
        for cost in costs:
            source = getattr(cost, f"{column}_by")
            found.setdefault((column, source), []).append(cost.line)
    return found


def as_csv(costs: Iterable[Cost]) -> str:
    """Every field of every line, as CSV under the fields' names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Cost)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(cost) for cost in costs)
    return text.getvalue()


def _cost(epsilon: float, settings: dict[str, Any]) -> Cost:
    proved = get_upload_budget(epsilon, **settings)
    attained = rounds_attained(epsilon, **settings)
    not_above(attained, proved.epsilon)
    n_rounds, delta = settings["n_rounds"], settings["delta"]
    formula, formula_by = _paper(
        epsilon, settings["sample_rate"], settings["n_uploads"], n_rounds, delta
    )
    return Cost(
        epsilon=epsilon,
        formula=formula,
        attained=attained,
        proved=proved.epsilon,
        formula_by=formula_by,
        attained_by=_event(n_rounds),
        proved_by=proved.bound,
        **settings,
    )


def _paper(
    epsilon: float, sample_rate: float, n_uploads: int, n_rounds: int, delta: float
) -> tuple[float, str]:
    """The smallest total that the paper's theorems give at delta, and which ones give it."""
    where: dict[str, Any] = dict(sample_rate=sample_rate, n_uploads=n_uploads)
    added_up = "" if n_rounds == 1 else ", rounds added up (Theorem 2.4)"
    every = "" if n_rounds == 1 else ", all choices of all rounds at once (Theorem 2.5)"
    basic = n_rounds * basic_budget(epsilon, **where)
    advanced = n_rounds * advanced_budget(epsilon, delta=delta / n_rounds, **where)
    together = advanced_budget(
        epsilon, sample_rate=sample_rate, n_uploads=n_rounds * n_uploads, delta=delta
    )
    totals = (
        (basic, f"Theorem 4.2, basic{added_up}"),
        (advanced, f"Theorem 4.2, advanced{added_up}"),
        (together, f"Theorem 4.2, advanced{every}"),
    )
    return min(totals, key=lambda total: total[0])


def _event(n_rounds: int) -> str:
    if n_rounds == 1:
        return "many plus signs, where the row pushes every entry up"
    return "many rounds with many plus signs, where the row pushes every entry up"
