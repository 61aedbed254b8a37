"""Invented companies in the layout of the distress file."""

import numpy as np
import pandas as pd

from ppkit.datasets.distress import COLUMNS


def invented(n_companies=330, seed=5):
    """Invented companies in the layout of the file, by a loop over companies and years: health
    fades, some end in distress."""
    rng = np.random.default_rng(seed)
    national = rng.normal(size=(15, 19)).cumsum(axis=0) + np.arange(15)[:, None]
    pattern, rows = rng.normal(size=60), []
    for company in range(1, n_companies + 1):
        listed, wait, industry = (
            rng.integers(-9, 20),
            rng.integers(0, 40),
            min(37, 1 + rng.geometric(0.12)),
        )
        month = 12 if rng.random() < 0.8 else rng.integers(3, 11)
        health, own, before = rng.normal(0.6, 0.6), rng.normal(size=60), abs(rng.normal()) + 0.1
        for year in range(max(1, 1 - listed), 15):
            health = 0.8 * health + rng.normal(0.15, 0.4)
            target = health + 0.5 * rng.normal()
            firm = pattern * health + 0.7 * own + 0.5 * rng.normal(size=60)
            firm[4] = np.exp(4 * firm[4])  # a heavy tail
            firm[7] = max(0.0, firm[7])  # a point mass
            macro = national[year] + (1 - month / 12) * (national[year - 1] - national[year])
            rows.append(
                [
                    company,
                    year,
                    target,
                    *firm,
                    *macro,
                    industry,
                    before,
                    listed + year,
                    listed + wait + year,
                ]
            )
            before = target
            if target <= -0.5:
                break
    whole = {"Company": int, "Time": int, "x80": int, "x82": int, "x83": int}
    made = pd.DataFrame(rows, columns=COLUMNS).astype(whole)
    return made.assign(x48=1_000 + 10 * made["x48"])


def follows(table):
    """Whether a row is the next year of the company of the row above it."""
    account, year = table["account"].to_numpy(), table["Time"].to_numpy()
    return (account[1:] == account[:-1]) & (year[1:] == year[:-1] + 1)
