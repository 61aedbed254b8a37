"""`make fit-standins`: exit code 2 if a name or a file is refused."""

import argparse
import sys

from ppkit.validation import one_of
from tools.standins import fitting


def main(arguments: list[str] | None = None) -> int:
    """Fit the stand-ins to the real files that are here, measure them, write the data cards."""
    parser = argparse.ArgumentParser(prog="make fit-standins")
    parser.add_argument("names", nargs="*", help=f"{', '.join(fitting.FITS)}; none for all")
    parser.add_argument(
        "--measure", action="store_true", help="keep the parameters, only measure them again"
    )
    given = parser.parse_args(arguments)
    renew = fitting.measure if given.measure else fitting.fit
    try:
        for name in given.names:
            one_of(fitting.FITS, name=name)
        for name in given.names or fitting.FITS:
            about = renew(name)
            said = f"{name}: {about['bytes']:,} bytes from {about['fitted_on']}"
            print(f"{said}, data/cards/{name}.md renewed", flush=True)
    except (ValueError, FileNotFoundError) as error:
        print(f"fit-standins: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
