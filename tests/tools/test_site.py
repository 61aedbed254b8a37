"""The site that `make site` builds: no dead link, nothing from another host, a page for every claim
and lesson, words for every picture, every printed cell judged or said not to be."""

import html
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import nbformat
import pytest
from house import ROOT

from ppkit.output_kinds import WIDGET_VIEW
from ppkit.verdicts import ledger, statements, wording
from tools.site import carried, mathml, notebook_reader, pages

built = [pytest.mark.processes, pytest.mark.slow]
OUTSIDE = ("http:", "https:", "//")
LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "link": "href"}


@dataclass
class Page(HTMLParser):
    """What a test asks of a page."""

    text: str
    ids: set = field(default_factory=set)
    links: list = field(default_factory=list)
    loaded: list = field(default_factory=list)
    pictures: list = field(default_factory=list)
    filters: dict = field(default_factory=dict)

    def __post_init__(self):
        HTMLParser.__init__(self)
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in LOADED and found.get(LOADED[tag]):
            self.loaded.append(found[LOADED[tag]])
        if tag == "img":
            self.pictures.append((found.get("src", ""), found.get("alt")))
        if tag == "tr" and "data-row" in found:
            for name, value in found.items():
                self.filters.setdefault(name.removeprefix("data-"), set()).add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make site` does, from anywhere."""
    folder = tmp_path_factory.mktemp("site") / "built"
    command = [sys.executable, "-m", "tools.site", str(folder)]
    environment = os.environ | {"PPKIT_HOME": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    return folder


@pytest.fixture(scope="module")
def read(site) -> dict[str, Page]:
    """Every page, by its place in the site."""
    return {
        file.relative_to(site).as_posix(): Page(file.read_text("utf-8"))
        for file in sorted(site.rglob("*.html"))
    }


class TestBuilt:
    pytestmark = built

    def test_no_link_is_dead_and_no_anchor_is_missing(self, site, read):
        dead = []
        for name, page in read.items():
            for link in page.links:
                address = urlsplit(link)
                if address.scheme or address.netloc or link.startswith("#") and len(link) < 2:
                    continue
                target = (
                    (site / name).parent / unquote(address.path) if address.path else site / name
                )
                place = os.path.relpath(target, site)
                if not target.is_file():
                    dead.append(f"{name}: {link}")
                elif place == "ledger.html" and "=" in address.fragment:
                    asked = parse_qsl(address.fragment)
                    if not all(value in read[place].filters[key] for key, value in asked):
                        dead.append(f"{name}: {link} finds no row")
                elif place in read and address.fragment:
                    if unquote(address.fragment) not in read[place].ids:
                        dead.append(f"{name}: {link} has no such anchor")
        assert dead == []

    def test_nothing_is_asked_of_another_host(self, site, read):
        asked = [
            f"{name}: {one}"
            for name, page in read.items()
            for one in page.loaded
            if one.startswith(OUTSIDE)
        ]
        styles = {file: file.read_text("utf-8") for file in site.rglob("*.css")}
        asked += [
            f"{file.name}: {one}"
            for file, text in styles.items()
            for one in re.findall(r"(?:url\(|@import\s)\s*['\"]?([^'\")\s]+)", text)
            if one.startswith(OUTSIDE)
        ]
        assert styles and asked == []

    def test_what_a_page_loads_lies_in_the_site(self, site, read):
        missing = [
            f"{name}: {one}"
            for name, page in read.items()
            for one in page.loaded
            if not one.startswith(("data:", "#"))
            and not ((site / name).parent / unquote(urlsplit(one).path)).is_file()
        ]
        assert missing == []

    def test_every_claim_has_a_page_that_shows_its_number_and_why(self, read):
        for paper in statements.papers():
            for id, claim in statements.claims(paper).items():
                page = read[f"claims/{id}.html"]
                words = html.unescape(page.text)
                assert f"<code>{id}</code>" in words
                assert (claim.because or "") in words
                assert (claim.amended or "") in words
                assert f"../papers/{paper}.html" in "".join(page.links)
        for row in ledger.reference():
            words = html.unescape(read[f"claims/{row.id}.html"].text)
            assert f"{wording.symbol(row)} {wording.verdict(row)}</span>" in words
            for said in (row.missing, row.repaired, row.witness and wording.seen(row)):
                assert not said or f"<dd>{said}</dd>" in words
            if row.out_of_reach:
                told = f"{row.out_of_reach['what']}. {wording.price(row)}"
                assert f"<dd>{told}</dd>" in words
            assert f"<dd>{wording.ours(row) or 'not measured'}</dd>" in words
            assert f"<dd>{wording.printed(row) or 'no number'}</dd>" in words

    def test_every_row_is_in_the_ledger_and_leads_to_its_page(self, read):
        links = set(read["ledger.html"].links)
        ids = {row.id for row in ledger.reference()}
        assert {f"claims/{id}.html" for id in ids} <= links

    def test_a_lesson_leads_to_the_next_and_the_one_before(self, read):
        names = pages.lessons(ROOT)
        assert names[0] == "00_start_here"
        for before, after in zip(names, names[1:]):
            assert f"{after}.html" in read[f"notebooks/{before}.html"].links
            assert f"{before}.html" in read[f"notebooks/{after}.html"].links

    def test_every_notebook_and_every_page_of_docs_is_read(self, read):
        for folder in ("notebooks", "notebooks/records", "notebooks/solutions", "docs"):
            for file in [*(ROOT / folder).glob("*.ipynb"), *(ROOT / folder).glob("*.md")]:
                assert f"{folder}/{file.stem}.html" in read

    def test_every_picture_is_described(self, read):
        undescribed = [
            f"{name}: {source[:60]}"
            for name, page in read.items()
            for source, words in page.pictures
            if not words or words.endswith((".png", ".svg")) or "_images/" in words
        ]
        assert undescribed == []

    @pytest.mark.parametrize("paper", statements.papers())
    def test_a_cell_without_a_claim_reads_not_judged_and_is_counted(self, read, paper):
        text = read[f"papers/{paper}.html"].text
        judged = {tuple(claim.cell or ()) for claim in statements.claims(paper).values()}
        cells = [
            ((table.name, row, column) in judged, table.name)
            for table in statements.tables(paper)
            for row, printed in table.rows.items()
            for column, words in zip(table.columns, printed, strict=True)
            if words
        ]
        unjudged = sum(not is_judged for is_judged, _ in cells)
        assert text.count('<span class="soft unjudged">not judged</span>') == unjudged
        assert f"<strong>{unjudged} are not judged</strong>" in text
        told = re.findall(r"<p>(\d+) cells, (\d+) not judged\.", text)
        assert sum(int(n) for _, n in told) == unjudged
        assert sum(int(n) for n, _ in told) == len(cells)

    def test_a_formula_is_mathml_and_no_text_of_tex_is_left(self, read):
        page = read["notebooks/01a_dpstgd_upload.html"].text
        assert "<math" in page and "MathJax" not in page

    def test_what_needs_a_kernel_is_left_out(self, read):
        assert not [name for name, page in read.items() if "VBox(children=" in page.text]


def test_an_unknown_command_in_a_formula_is_an_error():
    assert "<mfrac>" in mathml.mathml(r"\frac{1}{2}", "inline")
    with pytest.raises(ValueError, match="not known"):
        mathml.mathml(r"\nosuchcommand{1}", "inline")


def notebook_with(*cells) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    return notebook_reader.read(nbformat.writes(notebook))


def test_a_cell_that_is_folded_in_jupyterlab_is_folded_here():
    folded = nbformat.v4.new_code_cell("1", metadata={"jupyter": {"source_hidden": True}})
    first, second = notebook_with(folded, nbformat.v4.new_code_cell("2")).cells
    assert first.metadata.tags == ["hide-input"] and "tags" not in second.metadata


def test_a_widget_and_an_output_without_words_are_left_out_and_a_picture_has_words():
    view = {WIDGET_VIEW: {}, "text/plain": "IntSlider()"}
    outputs = [
        nbformat.v4.new_output("display_data", data=data)
        for data in (
            view,
            {"text/plain": "VBox(children=(...))"},
            {"application/vnd.ppkit.fingerprint+json": "a", "text/plain": ""},
            {"image/png": "", "text/plain": "<Figure>"},
            {"text/plain": "1"},
        )
    ]
    source = 'show.finish(fig, "name", "Low is good.", data=FORMULA)'
    [cell] = notebook_with(nbformat.v4.new_code_cell(source, outputs=outputs)).cells
    assert [sorted(one.data)[0] for one in cell.outputs] == ["image/png", "text/plain"]
    assert cell.metadata.mystnb.image.alt == "Low is good."


def test_a_formula_on_lines_of_its_own_gets_a_paragraph():
    [cell] = notebook_with(nbformat.v4.new_markdown_cell("so\n$$x$$\nis")).cells
    assert cell.source == "so\n\n$$x$$\n\nis"


def test_a_link_to_a_file_comes_along_and_a_link_to_a_folder_keeps_its_words(tmp_path):
    root, stage = tmp_path / "root", tmp_path / "stage"
    for place in ("docs", "code", "data"):
        (root / place).mkdir(parents=True)
    (root / "code/a.py").write_text("1")
    (root / "data/README.md").write_text("# Data")
    text = (
        "[a](../code/a.py) [b](../code) [c](../data#x) [d](../notebooks/records) [e](https://e.org)"
    )
    (root / "docs/page.md").write_text(text)
    carried.copy(root, stage)
    carried.settle_links(root, stage)
    assert (stage / "docs/page.md").read_text() == (
        "[a](../code/a.py) b [c](../data/README.md#x) [d](../records.md) [e](https://e.org)"
    )
    assert (stage / "code/a.py").exists()
