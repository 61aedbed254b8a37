"""Time every bar, or those of the steps that are named, write figures/bench.json, exit 1 if one is
missed. Called by `make bench`; see README.md here."""

from __future__ import annotations

import functools
import json
import os
import platform
import sys

import accountants
import batch
import collaboration
import dpsgd_step
import dpstgd_step
import forked
import network_epoch
import notebook_seconds
import numpy
import paillier_layer
import paillier_triples
import ring_product
import secureml_step
import spnn_holders
import spnn_step
import starts
import torch

from ppkit import documents
from ppkit.atomic_writing import write_whole
from ppkit.project import root
from ppkit.runs import catalogue, environment


def machine() -> dict[str, str | int]:
    """What the figures were measured on: processor, its widest instructions (a processor's name may
    be any of several), cores and versions; no names, no paths.
    """
    simd = numpy.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "processor": environment.cpu_model(),
        "instructions": [*simd["baseline"], *simd["found"]][-1],
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
    }


STEPS = {
    step.__name__: step.run
    for step in (
        dpstgd_step,
        dpsgd_step,
        ring_product,
        paillier_layer,
        paillier_triples,
        spnn_step,
        spnn_holders,
        secureml_step,
        network_epoch,
        collaboration,
        accountants,
        batch,
        starts,
        forked,
    )
} | {
    name: functools.partial(notebook_seconds.run, name, path)
    for name, path in catalogue.notebooks(solutions=True).items()
}


def main(*only: str) -> int | str:
    """Time every step, or those named, whose bars take the place of those that they had; each
    bar says which machine it was timed on, and the commit."""
    if unknown := {*only} - {*STEPS}:
        sys.exit(f"no step {', '.join(sorted(unknown))}: there are {', '.join(STEPS)}")
    target = root() / "figures" / "bench.json"
    here = {"machine": machine(), "commit": environment.commit()}
    before = json.loads(target.read_text("utf-8")) if only and target.exists() else {"bars": []}
    rows = {row["name"]: row for row in before["bars"]}
    for name in only or STEPS:
        for bar in STEPS[name]():
            side = f">= {bar.at_least}" if bar.at_least is not None else f"<= {bar.at_most}"
            met = "met   " if bar.met else "MISSED"
            print(f"{met} {bar.name:28} {bar.ratio:8.3f} ({side})  spread {bar.spread}", flush=True)
            rows[bar.name] = bar.row() | here
    report = {"bars": [*rows.values()]}
    write_whole(target, json.dumps(report, indent=2) + "\n")
    documents.renew(root())
    missed = [row["name"] for row in rows.values() if not row["met"]]
    print(f"written: {target.relative_to(root())}, and the table in benchmarks/README.md")
    return f"missed: {', '.join(missed)}" if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
