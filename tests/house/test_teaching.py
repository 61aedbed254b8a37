"""The teacher's page knows every notebook, its minutes, and every section that it names."""

import re

import nbformat
import pytest
from house import ROOT

FOLDER = ROOT / "notebooks"
PAGE = (FOLDER / "TEACHING.md").read_text("utf-8")
LESSONS = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb"))}
# of the table of notebooks: name, minutes to read, minutes of the exercises, MB
ROWS = re.findall(r"^\| \[(\w+)\]\(\1\.ipynb\) \|.+\| (\d+) \| (\d+) \| ([\d,]+) \|$", PAGE, re.M)
SHORT = {name.partition("_")[0]: name for name in LESSONS}


def text_of(name: str) -> str:
    cells = nbformat.read(LESSONS[name], as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}")[2].partition("\n## ")[0]


def test_every_notebook_stands_in_the_table_once():
    assert sorted(name for name, *_ in ROWS) == sorted(LESSONS)


@pytest.mark.parametrize("name, reading, exercises, memory", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_the_minutes_of_its_notebook(name, reading, exercises, memory):
    said = rf"Plan {reading} minutes to read and predict, and {exercises} for the exercises"
    assert re.search(said, text_of(name))
    # what was measured keeps what the notebook says
    most = re.search(r"(?:under|less than) (\d) GB", text_of(name))
    assert int(memory.replace(",", "")) <= 1_024 * int(most[1])


# What the page calls a section of: "narrative 2, sections 1 to 5", "01a, section 2".
PLACE = re.compile(
    r"(?:narrative )?\b(\d|\d\d[a-c])\]?(?:\([^)]*\))?, sections? (\d+)(?: (to|and) (\d+))?"
)


def test_every_section_that_a_class_is_sent_to_exists():
    sent = [
        (short, int(n))
        for short, first, _, last in PLACE.findall(PAGE)
        for n in (first, last or first)
    ]
    assert len(sent) > 30
    for short, number in sent:
        assert f"\n## {number}. " in f"\n{text_of(SHORT[short])}", f"{short}, section {number}"


def test_the_session_goes_through_narrative_2_in_its_order():
    minutes = [int(line) for line in re.findall(r"^\| (\d+) \|", section("Your gradient"), re.M)]
    assert minutes == sorted(minutes) and minutes[0] == 0 and minutes[-1] < 90
    rows = [line for line in section("Your gradient").splitlines() if line.startswith("| ")]
    asked = [line for line in rows if "**Hands up:**" in line]
    of_narrative_2 = text_of("2_backtracking").count("**Question.**")
    assert len(asked) == of_narrative_2 + 1  # and the one of 00


def test_ten_questions_each_with_what_a_good_answer_has():
    questions = re.findall(r"^(\d+)\. \*\*.+?\*\* .{60,}$", section("Ten questions"), re.M)
    assert questions == [str(k) for k in range(1, 11)]


def test_points_of_the_rubric_add_up():
    rows = re.findall(r"^\| \*\*.+\|$", section("Hand-in and rubric"), re.M)
    assert 2 * len(rows) == 10 and "Ten points" in section("Hand-in and rubric")
