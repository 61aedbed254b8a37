"""The claims.json of a run or of the reference."""

from pathlib import Path

from ppkit.runs import Refused
from ppkit.verdicts import rows
from ppkit.verdicts.rows import Row


def read_claims(path: Path) -> list[Row]:
    """The rows of a run or of the reference; Refused if the file is damaged, or of another schema
    than this ppkit's."""
    try:
        return rows.read(path)[1]
    except ValueError as error:
        raise Refused(str(error)) from None
