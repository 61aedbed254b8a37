"""The ledger: every claim of a paper, what we measured, and the verdict that a rule computed from both."""

import json
import os
import tomllib
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import pandas as pd

from ppkit import rules
from ppkit.datasets import Dataset

SYMBOLS = {rules.REPRODUCED: "●", rules.DIRECTION: "◐", rules.NOT_REPRODUCED: "○", rules.REFUTED: "✕", rules.NOT_TRIED: "·"}
FEW_POSITIVES = 100
CLAIMS = resources.files("ppkit").joinpath("claims")


class _Formula:
    """The data of a claim that needs none: `data=FORMULA`."""

    source = "formula"


FORMULA = _Formula()


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, from its toml file."""

    id: str
    paper: str
    where: str
    says: str
    rule: str | dict
    because: str
    decided_by: str
    printed: str | None = None
    figure: str | None = None
    better: str | None = None


@dataclass(frozen=True)
class Row:
    """One decided (or not tried) claim, as it stands in claims.json."""

    id: str
    paper: str
    where: str
    says: str
    printed: str | None
    value: float | None
    spread: float | None
    rule: str
    verdict: str
    data: str | None
    profile: str | None
    notebook: str | None
    figure: str | None
    note: str

    def __repr__(self) -> str:
        note = f"   ({self.note})" if self.note else ""
        return f"{self.id}   {self.verdict}   ours {ours(asdict(self))}{note}"


def papers() -> list[str]:
    """The papers that have a claims file, in order."""
    return sorted(file.name.removesuffix(".toml") for file in CLAIMS.iterdir() if file.name.endswith(".toml"))


def claims(paper: str) -> dict[str, Claim]:
    """The claims of one paper by id; a table with `says` is a claim, its path after the paper's key is its id.

    ValueError if the paper has no claims file, a claim lacks a field, or its rule is not one of ours.
    """
    if paper not in papers():
        raise ValueError(f"no claims for paper {paper!r}: there are {', '.join(papers())}")
    tree = tomllib.loads(CLAIMS.joinpath(f"{paper}.toml").read_text("utf-8"))
    found = {}
    for path, table in _leaves(tree):
        try:
            claim = Claim(id=f"{paper}.{path}", paper=paper, **table)
        except TypeError as error:
            raise ValueError(f"{paper}.toml, claim {path!r}: {error}") from None
        rules.parse(claim.rule)
        found[claim.id] = claim
    return found


class Ledger:
    """One notebook's page of the ledger.

    paper: key of the claims file.  notebook: its name without .ipynb.  profile: "quick" or "paper".
    With $PPKIT_RUN set, every record is written to $PPKIT_RUN/claims/<notebook>.json at once.
    """

    def __init__(self, paper: str, *, notebook: str, profile: str):
        self.paper, self.notebook, self.profile = paper, notebook, profile
        self._claims = claims(paper)
        self._rows: dict[str, Row] = {}

    def record(self, id: str, values, *, data, against=None, proven=None, positives=None, halfwidth=0.0, note="") -> Row:
        """Decide claim `id` (without the paper's key) on what was measured, and keep the row.

        values: a number, one per seed, or a dict from arm to either, as the claim's rule takes it.
        data: a Dataset from `load`, or FORMULA.  against: what the paper claims, if it is computed and not printed.
        proven: an upper bound that holds by proof (claim_fails_if_attained).
        positives: positives in the test set; under 100 the interval decides and `halfwidth` must be given.
        Returns the row; its repr is one line.
        ValueError on an unknown id, data that is neither, or few positives without an interval.
        """
        claim = self._claims.get(f"{self.paper}.{id}")
        if claim is None:
            raise ValueError(f"{self.paper} has no claim {id!r}: see ppkit/claims/{self.paper}.toml")
        if data is not FORMULA and type(data) is not Dataset:
            raise ValueError(f"data must be a Dataset from ppkit.datasets.load, or FORMULA, got {type(data).__name__}")
        if positives is not None and positives < FEW_POSITIVES and not halfwidth > 0:
            raise ValueError(f"{id}: {positives} positives are fewer than {FEW_POSITIVES}, so halfwidth must be given")
        name, options = rules.parse(claim.rule)
        few = positives is not None and positives < FEW_POSITIVES
        evidence = rules.Evidence(values, against=against, proven=proven, halfwidth=halfwidth if few else 0.0,
                                  printed=claim.printed, options={**options, "better": claim.better})
        outcome = rules.RULES[name](evidence)
        interval = f"{positives} positives: decided by the interval, half-width {_halfwidth(halfwidth)}" if few else ""
        later = "quick: the paper profile decides" if (claim.decided_by, self.profile) == ("paper", "quick") else ""
        row = Row(id=claim.id, paper=self.paper, where=claim.where, says=claim.says, printed=claim.printed,
                  value=outcome.value, spread=outcome.spread, rule=name, verdict=outcome.verdict, data=data.source,
                  profile=self.profile, notebook=self.notebook, figure=claim.figure,
                  note="; ".join(filter(None, (outcome.why, interval, note, later))))
        self._rows[claim.id] = row
        self._write()
        return row

    def record_all(self, prefix: str, values: dict, **settings) -> pd.DataFrame:
        """Record one claim per entry of `values` under `prefix`; entries of `against` and `proven` are looked up by key."""
        for key, value in values.items():
            own = {name: given[key] if isinstance(given, dict) else given for name, given in settings.items()}
            self.record(f"{prefix}{key}", value, **own)
        return self.table(prefix)

    def table(self, prefix: str = "") -> pd.DataFrame:
        """This notebook's verdicts so far, those whose id starts with `prefix`, as text: paper's number, ours, verdict."""
        rows = [row for id, row in self._rows.items() if id.startswith(f"{self.paper}.{prefix}")]
        return verdict_table([asdict(row) for row in rows])

    def scoreboard(self) -> pd.DataFrame:
        """How many of this notebook's claims stand where, so far."""
        return scoreboard([asdict(row) for row in self._rows.values()])

    def _write(self) -> None:
        folder = os.environ.get("PPKIT_RUN")
        if folder:
            target = Path(folder, "claims", f"{self.notebook}.json")
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_suffix(".part")
            part.write_text(json.dumps([asdict(row) for row in self._rows.values()], indent=1, ensure_ascii=False))
            part.replace(target)


def merge(rows: list[dict]) -> list[dict]:
    """One row per claim of every paper, in the order of the files; what nobody recorded is "not tried".

    rows: recorded rows, as in $PPKIT_RUN/claims/*.json; a later row of the same id takes an earlier one's place.
    ValueError if a row's id is no claim.
    """
    recorded = {row["id"]: row for row in rows}
    merged = []
    for claim in (claim for paper in papers() for claim in claims(paper).values()):
        row = recorded.pop(claim.id, None)
        merged.append(row or asdict(Row(
            id=claim.id, paper=claim.paper, where=claim.where, says=claim.says, printed=claim.printed, value=None,
            spread=None, rule=rules.parse(claim.rule)[0], verdict=rules.NOT_TRIED, data=None, profile=None,
            notebook=None, figure=None, note="no notebook of this run recorded it")))
    if recorded:
        raise ValueError(f"no claim has the id {next(iter(recorded))!r}")
    return merged


def best(old: list[dict], new: list[dict]) -> list[dict]:
    """What the reference keeps of two lists of merged rows: decided over not tried, paper profile over quick, new over old.

    Which picture shows a claim is no result: it is taken from the claims' files as they are now.
    """
    pictures = {claim.id: claim.figure for paper in papers() for claim in claims(paper).values()}
    kept = {row["id"]: row for row in old}
    for row in new:
        before = kept.get(row["id"])
        if before is None or _rank(row) >= _rank(before):
            kept[row["id"]] = row
    return [{**kept[row["id"]], "figure": pictures.get(row["id"])} for row in new]


def verdict_table(rows: list[dict]) -> pd.DataFrame:
    """Rows of the ledger as a table of text: claim, its words, the paper's number, ours with its spread, the verdict, and why."""
    return pd.DataFrame(
        {"the paper says": [row["says"] for row in rows], "printed": [row["printed"] or "" for row in rows], "ours": [ours(row) for row in rows],
         "verdict": [f"{symbol(row['verdict'])} {row['verdict']}" for row in rows],
         "why": [row["note"] for row in rows]},
        index=pd.Index([row["id"].split(".", 1)[1] for row in rows], name="claim"))


def ours(row: dict) -> str:
    """Our number in a row, as text: four digits, or as many decimals as the spread over seeds leaves meaning to."""
    value, spread = row["value"], row["spread"]
    if value is None:
        return ""
    if spread is not None:
        decimals = 2 if spread >= 0.01 else 3
        return f"{value:.{decimals}f} ± {spread:.{decimals}f}"
    return f"{value:.4g}" if abs(value) < 1_000 else f"{value:,.1f}" if value % 1 else f"{value:,.0f}"


def scoreboard(rows: list[dict]) -> pd.DataFrame:
    """How many claims of each paper stand where: one row a paper, one column a verdict; a verdict's addition is left out."""
    counts = pd.DataFrame(0, index=pd.Index(dict.fromkeys(row["paper"] for row in rows), name="paper"), columns=rules.VERDICTS)
    for row in rows:
        counts.loc[row["paper"], rules.plain(row["verdict"])] += 1
    return counts


def symbol(verdict: str) -> str:
    """The mark that stands for a verdict, also where colour is missing."""
    return SYMBOLS[rules.plain(verdict)]


def _halfwidth(value: float) -> str:
    """Three decimals, or two significant digits where they would print 0.000."""
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.2g}"


def _rank(row: dict) -> tuple[bool, bool]:
    return row["verdict"] != rules.NOT_TRIED, row["profile"] == "paper"


def _leaves(tree: dict, path: str = ""):
    for key, value in tree.items():
        if isinstance(value, dict):
            below = f"{path}.{key}".lstrip(".")
            yield from [(below, value)] if "says" in value else _leaves(value, below)
