"""Stand-ins are fitted, measured and described by one command; the cards say what was measured."""

import hashlib

import invented_loans
import numpy as np
import pytest

from ppkit import datasets, project
from ppkit.datasets import standins
from tools.standins import fidelity, fitting
from tools.standins.__main__ import main


@pytest.mark.parametrize("name", fitting.FITS)
def test_the_card_says_what_was_measured(name):
    about = fitting.measured(name)
    page = (project.root() / "data" / "cards" / f"{name}.md").read_text("utf-8")
    for block, written in fitting.blocks(about).items():
        assert project.with_block(page, block, written) == page and written in page
    for sentence in (row["measure"] for row in about["fidelity"] if not row["met"]):
        assert f"- {sentence}: " in page.partition("**What it is.**")[0]


def test_a_misspelt_name_is_refused_before_anything_is_fitted(capsys, monkeypatch):
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: pytest.fail("something was fitted"))
    assert main(["creditcard", "cards"]) == 2
    assert capsys.readouterr() == (
        "",
        "fit-standins: name must be one of creditcard, distress, lending, got 'cards'\n",
    )


def test_every_stand_in_is_fitted_or_those_that_are_named(capsys, monkeypatch):
    about = {"bytes": 1_000, "fitted_on": "50 of 100 real rows"}
    monkeypatch.setattr(fitting, "fit", lambda name: about)
    assert main(["distress"]) == 0 and main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{name}: 1,000 bytes from 50 of 100 real rows, data/cards/{name}.md renewed"
        for name in ("distress", "creditcard", "distress", "lending")
    ]


def test_fitting_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="creditcard.csv .* is missing"):
        fitting.fit("creditcard")


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A folder with 400 invented loans as the real file, and places that a fit may write to."""
    for folder in ("raw", "parameters", "data/cards"):
        (tmp_path / folder).mkdir(parents=True)
    loans = invented_loans.as_openintro(invented_loans.invented(400))
    loans.to_csv(tmp_path / "raw" / "loans_full_schema.csv", index=False)
    card = "\n".join(f"<!-- begin {name} -->\n<!-- end {name} -->" for name in ("lost", "fidelity"))
    (tmp_path / "data" / "cards" / "lending.md").write_text(card)
    monkeypatch.setenv("PPKIT_DATA", str(tmp_path / "raw"))
    monkeypatch.setattr(project, "root", lambda: tmp_path)
    for module in (fitting, standins):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "parameters")
    return tmp_path


@pytest.mark.slow
def test_what_is_fitted_is_written_and_measured_again_without_a_fit(workshop, monkeypatch):
    first, second = (
        [fidelity._row("R² of the rate", 0.9, 0.01, found)] for found in (0.7123456789, 0.9)
    )

    def measured(name):
        assert datasets.load(name, "standin").source == "stand-in: 10,000 rows"
        return first

    monkeypatch.setattr(fidelity, "measured", measured)
    about = fitting.fit("lending")
    assert about == fitting.measured("lending")
    assert about["fidelity"][0]["standin"] == 0.71235 and about["rows_used"] == 400
    content = (workshop / "parameters" / "lending.npz").read_bytes()
    assert about["parameters"] == hashlib.sha256(content).hexdigest()

    monkeypatch.setattr(fidelity, "measured", lambda name: second)
    again = fitting.measure("lending")
    assert again == fitting.measured("lending") and again["fidelity"][0]["met"]
    assert again | {"fidelity": None} == about | {"fidelity": None}
    assert (workshop / "parameters" / "lending.npz").read_bytes() == content
    page = (workshop / "data" / "cards" / "lending.md").read_text("utf-8")
    assert all(written in page for written in fitting.blocks(again).values())


def test_only_the_file_that_was_fitted_measures_again(workshop, monkeypatch, capsys):
    monkeypatch.setattr(fitting, "measured", lambda name: {"file": "0" * 64})
    assert main(["--measure", "lending"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fit-standins: loans_full_schema.csv has the SHA-256 ")
    assert "expected 000000000000..., on which the stand-in of lending was fitted" in said
    (workshop / "raw" / "loans_full_schema.csv").unlink()
    assert main(["--measure", "lending"]) == 2
    assert (
        "loans_full_schema.csv (or .csv.gz, .zip, .parquet) is missing" in capsys.readouterr().err
    )


def test_the_same_arrays_give_the_same_bytes():
    assert fitting.packed({"a": np.arange(3)}) == fitting.packed({"a": np.arange(3)})
