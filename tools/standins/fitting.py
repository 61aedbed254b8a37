"""Fit a stand-in to the real file that is here, measure it, and keep both."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ppkit import project
from ppkit.atomic_writing import write_whole
from ppkit.checksum import sha256
from ppkit.datasets.files import Found, read_table
from ppkit.datasets.loading import REAL, missing, real_file
from ppkit.datasets.standins import FOLDER
from ppkit.datasets.standins.distributions import Arrays
from tools.standins import creditcard, distress, fidelity, lending

SEED = 2018
FITS = {"creditcard": creditcard.fit, "distress": distress.fit, "lending": lending.fit}
BLOCKS = ("lost", "fidelity")  # of a data card, each with a template here
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def fit(name: str) -> dict:
    """Fit a stand-in to its real file; write its parameters, its measurement and its data card.

    name: a key of FITS.
    Returns what was measured.  FileNotFoundError if the real file is not here, ValueError if it is
    not what it should be.
    """
    file = _found(name)
    checked = REAL[name].checked_table(read_table(file, REAL[name].LARGEST)[0], file.path.name)
    table = creditcard.four_folds(checked.table) if name == "creditcard" else checked.table
    fitted = FITS[name](table, np.random.default_rng(SEED))
    content = packed(fitted)
    layout = f" ({checked.layout})" if checked.layout else ""
    about = {
        "fitted_on": f"{len(checked.table):,} of {checked.of_rows:,} real rows{layout}",
        "rows_used": len(table),
        "file": sha256(file.path),
        "parameters": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "fidelity": [],
    }
    if name == "creditcard":
        about["membership"] = rounded(creditcard.given_away(table, fitted, SEED))
    write_whole(_kept(name, "npz"), content)
    write_whole(_kept(name, "json"), json.dumps(about))
    return measure(name)


def measure(name: str) -> dict:
    """Measure a shipped stand-in again, as after a change of how it is drawn; write its measurement
    and its data card.  The parameters stay, and with them what an attack on them finds.

    name: a key of FITS.
    Returns what was measured.  FileNotFoundError if the real file is not here, ValueError if it is
    not the one that the parameters were fitted on.
    """
    about, file = measured(name), _found(name)
    digest = sha256(file.path)
    if digest != about["file"]:
        raise ValueError(
            f"{file.path.name} has the SHA-256 {digest[:12]}..., expected {about['file'][:12]}..., "
            f"on which the stand-in of {name} was fitted: measure on that file, or fit again"
        )
    about["fidelity"] = rounded(fidelity.measured(name))
    page = project.root() / "data" / "cards" / f"{name}.md"
    text = page.read_text("utf-8")
    for block, written in blocks(about).items():
        text = project.with_block(text, block, written)
    write_whole(_kept(name, "json"), f"{json.dumps(about, indent=1)}\n")
    write_whole(page, text)
    return about


def measured(name: str) -> dict:
    """How faithful the stand-in is, as it was measured last, and of which checksum."""
    return json.loads(_kept(name, "json").read_text("utf-8"))


def _kept(name: str, kind: str) -> Path:
    return Path(str(FOLDER)) / f"{name}.{kind}"


def _found(name: str) -> Found:
    file = real_file(name)
    if file is None:
        raise FileNotFoundError(missing(name))
    return file


def rounded(rows: list[dict]) -> list[dict]:
    """The same with five decimals."""
    return json.loads(json.dumps(rows), parse_float=lambda text: round(float(text), 5) + 0.0)


def packed(fitted: Arrays) -> bytes:
    """The bytes of a parameters' file: the same arrays give the same bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **fitted)
    return buffer.getvalue()


def blocks(about: dict) -> dict[str, str]:
    """What code writes into a data card, by the name of the block."""
    return {
        block: TEMPLATES.get_template(f"{block}.md.j2").render(about).rstrip() for block in BLOCKS
    }
