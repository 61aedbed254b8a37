"""Verdicts as Markdown: what came out, findings, the softest rows, changed rules."""

import re
from collections import Counter

from ppkit.verdicts import ledger, robustness, rules, statements, wording
from ppkit.verdicts.rows import Row

IN_A_COUNT = {
    rules.DEPENDS: "that depend on a choice or the data"
}  # where a number stands before it


def scoreboard(rows: list[Row]) -> str:
    """Verdicts by paper as a Markdown table, with the data and profile they were decided on, and
    how many claims were decided a second time, on real rows, with the names of those that differ.

    rows: the claims of figures/claims.json.
    """
    rows = [row for paper in statements.titles() for row in rows if row.paper == paper]
    counts = ledger.scoreboard(rows)
    heads = [f"{wording.SYMBOLS.get(name, '')} {name}".strip() for name in counts]
    table = markdown_table(("paper", *heads), (map(str, line) for line in counts.itertuples()))
    claims = [row for row in rows if row.kind == "claim"]
    tried = [row for row in claims if row.robustness]
    turned = sum(row.depends_on == [ledger.OTHER_DATA] for row in claims)
    chosen = sum(rules.plain(row.verdict) == rules.DEPENDS for row in claims) - turned
    beside = [row for row in claims if row.also]
    twice = [row for row in beside if _on_other_data(row) != {rules.NOT_TRIED}]
    differ = [row for row in twice if _on_other_data(row) != {rules.plain(row.alone)}]
    unclear = [row for row in differ if row.depends_on != [ledger.OTHER_DATA]]
    names = ", ".join(f"`{row.id}`" for row in unclear)
    return (
        f"{table}\n\n"
        f"Claims decided a second time, on other data: {len(twice)}; alike: "
        f"{len(twice) - len(differ)}; **depend on the data: {turned}**; not alike, where an "
        f"interval or a choice leaves room: {len(unclear)}{names and f' ({names})'}. "
        f"{len(beside) - len(twice)} more need more real rows than are at hand. "
        f"Claims tried at other settings of what the paper leaves open: {len(tried)}; the same in "
        f"every setting: {sum(map(robustness.never_turned, tried))}; "
        f"**depend on a choice, and have no credit: {chosen}**."
    )


def _on_other_data(row: Row) -> set[str]:
    return {rules.plain(one.alone) for one in row.also}


def outcome(rows: list[Row]) -> str:
    """What came out, as Markdown: how many claims have which verdict, then for each paper two
    sentences and the same count.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row.kind == "claim"]
    lines = [in_all(rows), ""]
    for paper, name in statements.short_titles().items():
        of_paper = [row for row in claims if row.paper == paper]
        said = f"{statements.outcomes()[paper]} *O{came_out(of_paper)[1:]}.*".lstrip()
        section = anchor(f"{statements.titles()[paper]} ({paper})")
        lines.append(f"- **{name}** ([{paper}](docs/findings.md#{section})). {said}")
    return "\n".join(lines)


def came_out(claims: list[Row]) -> str:
    """How many claims have which verdict, in words; of the reproduced, on which data.  Refuted
    claims with one cause are one mistake."""
    number = Counter(rules.plain(row.verdict) for row in claims)
    parts = []
    for name in (*rules.VERDICTS, rules.NOT_TRIED):
        if number[name]:
            parts.append(f"{number[name]} {IN_A_COUNT.get(name, name)}")
        if number[name] and name == rules.REPRODUCED:
            parts[-1] += _on_which_data(claims)
        if number[name] and name == rules.REFUTED:
            causes = wording.causes_of_refuted(claims)
            parts[-1] += f" ({causes} mistake{'s' if causes > 1 else ''})"
    return f"of {len(claims)} claims {', '.join(parts)}"


def _on_which_data(claims: list[Row]) -> str:
    outcomes = Counter(wording.outcome(row) for row in claims)
    own, other = outcomes[rules.REPRODUCED], outcomes[wording.ON_OTHER_DATA]
    return f" ({own} on formulas or the paper's own data, {other} on stand-ins or simulated data)"


def in_all(rows: list[Row]) -> str:
    """How many claims of all papers have which verdict, as Markdown.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row.kind == "claim"]
    return f"**In all,** {came_out(claims)}."


def findings_in_short(rows: list[Row]) -> str:
    """The findings that have a sentence of their own, as Markdown: mark, sentence, and a link to
    the whole finding.

    rows: the claims of figures/claims.json.
    """
    return "\n".join(
        f"- {wording.mark(one, rows)} {one.short} "
        f"([{one.paper}](docs/findings.md#{anchor(one.title)}))"
        for one in statements.findings()
        if one.short
    )


def anchor(title: str) -> str:
    """Where a heading stands in a Markdown page, as its readers build the address.

    >>> anchor("'Any attack' and 'any kind of information' promise too much")
    'any-attack-and-any-kind-of-information-promise-too-much'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def findings(rows: list[Row]) -> str:
    """The findings as Markdown, paper by paper: the title as a heading; a mark for what the paper
    gets right or wrong, what it means; its picture; its rows by verdict, how firm they are, its
    lesson.

    rows: the claims of figures/claims.json.
    """
    parts = []
    for paper, title in statements.titles().items():
        parts.append(f"## {title} ({paper})")
        for one in statements.findings():
            if one.paper == paper:
                of = [row for row in rows if row.cause == one.id]
                parts += [
                    f"### {one.title}",
                    f"{wording.mark(one, rows)} {one.text}",
                    f"![{one.title}](../figures/{one.picture}.png)",
                    f"{_counted(of)} {_see(one, of)}",
                ]
    return "\n\n".join(parts)


def _counted(rows: list[Row]) -> str:
    return "; ".join(filter(None, (wording.counted(rows), robustness.summary(rows)))) + "."


def _see(finding, rows: list[Row]) -> str:
    lesson = f"[{finding.lesson}](../notebooks/{finding.lesson}.ipynb)"
    if not robustness.softest(rows):
        return f"Lesson: {lesson}."
    return f"Lesson: {lesson}. [Other settings](../figures/settings/{finding.id}.png)."


def softest(rows: list[Row]) -> str:
    """The softest claims of each paper, and why they are soft, as a Markdown table.

    rows: the claims of figures/claims.json.
    """
    cells = (
        (
            soft.row.paper,
            f"{soft.row.says} (`{soft.row.short_id}`)",
            wording.marked(soft.row),
            soft.alike,
            soft.turning,
            soft.left_open,
        )
        for soft in robustness.softest_of_each_paper(rows)
    )
    return markdown_table(
        ("paper", "claim", "verdict", "at other settings", "turned by", "why that is open"), cells
    )


def changed_in_short(rows: list[Row]) -> str:
    """How many claims had their rule or words changed after a run was seen, as a sentence.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row.kind == "claim"]
    changed = [row for row in claims if row.amended]
    return (
        f"{len(changed)} of {len(claims)} claims had their rule, measure or words changed after a "
        "first run was seen; no rule is newer than the run that it decides, and [the list]"
        "(docs/changed_rules.md) has each change, its day and its reason."
    )


def changed(rows: list[Row]) -> str:
    """Every row whose rule or words were changed after a run was seen, and what was changed, as
    Markdown tables, paper by paper.

    rows: the claims of figures/claims.json.
    """
    parts = []
    for paper, title in statements.titles().items():
        cells = [
            (f"`{row.short_id}`", row.kind, row.amended)
            for row in rows
            if row.paper == paper and row.amended
        ]
        of_paper = sum(row.paper == paper for row in rows)
        parts += [
            f"## {title} ({paper})",
            f"{len(cells)} of {of_paper} rows.",
            markdown_table(("row", "kind", "what was changed, and why"), cells),
        ]
    return "\n\n".join(parts)


def markdown_table(heads, rows) -> str:
    """A Markdown table.  heads: of its columns.  rows: of texts, as many as heads."""
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (heads, *rows)]
    return "\n".join(
        [f"| {lines[0]} |", "|" + "---|" * len(heads), *(f"| {line} |" for line in lines[1:])]
    )
