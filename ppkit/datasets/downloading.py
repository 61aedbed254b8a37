"""One file over HTTP, by pooch: only a whole and accepted file gets the name."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from urllib.parse import urlsplit

import pooch
import requests
from filelock import FileLock, Timeout
from tqdm import tqdm

BLOCK = 1 << 16
BUSY = {408, 429, 500, 502, 503, 504}  # worth another try
CUT = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.HTTPError,
)
Kept = TypeVar("Kept")


class Failed(Exception):
    """The file could not be had; one sentence that says why."""


class Offline(Failed):
    """Not even a first answer came."""


def download(
    address: str,
    target: Path,
    accept: Callable[[Path], Kept],
    *,
    label: str,
    tries: int = 4,
    timeout: float = 30.0,
) -> Kept:
    """Fetch a file to `target`, which must not be there, and return what `accept` says of it.

    accept: looks at the downloaded file before it has its name; its ValueError refuses it.
    label: how `target` is named to a person.  tries: at most so many requests, >= 1, with pauses of
    1, 2, 3, ... seconds.  timeout: seconds of silence.
    Every try begins with the first byte: a download that was cut off is not gone on with, neither
    in this call nor in a later one, and nothing is kept of it (but for a folder .fetching-...
    beside the target where the process is killed).
    Failed, with the status, for 4xx and 5xx, for a folder that cannot be written or is too full,
    while another process fetches the same file; Offline if no server answers; ValueError from
    `accept`.
    Guarantee: `target` appears in one step, whole and accepted.
    """
    lock = FileLock(target.with_name(f".{target.name}.lock"), blocking=False)
    pooch.get_logger().setLevel("WARNING")  # what there is to say, the caller says
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock, TemporaryDirectory(dir=target.parent, prefix=".fetching-") as folder:
            try:
                _refuse_existing(target, label)
                store = pooch.create(
                    folder,
                    base_url="",
                    registry={target.name: None},  # content decides: copies have other checksums
                    urls={target.name: address},
                    retry_if_failed=tries - 1,
                )
                came = Path(store.fetch(target.name, downloader=_Request(label, timeout)))
                said = accept(came)
                _refuse_existing(target, label)
                came.chmod(0o644)  # pooch makes it for its owner alone
                os.replace(came, target)
            finally:
                Path(lock.lock_file).unlink()
            return said
    except Timeout:
        raise Failed(f"another process is fetching {label}: wait for its end") from None
    except requests.RequestException as error:  # an OSError too, but not of the disk
        why = _status(error) or f"{_host(address)} cut the connection"
        raise Failed(f"{label} did not come whole in {tries} tries: {why}") from error
    except OSError as error:
        full = error.errno == errno.ENOSPC
        why = "the disk is full" if full else error.strerror or type(error).__name__
        raise Failed(f"cannot write {label}: {why}") from error


class _Request:
    """One request, as pooch calls it; it raises our errors where pooch shall not try again."""

    def __init__(self, label: str, timeout: float):
        self.label, self.name, self.timeout = label, Path(label).name, timeout
        self.answer = None

    def __call__(self, address: str, part: str, _store: pooch.Pooch) -> None:
        # total: pooch sets it, and takes a bar of none for no bar
        # disable=None: silent where stderr is no terminal
        look = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
        try:
            with tqdm(desc=self.name, total=1, **look) as bar:
                pooch.HTTPDownloader(
                    bar,
                    BLOCK,
                    timeout=self.timeout,
                    headers={"Accept-Encoding": "identity"},  # so that its length is the file's
                    hooks={"response": lambda answer, **_: self._begins(answer, Path(part))},
                )(address, part, None)
        except requests.RequestException as error:
            self._give_up(error, address)
            raise  # another try may help
        finally:
            if self.answer is not None:
                self.answer.close()

    def _begins(self, answer: requests.Response, part: Path) -> None:
        self.answer = answer
        length = int(answer.headers.get("Content-Length", 0))
        free = shutil.disk_usage(part.parent).free
        if length > free:
            raise Failed(
                f"{self.label} needs {length / 1e6:,.1f} MB more, and only {free / 1e6:,.1f} MB "
                "are free there"
            )

    def _give_up(self, error: requests.RequestException, address: str) -> None:
        """Failed or Offline, unless another try may help."""
        host, said = _host(address), _status(error)
        if isinstance(error, requests.exceptions.SSLError):
            raise Failed(f"{host} has no certificate that this machine trusts") from error
        if said and error.response.status_code not in BUSY:
            raise Failed(f"{said} for {self.name}") from error
        if not isinstance(error, CUT):
            why = type(error).__name__
            raise Failed(f"{host} cannot be asked for {self.name}: {why}") from error
        if self.answer is None:
            raise Offline(f"{host} does not answer: is this machine offline?") from error


def _refuse_existing(target: Path, label: str) -> None:
    if target.exists():
        raise Failed(f"{label} is there already: it is not overwritten")


def _status(error: requests.RequestException) -> str:
    """The status that the server answered with, in a sentence; "" for another error."""
    if not isinstance(error, requests.HTTPError):
        return ""
    answer = error.response
    return f"{_host(answer.url)} answered with status {answer.status_code} ({answer.reason})"


def _host(address: str) -> str:
    return urlsplit(address).hostname or address
