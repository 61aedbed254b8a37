"""The pages of a run: readable without a network, and the index says what happened."""

import re
from dataclasses import replace

import nbformat
import pandas as pd
import pytest

from ppkit import show
from ppkit.runs import differs, index, pages, run, run_folder
from ppkit.verdicts import ledger, rows, rules, statements, wording
from ppkit.verdicts.rows import Row, Sighting

VIEW = {
    "application/vnd.jupyter.widget-view+json": {"model_id": "0"},
    "text/plain": "FloatSlider()",
}
FROM_OUTSIDE = re.compile(
    r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//"""
    r"|@import|\bimport\s.*from"
)


@pytest.fixture
def page(tmp_path):
    """The HTML of a small notebook, and the folder it lies in."""
    new = nbformat.v4
    slider = new.new_code_cell("slider", outputs=[new.new_output("display_data", data=VIEW)])
    still = new.new_code_cell(
        "1", outputs=[new.new_output("execute_result", data={"text/plain": "the still"})]
    )
    notebook = new.new_notebook(
        cells=[new.new_markdown_cell("# T\n$$\\epsilon$$ [a](b.ipynb)"), slider, still],
        metadata={"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}}},
    )
    nbformat.write(notebook, tmp_path / "01_a.ipynb")
    pages.write(tmp_path / "01_a.ipynb", tmp_path / "01_a.html")
    pages.copy_mathjax(tmp_path)
    return (tmp_path / "01_a.html").read_text("utf-8"), tmp_path


@pytest.mark.slow
def test_a_page_asks_nothing_from_outside(page):
    text, _ = page
    assert not FROM_OUTSIDE.search(text) and "b.ipynb" not in text
    assert (
        "require.js" not in text
        and "require.min.js" not in text
        and "mermaid" not in text.lower().split("<main>")[0]
    )


@pytest.mark.slow
def test_the_mathjax_that_a_page_loads_lies_beside_it_with_its_fonts(page):
    text, folder = page
    [source] = re.findall(r'<script src="([^"]+)"', text)
    assert source == "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
    for needed in (
        "MathJax.js",
        "config/TeX-AMS-MML_HTMLorMML-full.js",
        "config/Safe.js",
        "jax/output/HTML-CSS/fonts/STIX-Web/fontdata.js",
        "extensions/a11y/accessibility-menu.js",
    ):
        assert (folder / "mathjax" / needed).is_file(), needed
    assert list((folder / "mathjax" / "fonts" / "HTML-CSS" / "STIX-Web" / "woff").glob("*.woff"))
    assert (
        sum(file.stat().st_size for file in (folder / "mathjax").rglob("*") if file.is_file()) < 5e6
    )
    assert text.index("text/x-mathjax-config") < text.index("mathjax/MathJax.js")


def test_widgets_go_and_the_still_stays(page):
    text, _ = page
    assert "FloatSlider" not in text and "widget-state" not in text and "the still" in text


HARMFUL = (
    "<script>alert(1)</script><p onclick='alert(2)'>words<a href='javascript:alert(3)'>link</a>"
    "<iframe srcdoc='alert(4)'></iframe><img src=x onerror='alert(5)'></p>"
)
KINDS = ("text/html", "text/markdown", "application/javascript", "application/unknown")


@pytest.mark.parametrize("kind", [*KINDS, "a markdown cell"])
def test_no_script_and_no_link_that_is_one_gets_onto_a_page(tmp_path, kind):
    new = nbformat.v4
    output = new.new_output("display_data", data={kind: HARMFUL, "text/plain": "the text"})
    cells = [new.new_code_cell("1", outputs=[output])]
    if kind == "a markdown cell":
        cells = [new.new_markdown_cell(HARMFUL + "\n\n[more](javascript:alert(6))")]
    nbformat.write(new.new_notebook(cells=cells), tmp_path / "a.ipynb", version=nbformat.NO_CONVERT)
    pages.write(tmp_path / "a.ipynb", tmp_path / "a.html")
    body = (tmp_path / "a.html").read_text("utf-8").split("<main")[1]
    for what in ("alert(", "javascript:", "onclick", "onerror", "<iframe", "srcdoc"):
        assert what not in body
    assert "words" in body or "the text" in body


def test_a_page_keeps_what_text_tables_pictures_and_formulas_need(tmp_path):
    """nbconvert's own filter, which is on at nbviewer, takes headings and heads of tables away."""
    new = nbformat.v4
    frame = pd.DataFrame({"a < b": [1.5]}).style.set_caption("c").to_html()
    picture = "<img alt='p' src='data:image/png;base64,iVBORw0KGgo='>"
    table = new.new_output("execute_result", data={"text/html": frame + picture}, execution_count=1)
    text = "# Head\n\n- one\n\n$a < b \\& c$, $$\\begin{aligned}x &= y\\end{aligned}$$"
    text += "\n\n|h|\n|-|\n|v|"
    cells = [new.new_markdown_cell(text), new.new_code_cell("1", outputs=[table])]
    nbformat.write(new.new_notebook(cells=cells), tmp_path / "a.ipynb")
    pages.write(tmp_path / "a.ipynb", tmp_path / "a.html")
    body = (tmp_path / "a.html").read_text("utf-8").split("<main")[1]
    for kept in ("<h1 id=", "<li>", "<th>h</th>", "<caption>c</caption>", "data:image/png;base64,"):
        assert kept in body, kept
    assert "$a &lt; b \\&amp; c$" in body and "x &amp;= y" in body
    assert 'class="col_heading level0 col0"' in body and "1.500000" in body


def test_a_link_to_a_file_leaves_its_words_and_one_to_the_web_stays():
    text = "[`solution`](solutions/a.ipynb), [rules](../b.toml), [web](https://a.org/b), [down](#c)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    pages.drop_links_to_files(notebook)
    assert notebook.cells[0].source == "`solution`, rules, [web](https://a.org/b), [down](#c)"


@pytest.fixture
def folder(project):
    """A run's folder with one notebook done, one failed, one waiting, and a decided claim."""
    notebooks = {
        "01_a": {"status": "done", "seconds": 12.3, "peak_memory_mb": 2048},
        "02_b": {
            "status": "failed",
            "seconds": 1.0,
            "peak_memory_mb": 100,
            "cell": 4,
            "heading": "Fig. <3>",
            "error": "ValueError: epsilon must be > 0, got -1",
            "traceback": ["----> 1 f(-1)"],
        },
        "03_c": {"status": "waiting"},
    }
    made = run_folder.create(
        project.folder / "runs",
        {
            "state": "running",
            "profile": "quick",
            "data": "auto",
            "key": "k",
            "commit": "",
            "versions": {"python": "3.11"},
            "machine": {"summary": "a machine"},
            "notebooks": notebooks,
        },
        run.Run,
    )
    [row] = [row for row in ledger.merge([]) if row.id == "wang2018.table1.row5.basic"]
    row = replace(row, value=18.506, verdict="reproduced", alone="reproduced", notebook="01_a")
    row = replace(row, data="formula", standing="rerunnable", profile="quick")
    rows.write(made.path / "claims" / "01_a.json", [row])
    run_folder.write_json(
        made.path / "figures" / "fig.json",
        {"name": "fig", "caption": "A < B", "notebook": "01_a", "data": "formula"},
    )
    made.close()
    made.release()
    return made


def test_the_index_names_the_failed_cell_the_verdict_and_what_is_missing(folder):
    text = index.write(folder).read_text("utf-8")
    assert "<b>02_b failed</b> in code cell [4], under “Fig. &lt;3&gt;”" in text
    assert "ValueError: epsilon must be &gt; 0, got -1" in text and "----&gt; 1 f(-1)" in text
    assert "<b>Not run to the end:</b> 03_c" in text
    assert re.search(
        r'data-is="ours">18\.51</td>\s*<td class="number" data-is="difference">0</td>\s*'
        rf'<td><span class="verdict" style="--verdict: {show.COLOURS["reproduced"]}">●&nbsp;repro',
        text,
    )
    assert 'alt="A &lt; B"' in text and "2.0 GB" in text and ">12<" in text


def test_the_index_shows_the_rows_of_this_run_and_counts_the_others(folder):
    text = index.write(folder).read_text("utf-8")
    of_wang = [row for row in ledger.merge([]) if row.paper == "wang2018"]
    assert text.count("<tr data-paper=") == text.count('data-paper="wang2018"') == 1
    assert f"{len(of_wang) - 1} more rows belong to notebooks that this run left out" in text
    assert statements.titles()["wang2018"] in text and statements.titles()["wu2020"] not in text
    assert 'data-kind="claim" data-verdict="reproduced" data-data="formula"' in text


def test_the_index_shows_beside_a_row_what_the_reference_found_on_other_data(folder, project):
    real = {"data": "real: 9 rows", "standing": "complete"}
    put_reference(folder, project, verdict="refuted", alone="refuted", **real)
    text = index.write(folder).read_text("utf-8")
    assert "On other data: ✕ refuted, ours 18.51 (real: 9 rows, quick)" in text


def sections(text: str) -> list[str]:
    return re.findall(r'<h2 id="(\w+)"', text)


def put_reference(folder, project, **other) -> None:
    """The run's own rows as the reference, those that it decided with other results."""
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, **other) if row.data else row for row in own]
    rows.write(project.folder / "figures" / "claims.json", own, run={}, pictures={})


def test_the_index_tells_what_failed_then_the_outcome_before_the_rows(folder):
    text = index.write(folder).read_text("utf-8")
    assert sections(text) == ["outcome", "rows", "pictures", "notebooks", "versions"]
    assert text.index("<b>02_b failed</b>") < text.index("<nav") < text.index('id="outcome"')


def test_the_menu_of_the_index_names_every_section_and_no_other(folder):
    text = index.write(folder).read_text("utf-8")
    menu = text.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'href="#(\w+)"', menu) == sections(text)


def test_the_index_asks_nothing_from_outside(folder):
    text = index.write(folder).read_text("utf-8")
    assert not FROM_OUTSIDE.search(text)
    assert "<script src" not in text and "<link" not in text and "http" not in text


def test_the_index_sets_the_difference_beside_the_printed_number_and_ours(folder):
    text = index.write(folder).read_text("utf-8")
    cells = re.findall(r'data-is="(printed|ours|difference)">([^<]*)<', text)
    assert cells == [("printed", "18.50"), ("ours", "18.51"), ("difference", "0")]


@pytest.mark.parametrize(
    "kind, printed, value, difference",
    [
        ("claim", "3.01", 3.00841, "0"),
        ("claim", "14,312", 14000.0, "-312.00 (-2.2%)"),
        ("claim", "1.88", 1.8884, "0"),
        ("claim", "1.88", 1.8746, "-0.0054 (-0.3%)"),
        ("claim", "3.01", 65.16, "+62.15 (+2,065%)"),
        ("claim", "-2.5", 2.5, "+5 (+200%)"),
        ("claim", "-2", -1.5, "+0.5 (+25.0%)"),
        ("claim", "-2", -2.016, "-0.016 (-0.8%)"),
        ("claim", "0", 0.25, "+0.25"),
        ("claim", "0.1", 0.14, "+0.04 (+40.0%)"),
        ("claim", "0.8637", 0.87251, "+0.0088 (+1.0%)"),
        ("claim", "1,000", 990, "-10.00 (-1.0%)"),
        ("claim", "O(1)", 1.0, ""),
        ("claim", "about half", 0.5, ""),
        ("claim", "3.01", None, ""),
        ("claim", None, 1.0, ""),
        ("question", "0.9", 0.1, ""),
    ],
)
def test_a_difference_is_ours_less_the_printed_number(kind, printed, value, difference):
    row = Row(
        id="p.a", kind=kind, paper="p", place="IV", says="It is.", printed=printed, value=value
    )
    assert wording.difference(row) == difference
    if kind == "claim" and printed:  # as one that we computed from printed numbers
        computed = replace(row, printed=None, computed=printed, how="printed numbers")
        assert wording.difference(computed) == difference


def test_the_outcome_shows_the_claims_that_a_paper_is_read_for(folder):
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, headline=bool(row.data)) for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    text = index.write(folder).read_text("utf-8")
    outcome = text.partition('id="outcome"')[2].partition("<h2")[0]
    assert "Of 1 claim: 1 reproduced." in outcome  # none of a paper that did not run
    assert "<li>" in outcome and "paper 18.50, ours 18.51" in outcome


def test_a_row_that_differs_from_the_reference_says_so_and_why(folder, project):
    folder.notebooks["01_a"] |= {"changed": ["CLIP", "SEED"], "parameters": {"CLIP": 2, "SEED": 7}}
    other = {"data": "stand-in: 9 rows", "profile": "paper"}
    put_reference(folder, project, verdict="refuted", alone="refuted", **other)
    text = index.write(folder).read_text("utf-8")
    said = (
        "The reference (paper profile, stand-in): refuted; here (formula): reproduced. Why: "
        "other profile (quick here, paper there); "
        "other data (formula here, stand-in: 9 rows there); "
        "changed parameters (CLIP = 2, SEED = 7)."
    )
    assert said in text and 'data-beside="another verdict"' in text
    assert "1 of the 1 rows has another verdict than the reference" in text


def test_a_row_with_the_references_verdict_says_nothing_of_it(folder, project):
    put_reference(folder, project, value=18.4)
    text = index.write(folder).read_text("utf-8")
    assert 'class="differs"' not in text and 'data-beside="another verdict"' not in text
    assert "No row has another verdict than the reference." in text


HERE = Row(
    id="p.a",
    kind="claim",
    paper="p",
    place="IV",
    says="It is.",
    verdict=rules.UNDECIDED,
    data="stand-in: 9 rows",
    profile="quick",
)


@pytest.mark.parametrize(
    "kept, about, why",
    [
        ({}, {}, "profile, data and parameters are the same, the code is not (commit b here)"),
        ({"commit": "b"}, {}, "profile, data and parameters are the same, so it is this machine's"),
        ({"profile": "paper"}, {}, "other profile (quick here, paper there)"),
        ({"data": "real: 9 rows"}, {}, "other data (stand-in: 9 rows here, real: 9 rows there)"),
        ({"data": None}, {}, "no run of the reference decided this row"),
        ({}, {"changed": ["A"], "parameters": {"A": 1}}, "changed parameters (A = 1)"),
        (
            {"verdict": "depends on the data", "depends_on": ["the data"]},
            {},
            "the reference compares it with real rows too",
        ),
        (
            {"verdict": "depends on box", "depends_on": ["box"]},
            {},
            "other settings are not weighed here",
        ),
    ],
)
def test_why_a_verdict_differs_from_the_references(kept, about, why):
    reference = replace(HERE, **({"verdict": rules.REPRODUCED, "commit": "a"} | kept))
    told = differs.told(HERE, reference, about, "b")
    assert f"): undecided. Why: {why}" in told


def test_the_index_shows_the_two_runs_of_which_a_row_s_verdict_is_made(folder):
    seen = [
        Sighting(setting="clip 1", value=18.506, verdict="reproduced", data="formula"),
        Sighting(setting="clip 10", value=2.0, verdict="not reproduced", data="formula"),
    ]
    turned = {"verdict": "depends on clip", "depends_on": ["clip"], "witness": seen}
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, **turned) if row.data else row for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    text = index.write(folder).read_text("utf-8")
    assert "clip 1: 18.51 (reproduced) against clip 10: 2 (not reproduced)" in text
    assert "Of 1 claim: 1 that depend on a choice or on the data." in text
    assert 'data-verdict="depends on"' in text and "◇&nbsp;depends on clip" in text


def test_a_row_whose_rule_changed_after_its_run_says_so(folder):
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, stale=True) if row.data else row for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    assert "its rule has changed since this run: run it again" in index.write(folder).read_text()


def test_a_row_shows_the_words_of_its_rule(folder):
    words = wording.rule(statements.claims("wang2018")["wang2018.table1.row5.basic"].rule)
    assert f"Rule: {words}" in index.write(folder).read_text("utf-8")
