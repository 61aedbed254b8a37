"""Slides of the narratives: a title first, few words on each, and nothing from another host."""

import re

import nbformat
import pytest
from house import ROOT

from ppkit.runs import Refused
from tools.slides import build

DECKS = sorted((ROOT / "notebooks").glob(build.NARRATIVES))
KINDS = {"slide", "subslide", "fragment", "-", "skip", "notes"}
decks = pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)


def kind(cell) -> str:
    return cell.metadata.slideshow.slide_type


def slides(path) -> list[list]:
    """The cells that are visible, by slide."""
    found: list[list] = []
    for cell in nbformat.read(path, as_version=4).cells:
        if kind(cell) in ("slide", "subslide"):
            found.append([cell])
        elif kind(cell) in ("-", "fragment"):
            found[-1].append(cell)
    return found


def words(cell) -> list[str]:
    """The words of a cell on its slide: its text, or what it printed and its tables."""
    if cell.cell_type == "markdown":
        return cell.source.split()
    shown = []
    for output in cell.outputs:
        table = output.get("data", {}).get("text/html", "")
        table = re.sub(r"<style.*?</style>|<[^>]*>", " ", table, flags=re.DOTALL)
        shown.append(output.get("text", "") + table)
    return " ".join(shown).split()


def pictures(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def test_each_narrative_has_a_deck():
    assert [path.stem[0] for path in DECKS] == ["1", "2", "3", "4"]


@decks
def test_every_cell_says_whether_it_is_on_a_slide(path):
    assert {kind(cell) for cell in nbformat.read(path, as_version=4).cells} <= KINDS
    assert 8 <= len(slides(path)) <= 14


@decks
def test_a_deck_begins_with_its_title(path):
    [title] = slides(path)[0]
    assert title.source.startswith("# ") and "**The paper:**" in title.source


@decks
def test_a_slide_has_one_heading_one_picture_and_few_words(path):
    for cells in slides(path):
        visible = sum((words(cell) for cell in cells), [])
        assert 0 < len(visible) + sum(map(pictures, cells))
        assert len(visible) <= 120, " ".join(visible)
        assert sum(map(pictures, cells)) <= 1
        headings = [cell for cell in cells if cell.source.startswith("#") and kind(cell) != "-"]
        assert len([cell for cell in headings if cell.cell_type == "markdown"]) <= 1


@decks
def test_a_prediction_is_asked_on_a_slide_before_that_which_answers_it(path):
    asked = [
        k
        for k, cells in enumerate(slides(path))
        for cell in cells
        if "show.predict(" in cell.source
    ]
    judged = [
        k for k, cells in enumerate(slides(path)) for cell in cells if "show.judge(" in cell.source
    ]
    assert asked and len(asked) == len(judged)
    assert all(before < after for before, after in zip(asked, judged))


@pytest.fixture
def reveal(tmp_path):
    for part in build.PARTS:
        file = tmp_path / "brought" / part
        file = file / "notes.js" if part.startswith("plugin") else file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(part)
    return tmp_path / "brought"


@pytest.mark.slow
def test_a_deck_shows_its_slides_and_loads_nothing_from_elsewhere(
    reveal, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(build, "NARRATIVES", DECKS[0].name)
    (tmp_path / "built").mkdir()
    (tmp_path / "built/older.html").write_text("")
    build.build(reveal, tmp_path / "built")
    [page] = (tmp_path / "built").glob("*.html")
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text("utf-8")
    loaded = re.findall(r"""(?:\bsrc|<link[^>]*\bhref)\s*=\s*["']([^"']+)""", text)
    files = {address.partition("?")[0] for address in loaded if not address.startswith("data:")}
    assert {"reveal.js/dist/reveal.js", "mathjax/MathJax.js"} <= files
    assert all((tmp_path / "built" / file).is_file() for file in files)
    assert "@import" not in text and "import mermaid" not in text
    body = text[text.index('<div class="slides">') :]
    assert len(re.findall(r"<section\b", body)) - len(slides(DECKS[0])) == len(
        [cells for cells in slides(DECKS[0]) if kind(cells[0]) == "slide"]
    )  # nbconvert puts each column of slides into one more section
    assert "show.judge" not in body  # no code


def test_a_folder_without_reveal_is_refused(tmp_path):
    with pytest.raises(Refused, match=r"is no folder of reveal\.js: it has no LICENSE$"):
        build.build(tmp_path, tmp_path / "built")
    assert not (tmp_path / "built").exists()
