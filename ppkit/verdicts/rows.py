"""The row of a claim: what a record found, what `ledger` and `robustness` made of it, and how it
stands in JSON. Every row has the same fields, from the record to the page."""

import json
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path

import fastjsonschema

from ppkit.atomic_writing import write_whole
from ppkit.verdicts import rules
from ppkit.verdicts.statements import Statement

SCHEMA = 1  # of the files that hold rows; raised when a field changes its meaning


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run found about one claim on one source of data.

    value: our number; None if nothing was measured.  spread: its standard deviation over seeds,
    None for one number.  alone: what the rule says of these data alone.  detail: what stands beside
    that verdict, such as "the direction holds"; "" for nothing.  possible: the verdicts in its 95%
    interval, none where that is not known.
    data: the words for the rows, None if nothing was measured.  standing: of the data.
    profile, notebook, run, commit: which run found it.  note: why the rule says so.
    rule_digest: SHA-256 of the rule as it was then; "" where the run did not keep it.
    """

    value: float | None = None
    spread: float | None = None
    alone: str = rules.NOT_TRIED
    detail: str = ""
    possible: list[str] = field(default_factory=list)
    data: str | None = None
    standing: str | None = None
    profile: str | None = None
    notebook: str | None = None
    note: str = ""
    rule_digest: str = ""
    run: str = ""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One of the two runs that show on what a verdict depends.

    setting: in words, such as "clip 10".  verdict: what the claim's rule says there.
    """

    setting: str
    value: float | None
    verdict: str
    data: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A setting of one choice, or of several together, at which the verdict is another one."""

    choice: str
    at: str
    verdict: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """In how many settings of what a paper leaves open a row's verdict is the same.

    main: the main setting's verdict, at the settings' size, and its value there.
    singles: of the settings that differ from the main one in one choice, how many have the main
    verdict, and how many were tried.  combinations: the same two counts of the settings that differ
    in several choices.
    least, largest: our smallest and our largest number over all settings.
    turns: the settings with another verdict that differ in one choice. If there is none, one that
    differs in several.
    owned_by: for each choice the share of the variation of our number that it explains by itself.
    The shares may add up to less than 1: choices that act together explain the rest.
    larger: what was found at the paper's size, where that was tried, too.
    """

    main: str
    main_value: float
    singles: list[int]
    combinations: list[int]
    least: float
    largest: float
    turns: list[Turn] = field(default_factory=list)
    owned_by: dict[str, float] = field(default_factory=dict)
    larger: list[Turn] = field(default_factory=list)

    @property
    def same(self) -> int:
        return self.singles[0] + self.combinations[0]

    @property
    def tried(self) -> int:
        return self.singles[1] + self.combinations[1]


@dataclass(frozen=True, kw_only=True)
class Row(Statement, Result):
    """One claim, question or check, with what was found.

    verdict: the one that counts. It rests on every source of data, on the other settings, and on
    what the claims' file says is missing or out of reach.
    rule: the name of the rule, None for a question.
    stale: whether the rule was changed after the run that decided the row.
    also: what was found on other sources of data.
    depends_on: the choices that turn it.  witness: two runs that exclude each other.
    robustness: at other settings, on the data that decide it; None where `not_varied` says why.
    other_data: by each other kind of data, how many settings had the main verdict there, and how
    many were tried.
    """

    verdict: str = rules.NOT_TRIED
    rule: str | None = None
    stale: bool = False
    also: list[Result] = field(default_factory=list)
    depends_on: list[str] = field(default_factory=list)
    witness: list[Sighting] = field(default_factory=list)
    robustness: Robustness | None = None
    not_varied: str = ""
    other_data: dict[str, list[int]] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        """One result for each source of data, first the one that decides; none if no run measured
        the row."""
        if self.data is None:
            return []
        mine = {one.name: getattr(self, one.name) for one in fields(Result)}
        return [Result(**mine), *self.also]

    @property
    def short_id(self) -> str:
        """The id within its paper: "fig3.beats" of "wang2018.fig3.beats"."""
        return self.id.partition(".")[2]


def write(
    path: Path, rows: list[Row], *, run: dict | None = None, pictures: dict | None = None
) -> None:
    """Write rows as JSON, whole or not at all.

    run: on the run that found them.  pictures: on those in figures/, by name.  A record of a run
    that is not over has neither.
    ValueError if the content does not fit the schema of the file.
    """
    content: dict = {"schema": SCHEMA}
    if run is not None:
        content |= {"run": run, "pictures": pictures}
    content["claims"] = [asdict(row) for row in rows]
    refuse_what_does_not_fit(content)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, text + "\n")


def read(path: Path) -> tuple[dict, list[Row]]:
    """What a file says about its rows, and the rows.

    ValueError, one sentence, if it is damaged, or of another schema than this ppkit's.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        number, claims = content.get("schema"), content.pop("claims")
    except (ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(claims, list):
        raise ValueError(f"{path} is damaged: it holds no rows of the ledger")
    if number != SCHEMA:
        raise ValueError(
            f"{path} is of schema {number or 'none'}, and this ppkit reads schema {SCHEMA}: "
            "run its notebooks again"
        )
    try:
        rows = [from_json(one) for one in claims]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return content, rows


def from_json(one: dict) -> Row:
    """A row of what JSON holds.  TypeError or KeyError if a field is unknown or missing."""
    robustness = one["robustness"]
    if robustness is not None:
        turns = {
            name: [_made(Turn, turn) for turn in robustness[name]] for name in ("turns", "larger")
        }
        robustness = _made(Robustness, robustness | turns)
    made = {
        "also": [_made(Result, result) for result in one["also"]],
        "witness": [_made(Sighting, sighting) for sighting in one["witness"]],
        "robustness": robustness,
    }
    return _made(Row, one | made)


def _made(kind: type, one: dict):
    """An object of this class, of a dict that has all its fields and no other."""
    for part in fields(kind):
        if part.name not in one:
            raise KeyError(part.name)
    return kind(**one)


def refuse_what_does_not_fit(content) -> None:
    """ValueError, with the place, if what a file of rows is to hold does not fit its schema."""
    try:
        _validator()(content)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(error.message) from None


@cache
def _validator():
    return fastjsonschema.compile(schema())


def schema() -> dict:
    """The JSON Schema of a file of rows."""
    return json.loads(Path(__file__).with_name("rows.schema.json").read_text("utf-8"))
