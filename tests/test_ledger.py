"""The ledger refuses what it cannot decide, writes what it decided, and keeps the better of two runs."""

import json
import re

import numpy as np
import pytest

from ppkit import datasets, ledger, rules
from ppkit.dpstgd import TABLE_1
from ppkit.ledger import FORMULA, Ledger


@pytest.fixture
def book():
    return Ledger("wang2018", notebook="01_dpstgd", profile="quick")


def test_every_cell_of_table_1_and_every_part_of_the_paper_has_a_claim():
    ids = set(ledger.claims("wang2018"))
    cells = {f"wang2018.table1.row{i}.{kind}" for i in range(1, 9) for kind in ("basic", "advanced")}
    assert cells | {f"{cell}_holds" for cell in cells} <= ids
    parts = {id.split(".")[1] for id in ids}
    assert parts >= {"fig2", "fig3", "fig4", "fig5", "fig6", "lemma4_1", "thm4_2", "thm4_3", "appB", "model", "data", "bits"}
    assert len(ids) >= 32


def test_every_part_of_kanodia2020_has_a_claim():
    found = ledger.claims("kanodia2020")
    parts = {id.split(".")[1] for id in found}
    assert parts == {"attack", "clip", "noise", "price", "federation", "rule", "library"} and len(found) >= 18
    refutable = {claim.id.split(".", 1)[1] for claim in found.values() if rules.parse(claim.rule)[0] in rules.CAN_REFUTE}
    assert refutable == {"clip.hides", "noise.no_leak", "noise.once_for_all"}                 # mathematics and security only


def test_every_part_of_wu2020_has_a_claim():
    found = ledger.claims("wu2020")
    parts = {id.split(".")[1] for id in found}
    assert parts == {"theorem1", "kappa", "assumption3", "theorem2", "theorem3", "psi", "within90", "forecast", "collaboration",
                     *(f"fig{i}" for i in range(2, 12))} and len(found) >= 45
    refutable = {claim.id.split(".", 1)[1] for claim in found.values() if rules.parse(claim.rule)[0] in rules.CAN_REFUTE}
    assert refutable == {"theorem1.scale", "theorem1.audit", "kappa.budget", "kappa.unequal", "assumption3.compact", "theorem2.fitness", "theorem2.distance",
                         "theorem2.noise", "theorem3.fitness", "theorem3.zeta", "collaboration.own_private"}      # mathematics and security only


def test_the_claims_print_what_the_code_s_table_prints():
    found = ledger.claims("wang2018")
    for i, row in enumerate(TABLE_1, start=1):
        assert found[f"wang2018.table1.row{i}.basic"].printed == row.printed_basic
        assert found[f"wang2018.table1.row{i}.advanced"].printed == row.printed_advanced
        assert f"eps {row.epsilon}, q {row.sample_rate:g}, n {row.n_uploads} " in found[f"wang2018.table1.row{i}.basic"].says


def test_every_claim_gives_its_reason_and_empirical_claims_cannot_be_refuted():
    for paper in ledger.papers():
        for claim in ledger.claims(paper).values():
            assert len(claim.because) > 5 and claim.where and claim.says.endswith("."), claim.id
            assert claim.decided_by in ("quick", "paper"), claim.id
            name, options = rules.parse(claim.rule)
            assert claim.printed is not None or name != "digits", claim.id
            if re.search(r"AUC|baseline|Fig\. [3-6]", claim.says + claim.where):
                assert name not in rules.CAN_REFUTE, claim.id


def test_a_row_keeps_paper_number_ours_and_verdict(book, tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    row = book.record("table1.row5.basic", 18.506, data=FORMULA)
    assert (row.verdict, row.printed, row.value, row.data, row.note) == ("reproduced", "18.50", 18.506, "formula", "cut, not rounded")
    assert repr(row) == "wang2018.table1.row5.basic   reproduced   ours 18.51   (cut, not rounded)"
    book.record("model.parameters", 14312, data=FORMULA)
    written = json.loads((tmp_path / "claims/01_dpstgd.json").read_text())
    assert [entry["id"] for entry in written] == ["wang2018.table1.row5.basic", "wang2018.model.parameters"]
    keys = "id paper where says printed value spread rule verdict data profile notebook figure note".split()
    assert list(written[0]) == keys


def test_the_data_of_a_row_is_the_data_set_s_own_word(book):
    data = datasets.load("transactions", rows=2_000)
    row = book.record("data.features", data.X.shape[1], data=data)
    assert row.data == data.source == f"simulated: {data.n_rows:,} rows"
    with pytest.raises(ValueError, match="data must be a Dataset from ppkit.datasets.load, or FORMULA, got str"):
        book.record("data.features", 264, data="real: 700,000 rows")


@pytest.mark.parametrize("source", ["auto", "standin"])
@pytest.mark.parametrize("name", ["creditcard", "distress", "lending"])
def test_no_stand_in_is_ever_recorded_as_real(name, source, book, tmp_path, monkeypatch):
    """Whatever a notebook may do with a stand-in, the ledger writes down that it is one, or refuses."""
    monkeypatch.delenv("PPKIT_SOURCE", raising=False)
    data = datasets.load(name, source, rows=3_000, root=tmp_path)
    ways = [data]
    if data.is_classification:
        ways.append(datasets.undersample(data, 0.5, 0))
    for one in ways:
        row = book.record("data.features", one.X.shape[1], data=one)
        assert row.data == one.source and row.data.startswith(f"stand-in: {one.n_rows:,} rows")

    class Relabelled(datasets.Dataset):
        source = "real: 284,807 rows"

    class LooksLikeOne:
        source, kind, X, y = "real: 284,807 rows", "real", data.X, data.y

    forged = object.__new__(Relabelled)
    for attempt in (LooksLikeOne(), forged, "real: 284,807 rows", data.X):
        with pytest.raises(ValueError, match="data must be a Dataset from ppkit.datasets.load, or FORMULA"):
            book.record("data.features", 30, data=attempt)
    assert not json.dumps([row.data for row in book._rows.values()]).count("real")


def test_bad_records_are_refused_with_the_id_or_value(book):
    with pytest.raises(ValueError, match="wang2018 has no claim 'fig9.rises'"):
        book.record("fig9.rises", 1, data=FORMULA)
    with pytest.raises(ValueError, match="66 positives are fewer than 100"):
        book.record("fig3.beats", 0.1, data=FORMULA, positives=66)
    with pytest.raises(ValueError, match="no claims for paper 'wang2019': there are kanodia2020, wang2018"):
        Ledger("wang2019", notebook="x", profile="quick")


def test_few_positives_are_decided_by_their_interval_and_say_so(book):
    sure = book.record("fig3.beats", [0.05, 0.05], data=FORMULA, positives=500, halfwidth=0.06)
    unsure = book.record("fig3.beats", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=0.06)
    assert (sure.verdict, unsure.verdict) == ("reproduced", "direction only")
    assert "66 positives: decided by the interval" in unsure.note


@pytest.mark.parametrize("halfwidth, text", [(0.06, "0.060"), (0.0005, "0.001"), (0.000312, "0.00031")])
def test_a_half_width_never_prints_as_zero(book, halfwidth, text):
    row = book.record("fig3.beats", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=halfwidth)
    assert f"half-width {text};" in row.note + ";"


def test_many_claims_at_once(book):
    table = book.record_all("table1.", {"row1.basic_holds": 66.9, "row4.basic_holds": 1431.2}, data=FORMULA,
                            against={"row1.basic_holds": 3.01, "row4.basic_holds": 2862.4},
                            proven={"row1.basic_holds": None, "row4.basic_holds": 1431.2})
    assert table["verdict"].tolist() == ["✕ refuted", "● reproduced"]


def test_merge_lists_every_claim_once_and_refuses_strangers(book):
    book.record("model.parameters", 14312, data=FORMULA)
    rows = ledger.merge([vars(book._rows["wang2018.model.parameters"])])
    assert [row["id"] for row in rows] == [id for paper in ledger.papers() for id in ledger.claims(paper)]
    assert {row["verdict"] for row in rows if row["id"] != "wang2018.model.parameters"} == {"not tried"}
    with pytest.raises(ValueError, match="no claim has the id 'nobody.said'"):
        ledger.merge([{"id": "nobody.said"}])


def test_the_reference_prefers_decided_then_paper_then_new():
    def row(verdict, profile, value):
        return {"id": "a", "verdict": verdict, "profile": profile, "value": value}

    quick, paper, none = row("reproduced", "quick", 1), row("not reproduced", "paper", 2), row("not tried", None, None)
    def kept(old, new):
        [row] = ledger.best([old], [new])
        assert row.pop("figure") is None  # "a" is no claim, so no picture shows it
        return row

    assert kept(quick, paper) == paper
    assert kept(paper, quick) == paper
    assert kept(paper, none) == paper
    assert ledger.best([quick], [row("refuted", "quick", 3)])[0]["value"] == 3


def test_the_scoreboard_adds_up():
    rows = ledger.merge([])
    of_wang = [row for row in rows if row["paper"] == "wang2018"]
    of_wang[0]["verdict"], of_wang[1]["verdict"] = "not reproduced: the proof has a gap", "not reproduced (better)"
    counts = ledger.scoreboard(rows)
    assert counts.to_numpy().sum() == len(rows)
    assert counts.loc["wang2018", "not reproduced"] == 2
    assert [ledger.symbol(v) for v in ("reproduced", "not reproduced (better)", "refuted")] == ["●", "○", "✕"]


def test_values_keep_their_seeds(book):
    row = book.record("fig3.beats", np.array([0.01, 0.03]), data=FORMULA)
    assert row.value == pytest.approx(0.02) and row.spread == pytest.approx(np.std([0.01, 0.03], ddof=1))


def test_the_picture_of_a_row_is_the_claim_s_own_as_it_is_now():
    rows = ledger.merge([])
    stale = [{**row, "figure": "gone"} for row in rows]
    assert {row["id"]: row["figure"] for row in ledger.best(stale, stale)} == {
        claim.id: claim.figure for paper in ledger.papers() for claim in ledger.claims(paper).values()}
