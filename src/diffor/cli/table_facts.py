"""What ``diffor fit`` says of a table before it trains: its columns by kind, its target, and columns to think about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from diffor.files.dates import is_unclear

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("numeric", "date", "categorical")
NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")
"""What columns of objects may hold to be read as numbers."""
ID_NAMES = re.compile(
    r"(row)?[ _.-]?(id|ids|idx|index|names?|number|nr|no|num|uuid|guid)|uuid|guid|index", re.IGNORECASE
)
MIN_ROWS = 30
"""Fewer rows differ from each other by chance."""
FREE_WORDS, FREE_SHARE = 3, 0.5
"""Text is free where values have so many words on average, and so many of them differ."""
N_LISTED = 5
MAX_GRADES = 12


def describe_table(
    features: pd.DataFrame, target: pd.Series[Any], scale: tuple[float, float] | list[Any] | None, is_told: bool
) -> list[str]:
    """Lines about the rows, the columns by kind, the target, and columns to think about.

    ``scale`` is the range that a model answers in, or its grades, or None where each row has a limit of its own;
    ``is_told`` whether the user gave the range.
    """
    kinds = {kind: [str(name) for name in features.columns if kind_of(features[name]) == kind] for kind in KINDS}
    return [
        f"rows             {len(features)}",
        f"columns          {list_kinds(kinds)}",
        f"target           {describe_target(target, scale, is_told)}",
        *(f"note             {doubt}" for doubt in find_doubts(features)),
    ]


def list_kinds(kinds: dict[str, list[str]]) -> str:
    """Names of columns by kind as one line.

    >>> list_kinds({"numeric": ["size", "rooms"], "date": [], "categorical": ["city"]})
    '2 numeric (size, rooms), 1 categorical (city)'
    """
    return ", ".join(
        f"{len(names)} {kind} ({', '.join(names[:N_LISTED])}{', ...' if len(names) > N_LISTED else ''})"
        for kind, names in kinds.items()
        if names
    )


def kind_of(column: pd.Series[Any]) -> str:
    """Whether a model reads a column as numbers, times or names."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return "date"
    if column.dtype == object:
        holds = pd.api.types.infer_dtype(column, skipna=True)
        return "date" if holds.startswith(("date", "timedelta")) else "numeric" if holds in NUMBERS else "categorical"
    return "numeric" if pd.api.types.is_numeric_dtype(column.dtype) else "categorical"


def describe_target(column: pd.Series[Any], scale: tuple[float, float] | list[Any] | None, is_told: bool) -> str:
    """The target with the range that answers lie in, or its grades, and where the range comes from."""
    if isinstance(scale, list):
        shown = [str(grade) for grade in scale]
        shown = shown if len(shown) <= MAX_GRADES else [*shown[:6], "...", *shown[-3:]]
        return f"{column.name}, {len(scale)} grades: {' < '.join(shown)}"
    values = column.astype("float64")
    source = "by --bounds" if is_told else "taken from these rows: no answer leaves it"
    found = f"{column.name}, {values.min():.6g} to {values.max():.6g}"
    if scale is None:
        return f"{found}; range of answers 0 to the limit of each row"
    return f"{found}; range of answers {scale[0]:.6g} to {scale[1]:.6g}, {source}"


def find_doubts(table: pd.DataFrame) -> list[str]:
    """One sentence for each column that is likely to be learned by heart, or not to be read as it is meant."""
    doubts = [_doubt(str(name), table[name]) for name in table.columns] if len(table) >= MIN_ROWS else []
    return [doubt for doubt in doubts if doubt is not None]


def _doubt(name: str, column: pd.Series[Any]) -> str | None:
    kind = kind_of(column)
    known = column.dropna()
    if kind == "date" or not len(known):
        return None
    spelled = name if re.fullmatch(r"[\w.-]+", name) else repr(name)
    cure = f"pass --drop {spelled} to leave it out"
    if kind == "categorical" and is_unclear(column):
        return (
            f"column {name!r} looks like dates, but {known.iloc[0]!r} may be day or month first, so they are read as "
            f"names; write them as 2026-11-19, or {cure}"
        )
    share = known.nunique() / len(known)
    if kind == "categorical" and _is_free_text(known, share):
        return (
            f"column {name!r} looks like free text ({known.nunique()} different texts), which is read as names: new "
            f"texts say nothing; make numbers of it beforehand, or {cure}"
        )
    if ID_NAMES.fullmatch(name) and share == 1 and not _has_fractions(known):
        return f"column {name!r} is called like an id and differs in every row; {cure}"
    if _counts_rows(known, kind, share):
        return f"column {name!r} looks like an id: it differs in every row; {cure}"
    return None


def _is_free_text(known: pd.Series[Any], share: float) -> bool:
    texts = known.astype(str)
    return share > FREE_SHARE and bool(texts.str.count(r"\s+").mean() + 1 >= FREE_WORDS)


def _has_fractions(known: pd.Series[Any]) -> bool:
    import pandas as pd

    return pd.api.types.is_float_dtype(known.dtype) and bool((known % 1 != 0).any())


def _counts_rows(known: pd.Series[Any], kind: str, share: float) -> bool:
    """Whether every value is another one, and they are names, or whole numbers without a gap."""
    if share < 1:
        return False
    if kind == "categorical":
        return True
    return not _has_fractions(known) and float(known.max() - known.min()) == len(known) - 1
