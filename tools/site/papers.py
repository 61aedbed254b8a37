"""A paper's tables and figures in the paper's own layout, with our rows in their cells."""

from dataclasses import dataclass

from ppkit.verdicts import ledger, statements, wording
from ppkit.verdicts.rows import Row


@dataclass(frozen=True)
class Cell:
    """One cell that the paper prints, and the rows of the ledger about it.

    setting: whether its column holds no result.
    """

    printed: str
    judged_by: list[Row]
    setting: bool


@dataclass(frozen=True)
class Table:
    """A table or a figure of a paper.

    about: what `statements.tables` says of it.  rows: its cells, by the name of the row.
    about_it: the rows of the ledger about the whole of it: of a figure, or of a table with no cell.
    """

    about: statements.Table
    rows: dict[str, list[Cell]]
    about_it: list[Row]

    @property
    def anchor(self) -> str:
        """Where it lies on its paper's page."""
        return anchor(self.about.name)

    @property
    def cells(self) -> list[Cell]:
        """The cells that are not empty in the paper."""
        return [cell for cells in self.rows.values() for cell in cells if cell.printed]

    @property
    def not_judged(self) -> int:
        """How many cells have no row of the ledger."""
        return sum(not cell.judged_by for cell in self.cells)

    @property
    def settings(self) -> int:
        """How many of these are no results."""
        return sum(cell.setting and not cell.judged_by for cell in self.cells)

    @property
    def commands(self) -> list[str]:
        """What reruns it: the record, also at the paper's size if that decided one of its rows."""
        rows = [row for cell in self.cells for row in cell.judged_by] + self.about_it
        quick = f"ppkit reproduce {self.about.notebook}" if self.about.notebook else ""
        return list(filter(None, dict.fromkeys([quick, *map(wording.command, rows)])))


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, and the rows of the ledger about none of them, in the paper's order.

    short: what it is about, in a few words of ours.  came_out: two sentences of ours.
    """

    key: str
    title: str
    short: str
    came_out: str
    rows: list[Row]
    tables: list[Table]
    others: list[Row]

    @property
    def headlines(self) -> list[Row]:
        """The one to three claims that the paper is read for."""
        return [row for row in self.rows if row.headline]

    @property
    def claims(self) -> list[Row]:
        """What the paper claims, without our questions and checks."""
        return [row for row in self.rows if row.kind == "claim"]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many claims came out how, in the usual order."""
        return list(wording.counts(self.claims).items())

    def table_of(self, row: Row) -> Table | None:
        """The table or figure that a row is about."""
        name = row.cell[0] if row.cell else None
        return next((table for table in self.tables if table.about.name == name), None)

    @property
    def n_cells(self) -> int:
        return sum(len(table.cells) for table in self.tables)

    @property
    def not_judged(self) -> int:
        return sum(table.not_judged for table in self.tables)

    @property
    def settings(self) -> int:
        return sum(table.settings for table in self.tables)


def anchor(name: str) -> str:
    """The anchor of a table or figure.

    >>> anchor("Table I")
    'table-i'
    """
    return "-".join(name.lower().replace(".", "").split())


def every_paper() -> list[Paper]:
    """Every paper with its tables and its rows of the reference, in the order of its files."""
    reference = {row.id: row for row in ledger.reference()}
    return [
        _paper(key, [reference[id] for id in statements.claims(key)]) for key in statements.titles()
    ]


def _paper(key: str, rows: list[Row]) -> Paper:
    tables = [_table(about, rows) for about in statements.tables(key)]
    names = {table.about.name for table in tables}
    others = [row for row in rows if not row.cell or row.cell[0] not in names]
    words = statements.titles()[key], statements.short_titles()[key], statements.outcomes()[key]
    return Paper(key, *words, rows, tables, others)


def _table(about: statements.Table, rows: list[Row]) -> Table:
    on_it = [row for row in rows if row.cell and row.cell[0] == about.name]
    cells = {
        name: [
            Cell(
                printed,
                [row for row in on_it if row.cell == [about.name, name, column]],
                column in about.settings,
            )
            for column, printed in zip(about.columns, texts, strict=True)
        ]
        for name, texts in about.rows.items()
    }
    in_cells = [row.id for line in cells.values() for cell in line for row in cell.judged_by]
    return Table(about, cells, [row for row in on_it if row.id not in in_cells])
