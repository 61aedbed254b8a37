import pytest

from ppkit.runs import Refused, json_files


def test_no_json_holds_a_word_that_json_does_not_have(tmp_path):
    for value in (float("nan"), [float("inf")], {"a": -float("inf")}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_files.write_json(tmp_path / "run.json", value)
    assert not list(tmp_path.iterdir())


def test_what_was_written_is_read_and_a_cut_file_is_refused(tmp_path):
    path = tmp_path / "run.json"
    json_files.write_json(path, {"a": [1, "ü"]})
    assert json_files.read_json(path) == {"a": [1, "ü"]}
    path.write_text(path.read_text("utf-8")[:-3], "utf-8")
    with pytest.raises(Refused, match="run.json is damaged: "):
        json_files.read_json(path)
