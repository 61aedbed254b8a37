"""Secret orders under noisy weights: known records as landmarks that give every theta, and then all
looks at an unknown record, found by what they must have in common.

SGLD moves theta at random in each step, so that a record's h1 jumps between two looks and `linking`
loses it.  But theta moves by one step at a time, and all records of a batch go through the same
theta.  Who knows some records, and where they stood in the first epoch, knows the first thetas;
from one theta the next is found by registering the known records, whose h1 is then known up to one
step, with the cloud of the batch.  With all thetas known, looks that belong to one record must obey
h_t = x theta_t with one x: more than d numbers say so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import softmax

from ppkit.attacks.arrays import matrix

_NEIGHBOURS = 10  # of the cloud, for its density
_ROUNDS = 20  # of expectation and maximisation
_BLOCK = 64  # known records that are matched together, so that their odds stay in cache
_TRIES = 1_000  # of the search for matches that agree
_REACH = 1e-3  # of a landmark that theta puts right
_FITS = 100.0  # squared deviations of the last look of a record, at most; chi-squared of its width


class Tracked(NamedTuple):
    """theta: (d, width), or None where it is lost.  why: "" or one sentence."""

    theta: np.ndarray | None
    why: str


def track(
    theta, view, X_known, *, spread: float, share: float, rng: np.random.Generator
) -> Tracked:
    """The theta of a batch from that of the step before.

    Expectation: a known record k is row j of the view with odds of
        share/n N(h_j; x_k theta, x_k S x_k^T + spread^2) to 1 - share times the cloud's density,
        which its 10th neighbours tell;
    maximisation: theta and its covariance S by least squares with N(theta before, spread^2) as
        prior; 20 rounds. Matches that agree with one theta to rounding are then kept.
    theta: (d, width) of the step before.  view: (n, width), h1 of the batch.  X_known: (m, d),
    standardised, of whom some are in the batch.  spread: deviation of an entry of theta's move.
    share: of the known records in the batch, in (0, 1).
    Returns Tracked.  Guarantee: none; a theta that is returned puts at least d + 4 known records on
    rows of the view.
    ValueError if shapes do not match.
    Source: ours; the registration is that of coherent point drift (Myronenko and Song 2010).
    """
    view, known = matrix("view", view), matrix("X_known", X_known)
    d, width = theta.shape
    if known.shape[1] != d or view.shape[1] != width:
        raise ValueError(
            f"theta {theta.shape} needs a view of width {width} and known records of {d} features, "
            f"got {view.shape} and {known.shape}"
        )
    cloud = cKDTree(view)
    far = cloud.query(view, _NEIGHBOURS + 1)[0][:, -1]
    ball = width / 2 * math.log(math.pi) - math.lgamma(width / 2 + 1)
    against = math.log(_NEIGHBOURS * (1 - share) / share) - ball - width * np.log(far)
    now, S = theta, spread**2 * np.eye(d)
    for _ in range(_ROUNDS):
        weights, seen, at = _expected(known, now, S, view, against, spread=spread)
        S = np.linalg.inv(np.eye(d) / spread**2 + (known.T * weights) @ known / spread**2)
        now = S @ (theta + known.T @ seen) / spread**2
    there = weights > 0.5
    return _agreed(known[there], view[at[there]], known, cloud, rng)


def _expected(known, theta, S, view, against, *, spread: float):
    """Of each known record the chance that it is in the view (m,), its mean there times that chance
    (m, width), and its likeliest row (m,).

    Odds of row j: N(h_j; x theta, (x S x^T + spread^2) I) over exp(against_j), to 1 for no row.
    """
    variance = (spread**2 + np.einsum("ki,ij,kj->k", known, S, known))[:, None]
    h1, width = known @ theta, view.shape[1]
    own = (h1**2).sum(axis=1, keepdims=True) / variance + width * np.log(2 * np.pi * variance)
    each = np.hstack([h1 / variance, -0.5 / variance, -own / 2, -np.ones_like(own)])
    rows, found = np.vstack([view.T, (view**2).sum(axis=1), np.ones(len(view)), against]), []
    rows = np.pad(rows, ((0, 0), (0, 1)))  # no row: log-odds of 0
    for part in np.array_split(each, range(_BLOCK, len(each), _BLOCK)):
        match = softmax(part @ rows, axis=1)[:, :-1]
        found.append((match.sum(axis=1), match @ view, match.argmax(axis=1)))
    return map(np.concatenate, zip(*found))


def _agreed(x, h, known, cloud, rng) -> Tracked:
    """theta of the largest set of matches that agree, then of all known records that it puts on a
    row of the cloud."""
    d, most = x.shape[1], np.zeros(len(x), bool)
    if len(x) < d + 4:
        return _lost(len(x), d, "were found in the batch")
    reach = _REACH * (1 + np.linalg.norm(x, axis=1))
    for _ in range(_TRIES):
        some = rng.choice(len(x), d + 1, replace=False)
        theta = np.linalg.lstsq(x[some], h[some], rcond=None)[0]
        agree = np.linalg.norm(h - x @ theta, axis=1) < reach
        most = agree if agree.sum() > most.sum() else most
        if most.mean() > 0.9:
            break
    if most.sum() < d + 4:
        return _lost(int(most.sum()), d, "agree with one theta")
    theta = np.linalg.lstsq(x[most], h[most], rcond=None)[0]
    for _ in range(3):
        near, at = cloud.query(known @ theta)
        there = near < _REACH
        if there.sum() < d + 4:
            return _lost(int(there.sum()), d, "lie on a row of the batch under one theta")
        theta = np.linalg.lstsq(known[there], cloud.data[at[there]], rcond=None)[0]
    return Tracked(theta, "")


def _lost(n: int, d: int, what: str) -> Tracked:
    return Tracked(None, f"{n} known records {what}, and a theta takes {d + 4}")


@dataclass(frozen=True, eq=False)
class Rejoined:
    """Of each record that was searched: positions (m, T), the row in each epoch's views one below
    the other; X (m, d), the features; sure (m,) bool, whether its last look fits to rounding; why:
    "" unless none is sure, then one sentence."""

    positions: np.ndarray
    X: np.ndarray
    sure: np.ndarray
    why: str


def rejoin(
    thetas: Sequence, views: Sequence, rows, *, noise: float, beams: int = 100, nearest: int = 12
) -> Rejoined:
    """All looks at some records of the first epoch, through known thetas, and their features.

    Beam search: a hypothesis is a row in each epoch so far, with the mean and covariance of x, from
    N(0, I) by the looks (Kalman's update); in each epoch it is continued with the `nearest` rows of
    each batch, by the innovation's Mahalanobis distance, and of each record's continuations the
    `beams` likeliest stay.
    thetas, views: T epochs, each a list of a theta (d, width) and of h1 (n, width) for each batch.
    rows: of the first epoch's views, one below the other.  noise: of an entry of h1,
    with what the error of theta adds; 1e-4 where h1 has 16 fractional bits.
    Returns Rejoined.  T width > d + width is needed for any to be sure.
    Source: ours.
    """
    rows = np.asarray(rows, int)
    d, width = thetas[0][0].shape
    places = [np.r_[0, np.cumsum([len(view) for view in epoch])] for epoch in views]
    first = np.searchsorted(places[0], rows, side="right") - 1
    start = (np.arange(len(rows)), np.zeros(len(rows)), np.zeros((len(rows), d)))
    paths = {(): (np.eye(d), *start, np.zeros((len(rows), 0), int), np.zeros(len(rows)))}
    for e, (of_epoch, clouds) in enumerate(zip(thetas, views, strict=True)):
        grown = []
        for path, (S, who, score, x, at, _) in paths.items():
            for b, (theta, view) in enumerate(zip(of_epoch, clouds, strict=True)):
                mine = first[who] == b if e == 0 else np.ones(len(who), bool)
                if not mine.any():
                    continue
                cov = theta.T @ S @ theta + noise**2 * np.eye(width)
                gain, white = S @ theta @ np.linalg.inv(cov), np.linalg.cholesky(np.linalg.inv(cov))
                guess = x[mine] @ theta
                if e == 0:
                    j = (rows[who[mine]] - places[0][b])[:, None]
                    off = np.linalg.norm((view[j[:, 0]] - guess) @ white, axis=1)[:, None]
                else:
                    off, j = cKDTree(view @ white).query(guess @ white, min(nearest, len(view)))
                k = j.shape[1]
                more = (
                    x[mine].repeat(k, axis=0)
                    + (view[j] - guess[:, None]).reshape(-1, width) @ gain.T
                )
                told = (
                    score[mine].repeat(k) - 0.5 * off.ravel() ** 2 - 0.5 * np.linalg.slogdet(cov)[1]
                )
                trail = np.c_[at[mine].repeat(k, axis=0), places[e][b] + j.ravel()]
                new = (who[mine].repeat(k), told, more, trail, off.ravel() ** 2)
                left = S - gain @ cov @ gain.T
                grown.append(((*path, b), (left + left.T) / 2, new))
        paths = _likeliest(grown, beams)
    positions, X, sure = _best(paths, len(rows))
    n_numbers = len(views) * width
    few = (
        f"{n_numbers} numbers of a record cannot check its {d} features and its {width} first ones"
    )
    none = f"no record's last look is what its other looks foretell to {noise:g}"
    why = "" if sure.any() else few if n_numbers <= d + width else none
    return Rejoined(positions, X, sure, why)


def _likeliest(grown, beams: int) -> dict:
    """Of every record's hypotheses the likeliest, by path."""
    who, told = (np.concatenate([new[i] for _, _, new in grown]) for i in (0, 1))
    order = np.lexsort((-told, who))
    rank = np.arange(len(who)) - np.searchsorted(who[order], who[order])
    kept = np.zeros(len(who), bool)
    kept[order[rank < beams]] = True
    paths, end = {}, 0
    for path, S, new in grown:
        some = kept[end : end + len(new[0])]
        end += len(new[0])
        if some.any():
            paths[path] = (S, *(part[some] for part in new))
    return paths


def _best(paths: dict, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    who, told, x, at, off = (
        np.concatenate([path[i] for path in paths.values()]) for i in range(1, 6)
    )
    order = np.lexsort((-told, who))
    best = order[np.searchsorted(who[order], np.arange(m))]
    return at[best], x[best], off[best] <= _FITS
