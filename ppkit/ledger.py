"""The ledger: every claim of a paper, what we measured, and the verdict that a rule computed from
both."""

import json
import os
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from ppkit import in_words, project, rules
from ppkit.datasets import Dataset
from ppkit.refusals import not_above
from ppkit.writing import write_whole

TO_COME = "to come: "  # begins the note of a row that no notebook measures yet
ANOTHER = "the verdict that counts, where it is another"  # a column
TURNED = "it turned: other settings, data or sizes than the record's"
FEW_POSITIVES = 100
OTHER_DATA = f"{rules.DEPENDS} the data"  # a verdict, and what only the paper's own file closes
CLAIMS = resources.files("ppkit").joinpath("claims")


# the data of a claim that needs none
FORMULA = SimpleNamespace(source=in_words.FORMULA, standing="rerunnable")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a claim and its row in claims.json both hold: everything that is no result.

    kind: "claim" (the paper says it), "question" (ours: it gets an answer, never a verdict) or
    "check" (of our own code or data).
    measure: what our number is, with its unit.  cause: the finding that it belongs to.
    printed: verbatim from the paper.  computed: by us from printed numbers, and `how`.
    cell: of the paper's table (its name, row, column) or figure (its name).
    headline: one of the one to three claims that the paper is read for.
    amended: what was changed after a run was seen, and why.
    reply: what an author answered, or we to an objection.
    """

    id: str
    kind: str
    paper: str
    where: str
    says: str
    cause: str | None = None
    measure: str | None = None
    printed: str | None = None
    computed: str | None = None
    how: str | None = None
    cell: list | None = None
    headline: bool = False
    figure: str | None = None
    amended: str | None = None
    reply: str | None = None


@dataclass(frozen=True, kw_only=True)
class Claim(Statement):
    """One table of a paper's toml file.

    open: what its verdict waits for.  to_come: why no notebook measures it yet; such a row has no
    rule, nor has a question.
    """

    rule: str | dict | None = None
    because: str | None = None
    decided_by: str | None = None
    better: str | None = None
    open: str | None = None
    to_come: str | None = None


@dataclass(frozen=True, kw_only=True)
class Row(Statement):
    """One decided (or not tried) claim, as it stands in claims.json.

    verdict: what `decided` says of all its data.  alone: what the rule says of `data` alone.
    possible: the verdicts in its interval, none where that is not known.  standing: of the data.
    also: what was found on other data, the same fields but for the statement, rule and verdict.
    firmness: in how many settings the verdict was the same (`firmness.settled`); None in a run.
    """

    value: float | None = None
    spread: float | None = None
    rule: str | None = None
    verdict: str = rules.NOT_TRIED
    alone: str = rules.NOT_TRIED
    possible: list = field(default_factory=list)
    data: str | None = None
    standing: str | None = None
    profile: str | None = None
    notebook: str | None = None
    note: str = ""
    also: list = field(default_factory=list)
    firmness: dict | None = None

    def __repr__(self) -> str:
        row = asdict(self)
        parts = (
            f"ours {in_words.ours(row)}, {self.data}",
            (why := in_words.reason(row)) and f"({why})",
        )
        return "   ".join(filter(None, (self.id, self.verdict, *parts)))


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or a figure of a paper as it is printed, also the cells without a claim.

    name: as the paper calls it.  title: in our words.  notebook: the record whose run makes it.
    columns: their names.  rows: by name, the printed text of each column, "" for an empty cell. A
    figure whose points are not printed has neither.  settings: the columns that hold no result.
    picture: ours, its name in figures/, or None.
    """

    name: str
    title: str
    notebook: str
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    picture: str | None = None
    note: str = ""


def papers() -> list[str]:
    """The papers that have a claims file, in order."""
    stems = (
        file.name.removesuffix(".toml") for file in CLAIMS.iterdir() if file.name.endswith(".toml")
    )
    return sorted(stem for stem in stems if stem != "findings" and "." not in stem)


def titles() -> dict[str, str]:
    """The title of each paper, by its key."""
    return _read("findings")["titles"]


def short_titles() -> dict[str, str]:
    """What each paper is about, in a few words of ours, by its key."""
    return _read("findings")["short_titles"]


def outcomes() -> dict[str, str]:
    """What came out, in two sentences for each paper, by its key."""
    return _read("findings")["outcomes"]


def findings() -> list[SimpleNamespace]:
    """What several rows say together, for a visitor who knows none: it leads the docs and the page
    of a run.

    Returns, in the order of their file, id, paper, title, text, short (the sentence for README; ""
    for a finding that does not stand there), the_paper_is (of `in_words.MARKS`; "open" where no row
    of it has a verdict yet), picture (its name in figures/) and lesson (a notebook).
    """
    return [
        SimpleNamespace(id=id, **({"short": ""} | table))
        for id, table in _read("findings").items()
        if id not in ("titles", "short_titles", "outcomes")
    ]


def claims(paper: str) -> dict[str, Claim]:
    """The claims of one paper by id; a table with `says` is a claim, its path after the paper's key
    is its id.

    ValueError if the paper has no claims file, or a claim lacks a field.
    """
    if paper not in papers():
        raise ValueError(f"no claims for paper {paper!r}: there are {', '.join(papers())}")
    found = {}
    for path, table in _leaves(_read(paper)):
        try:
            claim = Claim(id=f"{paper}.{path}", paper=paper, **table)
        except TypeError as error:
            raise ValueError(f"{paper}.toml, claim {path!r}: {error}") from None
        found[claim.id] = claim
    return found


def tables(paper: str) -> list[Table]:
    """The tables and figures of one paper in its order, from `<paper>.tables.toml`: a TOML table
    each by its name, with a list `rows` of names and cells. None if the paper has no such file.

    ValueError if the file has a table with an unknown or missing field, two rows of one name, or a
    row that has not one cell a column.
    """
    if not CLAIMS.joinpath(f"{paper}.tables.toml").is_file():
        return []
    return [_table(paper, name, told) for name, told in _read(f"{paper}.tables").items()]


def _table(paper: str, name: str, told: dict) -> Table:
    place = f"{paper}.tables.toml, {name!r}"
    try:
        rows = {row["name"]: row["cells"] for row in told.get("rows", [])}
        table = Table(**(told | {"name": name, "rows": rows}))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{place}: {error}") from None
    if len(rows) < len(told.get("rows", [])):
        raise ValueError(f"{place} has two rows of one name")
    for row, cells in rows.items():
        if len(cells) != len(table.columns):
            raise ValueError(
                f"{place}, row {row!r} has {len(cells)} cells for {len(table.columns)} columns"
            )
    return table


class Ledger:
    """One notebook's page of the ledger.

    paper: key of the claims file.  notebook: its name without .ipynb; None in a lesson, which shows
    rows and decides none.  profile: "quick" or "paper".
    needs: rows that a row of the ledger takes, by the name of its data set; it says so where there
    are fewer.
    With $PPKIT_RUN set, every record is written to $PPKIT_RUN/claims/<notebook>.json at once.
    """

    def __init__(
        self, paper: str, *, notebook: str | None, profile: str, needs: dict | None = None
    ):
        self.paper, self.notebook, self.profile, self.needs = paper, notebook, profile, needs or {}
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

        values: a number, one per seed, or a dict from arm to either, as the claim's rule takes it.
        data: a Dataset from `load`, or FORMULA.  against: what the paper claims, if it is computed
        and not printed.
        proven: an upper bound that holds by proof (claim_fails_if_attained); where data is FORMULA
        the values must not be above it.
        positives: positives in the test set; under 100 `halfwidth` must be given and the interval
        decides: where it holds more than one verdict (`rules.possible`), the row is undecided.
        needs: rows of data that this row takes, None for what the ledger was told; with fewer the
        verdict is "not tried: needs N rows".
        Returns the row; its repr is one line.
        ValueError on an unknown id, data that is neither, few positives without an interval, or
        more attained than is proved.
        """
        claim = self._claims.get(f"{self.paper}.{id}")
        if claim is None:
            raise ValueError(
                f"{self.paper} has no claim {id!r}: see ppkit/claims/{self.paper}.toml"
            )
        if data is not FORMULA and type(data) is not Dataset:
            raise ValueError(
                "data must be a Dataset from ppkit.datasets.load, or FORMULA, "
                f"got {type(data).__name__}"
            )
        if claim.to_come:
            raise ValueError(
                f"{id} is to come, says {self.paper}.toml: "
                "what is measured has a measure and a rule"
            )
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
        name, options = rules.parse(claim.rule) if claim.rule else (None, {})
        decide = rules.RULES[name] if name else rules.measured
        evidence = rules.Evidence(
            values,
            against=against,
            proven=proven,
            halfwidth=halfwidth if few else 0.0,
            printed=claim.printed or claim.computed,
            options={**options, "better": claim.better},
        )
        needs = self.needs.get(getattr(data, "name", ""), 0) if needs is None else needs
        short = data is not FORMULA and data.n_rows < needs
        untried = rules.Outcome(f"{rules.NOT_TRIED}: needs {needs:,} rows", None)
        outcome = untried if short else decide(evidence)
        by_rows, by_seeds = (
            rules.possible(None if short else name, evidence, width) for width in (halfwidth, 0.0)
        )
        if few and len(by_rows) > 1:
            outcome = replace(outcome, verdict=f"{rules.UNDECIDED}: {positives} positives", why="")
        alone, why = outcome.verdict, [outcome.why]
        if claim.kind == "check" and not short:
            alone = rules.PASSED if alone == rules.REPRODUCED else rules.FAILED
        if few:
            width = f"{halfwidth:.3f}" if halfwidth >= 0.0005 else f"{halfwidth:.2g}"
            why.append(f"{positives} positives: decided by the interval, half-width {width}")
        why += [
            note,
            "quick: the paper profile decides"
            if (claim.decided_by, self.profile) == ("paper", "quick")
            else "",
            f"not rerunnable as it stands: a subset; `ppkit data fetch {data.name}` and the same "
            "command decide on all rows"
            if data.source.startswith("real subset")
            else "",
        ]
        found = dict(
            value=outcome.value,
            spread=outcome.spread,
            alone=alone,
            possible=sorted({*by_rows, *by_seeds}),  # the wider interval
            data=data.source,
            standing=data.standing,
            profile=self.profile,
            notebook=self.notebook,
            note="; ".join(filter(None, why)),
        )
        row = Row(**_about(claim), rule=name, **decided(claim, [found]))
        self._rows[claim.id] = row
        self._write()
        return row

    def record_all(self, prefix: str, values: dict, **settings) -> pd.DataFrame:
        """Record one claim per entry of `values` under `prefix`; entries of `against` and `proven`
        are looked up by key."""
        for key, value in values.items():
            own = {
                name: given[key] if isinstance(given, dict) else given
                for name, given in settings.items()
            }
            self.record(f"{prefix}{key}", value, **own)
        return self.table(prefix)

    def table(self, prefix: str = "") -> pd.DataFrame:
        """This notebook's verdicts so far, those whose id starts with `prefix`, as text.

        Returns one row a claim: the paper's number, ours, the verdict, the data.  Where the
        reference has another verdict, a column shows it with the profile that decided it.
        """
        begins, kept = f"{self.paper}.{prefix}", {row["id"]: row for row in reference()}
        lines = {}
        for row in map(asdict, self._rows.values()):
            if row["id"].startswith(begins):
                lines[row["id"].partition(".")[2]] = _in_short(row) | {
                    ANOTHER: _another(row, kept.get(row["id"])),
                    "data": row["data"],
                }
        columns = ["printed", "ours", "verdict", ANOTHER, "data"]
        table = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("row")
        return table if table[ANOTHER].any() else table.drop(columns=ANOTHER)

    def beside_reference(self, differs: dict[str, str] | None = None) -> pd.DataFrame:
        """This notebook's rows beside the reference's: the paper, ours, the record, how firm.

        differs: by row, a sentence why its verdict is another one here.  Where there is none, the
        table says that it turned.
        """
        record, rows = {row["id"]: row for row in reference()}, {}
        for row in map(asdict, self._rows.values()):
            id, kept = row["id"].split(".", 1)[1], record[row["id"]]
            rows[id] = {
                "the paper": in_words.printed(row) or row["says"],
                f"you, here ({self.profile}, {row['data']})": in_words.in_short(row),
                "the record": f"{in_words.in_short(kept)} ({kept['profile']}, {kept['data']})",
                "firmness": in_words.firm(kept),
                "what the number is": row["measure"],
            }
            theirs = {rules.plain(kept[verdict]) for verdict in ("verdict", "alone")}
            if rules.plain(row["verdict"]) not in theirs:
                rows[id]["why it differs"] = (differs or {}).get(id, TURNED)
        return pd.DataFrame.from_dict(rows, orient="index").fillna("").rename_axis("row")

    def scoreboard(self) -> pd.DataFrame:
        """How many of this notebook's claims stand where, so far."""
        return scoreboard([asdict(row) for row in self._rows.values()])

    def _write(self) -> None:
        folder = os.environ.get("PPKIT_RUN")
        if folder and self.notebook:
            target = Path(folder, "claims", f"{self.notebook}.json")
            target.parent.mkdir(parents=True, exist_ok=True)
            rows = map(asdict, self._rows.values())
            text = json.dumps(list(rows), indent=1, ensure_ascii=False, allow_nan=False)
            write_whole(target, text)


def reference() -> list[dict]:
    """The rows of figures/claims.json, which `ppkit reference` writes."""
    return json.loads((project.root() / "figures" / "claims.json").read_text("utf-8"))["claims"]


def summary(paper: str, notebook: str | None = None) -> str:
    """How many rows of the reference came out how, and what decided them, as two lines of text.

    notebook: the record whose rows are counted; None counts all rows of the paper.
    ValueError if no row of the reference is of this paper and notebook.
    """
    rows = [row for row in reference() if row["paper"] == paper]
    if notebook is not None:
        rows = [row for row in rows if row["notebook"] == notebook]
    if not rows:
        raise ValueError(f"no row of the reference is of {paper!r} and notebook {notebook!r}")
    outcomes = Counter(map(in_words.outcome, rows))
    counts = [f"{outcomes[one]} {one}" for one in in_words.SYMBOLS if one in outcomes]
    sources = Counter(_decided_on(row, in_words.kind(row["data"])) for row in rows if row["data"])
    decided_on = [f"{source} ({count})" for source, count in sources.most_common()]
    return f"{len(rows)} rows: {', '.join(counts)}\ndecided on: {'; '.join(decided_on)}"


def answer(paper: str) -> pd.DataFrame:
    """The claims that a paper is read for, as the reference has them: what it says, its number,
    ours, the verdict, and on what data and profile this was decided.

    Returns text, one row a claim with `headline`; no row if none is marked.
    ValueError if the paper has no claims file.
    """
    claims(paper)
    rows = [row for row in reference() if row["paper"] == paper and row["headline"]]
    lines = {
        row["id"].partition(".")[2]: {"the paper says": row["says"]}
        | _in_short(row)
        | {"decided on": _decided_on(row, row["data"])}
        for row in rows
    }
    columns = ["the paper says", "printed", "ours", "verdict", "decided on"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("row")


def merge(rows: list[dict]) -> list[dict]:
    """One row per claim of every paper, in the order of the files; what nobody recorded is "not
    tried".

    rows: recorded rows, as in $PPKIT_RUN/claims/*.json; a later row of the same id takes an earlier
    one's place.
    ValueError if a row's id is no claim.
    """
    recorded, merged = {row["id"]: row for row in rows}, []
    for id, claim in _every_claim().items():
        note = (
            f"{TO_COME}{claim.to_come}" if claim.to_come else "no notebook of this run recorded it"
        )
        untried = Row(**_about(claim), rule=claim.rule and rules.parse(claim.rule)[0], note=note)
        merged.append(recorded.pop(id, None) or asdict(untried))
    if recorded:
        raise ValueError(f"no claim has the id {next(iter(recorded))!r}")
    return merged


def best(old: list[dict], new: list[dict]) -> list[dict]:
    """What the reference keeps of two lists of merged rows: for each standing of the data decided
    over not tried, paper profile over quick, new over old; of these, the verdict of `decided`.

    What is no result (picture, cause, measure, kind, rule) is taken from the claims' files as they
    are now; a row that they no longer have is left out, and a question that was tried is answered.
    """
    about, before, kept = _every_claim(), {row["id"]: row for row in old}, []
    untried = {row["id"]: row for row in merge([])}
    for row in (row for row in new if row["id"] in about):
        claim, both = about[row["id"]], (*results(before.get(row["id"], {})), *results(row))
        # it may have been a claim in its run
        answered = {"alone": rules.ANSWERED, "possible": []} if claim.kind == "question" else {}
        found = {
            one["standing"]: one
            | (answered if rules.plain(one["alone"]) != rules.NOT_TRIED else {})
            for one in sorted(both, key=_order)
            if one["data"]
        }
        kept.append(untried[claim.id] | (decided(claim, list(found.values())) if found else {}))
    return kept


def decided(claim: Claim, results: list[dict]) -> dict:
    """The verdict on a claim from what was found on one or several sources of data.

    results: fields of a Row, one dict for each source.
    Returns the fields of the result that decides, its verdict, and the others as `also`.

    - The paper's own file, when it is complete, decides; in the quick profile only where nothing
      else ran in the paper profile. Only this closes a row that is open for want of that file.
    - Else what anyone can rerun decides: the stand-in, the simulation, or a formula.
    - A claim "depends on the data", whichever way it turns, if real rows that do not decide give
      another verdict in the same profile, and neither interval holds the verdict of the other.
    - If they give another verdict and the interval of one of the two is not known (`rules.possible`
      is empty), nobody can tell chance from the data: the claim is undecided, so that neither
      verdict has credit. This takes a single number for as uncertain as it may be.
    - Otherwise the deciding verdict stands, and the other is shown beside it.

    An undecided or untried result turns nothing; nor are questions and checks turned.
    """
    first, *also = sorted(results, key=_order, reverse=True)
    verdict, mine = first["alone"], rules.plain(first["alone"])
    waits = claim.open and (first["standing"], claim.open) != ("complete", OTHER_DATA)
    if waits and mine != rules.NOT_TRIED:
        verdict = f"{rules.OPEN}: {claim.open}"
    rivals = [one for one in also if one["profile"] == first["profile"]]
    for one in rivals if (claim.kind, first["standing"]) == ("claim", "rerunnable") else ():
        other, intervals = rules.plain(one["alone"]), (first["possible"], one["possible"])
        if mine == other or {mine, other} & {rules.UNDECIDED, rules.NOT_TRIED}:
            continue
        if all(intervals) and other not in intervals[0] and mine not in intervals[1]:
            verdict = OTHER_DATA
        elif not all(intervals) and not claim.open:
            verdict = f"{rules.UNDECIDED}: other data say otherwise, and no interval is known"
    return {**first, "verdict": verdict, "also": also}


def _order(one: dict) -> tuple[bool, ...]:
    """Tried, on what can be had or is complete, in the paper profile (a formula: in any), on the
    paper's own file."""
    return (
        rules.plain(one["alone"]) != rules.NOT_TRIED,
        one["standing"] != "partial",
        one["profile"] == "paper" or one["data"] == FORMULA.source,
        one["standing"] == "complete",
    )


def results(row: dict) -> list[dict]:
    """What was found on each source of data, apart from what is the same for all."""
    mine = {*(one.name for one in fields(Row)), "run", "commit"} - {
        *(one.name for one in fields(Statement)),
        *("rule", "verdict", "also", "firmness"),
    }
    return [{key: row[key] for key in row if key in mine}, *row["also"]] if row else []


def scoreboard(rows: list[dict]) -> pd.DataFrame:
    """How many claims of each paper stand where: one row a paper, one column an outcome
    (`in_words.outcome`), and the data that they were decided on, with the profile (a formula has
    none).

    "causes of refuted" counts rows with one cause once; questions and checks are no claims and are
    counted apart.
    A column with nothing in it is left out.
    """
    frame = pd.DataFrame(rows, columns=["id", "paper", "kind", "cause"])
    outcomes = pd.Series([in_words.outcome(row) for row in rows], dtype=object)
    frame["what"] = outcomes.where(frame["kind"] == "claim", frame["kind"] + "s")
    frame["cause"] = frame["cause"].fillna(frame["id"]).where(frame["what"] == rules.REFUTED)
    frame["decided on"] = [
        f"{row['data']}, {row['profile']} profile"
        if row["data"] not in (None, FORMULA.source)
        else row["data"]
        for row in rows
    ]
    by_paper = frame.groupby("paper", sort=False)
    counts = by_paper["what"].value_counts().unstack(fill_value=0).rename_axis(columns=None)
    counts["causes of refuted"] = by_paper["cause"].nunique()
    order = [*in_words.SYMBOLS, "causes of refuted", "questions", "checks"]
    counts = counts.reindex(columns=order, fill_value=0).loc[:, lambda every: every.any()]
    decided_on = by_paper["decided on"].agg(lambda said: "; ".join(sorted(set(said.dropna()))))
    return counts.assign(**{"decided on": decided_on})


def _in_short(row: dict) -> dict[str, str]:
    """The columns that every short table of rows has."""
    return {
        "printed": in_words.printed(row),
        "ours": in_words.ours(row),
        "verdict": in_words.marked(row),
    }


def _another(row: dict, kept: dict | None) -> str:
    """The reference's verdict on a row of this notebook, if it is another one."""
    if kept is None or rules.plain(kept["verdict"]) == rules.plain(row["verdict"]):
        return ""
    return f"{_in_short(kept)['verdict']} ({kept['profile']} profile)"


def _decided_on(row: dict, data: str) -> str:
    """A row's data in these words, with its profile; a formula is the same in every profile."""
    return data if data == FORMULA.source else f"{data}, {row['profile']} profile"


def _every_claim() -> dict[str, Claim]:
    return {id: claim for paper in papers() for id, claim in claims(paper).items()}


def _about(claim: Claim) -> dict:
    """What a row takes over from its claim: everything that is no result."""
    return {field.name: getattr(claim, field.name) for field in fields(Statement)}


def _read(name: str) -> dict:
    return tomllib.loads(CLAIMS.joinpath(f"{name}.toml").read_text("utf-8"))


def _leaves(tree: dict, path: str = ""):
    for key, value in tree.items():
        if isinstance(value, dict):
            below = f"{path}.{key}".lstrip(".")
            yield from [(below, value)] if "says" in value else _leaves(value, below)
