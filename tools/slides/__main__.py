"""Build the slides: python -m tools.slides REVEAL [FOLDER], by default build/slides.

REVEAL: the folder of reveal.js, as a package brings it.
"""

import sys
from pathlib import Path

from tools.slides import build

if __name__ == "__main__":
    reveal, *folder = map(Path, sys.argv[1:])
    build.build(reveal, *folder or [Path("build/slides")])
