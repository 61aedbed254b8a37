"""Lay out a folder of pages as Sphinx reads them, and let Sphinx write the site."""

import os
import shutil
import tempfile
from pathlib import Path

from ppkit import project
from tools.site import carried, pages

HERE = Path(__file__).parent
NOT_NEEDED = ("**/*.map", "_static/webpack-macros.html", ".buildinfo", "objects.inv")


def build(target: Path) -> int:
    """Build the site of the project into folder `target`, which is emptied first.

    Returns 0, or another number if Sphinx warned or failed; what it says goes to stderr.
    """
    from sphinx.cmd.build import main as sphinx  # an extra: the kit runs without it

    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="ppkit-site-") as folder:
        stage = Path(folder, "pages")
        carried.copy(project.root(), stage)
        pages.write(project.root(), stage)
        carried.settle_links(project.root(), stage)
        os.environ["SOURCE_DATE_EPOCH"] = "0"  # no date of building in any page
        flags = ["-q", "-W", "--keep-going", "-b", "html"]
        places = ["-c", HERE, "-d", Path(folder, "doctrees"), stage, target]
        code = sphinx([*flags, *map(str, places)])
    for pattern in NOT_NEEDED:
        for file in target.glob(pattern):
            file.unlink()
    return code
