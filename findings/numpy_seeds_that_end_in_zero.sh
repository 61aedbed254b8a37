#!/usr/bin/env bash
# Guess: default_rng(7) and default_rng([7, 0]) are two streams, as [7, 0] and [7, 1] are.
# Seen: numpy 2.4.6 fills a seed up with zeros to four words of 32 bits, so 7, [7, 0] and [7, 0, 0, 0] are one stream. A number of
#   2**32 or more is split into words: [7 + 5 * 2**32, 0] is the stream of [7, 5].
# Why it matters: "[seed, holder]" is the usual way to give each bank its own noise. Bank 0 then has the very numbers that seed alone
#   gives elsewhere, perhaps for the split of the rows. Noise that is known elsewhere hides nothing. SeedSequence.spawn is safe.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import numpy as np


def noise(seed):
    return np.random.default_rng(seed).normal(size=4).tolist()


print("numpy", np.__version__)
for seed in ([7, 0], [7, 0, 0], [7, 0, 0, 0], [7, 0, 0, 0, 0], [7, 1], [0, 7]):
    same = noise(seed) == noise(7)
    print(seed, "is the stream of 7" if same else "is another stream")
    assert same == (seed in ([7, 0], [7, 0, 0], [7, 0, 0, 0]))
assert noise([7 + 5 * 2**32, 0]) == noise([7, 5])
print("[7 + 5 * 2**32, 0] is the stream of [7, 5]")
spawned = [np.random.default_rng(child).normal() for child in np.random.SeedSequence(7).spawn(3)]
print("three spawned streams and 7 start with different numbers:", len({*spawned, noise(7)[0]}) == 4)
assert len({*spawned, noise(7)[0]}) == 4
PY
