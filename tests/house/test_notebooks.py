"""What every committed notebook keeps to, and which step was forgotten when the reference is
stale."""

import ast
import base64
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import nbformat
import pytest
from PIL import Image
from waiting import FAR

import ppkit.show  # noqa: F401  it sets how wide pandas prints, as in the notebooks
from ppkit import documents, measured, pictures, project
from ppkit.runs.execute import KERNEL
from ppkit.verdicts import ledger, rules, statements
from ppkit.verdicts.rows import Row

ROOT = project.root()
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))
RECORDS = sorted((ROOT / "notebooks/records").glob("*.ipynb"))
ALL = [
    pytest.param(path, id=str(path.relative_to(ROOT / "notebooks")))
    for path in LESSONS + SOLUTIONS + RECORDS
]

# Cells whose output is not compared, each with the reason. Key: notebook and the cell's first line.
IGNORED = {}


def cells(path: Path, kind: str = "code") -> list:
    return [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == kind and cell.source.strip()
    ]


def test_there_are_notebooks():
    assert {"00_start_here", "02a_backtracking_attack"} <= {path.stem for path in LESSONS}
    assert [f"{path.stem}_solution" for path in LESSONS] == [path.stem for path in SOLUTIONS]


@pytest.mark.parametrize("path", ALL)
def test_executed_in_order_without_errors_or_warnings(path):
    code = cells(path)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), (
        "run `ppkit execute`"
    )
    outputs = [output for cell in code for output in cell.outputs]
    assert not [
        output
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.parametrize("path", ALL)
def test_no_path_date_or_address_is_printed(path):
    text = json.dumps([cell.outputs for cell in cells(path)])
    text = re.sub(r'"image/(png|svg\+xml)": (".*?"|\[.*?\])', "", text)
    # of a row's amendments, one after the other, not of the run
    text = re.sub(r"(amended|Before that,|[;.]) 2026-\d\d-\d\d:", "", text)
    found = re.search(
        r"(?<![\w.])/(work|tmp|root|home|Users)/[\w.]|0x[0-9a-f]{8,}|\b20\d\d-\d\d-\d\d\b", text
    )
    assert not found, f"{path.name} prints {found.group(0)}"


@pytest.mark.parametrize("path", ALL)
def test_committed_outputs_are_of_stand_ins_and_no_notebook_makes_data_of_its_own(path):
    code = cells(path)
    shown = json.dumps([cell.outputs for cell in code])
    assert not re.search(r"\breal(:| subset:) [\d,]+", shown), (
        "executed on real rows: run `ppkit execute`"
    )
    source = "\n".join(cell.source for cell in code)
    assert not re.search(
        r"\bmade\(|_TOKEN|object\.__setattr__|__new__|\bDataset\(|datasets\.dataset\b"
        r"|\barranged\(|\bkind=|setattr\(|\broot="
        r"|\bto_(csv|parquet)\(",
        source,
    )


@pytest.mark.parametrize("path", ALL)
def test_every_table_and_every_picture_says_its_data(path):
    """Tables beneath or in a column, pictures in their caption; `data=None` is a table of words."""
    code = cells(path)
    trees = [ast.parse(cell.source) for cell in code]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    tables = [call for call in calls if ast.unparse(call.func) == "show.table"]
    assert all("data" in [keyword.arg for keyword in call.keywords] for call in tables)
    says = r"show\.finish\(|\bData: "
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    drawing = [node.name for node in functions if re.search(says, ast.unparse(node))]
    caption = "|".join([says, *(rf"\b{name}\(" for name in drawing)])
    for cell in code:
        shown = [output.get("data", {}) for output in cell.outputs]
        where = f"{path.stem} [{cell.execution_count}] shows no source: run `ppkit execute`"
        for html in (data["text/html"] for data in shown if "<table" in data.get("text/html", "")):
            said = re.search(r"<p>Data: |<th>(data|decided on|you, here .*)</th>", html)
            assert said or "data=None" in cell.source, where
        if any("image/png" in data for data in shown):
            assert re.search(caption, cell.source), where


def true_colour_for_nothing(png: bytes) -> bool:
    """Whether a picture has no palette though no reader would see one."""
    picture = Image.open(io.BytesIO(png))
    return picture.mode != "P" and pictures.with_palette(picture).mode == "P"


@pytest.mark.parametrize("path", ALL)
def test_every_picture_has_a_palette_where_no_reader_sees_it(path):
    shown = [output.get("data", {}) for cell in cells(path) for output in cell.outputs]
    pngs = [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]
    assert [true_colour_for_nothing(png) for png in pngs] == [False] * len(pngs), (
        "run `ppkit execute`"
    )


def test_every_picture_of_the_reference_has_a_palette_where_no_reader_sees_it():
    files = [*(ROOT / "figures").rglob("*.png"), ROOT / "docs" / "first.png"]
    assert [file.name for file in files if true_colour_for_nothing(file.read_bytes())] == []


@pytest.mark.parametrize("path", ALL)
def test_every_uncompared_cell_is_listed_with_its_reason(path):
    uncompared = {
        f"{path.stem}: {cell.source.splitlines()[0]}"
        for cell in cells(path)
        if {"nbval-ignore-output", "nbval-skip"} & set(cell.metadata.get("tags", []))
        or re.match(r"#\s*(NBVAL_|PYTEST_)", cell.source)
    }
    assert uncompared == {key for key in IGNORED if key.startswith(f"{path.stem}: ")}


NAMES = {path.stem for path in LESSONS + RECORDS} - set(statements.papers())


@pytest.mark.parametrize("path", ALL)
def test_a_file_that_a_text_names_is_a_link(path):
    """A name in backticks looks like code; headings and the keys of papers are no links."""
    for cell in cells(path, "markdown"):
        for line in cell.source.splitlines():
            for name in re.findall(r"(?<!\[)`([\w./-]+)`(?!\])", line):
                is_file = Path(name).name.removesuffix(".ipynb") in NAMES or (ROOT / name).is_file()
                assert line.startswith("#") or not is_file, f"{path.stem}: `{name}` is no link"


@pytest.mark.parametrize("path", ALL)
def test_a_link_in_a_text_leads_to_a_file(path):
    for cell in cells(path, "markdown"):
        for address in re.findall(r"\]\((?!\w+:|#)([\w./-]+)(?:#[\w-]*)?\)", cell.source):
            assert (path.parent / address).exists(), f"{path.stem}: {address}"


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in LESSONS + RECORDS])
def test_one_cell_of_literal_parameters(path):
    tagged = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    for line in ast.parse(tagged[0].source).body:
        assert isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant), ast.unparse(
            line
        )
    assert tagged[0].source.startswith('PROFILE = "quick"')


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in LESSONS])
def test_order_of_a_lesson(path):
    text, code = (
        "\n".join(cell.source for cell in cells(path, kind)) for kind in ("markdown", "code")
    )
    for word in ("Who sees what", "Recap", "Exercises", "Solutions"):
        assert word in text, f"{path.name} has no {word!r}"
    assert "show.predict(" in code, f"{path.name} asks for no prediction"


# Where a paper's reference can be looked up; the other two have no address that could be checked.
ADDRESSES = {
    "zhou2021": "https://doi.org/10.1145/3501809",
    "wu2020": "https://doi.org/10.48550/arXiv.1906.09679",
}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in LESSONS + RECORDS])
def test_a_notebook_ends_with_references_that_name_its_papers(path):
    """Each address also stands in docs/references.md, which says what could be checked."""
    every = nbformat.read(path, as_version=4).cells
    last = every[-1]
    assert last.cell_type == "markdown" and last.source.startswith("## References\n")
    keys = [key for key in statements.papers() if f"`{key}`" in every[0].source]
    for key in keys or statements.papers():
        assert f"*{statements.titles()[key]}.*" in last.source
        assert ADDRESSES.get(key, "No DOI known to us") in last.source
    known = (ROOT / "docs/references.md").read_text("utf-8")
    addresses = re.findall(r"https://[^\s)>]+", last.source)
    assert [address for address in addresses if address not in known] == []


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in RECORDS])
def test_a_record_begins_with_its_profile_and_its_answer(path):
    """Stored outputs are the quick profile's; which profile decides, the reference says."""
    first, second = nbformat.read(path, as_version=4).cells[:2]
    rows = [row for row in ledger.reference() if row.notebook == path.stem]
    claims = statements.every_claim()
    # not new rows, until the paper profile has run; nor rows that the quick profile decides as well
    deciding = [
        row
        for row in rows
        if row.profile == "paper" or claims[row.id].decided_by not in ("paper", "quick")
    ]
    profiles = {row.profile for row in deciding if row.data != ledger.FORMULA.source}
    if path.stem == "which_one":
        profiles = {measured.reference("which_one").values["profile"]}
    [decides] = profiles or {"quick"}
    found = re.search(
        r"The outputs stored here are the (\w+) profile's.*?"
        r"The (?:verdicts|table) that counts? (?:are|is) the (\w+) profile's",
        first.source,
    )
    assert found, "the first cell says whose outputs are stored and whose verdicts count"
    assert found.groups() == ("quick", decides)
    assert second.source.startswith("## The answer\n")


def test_no_notebook_draws_with_interact_or_seeds_the_world():
    for path in LESSONS + SOLUTIONS + RECORDS:
        source = "\n".join(cell.source for cell in cells(path))
        assert not re.search(
            r"interact\(|interactive\(|np\.random\.seed|torch\.manual_seed|raises-exception", source
        ), path.name


def test_every_row_is_recorded_by_a_notebook_or_says_what_it_waits_for():
    rows = ledger.reference()
    recorded = {row.paper for row in rows if row.notebook}
    assert recorded == set(statements.papers())
    assert [row.id for row in rows if row.verdict == rules.NOT_TRIED] == []
    unmeasured = [row for row in rows if row.data is None]
    assert [row.id for row in unmeasured if not (row.missing or row.out_of_reach)] == []


def test_the_reference_is_of_these_claims():
    """Order: ppkit reproduce, ppkit reference, ppkit execute 00_start_here, commit."""
    rows = {row.id: row for row in ledger.reference()}
    current = [
        claim for paper in statements.papers() for claim in statements.claims(paper).values()
    ]
    assert list(rows) == [claim.id for claim in current], (
        "claims changed: run `ppkit reproduce`, then `ppkit reference`"
    )
    for claim in current:
        same = all(
            getattr(claim, one.name) == getattr(rows[claim.id], one.name)
            for one in fields(statements.Statement)
        )
        assert same, f"{claim.id} changed: run `ppkit reproduce`, then `ppkit reference`"


def test_no_rule_is_newer_than_the_run_that_it_decides():
    """README says so of the rules that were changed."""
    assert [row.id for row in ledger.reference() if row.stale] == []


def test_the_picture_that_a_claim_names_is_there():
    named = {row.figure for row in ledger.reference() if row.figure}
    assert {name for name in named if not (ROOT / "figures" / f"{name}.png").exists()} == set()
    assert named <= {
        claim.figure for paper in statements.papers() for claim in statements.claims(paper).values()
    }


def test_00_shows_the_reference():
    shown = json.dumps([cell.outputs for cell in cells(ROOT / "notebooks/00_start_here.ipynb")])
    for line in repr(ledger.answer("kanodia2020")).splitlines():
        assert json.dumps(line)[1:-1] in shown, "stale: run `ppkit execute 00_start_here`"


def _with_its_detail(row: Row) -> str:
    """A verdict, or what stands beside it where that says something else of the paper."""
    plain = rules.plain(row.verdict)
    beside = plain == rules.NOT_REPRODUCED and row.detail in (rules.DIRECTION, rules.GAP)
    return row.detail if beside else plain


@pytest.mark.parametrize("finding", statements.findings(), ids=lambda finding: finding.id)
def test_the_mark_of_a_finding_is_what_its_rows_say(finding):
    verdicts = {
        _with_its_detail(row)
        for row in ledger.reference()
        if row.cause == finding.id and row.kind == "claim"
    }
    if rules.DEPENDS in verdicts:  # it has lost its mark
        return
    against = verdicts & {rules.REFUTED, rules.NOT_REPRODUCED}
    for_it = verdicts & {rules.REPRODUCED, rules.DIRECTION}
    said = {"right": for_it, "not right": against, "open": not against | for_it}
    assert said[finding.the_paper_is]


def test_the_readmes_show_the_reference_and_the_bars():
    for file, text in documents.renewed(ROOT).items():
        assert file.read_text("utf-8") == text, (
            f"{file.name} is stale: run `ppkit reference` or `make bench`"
        )


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("how", ["-n 2", "-n 3 --dist worksteal", "-d --tx 2*popen"])
def test_two_workers_of_nbval_share_notebooks_not_cells(how, tmp_path):
    """`pytest --nbval -n 2 notebooks`: cells that were dealt out singly would miss each other's
    names."""
    shutil.copy(ROOT / "notebooks/conftest.py", tmp_path)
    for name in ("a", "b"):
        code = [nbformat.v4.new_code_cell("x = 1", execution_count=1)]
        code += [nbformat.v4.new_code_cell("x += 1", execution_count=k) for k in (2, 3, 4)]
        shown = nbformat.v4.new_output("stream", name="stdout", text="4\n")
        code += [nbformat.v4.new_code_cell("print(x)", execution_count=5, outputs=[shown])]
        notebook = nbformat.v4.new_notebook(cells=code, metadata=KERNEL)
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", *how.split(), "-q", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=FAR)
    assert done.returncode == 0 and "10 passed" in done.stdout, done.stdout[-2_000:]


@pytest.mark.parametrize("path", ALL)
def test_nothing_of_a_notebook_is_lost_on_a_round_trip_through_jupytext(path):
    """Its old filters would drop folded cells, tags and the kernel; without them all are kept."""
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata == KERNEL
    keys = {key for cell in notebook.cells for key in cell.metadata}
    assert keys <= {"jupyter", "slideshow", "tags"}
    slides = [cell.metadata.slideshow for cell in notebook.cells if "slideshow" in cell.metadata]
    assert all([*one] == ["slide_type"] for one in slides)
    hidden = [cell.metadata.jupyter for cell in notebook.cells if "jupyter" in cell.metadata]
    assert all(one == {"source_hidden": True} for one in hidden)


@pytest.mark.slow
def test_a_notebook_becomes_a_script_of_its_language(tmp_path):
    from nbconvert.exporters import ScriptExporter

    text, resources = ScriptExporter().from_filename(str(LESSONS[0]))
    assert resources["output_extension"] == ".py" and "profile.of(" in text


NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)(?:\(\))?`")  # with an underscore: a name in code


@pytest.fixture(scope="module")
def names_in_code() -> set[str]:
    """Every word of the kit's code and claims, and the names of its notebooks."""
    files = [
        path
        for folder in ("ppkit", "spnn_system", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".json")
    ]
    words = set(re.findall(r"\w+", " ".join(path.read_text("utf-8") for path in files)))
    return words | {path.stem for path in LESSONS + SOLUTIONS + RECORDS}


@pytest.mark.parametrize("path", ALL)
def test_each_name_that_a_text_sets_as_code_is_somewhere_in_code(path, names_in_code):
    own = {word for cell in cells(path) for word in re.findall(r"\w+", cell.source)}
    named = {name for cell in cells(path, "markdown") for name in NAME.findall(cell.source)}
    assert named <= names_in_code | own
