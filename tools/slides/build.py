"""A deck of each narrative: its cells whose metadata say that they are slides, without code.

A page reads without a network: reveal.js and MathJax lie in folders beside it.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

from ppkit import project
from ppkit.atomic_writing import write_whole
from ppkit.runs import Refused, pages

if TYPE_CHECKING:
    from nbconvert import SlidesExporter

TEMPLATE = Path(__file__).with_name("slides.html.j2")
NARRATIVES = "[1-4]_*.ipynb"  # in notebooks/: those that have a deck
REVEAL = "reveal.js"
PARTS = ("LICENSE", "dist/reveal.css", "dist/reveal.js", "dist/theme/white.css", "plugin/notes")
SIZE = 1280, 720  # of a slide
NOTHING = {"text/plain": ""}  # what is left of a picture's fingerprint


def build(reveal: Path, target: Path) -> None:
    """Write a deck of each narrative into folder `target`, which is emptied first.

    reveal: the folder of reveal.js, version 5.
    Refused if reveal.js is not there.
    """
    for part in PARTS:
        if not (reveal / part).exists():
            raise Refused(f"{reveal} is no folder of reveal.js: it has no {part}")
    shutil.rmtree(target, ignore_errors=True)
    for part in PARTS:
        _copy(reveal / part, target / REVEAL / part)
    pages.copy_mathjax(target)
    for notebook in sorted((project.root() / "notebooks").glob(NARRATIVES)):
        page = target / f"{notebook.stem}.html"
        write_whole(page, deck(notebook))
        print(page)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def deck(notebook: Path) -> str:
    """The slides of a notebook as HTML, which expects reveal.js and MathJax in folders beside it.

    Its links to files stay as words: those files are not beside the page.
    """
    content = nbformat.read(notebook, as_version=4)
    pages.drop_links_to_files(content)
    pages.drop_what_is_not_shown(content)
    for cell in content.cells:
        if "outputs" in cell:
            cell.outputs = [one for one in cell.outputs if one.get("data") != NOTHING]
    about = {"metadata": {"name": notebook.stem}}
    text, _ = _exporter().from_notebook_node(content, resources=about)
    return text


def _exporter() -> "SlidesExporter":
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(template_file=str(TEMPLATE))
    exporter.exclude_input = exporter.exclude_output_prompt = True
    exporter.reveal_url_prefix = REVEAL
    exporter.reveal_theme = "white"
    exporter.reveal_width, exporter.reveal_height = map(str, SIZE)
    exporter.mathjax_url = f"{pages.MATHJAX}/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
    return exporter
