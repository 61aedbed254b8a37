"""ppkit data fetch against a real server on this machine: whatever it does, the name is absent, or the file whole and right."""

import errno
import fcntl
import gzip
import hashlib
import json
import re
import shutil
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppkit import datasets
from ppkit.datasets import creditcard, downloading, fetching
from ppkit.datasets.fetching import Failed, Offline, Public, obtain

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
    """One step of `script` answers one request, the last one all that follow; `asked` holds the headers of each request.

    A step is a dict: body, status, etag, modified, cut (bytes after which the connection breaks), ranges (False: they are
    ignored), headers (more of them, or others; None leaves one out), and `trust` (True: If-Range is ignored).
    """

    def __init__(self):
        self.script, self.asked = [{}], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(dict(self.headers))
                outer.answer(self, outer.script.pop(0) if len(outer.script) > 1 else outer.script[0])

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/table.csv"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @staticmethod
    def answer(request, step):
        body, status = step.get("body", RIGHT), step.get("status", 200)
        headers = {"ETag": step.get("etag", f'"{hashlib.sha256(body).hexdigest()[:8]}"'),
                   "Last-Modified": step.get("modified"), "Content-Length": str(len(body))}
        span = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        same = request.headers.get("If-Range") in (None, headers["ETag"], headers["Last-Modified"])
        if span and status == 200 and step.get("ranges", True) and (same or step.get("trust")):
            first = int(span[1])
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            status, body = (206, body[first:]) if first < len(body) else (416, b"")
            headers["Content-Length"] = str(len(body))
        request.send_response(status)
        for name, value in (headers | step.get("headers", {})).items():
            if value is not None:
                request.send_header(name, value)
        request.end_headers()
        if "cut" in step:
            request.wfile.write(body[:step["cut"]])
            request.wfile.flush()
            if step.get("reset"):                  # a reset instead of an orderly end
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
    return Public("table.csv", server.address, len(RIGHT), hashlib.sha256(RIGHT).hexdigest(), N_ROWS, checked)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "raw"


def fetched(public, folder, wait=0.005):
    return obtain(public, folder, "data/raw", wait=wait)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def right(folder: Path) -> bool:
    """The file has its name, the right bytes, and nothing lies beside it."""
    return left(folder) == ["table.csv"] and (folder / "table.csv").read_bytes() == RIGHT


# what goes well

def test_a_file_comes_whole_and_a_second_fetch_does_nothing(server, public, folder, capfd):
    assert fetched(public, folder) == f"data/raw/table.csv is there now, checksum {public.sha256[:12]} as known"
    assert right(folder)
    assert fetched(public, folder) == (f"data/raw/table.csv is there already, checksum {public.sha256[:12]} as known: "
                                       "nothing to do")
    assert len(server.asked) == 1 and server.asked[0]["Accept-Encoding"] == "identity" and "Range" not in server.asked[0]
    assert capfd.readouterr() == ("", "")                              # no terminal, no progress bar


def test_another_checksum_with_the_right_content_is_kept_and_said(server, public, folder):
    server.script = [{"body": OTHER}]
    said = fetched(public, folder)
    assert said.startswith("data/raw/table.csv is there now, 6,000 rows, every check of the content passed")
    assert hashlib.sha256(OTHER).hexdigest()[:12] in said and public.sha256[:12] in said
    assert (folder / "table.csv").read_bytes() == OTHER and left(folder) == ["table.csv"]
    assert "is there already, 6,000 rows, every check" in fetched(public, folder) and len(server.asked) == 1


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
    server.script = [{"body": packed, "headers": {"Content-Encoding": "gzip"}, "cut": len(packed) // 2},
                     {"body": packed, "headers": {"Content-Encoding": "gzip"}}]
    fetched(public, folder)                                            # a packed part is begun anew, not gone on with
    assert right(folder) and "Range" not in server.asked[-1]


# a connection that breaks

@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_connection_is_gone_on_with(reset, server, public, folder):
    server.script = [{"cut": HALF, "reset": reset}, {}]
    fetched(public, folder)
    assert right(folder) and len(server.asked) == 2
    if not reset:                                                      # a reset may throw away what was sent
        assert 0 < int(server.asked[1]["Range"].removeprefix("bytes=").removesuffix("-")) <= HALF
        assert server.asked[1]["If-Range"] == f'"{public.sha256[:8]}"'


def test_a_connection_cut_each_time_is_one_sentence_and_the_next_fetch_goes_on(server, public, folder):
    server.script = [{"cut": 70_000}, {"cut": 0}]
    with pytest.raises(Failed, match=r"^data/raw/table.csv did not come whole in 4 tries: 127.0.0.1 cut the connection"
                                     r".*\(\d+,\d+ bytes are kept: the same command goes on from there\)$") as caught:
        fetched(public, folder)
    assert "\n" not in str(caught.value) and len(server.asked) == 4
    assert left(folder) == ["table.csv.part", "table.csv.part.version"]
    kept = (folder / "table.csv.part").read_bytes()
    assert kept == RIGHT[:len(kept)] and len(kept) > 0
    server.script = [{}]
    fetched(public, folder)
    assert right(folder) and server.asked[-1]["Range"] == f"bytes={len(kept)}-"


def test_a_file_in_many_pieces(server, public, folder):
    server.script = [{"cut": 70_000}, {"cut": 70_000}, {"cut": 70_000}, {}]
    fetched(public, folder)
    assert right(folder)
    assert [("Range" in headers) for headers in server.asked] == [False, True, True, True]


def test_a_server_without_ranges_starts_over(server, public, folder):
    server.script = [{"cut": HALF, "ranges": False}, {"ranges": False}]
    fetched(public, folder)
    assert right(folder) and "Range" in server.asked[1]


def test_a_server_that_names_no_version_starts_over_and_leaves_nothing(server, public, folder):
    server.script = [{"cut": HALF, "etag": None}]
    with pytest.raises(Failed, match="tries: 127.0.0.1 cut the connection[^(]*$"):
        fetched(public, folder)
    assert left(folder) == [] and not any("Range" in headers for headers in server.asked)
    server.script = [{"cut": HALF, "etag": None}, {"etag": None}]
    fetched(public, folder)
    assert right(folder)


def test_a_weak_tag_is_no_version_but_a_date_is(server, public, folder):
    date = "Tue, 01 Jul 2025 10:00:00 GMT"
    server.script = [{"cut": HALF, "etag": 'W/"1"', "modified": date}, {"etag": 'W/"1"', "modified": date}]
    fetched(public, folder)
    assert right(folder) and server.asked[1]["If-Range"] == date


@pytest.mark.parametrize("trust", [False, True])
def test_a_file_that_changes_between_two_tries_is_never_glued(trust, server, public, folder):
    server.script = [{"body": OTHER, "cut": HALF}, {"trust": trust}, {}]     # trust: it sends a 206 of the new version
    fetched(public, folder)
    assert right(folder) and len(server.asked) == (3 if trust else 2)


@pytest.mark.parametrize("wrong", [{"Content-Range": "bytes 0-99/100"}, {"Content-Range": None}, {"Content-Range": "bytes x"},
                                   {"Content-Encoding": "gzip"}])
def test_a_part_other_than_the_one_asked_for_starts_over(wrong, server, public, folder):
    server.script = [{"cut": HALF}, {"headers": wrong}, {}]
    fetched(public, folder)
    assert right(folder) and "Range" not in server.asked[2]


@pytest.mark.parametrize("note", ["", "[]", "{", json.dumps({"address": "http://elsewhere", "version": '"x"'})])
def test_a_part_of_unknown_version_or_of_another_address_starts_over(note, server, public, folder):
    folder.mkdir()
    (folder / "table.csv.part").write_bytes(OTHER[:HALF])
    (folder / "table.csv.part.version").write_text(note)
    fetched(public, folder)
    assert right(folder) and "Range" not in server.asked[0]


def test_a_part_longer_than_the_file_starts_over(server, public, folder):
    folder.mkdir()
    (folder / "table.csv.part").write_bytes(RIGHT + b"more")
    (folder / "table.csv.part.version").write_text(json.dumps({"address": public.address, "version": f'"{public.sha256[:8]}"'}))
    fetched(public, folder)                                            # the server answers 416 first
    assert right(folder) and len(server.asked) == 2


def test_a_length_that_is_too_long_or_too_short_is_no_whole_file(server, public, folder):
    server.script = [{"headers": {"Content-Length": str(len(RIGHT) + 10)}, "etag": None}]
    with pytest.raises(Failed, match="did not come whole in 4 tries"):
        fetched(public, folder)
    assert left(folder) == []
    server.script = [{"headers": {"Content-Length": str(len(RIGHT) - 1_000)}}]
    with pytest.raises(ValueError, match="^data/raw/table.csv is not there, what came was removed: table.csv: "):
        fetched(public, folder)
    assert left(folder) == []


# what is not the file

ROW_END = RIGHT.rindex(b"\n", 0, HALF) + 1
WRONG = {
    "another table": (b"x,y\n1,2\n", r"table\.csv: column 'a' is missing \(found 'x' instead\)"),
    "a page": (b"\n<!DOCTYPE html><title>Sign in</title>", r"table\.csv is a web page, expected a CSV"),
    "nothing": (b"", r"table\.csv cannot be read to its end, expected a whole table with a header: the file is empty"),
    "half, to the end of a row": (RIGHT[:ROW_END], r"table\.csv: \d,\d+ rows, expected all 6,000"),
    "bytes": (b"\xff\xfe\x00\x81" * 100, r"table\.csv cannot be read to its end, expected a whole table with a header"),
}


@pytest.mark.parametrize("body, sentence", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_removed_and_the_sentence_says_what_is_wrong(body, sentence, server, public, folder):
    server.script = [{"body": body}]
    with pytest.raises(ValueError, match=f"^data/raw/table.csv is not there, what came was removed: {sentence}") as caught:
        fetched(public, folder)
    assert "\n" not in str(caught.value) and str(folder) not in str(caught.value)
    assert left(folder) == [] and len(server.asked) == 1


@pytest.mark.parametrize("status, tries", [(404, 1), (403, 1), (204, 1), (500, 4), (503, 4)])
def test_a_status_is_named_and_only_what_may_pass_is_tried_again(status, tries, server, public, folder):
    server.script = [{"status": status, "body": b""}]
    with pytest.raises(Failed, match=rf"127\.0\.0\.1 answered with status {status} \(") as caught:
        fetched(public, folder)
    assert "\n" not in str(caught.value) and left(folder) == [] and len(server.asked) == tries


def test_a_server_that_recovers(server, public, folder):
    server.script = [{"status": 503, "body": b""}, {"cut": HALF}, {"status": 500, "body": b""}, {}]
    fetched(public, folder)
    assert right(folder) and "Range" in server.asked[3]


def test_redirects_without_end_are_one_sentence(server, public, folder):
    server.script = [{"status": 302, "body": b"", "headers": {"Location": "/table.csv"}}]
    with pytest.raises(Failed, match=r"^127.0.0.1 cannot be asked for table.csv: TooManyRedirects$"):
        fetched(public, folder)
    assert left(folder) == []


def test_nobody_listening_is_one_sentence_at_once(server, public, folder, monkeypatch):
    server.server.socket.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))                                    # taken, but nobody listens
        address = f"http://127.0.0.1:{free.getsockname()[1]}/table.csv"
        monkeypatch.setattr(downloading.time, "sleep", lambda _: pytest.fail("there is nothing to wait for"))
        with pytest.raises(Offline, match=r"^127.0.0.1 does not answer: is this machine offline\?$"):
            fetched(public._replace(address=address), folder)
    assert left(folder) == []


def test_a_silent_server_is_given_up(public, folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:             # takes the connection and says nothing
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/table.csv"
        with pytest.raises(Offline, match="does not answer"):
            downloading.download(address, folder / "table.csv", str, label="data/raw/table.csv", timeout=0.2)
    assert left(folder) == []


# the folder

@pytest.mark.parametrize("content, sentence", [(b"a,b\n1,2\n", "column 'a' is missing"),
                                               (RIGHT[:ROW_END], "expected all 6,000")], ids=["other", "half"])
def test_another_file_of_that_name_is_not_overwritten(content, sentence, server, public, folder):
    folder.mkdir()
    (folder / "table.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^data/raw/table.csv is there and is not overwritten, .*{sentence}.*: move it "
                                         "away and fetch again$"):
        fetched(public, folder)
    assert (folder / "table.csv").read_bytes() == content and left(folder) == ["table.csv"] and server.asked == []


def test_a_folder_of_that_name_is_left_alone(server, public, folder):
    (folder / "table.csv").mkdir(parents=True)
    with pytest.raises(ValueError, match="is there and is not overwritten, .*it is a folder"):
        fetched(public, folder)
    assert server.asked == []


def test_a_file_put_there_during_the_download_stays(server, public, folder):
    def late(table, file):
        (folder / "table.csv").write_text("a person's own")
    server.script = [{"body": OTHER}]
    with pytest.raises(Failed, match="^data/raw/table.csv is there already: it is not overwritten$"):
        fetched(public._replace(checked=late), folder)
    assert (folder / "table.csv").read_text() == "a person's own"


def test_a_folder_that_cannot_be_written_is_one_sentence(server, public, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="^cannot write data/raw/table.csv: Not a directory$"):
        fetched(public, tmp_path / "file" / "raw")
    with pytest.raises(Failed, match="^cannot write data/raw/table.csv: (File exists|Not a directory)$"):
        fetched(public, tmp_path / "file")
    assert server.asked == []


def test_too_little_room_is_said_before_and_a_full_disk_during_the_download(server, public, folder, monkeypatch):
    usage = shutil.disk_usage(folder.parent)
    with monkeypatch.context() as patched:
        patched.setattr(downloading.shutil, "disk_usage", lambda _: usage._replace(free=100_000))
        with pytest.raises(Failed, match=r"^data/raw/table.csv needs 0\.\d MB more, and only 0\.1 MB are free there$"):
            fetched(public, folder)
    assert left(folder) == []

    class Full(downloading.tqdm):
        def update(self, n=1):
            raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(downloading, "tqdm", Full)
    with pytest.raises(Failed, match="^cannot write data/raw/table.csv: the disk is full$"):
        fetched(public, folder)
    assert "table.csv" not in left(folder)


# two at once

def test_a_second_fetch_of_the_same_file_is_refused_while_the_first_one_works(server, public, folder):
    folder.mkdir()
    with open(folder / "table.csv.part", "a+b") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(Failed, match="^another process is fetching data/raw/table.csv: wait for its end$"):
            fetched(public, folder)
        assert server.asked == [] and left(folder) == ["table.csv.part"]
    fetched(public, folder)                                            # a lock dies with its process
    assert right(folder)


def test_a_part_taken_away_between_opening_and_locking_is_opened_anew(server, public, folder, monkeypatch):
    held, real = [], fcntl.flock

    def lock(file, how):
        if not held:                                                   # another process gives up in this moment
            held.append((folder / "table.csv.part").unlink())
        real(file, how)
    monkeypatch.setattr(downloading.fcntl, "flock", lock)
    fetched(public, folder)
    assert held and right(folder)


def test_many_fetches_at_once_end_in_one_right_file(server, public, folder):
    server.script = [{"cut": HALF}] * 3 + [{}]
    ends = []

    def one():
        try:
            ends.append(fetched(public, folder))
        except Failed as error:
            ends.append(str(error))
    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right(folder) and len(ends) == 8
    assert sum("is there now" in end for end in ends) == 1
    assert all(re.search("is there now|is there already|another process is fetching", end) for end in ends)


def test_what_an_interrupted_fetch_leaves_is_gone_on_with(server, public, folder, monkeypatch):
    class Interrupted(downloading.tqdm):
        def update(self, n=1):
            raise KeyboardInterrupt
    with monkeypatch.context() as patched:
        patched.setattr(downloading, "tqdm", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetched(public, folder)
    assert left(folder) == ["table.csv.part", "table.csv.part.version"]
    fetched(public, folder)
    assert right(folder) and server.asked[1]["Range"] == f"bytes={downloading.BLOCK}-"


# the names and the command

@pytest.fixture
def two_public(server, public, monkeypatch):
    """The command's own files, replaced by two of this server."""
    monkeypatch.setattr(downloading.time, "sleep", lambda _: None)
    monkeypatch.setattr(fetching, "PUBLIC", {"creditcard": public, "lending": public._replace(file="loans.csv")})


def test_every_data_set_has_a_way_and_every_address_is_https():
    assert set(datasets.NAMES) <= set(fetching.NAMES)
    for public in fetching.PUBLIC.values():
        assert public.address.startswith("https://") and public.address.endswith("/" + public.file)
        assert re.fullmatch("[0-9a-f]{64}", public.sha256)
    for name in datasets.NAMES[1:]:                                    # what is fetched is what load finds
        files = [way.file for ways in (fetching.PUBLIC, fetching.BY_HAND) for key, way in ways.items()
                 if key.removesuffix("-kaggle") == name]
        assert files
        for file in files:
            assert Path(file).stem.casefold() in [stem.casefold() for stem in datasets.loading.REAL[name].STEMS]


def test_fetch_without_names_takes_all_that_are_public(ppkit, project, two_public):
    code, said, errors = ppkit("data", "fetch")
    assert code == 0 and errors == "" and len(said.splitlines()) == 2
    assert left(project.folder / "data" / "raw") == ["loans.csv", "table.csv"]
    again = said.splitlines()[1].replace("there now", "there already") + ": nothing to do\n"
    assert ppkit("data", "fetch", "lending")[:2] == (0, again)


def test_fetch_into_another_folder(ppkit, project, two_public):
    code, said, _ = ppkit("data", "fetch", "lending", "--into", "mine/files")
    assert code == 0 and said.startswith("mine/files/loans.csv is there now")
    assert left(project.folder / "mine" / "files") == ["loans.csv"] and not (project.folder / "data").exists()


def test_one_that_fails_does_not_keep_the_others_from_coming(ppkit, project, server, two_public):
    server.script = [{"status": 404, "body": b""}, {}]
    code, said, errors = ppkit("data", "fetch")
    assert code == 2 and said.startswith("data/raw/loans.csv is there now")
    assert errors == "ppkit: 127.0.0.1 answered with status 404 (Not Found) for table.csv\n"


def test_offline_is_one_line_and_exit_code_2(ppkit, public, monkeypatch):
    monkeypatch.setattr(fetching, "PUBLIC", {name: public._replace(address="http://127.0.0.1:1/table.csv")
                                             for name in ("creditcard", "lending")})
    assert ppkit("data", "fetch") == (2, "", "ppkit: 127.0.0.1 does not answer: is this machine offline?\n")


def test_an_unknown_name_is_refused_before_anything_is_fetched(ppkit, server, two_public):
    assert ppkit("data", "fetch", "creditcard", "cards") == (
        2, "", f"ppkit: unknown file 'cards': there are {', '.join(fetching.NAMES)}\n")
    assert server.asked == []


@pytest.mark.parametrize("name, slug, file", [("distress", "shebrahimi/financial-distress", "Financial Distress.csv"),
                                              ("lending-kaggle", "wendykan/lending-club-loan-data", "loan.csv")])
def test_a_file_behind_a_login_is_explained_until_it_is_there(name, slug, file, ppkit, project):
    code, said, errors = ppkit("data", "fetch", name)
    assert code == 1 and errors == ""
    for part in ("free account", f"https://www.kaggle.com/datasets/{slug}", f"kaggle datasets download -d {slug} -p data/raw\n",
                 repr(file), f"{slug.split('/')[1]}.zip", "ppkit data status"):
        assert part in said
    code, said, _ = ppkit("data", "fetch", name, "--into", "my files")
    assert code == 1 and "-p 'my files'\n" in said and "PPKIT_DATA=" in said
    (project.folder / "my files").mkdir()
    (project.folder / "my files" / file).write_text("a\n1\n")
    assert ppkit("data", "fetch", name, "--into", "my files")[:2] == (
        0, f"my files/{file} is there already: `ppkit data status` checks it\n")


def test_status_fits_100_columns_and_ends_with_what_fetches_the_missing_files(ppkit, project, monkeypatch):
    row = {"source": "stand-in", "where": "", "rows": "any, by default 284,807", "sha256": "", "note": "a word " * 60}
    real = {"source": "real subset, unverified: 44,212 of 284,807 rows", "rows": "44,212",
            "where": "$PPKIT_DATA/Financial Distress.csv", "sha256": "0123456789abcdef" * 4,
            "note": "short"}
    monkeypatch.setattr(datasets, "status", lambda: [row | {"name": name} for name in ("creditcard", "distress", "lending")])
    code, said, _ = ppkit("data", "status")
    assert code == 0 and all(len(line.rstrip()) <= 100 for line in said.splitlines()) and said.count("word") == 180
    assert said.endswith("\nTo download what is public (153 MB):  ppkit data fetch creditcard lending\n"
                         "To read how to get distress:  ppkit data fetch distress\n")
    monkeypatch.setattr(datasets, "status", lambda: [real | {"name": "distress"}, row | {"name": "lending"}])
    said = ppkit("data", "status")[1]
    assert re.search(r"distress +real subset, +44,212 of 284,807 +\$PPKIT_DATA/Financial "
                     r"Distress.csv +0123456789ab +\n +unverified +\n", said)
    assert all(len(line.rstrip()) <= 100 for line in said.splitlines())
    assert said.endswith("\nTo download what is public (3 MB):  ppkit data fetch lending\n")
    monkeypatch.setattr(datasets, "status", lambda: [real | {"name": "distress"}, row | {"name": "lending", "source": "unreadable"}])
    assert "data fetch" not in ppkit("data", "status")[1]


def test_transactions_are_simulated(ppkit, project):
    assert ppkit("data", "fetch", "transactions")[:2] == (
        0, "transactions is simulated, because wang2018's bank data cannot be had by anyone: nothing is to be fetched\n")


@pytest.mark.slow
def test_the_checks_of_creditcard_decide_on_a_copy_with_another_checksum(server, folder):
    header, rest = ",".join(creditcard.COLUMNS), "0," * 14 + "88.349619"
    fraud = [row < creditcard.FULL_FRAUDS for row in range(creditcard.FULL_ROWS)]
    lines = "".join(f"94813.859575,{row}e-4,{'0,' * 12}{-5 * of_fraud},{rest},{int(of_fraud)}\n"
                    for row, of_fraud in enumerate(fraud))
    server.script = [{"body": f"{header}\n{lines}".encode()}]
    known = fetching.PUBLIC["creditcard"]._replace(address=server.address)
    assert "284,807 rows, every check of the content passed" in obtain(known, folder, "data/raw")
    (folder / "creditcard.csv").unlink()
    server.script = [{"body": f"{header}\n{lines}".replace("1\n", "0\n", 1).encode()}]
    with pytest.raises(ValueError, match="what came was removed: creditcard.csv: column 'Class' counts 491 frauds"):
        obtain(known, folder, "data/raw")
    assert left(folder) == []
