"""Whether one model is as sure as it may be: coverage, places of the truth, widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor import metrics
from diffor.core.prediction import Prediction
from diffor.errors import UserError
from diffor.reports.plots.drawing import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, legend_above, new_axes, true_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating]

LEVELS = np.arange(5, 100, 5) / 100
"""Nominal coverages of the intervals that are drawn."""
NAMED_LEVELS = (50, 80, 90, 95)
"""Those that are written beside the line, in percent."""


def calibration(y: ArrayLike, prediction: Prediction, ax: Axes | None = None) -> Axes:
    """Draw how many rows the central intervals hold against how many they should, for levels 0.05 to 0.95.

    The band holds 95% of what a calibrated model would achieve at each level on as many rows (binomial).

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    from scipy.stats import binom  # here, since importing scipy.stats takes long

    true = true_values(y, prediction)
    ax = new_axes(ax)
    achieved = [metrics.coverage(true, *prediction.interval(float(level)).T) for level in LEVELS]
    low, high = (binom.ppf(tail, len(true), LEVELS) / len(true) for tail in (0.025, 0.975))
    ax.fill_between(LEVELS, low, high, color=GREY, alpha=0.3, linewidth=0, label="95% range of a calibrated model")
    ax.plot([0, 1], [0, 1], "--", color=BLACK, linewidth=1, label="ideal")
    ax.plot(LEVELS, achieved, "o-", color=BLUE, markersize=5, label=f"achieved on {len(true)} rows")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="nominal coverage of the interval", ylabel="share of rows inside")
    ax.set_aspect("equal")
    legend_above(ax)
    return ax


def pit_histogram(y: ArrayLike, prediction: Prediction, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw how often the truth falls into each of ``n_bins`` equal parts of its row's distribution.

    A calibrated model has as many rows in each. Hills at both ends mean too narrow distributions, a hill in the middle
    too wide ones, a slope answers that are too low or too high. Where samples equal the truth, or it has a
    probability of its own, a random place among them or in that is taken (:meth:`diffor.Prediction.pit`).

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    from scipy.stats import binom  # here, since importing scipy.stats takes long

    true = true_values(y, prediction)
    shares = pit_shares(true, prediction, n_bins)
    ax = new_axes(ax)
    low, high = binom.ppf([0.025, 0.975], len(true), 1 / n_bins) / len(true)
    centres, odd = (np.arange(n_bins) + 0.5) / n_bins, (shares < low) | (shares > high)
    ax.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0, label="95% range if calibrated")
    ax.axhline(1 / n_bins, linestyle="--", color=BLACK, linewidth=1, label="ideal")
    for chosen, colour, hatch, words in (
        (~odd, SKY, "", f"share of {len(true)} rows"),
        (odd, ORANGE, "///", "outside that range"),
    ):
        if chosen.any():
            look: dict[str, Any] = {"color": colour, "edgecolor": BLACK, "linewidth": 0.8, "hatch": hatch, "alpha": 0.8}
            ax.bar(centres[chosen], shares[chosen], 0.96 / n_bins, label=words, **look)
    ax.set_xlim(0, 1)
    ax.set(xlabel="place of the truth in its predicted distribution", ylabel="share of rows")
    legend_above(ax, columns=2)
    return ax


def pit_shares(y: ArrayLike, prediction: Prediction, n_bins: int = 10) -> Array:
    """Share of rows whose truth falls into each equal part of its distribution. **Shape:** ``(n,)`` -> ``(n_bins,)``.

    >>> pit_shares([0.0, 9.0], Prediction([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), n_bins=2).tolist()
    [0.5, 0.5]
    """
    if n_bins < 2:
        raise UserError(f"n_bins must be at least 2, but got n_bins={n_bins}; 10 is customary")
    places = prediction.pit(true_values(y, prediction))
    bins = np.minimum((places * n_bins).astype(np.int64), n_bins - 1)
    return np.asarray(np.bincount(bins, minlength=n_bins) / len(places))


def coverage_against_width(y: ArrayLike, prediction: Prediction, ax: Axes | None = None) -> Axes:
    """Draw the share of rows that central intervals hold against their mean width, for levels 0.05 to 0.95.

    The dashed line is what the intervals promise; a few promises are written beside it. Of two models the one whose
    line lies further left holds as many rows in narrower intervals.

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    true = true_values(y, prediction)
    ends = [prediction.interval(float(level)).T for level in LEVELS]
    achieved = [metrics.coverage(true, low, high) for low, high in ends]
    widths = [metrics.interval_width(low, high) for low, high in ends]
    ax = new_axes(ax)
    ax.plot(widths, LEVELS, "--", color=BLACK, linewidth=1, label="promised")
    ax.plot(widths, achieved, "o-", color=BLUE, markersize=5, label=f"achieved on {len(true)} rows")
    for level, width, share in zip(LEVELS, widths, achieved, strict=True):
        if round(100 * level) in NAMED_LEVELS:
            ax.plot([width, width], [level, share], "-", color=VERMILLION, linewidth=1.5)
            ax.plot(width, level, "s", color=VERMILLION, markersize=6, markerfacecolor="none")
            # On the side where the other line is not.
            away, side = ((-6, 3), "right") if share <= level else ((6, -10), "left")
            beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": VERMILLION, "ha": side}
            ax.annotate(f"{level:.0%}", (width, level), away, **beside)
    ax.plot([], [], "s-", color=VERMILLION, markerfacecolor="none", label="a promise, and how far it is from kept")
    ax.set_ylim(0, 1.02)
    ax.set_xlim(0, 1.08 * max(*widths, 1e-12))
    ax.set(xlabel="mean width of the intervals", ylabel="share of rows inside")
    legend_above(ax)
    return ax


def grade_calibration(codes: ArrayLike, probabilities: ArrayLike, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw how often grades come true against how probable the model says they are, each grade of each row once.

    Bars are 95% intervals of the share (Wilson's).

    **Shape:** codes ``(n,)``, positions among the K grades, probabilities ``(n, K)``.
    """
    from scipy.stats import binomtest  # here, since importing scipy.stats takes long

    said, share, counts = grade_shares_by_probability(codes, probabilities, n_bins)
    # Shares are counts again: of n probabilities in a bin, k came true.
    ends = [binomtest(round(p * n), int(n)).proportion_ci(0.95, "wilson") for p, n in zip(share, counts, strict=True)]
    low, high = np.array([[np.minimum(one.low, p), np.maximum(one.high, p)]
                          for one, p in zip(ends, share, strict=True)]).T  # fmt: skip
    ax = new_axes(ax)
    ax.plot([0, 1], [0, 1], "--", color=BLACK, linewidth=1, label="ideal")
    bars: dict[str, Any] = {"color": BLUE, "markersize": 5.5, "elinewidth": 1.4, "capsize": 3, "linewidth": 1.2}
    label = f"came true, of {counts.sum()} probabilities"
    ax.errorbar(said, share, np.stack([share - low, high - share]), fmt="o-", label=label, **bars)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability that the model gives", ylabel="share that came true")
    ax.set_aspect("equal")
    legend_above(ax)
    return ax


def grade_shares_by_probability(
    codes: ArrayLike, probabilities: ArrayLike, n_bins: int = 10
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Mean probability, share that came true and number of probabilities, in equally wide bins that are not empty.

    **Shape:** ``(n,)``, ``(n, K)`` -> three times ``(at most n_bins,)``.

    >>> said, share, counts = grade_shares_by_probability([0, 1], [[0.9, 0.1], [0.9, 0.1]], n_bins=2)
    >>> said.round(1).tolist(), share.tolist(), counts.tolist()
    ([0.1, 0.9], [0.5, 0.5], [2, 2])
    """
    table, places = np.asarray(probabilities, dtype=np.float64), np.asarray(codes)
    if table.ndim != 2 or places.shape != table.shape[:1] or not table.size or n_bins < 1:
        raise UserError(
            "probabilities must have one row for each code and one column for each grade, and n_bins be positive, "
            f"but got codes.shape={places.shape}, probabilities.shape={table.shape}, n_bins={n_bins}"
        )
    came_true = places[:, None] == np.arange(table.shape[1])
    bins = np.minimum((table * n_bins).astype(np.int64), n_bins - 1).ravel()
    counts = np.bincount(bins, minlength=n_bins)
    known = counts > 0
    said = np.bincount(bins, table.ravel(), n_bins)[known] / counts[known]
    return said, np.bincount(bins, came_true.ravel(), n_bins)[known] / counts[known], counts[known]
