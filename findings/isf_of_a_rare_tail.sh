#!/usr/bin/env bash
# Guess: since scipy moved to Boost, binom.isf finds the quantile of any upper tail: isf(1e-17) is 47 for n = 1000, p = .01.
# Seen: scipy 1.17.1 gives 1000, the end of the range, for every tail below 1.1e-16, and nan for poisson. sf is exact there.
#   The inverse of a discrete law still looks up 1 - q, which rounds to 1. norm.isf does not, and is right.
# Why it matters: "how often may a record be sampled but for a chance of delta" is such a quantile, and a cryptographer's delta
#   is below 1e-16. The answer "in all rounds" is valid, so nothing fails: a bound is just far too large. Search sf instead.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q scipy==1.17.1
"$folder/venv/bin/python" - <<'PY'
import math

from scipy import stats

N, P = 1_000, 0.01
for tail in (1e-10, 1e-15, 1e-17, 1e-30):
    by_search = next(k for k in range(N + 1) if stats.binom.sf(k, N, P) <= tail)
    print(f"tail {tail:.0e}: isf {stats.binom.isf(tail, N, P):.0f}, by a search of sf {by_search}")
    assert (stats.binom.isf(tail, N, P) == by_search) == (tail > 1.2e-16)
print("poisson:", stats.poisson.isf(1e-17, 10.0), " normal:", round(stats.norm.isf(1e-17), 4))
assert stats.binom.isf(1e-17, N, P) == N
assert math.isnan(stats.poisson.isf(1e-17, 10.0))
assert abs(stats.norm.sf(stats.norm.isf(1e-17)) / 1e-17 - 1) < 1e-9
PY
