"""What a record measured and pages quote, such as seconds, MB and AUCs: measured in the paper
profile, kept as reference, read by others.

A notebook whose quick profile drew its own seconds would print something else on each run. So it
measures where that is asked for (`keep`), and elsewhere takes what the reference run measured, with
the machine it ran on (`reference`).
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from ppkit import project


class Measured(NamedTuple):
    """values: as given to `keep`.  machine: of the run, in words.  run: its id."""

    values: dict
    machine: str
    run: str


def keep(name: str, values: dict) -> None:
    """Leave numbers with the run, for `ppkit reference` to take into figures/measured/<name>.json.

    name: a file name without ending.  values: what JSON can hold.
    Writes $PPKIT_RUN/measured/<name>.json, with the notebook's name of $PPKIT_NOTEBOOK, where
    PPKIT_RUN is set, else nothing.
    """
    folder = os.environ.get("PPKIT_RUN")
    if folder:
        target = Path(folder, "measured", f"{name}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = {"notebook": os.environ.get("PPKIT_NOTEBOOK", ""), "values": values}
        target.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")


def reference(name: str) -> Measured:
    """What the reference run measured.  FileNotFoundError, with what to do, if no run was made the
    reference yet."""
    path = project.root() / "figures" / "measured" / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(
            f"no reference run has measured {name}: run its notebook with `--profile paper`, then "
            "`ppkit reference` that run"
        )
    kept = json.loads(path.read_text("utf-8"))
    return Measured(kept["values"], kept["machine"], kept["run"])
