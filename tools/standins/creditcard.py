"""Fits the stand-in for creditcard, and attacks it: do its parameters tell who was fitted?"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import logsumexp
from scipy.stats import Covariance, binomtest, multivariate_normal

from ppkit.datasets.creditcard import FEATURES, folds
from ppkit.datasets.standins.creditcard import AMOUNT, MIXTURE, SPANS, TIME, apart, spans
from ppkit.datasets.standins.distributions import Arrays
from tools.standins.distributions import ROWS_A_KNOT, atoms, knots, mixture, scores

COMPONENTS = (48, 3)  # wanted at the start, of the genuine rows' mixture and of the frauds'
RIDGES = (1e-5, 1e-2)
# share by which the frauds' axes are made independent within a component: a full covariance over
# some hundred rows tells an attacker who they were
SHRINK = 0.3
JUDGED = 2_000  # genuine rows whose membership is guessed
FITS, FALSE = 64, 0.01  # fits; the rate of false alarms
_SWEEPS, _EURO = 60, 0.5  # of the median regression; below it an error is small


def four_folds(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that parameters may come from: not those of the held-out fold, and the first night
    thinned where the table is a subset."""
    numbers = table[list(FEATURES[1:])].to_numpy()
    return table[folds(numbers, table["Time"].to_numpy(), table["Class"].to_numpy()).train]


def fit(table: pd.DataFrame, rng: Generator, start: Arrays | None = None) -> Arrays:
    """What the sampler needs, from checked rows; start: parameters whose mixtures are gone on from.

    centre, spread, b, level, pull: of the genuine rows, see `apart`.  drift: what the axes of
    the genuine rows of each span of three hours are off from their mean over all, where a span
    has 50 rows; it is taken off before all that follows.  Of each class a mixture of
    normals over the axes, weights, means, factors; the amount and the time are normal scores there,
    and their distributions are kept as bins (`atoms`).  Of the genuine rows' other axes the
    distributions are kept as knots; the frauds are too few for that.
    ValueError if a class has fewer than 50 rows.
    """
    labels, rows = table["Class"].to_numpy(), table[list(FEATURES)].to_numpy(np.float64)
    fitted = _straight(rows[labels == 0])
    for label in (0, 1):
        axes = apart(rows[labels == label], fitted)
        fitted[f"atoms_{AMOUNT}_{label}"] = _amounts(axes[:, AMOUNT])
        fitted[f"atoms_{TIME}_{label}"] = atoms(axes[:, TIME], at_most=400)
        span, drift = spans(axes[:, TIME]), np.zeros((SPANS, TIME))
        axes[:, AMOUNT:] = scores(axes[:, AMOUNT:], rng, sweeps=0)
        if label == 0:
            means = axes[:, :TIME].mean(axis=0)
            for one in np.flatnonzero(np.bincount(span) >= ROWS_A_KNOT):
                drift[one] = axes[span == one, :TIME].mean(axis=0) - means
            axes[:, :TIME] -= drift[span]
            fitted |= {f"knots_{axis}_0": knots(axes[:, axis]) for axis in range(AMOUNT)}
        old = start and {key: start[f"{key}_{label}"].astype(np.float64) for key in MIXTURE}
        own = mixture(
            axes,
            COMPONENTS[label],
            rng,
            ridge=RIDGES[label],
            steps=20 if start is None else 5,
            start=old,
        )
        if label == 1:
            covariances = own["factors"] @ own["factors"].transpose(0, 2, 1)
            lost = SHRINK * (1 - np.eye(axes.shape[1]))
            own["factors"] = np.linalg.cholesky(covariances * (1 - lost))
        fitted |= {f"{key}_{label}": own[key] for key in MIXTURE} | {f"drift_{label}": drift}
    return {key: np.asarray(value, np.float32) for key, value in fitted.items()}


def _amounts(amount: np.ndarray) -> np.ndarray:
    """Bins as of `atoms`; 1.00, with which stolen cards are tried, is one of its own,
    because its share is over all rows of the class."""
    ones = amount == 1
    bins = atoms(amount[~ones], at_most=400) * [1 - ones.mean(), 1, 1]
    return np.insert(bins, np.searchsorted(bins[:, 1], 1.0), [ones.mean(), 1, 0], axis=0)


def _straight(rows: np.ndarray) -> Arrays:
    """centre, spread, b, level, pull.

    b and level: the linear regression of the amount on u with the least mean absolute error, by
    reweighted least squares: the least squares of all rows hang on the largest amounts.
    """
    V, amount = rows[:, 1:-1], rows[:, -1]
    centre, spread = V.mean(axis=0), V.std(axis=0)
    u = np.column_stack([(V - centre) / spread, np.ones(len(V))])
    weights = np.ones(len(V))
    for _ in range(_SWEEPS):
        fit = np.linalg.lstsq(u * weights[:, None], amount * weights, rcond=None)[0]
        errors = amount - u[:, :-1] @ fit[:-1] - fit[-1]
        weights = 1 / np.sqrt(np.maximum(np.abs(errors), _EURO))
    b, level, u = fit[:-1], fit[-1], u[:, :-1]
    left, moved = u - np.outer(u @ b, b / (b @ b)), amount - amount.mean()
    return {
        "centre": centre,
        "spread": spread,
        "b": b,
        "level": level,
        "pull": moved @ left / (moved @ moved),
    }


def log_density(fitted: Arrays, rows: np.ndarray, label: int) -> np.ndarray:
    """Of rows (N, 30) of a class under its mixture, (N,), where amount and time are taken as the
    normal scores of their places among these rows."""
    kept = {key: value.astype(np.float64) for key, value in fitted.items()}
    axes = apart(rows, kept)
    moved = kept[f"drift_{label}"][spans(axes[:, TIME])]
    axes[:, AMOUNT:] = scores(axes[:, AMOUNT:], np.random.default_rng(0), sweeps=0)
    axes[:, :TIME] -= moved
    components = zip(*(kept[f"{key}_{label}"] for key in MIXTURE), strict=True)
    parts = [
        np.log(weight) + multivariate_normal.logpdf(axes, mean, Covariance.from_cholesky(factor))
        for weight, mean, factor in components
    ]
    return logsumexp(parts, axis=0)


def given_away(table: pd.DataFrame, fitted: Arrays, seed: int) -> list[dict]:
    """`attack` on all frauds and 2,000 genuine rows of the table.

    Its fits go on from the shipped mixtures for 5 steps, which spares their half an hour; a common
    start makes them differ by their rows only, which can but help the attacker.
    """
    rows, labels = table[list(FEATURES)].to_numpy(np.float64), table["Class"].to_numpy()
    frauds, genuine = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    some = np.random.default_rng(7).choice(genuine, min(JUDGED, len(genuine)), replace=False)
    kinds = {"frauds": frauds, "genuine rows": np.sort(some)}
    return attack(
        lambda half, rng: fit(table.iloc[half], rng, fitted),
        lambda own, asked: log_density(own, rows[asked], int(labels[asked[0]])),
        len(table),
        kinds,
        seed,
    )


def attack(fit: Callable, log_density: Callable, n: int, kinds: Arrays, seed: int) -> list[dict]:
    """How often an attacker who knows the population, but not the other members, names a member.

    Each of 64 fits sees a random half of the rows.  Of each fit in turn the attacker sees the
    parameters; the other 63 tell, for every row, how its log density is distributed with the row
    among the fitted ones and without it (two normals, the variance shared).  The ratio of the two
    likelihoods is the score of the row; the threshold is the one with 1% false alarms.
    fit: rows' numbers to parameters.  log_density: parameters and rows' numbers to (m,).
    n: rows there are.  kinds: rows' numbers by what they are called.
    Returns one row a kind: kind, rows, caught (the share of members), low, high: the 95% interval
    of Clopper and Pearson as if there were one fit, because the fits share their rows; chance.
    Source: N. Carlini et al., Membership inference attacks from first principles, S&P 2022.
    """
    rng, inside = np.random.default_rng(seed), np.zeros((FITS, n), bool)
    density = {kind: np.empty((FITS, len(rows))) for kind, rows in kinds.items()}
    for place in range(FITS):
        inside[place, rng.permutation(n)[: n // 2]] = True
        fitted = fit(np.flatnonzero(inside[place]), rng)
        for kind, rows in kinds.items():
            density[kind][place] = log_density(fitted, rows)
    return [_caught(kind, density[kind], inside[:, rows]) for kind, rows in kinds.items()]


def _caught(kind: str, density: np.ndarray, inside: np.ndarray) -> dict:
    """density, inside: (fits, rows)."""
    score = np.empty_like(density)
    for place, seen in enumerate(density):
        others, member = np.delete(density, place, axis=0), np.delete(inside, place, axis=0)
        among = others.mean(axis=0, where=member)
        absent = others.mean(axis=0, where=~member)
        spread = (others - np.where(member, among, absent)).std(axis=0)
        score[place] = ((seen - absent) ** 2 - (seen - among) ** 2) / spread**2
    caught = float((score[inside] > np.quantile(score[~inside], 1 - FALSE)).mean())
    rows = density.shape[1]
    interval = binomtest(round(caught * rows), rows).proportion_ci(0.95)
    return {
        "kind": kind,
        "rows": rows,
        "caught": caught,
        "low": float(interval.low),
        "high": float(interval.high),
        "chance": FALSE,
    }
