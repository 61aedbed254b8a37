"""What a run's key holds."""

import json
from types import SimpleNamespace

import pytest

from ppkit.datasets import loading
from ppkit.runs import catalogue, key, run_folder


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


def test_the_key_holds_every_source_of_ours_and_nothing_that_python_made():
    held = key.sources()
    assert {"ppkit/__init__.py", "ppkit/verdicts/claims/wang2018.toml"} <= set(held)
    assert {"spnn_system/roles/dealer.py", "ppkit/spnn/lean.py"} <= set(held)  # they are started
    assert not any("__pycache__" in name for name in held)


@pytest.mark.parametrize("name", ["mechanisms.py", "wang2018.toml", "spnn_system"])
def test_a_change_of_any_source_starts_a_run_anew(project, monkeypatch, name):
    project.add("01_a", "from ppkit import mechanisms", parameters=None)
    [path] = catalogue.select([]).values()
    tasks = {"01_a": run_folder.Task(path, {})}
    first, honest = key.of(tasks, None, "quick"), key.sha256
    assert key.of(tasks, None, "quick") == first
    monkeypatch.setattr(key, "sha256", lambda file: f"{honest(file)}{name in str(file)}")
    assert key.of(tasks, None, "quick") != first
