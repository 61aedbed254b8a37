"""One role in one process."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from played_roles import change, started, typed
from waiting import FAR

from spnn_system import __main__ as one_role

pytestmark = pytest.mark.processes


def ended(path, *roles):
    """Whether these roles have begun, and the launcher knows that they have ended."""
    seen = started(path)
    return set(roles) <= set(seen) and not any(
        psutil.pid_exists(seen[role]["pid"]) for role in roles
    )


def test_one_role_by_hand(path, ppkit, monkeypatch):
    """Every role's command starts that role, with its own certificate and port checked, and threads
    as the config says.
    """
    called = []

    class Module:
        @staticmethod
        def main(*arguments, resume):
            called.append(
                (
                    module,
                    *(given if isinstance(given, str) else given.path.name for given in arguments),
                    resume,
                )
            )
            return 1 if resume else 0

    def found(name):
        nonlocal module
        module = name.rpartition(".")[2]
        return Module

    module = ""
    monkeypatch.setattr(one_role, "importlib", SimpleNamespace(import_module=found))
    for name in one_role.THREAD_COUNTS:
        monkeypatch.setenv(name, "7")
    change(path, "threads = 1 ", "threads = 3 ")
    # the others do not need it
    shutil.rmtree(path.parent / "certificates" / "B")
    for arguments in (["coordinator"], ["server"], ["holder", "--name", "A"]):
        assert ppkit("spnn", arguments[0], str(path), *arguments[1:]) == (0, "", "")
    assert ppkit("spnn", "server", str(path), "--resume") == (1, "", "")
    assert (
        one_role.main(["A", str(path)]) == 0
        and one_role.main(["coordinator", str(path), "--resume"]) == 1
    )
    assert called == [
        ("coordinator", "config.toml", False),
        ("server", "config.toml", False),
        ("holder", "config.toml", "A", False),
        ("server", "config.toml", True),
        ("holder", "config.toml", "A", False),
        ("coordinator", "config.toml", True),
    ]
    assert {os.environ[name] for name in one_role.THREAD_COUNTS} == {"3"}
    for arguments, sentence in (
        (
            ["dealer"],
            f"{typed(path)} has no role 'dealer': with protocol 'masked' there are coordinator, "
            "server, A, B",
        ),
        (["holder", "--name", "C"], f"{typed(path)} has no role 'C': with protocol 'masked' there"),
        (
            ["holder", "--name", "B"],
            f"the certificates of B are not in {path.parent}/certificates/B: ",
        ),
    ):
        code, out, said = ppkit("spnn", arguments[0], str(path), *arguments[1:])
        assert (
            (code, out) == (2, "")
            and said.startswith(f"ppkit: {sentence}")
            and said.count("\n") == 1
        )


def test_one_role_in_its_own_process_says_what_is_wrong_in_one_sentence(path):
    command = [sys.executable, "-m", "spnn_system", "C", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=FAR)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        f"ppkit: {typed(path)} has no role 'C': with protocol 'masked' there are coordinator, "
        "server, A, B\n",
    )
    ended = subprocess.run([*command, "--parent", "1"], capture_output=True, text=True, timeout=FAR)
    assert (ended.returncode, ended.stderr) == (
        1,
        "the process 1 that started this one has ended\n",
    )
