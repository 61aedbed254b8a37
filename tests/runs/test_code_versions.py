"""Whether a row was found with the code that its notebook has today."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_runs import new

from ppkit.project import root
from ppkit.runs import code_versions, json_files, reference
from ppkit.verdicts import ledger, rows


def written(path, *cells, injected=None):
    """A notebook of these cells, the first of which holds its parameters."""
    made = [(source, ["parameters"] if i == 0 else []) for i, source in enumerate(cells)]
    if injected:
        made.insert(1, (injected, [code_versions.INJECTED]))
    content = [
        {"cell_type": "code", "source": source, "metadata": {"tags": tags}} for source, tags in made
    ]
    json_files.write_json(path, {"metadata": {}, "cells": content})
    return path


def test_the_digest_is_of_what_python_reads(tmp_path):
    def of(*cells, **more):
        return code_versions.digest(written(tmp_path / "a.ipynb", *cells, **more))

    mine = of("SEED = 0", "x = f(1,\n      2)  # a word")
    assert mine == of("SEED = 0", "x = f(1, 2)") == of("SEED = 0", "x = f(1, 2)", injected="A = 1")
    assert of("SEED = 0", "x = f(1, 2)\ny = x") == of("SEED = 0", "x = f(1, 2)", "y = x")
    others = [of("SEED = 1", "x = f(1, 2)"), of("SEED = 0", "x = f(2, 1)"), of("x = f(1, 2)")]
    empty = [of("x = ['', 'a']"), of("x = ['a']"), of("x = []"), of("x = ()"), of("x = None")]
    assert len({mine, *others, *empty}) == 9


def test_the_digest_is_the_same_by_every_python(tmp_path):
    # 3.12 adds an empty field to a function, 3.12.1 an empty text to an f-string with a width
    source = "def f(a, *, b=None):\n    return f'{a:>{b}} {[]} {None}'\n\nf(1, b=2)"
    found = code_versions.digest(written(tmp_path / "a.ipynb", source))
    assert found == "5a7de11ab6d5836d16d2b1a542b5bfb385f870242081d5256a864265adbc58cb"


def test_a_cell_with_a_magic_counts_as_it_is_written(tmp_path):
    def of(*cells):
        return code_versions.digest(written(tmp_path / "a.ipynb", *cells))

    inline = of("%matplotlib inline", "x = 1")
    assert inline == of("%matplotlib inline", "x = 1  # a word") != of("%matplotlib agg", "x = 1")


@pytest.fixture
def kept(project):
    """A run in the reference, and the notebook that it ran."""
    project.add("01_a")
    file = written(project.folder / "notebooks" / "01_a.ipynb", "SEED = 0", "print(1)")
    folder = new(project, **{"01_a": "done"})
    written(folder.path / "notebooks" / "01_a.ipynb", "SEED = 0", "print(1)", injected="SEED = 0")
    [row] = [row for row in ledger.merge([]) if row.id == "wang2018.table1.row5.basic"]
    found = dict(data="formula", standing="rerunnable", profile="quick", notebook="01_a", value=1.0)
    claims = folder.path / "claims" / "01_a.json"
    rows.write(claims, [replace(row, **found, verdict="reproduced", alone="reproduced")])
    folder.close()
    folder.release()
    reference.keep([folder.path.name])
    return file, folder.path.name


def test_a_row_is_older_once_the_code_of_its_notebook_has_changed(kept):
    file, run = kept
    assert not code_versions.is_older(run, "01_a")
    written(file, "SEED = 0", "print(1)  # the same")
    assert not code_versions.is_older(run, "01_a")
    written(file, "SEED = 0", "print(2)")
    [row] = [row for row in rows.read(root() / "figures/claims.json")[1] if row.data]
    assert code_versions.in_words(row) == "the code of 01_a has changed since"
    file.unlink()
    assert code_versions.is_older(run, "01_a")


def test_the_code_of_a_run_goes_with_its_last_row(kept):
    _, run = kept
    file = root() / "figures" / "code_versions.json"
    assert list(json_files.read_json(file)["runs"]) == [run]
    (root() / "figures" / "claims.json").unlink()
    reference.keep([])
    assert json_files.read_json(file) == {"runs": {}, "settings": {}}
    assert code_versions.is_older(run, "01_a")


def test_measured_numbers_keep_the_code_of_their_run(kept):
    _, run = kept
    file = root() / "figures" / "measured" / "seconds.json"
    file.parent.mkdir()
    json_files.write_json(file, {"run": run, "notebook": "01_a", "values": {"masked": 1.5}})
    (root() / "figures" / "claims.json").unlink()
    reference.keep([])
    assert not code_versions.is_older(run, "01_a")
    assert code_versions.behind([], {}) == {(run, "01_a")}


def test_settings_are_older_once_their_record_s_code_has_changed(project, kept):
    project.add("records/wu2020")
    record = written(project.folder / "notebooks/records/wu2020.ipynb", "SEED = 0", "print(1)")
    batch = new(project, **{"0000": "done"})
    batch.record |= {"batch": "wu2020", "data": "standin"}
    at = [batch.path / f"points/{k:04d}/notebooks/wu2020.ipynb" for k in range(2)]
    for seed, point in enumerate(at):
        point.parent.mkdir(parents=True)
        written(point, "SEED = 0", "print(1)", injected=f"SEED = {seed}")
    name = code_versions.settings_file(batch)
    assert name == "wu2020.standin.json" and code_versions.settings_are_older(name)
    file = project.folder / "figures/settings" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    code_versions.keep(code_versions.found_with([], [batch]), [], {})
    assert not code_versions.settings_are_older(name)
    written(record, "SEED = 0", "print(2)")
    assert code_versions.settings_are_older(name)
    written(at[0], "SEED = 0", "print(2)")  # at the other point another code
    code_versions.keep(code_versions.found_with([], [batch]), [], {})
    assert code_versions.settings_are_older(name)
    file.unlink()
    code_versions.keep(code_versions.found_with([], []), [], {})
    content = json_files.read_json(project.folder / "figures/code_versions.json")
    assert content == {"runs": {}, "settings": {}}
    batch.close()
    batch.release()


def test_a_row_whose_code_nobody_kept_says_so(kept):
    (root() / "figures" / "code_versions.json").unlink()
    [row] = [row for row in rows.read(root() / "figures/claims.json")[1] if row.data]
    assert code_versions.in_words(row) == "with which code of 01_a was not kept"


def test_measured_numbers_of_no_notebook_are_of_older_code(kept):
    _, run = kept
    file = root() / "figures" / "measured" / "seconds.json"
    file.parent.mkdir()
    json_files.write_json(file, {"run": run, "values": {"masked": 1.5}})  # by an older ppkit
    reference.keep([])
    assert code_versions.is_older(run, "") and (run, "") in code_versions.behind([], {})


def test_two_runs_of_one_second_keep_the_code_of_both(project, kept, tmp_path):
    _, run = kept
    project.add("02_b")
    written(project.folder / "notebooks" / "02_b.ipynb", "SEED = 0", "print(2)")
    [row] = [row for row in rows.read(root() / "figures/claims.json")[1] if row.data]
    other = SimpleNamespace(
        record={"id": run}, notebooks={"02_b": {}}, path=tmp_path / "elsewhere" / run
    )
    (other.path / "notebooks").mkdir(parents=True)
    written(other.path / "notebooks" / "02_b.ipynb", "SEED = 0", "print(2)")
    found = code_versions.found_with([other], [])
    code_versions.keep(found, [row], {"picture": {"run": run, "notebook": "02_b"}})
    assert not code_versions.is_older(run, "01_a") and not code_versions.is_older(run, "02_b")
