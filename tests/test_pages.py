"""The pages of a run: readable without a network, and the index says what happened."""

import re

import nbformat
import pandas as pd
import pytest

from ppkit import ledger, show
from ppkit.runner import index, pages, run_folder

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
            "seeds": [0],
            "versions": {"python": "3.11"},
            "machine": {"summary": "a machine"},
            "notebooks": notebooks,
        },
    )
    [row] = [row for row in ledger.merge([]) if row["id"] == "wang2018.table1.row5.basic"]
    decided = {
        **row,
        "value": 18.506,
        "verdict": "reproduced",
        "alone": "reproduced",
        "notebook": "01_a",
        "data": "formula",
        "standing": "rerunnable",
        "profile": "quick",
    }
    run_folder.write_json(made.path / "claims" / "01_a.json", [decided])
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
        r'18\.51<br><span class="soft">[^<]+</span></td>\s*'
        rf'<td><span class="verdict" style="--verdict: {show.COLOURS["reproduced"]}">●\u00a0repro',
        text,
    )
    assert 'alt="A &lt; B"' in text and "2.0 GB" in text and ">12<" in text


def test_the_index_shows_the_rows_of_this_run_and_what_is_to_come_and_counts_the_others(folder):
    text = index.write(folder).read_text("utf-8")
    of_wang = [row for row in ledger.merge([]) if row["paper"] == "wang2018"]
    to_come = [row for row in of_wang if row["note"].startswith("to come: ")]
    assert text.count("<tr data-paper=") == text.count('data-paper="wang2018"') == len(to_come) + 1
    assert (
        f"{len(of_wang) - len(to_come) - 1} more rows belong to notebooks that this run left out"
        in text
    )
    assert ledger.titles()["wang2018"] in text and ledger.titles()["wu2020"] not in text
    assert 'data-kind="claim" data-verdict="reproduced" data-data="formula"' in text


def test_the_index_shows_beside_a_row_what_the_reference_found_on_other_data(folder, project):
    rows = run_folder.read_json(folder.path / "claims.json")["claims"]
    real = {
        "verdict": "refuted",
        "alone": "refuted",
        "data": "real: 9 rows",
        "standing": "complete",
    }
    rows = [row | real if row["data"] else row for row in rows]
    (project.folder / "figures").mkdir(exist_ok=True)
    run_folder.write_json(project.folder / "figures" / "claims.json", {"run": {}, "claims": rows})
    text = index.write(folder).read_text("utf-8")
    assert "formula, quick<br>✕ refuted, ours 18.51 (real: 9 rows, quick)</td>" in text


def test_the_index_leads_with_the_findings_that_the_run_has_rows_of(folder):
    [finding] = {
        row["cause"] for row in ledger.merge([]) if row["id"] == "wang2018.table1.row5.basic"
    } - {None} or [None]
    text = index.write(folder).read_text("utf-8")
    titles = [one.title for one in ledger.findings() if one.id == finding]
    assert text.count("<article>") == len(titles) and all(title in text for title in titles)
