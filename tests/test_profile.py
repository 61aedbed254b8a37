"""Settings resolve as the parameters cell asks, and every parameter of every notebook is judged in
its settings cell, in one sentence that says what is accepted."""

import re

import nbformat
import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from ppkit import profile
from ppkit.runs import catalogue

NOTEBOOKS = {path.stem: path for path in catalogue.notebooks().values()}
DEFAULTS = {name: catalogue.parameters(path) for name, path in NOTEBOOKS.items()}
NOT_A_NUMBER = ("3", None, True, False, [1], float("nan"), float("inf"), -float("inf"), -1, 10**12)
WRONG = {
    int: (*NOT_A_NUMBER, 2.5, 3.0, 0.0, ""),
    float: (*NOT_A_NUMBER, -1.0, 1e12, ""),
    str: ("foo", "QUICK", None, 0, 1, True, 2.5, float("nan"), ["quick"]),
    bool: ("yes", "", None, 0, 1, 0.0, 1.0),
}


@pytest.fixture(scope="module")
def settings_cell():
    """Runs a notebook's cells up to its settings cell, with these parameters; what was imported is
    imported once."""
    kept = {}

    def run(name, **given):
        code = [cell for cell in catalogue.cells(NOTEBOOKS[name]) if cell["cell_type"] == "code"]
        at = next(k for k, cell in enumerate(code) if "profile.of(" in cell["source"])
        if name not in kept:
            kept[name] = {}
            for cell in code[:at]:
                exec(cell["source"], kept[name])
        space = kept[name] | DEFAULTS[name] | given
        for cell in code[:at]:
            if cell["source"].startswith("sizes "):  # they may name a parameter
                exec(cell["source"], space)
        exec(code[at]["source"], space)
        return space["settings"]

    return run


def refused(settings_cell, name, parameter, value) -> str:
    """The sentence with which a notebook refuses this value, without the value itself."""
    with pytest.raises(ValueError) as error:
        settings_cell(name, **{parameter: value})
    said = str(error.value)
    assert (
        said.startswith(f"{parameter} must be ")
        and said.endswith(f", got {value!r}")
        and "\n" not in said
    )
    return said.removesuffix(f", got {value!r}")


CASES = [
    pytest.param(name, parameter, id=f"{name}-{parameter}")
    for name, cell in DEFAULTS.items()
    for parameter in cell
]


@pytest.mark.slow
@pytest.mark.parametrize("name, parameter", CASES)
def test_no_parameter_takes_a_value_of_another_kind(settings_cell, name, parameter):
    """Also the ones that somebody adds: a parameter without a check takes all of these."""
    accepted = {
        refused(settings_cell, name, parameter, value)
        for value in WRONG[type(DEFAULTS[name][parameter])]
    }
    assert len(accepted) == 1, "what is accepted does not depend on what was given"


@pytest.mark.slow
@pytest.mark.parametrize("name, parameter", CASES)
def test_what_the_sentence_says_is_accepted_is_accepted(settings_cell, name, parameter):
    said = refused(settings_cell, name, parameter, None)
    settings_cell(name)
    if ends := re.search(r"number from (\S+) to ([\d,]+(?:\.\d+)?)", said):
        least, most = (float(end.replace(",", "")) for end in ends.groups())
        kind, step = (int, 1) if "whole" in said else (float, 1e-6)
        for value in (least, most):
            settings_cell(name, **{parameter: kind(value)})
        for value in {kind(least - step), kind(most + step)} - ({0} if " 0 or " in said else set()):
            assert refused(settings_cell, name, parameter, value) == said
    elif example := re.search(r"such as '(.+?)'", said):
        settings_cell(name, **{parameter: example[1]})
    else:
        words = re.findall(r"'(\w*)'|(False|True)", said)
        assert len(words) >= 2
        for word, truth in words:
            settings_cell(name, **{parameter: truth == "True" if truth else word})


def test_a_whole_number_will_do_for_a_number(settings_cell):
    settings_cell("zhou2021_method", LR=3)


@pytest.mark.parametrize(
    "name, parameter, value, sentence",
    [
        (
            "wang2018",
            "SELECTION",
            "foo",
            "SELECTION must be 'gumbel' or 'laplace' or 'laplace_signed_values' or "
            "'laplace_true_sign', got 'foo'",
        ),
        (
            "wang2018",
            "N_ROWS",
            10**12,
            "N_ROWS must be 0 or a whole number from 1,000 to 700,000, got 1000000000000",
        ),
        (
            "wang2018",
            "DATASET",
            "distress",
            "DATASET must be 'transactions' or 'creditcard', for which clip bounds and steps are "
            "tuned, got 'distress'",
        ),
        ("wang2018", "PROFILE", "huge", "PROFILE must be 'quick' or 'paper', got 'huge'"),
        (
            "02b_backtracking_defence",
            "NOISE_MULTIPLIER",
            0,
            "NOISE_MULTIPLIER must be a number from 0.2 to 10, got 0",
        ),
        ("3_spnn", "PROTOCOL", "foo", "PROTOCOL must be 'ss' or 'he' or 'masked', got 'foo'"),
        ("zhou2021_method", "LR", -5.0, "LR must be a number from 0.01 to 50, got -5.0"),
        (
            "03c_spnn_system",
            "N_ROWS",
            1,
            "N_ROWS must be 0 or a whole number from 2,500 to 20,000, got 1",
        ),
        (
            "04a_collaboration_forecast",
            "SOURCE",
            "fake",
            "SOURCE must be 'auto' or 'real' or 'standin', got 'fake'",
        ),
        (
            "04b_collaboration_scenarios",
            "OWNERS",
            "30000 at 10, 5 at 1",
            "OWNERS must be records and budgets of 2 to 20 owners, such as "
            "'30000 at 10, 1000 at 0.1', with 100 to 10,000,000 records and budgets from 0.01 "
            "to 100, got '30000 at 10, 5 at 1'",
        ),
    ],
)
def test_values_that_were_found_late_before(settings_cell, name, parameter, value, sentence):
    with pytest.raises(ValueError) as error:
        settings_cell(name, **{parameter: value})
    assert str(error.value) == sentence


def test_the_settings_take_what_is_given_and_leave_the_rest(settings_cell):
    default, given = (settings_cell("wu2020"), settings_cell("wu2020", N_RUNS=7, HORIZON=9))
    assert vars(given) == vars(default) | dict(n_runs=7, n_grid=7, n_few=7, n_inside=7, horizon=9)


@pytest.mark.processes
def test_plain_papermill_ends_in_the_settings_cell(tmp_path):
    with pytest.raises(PapermillExecutionError) as error:
        papermill.execute_notebook(
            NOTEBOOKS["wang2018"],
            tmp_path / "out.ipynb",
            parameters={"N_ROWS": "many"},
            progress_bar=False,
            cwd=tmp_path,
        )
    ran = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    counts = [c.execution_count for c in ran.cells if "profile.of(" in c.source]
    assert (error.value.ename, error.value.exec_count) == ("ValueError", counts[0])
    assert error.value.evalue.startswith("N_ROWS must be 0 or a whole number from ")


@pytest.mark.processes
def test_a_run_ends_with_the_sentence_and_computes_nothing(project, ppkit):
    cell = (
        "from ppkit import profile\n"
        "settings = profile.of(globals(), dict(quick={}, paper={}),\n"
        "                      DATASET=profile.one_of('transactions', 'creditcard'))"
    )
    project.add(
        "01_a",
        cell,
        "open('computed', 'w').close()",
        parameters='PROFILE = "quick"\nSOURCE = "auto"\nDATASET = "transactions"\nSEED = 0',
    )
    code, _, said = ppkit("reproduce", "-p", "DATASET", "distress")
    assert code == 1
    assert (
        "01_a failed in code cell [3]: ValueError: DATASET must be 'transactions' or 'creditcard', "
        "got 'distress'\n"
    ) in said
    assert not list(project.folder.rglob("computed"))


def test_a_rule_for_a_parameter_that_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="N_ROW"):
        profile.of(
            dict(PROFILE="quick", SOURCE="auto", SEED=0, N_ROWS=3),
            {"quick": {}},
            N_ROW=profile.whole(1, 9),
        )


SIZES = {"quick": {"n_rounds": 10, "seeds": 3}, "paper": {"n_rounds": 300, "seeds": 10}}


def resolved(name="quick", **given):
    """The settings of these parameters, of which SEEDS and N_ROUNDS may be set."""
    parameters = dict(PROFILE=name, SOURCE="auto", SEED=0, N_ROUNDS=0, SEEDS=0) | given
    return profile.of(
        parameters, SIZES, N_ROUNDS=profile.whole(5, 1_000), SEEDS=profile.whole(1, 10)
    )


def test_zero_leaves_the_profile_alone():
    assert vars(resolved("paper")) == {"profile": "paper", "n_rounds": 300, "seeds": 10}
    assert vars(resolved(N_ROUNDS=7)) == {"profile": "quick", "n_rounds": 7, "seeds": 3}
    assert SIZES["quick"]["n_rounds"] == 10


@pytest.mark.parametrize(
    "given, sentence",
    [
        (dict(PROFILE="fast"), "PROFILE must be 'quick' or 'paper', got 'fast'"),
        (dict(PROFILE=["quick"]), "PROFILE must be 'quick' or 'paper', got ['quick']"),
        (dict(SOURCE="web"), "SOURCE must be 'auto' or 'real' or 'standin', got 'web'"),
        (dict(SEED=2**32), "SEED must be a whole number from 0 to 4,294,967,295, got 4294967296"),
        (dict(N_ROUNDS=4), "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got 4"),
        (dict(N_ROUNDS=False), "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got False"),
        (
            dict(N_ROUNDS=float("nan")),
            "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got nan",
        ),
        (
            dict(N_ROUNDS="9" * 99),
            "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got '" + "9" * 59,
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_accepted(given, sentence):
    with pytest.raises(ValueError) as error:
        resolved(**given)
    assert str(error.value) == sentence
