"""python tests/helpers/changed_tables.py NOTEBOOK RUN: fails unless the run shows another table.

NOTEBOOK: as committed.  RUN: what papermill wrote of it with a parameter changed.
"""

import sys

import nbformat


def tables(path: str) -> list[str]:
    """Every table among the outputs of a notebook, as HTML."""
    notebook = nbformat.read(path, as_version=4)
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    shown = [one.get("data", {}).get("text/html", "") for one in outputs]
    return [html for html in shown if "<table" in html]


if __name__ == "__main__":
    committed, changed = map(tables, sys.argv[1:])
    if not changed or changed == committed:
        sys.exit(f"{sys.argv[2]} shows no other table than {sys.argv[1]}")
