"""Stand-in rows as plain tables of float64: the blocks laid end to end, and the old way, which drew
all rows at once, as the oracle of the blocks."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ppkit.datasets import creditcard, lending
from ppkit.datasets.standins import creditcard as of_cards
from ppkit.datasets.standins import lending as of_loans
from ppkit.datasets.standins.blocks import Block
from ppkit.datasets.standins.distributions import from_normal, from_uniform


def cards(parameters: dict, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """The blocks of cards in order of time, in the columns of the file."""
    drawn = of_cards.draw_blocks(parameters, rows, rng)
    return laid(drawn, creditcard.FEATURES, "Class")[list(creditcard.COLUMNS)]


def loans(parameters: dict, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """The blocks of loans in the order of the file, in its canonical columns."""
    drawn = of_loans.draw_blocks(parameters, rows, rng)
    return laid(drawn, lending.FEATURES, "interest_rate")[list(lending.COLUMNS)]


def laid(blocks: Iterable[Block], features: tuple[str, ...], target: str) -> pd.DataFrame:
    """All blocks as one table, sorted by their place."""
    parts = []
    for block in blocks:
        part = pd.DataFrame(block.X, columns=list(features))
        parts.append(part.assign(**{target: block.y, "place": block.place}))
    table = pd.concat(parts, ignore_index=True).sort_values("place", kind="stable")
    return table.drop(columns="place").reset_index(drop=True)


def whole_cards(parameters: dict, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Cards drawn all at once, the variance of the amount's drift taken from the draw."""
    kept = {key: value.astype(np.float64) for key, value in parameters.items()}
    frauds = round(rows * of_cards.FULL_FRAUDS / of_cards.FULL_ROWS)
    classes = []
    for label, n in ((0, rows - frauds), (1, frauds)):
        mixture = {key: kept[f"{key}_{label}"] for key in ("weights", "means", "factors")}
        axes = whole_mixture(mixture, n, rng)
        below = exact_cdfs(mixture, axes)
        axes[:, 30] = from_uniform(below[:, 30], kept[f"atoms_30_{label}"])
        three_hours = (axes[:, 30] // 10_800).astype(int).clip(0, 15)
        moved = kept[f"drift_{label}"][three_hours]
        score = ndtri(below[:, 29]) * np.sqrt(1 - moved[:, 29].var()) + moved[:, 29]
        axes[:, 29] = from_uniform(ndtr(score), kept[f"atoms_29_{label}"])
        for axis in range(29):
            if f"knots_{axis}_{label}" in kept:
                knots = kept[f"knots_{axis}_{label}"]
                axes[:, axis] = from_normal(ndtri(below[:, axis]), knots)
        axes[:, :29] += moved[:, :29]
        features = of_cards.together(axes, kept)
        table = pd.DataFrame(features, columns=list(creditcard.FEATURES))
        classes.append(table.assign(Class=label))
    together = pd.concat(classes, ignore_index=True)
    return together.sort_values("Time", kind="stable").reset_index(drop=True)


def whole_loans(parameters: dict, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Loans drawn all at once."""
    kept = {key: value.astype(np.float64) for key, value in parameters.items()}
    axes = whole_mixture(kept, rows, rng)
    axes = axes[np.argsort(axes[:, 0], kind="stable")]
    below = exact_cdfs(kept, axes)
    out = {}
    for axis, name in enumerate(of_loans.AXES[1:], start=1):
        p = below[:, axis]
        if name in of_loans.NOMINAL:
            ends = np.cumsum(kept[f"share_{name}"])
            out[name] = kept[f"order_{name}"][np.searchsorted(ends[:-1], p, side="right")]
        else:
            values = from_uniform(p, kept[f"atoms_{name}"]).round(of_loans.DECIMALS.get(name, 0))
            out[name] = np.clip(values, *of_loans.RANGES.get(name, (-np.inf, np.inf)))
    out["loan_amount"] = (out["loan_amount"] / 25).round() * 25
    out["debt_to_income"] = np.maximum(out["debt_to_income"], 0.0)
    out["term"] = np.where(out["term"] < 48, 36.0, 60.0)
    rates, steps = kept["atoms_interest_rate"][:, 1], kept["sub_grade"]
    out["sub_grade"] = np.interp(out["interest_rate"], rates, steps).round()
    out["grade"] = out["sub_grade"] // 5
    return pd.DataFrame(of_loans._paid(out))[list(lending.COLUMNS)]


def whole_mixture(mixture: dict, n: int, rng: np.random.Generator) -> np.ndarray:
    """n draws from a mixture of normals, each from a component of its own choice, (n, D)."""
    weights = mixture["weights"] / mixture["weights"].sum()
    component = rng.choice(len(weights), n, p=weights)
    drawn = rng.standard_normal((n, mixture["means"].shape[1]))
    for k, (mean, factor) in enumerate(zip(mixture["means"], mixture["factors"], strict=True)):
        mine = component == k
        drawn[mine] = drawn[mine] @ factor.T + mean
    return drawn


def exact_cdfs(mixture: dict, z: np.ndarray) -> np.ndarray:
    """Below each of z (n, D): the sum over the components, axis by axis."""
    weights = mixture["weights"] / mixture["weights"].sum()
    deviations = np.sqrt((mixture["factors"] ** 2).sum(axis=2))
    total = np.zeros_like(z)
    for weight, mean, deviation in zip(weights, mixture["means"], deviations, strict=True):
        total += weight * ndtr((z - mean) / deviation)
    return total.clip(1e-12, 1 - 1e-12)
