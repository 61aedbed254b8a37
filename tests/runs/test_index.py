"""The page of a run that a person opens first: what failed, the outcome, every row."""

import re
from dataclasses import replace

import pytest
from made_runs import made_run

from ppkit import show
from ppkit.runs import index, json_files, run_folder
from ppkit.verdicts import ledger, rows, statements, wording
from ppkit.verdicts.rows import Row, Sighting

FROM_OUTSIDE = re.compile(
    r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//"""
    r"|@import|\bimport\s.*from"
)


@pytest.fixture
def folder(project):
    """A run's folder with one notebook done, one failed, one waiting, and a decided claim."""
    notebooks = {
        "01_a": {"status": "done", "seconds": 12.3, "peak_memory_mb": 2048},
        "02_b": {
            "status": "failed",
            "seconds": 1.0,
            "peak_memory_mb": 100,
            "cell": 4,
            "error": "ValueError: epsilon must be > 0, got -1",
            "traceback": ["----> 1 f(-1)"],
        },
        "03_c": {"status": "waiting"},
    }
    made = made_run(project, notebooks)
    [row] = [row for row in ledger.merge([]) if row.id == "wang2018.table1.row5.basic"]
    row = replace(row, value=18.506, verdict="reproduced", alone="reproduced", notebook="01_a")
    row = replace(row, data="formula", standing="rerunnable", profile="quick")
    rows.write(made.path / "claims" / "01_a.json", [row])
    json_files.write_json(
        made.path / "figures" / "fig.json",
        {"name": "fig", "caption": "A < B", "notebook": "01_a", "data": "formula"},
    )
    made.close()
    made.release()
    return made


def test_the_index_names_the_failed_cell_the_verdict_and_what_is_missing(folder):
    text = index.write(folder).read_text("utf-8")
    assert "<b>02_b failed</b> in code cell [4]" in text
    assert "ValueError: epsilon must be &gt; 0, got -1" in text and "----&gt; 1 f(-1)" in text
    assert "<b>Not run to the end:</b> 03_c" in text
    assert re.search(
        r'data-is="ours">18\.51</td>\s*<td class="number" data-is="difference">0</td>\s*'
        rf'<td><span class="verdict" style="--verdict: {show.COLOURS["reproduced"]}">●&nbsp;repro',
        text,
    )
    assert 'alt="A &lt; B"' in text and "2.0 GB" in text and ">12<" in text


def test_the_index_shows_the_rows_of_this_run_and_counts_the_others(folder):
    text = index.write(folder).read_text("utf-8")
    of_wang = [row for row in ledger.merge([]) if row.paper == "wang2018"]
    assert text.count("<tr data-paper=") == text.count('data-paper="wang2018"') == 1
    assert f"no notebook of this run recorded {len(of_wang) - 1} more rows" in text
    assert statements.titles()["wang2018"] in text and statements.titles()["wu2020"] not in text
    assert 'data-kind="claim" data-verdict="reproduced" data-data="formula"' in text


@pytest.mark.slow
def test_the_index_shows_beside_a_row_what_the_reference_found_on_other_data(folder, project):
    real = {"data": "real: 9 rows", "standing": "complete"}
    put_reference(folder, project, verdict="refuted", alone="refuted", **real)
    text = index.write(folder).read_text("utf-8")
    assert "On other data: ✕ refuted, ours 18.51 (real: 9 rows, quick)" in text


def sections(text: str) -> list[str]:
    return re.findall(r'<h2 id="(\w+)"', text)


def put_reference(folder, project, **other) -> None:
    """The run's own rows as the reference, those that it decided with other results."""
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, **other) if row.data else row for row in own]
    rows.write(project.folder / "figures" / "claims.json", own, run={}, pictures={})


def test_the_index_tells_what_failed_then_the_outcome_before_the_rows(folder):
    text = index.write(folder).read_text("utf-8")
    assert sections(text) == ["outcome", "rows", "pictures", "notebooks", "versions"]
    assert text.index("<b>02_b failed</b>") < text.index("<nav") < text.index('id="outcome"')


def test_the_menu_of_the_index_names_every_section_and_no_other(folder):
    text = index.write(folder).read_text("utf-8")
    menu = text.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'href="#(\w+)"', menu) == sections(text)


def test_the_index_asks_nothing_from_outside(folder):
    text = index.write(folder).read_text("utf-8")
    assert not FROM_OUTSIDE.search(text)
    assert "<script src" not in text and "<link" not in text and "http" not in text


def test_the_index_sets_the_difference_beside_the_printed_number_and_ours(folder):
    text = index.write(folder).read_text("utf-8")
    cells = re.findall(r'data-is="(printed|ours|difference)">([^<]*)<', text)
    assert cells == [("printed", "18.50"), ("ours", "18.51"), ("difference", "0")]


@pytest.mark.parametrize(
    "kind, printed, value, difference",
    [
        ("claim", "3.01", 3.00841, "0"),
        ("claim", "14,312", 14000.0, "-312.00 (-2.2%)"),
        ("claim", "1.88", 1.8884, "0"),
        ("claim", "1.88", 1.8746, "-0.0054 (-0.3%)"),
        ("claim", "3.01", 65.16, "+62.15 (+2,065%)"),
        ("claim", "-2.5", 2.5, "+5 (+200%)"),
        ("claim", "-2", -1.5, "+0.5 (+25.0%)"),
        ("claim", "-2", -2.016, "-0.016 (-0.8%)"),
        ("claim", "0", 0.25, "+0.25"),
        ("claim", "0.1", 0.14, "+0.04 (+40.0%)"),
        ("claim", "0.8637", 0.87251, "+0.0088 (+1.0%)"),
        ("claim", "1,000", 990, "-10.00 (-1.0%)"),
        ("claim", "O(1)", 1.0, ""),
        ("claim", "about half", 0.5, ""),
        ("claim", "3.01", None, ""),
        ("claim", None, 1.0, ""),
        ("question", "0.9", 0.1, ""),
    ],
)
def test_a_difference_is_ours_less_the_printed_number(kind, printed, value, difference):
    row = Row(
        id="p.a", kind=kind, paper="p", place="IV", says="It is.", printed=printed, value=value
    )
    assert wording.difference(row) == difference
    if kind == "claim" and printed:  # as one that we computed from printed numbers
        computed = replace(row, printed=None, computed=printed, how="printed numbers")
        assert wording.difference(computed) == difference


def test_the_outcome_shows_the_claims_that_a_paper_is_read_for(folder):
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, headline=bool(row.data)) for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    text = index.write(folder).read_text("utf-8")
    outcome = text.partition('id="outcome"')[2].partition("<h2")[0]
    # none of a paper that did not run
    assert "Of the 1 claim that this run measured: 1 reproduced." in outcome
    assert "<li>" in outcome and "paper 18.50, ours 18.51" in outcome


def test_a_row_that_differs_from_the_reference_says_so_and_why(folder, project):
    folder.notebooks["01_a"] |= {"changed": ["CLIP", "SEED"], "parameters": {"CLIP": 2, "SEED": 7}}
    other = {"data": "stand-in: 9 rows", "profile": "paper"}
    put_reference(folder, project, verdict="refuted", alone="refuted", **other)
    text = index.write(folder).read_text("utf-8")
    said = (
        "The reference (paper profile, stand-in): refuted; here (formula): reproduced. Why: "
        "other profile (quick here, paper there); "
        "other data (formula here, stand-in: 9 rows there); "
        "changed parameters (CLIP = 2, SEED = 7)."
    )
    assert said in text and 'data-beside="another verdict"' in text
    assert "1 of the 1 rows has another verdict than the reference" in text


def test_a_row_with_the_references_verdict_says_nothing_of_it(folder, project):
    put_reference(folder, project, value=18.4)
    text = index.write(folder).read_text("utf-8")
    assert 'class="differs"' not in text and 'data-beside="another verdict"' not in text
    assert "No row has another verdict than the reference." in text


def test_the_index_shows_the_two_runs_of_which_a_row_s_verdict_is_made(folder):
    seen = [
        Sighting(setting="clip 1", value=18.506, verdict="reproduced", data="formula"),
        Sighting(setting="clip 10", value=2.0, verdict="not reproduced", data="formula"),
    ]
    turned = {"verdict": "depends on clip", "depends_on": ["clip"], "witness": seen}
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, **turned) if row.data else row for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    text = index.write(folder).read_text("utf-8")
    assert "clip 1: 18.51 (reproduced) against clip 10: 2 (not reproduced)" in text
    assert (
        "Of the 1 claim that this run measured: 1 that depend on a choice or on the data." in text
    )
    assert 'data-verdict="depends on"' in text and "◇&nbsp;depends on clip" in text


def test_a_row_whose_rule_changed_after_its_run_says_so(folder):
    own = run_folder.read_claims(folder.path / "claims.json")
    own = [replace(row, stale=True) if row.data else row for row in own]
    rows.write(folder.path / "claims.json", own, run={}, pictures={})
    assert "its rule has changed since this run: run it again" in index.write(folder).read_text()


def test_a_row_shows_the_words_of_its_rule(folder):
    words = wording.rule(statements.claims("wang2018")["wang2018.table1.row5.basic"].rule)
    assert f"Rule: {words}" in index.write(folder).read_text("utf-8")
