"""Whether notebooks of two folders have the same outputs, to the byte, pictures included:

    python tests/helpers/same_outputs.py FOLDER FOLDER NAME ...

What nbval does not compare (cells marked nbval-ignore-output) and the parameters that papermill put
in are left out. Ends with 1 if an output differs, and names the cell.
"""

import sys
from itertools import zip_longest
from pathlib import Path

import nbformat

LEFT_OUT = {"nbval-ignore-output", "injected-parameters"}


def outputs(notebook: Path) -> list[tuple[str, str, list]]:
    """Of each code cell: its id, its source, its outputs without their numbers."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [
        (cell.id, cell.source, [_without_number(one) for one in cell.outputs])
        for cell in cells
        if cell.cell_type == "code" and not LEFT_OUT & {*cell.metadata.get("tags", [])}
    ]


def _without_number(output: dict) -> dict:
    return {key: value for key, value in output.items() if key != "execution_count"}


def differences(one: Path, other: Path) -> list[str]:
    """The ids of the cells whose source or output is not the same in both notebooks."""
    pairs = zip_longest(outputs(one), outputs(other), fillvalue=("", "", []))
    return [first[0] or second[0] for first, second in pairs if first != second]


def main(one: str, other: str, *names: str) -> int | str:
    found = {
        name: differences(Path(one, f"{name}.ipynb"), Path(other, f"{name}.ipynb"))
        for name in names
    }
    lines = [f"{name}: {', '.join(cells)}" for name, cells in found.items() if cells]
    return "outputs differ: " + "; ".join(lines) if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
