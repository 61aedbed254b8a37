"""The page of a notebook: HTML that reads without a network, mathematics included."""

import re
import shutil
from importlib import util
from pathlib import Path

from ppkit.writing import whole, write_whole

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MATHJAX = "mathjax"
# What TeX in, HTML out in STIX-Web never asks for; all else of MathJax is copied.
NOT_NEEDED = ("SVG", "localization", "mathmaps", "asciimath2jax.js")
TEMPLATES = Path(__file__).with_name("templates")


def write(notebook: Path, page: Path) -> None:
    """Write the notebook in file `notebook` as HTML to `page`, which expects MathJax in the folder
    beside it."""
    import nbformat  # slow to import, and the process that only copies MathJax needs neither
    from nbconvert import HTMLExporter

    content = nbformat.read(notebook, as_version=4)
    drop_widgets(content)
    drop_links_to_files(content)
    exporter = HTMLExporter(template_file=str(TEMPLATES / "notebook.html.j2"))
    exporter.mathjax_url = f"{MATHJAX}/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
    text, _ = exporter.from_notebook_node(content, resources={"metadata": {"name": notebook.stem}})
    write_whole(page, text)


def drop_widgets(notebook) -> None:
    """Take widgets and their state out of a notebook: what a page without a kernel cannot move, the
    stills show."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                output for output in cell.outputs if WIDGET_VIEW not in output.get("data", {})
            ]


def drop_links_to_files(notebook) -> None:
    """Leave of a link to a file only its words: that file is not beside the page."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(?<!!)\[([^]]+)\]\((?!\w+:|#)[\w./-]+\)", r"\1", cell.source)


def copy_mathjax(folder: Path) -> None:
    """Put MathJax beside the pages in `folder`, once a run."""
    target = folder / MATHJAX
    if not target.exists():
        with whole(target) as part:
            shutil.copytree(mathjax(), part, ignore=shutil.ignore_patterns(*NOT_NEEDED))


def mathjax() -> Path:
    """The folder of MathJax, as its package has it."""
    return Path(util.find_spec("jupyter_server_mathjax").origin).parent / "static"
