"""Pages that the repository has already, and what they link to.

They are laid out as in the repository, so that a link between two files holds as it is.
"""

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "notebooks/*.md",
    "notebooks/*.ipynb",
    "notebooks/records/*.ipynb",
    "notebooks/solutions/*.ipynb",
    "data/README.md",
    "data/cards/*.md",
    "benchmarks/README.md",
    "figures/README.md",
    "findings/README.md",
    "spnn_system/README.md",
)
PICTURES = ("figures/*.png", "figures/settings/*.png", "docs/*.png")
# Folders that the site has a list of.
LISTS = {
    "notebooks": "lessons.md",
    "notebooks/records": "records.md",
    "notebooks/solutions": "solutions.md",
}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def copy(root: Path, stage: Path) -> None:
    """Copy the pages and pictures of the project in `root` into folder `stage`."""
    for pattern in (*PAGES, *PICTURES):
        for file in sorted(root.glob(pattern)):
            _copy_file(file, stage / file.relative_to(root))


def _copy_file(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def settle_links(root: Path, stage: Path) -> None:
    """Make every link between files hold in the site.

    A link to a folder goes to the page that lists it or to its README, and keeps only its words
    where there is neither. A file that is no page comes along, as a download.
    """
    for file in sorted(stage.rglob("*.md")):
        text = file.read_text("utf-8")
        settled = _settled(text, file.relative_to(stage), root, stage)
        if settled != text:
            file.write_text(settled, "utf-8")
    for file in sorted(stage.rglob("*.ipynb")):
        notebook = json.loads(file.read_text("utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                cell["source"] = _settled(text, file.relative_to(stage), root, stage)
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        file.write_text(text + "\n", "utf-8")


def _settled(text: str, page: Path, root: Path, stage: Path) -> str:
    """The text of a page with its links settled; page: its place in the stage."""

    def settle(link: re.Match) -> str:
        words, address, anchor = link[1], link[2], link[3] or ""
        place = PurePosixPath(os.path.normpath(page.parent / address))
        if (stage / place).is_file():
            return link[0]
        if place.as_posix() in LISTS:
            target = os.path.relpath(LISTS[place.as_posix()], page.parent)
            return f"[{words}]({target})"
        source = root / place
        if (source / "README.md").is_file():
            return f"[{words}]({address.rstrip('/')}/README.md{anchor})"
        if source.is_file() and ".." not in place.parts:
            _copy_file(source, stage / place)
            return link[0]
        return words

    return LINK.sub(settle, text)
