"""Where the project lies on disk: the folder that holds notebooks/, data/, figures/ and runs/."""

import os
import re
from pathlib import Path


def root() -> Path:
    """The project's folder: $PPKIT_HOME, else the nearest folder above the working directory, else
    the package's own.

    A folder counts when it holds both `notebooks/` and `ppkit/`.
    FileNotFoundError if none does; the message says what to set.
    """
    if os.environ.get("PPKIT_HOME"):
        return Path(os.environ["PPKIT_HOME"]).resolve()
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        if (folder / "notebooks").is_dir() and (folder / "ppkit").is_dir():
            return folder
    raise FileNotFoundError(
        f"no ppkit project at or above {here}: change into the clone, or set PPKIT_HOME to it"
    )


def with_block(text: str, name: str, block: str) -> str:
    """Markdown with what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced;
    unchanged where it has none.

    >>> with_block("<!-- begin n -->\\nold\\n<!-- end n -->", "n", "new")
    '<!-- begin n -->\\nnew\\n<!-- end n -->'
    """
    return re.sub(
        rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)",
        lambda found: f"{found[1]}{block}\n{found[2]}",
        text,
        flags=re.DOTALL,
    )
