"""A run's folder: who may go on in it, what an unfinished notebook leaves, what a full disk
says."""

import errno
import json
import os
import resource
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ppkit import measured
from ppkit.datasets import loading
from ppkit.runs import Refused, catalogue, key, pages, reason, reference, run, run_folder, worker
from ppkit.runs import rows as run_rows
from ppkit.verdicts import ledger, rows, statements

RECORD = {
    "state": "running",
    "profile": "quick",
    "data": "auto",
    "key": "k",
    "commit": "",
    "versions": {},
    "machine": {"summary": "a machine"},
}


def new(project, **notebooks):
    return run_folder.create(
        project.folder / "runs",
        {**RECORD, "notebooks": {name: {"status": status} for name, status in notebooks.items()}},
        run.Run,
    )


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
        run_folder.write_json(folder.path / "figures" / f"of_{name}.json", {"notebook": name})
        (folder.path / "figures" / f"of_{name}.png").touch()
    folder.clear("a")
    assert [file.name for file in (folder.path / "claims").iterdir()] == ["b.json"]
    assert sorted(file.name for file in (folder.path / "figures").iterdir()) == [
        "of_b.json",
        "of_b.png",
    ]


def test_the_key_changes_with_source_parameters_data_and_lock_only(project, monkeypatch):
    path = project.add("01_a", "print(1)")

    def of(**changed):
        chosen = catalogue.select([])
        asked = {"profile": "quick", "source": None, "given": {}, **changed}
        parameters = catalogue.assign(chosen, **asked)
        tasks = {name: run_folder.Task(path, parameters[name]) for name, path in chosen.items()}
        return key.of(tasks, asked["source"], asked["profile"])

    first = of()
    assert of() == first
    seen = {first, of(profile="paper"), of(given={"SEED": "1"}), of(source="standin")}
    with monkeypatch.context() as changed:
        changed.setattr(loading, "real_file", lambda name: SimpleNamespace(path=path))
        seen.add(of())
    (project.folder / "requirements.lock").write_text("numpy==1")
    seen.add(of())
    assert len(seen) == 6
    (project.folder / "requirements.lock").unlink()
    executed = json.loads(path.read_text())
    executed["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]
    path.write_text(json.dumps(executed))
    assert of() == first  # outputs are no part of it
    executed["cells"][1]["source"] = "print(2)"
    path.write_text(json.dumps(executed))
    assert of() not in seen


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
    assert json.loads((folder.path / "run.json").read_text())["notebooks"] == {
        "01_a": {"status": "waiting"}
    }


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


def test_a_worker_that_cannot_write_says_so(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "01_a.ipynb"))
    assert worker._why(full) == {
        "error": "could not write the run's files: No space left on device"
    }


def decided(value, profile, data="formula", **found):
    """A row that a run decided."""
    [row] = [row for row in ledger.merge([]) if row.id == "wang2018.table1.row5.basic"]
    on = {"data": data, "standing": "rerunnable", "profile": profile, "notebook": "01_a"}
    verdict = {"verdict": "reproduced", "alone": "reproduced", "value": value}
    return replace(row, **(verdict | on | found))


def finished(project, value, profile, picture=b"png", data="simulated", **row):
    project.add("01_a")
    folder = new(project, **{"01_a": "done"})
    folder.record |= {"profile": profile, "commit": f"of {profile}"}
    about = {"name": "fig", "caption": "What to see.", "notebook": "01_a", "data": data}
    run_folder.write_json(folder.path / "figures" / "fig.json", about)
    rows.write(folder.path / "claims" / "01_a.json", [decided(value, profile, data, **row)])
    (folder.path / "figures" / "fig.png").write_bytes(picture)
    folder.close()
    folder.release()
    return folder


def test_without_a_run_the_reference_takes_the_words_anew_and_keeps_what_was_found(project):
    reference.keep([finished(project, 18.5, "quick").path.name])
    target = project.folder / "figures" / "claims.json"
    kept = target.read_bytes()
    about, every = rows.read(target)
    old = {"says": "Older words.", "printed": "9", "cell": None}
    every = [replace(row, **old, headline=not row.headline) for row in every]
    every.append(replace(every[0], id="wang2018.taken_back"))
    rows.write(target, every, **{name: about[name] for name in ("run", "pictures")})
    assert reference.keep([]) == (target, 1)
    assert target.read_bytes() == kept


def test_the_reference_keeps_the_paper_profile_over_a_later_quick_run(project):
    paper, quick = (
        finished(project, 18.5, "paper", b"paper"),
        finished(project, 18.51, "quick", b"quick"),
    )
    target, count = reference.keep([paper.path.name])
    assert (target, count) == (project.folder / "figures" / "claims.json", 1)
    first = target.read_bytes()
    reference.keep([quick.path.name])
    kept = json.loads(target.read_text())
    [row] = [row for row in kept["claims"] if row["data"]]
    assert (row["value"], row["profile"], row["run"]) == (18.5, "paper", paper.path.name)
    assert row["commit"] == "of paper"
    assert (
        kept["run"]["id"] == quick.path.name and kept["pictures"]["fig"]["run"] == paper.path.name
    )
    assert (project.folder / "figures" / "fig.png").read_bytes() == b"paper"
    target.unlink()
    reference.keep([paper.path.name])
    assert target.read_bytes() == first and str(project.folder).encode() not in first
    (project.folder / "notebooks" / "01_a.ipynb").unlink()
    reference.keep([quick.path.name])
    assert json.loads(target.read_text())["pictures"] == {}
    assert not (project.folder / "figures" / "fig.png").exists()


def test_a_run_keeps_the_digest_of_each_rule_and_a_rule_that_changed_makes_its_row_stale(
    project, monkeypatch
):
    claim = statements.claims("wang2018")["wang2018.table1.row5.basic"]
    made = finished(project, 18.5, "quick", rule_digest=claim.rule_digest)
    target, _ = reference.keep([made.path.name])
    [row] = [row for row in rows.read(target)[1] if row.data]
    assert (row.rule_digest, row.stale) == (claim.rule_digest, False)
    changed = replace(claim, rule={"at_least": 18.0})
    assert changed.rule_digest != claim.rule_digest
    every = ledger.every_claim() | {claim.id: changed}
    monkeypatch.setattr(ledger, "every_claim", lambda: every)
    reference.keep([])
    [row] = [row for row in rows.read(target)[1] if row.data]
    assert row.stale and row.verdict == "reproduced"  # until it runs again
    made = finished(project, 18.5, "quick", rule_digest=changed.rule_digest)
    reference.keep([made.path.name])
    [row] = [row for row in rows.read(target)[1] if row.data]
    assert (row.rule_digest, row.stale) == (changed.rule_digest, False)


def test_a_picture_that_its_notebook_no_longer_draws_goes(project):
    old, new = finished(project, 18.5, "paper"), finished(project, 18.5, "quick")
    about = run_folder.read_json(new.path / "figures" / "fig.json")
    run_folder.write_json(new.path / "figures" / "other.json", about | {"name": "other"})
    (new.path / "figures" / "fig.json").unlink()
    (new.path / "figures" / "fig.png").rename(new.path / "figures" / "other.png")
    target, _ = reference.keep([old.path.name])
    assert [*run_folder.read_json(target)["pictures"]] == ["fig"]
    reference.keep([new.path.name])
    assert [*run_folder.read_json(target)["pictures"]] == ["other"]
    assert not (project.folder / "figures" / "fig.png").exists()


def test_a_stand_in_run_and_a_real_run_make_one_reference_with_both_verdicts(project):
    said = dict(verdict="not reproduced", alone="not reproduced", possible=["not reproduced"])
    real = dict(data="real subset: 4 of 9 rows", standing="partial")
    runs = [
        finished(project, 18.5, "quick", possible=["reproduced"]),
        finished(project, 7.0, "quick", **said, **real),
    ]
    about = run_folder.read_json(runs[1].path / "figures" / "fig.json")
    about["data"] = "creditcard real subset: 4 of 9 rows"
    run_folder.write_json(runs[1].path / "figures" / "fig.json", about)
    (runs[1].path / "figures" / "fig.png").write_bytes(b"real rows")
    target, _ = reference.keep([one.path.name for one in runs])
    [row] = [row for row in run_folder.read_claims(target) if row.data]
    assert (row.verdict, row.depends_on) == ("depends on the data", ["the data"])
    assert (row.value, row.run) == (18.5, runs[0].path.name)
    [other] = row.also
    assert (other.alone, other.value, other.run) == ("not reproduced", 7.0, runs[1].path.name)
    assert [(one.setting, one.value, one.verdict) for one in row.witness] == [
        ("simulated", 18.5, "reproduced"),
        ("real subset", 7.0, "not reproduced"),
    ]
    assert (project.folder / "figures" / "fig.png").read_bytes() == b"png"  # the stand-in's
    alone = finished(project, 18.5, "quick").path.name
    [shown] = [row for row in run_rows.beside_reference(run_rows.rows_of(alone), {}) if row.data]
    assert [one.run for one in shown.also] == [runs[1].path.name]


def test_what_a_run_measured_becomes_the_reference_with_its_machine(project, monkeypatch):
    made = finished(project, 18.5, "paper")
    monkeypatch.setenv("PPKIT_RUN", str(made.path))
    measured.keep("seconds", {"masked": 1.5})
    reference.keep([made.path.name])
    assert measured.reference("seconds") == (
        {"masked": 1.5},
        made.record["machine"]["summary"],
        made.path.name,
    )


def test_a_picture_of_formulas_is_renewed_by_any_profile(project):
    runs = [
        finished(project, 18.5, profile, profile.encode(), data="formula")
        for profile in ("paper", "quick")
    ]
    reference.keep([run.path.name for run in runs])
    assert (project.folder / "figures" / "fig.png").read_bytes() == b"quick"


def test_a_run_with_changed_parameters_is_no_reference(project):
    made = finished(project, 18.5, "quick")
    record = run_folder.read_json(made.path / "run.json")
    record["notebooks"]["01_a"]["changed"] = ["DATASET", "SEED"]
    run_folder.write_json(made.path / "run.json", record)
    with pytest.raises(
        Refused, match="changed DATASET, SEED: only a run with the notebooks' own parameters"
    ):
        reference.keep([made.path.name])


def test_an_unfinished_run_or_a_huge_picture_is_no_reference(project):
    running = new(project, a="running")
    running.release()
    with pytest.raises(Refused, match=f"run {running.path.name} is not finished but running"):
        reference.keep(["latest"])
    large = finished(project, 18.5, "quick", picture=bytes(200_001))
    with pytest.raises(Refused, match="fig.png has 200,001 bytes, more than 200,000"):
        reference.keep([large.path.name])
    assert not (project.folder / "figures" / "claims.json").exists()
