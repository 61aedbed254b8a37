"""A file of figures/settings gives back the table that it was written from."""

import json

import pandas as pd
import pytest

from ppkit.verdicts import settings_files

POINTS = [("1.0", "0"), ("2.0", "0"), ("1.0", "7")]


def line(point, claim, value, alone="reproduced", data="formula"):
    return dict(zip(("CLIP", "SEED"), point, strict=True)) | dict(
        claim=claim, value=value, alone=alone, data=data
    )


@pytest.fixture
def table():
    """Row b turns at the second point, which row a does not have; the data of b differ by point."""
    return pd.DataFrame(
        [
            line(POINTS[0], "b", 1.0),
            line(POINTS[0], "a", float("nan"), "undecided"),
            line(POINTS[1], "b", 1 / 3, "not reproduced"),
            line(POINTS[2], "b", 123_456.0, data="stand-in: 7 rows"),
            line(POINTS[2], "a", 0.0, "undecided"),
        ]
    )


def test_what_is_read_is_what_was_written_by_claim_then_by_point(table, tmp_path):
    settings_files.write(tmp_path / "a.json", table)
    found = settings_files.read(tmp_path / "a.json")
    wanted = table.sort_values("claim", kind="stable").replace(
        {1 / 3: 0.3333, 123_456.0: 123_500.0}
    )
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), wanted.reset_index(drop=True), check_dtype=False
    )


def test_a_point_stands_once_and_a_verdict_that_is_always_the_same_once(table, tmp_path):
    alike = table[table["claim"] == "b"].assign(alone="refuted", data="formula")
    settings_files.write(tmp_path / "a.json", alike)
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["parameters"] == ["CLIP", "SEED"]
    assert content["points"] == [list(point) for point in POINTS]
    (row,) = content["rows"]
    assert row["verdicts"] == "refuted" and row["values"] == [1.0, 0.3333, 123_500.0]


def test_half_a_file_is_refused(table, tmp_path):
    settings_files.write(tmp_path / "a.json", table)
    half = (tmp_path / "a.json").read_text()[:100]
    (tmp_path / "a.json").write_text(half)
    with pytest.raises(ValueError, match="a.json is damaged"):
        settings_files.read(tmp_path / "a.json")
