#!/usr/bin/env bash
# Guess: two rounds of the Laplace mechanism with epsilon 1 have epsilon 2 at delta = 0, and a lower bound on epsilon (a PLD made
#   with pessimistic_estimate=False) is finite and below the exact value at every delta.
# Seen: in dp_accounting 0.6.0 self_compose(2) gives inf for the two Laplace rounds. compose, which ought to be the same, gives 2.
#   self_compose counts a tail of 1e-15 as a total loss, also in the lower bound: that is above the exact Gaussian epsilon at
#   delta = 1e-14 already, and inf at 1e-20.
# Why it matters: below a delta of 1e-14 a "lower bound" may lie above the truth, and a pure guarantee is lost without a warning.
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
laplace = pld.from_laplace_mechanism(1.0)
composed, repeated = laplace.compose(laplace), laplace.self_compose(2)
print("Laplace twice, delta 0: compose", composed.get_epsilon_for_delta(0.0), " self_compose", repeated.get_epsilon_for_delta(0.0))
assert abs(composed.get_epsilon_for_delta(0.0) - 2) < 1e-6
assert abs(repeated.get_epsilon_for_delta(1e-12) - 2) < 1e-6
assert math.isinf(repeated.get_epsilon_for_delta(0.0))


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
