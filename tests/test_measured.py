"""What one machine measured: nothing is written outside a run, and what is missing is one
sentence."""

import json

import pytest

from ppkit import measured


def test_outside_a_run_nothing_is_kept_and_without_a_reference_one_sentence_says_what_to_do(
    project, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    measured.keep("seconds", {"masked": 1.5})
    assert list(tmp_path.rglob("seconds.json")) == []
    with pytest.raises(
        FileNotFoundError,
        match="no reference run has measured seconds: run its notebook with `--profile paper`",
    ):
        measured.reference("seconds")


def test_inside_a_run_the_numbers_lie_in_its_folder(project, monkeypatch, tmp_path):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("PPKIT_NOTEBOOK", "01_a")
    measured.keep("seconds", {"masked": 1.5})
    assert json.loads((tmp_path / "run" / "measured" / "seconds.json").read_text()) == {
        "notebook": "01_a",
        "values": {"masked": 1.5},
    }
