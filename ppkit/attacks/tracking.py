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
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import softmax

from ppkit.attacks.arrays import matrix, rows_of
from ppkit.validation import must_be

_NEIGHBOURS = 10  # of the cloud, for its density
_ROUNDS = 20  # of expectation and maximisation
_BLOCK = 64  # known records that are matched together, so that their odds stay in cache
_TRIES = 1_000  # of the search for matches that agree
_REACH = 1e-3  # of a landmark that theta puts right
_FITS = 100.0  # squared deviations of the last look of a record, at most; chi-squared of its width


class Tracked(NamedTuple):
    """theta: (d, width), or None where it is lost."""

    theta: np.ndarray | None


def track(
    theta: np.ndarray,
    view: np.ndarray,
    X_known: np.ndarray,
    *,
    spread: float,
    share: float,
    rng: np.random.Generator,
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
    ValueError for a value that is not finite or a setting out of range, for shapes that do not fit,
    and for a view of 10 rows or fewer.
    Source: ours; the registration is that of coherent point drift (Myronenko and Song 2010).
    """
    theta, view, X_known = matrix("theta", theta), matrix("view", view), matrix("X_known", X_known)
    must_be("a finite number > 0", spread=spread)
    must_be("in (0, 1)", share=share)
    d, width = theta.shape
    if view.shape[1] != width or X_known.shape[1] != d or len(view) <= _NEIGHBOURS:
        raise ValueError(
            f"theta {theta.shape} needs a view of {width} columns and more than {_NEIGHBOURS} "
            f"rows, and X_known of {d} columns, got {view.shape} and {X_known.shape}"
        )
    cloud = cKDTree(view)
    far = cloud.query(view, _NEIGHBOURS + 1)[0][:, -1]
    ball = width / 2 * math.log(math.pi) - math.lgamma(width / 2 + 1)
    against = math.log(_NEIGHBOURS * (1 - share) / share) - ball - width * np.log(far)
    now, S = theta, spread**2 * np.eye(d)
    for _ in range(_ROUNDS):
        weights, seen, at = _expected(X_known, now, S, view, against, spread=spread)
        S = np.linalg.inv(np.eye(d) + (X_known.T * weights) @ X_known) * spread**2
        now = S @ (theta + X_known.T @ seen) / spread**2
    there = weights > 0.5
    return Tracked(_agreed(X_known[there], view[at[there]], X_known, cloud, rng))


def _expected(
    known: np.ndarray,
    theta: np.ndarray,
    S: np.ndarray,
    view: np.ndarray,
    against: np.ndarray,
    *,
    spread: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each known record the chance that it is in the view (m,), its mean there times that chance
    (m, width), and its likeliest row (m,).

    Odds of row j: N(h_j; x theta, (x S x^T + spread^2) I) over exp(against_j), to 1 for no row.
    """
    variance = (spread**2 + np.einsum("ki,ij,kj->k", known, S, known))[:, None]
    h1, width = known @ theta, view.shape[1]
    own = (h1**2).sum(axis=1, keepdims=True) / variance + width * np.log(2 * np.pi * variance)
    each = np.hstack([h1 / variance, -0.5 / variance, -own / 2, -np.ones_like(own)])
    rows = np.vstack([view.T, (view**2).sum(axis=1), np.ones(len(view)), against])
    rows = np.pad(rows, ((0, 0), (0, 1)))  # no row: log-odds of 0
    chances, means, likeliest = [], [], []
    for part in np.array_split(each, range(_BLOCK, len(each), _BLOCK)):
        match = softmax(part @ rows, axis=1)[:, :-1]
        chances.append(match.sum(axis=1))
        means.append(match @ view)
        likeliest.append(match.argmax(axis=1))
    return np.concatenate(chances), np.concatenate(means), np.concatenate(likeliest)


def _agreed(
    x: np.ndarray, h: np.ndarray, known: np.ndarray, cloud: cKDTree, rng: np.random.Generator
) -> np.ndarray | None:
    """theta of the largest set of matches that agree, then of all known records that it puts on a
    row of the cloud; None where these are too few."""
    d, most = x.shape[1], np.zeros(len(x), bool)
    if len(x) < d + 4:
        return None
    reach = _REACH * (1 + np.linalg.norm(x, axis=1))
    for _ in range(_TRIES):
        some = rng.choice(len(x), d + 1, replace=False)
        theta = np.linalg.lstsq(x[some], h[some], rcond=None)[0]
        agree = np.linalg.norm(h - x @ theta, axis=1) < reach
        most = agree if agree.sum() > most.sum() else most
        if most.mean() > 0.9:
            break
    x, h = x[most], h[most]
    for _ in range(4):
        if len(x) < d + 4:
            return None
        theta = np.linalg.lstsq(x, h, rcond=None)[0]
        near, at = cloud.query(known @ theta)
        there = near < _REACH
        x, h = known[there], cloud.data[at[there]]
    return theta


@dataclass(frozen=True, eq=False)
class Rejoined:
    """Of each record that was searched: positions (m, T), the row in each epoch's views one below
    the other; X (m, d), the features; sure (m,) bool, whether its last look fits to rounding."""

    positions: np.ndarray
    X: np.ndarray
    sure: np.ndarray


@dataclass(frozen=True, eq=False)
class _Beam:
    """Hypotheses that went through the same batch in each epoch so far, so that one covariance S of
    x serves all of them: of which record, log-likelihood, mean of x, rows so far, and the squared
    deviation of the last look."""

    S: np.ndarray
    who: np.ndarray
    score: np.ndarray
    x: np.ndarray
    rows: np.ndarray
    off: np.ndarray

    def only(self, some: np.ndarray) -> "_Beam":
        """Some of them."""
        return _Beam(
            self.S, self.who[some], self.score[some], self.x[some], self.rows[some], self.off[some]
        )

    def continued(
        self,
        theta: np.ndarray,
        view: np.ndarray,
        first_row: int,
        *,
        noise: float,
        nearest: int = 1,
        own: np.ndarray | None = None,
    ) -> "_Beam":
        """Each hypothesis with each of the `nearest` rows of a batch, or with a row of its own, by
        Kalman's update."""
        cov = theta.T @ self.S @ theta + noise**2 * np.eye(theta.shape[1])
        inverse = np.linalg.inv(cov)
        gain, white = self.S @ theta @ inverse, np.linalg.cholesky(inverse)
        guess = self.x @ theta
        if own is None:
            ranks = range(1, min(nearest, len(view)) + 1)
            j = cKDTree(view @ white).query(guess @ white, ranks)[1]
        else:
            j = own[:, None]
        surprise = view[j] - guess[:, None]
        off = ((surprise @ white) ** 2).sum(axis=2).ravel()
        k = j.shape[1]
        left = self.S - gain @ cov @ gain.T
        return _Beam(
            (left + left.T) / 2,
            self.who.repeat(k),
            self.score.repeat(k) - 0.5 * off - 0.5 * np.linalg.slogdet(cov)[1],
            self.x.repeat(k, axis=0) + (surprise @ gain.T).reshape(-1, len(theta)),
            np.c_[self.rows.repeat(k, axis=0), first_row + j.ravel()],
            off,
        )


def rejoin(
    thetas: Sequence[Sequence[np.ndarray]],
    views: Sequence[Sequence[np.ndarray]],
    rows: ArrayLike,
    *,
    noise: float,
    beams: int = 100,
    nearest: int = 12,
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
    ValueError for a value that is not finite, row numbers of no row, or no theta for a batch.
    Source: ours.
    """
    thetas = [[matrix("thetas", theta) for theta in of_epoch] for of_epoch in thetas]
    views = [[matrix("views", view) for view in of_epoch] for of_epoch in views]
    if [len(of_epoch) for of_epoch in thetas] != [len(of_epoch) for of_epoch in views]:
        raise ValueError("there must be a theta for each batch of each epoch's views")
    if not views or not views[0]:
        raise ValueError("views must be one epoch of one batch or more, got none")
    rows, d = rows_of("rows", rows, sum(map(len, views[0]))), len(thetas[0][0])
    at_start = _Beam(
        np.eye(d),
        np.arange(len(rows)),
        np.zeros(len(rows)),
        np.zeros((len(rows), d)),
        np.zeros((len(rows), 0), int),
        np.zeros(len(rows)),
    )
    hypotheses = []
    for theta, view, first in zip(thetas[0], views[0], _first_rows(views[0])):
        mine = (first <= rows) & (rows < first + len(view))
        own = rows[mine] - first
        hypotheses.append(at_start.only(mine).continued(theta, view, first, noise=noise, own=own))
    for of_epoch, clouds in zip(thetas[1:], views[1:], strict=True):
        grown = [
            beam.continued(theta, view, first, noise=noise, nearest=nearest)
            for beam in hypotheses
            for theta, view, first in zip(of_epoch, clouds, _first_rows(clouds))
        ]
        hypotheses = _likeliest(grown, beams)
    best = _likeliest(hypotheses, 1)
    order = np.argsort(np.concatenate([beam.who for beam in best]), kind="stable")
    positions = np.concatenate([beam.rows for beam in best])[order]
    X = np.concatenate([beam.x for beam in best])[order]
    off = np.concatenate([beam.off for beam in best])[order]
    return Rejoined(positions, X, off <= _FITS)


def _first_rows(clouds: Sequence[np.ndarray]) -> np.ndarray:
    """Where each batch begins in the epoch's views, one below the other."""
    sizes = [len(view) for view in clouds]
    return np.cumsum([0, *sizes[:-1]])


def _likeliest(grown: list[_Beam], most: int) -> list[_Beam]:
    """Of every record's hypotheses the likeliest."""
    who = np.concatenate([beam.who for beam in grown])
    score = np.concatenate([beam.score for beam in grown])
    order = np.lexsort((-score, who))
    rank = np.arange(len(who)) - np.searchsorted(who[order], who[order])
    kept = np.zeros(len(who), bool)
    kept[order[rank < most]] = True
    ends = np.cumsum([len(beam.who) for beam in grown])
    parts = zip(grown, np.split(kept, ends[:-1]))
    return [beam.only(some) for beam, some in parts if some.any()]
