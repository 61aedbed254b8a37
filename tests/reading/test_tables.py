"""What pandas, Excel, Spark, DuckDB, R and others write is read, or refused in a sentence that says
what to do and shows no value; the loaders and the system's holders read by the same code.
"""

import csv
import gzip
import io
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ppkit.reading import read_rows
from ppkit.reading.first_bytes import HEAD, neither

N = 40


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "id": [f"k{i}" for i in range(N)],
            "amount": np.round(rng.gamma(1, 80, N), 2),
            "count": rng.integers(0, 9, N),
        }
    )


@pytest.fixture
def file(tmp_path):
    """One name for everything: it must not matter."""
    return tmp_path / "rows.csv"


def read(file, content, **settings):
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_rows(file, **settings)


def refused(file, content, **settings):
    with pytest.raises(ValueError) as caught:
        read(file, content, **settings)
    sentence = str(caught.value)
    assert sentence.startswith("rows.csv ") and "\n" not in sentence
    assert str(file.parent) not in sentence
    return sentence.removeprefix("rows.csv ")


def packed_csv(table, **settings):
    return table.to_csv(index=False, **settings)


def everything_quoted(table):
    """As DuckDB's force_quote and Spark's quoteAll write."""
    return packed_csv(table, quoting=csv.QUOTE_ALL)


def mixed_line_ends(table):
    lines = packed_csv(table).splitlines()
    return "".join(line + ("\r\n", "\n")[i % 2] for i, line in enumerate(lines))


def without_a_last_line_end(table):
    return packed_csv(table).rstrip("\n")


def other_order(table):
    return packed_csv(table[["count", "id", "amount"]])


def german_excel(table):
    return "\ufeff" + packed_csv(table, sep=";", decimal=",", lineterminator="\r\n")


def excel_with_a_sep_line(table):
    return "sep=;\r\n" + packed_csv(table, sep=";", decimal=",", lineterminator="\r\n")


def excel_unicode_text(table):
    return packed_csv(table, sep="\t", lineterminator="\r\n").encode("utf-16")


def semicolons_and_points(table):
    return packed_csv(table, sep=";")


def bars(table):
    return packed_csv(table, sep="|")


def below_a_sentence(table):
    return "Notes offered by Prospectus (https://example.org/p)\n" + packed_csv(table)


def below_a_padded_sentence(table):
    return '"Notes, offered by Prospectus 2026",,\n\n' + packed_csv(table)


WRITERS = [
    packed_csv,
    everything_quoted,
    mixed_line_ends,
    without_a_last_line_end,
    other_order,
    german_excel,
    excel_with_a_sep_line,
    excel_unicode_text,
    semicolons_and_points,
    bars,
    below_a_sentence,
    below_a_padded_sentence,
]


PLAIN = WRITERS[:5]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_others_write_gives_the_same_rows(write, table, file):
    rows = read(file, write(table))
    pd.testing.assert_frame_equal(rows.table[table.columns.tolist()], table)
    assert (rows.notes == ()) == (write in PLAIN)  # what is no plain CSV is told


def test_what_was_not_plain_is_told(table, file):
    assert read(file, german_excel(table)).notes == (
        "';' stands between its columns",
        "its decimal mark is a comma",
    )
    assert read(file, below_a_sentence(table)).notes == (
        "left out above the header: 'Notes offered by Prospectus (https://example.org/p)'",
    )
    assert read(file, excel_unicode_text(table)).notes[0] == "read as UTF-16"


def as_parquet(columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_decimals_and_categories_of_parquet_become_what_they_stand_for(file):
    big = 2**62 + 1  # float64 would lose the last digit
    amounts = [Decimal("1.25"), Decimal("-3.50"), None]
    rows = read(
        file,
        as_parquet(
            {
                "id": pa.array([big, 2, 3], pa.decimal128(38, 0)),
                "amount": pa.array(amounts, pa.decimal128(10, 2)),
                "count": pa.array([4, 5, 4]).dictionary_encode(),
                "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            }
        ),
    )
    assert rows.table["id"].tolist() == [big, 2, 3] and rows.table["id"].dtype == np.int64
    np.testing.assert_array_equal(rows.table["amount"], [1.25, -3.5, np.nan])
    assert rows.table["count"].tolist() == [4, 5, 4] and rows.table["count"].dtype == np.int64
    assert rows.table["word"].tolist() == ["a", "b", "a"]
    assert not isinstance(rows.table["word"].dtype, pd.CategoricalDtype)
    huge = as_parquet({"id": pa.array([10**30], pa.decimal128(38, 0))})
    assert refused(file, huge) == "cannot be read to its end: Integer value out of bounds"
    assert read(file, huge, texts=("id",)).table["id"].tolist() == ["1" + "0" * 30]


def test_an_empty_text_is_missing_in_parquet_as_in_a_csv(file):
    """pyarrow.csv reads an empty field of a column of texts as an empty text, and writes it so."""
    lines = b"id,word,x\nk1,a,1\n,b,2\nk3,,\n"
    sink = io.BytesIO()
    pq.write_table(pyarrow.csv.read_csv(io.BytesIO(lines)), sink)
    table = read(file, sink.getvalue(), texts=("id",)).table
    pd.testing.assert_frame_equal(table, read(file, lines, texts=("id",)).table, check_dtype=False)
    assert table.isna().to_numpy().tolist() == [
        [False, False, False],
        [True, False, False],
        [False, True, True],
    ]


def test_an_index_with_a_name_is_a_column_of_parquet(table, file):
    named = read(file, table.set_index("id").to_parquet()).table
    pd.testing.assert_frame_equal(named, table)
    chosen = table.sample(frac=0.5, random_state=0)
    unnamed = read(file, chosen.to_parquet()).table
    pd.testing.assert_frame_equal(unnamed, chosen.reset_index(drop=True))


@pytest.mark.parametrize("missing", ["NA", "null", "None", "nan", "N/A", "NULL", "n/a"])
def test_an_id_that_reads_like_a_gap_is_a_text(missing, file):
    rows = read(file, f'id,x\n007,1\n{missing},2\n"{missing}2",\n,4\n', texts=("id",))
    assert rows.table["id"].tolist()[:3] == ["007", missing, f"{missing}2"]
    assert rows.table["id"].isna().tolist() == [False, False, False, True]
    assert rows.table["x"].isna().tolist() == [False, False, True, False]
    again = read(file, f"x,y\n{missing},1\n", texts=("id",))  # where there is no such column
    assert again.table["x"].isna().all()


@pytest.mark.slow
def test_latin_1_is_read_where_it_is_allowed_and_told(file):
    content = "name,x\ncaf\xe9,1\n".encode("latin-1")
    rows = read(file, content, latin_1=True)
    assert rows.table["name"].tolist() == ["caf\xe9"]
    assert rows.notes == ("not in UTF-8, read as Latin-1",)
    assert refused(file, content) == "is no text in UTF-8: save it as a CSV in UTF-8"
    late = b"name,x\n" + b"plain,1\n" * (HEAD // 8 + 10) + content.split(b"\n")[1] + b"\n"
    assert read(file, late, latin_1=True).table["name"].iloc[-1] == "caf\xe9"


def test_rs_names_of_rows_move_no_column(file):
    rows = read(file, '"x","y"\n"1",1.5,2\n"2",3.5,4\n')
    assert rows.table.columns.tolist() == ["x", "y"] and rows.table["x"].tolist() == [1.5, 3.5]


def excel():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:  # what openpyxl and Excel put into it
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    return sink.getvalue()


def test_a_zip_of_several_files_is_refused_unless_one_has_its_name(table, file):
    def zipped(**members):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w") as archive:
            archive.mkdir("rows.csv")  # a folder of that name hides nothing
            archive.writestr("__MACOSX/._rows.csv", "resources")
            for name, content in members.items():
                archive.writestr(name, content)
        return sink.getvalue()

    content = packed_csv(table)
    one = read(file, zipped(**{"rows.csv/anything": content})).table
    pd.testing.assert_frame_equal(one, table)
    named = read(file, zipped(**{"rows.csv/rows.csv": content, "other.csv": "x\n1\n"})).table
    pd.testing.assert_frame_equal(named, table)
    assert refused(file, zipped(**{"a.csv": content, "b.csv": content})) == (
        "is a zip of 2 files ('a.csv', 'b.csv'), expected one: take out the one that is meant"
    )
    assert refused(file, zipped()).startswith("is a zip of 0 files ")


def test_an_excel_workbook_is_a_zip_that_is_named(file):
    assert refused(file, excel()) == neither("excel")


def test_three_packings_are_one_too_many(file):
    content = gzip.compress(gzip.compress(gzip.compress(b"x\n1\n")))
    assert refused(file, content) == neither("archive")


@pytest.mark.slow
def test_a_longer_row_after_all_that_is_looked_at_is_refused_by_pandas(file):
    assert refused(file, "id,x\n" + "1,2\n" * (HEAD // 4) + "1,2,3\n").endswith(
        f"Expected 2 fields in line {HEAD // 4 + 2}, saw 3"
    )


def test_two_columns_of_parquet_with_one_name(file):
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), sink)
    assert refused(file, sink.getvalue()).startswith("has two columns with the name 'x': take one")


@pytest.mark.parametrize("mark", ["'", "\u2019", " ", "\u00a0", "\u2009", "\u202f"])
def test_another_mark_of_thousands_makes_a_text(mark, file):
    table = read(file, f"id;x;y\na;1{mark}200;1{mark}200.50\nb;950;12.5\n").table
    assert table["x"].tolist() == [f"1{mark}200", "950"]
    assert table["y"].tolist() == [f"1{mark}200.50", "12.5"]


def test_decimal_commas_that_begin_late_are_read(file):
    table = read(file, "id;x\n" + "a;1\n" * 500 + "b;2,5\n").table
    assert table["x"].tolist() == [1.0] * 500 + [2.5]


def test_more_bytes_than_there_may_be_are_not_read_on(table, file):
    content = packed_csv(table)
    assert len(read(file, content, largest=len(content)).table) == N
    assert refused(file, content, largest=len(content) - 1) == (
        f"cannot be read to its end: it has more than {len(content) - 1:,} bytes, unpacked"
    )
