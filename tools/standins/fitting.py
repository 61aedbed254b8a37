"""Fit a stand-in to the real file that is here, measure it, and keep both."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np

from ppkit import fidelity, project
from ppkit.datasets import Dataset, standins
from ppkit.datasets.files import read_table, sha256
from ppkit.datasets.loading import REAL, missing, real_file
from ppkit.datasets.standins import FOLDER, SAMPLERS
from ppkit.fidelity import markdown
from ppkit.writing import write_whole

from . import creditcard, distress, lending

SEED = 2018
LARGEST = 300_000  # bytes of parameters a data set
FITS = {"creditcard": creditcard.fit, "distress": distress.fit, "lending": lending.fit}


def fit(name: str) -> dict:
    """Fit a stand-in to its real file; write its parameters, its measurement and its data card.

    name: a key of FITS.
    Returns what was measured.  FileNotFoundError if the real file is not here, ValueError if it is
    not what it should be.
    """
    rng, file = np.random.default_rng(SEED), real_file(name)
    if file is None:
        raise FileNotFoundError(missing(name))
    checked = REAL[name].checked_table(read_table(file, REAL[name].LARGEST)[0], file.path.name)
    table = creditcard.four_folds(checked.table) if name == "creditcard" else checked.table
    fitted = FITS[name](table, rng)
    content = packed(fitted)

    def sampled(seed: int, variant: str = "") -> Dataset:
        rows = REAL[name].FULL_ROWS
        return SAMPLERS[name](fitted, rows, np.random.default_rng(seed), variant)

    found: dict = {"fidelity": fidelity.measured(name, sampled)}
    if name == "creditcard":
        found["membership"] = creditcard.given_away(table, fitted, SEED)
    about = {
        "fitted_on": f"{len(checked.table):,} of {checked.of_rows:,} real "
        f"rows{checked.layout and f' ({checked.layout})'}",
        "rows_used": len(table),
        "file": sha256(file.path),
        "parameters": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        **rounded(found),
    }
    write_whole(Path(str(FOLDER)) / f"{name}.npz", content)
    write(name, about)
    return about


def measure(name: str) -> dict:
    """Measure a shipped stand-in again, as after a change of how it is drawn; write its measurement
    and its data card.  The parameters stay, and with them what an attack on them finds.

    name: a key of FITS.
    Returns what was measured.  FileNotFoundError if the real file is not here, ValueError if it is
    not the one that the parameters were fitted on.
    """
    about, file = standins.measured(name), real_file(name)
    if file is None:
        raise FileNotFoundError(missing(name))
    digest = sha256(file.path)
    if digest != about["file"]:
        raise ValueError(
            f"{file.path.name} has the SHA-256 {digest[:12]}..., expected {about['file'][:12]}..., "
            f"on which the stand-in of {name} was fitted: measure on that file, or fit again"
        )
    about |= rounded({"fidelity": fidelity.measured(name)})
    write(name, about)
    return about


def rounded(found: dict) -> dict:
    """The same with five decimals."""
    return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 5) + 0.0)


def write(name: str, about: dict) -> None:
    """The measurement beside the parameters, and the blocks of the data card that it fills."""
    page = project.root() / "data" / "cards" / f"{name}.md"
    text = page.read_text("utf-8")
    for block, written in blocks(about).items():
        text = project.with_block(text, block, written)
    write_whole(Path(str(FOLDER)) / f"{name}.json", f"{json.dumps(about, indent=1)}\n")
    write_whole(page, text)


def packed(fitted: dict[str, np.ndarray]) -> bytes:
    """The bytes of a parameters' file: the same arrays give the same bytes.

    ValueError if they are more than LARGEST.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fitted)
    if buffer.tell() > LARGEST:
        raise ValueError(f"parameters take {buffer.tell():,} bytes, expected at most {LARGEST:,}")
    return buffer.getvalue()


def blocks(about: dict) -> dict[str, str]:
    """What code writes into a data card, by the name of the block."""
    return {"lost": lost(about["fidelity"]), "fidelity": table(about)}


def lost(rows: list[dict]) -> str:
    """What the stand-in loses, from the measured table: the card's first lines."""
    missed = [row for row in rows if not row["met"]]
    near = [row for row in rows if row["met"] and abs(row["gap"]) > row["number"]]
    return "\n".join(
        [
            f"**What the stand-in loses.** {len(missed)} of {len(rows)} measures are further from "
            f"real rows than allowed{':' if missed else '.'}",
            "",
            *(
                f"- {row['measure']}: {row['real']:.3f} on real rows, {row['standin']:.3f} on the "
                "stand-in"
                for row in missed
            ),
            *([""] if missed else []),
            f"{len(near)} more are off by more than their bar, but within two bootstrap deviations "
            "of the real side: the real rows are too few to tell. The whole table is below.",
        ]
    )


def table(about: dict) -> str:
    """The measurement, and the attack on the parameters where there was one, as Markdown."""
    lines = [
        f"Written by `make fit-standins`, fitted on {about['fitted_on']} ({about['rows_used']:,} "
        f"used; parameters: {about['bytes']:,} bytes). Allowed is the larger of the bar and two "
        "bootstrap deviations of the real side.",
        "",
        markdown(about["fidelity"]),
    ]
    if "membership" in about:
        lines += [
            "",
            "**Who was among the rows?** An attacker who knows the population, but not the other "
            "members, sees the parameters (64 fits on random halves, each going on from the "
            "shipped mixtures for 5 steps; likelihood ratio of each row). At 1% false alarms:",
            "",
            "| rows | how many | members named | 95% interval | by chance |",
            "|---|---|---|---|---|",
            *(
                f"| {row['kind']} | {row['rows']:,} | {row['caught']:.1%} | {row['low']:.1%} to "
                f"{row['high']:.1%} | {row['chance']:.0%} |"
                for row in about["membership"]
            ),
        ]
    return "\n".join(lines)
