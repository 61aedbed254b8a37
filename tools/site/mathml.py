"""Formulas as MathML, written while the site is built: a page loads no script and no font."""

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOG = logging.getLogger(__name__)
# TeX sets capital Greek letters upright, MathML slants every single letter.
CAPITAL_GREEK = re.compile(r"<mi>(&#x0039[1-9A-F];|&#x003A[0-9];|[\u0391-\u03a9])</mi>")


def mathml(tex: str, display: str) -> str:
    r"""A formula as MathML; display: "inline" or "block".

    ValueError if the library does not know a command of it, which it would show as text.

    >>> "<mfrac>" in mathml(r"\frac{1}{x}", "inline")
    True
    """
    made = convert(tex, display=display)
    if "\\" in made:
        raise ValueError("a command is not known")
    return CAPITAL_GREEK.sub(r'<mi mathvariant="normal">\1</mi>', made)


def write(translator, node, display: str) -> None:
    """Put a formula into the page; where that fails the page shows the TeX, and Sphinx warns."""
    tex = node.astext()
    try:
        made = mathml(tex, display)
    except Exception as error:  # the library has a dozen of its own, with no common class
        LOG.warning("formula %r: %s", tex, error, location=node)
        made = f"<code>{escape(tex)}</code>"
    tag = "span" if display == "inline" else "div"
    translator.body.append(f'<{tag} class="math notranslate">{made}</{tag}>')
    raise nodes.SkipNode


def write_inline(translator, node) -> None:
    write(translator, node, "inline")


def write_block(translator, node) -> None:
    write(translator, node, "block")


def setup(app) -> dict:
    """Tell Sphinx of the renderer."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(write_inline, None), block_renderers=(write_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
