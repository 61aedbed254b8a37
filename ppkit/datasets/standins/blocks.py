"""Rows drawn block by block, each with a stream of its own, into arrays that are there already."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

ROWS = 1_024  # of a block; larger ones are a little faster and lie heavier beside few rows
_GROUPS = 4  # of columns that are put in order together: a quarter of the table lies there twice


class Block(NamedTuple):
    """Rows of a stand-in, before they are in order.

    X: features, (m, F).  y: target, (m,).  place: what the rows are sorted by, (m,).
    """

    X: np.ndarray
    y: np.ndarray
    place: np.ndarray


def streams(rows: int, rng: Generator) -> Iterator[tuple[int, Generator]]:
    """The blocks of so many rows: how many rows each has, and its stream, a child of `rng`.

    rows: >= 0; all blocks but the last have ROWS.  rng: its children are spawned, it is not drawn
    from.
    Guarantee: a full block's stream depends on rng and on its place only, so it holds the same rows
    however many are drawn behind it.
    """
    first = range(0, rows, ROWS)
    sizes = (min(ROWS, rows - start) for start in first)
    return zip(sizes, rng.spawn(len(first)), strict=True)


def in_order(
    blocks: Iterable[Block], *, rows: int, features: int, target: type
) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the blocks, sorted by their place, as X float32 (rows, features) and y (rows,).

    blocks: of `rows` rows in all.  target: the type of y.
    Rows of one place stay in the order in which they were drawn.
    Guarantee: beside X there are y, three numbers of 8 bytes a row, a quarter of X, and one block.
    """
    X, place = np.empty((rows, features), np.float32), np.empty(rows)
    y: np.ndarray = np.empty(rows, target)
    start = 0
    for block in blocks:
        own = slice(start, start + len(block.y))
        X[own], y[own], place[own] = block
        start = own.stop
    order = np.argsort(place, kind="stable")
    for columns in np.array_split(X, _GROUPS, axis=1):
        columns[:] = columns[order]
    return X, y[order]
