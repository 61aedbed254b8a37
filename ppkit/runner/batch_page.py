"""The page of a batch: what happened to each point, every value against every varied parameter,
and the table, with filters; it needs no network."""

import io

import pandas as pd

from ppkit import ledger, rules
from ppkit.runner.index import CLASSES, PAGES
from ppkit.runner.tables import STYLES
from ppkit.writing import write_whole


def write(folder, rows: pd.DataFrame) -> None:
    """Write index.html into the folder of a batch; rows: its table."""
    decided = rows.dropna(subset=["claim"])
    marks = {name: (CLASSES[name], ledger.SYMBOLS[name]) for name in CLASSES}
    varied = folder.record["varied"]
    page = PAGES.get_template("batch.html.j2").render(
        batch=folder.record,
        varied=varied,
        points=folder.notebooks,
        rows=decided.to_dict("records"),
        plain=rules.plain,
        shown=[name for name in CLASSES if (decided["verdict"].map(rules.plain) == name).any()],
        marks=marks,
        pictures=[(claim, _picture(some, varied)) for claim, some in decided.groupby("claim")],
        turned=[claim for claim, some in decided.groupby("claim") if some["verdict"].nunique() > 1],
    )
    write_whole(folder.path / "index.html", page)


def _picture(rows: pd.DataFrame, varied: list[str]) -> str:
    """One claim as SVG: its value against each varied parameter, a dot a point, coloured by the
    verdict."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(varied), 1.9), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(varied), squeeze=False)[0], varied):
        shown = rows[name] if pd.api.types.is_numeric_dtype(rows[name]) else rows[name].map(str)
        for verdict, some in rows.groupby(rows["verdict"].map(rules.plain)):
            colour = STYLES[verdict].replace("dim", "grey").replace("yellow", "goldenrod")
            axes.plot(shown[some.index], some["value"], "o", ms=4, color=colour, label=verdict)
        axes.set_xlabel(name, fontsize=8)
        axes.tick_params(labelsize=7)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[2]
