"""One file over HTTP: it goes on where it was cut off, and only a whole and accepted file gets the name."""

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import urlsplit

import requests
from tqdm import tqdm

BLOCK = 1 << 16
BUSY = {408, 429, 500, 502, 503, 504}              # worth another try
Kept = TypeVar("Kept")


class Failed(Exception):
    """The file could not be had; one sentence that says why."""


class Offline(Failed):
    """Not even a first answer came."""


class _Again(Exception):
    """This try failed, the next one may not."""


def download(address: str, target: Path, accept: Callable[[Path], Kept], *, label: str, tries: int = 4, wait: float = 1.0,
             timeout: float = 30.0) -> Kept:
    """Fetch the file at an address to `target`, which must not be there, and return what `accept` says of it.

    accept: looks at the downloaded part; its ValueError refuses it.  label: how `target` is named to a person.
    tries: at most so many requests, >= 1, with pauses of wait, 2 wait, 4 wait, ... seconds.  timeout: seconds of silence.
    A cut connection is gone on with (Range, If-Range) when the server names its version (ETag, Last-Modified), in this
    call or in a later one: the part is kept as NAME.part beside the target, its version as NAME.part.version.
    Failed, with the status, for 4xx and 5xx, for a folder that cannot be written or is too full, while another process
    fetches the same file; Offline if no server answers; ValueError from `accept`, and then the part is removed.
    Guarantee: `target` appears in one step, whole and accepted; parts of two versions are never joined.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _part(target, label) as file:
            _absent(target, label)
            _receive_all(address, file, label, tries, wait, timeout)
            file.flush()
            os.fsync(file.fileno())
            try:
                said = accept(_beside(target, ".part"))
            except ValueError:
                file.truncate(0)
                raise
            _absent(target, label)
            _beside(target, ".part.version").unlink(missing_ok=True)
            os.replace(_beside(target, ".part"), target)
            return said
    except requests.RequestException as error:     # an OSError too, but not of the disk
        raise Failed(f"{_host(address)} cannot be asked for {target.name}: {type(error).__name__}") from error
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or type(error).__name__
        raise Failed(f"cannot write {label}: {why}") from error


@contextmanager
def _part(target: Path, label: str) -> Iterator[BinaryIO]:
    """The part file, open for this process alone; an empty part, or one that cannot be gone on with, is not left behind."""
    path = _beside(target, ".part")
    while True:
        with open(path, "a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failed(f"another process is fetching {label}: wait for its end") from None
            if not _is_at(path, file):             # who held it has just given it its name, or taken it away
                continue
            try:
                yield file
            finally:
                with suppress(OSError):
                    file.flush()
                version = _beside(target, ".part.version")
                if _is_at(path, file) and (path.stat().st_size == 0 or not version.exists()):
                    version.unlink(missing_ok=True)
                    path.unlink()
            return


def _receive_all(address: str, file: BinaryIO, label: str, tries: int, wait: float, timeout: float) -> None:
    answered = False
    for attempt in range(tries):
        try:
            with _ask(address, file, timeout) as answer:
                answered = True
                _receive(answer, address, file, label)
            return
        except _Again as error:
            failure = error
        except requests.exceptions.SSLError:
            raise Failed(f"{_host(address)} has no certificate that this machine trusts") from None
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            if not answered:
                raise Offline(f"{_host(address)} does not answer: is this machine offline?") from error
            failure = _Again(f"{_host(address)} cut the connection")
        if attempt + 1 < tries:
            time.sleep(wait * 2 ** attempt)
    came = file.seek(0, os.SEEK_END)
    kept = f" ({came:,} bytes are kept: the same command goes on from there)" if _version(file, address) else ""
    raise Failed(f"{label} did not come whole in {tries} tries: {failure}{kept}")


def _ask(address: str, file: BinaryIO, timeout: float) -> requests.Response:
    headers = {"Accept-Encoding": "identity"}      # a range counts the bytes of the file, not of a packed answer
    version = _version(file, address)
    if version:
        headers |= {"Range": f"bytes={file.seek(0, os.SEEK_END)}-", "If-Range": version}
    return requests.get(address, headers=headers, stream=True, timeout=timeout)


def _receive(answer: requests.Response, address: str, file: BinaryIO, label: str) -> None:
    """Append the answer to the part, or begin the part anew with it."""
    if answer.status_code in BUSY:
        raise _Again(f"{_host(address)} answered with status {answer.status_code} ({answer.reason})")
    goes_on = answer.status_code == 206 and _goes_on(answer, file, address)
    if answer.status_code in (206, 416) and not goes_on:
        file.truncate(0)
        raise _Again(f"{_host(address)} sent another part than the one asked for")
    if answer.status_code not in (200, 206):
        raise Failed(f"{_host(address)} answered with status {answer.status_code} ({answer.reason}) for {Path(label).name}")
    if not goes_on:
        _begin(answer, address, file)
    came = file.seek(0, os.SEEK_END)
    length = None if _packed(answer) else answer.headers.get("Content-Length")
    wanted = came + int(length) if length and length.isdecimal() else None
    _room_for(wanted - came if wanted else 0, Path(file.name).parent, label)
    with tqdm(total=wanted, initial=came, unit="B", unit_scale=True, desc=Path(label).name, leave=False,
              disable=None) as bar:                # disable=None: silent where stderr is no terminal
        for block in answer.iter_content(BLOCK):
            file.write(block)
            bar.update(len(block))


def _begin(answer: requests.Response, address: str, file: BinaryIO) -> None:
    """Empty the part first and write down of which version it will be after that, so that they never disagree."""
    path = Path(file.name + ".version")
    file.truncate(0)
    path.unlink(missing_ok=True)
    if _validator(answer) and not _packed(answer):
        path.write_text(json.dumps({"address": address, "version": _validator(answer)}), "utf-8")


def _version(file: BinaryIO, address: str) -> str | None:
    """The version of the server's file that the part is of, or None if nothing can be gone on with."""
    try:
        noted = json.loads(Path(file.name + ".version").read_text("utf-8"))
        return noted["version"] if noted["address"] == address and file.seek(0, os.SEEK_END) else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _goes_on(answer: requests.Response, file: BinaryIO, address: str) -> bool:
    """Whether a 206 is of the part's version, has no other encoding and begins where the part ends."""
    version, begins = _version(file, address), re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return (version is not None and begins is not None and int(begins[1]) == file.seek(0, os.SEEK_END)
            and _validator(answer) in (None, version) and not _packed(answer))


def _validator(answer: requests.Response) -> str | None:
    etag = answer.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified")


def _packed(answer: requests.Response) -> bool:
    return answer.headers.get("Content-Encoding", "identity") != "identity"


def _room_for(n_bytes: int, folder: Path, label: str) -> None:
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise Failed(f"{label} needs {n_bytes / 1e6:,.1f} MB more, and only {free / 1e6:,.1f} MB are free there")


def _host(address: str) -> str:
    return urlsplit(address).hostname or address


def _is_at(path: Path, file: BinaryIO) -> bool:
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _absent(target: Path, label: str) -> None:
    if target.exists():
        raise Failed(f"{label} is there already: it is not overwritten")


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)
