"""Fixtures of the tests of the system."""

import subprocess
import types

import pytest
from network_runs import Forked

from spnn_system import launch


@pytest.fixture
def forked(monkeypatch):
    """The launcher's roles start in a moment."""
    instead = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(launch, "subprocess", instead)
