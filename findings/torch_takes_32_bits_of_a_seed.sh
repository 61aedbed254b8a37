#!/usr/bin/env bash
# Guess: manual_seed accepts 64 bits and initial_seed() gives all of them back, so the seeds 1 and 2**32 + 1 give different noise.
# Seen: a CPU generator of torch 2.13.0 uses the low 32 bits only. 1, 2**32 + 1 and 5 * 2**32 + 1 give the same numbers throughout.
# Why it matters: seeds made of a run's number above a bank's number ("run << 32 | bank") give each bank the same noise in every run.
#   Among 77,000 seeds of 64 random bits two give the same noise with a chance of one half. One expects that of 5,000,000,000 seeds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import numpy as np
import torch


def rng(seed):
    return torch.Generator().manual_seed(seed)


DRAWS = {
    "randn": lambda seed: torch.randn(10_000, generator=rng(seed)),
    "randperm": lambda seed: torch.randperm(10_000, generator=rng(seed)),
}
print("torch", torch.__version__, " numpy", np.__version__)
for seed in (2**32 + 1, 5 * 2**32 + 1, 2**31 + 1, 2):
    assert rng(seed).initial_seed() == seed
    for name, draw in DRAWS.items():
        same = torch.equal(draw(seed), draw(1))
        print(f"{name} with the seed {seed}: {'the numbers of seed 1' if same else 'other numbers'}")
        assert same == (seed % 2**32 == 1)
assert np.random.default_rng(2**32 + 1).normal() != np.random.default_rng(1).normal()
print("numpy's default_rng takes all the bits")
PY
