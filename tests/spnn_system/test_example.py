"""The example: what the holders' files hold is exactly the rows it was made from, and the config
says so.
"""

import os
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from network_runs import small_rows

from ppkit import datasets
from ppkit.spnn.vertical import LEAKAGE, fraud
from spnn_system import config, data, example, preflight
from spnn_system.transport import certificates


@pytest.fixture(scope="module")
def cards():
    return datasets.load("creditcard", source="standin", rows=3_000)


@pytest.mark.slow
def test_new_rows_are_the_first_test_rows_without_labels(cards, tmp_path):
    held = fraud(cards)
    read = config.load(example.write(tmp_path / "run", held, n_new=7))
    for part, holder in zip(held.parts["test"], read.holders):
        new = pd.read_parquet(holder.predict)
        assert new.pop("id").tolist() == held.rows["test"][:7].tolist() and "label" not in new
        assert np.array_equal(new.to_numpy(), part[:7].numpy())
        assert holder.predict.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_each_holder_reads_back_its_own_columns_to_the_bit(cards, tmp_path):
    held = fraud(cards, holders=3)
    path = example.write(
        tmp_path / "new" / "run", held, label_holder=1, names=["bank", "shop", "C"], protocol="ss"
    )
    read = config.load(path)
    assert (
        read.names == ("bank", "shop", "C")
        and read.label_holder == "shop"
        and read.source == cards.source
    )
    assert (
        read.training.train_rows == 2_400
        and read.protocol.form == "lean"
        and "dealer" in read.roles
    )
    rows = np.concatenate([held.rows["train"], held.rows["test"]])
    for i, name in enumerate(read.names):
        X, y, ids = data.read(read, name)
        assert torch.equal(X, torch.cat([held.parts["train"][i], held.parts["test"][i]]))
        assert ids == [str(row) for row in rows]
        assert (y is None) == (name != "shop")
    columns = [list(pd.read_parquet(read.holder(name).data).columns) for name in read.names]
    assert [column for kept in columns for column in kept if column not in ("id", "label")] == list(
        held.feature_names
    )
    assert torch.equal(data.read(read, "shop")[1], torch.cat([held.y["train"], held.y["test"]]))
    assert data.check(read) == 3_000
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "C.parquet",
        "bank.parquet",
        "config.toml",
        "shop.parquet",
    ]


@pytest.mark.slow
def test_settings_come_back_and_the_rest_stays_at_its_default(cards, tmp_path):
    held = fraud(cards, fractions=LEAKAGE)
    given = dict(
        epochs=3,
        batch=500,
        lr=0.125,
        bandwidth="10 Mbps",
        latency=0.005,
        timeout=3.0,
        hidden=(5, 4),
        record=True,
        activation=["relu", "sigmoid"],
        secrets="teaching",
        seed=7,
        checkpoint_every=2,
        key_bits=512,
        form=None,
    )
    read = config.load(
        example.write(
            tmp_path, replace(held, source='"my" rows'), protocol="he", run="r.1", **given
        )
    )
    assert (read.training.epochs, read.training.batch, read.training.lr, read.training.seed) == (
        3,
        500,
        0.125,
        7,
    )
    assert (
        read.network.bandwidth,
        read.network.latency,
        read.network.timeout,
        read.network.record,
    ) == (1e7, 0.005, 3.0, True)
    assert read.model.hidden == (5, 4) and read.model.activation == ("relu", "sigmoid")
    assert (
        read.protocol.choices == {"key_bits": 512, "teaching": True} and read.protocol.form is None
    )
    assert (read.source, read.run) == ('"my" rows', "r.1") and "dealer" not in read.roles
    assert read.training.train_rows == len(held.y["train"]) and data.check(read) == len(
        held.y["train"]
    ) + len(held.y["test"])
    plain = config.load(example.write(tmp_path / "2", held))
    assert plain.protocol.name == "masked" and plain.network == type(plain.network)(
        certificates=tmp_path / "2" / "certificates"
    )
    assert plain.training == type(plain.training)(train_rows=len(held.y["train"]))


def test_without_a_dealer_there_are_keys_to_see_and_no_dealer(cards, tmp_path):
    path = example.write(tmp_path, fraud(cards), protocol="ss", form="dealerless")
    read = config.load(path)
    assert read.roles == ("coordinator", "server", "A", "B")
    assert read.protocol.form == "dealerless" and "\nkey_bits = 2048" in path.read_text("utf-8")


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (dict(bach=5), "unknown setting 'bach': there are bandwidth, latency, "),
        (dict(batch=0), r"\[training\] batch must be a whole number >= 1, got 0"),
        (dict(bandwidth="fast"), r"\[network\] bandwidth must be a number of bits per second"),
        (dict(lr=float("nan")), "config.toml"),
        (
            dict(protocol="mpc"),
            r"\[protocol\] name must be one of plain, ss, he, masked, got 'mpc'",
        ),
        (dict(names=["A"]), r"there must be 2 names of holders, got \['A'\]"),
        (dict(names=["A", "A"]), r"\[\[holder\]\] name 'A' is another role's"),
        (dict(label_holder=2), r"exactly one \[\[holder\]\] must have labels, got 0"),
    ],
)
def test_nothing_is_written_for_settings_that_are_refused(cards, tmp_path, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        example.write(tmp_path / "run", fraud(cards), **settings)
    assert not (tmp_path / "run").exists()


def test_rows_of_ones_own_become_a_run(tmp_path):
    rng = np.random.default_rng(0)
    shop = pd.DataFrame({"age": rng.normal(40, 12, 60), "one": 3.0})
    bank = pd.DataFrame({"income": rng.lognormal(10, 1, 60)})
    y = rng.integers(2, size=60)
    rows = example.own_rows([shop, bank], y, train_rows=45, source="mine")
    conf = config.load(example.write(tmp_path / "it", rows, names=["shop", "bank"]))
    assert (conf.source, conf.training.train_rows, data.check(conf)) == ("mine", 45, 60)
    X, labels, ids = data.read(conf, "shop")
    assert labels.tolist() == y.tolist() and ids == [str(i) for i in range(60)]
    age = shop["age"].to_numpy()
    expected = (age - age[:45].mean()) / age[:45].std()
    assert np.allclose(X[:, 0].numpy(), expected, atol=1e-6) and not X[:, 1].any()
    assert data.features(conf, "bank") == ["income"]


@pytest.mark.parametrize(
    "columns, train_rows, sentence",
    [
        ({"x": [1.0, 2.0]}, 2, r"must have the 3 rows of y, .* got tables of \[3, 2\] rows and 2"),
        ({"x": [1.0, 2.0, 3.0]}, 3, "train_rows leave one or more to test on, .* and 3"),
        ({"id": [1.0, 2.0, 3.0]}, 2, "'id' is what the holders' files call something else"),
        ({"label": [1.0, 2.0, 3.0]}, 2, "'label' is what the holders' files call something else"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(columns, train_rows, sentence):
    tables = [pd.DataFrame({"z": [0.0, 1.0, 2.0]}), pd.DataFrame(columns)]
    with pytest.raises(ValueError, match=sentence):
        example.own_rows(tables, [0, 1, 1], train_rows=train_rows)


@pytest.mark.parametrize("name", ["index", "X", "level_0"])
def test_own_rows_refuses_an_index_before_it_is_scaled(name):
    """Normal rows, then frauds, joined and shuffled: the index that is left tells the label."""
    rng = np.random.default_rng(5)
    joined = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    mixed = joined.sample(frac=1, random_state=1).reset_index(names=name)
    tables = [mixed[["c"]], mixed[[name, "a", "b"]]]
    y = (mixed[name] >= 40).astype(int).tolist()
    with pytest.raises(ValueError, match=rf"tables\[1\]: column '{name}' has the name and the"):
        example.own_rows(tables, y, train_rows=45)
    rows = example.own_rows([tables[0], tables[1].drop(columns=name)], y, train_rows=45)
    assert rows.holders == [1, 2]


def test_own_rows_refuses_two_columns_of_one_name_and_takes_whole_numbers_as_names():
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.normal(size=(60, 2))), pd.DataFrame(rng.normal(size=(60, 1)))]
    y = rng.integers(2, size=60)
    assert example.own_rows(tables, y, train_rows=45).feature_names == ("0", "1", "0")
    tables[0].columns = ["x", "x"]
    with pytest.raises(ValueError, match=r"tables\[0\] has two columns with the name 'x'"):
        example.own_rows(tables, y, train_rows=45)


def test_own_rows_refuses_dates_of_which_one_that_is_missing_would_drown_the_others():
    rng = np.random.default_rng(0)
    day = pd.Series(pd.Timestamp("2013-09-01") + pd.to_timedelta(rng.integers(0, 9**5, 60), "s"))
    day[3] = pd.NaT
    tables = [
        pd.DataFrame({"x": rng.normal(size=60), "day": day}),
        pd.DataFrame({"z": day - day[0]}),
    ]
    y = rng.integers(2, size=60)
    with pytest.raises(ValueError, match=r"tables\[0\]: feature 'day' must be numbers, got dates"):
        example.own_rows(tables, y, train_rows=45)
    with pytest.raises(ValueError, match=r"tables\[0\]: feature 'z' must be numbers, got dates"):
        example.own_rows(tables[::-1], y, train_rows=45)


def test_an_earlier_example_is_not_overwritten(cards, tmp_path):
    path = example.write(tmp_path, fraud(cards))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="there is a config.toml in .* already"):
        example.write(tmp_path, fraud(cards), epochs=2)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["A.parquet", "B.parquet", "new-A.parquet"])
def test_no_file_of_somebody_elses_is_written_over(cards, tmp_path, name):
    (tmp_path / name).write_bytes(b"theirs")
    with pytest.raises(ValueError, match=f"there is a {name} in .* already: name a new folder"):
        example.write(tmp_path, fraud(cards), n_new=5)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"theirs"


def test_every_key_of_the_file_says_what_it_accepts(cards, tmp_path):
    lines = example.write(tmp_path, fraud(cards)).read_text("utf-8").splitlines()
    keys = [line for line in lines[: lines.index("[coordinator]")] if " = " in line][2:]
    assert len(keys) == 21 and all("# " in line for line in keys)
    assert any(line.startswith("secrets = ") and "NOT SECRET" in line for line in keys)


@pytest.mark.slow
def test_the_fewest_rows_of_creditcard_have_20_frauds_to_test_on_and_one_row_less_is_refused():
    assert int(example.creditcard(example.FEWEST_ROWS).y["test"].sum()) == 20
    assert (
        int(
            fraud(datasets.load("creditcard", source="standin", rows=example.FEWEST_ROWS - 1))
            .y["test"]
            .sum()
        )
        < 20
    )
    for rows in (example.FEWEST_ROWS - 1, 2_000, 0, -1):
        with pytest.raises(
            ValueError,
            match="have too few frauds to test on: take at least 56,441, which have 20 among the "
            "test rows, or all",
        ):
            example.creditcard(rows)


def test_rows_and_the_folders_of_a_run_are_their_users_alone(tmp_path):
    """Also where files that others make are open to all: what is made here is told its mode."""
    before = os.umask(0)
    try:
        path = example.write(tmp_path / "deep" / "first", small_rows())
        conf = config.load(path)
        certificates.make(conf.network.certificates, conf.roles)
        preflight.check(conf, conf.roles)
    finally:
        os.umask(before)
    folder = path.parent

    def modes(*names):
        return {stat.S_IMODE((folder / name).stat().st_mode) for name in names}

    assert modes("A.parquet", "B.parquet", "certificates/A/key.pem") == {0o600}
    assert modes(".", "run", *(f"run/{role}" for role in conf.roles)) == {0o700}
    path.unlink()
    with pytest.raises(ValueError, match="there is a A.parquet in .+ already: name a new folder"):
        example.write(folder, small_rows())  # whoever could read the old file reads no new rows


SOME = np.random.default_rng(0).normal(size=60)
OF_TWO = np.random.default_rng(1).integers(2, size=60)
OTHER_ORDER = np.random.default_rng(2).permutation(60)


@pytest.mark.parametrize(
    "y, said",
    [
        (np.where(OF_TWO == 1, "malignant", "benign"), "row 0 .* is not: pandas.factorize numbers"),
        (40 + SOME, "y must be labels that are whole numbers from 0, row 0"),
        (np.where(np.arange(60) == 7, np.nan, OF_TWO), r"row 7 \(from 0\) is not"),
        (pd.Series(OF_TWO).astype("Int64").mask(np.arange(60) == 7), r"row 7 \(from 0\) is not"),
        (2 * OF_TWO - 1, "whole numbers from 0"),
        (OF_TWO[:, None], r"y must be one label for each row, got shape \(60, 1\)"),
    ],
)
def test_own_rows_refuses_labels_that_are_no_whole_numbers_from_0(y, said):
    """A target of regression would lose what stands behind its points, and a gap become -2^63."""
    tables = [pd.DataFrame({"a": SOME}), pd.DataFrame({"b": SOME**2})]
    with pytest.raises(ValueError, match=said):
        example.own_rows(tables, y, train_rows=45)


@pytest.mark.parametrize(
    "column, said",
    [
        (
            np.where(OF_TWO == 1, "F", "M"),
            "feature 'b' must be numbers, row 0 .* a column of 0 and",
        ),
        (pd.Categorical(list("FM") * 30), "feature 'b' must be numbers"),
        (
            np.where(OF_TWO == 1, np.nan, SOME),
            r"finite in float64, got \d+ of 60 .*: fill the gaps",
        ),
        (np.where(OF_TWO == 1, np.inf, SOME), "must be finite in float64"),
        (pd.array([1, None, 2] * 20, "Int64"), "got 20 of 60 values that are not, row 1"),
    ],
)
def test_own_rows_refuses_what_is_no_finite_number_and_names_the_column(column, said):
    tables = [pd.DataFrame({"a": SOME}), pd.DataFrame({"b": column})]
    with pytest.raises(ValueError, match=rf"tables\[1\]: .*{said}"):
        example.own_rows(tables, OF_TWO, train_rows=45)


@pytest.mark.parametrize(
    "table, said",
    [
        (
            SOME[:, None],
            r"tables\[1\] must be a pandas DataFrame .*, got ndarray of shape \(60, 1\)",
        ),
        (pd.Series(SOME), "got Series"),
        (pd.DataFrame(index=range(60)), r"got DataFrame of shape \(60, 0\)"),
    ],
)
def test_own_rows_refuses_what_is_no_table(table, said):
    with pytest.raises(ValueError, match=said):
        example.own_rows([pd.DataFrame({"a": SOME}), table], OF_TWO, train_rows=45)


def test_own_rows_refuses_no_table():
    with pytest.raises(ValueError, match="tables must be one table of a holder or more, got none"):
        example.own_rows([], OF_TWO, train_rows=45)


def test_own_rows_refuses_one_index_in_two_orders():
    shop, bank = pd.DataFrame({"a": SOME}), pd.DataFrame({"b": SOME**2})
    y = pd.Series(OF_TWO)
    with pytest.raises(ValueError, match=r"tables\[1\] has the index of tables\[0\] in another"):
        example.own_rows([shop, bank.iloc[OTHER_ORDER]], y, train_rows=45)
    with pytest.raises(ValueError, match=r"y has the index of tables\[0\] in another order"):
        example.own_rows([shop, bank], y.iloc[OTHER_ORDER], train_rows=45)
    mixed = [table.iloc[OTHER_ORDER] for table in (shop, bank)]
    rows = example.own_rows(mixed, y.iloc[OTHER_ORDER], train_rows=45)
    assert rows.y["train"].tolist() == OF_TWO[OTHER_ORDER][:45].tolist()
    named = bank.set_axis([f"customer {i}" for i in range(60)])
    assert example.own_rows([shop, named], OF_TWO, train_rows=45).holders == [1, 1]


def test_own_rows_keeps_large_numbers_apart_and_warns_of_nothing(recwarn):
    """In float32 these would be one number."""
    large = pd.DataFrame({"population": 1e9 + np.arange(60)[OTHER_ORDER] % 7, "is_large": SOME > 0})
    rows = example.own_rows([pd.DataFrame({"a": SOME}), large], pd.Series(OF_TWO), train_rows=45)
    assert len(rows.parts["train"][1][:, 0].unique()) == 7 and not recwarn.list
