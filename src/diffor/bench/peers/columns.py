"""Tables as other people's packages want them: categories, codes, numbers without gaps, and linear designs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.bench.peers.problem import Values

MAX_ONE_HOT_LEVELS = 20
"""Levels of a category that a linear design spells out: the commonest."""
COLLINEAR_BELOW = 1e-7


class TrainingColumns:
    """Columns as the training rows know them: categories that they do not have count as missing.

    The columns get plain names, because some libraries refuse names with commas or brackets.

    >>> train = pd.DataFrame({"size, cm": [1.0, None], "kind": pd.Categorical(["a", "b"])})
    >>> test = pd.DataFrame({"size, cm": [2.0], "kind": pd.Categorical(["c"])})
    >>> columns = TrainingColumns(train)
    >>> columns.categories(test).to_dict("records")
    [{'x0': 2.0, 'x1': nan}]
    >>> columns.codes(train).tolist()
    [[1.0, 0.0], [nan, 1.0]]
    """

    def __init__(self, x: pd.DataFrame, max_levels: int | None = None) -> None:
        self.names: list[Hashable] = list(x.columns)
        self.levels: dict[int, pd.Index[Any]] = {}
        for place, name in enumerate(self.names):
            if not pd.api.types.is_numeric_dtype(x[name].dtype):
                column = x[name].astype("category")  # where it is one already, its levels keep their order
                counts = column.value_counts()  # commonest first
                kept = set(counts[counts > 0].index[:max_levels])
                self.levels[place] = pd.Index([level for level in column.cat.categories if level in kept], dtype=object)

    def categories(self, x: pd.DataFrame) -> pd.DataFrame:
        """Numbers as float64, the others as pandas categories with the levels of the training rows."""
        columns: dict[str, Any] = {}
        for place, name in enumerate(self.names):
            if place in self.levels:
                codes = self.levels[place].get_indexer(pd.Index(x[name].astype(object), dtype=object))
                columns[f"x{place}"] = pd.Categorical.from_codes(codes, self.levels[place])
            else:
                columns[f"x{place}"] = x[name].to_numpy(dtype=np.float64, na_value=np.nan)
        table: pd.DataFrame = pd.DataFrame(columns)
        return table

    def codes(self, x: pd.DataFrame) -> Values:
        """Numbers, and for categories the place of the level; NaN where missing or unknown. **Shape:** ``(n, d)``."""
        table = self.categories(x)
        for name in self.category_names:
            codes = table[name].cat.codes.astype(np.float64)
            table[name] = codes.where(codes >= 0)
        return table.to_numpy(dtype=np.float64)

    def spelled(self, x: pd.DataFrame) -> pd.DataFrame:
        """Categories as strings, also unknown ones, and "missing" where there is none."""
        table = self.categories(x)
        for place in self.levels:
            values = x[self.names[place]].astype(object)
            table[f"x{place}"] = values.where(values.notna(), "missing").astype(str).to_numpy(dtype=object)
        return table

    @property
    def category_names(self) -> list[str]:
        """Plain names of the columns that are categories."""
        return [f"x{place}" for place in self.levels]


class FilledColumns:
    """Numbers without gaps, and codes of categories, as networks want them; all is learnt from the training rows.

    Missing numbers become the median, and a further column flags them where training rows had any. Columns with one
    value only are left out. The last code of a category stands for missing and unknown levels.

    >>> train = pd.DataFrame({"size": [1.0, None, 3.0], "kind": pd.Categorical(["a", "b", "a"])})
    >>> columns = FilledColumns(train)
    >>> columns.numbers(train).tolist(), columns.codes(train).tolist()
    ([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [[0], [1], [0]])
    """

    def __init__(self, x: pd.DataFrame, max_levels: int | None = None) -> None:
        self._columns = TrainingColumns(x, max_levels)
        table = self._columns.codes(x)
        self._categories = list(self._columns.levels)
        self.cardinalities = [len(levels) + 1 for levels in self._columns.levels.values()]
        known = {place: values[~np.isnan(values)] for place, values in enumerate(table.T)
                 if place not in self._columns.levels}  # fmt: skip
        self._numbers = [place for place, values in known.items() if len(np.unique(values)) > 1]
        self._medians = np.array([np.median(known[place]) for place in self._numbers])
        self._flags = [place for place, values in known.items() if 0 < len(values) < len(x)]

    def numbers(self, x: pd.DataFrame) -> Values:
        """Numbers and the flags of missing ones. **Shape:** ``(n, p)``."""
        table = self._columns.codes(x)
        numbers, flags = table[:, self._numbers], np.isnan(table[:, self._flags])
        return np.concatenate([np.where(np.isnan(numbers), self._medians, numbers), flags], axis=1)

    def codes(self, x: pd.DataFrame) -> NDArray[np.int64]:
        """Codes of the categories. **Shape:** ``(n, c)``."""
        codes = self._columns.codes(x)[:, self._categories]
        return np.where(np.isnan(codes), np.array(self.cardinalities) - 1, codes).astype(np.int64)

    def matrix(self, x: pd.DataFrame) -> Values:
        """Numbers and flags, then codes. **Shape:** ``(n, p + c)``."""
        return np.concatenate([self.numbers(x), self.codes(x)], axis=1)

    def frame(self, x: pd.DataFrame) -> pd.DataFrame:
        """Numbers and flags, and categories as pandas knows them."""
        categories = self._columns.categories(x)[self._columns.category_names]
        table: pd.DataFrame = pd.DataFrame(self.numbers(x)).add_prefix("n").assign(**dict(categories.items()))
        return table


class LinearDesign:
    """Standardised numbers and one column for each of the commonest levels of a category; rarer levels have none.

    **Shape:** ``matrix`` ``(n, p)``.

    >>> train = pd.DataFrame({"size": [1.0, 3.0], "kind": pd.Categorical(["a", "b"])})
    >>> LinearDesign(train).matrix(train).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(self, x: pd.DataFrame, max_levels: int = MAX_ONE_HOT_LEVELS) -> None:
        self._columns = FilledColumns(x, max_levels)
        numbers = self._columns.numbers(x)
        self._centre, self._spread = numbers.mean(axis=0), numbers.std(axis=0)

    def matrix(self, x: pd.DataFrame) -> Values:
        """The columns of the linear model."""
        parts = [(self._columns.numbers(x) - self._centre) / self._spread]
        codes = self._columns.codes(x)
        parts += [
            (codes[:, [place]] == np.arange(n_codes - 1)).astype(np.float64)
            for place, n_codes in enumerate(self._columns.cardinalities)
        ]
        return np.concatenate(parts, axis=1)


def independent_columns(matrix: Values) -> NDArray[np.int64]:
    """Places of columns that neither a constant nor the other ones can stand for. **Shape:** ``(n, p)`` -> ``(q,)``.

    >>> independent_columns(np.array([[1.0, 2.0, 5.0], [2.0, 4.0, 5.0], [3.0, 6.0, 5.0]])).tolist()
    [1]
    """
    from scipy.linalg import qr

    centred = matrix - matrix.mean(axis=0)
    _, triangle, order = qr(centred, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    kept = sizes > COLLINEAR_BELOW * max(sizes.max(initial=0.0), np.sqrt(len(matrix)) * COLLINEAR_BELOW)
    return np.sort(order[: len(sizes)][kept]).astype(np.int64)
