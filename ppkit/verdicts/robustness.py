"""How robust a verdict is: what a paper leaves open, which settings of it are tried, and in how
many of them a row's verdict is the same.

A choice is a parameter of a record that the paper's words leave open. `claims/<paper>.choices.toml`
has its settings, the main one first, why the words allow them, and the rows that they may move; it
is committed before the settings are run. A seed, a start or a draw of rows is tried beside them and
is no choice: what it explains turns nothing.  `ppkit reproduce RECORD --settings` runs them, and
`ppkit reference` keeps what came out in figures/settings/ and weighs each row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pandas as pd
from scipy.stats import qmc

from ppkit import project
from ppkit.verdicts import ledger, rules, statements, wording
from ppkit.verdicts.rows import Robustness, Row, Sighting, Turn
from ppkit.verdicts.statements import Claim

FOUND = ("value", "alone", "data")
JOINT = 16  # settings in which all choices are drawn at once


@dataclass(frozen=True)
class Choice:
    """What a paper leaves open.

    parameter: of the record.  settings: 3 to 5, the main one first.  why: the words that allow
    them.  rows: beginnings of the ids, without the paper's key, of the rows that it may move.
    draw: whether it is a seed, a start or a draw, whose settings are tried and turn nothing.
    excluded: settings that were tried and that the paper's words exclude, each with the reason.
    """

    name: str
    record: str
    parameter: str
    settings: list
    why: str
    rows: list = field(default_factory=list)
    draw: bool = False
    excluded: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> str:
        return str(self.settings[0])

    def moves(self, id: str) -> bool:
        """Whether the row with this id is one of its rows."""
        paper, _, rest = id.partition(".")
        return self.record.startswith(paper) and rest.startswith(tuple(self.rows))


def choices(record: str = "") -> list[Choice]:
    """The choices of a record, or of all records; none if no file has any."""
    every = []
    for file in sorted(statements.folder().iterdir(), key=lambda file: file.name):
        paper, _, kind = file.name.partition(".")
        if kind == "choices.toml":
            for name, table in project.read_toml(file).items():
                every.append(Choice(**({"name": name, "record": paper} | table)))
    return [choice for choice in every if record in ("", choice.record)]


def points(record: str, profile: str = "quick") -> list[dict[str, str]]:
    """The settings of a record as texts by parameter. In the quick profile all: the main one, each
    other setting by itself, and those of JOINT drawn by a Latin hypercube, all choices at once,
    that are new. In the paper profile two: of the settings that differ from the main one in a
    choice that moves `disputed`, where it came out least and largest.

    ValueError if the record has no choices, or not its paper's most disputed claim.
    """
    every = choices(record)
    if not every:
        raise ValueError(f"{record} has no choices: no claims/*.choices.toml names it")
    main = {choice.parameter: choice.settings[0] for choice in every}
    if profile != "quick":
        found = disputed(record).sort_values("value", kind="stable")
        may = [one.parameter for one in every if one.moves(found["claim"].iloc[0])] or list(main)
        other = (found[may] != [str(main[name]) for name in may]).any(axis=1)
        return [
            {name: str(value) for name, value in (main | at).items()}
            for at in found[other].iloc[[0, -1]][may].to_dict("records")
        ]
    alone = [main | {one.parameter: value} for one in every for value in one.settings[1:]]
    joint = [
        {one.parameter: one.settings[int(at * len(one.settings))] for one, at in zip(every, line)}
        for line in qmc.LatinHypercube(len(every), rng=0).random(JOINT)
    ]
    texts = [{name: str(value) for name, value in at.items()} for at in (main, *alone, *joint)]
    return [at for k, at in enumerate(texts) if at not in texts[:k]]


def disputed(record: str) -> pd.DataFrame:
    """What `moved` kept of the softest claim of the record's paper, on the data tried first, at
    the settings that the paper does not exclude.

    ValueError if it was not tried in this record.
    """
    paper = record.partition("_")[0]
    soft = softest([row for row in ledger.reference() if row.paper == paper])
    id = soft[0].row.id if soft else None
    for of, every, claim, _, lines in _kept():
        if (of, claim) == (record, id):
            return within_the_words(lines, every)
    raise ValueError(f"{record} did not try the most disputed claim of {paper}, {id}")


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
    return kept[may].astype(dict.fromkeys(names, str)).sort_values(["claim"], kind="stable")


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
    allowed = pd.Series(True, index=lines.index)
    for one in every:
        allowed &= ~lines[one.parameter].isin(list(one.excluded))
    return lines[allowed]


def _kept(size: str = "") -> Iterator[tuple[str, list[Choice], str, str, pd.DataFrame]]:
    """Of each row in each file of figures/settings/: the record, its choices, the row's id, the
    kind of data, a line a setting.

    size: "paper." for the files at the paper's size.
    """
    for file in sorted((project.root() / "figures/settings").glob("*.csv"), reverse=True):
        record, _, rest = file.name.partition(".")
        if rest.startswith("paper.") == bool(size):
            every = choices(record)
            table = pd.read_csv(file, dtype={one.parameter: str for one in every})
            for (id, data), lines in table.groupby(["claim", table["data"].map(wording.kind)]):
                yield record, every, id, data, lines


def of_rows(ids: set[str]) -> dict[str, dict[str, Robustness | None]]:
    """The robustness of those rows that were tried at several settings, from figures/settings/: by
    id, then by the kind of data (`wording.kind`); None where `weighed` says nothing."""
    by_id: dict[str, dict] = {}
    for _, every, id, data, lines in _kept():
        if id in ids:
            by_id.setdefault(id, {}).setdefault(data, weighed(id, lines, every))
    for _, every, id, data, lines in _kept("paper."):
        if one := by_id.get(id, {}).get(data):
            larger = _larger(id, within_the_words(lines, every), every, one)
            by_id[id][data] = replace(one, larger=larger)
    return by_id


def _larger(id: str, lines: pd.DataFrame, every: list[Choice], one: Robustness) -> list[Turn]:
    """What was found at the paper's size, at settings of the choices that may move the row."""
    turning = {turn.choice for turn in one.turns}
    may = [choice for choice in every if not choice.draw]
    may = [choice for choice in may if choice.moves(id) or choice.name in turning]
    told = []
    for line in lines.to_dict("records"):
        changed = [choice for choice in may if line[choice.parameter] != choice.main]
        if changed:
            told.append(
                Turn(
                    choice=" and ".join(choice.name for choice in changed),
                    at=", ".join(
                        f"{choice.name} {line[choice.parameter]}".replace("_", " ")
                        for choice in changed
                    ),
                    verdict=rules.plain(line["alone"]),
                    value=line["value"],
                )
            )
    return told


def weighed(id: str, lines: pd.DataFrame, every: list[Choice]) -> Robustness | None:
    """The robustness of one row.

    lines: of one claim, a line a setting.  every: the record's choices.
    Counted are settings of the choices that may move the row, or that turn it by themselves; the
    same setting of these counts once.  A setting has another verdict if it is not the main one's,
    no draw alone, at the main setting, has it, and the same setting without another draw has it,
    too, where that was tried.
    Returns None if the main setting decided nothing, or no other setting did.
    """
    lines = within_the_words(lines, every)
    verdict = _verdicts(id, lines)
    open_ones = [one for one in every if not one.draw]
    differs = {one.name: lines[one.parameter] != one.main for one in open_ones}
    many = sum(differs.values()) if differs else pd.Series(0, index=lines.index)
    drawn = _drawn(lines, every)
    main = lines.index[(many == 0) & ~drawn]
    if main.empty or verdict[main[0]] in rules.OPEN:
        return None
    mine = verdict[main[0]]
    decided = ~verdict.isin(rules.OPEN)
    by_chance = set(verdict[(many == 0) & drawn])
    turned = decided & (verdict != mine) & ~verdict.isin(by_chance)
    turned &= ~_explained(lines, verdict == mine, drawn, open_ones)
    may = [
        one
        for one in open_ones
        if one.moves(id) or (turned & differs[one.name] & (many == 1)).any()
    ]
    if turned.any() and not may:  # by several together, and by none of them alone
        may = open_ones
    if not may:
        return None
    changed = sum(differs[one.name] for one in may)
    ran = [*(one.parameter for one in may)]
    same_setting = lines[ran].assign(alone=verdict).duplicated()
    counted = ~same_setting & decided & ((changed > 0) | turned)
    singles, several = counted & (changed <= 1), counted & (changed > 1)
    if not counted.any():
        return None
    values = lines["value"][counted | (lines.index == main[0])]
    return Robustness(
        main=mine,
        main_value=float(lines["value"][main[0]]),
        singles=[int((singles & ~turned).sum()), int(singles.sum())],
        combinations=[int((several & ~turned).sum()), int(several.sum())],
        least=float(values.min()),
        largest=float(values.max()),
        turns=_turns(lines, verdict, turned, differs, many, may),
        owned_by=_owned(lines[decided], may),
    )


def _drawn(lines: pd.DataFrame, every: list[Choice]) -> pd.Series:
    """Whether each setting has another seed, start or draw than the main one."""
    drawn = pd.Series(False, index=lines.index)
    for one in every:
        if one.draw:
            drawn |= lines[one.parameter] != one.main
    return drawn


def _explained(
    lines: pd.DataFrame, same: pd.Series, drawn: pd.Series, open_ones: list[Choice]
) -> pd.Series:
    """Whether a draw explains what came out at each setting: the same setting of what the paper
    leaves open, without another draw, kept the verdict.

    same: whether the verdict is the main setting's.  drawn: as `_drawn`.
    """
    columns = lines[[one.parameter for one in open_ones]].to_numpy().tolist()
    settings = pd.Series([tuple(line) for line in columns], index=lines.index, dtype=object)
    return drawn & settings.isin(set(settings[~drawn & same]))


def _verdicts(id: str, lines: pd.DataFrame) -> pd.Series:
    """The plain verdict at each setting; a slope that lies near enough, but whose interval is too
    wide, is undecided there: it excludes nothing."""
    verdict = lines["alone"].map(rules.plain)
    claim = statements.every_claim().get(id)
    if claim is None or not claim.rule:
        return verdict
    name, options = rules.parse(claim.rule)
    if name == "slope":
        near = (lines["value"] - options["at"]).abs() <= options["abs"]
        verdict = verdict.mask(near & (verdict == rules.NOT_REPRODUCED), rules.UNDECIDED)
    return verdict


def _turns(lines, verdict, turned, differs, many, may: list[Choice]) -> list[Turn]:
    """The settings that turn a row: those that differ in one choice; if there is none, the first
    that differs in several."""
    turns = [
        Turn(
            choice=one.name,
            at=lines[one.parameter][at],
            verdict=verdict[at],
            value=float(lines["value"][at]),
        )
        for one in may
        for at in lines.index[turned & differs[one.name] & (many == 1)]
    ]
    together = lines.index[turned & (many > 1)]
    if turns or together.empty:
        return turns
    at = together[0]
    changed = [one for one in may if differs[one.name][at]]
    return [
        Turn(
            choice=" and ".join(one.name for one in changed),
            at=", ".join(lines[one.parameter][at] for one in changed),
            verdict=verdict[at],
            value=float(lines["value"][at]),
        )
    ]


def _owned(lines: pd.DataFrame, may: list[Choice]) -> dict[str, float]:
    """The share of the variation of our number over the settings that each choice explains by
    itself: the variance between the means of its settings, over the whole variance."""
    values = lines["value"]
    whole = float(((values - values.mean()) ** 2).sum())
    if not whole > 0:
        return {}
    shares = {}
    for one in may:
        means = values.groupby(lines[one.parameter]).transform("mean")
        shares[one.name] = float(((means - values.mean()) ** 2).sum()) / whole
    return shares


def settled(rows: list[Row]) -> list[Row]:
    """Rows of the ledger, each with its robustness on the data that decide it, or with the reason
    why it has none, and with the verdict that settings and other rows leave it.

    A claim that a setting turns "depends on" it, whichever way: it has no credit, and its witness
    shows the two runs. So does one whose file names rows that are ours at other settings
    (`statements.Claim.witness`), if these exclude each other.

    Where the main setting has another verdict at the size of the settings, the row was decided at
    a larger size. If two settings of that size, the extremes, were tried, too, only they can turn
    it, in a run of a smaller size as well: there they turn it if they differ, so that every page
    says the same.  What was refuted by one counter-example stays: at another setting it is still
    one.
    """
    tried, every = of_rows({row.id for row in rows}), choices()
    by_id, claims = {row.id: row for row in rows}, statements.every_claim()
    done = []
    for row in rows:
        if row.kind != "question":
            row = _weighed(row, tried.get(row.id, {}), every)
        if row.id in claims:
            row = _beside_other_rows(row, claims, by_id)
        done.append(row)
    return done


def _weighed(row: Row, on: dict[str, Robustness | None], every: list[Choice]) -> Row:
    data = wording.kind(row.data)
    others = {name: [one.same, one.tried] for name, one in on.items() if one and name != data}
    row = replace(row, robustness=None, not_varied="", other_data=others)
    if one := on.get(data):
        return _turned(replace(row, robustness=one), one)
    if not any(choice.moves(row.id) and not choice.draw for choice in every):
        why = "not varied: no choice reaches it"  # also where seeds were tried
    elif data in on:
        why = "tried, but the main setting decides nothing at that size"
    else:
        why = "not tried at other settings"
    return replace(row, not_varied=why)


def _turned(row: Row, one: Robustness) -> Row:
    if row.kind != "claim" or row.verdict not in (rules.REPRODUCED, rules.NOT_REPRODUCED):
        return row
    larger, alone = one.larger if row.profile == "paper" else [], rules.plain(row.alone)
    if row.profile != "paper" and len(one.larger) >= 2:  # do its extremes agree there?
        larger = [turn for turn in one.larger if turn.verdict != one.larger[0].verdict]
        against = one.larger[0]
        if not larger:
            return row
        first = _sighting(row, against.at, against.value, against.verdict)
        return _depends(row, larger, [first, _at(row, larger[0])])
    turning = [turn for turn in larger if turn.verdict != alone]
    if turning:
        first = _sighting(row, "the main setting", row.value, alone)
        return _depends(row, [*turning, *one.turns], [first, _at(row, turning[0])])
    smaller = one.turns if len(one.larger) < 2 or one.main == alone else []
    if not smaller:
        return row
    farthest = max(smaller, key=lambda turn: abs(turn.value - one.main_value))
    first = _sighting(row, "the main setting, quick size", one.main_value, one.main)
    return _depends(row, smaller, [first, _at(row, farthest)])


def _at(row: Row, turn: Turn) -> Sighting:
    names = turn.choice.replace("_", " ").split(" and ")
    settings = [
        at if at.startswith(f"{name} ") else f"{name} {at}"
        for name, at in zip(names, turn.at.split(", "), strict=True)
    ]
    return _sighting(row, ", ".join(settings), turn.value, turn.verdict)


def _sighting(row: Row, setting: str, value: float | None, verdict: str) -> Sighting:
    return Sighting(setting=setting, value=value, verdict=verdict, data=row.data or "")


def _depends(row: Row, turns: list[Turn], witness: list[Sighting]) -> Row:
    names = list(dict.fromkeys(name for turn in turns for name in turn.choice.split(" and ")))
    on = " and ".join(name.replace("_", " ") for name in names)
    return replace(row, verdict=f"{rules.DEPENDS} {on}", depends_on=names, witness=witness)


def _beside_other_rows(row: Row, claims: dict[str, Claim], by_id: dict[str, Row]) -> Row:
    """The row with the verdict that the rows named in its claim's witness leave it.

    Each of them has our number at one setting of a choice; they turn the claim if its own rule
    gives two of them verdicts that exclude each other. In a run that has not all of them, or where
    one of them decides nothing, nothing is said.
    """
    claim = claims[row.id]
    if not claim.witness or rules.plain(row.verdict) not in rules.DECIDED:
        return row
    seen = []
    for setting, id in claim.witness["settings"].items():
        other = by_id.get(f"{row.paper}.{id}")
        if other is None or other.value is None:
            return row
        verdict = _by_the_rule_of(claim, claims[other.id], other, claim.witness.get("against"))
        if verdict not in rules.DECIDED:
            return row
        seen.append(_sighting(other, setting, other.value, verdict))
    if len({one.verdict for one in seen}) < 2:
        return row
    choice = claim.witness["choice"]
    return replace(row, verdict=f"{rules.DEPENDS} {choice}", depends_on=[choice], witness=seen)


def _by_the_rule_of(claim: Claim, of_other: Claim, other: Row, against: float | None) -> str:
    """What the rule of a claim says of another row's number.

    A row of the same rule and target is taken at its own verdict: it may rest on seeds and an
    interval, of which its number alone says nothing. ValueError if it has another rule, and the
    claim's cannot decide on one number.
    """
    name, options = rules.parse(claim.rule)
    rule = rules.RULES[name]
    target, its_target = (one.printed or one.computed for one in (claim, of_other))
    same_question = of_other.rule == claim.rule
    if rule.compares_with_print:
        same_question = same_question and target == its_target
    if same_question:
        return rules.plain(other.alone)
    if not rule.one_number:
        raise ValueError(
            f"{other.id} cannot be a witness of {claim.id}: the rule {name} needs more than one "
            "number, and its own is another"
        )
    evidence = rules.Evidence(other.value, against=against, printed=target, options=options)
    return rule.decide(evidence).verdict


@dataclass(frozen=True)
class Soft(wording.Shown):
    """A claim that some setting turns, in words."""

    robustness: Robustness

    @property
    def share(self) -> float:
        """Of the settings, those with the main verdict."""
        return self.robustness.same / self.robustness.tried

    @property
    def alike(self) -> str:
        """In how many settings its verdict was the same, and what came out at the paper's size."""
        parts = wording.alike(self.row, self.robustness), wording.extremes(self.robustness)
        return "; ".join(filter(None, parts))

    @property
    def turning(self) -> str:
        """Where it turns."""
        return wording.turning(self.robustness.turns) or "several choices together"

    @property
    def left_open(self) -> str:
        """In short, why the paper leaves that open."""
        turned = {name for turn in self.robustness.turns for name in turn.choice.split(" and ")}
        return "; ".join(
            f"{one.name.replace('_', ' ')}: {one.why.partition(';')[0]}"
            for one in choices()
            if one.record.startswith(self.row.paper)
            and not one.draw
            and (one.name in turned if turned else one.moves(self.row.id))
        )


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
    tried = [row.robustness for row in claims if row.robustness]
    if not tried:
        return "; ".join(dict.fromkeys(row.not_varied for row in claims if row.not_varied))
    alike = sum(one.tried == one.same for one in tried)
    said = f"{alike} of {len(tried)} the same in every setting tried"
    for soft in softest(claims)[:1]:
        least, at = wording.alike(soft.row, soft.robustness), wording.extremes(soft.robustness)
        turned_by = ", ".join(filter(None, (soft.turning, at)))
        said += f", least robust `{soft.row.short_id}`: {least}, turned by {turned_by}"
    return said
