"""What holds of the reference as a whole: with which code it was found, and that a decided claim's
interval has one verdict."""

import re

from ppkit.project import root
from ppkit.runs import code_versions, json_files
from ppkit.verdicts import ledger, robustness, rows, rules

# Records that changed after a run whose rows still stand, and why that run has not been made again.
# A record goes from here by its run; one that changes comes here or is run again.
WAITING: set[str] = set()


def test_no_row_picture_or_number_is_of_older_code_but_those_that_wait_for_their_run():
    claims = root() / "figures" / "claims.json"
    needed = code_versions.behind(rows.read(claims)[1], json_files.read_json(claims)["pictures"])
    older = {notebook for run, notebook in needed if code_versions.is_older(run, notebook)}
    assert older == set(WAITING)


# Settings that were tried before figures/code_versions.json kept their record's code.
WAITING_SETTINGS: set[str] = set()


def test_no_settings_are_of_older_code_but_those_that_wait_for_their_batch():
    files = (root() / "figures" / "settings").glob("*.json")
    older = {file.name for file in files if code_versions.settings_are_older(file.name)}
    assert older == WAITING_SETTINGS


def test_each_verdict_is_what_todays_rules_and_the_kept_settings_make_of_what_was_found():
    """`ppkit reference` was run after the last change of a rule, a word or a file of settings."""
    _, kept = rows.read(root() / "figures" / "claims.json")
    again = robustness.settled(ledger.best(kept, ledger.merge([])))
    assert {row.id: row for row in again} == {row.id: row for row in kept}


def test_no_decided_claim_has_an_interval_that_holds_the_other_verdict_too():
    both = {
        row.id
        for row in rows.read(root() / "figures" / "claims.json")[1]
        if row.kind == "claim" and row.verdict in rules.DECIDED and rules.exclude(row.possible)
    }
    assert both == set()


def test_fig7_is_judged_where_its_network_is_as_good_as_the_printed_one():
    """Small steps on all rows always fall: only a network that has learnt can count.

    .9314 is SPNN's AUC on distress in Table 1, .02 is the tolerance of its claims.
    """
    by_id = {row.id: row for row in rows.read(root() / "figures" / "claims.json")[1]}
    for row in ("zhou2021.fig7.steady", "zhou2021.fig7.no_overfit"):
        (auc,) = re.findall(r"AUC (\d\.\d+)", by_id[row].note)
        assert float(auc) >= 0.9314 - 0.02
