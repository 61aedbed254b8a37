"""Build the site: python -m tools.site [FOLDER], by default build/site."""

import sys
from pathlib import Path

from tools.site import build

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/site"
    sys.exit(build.build(Path(folder).resolve()))
