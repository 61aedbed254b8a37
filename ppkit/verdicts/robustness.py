"""How robust a verdict is: what a paper leaves open, which settings of it are tried, and in how
many of them a row's verdict is the same.

A choice is a parameter of a record that the paper's words leave open. `claims/<paper>.choices.toml`
has its settings, the main one first, why the words allow them, and the rows that they may move; it
is committed before the settings are run. A seed, a start or a draw of rows is tried beside them and
is no choice: what it explains turns nothing.  `ppkit reproduce RECORD --settings` runs them, and
`ppkit reference` keeps what came out in figures/settings/ and weighs each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ppkit import project
from ppkit.validation import fields_of
from ppkit.verdicts import ledger, rules, settings_files, statements, wording
from ppkit.verdicts.rows import Robustness, Row, Sighting, Turn
from ppkit.verdicts.statements import Claim

if TYPE_CHECKING:
    import pandas as pd

FOUND = ("value", "alone", "data")
JOINT = 16  # settings in which all choices are drawn at once


@dataclass(frozen=True)
class Choice:
    """What a paper leaves open.

    parameter: of the record.  settings: 2 to 5, the main one first.  why: the words that allow
    them.  rows: beginnings of the ids, without the paper's key, of the rows that it may move.
    draw: whether it is a seed, a start or a draw, whose settings are tried and turn nothing.
    excluded: settings that were tried and that the paper's words exclude, each with the reason.
    paper: whose choice it is, "" where the record has the paper's key.
    """

    name: str
    record: str
    parameter: str
    settings: list
    why: str
    rows: list = field(default_factory=list)
    draw: bool = False
    excluded: dict[str, str] = field(default_factory=dict)
    paper: str = ""

    @property
    def main(self) -> str:
        return str(self.settings[0])

    def moves(self, id: str) -> bool:
        """Whether the row with this id is one of its rows."""
        paper, _, rest = id.partition(".")
        return paper == (self.paper or self.record) and rest.startswith(tuple(self.rows))


def choices(record: str = "") -> list[Choice]:
    """The choices of a record, or of all records; none if no file has any.

    ValueError if one lacks a field, or moves rows that its paper does not have.
    """
    every = []
    for file in sorted(statements.folder().iterdir(), key=lambda file: file.name):
        paper, _, kind = file.name.partition(".")
        if kind == "choices.toml":
            every += _choices_of(paper, project.read_toml(file), record)
    return every


def _choices_of(paper: str, told: dict, record: str) -> list[Choice]:
    """The choices in the file of a paper; those of one record, if one is given."""
    found, ids = [], None
    for name, table in told.items():
        try:
            if not isinstance(table, dict):
                raise ValueError("it stands outside of a choice, which is a table")
            if record not in ("", table.get("record", paper)):
                continue
            ids = ids or [id.removeprefix(f"{paper}.") for id in statements.claims(paper)]
            table = {"record": paper, **table}
            fields_of(Choice, table, given=("name", "paper"))
            found.append(Choice(name=name, paper=paper, **table))
            _refuse_other_settings(found[-1], ids)
        except ValueError as error:
            raise ValueError(f"{paper}.choices.toml, {name!r}: {error}") from None
    if twice := [one for one, n in Counter(one.parameter for one in found).items() if n > 1]:
        if record:
            raise ValueError(f"{paper}.choices.toml: two choices are of the parameter {twice[0]}")
    return found


def _refuse_other_settings(choice: Choice, ids: list[str]) -> None:
    texts = [str(value) for value in choice.settings]
    if len(set(texts)) != len(texts) or len(texts) < 2:
        raise ValueError(f"settings are two or more, each once, got {choice.settings}")
    if odd := [one for one in choice.excluded if one not in texts[1:]]:
        raise ValueError(f"excluded has {odd}, none of the settings after the main one")
    for beginning in choice.rows:
        if not any(id.startswith(beginning) for id in ids):
            raise ValueError(
                f"rows has {beginning!r}, and no row of the paper begins so (the paper's key left "
                "out)"
            )


def points(record: str, profile: str = "quick") -> list[dict[str, str]]:
    """The settings of a record as texts by parameter. In the quick profile all: the main one, each
    other setting by itself, and those of JOINT drawn by a Latin hypercube, all choices at once,
    that are new. In the paper profile few of these, `to_try_in_full`.

    ValueError if the record has no choices, or if no setting turns what has credit.
    """
    from scipy.stats import qmc

    every = choices(record)
    if not every:
        raise ValueError(f"{record} has no choices: no claims/*.choices.toml names it")
    main = {choice.parameter: choice.settings[0] for choice in every}
    if profile != "quick":
        found = [main | at for at in to_try_in_full(record)]
        return [{name: str(value) for name, value in at.items()} for at in found]
    alone = [main | {one.parameter: value} for one in every for value in one.settings[1:]]
    joint = [
        {one.parameter: one.settings[int(at * len(one.settings))] for one, at in zip(every, line)}
        for line in qmc.LatinHypercube(len(every), rng=0).random(JOINT)
    ]
    texts = [{name: str(value) for name, value in at.items()} for at in (main, *alone, *joint)]
    return [at for k, at in enumerate(texts) if at not in texts[:k]]


def to_try_in_full(record: str) -> list[dict[str, str]]:
    """Settings of a record, by parameter, that are worth a run at the paper's size: what differs
    from the main setting.

    A claim that was reproduced at the paper's size keeps its credit where a setting turns it at the
    quick size (`settled`). These are few settings that hold, of each claim that one choice by
    itself turns against the paper, at least one such setting: again and again the one that turns
    most claims of those that are left.  Several choices at once are not tried in full: that each by
    itself keeps the claim is the kinder reading.

    ValueError if there is no such claim.
    """
    every = {choice.name: choice.parameter for choice in choices(record)}
    kept = {id for of, _, id, _, _ in _kept() if of == record}
    turning: dict[tuple, set[str]] = {}
    for row in ledger.reference():
        if row.id in kept and _keeps_credit_by_its_size(row):
            for turn in row.robustness.turns if row.robustness else ():
                if turn.choice in every and turn.verdict != rules.REPRODUCED:
                    turning.setdefault((turn.choice, turn.at), set()).add(row.id)
    if not turning:
        raise ValueError(f"no setting of {record} turns a claim that the paper's size reproduced")
    found, left = [], set.union(*turning.values())
    while left:
        most = max(turning, key=lambda at: len(turning[at] & left))
        left -= turning[most]
        choice, at = most
        found.append({every[choice]: at})
    return found


def _keeps_credit_by_its_size(row: Row) -> bool:
    """Whether it is a claim that the paper's size reproduced, and that only a run at that size can
    turn: some setting of the quick size does, and no other row of its file."""
    claim = statements.every_claim().get(row.id)
    if claim is None or row.kind != "claim" or not (row.robustness and row.robustness.turns):
        return False
    if claim.existence or claim.witness and claim.witness["choice"] in row.depends_on:
        return False
    if rules.plain(row.verdict) in rules.OPEN:
        return False
    return (row.profile, row.alone, claim.decided_by) == ("paper", rules.REPRODUCED, "paper")


def moved(record: str, table: pd.DataFrame) -> pd.DataFrame:
    """Of a batch at a record's settings, what `weighed` needs: the parameters as texts, then claim,
    value, the verdict on that data, and the data, for the rows that a choice may move, or moved.

    table: a line a point and claim, with a column for each parameter.
    """
    every = choices(record)
    names = [one.parameter for one in every]
    kept = table.dropna(subset=["claim"])[[*names, "claim", *FOUND]]
    if kept.empty:
        return kept
    plain = kept["alone"].map(rules.plain)
    turned = plain[~plain.isin(rules.OPEN)].groupby(kept["claim"]).nunique() > 1
    may = kept["claim"].map(lambda id: any(one.moves(id) for one in every) or turned.get(id, False))
    return kept[may].astype(dict.fromkeys(names, str))


def settings_of(row: Row) -> pd.DataFrame:
    """Of a row of the ledger, a line a setting on the data that decide it, the main one first:
    `FOUND`, and a column for each choice that may move it, or did, by its name.

    ValueError if it was tried at no setting on these data.
    """
    for _, every, id, data, lines in _kept():
        if (id, data) == (row.id, wording.kind(row.data)):
            counted = within_the_words(lines, every)
            some = [choice for choice in every if choice.moves(id)] or every
            names = {choice.parameter: choice.name for choice in some}
            table = counted[[*FOUND, *names]].rename(columns=names)
            return table.drop_duplicates([*names.values(), "alone"])
    raise ValueError(f"{row.id} was tried at no setting on the data that decide it")


def within_the_words(lines: pd.DataFrame, every: list[Choice]) -> pd.DataFrame:
    """The settings that the paper does not exclude."""
    import pandas as pd

    allowed = pd.Series(True, index=lines.index)
    for one in every:
        allowed &= ~lines[one.parameter].isin(list(one.excluded))
    return lines[allowed]


def _kept(size: str = "") -> Iterator[tuple[str, list[Choice], str, str, pd.DataFrame]]:
    """Of each row in each file of figures/settings/: the record, its choices, the row's id, the
    kind of data, a line a setting.

    size: "paper." for the files at the paper's size.
    """
    for file in sorted((project.root() / "figures/settings").glob("*.json"), reverse=True):
        record, _, rest = file.name.partition(".")
        if rest.startswith("paper.") == bool(size):
            every = choices(record)
            table = settings_files.read(file)
            for (id, data), lines in table.groupby(["claim", table["data"].map(wording.kind)]):
                yield record, every, id, data, lines


def of_rows(ids: set[str]) -> dict[str, dict[str, Robustness | None]]:
    """The robustness of those rows that were tried at several settings, from figures/settings/: by
    id, then by the kind of data (`wording.kind`); None where `weighed` says nothing.  A choice that
    was named after the settings ran was tried at none."""
    by_id: dict[str, dict] = {}
    for _, every, id, data, lines in _kept():
        one = weighed(id, lines, every) if id in ids else None
        if one or id in ids and _varied(id, lines, every):
            by_id.setdefault(id, {}).setdefault(data, one)
    for _, every, id, data, lines in _kept("paper."):
        if one := by_id.get(id, {}).get(data):
            larger = _larger(id, lines, every, one)
            by_id[id][data] = replace(one, larger=larger)
    return by_id


def _varied(id: str, lines: pd.DataFrame, every: list[Choice]) -> bool:
    """Whether a choice that may move the row was tried at another setting than its main one."""
    may = [one for one in every if one.moves(id) and not one.draw]
    return any((lines[one.parameter] != one.main).any() for one in may)


@dataclass(frozen=True)
class Tried:
    """What came out of a row at one setting of what a paper leaves open.

    setting: by the name of the choice.  changed: the names of those that are not at their main
    setting.  drawn: whether a seed, a start or a draw of rows is another one than the main.
    """

    setting: dict[str, str]
    changed: list[str]
    drawn: bool
    verdict: str
    value: float

    def turn(self, names: list[str], *, named: bool = False) -> Turn:
        """What the choices with these names led to; named: each setting with its choice's name."""
        changed = [name for name in self.changed if name in names]
        texts = [
            f"{name} {self.setting[name]}".replace("_", " ") if named else self.setting[name]
            for name in changed
        ]
        return Turn(
            choice=" and ".join(changed),
            at=", ".join(texts),
            verdict=self.verdict,
            value=self.value,
        )


def _tried(lines: pd.DataFrame, every: list[Choice], claim: Claim | None = None) -> list[Tried]:
    """What came out at the settings that the paper does not exclude.

    claim: given where a slope that lies near enough, but whose interval is too wide, is to count as
    undecided: it excludes nothing.
    """
    tried = []
    for line in within_the_words(lines, every).to_dict("records"):
        verdict = rules.plain(line["alone"])
        if claim and claim.rule_name == "slope" and verdict == rules.NOT_REPRODUCED:
            _, options = rules.parse(claim.rule)
            if abs(line["value"] - options["at"]) <= options["abs"]:
                verdict = rules.UNDECIDED
        elsewhere = [one for one in every if line[one.parameter] != one.main]
        tried.append(
            Tried(
                setting={one.name: line[one.parameter] for one in every if not one.draw},
                changed=[one.name for one in elsewhere if not one.draw],
                drawn=any(one.draw for one in elsewhere),
                verdict=verdict,
                value=line["value"],
            )
        )
    return tried


def weighed(id: str, lines: pd.DataFrame, every: list[Choice]) -> Robustness | None:
    """The robustness of one row.

    lines: of one claim, a line a setting.  every: the record's choices.
    Counted are settings of the choices that may move the row, or that turn it by themselves; the
    same setting of these counts once.
    Returns None if the main setting decided nothing, or no other setting did.
    """
    tried = _tried(lines, every, statements.every_claim().get(id))
    main = next((one for one in tried if not one.changed and not one.drawn), None)
    if main is None or main.verdict in rules.OPEN:
        return None
    decided = [one for one in tried if one.verdict not in rules.OPEN]
    turning = _turning(main, decided)
    names = _that_may_move(id, turning, every)
    counted = _counted(decided, turning, names)
    if not counted:
        return None
    several = [one for one in counted if len({*one.changed} & {*names}) > 1]
    singles = [one for one in counted if one not in several]
    values = [one.value for one in (main, *counted)]
    turns = [one.turn(names) for name in names for one in turning if one.changed == [name]]
    together = [one.turn(names) for one in turning if len(one.changed) > 1]
    return Robustness(
        main=main.verdict,
        main_value=main.value,
        singles=[sum(one not in turning for one in singles), len(singles)],
        combinations=[sum(one not in turning for one in several), len(several)],
        least=min(values),
        largest=max(values),
        turns=turns or together[:1],
        owned_by=_shares_of_variance(decided, names),
    )


def _turning(main: Tried, decided: list[Tried]) -> list[Tried]:
    """The settings with another verdict than the main one, if no draw explains it: none by itself
    led to that verdict, and the same setting without another draw, where that was tried, had it,
    too."""
    by_chance = {one.verdict for one in decided if one.drawn and not one.changed}
    kept = [one.setting for one in decided if one.verdict == main.verdict and not one.drawn]
    return [
        one
        for one in decided
        if one.verdict not in (main.verdict, *by_chance) and not (one.drawn and one.setting in kept)
    ]


def _that_may_move(id: str, turning: list[Tried], every: list[Choice]) -> list[str]:
    """The names of the choices that may move a row, or that turn it by themselves; of all, if only
    several together turn it."""
    open_ones = [one for one in every if not one.draw]
    alone = [one.changed for one in turning]
    names = [one.name for one in open_ones if one.moves(id) or [one.name] in alone]
    return names or [one.name for one in open_ones if turning]


def _counted(decided: list[Tried], turning: list[Tried], names: list[str]) -> list[Tried]:
    """The settings at which one of these choices is not the main one, and those that turn; each
    setting of these choices once for each verdict."""
    counted, seen = [], []
    for one in decided:
        here = [one.verdict, *(one.setting[name] for name in names)]
        if here not in seen and (one in turning or {*one.changed} & {*names}):
            counted.append(one)
        seen.append(here)
    return counted


def _larger(id: str, lines: pd.DataFrame, every: list[Choice], one: Robustness) -> list[Turn]:
    """What was found at the paper's size, at settings of the choices that may move the row."""
    turning = {turn.choice for turn in one.turns}
    may = [choice for choice in every if choice.moves(id) or choice.name in turning]
    names = [choice.name for choice in may]
    tried = _tried(lines, every)
    return [at.turn(names, named=True) for at in tried if {*at.changed} & {*names}]


def _shares_of_variance(trials: list[Tried], choices: list[str]) -> dict[str, float]:
    """How much of the variance of the measured value each choice explains by itself, from 0 to 1.

    The sum of squares between the means of a choice's options, over the whole sum of squares
    (eta squared); {} where the value is the same in all trials.
    """
    import pandas as pd

    values = pd.Series([trial.value for trial in trials])
    mean = values.mean()
    whole = float(((values - mean) ** 2).sum())
    if not whole > 0:  # also where a value is no number
        return {}
    shares = {}
    for choice in choices:
        options = [trial.setting[choice] for trial in trials]
        means = values.groupby(options).transform("mean")  # its option's mean, for each trial
        shares[choice] = float(((means - mean) ** 2).sum()) / whole
    return shares


def settled(rows: list[Row]) -> list[Row]:
    """Rows of the ledger, each with its robustness on the data that decide it, or with the reason
    why it has none, and with the verdict that settings and other rows leave it.

    A claim that a setting turns "depends on" it, whichever way: it has no credit, and its witness
    shows the two runs. So does one whose file names rows that are ours at other settings
    (`statements.Claim.witness`), if these exclude each other; they come before the settings, since
    they were measured at the row's own size. Settings that turn it at the paper's size stand beside
    them.  What says only that something can be
    (`statements.Claim.existence`), and is so at the main setting, no other setting turns.

    A witness against the paper has the size at which the row was decided. A row that was reproduced
    at the paper's size is turned by settings of that size only (`to_try_in_full`); what a smaller
    size found stays beside it as a remark (`at_a_smaller_size`), since fewer records mean more
    noise, which can turn a verdict by itself.  One that was not reproduced is turned by a setting
    of any size at which it is: that is the kinder reading; but not where the main setting has
    another verdict at the settings' size, since then it is the size that matters.
    Where the number is the same at every size (decided_by = "quick"), each setting counts.
    In a run of the settings' own size they turn it, too, but where several were tried in full these
    decide there as well, so that every page says the same.
    What was refuted by one counter-example stays: at another setting it is still one.
    A setting at which a claim is undecided turns nothing.
    """
    tried, every = of_rows({row.id for row in rows}), choices()
    by_id, claims = {row.id: row for row in rows}, statements.every_claim()
    done = []
    for row in rows:
        beside = _beside_other_rows(row, claims, by_id) if row.id in claims else row
        turned_by_rows = beside is not row  # not again, where it was settled before
        if row.kind != "question":
            claim = claims.get(row.id)
            exists = claim is not None and claim.existence and row.alone == rules.REPRODUCED
            one_size = claim is not None and claim.decided_by == "quick"
            on = tried.get(row.id, {})
            row = _weighed(row, on, every, may_turn=not exists, one_size=one_size)
        done.append(_with_both(row, beside) if turned_by_rows else row)
    return done


def _turning_in_full(row: Row) -> list[Turn]:
    """The settings tried at the paper's size with another verdict than the row has on its data; one
    that decides nothing is none of them."""
    larger = row.robustness.larger if row.robustness else []
    return [turn for turn in larger if turn.verdict not in (row.alone, *rules.OPEN)]


def _with_both(row: Row, beside: Row) -> Row:
    """The row with the witness of its claim's other rows, and with the settings that turn it at the
    paper's size, too."""
    turning = _turning_in_full(row) if row.profile == "paper" else []
    names = dict.fromkeys(name for turn in turning for name in turn.choice.split(" and "))
    said = " ".join(beside.depends_on)  # by the claim's file, in words of its own
    depends_on = [*beside.depends_on, *(n for n in names if n.replace("_", " ") not in said)]
    return replace(
        row,
        verdict=f"{rules.DEPENDS} {' and '.join(depends_on).replace('_', ' ')}",
        depends_on=depends_on,
        witness=[*beside.witness, *(_at(row, turn) for turn in turning[:1])],
    )


def _weighed(
    row: Row,
    on: dict[str, Robustness | None],
    every: list[Choice],
    *,
    may_turn: bool,
    one_size: bool,
) -> Row:
    data = wording.kind(row.data)
    others = {name: [one.same, one.tried] for name, one in on.items() if one and name != data}
    row = replace(row, robustness=None, not_varied="", other_data=others)
    if one := on.get(data):
        row = replace(row, robustness=one)
        return _turned(row, one, one_size=one_size) if may_turn else row
    if not any(choice.moves(row.id) and not choice.draw for choice in every):
        why = "not varied: no choice reaches it"  # also where seeds were tried
    elif data in on:
        why = "tried, but the main setting decides nothing at that size"
    else:
        why = "not tried at other settings"
    return replace(row, not_varied=why)


def _turned(row: Row, one: Robustness, *, one_size: bool) -> Row:
    """The row with the verdict that its settings leave it.  What is refuted stays: one
    counter-example is enough, wherever it is found.

    one_size: whether the row's number is the same at every size.
    """
    if row.kind != "claim" or row.verdict not in (rules.REPRODUCED, rules.NOT_REPRODUCED):
        return row
    decided = [turn for turn in one.larger if turn.verdict not in rules.OPEN]
    in_full = decided if len(decided) > 1 else []
    if row.profile == "paper":
        if differing := _turning_in_full(row):
            main = _sighting(row, "the main setting", row.value, row.alone)
            return _depends(row, differing, main, differing[0])
        if row.alone == rules.REPRODUCED and not one_size:
            return row
    elif in_full:
        differing = [turn for turn in in_full if turn.verdict != in_full[0].verdict]
        if not differing:
            return row
        return _depends(row, differing, _at(row, in_full[0]), differing[0])
    if not one.turns or one.main != row.alone:  # a smaller size says nothing about this one
        return row
    farthest = max(one.turns, key=lambda turn: abs(turn.value - one.main_value))
    main = _sighting(row, "the main setting, quick size", one.main_value, one.main)
    return _depends(row, one.turns, main, farthest)


def _depends(row: Row, turns: list[Turn], first: Sighting, other: Turn) -> Row:
    """The row without credit.  turns: what turns it.  first, other: the two runs that show it."""
    names = list(dict.fromkeys(name for turn in turns for name in turn.choice.split(" and ")))
    on = " and ".join(names).replace("_", " ")
    witness = [first, _at(row, other)]
    return replace(row, verdict=f"{rules.DEPENDS} {on}", depends_on=names, witness=witness)


def _at(row: Row, turn: Turn) -> Sighting:
    """What came out at a turn: each setting with the name of its choice in front."""
    names = turn.choice.replace("_", " ").split(" and ")
    settings = [
        f"{name} {at.removeprefix(f'{name} ')}"
        for name, at in zip(names, turn.at.split(", "), strict=True)
    ]
    return _sighting(row, ", ".join(settings), turn.value, turn.verdict)


def _sighting(row: Row, setting: str, value: float | None, verdict: str) -> Sighting:
    return Sighting(setting=setting, value=value, verdict=verdict, data=row.data or "")


def _beside_other_rows(row: Row, claims: dict[str, Claim], by_id: dict[str, Row]) -> Row:
    """The row with the verdict that the rows named in its claim's witness leave it.

    Each of them has our number at one setting of a choice; they turn the claim if its own rule
    decides for the paper at one of them and against it at another (`rules.exclude`). In a run that
    has not all of them, or where one of them decides nothing, nothing is said; nor where the
    witness asks for one profile and one of them was measured in another.
    """
    claim = claims[row.id]
    if not claim.witness or rules.plain(row.verdict) not in rules.DECIDED:
        return row
    seen = []
    for setting, id in claim.witness["settings"].items():
        other = by_id.get(f"{row.paper}.{id}")
        if other is None or other.value is None:
            return row
        if claim.witness.get("one_profile") and other.profile != row.profile:
            return row
        verdict = _by_the_rule_of(claim, claims[other.id], other, claim.witness.get("against"))
        if verdict not in rules.DECIDED:
            return row
        seen.append(_sighting(other, setting, other.value, verdict))
    if not rules.exclude([one.verdict for one in seen]):
        return row
    choice = claim.witness["choice"]
    return replace(row, verdict=f"{rules.DEPENDS} {choice}", depends_on=[choice], witness=seen)


def _by_the_rule_of(claim: Claim, of_other: Claim, other: Row, against: float | None) -> str:
    """What the rule of a claim says of another row's number.

    A row of the same rule and target is taken at its own verdict: it may rest on seeds, an interval
    or a proof, of which its number alone says nothing. A check that passed is what a claim calls
    reproduced. ValueError if it has another rule, and the claim's cannot decide on one number.
    """
    name, options = rules.parse(claim.rule)
    rule = rules.RULES[name]
    target, its_target = (one.printed or one.computed for one in (claim, of_other))
    same_question = of_other.rule == claim.rule
    if rule.compares_with_print:
        same_question = same_question and target == its_target
    if same_question:
        as_claim = {rules.PASSED: rules.REPRODUCED, rules.FAILED: rules.NOT_REPRODUCED}
        alone = rules.plain(other.alone)
        return as_claim.get(alone, alone)
    if not rule.one_number:
        raise ValueError(
            f"{other.id} cannot be a witness of {claim.id}: the rule {name} needs more than one "
            "number, and its own is another"
        )
    evidence = rules.Evidence(other.value, against=against, printed=target, options=options)
    return rule.decide(evidence).verdict


@dataclass(frozen=True)
class Soft:
    """A claim that some setting turns, in words."""

    row: Row
    robustness: Robustness

    @property
    def share(self) -> float:
        """Of the settings, those with the main verdict."""
        return self.robustness.same / self.robustness.tried

    @property
    def alike(self) -> str:
        """In how many settings its verdict was the same, and what came out at the paper's size."""
        parts = wording.alike(self.row, self.robustness), wording.in_full(self.robustness)
        return "; ".join(filter(None, parts))

    @property
    def turning(self) -> str:
        """Where it turns, and whether only at a smaller size than the one that decided."""
        where = wording.turning(self.robustness.turns) or "several choices together"
        return where + wording.at_a_smaller_size(self.row)

    @property
    def left_open(self) -> str:
        """In short, why the paper leaves that open."""
        turned = {name for turn in self.robustness.turns for name in turn.choice.split(" and ")}
        return "; ".join(
            f"{one.name.replace('_', ' ')}: {one.why.partition(';')[0]}"
            for one in choices()
            if (one.paper or one.record) == self.row.paper
            and not one.draw
            and (one.name in turned if turned else one.moves(self.row.id))
        )


def never_turned(row: Row) -> bool:
    """Whether a row has its verdict at every setting tried: of the settings' own size, and of the
    paper's, where a setting that decides nothing turns nothing."""
    one = row.robustness
    return one is not None and one.same == one.tried and not _turning_in_full(row)


def softest(rows: list[Row]) -> list[Soft]:
    """The claims that some setting turns, first the one with the smallest share of settings
    alike."""
    soft = [
        Soft(row, row.robustness)
        for row in rows
        if row.kind == "claim" and row.robustness and row.robustness.same < row.robustness.tried
    ]
    return sorted(soft, key=lambda one: one.share)


def softest_of_each_paper(rows: list[Row]) -> list[Soft]:
    """The three softest claims of each paper, first those that have a verdict or depend on a
    choice."""
    waits = rules.OUT_OF_REACH, rules.UNDECIDED
    soft = sorted(softest(rows), key=lambda one: rules.plain(one.row.verdict) in waits)
    return [
        one
        for paper in statements.titles()
        for one in [one for one in soft if one.row.paper == paper][:3]
    ]


def summary(rows: list[Row]) -> str:
    """How robust the claims of a finding are, and the least robust one, in words; if it has none
    that was tried, why; "" if it has no claim."""
    claims = [row for row in rows if row.kind == "claim"]
    tried = [row for row in claims if row.robustness]
    if not tried:
        return "; ".join(dict.fromkeys(row.not_varied for row in claims if row.not_varied))
    said = f"{sum(map(never_turned, tried))} of {len(tried)} the same in every setting tried"
    for soft in softest(claims)[:1]:
        least, at = wording.alike(soft.row, soft.robustness), wording.in_full(soft.robustness)
        turned_by = ", ".join(filter(None, (soft.turning, at)))
        said += f", least robust `{soft.row.short_id}`: {least}, turned by {turned_by}"
    return said
