"""What a seed draws is fixed, and the server's view is the protocol's."""

import numpy as np
import pytest

from ppkit.attacks.second_layer import Effort
from ppkit.datasets import load
from ppkit.spnn import second_layer_trials as trials

SMALL = trials.Size(n_rows=2_000, batch=1_000, n_epochs=2)


@pytest.fixture(scope="module")
def cards():
    return load("creditcard", source="standin", seed=0)


def test_the_seeds_are_those_that_were_written_down():
    assert [*trials.SEEDS] == list(range(47_000, 47_020))


@pytest.mark.slow
def test_in_fixed_point_the_server_gets_the_rounded_view_of_the_same_network(cards):
    clear, shared = (trials.drawn(47_000, cards, d, size=SMALL) for d in ("float", "fixed"))
    assert (clear.known == shared.known).all() and clear.task_auc == shared.task_auc
    apart = [np.abs(a - b) for a, b in zip(clear.views, shared.views, strict=True)]
    assert 0 < max(a.max() for a in apart) < 2.0**-10
    other = trials.drawn(47_001, cards, "float", size=SMALL)
    assert np.abs(other.views[0] - clear.views[0]).max() > 0.1


@pytest.mark.slow
def test_a_trial_that_fails_says_so(cards):
    effort = Effort(n_random=1, n_fits=1, n_steps=1)
    outcome = trials.trial(47_000, cards, "float", size=SMALL, effort=effort)
    assert not outcome.recovered and outcome.r2 is None and outcome.looks == 0
    assert outcome.why.startswith("not recovered")
