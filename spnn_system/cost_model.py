"""How long an epoch takes on a network: computing, and what the messages wait for,
without sending any.

    seconds = compute
        + sum over rounds of 8 (largest bytes on one directed link in the round) / bandwidth
        + rounds x latency

Every pair of parties has a full-duplex link of its own, so messages of one round on different
links, or in different directions, travel side by side; the next round waits for the slowest. With
`line="machine"` each party has one line to all others instead, full-duplex too, and a round waits
for the machine that sends or receives most. A
table is what `Transcript.table` gives, of a run or, for sizes at which nobody wants to wait for a
run, of `epoch_table` and its kin: one row a message with its step, round, phase, sender, receiver,
name and n_bytes. Each message counts once: as "online" (of a training step), as "offline" (for
triples, from the dealer ahead of time or between two holders), or as "once" (before the first step:
seeds, keys, X - U).
"""

import functools
import math
from collections.abc import Callable, Sequence

import pandas as pd
import torch

from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import COLUMNS, DEALER, SERVER, Transcript, holder_names
from ppkit.spnn.paillier import Packing
from ppkit.spnn.paillier_keys import SECURE_BITS, PrivateKey, generate_keys
from ppkit.spnn.rivals import PiecewiseNet, even_widths
from ppkit.spnn.secureml import SecureML
from ppkit.validation import must_be, one_of

PARTS = ("once", "offline", "online")
LINES = ("link", "machine")  # whose the bandwidth is: each pair's link, or a party's one line
# what a step sends beside the forward pass of the first layer
BEYOND = ("h_L", "dL/dh_L", "dL/dh1")
FLOAT = 4  # bytes of a number that a rival sends in the clear


def part(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The messages of one of PARTS: "offline" by their phase, the others by their step, 0 or later.

    ValueError for another name.
    """
    one_of(PARTS, part=name)
    offline = table["phase"] == "offline"
    if name == "offline":
        return table[offline]
    return table[~offline & ((table["step"] == 0) == (name == "once"))]


def floor(table: pd.DataFrame, bandwidth: float) -> float:
    """Seconds that the online bytes alone take along the rounds: no computing, no latency.

    sum over rounds of 8 (largest bytes on one directed link) / bandwidth

    bandwidth: bits per second of a link in each direction, > 0.  Returns seconds >= 0, 0 for a
    table without messages.

    >>> table = epoch_table((2, 1), (4, 3), n_rows=10, batch=5, protocol="masked")
    >>> # 2 x (80 + 60 + 60 + 80) bytes at 1,000 bytes a second
    >>> round(floor(table, bandwidth=8_000), 3)
    0.56
    """
    return online_seconds(table, bandwidth=bandwidth)


def online_seconds(
    table: pd.DataFrame,
    *,
    bandwidth: float,
    latency: float = 0.0,
    compute: float = 0.0,
    line: str = "link",
) -> float:
    """Seconds of the training steps of a table: the formula of this module.

    bandwidth: bits per second, > 0.  line: of LINES.
    latency: seconds that a message takes beside its bytes, one way, >= 0.
    compute: seconds of the same steps on a network that costs nothing, >= 0: measured, of an
    unshaped run.
    Departs from a run: that one round ends before the next begins is the slowest order there is;
    where the next round's messages of one party wait only for what reached it early, a run gains on
    this.
    """
    return _seconds(part(table, "online"), bandwidth, latency, compute, line)


def once_seconds(
    table: pd.DataFrame, *, bandwidth: float, latency: float = 0.0, compute: float = 0.0
) -> float:
    """Seconds of what is sent before the first step, by the same formula: seeds, keys, and X - U of
    the lean form.
    """
    return _seconds(part(table, "once"), bandwidth, latency, compute)


def offline_seconds(
    table: pd.DataFrame,
    *,
    bandwidth: float,
    latency: float = 0.0,
    compute: float = 0.0,
    line: str = "link",
) -> float:
    """Seconds that the dealer sends ahead of time: its links side by side, nobody answers, so
    latency counts once.

    compute + 8 (largest bytes on one link) / bandwidth + latency

    line: of LINES; of a machine's line, all that the dealer sends.
    Without a dealer two holders answer each other in every step: the formula of this module.
    """
    rows = part(table, "offline")
    if DEALER in set(rows["sender"]):
        rows = rows.assign(round=0)
    return _seconds(rows, bandwidth, latency, compute, line)


def crossing(
    table_a: pd.DataFrame,
    compute_a: float,
    table_b: pd.DataFrame,
    compute_b: float,
    latency: float = 0.0,
) -> float | None:
    """The bandwidth at which two ways take the same online seconds, in bits per second; None if
    there is none.

    8 (bytes_a - bytes_b) / (fixed_b - fixed_a),  fixed = compute + rounds x latency

    Both are straight lines over 1/bandwidth, so there is at most one: above it the way with less
    computing is faster, below it the way with fewer bytes along its rounds. None too where they
    agree everywhere.

    >>> masked, he = (
    ...     epoch_table((2, 1), (4, 3), n_rows=10, batch=5, protocol=name)
    ...     for name in ("masked", "he")
    ... )
    >>> crossing(masked, 0.001, he, 1.0) is None  # fewer bytes and less computing
    True
    """
    must_be("a finite number >= 0", latency=latency, compute_a=compute_a, compute_b=compute_b)
    (bytes_a, rounds_a), (bytes_b, rounds_b) = (
        _along(part(table, "online")) for table in (table_a, table_b)
    )
    apart = (compute_b + rounds_b * latency) - (compute_a + rounds_a * latency)
    if (bytes_a - bytes_b) * apart <= 0:
        return None
    return 8 * (bytes_a - bytes_b) / apart


def epoch_table(
    holders: Sequence[int],
    hidden: Sequence[int],
    *,
    n_rows: int,
    batch: int,
    protocol: str = "ss",
    form: str | None = None,
    n_outputs: int = 1,
    label_holder: int = 0,
    key_bits: int = SECURE_BITS,
    keys: PrivateKey | None = None,
    elementwise: bool = False,
) -> pd.DataFrame:
    """All messages of one epoch of `layer.SPNN`, counted without computing it.

    The net runs for two steps on one row and on two; the size of every message is a straight line
    over the rows (of the batch, or of the data set for what is sent once), only ciphertexts go by
    ceil(rows x width / numbers in one).
    holders, hidden, protocol, form, n_outputs, label_holder: as for SPNN.
    n_rows: of the training set, >= 1.  batch: rows of a step; the last has what is left.
    key_bits: of the server's key for protocol "he", of each holder's for form "dealerless" (below
    2,048 for comparison).  keys: the server's for "he", in the place of new ones.  elementwise: for
    "he", one number a ciphertext as printed.
    Returns the columns of `Transcript.table`.
    ValueError as SPNN's, or for n_rows or batch below 1.
    """
    ciphertexts = None
    teaching = key_bits < SECURE_BITS
    if protocol == "he":
        keys = keys or generate_keys(key_bits, teaching=teaching)[1]
        in_one = 1 if elementwise else Packing(n_terms=len(holders)).n_fields(keys.public)
        ciphertexts = hidden[0], in_one, keys.public.ciphertext_bytes

    def run(n: int) -> Transcript:
        net = SPNN(
            holders,
            hidden,
            rng=torch.Generator().manual_seed(0),
            protocol=protocol,
            form=form,
            n_outputs=n_outputs,
            label_holder=label_holder,
            key_bits=key_bits,
            teaching=teaching,
            keys=keys,
        )
        net.prepare([torch.zeros(n, columns) for columns in holders])
        for _ in range(2):
            net(slice(None)).sum().backward()
        return net.transcript

    return _of_an_epoch(run, n_rows, batch, ciphertexts=ciphertexts)


def first_layer_bytes(
    holders: Sequence[int],
    width: int,
    *,
    n_rows: int,
    protocol: str = "ss",
    form: str | None = None,
    key_bits: int = SECURE_BITS,
    keys: PrivateKey | None = None,
    elementwise: bool = False,
) -> tuple[int, int]:
    """Bytes of the forward pass of the first layer in one step: (for triples ahead, online).

    holders: columns of each.  width: of h1.  n_rows: of the batch, >= 1.  protocol, form, key_bits,
    keys, elementwise: as for `epoch_table`.
    What is sent once per data set is not in it.  ValueError as there.

    >>> first_layer_bytes((14, 14), 8, n_rows=5_000, protocol="ss", form="published")
    (5767168, 6248960)
    """
    table = epoch_table(
        holders,
        (width,),
        n_rows=n_rows,
        batch=n_rows,
        protocol=protocol,
        form=form,
        key_bits=key_bits,
        keys=keys,
        elementwise=elementwise,
    )
    forward = table[(table["step"] == 1) & ~table["name"].isin(BEYOND)]
    offline, online = (part(forward, name)["n_bytes"].sum() for name in ("offline", "online"))
    return int(offline), int(online)


def secureml_table(
    holders: Sequence[int],
    hidden: Sequence[int],
    *,
    n_rows: int,
    batch: int,
    activation: str | Sequence[str] = "piecewise",
    truncation: str = "dealer",
) -> pd.DataFrame:
    """The same for `secureml.SecureML`, whose parties A and B are the two holders; arguments as
    there.

    It is a library of the kit with a transcript, not a set of roles that run apart: a time from
    this table is a count or a `replay`, not a run.
    """

    def run(n: int) -> Transcript:
        net = PiecewiseNet(
            holders, hidden, activation=activation, rng=torch.Generator().manual_seed(0)
        )
        shared = SecureML(net, truncation=truncation)
        shared.prepare(
            [torch.zeros(n, columns, dtype=torch.float64) for columns in holders], torch.zeros(n)
        )
        for _ in range(2):
            shared.step(torch.arange(n), lr=1.0)
        return shared.transcript

    # bits are packed, eight to a byte
    return _of_an_epoch(run, n_rows, batch, period=8)


def splitnn_table(
    holders: Sequence[int], hidden: Sequence[int], *, n_rows: int, batch: int
) -> pd.DataFrame:
    """The same for `rivals.SplitNN` cut behind the first layer, which has no messages of its own:
    they are made up here.

    A step: every holder's encodings (rows, its share of hidden[0]) to the server, and their
    gradients back, in float32;
    once: the labels, a byte each, which the server has in split learning.
    """
    shares = even_widths(max(hidden[0], len(holders)), len(holders))
    names = holder_names(len(holders))
    rows = [(0, 0, "online", names[0], SERVER, "labels", n_rows)]
    for step, start in enumerate(range(0, n_rows, batch), 1):
        for name, width in zip(names, shares):
            size = FLOAT * min(batch, n_rows - start) * width
            rows.append((step, 2 * step - 1, "online", name, SERVER, "X theta", size))
            rows.append((step, 2 * step, "online", SERVER, name, "dL/d(X theta)", size))
    return pd.DataFrame(rows, columns=COLUMNS)


def _of_an_epoch(
    run: Callable[[int], Transcript],
    n_rows: int,
    batch: int,
    *,
    period: int = 1,
    ciphertexts: tuple[int, int, int] | None = None,
) -> pd.DataFrame:
    """Two steps, really run on a few rows, drawn out to the rows of an epoch.

    period: a message of n rows and one of n + period differ by as many bytes for every n.
    ciphertexts: (numbers a row, numbers a ciphertext, bytes a ciphertext) for messages of
    ciphertexts.
    """
    if n_rows < 1 or batch < 1:
        raise ValueError(f"n_rows and batch must be >= 1, got {n_rows} and {batch}")
    tables = functools.cache(lambda n: run(n).table())

    def sized(n: int, step: int) -> pd.DataFrame:
        few = 1 + (n - 1) % period
        small, more = tables(few), tables(few + period)
        n_bytes = small["n_bytes"] + (more["n_bytes"] - small["n_bytes"]) * ((n - few) // period)
        if ciphertexts is not None:
            a_row, in_one, width = ciphertexts
            n_bytes = n_bytes.mask(
                small["name"] == "Enc(X theta)", width * math.ceil(n * a_row / in_one)
            )
        return small.assign(n_bytes=n_bytes)[small["step"] == step]

    first, second = (int(sized(1, step)["round"].min()) for step in (1, 2))
    steps = [sized(min(batch, n_rows - start), 1) for start in range(0, n_rows, batch)]
    steps = [
        rows.assign(step=1 + i, round=rows["round"] + (second - first) * i)
        for i, rows in enumerate(steps)
    ]
    return pd.concat([sized(n_rows, 0), *steps], ignore_index=True)[COLUMNS]


def _along(rows: pd.DataFrame, line: str = "link") -> tuple[int, int]:
    """Bytes on the busiest line of each round, added up, and the number of rounds in which anything
    is sent.
    """
    ends = [["sender", "receiver"]] if line == "link" else [["sender"], ["receiver"]]
    of_a_round = [
        rows.groupby(["round", *end])["n_bytes"].sum().groupby("round").max() for end in ends
    ]
    busiest = pd.concat(of_a_round, axis=1).max(axis=1)
    return int(busiest.sum()), len(busiest)


def _seconds(
    rows: pd.DataFrame, bandwidth: float, latency: float, compute: float, line: str = "link"
) -> float:
    must_be("a finite number > 0", bandwidth=bandwidth)
    must_be("a finite number >= 0", latency=latency, compute=compute)
    one_of(LINES, line=line)
    n_bytes, n_rounds = _along(rows, line)
    return compute + 8 * n_bytes / bandwidth + n_rounds * latency
