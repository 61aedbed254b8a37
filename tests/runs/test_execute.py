"""`ppkit execute`: a committed notebook is executed so that two runs give identical bytes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from house import ROOT
from waiting import FAR, until

from ppkit.runs import Refused, execute
from ppkit.runs.execute import BoundKernel, in_place, normalised

pytestmark = pytest.mark.processes

CELLS = (
    "# Title",
    "import os\nprint('a')\nprint('b', os.environ['OMP_NUM_THREADS'], os.environ['PPKIT_SOURCE'])",
    "import ipywidgets\nipywidgets.FloatSlider(1.0)",
    "print('first')\nprint('second', flush=True)\n{1: 'é'}",
)
ITS_LOOK = {"jupyter": {"source_hidden": True}, "slideshow": {"slide_type": "skip"}}


def test_two_runs_give_identical_bytes_and_nothing_that_changes_from_run_to_run(project):
    path = project.add("solutions/01_a", *CELLS)
    ids = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    assert in_place(path) > 0
    first = path.read_bytes()
    in_place(path)
    assert path.read_bytes() == first

    notebook = json.loads(first)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3, 4]
    assert [cell["id"] for cell in notebook["cells"]] == ids
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert [cell["metadata"] for cell in code] == [{"tags": ["parameters"]}, {}, {}, {}]
    [printed] = code[1]["outputs"]
    assert "".join(printed["text"]) == "a\nb 1 standin\n"
    assert set(code[2]["outputs"][0]["data"]) == {"text/plain"}
    assert [output["output_type"] for output in code[3]["outputs"]] == ["stream", "execute_result"]
    assert first.endswith(b"}\n") and b"papermill" not in first and "é".encode() in first
    assert (
        first.decode() == json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


@pytest.mark.parametrize(
    "cell, said",
    [
        ("1 / 0", "01_a.ipynb is left as it was: ZeroDivisionError: division by zero"),
        (
            "import sys\nprint('oh', file=sys.stderr)",
            r"01_a.ipynb is left as it was: cell \[2\] wrote on stderr: oh",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            "01_a.ipynb is left as it was: its kernel died",
        ),
    ],
)
def test_what_fails_or_warns_or_dies_is_refused_and_the_file_left_alone(project, cell, said):
    path = project.add("01_a", cell)
    before = path.read_bytes()
    with pytest.raises(Refused, match=said) as refused:
        in_place(path)
    assert "\x1b" not in str(refused.value)
    assert path.read_bytes() == before and not list(path.parent.glob("*.part"))


def test_ctrl_c_leaves_the_file_alone_and_no_kernel(project):
    path = project.add(
        "01_a", "import time\nopen('began', 'w').close()\ntime.sleep(3000)", parameters=None
    )
    before = path.read_bytes()
    command, environment = project.command("execute")
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: (path.parent / "began").exists() or child.poll() is not None)
    family = psutil.Process(child.pid).children(recursive=True)
    assert family
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=FAR) == ("", "") and child.returncode == 130
    assert not psutil.wait_procs(family, timeout=FAR)[1]
    assert path.read_bytes() == before


def test_streams_that_arrived_in_pieces_are_one():
    pieces = [
        nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a\n", "b", "c\n")
    ]
    cell = nbformat.v4.new_code_cell(
        "print()", outputs=pieces, execution_count=1, metadata={"execution": {"began": "now"}}
    )
    [kept] = json.loads(normalised(nbformat.v4.new_notebook(cells=[cell])))["cells"]
    assert [output["text"] for output in kept["outputs"]] == [["a\n", "bc\n"]] and kept[
        "metadata"
    ] == {}


def test_what_an_old_jupytext_left_goes_and_the_language_says_its_extension():
    cell = nbformat.v4.new_code_cell("1", metadata={"lines_to_next_cell": 1, **ITS_LOOK})
    filters = {"cell_metadata_filter": "tags,-all", "notebook_metadata_filter": "-all"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"jupytext": filters})
    kept = json.loads(normalised(notebook))
    assert set(kept["metadata"]) == {"kernelspec", "language_info"}
    assert kept["metadata"]["language_info"]["file_extension"] == ".py"
    assert "version" not in kept["metadata"]["language_info"]
    assert kept["cells"][0]["metadata"] == ITS_LOOK


# a kernel takes no port where it can do without


linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has sockets without a file"
)


async def says(manager, code: str) -> str:
    """What a running kernel prints."""
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=FAR)
        printed = []
        await client.execute_interactive(
            code,
            timeout=FAR,
            output_hook=lambda message: printed.append(message["content"].get("text", "")),
        )
        return "".join(printed)
    finally:
        client.stop_channels()


async def started(cwd: Path) -> BoundKernel:
    manager = BoundKernel(kernel_name="python3")
    await manager.start_kernel(cwd=str(cwd))
    return manager


def named_sockets(pid: int) -> set[str]:
    """The sockets of a process that have a name in the abstract namespace, so on no disk."""
    sockets = psutil.Process(pid).net_connections("unix")
    return {each.laddr for each in sockets if each.laddr.startswith("@")}


@linux_only
def test_twenty_kernels_at_once_answer_without_a_port_and_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))

    async def all_at_once():
        managers = await asyncio.gather(*(started(tmp_path) for _ in range(20)))
        try:
            said = await asyncio.gather(
                *(says(manager, "import os\nprint(os.getpid())") for manager in managers)
            )
            assert [int(each) for each in said] == [manager.provisioner.pid for manager in managers]
            for manager in managers:
                named = named_sockets(manager.provisioner.pid)
                assert named == {f"{manager.ip}-{channel}" for channel in range(1, 6)}
            assert len({manager.ip for manager in managers}) == 20
        finally:
            await asyncio.gather(*(manager.shutdown_kernel(now=True) for manager in managers))

    asyncio.run(all_at_once())
    assert list(tmp_path.iterdir()) == []


@linux_only
def test_a_temporary_folder_too_deep_for_a_socket_does_not_matter(tmp_path, monkeypatch):
    deep = tmp_path / ("é" * 60) / ("x" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(deep))
    monkeypatch.setenv("TMPDIR", str(deep))

    async def one():
        manager = await started(deep)
        try:
            assert await says(manager, "import os\nprint(os.environ['TMPDIR'])") == f"{deep}\n"
            # and not where a killed manager would leave it
            assert Path(manager.connection_file).parent == deep
        finally:
            await manager.shutdown_kernel(now=True)

    asyncio.run(one())


def test_where_only_ports_are_to_be_had_it_answers_over_them(tmp_path, monkeypatch):
    monkeypatch.setattr(execute.sys, "platform", "other")

    async def one():
        manager = await started(tmp_path)
        try:
            assert manager.transport == "tcp"
            assert await says(manager, "print(6 * 7)") == "42\n"
        finally:
            await manager.shutdown_kernel(now=True)

    asyncio.run(one())


@linux_only
@pytest.mark.parametrize("plugin, transport", [(["-p", "notebook_kernels"], "ipc"), ([], "tcp")])
def test_nbval_passes_with_the_plugin_and_without_it_as_ever(tmp_path, plugin, transport):
    cell = "import json, sys\nprint(json.load(open(sys.argv[2]))['transport'])"
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{transport}\n")]
    made = nbformat.v4.new_code_cell(cell, outputs=outputs, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[made])
    nbformat.write(notebook, tmp_path / "a.ipynb")
    path = os.pathsep.join([str(ROOT / "tests/helpers"), *sys.path])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *plugin,
            "--nbval",
            "-q",
            "-p",
            "no:cacheprovider",
            "--nbval-kernel-startup-timeout",
            str(FAR),
            "a.ipynb",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=FAR,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
