"""A measurement as the data card tells it."""

from ppkit.fidelity import markdown


def blocks(about: dict) -> dict[str, str]:
    """What code writes into a data card, by the name of the block."""
    return {"lost": lost(about["fidelity"]), "fidelity": table(about)}


def lost(rows: list[dict]) -> str:
    """What the stand-in loses, from the measured table: the card's first lines."""
    missed = [row for row in rows if not row["met"]]
    near = [row for row in rows if row["met"] and abs(row["gap"]) > row["number"]]
    said = [
        f"- {row['measure']}: {row['real']:.3f} on real rows, {row['standin']:.3f} on the stand-in"
        for row in missed
    ]
    return "\n".join(
        [
            f"**What the stand-in loses.** {len(missed)} of {len(rows)} measures are further from "
            f"real rows than allowed{':' if missed else '.'}",
            "",
            *said,
            *([""] if missed else []),
            f"{len(near)} more are off by more than their bar, but within two bootstrap deviations "
            "of the real side: the real rows are too few to tell. The whole table is below.",
        ]
    )


def table(about: dict) -> str:
    """The measurement, and the attack on the parameters where there was one, as Markdown."""
    lines = [
        f"Written by `make fit-standins`, fitted on {about['fitted_on']} ({about['rows_used']:,} "
        f"used; parameters: {about['bytes']:,} bytes). Allowed is the larger of the bar and two "
        "bootstrap deviations of the real side.",
        "",
        markdown(about["fidelity"]),
    ]
    if "membership" in about:
        lines += [
            "",
            "**Who was among the rows?** An attacker who knows the population, but not the other "
            "members, sees the parameters (64 fits on random halves, each going on from the "
            "shipped mixtures for 5 steps; likelihood ratio of each row). At 1% false alarms:",
            "",
            "| rows | how many | members named | 95% interval | by chance |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {row['kind']} | {row['rows']:,} | {row['caught']:.1%} | {row['low']:.1%} to "
            f"{row['high']:.1%} | {row['chance']:.0%} |"
            for row in about["membership"]
        ]
    return "\n".join(lines)
