"""One role in one process: `python -m spnn_system coordinator CONFIG`, or `... A CONFIG`."""

import argparse
import importlib
import os
import sys
from pathlib import Path

from ppkit.process_tree import THREAD_COUNTS, die_with_parent
from spnn_system.config import NOT_HOLDERS, Config, load


def start(config: Config, role: str, *, resume: bool = False, fresh: bool = False) -> int:
    """Run one role to its end, in this process; returns its exit code: 0 done, 1 stopped.

    role: "coordinator", "server", "dealer" or a holder's name.  resume: go on from the last step
    that all have.
    fresh: a new run may delete what an earlier one left here.
    ValueError or FileNotFoundError for what it cannot start with, before it starts
    (`preflight.check`).
    """
    config.check_role(role)
    # gRPC's own lines: the log says who was refused
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # before NumPy and torch are loaded
    os.environ.update(dict.fromkeys(THREAD_COUNTS, str(config.training.threads)))
    from spnn_system import preflight

    preflight.check(config, [role], resume=resume, fresh=fresh)
    if role in NOT_HOLDERS:
        return importlib.import_module(f"spnn_system.roles.{role}").main(config, resume=resume)
    return importlib.import_module("spnn_system.roles.holder").main(config, role, resume=resume)


def main(arguments: list[str] | None = None) -> int:
    """The exit code: as `start`, and 2 for bad input, which is one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m spnn_system", allow_abbrev=False)
    parser.add_argument("role", help="coordinator, server, dealer, or a holder's name")
    parser.add_argument("config", type=Path)
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last step that all roles have"
    )
    parser.add_argument(
        "--predict", action="store_true", help="score the new rows by the trained network"
    )
    parser.add_argument(
        "--parent", type=int, help="end when this process ends: for who starts several roles"
    )
    given = parser.parse_args(arguments)
    if given.parent is not None:
        die_with_parent(given.parent)
    try:
        config = load(given.config)
        config = config.prediction() if given.predict else config
        # fresh without asking: who starts several has asked already
        return start(config, given.role, resume=given.resume, fresh=not given.resume)
    except (ValueError, FileNotFoundError) as error:
        print(f"ppkit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # all is written and closed; to take gRPC and torch apart would take seconds
    os._exit(ended)
