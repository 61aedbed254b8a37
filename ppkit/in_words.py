"""A row of the ledger in words, for tables, pages and notebooks: verdict, number, reason, firmness.

A row is a dict, as in figures/claims.json.
"""

from types import SimpleNamespace

from ppkit import rules

FORMULA = "formula"  # the data of a claim that needs none
ON_OTHER_DATA = f"{rules.REPRODUCED} on other data"  # than the paper's own, whole
SYMBOLS = {
    rules.REPRODUCED: "●",
    ON_OTHER_DATA: "◐",
    rules.DIRECTION: "◔",
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


def beside(row: dict) -> list[str]:
    """What was found on each other source: a verdict, our number, the source.

    A verdict that its interval leaves open is "undecided", with what it looks like in brackets.
    """
    said = []
    for one in row["also"]:
        verdict, mine = one["alone"], rules.plain(row["alone"])
        if rules.plain(verdict) != mine and mine in one["possible"]:
            verdict = f"{rules.UNDECIDED} ({verdict})"
        mark_of_it = symbol(one | {"verdict": verdict})
        parts = f"{mark_of_it} {verdict}", ours(one) and f"ours {ours(one)}"
        said.append(f"{', '.join(filter(None, parts))} ({one['data']}, {one['profile']})")
    return said


def mark(finding: SimpleNamespace, rows) -> str:
    """The mark of a finding; one of its rows that depends on the data or on what the paper leaves
    open takes it away.

    rows: any rows, as dicts.
    """
    turned = any(
        rules.plain(row["verdict"]) == rules.DEPENDS
        for row in rows
        if (row["cause"], row["kind"]) == (finding.id, "claim")
    )
    return SYMBOLS[rules.DEPENDS] if turned else MARKS[finding.the_paper_is]


def reason(row: dict) -> str:
    """Why a row has its verdict, and what was changed in it after a run was seen."""
    alone = row["verdict"] != row["alone"] and f"on this data: {row['alone']}"
    amended = row["amended"] and f"amended {row['amended']}"
    return "; ".join(filter(None, (alone, row["note"], amended)))


def firm(row: dict) -> str:
    """In how many settings of what the paper leaves open a row's verdict was the same, and where
    it turns, as text.

    >>> turn = {"choice": "first_step", "at": "2.0", "verdict": "not reproduced"}
    >>> one = {"tried": 9, "same": 7, "turns": [turn], "together": 1, "main": "reproduced"}
    >>> firm({"firmness": one, "alone": "reproduced"})
    'same in 7 of 9 settings tried; turns at first step 2.0 (not reproduced), 1 of several changes'
    """
    if not (one := row.get("firmness")):
        return row.get("unweighed", "") + elsewhere(row.get("other_data", {}))
    where = "turns at" if one["main"] == rules.plain(row["alone"]) else "elsewhere"
    several = one["together"] and f"{one['together']} of several changes"
    turns = ", ".join(filter(None, (turning(one["turns"]), several)))
    parts = f"{alike(row)} settings tried", turns and f"{where} {turns}", extremes(one)
    return "; ".join(filter(None, parts)) + elsewhere(one.get("other_data", {}))


def alike(row: dict) -> str:
    """In how many settings a row's verdict was the same, and which one, if it is another than the
    row's because the settings ran at a smaller size.

    >>> one = {"tried": 9, "same": 7, "main": "not reproduced"}
    >>> alike({"firmness": one, "alone": "reproduced"})
    "at the settings' size: not reproduced, same in 7 of 9"
    """
    one = row["firmness"]
    as_decided = one["main"] == rules.plain(row["alone"])
    size = "" if as_decided else f"at the settings' size: {one['main']}, "
    return f"{size}same in {one['same']} of {one['tried']}"


def extremes(one: dict) -> str:
    """The verdicts at the paper's size, where the settings came out least and largest, as text.

    one: a firmness.

    >>> extremes({"paper_size": [{"verdict": "reproduced", "at": "seed 1"}]})
    "at the paper's size: reproduced at seed 1"
    """
    told = ", ".join(f"{at['verdict']} at {at['at']}" for at in one.get("paper_size", ()))
    return told and f"at the paper's size: {told}"


def elsewhere(others: dict[str, list[int]]) -> str:
    """How many settings were the same on other kinds of data, as text.

    >>> elsewhere({"real subset": [3, 4]})
    '; on other data (real subset): same in 3 of 4'
    """
    return "".join(
        f"; on other data ({data}): same in {same} of {tried}"
        for data, (same, tried) in others.items()
    )


def kind(data: str | None) -> str:
    """The kind of data that a row names: what stands before the number of rows.

    >>> kind("real subset, unverified: 44,212 of 284,807 rows")
    'real subset, unverified'
    """
    return (data or "").partition(":")[0]


def turning(turns: list[dict]) -> str:
    """Where a verdict turns, as text: each choice once, with its settings that lead to one verdict.

    >>> at = {"choice": "first_step", "verdict": "not reproduced"}
    >>> turning([at | {"at": "2.0"}, at | {"at": "5.0"}])
    'first step 2.0, 5.0 (not reproduced)'
    """
    grouped: dict[tuple, list[str]] = {}
    for turn in turns:
        key = turn["choice"].replace("_", " "), turn["verdict"]
        grouped.setdefault(key, []).append(turn["at"])
    return ", ".join(f"{choice} {', '.join(at)} ({v})" for (choice, v), at in grouped.items())


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


def printed(row: dict) -> str:
    """What the paper prints for a row, verbatim; else the number that we computed from printed
    ones, and how; else nothing.

    >>> printed({"printed": None, "computed": ".0135", "how": ".8772 - .8637"})
    '.0135 (.8772 - .8637)'
    """
    if row["computed"]:
        return f"{row['computed']} ({row['how']})"
    return row["printed"] or ""


def rule(given: str | dict | None) -> str:
    """What a rule asks, in a sentence, and its thresholds; "" without one.

    >>> rule("digits").startswith("Reproduced if the value equals the printed text when rounded")
    True
    >>> rule({"at_most": 0.5}).endswith("(at_most 0.5)")
    True
    """
    if not given:
        return ""
    name, options = rules.parse(given)
    first_words = rules.RULES[name].__doc__.partition("\n\n")[0].replace("`", "")
    asks = " ".join(first_words.split())
    thresholds = ", ".join(f"{key} {_as_text(value)}" for key, value in options.items())
    return f"{asks} ({thresholds})" if thresholds else asks


def _as_text(value) -> str:
    if isinstance(value, list):
        return " < ".join(map(str, value))
    return str(value)


def command(row: dict) -> str:
    """What a reader types to have a row decided again, as it was; "" for one that nothing decides.

    >>> command({"notebook": "wu2020", "profile": "paper", "data": "stand-in: 9 rows"})
    'ppkit reproduce wu2020 --profile paper --data standin'
    """
    if not row["notebook"]:
        return ""
    profile = " --profile paper" if row["profile"] == "paper" else ""
    source = kind(row["data"])
    data = " --data available" if source.startswith("real") else ""
    if source == "stand-in":
        data = " --data standin"
    return f"ppkit reproduce {row['notebook']}{profile}{data}"


def counted(rows: list[dict]) -> str:
    """How many rows came out how, and the kinds of data they were decided on, in words:
    "2 reproduced, 14 refuted; data: formula, stand-in"."""
    verdicts = [outcome(row) for row in rows]
    kinds = sorted({kind(row["data"]) for row in rows if row["data"]})
    said = ", ".join(f"{verdicts.count(name)} {name}" for name in SYMBOLS if name in verdicts)
    return f"{said}; data: {', '.join(kinds)}" if kinds else said


def outcome(row: dict) -> str:
    """A row's verdict without its addition. What is reproduced neither on a formula nor on the
    paper's own data, whole, is so on other data: a stand-in, a simulation, other or fewer rows.

    >>> outcome({"verdict": "reproduced", "data": "stand-in: 9 rows", "standing": "rerunnable"})
    'reproduced on other data'
    """
    verdict = rules.plain(row["verdict"])
    as_in_the_paper = row["data"] == FORMULA or row["standing"] == "complete"
    if verdict == rules.REPRODUCED and not as_in_the_paper:
        return ON_OTHER_DATA
    return verdict


def symbol(row: dict) -> str:
    """The mark of a row's outcome, also where colour is missing."""
    return SYMBOLS[outcome(row)]


def marked(row: dict) -> str:
    """A row's verdict behind its mark."""
    return f"{symbol(row)} {row['verdict']}"


def in_short(row: dict) -> str:
    """A row's verdict with its mark, and our number."""
    return f"{marked(row)}: {ours(row)}"
