"""What comes from a worker is looked at whole before anything is written; what goes there is
small."""

import io
import json
import tarfile

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppkit.runs import Refused, archive, cluster
from ppkit.runs.worker import DONE, FAILED

WENT = {"status": DONE, "seconds": 1.5, "peak_memory_mb": 7}
NOTEBOOK = nbformat.writes(nbformat.v4.new_notebook()).encode()
CLAIMS = "claims/01_a.json"
NO_ROWS = b'{"schema": 1, "claims": []}'
FILES = {"notebooks/01_a.ipynb": NOTEBOOK, "html/01_a.html": b"<p>", CLAIMS: NO_ROWS}


def made(*members: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """An archive of members that a stranger may have made."""
    bytes_of = io.BytesIO()
    with tarfile.open(fileobj=bytes_of, mode="w") as tar:
        for one in members:
            one.size = len(content) if one.isreg() else 0
            tar.addfile(one, io.BytesIO(content) if one.isreg() else None)
    return bytes_of.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = kind, link
    return about


@given(
    st.dictionaries(
        st.text("abc./é", min_size=1, max_size=12)
        .filter(lambda name: name[0] != "/" and name[-1] != "/")
        .filter(lambda name: not {"", ".", ".."} & set(name.split("/"))),
        st.binary(max_size=2_000),
        max_size=4,
    )
)
def test_what_is_packed_is_unpacked(files):
    assert archive.unpacked(archive.packed(files)) == files


@pytest.mark.parametrize(
    "bad, sentence",
    [
        (made(member("../a")), "which is not inside a folder"),
        (made(member("html/../../a")), "which is not inside a folder"),
        (made(member("/a")), "which is not inside a folder"),
        (made(member("a//b")), "which is not inside a folder"),
        (made(member("./a")), "which is not inside a folder"),
        (made(member("..\\a")), "which is not inside a folder"),
        (made(member("C:a")), "which is not inside a folder"),
        (made(member("a", tarfile.SYMTYPE, "/etc")), "which is no plain file"),
        (made(member("a", tarfile.LNKTYPE, "b")), "which is no plain file"),
        (made(member("a", tarfile.FIFOTYPE)), "which is no plain file"),
        (made(member("a", tarfile.CHRTYPE)), "which is no plain file"),
        (made(member("a", tarfile.DIRTYPE)), "which is no plain file"),
        (made(member("a"), member("a")), "holds 'a' twice"),
        (made(member("a"), content=b"x" * 5_000)[:2_000], "cut off"),
        (b"PK\x03\x04" + b"a" * 600, "no archive, or one that was cut off"),
        (b"", "no archive, or one that was cut off"),
        ({"a": 1}, "an archive must be bytes, got dict"),
    ],
)
def test_an_archive_that_a_stranger_may_have_made_is_refused(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        archive.unpacked(bad)


def test_an_archive_that_is_too_large_or_holds_too_many_is_refused(monkeypatch):
    monkeypatch.setattr(archive, "FILES_AT_MOST", 2)
    with pytest.raises(ValueError, match="holds more than 2 files"):
        archive.unpacked(archive.packed(dict.fromkeys("abc", b"")))
    monkeypatch.setattr(archive, "BYTES_AT_MOST", 100)
    with pytest.raises(ValueError, match="bytes, more than 100"):
        archive.unpacked(archive.packed({"a": b""}))


def answer(files: dict, **said) -> bytes:
    return archive.packed({cluster.OUTCOME: json.dumps(WENT | said).encode(), **files})


def test_a_job_s_answer_is_taken_as_it_is():
    outcome, files = cluster.taken(answer(FILES), "01_a")
    assert outcome == {**WENT, "traceback": []} and files == FILES
    outcome, files = cluster.taken(answer({}, status=FAILED, error="no", cell=3), "01_a")
    assert (outcome["error"], outcome["cell"], files) == ("no", 3, {})


@pytest.mark.parametrize(
    "bad, sentence",
    [
        (answer({}), "it lacks html/01_a.html, notebooks/01_a.ipynb"),
        (answer({"notebooks/01_a.ipynb": NOTEBOOK}), "it lacks html/01_a.html"),
        (answer(FILES | {"html/01_a.html": b""}), "it lacks html/01_a.html"),
        (answer(FILES | {"notebooks/01_a.ipynb": b"{}"}), "01_a.ipynb is no notebook"),
        (answer(FILES | {CLAIMS: b"[{}]"}), "is no row of the ledger"),
        (answer(FILES | {CLAIMS: b"{}"}), "is no row of the ledger"),
        (answer(FILES | {CLAIMS: b'{"claims": []}'}), "must contain .* properties"),
        (answer(FILES | {CLAIMS: b'{"schema": 1, "claims": [{}]}'}), "is no row of the ledger"),
        (answer(FILES | {CLAIMS: b"no"}), "Expecting value"),
        (answer(FILES | {"measured/a.json": b"[1e999]"}), "1e999 is no number"),
        (archive.packed({cluster.OUTCOME: b"[" * 100_000}), "nested too deep"),
        (archive.packed({cluster.OUTCOME: b'{"seconds": 1e999}'}), "1e999 is no number"),
        (answer({}, status=FAILED), "that the job failed, and not why"),
        (answer(FILES, seconds=-1.0), "it says 'seconds': -1.0"),
        (answer(FILES, peak_memory_mb=True), "it says 'peak_memory_mb': True"),
        (archive.packed({}), "it does not say how the job went"),
        (archive.packed({cluster.OUTCOME: b"[1]"}), "it does not say how the job went"),
        (archive.packed({cluster.OUTCOME: b"{"}), "property name"),
        (answer(FILES, seconds=float("inf")), "Infinity is no number"),
        (answer(FILES, status="fine"), "it says that the job is 'fine'"),
        (answer(FILES, seconds="long"), "it says 'seconds': 'long'"),
        (answer(FILES, parameters={}), "it says 'parameters': {}"),
        (answer(FILES | {"run.json": b""}), "it holds 'run.json', which no job leaves"),
        (answer(FILES | {"html/mathjax/a.js": b""}), "'html/mathjax/a.js', which no job leaves"),
        (answer(FILES | {"points/0001/run.json": b""}), "which no job leaves"),
        (b"nothing", "no archive"),
    ],
)
def test_an_answer_that_no_job_gives_is_refused(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        cluster.taken(bad, "01_a")


class Sent:
    """What Dask's future of a finished task is to us."""

    status = "finished"

    def __init__(self, left):
        self.left = left

    def result(self, timeout):
        return self.left


@pytest.mark.parametrize("bad", [b"", b"no archive", ("done", b""), answer({}), None])
def test_a_bad_answer_of_one_worker_fails_its_point_and_nothing_else(tmp_path, bad):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"name": "01_a", "folder": str(tmp_path / "run")}))
    workers = object.__new__(cluster.Workers)
    workers.fit = {"tls://a:1": "worker 1 on a"}
    went = workers._outcome(cluster._Sent(spec, "tls://a:1", Sent(bad)))
    assert went["status"] == FAILED and not (tmp_path / "run").exists()
    assert went["error"].startswith("worker 1 on a sent what cannot be taken: ")
    went = workers._outcome(cluster._Sent(spec, "tls://a:1", Sent(answer(FILES))))
    assert went["status"] == DONE and went["worker"] == "worker 1 on a"
    there = {f.relative_to(tmp_path / "run").as_posix() for f in (tmp_path / "run").glob("*/*")}
    assert there == set(FILES)


def test_small_files_beside_a_notebook_go_along_and_large_ones_are_refused(tmp_path):
    for name in ("a.csv", "below/b.txt", "other.ipynb", ".env", ".git/c", "__pycache__/d.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to("/etc/hostname")
    sent = archive.unpacked(archive.beside(tmp_path / "mine.ipynb"))
    assert sent == {"a.csv": b"a.csv", "below/b.txt": b"below/b.txt"}
    with open(tmp_path / "large", "wb") as large:
        large.truncate(archive.BESIDE_AT_MOST)
    with pytest.raises(Refused, match="beside mine.ipynb, and .* holds more than 5 MB: put the"):
        archive.beside(tmp_path / "mine.ipynb")
