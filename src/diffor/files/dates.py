"""Dates that a CSV file spells: columns of text that hold nothing else are read as times.

Read are spellings that mean one day only: year first (2026-11-19, 2026/11/19, with a time of day or without) and day
first with dots (19.11.2026). With slashes, 3/4/2026 is a day in March or in April, so such a column stays text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_TIME = r"(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
YEAR_FIRST = rf"\d{{4}}([-/])\d{{2}}\1\d{{2}}{_TIME}"
DAY_FIRST = rf"\d{{1,2}}\.\d{{1,2}}\.\d{{4}}{_TIME}"
EITHER = r"\d{1,2}/\d{1,2}/\d{4}.*"
N_LOOK = 50
"""Rows that are looked at before all are: most columns of text are no dates."""


def as_times(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """A column of text as times, if every value that is there is a date; else None. **Shape:** ``(n,)``.

    >>> import pandas as pd
    >>> as_times(pd.Series(["2026-11-19", None])).dt.year.tolist()
    [2026.0, nan]
    >>> as_times(pd.Series(["2026-11-19", "soon"])) is None
    True
    """
    import pandas as pd

    pattern = YEAR_FIRST if _all_match(column, YEAR_FIRST) else DAY_FIRST
    if not _all_match(column, pattern):
        return None
    texts = column.astype(object).where(column.notna(), None).map(lambda text: text and text.replace("/", "-"))
    is_year_first = pattern == YEAR_FIRST
    options: dict[str, Any] = {"format": "ISO8601"} if is_year_first else {"format": "mixed", "dayfirst": True}
    try:
        times: pd.Series[Any] = pd.to_datetime(texts, utc=True, **options)
    except ValueError:  # the 31st of February
        return None
    bare: pd.Series[Any] = times.dt.tz_localize(None).rename(column.name)
    return bare


def is_unclear(column: pd.Series[Any]) -> bool:
    """Whether a column of text holds dates of which nobody can tell the day from the month.

    >>> import pandas as pd
    >>> is_unclear(pd.Series(["3/4/2026", "12/31/2026"]))
    True
    """
    return _all_match(column, EITHER)


def _all_match(column: pd.Series[Any], pattern: str) -> bool:
    """Whether a column is text, some of it is there, and all that is there has a form."""
    import pandas as pd

    known = column.dropna()
    if not len(known) or not pd.api.types.is_string_dtype(known.dtype):
        return False
    if known.dtype == object and pd.api.types.infer_dtype(known) != "string":
        return False
    return all(bool(part.str.fullmatch(pattern).all()) for part in (known[:N_LOOK], known))
