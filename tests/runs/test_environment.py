"""What a run runs on and under: memory, and the variables of a kernel."""

import subprocess
import sys

import pytest
from waiting import FAR

from ppkit.project import root
from ppkit.runs import environment
from ppkit.runs.environment import for_kernel

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere shared pages count in each process"
)


HOLDS = """\
import os, subprocess, sys
held = bytearray(os.urandom(1)) * (200 * 2**20)
if sys.argv[1] == "shared":
    child = os.fork()
else:
    hold = "held = b'1' * (200 * 2**20); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", hold],
                             stdin=subprocess.PIPE).pid
if child:
    print(flush=True)
sys.stdin.read()"""


@pytest.mark.processes
@linux_only
@pytest.mark.parametrize("how, at_least, below", [("shared", 200, 350), ("each its own", 400, 550)])
def test_the_memory_of_a_tree_counts_every_process_and_a_shared_page_once(how, at_least, below):
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDS, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        for _ in range(1 if how == "shared" else 2):
            parent.stdout.readline()
        assert (
            at_least * environment.MB <= environment.memory_of(parent.pid) < below * environment.MB
        )
    finally:
        parent.communicate(timeout=FAR)
    assert environment.memory_of(parent.pid) == 0


def test_a_kernel_gives_memory_back_unless_the_caller_says_how(project, tmp_path, monkeypatch):
    [(name, value)] = environment.GIVES_BACK.items()
    monkeypatch.delenv(name, raising=False)
    assert for_kernel(tmp_path, threads=1)[name] == value == "1048576"
    monkeypatch.setenv(name, "4096")
    assert for_kernel(tmp_path, threads=1)[name] == "4096"


FREES = """\
import sys
bytearray(30 * 2**20)  # freed at once: from here on malloc would keep blocks up to this size
blocks = [bytearray(b"1") * size for _ in range(60) for size in (4 * 2**20, 2**16)]
del blocks[::2]
print(flush=True)
sys.stdin.read()"""


@pytest.mark.processes
@linux_only
def test_with_it_what_is_freed_between_kept_blocks_goes_back(project, tmp_path):
    variables = for_kernel(tmp_path, threads=1)
    held = subprocess.Popen(
        [sys.executable, "-c", FREES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    )
    try:
        held.stdout.readline()
        assert environment.memory_of(held.pid) < 100 * environment.MB  # of 240 that were freed
    finally:
        held.communicate(timeout=FAR)


@pytest.mark.parametrize(
    "source, said",
    [("available", None), ("real", "real"), ("standin", "standin"), (None, "standin")],
)
def test_available_data_is_taken_whatever_the_environment_says(
    project, tmp_path, monkeypatch, source, said
):
    monkeypatch.setenv("PPKIT_SOURCE", "standin")
    assert for_kernel(tmp_path, threads=1, source=source).get("PPKIT_SOURCE") == said


def test_records_are_executed_and_compared_under_the_same_instructions():
    _, _, after = (root() / "Makefile").read_text("utf-8").partition("\nINSTRUCTIONS := ")
    words = after.partition("\nLOWERED")[0].replace("\\\n", " ").split()
    assert dict(word.split("=") for word in words) == environment.INSTRUCTIONS
