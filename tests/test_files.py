"""Finding a real file and reading it: spellings, packings, the parsed copy, and one sentence for
what cannot be read."""

import gzip
import hashlib
import os
import re
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from ppkit.datasets import files
from ppkit.datasets.files import Found, Size, find, read_table

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
    """An empty project, so that the cache and data/raw are this test's."""
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


def written(table, path):
    name = path.name.lower()
    if name.endswith(".parquet"):
        table.to_parquet(path, index=False)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif name.endswith(".zip"):
        zipped(path, {"cards.csv": table.to_csv(index=False)})
    else:
        table.to_csv(path, index=False)
    return path


def cached(home):
    return (
        sorted(path.name for path in (home / ".cache").iterdir())
        if (home / ".cache").exists()
        else []
    )


# finding


@pytest.mark.parametrize(
    "name",
    [
        "cards.csv",
        "Cards.CSV",
        "CARDS.csv.gz",
        "cards.csv.zip",
        "cards.ZIP",
        "Cards.Parquet",
        "Invented Cards.csv",
        "invented_cards.csv",
        "invented-cards.zip",
        "Invented%20Cards.csv",
    ],
)
def test_a_file_is_found_and_read_however_its_name_is_spelt(name, table, home, tmp_path):
    written(table, tmp_path / name)
    found = find(STEMS, tmp_path)
    assert found.path.name == name and found.label == f"the folder given as root/{name}"
    pd.testing.assert_frame_equal(read_table(found), table)


@pytest.mark.parametrize(
    "name",
    ["mycards.csv", "cards.txt", "cards.csv.bak", "cards (1).csv", "card.csv", "cards.csv.part"],
)
def test_other_names_are_not_taken(name, home, tmp_path):
    (tmp_path / name).write_text("a\n1\n")
    assert find(STEMS, tmp_path) is None


def test_the_order_is_folder_then_stem_then_ending_then_spelling(table, home, monkeypatch):
    raw, variable = home / "data" / "raw", home / "mine"
    variable.mkdir()
    for name in (
        "archive.zip",
        "cards.parquet",
        "cards.zip",
        "CARDS.csv",
        "Cards.csv",
        "cards.csv",
        "invented_cards.parquet",
    ):
        written(table, raw / name)
    order = []
    while find(STEMS):
        order.append(find(STEMS).label)
        find(STEMS).path.unlink()
    assert order == [
        f"data/raw/{name}"
        for name in (
            "invented_cards.parquet",
            "cards.csv",
            "CARDS.csv",
            "Cards.csv",
            "cards.zip",
            "cards.parquet",
            "archive.zip",
        )
    ]
    written(table, raw / "Invented Cards.csv"), written(table, variable / "archive.zip")
    monkeypatch.setenv("PPKIT_DATA", "mine")
    assert find(STEMS).label == "$PPKIT_DATA/archive.zip"


def test_a_folder_that_is_not_there_holds_nothing_and_a_file_is_no_folder(home, tmp_path):
    assert find(STEMS, tmp_path / "nowhere") is None
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError,
        match="^the folder given as root cannot be searched, expected a folder of data files: Not",
    ):
        find(STEMS, tmp_path / "file")


@pytest.mark.parametrize("name", ["cards.csv", "Cards.zip", "invented cards.parquet"])
def test_a_folder_of_the_files_name_is_refused(name, home, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(
        ValueError, match=f"^{name} in the folder given as root is a folder, expected a file$"
    ):
        find(STEMS, tmp_path)


# zips


@pytest.mark.parametrize("archive", ["archive.zip", "archive (1).zip", "any-dataset.zip"])
def test_kaggles_archive_is_known_by_what_it_holds(archive, table, home, tmp_path):
    zipped(
        tmp_path / archive,
        {
            "docs/notes.txt": "text",
            "data/Invented_Cards.csv": table.to_csv(index=False),
            "other.csv": "x\n1\n",
            "__MACOSX/data/._Invented_Cards.csv": "resource",
        },
    )
    assert find(("other things",), tmp_path) is None
    found = find(STEMS, tmp_path)
    assert found.member == "data/Invented_Cards.csv"
    pd.testing.assert_frame_equal(read_table(found), table)
    assert len(cached(home)) == 1 and cached(home)[0].startswith("invented-cards-")
    assert read_table(find(("other",), tmp_path)).columns.tolist() == [
        "x"
    ]  # another file of the same zip


def test_a_zip_of_the_right_name_may_hold_one_csv_of_any_name_besides_other_files(
    table, home, tmp_path
):
    zipped(
        tmp_path / "cards.zip",
        {"readme.md": "text", "export-7.CSV": table.to_csv(index=False), ".hidden.csv": "no"},
    )
    pd.testing.assert_frame_equal(read_table(find(STEMS, tmp_path)), table)


@pytest.mark.parametrize(
    "members, count",
    [({"notes.txt": "nothing"}, 0), ({}, 0), ({"a.csv": "a\n1\n", "b.csv": "a\n2\n"}, 2)],
)
def test_a_zip_of_something_else_is_refused(members, count, home, tmp_path):
    zipped(tmp_path / "cards.zip", members)
    with pytest.raises(
        ValueError,
        match=f"^cards.zip cannot be read .*: expected one .csv in the archive, found {count}$",
    ):
        read_table(find(STEMS, tmp_path))
    (tmp_path / "cards.zip").rename(tmp_path / "archive.zip")
    assert find(STEMS, tmp_path) is None


def test_a_locked_zip_is_refused(home, tmp_path):
    path = zipped(tmp_path / "cards.zip", {"cards.csv": "a\n1\n"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag for a password, in both headers
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="^cards.zip cannot be read .*password required") as caught:
        read_table(find(STEMS, tmp_path))
    assert "\n" not in str(caught.value)


# what cannot be read


@pytest.mark.parametrize(
    "name, content",
    [
        ("cards.csv", b""),
        ("cards.parquet", b""),
        ("cards.csv.gz", b""),
        ("cards.zip", b""),
        ("cards.parquet", b"a,b\n1,2\n"),
        ("cards.parquet", b"x" * 500),
        ("cards.zip", b"a,b\n1,2\n"),
        ("cards.csv.gz", b"a,b\n1,2\n"),
        ("cards.csv", gzip.compress(b"a,b\n1,2\n", mtime=0)),
        ("cards.csv", b"a,b\n1,2\n1,2,3,4\n"),
        ("cards.csv", b"\n\n"),
    ],
)
def test_what_is_not_the_file_it_is_called_is_one_sentence(name, content, home, tmp_path):
    (tmp_path / name).write_bytes(content)
    expected = "a whole parquet file" if name.endswith("parquet") else "a whole table with a header"
    with pytest.raises(
        ValueError, match=f"^{re.escape(name)} cannot be read to its end, expected {expected}: .+"
    ) as caught:
        read_table(find(STEMS, tmp_path))
    assert "\n" not in str(caught.value) and str(tmp_path) not in str(caught.value)
    assert ("the file is empty" in str(caught.value)) == (content == b"")
    assert cached(home) == []


@pytest.mark.parametrize("name", ["cards.csv.gz", "cards.zip", "cards.parquet"])
@pytest.mark.parametrize("cut", [10, 0.5, -20])
def test_a_packed_file_cut_short_is_refused(name, cut, table, home, tmp_path):
    path = written(table, tmp_path / name)
    content = path.read_bytes()
    path.write_bytes(content[: cut if isinstance(cut, int) else int(len(content) * cut)])
    with pytest.raises(ValueError, match=f"^{re.escape(name)} cannot be read to its end") as caught:
        read_table(find(STEMS, tmp_path))
    assert str(tmp_path) not in str(caught.value)


def test_damage_in_the_middle_of_a_packed_file_is_refused(table, home, tmp_path):
    for name in ("cards.csv.gz", "cards.zip", "cards.parquet"):
        path = written(table, tmp_path / name)
        content = bytearray(path.read_bytes())
        middle = 300
        content[middle : middle + 200] = bytes(200)
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{re.escape(name)} cannot be read to its end"):
            read_table(Found(path, name))
        path.unlink()
    path = tmp_path / "cards.parquet"
    parquet.write_table(
        pa.table({"a": [1]}).replace_schema_metadata({"pandas": '{"columns": [{}]}'}), path
    )
    with pytest.raises(
        ValueError,
        match="^cards.parquet cannot be read to its end, expected a whole parquet file: ",
    ):
        read_table(Found(path, "x"))


def test_a_file_that_may_not_be_read_or_is_gone_is_one_sentence(home, tmp_path, monkeypatch):
    path = tmp_path / "cards.csv"
    with pytest.raises(ValueError, match="^cards.csv cannot be read: No such file or directory$"):
        read_table(Found(path, "x"))

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    path.write_text("a\n1\n")
    with monkeypatch.context() as patched:  # the tests may run as root, who may read everything
        patched.setattr(files, "open", refused, raising=False)
        with pytest.raises(ValueError, match="^cards.csv cannot be read: Permission denied$"):
            read_table(Found(path, "x"))
    written(pd.DataFrame({"a": [1]}), tmp_path / "cards.parquet")
    with monkeypatch.context() as patched:
        patched.setattr(files.pd, "read_parquet", refused)
        with pytest.raises(ValueError, match="^cards.parquet cannot be read: Permission denied$"):
            read_table(Found(tmp_path / "cards.parquet", "x"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_and_a_folder_without_the_right_to_read(home, tmp_path):
    (tmp_path / "cards.csv").write_text("a\n1\n")
    (tmp_path / "cards.csv").chmod(0)
    with pytest.raises(ValueError, match="^cards.csv cannot be read: Permission denied$"):
        read_table(find(STEMS, tmp_path))
    tmp_path.chmod(0)
    try:
        with pytest.raises(
            ValueError, match="^the folder given as root cannot be searched, .*Permission denied$"
        ):
            find(STEMS, tmp_path)
    finally:
        tmp_path.chmod(0o700)


# the parsed copy


@pytest.mark.parametrize("name", ["cards.csv", "cards.csv.gz", "cards.zip"])
def test_a_csv_is_parsed_once_and_comes_back_the_same(name, table, home, tmp_path, monkeypatch):
    found = Found(written(table, tmp_path / name), name)
    first = read_table(found)
    monkeypatch.setattr(files, "parsed", lambda *_, **__: pytest.fail("parsed again"))
    pd.testing.assert_frame_equal(read_table(found), first)
    assert len(cached(home)) == 1 and re.fullmatch(r"cards-[0-9a-f]{16}\.parquet", cached(home)[0])


def test_a_new_checksum_and_a_new_way_of_reading_replace_the_copy_and_no_other_ones(
    table, home, tmp_path, monkeypatch
):
    others = [
        f".cache/{name}.parquet"
        for name in ("other-0123456789abcdef", "cards-of-mine", "my-cards-0123456789abcdef")
    ]
    (home / ".cache").mkdir()
    for name in others:
        (home / name).write_text("")
    found = Found(written(table, tmp_path / "cards.csv"), "x")
    kept = []
    for content in (
        table,
        table[:200],
        table,
    ):  # changed, with the old time of writing, and changed back
        written(content, found.path)
        os.utime(found.path, (1, 1))
        assert len(read_table(found)) == len(content)
        kept.append([name for name in cached(home) if f".cache/{name}" not in others])
    monkeypatch.setattr(files, "READING", "another")
    read_table(found)
    kept.append([name for name in cached(home) if f".cache/{name}" not in others])
    assert [len(names) for names in kept] == [1, 1, 1, 1]
    assert kept[0] == kept[2] != kept[1] and kept[3] != kept[2]
    assert all((home / name).exists() for name in others)


def test_a_spoilt_copy_is_made_anew_and_parquet_needs_none(table, home, tmp_path):
    found = Found(written(table, tmp_path / "cards.csv"), "x")
    read_table(found)
    for spoilt in (b"", b"no parquet"):
        (home / ".cache" / cached(home)[0]).write_bytes(spoilt)
        pd.testing.assert_frame_equal(read_table(found), table)
    assert files.pd.read_parquet(home / ".cache" / cached(home)[0]).equals(table)
    (home / ".cache" / cached(home)[0]).unlink()
    read_table(Found(written(table, tmp_path / "cards.parquet"), "x"))
    assert cached(home) == []


def test_a_table_that_parquet_cannot_hold_or_a_place_that_cannot_be_written_is_no_hindrance(
    table, home, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    found = Found(written(table, tmp_path / "cards.csv"), "x")
    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, "to_parquet", full)
        assert len(read_table(found)) == 300
    assert cached(home) == []
    (home / ".cache").rmdir()
    (home / ".cache").write_text("a file where the folder would be")
    assert len(read_table(found)) == 300


# the checksum of what is inside


def test_the_checksum_is_of_the_csv_itself_whatever_it_is_packed_in(table, home, tmp_path):
    content = table.to_csv(index=False).encode()
    (tmp_path / "cards.csv").write_bytes(content)
    (tmp_path / "cards.csv.gz").write_bytes(gzip.compress(content))
    zipped(tmp_path / "cards.zip", {"any.csv": content})
    for name in ("cards.csv", "cards.csv.gz", "cards.zip", "cards.csv"):  # the last: from .cache
        read = read_table(Found(tmp_path / name, name))
        assert read.attrs == {"sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / "cards.csv").write_bytes(content[:-2] + b"9\n")
    assert read_table(Found(tmp_path / "cards.csv", "x")).attrs["sha256"] != read.attrs["sha256"]
    read.to_parquet(tmp_path / "cards.parquet", index=False)  # it says that it has that checksum
    assert pd.read_parquet(tmp_path / "cards.parquet").attrs == read.attrs
    assert read_table(Found(tmp_path / "cards.parquet", "x")).attrs == {}


# files that unpack to far more than they should

ZEROS = b"a,b\n" + b"0,0\n" * 2_500_000  # 10 MB of CSV, 10 KB of zip
BEYOND = (
    "^{} holds {} {} when it is unpacked, expected at most {}, far more than the published "
    "file has$"
)


@pytest.fixture
def unpacked(monkeypatch):
    """How many bytes came out of zips and gzips since the test began."""
    came = []
    for kind in (zipfile.ZipExtFile, gzip.GzipFile):

        def counted(self, *size, read=kind.read):
            came.append(read(self, *size))
            return came[-1]

        monkeypatch.setattr(kind, "read", counted)
    return lambda: sum(map(len, came))


def refused(path, sentence, largest):
    """Reading it ends in that sentence, and never held more than a few blocks on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=sentence):
            read_table(Found(path, path.name), largest)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def declaring(path, n_bytes):
    """The zip, now saying in both its headers that its file has so many bytes."""
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        first = content.index(mark) + at
        content[first : first + 4] = n_bytes.to_bytes(4, "little")
    path.write_bytes(content)
    return path


def test_a_zip_that_declares_too_much_is_refused_before_a_byte_comes_out(home, tmp_path, unpacked):
    path = zipped(tmp_path / "cards.zip", {"cards.csv": ZEROS})
    assert path.stat().st_size < 20_000
    refused(path, BEYOND.format("cards.zip", "10,000,004", "bytes", "100,000"), Size(10**5, 10**9))
    assert unpacked() == 0
    refused(declaring(path, 3 * 10**9), "holds 3,000,000,000 bytes when", Size(2 * 10**9, 10**9))
    assert unpacked() == 0 and cached(home) == []


def test_a_zip_that_declares_too_little_is_cut_off_there(home, tmp_path, unpacked):
    path = declaring(zipped(tmp_path / "cards.zip", {"cards.csv": ZEROS}), 1_000)
    refused(path, "^cards.zip cannot be read to its end, .*Bad CRC-32", Size(100_000, 10**9))
    assert unpacked() <= 1_000 and cached(home) == []


def test_a_gzip_is_cut_off_at_the_bound_whatever_it_declares(home, tmp_path, unpacked):
    path = tmp_path / "cards.csv.gz"
    path.write_bytes(gzip.compress(ZEROS)[:-4] + (1_000).to_bytes(4, "little"))
    refused(path, BEYOND.format("cards.csv.gz", "more", "bytes", "100,000"), Size(100_000, 10**9))
    assert 100_000 < unpacked() <= 100_000 + files.BLOCK and cached(home) == []


def test_cells_are_counted_too_because_memory_goes_by_them(home, tmp_path, unpacked):
    path = zipped(tmp_path / "cards.zip", {"cards.csv": ZEROS})
    refused(path, BEYOND.format("cards.zip", "more", "cells", "50,000"), Size(10**9, 50_000))
    assert unpacked() <= 100_000 + files.BLOCK  # a cell takes two bytes here
    lines = tmp_path / "cards.csv"
    lines.write_bytes(b"a\n" + b"0\n" * 60_000)  # no comma at all
    refused(lines, BEYOND.format("cards.csv", "more", "cells", "50,000"), Size(10**9, 50_000))
    refused(lines, BEYOND.format("cards.csv", "120,002", "bytes", "120,001"), Size(120_001, 10**9))
    assert len(read_table(Found(lines, "x"), Size(120_002, 60_001))) == 60_000
    assert len(read_table(Found(lines, "x"))) == 60_000


def test_a_parquet_file_is_measured_by_its_metadata(home, tmp_path, monkeypatch):
    path = tmp_path / "cards.parquet"
    pd.DataFrame({"a": np.zeros(2_000_000), "b": np.zeros(2_000_000)}).to_parquet(path, index=False)
    assert path.stat().st_size < 100_000  # runs of one value take no room
    nested = tmp_path / "nested.parquet"
    parquet.write_table(pa.table({"a": [[0] * 60_000]}), nested)
    wide = tmp_path / "wide.parquet"
    pd.DataFrame({"a": np.random.default_rng(0).normal(size=1_000)}).to_parquet(wide, index=False)
    assert len(read_table(Found(wide, "x"), Size(20_000, 1_000))) == 1_000
    monkeypatch.setattr(files.pd, "read_parquet", lambda _: pytest.fail("read all the same"))
    beyond = BEYOND.format("cards.parquet", "4,000,000", "cells", "3,999,999")
    refused(path, beyond, Size(10**9, 3_999_999))
    beyond = BEYOND.format("nested.parquet", "60,000", "cells", "50,000")
    refused(nested, beyond, Size(10**9, 50_000))
    refused(wide, BEYOND.format("wide.parquet", r"\d,\d+", "bytes", "8,000"), Size(8_000, 10**9))
