"""The first result: it is the attack, not the transaction printed twice, and it leaves a
picture."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from ppkit import first
from ppkit.datasets import load


@pytest.fixture(scope="module")
def cards():
    return load("creditcard", source="standin", rows=100, seed=0)


@pytest.mark.parametrize("row", [1, 7, 98])
def test_the_gradient_gives_the_row_of_the_table(cards, row):
    truth, found = first.read_out(cards, row, rng=torch.Generator().manual_seed(row))
    np.testing.assert_array_equal(truth, cards.X[row, 1:].astype(np.float64))
    np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_what_comes_back_comes_from_the_gradient_alone(cards, monkeypatch):
    """A gradient twice as long in w gives a row twice as large: the division reads it, and nothing
    else."""
    honest = first.analytic.shared_gradient
    monkeypatch.setattr(
        first.analytic,
        "shared_gradient",
        lambda *given: [part * scale for part, scale in zip(honest(*given), (2, 1), strict=True)],
    )
    truth, found = first.read_out(cards, 7, rng=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(found, 2 * truth, rtol=1e-12)


def test_the_command_prints_both_and_names_its_picture(ppkit, project):
    code, said, _ = ppkit("first")
    picture = project.folder / "runs" / "first.png"
    assert (
        code == 0 and f"Picture: {picture}" in said and picture.read_bytes().startswith(b"\x89PNG")
    )
    [amount] = [line.split()[1:] for line in said.splitlines() if line.startswith("Amount")]
    assert (
        amount[0] == amount[1] and "29 of 29 numbers come back" in said and "Stand-in data" in said
    )


@pytest.mark.processes
@pytest.mark.slow
def test_the_command_loads_neither_a_compiler_nor_statistics(project):
    code = (
        "import sys\n"
        "from ppkit import first\n"
        "first.run()\n"
        "slow = {'sympy', 'torch._dynamo', 'scipy.stats', 'sklearn', 'IPython'}\n"
        "print(*sorted(slow & set(sys.modules)), end='', file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
