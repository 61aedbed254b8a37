"""Files and folders that are written whole or not at all, whatever ends the writer meanwhile."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; what is there when the block ends takes the name `path`.

    A file, a link, or a folder where there is none yet of that name.  The name changes in one step.
    If the block fails, `path` stays as it was and nothing lies beside it.  Each process has a place
    of its own.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # a folder
        part.unlink(missing_ok=True)


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
