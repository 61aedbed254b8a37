"""Bars of `spnn_system`: an epoch on fraud, each role a process, each link shaped to 100 Mbps."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import torch
from bars import REPEATS, Bar, bar

from ppkit import datasets
from ppkit.spnn import vertical
from spnn_system import config, example, launch
from spnn_system.cost_model import epoch_table, floor
from spnn_system.transport import certificates

BANDWIDTH, BATCH = 100e6, 5_000
N_NEW, LATENCY = 1_000, 0.01  # rows of a prediction; seconds one way
PAPER_SECONDS = 37.22  # Table 3, SPNN-SS
# A goal in seconds is a bar on the paper's seconds over ours: 3.5 s and 5 s
BARS = {
    "masked": ({"protocol": "masked"}, PAPER_SECONDS / 3.5),
    "lean": ({"protocol": "ss", "form": "lean"}, PAPER_SECONDS / 5),
}


def run() -> list[Bar]:
    """Time all bars; the roles share the cores of this machine, so this one is for a machine with
    nothing else to do."""
    fraud = vertical.fraud(datasets.load("creditcard", source="standin"))
    n_rows = len(fraud.y["train"])
    seconds: dict[str, list[float]] = {name: [] for name in BARS}
    for _ in range(REPEATS):
        for name, (protocol, _) in BARS.items():
            seconds[name].append(_epoch(fraud, protocol))
    bars = []
    for name, (protocol, at_least) in BARS.items():
        least = floor(
            epoch_table(fraud.holders, (8, 8), n_rows=n_rows, batch=BATCH, **protocol), BANDWIDTH
        )
        what = (
            f"SPNN {name}, online seconds of an epoch on fraud ({n_rows:,} rows) "
            "at 100 Mbps a link, every role a process"
        )
        bars += [
            bar(
                f"network_{name}_epoch_vs_wire",
                f"{what}, over its own bytes / bandwidth",
                [s / least for s in seconds[name]],
                threads=1,
                at_most=1.5,
            ),
            bar(
                f"network_{name}_epoch_vs_paper",
                f"the paper's 37.22 s over {what}",
                [PAPER_SECONDS / s for s in seconds[name]],
                threads=1,
                at_least=round(at_least, 2),
            ),
        ]
    few = _few(fraud)
    for name, (protocol, _) in BARS.items():
        bars.append(
            bar(
                f"network_{name}_predict_1000",
                f"SPNN {name}, seconds of the scores of {N_NEW:,} rows at 100 Mbps and {LATENCY} s "
                "a link, connections open, over twice its bytes / bandwidth and three round trips",
                [_scores(few, protocol) for _ in range(REPEATS)],
                threads=1,
                at_most=1.0,
            )
        )
    return bars


def _few(fraud: vertical.Vertical) -> vertical.Vertical:
    """N_NEW test rows, ten of them frauds, and one batch to train on, ten of it frauds."""
    chosen = {}
    for key, n in (("train", BATCH), ("test", N_NEW)):
        y = fraud.y[key]
        rows = [torch.nonzero(y == 1)[:10, 0], torch.nonzero(y == 0)[: n - 10, 0]]
        chosen[key] = torch.cat(rows)
    return replace(
        fraud,
        parts={key: [part[rows] for part in fraud.parts[key]] for key, rows in chosen.items()},
        y={key: fraud.y[key][rows] for key, rows in chosen.items()},
        rows={key: fraud.rows[key][rows.numpy()] for key, rows in chosen.items()},
    )


def _scores(few: vertical.Vertical, protocol: dict) -> float:
    """The pass over the test rows, which is what a prediction does, after one step of training has
    opened all connections.
    """
    result = _run(few, protocol, latency=LATENCY)
    sent = result.messages[result.messages["step"] > 1]
    # links work side by side, one kind of message after the other
    by_link = sent.groupby(["name", "sender", "receiver"])["n_bytes"].sum()
    seconds = by_link.groupby("name").max().sum() * 8 / BANDWIDTH
    return result.metrics["seconds"]["test"] / (2 * seconds + 6 * LATENCY)


def _epoch(fraud: vertical.Vertical, protocol: dict) -> float:
    [online] = _run(fraud, protocol).metrics["seconds"]["online"]
    return online


def _run(rows: vertical.Vertical, protocol: dict, **network) -> launch.Result:
    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as folder:
        settings = {"epochs": 1, "batch": BATCH, "bandwidth": "100 Mbps", **protocol, **network}
        loaded = config.load(example.write(folder, rows, **settings))
        certificates.make(loaded.network.certificates, loaded.roles)
        result = launch.run(loaded.path)
        if result.sentence:
            raise AssertionError(result.sentence)
        return result
