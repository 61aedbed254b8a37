"""What a notebook's parameters cell holds and what a run sets in it."""

import pytest

from ppkit.runner import Refused, catalogue
from ppkit.runner.environment import for_kernel


def test_parameters_are_the_literals_of_the_tagged_cell(project):
    path = project.add(
        "01_a",
        "OTHER = 3",
        parameters='# what to change\nA = 1\nB: float = -2.5\nC = "x"\nD = (1, 2)',
    )
    assert catalogue.parameters(path) == {"A": 1, "B": -2.5, "C": "x", "D": (1, 2)}
    assert catalogue.parameters(project.add("02_b", "A = 1", parameters=None)) == {}


def test_a_parameter_goes_only_where_it_exists_and_takes_the_type_of_its_default(project):
    project.add("01_a", parameters='PROFILE = "quick"\nRATE = 1.0\nNAME = ""')
    project.add("02_b", parameters='SOURCE = "auto"\nRATE = 0.0')
    project.add("03_c", parameters=None)
    chosen = catalogue.select([])
    given = [("RATE", "3"), ("NAME", "7")]
    assert catalogue.assign(chosen, profile="paper", source="standin", given=given) == {
        "01_a": {"PROFILE": "paper", "RATE": 3.0, "NAME": "7"},
        "02_b": {"SOURCE": "standin", "RATE": 3.0},
        "03_c": {},
    }
    available = catalogue.assign(chosen, profile="quick", source="available", given=[])
    assert available["02_b"] == {"SOURCE": "auto"}
    assert "SOURCE" not in catalogue.assign(chosen, profile="quick", source=None, given=[])["02_b"]


@pytest.mark.parametrize(
    "source, said",
    [("available", None), ("real", "real"), ("standin", "standin"), (None, "standin")],
)
def test_available_data_is_taken_whatever_the_environment_says(
    project, tmp_path, monkeypatch, source, said
):
    monkeypatch.setenv("PPKIT_SOURCE", "standin")
    assert for_kernel(tmp_path, threads=1, source=source).get("PPKIT_SOURCE") == said


def test_an_int_is_not_a_bool_and_a_float_is_not_an_int(project):
    project.add("01_a", parameters="N = 1\nON = True")
    chosen = catalogue.select([])
    for name, text in (("N", "True"), ("N", "1.5"), ("ON", "1")):
        with pytest.raises(Refused, match=f"{name} must be of type .* got '{text}'"):
            catalogue.assign(chosen, profile="quick", source=None, given=[(name, text)])


@pytest.mark.parametrize(
    "asked", ["wang2018", "wang2018.ipynb", "notebooks/records/wang2018.ipynb"]
)
def test_a_record_goes_by_its_name_too(project, asked):
    project.add("01_a"), project.add("records/wang2018"), project.add("solutions/01_a_solution")
    assert list(catalogue.select([])) == ["01_a", "wang2018"]
    assert list(catalogue.select([asked], solutions=True)) == ["wang2018"]
    solution = catalogue.select(["notebooks/solutions/01_a_solution.ipynb"], solutions=True)
    assert list(solution) == ["solutions/01_a_solution"]


@pytest.mark.parametrize(
    "asked", ["01_a", "01_a.ipynb", "notebooks/01_a.ipynb", "./notebooks/01_a.ipynb"]
)
def test_a_notebook_goes_by_its_name_or_path(project, asked):
    project.add("00_z"), project.add("01_a")
    assert list(catalogue.select([asked])) == ["01_a"]


def test_all_notebooks_in_order_solutions_only_on_demand(project):
    for name in ("02_b", "01_a", "solutions/01_a"):
        project.add(name)
    assert list(catalogue.select([])) == ["01_a", "02_b"]
    assert list(catalogue.select([], solutions=True)) == ["01_a", "02_b", "solutions/01_a"]


def test_an_empty_project_is_refused(project):
    with pytest.raises(Refused, match="holds no notebook"):
        catalogue.select([])
