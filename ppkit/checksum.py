"""The checksum by which a file is known."""

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
