"""A kernel takes no port where it can do without."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from house import ROOT
from waiting import FAR

from ppkit.runs import execute
from ppkit.runs.execute import BoundKernel

pytestmark = pytest.mark.processes

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
