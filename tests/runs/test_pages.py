"""The page of a notebook: readable without a network, without scripts."""

import re

import nbformat
import pandas as pd
import pytest

from ppkit.runs import pages

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


def test_a_page_asks_no_host_for_a_picture_and_links_to_no_page_within_itself(tmp_path):
    image = "data:image/png;base64,iVBORw0KGgo="
    html = (
        f'<a href="data:text/html,hello">a</a><a href="https://example.org">b</a>'
        f'<img src="{image}"><img src="https://example.org/c.png"><img src="//example.org/d.png">'
    )
    kept = pages.harmless(html)
    assert "data:text" not in kept and 'href="https://example.org"' in kept
    assert image in kept and "c.png" not in kept and "d.png" not in kept
    cell = nbformat.v4.new_markdown_cell(html)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    pages.write(tmp_path / "a.ipynb", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert image in page and "example.org/c.png" not in page and "data:text/html" not in page
