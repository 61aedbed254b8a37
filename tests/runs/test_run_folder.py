"""A run's folder: who may go on in it, what an unfinished notebook leaves, what a full disk
says."""

import errno
import json
import os
import resource
import shutil
import subprocess

import pytest
from made_runs import new

from ppkit.runs import Refused, catalogue, json_files, key, pages, reason, run, run_folder, worker
from ppkit.verdicts import rows


def test_two_runs_in_one_second_get_folders_of_their_own(project):
    first, second = new(project), new(project)
    first.release(), second.release()
    assert first.path != second.path and os.readlink(project.latest) == second.path.name


def test_only_the_newest_unfinished_run_of_the_key_is_resumed_and_not_while_another_works_in_it(
    project,
):
    runs = project.folder / "runs"
    folder = new(project, a="done", b="running")
    assert run_folder.find_unfinished(runs, "k", run.Run) is None  # this process holds its lock
    folder.release()
    assert run_folder.find_unfinished(runs, "another", run.Run) is None
    found = run_folder.find_unfinished(runs, "k", run.Run)
    assert found.path == folder.path
    found.close()
    found.release()
    assert found.record["state"] == "with failures"


def test_a_run_that_another_works_in_does_not_hide_an_older_unfinished_one(project):
    older, newer = new(project, a="running"), new(project, a="running")
    older.release()
    found = run_folder.find_unfinished(project.folder / "runs", "k", run.Run)
    assert found.path == older.path
    found.release(), newer.release()
    found = run_folder.find_unfinished(project.folder / "runs", "k", run.Run)
    assert found.path == newer.path
    found.notebooks["a"]["status"] = "done"
    found.close()
    found.release()
    # the newest of all is finished
    assert run_folder.find_unfinished(project.folder / "runs", "k", run.Run) is None


def test_a_finished_run_is_never_resumed(project):
    folder = new(project, a="done")
    folder.close()
    folder.release()
    assert json.loads((folder.path / "run.json").read_text())["state"] == "finished"
    assert run_folder.find_unfinished(project.folder / "runs", "k", run.Run) is None


def test_a_latest_that_leads_nowhere_is_not_among_the_runs_there_are(project):
    folder = new(project, a="running")
    folder.release()
    project.latest.unlink()
    project.latest.symlink_to("nowhere")
    with pytest.raises(Refused) as refused:
        run_folder.open_run("latest")
    assert str(refused.value) == f"unknown run 'latest': there are {folder.path.name}"


def test_a_damaged_run_json_is_passed_over(project):
    folder = new(project, a="running")
    folder.release()
    (folder.path / "run.json").write_text('{"id": "cut o')
    assert run_folder.find_unfinished(project.folder / "runs", "k", run.Run) is None
    with pytest.raises(Refused, match="run.json is damaged"):
        run_folder.open_run("latest")


def test_clearing_takes_only_that_notebooks_claims_and_figures(project):
    folder = new(project, a="running", b="done")
    folder.release()
    for name in "ab":
        rows.write(folder.path / "claims" / f"{name}.json", [])
        json_files.write_json(folder.path / "figures" / f"of_{name}.json", {"notebook": name})
        (folder.path / "figures" / f"of_{name}.png").touch()
    folder.clear("a")
    assert [file.name for file in (folder.path / "claims").iterdir()] == ["b.json"]
    assert sorted(file.name for file in (folder.path / "figures").iterdir()) == [
        "of_b.json",
        "of_b.png",
    ]


def test_a_full_disk_gives_one_sentence_and_keeps_what_is_there(project, full):
    project.add("01_a", "print(1)", parameters=None)
    folder = new(project, **{"01_a": "waiting"})
    [path] = catalogue.select([]).values()
    folder.record["key"] = key.of({"01_a": run_folder.Task(path, {})}, None, "quick")
    folder.save()
    folder.release()
    full("run.json")
    with pytest.raises(
        Refused,
        match=f"cannot write into runs/{folder.path.name}: No space left on device; "
        "what was finished stays",
    ):
        run.reproduce([])
    [about] = json.loads((folder.path / "run.json").read_text())["notebooks"].values()
    assert about["status"] == "waiting"


NO_SPACE = "[Errno 28] No space left on device: 'html/a.js'"
FULL = shutil.Error(
    [("static/a.js", "html/a.js", NO_SPACE), ("static/b.js", "html/b.js", NO_SPACE)]
)


@pytest.mark.parametrize(
    "error, said",
    [
        (FULL, "No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "a"), "Read-only file system"),
        (shutil.Error("'a' and 'a' are the same file"), "'a' and 'a' are the same file"),
    ],
)
def test_the_reason_of_a_refusal_is_never_none(project, monkeypatch, error, said):
    def copy(folder):
        raise error

    monkeypatch.setattr(pages, "copy_mathjax", copy)
    project.add("01_a", "print(1)", parameters=None)
    with pytest.raises(Refused) as refused:
        run.reproduce([])
    assert str(refused.value) == (
        f"cannot write into runs/{os.readlink(project.latest)}: {said}; "
        "what was finished stays, the same command goes on with the rest"
    )
    assert worker._why(error)["error"].startswith(f"could not write the run's files: {said}")
    assert reason(error) == said


@pytest.mark.processes
def test_a_system_that_takes_no_more_bytes_gives_one_sentence_and_no_traceback(project):
    project.add("01_a", "print(1)", parameters=None)
    command, environment = project.command("reproduce")
    done = subprocess.run(
        command,
        env=environment,
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert (done.returncode, done.stderr) == (
        2,
        (
            f"ppkit: cannot write into runs/{os.readlink(project.latest)}: File too large; "
            "what was finished stays, the same command goes on with the rest\n"
        ),
    )


SHAPES = [
    "[]",
    "3",
    "{}",
    '{"notebooks": []}',
    '{"schema": 1, "claims": [{}]}',
    '{"schema": 1, "claims": [3]}',
    "{",
]


@pytest.mark.parametrize("content", SHAPES)
def test_a_record_and_rows_of_another_shape_are_damaged(tmp_path, content):
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(Refused, match="file.json is damaged: "):
        run_folder.read_record(file)
    with pytest.raises(Refused, match="file.json is damaged: "):
        run_folder.read_claims(file)


@pytest.mark.parametrize("content", SHAPES)
def test_a_damaged_run_is_in_no_other_one_s_way(tmp_path, content):
    (tmp_path / "20260101-000000-quick").mkdir()
    (tmp_path / "20260101-000000-quick" / "run.json").write_text(content)
    assert run_folder.find_unfinished(tmp_path, "k", run.Run) is None
