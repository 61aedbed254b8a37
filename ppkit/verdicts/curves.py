"""Specification curves: a row's value at every setting, sorted, and beneath it what each setting
was. One is drawn for each finding of which a setting turns a row."""

import textwrap
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ppkit import pictures
from ppkit.verdicts import robustness, rules, statements, wording
from ppkit.verdicts.rows import Row


def draw_all(rows: list[Row], folder: Path) -> None:
    """Draw the softest row of each finding that has one into `folder`, as <finding>.png; what is
    there of other findings goes.

    rows: the claims of figures/claims.json.  folder: figures/settings.
    """
    for old in folder.glob("*.png"):
        old.unlink()
    for finding in statements.findings():
        of = [row for row in rows if row.cause == finding.id]
        for soft in robustness.softest(of)[:1]:
            settings = robustness.settings_of(soft.row)
            draw(soft.row, settings, folder / f"{finding.id}.png")


def draw(row: Row, settings: pd.DataFrame, target: Path) -> None:
    """One curve as PNG.

    row: of the ledger.
    settings: of `robustness.settings_of`: value, alone, and a column for each choice.
    """
    ordered = settings.sort_values("value", kind="stable").reset_index(drop=True)
    lines = [
        (f"{name.replace('_', ' ')} {value}", ordered.index[ordered[name] == value])
        for name in settings.columns.drop([*robustness.FOUND])
        for value in dict.fromkeys(settings[name])
    ]
    figure = Figure(figsize=(7.2, 3.2 + 0.2 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    above, beneath = figure.subplots(2, 1, sharex=True, height_ratios=[2, 0.2 * len(lines)])
    for verdict, some in ordered.groupby(ordered["alone"].map(rules.plain)):
        look = {"color": wording.COLOURS[verdict], "mec": "black", "mew": 0.4, "label": verdict}
        above.plot(some.index, some["value"], "o", ms=5, **look)
    main = settings.index[0]
    above.plot(
        ordered.index[ordered["value"] == settings["value"][main]][:1],
        [settings["value"][main]],
        "o",
        ms=11,
        mfc="none",
        mec="black",
    )
    above.set_title(row.id, loc="left", fontsize=10)
    above.set_ylabel("ours", fontsize=9)
    above.legend(fontsize=8)
    for height, (_, places) in enumerate(reversed(lines)):
        beneath.plot(places, [height] * len(places), "o", ms=3, color="black")
    beneath.set_yticks(range(len(lines)), [label for label, _ in reversed(lines)], fontsize=7)
    said = textwrap.fill(f"{row.measure}. Quick profile, {settings['data'][main]}.", 110)
    beneath.set_xlabel(
        f"settings, sorted by our number; the ring is the main one\n{said}", fontsize=8
    )
    beneath.tick_params(axis="x", labelbottom=False)
    pictures.small_pngs(figure)
    figure.savefig(target, dpi=110)
