"""What users pass as X: any table becomes a pandas frame whose columns stand in the fitted order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from diffor.errors import UserError, UserTypeError


def as_table(X: Any) -> pd.DataFrame:
    """Read numpy arrays, pandas and polars frames, Arrow tables, lists and tensors as a pandas frame.

    >>> as_table([[1, 2], [3, 4]]).columns.tolist()
    [0, 1]
    """
    if isinstance(X, pd.DataFrame):
        return _check_size(X)
    module = type(X).__module__.split(".")[0]
    if module == "polars":
        return _check_size(_from_polars(X))
    if module == "pyarrow" and hasattr(X, "schema"):
        return _check_size(X.to_pandas(date_as_object=False))
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise UserTypeError("X must be dense, but it is a sparse matrix; pass X.toarray()")
    # Strings and missing values are welcome here; the shape is not left to guess.
    dense = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
    if dense.dtype.kind in "US":  # numpy spells the numbers of a mixed list; its own items keep their kinds
        dense = np.array(X, dtype=object) if isinstance(X, (list, tuple)) else dense.astype(object)
    table: pd.DataFrame = pd.DataFrame(dense)
    return table


def _check_size(table: pd.DataFrame) -> pd.DataFrame:
    for count, thing in ((table.shape[1], "feature(s)"), (table.shape[0], "sample(s)")):
        if count == 0:
            raise UserError(f"X must not be empty, but it has 0 {thing} (shape={table.shape})")
    if len(set(table.columns.tolist())) == table.shape[1]:  # many times as quick as to ask pandas
        return table
    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        raise UserError(f"column names must be unique, but {repeated[0]!r} stands twice; rename one")
    return table


def _from_polars(X: Any) -> pd.DataFrame:
    if not hasattr(X, "get_columns"):
        cure = ".collect()" if hasattr(X, "collect") else ".to_frame()"
        raise UserTypeError(f"X must be a polars DataFrame, but it is a {type(X).__name__}; call {cure} first")
    table: pd.DataFrame = pd.DataFrame({column.name: column.to_numpy() for column in X.get_columns()})
    return table


def match_columns(table: pd.DataFrame, names: list[Hashable]) -> pd.DataFrame:
    """Put a table's columns in the fitted order, or say which are missing or unknown.

    Names may be of any kind. Tables without names, whose columns are 0, 1, ... in order, are taken by position.

    >>> match_columns(pd.DataFrame({20: [1], 10: [2]}), [10, 20]).columns.tolist()
    [10, 20]
    """
    given: list[Hashable] = [*table.columns.tolist()]
    if given == names:
        return table
    known = set(names)
    missing = [name for name in names if name not in table.columns]
    extra = [name for name in given if name not in known]
    if (missing or extra) and any(_is_unnamed(some) for some in (given, names)):
        return table
    if missing or extra:
        parts = [f"{word}: {', '.join(map(repr, which[:5]))}" for word, which in
                 (("missing", missing), ("not seen in fit", extra)) if which]  # fmt: skip
        raise UserError(
            "The feature names should match those that were passed during fit: X must have the columns of the "
            f"training table, but {'; '.join(parts)}"
        )
    ordered: pd.DataFrame = table.loc[:, names]
    return ordered


def _is_unnamed(names: Sequence[Hashable]) -> bool:
    return len(names) > 0 and names == list(range(len(names)))


FINEST = 16
"""Parts of the mean weight that weights are rounded to where rows are counted by them."""
LIGHTEST = 1e-30
"""Share of the largest weight below which a row counts as absent: single precision would make it so."""


def check_weights(sample_weight: Any, n: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Weights scaled to mean 1, or None. **Shape:** ``(n,)``."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserTypeError(f"sample_weight must hold numbers, but got {error}; correct them") from error
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise UserError(f"sample_weight must have one value per row, shape ({n},), but got shape={weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.max(initial=0) <= 0:
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
        raise UserError(
            "sample_weight must be finite, not negative and not all zero, but "
            f"{f'{len(wrong)} weights are not, such as {wrong[0]}' if len(wrong) else 'all are zero'}; correct them"
        )
    largest = weights.max()
    if not LIGHTEST < largest < 1 / LIGHTEST:  # their sum need not be a number
        weights = weights / largest
    weights = np.where(weights < LIGHTEST * weights.max(), 0.0, weights)
    return np.asarray(weights / weights.mean())


def row_counts(weights: NDArray[Any] | None) -> NDArray[np.int64] | None:
    """How often each row counts in a statistic: twice a row's weight is the row twice; None if all count alike.

    Weights that are no multiples of the smallest are rounded to parts of their mean; each row counts at least once.

    **Shape:** ``(n,)``, positive.

    >>> row_counts(np.array([0.5, 1.0, 0.5])).tolist()
    [1, 2, 1]
    """
    if weights is None or weights.min() == weights.max():
        return None
    multiples = weights / weights.min()
    counts = np.rint(multiples)
    if counts.sum() > FINEST * len(weights) or not np.allclose(multiples, counts, rtol=1e-9, atol=0):
        counts = np.maximum(np.rint(FINEST * weights / weights.mean()), 1)
    return np.asarray(counts, dtype=np.int64)
