"""Whether notebooks of two folders show the same:

    python tools/same_outputs.py FOLDER FOLDER NAME ...

As nbval compares: texts, tables and the fingerprints of pictures, not a picture's bytes, and what a
cell prints as one text, however it came. What nbval leaves out (cells marked nbval-ignore-output)
and the parameters that papermill put in are left out. Ends with 1 if an output differs, and names
the cell. `differences` by itself compares pictures to the byte.
"""

import sys
from itertools import zip_longest
from pathlib import Path

import nbformat

from ppkit.output_kinds import WIDGET_VIEW

LEFT_OUT = {"nbval-ignore-output", "injected-parameters"}


def outputs(notebook: Path, *, pictures: bool) -> list[tuple]:
    """Of each code cell: its id, its source, its printed text by stream, its other outputs."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [
        (cell.id, cell.source, *_shown(cell.outputs, pictures))
        for cell in cells
        if cell.cell_type == "code" and not LEFT_OUT & {*cell.metadata.get("tags", [])}
    ]


def _shown(outputs: list, pictures: bool) -> tuple[dict[str, str], list[dict]]:
    streams: dict[str, str] = {}
    others = []
    for output in outputs:
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
        else:
            kept = {key: value for key, value in output.items() if key != "execution_count"}
            if "data" in kept:
                # the number of a widget is drawn anew in every run
                ignored = {WIDGET_VIEW} if pictures else {WIDGET_VIEW, "image/png"}
                data = kept["data"].items()
                kept["data"] = {mime: shown for mime, shown in data if mime not in ignored}
            others.append(kept)
    return streams, others


def differences(one: Path, other: Path, *, pictures: bool = True) -> list[str]:
    """The ids of the cells whose source or output is not the same in both notebooks.

    pictures: whether their bytes count.
    """
    both = (outputs(path, pictures=pictures) for path in (one, other))
    pairs = zip_longest(*both, fillvalue=("", "", {}, []))
    return [first[0] or second[0] for first, second in pairs if first != second]


def main(one: str, other: str, *names: str) -> int | str:
    found = {
        name: differences(Path(one, f"{name}.ipynb"), Path(other, f"{name}.ipynb"), pictures=False)
        for name in names
    }
    lines = [f"{name}: {', '.join(cells)}" for name, cells in found.items() if cells]
    return "outputs differ: " + "; ".join(lines) if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
