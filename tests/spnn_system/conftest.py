"""Fixtures of the tests of the system."""

import shutil
import subprocess
import sys
import types

import pytest
from network_runs import Forked
from played_roles import PLAYER, play
from waiting import FAR

from ppkit import datasets
from ppkit.spnn.vertical import fraud
from spnn_system import config, example, launch
from spnn_system.transport import certificates


@pytest.fixture
def forked(monkeypatch):
    """The launcher's roles start in a moment."""
    instead = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(launch, "subprocess", instead)


@pytest.fixture(scope="session")
def made_run(tmp_path_factory):
    """A config, two holders' files and certificates, copied for each test."""
    folder = tmp_path_factory.mktemp("made")
    path = example.write(
        folder,
        fraud(datasets.load("creditcard", source="standin", rows=2_000)),
        timeout=FAR,
        batch=400,
    )
    certificates.make(folder / "certificates", config.load(path).roles)
    return folder


@pytest.fixture
def path(made_run, tmp_path, monkeypatch):
    """The config of a run whose roles are the stand-ins."""
    folder = tmp_path / "try"
    shutil.copytree(made_run, folder)
    (tmp_path / "player.py").write_text(PLAYER, "utf-8")
    monkeypatch.setattr(launch, "ROLE", [sys.executable, str(tmp_path / "player.py")])
    play(folder / "config.toml")
    return folder / "config.toml"
