"""Permutation importance, partial dependence and Shapley values of whole distributions: the model as a black box."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from diffor.core.grades import grade_codes
from diffor.core.prediction import Prediction, check_open_share
from diffor.errors import RowsWarning, UserError, check_least, did_you_mean
from diffor.estimators.values import as_values

if TYPE_CHECKING:
    from diffor.estimators.base import OrdinalEstimator

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Ask = Callable[[pd.DataFrame, Places], Prediction]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles that bands are made of."""
N_VALUES, N_CATEGORIES = 12, 8
"""Values of a number, and of a category, that a band has at most; the ends of a number are left out by a fortieth."""
BAND_ROWS = 100
"""Rows over which a band is the mean."""
MOST_ASKED, FEWEST_ROWS = 100_000, 50
"""Rows that one part asks the model about at most, as long as so many rows are looked at."""
PAIRS = 16
"""Orders of the columns, each also backwards, that contributions are the mean of."""


@dataclass(frozen=True)
class Importance:
    """What shuffling one column does to the answers."""

    column: str
    crps: float | None
    """Mean rise of the CRPS, in the target's units; None without targets."""
    crps_error: float | None
    """Its standard error over shuffles; None with one shuffle."""
    width: float
    """Mean absolute change of the interval's width: how much the column has to do with how sure answers are."""


@dataclass(frozen=True)
class Band:
    """Quantiles of the answer over one column's values, on average over rows. **Shape:** v values, ``(v, q)``."""

    column: str
    values: list[Any]
    quantiles: list[list[float]]


@dataclass(frozen=True)
class Contributions:
    """How far each column moves the answer to single rows from the mean answer: Shapley values.

    **Shape:** rows ``(r,)`` (their places in X), answers and widths ``(r,)``, centre and width ``(r, p)``.
    """

    rows: list[int]
    columns: list[str]
    mean_answer: float
    mean_width: float
    answers: list[float]
    widths: list[float]
    centre: list[list[float]]
    """Of each column to the median (of grades, to the mean grade): with ``mean_answer`` they sum to the answer."""
    width: list[list[float]]
    """Of each column to the interval's width: with ``mean_width`` they sum to it."""


@dataclass(frozen=True)
class Explanation:
    """What moves a model's answers; ``print`` shows it as tables, :meth:`to_json` has all of it."""

    n_rows: int
    n_repeats: int
    coverage: float
    statistic: str
    """What is called the answer: ``median``, or ``mean grade``, counted from 0."""
    crps: float | None
    width: float
    """Mean CRPS, and mean width of the intervals, of the rows as they are."""
    importances: tuple[Importance, ...]
    """From the most important column to the least, by CRPS where targets are known, else by width."""
    bands: tuple[Band, ...]
    contributions: Contributions

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {**asdict(self), "levels": list(LEVELS)}

    def __str__(self) -> str:
        from diffor.reports.explanation.sections import explanation_sections
        from diffor.reports.html import as_text

        return as_text(list(explanation_sections(self, has_figures=False)))


def explain(
    model: OrdinalEstimator,
    X: Any,
    y: Any = None,
    *,
    columns: Sequence[str] | None = None,
    rows: Sequence[int] | int = 3,
    n_rows: int = 500,
    n_repeats: int = 5,
    n_bands: int = 6,
    coverage: float = 0.9,
    random_state: int = 0,
    **side: Any,
) -> Explanation:
    """What moves a model's answers, what makes it unsure, and how single rows came to theirs.

    Three views, which ask the model about changed rows and know nothing of its inside. *Permutation importance*: how
    much worse the CRPS gets where a column is shuffled, and how much the width of intervals changes. *Partial
    dependence* of the whole distribution: quantiles over a column's values, the others as they are, on average over
    rows. *Contributions* (Shapley values, by orders of the columns that are drawn with background rows): how far each
    column of a row moves its answer, and its interval's width, from the mean.

    All are about the model, not about the world: of columns that say the same the model may use either.

    Parameters
    ----------
    model : OrdinalEstimator
        A fitted model of tables that answers with distributions.
    X : table
        Rows to look at, best ones that were kept out of training. **Shape:** ``(n, p)``.
    y : array or None, default None
        Their targets, values or grades; without them the CRPS is left out. **Shape:** ``(n,)``.
    columns : list of str or None, default None
        Columns whose importance is measured; all if None.
    rows : int or list of int, default 3
        Places of the rows whose contributions are wanted, or how many of the first.
    n_rows : int, default 500
        Rows that are looked at, drawn at random from more; fewer where there are very many columns.
    n_repeats : int, default 5
        Shuffles of each column.
    n_bands : int, default 6
        Columns that have a band, the most important ones.
    coverage : float, default 0.9
        Share that the intervals are to hold whose width is explained.
    random_state : int, default 0
        Fixes what is drawn.
    side : arrays
        Columns that the method reads beside X, such as ``duration``; they stay as they are. **Shape:** ``(n,)``.

    Returns
    -------
    Explanation
        Tables by ``print``, all figures by ``to_json()``, a page by ``explanation_page``.

    Examples
    --------
    >>> from diffor import DiffoRRegressor, explain
    >>> random = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": random.uniform(0, 1, 200), "noise": random.uniform(0, 1, 200)})
    >>> model = DiffoRRegressor("fast", max_steps=50, verbose=0, random_state=0).fit(X, 10 * X["size"])
    >>> found = explain(model, X, 10 * X["size"], n_repeats=2)
    >>> [one.column for one in found.importances]
    ['size', 'noise']
    """
    check_is_fitted(model, "model_")
    for name, value, least in (("n_rows", n_rows, 2), ("n_repeats", n_repeats, 1), ("n_bands", n_bands, 0)):
        check_least(name, value, least)
    check_open_share(coverage)
    if model.images_ is not None or not model.has_distribution:
        what = "it reads images" if model.images_ is not None else f"method {model.settings_.method!r} predicts a point"
        raise UserError(f"explain needs a model of tables that answers with distributions, but {what}; explain another")
    table = model.open_rows(X).table
    assert table is not None
    table = table.reset_index(drop=True)
    truth = _truth(model, y, len(table))
    named = [str(name) for name in table.columns]
    unknown = [name for name in columns or () if str(name) not in named]
    if unknown:
        raise UserError(
            f"columns must be among the model's, but got {unknown[0]!r}{did_you_mean(str(unknown[0]), named)}"
        )
    chosen = [named.index(str(name)) for name in columns] if columns is not None else list(range(len(named)))
    explained = _explained(rows, len(table))
    draw = np.random.default_rng(random_state)
    most = min(n_rows, max(MOST_ASKED // (max(len(chosen), 1) * n_repeats), FEWEST_ROWS))
    looked = np.sort(draw.permutation(len(table))[:most])
    beside = {name: np.asarray(values) for name, values in side.items()}
    for values in beside.values():
        check_lengths(len(table), len(values))

    def ask(changed: pd.DataFrame, of: Places) -> Prediction:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RowsWarning)  # of rows that are made up
            extra: Any = {name: values[of] for name, values in beside.items()}
            return model.predict_distribution(changed, **extra)

    verbose, model.verbose = model.verbose, 0
    try:
        base = ask(table.iloc[looked], looked)
        measured = [_importance(ask, table, truth, base, looked, place, n_repeats, coverage, draw) for place in chosen]
        order = sorted(
            range(len(chosen)), key=lambda at: -(measured[at].width if truth is None else measured[at].crps or 0)
        )
        of_band = looked[np.sort(draw.permutation(len(looked))[:BAND_ROWS])]
        bands = [_band(ask, model, table, chosen[at], of_band) for at in order[:n_bands]]
        contributions = _contributions(ask, model, table, explained, looked, coverage, draw)
    finally:
        model.verbose = verbose
    return Explanation(
        n_rows=len(looked),
        n_repeats=n_repeats,
        coverage=coverage,
        statistic="mean grade" if hasattr(model, "classes_") else "median",
        crps=None if truth is None else float(np.mean(base.crps(truth[looked]))),
        width=float(_widths(base, coverage).mean()),
        importances=tuple(measured[at] for at in order),
        bands=tuple(bands),
        contributions=contributions,
    )


def _truth(model: Any, y: Any, n_rows: int) -> Array | None:
    """Targets as numbers, those of grades as their places. **Shape:** ``(n,)``."""
    if y is None:
        return None
    graded = hasattr(model, "classes_")
    truth = grade_codes(y, model.grades_, "y").astype(np.float64) if graded else as_values(y, "y")
    check_lengths(n_rows, len(truth))
    if not np.isfinite(truth).all():
        raise UserError(f"y must be finite, but row {int(np.flatnonzero(~np.isfinite(truth))[0])} is not; leave it out")
    return truth


def check_lengths(n_rows: int, n_others: int) -> None:
    """Refuse targets, or side columns, that are not as many as the rows."""
    if n_rows != n_others:
        raise UserError(f"X, y and side columns must be equally long, but got {n_rows} and {n_others} rows")


def _explained(rows: Sequence[int] | int, n_rows: int) -> Places:
    """Places of the rows whose contributions are wanted."""
    wanted = np.arange(min(rows, n_rows)) if isinstance(rows, int) else np.asarray(rows, dtype=np.int64)
    wrong = wanted[(wanted < 0) | (wanted >= n_rows)]
    if len(wrong) or (isinstance(rows, int) and rows < 0):
        raise UserError(
            f"rows must be places from 0 to {n_rows - 1}, or how many, but got {wrong[0] if len(wrong) else rows}"
        )
    return wanted


def _widths(prediction: Prediction, coverage: float) -> Array:
    low, high = prediction.interval(coverage).T
    return np.asarray(high - low)


def _importance(
    ask: Ask, table: pd.DataFrame, truth: Array | None, base: Prediction, looked: Places, place: int, n_repeats: int,
    coverage: float, draw: np.random.Generator,
) -> Importance:  # fmt: skip
    """What shuffling a column does, over several shuffles at once."""
    of = np.tile(looked, n_repeats)
    shuffled = table.iloc[of].reset_index(drop=True)
    others = np.concatenate([draw.permutation(looked) for _ in range(n_repeats)])
    shuffled.isetitem(place, table.iloc[:, place].iloc[others].reset_index(drop=True))
    answer = ask(shuffled, of)
    moved = float(np.abs(_widths(answer, coverage) - np.tile(_widths(base, coverage), n_repeats)).mean())
    if truth is None:
        return Importance(str(table.columns[place]), None, None, moved)
    rises = answer.crps(truth[of]).reshape(n_repeats, -1).mean(axis=1) - base.crps(truth[looked]).mean()
    error = float(rises.std(ddof=1) / np.sqrt(n_repeats)) if n_repeats > 1 else None
    return Importance(str(table.columns[place]), float(rises.mean()), error, moved)


def _band(ask: Ask, model: OrdinalEstimator, table: pd.DataFrame, place: int, looked: Places) -> Band:
    """Mean quantiles of the answers to rows, all of which have one value of a column after the other."""
    column = table.iloc[:, place]
    at = _typical_places(column, model.inputs_.columns[place].kind == "category")
    of = np.tile(looked, len(at))
    changed = table.iloc[of].reset_index(drop=True)
    changed.isetitem(place, column.iloc[np.repeat(at, len(looked))].reset_index(drop=True))
    found = ask(changed, of).quantile(LEVELS).reshape(len(at), len(looked), len(LEVELS)).mean(axis=1)
    return Band(str(table.columns[place]), [_plain(value) for value in column.iloc[at]], found.tolist())


def _typical_places(column: pd.Series[Any], is_category: bool) -> Places:
    """Places of the most frequent categories, or of rising numbers from one end of most rows to the other."""
    known = column.reset_index(drop=True).dropna()
    if not len(known):
        return np.zeros(1, dtype=np.int64)
    if is_category:
        first = {value: place for place, value in known.drop_duplicates().items()}
        return np.array([first[value] for value in known.value_counts().index[:N_CATEGORIES]])
    ordered = known.sort_values(kind="stable")
    different = ordered.drop_duplicates()
    if len(different) > N_VALUES:
        shares = np.linspace(0.025, 0.975, N_VALUES)
        different = ordered.iloc[np.rint(shares * (len(ordered) - 1)).astype(np.int64)].drop_duplicates()
    return different.index.to_numpy()


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers and words as they are, dates spelled."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, pd.Timestamp):
        return str(value.date() if value == value.normalize() else value)
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _contributions(
    ask: Ask, model: OrdinalEstimator, table: pd.DataFrame, explained: Places, looked: Places, coverage: float,
    draw: np.random.Generator,
) -> Contributions:  # fmt: skip
    """Shapley values by walks from a background row to the explained one, in an order of the columns and backwards."""
    p, r = table.shape[1], len(explained)
    pairs = max(min(PAIRS, MOST_ASKED // (2 * max(r, 1) * (p + 1))), 1)
    orders = np.stack([draw.permutation(p) for _ in range(pairs)])
    orders = np.concatenate([orders, orders[:, ::-1]])  # (m, p)
    ranks, background = np.argsort(orders, axis=1), np.tile(draw.choice(looked, pairs), 2)
    shape = r, 2 * pairs, p + 1
    of = np.broadcast_to(explained[:, None, None], shape)
    walked = {}
    for place in range(p):
        is_own = ranks[None, :, None, place] < np.arange(p + 1)
        source = np.where(is_own, explained[:, None, None], background[None, :, None]).ravel()
        walked[place] = table.iloc[:, place].iloc[source].reset_index(drop=True)
    rows = pd.DataFrame(walked).set_axis(table.columns, axis=1)
    centres, widths = np.zeros(shape), np.zeros(shape)
    if r:
        answer = ask(rows, of.ravel())
        centre = answer.mean if hasattr(model, "classes_") else answer.median
        centres, widths = np.reshape(centre, shape), np.reshape(_widths(answer, coverage), shape)
    steps = [np.take_along_axis(np.diff(one, axis=2), np.broadcast_to(ranks, (r, *ranks.shape)), 2).mean(1)
             for one in (centres, widths)]  # fmt: skip
    return Contributions(
        rows=explained.tolist(),
        columns=[str(name) for name in table.columns],
        mean_answer=float(centres[:, :, 0].mean()) if r else 0.0,
        mean_width=float(widths[:, :, 0].mean()) if r else 0.0,
        answers=centres[:, 0, -1].tolist(),
        widths=widths[:, 0, -1].tolist(),
        centre=steps[0].tolist(),
        width=steps[1].tolist(),
    )
