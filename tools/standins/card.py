"""A measurement as the data card tells it."""

from ppkit.fidelity import markdown


def blocks(about: dict) -> dict[str, str]:
    """What code writes into a data card, by the name of the block."""
    if "fidelity" not in about:
        return {"fidelity": fidelity(about)}
    return {"lost": lost(about), "fidelity": on_fold(about)}


def lost(about: dict) -> str:
    """What the stand-in loses, from the measured table: the card's first lines."""
    rows, (n_rows, frauds) = about["fidelity"], about["held_out"]
    missed = [row for row in rows if not row["met"]]
    kept = [row for row in rows if row["met"] and abs(row["gap"]) > row["number"]]
    said = [
        f"- {row['measure']}: {row['real']:.3f} on real rows, {row['standin']:.3f} on the stand-in"
        for row in missed
    ]
    return "\n".join(
        [
            f"**What the stand-in loses.** It was compared with {n_rows:,} real rows, {frauds} of "
            f"them frauds, that it was not fitted to. Of {len(rows)} measures {len(missed)} are "
            f"further off than allowed{':' if missed else '.'}",
            "",
            *said,
            *([""] if missed else []),
            f"{len(kept)} more are within two bootstrap deviations only, because so few frauds "
            "cannot say it better. The whole table is below.",
        ]
    )


def on_fold(about: dict) -> str:
    """The measurement on a held-out fold and the attack on the parameters, as Markdown."""
    lines = [
        f"Written by `make fit-standins`, fitted on four folds of {about['fitted_on']} "
        f"({about['rows_used']:,} used; parameters: {about['bytes']:,} bytes); "
        "`ppkit data fidelity creditcard` prints the same table. Allowed is the larger of the bar "
        "and two bootstrap deviations of the real side.",
        "",
        markdown(about["fidelity"]),
        "",
        "**Who was among the rows?** An attacker who knows the population, but not the other "
        "members, sees the parameters (64 fits on random halves, likelihood ratio of each row). "
        "At 1% false alarms:",
        "",
        "| rows | how many | members named | 95% interval | by chance |",
        "|---|---|---|---|---|",
    ]
    return "\n".join(
        lines
        + [
            f"| {row['kind']} | {row['rows']:,} | {row['caught']:.1%} | {row['low']:.1%} to "
            f"{row['high']:.1%} | {row['chance']:.0%} |"
            for row in about["membership"]
        ]
    )


def fidelity(about: dict) -> str:
    """The measurement by splits as Markdown."""
    score = about["score"]
    lines = [
        f"Written by `make fit-standins`, fitted on {about['fitted_on']} ({about['rows_used']:,} "
        f"used; parameters: {about['bytes']:,} bytes).",
        "",
        f"**Trained on the stand-in, tested on held-back real rows** ({about['splits']} splits, "
        f"70/30; the stand-in is fitted on the 70%; {score}; the interval allows for splits that "
        "share rows).",
        "",
        "| task | model | trained on real rows | on the stand-in | loss (90% interval of the mean) "
        "| bar for its upper end | the stand-in's on further stand-in rows |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['task']} | {row['model']} | {row['real']:.3f} | {row['standin']:.3f} | "
        f"{row['loss']:.3f} ({row['lower']:.3f} to {row['upper']:.3f}) | "
        f"{'' if row['bar'] is None else row['bar']} | {row['itself']:.3f} |"
        for row in about["losses"]
    ]
    lines += [
        "",
        "**Nearest row that it was fitted on** (distance over normal scores).",
        "",
        "| among | quantile | sampled rows | held-back real rows | lower 99% bootstrap limit of "
        "these |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['among']} | {row['quantile']:.0%} | {row['sampled']:.3f} | {row['held_back']:.3f} "
        f"| {row['limit']:.3f} |"
        for row in about["distances"]
    ]
    of = about["marginals"]
    lines += [
        "",
        "**Marginals and correlations**, against the rows it was fitted on. Largest "
        f"Kolmogorov-Smirnov distance of a column {of['ks_largest']:.3f} (`{of['ks_column']}`), "
        f"median {of['ks_median']:.3f}; rank correlations differ by {of['correlation_mean']:.3f} "
        f"on average, by {of['correlation_largest']:.3f} at most.",
    ]
    if "drift" in about:
        lines += [
            "",
            "**Drift**: mean in eight blocks of the file, as a ratio to the mean over all.",
            "",
            "| | " + " | ".join(map(str, range(1, 9))) + " |",
            "|---|" + "---|" * 8,
        ]
        for row in about["drift"]:
            lines += [
                f"| {row['about']}, {which} | "
                + " | ".join(f"{value:.2f}" for value in row[key])
                + " |"
                for which, key in (("real", "real"), ("stand-in", "standin"))
            ]
    return "\n".join(lines)
