"""Files and folders that are written whole or not at all, whatever ends the writer meanwhile; files
that are for one user alone.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".part"  # how the name of what is not whole yet ends


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; what is there when the block ends takes the name `path`.

    A file, a link, or a folder where there is none yet of that name.  The name changes in one step.
    If the block fails, `path` stays as it was and nothing lies beside it.  Each process has a place
    of its own; what a killed one of the same number left there goes first.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    remove(part)
    try:
        yield part
        os.replace(part, path)
    finally:
        remove(part)


def remove(path: Path) -> None:
    """Take away a file, a link or a folder with all that is in it, where there is one."""
    shutil.rmtree(path, ignore_errors=True)  # a folder; of a link nothing goes
    path.unlink(missing_ok=True)


def write_whole(
    path: Path, content: str | bytes, *, mode: int = 0o666, durable: bool = False
) -> None:
    """Write a file whole or not at all, as `whole` does.

    content: text is written as UTF-8.  mode: who may read a new file, less the umask.
    durable: wait until the disk has it, so that it is whole also after a power failure.
    OSError where the disk is full or cannot be written; what was there before then stays.
    """
    with whole(path) as part:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())


def read_secret(path: Path) -> bytes:
    """The content of a file that only its owner may open, as ssh wants its keys.

    ValueError if its mode lets other users in (on POSIX; elsewhere modes say nothing).
    """
    if os.name == "posix" and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
        raise ValueError(
            f"{path} is open to other users of this machine (mode {mode:04o}): make a new one if "
            "others may have read it, else `chmod 600` it"
        )
    return path.read_bytes()
