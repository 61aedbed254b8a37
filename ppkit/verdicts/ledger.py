"""The ledger: every claim of a paper, what we measured, and the verdict that a rule computed from
both."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ppkit import project
from ppkit.validation import not_above, one_of
from ppkit.verdicts import rows, rules, wording
from ppkit.verdicts.repeats import Repeats
from ppkit.verdicts.rows import Result, Row, Sighting
from ppkit.verdicts.statements import PROFILES, Claim, Statement, claims, every_claim

if TYPE_CHECKING:
    import pandas as pd

ANOTHER = "the verdict that counts, where it is another"  # a column
TURNED = "it turned: other settings, data or sizes than the record's"
NOT_RECORDED = "no notebook of this run recorded it"
FEW_POSITIVES = 100
OTHER_DATA = "the data"  # what a claim depends on that another source of data turns


@runtime_checkable
class Data(Protocol):
    """What a verdict must know of the rows that a number was measured on.

    name: of the data set.  source: the words for it in every row and caption; what stands before
    ": " is its kind.  standing: "complete" (the paper's own file, whole), "partial" (real rows,
    but fewer or others) or "rerunnable" (what anyone can make again: a stand-in, a simulation).
    n_rows: how many.
    """

    name: str
    source: str
    standing: str
    n_rows: int


# the data of a claim that needs none
FORMULA = SimpleNamespace(name="", source=wording.FORMULA, standing="rerunnable", n_rows=0)


class Ledger:
    """One notebook's page of the ledger.

    paper: key of the claims file.  notebook: its name without .ipynb; None in a lesson, which shows
    rows and decides none.  profile: "quick" or "paper".
    needs: rows that a row of the ledger takes, by the name of its data set; it says so where there
    are fewer.
    With $PPKIT_RUN set, every record is written to $PPKIT_RUN/claims/<notebook>.json at once, where
    the rows of other ledgers of the notebook stay.
    ValueError if no paper, no profile or not the notebook that runs has such a name.
    """

    def __init__(
        self, paper: str, *, notebook: str | None, profile: str, needs: dict | None = None
    ):
        self.paper, self.notebook, self.profile, self.needs = paper, notebook, profile, needs or {}
        one_of(PROFILES, profile=profile)
        runs = os.environ.get("PPKIT_NOTEBOOK") or notebook
        if notebook not in (None, runs):
            raise ValueError(
                f"notebook must be {runs!r}, the name of this notebook's file, or None "
                f"where it decides nothing, got {notebook!r}"
            )
        self._claims = claims(paper)
        self._rows: dict[str, Row] = {}

    def record(
        self,
        id: str,
        values,
        *,
        data,
        against=None,
        proven=None,
        positives=None,
        halfwidth=0.0,
        needs=None,
        note="",
    ) -> Row:
        """Decide claim `id` (without the paper's key) on what was measured, and keep the row.

        values: a number, one per seed, or a dict from arm to either, as the claim's rule takes it;
        or `Repeats`, whose mean is the number: then its interval over splits decides, as that of
        few positives does, and no share of seeds has to agree.
        data: of the class that the project names (a Dataset from `load`), or FORMULA.
        against: what the paper claims, if it is computed and not printed.
        proven: an upper bound that holds by proof (claim_fails_if_attained); where data is FORMULA
        the values must not be above it.
        positives: positives in the test set; under 100 `halfwidth` must be given and the interval
        decides: where it holds more than one verdict (`rules.possible`), the row is undecided.
        needs: rows of data that this row takes, None for what the ledger was told; with fewer the
        verdict is "not tried: needs N rows".
        Returns the row; its repr is one line.
        ValueError on an unknown id, data that is neither, few positives without an interval,
        `Repeats` with an interval of another kind, or more attained than is proved.
        """
        claim = self._claim(id)
        _refuse_other_data(data)
        if proven is not None and data is FORMULA:  # both are exact
            try:
                not_above(values, proven)
            except ValueError as error:
                raise ValueError(f"{id}: {error}") from None
        few = positives is not None and positives < FEW_POSITIVES
        if few and not halfwidth > 0:
            raise ValueError(
                f"{id}: {positives} positives are fewer than {FEW_POSITIVES}, "
                "so halfwidth must be given"
            )
        rests_on, spread = f"{positives} positives" if few else "", None
        if isinstance(values, Repeats):
            if positives is not None or halfwidth:
                raise ValueError(f"{id}: Repeats have an interval of their own, so give no other")
            rests_on, spread = str(values), values.spread
            values, halfwidth = values.mean, values.halfwidth
        if needs is None:
            needs = self.needs.get(data.name, 0)
        result = self._about_the_run(claim, data, note)
        if data is not FORMULA and data.n_rows < needs:
            result = replace(result, alone=f"{rules.NOT_TRIED}: needs {needs:,} rows")
        else:
            evidence = rules.Evidence(
                values,
                against=against,
                proven=proven,
                halfwidth=halfwidth if rests_on else 0.0,
                printed=claim.printed or claim.computed,
            )
            try:
                result = _judged(result, claim, evidence, halfwidth, rests_on)
            except ValueError as error:
                raise ValueError(f"{id}: {error}") from None
            if spread is not None:
                result = replace(result, spread=spread)
        row = decided(claim, [result])
        self._rows[claim.id] = row
        self._write()
        return row

    def _claim(self, id: str) -> Claim:
        claim = self._claims.get(f"{self.paper}.{id}")
        if claim is None:
            raise ValueError(f"{self.paper} has no claim {id!r}: see {self.paper}.toml")
        return claim

    def _about_the_run(self, claim: Claim, data, note: str) -> Result:
        """A result without a number: what is known before the rule decides."""
        why = [note]
        if (claim.decided_by, self.profile) == ("paper", "quick"):
            why.append("quick: the paper profile decides")
        if data.source.startswith("real subset"):
            why.append(
                f"not rerunnable as it stands: a subset; `ppkit data fetch {data.name}` and the "
                "same command decide on all rows"
            )
        return Result(
            data=data.source,
            standing=data.standing,
            profile=self.profile,
            notebook=self.notebook,
            rule_digest=claim.rule_digest,
            note="; ".join(filter(None, why)),
        )

    def record_all(
        self, prefix: str, values: dict, *, data, against: dict | None = None, proven=None
    ) -> pd.DataFrame:
        """Record one claim per entry of `values` under `prefix`.

        data: as in `record`.  against, proven: the same two of `record`, by the keys of `values`.
        """
        targets, bounds = against or {}, proven or {}
        for key, value in values.items():
            self.record(
                f"{prefix}{key}", value, data=data, against=targets.get(key), proven=bounds.get(key)
            )
        return self.table(prefix)

    def table(self, prefix: str = "") -> pd.DataFrame:
        """This notebook's verdicts so far, those whose id starts with `prefix`, as text.

        Returns one row a claim: the paper's number, ours, the verdict, the data.  Where the
        reference has another verdict, a column shows it with the profile that decided it.
        """
        import pandas as pd

        begins, kept = f"{self.paper}.{prefix}", {row.id: row for row in reference()}
        lines = {}
        for row in self._rows.values():
            if row.id.startswith(begins):
                lines[row.short_id] = _in_short(row) | {
                    ANOTHER: _another(row, kept.get(row.id)),
                    "data": row.data or "",
                }
        columns = ["printed", "ours", "verdict", ANOTHER, "data"]
        table = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("row")
        return table if table[ANOTHER].any() else table.drop(columns=ANOTHER)

    def beside_reference(self, differs: dict[str, str] | None = None) -> pd.DataFrame:
        """This notebook's rows beside the reference's: the paper, ours, the record, how robust.

        differs: by row, a sentence why its verdict is another one here.  Where there is none, the
        table says that it turned.
        """
        import pandas as pd

        record, lines = {row.id: row for row in reference()}, {}
        for row in self._rows.values():
            id, kept = row.short_id, record[row.id]
            lines[id] = {
                "the paper": wording.printed(row) or row.says,
                f"you, here ({self.profile}, {row.data})": wording.in_short(row),
                "the record": f"{wording.in_short(kept)} ({kept.profile}, {kept.data})",
                "robustness": wording.robust(kept),
                "what the number is": row.measure,
            }
            theirs = {rules.plain(kept.verdict), rules.plain(kept.alone)}
            if rules.plain(row.verdict) not in theirs:
                lines[id]["why it differs"] = (differs or {}).get(id, TURNED)
        return pd.DataFrame.from_dict(lines, orient="index").fillna("").rename_axis("row")

    def scoreboard(self) -> pd.DataFrame:
        """How many of this notebook's claims stand where, so far."""
        return scoreboard(list(self._rows.values()))

    def _write(self) -> None:
        folder = os.environ.get("PPKIT_RUN")
        if folder and self.notebook:
            target = Path(folder, "claims", f"{self.notebook}.json")
            target.parent.mkdir(parents=True, exist_ok=True)
            there = rows.read(target)[1] if target.exists() else []
            of_all = {row.id: row for row in there} | self._rows
            rows.write(target, list(of_all.values()))


def _judged(
    result: Result, claim: Claim, evidence: rules.Evidence, halfwidth: float, rests_on: str
) -> Result:
    """A result with its number, and with what the rule of the claim says of it.

    halfwidth: of the interval of one value, 0 where none is known.  rests_on: what this interval
    rests on, if it decides (few positives, repeats), in words; "" where the mean decides.
    """
    rule = rules.QUESTION
    if claim.rule:
        name, options = rules.parse(claim.rule)
        rule, evidence = rules.RULES[name], replace(evidence, options=options)
    outcome = rule.decide(evidence)
    by_rows = rules.possible(rule, evidence, halfwidth)
    by_seeds = rules.possible(rule, evidence)
    if rests_on and len(by_rows) > 1:
        outcome = replace(outcome, verdict=rules.UNDECIDED, detail=rests_on, why="")
    elif (
        rests_on
        and outcome.detail == rules.DIRECTION
        and rule.width is not None
        and abs(outcome.value or 0) <= rule.width * halfwidth
    ):
        outcome = replace(outcome, detail="", why="the interval holds 0")
    why = [outcome.why]
    if rests_on:
        width = f"{halfwidth:.3f}" if halfwidth >= 0.0005 else f"{halfwidth:.2g}"
        why.append(f"{rests_on}: decided by the interval, half-width {width}")
    why.append(result.note)
    judged = replace(
        result,
        value=outcome.value,
        spread=outcome.spread,
        alone=outcome.verdict,
        detail=outcome.detail,
        possible=sorted({*by_rows, *by_seeds}),  # the wider interval
        note="; ".join(filter(None, why)),
    )
    return _of_its_kind(claim, judged)


def _refuse_other_data(data) -> None:
    """Refuse what is not FORMULA and not of the class that the project names for its data, or, if
    it names none, does not say what `Data` says."""
    if data is FORMULA:
        return
    kind = project.hook("data")
    if kind is None and not isinstance(data, Data):
        raise ValueError(
            "data must be FORMULA, or rows that say their name, source, standing and n_rows, "
            f"got {type(data).__name__}"
        )
    if kind is not None and type(data) is not kind:
        raise ValueError(
            f"data must be a {kind.__name__} as its own module makes it, or FORMULA, "
            f"got {type(data).__name__}"
        )


def reference() -> list[Row]:
    """The rows of figures/claims.json, which `ppkit reference` writes; none before it did."""
    file = project.root() / "figures" / "claims.json"
    return rows.read(file)[1] if file.exists() else []


def summary(paper: str, notebook: str | None = None) -> str:
    """How many rows of the reference came out how, and what decided them, as two lines of text.

    notebook: the record whose rows are counted; None counts all rows of the paper.
    ValueError if no row of the reference is of this paper and notebook.
    """
    counted = [row for row in reference() if row.paper == paper]
    if notebook is not None:
        counted = [row for row in counted if row.notebook == notebook]
    if not counted:
        raise ValueError(f"no row of the reference is of {paper!r} and notebook {notebook!r}")
    counts = [f"{number} {outcome}" for outcome, number in wording.counts(counted).items()]
    sources = Counter(
        _decided_on(wording.kind(row.data), row.profile) for row in counted if row.data
    )
    decided_on = [f"{source} ({count})" for source, count in sources.most_common()]
    return f"{len(counted)} rows: {', '.join(counts)}\ndecided on: {'; '.join(decided_on)}"


def answer(paper: str) -> pd.DataFrame:
    """The claims that a paper is read for, as the reference has them: what it says, its number,
    ours, the verdict, and on what data and profile this was decided.

    Returns text, one row a claim with `headline`; no row if none is marked.
    ValueError if the paper has no claims file.
    """
    import pandas as pd

    claims(paper)
    headlines = [row for row in reference() if row.paper == paper and row.headline]
    lines = {
        row.short_id: {"the paper says": row.says}
        | _in_short(row)
        | {"decided on": _decided_on(row.data, row.profile)}
        for row in headlines
    }
    columns = ["the paper says", "printed", "ours", "verdict", "decided on"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("row")


def merge(recorded: list[Row]) -> list[Row]:
    """One row per claim of every paper, in the order of the files; what nobody recorded is "not
    tried".

    recorded: as in $PPKIT_RUN/claims/*.json; a later row of the same id takes an earlier one's
    place.
    ValueError if a row's id is no claim.
    """
    by_id, every = {row.id: row for row in recorded}, every_claim()
    for id in by_id:
        if id not in every:
            raise ValueError(f"no claim has the id {id!r}")
    return [by_id.get(id) or untried(claim) for id, claim in every.items()]


def untried(claim: Claim) -> Row:
    """The row of a claim that nobody recorded; one that is missing something says that, too."""
    verdict = _waits(claim) or rules.NOT_TRIED
    return Row(**_about(claim), rule=claim.rule_name, note=NOT_RECORDED, verdict=verdict)


def best(old: list[Row], new: list[Row]) -> list[Row]:
    """What the reference keeps of two lists of merged rows: for each standing of the data decided
    over not tried, paper profile over quick (of a formula: the profile that decides the claim), new
    over old; of these, the verdict of `decided`.

    What is no result (picture, cause, measure, kind, rule) is taken from the claims' files as they
    are now; a row that they no longer have is left out, and a question that was tried is answered.
    A row that only one of the lists has is kept: a run may know fewer claims than the reference.
    """
    before, after = {row.id: row for row in old}, {row.id: row for row in new}
    kept = []
    for id, claim in every_claim().items():
        rows = [rows[id] for rows in (before, after) if id in rows]
        both = [result for row in rows for result in row.results]
        ordered = sorted(both, key=partial(_order, claim))
        found = {one.standing: _of_its_kind(claim, one) for one in _not_waiting(ordered)}
        if rows:
            kept.append(decided(claim, list(found.values())) if found else untried(claim))
    return kept


def _not_waiting(results: list[Result]) -> list[Result]:
    """Results without those that wait for more rows, where a formula has decided: it needs none."""
    if not any(one.data == FORMULA.source and one.value is not None for one in results):
        return results
    return [one for one in results if one.value is not None]


def _of_its_kind(claim: Claim, result: Result) -> Result:
    """A result in the words of a question or a check, if that is what its claim is, whatever it was
    in the run.  A check that its rule leaves undecided neither passes nor fails."""
    if claim.kind == "question" and rules.plain(result.alone) != rules.NOT_TRIED:
        return replace(result, alone=rules.ANSWERED, detail="", possible=[])
    if claim.kind == "check" and result.alone in rules.DECIDED:
        alone = rules.PASSED if result.alone == rules.REPRODUCED else rules.FAILED
        return replace(result, alone=alone, detail="", possible=[])
    return result


def decided(claim: Claim, results: list[Result]) -> Row:
    """The row of a claim, from what was found on one or several sources of data.

    - The paper's own file, when it is complete, decides; in the quick profile only where nothing
      else ran in the paper profile. Only this closes a row that is out of reach for want of a file.
    - Else what anyone can rerun decides: the stand-in, the simulation, or a formula.
    - Where its interval leaves that undecided, real rows of the same profile decide, if this is the
      profile that decides the claim, and their whole interval (`rules.possible`) has one verdict.
    - A claim "depends on the data", whichever way it turns, if real rows that do not decide give
      another verdict in the same profile, and neither interval holds the verdict of the other. The
      two results are its witness.
    - If they give another verdict and the interval of one of the two is not known (`rules.possible`
      is empty), nobody can tell chance from the data: the claim is undecided, so that neither
      verdict has credit. This takes a single number for as uncertain as it may be.
    - A claim whose file says what is missing is undecided, one that says what is out of reach is
      that.
    - Otherwise the deciding verdict stands, and the other is shown beside it.

    An undecided or untried result turns nothing; nor are questions and checks turned.
    """
    first, *also = sorted(results, key=partial(_order, claim), reverse=True)
    one = _real_that_decides(claim, first, also)
    if one is not None:
        also = [first, *(other for other in also if other is not one)]
        first = one
    row = Row(
        **_about(claim),
        **vars(first),
        verdict=first.alone,
        rule=claim.rule_name,
        stale=claim.kind != "question" and first.rule_digest not in ("", claim.rule_digest),
        also=also,
    )
    if rules.plain(first.alone) == rules.NOT_TRIED or claim.kind != "claim":
        return row
    waits = _waits(claim)
    closed = claim.out_of_reach and first.standing == "complete"
    if waits and not closed:
        return replace(row, verdict=waits)
    if first.standing != "rerunnable":
        return row
    for one in also:
        if one.profile == first.profile:
            row = _beside_other_data(row, first, one)
    return row


def _real_that_decides(claim: Claim, first: Result, also: list[Result]) -> Result | None:
    """Of a claim that what anyone can rerun leaves undecided, what real rows decide, if they do."""
    if claim.kind != "claim" or first.standing != "rerunnable":
        return None
    if rules.plain(first.alone) != rules.UNDECIDED:
        return None
    deciding = (
        one
        for one in also
        if one.standing == "partial"
        and one.profile == first.profile
        and (one.profile == "paper" or claim.decided_by == "quick")
        and one.alone in rules.DECIDED
        and one.possible == [one.alone]
    )
    return next(deciding, None)


def _beside_other_data(row: Row, first: Result, other: Result) -> Row:
    """The row with the verdict that two sources of data leave it."""
    no_verdict = {rules.UNDECIDED, rules.NOT_TRIED}
    mine, theirs = rules.plain(first.alone), rules.plain(other.alone)
    if mine == theirs or {mine, theirs} & no_verdict:
        return row
    if not (first.possible and other.possible):
        return replace(
            row, verdict=rules.UNDECIDED, detail="other data say otherwise, no interval is known"
        )
    if theirs in first.possible or mine in other.possible:
        return row
    witness = [
        Sighting(
            setting=wording.kind(one.data), value=one.value, verdict=one.alone, data=one.data or ""
        )
        for one in (first, other)
    ]
    return replace(
        row, verdict=f"{rules.DEPENDS} {OTHER_DATA}", depends_on=[OTHER_DATA], witness=witness
    )


def _waits(claim: Claim) -> str:
    """The verdict of a claim whose file says that something is missing; "" if nothing is."""
    if claim.kind == "claim" and claim.missing:
        return rules.UNDECIDED
    if claim.kind == "claim" and claim.out_of_reach:
        return f"{rules.OUT_OF_REACH}: {claim.out_of_reach['what']}"
    return ""


def _order(claim: Claim, one: Result) -> tuple[bool, ...]:
    """Tried, on what can be had or is complete, in the paper profile, on the paper's own file.

    A formula is of the profile that decides its claim, if one does: its steps may be a profile's.
    """
    profile: str | None = "paper"
    if one.data == FORMULA.source:
        profile = claim.decided_by or one.profile
    return (
        rules.plain(one.alone) != rules.NOT_TRIED,
        one.standing != "partial",
        one.profile == profile,
        one.standing == "complete",
    )


def scoreboard(counted: list[Row]) -> pd.DataFrame:
    """How many claims of each paper stand where: one row a paper, one column an outcome
    (`wording.outcome`), and the data that they were decided on, with the profile (a formula has
    none).

    "causes of refuted" counts rows with one cause once; questions and checks are no claims and are
    counted apart.
    A column with nothing in it is left out.
    """
    import pandas as pd

    lines = {}
    for paper in dict.fromkeys(row.paper for row in counted):
        rows = [row for row in counted if row.paper == paper]
        claims = [row for row in rows if row.kind == "claim"]
        kinds = Counter(row.kind for row in rows)
        decided_on = {_decided_on(row.data, row.profile) for row in rows}
        lines[paper] = wording.counts(claims) | {
            "causes of refuted": wording.causes_of_refuted(claims),
            "questions": kinds["question"],
            "checks": kinds["check"],
            "decided on": "; ".join(sorted(decided_on - {""})),
        }
    order = [*wording.SYMBOLS, "causes of refuted", "questions", "checks"]
    columns = [*order, "decided on"]
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("paper")
    counts = frame[order].fillna(0).astype(int)
    return counts.loc[:, counts.any()].assign(**{"decided on": frame["decided on"]})


def _in_short(row: Row) -> dict[str, str]:
    """The columns that every short table of rows has."""
    return {
        "printed": wording.printed(row),
        "ours": wording.ours(row),
        "verdict": wording.marked(row),
    }


def _another(row: Row, kept: Row | None) -> str:
    """The reference's verdict on a row of this notebook, if it is another one."""
    if kept is None or rules.plain(kept.verdict) == rules.plain(row.verdict):
        return ""
    return f"{wording.marked(kept)} ({kept.profile} profile)"


def _decided_on(data: str | None, profile: str | None) -> str:
    """The data that decide a row, with the profile; a formula is the same in every profile."""
    if not data or data == FORMULA.source:
        return data or ""
    return f"{data}, {profile} profile"


def _about(claim: Claim) -> dict:
    """What a row takes over from its claim: everything that is no result."""
    return {field.name: getattr(claim, field.name) for field in fields(Statement)}
