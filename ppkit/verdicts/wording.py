"""A row of the ledger in words, for tables, pages and notebooks: verdict, number, reason,
robustness."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from ppkit.sources import FORMULA
from ppkit.verdicts import rules
from ppkit.verdicts.rows import Result, Robustness, Row, Turn
from ppkit.verdicts.statements import Finding

ON_OTHER_DATA = f"{rules.REPRODUCED} on other data"  # than the paper's own, whole
SYMBOLS = {
    rules.REPRODUCED: "●",
    ON_OTHER_DATA: "◐",
    rules.NOT_REPRODUCED: "○",
    rules.REFUTED: "✕",
    rules.DEPENDS: "◇",
    rules.UNDECIDED: "≈",
    rules.OUT_OF_REACH: "□",
    rules.NOT_TRIED: "·",
    rules.ANSWERED: "?",
    rules.PASSED: "✓",
    rules.FAILED: "!",
}
COLOURS = {  # of verdicts, in every figure and on every page
    rules.REPRODUCED: "#009E73",
    ON_OTHER_DATA: "#7FC9A9",
    rules.NOT_REPRODUCED: "#F0E442",
    rules.REFUTED: "#D55E00",  # we attained a contradiction
    rules.DEPENDS: "#6E6E6E",
    rules.UNDECIDED: "#404040",
    rules.OUT_OF_REACH: "#C4C4C4",
    rules.NOT_TRIED: "#EEEEEE",
    rules.ANSWERED: "#7D8FD6",
    rules.PASSED: "#A5ADB6",
    rules.FAILED: "#7D2F00",
}
LEGEND = {
    rules.REPRODUCED: "our number agrees with the paper's, by the rule that stands in the row, "
    "on a formula or on the paper's own data, whole",
    ON_OTHER_DATA: "our number agrees, but on a stand-in, a simulation, or other or fewer real "
    "rows than the paper's",
    rules.NOT_REPRODUCED: "our number does not agree, or a proof has a gap; the row says whether "
    "the direction holds",
    rules.REFUTED: "we attained something that contradicts a statement of mathematics or security; "
    "the row says what would be true",
    rules.DEPENDS: "two runs within the paper's words exclude each other: the row names the choice "
    "and shows both",
    rules.UNDECIDED: "the interval holds both verdicts, or a run is missing; the row says what "
    "would decide",
    rules.OUT_OF_REACH: "needs a file, a machine or a figure that nobody here can have; the row "
    "has its price and the command",
    rules.NOT_TRIED: "no notebook of this run measured it",
    rules.ANSWERED: "a question of ours, which the paper does not claim: an answer, no verdict",
    rules.PASSED: "a check of our own code or data, no verdict on the paper",
}
MARKS = {"right": "✓", "not right": "✕", "open": "≈"}  # of a finding


def line(row: Row) -> str:
    """A row in one line: its id, verdict, our number and its data, and why."""
    why = reason(row)
    parts = (row.id, verdict(row), f"ours {ours(row)}, {row.data}", f"({why})" if why else "")
    return "   ".join(filter(None, parts))


def verdict(row: Row) -> str:
    """A row's verdict, with what stands beside it in brackets.

    The detail belongs to the verdict of the deciding data, so it stands only beside that; or it
    says what other data do to it.
    """
    by_other_data = row.verdict == rules.UNDECIDED and not row.missing
    if row.detail and (row.verdict == row.alone or by_other_data):
        return f"{row.verdict} ({row.detail})"
    return row.verdict


def beside(row: Row) -> list[str]:
    """What was found on each other source: a verdict, our number, the source.

    A verdict that its interval leaves open is "undecided", with what it looks like in brackets.
    """
    return [_beside(row, one) for one in row.also]


def _beside(row: Row, other: Result) -> str:
    verdict, sign = verdict_alone(other), SYMBOLS[outcome_alone(other)]
    mine = rules.plain(row.alone)
    if rules.plain(other.alone) != mine and mine in other.possible:
        verdict, sign = f"{rules.UNDECIDED} ({other.alone})", SYMBOLS[rules.UNDECIDED]
    number = f", ours {ours(other)}" if other.value is not None else ""
    return f"{sign} {verdict}{number} ({other.data}, {other.profile})"


def mark(finding: Finding, rows: list[Row]) -> str:
    """The mark of a finding; one of its rows that depends on the data or on what the paper leaves
    open takes it away."""
    turned = any(
        rules.plain(row.verdict) == rules.DEPENDS
        for row in rows
        if (row.cause, row.kind) == (finding.id, "claim")
    )
    return SYMBOLS[rules.DEPENDS] if turned else MARKS[finding.the_paper_is]


def reason(row: Row) -> str:
    """Why a row has its verdict, and what was changed in it after a run was seen."""
    parts = []
    if row.data and row.verdict != row.alone:
        parts.append(f"on this data: {verdict_alone(row)}")
    if row.missing:
        parts.append(row.missing)
    if row.out_of_reach:
        parts.append(price(row))
    if row.witness:
        parts.append(seen(row))
    parts.append(row.note)
    if row.stale:
        parts.append("its rule has changed since this run: run it again")
    if row.amended:
        parts.append(f"amended {row.amended}")
    return "; ".join(filter(None, parts))


def verdict_alone(result: Result) -> str:
    """What the rule says of one source of data alone, with what stands beside it in brackets."""
    return f"{result.alone} ({result.detail})" if result.detail else result.alone


def price(row: Row) -> str:
    """What the thing costs that is out of reach, and what to type once it is there."""
    reach = row.out_of_reach or {}
    return f"price: {reach['price']}; then `{reach['command']}`"


def seen(row: Row) -> str:
    """The two runs that exclude each other, as text; "" without them."""
    return " against ".join(
        f"{one.setting}: {_number(one.value)} ({one.verdict})" for one in row.witness
    )


def robust(row: Row) -> str:
    """In how many settings of what the paper leaves open a row's verdict was the same, how far our
    number moved, and where the verdict turns, as text."""
    one = row.robustness
    if one is None:
        return row.not_varied + elsewhere(row.other_data)
    parts = [
        f"{alike(row, one)} settings",
        f"ours between {_number(one.least)} and {_number(one.largest)}",
    ]
    if turns := turning(one.turns):
        parts.append(f"turns at {turns}{at_a_smaller_size(row)}")
    if several := one.combinations[1] - one.combinations[0]:
        parts.append(f"turns in {several} of {one.combinations[1]} combinations")
    if one.owned_by:
        parts.append(f"variation: {owned(one)}")
    if larger := in_full(one):
        parts.append(larger)
    return "; ".join(parts) + elsewhere(row.other_data)


def at_a_smaller_size(row: Row) -> str:
    """What stands behind the settings that turn a row at their own size, if the row was decided at
    the paper's and some were tried there too, or its verdict stayed; "" for any other row."""
    if row.kind != "claim" or row.profile != "paper":
        return ""
    if row.robustness is not None and row.robustness.larger:
        return ", at the small size"
    return ", tried at the small size only" if row.verdict == rules.REPRODUCED else ""


def owned(one: Robustness) -> str:
    """Which choice owns how much of the variation of our number, the largest first.

    >>> from types import SimpleNamespace
    >>> owned(SimpleNamespace(owned_by={"clip": 0.125, "first_step": 0.5}))
    'first step 50%, clip 12%'
    """
    shares = sorted(one.owned_by.items(), key=lambda item: -item[1])
    return ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for name, share in shares)


def alike(row: Row, one: Robustness) -> str:
    """In how many settings a row's verdict was the same, and which one, if it is another than the
    row's because the settings ran at a smaller size."""
    as_decided = one.main == rules.plain(row.alone)
    size = "" if as_decided else f"at the settings' size: {one.main}, "
    return f"{size}same in {one.same} of {one.tried}"


def in_full(one: Robustness) -> str:
    """The verdicts at the settings that were tried at the paper's size, as text."""
    told = ", ".join(f"{at.verdict} at {at.at}" for at in one.larger)
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


def turning(turns: list[Turn]) -> str:
    """Where a verdict turns, as text: each choice once, with its settings that lead to one verdict.

    >>> at = {"choice": "first_step", "verdict": "not reproduced", "value": 0.5}
    >>> turning([Turn(at="2.0", **at), Turn(at="5.0", **at)])
    'first step 2.0, 5.0 (not reproduced)'
    """
    grouped: dict[tuple[str, str], list[str]] = {}
    for turn in turns:
        key = turn.choice.replace("_", " "), turn.verdict
        grouped.setdefault(key, []).append(turn.at)
    return ", ".join(f"{choice} {', '.join(at)} ({v})" for (choice, v), at in grouped.items())


def ours(row: Result) -> str:
    """Our number in a row, as text: four digits, or as many decimals as its standard deviation over
    seeds or splits leaves meaning to. What stands behind a ± elsewhere is half a 95% interval."""
    if row.value is None:
        return ""
    if row.spread is not None:
        decimals = 2 if row.spread >= 0.01 else 3
        return f"{row.value:.{decimals}f} (s.d. {row.spread:.{decimals}f})"
    return _number(row.value)


def _number(value: float | None) -> str:
    if value is None:
        return "no number"
    if abs(value) < 1_000:
        return f"{value:.4g}"
    return f"{value:,.1f}" if value % 1 else f"{value:,.0f}"


def printed(row: Row) -> str:
    """What the paper prints for a row, verbatim; else the number that we computed from printed
    ones, and how; else nothing."""
    if row.computed:
        return f"{row.computed} ({row.how})"
    return row.printed or ""


def difference(row: Row) -> str:
    """Ours less the printed number, as text, with its share of the printed one.

    "0" if ours, rounded or cut off, has the printed digits, of which there are two or more: a
    printed 2 is not the same as 1.7.  "" if one of them is no number, or if the row is a question,
    whose number may be of another kind.
    """
    printed = (row.printed or row.computed or "").replace(",", "")
    if row.value is None or row.kind == "question":
        return ""
    try:
        digits = Decimal(printed).as_tuple().digits
    except InvalidOperation:
        return ""
    if len(digits) > 1 and rules.agreement(row.value, printed) in (rules.ROUNDED, rules.CUT):
        return "0"
    number = float(printed)
    by = row.value - number
    return _signed(by) + (_share(by / abs(number)) if number else "")


def _signed(by: float) -> str:
    return f"{by:+,.2f}" if abs(by) >= 10 else f"{by:+.2g}"


def _share(of_printed: float) -> str:
    return f" ({of_printed:+,.0%})" if abs(of_printed) >= 1 else f" ({of_printed:+.1%})"


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
    first_words = (rules.RULES[name].decide.__doc__ or "").partition("\n\n")[0].replace("`", "")
    asks = " ".join(first_words.split())
    thresholds = ", ".join(f"{key} {_as_text(value)}" for key, value in options.items())
    return f"{asks} ({thresholds})" if thresholds else asks


def _as_text(value) -> str:
    if isinstance(value, list):
        return " < ".join(map(str, value))
    return str(value)


def command(row: Row) -> str:
    """What a reader types to have a row decided again, as it was; "" for one that nothing
    decides."""
    if not row.notebook:
        return ""
    profile = " --profile paper" if row.profile == "paper" else ""
    source = kind(row.data)
    data = " --data available" if source.startswith("real") else ""
    if source == "stand-in":
        data = " --data standin"
    return f"ppkit reproduce {row.notebook}{profile}{data}"


def counts(rows: list[Row]) -> dict[str, int]:
    """How many rows came out how, by their outcome, in the order of SYMBOLS."""
    number = Counter(map(outcome, rows))
    return {name: number[name] for name in SYMBOLS if name in number}


def causes_of_refuted(claims: list[Row]) -> int:
    """How many mistakes the refuted claims come from: those with one cause are one."""
    return len({row.cause or row.id for row in claims if row.verdict == rules.REFUTED})


def counted(rows: list[Row]) -> str:
    """How many rows came out how, and the kinds of data they were decided on, in words:
    "2 reproduced, 14 refuted; data: formula, stand-in"."""
    kinds = sorted({kind(row.data) for row in rows if row.data})
    said = ", ".join(f"{number} {name}" for name, number in counts(rows).items())
    return f"{said}; data: {', '.join(kinds)}" if kinds else said


def outcome(row: Row) -> str:
    """A row's verdict without its addition. What is reproduced neither on a formula nor on the
    paper's own data, whole, is so on other data: a stand-in, a simulation, other or fewer rows."""
    return outcome_alone(replace(row, alone=row.verdict))


def outcome_alone(result: Result) -> str:
    """As `outcome`, of what the rule says of one source of data."""
    plain = rules.plain(result.alone)
    as_in_the_paper = result.data == FORMULA or result.standing == "complete"
    if plain == rules.REPRODUCED and not as_in_the_paper:
        return ON_OTHER_DATA
    return plain


def symbol(row: Row) -> str:
    """The mark of a row's outcome, also where colour is missing."""
    return SYMBOLS[outcome(row)]


def marked(row: Row) -> str:
    """A row's verdict behind its mark."""
    return f"{symbol(row)} {verdict(row)}"


def in_short(row: Row) -> str:
    """A row's verdict with its mark, and our number."""
    return f"{marked(row)}: {ours(row)}"


# a notebook shows a row by its words, which `rows` does not know
Row.__repr__ = line  # type: ignore[method-assign, assignment]  # set from outside, see above
