"""A holder's file: what is read from it, and every way in which it can be wrong, without a value of
it in the sentence.
"""

import csv
import dataclasses
import gzip
import io
import pickle
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

from spnn_system import config as configs
from spnn_system import data

TEXT = """
run = "r"
source = "made here"
[protocol]
name = "masked"
[training]
train_rows = 4
[coordinator]
address = "127.0.0.1:50050"
[server]
address = "127.0.0.1:50051"
[[holder]]
name = "A"
address = "127.0.0.1:50053"
data = "A.parquet"
labels = "fraud"
[[holder]]
name = "B"
address = "127.0.0.1:50054"
data = "B.{kind}"
"""
IDS = [10, 7, 30, 40, 50, 60]
DAYS = pd.Series(pd.to_datetime([f"2013-09-{day}" for day in ("03", "01", "07", "02", "05", "04")]))


@pytest.fixture(params=["parquet", "csv"])
def config(tmp_path, request):
    return configs.parse(TEXT.format(kind=request.param), tmp_path / "run.toml")


def a_table(**columns) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": IDS,
            "x": [0.5, 1.5, -2.0, 3.0, 4.0, 5.0],
            "n": [1, 2, 3, 5, 4, 6],
            "fraud": [0, 1, 0, 0, 1, 0],
            **columns,
        }
    )


def b_table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"z": [0.25] * 6, "id": IDS, "w": [True, False] * 3, **columns})


def put(config, holder: str, table: pd.DataFrame) -> None:
    path = config.holder(holder).data
    table.to_parquet(path, index=False) if path.suffix == ".parquet" else table.to_csv(
        path, index=False
    )


def refused(config, holder: str) -> str:
    with pytest.raises(ValueError) as error:
        data.read(config, holder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_features_labels_and_ids_in_the_files_order(config):
    put(config, "A", a_table())
    put(config, "B", b_table())
    X, y, ids = data.read(config, "A")
    assert (
        X.dtype == torch.float32
        and X.is_contiguous()
        and X.tolist() == [[0.5, 1], [1.5, 2], [-2, 3], [3, 5], [4, 4], [5, 6]]
    )
    assert (
        y.dtype == torch.int64
        and y.tolist() == [0, 1, 0, 0, 1, 0]
        and ids == [str(number) for number in IDS]
    )
    X, y, ids = data.read(config, "B")
    assert (
        X.tolist() == [[0.25, 1], [0.25, 0]] * 3
        and y is None
        and ids == [str(number) for number in IDS]
    )
    assert data.check(config) == data.check(config, ["B"]) == 6


def test_float32_is_read_back_to_the_bit(config):
    exact = torch.randn(6, generator=torch.Generator().manual_seed(0)).numpy()
    put(config, "B", pd.DataFrame({"id": IDS, "x": exact}))
    assert np.array_equal(data.read(config, "B")[0][:, 0].numpy(), exact)


def test_labels_that_are_truth_values_or_floats(config):
    put(config, "A", a_table(fraud=[False, True, False, False, True, False]))
    assert data.read(config, "A")[1].tolist() == [0, 1, 0, 0, 1, 0]
    put(config, "A", a_table(fraud=[0.0, 1.0, 0.0, 0.0, 1.0, 0.0]))
    assert data.read(config, "A")[1].tolist() == [0, 1, 0, 0, 1, 0]


def test_numbers_that_stand_as_texts_are_numbers(config):
    put(config, "A", a_table(fraud=list("010010"), x=list("123567")))
    X, y, _ = data.read(config, "A")
    assert X[:, 0].tolist() == [1, 2, 3, 5, 6, 7] and y.tolist() == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "columns, sentence",
    [
        (
            {"fraud": [0, 1, 0, 2, 1, 0]},
            "labels 'fraud' must be 0 or 1, row 3 (from 0) is not: "
            "number the labels from 0, and say in [model] how many classes there are",
        ),
        ({"fraud": [0, 1, 0, 0, 1, None]}, "labels 'fraud' must be 0 or 1, row 5 (from 0) is not"),
        (
            {"fraud": ["0", "1", "0", "True", "1", "0"]},
            "labels 'fraud' must be 0 or 1, row 3 (from 0) is not",
        ),
        ({"fraud": list("010210")}, "labels 'fraud' must be 0 or 1, row 3 (from 0) is not"),
        (
            {"fraud": [0, 0, 0, 0, 1, 0]},
            "the 4 training rows must have two labels or more, they have one only",
        ),
        (
            {"fraud": [0, 1, 0, 0, 1, 1]},
            "the 2 test rows must have two labels or more, they have one only",
        ),
        (
            {"x": [0, np.nan, 1, 2, np.nan, 3]},
            "feature 'x' must be finite in float32, got 2 of 6 values that are not, row 1 (from 0)",
        ),
        (
            {"x": [0, np.inf, 1, 2, 3, 3]},
            "feature 'x' must be finite in float32, got 1 of 6 values that are not",
        ),
        (
            {"x": [0, 7.25e300, 1, 2, 3, 3]},
            "feature 'x' must be finite in float32, got 1 of 6 values that are not",
        ),
        *(
            ({"x": dates}, "feature 'x' must be numbers, got dates or times: write numbers")
            for dates in (
                DAYS,
                DAYS.where(DAYS > DAYS[1]),
                DAYS.dt.tz_localize("UTC"),
                DAYS - DAYS[0],
            )
        ),
        ({"x": list("secret")}, "feature 'x' must be numbers, row 0 (from 0) is the first that"),
        *(
            (
                {"x": ["0.5", "7", wrong, "1", "x", "2"]},
                "row 2 (from 0) is the first that is none: ",
            )
            for wrong in ("#DIV/0!", "12.3%", "$5", "1,234.50")
        ),
        (
            {"id": [10, 7, 30, 40, 30, 60]},
            "ids must differ, row 4 (from 0) has one that came before",
        ),
        ({"id": [10, 7, None, 40, 50, 60]}, "every row needs an id, row 2 (from 0) has none"),
        (
            {"id": [10, 7, 30.5, 40, 50, 60]},
            "ids must be whole numbers or text, got a column of type float64",
        ),
    ],
)
def test_wrong_values_are_named_by_column_and_row_and_never_shown(tmp_path, columns, sentence):
    config = configs.parse(TEXT.format(kind="csv"), tmp_path / "run.toml")
    put(config, "A", a_table(**columns))
    said = refused(config, "A")
    assert said.startswith("holder A's file A.parquet: ") and sentence in said
    assert not any(value in said for value in ("30.5", "7.25", "inf,", "nan", "secret", "DIV"))


def test_columns_that_are_not_there_or_too_many(config):
    put(config, "A", a_table().drop(columns="fraud"))
    assert (
        refused(config, "A")
        == "holder A's file A.parquet has no column 'fraud' for the labels: it has 'id', 'x', 'n'"
    )
    put(config, "A", a_table().rename(columns={"id": "key"}))
    assert "has no column 'id' for the row ids: it has 'key', 'x', 'n', 'fraud'" in refused(
        config, "A"
    )
    put(config, "A", a_table()[["id", "fraud"]])
    assert refused(config, "A") == "holder A's file A.parquet has no features: it has 'id', 'fraud'"
    put(config, "B", b_table(fraud=[0] * 6))
    assert (
        "has a column 'fraud', as holder A's labels are called: take it out or rename it"
        in refused(config, "B")
    )
    put(config, "B", pd.DataFrame({f"c{i}": range(6) for i in range(9)}))
    assert refused(config, "B").endswith("it has 'c0', 'c1', 'c2', 'c3', 'c4', 'c5' and 3 more")


def test_rows_that_leave_none_to_test_on(config):
    put(config, "B", b_table()[:4])
    assert "has 4 rows, and train_rows = 4 leave none to test on" in refused(config, "B")
    put(config, "B", b_table()[:5])
    assert len(data.read(config, "B")[0]) == 5


def test_a_file_that_is_not_there_or_none_of_its_kind(config):
    with pytest.raises(
        FileNotFoundError,
        match=f"holder B's file {config.holder('B').data.name} is not there: looked in ",
    ):
        data.read(config, "B")
    config.holder("B").data.write_bytes(b"\xff\xfe\x00 not a table, but secret")
    said = refused(config, "B")
    assert said.endswith(" is no text in UTF-16: save it as a CSV in UTF-8")
    config.holder("B").data.write_bytes(b"")
    assert refused(config, "B") == (
        f"holder B's file {config.holder('B').data.name} is empty, expected a CSV or parquet file: "
        "download or write it again"
    )


def test_other_rows_are_named_by_holder_and_row(config):
    put(config, "A", a_table())
    put(config, "B", b_table()[:5])
    with pytest.raises(
        ValueError, match=r"5 ids of holder B differ from holder A's 6 in row 5 \(from 0\) first$"
    ):
        data.check(config)
    put(config, "B", b_table(id=[10, 7, 30, 50, 40, 60]))
    with pytest.raises(
        ValueError, match=r"6 ids of holder B differ from holder A's 6 in row 3 \(from 0\) first$"
    ):
        data.check(config)
    assert data.check(config, ["B"]) == data.check(config, ["A"]) == 6


@pytest.mark.parametrize("wrong", ["#DIV/0!", "12.3%", "$5", '"1,234.50"'])
def test_a_number_that_a_spreadsheet_wrote_is_named_by_its_row_in_a_csv(tmp_path, wrong):
    config = configs.parse(TEXT.format(kind="csv"), tmp_path / "run.toml")
    values = ["0.25", "3", "1", wrong, "2", "5"]
    lines = [f"{number},{value}" for number, value in zip(IDS, values)]
    config.holder("B").data.write_text("\n".join(["id,z", *lines]) + "\n")
    said = refused(config, "B")
    assert "row 3 (from 0) is the first that is none: write digits with a decimal po" in said
    assert wrong.strip('"') not in said


def test_ids_of_text_keep_their_zeros(tmp_path):
    config = configs.parse(TEXT.format(kind="csv"), tmp_path / "run.toml")
    texts = ["007", "7", "1e3", "NA-1", "x y", "é"]
    for holder, table in (("A", a_table(id=texts)), ("B", b_table(id=texts))):
        put(config, holder, table)
        assert data.read(config, holder)[2] == texts
    assert data.check(config) == 6


def test_digests_see_every_change(config):
    put(config, "A", a_table())
    X, y, ids = data.read(config, "A")
    assert data.ids_digest(ids) == data.ids_digest(list(ids)) != data.ids_digest(ids[::-1])
    assert data.ids_digest(["ab", "c"]) != data.ids_digest(["a", "bc"]) != data.ids_digest(["abc"])
    same, seen = data.data_digest(X, y, ids), set()
    assert same == data.data_digest(X.clone(), y.clone(), ids)
    for i in range(X.numel()):
        other = X.clone()
        other.view(-1)[i] = torch.nextafter(other.view(-1)[i], torch.tensor(100.0))
        seen.add(data.data_digest(other, y, ids))
    for i in range(len(y)):
        other = y.clone()
        other[i] = 1 - other[i]
        seen.add(data.data_digest(X, other, ids))
    seen |= {
        data.data_digest(X, None, ids),
        data.data_digest(X, y, ids[::-1]),
        data.data_digest(X.reshape(3, 4), y, ids),
    }
    assert same not in seen and len(seen) == X.numel() + len(y) + 3


def test_only_its_own_file_is_read(config):
    put(config, "A", a_table())
    assert len(data.read(config, "A")[2]) == 6  # B's is not there
    other = dataclasses.replace(
        config,
        holders=(config.holders[0], dataclasses.replace(config.holders[1], data="/proc/none.csv")),
    )
    assert len(data.read(other, "A")[2]) == 6


def test_a_table_without_rows_is_empty(config):
    file = config.holder("B").data
    table = pd.DataFrame({"id": [1], "x": [0.5]})[:0]
    table.to_parquet(file, index=False) if file.suffix == ".parquet" else table.to_csv(
        file, index=False
    )
    assert "has 0 rows, and train_rows = 4 leave none" in refused(config, "B")


# what other programs write, whatever the file is called


X_OF_B = [0.5, -1.25, 3.0, 0.125, 7.0, -2.0]


def of_b(write, tmp_path):
    table = pd.DataFrame({"id": [f"k{number}" for number in IDS], "x": X_OF_B})
    content = write(table)
    file = tmp_path / "B.parquet"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return configs.parse(TEXT.format(kind="parquet"), tmp_path / "run.toml")


def decimals(table):
    """As DuckDB, Spark and Snowflake write what is DECIMAL there, whole ids too."""
    return pd.DataFrame(
        {"id": [Decimal(number) for number in IDS], "x": [Decimal(str(x)) for x in X_OF_B]}
    ).to_parquet(index=False)


def semicolons(table):
    return "sep=;\r\n" + table.to_csv(index=False, sep=";", decimal=",")


def categories(table):
    return table.astype("category").to_parquet(index=False)


WRITERS = {
    "a CSV": lambda table: table.to_csv(index=False),
    "parquet": lambda table: table.to_parquet(index=False),
    "gzip": lambda table: gzip.compress(table.to_csv(index=False).encode()),
    "Excel's semicolons": lambda table: (
        "sep=;\r\n" + table.to_csv(index=False, sep=";", decimal=",")
    ),
    "Excel's Unicode text": lambda table: table.to_csv(index=False, sep="\t").encode("utf-16"),
    "quoted fields": lambda table: table.to_csv(index=False, quoting=csv.QUOTE_ALL),
    "decimals": decimals,
    "categories": categories,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_what_other_programs_write_is_read_by_its_first_bytes(write, tmp_path):
    X, _, ids = data.read(of_b(write, tmp_path), "B")
    assert X[:, 0].tolist() == X_OF_B
    digits = [str(number) for number in IDS]
    assert ids == (digits if write is decimals else [f"k{number}" for number in digits])


UNREADABLE = {
    "zip of two": "is a zip of 2 files ('a.csv', 'b.csv'), expected one: take out the one that is",
    "web page": "is a web page, expected a CSV or parquet file: log in where it lies and download",
    "JSON": "is JSON, expected a CSV or parquet file: pandas.read_json(...).to_csv(..., index=F",
    "pickle": "is a pickle, which can run code, expected a CSV or parquet file: write the table",
    "LFS": "is a Git LFS pointer, expected a CSV or parquet file: `git lfs pull` brings the file",
    "Latin-1": "is no text in UTF-8: save it as a CSV in UTF-8",
    "no header": "has no header: its first line holds numbers, expected the names of its columns",
    "a name twice": "has two columns with the name 'x': take one out or rename it",
    "Spark's quotes": "has 3 fields in a row below a header of 2 columns, so that its columns are",
}


def unreadable(kind: str, table: pd.DataFrame) -> str | bytes:
    if kind == "zip of two":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name in ("a.csv", "b.csv"):
                archive.writestr(name, table.to_csv(index=False))
        return file.getvalue()
    return {
        "web page": "<html>secret</html>",
        "JSON": table.to_json(orient="records"),
        "pickle": pickle.dumps(table.to_dict()),
        "LFS": "version https://git-lfs.github.com/spec/v1\n",
        "Latin-1": "id,x\ncaf\xe9,1\n".encode("latin-1"),
        "no header": table[["x", "id"]].to_csv(index=False, header=False),
        "a name twice": table.assign(y=1.0).to_csv(index=False, header=["id", "x", "x"]),
        "Spark's quotes": 'id,x\n"a\\"secret, b",1.5\nc,2.5\n',
    }[kind]


@pytest.mark.parametrize("kind, sentence", UNREADABLE.items(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_named_without_a_value(kind, sentence, tmp_path):
    config = of_b(lambda table: unreadable(kind, table), tmp_path)
    said = refused(config, "B")
    assert said.startswith(f"holder B's file B.parquet {sentence}")
    assert "secret" not in said and "k10" not in said and "0.5" not in said


@pytest.mark.parametrize("name", ["NA", "null", "None", "nan", "N/A"])
def test_an_id_that_reads_like_a_gap_is_an_id(name, tmp_path):
    def renamed(table):
        return table.assign(id=[name, *table["id"][1:]]).to_csv(index=False)

    X, _, ids = data.read(of_b(renamed, tmp_path), "B")
    assert ids[0] == name and X[:, 0].tolist() == X_OF_B
    said = refused(of_b(lambda table: renamed(table).replace(name, ""), tmp_path), "B")
    assert said.endswith("every row needs an id, row 0 (from 0) has none")


def test_a_folder_of_parts_is_refused(tmp_path):
    config = of_b(lambda table: "", tmp_path)
    config.holder("B").data.unlink()
    config.holder("B").data.mkdir()
    assert refused(config, "B") == (
        "holder B's file B.parquet cannot be read to its end: Is a directory"
    )
