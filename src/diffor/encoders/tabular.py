"""Tables: columns of any kind to tensors (fitted on training rows), and tensors to features."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.dropout import ByteDropout
from diffor.method import Encoder, Inputs

MAX_LEVELS = 10_000
"""Categorical columns with more levels share HASH_BUCKETS embeddings instead of having one each."""
HASH_BUCKETS = 16_384
UNKNOWN, MISSING, FIRST_LEVEL = 0, 1, 2
SMOOTH_CLIP = 4.0
N_PIECES = 16
"""Pieces that a number is coded in, where its values allow."""
BEYOND = 10.0  # piece lengths that the outermost codes reach beyond their ends
N_GUIDE_STEPS = 32
GUIDE_DROPOUT = 0.5
GUIDE_SPREAD_SCALE = 10.0  # spreads are a few hundredths of the range
NORMAL_MIDDLE_HALF = 1.349
"""Distance between the quartiles of a standard normal distribution."""
FAR = 1e6  # units from the centre: the smooth clip has long reached its end there, and squares do not overflow


def _json_name(name: Hashable) -> str | int | float:
    return name if isinstance(name, (str, int, float)) else str(name)  # names serve messages, so a spelling will do


class NumericColumn:
    """One column of numbers: median and spread, with missing values flagged.

    Robust scaling with a smooth clip: the middle half of the values has the width that it has in a standard normal
    distribution, and outliers approach 4 from inside, so a wild value cannot drown the others.
    """

    kind = "number"

    def __init__(
        self, name: Hashable, centre: float, spread: float, has_missing: bool, edges: list[float] | None = None
    ) -> None:
        self.name, self.centre, self.spread, self.has_missing = name, centre, spread, has_missing
        self.edges = edges or [0.0, 1.0]
        """Ends of pieces that hold about equally many training rows, in scaled units."""

    @classmethod
    def fit(cls, name: Hashable, values: NDArray[np.float64]) -> NumericColumn:
        """Learn the column's centre and spread. **Shape:** ``(n,)``."""
        known = values[~np.isnan(values)]
        if len(known) == 0:
            return cls(name, 0.0, 0.0, False)
        low, centre, high = np.quantile(known, [0.25, 0.5, 0.75])
        spread = float(high - low) / NORMAL_MIDDLE_HALF
        if spread == 0:  # more than half of the rows share one value
            spread = float(known.max() - known.min()) / 2
        column = cls(name, float(centre), spread, bool(len(known) < len(values)))
        ends = np.unique(np.quantile(column.transform(known)[:, 0], np.linspace(0, 1, N_PIECES + 1)))
        if len(ends) > 1:
            column.edges = ends.tolist()
        return column

    @property
    def is_constant(self) -> bool:
        """Whether the training rows gave nothing to learn from."""
        return self.spread == 0 and not self.has_missing

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scale the column. **Shape:** ``(n,)`` -> ``(n, 1 or 2)``, the second flagging missing values."""
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            scaled = (np.where(missing, self.centre, values) - self.centre) / (self.spread or 1.0)
        scaled = np.clip(scaled, -FAR, FAR)
        scaled = scaled / np.sqrt(1 + (scaled / SMOOTH_CLIP) ** 2)
        if self.spread == 0:
            scaled = np.zeros_like(scaled)
        columns = [scaled, missing.astype(np.float64)] if self.has_missing else [scaled]
        return np.stack(columns, axis=1).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """The fitted column as JSON values."""
        return {"kind": self.kind, "name": _json_name(self.name), "centre": self.centre, "spread": self.spread,
                "has_missing": self.has_missing, "edges": self.edges}  # fmt: skip


class CategoryColumn:
    """One column of categories: each known level has a code; missing and unknown values have their own.

    Columns with very many levels keep no list: their values are hashed into a fixed number of codes.
    """

    kind = "category"

    def __init__(self, name: Hashable, levels: list[str] | None) -> None:
        self.name, self.levels = name, levels
        self._codes = None if levels is None else pd.Index(levels)

    @classmethod
    def fit(cls, name: Hashable, values: NDArray[np.object_]) -> CategoryColumn:
        """Learn the column's levels. **Shape:** ``(n,)`` of strings or None."""
        levels = sorted({value for value in values if value is not None})
        return cls(name, levels if len(levels) <= MAX_LEVELS else None)

    @property
    def n_codes(self) -> int:
        """Number of different codes."""
        return FIRST_LEVEL + (HASH_BUCKETS if self.levels is None else len(self.levels))

    def transform(self, values: NDArray[np.object_]) -> NDArray[np.int64]:
        """Code the column. **Shape:** ``(n,)`` -> ``(n,)``."""
        missing = pd.isna(values)
        if self._codes is None:
            hashed = pd.util.hash_array(np.where(missing, "", values).astype(object), categorize=True)
            codes = (hashed % HASH_BUCKETS).astype(np.int64) + FIRST_LEVEL
        else:
            codes = self._codes.get_indexer(pd.Index(values, dtype=object)).astype(np.int64) + FIRST_LEVEL
            codes[codes < FIRST_LEVEL] = UNKNOWN  # the indexer answers -1 where a level is not known
        codes[missing] = MISSING
        return np.asarray(codes)

    def to_json(self) -> dict[str, Any]:
        """The fitted column as JSON values."""
        return {"kind": self.kind, "name": _json_name(self.name), "levels": self.levels}


Column = NumericColumn | CategoryColumn


class TabularInputs:
    """Turns a table into the tensors that :class:`TabularEncoder` reads; fitted on training rows only.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31.0, None, 50.0], "city": ["Oslo", "Rome", "Oslo"]})
    >>> numbers, codes = TabularInputs().fit(table).transform(table)
    >>> numbers.shape, codes.squeeze().tolist()
    (torch.Size([3, 2]), [2, 3, 2])
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []

    def fit(self, table: pd.DataFrame) -> TabularInputs:
        """Learn each column's kind and statistics."""
        self.columns = []
        for place, name in enumerate(table.columns):
            values = read_column(table.iloc[:, place], name)
            fit = NumericColumn.fit if values.dtype == np.float64 else CategoryColumn.fit
            self.columns.append(fit(name, values))
        return self

    def transform(self, table: pd.DataFrame, first_row: int = 0) -> Inputs:
        """Tensors of a table, or of its part from ``first_row``, whose columns stand in the fitted order.

        **Shape:** -> numbers ``(n, p)`` float32, category codes ``(n, c)`` int64.
        """
        numbers: list[NDArray[np.float32]] = [np.zeros((len(table), 0), dtype=np.float32)]
        codes: list[NDArray[np.int64]] = [np.zeros((len(table), 0), dtype=np.int64)]
        for place, column in enumerate(self.columns):
            series = table.iloc[:, place]
            if isinstance(column, CategoryColumn):
                codes.append(column.transform(as_categories(series))[:, None])
            elif not column.is_constant:
                numbers.append(column.transform(as_numbers(series, column.name, first_row)))
        return torch.from_numpy(np.concatenate(numbers, axis=1)), torch.from_numpy(np.concatenate(codes, axis=1))

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
        raise ValueError(f"Complex data not supported: column {name!r} has dtype {series.dtype}")
    else:
        if _has_strings(series):  # even '3.5': a column that changed its kind has changed its meaning
            raise TypeError(_not_numbers(series, name))
        try:
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise TypeError(_not_numbers(series, name)) from error
    if np.isinf(values).any():
        count, first = int(np.isinf(values).sum()), first_row + int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(
            f"X must not contain infinity, however: column {name!r} has {count} such values, the first in row {first}; "
            "replace them (missing values may stay NaN)"
        )
    return values


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
    raise TypeError(
        f"a value of X must be a string or a number, however: {value!r} is a {type(value).__name__}; "
        "turn it into columns of numbers, strings or categories"
    )


def _not_numbers(series: pd.Series[Any], name: Hashable) -> str:
    present = series[series.notna()]
    wrong = next((value for value in present if not isinstance(value, (int, float, np.number, np.bool_))), None)
    return (
        f"column {name!r} must hold numbers or times, as in training: each argument must be a string or a number that "
        f"fits its column, however: {wrong!r}; correct the value or leave it missing"
    )


class PeriodicEmbedding(nn.Module):
    """Describe each number by trainable sines and cosines, then by a small linear map of its own.

    **Shape:** ``(n, p)`` -> ``(n, p * out)``.
    """

    def __init__(self, n_numbers: int, n_frequencies: int = 24, out: int = 12, sigma: float = 0.3) -> None:
        super().__init__()
        self.out = out
        self.frequencies = nn.Parameter(torch.randn(n_numbers, n_frequencies) * sigma)
        bound = 1 / math.sqrt(2 * n_frequencies + 1)
        self.mixing = nn.Parameter(torch.empty(n_numbers, 2 * n_frequencies + 1, out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_numbers, out))

    def forward(self, numbers: Tensor) -> Tensor:
        """Embed each number. **Shape:** ``(n, p)`` -> ``(n, p * out)``."""
        columns = numbers.t().unsqueeze(-1)  # (p, n, 1): columns first, so that each one's map is a matrix product
        angles = torch.bmm(columns * (2 * math.pi), self.frequencies.unsqueeze(1))  # (p, n, f)
        of_sine, of_cosine, of_number = torch.split(self.mixing, [angles.shape[-1], angles.shape[-1], 1], dim=1)
        mixed = torch.baddbmm(self.bias.unsqueeze(1), angles.sin(), of_sine)
        mixed = torch.baddbmm(mixed, angles.cos(), of_cosine)
        mixed = torch.baddbmm(mixed, columns, of_number)  # (p, n, out)
        return nn.functional.silu(mixed.permute(1, 0, 2).flatten(1))


class PiecewiseEmbedding(nn.Module):
    """Say how far each number has filled each of its pieces: a thermometer code of the inputs.

    A piece ends where equally many training rows lie between its ends, so that the code is fine where data are dense.
    The outermost pieces go on beyond their ends, so that far values still differ.

    **Shape:** ``(n, p)`` -> ``(n, out)``.

    >>> import torch
    >>> PiecewiseEmbedding([[0.0, 1.0, 3.0]])(torch.tensor([[2.0], [4.0]]))
    tensor([[1.0000, 0.5000],
            [1.0000, 1.5000]])
    """

    column: Tensor
    lower: Tensor
    length: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, edges: list[list[float]]) -> None:
        super().__init__()
        pieces = [
            (column, low, high - low, -BEYOND if place == 0 else 0.0, BEYOND if place == len(ends) - 2 else 1.0)
            for column, ends in enumerate(edges)
            for place, (low, high) in enumerate(pairwise(ends))
        ]
        self.out = len(pieces)
        parts = zip(*pieces, strict=True) if pieces else [()] * 5
        for name, part in zip(("column", "lower", "length", "least", "most"), parts, strict=True):
            dtype = torch.int64 if name == "column" else torch.float32
            self.register_buffer(name, torch.tensor(part, dtype=dtype), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """Code each number. **Shape:** ``(n, p)`` -> ``(n, out)``."""
        filled = (numbers[:, self.column] - self.lower) / self.length
        return torch.minimum(torch.maximum(filled, self.least), self.most)


class TabularEncoder(Encoder):
    """Embeds numbers and categories and mixes them in a multilayer perceptron.

    ``embedding="none"`` takes the scaled numbers as they are, ``"periodic"`` describes each by waves, ``"piecewise"``
    adds how far each has filled the pieces between the ``edges`` of its column. Where it ``is_guided`` there is a third
    input, the :class:`~diffor.encoders.guide.Guide`'s answer: its place is coded as a thermometer and, beside the
    perceptron, goes straight to the features. While training it is hidden for half of the rows, so that the encoder
    learns to see for itself what the guide sees.

    >>> import torch
    >>> encoder = TabularEncoder(n_numbers=3, category_sizes=[5], width=32)
    >>> encoder(torch.randn(4, 3), torch.ones(4, 1, dtype=torch.int64)).shape
    torch.Size([4, 32])
    """

    def __init__(
        self,
        n_numbers: int,
        category_sizes: list[int],
        *,
        embedding: str = "none",
        edges: list[list[float]] | None = None,
        is_guided: bool = False,
        width: int = 256,
        n_layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.is_guided = is_guided
        n_guide = N_GUIDE_STEPS + 1 if is_guided else 0
        self.out_features = width + n_guide
        self.numbers = make_embedding(embedding, n_numbers, edges)
        sizes = [embedding_width(size) for size in category_sizes]
        self.categories = nn.ModuleList(
            # The unknown code stays at zero, the centre of the others.
            nn.Embedding(codes, size, padding_idx=UNKNOWN)
            for codes, size in zip(category_sizes, sizes, strict=True)
        )
        for table in self.categories:
            nn.init.normal_(table.weight[1:], std=0.1)  # type: ignore[index]
        n_in = numbers_width(self.numbers, n_numbers) + sum(sizes) + n_guide
        layers: list[nn.Module] = []
        for place in range(n_layers):
            layers += [nn.Linear(max(n_in, 1) if place == 0 else width, width), nn.SiLU(), ByteDropout(dropout)]
        self.layers = nn.Sequential(*layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode rows. **Shape:** numbers ``(n, p)``, codes ``(n, c)``, guide ``(n, 2)`` -> ``(n, out_features)``."""
        numbers, codes = inputs[:2]
        parts = [self.numbers(numbers)]
        if isinstance(self.numbers, PiecewiseEmbedding):
            parts.append(numbers)
        parts += [table(codes[:, place]) for place, table in enumerate(self.categories)]
        guide = [self.show_guide(inputs[2])] if self.is_guided else []
        joined = torch.cat([*parts, *guide], dim=1)
        if joined.shape[1] == 0:  # every column was constant: there is nothing to tell rows apart
            joined = joined.new_zeros(len(joined), 1)
        return torch.cat([self.layers(joined), *guide], dim=1)

    def show_guide(self, guide: Tensor) -> Tensor:
        """The guide's answer in code, hidden for some rows while training. **Shape:** ``(n, 2)`` -> ``(n, 33)``."""
        code = code_guide(guide)
        if not self.training:
            return code
        return code * (torch.rand(len(guide), 1, device=guide.device) >= GUIDE_DROPOUT)


class GuideEncoder(Encoder):
    """Reads nothing but the guide's answer, for tables too small or too noisy for a network to see more.

    >>> import torch
    >>> numbers, codes, guide = torch.randn(4, 3), torch.zeros(4, 0, dtype=torch.int64), torch.rand(4, 2)
    >>> GuideEncoder(width=32)(numbers, codes, guide).shape
    torch.Size([4, 65])
    """

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.out_features = width + N_GUIDE_STEPS + 1
        self.layers = nn.Sequential(nn.Linear(N_GUIDE_STEPS + 1, width), nn.SiLU(), ByteDropout(dropout))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode rows. **Shape:** numbers ``(n, p)``, codes ``(n, c)``, guide ``(n, 2)`` -> ``(n, out_features)``."""
        code = code_guide(inputs[2])
        return torch.cat([self.layers(code), code], dim=1)


def code_guide(guide: Tensor) -> Tensor:
    """The guide's place as a thermometer in [-1, 1], and its spread. **Shape:** ``(n, 2)`` -> ``(n, 33)``."""
    place, spread = guide[:, :1], guide[:, 1:]
    steps = torch.arange(N_GUIDE_STEPS, device=guide.device)
    return torch.cat([(place * N_GUIDE_STEPS - steps).clamp(0, 1) * 2 - 1, spread * GUIDE_SPREAD_SCALE], dim=1)


def make_embedding(name: str, n_numbers: int, edges: list[list[float]] | None) -> nn.Module:
    """The embedding of numbers that a name stands for."""
    if name == "periodic" and n_numbers:
        return PeriodicEmbedding(n_numbers)
    if name == "piecewise" and n_numbers:
        return PiecewiseEmbedding(edges or [])
    return nn.Identity()


def numbers_width(embedding: nn.Module, n_numbers: int) -> int:
    """How many values describe the numbers of a row."""
    if isinstance(embedding, PeriodicEmbedding):
        return n_numbers * embedding.out
    return n_numbers + (embedding.out if isinstance(embedding, PiecewiseEmbedding) else 0)


def embedding_width(n_codes: int) -> int:
    """Numbers to describe one of ``n_codes`` categories with: more for more, at most 32.

    >>> embedding_width(4), embedding_width(16_386)
    (3, 32)
    """
    return max(2, min(32, round(1.6 * math.sqrt(n_codes))))
