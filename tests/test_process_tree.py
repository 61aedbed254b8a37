"""A temporary folder with keys and rows goes with the process that made it, however that ends."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import psutil
import pytest
from waiting import FAR, until

from ppkit import project
from ppkit.process_tree import VanishingFolder

pytestmark = pytest.mark.processes

MAKE = """
import os, subprocess, sys, time
from pathlib import Path
from ppkit.process_tree import VanishingFolder
folder = VanishingFolder("ppkit-test-")
Path(folder.name, "deep").mkdir()
Path(folder.name, "deep", "secret.key").write_text("secret")
{more}
print(folder.name, flush=True)
time.sleep(600)
"""
CHILD = """
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])    # it lives on
"""
WRITER = '''
subprocess.Popen([sys.executable, "-c", """
import itertools, os, signal, sys
from pathlib import Path
from ppkit.process_tree import die_with_parent
die_with_parent(int(sys.argv[2]))                               # which may have ended before
for number in itertools.count():                                # it writes until the last moment
    Path(sys.argv[1], "deep", str(number % 50)).write_text("row")
""", folder.name, str(os.getpid())])
'''


def left_in(folder: Path) -> list[str]:
    """The files below a folder, which may go while they are counted: unlike rglob, walk minds
    nothing."""
    return [name for _, _, names in os.walk(folder) for name in names if ".p" in name]


def watchers(folder) -> list[psutil.Process]:
    """The processes that have a folder's name in their command."""
    found = []
    for process in psutil.process_iter():
        try:
            found += [process] * (folder in process.cmdline())
        except psutil.Error:
            pass
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "more", ["", CHILD, WRITER], ids=["alone", "a child lives on", "a child writes"]
)
def test_a_killed_process_leaves_no_folder(more, number):
    made = subprocess.Popen(
        [sys.executable, "-c", MAKE.format(more=more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    children = []
    try:
        folder = Path(made.stdout.readline().strip())
        children = psutil.Process(made.pid).children(recursive=True)
        assert (folder / "deep" / "secret.key").read_text() == "secret"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        made.send_signal(number)
        made.wait(FAR)
        until(lambda: not folder.exists(), "the end of the folder")
        until(lambda: not set(watchers(str(folder))) - set(children), "the watch's end")
    finally:
        made.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        made.stdout.close()


def test_what_ends_a_whole_family_ends_it_without_its_folder():
    """As a runner ends a notebook: the kernel and all that it started, at once."""
    made = subprocess.Popen(
        [sys.executable, "-c", MAKE.format(more=CHILD)], stdout=subprocess.PIPE, text=True
    )
    folder = Path(made.stdout.readline().strip())
    family = [*psutil.Process(made.pid).children(recursive=True), psutil.Process(made.pid)]
    assert len(family) == 2 and len(watchers(str(folder))) >= 1
    for process in family:
        process.kill()
    made.wait(FAR)
    made.stdout.close()
    until(lambda: not folder.exists(), "the end of the folder")


def test_an_ordinary_end_takes_the_folder_and_its_watch():
    with VanishingFolder("ppkit-test-") as folder:
        Path(folder, "secret.key").write_text("secret")
        assert watchers(folder)
    assert not Path(folder).exists()
    until(lambda: not watchers(folder), "the watch's end")


LESSON = Path("notebooks", "03c_spnn_system.ipynb")


def test_a_killed_lesson_leaves_no_keys_and_no_rows(tmp_path):
    """03c up to its first folder, as a kernel runs it, and then kill -9."""
    sources = [
        cell.source
        for cell in nbformat.read(project.root() / LESSON, 4).cells
        if cell.cell_type == "code"
    ]
    last = next(number for number, source in enumerate(sources) if "certificates.make" in source)
    sources[last + 1 :] = ["print('made', flush=True)", "import time; time.sleep(600)"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PPKIT_")}
    environment = {"TMPDIR": str(tmp_path), "MPLBACKEND": "agg", "PPKIT_SOURCE": "standin"}
    lesson = subprocess.Popen(
        [sys.executable, "-c", "\n".join(sources)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project.root() / "notebooks",
        env={**inherited, **environment},
    )
    try:
        assert "made\n" in iter(lesson.stdout.readline, "")
        left = Counter(path.name for path in tmp_path.rglob("*"))
        assert (left["key.pem"], left["A.parquet"], left["B.parquet"]) == (4, 1, 1)
        lesson.send_signal(signal.SIGKILL)
        lesson.wait(FAR)
        until(lambda: not left_in(tmp_path), "the end of the lesson's folder")
    finally:
        lesson.kill()
        lesson.stdout.close()


@pytest.mark.parametrize(
    "path", [LESSON, Path("notebooks", "records", "zhou2021_system.ipynb")], ids=str
)
def test_every_temporary_folder_of_the_lesson_is_one_that_vanishes(path):
    cells = nbformat.read(project.root() / path, 4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert "VanishingFolder(" in code and "tempfile" not in code
