"""Rows unlike those that a model has learned from, and answers at the end of what it has seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.method import Inputs
from diffor.core.prediction import Prediction
from diffor.encoders.tabular.inputs import UNKNOWN, CategoryColumn, Column, NumericColumn, scale_columns
from diffor.errors import CeilingWarning, NoveltyWarning, UserError
from diffor.estimators.cross_fitted import CrossFitted
from diffor.methods.diffor.borders import QUANTILE_SHARE

if TYPE_CHECKING:
    from diffor.estimators.base import OrdinalEstimator

FAR = 0.25
"""A number is far outside the training range where it leaves it by more than this share of its width."""
MOST_WARNED = 100
"""Of tables with more columns nothing is said unasked: among so many, some row is always far in one."""
FULL = 0.25
"""Probability of an outermost increment from which on an answer stands at the end of what training had."""


class Watch:
    """Looks for new levels, and for numbers far outside the training range, in the tensors that networks read.

    Columns that were constant in training, or have too many levels to be listed, say nothing.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns, self.counts = columns, np.zeros(len(columns), dtype=np.int64)
        numeric = {
            place: one for place, one in enumerate(columns) if isinstance(one, NumericColumn) and not one.is_constant
        }
        categories = {place: one for place, one in enumerate(columns) if isinstance(one, CategoryColumn)}
        self.numeric, self.categories = np.array([*numeric], dtype=int), np.array([*categories], dtype=int)
        self.is_listed = np.array([one.levels is not None for one in categories.values()], dtype=bool)
        widths = np.array([1 + one.has_missing for one in numeric.values()], dtype=int)
        self.at = np.cumsum(widths) - widths  # where the number tensor has each column; flags follow it
        low, high = np.array([one.range for one in numeric.values()]).reshape(-1, 2).T
        self.low, self.high = scale_columns([*numeric.values()], far_ends(low, high))[:, self.at]

    def novel(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Which columns of which rows are novel. **Shape:** inputs of n rows -> ``(n, columns)``."""
        found = np.zeros((inputs[0].shape[0], len(self.columns)), dtype=bool)
        numbers, codes = inputs[0].numpy()[:, self.at], inputs[1].numpy()
        found[:, self.numeric] = (numbers < self.low) | (numbers > self.high)
        found[:, self.categories] = (codes == UNKNOWN) & self.is_listed
        return found

    def see(self, inputs: Inputs) -> None:
        """Count the novel rows of a block. **Shape:** inputs of n rows."""
        if len(self.columns):
            self.counts += self.novel(inputs).sum(axis=0)

    def warn(self) -> None:
        """Say once what was counted, if anything was."""
        found = {describe(one): int(count) for one, count in zip(self.columns, self.counts, strict=True) if count}
        if found:
            warnings.warn(NoveltyWarning(found), stacklevel=2)


def far_ends(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers beyond which others are far outside of training ranges. **Shape:** ``(...)``, twice -> ``(2, ...)``.

    >>> far_ends(np.array([20.0]), np.array([120.0])).tolist()
    [[-5.0], [145.0]]
    """
    with np.errstate(over="ignore"):  # of a range that is nearly all that doubles have
        return np.stack([low - FAR * (high - low), high + FAR * (high - low)])


def describe(column: Column) -> str:
    """What is said of a column whose value is novel.

    >>> describe(NumericColumn("size", 0.0, 1.0, False, holds="dates", low=19_000.0, high=19_031.0))
    "column 'size' is far outside the training range, 2022-01-08 to 2022-02-08,"
    """
    if isinstance(column, CategoryColumn):
        return f"column {column.name!r} has a level that training did not have"
    return f"column {column.name!r} is far outside the training range, {range_of(column)},"


def range_of(column: NumericColumn) -> str:
    """What training had in a column of numbers, in words.

    >>> range_of(NumericColumn("size", 0.0, 1.0, False, low=20.0, high=120.5))
    '20 to 120.5'
    """
    if column.holds == "dates":
        return " to ".join(str(np.datetime64(round(end), "D")) for end in column.range)
    return " to ".join(f"{end:.6g}" for end in column.range) + (" days" if column.holds == "durations" else "")


def far_outside(column: NumericColumn, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are far outside the training range. **Shape:** ``(n,)``, kept.

    >>> far_outside(NumericColumn("size", 60.0, 20.0, False, low=20.0, high=120.0), np.array([np.nan, 130.0, 150.0]))
    array([False, False,  True])
    """
    low, high = far_ends(*map(np.asarray, column.range))
    return np.asarray(((values < low) | (values > high)) & (not column.is_constant))


def novelty(model: OrdinalEstimator, X: Any) -> pd.DataFrame:
    """Which values of X are unlike those that a model has learned from: True in a table of its columns.

    A number is where it leaves the training range by more than a quarter of the range's width, a category where no
    training row had its level. Missing values are not.

    Parameters
    ----------
    model : OrdinalEstimator
        A fitted model of tables.
    X : table
        Rows with the model's columns. **Shape:** ``(n, p)``.

    Returns
    -------
    pandas.DataFrame
        **Shape:** ``(n, p)`` of True and False.

    Examples
    --------
    >>> from diffor import DiffoRRegressor, novelty
    >>> flats = pd.DataFrame({"size": np.arange(40.0), "city": ["Oslo", "Rome"] * 20})
    >>> model = DiffoRRegressor("fast", max_steps=5, verbose=0, random_state=0).fit(flats, flats["size"])
    >>> novelty(model, pd.DataFrame({"size": [20.0, 400.0], "city": ["Lima", "Oslo"]}))
        size   city
    0  False   True
    1   True  False
    """
    names = [column.name for column in model.inputs_.columns]
    if model.images_ is not None or not names:
        raise UserError("novelty is for models of tables, but this one reads images; leave it out")
    rows, reader, watch = model.open_rows(X), model.reader, Watch(model.inputs_.columns)
    parts = [np.zeros((0, len(names)), dtype=bool)]
    for first, block in reader.pieces(rows, "compare"):
        assert block.table is not None
        parts.append(watch.novel(model.inputs_.transform(block.table, first)))
    table: pd.DataFrame = pd.DataFrame(np.concatenate(parts), columns=names)
    return table


class Ceiling:
    """Looks for answers that pile up at an end of the training targets, which borders do not go beyond.

    Of S increments each has at most ``1 / (QUANTILE_SHARE S)`` of the training rows. Of rows like these, no more than
    that share divided by ``FULL`` can have so much probability there where a model is calibrated (Markov), so fewer are
    not told. An end that many rows share, or that the user named as the legal bound, is no ceiling: values stop there.

    ``ends`` are knots at which the outermost increments stand, by what is to be said of them.
    """

    def __init__(self, ends: dict[str, int], n_increments: int = 1) -> None:
        self.ends, self.counts, self.n_rows = ends, dict.fromkeys(ends, 0), 0
        self.usual = 1 / (FULL * QUANTILE_SHARE * n_increments)

    @classmethod
    def of(cls, model: OrdinalEstimator) -> Ceiling:
        """What is to be looked for in the answers of a model; nothing where its borders have no open end."""
        core, bounds = getattr(model, "model_", None), getattr(model, "bounds", None)
        if not isinstance(core, CrossFitted) or core.borders.is_discrete or len(core.borders) < 2:
            return cls({})
        borders, ends = core.borders, {}
        of_borders = model.scale_.from_unit(borders.edges)
        for name, at, (low, high), knot in (("bottom", 0, of_borders[:2], 1), ("top", -1, of_borders[-2:], -2)):
            is_legal = (bounds is not None or model.learns_share) and borders.edges[at] in (0, 1)
            if not borders.is_atom[at] and not is_legal:
                ends[f"the {name} increment, {low:.6g} to {high:.6g}, holds a quarter of the answer or more"] = knot
        return cls(ends, len(borders))

    def see(self, prediction: Prediction) -> None:
        """Count the rows of a block whose answers pile up. **Shape:** n predictions in [0, 1]."""
        self.n_rows += len(prediction)
        if isinstance(prediction, CdfPrediction):
            for text, knot in self.ends.items():
                beyond = prediction.heights[:, knot] if knot > 0 else 1 - prediction.heights[:, knot]
                self.counts[text] += int((beyond >= FULL).sum())

    @property
    def found(self) -> CeilingWarning | None:
        """What is to be said; None where no answer piles up."""
        found = {text: count for text, count in self.counts.items() if count > self.usual * self.n_rows}
        return CeilingWarning(found) if found else None

    def warn(self) -> None:
        """Say once what was counted, if anything was."""
        if self.found is not None:
            warnings.warn(self.found, stacklevel=2)
