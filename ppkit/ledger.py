"""The ledger: every claim of a paper, what we measured, and the verdict that a rule computed from
both."""

import json
import os
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path

import pandas as pd

from ppkit import project, rules
from ppkit.datasets import Dataset
from ppkit.writing import write_whole

SYMBOLS = {
    rules.REPRODUCED: "●",
    rules.DIRECTION: "◐",
    rules.NOT_REPRODUCED: "○",
    rules.REFUTED: "✕",
    rules.UNDECIDED: "≈",
    rules.DEPENDS: "◇",
    rules.OPEN: "□",
    rules.NOT_TRIED: "·",
    rules.ANSWERED: "?",
    rules.PASSED: "✓",
    rules.FAILED: "!",
}
MARKS = {"right": "✓", "not right": "✕", "open": "□"}  # of a finding
KINDS = ("claim", "question", "check")
TO_COME = "to come: "  # begins the note of a row that no notebook measures yet
TURNED = "it turned: other settings, data or sizes than the record's"
FEW_POSITIVES = 100
CLAIMS = resources.files("ppkit").joinpath("claims")


class _Formula:
    """The data of a claim that needs none: `data=FORMULA`."""

    source = "formula"


FORMULA = _Formula()


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a claim and its row in claims.json both hold: everything that is no result.

    kind: "claim" (the paper says it), "question" (ours: it gets an answer, never a verdict) or
    "check" (of our own code or data).
    measure: what our number is, with its unit.  cause: the finding that it belongs to.
    amended: what was changed after a run was seen, and why.
    """

    id: str
    kind: str
    paper: str
    where: str
    says: str
    cause: str | None = None
    measure: str | None = None
    printed: str | None = None
    figure: str | None = None
    choices: tuple = ()
    amended: str | None = None


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

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.kind == "question" or self.to_come:
            if self.rule is not None:
                raise ValueError("a question, or what is to come, has no rule")
        else:
            rules.parse(self.rule)
        if not self.to_come and (self.measure is None or self.decided_by not in ("quick", "paper")):
            raise ValueError(
                "what a notebook measures has a measure, and decided_by quick or paper"
            )


@dataclass(frozen=True)
class Finding:
    """What several rows say together, for a visitor who knows none: it leads README and the page of
    a run.

    the_paper_is: a key of MARKS; "open" where no row of it has a verdict yet.
    picture: its name in figures/.  lesson: a notebook.
    """

    id: str
    paper: str
    title: str
    text: str
    the_paper_is: str
    picture: str
    lesson: str


@dataclass(frozen=True, kw_only=True)
class Row(Statement):
    """One decided (or not tried) claim, as it stands in claims.json."""

    value: float | None
    spread: float | None
    rule: str | None
    verdict: str
    data: str | None
    profile: str | None
    notebook: str | None
    note: str

    def __repr__(self) -> str:
        note = f"   ({self.note})" if self.note else ""
        return f"{self.id}   {self.verdict}   ours {ours(asdict(self))}{note}"


def papers() -> list[str]:
    """The papers that have a claims file, in order."""
    stems = (
        file.name.removesuffix(".toml") for file in CLAIMS.iterdir() if file.name.endswith(".toml")
    )
    return sorted(stem for stem in stems if stem != "findings" and not stem.endswith(".choices"))


def titles() -> dict[str, str]:
    """The title of each paper, by its key."""
    return _read("findings")["titles"]


def findings() -> list[Finding]:
    """The findings of all papers, in the order of their file."""
    return [Finding(id=id, **table) for id, table in _read("findings").items() if id != "titles"]


def claims(paper: str) -> dict[str, Claim]:
    """The claims of one paper by id; a table with `says` is a claim, its path after the paper's key
    is its id.

    ValueError if the paper has no claims file, a claim lacks a field, or its rule is not one of
    ours.
    """
    if paper not in papers():
        raise ValueError(f"no claims for paper {paper!r}: there are {', '.join(papers())}")
    found = {}
    for path, table in _leaves(_read(paper)):
        try:
            claim = Claim(id=f"{paper}.{path}", paper=paper, **table)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{paper}.toml, claim {path!r}: {error}") from None
        found[claim.id] = claim
    return found


class Ledger:
    """One notebook's page of the ledger.

    paper: key of the claims file.  notebook: its name without .ipynb; None in a lesson, which shows
    rows and decides none.  profile: "quick" or "paper".
    With $PPKIT_RUN set, every record is written to $PPKIT_RUN/claims/<notebook>.json at once.
    """

    def __init__(self, paper: str, *, notebook: str | None, profile: str):
        self.paper, self.notebook, self.profile = paper, notebook, profile
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
        note="",
    ) -> Row:
        """Decide claim `id` (without the paper's key) on what was measured, and keep the row.

        values: a number, one per seed, or a dict from arm to either, as the claim's rule takes it.
        data: a Dataset from `load`, or FORMULA.  against: what the paper claims, if it is computed
        and not printed.
        proven: an upper bound that holds by proof (claim_fails_if_attained).
        positives: positives in the test set; under 100 the interval decides and `halfwidth` must be
        given.
        Returns the row; its repr is one line.
        ValueError on an unknown id, data that is neither, or few positives without an interval.
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
            printed=claim.printed,
            options={**options, "better": claim.better},
        )
        outcome = decide(evidence)
        if (
            few
            and outcome.verdict
            != decide(replace(evidence, halfwidth=-halfwidth)).verdict
            == rules.REPRODUCED
        ):
            outcome = replace(outcome, verdict=f"{rules.UNDECIDED}: {positives} positives", why="")
        verdict, why = outcome.verdict, [outcome.why]
        if claim.kind == "check":
            verdict = rules.PASSED if verdict == rules.REPRODUCED else rules.FAILED
        elif claim.open:
            verdict, why = f"{rules.OPEN}: {claim.open}", [f"on this data: {verdict}", outcome.why]
        if few:
            width = f"{halfwidth:.3f}" if halfwidth >= 0.0005 else f"{halfwidth:.2g}"
            why.append(f"{positives} positives: decided by the interval, half-width {width}")
        why += [
            note,
            "quick: the paper profile decides"
            if (claim.decided_by, self.profile) == ("paper", "quick")
            else "",
        ]
        row = Row(
            **_about(claim),
            value=outcome.value,
            spread=outcome.spread,
            rule=name,
            verdict=verdict,
            data=data.source,
            profile=self.profile,
            notebook=self.notebook,
            note="; ".join(filter(None, why)),
        )
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
        """This notebook's verdicts so far, those whose id starts with `prefix`, as text: paper's
        number, ours, verdict."""
        begins = f"{self.paper}.{prefix}"
        rows = [asdict(row) for id, row in self._rows.items() if id.startswith(begins)]
        return pd.DataFrame(
            {
                "the paper says, or we ask": [row["says"] for row in rows],
                "printed": [row["printed"] or "" for row in rows],
                "ours": [ours(row) for row in rows],
                "what ours is": [row["measure"] or "" for row in rows],
                "verdict": [f"{symbol(row['verdict'])} {row['verdict']}" for row in rows],
                "why": [reason(row) for row in rows],
            },
            index=pd.Index([row["id"].split(".", 1)[1] for row in rows], name="row"),
        )

    def beside_reference(self, differs: dict[str, str] | None = None) -> pd.DataFrame:
        """This notebook's rows beside the reference's: the paper, ours, the record, how firm.

        differs: by row, a sentence why its verdict is another one here.  Where there is none, the
        table says that it turned.
        """
        record, rows = {row["id"]: row for row in reference()}, {}
        for row in map(asdict, self._rows.values()):
            id, kept = row["id"].split(".", 1)[1], record[row["id"]]
            rows[id] = {
                "the paper": row["printed"] or row["says"],
                f"you, here ({self.profile}, {row['data']})": _in_short(row),
                "the record": f"{_in_short(kept)} ({kept['profile']}, {kept['data']})",
                "firmness": kept.get("firmness") or "not measured",
            }
            if rules.plain(row["verdict"]) != rules.plain(kept["verdict"]):
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
            rows = [asdict(row) for row in self._rows.values()]
            write_whole(target, json.dumps(rows, indent=1, ensure_ascii=False))


def reference() -> list[dict]:
    """The rows of figures/claims.json, which `ppkit reference` writes."""
    file = project.root() / "figures" / "claims.json"
    return json.loads(file.read_text("utf-8"))["claims"]


def merge(rows: list[dict]) -> list[dict]:
    """One row per claim of every paper, in the order of the files; what nobody recorded is "not
    tried".

    rows: recorded rows, as in $PPKIT_RUN/claims/*.json; a later row of the same id takes an earlier
    one's place.
    ValueError if a row's id is no claim.
    """
    recorded = {row["id"]: row for row in rows}
    merged = []
    for claim in (claim for paper in papers() for claim in claims(paper).values()):
        row = recorded.pop(claim.id, None)
        merged.append(
            row
            or asdict(
                Row(
                    **_about(claim),
                    value=None,
                    spread=None,
                    rule=rules.parse(claim.rule)[0] if claim.rule else None,
                    verdict=rules.NOT_TRIED,
                    data=None,
                    profile=None,
                    notebook=None,
                    note=f"{TO_COME}{claim.to_come}"
                    if claim.to_come
                    else "no notebook of this run recorded it",
                )
            )
        )
    if recorded:
        raise ValueError(f"no claim has the id {next(iter(recorded))!r}")
    return merged


def best(old: list[dict], new: list[dict]) -> list[dict]:
    """What the reference keeps of two lists of merged rows: decided over not tried, paper profile
    over quick, new over old.

    What is no result (picture, cause, measure, kind) is taken from the claims' files as they are
    now.
    """
    about = {claim.id: _about(claim) for paper in papers() for claim in claims(paper).values()}
    kept = {row["id"]: row for row in old}
    for row in new:
        before = kept.get(row["id"])
        if before is None or _rank(row) >= _rank(before):
            kept[row["id"]] = row
    return [{**kept[row["id"]], **about.get(row["id"], {})} for row in new]


def reason(row: dict) -> str:
    """Why a row has its verdict, and what was changed in it after a run was seen."""
    return "; ".join(filter(None, (row["note"], row["amended"] and f"amended {row['amended']}")))


def ours(row: dict) -> str:
    """Our number in a row, as text: four digits, or as many decimals as the spread over seeds
    leaves meaning to."""
    value, spread = row["value"], row["spread"]
    if value is None:
        return ""
    if spread is not None:
        decimals = 2 if spread >= 0.01 else 3
        return f"{value:.{decimals}f} ± {spread:.{decimals}f}"
    return (
        f"{value:.4g}" if abs(value) < 1_000 else f"{value:,.1f}" if value % 1 else f"{value:,.0f}"
    )


def scoreboard(rows: list[dict]) -> pd.DataFrame:
    """How many claims of each paper stand where: one row a paper, one column a verdict (its
    addition is left out).

    "causes of refuted" counts rows with one cause once; questions and checks are no claims and are
    counted apart.
    A column with nothing in it is left out.
    """
    counts = pd.DataFrame(
        0,
        index=pd.Index(dict.fromkeys(row["paper"] for row in rows), name="paper"),
        columns=[*rules.VERDICTS, "causes of refuted", "questions", "checks"],
    )
    causes = {}
    for row in rows:
        verdict = rules.plain(row["verdict"])
        counts.loc[row["paper"], verdict if row["kind"] == "claim" else f"{row['kind']}s"] += 1
        if row["kind"] == "claim" and verdict == rules.REFUTED:
            causes.setdefault(row["paper"], set()).add(row["cause"] or row["id"])
    for paper, found in causes.items():
        counts.loc[paper, "causes of refuted"] = len(found)
    return counts.loc[:, counts.any()]


def counted(rows) -> str:
    """How many rows have which verdict, in words: "14 refuted, 2 reproduced"."""
    verdicts = [rules.plain(row["verdict"]) for row in rows]
    return ", ".join(f"{verdicts.count(name)} {name}" for name in SYMBOLS if name in verdicts)


def symbol(verdict: str) -> str:
    """The mark that stands for a verdict, also where colour is missing."""
    return SYMBOLS[rules.plain(verdict)]


def _in_short(row: dict) -> str:
    return f"{symbol(row['verdict'])} {row['verdict']}: {ours(row)}"


def _rank(row: dict) -> tuple[bool, bool]:
    return row["verdict"] != rules.NOT_TRIED, row["profile"] == "paper"


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
