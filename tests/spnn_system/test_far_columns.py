"""Columns that are far too large stop a run at its first step: their holder names them in its own
log, the others hear which holder it is, and nobody is told to lower the learning rate.
"""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from network_runs import finished, made, small_rows, started, status

from spnn_system import data
from spnn_system.roles.coordinator import Coordinator, Ended

pytestmark = pytest.mark.processes

PROTOCOLS = {
    "masked": dict(protocol="masked"),
    "lean": dict(protocol="ss", form="lean"),
    "published": dict(protocol="ss", form="published"),
    "he": dict(protocol="he", key_bits=512),
}


def with_income(conf, scale: float = 1e12, *, rows: slice = slice(None)) -> None:
    """B's file gets one column more, of large numbers in these rows."""
    file = conf.holder("B").data
    table = pd.read_parquet(file)
    income = torch.zeros(len(table))
    drawn = torch.rand(len(table), generator=torch.Generator().manual_seed(2))
    income[rows] = drawn[rows]
    table.assign(income=scale * income.double().numpy()).to_parquet(file, index=False)


def stopped(conf) -> dict[str, str]:
    """The log of every role of a run that stops."""
    roles = started(conf)
    codes = {name: role.wait() for name, role in roles.items()}
    assert codes["B"] == codes["coordinator"] == 2 and all(codes.values())
    return {name: role.said() for name, role in roles.items()}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_run_that_stops_at_its_first_step_names_the_cause(tmp_path, name):
    conf = made(tmp_path / "it", small_rows(), **PROTOCOLS[name])
    with_income(conf)
    said = stopped(conf)
    own = (
        "holder B has columns that are far too large to send: 'income'; subtract the mean of its "
        "training rows from each and divide by their deviation: a smaller lr does not help"
    )
    assert own in said["B"]
    assert "far from standardised: 'income'" in said["B"]
    sentence = status(conf)["sentence"]
    assert sentence.startswith(
        "holder B has features that are far too large to send: it must standardise them, and a "
        "smaller lr does not help (more in run/B/log.txt): the run stops at step "
    )
    assert "--resume" not in sentence
    for role in set(said) - {"B"}:
        assert sentence in said[role] and "income" not in said[role]
    assert all("income" not in file.read_text() for file in conf.folder.glob("coordinator/*.json*"))


@pytest.mark.parametrize(
    "step, says",
    [
        (0, "before anything was learnt: features of a holder are far too large, and a smaller lr"),
        (1, "each holder's own log names its columns"),
        (2, "the training diverges, so take a smaller lr, and standardise the features that each"),
    ],
)
def test_who_else_meets_such_numbers_at_the_start_says_whose_they_may_be(tmp_path, step, says):
    """With a server's own layers, say, h_L may leave float32 though every h1 fits."""
    conf = made(tmp_path / "it", small_rows())
    coordinator = Coordinator(conf, SimpleNamespace())
    for seen in coordinator.roster.roles.values():
        seen.step = step
    with pytest.raises(Ended, match=f"^holder A met numbers that it must not send.* {says}.*") as e:
        coordinator._stopped_by("A", {"kind": "stopped", "why": "values", "role": None})
    assert e.value.code == 1


def test_test_rows_that_are_far_too_large_are_named_too(tmp_path):
    conf = made(tmp_path / "it", small_rows(), epochs=1)
    with_income(conf, rows=slice(230, None))
    said = stopped(conf)
    assert "columns that are far too large to send: 'income'; " in said["B"]
    assert data.read(conf, "B")[0].shape == (320, 3)


def test_a_constant_and_a_column_far_from_standardised_go_on(tmp_path):
    conf = made(tmp_path / "it", small_rows(), epochs=1, lr=0.01)
    with_income(conf, 30.0)
    file = conf.holder("B").data
    pd.read_parquet(file).assign(one=1.0).to_parquet(file, index=False)
    roles = finished(conf)
    for role, log in roles.items():
        is_named = "'income'" in log.said() and "'one'" in log.said()
        assert is_named == (role == "B")
