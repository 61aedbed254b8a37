"""A file of figures/settings: what a record's batch found at each setting of what its paper leaves
open.

    {"parameters": ["CLIP", "SEED"],
     "points": [["1.0", "0"], ["2.0", "0"]],
     "rows": [{"claim": "wu2020.fig2.order", "data": "stand-in: 310,000 rows",
               "values": [1.0, 5.0], "verdicts": ["reproduced", "not reproduced"]}]}

A point is a setting of each parameter, as text, the main one first. A row has a value and a verdict
for each point, null where the point has no such row; one verdict stands for all that are alike.
There are no rows of data in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppkit.atomic_writing import write_whole

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("claim", "value", "alone", "data")
DIGITS = 4  # significant ones of a value


def write(file: Path, table: pd.DataFrame) -> None:
    """Write a table with a line a point and claim.

    table: the columns of `COLUMNS`, and one of texts for each parameter, in the order of the
    points; no two lines with the same point, claim and data.
    """
    names = [name for name in table.columns if name not in COLUMNS]
    points = list(dict.fromkeys(table[names].itertuples(index=False, name=None)))
    rows = []
    for (claim, data), lines in table.groupby(["claim", "data"]):
        at = [points.index(point) for point in lines[names].itertuples(index=False, name=None)]
        values: list[float | None] = [None] * len(points)
        verdicts: list[str | None] = [None] * len(points)
        for k, value, verdict in zip(at, lines["value"], lines["alone"], strict=True):
            values[k] = None if value != value else float(f"{value:.{DIGITS}g}")
            verdicts[k] = verdict
        alike = verdicts[0] if len({*verdicts}) == 1 else verdicts
        rows.append({"claim": claim, "data": data, "values": values, "verdicts": alike})
    a_line_each = {"points": points, "rows": rows}
    parts = [f'"parameters": {json.dumps(names)}']
    for name, items in a_line_each.items():
        texts = (json.dumps(item, ensure_ascii=False, allow_nan=False) for item in items)
        parts.append(f'"{name}": [\n' + ",\n".join(texts) + "\n]")
    write_whole(file, "{" + ",\n".join(parts) + "}\n")


def read(file: Path) -> pd.DataFrame:
    """The table that `write` was given, by claim and then by point, with `DIGITS` digits.

    ValueError if the file is cut off or no JSON.
    """
    import pandas as pd

    try:
        content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    lines = []
    for row in content["rows"]:
        verdicts = row["verdicts"]
        if isinstance(verdicts, str):
            verdicts = [verdicts] * len(content["points"])
        for k, (value, verdict) in enumerate(zip(row["values"], verdicts, strict=True)):
            if verdict is not None:
                lines.append((k, *content["points"][k], row["claim"], value, verdict, row["data"]))
    table = pd.DataFrame(lines, columns=["point", *content["parameters"], *COLUMNS])
    table["value"] = table["value"].astype(float)
    return table.sort_values(["claim", "point"], kind="stable").drop(columns="point")
