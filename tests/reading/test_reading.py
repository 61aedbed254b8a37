"""What pandas, Excel, Spark, DuckDB, R and others write is read, or refused in a sentence that says
what to do and shows no value; the loaders and the system's holders read by the same code.
"""

import csv
import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from ppkit.reading import read_rows
from ppkit.reading.csv_layout import layout_of
from ppkit.reading.first_bytes import HEAD, NEITHER, kind_of

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


# what is read


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
                "huge": pa.array([10**30, 1, 2], pa.decimal128(38, 0)),
                "count": pa.array([4, 5, 4]).dictionary_encode(),
                "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            }
        ),
    )
    assert rows.table["id"].tolist() == [big, 2, 3] and rows.table["id"].dtype == np.int64
    np.testing.assert_array_equal(rows.table["amount"], [1.25, -3.5, np.nan])
    assert rows.table["huge"].tolist() == [str(10**30), "1", "2"]
    assert rows.table["count"].tolist() == [4, 5, 4] and rows.table["count"].dtype == np.int64
    assert rows.table["word"].tolist() == ["a", "b", "a"]
    assert not isinstance(rows.table["word"].dtype, pd.CategoricalDtype)


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


@pytest.mark.parametrize("missing", ["NA", "null", "None", "nan", "N/A", "NULL", "n/a"])
def test_an_id_that_reads_like_a_gap_is_a_text(missing, file):
    rows = read(file, f'id,x\n007,1\n{missing},2\n"{missing}2",\n,4\n', texts=("id",))
    assert rows.table["id"].tolist()[:3] == ["007", missing, f"{missing}2"]
    assert rows.table["id"].isna().tolist() == [False, False, False, True]
    assert rows.table["x"].isna().tolist() == [False, False, True, False]
    again = read(file, f"x,y\n{missing},1\n", texts=("id",))  # where there is no such column
    assert again.table["x"].isna().all()


def test_latin_1_is_read_where_it_is_allowed_and_told(file):
    content = "name,x\ncaf\xe9,1\n".encode("latin-1")
    rows = read(file, content, otherwise="latin-1")
    assert rows.table["name"].tolist() == ["caf\xe9"]
    assert rows.notes == ("not in UTF-8, read as Latin-1",)
    assert refused(file, content) == "is no text in UTF-8: save it as a CSV in UTF-8"
    late = b"name,x\n" + b"plain,1\n" * (HEAD // 8 + 10) + content.split(b"\n")[1] + b"\n"
    assert read(file, late, otherwise="latin-1").table["name"].iloc[-1] == "caf\xe9"


def test_rs_names_of_rows_move_no_column(file):
    rows = read(file, '"x","y"\n"1",1.5,2\n"2",3.5,4\n')
    assert rows.table.columns.tolist() == ["x", "y"] and rows.table["x"].tolist() == [1.5, 3.5]


# what is refused, with what to do


def excel(table):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:  # what openpyxl and Excel put into it
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    return sink.getvalue()


def open_document(table):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", "<office/>")
    return sink.getvalue()


def sqlite(table):
    database = sqlite3.connect(":memory:")
    table.to_sql("cards", database, index=False)
    content = database.serialize()
    database.close()
    return content


def arrow(table):
    sink = io.BytesIO()
    pyarrow.feather.write_feather(pa.Table.from_pandas(table), sink)
    return sink.getvalue()


def tar(table):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        content = packed_csv(table).encode()
        about = tarfile.TarInfo("rows.csv")
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return sink.getvalue()


def numpy_array(table):
    sink = io.BytesIO()
    np.save(sink, table[["amount", "count"]].to_numpy())
    return sink.getvalue()


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 150828752\n"
OTHERS = {
    "excel": excel,
    "opendocument": open_document,
    "sqlite": sqlite,
    "arrow": arrow,
    "tar": tar,
    "numpy": numpy_array,
    "pickle": lambda table: pickle.dumps(table.to_dict()),
    "json": lambda table: table.to_json(orient="records"),
    "json lines": lambda table: table.to_json(orient="records", lines=True),
    "json, indented": lambda table: json.dumps({"code": 403, "message": "log in"}, indent=2),
    "html": lambda table: "\n<!DOCTYPE html><html><title>Sign in</title></html>",
    "html, a table": lambda table: table.to_html(),
    "html, XML": lambda table: "<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    "lfs": lambda table: POINTER,
    "excel, old": lambda table: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "duckdb": lambda table: bytes(range(1, 9)) + b"DUCK" + bytes(600),
    "hdf5": lambda table: b"\x89HDF\r\n\x1a\n" + bytes(600),
    "avro": lambda table: b"Obj\x01" + bytes(600),
    "r": lambda table: b"RDX3\nX\n" + bytes(600),
    "encrypted": lambda table: b"PARE" + bytes(600),
    "pdf": lambda table: b"%PDF-1.7\n",
    "archive": lambda table: b"7z\xbc\xaf\x27\x1c" + bytes(600),
    "bytes": lambda table: packed_csv(table).encode("utf-16-le"),
    "nothing": lambda table: "\ufeff\r\n \n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_kind_of_file_is_named_with_what_to_do(name, table, file):
    what, remedy = NEITHER[name.split(",")[0].split(" ")[0]]
    sentence = refused(file, OTHERS[name](table), said="rows.csv")
    assert sentence == f"is {what}, expected a CSV or parquet file: {remedy}"


def test_every_other_kind_is_tried_and_has_a_remedy():
    assert {name.split(",")[0].split(" ")[0] for name in OTHERS} == set(NEITHER)
    assert all(what and remedy and "\n" not in remedy for what, remedy in NEITHER.values())


@pytest.mark.parametrize(
    "header",
    ["ORCID,x", "PAR1,x", "BZh,x", "X\nx", "<PAD>,<UNK>", "{x},y", "[x],y", "Objects,x", "PKs,x"],
)
def test_a_csv_whose_first_name_resembles_another_kind_is_a_csv(header):
    assert kind_of(f"{header}\n1,2\n".encode()) == "csv"


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
    assert refused(file, zipped()).startswith("is a zip of 0 files, expected one")


UNCERTAIN = {
    "Spark without a header": ("0,1.5,2\n1,2.5,3\n", "has no header: its first line holds numbers"),
    "whole numbers without a header": ("7,1,234\n8,0,5\n", "has no header: its first line holds"),
    "a name twice": ("id,x,y,x\n1,2,3,4\n", "has two columns with the name 'x': take one out or"),
    "a comma at the end": ("id,x\na,1,\nb,2,\n", "has one field more in its rows than names in"),
    "Spark's quotes": (
        'id,x,y\n"a\\"b, c",1,2\nd,3,4\n',
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: "
        "write quotes inside a text twice, in Spark by option('escape', '\"')",
    ),
    "Spark's quotes in each row": (
        "id,x,y\n" + "".join(f'{i},"he said \\"a, b\\"",{i}\n' for i in range(5)),
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: "
        "write quotes inside a text twice, in Spark by option('escape', '\"')",
    ),
    "Spark's quotes over two lines": (
        "id,x,y\n" + '1,"he said \\"a, b\\"\n2 lines",3\n' * 5,
        "has 2 fields in a row below a header of 3 columns, so that its columns are uncertain: "
        "write quotes inside a text twice, in Spark by option('escape', '\"')",
    ),
    "a longer row after a hundred": (
        "id,x\n" + "1,2\n" * 200 + "1,2,3\n",
        "has 3 fields in a row below a header of 2 columns, so that its columns are uncertain: "
        "put texts that hold the separator between quotes",
    ),
    "a quote that is not closed": (
        'id,x\na,"1\n' + "b,2\n" * 50_000,
        "has a text of more than 131,072 characters, as where a quote is not closed: write quotes",
    ),
    "thousands unquoted": (
        "id,x,y\na,1,234,2\nb,3,4\n",
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: "
        "put texts that hold the separator between quotes",
    ),
}


@pytest.mark.parametrize("content, sentence", UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_columns_that_are_uncertain_are_refused(content, sentence, file):
    said = refused(file, content)
    assert said.startswith(sentence) and "a\\" not in said and "234" not in said


@pytest.mark.slow
def test_a_longer_row_after_all_that_is_looked_at_is_refused_in_our_words(file):
    assert refused(file, "id,x\n" + "1,2\n" * (HEAD // 4) + "1,2,3\n") == (
        f"has 3 fields in line {HEAD // 4 + 2:,} below a header of 2 columns, so that its columns "
        "are uncertain: put texts that hold the separator between quotes, and write quotes inside "
        "a text twice, in Spark by option('escape', '\"')"
    )


def test_two_columns_of_parquet_with_one_name(file):
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), sink)
    assert refused(file, sink.getvalue()).startswith("has two columns with the name 'x': take one")


@pytest.mark.parametrize(
    "fields, mark",
    [
        (["1,5", "2,25"], ","),
        (["1,5E-05", "-0,25"], ","),
        (["0,123"], ","),  # no thousands begin with 0
        (["1,5", "2.5"], "."),  # not certain: pandas leaves one of them a text
        (["1,234", "12,345,678"], "."),  # thousands, a text then
        (["12", "x"], "."),
    ],
)
def test_a_decimal_comma_is_taken_only_where_it_is_certain(fields, mark):
    lines = "".join(f"a;{field}\n" for field in fields)
    assert layout_of(f"id;x\n{lines}".encode()).decimal == mark


def test_a_number_with_a_point_among_decimal_commas_stays_a_text(file):
    """Else 1.234 would be a thousandth of what Excel meant."""
    content = "id;x\n" + "a;1,5\n" * 200 + "b;1.234\n"
    assert not pd.api.types.is_numeric_dtype(read(file, content).table["x"])


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_comma_in_the_name_of_a_column_is_no_separator(separator, file):
    header = separator.join(["id", "income, EUR", "x", "y", "z"])
    row = separator.join(["a", "{}", "1", "2", "3"])
    for numbers in (["950.5", "1.25"], ["950,5", "1,25"]):
        lines = "".join(f"{row}\n".format(number) for number in numbers)
        table = read(file, f"{header}\n{lines}").table
        assert table["income, EUR"].tolist() == [950.5, 1.25] and table.shape == (2, 5)


def test_a_comma_in_each_name_and_a_decimal_comma_in_each_number(file):
    """By commas, too, each row has as many fields as the header."""
    table = read(file, "id;a, EUR;b, EUR\n1;1,5;2,5\n2;3,5;4,5\n").table
    assert table.to_dict("list") == {"id": [1, 2], "a, EUR": [1.5, 3.5], "b, EUR": [2.5, 4.5]}
    assert read(file, "id;a, EUR;b\n").table.shape == (0, 3)


def test_another_separator_in_the_name_of_a_column_is_none(file):
    table = read(file, "id,a;b,c|d\nx,1,2\ny,3,4\n").table
    assert table.columns.tolist() == ["id", "a;b", "c|d"] and table["a;b"].tolist() == [1, 3]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize(
    "fields",
    [
        ["950", "1.200", "12.500", "999", "45.000"],
        ["1.200"],
        ["-1.200", "", "0"],
        ["950"] * 200 + ["1.200"],
        pytest.param(
            ["950"] * (HEAD // 6) + ["1.200"],
            id="after all that is looked at",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda fields: " ".join(fields[-3:]),
)
def test_points_that_may_mark_thousands_are_refused(fields, separator, file):
    lines = "".join(separator.join(["a", field, "1.5"]) + "\n" for field in fields)
    assert refused(file, separator.join(["id", "income", "x"]) + "\n" + lines) == (
        "holds numbers such as 1.200 in column 'income', which may be 1200 or 1.2: write it "
        "without marks of thousands, or with a comma as the separator"
    )


@pytest.mark.parametrize(
    "fields",
    [
        ["0.123", "1.200"],
        ["1.200", "1.25"],
        ["1.200", "2.5"],
        ["1200.500", "1.200"],
        ["1.200e0", "1.200"],
        ["950", "1200"],
        ["1.2", "12.5"],
    ],
    ids=" ".join,
)
def test_points_that_are_certainly_decimal_are_read(fields, file):
    lines = "".join(f"a;{field}\n" for field in fields)
    table = read(file, "id;x\n" + lines).table
    assert table["x"].tolist() == [float(field) for field in fields]


def test_three_decimals_between_commas_are_read(file):
    assert read(file, "id,x\na,1.200\nb,12.500\n").table["x"].tolist() == [1.2, 12.5]


@pytest.mark.parametrize("mark", ["'", "\u2019", " ", "\u00a0", "\u2009", "\u202f"])
def test_another_mark_of_thousands_makes_a_text(mark, file):
    table = read(file, f"id;x;y\na;1{mark}200;1{mark}200.50\nb;950;12.5\n").table
    assert table["x"].tolist() == [f"1{mark}200", "950"]
    assert table["y"].tolist() == [f"1{mark}200.50", "12.5"]


def test_decimal_commas_that_begin_late_are_read(file):
    table = read(file, "id;x\n" + "a;1\n" * 500 + "b;2,5\n").table
    assert table["x"].tolist() == [1.0] * 500 + [2.5]


def test_a_text_that_ends_with_a_backslash_is_no_escaped_quote(file):
    table = read(file, '"x","y"\n"1","C:\\",2\n"2","D:\\",3\n').table  # R's names of rows
    assert table["x"].tolist() == ["C:\\", "D:\\"] and table["y"].tolist() == [2, 3]


def test_a_name_that_pandas_itself_would_make_is_no_twin(file):
    assert read(file, "x,x.1,,\n1,2,,\n").table.columns.tolist()[:2] == ["x", "x.1"]
    assert read(file, "0,1,2\n5,6,7\n").table.columns.tolist() == ["0", "1", "2"]


def test_more_bytes_than_there_may_be_are_not_read_on(table, file):
    content = packed_csv(table)
    assert len(read(file, content, largest=len(content)).table) == N
    assert refused(file, content, largest=len(content) - 1) == (
        f"cannot be read to its end: it has more than {len(content) - 1:,} bytes, unpacked"
    )
