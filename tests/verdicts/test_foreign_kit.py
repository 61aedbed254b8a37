"""The verdicts and runs know no paper: a kit of two others, copied to an empty folder, is run once,
as a batch of four points that is interrupted and goes on, and shown."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from waiting import until

from ppkit.verdicts import rows

KIT = Path(__file__).with_name("foreign_kit")
PPKIT = Path(sys.executable).with_name("ppkit")

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """The kit in a folder that is in no other kit, run once, with the four settings of both its
    statements; that run is its reference."""
    folder = tmp_path_factory.mktemp("elsewhere") / "kit"
    shutil.copytree(KIT, folder)
    told(folder, "reproduce")
    told(folder, "reproduce", "estimates", "--settings")
    runs = sorted(path.name for path in (folder / "runs").iterdir() if not path.is_symlink())
    told(folder, "reference", *runs)
    return folder


def environment() -> dict[str, str]:
    ours = ("PPKIT_HOME", "PPKIT_SOURCE", "PYTHONPATH")
    others = {name: value for name, value in os.environ.items() if name not in ours}
    return others | {"COLUMNS": "200"}


def told(folder: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [PPKIT, *arguments], cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_five_claims_are_decided_each_by_its_own_rule(kit):
    about, decided = rows.read(kit / "figures/claims.json")
    assert {row.id: row.verdict for row in decided} == {
        "estimates.mean.near": "depends on numbers",
        "estimates.harmonic.bound": "refuted",
        "micrograd.example.forward": "reproduced",
        "micrograd.example.dg_da": "reproduced",
        "micrograd.example.dg_db": "reproduced",
    }
    near, bound, forward, *_ = decided
    assert [one.verdict for one in near.witness] == ["reproduced", "not reproduced"]
    assert near.robustness.tried == 1 and near.robustness.same == 0
    assert bound.repaired and forward.printed == "24.7041"
    assert about["run"]["profile"] == "quick"


def test_what_came_out_is_shown(kit):
    said = told(kit, "claims")
    assert "5 of 5 claims were measured in figures/claims.json." in said
    assert "● 3" in said and "✕ 1" in said and "◇ 1" in said
    page = (kit / "runs/latest/index.html").read_text("utf-8")
    assert "private learning" not in page
    whole = told(kit, "claims", "--rows", "estimates.harmonic.bound")
    assert "what would be true" in whole and "ln n + 1, for every n" in whole


def test_a_batch_goes_on_where_it_was_interrupted(kit, tmp_path):
    folder = tmp_path / "kit"
    shutil.copytree(kit, folder, ignore=shutil.ignore_patterns("runs"))
    asked = ("reproduce", "estimates", "--grid", "SEED=1..4", "--jobs", "1")
    started = subprocess.Popen(
        [PPKIT, *asked], cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    )
    until(lambda: list(folder.glob("runs/*/points/0000/claims.json")))
    started.send_signal(signal.SIGINT)
    assert started.wait() == 130
    [run] = [path for path in (folder / "runs").iterdir() if not path.is_symlink()]
    before = {path.name: path.stat().st_mtime_ns for path in (run / "points").iterdir()}
    assert 1 <= len(before) < 4
    assert f"{len(before)} of 4 points are there" in told(folder, *asked)
    table = pd.read_csv(run / "table.csv")
    assert sorted(table["SEED"].unique()) == [1, 2, 3, 4] and set(table["status"]) == {"done"}
    assert len(table) == 8 and (run / "index.html").exists()
    for name, when in before.items():
        assert (run / "points" / name).stat().st_mtime_ns == when


def test_two_runs_are_compared_by_what_they_conclude(kit):
    said = told(kit, "compare", "reference", "latest", code=2)
    assert "verdicts of its own" in said  # latest is a batch
    [first, *_] = sorted(path.name for path in (kit / "runs").iterdir() if not path.is_symlink())
    assert "5 rows in both: 5 same digits." in told(kit, "compare", "reference", first)


def test_its_notebooks_print_what_is_committed(tmp_path):
    folder = tmp_path / "kit"
    shutil.copytree(KIT, folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", "notebooks"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
