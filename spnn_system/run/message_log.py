"""A role's messages.jsonl: a line for each message that it sent, and for what it refused.

It is whole after a torn write, and does not grow with the junk that comes in.
"""

import json
import mmap
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from spnn_system.run.role_folder import private

MOST = 20  # refusals of a kind that get a line each


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

    Every message that was sent gets its line. Events are what was refused, failed or came out of
    turn: the first MOST of one kind from one role have lines, and so for connections without a
    certificate. The others are counted, and `close` says how many they were.
    seen: how many there were of each, by (event, role).
    """

    def __init__(self, path: Path):
        self.seen: Counter = Counter()
        self._told: Counter = Counter()
        self._path, self._lines, self._lock = path, [], threading.Lock()

    def add(self, line: dict) -> None:
        """Take a line; one for several events says "times"."""
        with self._lock:
            if "event" in line:
                about, times = (line["event"], line.get("from")), line.get("times", 1)
                self.seen[about] += times
                if self._told[about] >= MOST:
                    return
                self._told[about] += times
            self._keep(line)

    def write(self) -> None:
        """Append all that was added since the last time.  OSError where the disk is full."""
        with self._lock:
            lines, self._lines = self._lines, []
        with open(private(self._path), "a+b") as file:
            cut_to_lines(file)
            file.writelines(lines)

    def close(self) -> None:
        """Write the rest, and what was only counted.  OSError as `write`."""
        for (event, role), times in (self.seen - self._told).items():
            self._keep(
                {
                    "event": "left out",
                    "at": time.time(),
                    "from": role,
                    "times": times,
                    "why": f"{times} more {event!r}: only the first {MOST} have their lines",
                }
            )
            self._told[event, role] += times
        self.write()

    def _keep(self, line: dict) -> None:
        self._lines.append(json.dumps(line).encode() + b"\n")
