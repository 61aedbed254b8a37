"""Finding a real file and reading it: names, packings, and one sentence for what cannot be read."""

import bz2
import gzip
import hashlib
import io
import lzma
import re
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ppkit.datasets import files
from ppkit.datasets.files import Found, alike, find

read_table = partial(files.read_table, largest=10**8)

STEMS = ("Invented Cards", "cards")


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "amount": np.round(rng.gamma(1, 80, 300), 2),
            "word": rng.choice(["ja", "nein", "NA "], 300),
            "count": rng.integers(0, 9, 300),
        }
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty project, so that data/raw is this test's."""
    for name in ("notebooks", "ppkit", "data/raw"):
        (tmp_path / "home" / name).mkdir(parents=True)
    monkeypatch.setenv("PPKIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PPKIT_DATA", raising=False)
    return tmp_path / "home"


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


def as_zip(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.mkdir("some folder")
        archive.writestr("some folder/whatever", content)
    return file.getvalue()


def as_parquet(content):
    return pd.read_csv(io.BytesIO(content)).to_parquet(index=False)


def twice(content):
    """As `accepted.csv.gz` lies in Kaggle's zip."""
    return as_zip(gzip.compress(content))


def written(table, path):
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif path.suffix == ".zip":
        zipped(path, {"cards.csv": table.to_csv(index=False)})
    else:
        table.to_csv(path, index=False)
    return path


# finding


@pytest.mark.parametrize(
    "name",
    [
        "cards.csv",
        "cards.csv.gz",
        "cards.csv.zip",
        "archive (1).zip",
        "cards.parquet",
        "Invented Cards.csv",
    ],
)
def test_a_file_is_found_and_read_whatever_it_is_packed_in(name, table, home, tmp_path):
    written(table, tmp_path / name)
    found = find(STEMS, tmp_path)
    assert found.path.name == name and found.label == f"the folder given as root/{name}"
    pd.testing.assert_frame_equal(read_table(found)[0], table)


@pytest.mark.parametrize(
    "name",
    ["mycards.csv", "cards.txt", "cards.csv.bak", "cards (1).csv", "card.csv", "cards.csv.part"],
)
def test_other_names_are_not_taken_nor_is_a_folder(name, home, tmp_path):
    (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "cards.csv").mkdir()
    assert find(STEMS, tmp_path) is None
    assert find(STEMS, tmp_path / "nowhere") is None
    assert find(STEMS, tmp_path / name) is None  # a file is no folder


def test_the_order_is_folder_then_stem_then_ending_and_zips_last(table, home, monkeypatch):
    raw, variable = home / "data" / "raw", home / "mine"
    variable.mkdir()
    wanted = ("Invented Cards.parquet", "cards.csv", "cards.csv.gz", "cards.parquet", "archive.zip")
    for name in sorted(wanted):
        written(table, raw / name)
    order = []
    while find(STEMS):
        order.append(find(STEMS).label)
        find(STEMS).path.unlink()
    assert order == [f"data/raw/{name}" for name in wanted]
    written(table, raw / "Invented Cards.csv"), written(table, variable / "archive.zip")
    monkeypatch.setenv("PPKIT_DATA", "mine")
    assert find(STEMS).label == "$PPKIT_DATA/archive.zip"


def test_a_zip_is_known_by_the_csv_that_it_holds(table, home, tmp_path):
    zipped(
        tmp_path / "archive.zip",
        {
            "docs/notes.txt": "text",
            "data/Invented Cards.csv": table.to_csv(index=False),
            "other.csv": "x\n1\n",
            "__MACOSX/data/._Invented Cards.csv": "resource",
        },
    )
    assert find(("other things",), tmp_path) is None
    found = find(STEMS, tmp_path)
    assert found.member == "data/Invented Cards.csv"
    pd.testing.assert_frame_equal(read_table(found)[0], table)
    other = read_table(find(("other",), tmp_path))[0]  # another file of the same zip
    assert other.columns.tolist() == ["x"]


def test_a_folder_in_a_zip_hides_no_file_and_two_of_a_name_are_not_taken(table, home, tmp_path):
    content = table.to_csv(index=False)
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cards.csv/cards.csv", content)  # as Kaggle packs some
        archive.mkdir("more/cards.csv")
    assert find(STEMS, tmp_path).member == "cards.csv/cards.csv"
    pd.testing.assert_frame_equal(read_table(find(STEMS, tmp_path))[0], table)
    zipped(path, {"old/cards.csv": "a\n1\n", "new/cards.csv": content})
    assert find(STEMS, tmp_path) is None
    assert "archive.zip (it holds cards.csv), unpack it" in alike(STEMS, tmp_path, {})


# names that are almost right

ALMOST = [
    "cards (1).csv",
    "cards.CSV",
    "Cards.csv",
    "invented_cards.csv",
    "Invented%20Cards (2).csv",
    "InventedCards.csv.gz",
    "invented-card.csv",
    "cards - Copy.csv",
    "Copy of cards.csv",
    "cards.txt",
    "cards.xlsx",
    "cards - Kopie.csv",
    "cards - Kopie (2).csv",
    "Kopie von cards.csv",
    "Invented Cards - Kopie.csv",
    "cards - copia.csv",
    "cards copy 2.csv",
    "cards copy.csv",
    "cards.csv.1",
    "cards.csv~",
    "cards.csv.bak",
    "cards_2023.csv",
    "cards-2023 (1).csv",
    "cards",
]
CUT_OFF = ["cards.csv.crdownload", "cards.csv.part", "cards.csv.download", "cards (1).CSV.Part"]
UNLIKE = [
    "mycards.csv",
    "cards_20235.csv",
    "cards_photocopy.csv",
    "cards2.csv",
    "flashcards.csv",
    "postcard.csv",
    "README.md",
    ".cards.swp",
]


@pytest.mark.parametrize("name", ALMOST)
def test_a_file_whose_name_is_almost_right_is_told(name, home, tmp_path):
    (tmp_path / name).write_text("a\n1\n")
    assert find(STEMS, tmp_path) is None
    stem = "Invented Cards" if "nvented" in name else "cards"
    assert alike(STEMS, tmp_path, {}) == (
        f"a file like it lies there: the folder given as root/{name}, call it {stem}.csv to have "
        "it taken"
    )


@pytest.mark.parametrize("name", CUT_OFF)
def test_a_download_that_did_not_end_is_to_be_downloaded_again(name, home, tmp_path):
    (tmp_path / name).write_text("a\n1\n")
    assert alike(STEMS, tmp_path, {}) == (
        f"a file like it lies there: the folder given as root/{name}, a download that did not end: "
        "download it again and call it cards.csv"
    )


@pytest.mark.parametrize("name", UNLIKE)
def test_a_file_of_another_name_is_not(name, home, tmp_path):
    (tmp_path / name).write_text("a\n1\n")
    assert alike(STEMS, tmp_path, {}) == ""
    assert alike(STEMS, tmp_path / "nowhere", {}) == ""


@pytest.mark.parametrize("name", ["download.csv", "archive", "Archive.ZIP"])
def test_a_zip_is_looked_into_whatever_it_is_called(name, table, home, tmp_path):
    zipped(tmp_path / name, {"data/cards.csv": table.to_csv()})
    assert alike(STEMS, tmp_path, {}) == (
        f"a file like it lies there: the folder given as root/{name} (it holds cards.csv), unpack "
        "it and call it cards.csv"
    )


def test_a_zip_a_folder_and_a_part_of_the_data_are_told(table, home, tmp_path):
    zipped(tmp_path / "archive.zip", {"data/cards.CSV": table.to_csv(), "notes.txt": "x"})
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 cut")
    here = "a file like it lies there: the folder given as root"
    assert alike(STEMS, tmp_path, {}) == (
        f"{here}/archive.zip (it holds cards.CSV), unpack it and call it cards.csv"
    )
    (tmp_path / "archive.zip").unlink()
    spark = tmp_path / "cards.csv"
    spark.mkdir()
    assert alike(STEMS, tmp_path, {}) == (
        f"{here}/cards.csv, a folder: move the file in it here and call it cards.csv or "
        "cards.parquet; Spark writes one file after coalesce(1)"
    )
    (tmp_path / "CardStats3a.csv").write_text("a\n1\n")
    assert alike(("other",), tmp_path, {"CardStats": "cards"}) == (
        f"{here}/CardStats3a.csv, call it cards.csv to have it taken"
    )


# what cannot be read


EMPTY = "is empty, expected a CSV or parquet file: download or write it again$"
LONGER = "has 4 fields in a row below a header of 2 columns, so that its columns are uncertain: "


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("cards.csv", b"", EMPTY),
        ("cards.parquet", b"", EMPTY),
        ("cards.csv.gz", b"", EMPTY),
        ("cards.csv", b"\n\n", EMPTY),
        ("cards.csv.gz", gzip.compress(b"", mtime=0), EMPTY),
        ("cards.zip", b"", "cannot be read to its end: .+"),
        ("cards.zip", b"PK\x03\x04 cut", "cannot be read to its end: .+"),
        ("archive.zip", b"a,b\n1,2\n", "cannot be read to its end: .+"),
        ("cards.csv", b"a,b\n1,2\n1,2,3,4\n", LONGER),
        ("cards.csv", b"a,b\n" + b"1,2\n" * 200 + b"1,2,3,4\n", LONGER),
    ],
)
def test_what_is_not_the_file_it_is_called_is_one_sentence(name, content, sentence, home, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(name)} {sentence}") as caught:
        read_table(find(STEMS, tmp_path))
    assert "\n" not in str(caught.value) and str(tmp_path) not in str(caught.value)


PLAIN = b"a,b\n1,2\n"


@pytest.mark.parametrize("name", ["cards.csv", "cards.csv.gz", "cards.csv.zst", "cards.parquet"])
@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, bz2.compress, lzma.compress, zstd, as_zip, as_parquet, twice],
    ids=lambda pack: pack.__name__,
)
def test_first_bytes_decide_and_not_the_name(name, pack, home, tmp_path):
    (tmp_path / name).write_bytes(pack(PLAIN))
    read = read_table(find(STEMS, tmp_path))
    assert read.table.to_dict("list") == {"a": [1], "b": [2]}
    assert read.sha256 == ("" if pack is as_parquet else hashlib.sha256(PLAIN).hexdigest())


@pytest.mark.parametrize("name", ["cards.csv.gz", "cards.zip", "cards.parquet"])
@pytest.mark.parametrize("cut", [10, 0.5, -20])
def test_a_packed_file_cut_short_is_refused(name, cut, table, home, tmp_path):
    path = written(table, tmp_path / name)
    content = path.read_bytes()
    path.write_bytes(content[: cut if isinstance(cut, int) else int(len(content) * cut)])
    with pytest.raises(ValueError, match=f"^{re.escape(name)} cannot be read to its end") as caught:
        read_table(find(STEMS, tmp_path))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("name", ["cards.csv.gz", "cards.zip", "cards.parquet"])
def test_damage_in_the_middle_of_a_packed_file_is_refused(name, table, home, tmp_path):
    path = written(table, tmp_path / name)
    content = bytearray(path.read_bytes())
    content[300:500] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(name)} cannot be read to its end"):
        read_table(find(STEMS, tmp_path))


def test_a_file_that_is_gone_is_one_sentence(tmp_path):
    sentence = "^cards.csv cannot be read to its end: No such file or directory$"
    with pytest.raises(ValueError, match=sentence):
        read_table(Found(tmp_path / "cards.csv", "x"))


def test_a_zip_that_declares_too_much_is_not_unpacked(table, home, tmp_path, monkeypatch):
    written(table, tmp_path / "cards.zip")
    n_bytes = len(table.to_csv(index=False))
    assert len(files.read_table(find(STEMS, tmp_path), n_bytes)[0]) == 300
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked all the same"))
    sentence = f"it declares {n_bytes:,} bytes, expected at most {n_bytes - 1:,}$"
    with pytest.raises(ValueError, match=f"^cards.zip cannot be read to its end: {sentence}"):
        files.read_table(find(STEMS, tmp_path), n_bytes - 1)


def test_lines_without_a_value_are_left_out_and_told(table, home, tmp_path):
    """As Excel and Lending Club write them below the rows."""
    lines = table.to_csv(index=False) + ",,\n\n,,\n"
    (tmp_path / "cards.csv").write_text(lines)
    read = read_table(find(STEMS, tmp_path))
    pd.testing.assert_frame_equal(read.table, table, check_dtype=False)
    assert read.notes == ("lines without a value, left out: 2",)


# the checksum of what is inside


def test_the_checksum_is_of_the_csv_itself_whatever_it_is_packed_in(table, home, tmp_path):
    content = table.to_csv(index=False).encode()
    digest = hashlib.sha256(content).hexdigest()
    for name in ("cards.csv", "cards.csv.gz", "cards.zip"):
        path = written(table, tmp_path / name)
        assert read_table(find(STEMS, tmp_path))[1] == digest
        path.unlink()
    (tmp_path / "cards.csv").write_bytes(content[:-2] + b"9\n")
    assert read_table(find(STEMS, tmp_path))[1] not in ("", digest)
    assert read_table(Found(written(table, tmp_path / "cards.parquet"), "x"))[1] == ""
