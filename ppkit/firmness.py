"""How firm a verdict is: what a paper leaves open, which settings of it are tried, and in how many
of them a row's verdict is the same.

A choice is a parameter of a record that the paper's words leave open. `claims/<paper>.choices.toml`
has its settings, the main one first, why the words allow them, and the rows that they may move; it
is committed before the settings are run.  `ppkit reproduce RECORD --settings` runs them, and
`ppkit reference` keeps what came out in figures/settings/ and gives each row its firmness.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
from scipy.stats import qmc

from ppkit import in_words, ledger, project, rules

FOUND = ("value", "alone", "data")
JOINT = 16  # settings in which all choices are drawn at once
UNFIT = (rules.NOT_TRIED, rules.UNDECIDED)  # verdicts that say nothing
CREDIT = (rules.REPRODUCED, rules.DIRECTION, rules.NOT_REPRODUCED, rules.REFUTED)
STAYS = ("claim_fails_if_attained", "bound")  # one counter-example is enough, wherever it is found


@dataclass(frozen=True)
class Choice:
    """What a paper leaves open.

    parameter: of the record.  settings: 3 to 5, the main one first.  why: the words that allow
    them.  rows: beginnings of the ids, without the paper's key, of the rows that it may move.
    """

    name: str
    record: str
    parameter: str
    settings: list
    why: str
    rows: list = field(default_factory=list)

    def moves(self, id: str) -> bool:
        """Whether the row with this id is one of its rows."""
        paper, _, rest = id.partition(".")
        return self.record.startswith(paper) and rest.startswith(tuple(self.rows))


def choices(record: str = "") -> list[Choice]:
    """The choices of a record, or of all records; none if no file has any."""
    every = []
    for file in sorted(ledger.CLAIMS.iterdir(), key=lambda file: file.name):
        paper, _, kind = file.name.partition(".")
        if kind == "choices.toml":
            for name, table in tomllib.loads(file.read_text("utf-8")).items():
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
    """What `moved` kept of the softest claim of the record's paper, on the data tried first.

    ValueError if it was not tried in this record.
    """
    paper = record.partition("_")[0]
    [row] = softest([row for row in ledger.reference() if row["paper"] == paper], most=1) or [{}]
    for of, _, id, _, rows in _kept():
        if (of, id) == (record, row.get("id")):
            return rows
    raise ValueError(f"{record} did not try the most disputed claim of {paper}, {row.get('id')}")


def moved(record: str, table: pd.DataFrame) -> pd.DataFrame:
    """Of a batch at a record's settings, what `of` needs: the parameters as texts, then claim,
    value, the verdict on that data, and the data, for the rows that a choice may move, or moved.

    table: a line a point and claim, with a column for each parameter.
    """
    every = choices(record)
    names = [one.parameter for one in every]
    kept = table.dropna(subset=["claim"])[[*names, "claim", *FOUND]]
    plain = kept["alone"].map(rules.plain)
    turned = plain[~plain.isin(UNFIT)].groupby(kept["claim"]).nunique() > 1
    may = kept["claim"].map(lambda id: any(one.moves(id) for one in every) or turned.get(id, False))
    return kept[may].astype(dict.fromkeys(names, str)).sort_values(["claim"], kind="stable")


def measured() -> dict[str, dict[str, dict | None]]:
    """The firmness of every row that was tried at several settings, from figures/settings/: by id,
    then by the kind of data (`in_words.kind`); None where `of` says nothing.

    tried: settings, but for the main one, that decided the row: of the choices that may move it,
    or did; the same setting of these counts once.  same: of them, those with the main setting's
    verdict.  turns: the choices, their settings and the verdicts there, of those that were changed
    by themselves.  together: how many joint settings turned it.  main: the main setting's verdict,
    at that size.  paper_size: where it was tried at the paper's size, too: the choices changed,
    their settings, the verdict there.
    """
    firm: dict[str, dict] = {}
    for _, every, id, data, rows in _kept():
        firm.setdefault(id, {}).setdefault(data, of(id, rows, every))
    for _, every, id, data, rows in _kept("paper."):
        if one := firm.get(id, {}).get(data):
            some = [choice for choice in every if choice.moves(id) or choice.name in _names(one)]
            told = [_at(row, some) for row in rows.to_dict("records")]
            one["paper_size"] = [at for at in told if at["choices"]]
    return firm


def _names(one: dict) -> list[str]:
    """The choices that turn a row by themselves."""
    return list(dict.fromkeys(turn["choice"] for turn in one["turns"]))


def _at(row: dict, every: list[Choice]) -> dict:
    changed = [one for one in every if row[one.parameter] != str(one.settings[0])]
    return {
        "choices": [one.name for one in changed],
        "at": ", ".join(f"{one.name} {row[one.parameter]}".replace("_", " ") for one in changed),
        "verdict": rules.plain(row["alone"]),
    }


def found(row: dict) -> pd.DataFrame:
    """Of a row of the ledger, a line a setting on the data that decide it, the main one first:
    `FOUND`, and a column for each choice that may move it, or did, by its name."""
    for _, every, id, data, rows in _kept():
        if (id, data) == (row["id"], in_words.kind(row["data"])) and (one := of(id, rows, every)):
            some = [choice for choice in every if choice.moves(id) or choice.name in _names(one)]
            names = {choice.parameter: choice.name for choice in some or every}
            return (
                rows[[*FOUND, *names]]
                .rename(columns=names)
                .drop_duplicates([*names.values(), "alone"])
            )
    raise ValueError(f"{row['id']} was tried at no setting on the data that decide it")


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
            for (id, data), rows in table.groupby(["claim", table["data"].map(in_words.kind)]):
                yield record, every, id, data, rows


def of(id: str, rows: pd.DataFrame, every: list[Choice]) -> dict | None:
    """The firmness of one row, as `measured`; None if the main setting decided nothing.

    rows: of one claim, a line a setting.  every: the record's choices.
    """
    differ = [(one, rows[one.parameter] != str(one.settings[0])) for one in every]
    many = sum(differs for _, differs in differ)
    verdict = rows["alone"].map(rules.plain)
    mine = verdict[many == 0]
    if mine.empty or mine.iloc[0] in UNFIT:
        return None
    decided = ~verdict.isin(UNFIT)
    turned, alone = decided & (verdict != mine.iloc[0]), many == 1
    may = [
        (one, differs)
        for one, differs in differ
        if one.moves(id) or (turned & differs & alone).any()
    ]
    if turned.any() and not may:  # by several together, and by none of them alone
        may = differ
    ran = [*(one.parameter for one, _ in may), "alone"]  # the same of these is the same setting
    new = ~rows.assign(alone=verdict).duplicated(ran)
    counted = new & decided & ((sum(differs for _, differs in may) > 0) | turned)
    turns = [
        {"choice": one.name, "at": rows[one.parameter][at], "verdict": verdict[at]}
        for one, differs in differ
        for at in rows.index[turned & differs & alone]
    ]
    tried = int(counted.sum())
    if not tried:
        return None
    return {
        "tried": tried,
        "same": tried - int((turned & counted).sum()),
        "turns": turns,
        "together": int((turned & counted & (many > 1)).sum()),
        "main": mine.iloc[0],
    }


def settled(rows: list[dict]) -> list[dict]:
    """Rows of the ledger, each with its `firmness` on the data that decide it, or with `unweighed`,
    why it has none. A claim that a setting turns "depends on" it, whichever way: it has no credit.

    other_data: how many settings were the same, and tried, on each other kind of data; they cost
    nothing.  A question has no verdict that could turn, so it has no firmness.

    Where the main setting has another verdict at the size of the settings, the row was decided at
    a larger size. If two settings of that size, the extremes, were tried, too, only they can turn
    it, in a run of a smaller size as well: there they turn it if they differ, so that every page
    says the same.  What was refuted by one counter-example stays: at another setting it is still
    one.
    """
    firm, every = measured(), choices()
    return [
        row
        | {"firmness": None}
        | (_weighed(row, firm.get(row["id"], {}), every) if row["kind"] != "question" else {})
        for row in rows
    ]


def _weighed(row: dict, found: dict[str, dict | None], every: list[Choice]) -> dict:
    data = in_words.kind(row["data"])
    others = {
        name: [one["same"], one["tried"]] for name, one in found.items() if one and name != data
    }
    if one := found.get(data):
        return {"firmness": one | {"other_data": others}} | _turned(row, one)
    return {
        "unweighed": (
            "tried, but the main setting decides nothing at that size"
            if data in found
            else "not tried at other settings"
            if any(choice.moves(row["id"]) for choice in every)
            else "no other settings were set up for it"
        ),
        "other_data": others,
    }


def _turned(row: dict, one: dict) -> dict:
    mine = rules.plain(row["verdict"])
    stays = row["rule"] in STAYS and mine == rules.REFUTED
    if row["kind"] != "claim" or mine not in CREDIT or stays:
        return {}
    alone, extremes = rules.plain(row["alone"]), one.get("paper_size", ())
    decided_larger = row["profile"] != "paper" and len(extremes) >= 2
    if decided_larger:  # the row itself waits for that size: do its extremes agree there?
        alone = extremes[0]["verdict"]
    elif row["profile"] != "paper":
        extremes = ()
    larger = [name for at in extremes if at["verdict"] != alone for name in at["choices"]]
    smaller = one["tried"] > one["same"] and (one["main"] == alone or len(extremes) < 2)
    smaller = smaller and not decided_larger
    if not larger and not smaller:
        return {}
    names = dict.fromkeys([*(_names(one) if smaller else ()), *larger])
    on = " and ".join(name.replace("_", " ") for name in names) or "several choices together"
    return {"verdict": f"{rules.DEPENDS} {on}"}


def told(rows: list[dict]) -> str:
    """How firm the claims of a finding are, and the least firm one, in words that end with "; "; if
    it has none that was tried, why; nothing if it has no claim."""
    claims = [row for row in rows if row["kind"] == "claim"]
    tried = [row["firmness"] for row in claims if row.get("firmness")]
    if not tried:
        return "".join(
            f"{why}; " for why in dict.fromkeys(row.get("unweighed") for row in claims) if why
        )
    least = "".join(
        f", least firm `{row['id'].partition('.')[2]}`: {in_words.alike(row)}, turned by "
        + ", ".join(filter(None, (turning(row), in_words.extremes(row["firmness"]))))
        for row in softest(claims, most=1)
    )
    alike = sum(one["tried"] == one["same"] for one in tried)
    return f"{alike} of {len(tried)} the same in every setting tried{least}; "


def turning(row: dict) -> str:
    """Where a claim that a setting turns is turned, as text."""
    return in_words.turning(row["firmness"]["turns"]) or "several choices together"


def softest(rows: list[dict], most: int | None = 3) -> list[dict]:
    """Of the claims that some setting turns, the ones with the smallest share of settings alike."""
    soft = [
        row
        for row in rows
        if row["kind"] == "claim" and (one := row.get("firmness")) and one["same"] < one["tried"]
    ]
    return sorted(soft, key=lambda row: row["firmness"]["same"] / row["firmness"]["tried"])[:most]


def shown(rows: list[dict]) -> list[dict]:
    """The three softest claims of each paper, first those that are neither open nor undecided; each
    with `alike`, `turning`, where it turns, and `left_open`, in short why the paper leaves that
    open."""
    waits = rules.OPEN, rules.UNDECIDED
    soft = sorted(softest(rows, None), key=lambda row: rules.plain(row["verdict"]) in waits)
    return [
        row
        | {
            "alike": "; ".join(
                filter(None, (in_words.alike(row), in_words.extremes(row["firmness"])))
            ),
            "turning": turning(row),
            "left_open": _left_open(row),
        }
        for paper in ledger.titles()
        for row in [one for one in soft if one["paper"] == paper][:3]
    ]


def _left_open(row: dict) -> str:
    turned, of = _names(row["firmness"]), row["paper"]
    return "; ".join(
        f"{one.name.replace('_', ' ')}: {one.why.partition(';')[0]}"
        for one in choices()
        if (one.record.startswith(of) and one.name in turned if turned else one.moves(row["id"]))
    )
