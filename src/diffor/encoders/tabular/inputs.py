"""Columns of any kind to tensors: numbers scaled and categories coded, as the training rows had them."""

from __future__ import annotations

import datetime
import decimal
import math
import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from diffor.core.method import Inputs
from diffor.errors import UserError, UserTypeError

MAX_LEVELS = 5_000_000
"""Levels that have an embedding each; columns with more are hashed, so that some levels share one."""
DENSE_LEVELS = 10_000
"""Of more levels than this, a step trains only the embeddings that it meets, where networks can do so."""
MAX_DENSE_LEVELS = 100_000
"""The same as MAX_LEVELS for networks that train all embeddings at every step, which costs time and memory."""
HASH_BUCKETS = 131_072
"""Codes that the levels of a hashed column share, in networks that train all embeddings at every step."""
HASH_PAIRS = 2**20
"""Rows of a hashed column's table in all others: each level has two of them, which hardly any other has."""
UNKNOWN, MISSING, FIRST_LEVEL = 0, 1, 2
SMOOTH_CLIP = 4.0
N_PIECES = 16
"""Pieces that a number is coded in, where its values allow."""
NORMAL_MIDDLE_HALF = 1.349
"""Distance between the quartiles of a standard normal distribution."""
SCALED_ROWS = 4096
"""Rows whose numbers are scaled at a time: working copies stay small."""
FAR = 1e6  # units from the centre: the smooth clip has long reached its end there, and squares do not overflow


def _json_name(name: Hashable) -> str | int | float:
    plain = name.item() if isinstance(name, np.generic) else name
    return plain if isinstance(plain, (str, int, float)) else str(plain)


class NumericColumn:
    """One column of numbers: median and spread, with missing values flagged.

    Robust scaling with a smooth clip: the middle half of the values has the width that it has in a standard normal
    distribution, and outliers approach 4 from inside, so a wild value cannot drown the others.
    """

    kind = "number"

    def __init__(
        self,
        name: Hashable,
        centre: float,
        spread: float,
        has_missing: bool,
        edges: list[float] | None = None,
        holds: str | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        self.low, self.high = low, high
        """The smallest and the largest training value; None where there was none."""
        self.name, self.centre, self.spread, self.has_missing = name, centre, spread, has_missing
        self.holds = holds
        """``numbers``, ``dates``, ``durations``, or ``nothing`` where all were missing; None if it is not known."""
        self.edges = edges or [0.0, 1.0]
        """Ends of pieces that hold about equally many training rows, in scaled units."""

    @classmethod
    def fit(cls, name: Hashable, values: NDArray[np.float64], holds: str | None = None) -> NumericColumn:
        """Learn the column's centre and spread. **Shape:** ``(n,)``."""
        known = values[~np.isnan(values)]
        if len(known) == 0:
            return cls(name, 0.0, 0.0, False, holds="nothing")
        with np.errstate(over="ignore", invalid="ignore"):
            low, centre, high = np.quantile(known, [0.25, 0.5, 0.75])
            spread = float(high - low) / NORMAL_MIDDLE_HALF
            if spread == 0:  # more than half of the rows share one value
                spread = float(known.max() - known.min()) / 2
        if not np.isfinite([centre, spread]).all():
            raise UserError(
                f"column {name!r} must have differences below 1e308, but reaches from {known.min()} to {known.max()}; "
                "divide it by a constant"
            )
        column = cls(name, float(centre), spread, bool(len(known) < len(values)), holds=holds)
        column.note_range(float(known.min()), float(known.max()))
        ends = np.unique(np.quantile(column.transform(known)[:, 0], np.linspace(0, 1, N_PIECES + 1)))
        if len(ends) > 1:
            column.edges = ends.tolist()
        return column

    def note_range(self, low: float, high: float) -> None:
        """Keep the ends of the training values, with no more digits than tell the range: no row is to be read off."""
        places = 4 - math.floor(math.log10(self.spread)) if self.spread else 15
        self.low, self.high = round(low, places) + 0.0, round(high, places) + 0.0

    @property
    def is_constant(self) -> bool:
        """Whether the training rows gave nothing to learn from."""
        return self.spread == 0 and not self.has_missing

    def read(self, series: pd.Series[Any], first_row: int = 0) -> NDArray[np.float64]:
        """A column of the kind that was fitted as float64, another one refused. **Shape:** ``(n,)``."""
        times = _as_times(series)
        given = what_it_holds(times)
        other = {"numbers": ("dates", "durations"), "dates": ("durations",), "durations": ("dates",)}
        if given in other.get(self.holds or "", ()) and times.notna().any():
            raise UserTypeError(
                f"column {self.name!r} must hold {self.holds}, as in training, but got {given}, such as "
                f"{times[times.notna()].iloc[0]}; pass {self.holds} or leave it missing"
            )
        return as_numbers(times, self.name, first_row)

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scale the column. **Shape:** ``(n,)`` -> ``(n, 1 or 2)``, the second flagging missing values."""
        return scale_columns([self], values[:, None])

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest training value; of older models as closely as scaled ones tell.

        >>> NumericColumn.fit("age", np.array([20.0, 30.0, 40.0, 70.0])).range
        (20.0, 70.0)
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.spread == 0:
            return self.centre, self.centre
        ends = np.clip(np.array([self.edges[0], self.edges[-1]]), -SMOOTH_CLIP, SMOOTH_CLIP) * (1 - 1e-9)
        values = self.centre + self.spread * ends / np.sqrt(1 - (ends / SMOOTH_CLIP) ** 2)
        places = 4 - math.floor(math.log10(self.spread))  # what single precision still knows
        low, high = (round(float(value), places) + 0.0 for value in values)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """The fitted column as JSON values."""
        state = {"kind": self.kind, "name": _json_name(self.name), "centre": self.centre, "spread": self.spread,
                 "has_missing": self.has_missing, "edges": self.edges}  # fmt: skip
        known = {"holds": self.holds, "low": self.low, "high": self.high}
        return state | {name: value for name, value in known.items() if value is not None}


def scale_columns(columns: list[NumericColumn], values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale columns side by side, each followed by its flags of missing values if it has them.

    **Shape:** ``(n, k)`` -> ``(n, q)``.

    >>> age, height = NumericColumn("age", 40.0, 10.0, has_missing=True), NumericColumn("height", 1.7, 0.1, False)
    >>> scale_columns([age, height], np.array([[np.nan, 1.7]])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    centre, spread = (np.array([getattr(column, name) for column in columns]) for name in ("centre", "spread"))
    missing = np.isnan(values)
    with np.errstate(over="ignore"):
        scaled = (np.where(missing, centre, values) - centre) / np.where(spread == 0, 1.0, spread)
    scaled = np.clip(scaled, -FAR, FAR)
    scaled = scaled / np.sqrt(1 + (scaled / SMOOTH_CLIP) ** 2)
    scaled[:, spread == 0] = 0.0
    both = np.stack([scaled, missing], axis=2).astype(np.float32).reshape(len(values), 2 * len(columns))
    return both.compress([part for column in columns for part in (True, column.has_missing)], axis=1)


class CategoryColumn:
    """One column of categories: each known level has a code; missing and unknown values have their own.

    Columns with more than ``max_levels`` levels keep no list: their values are hashed into a fixed number of codes, and
    ``collisions`` is the share of their levels that have a code together with others. Where the column ``is_sparse``,
    its embeddings are a table with sparse gradients; with ``n_buckets`` an id is hashed to two of the table's rows, and
    its code holds both (:func:`~diffor.encoders.tabular.networks.bucket_rows`).
    """

    kind = "category"

    def __init__(
        self,
        name: Hashable,
        levels: list[str] | None,
        is_sparse: bool = False,
        n_buckets: int | None = None,
        collisions: float = 0.0,
        n_hashes: int = HASH_BUCKETS,
    ) -> None:
        self.name, self.levels, self.is_sparse, self.n_buckets = name, levels, is_sparse, n_buckets
        self.collisions, self.n_hashes = collisions, n_hashes if n_buckets is None else n_buckets**2
        self._codes = None if levels is None else pd.Index(levels)

    @classmethod
    def fit(
        cls, name: Hashable, values: NDArray[np.object_], max_levels: int | None = None, can_be_sparse: bool = True
    ) -> CategoryColumn:
        """Learn the column's levels. **Shape:** ``(n,)`` of strings or None."""
        levels = sorted({value for value in values if value is not None})
        most = min(max_levels or MAX_LEVELS, MAX_LEVELS if can_be_sparse else MAX_DENSE_LEVELS)
        is_sparse = can_be_sparse and len(levels) > DENSE_LEVELS
        if len(levels) <= most:
            return cls(name, levels, is_sparse)
        column = cls(name, None, is_sparse, HASH_PAIRS if is_sparse else None)
        _, counts = np.unique(column.transform(np.array(levels, dtype=object)), return_counts=True)
        column.collisions = float(counts[counts > 1].sum() / len(levels))
        warnings.warn(
            f"column {name!r} has {len(levels):,} levels, more than {most:,}, so they are hashed: "
            f"{column.collisions:.2%} of them share their embedding with others", stacklevel=2,
        )  # fmt: skip
        return column

    @property
    def n_codes(self) -> int:
        """Number of rows that a table of embeddings needs."""
        return FIRST_LEVEL + (self.n_buckets or self.n_hashes if self.levels is None else len(self.levels))

    def transform(self, values: NDArray[np.object_]) -> NDArray[np.int64]:
        """Code the column. **Shape:** ``(n,)`` -> ``(n,)``."""
        missing = pd.isna(values)
        if self._codes is None:
            hashed = pd.util.hash_array(np.where(missing, "", values).astype(object), categorize=True)
            codes = (hashed % self.n_hashes).astype(np.int64) + FIRST_LEVEL
        else:
            codes = self._codes.get_indexer(pd.Index(values, dtype=object)).astype(np.int64) + FIRST_LEVEL
            codes[codes < FIRST_LEVEL] = UNKNOWN  # the indexer answers -1 where a level is not known
        codes[missing] = MISSING
        return np.asarray(codes)

    def to_json(self) -> dict[str, Any]:
        """The fitted column as JSON values."""
        state: dict[str, Any] = {"kind": self.kind, "name": _json_name(self.name), "levels": self.levels}
        if self.levels is None:
            state |= {"collisions": self.collisions, "n_hashes": self.n_hashes}
        return state | {"is_sparse": True, "n_buckets": self.n_buckets} if self.is_sparse else state


Column = NumericColumn | CategoryColumn


class TabularInputs:
    """Turns a table into the tensors that :class:`TabularEncoder` reads; fitted on training rows only.

    ``max_levels`` are the levels that a column may have without being hashed; ``can_be_sparse`` says whether the
    networks that read the tensors can train single embeddings.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31.0, None, 50.0], "city": ["Oslo", "Rome", "Oslo"]})
    >>> numbers, codes = TabularInputs().fit(table).transform(table)
    >>> numbers.shape, codes.squeeze().tolist()
    (torch.Size([3, 2]), [2, 3, 2])
    """

    def __init__(self, max_levels: int | None = None, can_be_sparse: bool = True) -> None:
        self.columns: list[Column] = []
        self.max_levels, self.can_be_sparse = max_levels, can_be_sparse

    def fit(self, table: pd.DataFrame, counts: NDArray[np.int64] | None = None) -> TabularInputs:
        """Learn each column's kind and statistics; each row may count several times. **Shape:** counts ``(n,)``."""
        self.columns = []
        for place, name in enumerate(table.columns):
            check_name(name)
            series = table.iloc[:, place]
            values = read_column(series, name)
            if values.dtype == np.float64:
                values = values if counts is None else np.repeat(values, counts)
                self.columns.append(NumericColumn.fit(name, values, what_it_holds(_as_times(series))))
            else:
                self.columns.append(CategoryColumn.fit(name, values, self.max_levels, self.can_be_sparse))
        return self

    def transform(self, table: pd.DataFrame, first_row: int = 0) -> Inputs:
        """Tensors of a table, or of its part from ``first_row``, whose columns stand in the fitted order.

        **Shape:** -> numbers ``(n, p)`` float32, category codes ``(n, c)`` int64.
        """
        table = table.copy(deep=False)
        table.columns = pd.RangeIndex(table.shape[1])  # pandas picks columns by place quicker where they have no names
        codes: list[NDArray[np.int64]] = [np.zeros((len(table), 0), dtype=np.int64)]
        numeric: dict[int, NumericColumn] = {}
        for place, column in enumerate(self.columns):
            if isinstance(column, CategoryColumn):
                codes.append(_code(column, table.iloc[:, place])[:, None])
            elif column.holds != "nothing":
                numeric[place] = column
        numbers = _scaled_numbers(table, numeric, first_row)
        return torch.from_numpy(numbers), torch.from_numpy(np.concatenate(codes, axis=1))

    @property
    def n_numbers(self) -> int:
        """Width of the number tensor."""
        numeric = [column for column in self.columns if isinstance(column, NumericColumn) and not column.is_constant]
        return sum(1 + column.has_missing for column in numeric)

    @property
    def number_edges(self) -> list[list[float]]:
        """Ends of the pieces of each column of the number tensor; a flag is one piece."""
        numeric = [column for column in self.columns if isinstance(column, NumericColumn) and not column.is_constant]
        return [edges for column in numeric for edges in [column.edges] + [[0.0, 1.0]] * column.has_missing]

    @property
    def category_sizes(self) -> list[int]:
        """Number of codes of each categorical column."""
        return [column.n_codes for column in self.columns if isinstance(column, CategoryColumn)]

    @property
    def collisions(self) -> dict[Hashable, float]:
        """Of each hashed column the share of its levels that have their embedding together with others."""
        columns = (column for column in self.columns if isinstance(column, CategoryColumn))
        return {column.name: column.collisions for column in columns if column.levels is None}

    @property
    def tables(self) -> list[int | str]:
        """Of each categorical column how its embeddings are kept: ``dense``, ``sparse``, or its number of buckets."""
        columns = (column for column in self.columns if isinstance(column, CategoryColumn))
        return [column.n_buckets or "sparse" if column.is_sparse else "dense" for column in columns]

    def to_json(self) -> list[dict[str, Any]]:
        """The fitted columns as JSON values."""
        return [column.to_json() for column in self.columns]

    @classmethod
    def from_json(cls, state: list[dict[str, Any]]) -> TabularInputs:
        """Rebuild fitted inputs from :meth:`to_json`."""
        inputs = cls()
        for saved in state:
            arguments = {key: value for key, value in saved.items() if key != "kind"}
            inputs.columns.append(
                NumericColumn(**arguments) if saved["kind"] == NumericColumn.kind else CategoryColumn(**arguments)
            )
        return inputs


def _scaled_numbers(table: pd.DataFrame, numeric: dict[int, NumericColumn], first_row: int) -> NDArray[np.float32]:
    """What networks read of columns of numbers, given by their places. **Shape:** -> ``(n, p)``."""
    values = _read_numbers(table, numeric, first_row)
    columns = list(numeric.values())
    kept = [number for number, column in enumerate(columns) if not column.is_constant]
    if len(kept) < len(columns):  # a constant tells nothing, but what it may not be has been refused
        values, columns = values[:, kept], [columns[number] for number in kept]
    pieces = [
        scale_columns(columns, values[first : first + SCALED_ROWS]) for first in range(0, len(values), SCALED_ROWS)
    ]
    return np.concatenate(pieces)


def _read_numbers(table: pd.DataFrame, numeric: dict[int, NumericColumn], first_row: int) -> NDArray[np.float64]:
    """Columns of the kinds that were fitted, others refused; all plain numbers at once. **Shape:** -> ``(n, k)``."""
    dtypes = table.dtypes.tolist()
    numbers = [place for place, column in numeric.items() if column.holds in (None, "numbers")]
    plain = [place for place in numbers if _is_plain(dtypes[place])]
    together = table if len(plain) == table.shape[1] else table.iloc[:, plain]
    read = together.to_numpy(dtype=np.float64)
    if np.isinf(read).any():  # column by column, to say which and where
        plain, read = [], read[:, :0]
    if len(plain) == len(numeric):
        return read
    values = np.empty((len(table), len(numeric)), order="F")
    at_once = dict(zip(plain, read.T, strict=True))
    for number, (place, column) in enumerate(numeric.items()):
        known = at_once.get(place)
        values[:, number] = column.read(table.iloc[:, place], first_row) if known is None else known
    return values


def _is_plain(dtype: Any) -> bool:
    """Whether all that a column of this dtype holds are numpy's own numbers or truth values."""
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def _code(column: CategoryColumn, series: pd.Series[Any]) -> NDArray[np.int64]:
    """Codes of a column's values; of a categorical, each level is coded once. **Shape:** ``(n,)``."""
    if not isinstance(series.dtype, pd.CategoricalDtype) or len(series.cat.categories) > len(series):
        return column.transform(as_categories(series))
    levels = [*as_categories(pd.Series(series.cat.categories)), None]  # a missing value has the place -1
    codes = column.transform(np.array(levels, dtype=object))
    return np.asarray(codes[series.cat.codes.to_numpy()])


def read_column(series: pd.Series[Any], name: Hashable) -> NDArray[Any]:
    """A column as float64 numbers or as strings, by what it holds. **Shape:** ``(n,)``."""
    series = _as_times(series)
    if isinstance(series.dtype, pd.CategoricalDtype) or pd.api.types.is_string_dtype(series.dtype):
        is_category = not _is_numeric_object(series)
    else:
        is_category = str(series.dtype).startswith("dictionary")  # what Arrow calls categories
    return as_categories(series) if is_category else as_numbers(series, name)


def _is_numeric_object(series: pd.Series[Any]) -> bool:
    """Whether an object column holds numbers only (True also where all is missing)."""
    if series.dtype != object:
        return False
    return pd.api.types.infer_dtype(series, skipna=True) in (
        "integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty",
    )  # fmt: skip


def as_numbers(series: pd.Series[Any], name: Hashable, first_row: int = 0) -> NDArray[np.float64]:
    """A column of numbers, booleans or times as float64, missing values as NaN. **Shape:** ``(n,)``."""
    values: NDArray[np.float64]
    series = _as_times(series)
    if pd.api.types.is_datetime64_any_dtype(series.dtype) or pd.api.types.is_timedelta64_dtype(series.dtype):
        # Microseconds reach beyond the year 9999, which stands for "never" in many tables; nanoseconds do not.
        values = series.dt.as_unit("us").astype("int64").to_numpy(dtype=np.float64, na_value=np.nan) / 86_400e6  # days
        values[series.isna().to_numpy()] = np.nan
    elif pd.api.types.is_complex_dtype(series.dtype):
        raise UserError(f"Complex data not supported: column {name!r} has dtype {series.dtype}")
    else:
        if _has_strings(series):  # even '3.5': a column that changed its kind has changed its meaning
            raise UserTypeError(_not_numbers(series, name))
        try:
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise UserTypeError(_not_numbers(series, name)) from error
        except OverflowError as error:
            raise UserError(
                f"column {name!r} must hold numbers below 1e308, but some are larger; divide them"
            ) from error
    if np.isinf(values).any():
        count, first = int(np.isinf(values).sum()), first_row + int(np.flatnonzero(np.isinf(values))[0])
        raise UserError(
            f"X must not contain infinity, but column {name!r} has {count} such values, the first in row {first}; "
            "replace them (missing values may stay NaN)"
        )
    return values


def what_it_holds(series: pd.Series[Any]) -> str:
    """What a column that is read as numbers holds.

    >>> what_it_holds(pd.Series([1.5])), what_it_holds(pd.Series([pd.Timestamp("2020-01-01")]))
    ('numbers', 'dates')
    """
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return "dates"
    return "durations" if pd.api.types.is_timedelta64_dtype(series.dtype) else "numbers"


def check_name(name: Hashable) -> None:
    """Refuse a column's name that a saved model could not hold, so that columns could not be matched by it again."""
    if isinstance(name, str) or (isinstance(name, (int, float, np.integer, np.floating)) and np.isfinite(float(name))):
        return
    raise UserError(
        f"column names must be text or finite numbers, but got {name!r}, a {type(name).__name__}; rename it, as by "
        "table.columns = [str(name) for name in table.columns]"
    )


def _as_times(series: pd.Series[Any]) -> pd.Series[Any]:
    """Python dates, periods and Arrow dates as pandas datetimes; any other column as it is. **Shape:** ``(n,)``."""
    if isinstance(series.dtype, pd.PeriodDtype):
        times: pd.Series[Any] = series.dt.to_timestamp()
        return times
    if isinstance(series.dtype, pd.ArrowDtype) and str(series.dtype).startswith("date"):
        return series.astype("datetime64[s]")
    if series.dtype == object:
        holds = pd.api.types.infer_dtype(series, skipna=True)
        if holds in ("date", "datetime", "datetime64"):
            return pd.to_datetime(series)
        if holds in ("timedelta", "timedelta64"):
            return pd.to_timedelta(series)
    return series


def _has_strings(series: pd.Series[Any]) -> bool:
    values = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else series
    if not pd.api.types.is_string_dtype(values.dtype):
        return False
    return any(isinstance(value, (str, bytes)) for value in values)


def as_categories(series: pd.Series[Any]) -> NDArray[np.object_]:
    """A column of categories as strings, missing values as None. **Shape:** ``(n,)``."""
    present = series.notna().to_numpy(dtype=bool)
    if isinstance(series.dtype, pd.CategoricalDtype):  # each level is spelled once, then repeated
        levels = np.array([_spell(level) for level in series.cat.categories] + [None], dtype=object)
        repeated: NDArray[np.object_] = levels[series.cat.codes.to_numpy()]
        return repeated
    values: NDArray[np.object_] = np.asarray(series.astype(object).to_numpy(), dtype=object).copy()
    values[~present] = None
    if pd.api.types.infer_dtype(values, skipna=True) != "string":
        values[present] = [_spell(value) for value in values[present]]
    return values


SPELLED = (
    str, bool, int, float, np.generic, decimal.Decimal, pd.Interval, pd.Period,
    datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip


def _spell(value: object) -> str:
    """One spelling for equal levels: 3, 3.0 and '3' are the same level, however a file stored them."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, SPELLED):
        return str(value)
    raise UserTypeError(
        f"a value of X must be a string or a number, but {value!r} is a {type(value).__name__}; "
        "turn it into columns of numbers, strings or categories"
    )


def _not_numbers(series: pd.Series[Any], name: Hashable) -> str:
    present = series[series.notna()]
    wrong = next((value for value in present if not isinstance(value, (int, float, np.number, np.bool_))), None)
    return (
        f"column {name!r} must hold numbers or times, as in training: each argument must be a string or a number that "
        f"fits its column, but got {wrong!r}; correct the value or leave it missing"
    )
