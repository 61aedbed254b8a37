"""Stand-in rows drawn by blocks: the law of rows drawn all at once, in order, and in little
memory."""

import tracemalloc

import numpy as np
import pytest
import standin_tables
from scipy import stats

from ppkit import datasets
from ppkit.datasets import creditcard, lending, standins
from ppkit.datasets.standins import blocks
from ppkit.datasets.standins import creditcard as of_cards

TABLES = {"creditcard": standin_tables.cards, "lending": standin_tables.loans}
WHOLE = {"creditcard": standin_tables.whole_cards, "lending": standin_tables.whole_loans}
FEATURES = {"creditcard": creditcard.FEATURES, "lending": lending.FEATURES}
TARGETS = {"creditcard": "Class", "lending": "interest_rate"}
EDGES = (1, 2, blocks.ROWS - 1, blocks.ROWS, blocks.ROWS + 1, 3 * blocks.ROWS + 7)


# blocks and their streams


@pytest.mark.parametrize("rows", [0, *EDGES, 2 * blocks.ROWS])
def test_blocks_are_full_but_for_the_last(rows):
    sizes = [size for size, _ in blocks.streams(rows, np.random.default_rng(0))]
    assert sum(sizes) == rows and all(size == blocks.ROWS for size in sizes[:-1])
    assert all(0 < size <= blocks.ROWS for size in sizes)


def test_a_block_has_a_stream_of_its_own_whatever_is_drawn_behind_it():
    few, more = (
        [stream.random() for _, stream in blocks.streams(rows, np.random.default_rng(5))]
        for rows in (3 * blocks.ROWS, 9 * blocks.ROWS)
    )
    assert more[:3] == few and len(set(more)) == 9


@pytest.mark.parametrize("name", TABLES)
def test_no_block_repeats_another(name):
    table = TABLES[name](standins.parameters(name), 5 * blocks.ROWS, np.random.default_rng(1))
    assert not table.duplicated().any()


# the collected rows


@pytest.mark.parametrize("rows", EDGES)
@pytest.mark.parametrize("name", TABLES)
def test_a_data_set_is_its_blocks_end_to_end_in_order(name, rows, monkeypatch):
    monkeypatch.setattr(of_cards, "FULL_FRAUDS", 100_000)  # so that both classes fill blocks
    table = TABLES[name](standins.parameters(name), rows, np.random.default_rng(3))
    data = datasets.load(name, "standin", rows=rows, seed=3)
    assert data.X.flags.c_contiguous and data.X.dtype == np.float32
    features, target = table[list(FEATURES[name])], table[TARGETS[name]]
    np.testing.assert_array_equal(data.X, features.to_numpy(np.float32))
    np.testing.assert_array_equal(data.y, target.to_numpy(data.y.dtype))
    timed = {"creditcard": "Time", "lending": "issue_month"}[name]
    np.testing.assert_array_equal(data.time, table[timed])
    assert data.time.base is None and data.y.base is None


@pytest.mark.parametrize("rows", [1, 2, 289, 290, blocks.ROWS + 1, 4_000])
def test_frauds_are_at_the_full_file_s_rate_and_none_among_few_rows(rows):
    data = datasets.load("creditcard", "standin", rows=rows)
    assert int(data.y.sum()) == round(rows * 492 / 284_807)
    assert (rows >= 290) == bool(data.y.any())  # half a fraud is 289.4 rows
    assert (np.diff(data.time) >= 0).all()


def test_rows_of_one_place_stay_as_they_were_drawn():
    drawn = [
        blocks.Block(np.full((2, 5), start), np.array([start, start + 1]), np.array([1.0, 0.0]))
        for start in (0, 2, 4)
    ]
    X, y = blocks.in_order(drawn, rows=6, features=5, target=np.int8)
    assert y.tolist() == [1, 3, 5, 0, 2, 4] and X[:, 4].tolist() == [0, 2, 4, 0, 2, 4]


# the law


def statistics(table, middle):
    """Functions of single rows: each column, and its distance from its middle times that of the
    next column, of the first and of the last."""
    off = (table - middle).to_numpy()
    products = [off * np.roll(off, 1, axis=1), off[:, 1:] * off[:, :1], off[:, 1:-1] * off[:, -1:]]
    return np.hstack([table.to_numpy(), *products])


def furthest(ours, theirs, middle):
    """The largest two-sample distance of all statistics, and how many there are."""
    pairs = zip(statistics(ours, middle).T, statistics(theirs, middle).T, strict=True)
    distances = [stats.ks_2samp(one, other, method="asymp").statistic for one, other in pairs]
    return max(distances), len(distances)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_rows_drawn_by_blocks_have_the_law_of_rows_drawn_at_once(name, monkeypatch):
    """By the DKW bound two samples of n rows of one law are e or more apart in one of m functions
    with a chance of at most 4 m exp(-n e^2 / 2); the tables add at most .0013 to a column."""
    monkeypatch.setattr(of_cards, "FULL_FRAUDS", of_cards.FULL_ROWS // 2)
    kept, rows, e = standins.parameters(name), 60_000, 0.039
    ours = TABLES[name](kept, rows, np.random.default_rng(11))
    theirs = WHOLE[name](kept, rows, np.random.default_rng(12))
    middle = WHOLE[name](kept, 2_001, np.random.default_rng(13)).median()
    classes = (0, 1) if name == "creditcard" else (None,)
    for label in classes:
        pair = [one if label is None else one[one["Class"] == label] for one in (ours, theirs)]
        distance, m = furthest(*pair, middle)
        fewest = min(map(len, pair))
        assert 4 * m * np.exp(-fewest * e**2 / 2) < 5e-7
        assert distance < e + 0.0013


# memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "at_most"),
    [("creditcard", None, 2.0), ("lending", None, 3.0), ("lending", 100_000, 2.0)],
)
def test_drawing_takes_little_beside_the_rows_own_bytes(name, rows, at_most):
    """At most three times the bytes of X; without numbers of Python, twice where rows are many."""
    datasets.load(name, "standin", rows=10)  # what is imported on the way is no part of a draw
    tracemalloc.start()
    try:
        data = datasets.load(name, "standin", rows=rows)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert data.X.nbytes < held < 1.25 * data.X.nbytes
    assert peak <= at_most * data.X.nbytes
