"""Bars of the accountants of `ppkit.accounting`: seconds and memory of the worst corners that they
promise."""

from __future__ import annotations

import json
import subprocess
import sys

from bars import REPEATS, Bar, bar

CORNERS = {  # noise multiplier (a budget for "inverse"), delta, sample rate, rounds
    "little noise": ("epsilon", 0.001, 1e-5, 0.01, 1_000_000),
    "rare samples": ("epsilon", 1.059, 2.0**-70, 2.4e-5, 1_000_000),
    "much noise": ("epsilon", 1e4, 2.0**-128, 0.3, 1_000_000),
    "inverse": ("noise", 1.0, 0.1, 1e-5, 1_000_000),
}
CALL = """
import json, resource, sys, time
from ppkit.accounting import get_epsilon_poisson, calibrate_noise_multiplier
what, first, delta, rate, rounds = json.loads(sys.argv[1])
call = get_epsilon_poisson if what == "epsilon" else calibrate_noise_multiplier
start = time.process_time()
call(first, delta=delta, sample_rate=rate, n_rounds=rounds)
seconds = time.process_time() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))
"""


def run() -> list[Bar]:
    """Each corner in a process of its own, seven times: the dearest by seconds and by memory."""
    measured = [
        [_measured(json.dumps(corner)) for corner in CORNERS.values()] for _ in range(REPEATS)
    ]
    seconds = [max(one[0] for one in turn) for turn in measured]
    gigabytes = [max(one[1] for one in turn) for turn in measured]
    what = f"of an accountant of DP-SGD, the worst of {len(CORNERS)} corners"
    return [
        bar("accountants_seconds", f"processor seconds {what}", seconds, threads=1, at_most=10.0),
        bar(
            "accountants_memory",
            f"GB {what}, torch's own included",
            gigabytes,
            threads=1,
            at_most=1.0,
        ),
    ]


def _measured(corner: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", CALL, corner], capture_output=True, text=True, check=True
    )
    seconds, gigabytes = json.loads(done.stdout)
    return seconds, gigabytes
