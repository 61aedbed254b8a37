#!/usr/bin/env bash
# Guess: one wheel of numpy chooses the same largest entries on every x86 processor, also where some entries are equal.
# Seen: numpy 2.4.6 sorts and partitions float64 by other code for each level of instructions. Of entries that are equal,
#   argpartition and argsort (without kind="stable") take others at each of three levels, from one array in one version.
# Why it matters: after a clip most entries of a gradient are equal, and a private upload sends the n largest ones. Which weights a
#   bank sends then depends on its processor, and a run with the same seed is not the same run. A stable sort is safe.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6
cat > "$folder/largest.py" <<'PY'
import sys

import numpy as np

gradient = np.clip(np.random.default_rng(0).normal(size=2_000), -0.1, 0.1)
size = np.abs(gradient)
how = {
    "argpartition": np.argpartition(size, len(size) - 51)[-51:],
    "argsort": np.argsort(-size)[:51],
    "argsort, stable": np.argsort(-size, kind="stable")[:51],
}
print(*sorted(how[sys.argv[1]].tolist()))
PY
"$folder/venv/bin/python" - "$folder/largest.py" <<'PY'
import os
import subprocess
import sys

import numpy as np

print("numpy", np.__version__)
found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
if "X86_V3" not in found:
    sys.exit("not to be seen here: this processor has no instructions beyond the least that numpy asks for")
without = {"all instructions": "", "up to AVX2": " ".join(one for one in found if one != "X86_V3"), "up to SSE4.2": " ".join(found)}
for how in ("argpartition", "argsort", "argsort, stable"):
    chosen = {}
    for level, disabled in without.items():
        about = {**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled}
        chosen[level] = subprocess.check_output([sys.executable, sys.argv[1], how], env=about, text=True)
        print(f"{how}, {level}: entries", *chosen[level].split()[:4], "...")
    assert (len(set(chosen.values())) == 1) == (how == "argsort, stable"), how
PY
