"""What becomes the reference: of which runs, over what was there, with which pictures."""

import json
from dataclasses import replace

import pytest
from made_runs import new

from ppkit import measured
from ppkit.runs import Refused, json_files, reference, run_folder
from ppkit.runs import rows as run_rows
from ppkit.verdicts import ledger, rows, statements


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
    json_files.write_json(folder.path / "figures" / "fig.json", about)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_picture_that_its_notebook_no_longer_draws_goes(project):
    old, new = finished(project, 18.5, "paper"), finished(project, 18.5, "quick")
    about = json_files.read_json(new.path / "figures" / "fig.json")
    json_files.write_json(new.path / "figures" / "other.json", about | {"name": "other"})
    (new.path / "figures" / "fig.json").unlink()
    (new.path / "figures" / "fig.png").rename(new.path / "figures" / "other.png")
    target, _ = reference.keep([old.path.name])
    assert [*json_files.read_json(target)["pictures"]] == ["fig"]
    reference.keep([new.path.name])
    assert [*json_files.read_json(target)["pictures"]] == ["other"]
    assert not (project.folder / "figures" / "fig.png").exists()


@pytest.mark.slow
def test_a_stand_in_run_and_a_real_run_make_one_reference_with_both_verdicts(project):
    said = dict(verdict="not reproduced", alone="not reproduced", possible=["not reproduced"])
    real = dict(data="real subset: 4 of 9 rows", standing="partial")
    runs = [
        finished(project, 18.5, "quick", possible=["reproduced"]),
        finished(project, 7.0, "quick", **said, **real),
    ]
    about = json_files.read_json(runs[1].path / "figures" / "fig.json")
    about["data"] = "creditcard real subset: 4 of 9 rows"
    json_files.write_json(runs[1].path / "figures" / "fig.json", about)
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
    monkeypatch.setenv("PPKIT_NOTEBOOK", "01_a")
    measured.keep("seconds", {"masked": 1.5})
    reference.keep([made.path.name])
    assert measured.reference("seconds") == (
        {"masked": 1.5},
        made.record["machine"]["summary"],
        made.path.name,
    )
    kept = json_files.read_json(project.folder / "figures" / "measured" / "seconds.json")
    assert (kept["notebook"], kept["commit"]) == ("01_a", made.record["commit"])


def test_what_an_older_ppkit_measured_is_no_reference(project):
    made = finished(project, 18.5, "paper")
    (made.path / "measured").mkdir()
    json_files.write_json(made.path / "measured" / "seconds.json", {"masked": 1.5})
    with pytest.raises(Refused, match="seconds.json .* does not say which notebook measured it"):
        reference.keep([made.path.name])
    assert not (project.folder / "figures" / "measured").exists()


def test_a_picture_of_formulas_is_renewed_by_any_profile(project):
    runs = [
        finished(project, 18.5, profile, profile.encode(), data="formula")
        for profile in ("paper", "quick")
    ]
    reference.keep([run.path.name for run in runs])
    assert (project.folder / "figures" / "fig.png").read_bytes() == b"quick"


def test_a_run_with_changed_parameters_is_no_reference(project):
    made = finished(project, 18.5, "quick")
    record = json_files.read_json(made.path / "run.json")
    record["notebooks"]["01_a"]["changed"] = ["DATASET", "SEED"]
    json_files.write_json(made.path / "run.json", record)
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
