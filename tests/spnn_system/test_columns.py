"""A column that only numbers the rows is refused at its holder, and what tells the network little
is named there: files as pandas, R, polars and DuckDB write them.
"""

import json

import numpy as np
import pandas as pd
import pytest

from spnn_system import columns, data
from spnn_system import config as configs

N, TRAIN = 40, 30
TEXT = """
run = "r"
source = "made here"
[protocol]
name = "masked"
[training]
train_rows = 30
[coordinator]
address = "127.0.0.1:50050"
[server]
address = "127.0.0.1:50051"
[[holder]]
name = "A"
address = "127.0.0.1:50053"
data = "A.csv"
labels = "fraud"
predict = "new-A.csv"
[[holder]]
name = "B"
address = "127.0.0.1:50054"
data = "B.{kind}"
predict = "new.{kind}"
"""
ADVICE = "take it out (pandas: to_csv(index=False), R: row.names = FALSE)"
NO_NAME = f"like an index that was written along: {ADVICE}, or name it if it is a feature"


INDICES = (
    "index",
    "level_0",
    "__index_level_0__",
    "row_nr",
    "rowid",
    "file_row_number",
    "rownames",
    "__null_dask_index__",
    "monotonically_increasing_id()",
)


@pytest.fixture
def config(tmp_path):
    return configs.parse(TEXT.format(kind="csv"), tmp_path / "run.toml")


@pytest.fixture
def parquet(tmp_path):
    return configs.parse(TEXT.format(kind="parquet"), tmp_path / "run.toml")


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def table(**more) -> pd.DataFrame:
    """B's rows: ids in a mixed order, one feature with a normal distribution."""
    ids = rng().permutation(np.arange(1_000, 1_000 + 3 * N, 3))
    return pd.DataFrame({"id": ids, "x": rng().normal(size=N), **more})


def labelled(**more) -> pd.DataFrame:
    """A's."""
    return table(fraud=(rng().random(N) < 0.4).astype(int), **more)


def refused(config, holder: str = "B") -> str:
    with pytest.raises(ValueError) as error:
        data.read(config, holder)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError) as checked:  # what the launcher does before anything starts
        data.check(config, [holder])
    assert str(checked.value) == str(error.value)
    return str(error.value)


def said(config, holder: str = "B") -> list[str]:
    """What is said of the columns that go on, alike at the holder and at who starts it."""
    heard, at_launcher = [], []
    data.read(config, holder, tell=heard.append)
    data.check(config, [holder], tell=at_launcher.append)
    assert heard == at_launcher and not any("\n" in sentence for sentence in heard)
    return heard


# ---------------------------------------- an index that was written along


def test_pandas_index_has_no_name_in_a_csv_file(config):
    table().to_csv(config.holder("B").data)
    assert (
        refused(config) == f"holder B's file B.csv: column 1 has no name ('Unnamed: 0'), {NO_NAME}"
    )
    mixed = table().sample(frac=1, random_state=1)  # its index counts no more
    mixed.to_csv(config.holder("B").data)
    assert "column 1 has no name ('Unnamed: 0')" in refused(config)


def test_pandas_index_of_a_file_that_was_read_and_written_twice(config):
    file = config.holder("B").data
    table().to_csv(file)
    pd.read_csv(file).to_csv(file)
    assert "column 1 has no name ('Unnamed: 0.1')" in refused(config)


def test_an_index_of_two_levels(config):
    two = table().set_index(pd.MultiIndex.from_product([range(8), range(5)]))
    two.to_csv(config.holder("B").data)
    assert "column 1 has no name ('Unnamed: 0')" in refused(config)


@pytest.mark.parametrize("name", ["", " ", "Unnamed: 0", "Unnamed: 12", "Unnamed: 0_level_1"])
def test_a_column_without_a_name_in_a_parquet_file(parquet, name):
    table().assign(**{name: rng().normal(size=N)}).to_parquet(parquet.holder("B").data, index=False)
    assert f"holder B's file B.parquet: column 3 has no name ({name!r}), {NO_NAME}" == refused(
        parquet
    )


def test_the_label_holders_file_is_looked_at_too(config):
    labelled().to_csv(config.holder("A").data)
    assert "holder A's file A.csv: column 1 has no name ('Unnamed: 0')" in refused(config, "A")


def test_rs_write_csv_names_its_row_names_nothing(config):
    rows = [f'"{i + 1}",{row.id},{row.x}' for i, row in enumerate(table().itertuples())]
    config.holder("B").data.write_text("\n".join(['"","id","x"', *rows]) + "\n")
    assert "column 1 has no name ('Unnamed: 0')" in refused(config)


def test_a_comma_at_the_end_of_each_row_would_move_all_columns(config):
    """pandas takes the first field for its index without a word."""
    rows = [f"{row.id},{row.x}," for row in table().itertuples()]
    config.holder("B").data.write_text("\n".join(["id,x", *rows]) + "\n")
    assert refused(config) == (
        "holder B's file B.csv has one field more in its rows than names in its header: write it "
        "without a comma at the end of a row"
    )


@pytest.mark.parametrize("form", ['"r{i}",{id},{x}', '"{i}",{id},{x}'])
def test_the_names_of_rows_that_r_writes_move_no_column(config, form):
    rows = [form.format(i=i, id=row.id, x=row.x) for i, row in enumerate(table().itertuples())]
    config.holder("B").data.write_text("\n".join(['"id","x"', *rows]) + "\n")
    X, _, ids = data.read(config, "B")
    assert X[:, 0].tolist() == table()["x"].astype(np.float32).tolist()
    assert ids == table()["id"].astype(str).tolist()


def test_a_comma_at_the_end_of_header_and_rows(config):
    rows = [f"{row.id},{row.x}," for row in table().itertuples()]
    config.holder("B").data.write_text("\n".join(["id,x,", *rows]) + "\n")
    assert "column 3 has no name ('Unnamed: 2')" in refused(config)


@pytest.mark.parametrize("name", INDICES)
def test_an_index_of_chosen_rows_by_its_name(config, name):
    """pandas' reset_index and pyarrow, polars, DuckDB, R: with gaps, in another order."""
    numbers = rng().permutation(300)[:N]
    table(**{name: numbers}).to_csv(config.holder("B").data, index=False)
    assert refused(config) == (
        f"holder B's file B.csv: column {name!r} has the name and the values of an index: {ADVICE}"
        "; if it is a feature, rename it"
    )


def test_a_feature_with_the_name_of_an_index_and_other_values_is_one(config):
    table(index=rng().normal(size=N), row=rng().integers(9, size=N)).to_csv(
        config.holder("B").data, index=False
    )
    assert said(config) == []


COUNTS = {
    "from 0": np.arange(N),
    "from 1": np.arange(N) + 1,
    "from 17 by 3": np.arange(N) * 3 + 17,
    "down": -np.arange(N),
    "floats": np.arange(N) * 0.1 + 2,
    "standardised": (np.arange(N) - N / 2) / 11,
    "standardised, float32, far away": (1e3 + np.arange(N) / 300).astype(np.float32),
    "rounded": np.round(np.arange(N) * 0.7, 1),
}


@pytest.mark.parametrize("numbers", COUNTS.values(), ids=COUNTS)
def test_a_column_that_counts_rows_under_any_name(config, numbers):
    table(customer=numbers).to_csv(config.holder("B").data, index=False)
    assert refused(config) == (
        f"holder B's file B.csv: column 'customer' counts the rows of the file: {ADVICE}; if it is "
        "a feature, shuffle the rows of all holders in the same way"
    )


EQUAL = {
    "the same": lambda ids: ids,
    "shifted": lambda ids: ids - 1_000,
    "scaled": lambda ids: -0.25 * ids + 3,
    "standardised, float32": lambda ids: ((ids - ids.mean()) / ids.std()).astype(np.float32),
}


@pytest.mark.parametrize("of", EQUAL.values(), ids=EQUAL)
def test_a_column_that_equals_the_ids(config, of):
    table(key=of(table()["id"].to_numpy())).to_csv(config.holder("B").data, index=False)
    assert refused(config) == f"holder B's file B.csv: column 'key' equals the ids: {ADVICE}"


def test_ids_kept_as_pandas_index_in_a_parquet_file_are_ids(parquet):
    table().set_index("id").to_parquet(parquet.holder("B").data)
    assert data.read(parquet, "B")[2] == table()["id"].astype(str).tolist()


def test_the_index_of_chosen_rows_in_a_parquet_file_is_no_column_and_hurts_nobody(parquet):
    table()[lambda t: t.x < 3].sample(frac=1, random_state=0).to_parquet(parquet.holder("B").data)
    X, _, _ = data.read(parquet, "B")
    assert X.shape == (N, 1)


FEATURES = {
    "sorted": np.sort(rng().normal(size=N)),
    "sorted, whole": np.sort(rng().integers(0, 10_000, size=N)),
    "sorted, uniform": np.sort(rng().random(N)),
    "two blocks": np.repeat([0, 1], N // 2),
    "steps of two sizes": np.cumsum(np.tile([1, 3], N // 2)),
    "near the ids": table()["id"].to_numpy() + rng().normal(size=N),
    "ranks in another order": np.random.default_rng(1).permutation(N),
}


@pytest.mark.parametrize("numbers", FEATURES.values(), ids=FEATURES)
def test_a_feature_that_is_sorted_or_whole_but_numbers_no_row(config, numbers):
    table(feature=numbers).to_csv(config.holder("B").data, index=False)
    X, _, _ = data.read(config, "B")
    assert X.shape == (N, 2)


def test_few_rows_count_by_chance():
    ids = pd.Series(list("abcdefghijklmnopqrst"))
    twenty = pd.DataFrame({"x": np.arange(20) + 1})
    columns.refuse_index(twenty[:19], "x", ids[:19], "it")
    with pytest.raises(ValueError, match="counts the rows"):
        columns.refuse_index(twenty, "x", ids, "it")
    nearly = twenty.assign(x=twenty["x"] + 0.2 * (twenty["x"] == 4))
    columns.refuse_index(nearly, "x", ids, "it")


# ---------------------------------------- an index that was standardised, with gaps or in parts

MANY = 2_000
WITH_GAPS = np.sort(rng().permutation(MANY)[: MANY * 9 // 10])
WITH_NAME = {
    "without a tenth of the rows": WITH_GAPS,
    "four parts": np.tile(np.arange(MANY // 4), 4),
    "three parts of other lengths": np.concatenate([np.arange(n) for n in (700, 900, 400)]),
}
NAMES = (
    "index Index idx rn rownum row_num row-nr level_0 X X.1 ...1 V1 column0 _c0 Column1 ID no Row #"
    " S.No Serial_No. Obs"
).split()


def float32(numbers) -> np.ndarray:
    """As `own_rows` writes a feature."""
    numbers = np.asarray(numbers, dtype=np.float64)
    train = numbers[: len(numbers) * 3 // 4]
    return ((numbers - train.mean()) / train.std()).astype(np.float32)


def refusal(name: str, numbers: np.ndarray) -> str:
    """What a column beside other ids is refused for, "" if it is not."""
    ids = pd.Series(np.random.default_rng(7).permutation(10 * len(numbers))[: len(numbers)])
    try:
        columns.refuse_index(pd.DataFrame({name: numbers}), name, ids, "it")
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("of", [np.asarray, float32, lambda numbers: -float32(numbers)])
def test_counts_with_gaps_are_refused_in_the_files_order(of):
    assert "'customer' counts the rows of the file" in refusal("customer", of(WITH_GAPS))


@pytest.mark.parametrize("numbers", WITH_NAME.values(), ids=WITH_NAME)
def test_counts_with_gaps_or_in_parts_are_refused_in_any_order_by_the_name_of_an_index(numbers):
    mixed = rng().permutation(numbers)
    said = "has the name and the values of an index"
    for name in ("index", "level_0"):
        assert said in refusal(name, mixed) and said in refusal(name, float32(mixed))
    assert refusal("customer", mixed) == refusal("customer", float32(mixed)) == ""


@pytest.mark.parametrize("name", [*NAMES, "row number", " index "])
def test_an_index_that_was_standardised_by_its_name(name):
    assert "the values of an index" in refusal(name, float32(rng().permutation(MANY)))
    for feature in (
        rng().normal(size=MANY),
        rng().normal(size=MANY).round(2),
        rng().integers(80, size=MANY),
        float32(rng().integers(10**6, size=MANY)),
    ):
        assert refusal(name, feature) == ""


def test_a_large_index_of_chosen_rows_in_float32():
    """float32 rounds these numbers by up to a hundredth of a step."""
    cards = rng().permutation(284_807)
    assert refusal("index", float32(cards)) and refusal("index", float32(cards[:5_000]))


SORTED = {
    "ages": np.sort(rng().integers(18, 90, size=MANY)),
    "ages with a normal distribution": np.sort(rng().normal(40, 12, size=MANY).round()),
    "working days": np.flatnonzero(np.arange(MANY) % 7 < 5),
    "amounts": -np.sort(rng().lognormal(size=MANY)),
}
PERIODS = {
    "hours": np.tile(np.arange(24), 80),
    "days of a month": np.tile(np.arange(1, 31), 9),
    "two blocks": np.repeat([0, 1], MANY // 2),
    "classes in blocks": np.repeat(np.arange(10), MANY // 10),
}


@pytest.mark.parametrize("numbers", SORTED.values(), ids=SORTED)
def test_a_sorted_feature_is_named_and_goes_on(numbers):
    assert refusal("x1", numbers) == ""
    [sentence] = columns.remarks(float32(numbers)[:, None], None, ["x1"], "it", n_train=MANY)
    assert "rise or fall with the rows of the file, like a count: 'x1'; take out what" in sentence


@pytest.mark.parametrize("numbers", PERIODS.values(), ids=PERIODS)
def test_periods_and_blocks_are_features(numbers):
    assert refusal("x1", numbers) == refusal("x1", float32(numbers)) == ""
    assert columns.remarks(float32(numbers)[:, None], None, ["x1"], "it", n_train=MANY) == []


# ---------------------------------------- for a prediction


@pytest.fixture
def predicting(config):
    """A config for new rows, of a network that was trained on x and, under this name, index."""
    trained = config.folder_of("B")
    trained.mkdir(parents=True)
    (trained / "features.json").write_text(json.dumps(["x", "index"]))
    return config.prediction()


def new_rows(n: int = N, **more) -> pd.DataFrame:
    return table(index=rng().integers(9, size=N)).head(n).assign(**more)


def test_an_index_in_a_file_of_new_rows_is_left_aside(predicting):
    new_rows().to_csv(predicting.holder("B").data)
    X, _, _ = data.read(predicting, "B")
    assert X[:, 0].tolist() == new_rows()["x"].astype(np.float32).tolist()


def test_what_was_trained_on_is_no_index_however_few_rows_there_are(predicting):
    new_rows(index=range(N)).to_csv(predicting.holder("B").data, index=False)
    assert data.read(predicting, "B")[0].shape == (N, 2)
    new_rows(1).to_csv(predicting.holder("B").data, index=False)
    assert data.read(predicting, "B")[0].shape == (1, 2)


def test_new_rows_that_were_not_standardised_are_named_and_constants_are_not(predicting):
    new_rows(x=0.5).to_csv(predicting.holder("B").data, index=False)
    assert said(predicting) == []
    new_rows(x=rng().normal(900, 3, size=N)).to_csv(predicting.holder("B").data, index=False)
    [sentence] = said(predicting)
    assert sentence == (
        "holder B's file new.csv has columns that are far from standardised: 'x'; if the training "
        "rows were standardised, these need the same two numbers, or their scores are worth little"
    )
    new_rows(x=rng().normal(900, 3, size=N)).head(1).to_csv(
        predicting.holder("B").data, index=False
    )
    assert said(predicting) == []


# ---------------------------------------- named, and they go on


def test_nothing_is_said_of_columns_that_are_right(config):
    table(
        flag=rng().random(N) < 0.1,
        rare=np.eye(N)[3],
        shares=rng().random(N),
        heavy=rng().standard_t(3, size=N),
    ).to_csv(config.holder("B").data, index=False)
    assert said(config) == []


def test_constants_of_the_training_rows(config):
    table(k=7.25, late=np.r_[np.zeros(TRAIN), rng().normal(size=N - TRAIN)]).to_csv(
        config.holder("B").data, index=False
    )
    assert said(config) == [
        "holder B's file B.csv has columns with one value in all training rows, which tell the "
        "network nothing: 'k', 'late'"
    ]


def near(y: np.ndarray) -> np.ndarray:
    return y + 0.005 * rng().normal(size=N)


COPIES = {
    "itself": lambda y: y,
    "scaled": lambda y: 3.0 * y - 1,
    "negated": lambda y: 1 - y,
    "with a little noise": near,
    "float": lambda y: y.astype(float),
}


@pytest.mark.parametrize("of", COPIES.values(), ids=COPIES)
def test_a_copy_of_the_labels_is_named_at_their_holder(config, of):
    rows = labelled()
    rows.assign(z=of(rows["fraud"].to_numpy())).to_csv(config.holder("A").data, index=False)
    assert said(config, "A") == [
        "holder A's file A.csv has columns that tell the labels by themselves, with an AUC of 0.999"
        " or more: 'z'; take out what is not known before the label is"
    ]


def test_a_copy_of_several_labels_in_any_order_of_names(tmp_path):
    config = configs.parse(
        TEXT.format(kind="csv") + "[model]\nclasses = 3\n", tmp_path / "run.toml"
    )
    rows = table(fraud=rng().integers(3, size=N))
    code = np.array([0.3, -1.0, 2.0])[rows["fraud"]]
    half = (rows["fraud"] > 0).astype(float)  # tells one class only
    rows.assign(code=code, half=half).to_csv(config.holder("A").data, index=False)
    [sentence] = said(config, "A")
    assert "tell the labels by themselves, with an AUC of 0.999 or more: 'code', 'half'" in sentence


def test_a_feature_that_nearly_tells_the_label_is_no_copy(config):
    rows = labelled()
    rows.assign(z=rows["fraud"] + 0.5 * rng().normal(size=N)).to_csv(
        config.holder("A").data, index=False
    )
    assert said(config, "A") == []


SPLITS = {
    "the label and some noise": lambda y: y + 0.1 * rng().normal(size=N),
    "the label negated and some noise": lambda y: 0.1 * rng().normal(size=N) - y,
    "a score in whole numbers": lambda y: np.where(
        y == 1, rng().choice([3, 4, 6], size=N), rng().choice([-3, 0, 1], size=N)
    ),
}


@pytest.mark.parametrize("of", SPLITS.values(), ids=SPLITS)
def test_a_column_that_splits_the_labels_is_named_at_their_holder(config, of):
    rows = labelled()
    rows.assign(z=of(rows["fraud"].to_numpy())).to_csv(config.holder("A").data, index=False)
    assert said(config, "A") == [
        "holder A's file A.csv has columns that tell the labels by themselves, with an AUC of 0.999"
        " or more: 'z'; take out what is not known before the label is"
    ]


def test_few_rows_of_one_label_are_split_by_chance():
    x, y = np.arange(30, dtype=np.float32), (np.arange(30) > 25).astype(int)
    assert y.sum() == 4
    assert not any("AUC" in one for one in columns.remarks(x[:, None], y, ["x"], "it", n_train=30))
    y[25] = 1
    assert any("AUC" in one for one in columns.remarks(x[:, None], y, ["x"], "it", n_train=30))


FAR = {
    "income": rng().lognormal(10.8, 1, size=N),
    "age": rng().normal(41, 12, size=N),
    "log of the income": rng().normal(10.8, 0.6, size=N),
    "a term of 36 or 60 months": rng().choice([36.0, 60.0], size=N),
    "shares of a long tail": np.r_[rng().random(N - 1) / 1e3, 0.02],
}


@pytest.mark.parametrize("numbers", FAR.values(), ids=FAR)
def test_a_column_that_is_far_from_standardised(config, numbers):
    table(far=numbers, near=rng().normal(size=N)).to_csv(config.holder("B").data, index=False)
    assert said(config) == [
        "holder B's file B.csv has columns that are far from standardised: 'far'; subtract the "
        "mean of its training rows from each and divide by their deviation, or the network learns "
        "little from them and the run may stop"
    ]
    standardised = (numbers - numbers[:TRAIN].mean()) / numbers[:TRAIN].std()
    table(far=standardised).to_csv(config.holder("B").data, index=False)
    assert said(config) == []


def test_no_sentence_has_a_value_and_a_long_list_is_cut(config):
    many = {f"c{i}": 70_000.5 + rng().normal(size=N) for i in range(9)}
    table(**many).to_csv(config.holder("B").data, index=False)
    [sentence] = said(config)
    assert "'c0', 'c1', 'c2', 'c3', 'c4', 'c5' and 3 more" in sentence and "70" not in sentence


def test_the_largest_columns_are_within_ten_times_of_the_largest():
    X = np.array([[1.0, -900.0, 95.0, 80.0], [0.0, 5.0, 3.0, 1_000.0]])
    assert columns.largest(X, "abcd") == ["b", "d"]
    assert columns.largest(X * 0, "abcd") == ["a", "b", "c", "d"]
