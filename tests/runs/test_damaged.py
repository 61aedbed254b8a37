"""What another process, an editor or a kill left: a run, a batch or a worker's words that are no
longer what they were."""

import contextlib
import io
import json
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest

from ppkit.runs import Refused, batch, index, pages, run, run_folder, worker
from ppkit.verdicts import rows, rules

SHAPES = [
    "[]",
    "3",
    "{}",
    '{"notebooks": []}',
    '{"schema": 1, "claims": [{}]}',
    '{"schema": 1, "claims": [3]}',
    '{"claims": {}}',
    "{",
]


@pytest.mark.parametrize("content", SHAPES)
def test_a_record_and_rows_of_another_shape_are_damaged(tmp_path, content):
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(Refused, match="file.json is damaged: "):
        run_folder.read_record(file)
    with pytest.raises(Refused, match="file.json is damaged: "):
        run_folder.read_claims(file)


@pytest.mark.parametrize("content", SHAPES)
def test_a_damaged_run_is_in_no_other_one_s_way(tmp_path, content):
    (tmp_path / "20260101-000000-quick").mkdir()
    (tmp_path / "20260101-000000-quick" / "run.json").write_text(content)
    assert run_folder.find_unfinished(tmp_path, "k", run.Run) is None


def point_of(folder) -> batch.Batch:
    """A batch with one point that is whole."""
    place = folder / "points" / "0000"
    for part in ("notebooks", "html"):
        (place / part).mkdir(parents=True)
    about = {"status": "done"}
    record = {"id": "a", "key": "k", "state": "finished", "notebooks": {"01_a": about}}
    (place / "run.json").write_text(json.dumps(record))
    rows.write(place / "claims.json", [])
    (place / "notebooks" / "01_a.ipynb").touch()
    (place / "html" / "01_a.html").touch()
    return batch.Batch(folder, {"batch": "01_a", "notebooks": {"0000": about}})


@pytest.mark.parametrize("file", ["run.json", "claims.json"])
def test_a_point_without_one_of_its_files_is_run_again(tmp_path, file):
    made = point_of(tmp_path)
    assert not made.is_missing("0000")
    (tmp_path / "points" / "0000" / file).unlink()
    assert made.is_missing("0000")


def test_a_point_whose_rows_were_cut_off_is_run_again(tmp_path):
    made = point_of(tmp_path)
    (tmp_path / "points" / "0000" / "claims.json").write_text('{"schema": 1, "claims": [{')
    assert made.is_missing("0000")


@pytest.mark.parametrize("number", [None, 0, 2])
def test_rows_of_another_schema_are_refused_in_a_sentence_and_their_point_is_run_again(
    tmp_path, number
):
    made, place = point_of(tmp_path), tmp_path / "points" / "0000" / "claims.json"
    about = {} if number is None else {"schema": number}
    place.write_text(json.dumps(about | {"claims": []}))
    said = (
        f"is of schema {number or 'none'}, and this ppkit reads schema 1: run its notebooks again"
    )
    with pytest.raises(Refused, match=said):
        run_folder.read_claims(place)
    assert made.is_missing("0000")


class Ended(contextlib.nullcontext):
    """A process that has ended, and what it said."""

    def __init__(self, stdout, returncode):
        super().__init__()
        self.stdout, self.returncode = stdout, returncode


@pytest.mark.parametrize("left", [b"\xff\xfe bad\n", b"killed\n"])
def test_a_worker_that_ends_within_a_line_has_failed_and_nobody_waits_for_it(tmp_path, left):
    spec = tmp_path / "spec.json"
    (tmp_path / "stderr.txt").write_bytes(left)
    says = io.BytesIO(b'{"cell": 1}\n{"do')
    child = Ended(stdout=says, returncode=-9)
    children = worker.Children()
    children._listen("01_a", child, spec)
    assert children._events.get_nowait() == ("01_a", {"cell": 1})
    _, last = children._events.get_nowait()
    assert last["done"]["status"] == worker.FAILED and "with code -9" in last["done"]["error"]
    assert len(last["done"]["traceback"]) == 1


def test_a_page_that_could_not_be_written_is_not_a_cell_that_failed(capsys):
    about = {"status": worker.FAILED, "cell": 2, "after": True, "error": "no space"}
    folder = SimpleNamespace(title="runs/a", notebooks={"01_a": about})
    assert run.told(folder, whole=True) == 1
    said = capsys.readouterr().err
    assert said == "01_a failed after its last cell, when its page was written: no space\n"


def test_a_page_asks_no_host_for_a_picture_and_links_to_no_page_within_itself(tmp_path):
    image = "data:image/png;base64,iVBORw0KGgo="
    html = (
        f'<a href="data:text/html,hello">a</a><a href="https://example.org">b</a>'
        f'<img src="{image}"><img src="https://example.org/c.png"><img src="//example.org/d.png">'
    )
    kept = pages.harmless(html)
    assert "data:text" not in kept and 'href="https://example.org"' in kept
    assert image in kept and "c.png" not in kept and "d.png" not in kept
    cell = nbformat.v4.new_markdown_cell(html)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    pages.write(tmp_path / "a.ipynb", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert image in page and "example.org/c.png" not in page and "data:text/html" not in page
