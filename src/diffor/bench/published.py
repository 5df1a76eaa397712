"""Figures that the paper prints, method by method, with what to keep in mind about them.

They stand in ``published.toml`` beside this module, whose head explains its keys; a test checks that file.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

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

    def in_paper_units(self, value: float) -> float:
        """A value of our metric as the paper would print it.

        >>> Column("spaq", "mae", "lower", "points of 10").in_paper_units(7.68)
        0.768
        """
        return value / float(FACTORS.get(self.unit, 1))


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: what a method reaches in a column of a table."""

    table: str
    column: Column
    method: str
    kind: str
    """``method``, ``architecture`` or, of DiffoR with something changed, ``variant``."""
    printed: str
    """As the paper prints it, in its own unit."""
    ours: tuple[str, ...]
    """Names of our methods that implement it."""
    why_quoted: str
    """Why it is quoted and not run; empty where ours are run."""
    caveats: tuple[str, ...]

    @property
    def value(self) -> float:
        """The figure as our metric counts it: shares lie between 0 and 1, SPAQ's points between 0 and 100."""
        return float(Decimal(self.printed) * FACTORS.get(self.column.unit, 1))


@dataclass(frozen=True)
class Published:
    """All figures, table by table: those first that compare most methods, which are the appendix's, of more digits."""

    all: tuple[Figure, ...]

    def figures(self, dataset: str, metric: str, *, variants: bool = False) -> list[Figure]:
        """What the paper prints for a metric on a data set, each method once; empty where it prints nothing.

        Variants of DiffoR, those of the ablation, are left out unless asked for.
        """
        found: dict[str, Figure] = {}
        for figure in self.all:
            is_asked = (figure.column.dataset, figure.column.metric) == (dataset, metric)
            if is_asked and (variants or figure.kind != "variant"):
                found.setdefault(figure.method, figure)
        return list(found.values())

    def columns(self, dataset: str) -> tuple[Column, ...]:
        """What the paper measures on a data set, each metric once; empty for data sets of others."""
        found = (figure.column for figure in self.all if figure.column.dataset == dataset)
        return tuple({column.metric: column for column in found}.values())


@cache
def read_published() -> Published:
    """The figures that come with the package.

    >>> [figure.printed for figure in read_published().figures("utkface", "mae") if figure.method == "OR-CNN"]
    ['4.40']
    """
    # Decimals keep the digits of the paper: 4.40 is not 4.4.
    content = read_toml(PUBLISHED_FILE, "the list of published figures", UserError, Decimal)
    figures = []
    for table in sorted(content["table"], key=lambda table: -len(table["row"])):
        columns = [Column(**column) for column in table["columns"]]
        for row in table["row"]:
            method, ours = row["method"], row.get("ours", ())
            names = (ours,) if isinstance(ours, str) else tuple(ours)
            for column, value in zip(columns, row["values"], strict=True):
                place = f"{column.dataset} {column.metric}"
                caveats = tuple(
                    caveat["text"]
                    for caveat in content["caveat"]
                    if table["name"] in caveat["tables"]
                    and method in caveat.get("rows", [method])  # where none are named, all are meant
                    and place in caveat.get("columns", [place])
                )
                if not Decimal(value).is_nan():  # an empty cell
                    why = row.get("why_quoted", "")
                    figures.append(Figure(table["name"], column, method, row["kind"], str(value), names, why, caveats))
    return Published(tuple(figures))
