"""A row keeps every field from a record to JSON and back; what does not fit the schema is neither
written nor read."""

import copy
import json
from dataclasses import FrozenInstanceError, asdict, fields, replace

import jsonschema
import pytest
from house import ROOT

from ppkit.verdicts import rows
from ppkit.verdicts.rows import Result, Robustness, Row, Sighting, Turn

FINGERPRINT = f"6:{'a' * 64}"
TURN = Turn(choice="clip", at="10", verdict="not reproduced", value=0.25)
ROBUSTNESS = Robustness(
    main="reproduced",
    main_value=0.5,
    singles=[2, 3],
    combinations=[9, 16],
    least=0.25,
    largest=0.75,
    turns=[TURN],
    owned_by={"clip": 0.5, "first_step": 0.125},
    larger=[replace(TURN, choice="clip and first_step", at="clip 10, first step 2")],
)
OTHER = Result(
    value=0.1,
    spread=0.02,
    alone="not reproduced",
    detail="the direction holds",
    possible=["not reproduced", "reproduced"],
    data="real subset: 4 of 9 rows",
    standing="partial",
    profile="quick",
    notebook="made2026",
    note="why",
    rule_digest="b" * 64,
    run="r2",
    commit="c2",
)
SIGHTINGS = [
    Sighting(setting="the main setting", value=0.5, verdict="reproduced", data="formula"),
    Sighting(setting="clip 10", value=None, verdict="not reproduced", data="formula"),
]
FULL = Row(
    id="made2026.a.b",
    kind="claim",
    paper="made2026",
    place="IV, paragraph 2, sentence 3",
    says="It is.",
    fingerprint=FINGERPRINT,
    cause="one",
    measure="AUC",
    printed=".5",
    computed=".25",
    how="1 - .75",
    cell=["Table 1", "a", "NN"],
    headline=True,
    figure="made",
    amended="2026-11-22: new",
    reply="none",
    repaired="It is so at most.",
    missing="more seeds",
    out_of_reach={"what": "the file", "price": "nothing", "command": "ppkit data fetch creditcard"},
    value=0.5,
    spread=0.01,
    alone="reproduced",
    possible=["reproduced"],
    data="stand-in: 9 rows",
    standing="rerunnable",
    profile="paper",
    notebook="made2026",
    note="cut, not rounded",
    rule_digest="a" * 64,
    run="r",
    commit="c",
    verdict="depends on clip",
    rule="at_least",
    stale=True,
    also=[OTHER],
    depends_on=["clip"],
    witness=SIGHTINGS,
    robustness=ROBUSTNESS,
    other_data={"real subset": [3, 4]},
)
BARE = Row(id="made2026.c", kind="question", paper="made2026", place="ours", says="Is it?")


def refuses(content, why: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match=why):
        jsonschema.validate(content, rows.schema())


def file_of(*of: Row) -> dict:
    return {"schema": 1, "claims": [asdict(row) for row in of]}


# ---- a row


def test_a_row_is_not_changed_but_replaced():
    with pytest.raises(FrozenInstanceError):
        BARE.verdict = "reproduced"
    with pytest.raises(TypeError, match="unexpected keyword argument 'where'"):
        replace(BARE, where="Fig. 1")
    with pytest.raises(TypeError, match="'says'"):
        Row(id="made2026.c", kind="question", paper="made2026", place="ours")


def test_a_row_that_nobody_measured_has_no_verdict_and_no_result():
    assert (BARE.verdict, BARE.alone, BARE.value, BARE.results) == (
        "not tried",
        "not tried",
        None,
        [],
    )
    assert BARE.short_id == "c" and FULL.short_id == "a.b"


def test_the_results_of_a_row_are_its_own_then_those_on_other_data():
    first, second = FULL.results
    assert second is OTHER and type(first) is Result
    assert {one.name: getattr(first, one.name) for one in fields(Result)} == {
        one.name: getattr(FULL, one.name) for one in fields(Result)
    }
    assert first.run == "r" and first.possible == ["reproduced"]


def test_robustness_counts_singles_and_combinations_together():
    assert (ROBUSTNESS.same, ROBUSTNESS.tried) == (11, 19)


# ---- the schema


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(rows.schema())
    assert rows.schema()["properties"]["schema"] == {"const": rows.SCHEMA}


@pytest.mark.parametrize(
    "name, kind", [("row", Row), ("result", Result), ("robustness", Robustness), ("turn", Turn)]
)
def test_the_schema_asks_for_every_field_and_no_other(name, kind):
    told = rows.schema()["definitions"][name]
    names = {field.name for field in fields(kind)}
    assert set(told["properties"]) == set(told["required"]) == names
    assert told["additionalProperties"] is False


def test_the_schema_asks_for_every_field_of_a_sighting():
    told = rows.schema()["definitions"]["row"]["properties"]["witness"]["items"]
    names = {field.name for field in fields(Sighting)}
    assert set(told["properties"]) == set(told["required"]) == names
    assert told["additionalProperties"] is False


@pytest.mark.parametrize("name", sorted({field.name for field in fields(Row)}))
def test_a_row_without_a_field_does_not_fit(name):
    content = file_of(FULL)
    del content["claims"][0][name]
    refuses(content, f"'{name}' is a required property")


@pytest.mark.parametrize("where", ["row", "also", "witness", "robustness", "turn", "out_of_reach"])
def test_an_unknown_field_does_not_fit_wherever_it_stands(where):
    content = file_of(FULL)
    jsonschema.validate(content, rows.schema())
    row = content["claims"][0]
    places = {
        "row": row,
        "also": row["also"][0],
        "witness": row["witness"][0],
        "robustness": row["robustness"],
        "turn": row["robustness"]["turns"][0],
        "out_of_reach": row["out_of_reach"],
    }
    places[where]["firmness"] = None
    refuses(content, "'firmness' was unexpected")


@pytest.mark.parametrize(
    "given, why",
    [
        ({"witness": []}, r"\[\] should be non-empty|is too short"),
        ({"witness": SIGHTINGS[:1]}, "is too short"),
        ({"depends_on": []}, r"\[\] should be non-empty|is too short"),
        ({"verdict": "depends on "}, "does not match"),
        ({"verdict": "out of reach: the file", "out_of_reach": None}, "None is not of type"),
        ({"verdict": "out of reach"}, "does not match"),
        ({"verdict": "direction only"}, "does not match"),
        ({"verdict": "open: depends on the data"}, "does not match"),
        ({"verdict": "not reproduced (better)"}, "does not match"),
        ({"verdict": "undecided: 34 positives"}, "does not match"),
        ({"alone": "depends on clip"}, "does not match"),
        ({"alone": "out of reach: the file"}, "does not match"),
        ({"possible": ["undecided"]}, "is not one of"),
        ({"kind": "remark"}, "is not one of"),
        ({"standing": "whole"}, "is not one of"),
        ({"profile": "large"}, "is not one of"),
        ({"value": "0.5"}, "is not of type"),
        ({"fingerprint": "a" * 64}, "does not match"),
        ({"rule_digest": "a"}, "does not match"),
        ({"cell": []}, r"non-empty|too short"),
        ({"other_data": {"real": [3]}}, "is too short"),
        ({"witness": 5 * SIGHTINGS[:1]}, "is too long"),
        ({"robustness": replace(ROBUSTNESS, owned_by={"clip": 1.5})}, "greater than the maximum"),
        ({"robustness": replace(ROBUSTNESS, singles=[2, 3, 4])}, "is too long"),
    ],
)
def test_what_is_no_row_is_not_written(tmp_path, given, why):
    rows.write(tmp_path / "a.json", [FULL])
    kept = (tmp_path / "a.json").read_bytes()
    refuses(file_of(BARE, replace(FULL, **given)), why)
    with pytest.raises(ValueError, match="data.claims"):
        rows.write(tmp_path / "a.json", [BARE, replace(FULL, **given)])
    assert (tmp_path / "a.json").read_bytes() == kept


def test_only_what_depends_needs_a_witness_and_only_what_is_out_of_reach_a_price():
    alone = replace(FULL, witness=[], depends_on=[], out_of_reach=None)
    verdicts = ("reproduced", "refuted", "undecided", "not tried: needs 9 rows")
    without = [replace(alone, verdict=verdict) for verdict in verdicts]
    jsonschema.validate(
        file_of(*without, replace(FULL, verdict="out of reach: the file")), rows.schema()
    )


# ---- files


def test_what_is_written_is_read_again_field_by_field(tmp_path):
    file = tmp_path / "claims.json"
    rows.write(file, [FULL, BARE], run={"id": "r"}, pictures={"a": {"profile": "quick"}})
    about, found = rows.read(file)
    assert found == [FULL, BARE]
    assert about == {"schema": 1, "run": {"id": "r"}, "pictures": {"a": {"profile": "quick"}}}
    [full, bare] = json.loads(file.read_text("utf-8"))["claims"]
    assert rows.from_json(copy.deepcopy(full)) == FULL and rows.from_json(bare) == BARE
    assert list(full) == list(bare) == [field.name for field in fields(Row)]
    types = (type(found[0].robustness.larger[0]), type(found[0].also[0]), type(found[0].witness[1]))
    assert types == (Turn, Result, Sighting)


def test_a_number_that_is_none_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range float values"):
        rows.write(tmp_path / "a.json", [replace(FULL, value=float("nan"))])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda content: content.pop("schema"), "is of schema none, and this ppkit reads schema 1"),
        (
            lambda content: content.update(schema=2),
            "is of schema 2, and .* run its notebooks again",
        ),
        (lambda content: content.pop("claims"), "is damaged: 'claims'"),
        (lambda content: content.update(claims={}), "is damaged: it holds no rows of the ledger"),
        (lambda content: content["claims"].append(3), "is damaged: "),
        (lambda content: content["claims"][0].update(where="Fig. 1"), "is damaged: .*'where'"),
        (lambda content: content["claims"][0].pop("robustness"), "is damaged: 'robustness'"),
        (lambda content: content["claims"][0].pop("says"), "is damaged: .*'says'"),
        (lambda content: content["claims"][0].pop("spread"), "is damaged: .*'spread'"),
        (lambda content: content["claims"][0]["also"][0].pop("run"), "is damaged: .*'run'"),
        (lambda content: content["claims"][0]["also"][0].update(firmness=1), "damaged: .*firmness"),
        (lambda content: content["claims"][0]["witness"][0].pop("data"), "is damaged: .*'data'"),
        (lambda content: content["claims"][0]["robustness"].pop("turns"), "is damaged: 'turns'"),
    ],
)
def test_a_file_of_another_schema_or_damaged_is_refused_in_a_sentence(tmp_path, change, why):
    content, file = json.loads(json.dumps(file_of(FULL, BARE))), tmp_path / "claims.json"
    change(content)
    file.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match=why) as refused:
        rows.read(file)
    assert str(refused.value).startswith(f"{file} is ")


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "null", '"claims"', "[{}]"])
def test_a_file_that_holds_something_else_is_damaged(tmp_path, text):
    file = tmp_path / "claims.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"claims\.json is damaged: "):
        rows.read(file)


@pytest.mark.slow
def test_the_reference_fits_its_schema_and_is_what_its_rows_give(tmp_path):
    kept = ROOT / "figures/claims.json"
    about, found = rows.read(kept)
    rows.write(tmp_path / "a.json", found, run=about["run"], pictures=about["pictures"])
    assert (tmp_path / "a.json").read_bytes() == kept.read_bytes()
