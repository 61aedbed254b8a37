"""Section 5 of lesson 04b with owners of one's own: forecast, interval, invitation, range."""

import ast

import matplotlib
import pytest

from ppkit.collaboration import coalition
from ppkit.runs import catalogue

LESSON = catalogue.notebooks()["04b_collaboration_scenarios"]


@pytest.fixture(scope="module")
def answer():
    """Runs the lesson up to its last section; then what that section says of these owners."""
    matplotlib.use("agg")
    code = [cell["source"] for cell in catalogue.cells(LESSON) if cell["cell_type"] == "code"]
    at = next(k for k, source in enumerate(code) if "owners_of(OWNERS)" in source)
    space = {}
    for source in code[:at]:
        exec(source, space)
    *first, shown = ast.parse(code[at]).body

    def said(text):
        here = space | {"OWNERS": text}
        exec(ast.unparse(ast.Module(first, [])), here)
        return eval(ast.unparse(shown), here), here["law"]

    return said


@pytest.mark.slow
def test_other_owners_get_a_forecast_within_its_interval_and_the_best_coalition(answer):
    records, budgets = (5_000, 20_000, 8_000, 2_000), (1.0, 10.0, 0.3, 3.0)
    text = ", ".join(f"{n} at {e:g}" for n, e in zip(records, budgets, strict=True))
    table, law = answer(text)
    everybody, chosen = table.loc["everybody"], table.loc["the best coalition"]
    assert everybody["range"] == "known" and everybody["owners"] == "1, 2, 3, 4"
    told = law.psi(records, budgets)
    assert float(everybody["psi"]) == pytest.approx(told, rel=0.05)  # two digits are shown
    assert float(everybody["from"]) < float(everybody["psi"]) < float(everybody["to"])
    values = {
        some: coalition.noise_level([records[i] for i in some], [budgets[i] for i in some])
        for some in coalition.coalitions(4)
    }
    best = min(values, key=values.get)
    assert chosen["owners"] == ", ".join(str(i + 1) for i in best) != everybody["owners"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, why",
    [
        ("100 at 0.01, 100 at 0.01", "the noise reaches the walls"),
        ("10000000 at 100, 10000000 at 100", "so much or so little was not tried"),
    ],
)
def test_outside_of_the_range_nothing_is_forecast(answer, text, why):
    table, _ = answer(text)
    assert table.loc["everybody", "range"] == f"nothing is known: {why}"
    assert table.loc["everybody", "psi"] == ""
