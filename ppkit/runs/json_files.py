"""JSON files of a run and of the reference: written whole, read or refused."""

import json
from pathlib import Path
from typing import Any

from ppkit.atomic_writing import write_whole
from ppkit.runs import Refused


def write_json(path: Path, content: object) -> None:
    """Write `content` as JSON, whole or not at all.  ValueError if it holds NaN or infinity, for
    which JSON has no word."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, text + "\n")


def read_json(path: Path) -> Any:
    """What a JSON file holds; Refused if it is cut off or no JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise Refused(f"{path} is damaged: {error}") from None
