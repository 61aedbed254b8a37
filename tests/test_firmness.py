"""Firmness: which settings are tried, when a verdict counts as the same, and what a turn costs."""

import html
import json

import pandas as pd
import pytest

from ppkit import firmness, in_words, ledger
from ppkit.firmness import Choice
from ppkit.runner import Refused, curves, index, reference, run_folder, tables

CLIP = Choice("clip", "made2026", "CLIP", [1.0, 0.5, 2.0], "not printed", ["fig"])
STEP = Choice("step", "made2026", "STEP", [0.1, 1.0, 10.0], "not printed", ["fig1."])
ROW = {"id": "made2026.a", "kind": "claim", "paper": "made2026", "rule": "at_least"}
ROW |= {"verdict": "reproduced", "alone": "reproduced", "data": "stand-in: 9 rows"}
ROW |= {"profile": "paper", "standing": "rerunnable"}
MAIN = {"CLIP": "1.0", "STEP": "0.1"}


def lines(id, verdicts):
    """A line a setting: the main one, and those given, as (changes, verdict)."""
    return pd.DataFrame(
        [
            MAIN | changes | {"claim": id, "value": float(k), "alone": verdict, "data": "stand-in"}
            for k, (changes, verdict) in enumerate([({}, verdicts[0]), *verdicts[1:]])
        ]
    )


def test_every_setting_by_itself_and_all_together():
    every = firmness.choices("wu2020")
    points = firmness.points("wu2020")
    main = {one.parameter: str(one.settings[0]) for one in every}
    assert points[0] == main and len({tuple(at.items()) for at in points}) == len(points)
    changed = [[name for name in main if at[name] != main[name]] for at in points[1:]]
    alone = sum(len(one.settings) - 1 for one in every)
    assert all(len(names) == 1 for names in changed[:alone])
    assert len(points) == 1 + alone + firmness.JOINT and points == firmness.points("wu2020")
    for one in every:  # a Latin hypercube: each setting in its share of the joint ones
        joint = [at[one.parameter] for at in points[1 + alone :]]
        counts = [joint.count(str(value)) for value in one.settings]
        assert max(counts) - min(counts) <= 1


def test_a_record_without_choices_is_refused():
    with pytest.raises(ValueError, match="made2026 has no choices"):
        firmness.points("made2026")


def test_same_turns_and_what_does_not_count():
    rows = lines(
        "made2026.fig1.order",
        [
            "reproduced",
            ({"CLIP": "0.5"}, "reproduced"),
            ({"CLIP": "2.0"}, "not reproduced (better)"),
            ({"STEP": "1.0"}, "undecided: 7 positives"),  # says nothing
            ({"STEP": "10.0"}, "reproduced"),
            ({"CLIP": "2.0", "STEP": "1.0"}, "direction only"),
        ],
    )
    turn = {"choice": "clip", "at": "2.0", "verdict": "not reproduced"}
    assert firmness.of("made2026.fig1.order", rows, [CLIP, STEP]) == {
        "tried": 4,
        "same": 2,
        "turns": [turn],
        "together": 1,
        "main": "reproduced",
    }


def test_a_choice_that_should_not_move_a_row_counts_only_if_it_turned_it():
    settings = [({"STEP": "1.0"}, "reproduced"), ({"STEP": "10.0"}, "refuted")]
    rows = lines("made2026.fig2.order", ["reproduced", ({"CLIP": "0.5"}, "reproduced"), *settings])
    firm = firmness.of("made2026.fig2.order", rows, [CLIP, STEP])
    assert (firm["tried"], firm["same"]) == (3, 2) and firm["turns"][0]["choice"] == "step"


def test_what_only_several_choices_turn_together_was_tried_at_all_settings():
    settings = [({"CLIP": "0.5"}, "reproduced"), ({"CLIP": "0.5", "STEP": "1.0"}, "refuted")]
    rows = lines("made2026.other", ["reproduced", *settings])
    found = firmness.of("made2026.other", rows, [CLIP, STEP])
    assert (found["tried"], found["same"], found["together"], found["turns"]) == (2, 1, 1, [])


def test_a_main_setting_that_decides_nothing_has_no_firmness():
    rows = lines("made2026.fig1.order", ["not tried: needs rows", ({"CLIP": "0.5"}, "reproduced")])
    assert firmness.of("made2026.fig1.order", rows, [CLIP, STEP]) is None


@pytest.mark.parametrize(
    "kind, rule, verdict, turned",
    [
        ("claim", "at_least", "reproduced", "depends on clip"),
        ("claim", "at_least", "not reproduced", "depends on clip"),
        ("claim", "claim_fails_if_attained", "refuted", "refuted"),
        ("claim", "at_least", "open: other data", "open: other data"),
        ("question", None, "answered", "answered"),
    ],
)
def test_what_turns_has_no_credit_whichever_way(monkeypatch, kind, rule, verdict, turned):
    turn = {"choice": "clip", "at": "2.0", "verdict": "direction only"}
    firm = {"tried": 4, "same": 3, "turns": [turn], "together": 0, "main": verdict.split(":")[0]}
    monkeypatch.setattr(firmness, "measured", lambda: {"made2026.a": {"stand-in": firm}})
    row = ROW | {"kind": kind, "rule": rule, "verdict": verdict, "alone": verdict.split(":")[0]}
    [settled] = firmness.settled([row])
    assert settled["verdict"] == turned
    assert settled["firmness"] == (None if kind == "question" else firm | {"other_data": {}})
    firm["main"] = "no verdict of the row's"  # at the settings' size, and it turns there
    assert firmness.settled([row])[0]["verdict"] == turned
    at = {"choices": ["clip"], "at": "clip 2.0", "verdict": row["alone"]}
    firm["paper_size"] = [at]  # but at the paper's size it does not: one extreme is too few
    assert firmness.settled([row])[0]["verdict"] == turned
    firm["paper_size"] = [at, at | {"at": "clip 0.5"}]
    assert firmness.settled([row])[0]["verdict"] == verdict
    small = row | {"profile": "quick"}  # and a run of a smaller size says the same as the reference
    firm["main"] = row["alone"]
    assert firmness.settled([small])[0]["verdict"] == verdict
    firm["paper_size"] = [at, at | {"verdict": "no verdict"}]
    assert firmness.settled([small])[0]["verdict"] == turned
    firm["paper_size"] = [at]
    assert firmness.settled([small])[0]["verdict"] == turned


def test_only_the_data_that_decide_a_row_can_take_its_credit(monkeypatch):
    turn = {"choice": "clip", "at": "2.0", "verdict": "direction only"}
    soft = {"tried": 4, "same": 3, "turns": [turn], "together": 0, "main": "reproduced"}
    hard = soft | {"same": 4, "turns": []}
    found = {"stand-in": hard, "real subset, unverified": soft}
    monkeypatch.setattr(firmness, "measured", lambda: {"made2026.a": found})
    [row] = firmness.settled([ROW])
    assert row["verdict"] == "reproduced" and not row["firmness"]["turns"]
    said = "same in 4 of 4 settings tried; on other data (real subset, unverified): same in 3 of 4"
    assert in_words.firm(row) == said
    [row] = firmness.settled([ROW | {"data": "real subset, unverified: 4 of 9 rows"}])
    assert row["verdict"] == "depends on clip" and row["firmness"]["other_data"] == {
        "stand-in": [4, 4]
    }


@pytest.mark.parametrize(
    "id, found, said",
    [
        ("wu2020.theorem1.scale", {}, "no other settings were set up for it"),
        ("wu2020.fig2.order", {}, "not tried at other settings"),
        (
            "wu2020.fig2.order",
            {"stand-in": None, "real": {"same": 1, "tried": 2}},
            "tried, but the main setting decides nothing at that size; "
            "on other data (real): same in 1 of 2",
        ),
    ],
)
def test_a_row_without_firmness_says_why(monkeypatch, id, found, said):
    monkeypatch.setattr(firmness, "measured", lambda: {id: found})
    [row] = firmness.settled([ROW | {"id": id, "paper": "wu2020"}])
    assert row["firmness"] is None and in_words.firm(row) == said
    [row] = firmness.settled([ROW | {"id": id, "paper": "wu2020", "kind": "question"}])
    assert row["firmness"] is None and in_words.firm(row) == ""


def soft(id, same, **given):
    turn = {"choice": "box", "at": "5.0", "verdict": "direction only"}
    one = {"tried": 9, "same": same, "turns": [turn], "together": 0, "main": "reproduced"}
    return ROW | {"id": id, "paper": "wu2020", "says": "It is.", "firmness": one} | given


def test_a_finding_is_as_firm_as_its_claims_not_its_questions():
    rows = [soft("wu2020.a", 9), soft("wu2020.b", 3), soft("wu2020.c", 9, kind="question")]
    assert firmness.told(rows) == (
        "1 of 2 the same in every setting tried, least firm `b`: same in 3 of 9, "
        "turned by box 5.0 (direction only); "
    )
    untried = {"firmness": None, "unweighed": "no other settings were set up for it"}
    untried = [row | untried | {"other_data": {"real": [same, 3]}} for same, row in enumerate(rows)]
    assert firmness.told(untried[:2]) == "no other settings were set up for it; "
    assert firmness.told(rows[2:]) == ""


def test_the_softest_of_a_paper_are_first_those_that_are_decided():
    waits = {"verdict": "open: other data"}
    rows = [
        soft("wu2020.a", 1, **waits),
        soft("wu2020.b", 7),
        soft("wu2020.c", 5),
        soft("wu2020.d", 2, **waits),
        soft("wu2020.e", 9),
    ]
    assert [row["id"][-1] for row in firmness.softest(rows, most=1)] == ["a"]  # what is run large
    found = firmness.shown(rows)
    assert [row["id"][-1] for row in found] == ["c", "b", "a"]
    [box] = [one for one in firmness.choices("wu2020") if one.name == "box"]
    assert found[0]["turning"] == "box 5.0 (direction only)"
    assert (
        found[0]["alike"] == "same in 5 of 9"
        and found[0]["left_open"] == "box: " + box.why.partition(";")[0]
    )
    together = soft("wu2020.fig2.order", 5)
    together["firmness"] |= {"turns": [], "together": 4}
    [found] = firmness.shown([together])
    assert (
        found["turning"] == "several choices together"
        and "box: " + box.why.partition(";")[0] in found["left_open"]
    )
    line = tables.softest(rows).splitlines()[2]
    assert line.startswith(
        "| wu2020 | It is. (`c`) | ◐ reproduced | same in 5 of 9 | box 5.0 (direction only) | box: "
    )


def batch(folder, profile, points):
    """A finished batch of wu2020 in which one row turns where the box is 5."""
    about = {f"{k:04d}": {"status": "done", "parameters": at} for k, at in enumerate(points)}
    record = {"id": folder.name, "state": "finished", "batch": "wu2020", "data": "standin"}
    (folder / "figures").mkdir(parents=True)
    run_folder.write_json(folder / "run.json", record | {"profile": profile, "notebooks": about})
    fixed = {"claim": "wu2020.theorem1.scale", "value": 1.0, "alone": "reproduced"}
    table = [
        {"point": f"{k:04d}"} | row | {"data": "stand-in"}
        for k, at in enumerate(points)
        for row in (
            fixed,
            {
                "claim": "wu2020.fig2.order",
                "value": float(at["BOX"]),
                "alone": "not reproduced" if at["BOX"] == "5.0" else "reproduced",
            },
        )
    ]
    pd.DataFrame(table).to_parquet(folder / "table.parquet")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of a batch of wu2020 at all its settings, in which one row turns with the box."""
    (tmp_path / "figures").mkdir()
    (tmp_path / "ppkit").mkdir()
    monkeypatch.setattr("ppkit.project.root", lambda: tmp_path)
    batch(tmp_path / "runs/b", "quick", firmness.points("wu2020"))
    rows = ledger.merge([])
    for row in rows:
        if row["id"] in ("wu2020.fig2.order", "wu2020.theorem1.scale"):
            found = {"alone": "reproduced", "possible": [], "data": "stand-in", "profile": "paper"}
            row |= found | {"verdict": "reproduced", "standing": "rerunnable"}
    run = {"pictures": {}, "claims": rows, "run": {"id": "a"}}
    run_folder.write_json(tmp_path / "figures/claims.json", run)
    return tmp_path


def test_the_reference_keeps_settings_firmness_and_curve(project):
    reference.keep(["b"])
    kept = json.loads((project / "figures/claims.json").read_text())["claims"]
    order, scale = (
        next(row for row in kept if row["id"] == f"wu2020.{id}")
        for id in ("fig2.order", "theorem1.scale")
    )
    assert order["verdict"] == "depends on box" and order["alone"] == "reproduced"
    assert {turn["at"] for turn in order["firmness"]["turns"]} == {"5.0"}
    assert scale["firmness"] is None and scale["verdict"] == "reproduced"
    text = (project / "figures/settings/wu2020.standin.csv").read_text()
    assert "fig2.order" in text and "theorem1" not in text  # no choice can move a formula
    assert [file.stem for file in (project / "figures/settings").glob("*.png")] == [order["cause"]]
    curve = (project / "figures/settings" / f"{order['cause']}.png").read_bytes()
    curves.draw_all(kept, project / "figures/settings")
    assert (project / "figures/settings" / f"{order['cause']}.png").read_bytes() == curve
    said = in_words.firm(order)
    assert said.startswith("same in ") and "turns at box 5.0 (not reproduced)" in said


def test_a_row_whose_choice_was_taken_back_has_its_verdict_again(project):
    reference.keep(["b"])
    (file,) = (project / "figures/settings").glob("*.csv")
    table = pd.read_csv(file, dtype={"BOX": str})
    table[table["BOX"] != "5.0"].to_csv(file, index=False)
    reference.keep([])
    kept = json.loads((project / "figures/claims.json").read_text())["claims"]
    [order] = [row for row in kept if row["id"] == "wu2020.fig2.order"]
    assert order["verdict"] == "reproduced" and not order["firmness"]["turns"]


def a_run(project, **about):
    """A finished run of the record wu2020 that decided the row which the box turns."""
    rows = json.loads((project / "figures/claims.json").read_text())["claims"]
    for row in rows:
        row |= {"firmness": None, "verdict": row["alone"]}
        row["notebook"] = "wu2020" if row["id"] == "wu2020.fig2.order" else None
    record = {"id": "r", "state": "finished", "profile": "quick", "data": "standin"}
    record |= {"machine": {"summary": "a machine"}, "versions": {}}
    record |= {"notebooks": {"wu2020": {"status": "done"} | about}}
    folder = run_folder.RunFolder(project / "runs/r", record)
    folder.make()
    run_folder.write_json(folder.path / "claims.json", {"run": {}, "claims": rows})
    return folder


def test_the_page_of_a_run_gives_no_credit_back_and_says_how_firm_its_findings_are(project):
    reference.keep(["b"])
    page = index.write(a_run(project)).read_text("utf-8")
    assert "◇&nbsp;depends on box" in page and "reproduced <b>" not in page
    assert "0 of 1 the same in every setting tried, least firm `fig2.order`: same in " in page
    assert page.index("The softest verdicts") > page.index('id="rows"')
    [box] = [one for one in firmness.choices("wu2020") if one.name == "box"]
    assert "box 5.0 (not reproduced)" in page and "box: " + box.why.partition(";")[
        0
    ] in html.unescape(page)


def test_choices_are_not_weighed_where_a_run_changed_parameters(project):
    reference.keep(["b"])
    page = index.write(a_run(project, changed=["BOX"])).read_text("utf-8")
    assert "◇&nbsp;depends on box" not in page and "◐ reproduced on other data <b>1</b>" in page
    assert "(paper profile, stand-in): depends on box; here (paper profile, stand-in): repr" in page
    assert "<b>Why:</b> changed parameters (BOX = " in page
    assert "parameters were changed: choices are not weighed" in page
    assert "The softest verdicts" not in page


def test_a_batch_at_other_points_is_no_reference(project):
    file = project / "runs/b/run.json"
    record = json.loads(file.read_text())
    record["notebooks"]["0001"]["parameters"]["BOX"] = "9"
    file.write_text(json.dumps(record))
    with pytest.raises(Refused, match="is not at the settings of wu2020's choices"):
        reference.keep(["b"])


def test_the_most_disputed_claim_is_tried_at_the_papers_size_where_it_lies_furthest(project):
    with pytest.raises(ValueError, match="did not try the most disputed claim of wu2020"):
        firmness.points("wu2020", "paper")
    reference.keep(["b"])
    extremes = firmness.points("wu2020", "paper")
    assert [at["BOX"] for at in extremes] == ["0.7", "5.0"]
    main = firmness.points("wu2020")[0]
    may = [one.parameter for one in firmness.choices("wu2020") if one.moves("wu2020.fig2.order")]
    for at in extremes:  # what cannot move the claim stays as it is, what can does not all stay
        changed = {name for name in main if at[name] != main[name]}
        assert changed and changed <= {*may}
    batch(project / "runs/p", "paper", extremes[:1])
    with pytest.raises(Refused, match="is not at the settings"):
        reference.keep(["p"])
    batch(project / "runs/q", "paper", extremes)
    reference.keep(["q"])
    file = project / "figures/settings/wu2020.paper.standin.csv"
    assert set(pd.read_csv(file)["claim"]) == {"wu2020.fig2.order"}
    rows = json.loads((project / "figures/claims.json").read_text())["claims"]
    [order] = [row for row in rows if row["id"] == "wu2020.fig2.order"]
    least, largest = order["firmness"]["paper_size"]
    assert least["verdict"] == "reproduced" and "box 0.7" in least["at"]
    assert largest["verdict"] == "not reproduced" and "box" in largest["choices"]
    assert "at the paper's size: reproduced at " in in_words.firm(order)


def test_what_turns_at_the_papers_size_has_no_credit_even_if_the_small_settings_cannot_judge(
    monkeypatch,
):
    at = {"choices": ["first_step"], "at": "first step .3", "verdict": "direction only"}
    firm = {"tried": 4, "same": 4, "turns": [], "together": 0, "main": "not reproduced"}
    monkeypatch.setattr(firmness, "measured", lambda: {"made2026.a": {"stand-in": firm}})
    assert firmness.settled([ROW])[0]["verdict"] == "reproduced"
    firm["paper_size"] = [at]
    assert firmness.settled([ROW])[0]["verdict"] == "depends on first step"
    assert firmness.settled([ROW | {"profile": "quick"}])[0]["verdict"] == "reproduced"


def test_a_setting_of_what_may_move_a_row_counts_once_whatever_else_was_changed():
    order = [
        "reproduced",
        ({"CLIP": "5.0"}, "not reproduced"),
        ({"STEP": "0.3"}, "reproduced"),
        ({"CLIP": "5.0", "STEP": "0.3"}, "not reproduced"),
        ({"CLIP": "9.0", "STEP": "0.3"}, "reproduced"),
    ]
    clip = Choice("clip", "made2026", "CLIP", [1.0, 5.0, 9.0], "open", ["fig1."])
    step = Choice("step", "made2026", "STEP", [0.1, 0.3], "open", ["fig2."])
    firm = firmness.of("made2026.fig1.order", lines("made2026.fig1.order", order), [clip, step])
    assert (firm["tried"], firm["same"], firm["together"]) == (2, 1, 0)
    assert [turn["at"] for turn in firm["turns"]] == ["5.0"]
