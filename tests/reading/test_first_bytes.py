"""What a file is, by its first bytes."""

import io
import json
import pickle
import sqlite3
import tarfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from ppkit.reading.first_bytes import HEAD, NEITHER, kind_of, neither


@pytest.fixture
def table():
    return pd.DataFrame({"id": ["k0", "k1"], "amount": [1.5, 80.25], "count": [0, 9]})


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
        content = table.to_csv(index=False).encode()
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
    "r": lambda table: b"RDX3\nX\n" + bytes(600),
    "archive": lambda table: b"7z\xbc\xaf\x27\x1c" + bytes(600),
    "bytes": lambda table: table.to_csv(index=False).encode("utf-16-le"),
    "nothing": lambda table: "\ufeff\r\n \n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_kind_of_file_is_known(name, table):
    content = OTHERS[name](table)
    content = content.encode() if isinstance(content, str) else content
    assert kind_of(content[:HEAD]) == name.split(",")[0].split(" ")[0]


def test_every_other_kind_is_tried_and_has_a_remedy():
    tried = {name.split(",")[0].split(" ")[0] for name in OTHERS}
    assert tried | {"excel"} == set(NEITHER)  # a new Excel is a zip
    for kind, (what, remedy) in NEITHER.items():
        assert what and remedy and "\n" not in remedy
        assert neither(kind) == f"is {what}, expected a CSV or parquet file: {remedy}"


@pytest.mark.parametrize(
    "header",
    ["ORCID,x", "PAR1,x", "BZh,x", "X\nx", "<PAD>,<UNK>", "{x},y", "[x],y", "Objects,x", "PKs,x"],
)
def test_a_csv_whose_first_name_resembles_another_kind_is_a_csv(header):
    assert kind_of(f"{header}\n1,2\n".encode()) == "csv"
