#!/usr/bin/env bash
# Guess: a lower bound on epsilon, a PLD made with pessimistic_estimate=False, is finite and below the exact value at every delta.
#   Two engineers guessed so.
# Seen: in dp_accounting 0.6.0 self_compose counts a tail of 1e-15 as a total loss, also in the lower bound: that is above the exact
#   epsilon of two Gaussian rounds at delta = 1e-14 already, and inf at 1e-20.
# Why it matters: an audit sets what an attack attained beside a lower bound. Below a delta of 1e-13 this one may lie above the truth.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q dp-accounting==0.6.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - 2>"$folder/warnings" <<'PY'
import math
from importlib.metadata import version

from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import optimize, stats

print("dp-accounting", version("dp-accounting"))


def exact(delta, sigma):
    """The epsilon of one Gaussian round; n rounds with noise sigma are one with sigma / sqrt(n)."""

    def excess(epsilon):
        gained = stats.norm.logcdf(0.5 / sigma - epsilon * sigma)
        lost = epsilon + stats.norm.logcdf(-0.5 / sigma - epsilon * sigma)
        return gained + math.log1p(-math.exp(lost - gained)) - math.log(delta)

    return optimize.brentq(excess, 0.01, 100)


lower = pld.from_gaussian_mechanism(1.0, pessimistic_estimate=False).self_compose(2)
for delta in (1e-8, 1e-12, 1e-14, 1e-15, 1e-20):
    bound, truth = lower.get_epsilon_for_delta(delta), exact(delta, math.sqrt(0.5))
    print(f"two Gaussian rounds, delta {delta:.0e}: lower bound {bound:.5f}, exact {truth:.5f}")
    assert (bound > truth + 0.01) == (delta < 1e-13)
assert math.isinf(lower.get_epsilon_for_delta(1e-20))
PY
