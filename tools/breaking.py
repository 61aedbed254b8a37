"""`make breaking`: put each bug into a copy, run plain nbval on notebooks beside it, and write down
which printed values turned.

It writes ppkit/breaking/caught.json and the table in docs/breaking.md.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from ppkit import project
from ppkit.breaking import bugs, caught, copies
from ppkit.runs import catalogue

PAGE = project.root() / "docs" / "breaking.md"
PARTS = {  # a paper's notebooks that are tried on its bugs, cheap ones first
    "wang2018": ["01a_dpstgd_upload", "5_one_transaction", "01b_dpstgd_training"],
    "kanodia2020": ["02b_backtracking_defence", "02a_backtracking_attack"],
    "zhou2021": ["03a_spnn_sharing", "5_one_transaction", "3_spnn"],
    "wu2020": ["04b_collaboration_scenarios", "5_one_transaction", "04a_collaboration_forecast"],
}


def turned(bug: bugs.Bug | None, notebook: str) -> caught.Turned:
    """The cells of a notebook that turn beside a copy with the bug, or with none.

    Plain nbval, as a reader types it.  RuntimeError if it says nothing.
    """
    place = project.root() / ".cache" / "breaking"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        copy = Path(folder, "copy")
        copies.make(bug, copy, notebooks=[notebook])
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
        command += ["--nbval-cell-timeout", "1800", f"--junit-xml={report}"]
        said = subprocess.run(
            [*command, str(copy / f"{notebook}.ipynb")],
            cwd=project.root(),
            env={**os.environ, "PPKIT_SOURCE": "standin", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        if not report.exists():
            raise RuntimeError(f"nbval said nothing of {notebook}: {said.stdout}{said.stderr}")
        return _read(report)


def _read(report: Path) -> caught.Turned:
    cells = ElementTree.parse(report).getroot().findall(".//testcase")
    wrong = [one for one in cells if one.find("failure") is not None]
    numbers = [int(re.findall(r"\d+", one.attrib["name"])[-1]) for one in wrong]
    return {"cells": sorted(numbers), "of": len(cells)}


def table() -> str:
    """The table of docs/breaking.md, in Markdown."""
    found = caught.measured()
    columns = [name for name in catalogue.notebooks() if any(name in of for of in found.values())]
    short = [name.partition("_")[0] for name in columns]
    lines = [f"| bug | paper | {' | '.join(short)} |", f"|---|---|{'---:|' * len(columns)}"]
    for name, bug in bugs.all_bugs().items():
        cells = [_shown(caught.because_of(name, notebook)) for notebook in columns]
        lines.append(f"| `{name}` | {bug.paper} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(cells: list[int] | None) -> str:
    if cells is None:
        return ""
    return str(len(cells)) if cells else "–"


def key() -> str:
    """What is broken, bug by bug, in Markdown."""
    lines = [f"- `{bug.name}`: {bug.fault}" for bug in bugs.all_bugs().values()]
    return "\n".join(lines)


def write_page() -> None:
    """Write the table and the key into docs/breaking.md."""
    page = project.with_block(PAGE.read_text("utf-8"), caught.BLOCK, table())
    PAGE.write_text(project.with_block(page, "faults", key()), "utf-8")


def main() -> None:
    """Measure what was asked for, pair by pair; each is kept at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "bugs", nargs="*", help=f"names, {caught.NOTHING} for the control; none for all"
    )
    parser.add_argument("--notebook", action="append", help="none for those of the bug's paper")
    parser.add_argument("--missing", action="store_true", help="only pairs not yet measured")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    for name in [] if asked.page else asked.bugs or bugs.all_bugs():
        bug = None if name == caught.NOTHING else bugs.bug_of(name)
        for notebook in asked.notebook or PARTS[bug.paper if bug else "wang2018"]:
            if not (asked.missing and notebook in caught.measured().get(name, {})):
                _measure(name, bug, notebook)
    write_page()


def _measure(name: str, bug: bugs.Bug | None, notebook: str) -> None:
    """One pair; before it the control, if the notebook has none yet."""
    if name != caught.NOTHING and notebook not in caught.measured().get(caught.NOTHING, {}):
        _measure(caught.NOTHING, None, notebook)
    pair = turned(bug, notebook)
    caught.keep(name, notebook, pair)
    print(f"{name:<12} {notebook:<28} {pair['cells']} of {pair['of']}", flush=True)


if __name__ == "__main__":
    main()
