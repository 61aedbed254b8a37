"""Robustness: which settings are tried, when a verdict counts as the same, what a turn costs, and
what turns nothing: a seed, a setting that the paper excludes, a slope too wide to exclude."""

import ast
import json
import tomllib
from dataclasses import replace

import nbformat
import pandas as pd
import pytest
from house import ROOT

from ppkit.runs import Refused, index, json_files, reference, run_folder
from ppkit.verdicts import (
    curves,
    ledger,
    pages,
    robustness,
    rows,
    rules,
    settings_files,
    statements,
    wording,
)
from ppkit.verdicts.robustness import Choice
from ppkit.verdicts.rows import Robustness, Row, Sighting, Turn
from ppkit.verdicts.statements import Claim

CLIP = Choice("clip", "made2026", "CLIP", [1.0, 0.5, 2.0], "not printed", ["fig"])
STEP = Choice("step", "made2026", "STEP", [0.1, 1.0, 10.0], "not printed", ["fig1."])
SEED = Choice("seed", "made2026", "SEED", [0, 1, 2], "not printed", ["fig"], draw=True)
ROW = Row(
    id="made2026.a",
    kind="claim",
    paper="made2026",
    place="Fig. 1",
    says="It is.",
    rule="at_least",
    verdict="reproduced",
    alone="reproduced",
    value=0.75,
    data="stand-in: 9 rows",
    profile="paper",
    standing="rerunnable",
)
MAIN = {"CLIP": "1.0", "STEP": "0.1", "SEED": "0"}
NO = "not reproduced"
TURN = Turn(choice="clip", at="2.0", verdict=NO, value=0.25)
FIRM = Robustness(
    main="reproduced",
    main_value=0.5,
    singles=[3, 4],
    combinations=[0, 0],
    least=0.25,
    largest=0.5,
    turns=[TURN],
)
ALIKE = replace(FIRM, singles=[4, 4], turns=[])


def lines(id, verdicts):
    """A line a setting: the main one, and those given, as (changes, verdict)."""
    return pd.DataFrame(
        [
            MAIN | changes | {"claim": id, "value": float(k), "alone": verdict, "data": "stand-in"}
            for k, (changes, verdict) in enumerate([({}, verdicts[0]), *verdicts[1:]])
        ]
    )


def test_every_setting_by_itself_and_all_together():
    every = robustness.choices("wu2020")
    points = robustness.points("wu2020")
    main = {one.parameter: str(one.settings[0]) for one in every}
    assert points[0] == main and len({tuple(at.items()) for at in points}) == len(points)
    changed = [[name for name in main if at[name] != main[name]] for at in points[1:]]
    alone = sum(len(one.settings) - 1 for one in every)
    assert all(len(names) == 1 for names in changed[:alone])
    assert len(points) == 1 + alone + robustness.JOINT and points == robustness.points("wu2020")
    for one in every:  # a Latin hypercube: each setting in its share of the joint ones
        joint = [at[one.parameter] for at in points[1 + alone :]]
        counts = [joint.count(str(value)) for value in one.settings]
        assert max(counts) - min(counts) <= 1


def test_a_record_without_choices_is_refused():
    with pytest.raises(ValueError, match="made2026 has no choices"):
        robustness.points("made2026")


def test_same_turns_and_what_does_not_count():
    of = lines(
        "made2026.fig1.order",
        [
            "reproduced",
            ({"CLIP": "0.5"}, "reproduced"),
            ({"CLIP": "2.0"}, NO),
            ({"STEP": "1.0"}, "undecided"),  # says nothing
            ({"STEP": "10.0"}, "reproduced"),
            ({"CLIP": "2.0", "STEP": "1.0"}, NO),
        ],
    )
    found = robustness.weighed("made2026.fig1.order", of, [CLIP, STEP])
    assert found == Robustness(
        main="reproduced",
        main_value=0.0,
        singles=[2, 3],
        combinations=[0, 1],
        least=0.0,
        largest=5.0,
        turns=[Turn(choice="clip", at="2.0", verdict=NO, value=2.0)],
        # of the numbers 0, 1, 2, 4, 5: the variance between the means of a choice's settings
        owned_by={"clip": pytest.approx(4.7 / 17.2), "step": pytest.approx(15.2 / 17.2)},
    )
    assert (found.same, found.tried) == (2, 4)


def test_a_choice_that_should_not_move_a_row_counts_only_if_it_turned_it():
    settings = [({"STEP": "1.0"}, "reproduced"), ({"STEP": "10.0"}, "refuted")]
    of = lines("made2026.fig2.order", ["reproduced", ({"CLIP": "0.5"}, "reproduced"), *settings])
    found = robustness.weighed("made2026.fig2.order", of, [CLIP, STEP])
    assert (found.tried, found.same) == (3, 2) and found.turns[0].choice == "step"
    kept = robustness.weighed("made2026.fig2.order", of[:3], [CLIP, STEP])
    assert (kept.tried, kept.same, kept.turns) == (1, 1, [])


def test_what_only_several_choices_turn_together_was_tried_at_all_settings():
    settings = [({"CLIP": "0.5"}, "reproduced"), ({"CLIP": "0.5", "STEP": "1.0"}, "refuted")]
    of = lines("made2026.other", ["reproduced", *settings])
    found = robustness.weighed("made2026.other", of, [CLIP, STEP])
    assert (found.singles, found.combinations) == ([1, 1], [0, 1])
    assert found.turns == [
        Turn(choice="clip and step", at="0.5, 1.0", verdict="refuted", value=2.0)
    ]


def test_a_main_setting_that_decides_nothing_has_no_robustness():
    for main in ("not tried: needs rows", "undecided"):
        of = lines("made2026.fig1.order", [main, ({"CLIP": "0.5"}, "reproduced")])
        assert robustness.weighed("made2026.fig1.order", of, [CLIP, STEP]) is None
    alone = lines("made2026.fig1.order", ["reproduced", ({"CLIP": "0.5"}, "undecided")])
    assert robustness.weighed("made2026.fig1.order", alone, [CLIP, STEP]) is None


# ---- what turns nothing


def test_a_draw_turns_nothing_and_is_no_choice():
    of = lines("made2026.fig1.order", ["reproduced", ({"SEED": "1"}, NO), ({"SEED": "2"}, NO)])
    assert robustness.weighed("made2026.fig1.order", of, [SEED]) is None
    found = lines("made2026.fig1.order", ["reproduced", ({"SEED": "1"}, NO), ({"CLIP": "2.0"}, NO)])
    by_seed = robustness.weighed("made2026.fig1.order", found, [CLIP, SEED])
    assert (by_seed.singles, by_seed.turns) == ([1, 1], [])  # a seed alone has that verdict, too
    assert [*by_seed.owned_by] == ["clip"]
    chosen = replace(SEED, draw=False)  # the same numbers of a choice turn the row
    assert len(robustness.weighed("made2026.fig1.order", found, [CLIP, chosen]).turns) == 2


def test_a_seed_explains_only_the_verdict_that_it_has_by_itself():
    of = lines(
        "made2026.fig1.order", ["reproduced", ({"SEED": "1"}, "refuted"), ({"CLIP": "2.0"}, NO)]
    )
    found = robustness.weighed("made2026.fig1.order", of, [CLIP, SEED])
    assert [(turn.choice, turn.at, turn.verdict) for turn in found.turns] == [("clip", "2.0", NO)]


def test_a_setting_that_turns_with_another_draw_only_turns_nothing():
    drawn = {"CLIP": "2.0", "SEED": "1"}
    without = lines("made2026.fig1.order", ["reproduced", (drawn, NO)])
    found = robustness.weighed("made2026.fig1.order", without, [CLIP, SEED])
    assert [turn.at for turn in found.turns] == ["2.0"]  # it was not tried without that draw
    kept = [({"CLIP": "2.0"}, "reproduced"), (drawn, NO)]
    found = robustness.weighed(
        "made2026.fig1.order", lines("made2026.fig1.order", ["reproduced", *kept]), [CLIP, SEED]
    )
    assert found.turns == []


def test_a_choice_that_was_named_after_the_settings_ran_was_tried_at_none(monkeypatch):
    id = "made2026.fig2.order"

    def of_rows(found):
        kept = [("made2026", [CLIP, STEP], id, "stand-in", lines(id, found))]
        monkeypatch.setattr(robustness, "_kept", lambda size="": [] if size else kept)
        return robustness.of_rows({id})

    assert of_rows(["reproduced", ({"STEP": "10.0"}, "reproduced")]) == {}  # CLIP may move it
    open_here = ["undecided", ({"CLIP": "0.5"}, "reproduced")]
    assert of_rows(open_here) == {id: {"stand-in": None}}
    assert of_rows(["reproduced", open_here[1]])[id]["stand-in"].tried == 1


def test_settings_that_the_paper_excludes_do_not_count_and_stay_in_the_file():
    of = lines(
        "made2026.fig1.order",
        [
            "reproduced",
            ({"CLIP": "0.5"}, "reproduced"),
            ({"CLIP": "2.0"}, NO),
            ({"CLIP": "2.0", "STEP": "1.0"}, NO),
        ],
    )
    words = replace(CLIP, excluded={"2.0": "the paper clips at 1 or below"})
    found = robustness.weighed("made2026.fig1.order", of, [words, STEP])
    assert (found.singles, found.combinations, found.turns) == ([1, 1], [0, 0], [])
    assert (found.least, found.largest) == (0.0, 1.0)
    assert len(robustness.weighed("made2026.fig1.order", of, [CLIP, STEP]).turns) == 1
    assert robustness.within_the_words(of, [words, STEP]).index.tolist() == [0, 1]
    assert len(of) == 4


SLOPE = Claim(
    id="made2026.fig1.slope",
    kind="claim",
    paper="made2026",
    place="Fig. 1",
    says="It is.",
    rule={"slope": {"at": -2, "abs": 0.5}},
)


@pytest.mark.parametrize(
    "value, turned", [(-2.4, []), (-1.5, []), (-2.6, ["2.0"]), (-1.4, ["2.0"]), (1.0, ["2.0"])]
)
def test_a_slope_that_is_near_enough_and_wide_excludes_nothing(monkeypatch, value, turned):
    monkeypatch.setattr(statements, "every_claim", lambda: {SLOPE.id: SLOPE})
    settings = [({"CLIP": "0.5"}, "reproduced"), ({"CLIP": "2.0"}, NO)]
    of = lines(SLOPE.id, ["reproduced", *settings])
    of["value"] = [-2.0, -2.0, value]
    found = robustness.weighed(SLOPE.id, of, [CLIP])
    assert [turn.at for turn in found.turns] == turned
    assert found.tried == 1 + len(turned)
    of["value"] = [value, -2.0, -2.0]  # nor does such a main setting have a verdict to turn
    of["alone"] = [NO, "reproduced", "reproduced"]
    assert (robustness.weighed(SLOPE.id, of, [CLIP]) is None) == (turned == [])


# ---- what a turn costs


@pytest.fixture
def tried(monkeypatch):
    """Says that the row made2026.a has this robustness, by the kind of data."""

    def tried(by_data, id="made2026.a"):
        monkeypatch.setattr(robustness, "of_rows", lambda ids: {id: by_data})

    return tried


def settled(row: Row) -> Row:
    [one] = robustness.settled([row])
    return one


@pytest.fixture
def decided_by(monkeypatch):
    """Says which profile decides the claim of the row made2026.a."""

    def decided_by(profile):
        claim = replace(SLOPE, id=ROW.id, rule={"at_least": 0.5}, decided_by=profile)
        monkeypatch.setattr(statements, "every_claim", lambda: {ROW.id: claim})

    return decided_by


def test_a_setting_of_a_smaller_size_turns_a_row_in_the_paper_s_favour(tried, decided_by):
    decided_by("paper")
    row = replace(ROW, alone=NO, verdict=NO)
    tried({"stand-in": replace(FIRM, main=NO, turns=[replace(TURN, verdict="reproduced")])})
    found = settled(row)
    assert found.verdict == "depends on clip" and "small size" not in wording.robust(found)


@pytest.mark.parametrize("profile", ["paper", None])
def test_a_setting_of_a_smaller_size_takes_no_credit_and_stays_visible(tried, decided_by, profile):
    verdict, other, row = "reproduced", NO, ROW
    firm = replace(FIRM, main=verdict, turns=[replace(TURN, verdict=other)])
    decided_by(profile)
    tried({"stand-in": firm})
    found = settled(row)
    assert (found.verdict, found.depends_on, found.witness) == (verdict, [], [])
    assert found.robustness == firm
    told = wording.robust(found)
    assert "same in 3 of 4" in told
    assert f"turns at clip 2.0 ({other}), tried at the small size only" in told
    assert "tried at the small size only" in robustness.summary([found])
    confirmed = Turn(choice="clip", at="clip 2.0", verdict=other, value=0.125)
    tried({"stand-in": replace(firm, larger=[confirmed])})
    found = settled(row)
    assert found.verdict == "depends on clip"
    in_both = f"({other}), at the small size; at the paper's size: {other} at clip 2.0"
    assert in_both in wording.robust(found)
    assert [seen.value for seen in found.witness] == [row.value, 0.125]
    elsewhere = replace(firm.turns[0], choice="box")  # and its choice is not named
    tried({"stand-in": replace(firm, turns=[elsewhere], larger=[confirmed])})
    assert settled(row).depends_on == ["clip"]
    tried({"stand-in": firm})
    decided_by("quick")  # its number is the same at every size
    assert settled(row).verdict == "depends on clip"


def test_a_run_of_the_settings_own_size_is_turned_by_them(tried, decided_by):
    decided_by("paper")
    tried({"stand-in": FIRM})
    found = settled(replace(ROW, profile="quick"))
    assert found.verdict == "depends on clip" and "small size" not in wording.robust(found)


@pytest.mark.parametrize(
    "kind, rule, verdict, turned",
    [
        ("claim", "at_least", "reproduced", "depends on clip"),
        ("claim", "at_least", NO, "depends on clip"),
        ("claim", "claim_fails_if_attained", "refuted", "refuted"),
        ("claim", "bound", "refuted", "refuted"),
        ("claim", "bound", "reproduced", "depends on clip"),
        ("claim", "at_least", "undecided", "undecided"),
        ("claim", "at_least", "out of reach: all cards", "out of reach: all cards"),
        ("check", None, "passed", "passed"),
        ("question", None, "answered", "answered"),
    ],
)
def test_what_turns_has_no_credit_whichever_way(tried, decided_by, kind, rule, verdict, turned):
    decided_by("quick")
    alone = verdict if verdict in (*rules.DECIDED, "passed", "answered") else "reproduced"
    other = "reproduced" if alone == NO else NO
    firm = replace(FIRM, main=alone, turns=[replace(TURN, verdict=other)])
    row = replace(ROW, kind=kind, rule=rule, verdict=verdict, alone=alone)
    tried({"stand-in": firm})
    found = settled(row)
    assert found.verdict == turned
    assert found.robustness == (None if kind == "question" else firm)
    if turned != verdict:
        assert found.depends_on == ["clip"] and found.witness == [
            Sighting(
                setting="the main setting, quick size", value=0.5, verdict=alone, data=ROW.data
            ),
            Sighting(setting="clip 2.0", value=0.25, verdict=other, data=ROW.data),
        ]
    else:
        assert (found.depends_on, found.witness) == ([], [])
    at = Turn(choice="clip", at="clip 2.0", verdict=alone, value=0.5)
    apart = replace(firm, main=other)  # at the settings' size, which is not the row's
    tried({"stand-in": apart})
    assert settled(row).verdict == verdict
    tried({"stand-in": replace(apart, larger=[at])})
    assert settled(row).verdict == verdict
    tried({"stand-in": replace(apart, larger=[at, replace(at, at="clip 0.5")])})
    assert settled(row).verdict == verdict
    small = replace(row, profile="quick")  # a run of a smaller size says the same as the reference
    tried({"stand-in": replace(firm, larger=[at, replace(at, at="clip 0.5")])})
    assert settled(small).verdict == verdict
    tried({"stand-in": replace(firm, larger=[at, replace(at, verdict=other)])})
    assert settled(small).verdict == turned
    tried({"stand-in": replace(firm, larger=[at])})
    assert settled(small).verdict == turned


@pytest.mark.parametrize(
    "existence, alone, verdict",
    [
        (True, "reproduced", "reproduced"),
        (True, NO, "depends on clip"),  # it may be so at the other setting
        (False, "reproduced", "depends on clip"),
    ],
)
def test_what_only_can_be_no_other_setting_turns(tried, monkeypatch, existence, alone, verdict):
    rule = {"at_least": 0.5}
    claim = replace(SLOPE, id=ROW.id, rule=rule, existence=existence, decided_by="quick")
    monkeypatch.setattr(robustness.statements, "every_claim", lambda: {ROW.id: claim})
    other = NO if alone == "reproduced" else "reproduced"
    firm = replace(FIRM, main=alone, turns=[replace(TURN, verdict=other)])
    tried({"stand-in": firm})
    found = settled(replace(ROW, alone=alone, verdict=alone))
    assert (found.verdict, found.robustness) == (verdict, firm)


def test_of_several_turns_the_witness_is_the_one_that_lies_farthest(tried, decided_by):
    decided_by("quick")
    turns = [TURN, replace(TURN, choice="first_step", at="5.0", value=1.5)]
    tried({"stand-in": replace(FIRM, turns=turns)})
    found = settled(ROW)
    assert found.verdict == "depends on clip and first step"
    assert found.depends_on == ["clip", "first_step"]
    assert [(seen.setting, seen.value) for seen in found.witness] == [
        ("the main setting, quick size", 0.5),
        ("first step 5.0", 1.5),
    ]
    together = Turn(choice="clip_loans and box", at="2.0, 5.0", verdict=NO, value=0.1)
    tried({"stand-in": replace(FIRM, turns=[together])})
    found = settled(ROW)
    assert found.verdict == "depends on clip loans and box"
    assert found.witness[1].setting == "clip loans 2.0, box 5.0"


def test_only_the_data_that_decide_a_row_can_take_its_credit(tried, decided_by):
    decided_by("quick")
    tried({"stand-in": ALIKE, "real subset, unverified": FIRM})
    row = settled(ROW)
    assert row.verdict == "reproduced" and not row.robustness.turns
    assert wording.robust(row) == (
        "same in 4 of 4 settings; ours between 0.25 and 0.5; "
        "on other data (real subset, unverified): same in 3 of 4"
    )
    row = settled(replace(ROW, data="real subset, unverified: 4 of 9 rows"))
    assert row.verdict == "depends on clip" and row.other_data == {"stand-in": [4, 4]}


TRIED = "tried, but the main setting decides nothing at that size"


@pytest.mark.parametrize(
    "id, found, said",
    [
        ("wu2020.theorem1.scale", {}, "not varied: no choice reaches it"),
        ("wu2020.fig2.order", {}, "not tried at other settings"),
        (
            "wu2020.fig2.order",
            {"stand-in": None, "real": replace(FIRM, singles=[1, 2])},
            f"{TRIED}; on other data (real): same in 1 of 2",
        ),
        ("wang2018.table1.row1.basic", {"simulated": None}, "not varied: no choice reaches it"),
        ("wang2018.fig3.ordering", {"simulated": None}, "not tried at other settings"),
        ("wang2018.fig3.ordering", {"stand-in": None}, TRIED),
    ],
)
def test_a_row_without_robustness_says_why(tried, id, found, said):
    tried(found, id)
    row = settled(replace(ROW, id=id, paper=id.partition(".")[0]))
    assert row.robustness is None and wording.robust(row) == said
    row = settled(replace(row, kind="question", not_varied="", other_data={}))
    assert row.robustness is None and wording.robust(row) == ""


# ---- a witness by rows


@pytest.fixture
def by_rows(monkeypatch):
    """The row made2026.a settled beside the row made2026.b, whose number is ours where the clip is
    10."""

    def by_rows(
        mine: Row,
        other: Row | None,
        rule=None,
        rule_of_other=None,
        print_of_other=None,
        tried=None,
        **more,
    ):
        settings = {"clip 1": "a", "clip 10": "b"}
        witness = {"choice": "the clip", "settings": settings} | more
        about = {"kind": "claim", "paper": "made2026", "place": "Fig. 1", "says": "It is."}
        claims = [
            Claim(id="made2026.a", rule=rule or {"at_least": 0.5}, witness=witness, **about),
            Claim(id="made2026.b", rule=rule_of_other, printed=print_of_other, **about),
        ]
        monkeypatch.setattr(statements, "every_claim", lambda: {one.id: one for one in claims})
        on = {"made2026.a": tried} if tried else {}
        monkeypatch.setattr(robustness, "of_rows", lambda ids: on)
        first, *_ = robustness.settled([mine] if other is None else [mine, other])
        return first

    return by_rows


OTHER = replace(ROW, id="made2026.b", value=0.25, verdict="answered", alone="answered")


@pytest.mark.parametrize(
    "value, alone, turned", [(0.75, "reproduced", True), (0.25, NO, False), (0.1, NO, False)]
)
def test_two_rows_within_the_words_that_exclude_each_other_are_a_witness(
    by_rows, value, alone, turned
):
    mine = replace(ROW, value=value, alone=alone, verdict=alone)
    found = by_rows(mine, OTHER)
    if not turned:
        assert (found.verdict, found.depends_on, found.witness) == (alone, [], [])
        return
    assert (found.verdict, found.depends_on) == ("depends on the clip", ["the clip"])
    assert found.witness == [
        Sighting(setting="clip 1", value=value, verdict=alone, data=ROW.data),
        Sighting(setting="clip 10", value=0.25, verdict=NO, data=ROW.data),
    ]
    assert found.alone == alone and found.value == value


def test_two_rows_come_before_the_settings_as_a_witness(by_rows):
    at_box = Turn(choice="box", at="box 2.0", verdict=NO, value=0.125)
    settings = replace(FIRM, main="reproduced", turns=[at_box], larger=[at_box])
    mine = replace(ROW, value=0.75, alone="reproduced", verdict="reproduced", profile="quick")
    assert by_rows(mine, None, tried={"stand-in": settings}).depends_on == ["box"]
    found = by_rows(mine, OTHER, tried={"stand-in": settings})
    assert (found.depends_on, found.robustness) == (["the clip"], settings)
    assert [seen.setting for seen in found.witness] == ["clip 1", "clip 10"]


def test_what_turns_it_at_the_papers_size_stands_beside_the_two_rows(by_rows):
    at_box = Turn(choice="box", at="box 2.0", verdict=NO, value=0.125)
    firm = Turn(choice="step", at="step 2.0", verdict="reproduced", value=0.75)
    settings = replace(FIRM, main="reproduced", turns=[at_box], larger=[firm, at_box])
    mine = replace(ROW, value=0.75, alone="reproduced", verdict="reproduced", profile="paper")
    found = by_rows(mine, OTHER, tried={"stand-in": settings})
    assert found.verdict == "depends on the clip and box"
    assert [seen.setting for seen in found.witness] == ["clip 1", "clip 10", "box 2.0"]
    same = replace(at_box, choice="clip", at="clip 2.0")  # as the two rows say already
    found = by_rows(mine, OTHER, tried={"stand-in": replace(settings, larger=[same])})
    assert found.depends_on == ["the clip"]


def test_a_row_of_the_same_rule_is_taken_at_its_own_verdict(by_rows):
    """It may rest on seeds and an interval, of which its number alone says nothing."""
    rule = {"at_least": 0.5}
    same = replace(OTHER, value=0.75, alone=NO, verdict=NO)
    assert by_rows(ROW, same, rule_of_other=rule).verdict == "depends on the clip"
    assert by_rows(ROW, same, rule_of_other={"at_least": 0.6}).verdict == "reproduced"


def test_the_same_rule_with_another_printed_number_is_another_question(by_rows):
    rule = {"within": {"abs": 0.1}}
    near = replace(OTHER, value=0.05, alone=NO, verdict=NO)  # of its own print, .9
    about = dict(rule=rule, rule_of_other=rule, print_of_other=".9", against=0.0)
    assert by_rows(ROW, near, **about).verdict == "reproduced"  # .05 is near this claim's 0
    far = replace(near, value=0.9, alone="reproduced", verdict="reproduced")
    assert by_rows(ROW, far, **about).verdict == "depends on the clip"


def test_a_row_that_decides_nothing_is_no_witness(by_rows):
    rule = {"at_least": 0.5}
    for alone in ("undecided", "not tried: needs 9 rows"):
        other = replace(OTHER, alone=alone, verdict=alone)
        assert by_rows(ROW, other, rule_of_other=rule).verdict == "reproduced"


def test_one_number_is_no_witness_for_a_slope_of_another_rule(by_rows):
    mine, its = {"slope": {"at": -2, "abs": 0.1}}, {"slope": {"at": -1, "abs": 0.1}}
    why = "made2026.b cannot be a witness of made2026.a: the rule slope needs more than one number"
    with pytest.raises(ValueError, match=why):
        by_rows(ROW, OTHER, rule=mine, rule_of_other=its)
    with pytest.raises(ValueError, match="the rule flat needs more than one number"):
        by_rows(ROW, OTHER, rule={"flat": {"spread": 0.1}}, rule_of_other=its)
    other = replace(OTHER, alone=NO, verdict=NO)
    assert by_rows(ROW, other, rule=mine, rule_of_other=mine).verdict == "depends on the clip"


def test_a_witness_is_judged_against_what_the_claim_compares_with(by_rows):
    attained = replace(ROW, rule="bound", value=1.0, alone="reproduced", verdict="reproduced")
    other = replace(OTHER, value=5.0)
    found = by_rows(attained, other, rule={"bound": {}}, against=2.0)
    assert [seen.verdict for seen in found.witness] == ["reproduced", "refuted"]
    assert by_rows(attained, other, rule={"bound": {}}, against=5.0).verdict == "reproduced"


@pytest.mark.parametrize("alone, turned", [("reproduced", True), (NO, False), ("refuted", False)])
def test_two_verdicts_against_the_paper_do_not_exclude_each_other(by_rows, alone, turned):
    """An attack that succeeds at one setting and fails at another, without a proof."""
    rule = "claim_fails_if_attained"
    mine = replace(ROW, rule=rule, value=1.0, alone="refuted", verdict="refuted")
    other = replace(OTHER, alone=alone, verdict=alone)
    found = by_rows(mine, other, rule=rule, rule_of_other=rule)
    assert found.verdict == ("depends on the clip" if turned else "refuted")
    assert len(found.witness) == 2 * turned


@pytest.mark.parametrize("alone, turned", [("passed", True), ("failed", False)])
def test_a_check_of_the_same_rule_is_a_witness(by_rows, alone, turned):
    """It may rest on a proof: its number alone would say that an attack failed."""
    rule = "claim_fails_if_attained"
    mine = replace(ROW, rule=rule, value=1.0, alone="refuted", verdict="refuted")
    check = replace(OTHER, kind="check", alone=alone, verdict=alone)
    found = by_rows(mine, check, rule=rule, rule_of_other=rule, against=0.5)
    assert found.verdict == ("depends on the clip" if turned else "refuted")


def test_a_run_that_has_not_all_rows_of_a_witness_says_nothing(by_rows):
    assert by_rows(ROW, None).verdict == "reproduced"
    assert by_rows(ROW, replace(OTHER, value=None, data=None)).verdict == "reproduced"
    for verdict in ("undecided", "out of reach: x", "depends on box", "not tried: needs 9 rows"):
        assert by_rows(replace(ROW, verdict=verdict), OTHER).verdict == verdict


def test_a_row_of_another_profile_is_no_witness_where_the_claim_asks_for_one(by_rows):
    paper, small = replace(ROW, profile="paper"), replace(OTHER, profile="quick")
    assert by_rows(paper, small).verdict == "depends on the clip"
    assert by_rows(paper, small, one_profile=True).verdict == "reproduced"
    large = replace(small, profile="paper")
    assert by_rows(paper, large, one_profile=True).verdict == "depends on the clip"


# ---- in words


def soft(id, same, **given):
    turn = Turn(choice="box", at="5.0", verdict=NO, value=0.25)
    one = replace(FIRM, singles=[same, 9], turns=[turn])
    return replace(ROW, **{"id": id, "paper": "wu2020", "robustness": one} | given)


def test_a_finding_is_as_robust_as_its_claims_not_its_questions():
    of = [soft("wu2020.a", 9), soft("wu2020.b", 3), soft("wu2020.c", 9, kind="question")]
    assert robustness.summary(of) == (
        "1 of 2 the same in every setting tried, least robust `b`: same in 3 of 9, "
        f"turned by box 5.0 ({NO}), tried at the small size only"
    )
    in_full = Turn(choice="box", at="box 5.0", verdict=NO, value=0.25)
    only_in_full = replace(FIRM, singles=[9, 9], combinations=[0, 0], turns=[], larger=[in_full])
    turned = replace(of[0], alone="reproduced", robustness=only_in_full)
    assert not robustness.never_turned(turned)
    assert robustness.summary([turned]) == "0 of 1 the same in every setting tried"
    kept = replace(only_in_full, larger=[replace(in_full, verdict="undecided")])
    assert robustness.never_turned(replace(turned, robustness=kept))
    untried = {"robustness": None, "not_varied": "not varied: no choice reaches it"}
    untried = [replace(row, **untried, other_data={"real": [k, 3]}) for k, row in enumerate(of)]
    assert robustness.summary(untried[:2]) == "not varied: no choice reaches it"
    assert robustness.summary(of[2:]) == ""


def test_the_softest_of_a_paper_are_first_those_that_are_decided_or_depend():
    of = [
        soft("wu2020.a", 1, verdict="out of reach: all cards"),
        soft("wu2020.b", 7),
        soft("wu2020.c", 5, verdict="depends on box"),
        soft("wu2020.d", 2, verdict="undecided"),
        soft("wu2020.e", 9),
    ]
    assert robustness.softest(of)[0].row.id[-1] == "a"  # what is run large
    assert [one.row.id[-1] for one in robustness.softest(of)] == [*"adcb"]
    found = robustness.softest_of_each_paper(of)
    assert [one.row.id[-1] for one in found] == ["c", "b", "a"]
    [box] = [one for one in robustness.choices("wu2020") if one.name == "box"]
    assert found[0].turning == f"box 5.0 ({NO})"
    assert (
        found[0].alike == "same in 5 of 9"
        and found[0].left_open == "box: " + box.why.partition(";")[0]
    )
    together = soft("wu2020.fig2.order", 5)
    none = replace(together.robustness, turns=[], combinations=[0, 4])
    [several] = robustness.softest_of_each_paper([replace(together, robustness=none)])
    assert (
        several.turning == "several choices together, tried at the small size only"
        and "box: " + box.why.partition(";")[0] in several.left_open
    )
    line = pages.softest(of).splitlines()[2]
    assert line.startswith(
        f"| wu2020 | It is. (`c`) | ◇ depends on box | same in 5 of 9 | box 5.0 ({NO}) | box: "
    )


def test_what_a_seed_moves_is_not_left_open_by_the_paper():
    every = [one for one in robustness.choices() if one.record.startswith("zhou2021")]
    id, of = next(
        (id, [one for one in every if one.moves(id)])
        for id in statements.claims("zhou2021")
        if {one.draw for one in every if one.moves(id)} == {True, False}
    )
    row = soft(id, 5, paper="zhou2021")
    none = replace(row.robustness, turns=[], combinations=[0, 4])
    [several] = robustness.softest_of_each_paper([replace(row, robustness=none)])
    named = {part.partition(": ")[0] for part in several.left_open.split("; ")}
    assert named == {one.name.replace("_", " ") for one in of if not one.draw}


def batch(folder, profile, points):
    """A finished batch of wu2020 in which one row turns where the box is 5."""
    about = {f"{k:04d}": {"status": "done", "parameters": at} for k, at in enumerate(points)}
    record = {"id": folder.name, "state": "finished", "batch": "wu2020", "data": "standin"}
    (folder / "figures").mkdir(parents=True)
    json_files.write_json(folder / "run.json", record | {"profile": profile, "notebooks": about})
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
    batch(tmp_path / "runs/b", "quick", robustness.points("wu2020"))
    found = {"alone": "reproduced", "data": "stand-in", "profile": "quick"}  # the settings' size
    found |= {"verdict": "reproduced", "standing": "rerunnable", "value": 0.5}
    kept = [
        replace(row, **found) if row.id in ("wu2020.fig2.order", "wu2020.theorem1.scale") else row
        for row in ledger.merge([])
    ]
    rows.write(tmp_path / "figures/claims.json", kept, run={"id": "a"}, pictures={})
    return tmp_path


def kept_in(project) -> dict[str, Row]:
    """The rows of a project's reference, by their id without the paper's key."""
    return {row.short_id: row for row in rows.read(project / "figures/claims.json")[1]}


@pytest.mark.slow
def test_the_reference_keeps_settings_robustness_and_curve(project):
    reference.keep(["b"])
    kept = kept_in(project)
    order, scale = kept["fig2.order"], kept["theorem1.scale"]
    assert order.verdict == "depends on box" and order.alone == "reproduced"
    assert {turn.at for turn in order.robustness.turns} == {"5.0"}
    assert [(seen.setting, seen.value, seen.verdict) for seen in order.witness] == [
        ("the main setting, quick size", 1.0, "reproduced"),
        ("box 5.0", 5.0, NO),
    ]
    assert scale.robustness is None and scale.verdict == "reproduced"
    tried = settings_files.read(project / "figures/settings/wu2020.standin.json")
    assert set(tried["claim"]) == {"wu2020.fig2.order"}  # no choice can move a formula
    assert "0.7" in set(tried["BOX"])  # excluded, and kept
    assert [file.stem for file in (project / "figures/settings").glob("*.png")] == [order.cause]
    curve = (project / "figures/settings" / f"{order.cause}.png").read_bytes()
    curves.draw_all([*kept.values()], project / "figures/settings")
    assert (project / "figures/settings" / f"{order.cause}.png").read_bytes() == curve
    said = wording.robust(order)
    assert said.startswith("same in ") and "turns at box 5.0 (not reproduced)" in said


@pytest.mark.slow
def test_a_row_whose_choice_was_taken_back_has_its_verdict_again(project):
    reference.keep(["b"])
    (file,) = (project / "figures/settings").glob("*.json")
    table = settings_files.read(file)
    settings_files.write(file, table[table["BOX"] != "5.0"])
    reference.keep([])
    order = kept_in(project)["fig2.order"]
    assert order.verdict == "reproduced" and not order.robustness.turns
    assert (order.depends_on, order.witness) == ([], [])


def a_run(project, **about):
    """A finished run of the record wu2020 that decided the row which the box turns."""
    order = kept_in(project)["fig2.order"]
    own = {"robustness": None, "depends_on": [], "witness": [], "notebook": "wu2020"}
    of = ledger.merge([replace(order, verdict=order.alone, **own)])
    record = {"id": "r", "state": "finished", "profile": "quick", "data": "standin"}
    record |= {"machine": {"summary": "a machine"}, "versions": {}}
    record |= {"notebooks": {"wu2020": {"status": "done"} | about}}
    folder = run_folder.RunFolder(project / "runs/r", record)
    folder.make()
    rows.write(folder.path / "claims.json", of, run={}, pictures={})
    return folder


@pytest.mark.slow
def test_the_page_of_a_run_gives_no_credit_back_and_says_what_turns(project):
    reference.keep(["b"])
    page = index.write(a_run(project)).read_text("utf-8")
    assert "◇&nbsp;depends on box" in page and "reproduced <b>" not in page
    assert "box 5.0 (not reproduced)" in page


@pytest.mark.slow
def test_choices_are_not_weighed_where_a_run_changed_parameters(project):
    reference.keep(["b"])
    page = index.write(a_run(project, changed=["BOX"], parameters={"BOX": 9.0})).read_text("utf-8")
    assert "◇&nbsp;depends on box" not in page and "◐ reproduced on other data <b>1</b>" in page
    assert "(quick profile, stand-in): depends on box; here (quick profile, stand-in): repr" in page
    assert "Why: changed parameters (BOX = " in page
    assert "parameters were changed: choices are not weighed" in page


def test_a_batch_at_other_points_is_no_reference(project):
    file = project / "runs/b/run.json"
    record = json.loads(file.read_text())
    record["notebooks"]["0001"]["parameters"]["BOX"] = "9"
    file.write_text(json.dumps(record))
    with pytest.raises(Refused, match="is not at the settings of wu2020's choices"):
        reference.keep(["b"])


def decided_in_full(project, *names):
    """Write these rows of the reference as decided at the paper's size, all others as they are."""
    file = project / "figures/claims.json"
    kept = [
        replace(row, profile="paper") if row.short_id in names else row
        for row in rows.read(file)[1]
    ]
    rows.write(file, kept, run={"id": "a"}, pictures={})


@pytest.mark.slow
def test_what_keeps_its_credit_by_its_size_is_tried_in_full_where_it_turns(project):
    with pytest.raises(ValueError, match="no setting of wu2020 turns a claim that the paper's"):
        robustness.points("wu2020", "paper")  # no setting was run
    reference.keep(["b"])
    with pytest.raises(ValueError, match="no setting of wu2020 turns a claim that the paper's"):
        robustness.points("wu2020", "paper")  # decided at the quick size, where it turns already
    decided_in_full(project, "fig2.order")
    reference.keep([])
    assert kept_in(project)["fig2.order"].verdict == "reproduced"
    main = robustness.points("wu2020")[0]
    points = robustness.points("wu2020", "paper")
    assert points == [main | {"BOX": "5.0"}]  # the paper's words exclude .7
    batch(project / "runs/p", "paper", [main])
    with pytest.raises(Refused, match="is not at the settings"):
        reference.keep(["p"])
    batch(project / "runs/q", "paper", points)
    reference.keep(["q"])
    file = project / "figures/settings/wu2020.paper.standin.json"
    assert set(settings_files.read(file)["claim"]) == {"wu2020.fig2.order"}
    order = kept_in(project)["fig2.order"]
    (at,) = order.robustness.larger
    assert (at.choice, at.verdict, at.value) == ("box", NO, 5.0)
    assert order.verdict == "depends on box"
    assert f"at the paper's size: {NO} at box 5.0" in wording.robust(order)


@pytest.mark.slow
def test_a_setting_whose_interval_holds_both_verdicts_turns_nothing(project):
    reference.keep(["b"])
    decided_in_full(project, "fig2.order")
    reference.keep([])
    points = robustness.points("wu2020", "paper")
    batch(project / "runs/q", "paper", points)
    both = replace(kept_in(project)["fig2.order"], possible=["not reproduced", "reproduced"])
    place = project / "runs/q/points/0000/claims.json"
    place.parent.mkdir(parents=True)
    rows.write(place, [both], run={"id": "q"}, pictures={})
    reference.keep(["q"])
    order = kept_in(project)["fig2.order"]
    assert [at.verdict for at in order.robustness.larger] == ["undecided"]
    assert order.verdict == "reproduced"


def test_few_settings_are_tried_in_full_each_claim_at_one_that_turns_it(project, monkeypatch):
    turns = {  # of claims that no other row turns
        "fig2.order": [("box", "5.0", NO), ("clip_loans", "25.0", NO)],
        "fig3.falls": [("box", "5.0", NO), ("first_step", "0.3", NO)],
        "fig7.order": [("clip_cards and first_step", "200.0, 0.3", NO)],  # each alone keeps it
        "fig6.third": [("clip_cards", "40.0", "reproduced")],  # it speaks for the paper
        "fig6.best": [("clip_cards", "5.0", "reproduced"), ("clip_cards", "200.0", NO)],
        "fig6.first_large": [("nobody's choice", "1", NO)],
    }
    reference.keep(["b"])
    kept = [
        replace(
            row,
            profile="paper",
            alone="reproduced",
            verdict="reproduced",
            robustness=replace(
                FIRM,
                turns=[
                    Turn(choice=choice, at=at, verdict=verdict, value=0.5)
                    for choice, at, verdict in turns[row.short_id]
                ],
            ),
        )
        for row in kept_in(project).values()
        if row.short_id in turns
    ]
    monkeypatch.setattr(robustness.ledger, "reference", lambda: kept)
    ids = {row.id for row in kept}
    monkeypatch.setattr(
        robustness, "_kept", lambda size="": (("wu2020", [], id, "stand-in", None) for id in ids)
    )
    assert robustness.to_try_in_full("wu2020") == [{"BOX": "5.0"}, {"CARD_L1": "200.0"}]
    named = statements.every_claim()["wu2020.fig11.second_records"].witness["choice"]
    by_rows = replace(kept[0], id="wu2020.fig11.second_records", depends_on=[named, "clip_cards"])
    ids.add(by_rows.id)  # its own rows turn it already, whatever else does
    monkeypatch.setattr(robustness.ledger, "reference", lambda: [by_rows])
    with pytest.raises(ValueError, match="no setting of wu2020 turns"):
        robustness.to_try_in_full("wu2020")
    open_ones = [replace(row, verdict="undecided") for row in kept]
    monkeypatch.setattr(robustness.ledger, "reference", lambda: open_ones)
    with pytest.raises(ValueError, match="no setting of wu2020 turns"):
        robustness.to_try_in_full("wu2020")


def test_what_turns_at_the_papers_size_has_no_credit_even_if_the_small_settings_cannot_judge(tried):
    at = Turn(choice="first_step", at="first step 0.3", verdict=NO, value=0.125)
    firm = replace(ALIKE, main=NO)
    tried({"stand-in": firm})
    assert settled(ROW).verdict == "reproduced"
    tried({"stand-in": replace(firm, larger=[at])})
    found = settled(ROW)
    assert found.verdict == "depends on first step" and found.depends_on == ["first_step"]
    assert found.witness == [
        Sighting(setting="the main setting", value=0.75, verdict="reproduced", data=ROW.data),
        Sighting(setting="first step 0.3", value=0.125, verdict=NO, data=ROW.data),
    ]
    assert settled(replace(ROW, profile="quick")).verdict == "reproduced"
    other = replace(at, at="first step 2.0", verdict="reproduced", value=0.75)
    tried({"stand-in": replace(firm, larger=[at, other])})
    found = settled(replace(ROW, profile="quick"))  # there the two extremes are the witness
    assert found.verdict == "depends on first step"
    assert [(seen.setting, seen.verdict) for seen in found.witness] == [
        ("first step 0.3", NO),
        ("first step 2.0", "reproduced"),
    ]


def test_a_setting_that_decides_nothing_at_the_papers_size_turns_nothing(tried):
    at = Turn(choice="first_step", at="first step 0.3", verdict="undecided", value=0.125)
    tried({"stand-in": replace(ALIKE, larger=[at])})
    assert settled(ROW).verdict == "reproduced"
    kept = replace(at, at="first step 2.0", verdict="reproduced", value=0.75)
    tried({"stand-in": replace(ALIKE, larger=[at, kept])})
    assert settled(replace(ROW, profile="quick")).verdict == "reproduced"
    against = replace(at, at="first step 0.1", verdict=NO)
    tried({"stand-in": replace(ALIKE, larger=[at, kept, against])})
    small = settled(replace(ROW, profile="quick"))
    assert [seen.setting for seen in small.witness] == ["first step 2.0", "first step 0.1"]
    assert settled(ROW).witness[-1].setting == "first step 0.1"


def test_a_setting_of_what_may_move_a_row_counts_once_whatever_else_was_changed():
    order = [
        "reproduced",
        ({"CLIP": "5.0"}, NO),
        ({"STEP": "0.3"}, "reproduced"),
        ({"CLIP": "5.0", "STEP": "0.3"}, NO),
        ({"CLIP": "9.0", "STEP": "0.3"}, "reproduced"),
    ]
    clip = Choice("clip", "made2026", "CLIP", [1.0, 5.0, 9.0], "open", ["fig1."])
    step = Choice("step", "made2026", "STEP", [0.1, 0.3], "open", ["fig2."])
    of = lines("made2026.fig1.order", order)
    found = robustness.weighed("made2026.fig1.order", of, [clip, step])
    assert (found.singles, found.combinations) == ([1, 2], [0, 0])
    assert [turn.at for turn in found.turns] == ["5.0"]


# ---- the choices of our papers

FILES = sorted((ROOT / "ppkit/verdicts/claims").glob("*.choices.toml"))


def parameters(paper: str) -> dict:
    book = nbformat.read(ROOT / f"notebooks/records/{paper}.ipynb", as_version=4)
    cell = next(c for c in book.cells if "parameters" in c.metadata.get("tags", ()))
    return {
        line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cell.source).body
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_choice_is_a_parameter_of_the_record_with_its_main_setting_first(path):
    paper, choices = path.stem.removesuffix(".choices"), tomllib.loads(path.read_text())
    ids = [id.removeprefix(f"{paper}.") for id in statements.claims(paper)]
    of = [choice.get("record", paper) for choice in choices.values()]
    assert choices and max(of.count(record) for record in of) <= 6
    for name, choice in choices.items():
        settings, defaults = choice["settings"], parameters(choice.get("record", paper))
        optional = {"record", "draw", "excluded"}
        assert set(choice) - optional == {"parameter", "settings", "why", "rows"}, name
        least = 2 if isinstance(settings[0], bool) else 3
        assert least <= len(settings) <= 5 and len(set(settings)) == len(settings), name
        assert defaults[choice["parameter"]] == settings[0], name
        texts, excluded = [str(value) for value in settings], choice.get("excluded", {})
        assert set(excluded) <= set(texts[1:]), name  # the main setting is within the words
        assert all(len(reason) > 20 for reason in excluded.values()), name
        assert choice.get("draw", True) is True and not (choice.get("draw") and excluded), name
        for beginning in choice["rows"]:
            assert any(id.startswith(beginning) for id in ids), (name, beginning)


def test_every_paper_has_choices():
    assert [path.stem.removesuffix(".choices") for path in FILES] == statements.papers()


def test_every_seed_is_a_draw_and_what_a_reader_may_choose_is_none():
    every = [choice for path in FILES for choice in tomllib.loads(path.read_text()).values()]
    draws = {choice["parameter"] for choice in every if choice.get("draw")}
    assert draws == {"SEED"}
    assert all(choice.get("draw") for choice in every if choice["parameter"] == "SEED")


CHOICE = {"parameter": "C", "settings": [1, 2], "why": "it is not printed", "rows": ["a."]}


@pytest.fixture
def choices_of(claims_of, tmp_path):
    """The choices of the made-up paper with the row a.b, whose file has one choice, c."""

    def choices_of(told: dict, more: str = "") -> list[Choice]:
        claims_of(kind="question", says="Is it?", measure="it", decided_by="quick")
        lines = [f"{name} = {toml(value)}" for name, value in told.items()]
        (tmp_path / "made2026.choices.toml").write_text("\n".join([*lines, more]))
        return robustness.choices("made2026")

    def toml(value) -> str:
        if isinstance(value, dict):
            return f"{{ {', '.join(f'{name} = {toml(of)}' for name, of in value.items())} }}"
        return json.dumps(value)

    return choices_of


@pytest.mark.parametrize(
    "given, why",
    [
        ({"why": None}, "'why' is missing"),
        ({"settings": None}, "'settings' is missing"),
        ({"settings": [1]}, "settings are two or more, each once"),
        ({"settings": [1, 1]}, "settings are two or more, each once"),
        ({"reason": "x"}, "'reason' is no field: there are record, parameter,"),
        ({"paper": "x"}, "'paper' is no field"),
        ({"rows": "a."}, "rows must be a list, got 'a.'"),
        ({"rows": ["b."]}, "rows has 'b.', and no row of the paper begins so"),
        ({"rows": ["made2026.a."]}, "the paper's key left out"),
        ({"excluded": {"1": "it is the main one"}}, "excluded has .*'1'"),
        ({"excluded": {"3": "it is none"}}, "excluded has .*'3'"),
    ],
)
def test_a_choice_that_does_not_say_all_is_refused_by_its_name(choices_of, given, why):
    [choice] = choices_of({"c": CHOICE})
    assert (choice.name, choice.record, choice.paper) == ("c", "made2026", "made2026")
    told = {name: value for name, value in (CHOICE | given).items() if value is not None}
    with pytest.raises(ValueError, match=rf"made2026\.choices\.toml, 'c': .*{why}"):
        choices_of({"c": told})


def test_two_choices_of_one_parameter_and_a_field_outside_of_a_choice_are_refused(choices_of):
    with pytest.raises(ValueError, match="two choices are of the parameter C"):
        choices_of({"c": CHOICE, "d": CHOICE})
    with pytest.raises(ValueError, match="'why': it stands outside of a choice"):
        choices_of({"why": "x", "c": CHOICE})


def test_a_choice_moves_no_row_of_a_paper_whose_key_begins_its_own():
    choice = Choice("c", "made2026b", "C", [1, 2], "open", rows=["a."], paper="made2026b")
    assert choice.moves("made2026b.a.b") and not choice.moves("made2026.a.b")
    system = replace(choice, record="made2026_system", paper="made2026")
    assert system.moves("made2026.a.b")
