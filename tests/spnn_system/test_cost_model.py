"""The cost model: its seconds against a slow count message by message, its tables against epochs
that were really run.
"""

import math
from fractions import Fraction

import pandas as pd
import pytest
import torch

from ppkit.spnn.layer import SPNN, FirstLayer
from ppkit.spnn.messages import COLUMNS, Transcript
from ppkit.spnn.rivals import PiecewiseNet, SplitNN
from ppkit.spnn.secureml import SecureML
from spnn_system.cost_model import (
    crossing,
    epoch_table,
    first_layer_bytes,
    floor,
    offline_seconds,
    once_seconds,
    online_seconds,
    part,
    secureml_table,
    splitnn_table,
)

# two full batches, and one of five
N_ROWS, BATCH = 23, 9
KINDS = {
    "plain": {"protocol": "plain"},
    "masked": {"protocol": "masked"},
    "lean": {"protocol": "ss", "form": "lean"},
    "published": {"protocol": "ss", "form": "published"},
    "dealerless": {"protocol": "ss", "form": "dealerless"},
    "he": {"protocol": "he"},
    "B has the labels": {"protocol": "masked", "label_holder": 1},
}
SMALL_KEYS = dict.fromkeys(("dealerless", "he"), {"key_bits": 512})
HOLDERS = {2: (3, 2), 3: (2, 2, 1)}


def table_of(*rows):
    """Messages as (step, round, phase, sender, receiver, name, n_bytes)."""
    return pd.DataFrame(rows, columns=COLUMNS)


def an_epoch_really_run(net, parts, n_rows, batch):
    net.prepare(parts)
    for rows in torch.arange(n_rows).split(batch):
        net(rows).sum().backward()
    return net.transcript.table()


CASES = [
    (kind, k, N_ROWS, BATCH) for kind in KINDS for k in HOLDERS if (kind, k) != ("dealerless", 3)
] + [
    (kind, 2, *sizes)
    for kind in ("masked", "lean", "dealerless", "he")
    for sizes in ((18, 9), (8, 9), (1, 1))
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "k", "n_rows", "batch"), CASES)
def test_the_table_of_an_epoch_is_that_of_a_really_run_one(kind, k, n_rows, batch):
    """Row by row: steps, rounds, parties, names and bytes; small keys, 12 numbers to a ciphertext
    (11 for three holders).
    """
    choices, keys = KINDS[kind], SMALL_KEYS.get(kind, {})
    counted = epoch_table(HOLDERS[k], (4, 3), n_rows=n_rows, batch=batch, **choices, **keys)
    if keys:
        choices = choices | keys | {"teaching": True}
    rng = torch.Generator().manual_seed(1)
    net = SPNN(HOLDERS[k], (4, 3), rng=rng, **choices)
    parts = [torch.randn(n_rows, columns, generator=rng) for columns in HOLDERS[k]]
    run = an_epoch_really_run(net, parts, n_rows, batch)
    # a key's h_n may be a byte shorter
    varying = counted["name"] == "public key"
    pd.testing.assert_frame_equal(counted[~varying], run[~varying])
    assert list(counted.columns) == COLUMNS and counted["n_bytes"].min() > 0


@pytest.mark.parametrize("k", HOLDERS)
def test_the_table_of_element_by_element_encryption_has_a_ciphertext_for_every_number(k):
    settings = dict(n_rows=5, batch=3, protocol="he", key_bits=512)
    packed, single = (epoch_table(HOLDERS[k], (3, 2), **settings, elementwise=e) for e in (0, 1))
    encrypted = packed["name"] == "Enc(X theta)"
    pd.testing.assert_frame_equal(packed[~encrypted], single[~encrypted])
    for step, rows in ((1, 3), (2, 2)):
        sent = single.loc[encrypted & (single["step"] == step), "n_bytes"]
        assert set(sent) == {rows * 3 * 2 * 512 // 8} and len(sent) == k


@pytest.mark.slow
@pytest.mark.parametrize("truncation", ["dealer", "secureml"])
@pytest.mark.parametrize(
    ("hidden", "activation"), [((4, 3), "piecewise"), ((3, 5), ("piecewise", "relu"))]
)
def test_the_table_of_secureml_is_that_of_a_really_run_epoch(hidden, activation, truncation):
    """Bits are packed eight to a byte: 27 or 45 of them, 23 rows and 9 do not fill the last one."""
    counted = secureml_table(
        (3, 2), hidden, n_rows=N_ROWS, batch=BATCH, activation=activation, truncation=truncation
    )
    rng = torch.Generator().manual_seed(1)
    shared = SecureML(
        PiecewiseNet((3, 2), hidden, activation=activation, rng=rng), truncation=truncation
    )
    parts = [torch.rand(N_ROWS, columns, generator=rng, dtype=torch.float64) for columns in (3, 2)]
    shared.prepare(parts, torch.zeros(N_ROWS))
    for rows in torch.arange(N_ROWS).split(BATCH):
        shared.step(rows, lr=0.5)
    pd.testing.assert_frame_equal(counted, shared.transcript.table())


@pytest.mark.parametrize(("holders", "width"), [((14, 14), 8), ((10, 9, 9), 8), ((1,) * 5, 3)])
def test_splitnn_sends_the_encodings_that_its_net_has_and_their_gradients(holders, width):
    table = splitnn_table(holders, (width, 2), n_rows=N_ROWS, batch=BATCH)
    net = SplitNN(holders, (width, 2), rng=torch.Generator().manual_seed(0))
    sizes = {
        chr(ord("A") + i): [4 * rows * theta.shape[1] for rows in (9, 9, 5)]
        for i, theta in enumerate(net.theta)
    }
    up, down = (
        part(table, "online").query(side) for side in ("receiver == 'server'", "sender == 'server'")
    )
    assert up.groupby("sender")["n_bytes"].apply(list).to_dict() == sizes
    assert down.groupby("receiver")["n_bytes"].apply(list).to_dict() == sizes
    assert part(table, "once")[["sender", "receiver", "n_bytes"]].values.tolist() == [
        ["A", "server", N_ROWS]
    ]
    assert part(table, "online")["round"].nunique() == 6 and not len(part(table, "offline"))


def seconds_message_by_message(table, bandwidth, latency):
    """The slow and obvious way: walk through the rounds, add up each link in exact fractions, wait
    for the slowest.
    """
    total = Fraction(0)
    for number in sorted({row.round for row in table.itertuples()}):
        on_link = {}
        for row in table.itertuples():
            if row.round == number:
                on_link[row.sender, row.receiver] = (
                    on_link.get((row.sender, row.receiver), 0) + row.n_bytes
                )
        total += Fraction(8 * max(on_link.values()), bandwidth) + Fraction(latency)
    return float(total)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "secureml", "splitnn"])
def test_seconds_are_those_of_a_walk_through_the_rounds(kind):
    sizes = {"n_rows": N_ROWS, "batch": BATCH}
    makers = {"secureml": secureml_table, "splitnn": splitnn_table}
    choices = KINDS.get(kind, {}) | SMALL_KEYS.get(kind, {})
    table = makers.get(kind, epoch_table)((3, 2), (4, 3), **sizes, **choices)
    online = table[(table["phase"] == "online") & (table["step"] > 0)]
    once = table[(table["phase"] == "online") & (table["step"] == 0)]
    for bandwidth, latency in ((1_000, 0), (10**8, Fraction(1, 20))):
        wanted = seconds_message_by_message(online, bandwidth, latency)
        assert online_seconds(table, bandwidth=bandwidth, latency=float(latency)) == pytest.approx(
            wanted, rel=1e-12
        )
        assert online_seconds(
            table, bandwidth=bandwidth, latency=float(latency), compute=2.5
        ) == pytest.approx(wanted + 2.5)
        assert once_seconds(table, bandwidth=bandwidth, latency=float(latency)) == pytest.approx(
            seconds_message_by_message(once, bandwidth, latency), rel=1e-12
        )
        assert floor(table, bandwidth) == pytest.approx(
            seconds_message_by_message(online, bandwidth, 0), rel=1e-12
        )
        if kind == "dealerless":  # holders answer each other: two rounds a step
            offline = table[table["phase"] == "offline"]
            assert offline["round"].nunique() == 2 * 3
            assert offline_seconds(
                table, bandwidth=bandwidth, latency=float(latency), compute=2.5
            ) == pytest.approx(2.5 + seconds_message_by_message(offline, bandwidth, latency))


def test_a_round_waits_for_its_busiest_link_and_directions_do_not_share_one():
    table = table_of(
        (0, 0, "online", "A", "B", "seed", 500),
        (0, 1, "offline", "dealer", "A", "seed", 1),
        (1, 2, "offline", "dealer", "A", "W", 400),
        (1, 2, "offline", "dealer", "B", "W", 300),
        (1, 2, "offline", "dealer", "B", "Z", 250),
        (1, 2, "online", "A", "B", "x", 100),
        (1, 2, "online", "A", "B", "y", 50),
        (1, 2, "online", "B", "A", "x", 120),
        (1, 5, "online", "A", "server", "h", 1_000),
        (1, 5, "online", "B", "server", "h", 900),
        (2, 6, "online", "B", "A", "x", 7),
    )
    assert floor(table, 8) == 150 + 1_000 + 7
    # rounds 3, 4 are empty
    assert online_seconds(table, bandwidth=8, latency=0.25, compute=3) == 1_157 + 3 * 0.25 + 3
    assert once_seconds(table, bandwidth=8, latency=0.25, compute=1) == 500 + 0.25 + 1
    # B's link; they stream
    assert offline_seconds(table, bandwidth=8, latency=0.25, compute=1) == 550 + 0.25 + 1
    # a line for each machine: the server hears both holders, the dealer serves both
    assert online_seconds(table, bandwidth=8, line="machine") == 150 + 1_900 + 7
    assert offline_seconds(table, bandwidth=8, line="machine") == 1 + 400 + 550


def test_nothing_sent_takes_the_time_of_computing():
    table = Transcript().table()  # NN: one party
    assert online_seconds(table, bandwidth=1.0, latency=9.0, compute=0.2) == 0.2
    assert (
        floor(table, 1.0)
        == once_seconds(table, bandwidth=1.0)
        == offline_seconds(table, bandwidth=1.0, latency=9.0)
        == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_at_the_crossing_both_take_as_long_and_on_either_side_another_is_faster(latency):
    ss, he = (
        epoch_table((14, 14), (8, 8), n_rows=100, batch=50, **KINDS[kind])
        for kind in ("published", "he")
    )
    at = crossing(ss, 0.01, he, 0.5, latency)
    assert at == crossing(he, 0.5, ss, 0.01, latency) and math.isfinite(at)

    def seconds(table, bandwidth, compute):
        return online_seconds(table, bandwidth=bandwidth, latency=latency, compute=compute)

    def gap(bandwidth):
        return seconds(ss, bandwidth, 0.01) - seconds(he, bandwidth, 0.5)

    assert abs(gap(at)) < 1e-9 * seconds(ss, at, 0.01)
    assert gap(0.9 * at) > 0 > gap(1.1 * at)


def test_there_is_no_crossing_where_one_is_behind_in_bytes_and_in_computing_or_nothing_differs():
    masked, published = (
        epoch_table((14, 14), (8, 8), n_rows=50, batch=50, **KINDS[kind])
        for kind in ("masked", "published")
    )
    assert (
        crossing(masked, 0.1, published, 0.2) is None
        and crossing(published, 0.2, masked, 0.1) is None
    )
    assert (
        crossing(masked, 0.1, masked, 0.2) is None and crossing(masked, 0.1, published, 0.1) is None
    )
    assert crossing(masked, 0.2, published, 0.1) is not None
    # its four rounds against six: 2 s more
    assert crossing(masked, 0.2, published, 0.1, latency=1.0) is None


@pytest.mark.slow
def test_the_first_layers_forward_traffic_of_the_lean_forms_is_at_least_8_times_below_algorithm_2():
    """Batch 5,000, 28 features, width 8: what the holders send each other and the server, and with
    the dealer's part too.
    """

    def forward(kind, parts):
        table = epoch_table((14, 14), (8, 8), n_rows=5_000, batch=5_000, **KINDS[kind])
        sent = pd.concat([part(table, name) for name in parts])
        return int(
            sent[(sent["step"] == 1) & ~sent["name"].isin(["h_L", "dL/dh_L", "dL/dh1"])][
                "n_bytes"
            ].sum()
        )

    assert (
        forward("published", ["online"])
        == 8 * (5_000 * 28 + 28 * 8) + 4 * 8 * (5_000 * 28 + 28 * 8) + 2 * 8 * 5_000 * 8
    )
    assert forward("lean", ["online"]) == 2 * 8 * 28 * 8 + 2 * 4 * 5_000 * 8
    assert forward("masked", ["online"]) == 2 * 4 * 5_000 * 8
    for kind in ("lean", "masked"):
        assert forward("published", ["online"]) >= 8 * forward(kind, ["online"])
        # even with the dealer's W
        assert forward("published", ["online"]) >= 8 * forward(kind, ["online", "offline"])
        assert forward("published", ["online", "offline"]) >= 8 * forward(
            kind, ["online", "offline"]
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth": 0}, "bandwidth must be a finite number > 0, got 0"),
        ({"bandwidth": math.inf}, "bandwidth must be a finite number > 0, got inf"),
        ({"bandwidth": -1e8}, r"bandwidth must be a finite number > 0, got -100000000.0"),
        ({"latency": -0.1}, "latency must be a finite number >= 0, got -0.1"),
        ({"compute": math.nan}, "compute must be a finite number >= 0, got nan"),
    ],
)
def test_numbers_that_cannot_be_are_refused(change, message):
    table = splitnn_table((1, 1), (2,), n_rows=1, batch=1)
    for seconds in (online_seconds, once_seconds, offline_seconds):
        with pytest.raises(ValueError, match=message):
            seconds(table, **{"bandwidth": 1e6} | change)


def test_tables_and_sizes_that_cannot_be_are_refused():
    table = splitnn_table((1, 1), (2,), n_rows=1, batch=1)
    with pytest.raises(ValueError, match="bandwidth must be a finite number > 0, got 0"):
        floor(table, 0)
    with pytest.raises(ValueError, match="compute_b must be a finite number >= 0, got -1"):
        crossing(table, 1, table, -1)
    with pytest.raises(ValueError, match="line must be one of link, machine, got 'hub'"):
        online_seconds(table, bandwidth=1, line="hub")
    with pytest.raises(ValueError, match="part must be one of once, offline, online, got 'late'"):
        part(table, "late")
    for n_rows, batch in ((0, 5), (5, 0)):
        with pytest.raises(
            ValueError, match=f"n_rows and batch must be >= 1, got {n_rows} and {batch}"
        ):
            epoch_table((1, 1), (2,), n_rows=n_rows, batch=batch, protocol="masked")


FORWARD = {
    "plain": {"protocol": "plain"},
    "masked": {"protocol": "masked"},
    "lean": {"protocol": "ss", "form": "lean"},
    "published": {"protocol": "ss", "form": "published"},
    "dealerless": {"protocol": "ss", "form": "dealerless", "key_bits": 512},
    "he": {"protocol": "he", "key_bits": 512},
}


@pytest.mark.parametrize("kind", FORWARD)
def test_bytes_of_the_first_layer_are_those_that_its_forward_pass_really_sends(kind):
    """Oracle: the layer alone, run on all rows, without a backward pass, message by message."""
    choices = dict(FORWARD[kind])
    short = {"teaching": True} if "key_bits" in choices else {}
    layer = FirstLayer([3, 2], 4, rng=torch.Generator().manual_seed(0), **choices, **short)
    layer.prepare([torch.zeros(N_ROWS, columns) for columns in (3, 2)])
    layer(slice(None))
    ahead = online = 0
    for message in layer.transcript.table().itertuples():
        if message.step == 1 and message.phase == "offline":
            ahead += message.n_bytes
        elif message.step == 1:
            online += message.n_bytes
    assert first_layer_bytes((3, 2), 4, n_rows=N_ROWS, **choices) == (ahead, online)


@pytest.mark.slow
def test_without_a_dealer_the_same_step_sends_less_online():
    """28 columns, width 8, 5,000 rows of 8 bytes a word, counted by hand: each holder opens its
    X - U and Y - V once and not twice, since it knows one factor of each triple whole.
    """
    n, d, w = 5_000, 28, 8
    shares = n * d + d * w  # of X and theta, half of it from each holder
    opened = 2 * (n * d + d * w)
    to_server = 2 * n * w
    choices = {"n_rows": n, "protocol": "ss"}
    _, published = first_layer_bytes((14, 14), w, form="published", **choices)
    _, dealerless = first_layer_bytes((14, 14), w, form="dealerless", key_bits=512, **choices)
    assert published == 8 * (shares + 2 * opened + to_server) == 6_248_960
    assert dealerless == 8 * (shares + opened + to_server) == 4_005_376
