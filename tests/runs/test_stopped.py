"""A run or a batch that is stopped before any of its file-system steps goes on by the same command;
one whose disk is full says so in one sentence."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from workers_at_once import AtOnce

from ppkit.runs import Refused, batch, key, pages, run, worker
from ppkit.verdicts import ledger

TAKES_ROOM = {"os.mkdir", "os.symlink"}
CHANGES = TAKES_ROOM | {"os.rename", "os.remove", "os.rmdir"}


class Killed(BaseException):
    """What SIGKILL does: nothing is caught, nothing is cleaned up."""


class Steps:
    """Counts the steps that change files under a folder; all after the first `at` raise `error`.

    kinds: the audit events that count, beside the opening of a file to write.
    """

    watching = None

    def __init__(self, folder: Path, at: int, error, kinds: set[str]):
        self.folder, self.at, self.error, self.kinds = str(folder), at, error, kinds
        self.done = 0

    def before(self, event: str, arguments: tuple) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event not in self.kinds and not writes or isinstance(arguments[0], int):
            return
        path = os.fspath(arguments[0])
        if path.endswith("/lock") or os.path.isabs(path) and not path.startswith(self.folder):
            return  # a lock goes with its process
        if event == "os.mkdir" and os.path.exists(path):
            return  # changes nothing
        self.done += 1
        if self.done > self.at:
            raise self.error if self.error is Killed else next(self.error)


def _audit(event: str, arguments: tuple) -> None:
    if Steps.watching and (event in CHANGES or event == "open"):
        Steps.watching.before(event, arguments)


sys.addaudithook(_audit)


@contextlib.contextmanager
def stopped(folder: Path, at: int, error=Killed, kinds=CHANGES):
    """Inside, only so many steps are done in the folder."""
    Steps.watching = Steps(folder, at, error, kinds)
    try:
        yield Steps.watching
    finally:
        Steps.watching = None


@pytest.fixture
def quick(project, tmp_path, monkeypatch):
    """A project of one notebook, which takes no time; MathJax is two files, the ledger is empty."""
    project.add("01_a", "1", parameters="SEED = 0")
    (tmp_path / "mathjax").mkdir()
    for name in ("MathJax.js", "MathMenu.js"):
        (tmp_path / "mathjax" / name).write_text("js")
    monkeypatch.setattr(pages, "mathjax", lambda: tmp_path / "mathjax")
    monkeypatch.setattr(key, "surroundings", lambda source: {})
    monkeypatch.setattr(ledger, "merge", lambda rows: [])
    monkeypatch.setattr(run, "Children", AtOnce)
    monkeypatch.setattr(AtOnce, "started", [])
    return project


def is_whole(project, kind: str) -> bool:
    """Everything that the command leaves is there, and nothing half written."""
    latest = project.latest.resolve()
    record = json.loads((latest / "run.json").read_text("utf-8"))
    assert record["state"] == "finished" and not list(latest.rglob("*.part"))
    if kind == "run":
        page, mathjax = latest / "html" / "01_a.html", latest / "html" / "mathjax"
        assert (latest / "claims.json").exists()
    else:
        rows = pd.read_parquet(latest / "table.parquet")
        assert list(rows.status) == ["done"] * 2 and list(rows.seconds) == [1.0] * 2
        page = latest / "points" / "0001" / "html" / "01_a.html"
        mathjax = page.with_name("mathjax")
    assert {file.name for file in mathjax.iterdir()} == {"MathJax.js", "MathMenu.js"}
    return page.exists() and (latest / "index.html").exists()


def once(kind: str) -> int:
    """The command, in this process; its exit code."""
    if kind == "batch":
        return run.reproduce(["01_a"], points=batch.points(["SEED=0..1"]))
    return run.reproduce([])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "batch"])
def test_stopped_before_any_step_the_same_command_goes_on(quick, kind):
    """The steps are counted, not guessed: the last try is the one that was not stopped."""
    runs, at, over = quick.folder / "runs", 0, False
    while not over:
        shutil.rmtree(runs, ignore_errors=True)
        with stopped(runs, at) as steps, contextlib.suppress(Killed):
            once(kind)
        over, at = steps.done == at, at + 1
        made = list(runs.glob("2*/run.json"))
        goes_on = made and '"finished"' not in made[0].read_text()
        finished = {point.parent.name for point in runs.glob("2*/points/*/run.json")}
        before = len(AtOnce.started)
        assert once(kind) == 0 and is_whole(quick, kind), f"after {at} steps"
        again = {name.split()[0] for name in AtOnce.started[before:]}
        if goes_on:
            assert list(runs.glob("2*/run.json")) == made and not again & finished
    assert at > 25


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "batch"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_is_one_sentence_and_nothing_is_lost(quick, kind, reason):
    """At every sixth step that takes room; the reason is the first error's, not that of what is
    tried after it."""
    runs, said = quick.folder / "runs", os.strerror(reason)
    for at in itertools.count(1, 6):
        shutil.rmtree(runs, ignore_errors=True)
        errors = iter([OSError(reason, said, "a"), *[OSError("another one")] * 99])
        with stopped(runs, at, errors, TAKES_ROOM) as steps:
            if (refused := refusal(kind)) is None:
                break
        assert refused.startswith("cannot write into ") and f": {said}" in refused
        assert steps.done < at + 99 and once(kind) == 0 and is_whole(quick, kind)
    assert at > 12


def refusal(kind: str) -> str | None:
    """The sentence with which the command is refused; None if it comes to its end."""
    try:
        assert once(kind) == 0
    except Refused as refused:
        return str(refused)


def test_a_page_that_could_not_be_written_is_not_a_cell_that_failed(capsys):
    about = {"status": worker.FAILED, "cell": 2, "after": True, "error": "no space"}
    folder = SimpleNamespace(title="runs/a", notebooks={"01_a": about})
    assert run.told(folder, whole=True) == 1
    said = capsys.readouterr().err
    assert said == "01_a failed after its last cell, when its page was written: no space\n"
