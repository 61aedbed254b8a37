"""`make fit-standins`: exit code 1 if a stand-in is below a bar, 2 if it is refused."""

import argparse
import sys

from tools.standins import fitting


def main(arguments: list[str] | None = None) -> int:
    """Fit the stand-ins to the real files that are here, measure them, write the data cards."""
    parser = argparse.ArgumentParser(prog="make fit-standins")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help=f"{', '.join(fitting.FITS)}; none for all"
    )
    names, below = parser.parse_args(arguments).names, []
    try:
        for name in names:
            fitting.known(name)
        for name in names or fitting.FITS:
            about = fitting.fit(name)
            print(
                f"{name}: {about['bytes']:,} bytes from {about['fitted_on']}, data/cards/{name}.md "
                "renewed",
                flush=True,
            )
            below += [f"{name}, {sentence}" for sentence in fitting.missed(about)]
    except (ValueError, FileNotFoundError) as error:
        print(f"fit-standins: {error}", file=sys.stderr)
        return 2
    for sentence in below:
        print(sentence, file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
