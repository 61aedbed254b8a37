"""What the claims say is printed is printed: in the tables of the papers as we copied them, and,
where the texts of the papers are at hand, in those."""

import ast
import operator
import os
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from house import ROOT

from ppkit.runs import catalogue
from ppkit.verdicts import anchors, statements

PAPERS = Path(os.environ.get("PPKIT_PAPERS", ROOT.parent / "shared" / "papers"))
TEXTS = {
    "wang2018": "1-dpstgd.txt",
    "kanodia2020": "2-backtracking.txt",
    "zhou2021": "3-spnn.txt",
    "wu2020": "4-collaboration.txt",
}
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
EVERY = [claim for paper in statements.papers() for claim in statements.claims(paper).values()]
COMPUTED = [claim for claim in EVERY if claim.computed or claim.how]


def value(how: str) -> Decimal:
    """The value of an expression in numbers and the four operations."""
    return _value(ast.parse(how, mode="eval").body, how)


def _value(node, how: str) -> Decimal:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Decimal(ast.get_source_segment(how, node))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.left, how), _value(node.right, how))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, how)
    raise ValueError(f"{how!r} is more than numbers and the four operations")


def rounded(number: Decimal, printed: str) -> Decimal:
    """The number to as many decimals as the text has."""
    step = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
    return number.quantize(step, ROUND_HALF_UP)


def stands(number: str, text: str) -> bool:
    """Whether the text has the number, not as a part of a longer one."""
    return re.search(rf"(?<![\d.]){re.escape(number)}(?!\d|\.\d)", text) is not None


@pytest.mark.parametrize(
    "how, number", [(".8772 - .8637", ".0135"), ("1 - 90 / 100", ".1"), ("-2 * (3 + 1)", "-8")]
)
def test_an_expression_is_computed_exactly(how, number):
    assert value(how) == Decimal(number)


@pytest.mark.parametrize("how", ["2 ** 9", "abs(2)", "x - 1", "'a'", "True"])
def test_an_expression_is_numbers_and_four_operations_only(how):
    with pytest.raises(ValueError, match="more than numbers"):
        value(how)


def test_a_number_is_not_found_inside_a_longer_one():
    assert stands("0.37", "costs 0.37.") and stands("-2", "slope of -2, as")
    assert not any(stands("0.37", text) for text in ("0.371", "10.37", "3"))
    assert not stands("14", "14.5")


@pytest.mark.parametrize("claim", COMPUTED, ids=lambda claim: claim.id)
def test_what_is_computed_says_how_and_is_what_comes_out(claim):
    assert claim.computed and claim.how and claim.printed is None
    assert rounded(value(claim.how), claim.computed) == Decimal(claim.computed)


@pytest.mark.parametrize("paper", statements.papers())
def test_a_paper_has_one_to_three_headline_claims(paper):
    headlines = [claim for claim in EVERY if claim.paper == paper and claim.headline]
    assert 1 <= len(headlines) <= 3
    assert {claim.kind for claim in headlines} == {"claim"}


@pytest.mark.parametrize("paper", statements.papers())
def test_a_table_names_a_record_and_a_picture_that_are_there(paper):
    tables = statements.tables(paper)
    assert tables
    for table in tables:
        assert table.notebook in catalogue.notebooks(), table.name
        if table.picture:
            assert (ROOT / "figures" / f"{table.picture}.png").exists(), table.name


@pytest.mark.parametrize(
    "claim", [claim for claim in EVERY if claim.cell], ids=lambda claim: claim.id
)
def test_the_cell_of_a_claim_is_there_and_prints_what_the_claim_says(claim):
    tables = {table.name: table for table in statements.tables(claim.paper)}
    table = tables[claim.cell[0]]
    if len(claim.cell) == 1:  # the whole table, or a figure, whose numbers stand in the text
        cells = {cell for row in table.rows.values() for cell in row}
        assert not cells or claim.printed is None or claim.printed in cells
        return
    _, row, column = claim.cell
    text = table.rows[row][table.columns.index(column)]
    assert text, f"{claim.cell} is empty"
    assert claim.printed in (None, text)


def texts(paper: str) -> str:
    """The text of a paper; the test is skipped where it is not at hand."""
    file = PAPERS / TEXTS.get(paper, f"{paper}.txt")
    if not file.exists():
        pytest.skip("the papers' texts are not at hand: set PPKIT_PAPERS to their folder")
    return file.read_text("utf-8")


@pytest.mark.parametrize("paper", statements.papers())
def test_every_printed_number_stands_in_the_paper(paper):
    text = texts(paper)
    claims = [claim for claim in EVERY if claim.paper == paper]
    printed = {claim.printed for claim in claims if claim.printed}
    used = {number for claim in claims for number in re.findall(r"[\d.]+", claim.how or "")}
    cells = {
        cell for table in statements.tables(paper) for row in table.rows.values() for cell in row
    }
    missing = [number for number in printed | used | cells - {""} if not stands(number, text)]
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("paper", statements.papers())
def test_every_sentence_that_a_claim_rests_on_stands_in_the_paper(paper):
    text = texts(paper)
    rests = {c.fingerprint: c.id for c in EVERY if c.paper == paper and c.fingerprint}
    found = anchors.found_in(text, list(rests))
    assert rests and [rests[one] for one, words in found.items() if words is None] == []


@pytest.fixture
def tables_of(tmp_path, monkeypatch):
    """The tables of a paper whose file of tables has this text."""

    def tables_of(text: str) -> list[statements.Table]:
        (tmp_path / "made2026.tables.toml").write_text(text)
        monkeypatch.setattr(statements, "folder", lambda: tmp_path)
        return statements.tables("made2026")

    return tables_of


HEAD = '["Table 1"]\ntitle = "AUC"\nnotebook = "made2026"\ncolumns = ["NN", "SPNN"]\n'


def test_a_table_keeps_its_order_and_its_empty_cells(tables_of):
    rows = '[["Table 1".rows]]\nname = "a"\ncells = ["0.90", ""]\n'
    figure = '["Fig. 3"]\ntitle = "Loss"\nnotebook = "made2026"\npicture = "made2026_loss"\n'
    table, drawn = tables_of(HEAD + rows + figure)
    assert table.name == "Table 1" and table.columns == ["NN", "SPNN"]
    assert table.rows == {"a": ["0.90", ""]} and table.picture is None and table.note == ""
    assert (drawn.name, drawn.columns, drawn.rows) == ("Fig. 3", [], {})
    assert drawn.picture == "made2026_loss"


def test_a_paper_without_a_file_of_tables_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(statements, "folder", lambda: tmp_path)
    assert statements.tables("made2026") == []


@pytest.mark.parametrize(
    "text, why",
    [
        (HEAD + "colour = 1\n", "made2026.tables.toml, 'Table 1': .*colour"),
        ('["Table 1"]\ntitle = "AUC"\n', "'Table 1': .*notebook"),
        (HEAD + '[["Table 1".rows]]\nname = "a"\n', "'Table 1': 'cells'"),
        (
            HEAD + '[["Table 1".rows]]\nname = "a"\ncells = ["1"]\n',
            "row 'a' has 1 cells for 2 columns",
        ),
        (HEAD + 2 * '[["Table 1".rows]]\nname = "a"\ncells = ["1", "2"]\n', "two rows of one name"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_its_place(tables_of, text, why):
    with pytest.raises(ValueError, match=why):
        tables_of(text)
