"""`ppkit lab`: copies to work in, none ever overwritten, no tracked file changed by a lesson."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
import requests
from house import ROOT
from jupyter_client.manager import AsyncKernelManager
from lab_server import LIMIT, TOKEN, copy_of_the_tree, opened, own_settings

from ppkit import project as projects
from ppkit.runs import Refused, execute, lab

pytestmark = pytest.mark.processes

PPKIT = Path(sys.executable).with_name("ppkit")


@pytest.fixture
def lessons(project):
    """A project of two lessons and a solution, with outputs and counts as committed ones."""
    for name in ("01_a", "02_b", "records/wang2018", "solutions/01_a_solution"):
        path = project.add(name, "# Text", "print('result')", parameters=None)
        notebook = nbformat.read(path, as_version=4)
        shown = nbformat.v4.new_output("stream", name="stdout", text="result\n")
        notebook.cells[1] |= {"outputs": [shown], "execution_count": 1}
        path.write_text(execute.normalised(notebook))
    return project


def work(project, name: str) -> Path:
    return project.folder / "work" / f"{name}.ipynb"


def test_a_copy_shows_no_result_and_a_solution_does(lessons):
    assert lab.prepare([]) == ["4 notebooks copied to work/, which is yours."]
    for name, shown in (
        ("01_a", []),
        ("records/wang2018", []),
        ("solutions/01_a_solution", ["result\n"]),
    ):
        copy = nbformat.read(work(lessons, name), as_version=4)
        committed = nbformat.read(lessons.folder / f"notebooks/{name}.ipynb", as_version=4)
        nbformat.validate(copy)
        assert [(cell.id, cell.source, cell.metadata) for cell in copy.cells] == [
            (cell.id, cell.source, cell.metadata) for cell in committed.cells
        ]
        code = [cell for cell in copy.cells if cell.cell_type == "code"]
        assert [output.text for cell in code for output in cell.outputs] == shown
        assert [cell.execution_count for cell in code] == ([1] if shown else [None])
        assert {**copy.metadata, "ppkit": None} == {**committed.metadata, "ppkit": None}
    assert lab.prepare([]) == []


def test_a_copy_that_is_there_is_never_overwritten(lessons):
    work(lessons, "01_a").parent.mkdir()
    for mine in ("my own notes", "", '{"cells": [], "metadata": {}}'):
        work(lessons, "01_a").write_text(mine)
        lab.prepare([])
        assert work(lessons, "01_a").read_text() == mine


def test_a_copy_that_is_no_notebook_any_more_keeps_nobody_from_the_others(lessons):
    lab.prepare([])
    work(lessons, "01_a").write_bytes(b"\xff")
    work(lessons, "02_b").unlink()
    work(lessons, "02_b").mkdir()
    work(lessons, "solutions/01_a_solution").unlink()
    assert lab.prepare([]) == ["1 notebook copied to work/, which is yours."]
    assert work(lessons, "02_b").is_dir() and work(lessons, "01_a").read_bytes() == b"\xff"
    [said] = lab.prepare(["02_b"])
    assert "what was there is work/02_b.kept-1.ipynb now" in said
    assert work(lessons, "02_b").is_file()


def test_fresh_puts_back_what_is_named_and_keeps_every_old_copy(lessons, ppkit):
    lab.prepare([])
    published = work(lessons, "01_a").read_bytes()
    names = ["01_a", "work/01_a.ipynb", "notebooks/01_a.ipynb"]
    attempts = [json.dumps({"cells": [], "metadata": {}, "attempt": k}) for k in (1, 2, 3)]
    for number, name in enumerate(names, start=1):
        for edited in ("01_a", "02_b"):
            work(lessons, edited).write_text(attempts[number - 1])
        kept = f"work/01_a.kept-{number}.ipynb"
        said = f"work/01_a.ipynb is as published again; what was there is {kept} now.\n"
        assert ppkit("lab", "--fresh", name) == (0, said, "")
        assert work(lessons, "01_a").read_bytes() == published
        assert work(lessons, "02_b").read_text() == attempts[number - 1]
    for number, attempt in enumerate(attempts, start=1):
        assert work(lessons, f"01_a.kept-{number}").read_text() == attempt
    code, said, _ = ppkit("lab", "--fresh", "02_b", "--fresh", "solutions/01_a_solution")
    assert code == 0 and said.count("as published again") == 2
    assert work(lessons, "solutions/01_a_solution.kept-1").exists()


def test_a_lesson_that_became_newer_is_named_in_one_line(lessons):
    lab.prepare([])
    tracked, copy = lessons.folder / "notebooks/02_b.ipynb", work(lessons, "02_b")
    tracked.write_text(tracked.read_text().replace("result\\n", "other result\\n"))
    copy.write_text(copy.read_text().replace("result", "mine"))
    assert lab.prepare([]) == []  # only outputs, only the copy
    for name in ("01_a", "solutions/01_a_solution"):
        path = lessons.folder / f"notebooks/{name}.ipynb"
        path.write_text(path.read_text().replace("print('result')", "print('better')"))
    assert lab.prepare([]) == [
        "01_a, solutions/01_a_solution: notebooks/ has a newer one than work/; "
        "`ppkit lab --fresh 01_a` takes it and keeps yours beside it."
    ]
    lab.prepare(["01_a", "solutions/01_a_solution"])
    assert lab.prepare([]) == [] and "better" in work(lessons, "01_a").read_text()


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[" * 100_000])
def test_a_copy_that_is_no_notebook_any_more_stays_as_it_is(lessons, content):
    lab.prepare([])
    work(lessons, "02_b").write_text(content)
    assert lab.prepare([]) == []
    assert work(lessons, "02_b").read_text() == content


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (
            ["--fresh", "03_c"],
            "unknown notebook '03_c': there are 01_a, 02_b, wang2018, solutions/01_a_solution",
        )
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_copied(lessons, ppkit, arguments, sentence):
    assert ppkit("lab", *arguments) == (2, "", f"ppkit: {sentence}\n")
    assert not (lessons.folder / "work").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(lessons, ppkit, monkeypatch):
    target = work(lessons, "01_a")
    (lessons.folder / "work").write_text("a file where the folder should be")
    advice = "take a copy of the project that is yours to write"
    code, _, said = ppkit("lab")
    assert (code, said) == (2, f"ppkit: cannot write {target}: File exists; {advice}\n")
    (lessons.folder / "work").unlink()

    def read_only(path, **_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", read_only)
    code, _, said = ppkit("lab")
    assert (code, said) == (2, f"ppkit: cannot write {target}: Read-only file system; {advice}\n")


def test_a_full_disk_leaves_no_half_of_a_copy(lessons, full):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full, a disk that is always full")
    copy = work(lessons, "01_a")
    copy.parent.mkdir()
    full(copy.name)
    with pytest.raises(Refused, match="No space left on device"):
        lab.prepare([])
    assert not list(copy.parent.iterdir())


def test_lab_opens_on_the_copies_with_the_project_as_its_root(lessons, ppkit, monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda *what: started.append(what))
    monkeypatch.chdir(lessons.folder.parent)
    monkeypatch.setenv("PPKIT_HOME", lessons.folder.name)  # relative: kernels run elsewhere
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("SHELL", "/a folder/zsh")
    assert ppkit("lab", "--", "--no-browser", "--port", "9999")[0] == 0
    [(program, command, environment)] = started
    assert program == command[0] == sys.executable
    assert command[-3:] == ["--no-browser", "--port", "9999"]
    assert f"--ServerApp.root_dir={lessons.folder}" in command
    assert "--LabApp.default_url=/lab/tree/work" in command
    assert "--ServerApp.terminado_settings=shell_command='/a folder/zsh'" in command
    assert environment["PPKIT_HOME"] == str(lessons.folder) and environment["PPKIT_WATCH"] == "1"
    assert environment["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"


def test_the_project_is_found_from_the_copies(lessons, monkeypatch):
    lab.prepare([])
    monkeypatch.delenv("PPKIT_HOME")
    for folder in ("work", "work/solutions"):
        monkeypatch.chdir(lessons.folder / folder)
        assert projects.root() == lessons.folder


def test_the_browser_s_driver_is_pinned_without_a_url():
    lines = (ROOT / "tests/browser/requirements.lock").read_text("utf-8")
    pins = [line for line in lines.splitlines() if not line.startswith("#")]
    assert pins and all(re.fullmatch(r"[\w-]+==[\d.]+", pin) for pin in pins)


SMALL = [
    "# A small lesson",
    "import ipywidgets\nfrom ppkit import show\nprint('begins')",
    "print(sum(show.progress(range(3), label='adding')))",
    "show.control(print, eps=ipywidgets.FloatSlider(1.0))",
    "import numpy as np\nnp.arange(3)",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A git repository of this tree as it is on disk, with one more lesson in it, all committed."""
    if not shutil.which("git"):
        pytest.skip("there is no git here to say whether a lesson changed a tracked file")
    folder = copy_of_the_tree(tmp_path_factory.mktemp("lab") / "tree")
    cells = [
        (nbformat.v4.new_markdown_cell if cell[0] == "#" else nbformat.v4.new_code_cell)(cell)
        for cell in SMALL
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks/99_small.ipynb")
    environment = own_settings(folder.parent)
    subprocess.run(
        [PPKIT, "execute", "99_small"],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=b", "commit", "--quiet", "--message=tree")
    assert git(folder, "status", "--porcelain") == ""
    return folder


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull},
    ).stdout


def texts(notebook) -> list:
    """The text of a notebook's outputs, by cell, in however many pieces it came."""
    return [
        "".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def run_and_save_as_lab_does(address: str, runtime: str, path: str) -> None:
    """Open, Run All, save: by the API that JupyterLab uses, on a kernel that its server starts."""
    web = requests.Session()
    web.headers["Authorization"] = f"token {TOKEN}"

    class ServersKernel(AsyncKernelManager):
        async def start_kernel(self, **_):
            asked = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
            answer = web.post(f"{address}/api/sessions", json=asked, timeout=LIMIT)
            answer.raise_for_status()
            self.kernel_id = answer.json()["kernel"]["id"]
            self.load_connection_file(str(Path(runtime, f"kernel-{self.kernel_id}.json")))

        async def _async_is_alive(self):
            return True  # its server watches it

        is_alive = _async_is_alive

        async def shutdown_kernel(self, **_):
            web.delete(f"{address}/api/kernels/{self.kernel_id}", timeout=LIMIT).raise_for_status()

    place = f"{address}/api/contents/{path}"
    opened_file = web.get(place, timeout=LIMIT)
    opened_file.raise_for_status()
    notebook = nbformat.from_dict(opened_file.json()["content"])
    client = nbclient.NotebookClient(
        notebook, timeout=LIMIT, startup_timeout=LIMIT, kernel_manager_class=ServersKernel
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.trusted = True  # as Lab says of what was run in it
    content = {"type": "notebook", "format": "json", "content": notebook}
    web.put(place, json=content, timeout=LIMIT).raise_for_status()


def test_a_lesson_run_and_saved_in_lab_changes_no_tracked_file(tree, tmp_path):
    environment = own_settings(tmp_path)
    names = ("99_small", "00_start_here")
    with opened(PPKIT, tree, environment) as address:
        for name in names:
            runtime = environment["JUPYTER_RUNTIME_DIR"]
            run_and_save_as_lab_does(address, runtime, f"work/{name}.ipynb")
        hidden = requests.get(f"{address}/api/contents/", params={"token": TOKEN}, timeout=LIMIT)
        listed = {about["name"] for about in hidden.json()["content"]}
    assert {"work", "ppkit"} <= listed and "notebooks" not in listed
    assert git(tree, "status", "--porcelain") == ""
    for name in names:
        saved, committed = (
            nbformat.read(tree / f"{folder}/{name}.ipynb", as_version=4)
            for folder in ("work", "notebooks")
        )
        counts = [cell.execution_count for cell in saved.cells if cell.cell_type == "code"]
        assert counts == list(range(1, len(counts) + 1))
        assert texts(saved) == texts(committed)  # also: no bar is left
        assert saved.metadata.language_info.version and saved.metadata.ppkit.made_from
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--nbval",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            f"--rootdir={tree}",
            f"--nbval-cell-timeout={LIMIT}",
            "notebooks/99_small.ipynb",  # 00 stands in `make test-lessons`
        ],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * LIMIT,
    )
    assert checked.returncode == 0, checked.stdout
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("folder", ["notebooks", "work"])
def test_every_file_that_a_lesson_links_to_is_there(folder, tree):
    """Also for a copy, and below Lab's root, which is the project."""
    subprocess.run(
        [PPKIT, "lab", "--fresh", "00_start_here"],
        cwd=tree,
        check=True,
        env=own_settings(tree.parent),
        stdout=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    links = []
    for path in (tree / folder).rglob("*.ipynb"):
        if path.parent.name == ".ipynb_checkpoints":  # of Lab, while another test has it open
            continue
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
            links += [(path, link) for link in re.findall(r"\]\((?!\w+:|#)([\w./-]+)[)#]", source)]
    assert len(links) >= 2 * len(list((tree / "notebooks").glob("0*.ipynb"))) - 2
    for path, link in links:
        target = (path.parent / link).resolve()
        assert target.is_file() and target.is_relative_to(tree), f"{path.name} links to {link}"
