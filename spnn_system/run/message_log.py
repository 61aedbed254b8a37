"""A role's messages.jsonl: a line for each message that it sent, and for what it refused; whole
after a torn write.
"""

import json
import mmap
import os
import threading
from pathlib import Path
from typing import BinaryIO

from spnn_system.run.role_folder import private


def cut_to_lines(file: BinaryIO) -> None:
    """Cut off what a killed process or a full disk left behind a file's last newline.

    file: open for reading and appending.
    """
    if file.seek(0, os.SEEK_END):
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            whole = content.rfind(b"\n") + 1
        file.truncate(whole)


class MessageLog:
    """What an Endpoint logs, kept until `write`; may be added to from several threads.

    Events are what was refused, failed or came out of turn.
    """

    def __init__(self, path: Path):
        self._path, self._lines, self._lock = path, [], threading.Lock()

    def add(self, line: dict) -> None:
        """Take a line."""
        with self._lock:
            self._lines.append(json.dumps(line).encode() + b"\n")

    def write(self) -> None:
        """Append all that was added since the last time.  OSError where the disk is full."""
        with self._lock:
            lines, self._lines = self._lines, []
        with open(private(self._path), "a+b") as file:
            cut_to_lines(file)
            file.writelines(lines)
