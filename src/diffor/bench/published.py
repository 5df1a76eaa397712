"""Figures that the paper prints, method by method, with what to keep in mind about them.

They stand in ``published.toml`` beside this module, whose head explains its keys; a test checks that file.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from diffor.errors import UserError
from diffor.files.toml_files import read_toml

PUBLISHED_FILE = Path(__file__).with_name("published.toml")
FACTORS = {"percent": Decimal("0.01"), "points of 10": Decimal(10)}
"""What a printed value is multiplied by where our metric counts otherwise: shares from 0 to 1, points of 100."""


@dataclass(frozen=True)
class Column:
    """What a column holds: a metric on a data set, which values are better ("lower", "higher"), and their unit."""

    dataset: str
    metric: str
    direction: str
    unit: str

    @property
    def name(self) -> str:
        """The column as caveats name it."""
        return f"{self.dataset} {self.metric}"

    def in_our_units(self, value: Decimal) -> float:
        """A printed value as our metric counts it: shares lie between 0 and 1, SPAQ's points between 0 and 100.

        >>> Column("utkface", "cs", "higher", "percent").in_our_units(Decimal("63.67"))
        0.6367
        """
        return float(value * FACTORS.get(self.unit, 1))

    def in_paper_units(self, value: float) -> float:
        """A value of our metric as the paper would print it.

        >>> Column("spaq", "mae", "lower", "points of 10").in_paper_units(7.68)
        0.768
        """
        return value / float(FACTORS.get(self.unit, 1))


@dataclass(frozen=True)
class Row:
    """A method with its values, one for each column of the table, and what runs in its place here, if anything."""

    method: str
    kind: str
    """``method``, ``architecture`` or ``variant``."""
    values: tuple[Decimal, ...]
    """To the digits of the paper; NaN where its cell is empty."""
    ours: tuple[str, ...] = ()
    """Names of our methods that implement it."""
    why_quoted: str = ""
    """Why it is quoted and not run; empty where ours are run."""
    printed: str = ""
    """The paper's name for the method, where it is another."""
    citation: str = ""
    year: int | None = None


@dataclass(frozen=True)
class Table:
    """One table of the paper."""

    name: str
    label: str
    domain: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Caveat:
    """What to keep in mind about some cells; no rows or no columns named means all of them."""

    tables: tuple[str, ...]
    text: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def concerns(self, table: Table, row: Row, column: Column) -> bool:
        """Whether it is about a cell."""
        return (
            table.name in self.tables
            and (not self.rows or row.method in self.rows)
            and (not self.columns or column.name in self.columns)
        )


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: what a method reaches on a data set."""

    row: Row
    value: float
    """In the units of our metric."""
    printed: str
    """As the paper prints it, in its own unit."""
    unit: str
    table: str
    caveats: tuple[str, ...]

    @property
    def method(self) -> str:
        """The method that reaches it."""
        return self.row.method


@dataclass(frozen=True)
class Published:
    """All tables with their caveats."""

    tables: tuple[Table, ...]
    caveats: tuple[Caveat, ...]

    def figures(self, dataset: str, metric: str, *, variants: bool = False) -> list[Figure]:
        """What the paper prints for a metric on a data set, each method once; empty where it prints nothing.

        Where a method stands in several tables, the one that compares most methods counts: the appendix, whose digits
        are more. Variants of DiffoR, those of the ablation, are left out unless asked for.
        """
        found: dict[str, Figure] = {}
        for table in sorted(self.tables, key=lambda table: -len(table.rows)):
            for row in table.rows:
                for column, value in zip(table.columns, row.values, strict=True):
                    is_asked = (column.dataset, column.metric) == (dataset, metric) and not value.is_nan()
                    if is_asked and (variants or row.kind != "variant"):
                        texts = tuple(one.text for one in self.caveats if one.concerns(table, row, column))
                        ours = column.in_our_units(value)
                        found.setdefault(
                            row.method, Figure(row, ours, str(value), column.unit, table.name, texts)
                        )  # fmt: skip
        return list(found.values())

    def columns(self, dataset: str) -> tuple[Column, ...]:
        """What the paper measures on a data set, each metric once; empty for data sets of others."""
        found = (column for table in self.tables for column in table.columns if column.dataset == dataset)
        return tuple({column.metric: column for column in found}.values())


@cache
def read_published() -> Published:
    """The figures that come with the package."""
    # Decimals keep the digits of the paper: 4.40 is not 4.4.
    content = read_toml(PUBLISHED_FILE, "the list of published figures", UserError, Decimal)
    tables = tuple(
        Table(**{**entry, "columns": tuple(Column(**column) for column in entry["columns"])}, rows=rows)
        for entry in content["table"]
        for rows in [tuple(_row(row) for row in entry.pop("row"))]
    )
    caveats = tuple(
        Caveat(tuple(entry["tables"]), entry["text"], tuple(entry.get("rows", ())), tuple(entry.get("columns", ())))
        for entry in content["caveat"]
    )
    return Published(tables, caveats)


def _row(entry: dict[str, Any]) -> Row:
    ours = entry.get("ours", ())
    values = tuple(Decimal(str(value)) for value in entry["values"])
    return Row(**{**entry, "values": values, "ours": (ours,) if isinstance(ours, str) else tuple(ours)})
