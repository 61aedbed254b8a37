"""Time every bar, write figures/bench.json, exit 1 if one is missed. Called by `make bench`; see
README.md here."""

from __future__ import annotations

import json
import os
import platform
import sys

import batch
import collaboration
import dpsgd_step
import dpstgd_step
import network_epoch
import numpy
import paillier_layer
import paillier_triples
import ring_product
import secureml_step
import spnn_step
import torch

import notebooks
from ppkit.project import root
from ppkit.runner import environment, tables
from ppkit.writing import write_whole


def machine() -> dict[str, str | int]:
    """What the figures were measured on: processor, cores and versions; no names, no paths."""
    return {
        "processor": environment.cpu_model(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
    }


def main() -> int:
    steps = (
        dpstgd_step,
        dpsgd_step,
        ring_product,
        paillier_layer,
        paillier_triples,
        spnn_step,
        secureml_step,
        network_epoch,
        collaboration,
        batch,
        notebooks,
    )
    bars = [bar for step in steps for bar in step.run()]
    for bar in bars:
        side = f">= {bar.at_least}" if bar.at_least is not None else f"<= {bar.at_most}"
        met = "met   " if bar.met else "MISSED"
        print(f"{met} {bar.name:28} {bar.ratio:8.3f} ({side})  spread {bar.spread}")
    report = {"machine": machine(), "bars": [bar.row() for bar in bars]}
    target = root() / "figures" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    write_whole(target, json.dumps(report, indent=2) + "\n")
    tables.renew(root())
    print(f"written: {target.relative_to(root())}, and the table in benchmarks/README.md")
    return 0 if all(bar.met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
