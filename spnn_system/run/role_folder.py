"""A role's own folder: taken by one process at a time, closed to other users, with what the role
leaves there.
"""

import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from spnn_system.config import Config
from spnn_system.run.reports import named
from spnn_system.transport.endpoint import Endpoint

SECRETS = ("secret.key", "paillier.key")  # kept for as long as a run can go on
RECORD, MESSAGES, METRICS, PARAMETERS, FEATURES, SCORES = (
    "received.frames",
    "messages.jsonl",
    "metrics.json",
    "parameters.npz",
    "features.json",
    "scores.csv",
)
STATUS, LOG = "status.json", "log.txt"  # of the coordinator; of who starts a role


class RoleFolder:
    """A role's folder made its own: nobody else may read it (0700), and no second process of the
    role may use it.

    log: of the messages that it sends.

    Until `close`, or until the process ends, however that is.  ValueError if another process of the
    role has it: then nothing in there was touched.
    """

    def __init__(self, config: Config, role: str):
        self.config, self.role, self.path = config, role, config.folder_of(role)
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        self._lock = FileLock(private(self.path / "lock"), blocking=False, thread_local=False)
        try:
            self._lock.acquire()
        except OSError:
            raise ValueError(
                f"{named(role)} of this run is running already: another process has "
                f"{self.path.name}/ in "
                f"{self.path.parent}"
            ) from None
        self.log = MessageLog(self.path / MESSAGES)

    def clear(self) -> None:
        """Remove what an earlier run left, for one that starts anew."""
        left = RECORD, MESSAGES, METRICS, PARAMETERS, FEATURES, SCORES
        for pattern in (*SECRETS, "step-*", "journal.txt", *left):
            for path in self.path.glob(pattern):
                path.unlink()

    def forget_secrets(self) -> None:
        """All roles are done: nobody goes on from here."""
        for name in SECRETS:
            (self.path / name).unlink(missing_ok=True)

    def endpoint(self, accepts: Mapping[str, set[str]]) -> Endpoint:
        """The role's endpoint, as its config has it, with the log; where the config wants it, with
        a record of all that comes.
        """
        config, network = self.config, self.config.network
        record = private(self.path / RECORD) if network.record else None
        return Endpoint(
            self.role,
            config.addresses,
            run=config.run,
            certificates=network.certificates,
            links=network,
            accepts=accepts,
            record=record,
            log=self.log.add,
        )

    def close(self) -> None:
        self._lock.release()


class MessageLog:
    """What an Endpoint logs, kept until `write`; may be added to from several threads, and
    is written by one.

    An event is what was refused.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lines: deque[bytes] = deque()

    def add(self, line: dict) -> None:
        """Take a line."""
        self._lines.append(json.dumps(line).encode() + b"\n")

    def write(self) -> None:
        """Append all that was added since the last time.  OSError where the disk is full."""
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        cut_to_lines(private(self._path))
        with open(self._path, "ab") as file:
            file.writelines(lines)

    def close(self) -> None:
        """Write at the end what can be written: the disk may be full."""
        with suppress(OSError):
            self.write()


def private(path: Path) -> Path:
    """The same path, where a file now is that only its owner may read (0600); its content stays."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    return path


def cut_to_lines(path: Path) -> None:
    """Cut off what a killed process or a full disk left behind a file's last newline."""
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
