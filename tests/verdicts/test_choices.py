"""The choices that a paper leaves open: each is a parameter of the paper's record, the main setting
first, and the rows that it may move are there."""

import ast
import tomllib

import nbformat
import pytest
from house import ROOT

from ppkit.verdicts import statements

FILES = sorted((ROOT / "ppkit/verdicts/claims").glob("*.choices.toml"))


def parameters(paper: str) -> dict:
    book = nbformat.read(ROOT / f"notebooks/records/{paper}.ipynb", as_version=4)
    cell = next(c for c in book.cells if "parameters" in c.metadata.get("tags", ()))
    return {
        line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cell.source).body
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_choice_is_a_parameter_of_the_record_with_its_main_setting_first(path):
    paper, choices = path.stem.removesuffix(".choices"), tomllib.loads(path.read_text())
    ids = [id.removeprefix(f"{paper}.") for id in statements.claims(paper)]
    of = [choice.get("record", paper) for choice in choices.values()]
    assert choices and max(of.count(record) for record in of) <= 6
    for name, choice in choices.items():
        settings, defaults = choice["settings"], parameters(choice.get("record", paper))
        optional = {"record", "draw", "excluded"}
        assert set(choice) - optional == {"parameter", "settings", "why", "rows"}, name
        least = 2 if isinstance(settings[0], bool) else 3
        assert least <= len(settings) <= 5 and len(set(settings)) == len(settings), name
        assert defaults[choice["parameter"]] == settings[0], name
        texts, excluded = [str(value) for value in settings], choice.get("excluded", {})
        assert set(excluded) <= set(texts[1:]), name  # the main setting is within the words
        assert all(len(reason) > 20 for reason in excluded.values()), name
        assert choice.get("draw", True) is True and not (choice.get("draw") and excluded), name
        for beginning in choice["rows"]:
            assert any(id.startswith(beginning) for id in ids), (name, beginning)


def test_every_paper_has_choices():
    assert [path.stem.removesuffix(".choices") for path in FILES] == statements.papers()


def test_every_seed_is_a_draw_and_what_a_reader_may_choose_is_none():
    every = [choice for path in FILES for choice in tomllib.loads(path.read_text()).values()]
    draws = {choice["parameter"] for choice in every if choice.get("draw")}
    assert draws == {"SEED"}
    assert all(choice.get("draw") for choice in every if choice["parameter"] == "SEED")
