"""What a notebook's parameters cell holds and what a run sets in it."""

import json

import pytest

from ppkit.runs import Refused, catalogue


def test_parameters_are_the_literals_of_the_tagged_cell(project):
    path = project.add(
        "01_a",
        "OTHER = 3",
        parameters='# what to change\nA = 1\nB: float = -2.5\nC = "x"\nD = True',
    )
    assert catalogue.parameters(path) == {"A": 1, "B": -2.5, "C": "x", "D": True}
    assert catalogue.parameters(project.add("02_b", "A = 1", parameters=None)) == {}


def test_a_parameter_goes_only_where_it_exists_and_takes_the_type_of_its_default(project):
    project.add("01_a", parameters='PROFILE = "quick"\nRATE = 1.0\nNAME = ""')
    project.add("02_b", parameters='SOURCE = "auto"\nRATE = 0.0')
    project.add("03_c", parameters=None)
    chosen = catalogue.select([])
    given = {"RATE": "3", "NAME": "7"}
    assert catalogue.assign(chosen, profile="paper", source="standin", given=given) == {
        "01_a": {"PROFILE": "paper", "RATE": 3.0, "NAME": "7"},
        "02_b": {"SOURCE": "standin", "RATE": 3.0},
        "03_c": {},
    }
    available = catalogue.assign(chosen, profile="quick", source="available", given={})
    assert available["02_b"] == {"SOURCE": "auto"}
    assert "SOURCE" not in catalogue.assign(chosen, profile="quick", source=None, given={})["02_b"]


def test_an_int_is_not_a_bool_and_a_float_is_not_an_int(project):
    project.add("01_a", parameters="N = 1\nON = True")
    chosen = catalogue.select([])
    for name, text in (("N", "True"), ("N", "1.5"), ("ON", "1")):
        with pytest.raises(Refused, match=f"{name} must be of type .* got '{text}'"):
            catalogue.assign(chosen, profile="quick", source=None, given={name: text})


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


@pytest.mark.parametrize("text", ["1e999", "-1e999", "nan", "1" * 400])
def test_a_number_that_is_not_finite_is_refused(project, text):
    project.add("01_a", parameters="RATE = 0.5")
    with pytest.raises(Refused, match="RATE must be of type float, as its default 0.5, got '"):
        catalogue.assign(catalogue.select([]), profile="quick", source=None, given={"RATE": text})


def test_a_whole_number_that_no_table_can_hold_is_refused(project):
    project.add("01_a", parameters="SEED = 0")
    with pytest.raises(Refused, match="SEED must be of type int, as its default 0, got '1000"):
        given = {"SEED": "1" + "0" * 26}
        catalogue.assign(catalogue.select([]), profile="quick", source=None, given=given)


def test_a_notebook_in_another_language_is_refused(project):
    path = project.add("01_a", "1", parameters=None)
    notebook = json.loads(path.read_text("utf-8"))
    assert catalogue.n_code_cells(path) == 1
    kernel = {"kernelspec": {"name": "julia-1.10", "language": "julia"}}
    path.write_text(json.dumps(notebook | {"metadata": kernel}), encoding="utf-8")
    with pytest.raises(Refused, match="01_a.ipynb is a notebook in julia; ppkit runs"):
        catalogue.cells(path)


@pytest.mark.parametrize(
    "line", ["A = (1, 2)", "A = None", "A = B", "A, B = (1, 2)", "A: int", "f()"]
)
def test_a_parameters_cell_holds_numbers_texts_and_bools_only(project, line):
    path = project.add("01_a", parameters=f"N = 1\n{line}")
    with pytest.raises(Refused, match="may hold numbers, texts, True and False only, got '") as no:
        catalogue.parameters(path)
    assert f"got '{line}'" in str(no.value)


def test_a_notebook_that_would_undo_a_value_of_the_run_is_refused(project):
    path = project.add("01_a", "CLIP = 1.0", "# text", parameters="SEED = 0")
    notebook = json.loads(path.read_text("utf-8"))
    for tag, message in (
        ("parameters", "01_a.ipynb has 2 cells tagged parameters: papermill sets values behind"),
        ("injected-parameters", "01_a.ipynb was written by papermill: its cell tagged injected-"),
    ):
        notebook["cells"][1]["metadata"]["tags"] = [tag]
        path.write_text(json.dumps(notebook), "utf-8")
        with pytest.raises(Refused, match=message):
            catalogue.assign({"01_a": path}, profile="quick", source=None, given={"SEED": "1"})


@pytest.mark.parametrize(
    "line, got", [("A = 1e999", "inf"), ("A = -1e999", "-inf"), ("A = '\\ud800'", r"'\ud800'")]
)
def test_a_default_that_no_notebook_can_hold_is_refused(project, line, got):
    path = project.add("01_a", parameters=f"N = 1\n{line}")
    with pytest.raises(Refused, match="01_a.ipynb: A in the parameters cell must be") as no:
        catalogue.parameters(path)
    assert str(no.value).endswith(f"got {got}")


def test_a_text_of_bytes_that_are_no_utf_8_is_refused(project):
    project.add("01_a", parameters="NAME = ''")
    with pytest.raises(Refused, match="NAME must be of type str, as its default '', got "):
        given = {"NAME": b"a\xff".decode("utf-8", "surrogateescape")}
        catalogue.assign(catalogue.select([]), profile="quick", source=None, given=given)


@pytest.mark.parametrize(
    "text, said", [("9" * 5_000, "(5,000 characters)"), ("(" * 50_000, "(50,000 characters)")]
)
def test_a_value_too_long_to_read_is_refused_and_cut(project, text, said):
    project.add("01_a", parameters="N = 1")
    with pytest.raises(Refused, match="N must be of type int") as refused:
        catalogue.assign(catalogue.select([]), profile="quick", source=None, given={"N": text})
    assert said in str(refused.value) and len(str(refused.value)) < 250


@pytest.mark.parametrize("source", ["N = = 1", "%matplotlib inline\nN = 1", "N = 1\x00", "N = ("])
def test_a_parameters_cell_that_is_no_python_is_one_sentence(project, source):
    path = project.add("01_a", parameters=source)
    with pytest.raises(Refused, match="01_a.ipynb: the parameters cell is not Python: "):
        catalogue.parameters(path)
