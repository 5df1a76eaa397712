"""From coarse to fine: how one answer of DiffoR comes about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.reports.plots.drawing import BLUE, GREY, SKY, VERMILLION, legend_above, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating]

MAX_LABELLED_CELLS = 16


def increments_of(
    increments: ArrayLike, low: float, high: float, y: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one prediction as a thermometer that fills from coarse to fine.

    Each line is one increment: its cell of the range, how far the cell is filled, and the value so far, which is
    ``low`` plus all increments down to that line. Cells are equally wide, as they are with ``transform="uniform"``.

    **Shape:** increments ``(S,)`` in the target's units, as one row of ``predict_increments``.
    """
    filled = np.asarray(increments, dtype=np.float64)
    if filled.ndim != 1 or not len(filled) or not high > low:
        raise UserError(
            f"increments must be one row (S,) and low < high, but got shape={filled.shape}, low={low}, high={high}"
        )
    count, width = len(filled), (high - low) / len(filled)
    slack = 1e-4 * width  # rounding of single precision
    if filled.min() < -slack or filled.max() > width + slack:
        raise UserError(
            f"each increment must lie between 0 and its cell's width {width:.4g}, but got {filled.min():.4g} to "
            f"{filled.max():.4g}; check low and high, and that the model has transform='uniform'"
        )
    ax = new_axes(ax)
    places, left = np.arange(1, count + 1), low + width * np.arange(count)
    value = low + np.cumsum(filled)
    digits = max(0, 3 - int(np.floor(np.log10(high - low))))  # steps of a thousandth of the range are told apart
    ax.barh(places, width, 0.7, left, facecolor="none", edgecolor=GREY, linewidth=1, label="cell of an increment")
    ax.barh(places, filled, 0.7, left, color=SKY, label="filled part")
    ax.plot(value, places, "o-", color=BLUE, markersize=5, linewidth=1.2, label="value so far")
    if y is not None:
        ax.axvline(y, color=VERMILLION, linestyle="--", linewidth=1.5, label=f"true value {y:.{digits}f}")
    ax.set_xlim(low - 0.01 * (high - low), high + 0.01 * (high - low))
    ax.set_ylim(count + 0.6, 0.4)  # the coarsest increment on top
    labelled = _labelled(count)
    ax.set_yticks(labelled)
    ax.set(xlabel=f"value; all increments together reach {value[-1]:.{digits}f}", ylabel="increment, coarse to fine")
    so_far = ax.secondary_yaxis("right")
    so_far.set_yticks(labelled, [f"{value[place - 1]:.{digits}f}" for place in labelled])
    so_far.set_ylabel("value so far")
    legend_above(ax, columns=2)
    return ax


def increments_by_scale(true: ArrayLike, predicted: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw the mean of each increment, true and predicted, and how far the predicted ones are off on average.

    **Shape:** true and predicted ``(n, S)``, in the same units.
    """
    filled, answered = (np.asarray(values, dtype=np.float64) for values in (true, predicted))
    if filled.shape != answered.shape or filled.ndim != 2 or not filled.size:
        raise UserError(
            "true and predicted increments must have the same shape (n, S), but got "
            f"true.shape={filled.shape}, predicted.shape={answered.shape}"
        )
    ax = new_axes(ax)
    places = np.arange(1, filled.shape[1] + 1)
    ax.bar(places, np.abs(answered - filled).mean(axis=0), 0.7, color=SKY, label="mean absolute error")
    ax.plot(places, filled.mean(axis=0), "D--", color=VERMILLION, markersize=5, linewidth=1.2, label="true, on average")
    look: dict[str, Any] = {"color": BLUE, "markersize": 5, "linewidth": 1.2}
    ax.plot(places, answered.mean(axis=0), "o-", label="predicted, on average", **look)
    ax.set_xticks(_labelled(len(places)))
    ax.set_ylim(bottom=0)
    ax.set(xlabel="increment, coarse to fine", ylabel="filled part, in the target's units")
    legend_above(ax, columns=2)
    return ax


def denoising_trajectory(
    times: ArrayLike, values: ArrayLike, y: float | None = None, n_paths: int = 6, ax: Axes | None = None
) -> Axes:
    """Draw one row's value along the reverse chain, from pure noise at the left to the answer at the right.

    The line is the median over the samples, the bands hold half and nine tenths of them, and ``n_paths`` samples are
    drawn one by one.

    **Shape:** times ``(k,)`` falling, values ``(m, k)``, the value that each of m samples has reached at each time.
    """
    when, reached = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if reached.ndim != 2 or reached.shape[1:] != when.shape or not reached.size or not (np.diff(when) < 0).all():
        raise UserError(
            "times must fall and values have one row for each sample and one column for each time, but got "
            f"times={when.tolist()}, values.shape={reached.shape}"
        )
    ax = new_axes(ax)
    levels = np.quantile(reached, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    ax.fill_between(when, levels[0], levels[4], color=SKY, alpha=0.35, linewidth=0, label="90% of the samples")
    ax.fill_between(when, levels[1], levels[3], color=BLUE, alpha=0.35, linewidth=0, label="50% of the samples")
    for place, path in enumerate(reached[:n_paths]):
        ax.plot(when, path, "-", color=GREY, linewidth=0.8, label="single samples" if place == 0 else None)
    ax.plot(when, levels[2], "o-", color=BLUE, markersize=4.5, linewidth=1.8, label="median", clip_on=False)
    if y is not None:
        ax.axhline(y, linestyle="--", color=VERMILLION, linewidth=1.5, label=f"true value {y:.4g}")
    if len(when) > 1:
        ax.set_xlim(when[0], when[-1])  # time falls from left to right
    ax.set_xticks(when[np.unique(np.linspace(0, len(when) - 1, 6).round().astype(np.int64))])
    ax.set(xlabel="time of the reverse chain: from noise to the answer", ylabel="value read off the chain")
    legend_above(ax, columns=2)
    return ax


def _labelled(count: int) -> NDArray[np.int64]:
    """Which of S increments have a number beside them: all, or a few of many. **Shape:** -> ``(at most S,)``."""
    if count <= MAX_LABELLED_CELLS:
        return np.arange(1, count + 1)
    return np.unique(np.linspace(1, count, 8).astype(np.int64))
