"""Figures that the paper prints, method by method, with what to keep in mind about them.

They stand in ``published.toml`` beside this module, whose head explains its keys, and are installed with the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from diffor.errors import UserError
from diffor.files.toml_files import read_toml

PUBLISHED_FILE = Path(__file__).with_name("published.toml")
DIRECTIONS = ("lower", "higher")
KINDS = ("method", "architecture", "variant")
FACTORS = {"percent": Decimal("0.01"), "points of 10": Decimal(10)}
"""What a printed value is multiplied by where our metric counts otherwise: shares from 0 to 1, points of 100."""


class PublishedError(UserError):
    """The figures cannot be read from their file; the message says why and what to do."""


@dataclass(frozen=True)
class Column:
    """What a column holds: a metric on a data set, which values are better ("lower", "higher"), and their unit."""

    dataset: str
    metric: str
    direction: str
    unit: str

    @property
    def name(self) -> str:
        """The column as caveats name it.

        >>> Column("utkface", "mae", "lower", "years").name
        'utkface mae'
        """
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
    values: tuple[Decimal, ...]
    """To the digits of the paper; NaN where its cell is empty."""
    ours: tuple[str, ...] = ()
    """Names of our methods that implement it."""
    why_quoted: str = ""
    """Why it is quoted and not run; empty where ours are run."""
    printed: str = ""
    """The paper's name for the method."""
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

    def place(self, dataset: str, metric: str) -> int | None:
        """Which column holds a metric on a data set, or None."""
        for place, column in enumerate(self.columns):
            if (column.dataset, column.metric) == (dataset, metric):
                return place
        return None


@dataclass(frozen=True)
class Caveat:
    """What to keep in mind about some cells; no rows or no columns named means all of them."""

    tables: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    text: str

    def concerns(self, table: Table, row: Row, column: Column) -> bool:
        """Whether it is about a cell.

        >>> column, row = Column("ava", "mae", "lower", "points"), Row("NIMA", "method", (Decimal("0.715"),))
        >>> table = Table("aesthetics", "tab:IAA", "aesthetics", "", (column,), (row,))
        >>> Caveat(("aesthetics",), ("PAM",), (), "").concerns(table, row, column)
        False
        """
        return (
            table.name in self.tables
            and (not self.rows or row.method in self.rows)
            and (not self.columns or column.name in self.columns)
        )


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: what a method reaches on a data set."""

    method: str
    value: float
    """In the units of our metric."""
    caveats: tuple[str, ...]
    printed: str
    """As the paper prints it, in its own unit."""
    unit: str
    table: str
    kind: str
    ours: tuple[str, ...]
    why_quoted: str


@dataclass(frozen=True)
class Published:
    """All tables with their caveats."""

    tables: tuple[Table, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    def figures(self, dataset: str, metric: str, *, variants: bool = False) -> list[Figure]:
        """What the paper prints for a metric on a data set, each method once; empty where it prints nothing.

        Where a method stands in several tables, the one that compares most methods counts: the appendix, whose digits
        are more. Variants of DiffoR, those of the ablation, are left out unless asked for.

        >>> Published().figures("utkface", "mae")
        []
        """
        found: dict[str, Figure] = {}
        for table in sorted(self.tables, key=lambda table: -len(table.rows)):
            place = table.place(dataset, metric)
            if place is None:
                continue
            for row in table.rows:
                if (variants or row.kind != "variant") and not row.values[place].is_nan():
                    found.setdefault(row.method, self._figure(table, row, place))
        return list(found.values())

    def columns(self, dataset: str) -> tuple[Column, ...]:
        """What the paper measures on a data set, each metric once; empty for data sets of others."""
        found = (column for table in self.tables for column in table.columns if column.dataset == dataset)
        return tuple({column.metric: column for column in found}.values())

    def _figure(self, table: Table, row: Row, place: int) -> Figure:
        column, value = table.columns[place], row.values[place]
        return Figure(
            method=row.method,
            value=column.in_our_units(value),
            caveats=tuple(caveat.text for caveat in self.caveats if caveat.concerns(table, row, column)),
            printed=str(value),
            unit=column.unit,
            table=table.name,
            kind=row.kind,
            ours=row.ours,
            why_quoted=row.why_quoted,
        )


# Reading.


def read_published(path: str | Path | None = None) -> Published:
    """The figures of a file; without a path, those that come with the package."""
    path = PUBLISHED_FILE if path is None else Path(path)
    # Decimals keep the digits of the paper: 4.40 is not 4.4.
    content = read_toml(path, "the list of published figures", PublishedError, Decimal)
    return published_from(content, str(path))


def published_from(content: Mapping[str, Any], where: str = "the file of published figures") -> Published:
    """The figures that a file's content describes, checked."""
    _check_keys(content, {"table": list}, {"caveat": list}, where)
    tables = tuple(_table(entry, where) for entry in content["table"])
    _check_once([table.name for table in tables], "tables", where)
    by_name = {table.name: table for table in tables}
    return Published(tables, tuple(_caveat(entry, by_name, where) for entry in content.get("caveat", [])))


def _table(entry: Any, where: str) -> Table:
    texts = dict.fromkeys(("name", "label", "domain", "caption"), str)
    _check_keys(entry, {**texts, "columns": list, "row": list}, {}, f"a [[table]] of {where}")
    where = f"table {entry['name']!r} of {where}"
    columns = tuple(_column(column, where) for column in entry["columns"])
    rows = tuple(_row(row, len(columns), where) for row in entry["row"])
    _check_once([column.name for column in columns], "columns", where)
    _check_once([row.method for row in rows], "methods", where)
    return Table(**{key: entry[key] for key in texts}, columns=columns, rows=rows)


def _column(entry: Any, where: str) -> Column:
    _check_keys(
        entry, dict.fromkeys(("dataset", "metric", "direction", "unit"), str), {}, f"an entry of columns of {where}"
    )
    column = Column(**entry)
    if column.direction not in DIRECTIONS:
        raise PublishedError(
            f"direction of column {column.name!r} in {where} must be {' or '.join(DIRECTIONS)}, "
            f"but got {column.direction!r}; say which values are better"
        )
    return column


def _row(entry: Any, n_columns: int, where: str) -> Row:
    optional = {"ours": (str, list), "year": int, **dict.fromkeys(("why_quoted", "printed", "citation"), str)}
    _check_keys(entry, {"method": str, "kind": str, "values": list}, optional, f"a [[table.row]] of {where}")
    where = f"row {entry['method']!r} of {where}"
    ours = [entry["ours"]] if isinstance(entry.get("ours"), str) else entry.get("ours", [])
    row = Row(
        method=entry["method"],
        kind=entry["kind"],
        values=_values(entry["values"], n_columns, where),
        ours=_names(ours, "ours", where) if "ours" in entry else (),
        why_quoted=entry.get("why_quoted", ""),
        printed=entry.get("printed", entry["method"]),
        citation=entry.get("citation", ""),
        year=entry.get("year"),
    )
    _check_kind(row, where)
    return row


def _caveat(entry: Any, tables: Mapping[str, Table], where: str) -> Caveat:
    where = f"a [[caveat]] of {where}"
    _check_keys(entry, {"tables": list, "text": str}, {"rows": list, "columns": list}, where)
    named = {key: _names(entry[key], key, where) if key in entry else () for key in ("tables", "rows", "columns")}
    for name in named["tables"]:
        _check_known([name], tables, "tables", where)
        table = tables[name]
        _check_known(named["rows"], [row.method for row in table.rows], f"rows of {name!r}", where)
        _check_known(named["columns"], [column.name for column in table.columns], f"columns of {name!r}", where)
    return Caveat(**named, text=entry["text"])


# Checking.


def _values(values: Sequence[Any], n_columns: int, where: str) -> tuple[Decimal, ...]:
    if len(values) != n_columns:
        raise PublishedError(
            f"{where} must have a value for each of {n_columns} columns, but got {len(values)}; write nan for no value"
        )
    for value in values:
        if not isinstance(value, (Decimal, int, float)) or isinstance(value, bool):
            raise PublishedError(f"values of {where} must be numbers, but got {value!r}; write nan for no value")
    return tuple(Decimal(str(value)) for value in values)


def _check_kind(row: Row, where: str) -> None:
    if row.kind not in KINDS:
        raise PublishedError(f"kind of {where} must be one of {', '.join(KINDS)}, but got {row.kind!r}; choose one")
    if bool(row.ours) == bool(row.why_quoted):
        raise PublishedError(
            f"{where} must have either ours or why_quoted, but got {'both' if row.ours else 'neither'} given; "
            "name our methods that implement it, or say why it is quoted"
        )
    if row.kind == ("architecture" if row.ours else "variant"):
        needed = "why_quoted" if row.ours else "ours"
        raise PublishedError(
            f"{where} must have {needed}, as its kind is {row.kind!r}, but it has none; add it or change the kind"
        )


def _check_keys(entry: Any, required: Mapping[str, Any], optional: Mapping[str, Any], where: str) -> None:
    if not isinstance(entry, Mapping):
        raise PublishedError(f"{where} must be a table, but got {entry!r}; write key = value in it")
    known = {**required, **optional}
    for key in (*required, *entry):
        if key not in known:
            raise PublishedError(f"{where} may hold {', '.join(known)}, but got {key!r}; take it out or rename it")
        if key not in entry:
            raise PublishedError(f"{where} must hold {', '.join(required)}, but {key} is missing; add it")
        # bool is an int to isinstance, and no key holds one.
        if not isinstance(entry[key], known[key]) or isinstance(entry[key], bool):
            raise PublishedError(
                f"{key} of {where} must be {_type_name(known[key])}, but got {entry[key]!r}; write it as such"
            )


def _type_name(types: Any) -> str:
    words = {str: "text in quotes", int: "a whole number", list: "a list"}
    return " or ".join(words[each] for each in (types if isinstance(types, tuple) else (types,)))


def _names(value: Sequence[Any], key: str, where: str) -> tuple[str, ...]:
    if not value or not all(isinstance(name, str) and name for name in value):
        raise PublishedError(f"{key} of {where} must list names, but got {value!r}; leave it out where it names none")
    return tuple(value)


def _check_known(names: Iterable[str], known: Iterable[str], what: str, where: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise PublishedError(
                f"{where} must name {what}, which are {', '.join(known)}, but got {name!r}; correct the name"
            )


def _check_once(names: Sequence[str], what: str, where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise PublishedError(f"{what} of {where} must differ in name, but got {name!r} comes twice; take one out")
