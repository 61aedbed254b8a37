"""A measurement as the data card tells it."""


def fidelity(about: dict) -> str:
    """The measurement as Markdown, for the data card."""
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
            "**Drift**: mean in eight blocks of "
            f"{'the file' if about['drift_by'] == 'place' else 'time'}, as a ratio to the mean "
            "over all.",
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
