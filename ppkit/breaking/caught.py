"""Which notebook notices which bug: `caught.json`, written by `make breaking`, and its table."""

import json
from pathlib import Path
from typing import TypedDict

from ppkit.atomic_writing import write_whole

FILE = Path(__file__).with_name("caught.json")
BLOCK = "caught"  # of docs/breaking.md
NOTHING = "nothing"  # in the place of a bug: a copy without one, the control


class Turned(TypedDict):
    """What plain nbval said of one notebook: the code cells that turned, counted from 0 as it
    counts them, of how many."""

    cells: list[int]
    of: int


def measured() -> dict[str, dict[str, Turned]]:
    """By bug, then by notebook; a pair that was not tried is not there."""
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}


def keep(bug: str, notebook: str, turned: Turned) -> None:
    """Write down one more pair."""
    found = measured()
    found.setdefault(bug, {})[notebook] = turned
    write_whole(FILE, json.dumps(found, indent=1, sort_keys=True) + "\n")


def because_of(bug: str, notebook: str) -> list[int] | None:
    """The cells that turn beside the bug and not beside a copy without one; None if the pair was
    not tried."""
    found = measured()
    if notebook not in found.get(bug, {}):
        return None
    control = found.get(NOTHING, {}).get(notebook, {"cells": []})["cells"]
    return [cell for cell in found[bug][notebook]["cells"] if cell not in control]


def notebooks_that_notice(bug: str) -> list[str]:
    """The notebooks of which a value turned, those first that turn most."""
    turned = {name: because_of(bug, name) or [] for name in measured().get(bug, {})}
    noticed = [name for name, cells in turned.items() if cells]
    return sorted(noticed, key=lambda name: (-len(turned[name]), name))
