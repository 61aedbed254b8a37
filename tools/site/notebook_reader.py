"""How the site reads a notebook: folded cells stay folded, what needs a kernel is left out, and a
picture has words."""

import ast
import re

import nbformat

from ppkit.output_kinds import SHOWN, WIDGET_VIEW

# A formula on lines of its own needs a paragraph of its own, as JupyterLab draws it.
DISPLAY = re.compile(r"\n*\$\$(.+?)\$\$\n*", re.DOTALL)


def read(text: str) -> nbformat.NotebookNode:
    """A notebook from its text, as `nb_custom_formats` asks for."""
    notebook = nbformat.reads(text, as_version=4)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = DISPLAY.sub(r"\n\n$$\1$$\n\n", cell.source).strip("\n")
        if cell.cell_type == "code":
            fold(cell)
            cell.outputs = [output for output in cell.outputs if is_seen(output)]
            describe(cell)
    return notebook


def fold(cell) -> None:
    """Tag a cell whose source is hidden in JupyterLab, so that it is folded here, too."""
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        cell.metadata.setdefault("tags", []).append("hide-input")


def is_seen(output) -> bool:
    """Whether a page without a kernel has something to show: no widget, no empty text."""
    data = output.get("data")
    if data is None:
        return True
    if WIDGET_VIEW in data:
        return False
    words = data.get("text/plain", "").strip()
    return bool(set(SHOWN) & set(data)) or bool(words) and not words.startswith("VBox(children=")


def describe(cell) -> None:
    """Give the picture of a cell its words, for a reader who does not see it."""
    if any("image/png" in output.get("data", {}) for output in cell.outputs):
        image = {"alt": words_of_picture(cell.source)}
        cell.metadata["mystnb"] = {"image": image}


def words_of_picture(source: str) -> str:
    """The titles and the caption that a cell gives its figure, without what only a run knows.

    >>> words_of_picture('caption = f"{n} seeds."\\nshow.finish(fig, "name", caption, data=x)')
    '… seeds.'
    >>> words_of_picture('ax.set(title="Loss")\\nshow.finish(fig, "name", "Low is good.", data=x)')
    'Loss. Low is good.'
    """
    tree = ast.parse(source)
    texts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts[node.targets[0].id] = as_text(node.value)
    titles, caption = [], ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            titles += titles_in(node, node.func.attr)
            if node.func.attr == "finish" and len(node.args) > 2:
                given = node.args[2]
                caption = texts.get(given.id, "") if isinstance(given, ast.Name) else as_text(given)
    words = [f"{title}." for title in titles if title] + [caption]
    return " ".join(filter(None, words)) or "The figure that the cell above draws."


def titles_in(call: ast.Call, method: str) -> list[str]:
    """The titles of axes that a call of a method sets."""
    if method in ("set_title", "suptitle") and call.args:
        return [as_text(call.args[0])]
    return [as_text(keyword.value) for keyword in call.keywords if keyword.arg == "title"]


def as_text(node: ast.expr) -> str:
    """A text in the source, with a sign of omission for what only a run knows; "" for no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(as_text(part) or "…" for part in node.values)
    return ""
