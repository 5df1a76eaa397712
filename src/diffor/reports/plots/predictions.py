"""One model's answers beside the truth, and how its training went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.errors import UserError
from diffor.reports.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    legend_above,
    new_axes,
    true_values,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffor.training.loop import History

Array = NDArray[np.floating]

MAX_LARGE_POINTS = 300
MEAN_DENSITY_WIDTH = 1 / 50
"""Share of what is shown over which densities in closed form are averaged."""


def predicted_against_true(
    y: ArrayLike,
    prediction: Prediction,
    coverage: float | None = 0.9,
    intervals: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each row's median and central interval against its true value; rows whose interval misses stand out.

    Other ``intervals`` can be given, such as those with a guaranteed coverage. With ``coverage=None`` there are points
    only, for methods that do not say how sure they are.

    **Shape:** y ``(n,)``, prediction of n rows, intervals ``(n, 2)``.
    """
    true, median = true_values(y, prediction), prediction.median
    ax = new_axes(ax)
    size = 5.0 if len(true) <= MAX_LARGE_POINTS else 2.0
    if coverage is None:
        low = high = median
        ax.plot(true, median, "o", color=BLUE, markersize=size, label=f"{len(true)} rows")
    else:
        ends = prediction.interval(coverage) if intervals is None else np.asarray(intervals, dtype=np.float64)
        if ends.shape != (len(true), 2):
            raise UserError(
                f"intervals must hold two ends for each predicted row, but got shape={ends.shape}, rows={len(true)}"
            )
        low, high = ends.T
        inside = (low <= true) & (true <= high)
        for chosen, colour, marker, big, words in (
            (inside, BLUE, "o", size, "interval holds the truth"),
            (~inside, VERMILLION, "X", 1.3 * size, "interval misses it"),
        ):
            ax.vlines(true[chosen], low[chosen], high[chosen], colors=colour, alpha=0.55, linewidth=size / 4)
            label = f"{words}: {chosen.sum()} of {len(true)} ({chosen.mean():.0%})"
            ax.plot(true[chosen], median[chosen], marker, color=colour, markersize=big, label=label)
    span = [min(true.min(), low.min()), max(true.max(), high.max())]
    ax.plot(span, span, "--", color=BLACK, linewidth=1, label="predicted = true")
    ax.set_xlabel("true value")
    ax.set_ylabel("predicted value" if coverage is None else f"predicted median and {coverage:.0%} interval")
    legend_above(ax)
    return ax


def predictive_densities(
    prediction: Prediction,
    y: ArrayLike | None = None,
    rows: Sequence[int] | None = None,
    bounds: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the densities of a few rows above each other, with the truth where it is known.

    All densities have the same area. Of samples they are kernel estimates, of a distribution in closed form they are
    exact averages over a fiftieth of the range, so that a value with a probability of its own is a bar. Either is
    reflected at the ``bounds`` so that nothing leaves them.
    Without ``rows``, up to six are shown that stand evenly between the lowest and the highest median.

    **Shape:** prediction of n rows, y ``(n,)``, rows ``(r,)`` of numbers below n.
    """
    true = None if y is None else true_values(y, prediction)
    ax = new_axes(ax)
    if rows is None:  # evenly from the lowest median to the highest
        order = np.argsort(prediction.median, kind="stable")
        rows = order[np.unique(np.linspace(0, len(order) - 1, 6).round().astype(np.int64))].tolist()
    shown = np.asarray(rows, dtype=np.int64)
    chosen = prediction[shown]
    grid = _density_grid(chosen.quantile([0, 1]), bounds)
    if isinstance(chosen, CdfPrediction):
        densities = mean_densities(chosen, grid, bounds)
    else:
        densities = np.stack([density(samples, grid, bounds) for samples in chosen.samples])
    unit = 0.85 / densities.max()
    for place, (row, curve) in enumerate(zip(shown, densities * unit, strict=True)):
        ax.fill_between(grid, place, place + curve, color=SKY, alpha=0.5, linewidth=0)
        ax.plot(grid, place + curve, color=BLUE, linewidth=1.3, label="predicted density" if place == 0 else None)
        if true is not None:
            label = "true value" if place == 0 else None
            ax.plot([true[row]] * 2, [place, place + 0.6], color=VERMILLION, linewidth=1.5)
            ax.plot(true[row], place, "D", color=VERMILLION, markersize=5.5, label=label, clip_on=False)
    ax.set_yticks(range(len(shown)), [f"row {row}" for row in shown])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(-0.15, len(shown))
    ax.set_xlabel("value")
    legend_above(ax, columns=2)
    return ax


def error_by_range(y: ArrayLike, prediction: Prediction, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw the mean absolute error of the median in ranges of the true value, with twice its standard error.

    Ranges hold about equally many rows; each line says how many.

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    true = true_values(y, prediction)
    errors = np.abs(prediction.median - true)
    ranges = ranges_of(true, n_bins)
    ax = new_axes(ax, height=1.3 + 0.3 * len(ranges))
    places = np.arange(len(ranges))
    middle = np.array([errors[part.rows].mean() for part in ranges])
    around = np.array([standard_error(errors[part.rows]) for part in ranges])
    ax.axvline(errors.mean(), linestyle="--", color=BLACK, linewidth=1, label=f"all {len(true)} rows")
    bars: dict[str, Any] = {"color": BLUE, "markersize": 6, "elinewidth": 1.6, "capsize": 3}
    ax.errorbar(middle, places, xerr=2 * around, fmt="o", label="range, with two standard errors", **bars)
    digits = digits_of(float(np.ptp(true)))
    names = [f"{part.low:.{digits}f} to {part.high:.{digits}f}  ({len(part.rows)} rows)" for part in ranges]
    ax.set_yticks(places, names, fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, len(ranges) - 0.4)  # high values on top, as on an axis
    ax.set_xlim(left=min(0.0, float((middle - 2 * around).min())))
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    ax.set(xlabel="mean absolute error of the median", ylabel="true value")
    legend_above(ax)
    return ax


class Range(NamedTuple):
    """Rows whose values lie between two ends, both included. **Shape:** rows ``(r,)``, their numbers."""

    low: float
    high: float
    rows: NDArray[np.int64]


def ranges_of(values: ArrayLike, n_bins: int) -> list[Range]:
    """Rows in up to ``n_bins`` ranges of about equally many, from low to high; equal values are never parted.

    **Shape:** ``(n,)``.

    >>> [(part.low, part.high, len(part.rows)) for part in ranges_of([1.0, 2.0, 2.0, 2.0, 3.0, 4.0], 3)]
    [(1.0, 2.0, 4), (3.0, 4.0, 2)]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if n_bins < 1:
        raise UserError(f"n_bins must be at least 1, but got n_bins={n_bins}; 10 is customary")
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    # A range ends behind all rows that are equal to its last one.
    wanted = np.ceil(np.arange(1, n_bins + 1) * len(rising) / n_bins).astype(np.int64)
    ends = np.unique(np.searchsorted(rising, rising[wanted - 1], side="right"))
    parts = np.split(order, ends[:-1])
    return [Range(float(numbers[rows[0]]), float(numbers[rows[-1]]), rows) for rows in parts]


def standard_error(values: Array) -> float:
    """Standard error of a mean; 0 where one value cannot tell. **Shape:** ``(n,)``."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def digits_of(span: float) -> int:
    """Digits behind the point that tell a hundredth of a span apart.

    >>> digits_of(300.0), digits_of(7.0), digits_of(0.02)
    (0, 2, 4)
    """
    return max(0, 2 - int(np.floor(np.log10(span)))) if span > 0 else 2


def training_history(history: History, ax: Axes | None = None) -> Axes:
    """Draw the validation CRPS (left axis) and the loss terms (right axis) against the step, and mark the best step.

    Without validation rows there is no CRPS, and the loss terms take the left axis.
    """
    records = history.records
    if not records:
        raise UserError("a history must hold at least one record, but it is empty; train for at least one step")
    ax = new_axes(ax)
    has_score = any("valid_crps" in record for record in records)
    losses = ax.twinx() if has_score else ax
    if has_score:
        ax.plot(*_series(records, "valid_crps"), "o-", color=BLUE, markersize=4, label="validation CRPS (left)")
        ax.axvline(history.best_step, color=BLACK, linestyle=":", linewidth=1.5, label=f"best step {history.best_step}")
        ax.set_ylabel("validation CRPS")
        losses.spines["top"].set_visible(False)
    known = dict.fromkeys(name for record in records for name in record)  # a look before the first step has no losses
    names = [name for name in known if name not in ("step", "seconds", "valid_crps", "kind")]
    looks = [("--s", ORANGE), ("-.^", GREEN), (":v", VERMILLION), ("-x", GREY)]
    for place, name in enumerate(names):
        style, colour = looks[place % len(looks)]
        label = f"{name} loss (right)" if has_score else f"{name} loss"
        losses.plot(*_series(records, name), style, color=colour, markersize=3.5, linewidth=1.2, label=label)
    losses.set_yscale("log")
    losses.set_ylabel("training loss, log scale")
    ax.set_xlabel("step")
    legend_above(ax, columns=2, others=[losses] if has_score else [])
    return ax


def density(samples: ArrayLike, grid: ArrayLike, bounds: tuple[float, float] | None = None) -> Array:
    """Kernel estimate of the density behind samples; what would leak past the bounds is reflected into them.

    **Shape:** samples ``(m,)``, grid ``(g,)`` -> ``(g,)``.

    >>> density([0.0, 0.0], [-1.0, 0.0, 1.0], bounds=(0, 10)).round(3).tolist()
    [0.0, 7.979, 0.0]
    """
    drawn, places = np.asarray(samples, dtype=np.float64), np.asarray(grid, dtype=np.float64)
    spread = (bounds[1] - bounds[0]) if bounds is not None else float(np.ptp(drawn)) or 1.0
    quarter, three = np.quantile(drawn, [0.25, 0.75])
    scale = min(float(drawn.std()), float(three - quarter) / 1.34 or np.inf)
    # Silverman's rule, but never so narrow that equal samples become an invisible spike.
    width = max(0.9 * scale * len(drawn) ** -0.2, 0.01 * spread)
    centres = [drawn] if bounds is None else [drawn, 2 * bounds[0] - drawn, 2 * bounds[1] - drawn]
    distance = (places[:, None] - np.concatenate(centres)) / width  # (g, m or 3 m)
    heights = np.exp(-(distance**2) / 2).sum(axis=1) / (len(drawn) * width * np.sqrt(2 * np.pi))
    if bounds is not None:
        heights[(places < bounds[0]) | (places > bounds[1])] = 0.0
    return np.asarray(heights)


def mean_densities(prediction: CdfPrediction, grid: Array, bounds: tuple[float, float] | None = None) -> Array:
    """Density of each row, averaged over a fiftieth of the grid around each place of it and reflected at the bounds.

    **Shape:** grid ``(g,)`` rising -> ``(n, g)``.

    >>> mean_densities(CdfPrediction([0, 0, 10], [[0, 0.5, 1]]), np.array([0.0, 5.0, 10.0]), bounds=(0, 10)).round(2)
    array([[5.05, 0.05, 0.05]])
    """
    half = MEAN_DENSITY_WIDTH / 2 * (grid[-1] - grid[0])
    centres = [grid] if bounds is None else [grid, 2 * bounds[0] - grid, 2 * bounds[1] - grid]
    inside = [prediction.cdf((at + half)[None]) - prediction.cdf_below((at - half)[None]) for at in centres]
    return np.asarray(np.sum(inside, axis=0) / (2 * half))


def _density_grid(ends: Array, bounds: tuple[float, float] | None) -> Array:
    """Places at which densities are drawn: the bounds, or between the outermost ends of rows and a little more."""
    if bounds is not None:
        if ends.min() < bounds[0] or ends.max() > bounds[1]:
            raise UserError(
                f"samples must lie inside bounds={bounds}, but they reach from {ends.min()} to {ends.max()}"
            )
        return np.linspace(bounds[0], bounds[1], 400)
    margin = 0.1 * float(np.ptp(ends)) or 1.0
    return np.linspace(ends.min() - margin, ends.max() + margin, 400)


def _series(records: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    """Steps and values; a gap stands where another kind of network begins anew."""
    steps: list[float] = []
    values: list[float] = []
    for record in (record for record in records if name in record):
        is_anew = bool(steps) and record["step"] < steps[-1]
        steps += [steps[-1], record["step"]] if is_anew else [record["step"]]
        values += [float("nan"), record[name]] if is_anew else [record[name]]
    return steps, values
