"""The pages for readers: their links lead somewhere, and the numbers in docs/ are those of the
reference."""

import re
from pathlib import Path

import nbformat
import pytest
from house import ROOT

from ppkit.verdicts import ledger, rules, statements, wording

PAGES = sorted((ROOT / "docs").glob("*.md"))
READ_ALONG = ("*.md", "[!.]*/README.md", "data/cards/*.md", "notebooks/TEACHING.md")
READ_ALONG += ("notebooks/*.ipynb", "notebooks/records/*.ipynb", "notebooks/solutions/*.ipynb")
LINKED = [*PAGES, *(page for names in READ_ALONG for page in sorted(ROOT.glob(names)))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
BLOCK = re.compile(r"<!-- begin ([a-z ]+) -->\n(.*?)<!-- end \1 -->", re.S)

# a number on the page of pitfalls, and the row that it was rounded from
QUOTED = {
    "wang2018.table1.row1.advanced_holds": "6.5",
    "wang2018.table1.row5.advanced_holds": "85",
    "wang2018.appB.returned_values": "2.5",
    "wang2018.thm4_2.true_sign": "6.5",
    "wang2018.headline.attained_half": "490",
    "wang2018.def2_3.l2_laplace": "4",
    "wang2018.fig3.same_steps": ".16",
    "wang2018.fig3.beats": ".007",
    "wang2018.unit.transaction": "4",
    "wang2018.everything_tuned": "13.4",
    "kanodia2020.noise.patience": "3.8",
    "kanodia2020.library.shuffled": "5.9",
    "zhou2021.labels.server.fraud": "1.00",
    "zhou2021.server.known_records.sgld": "1.00",
    "zhou2021.table2.sgld_attack": ".50",
    "zhou2021.table2.reduces_adaptive": ".02",
}


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def anchors(page: str) -> set[str]:
    """The anchors that a host of repositories gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page, re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def words_of(page: Path) -> str:
    """The text of a page, or of a notebook's cells in Markdown."""
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return text


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading(page):
    for link in LINK.findall(CODE.sub("", words_of(page))):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(words_of(target)), f"{page.name}: {link}"


def test_every_row_that_a_page_names_is_one():
    ids = set(statements.every_claim())
    papers = "|".join(statements.papers())
    named = {
        row
        for page in PAGES
        for row in re.findall(rf"`((?:{papers})\.[\w.]+)`", page.read_text("utf-8"))
    }
    assert set(QUOTED) <= named <= ids


@pytest.mark.parametrize("row, quoted", QUOTED.items())
def test_a_quoted_number_is_that_of_the_row(row, quoted):
    [value] = [one.value for one in ledger.reference() if one.id == row]
    digits = len(quoted.partition(".")[2])
    assert f"{abs(value):.{digits}f}".removeprefix("0") == quoted.removeprefix("0")
    before = text_of("pitfalls.md").partition(f"`{row}`")[0][-250:]
    assert re.search(rf"(?<![\d.]){re.escape(quoted)}(?!\d)", before)


def test_advice_on_methods_quotes_the_table_below_it():
    page = text_of("which_one.md")
    table = "".join(text for _, text in BLOCK.findall(page))
    advice = page[page.index("## 1.") : page.index("**How far this goes.**")]
    quoted = re.findall(r"(?<![\d.])(\d*\.\d+)", advice) + re.findall(
        r"(?<![\d.,])[\d,]+ MB", advice
    )
    assert len(quoted) > 15
    for number in quoted:
        number = f"0{number}" if number.startswith(".") else number
        assert re.search(rf"(?<![\d.]){re.escape(number)}", table), number


def test_every_sign_of_a_verdict_is_explained():
    explained = dict(re.findall(r"^\| (\S) \| ([^|]+) \|", text_of("verdicts.md"), re.M))
    signs = wording.SYMBOLS.items()
    words = {sign: outcome.removesuffix(" on other data") for outcome, sign in signs}
    plain = {sign: rules.plain(verdict.strip()) for sign, verdict in explained.items()}
    assert plain == words


def test_every_pitfall_has_a_section_and_every_section_a_line_in_the_table():
    page = text_of("pitfalls.md")
    listed = re.findall(r"^\| \[(.+)\]\(#.+\) \|", page, re.M)
    assert listed == re.findall(r"^## (.+)$", page, re.M)


def test_glossary_is_alphabetical_and_says_where_each_word_is_met():
    entries = re.findall(r"^\*\*(.+?)\.\*\* (.+)$", text_of("glossary.md"), re.M)
    words = [word.lower() for word, _ in entries]
    assert words == sorted(words) and len(words) == len(set(words))
    assert all("](../notebooks/" in sentence for _, sentence in entries)
