"""Work in a forked process."""

import os
import warnings


def in_a_fork(work):
    """What `work()` returns (bytes), or the name of what it raised, in a forked process."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads
        child = os.fork()
    if not child:
        try:
            found = work()
        except BaseException as error:
            found = type(error).__name__.encode()
        os.write(write, found)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found
