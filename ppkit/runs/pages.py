"""The page of a notebook: HTML that reads without a network, mathematics included."""

import re
import shutil
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ppkit.atomic_writing import whole, write_whole
from ppkit.output_kinds import SHOWN, WIDGET_VIEW

if TYPE_CHECKING:
    from nbconvert import HTMLExporter
    from nbformat import NotebookNode

KEPT = {*SHOWN, "text/plain"}  # kinds of output that stay on a page; all others go
MATHJAX = "mathjax"
# What TeX in, HTML out in STIX-Web never asks for; all else of MathJax is copied.
NOT_NEEDED = ("SVG", "localization", "mathmaps", "asciimath2jax.js")
TEMPLATES = Path(__file__).with_name("templates")
TAGS = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption "
    "figure h1 h2 h3 h4 h5 h6 hr i img input ins kbd li mark ol p pre s samp small span strong sub "
    "summary sup table tbody td tfoot th thead tr u ul var"
).split()


def of_data(address: str) -> bool:
    """Whether a link holds its content in itself: such a page could hold a script."""
    return re.sub(r"\s", "", address).lower().startswith("data:")


def at_hand(address: str) -> bool:
    """Whether a picture is in the page or beside it: no other host is asked when it is read."""
    return address.lower().startswith("data:image/") or not re.match(r"\s*(\w+:|//)", address)


ATTRIBUTES = {
    "*": ["class", "id", "style", "title", "align", "aria-hidden"],
    "a": lambda _, name, value: name in ("rel", "target") or name == "href" and not of_data(value),
    "img": lambda _, name, value: (
        name in ("alt", "width", "height") or name == "src" and at_hand(value)
    ),
    "input": ["type", "checked", "disabled"],
    "ol": ["start"],
    "table": ["border"],
    "td": ["colspan", "rowspan"],
    "th": ["colspan", "rowspan", "scope"],
}
WITHOUT_WORDS = re.compile(r"<(script|style)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)


def write(notebook: Path, page: Path) -> None:
    """Write the notebook in file `notebook` as HTML to `page`, which expects MathJax in the folder
    beside it.

    Scripts, and links that are scripts, do not get onto the page, whoever put them into a cell or
    an output.
    """
    import nbformat  # slow to import, and the process that only copies MathJax does without

    content = nbformat.read(notebook, as_version=4)
    drop_links_to_files(content)
    drop_what_is_not_shown(content)
    about = {"metadata": {"name": notebook.stem}}
    text, _ = _exporter().from_notebook_node(content, resources=about)
    write_whole(page, text)


@cache
def _exporter() -> "HTMLExporter":
    """What writes pages; it keeps the templates that it has compiled."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_file=str(TEMPLATES / "notebook.html.j2"), sanitize_html=True)
    exporter.register_filter("clean_html", harmless)
    exporter.mathjax_url = f"{MATHJAX}/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
    return exporter


def drop_what_is_not_shown(notebook: "NotebookNode") -> None:
    """Take out of a notebook what no page shows: widgets, which a page without a kernel cannot move
    and the stills show, other kinds of output such as scripts, and what an output says of its
    size."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [one for one in cell.outputs if WIDGET_VIEW not in one.get("data", {})]
        for output in cell.get("outputs", []):
            if "data" in output:
                output.data = {kind: one for kind, one in output.data.items() if kind in KEPT}
                output.metadata = {}


def harmless(html: str) -> str:
    """HTML without scripts and styles, with the tags and attributes that text, tables and pictures
    need.

    nbconvert's own filter takes headings, table heads and paragraphs away, too.

    >>> harmless('<h1>A</h1><script>b()</script><a href="javascript:c()">d</a>')
    '<h1>A</h1><a>d</a>'
    """
    import bleach
    from bleach.css_sanitizer import CSSSanitizer

    return bleach.clean(
        WITHOUT_WORDS.sub("", str(html)),
        tags=TAGS,
        attributes=ATTRIBUTES,
        protocols=[*bleach.ALLOWED_PROTOCOLS, "data"],
        css_sanitizer=CSSSanitizer(),
        strip=True,
    )


def drop_links_to_files(notebook: "NotebookNode") -> None:
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
    package = metadata.distribution("jupyter_server_mathjax")
    return Path(str(package.locate_file("jupyter_server_mathjax/static")))
