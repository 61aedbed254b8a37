#!/usr/bin/env bash
# Guess: where the scores of members and of others follow one law, an audit by Gaussian DP finds no epsilon, as the other estimators do.
#   Two engineers guessed 0.
# Seen: in jax_privacy 2.0.0 CanaryScoreAuditor.epsilon_from_gdp gives 2.3 to 6.7 at delta = 1e-5, in ten of ten draws of 500 scores a side
#   without any signal. With 50 scores a side and a true epsilon of 2.0 it says 3.0 to 14.6. epsilon_clopper_pearson is 0 without a signal.
#   A threshold at which both error rates may be near 1 counts as evidence of a law the other way round.
# Why it matters: an audit is believed because it cannot lie above the truth. This one refutes honest budgets, most of all with few canaries.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q jax-privacy==2.0.0 jax==0.10.2 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" - 2>"$folder/warnings" <<'PY'
from importlib.metadata import version

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor
from scipy import optimize, stats

print("jax-privacy", version("jax-privacy"))
about = dict(significance=0.05, delta=1e-5)


def exact(mu):
    """The epsilon of two normal laws whose means are mu apart."""

    def excess(epsilon):
        gained = stats.norm.cdf(mu / 2 - epsilon / mu)
        return gained - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - 1e-5

    return optimize.brentq(excess, 0, 100)


for n, mu in ((500, 0.0), (50, 0.5)):
    truth = exact(mu) if mu else 0.0
    by_gdp, by_counts = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        auditor = CanaryScoreAuditor(rng.normal(mu, 1, n), rng.normal(0, 1, n))
        by_gdp.append(float(auditor.epsilon_from_gdp(**about)))
        by_counts.append(float(auditor.epsilon_clopper_pearson(**about)))
    print(f"{n} scores a side, means {mu} apart, true epsilon {truth:.2f}")
    print("  epsilon_from_gdp", [round(one, 1) for one in sorted(by_gdp)])
    print("  epsilon_clopper_pearson", [round(one, 1) for one in sorted(by_counts)])
    assert sum(one > truth + 1 for one in by_gdp) >= 8
    assert all(one <= truth for one in by_counts)
PY
