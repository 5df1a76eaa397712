"""Methods beside each other: scores, calibration, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.reports.plots.drawing import (
    BLACK,
    BLUE,
    FIGURE_SIZE,
    GREY,
    METHOD_LOOKS,
    VERMILLION,
    legend_above,
    new_axes,
    plain_powers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.floating]


def score_against_seconds(
    methods: Sequence[str],
    seconds: ArrayLike,
    scores: ArrayLike,
    ours: Sequence[str] = (),
    seconds_label: str = "seconds",
    score_label: str = "score",
    ax: Axes | None = None,
) -> Axes:
    """Draw each method's score, lower is better, against the seconds it takes; the names stand at the right.

    The line joins the methods that no other one beats in both.

    **Shape:** methods, seconds and scores ``(m,)``.
    """
    x, y = np.asarray(seconds, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    ax = new_axes(ax, height=max(FIGURE_SIZE[1], 1.4 + 0.19 * len(methods)))
    ax.set_xscale("log")
    front = [place for place in np.argsort(x, kind="stable") if not ((x <= x[place]) & (y < y[place])).any()]
    ax.plot(x[front], y[front], "-", color=GREY, linewidth=1, drawstyle="steps-post", label="not beaten in both")
    for place, method in enumerate(methods):
        colour, marker = (VERMILLION, "D") if method in ours else (BLUE, "o")
        ax.plot(x[place], y[place], marker, color=colour, markersize=6)
    ax.margins(0.08)
    plain_powers(ax)
    ax.set(xlabel=seconds_label, ylabel=score_label)
    _names_at_right(ax, methods, x, y, ours)
    legend_above(ax)
    return ax


def calibration_of_methods(
    levels: ArrayLike, achieved: Mapping[str, ArrayLike], ours: Sequence[str] = (), ax: Axes | None = None
) -> Axes:
    """Draw for each method how many rows its central intervals hold beyond what they should, in percentage points.

    **Shape:** levels ``(l,)``, achieved ``(l,)`` for each method.
    """
    nominal = np.asarray(levels, dtype=np.float64)
    ax = new_axes(ax)
    ax.axhline(0, linestyle="--", color=BLACK, linewidth=1, label="ideal")
    for place, (method, values) in enumerate(achieved.items()):
        colour, marker = METHOD_LOOKS[place % len(METHOD_LOOKS)]
        line = "-" if method in ours else ":"
        beyond = 100 * (np.asarray(values, dtype=np.float64) - nominal)
        ax.plot(nominal, beyond, f"{marker}{line}", color=colour, markersize=4.5, linewidth=1.4, label=method)
    ax.set(xlim=(0, 1), xlabel="nominal coverage of the interval", ylabel="coverage less nominal, points")
    legend_above(ax, columns=2)
    return ax


def coverage_by_dataset(
    datasets: Sequence[str],
    coverages: Mapping[str, ArrayLike],
    band: tuple[float, float] = (0.87, 0.93),
    nominal: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coverage of each method's intervals on each data set, beside the band that it should keep to.

    **Shape:** datasets ``(d,)``, coverages ``(d,)`` for each method.
    """
    ax = new_axes(ax, height=1.5 + 0.2 * len(datasets) + 0.1 * len(coverages))
    places = np.arange(len(datasets))
    ax.axvspan(*band, color=GREY, alpha=0.3, linewidth=0, label=f"{band[0]:.0%} to {band[1]:.0%}")
    ax.axvline(nominal, linestyle="--", color=BLACK, linewidth=1, label=f"nominal {nominal:.0%}")
    for place, (method, values) in enumerate(coverages.items()):
        colour, marker = METHOD_LOOKS[place % len(METHOD_LOOKS)]
        ax.plot(np.asarray(values), places, marker, color=colour, markersize=5, alpha=0.9, label=method)
    ax.set_yticks(places, list(datasets), fontsize=8)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    ax.set_ylim(len(datasets) - 0.4, -0.6)
    ax.set_xlabel("share of rows inside their 90% interval" if nominal == 0.9 else "share of rows inside")
    legend_above(ax, columns=2)
    return ax


def critical_differences(
    methods: Sequence[str], ranks: ArrayLike, difference: float, ours: Sequence[str] = (), ax: Axes | None = None
) -> Axes:
    """Draw mean ranks, best on top; bars join methods that differ by less than the critical difference.

    **Shape:** methods and ranks ``(m,)``.
    """
    values = np.asarray(ranks, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    values, names = values[order], [methods[place] for place in order]
    ax = new_axes(ax, height=1.2 + 0.24 * len(names))
    places = np.arange(len(names))
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        colour, marker = (VERMILLION, "D") if name in ours else (BLUE, "o")
        ax.plot([values[0], value], [place, place], color=GREY, linewidth=0.6, alpha=0.5)
        ax.plot(value, place, marker, color=colour, markersize=6)
    for number, (first, last) in enumerate(joined_groups(values, difference)):
        along = values[last] + (0.25 + 0.12 * (number % 2)) * (values[-1] - values[0] + 1) / 10
        label = f"less than {difference:.2f} apart" if number == 0 else None
        ax.plot([along, along], [first - 0.15, last + 0.15], color=BLACK, linewidth=2.2, label=label)
    ax.set_yticks(places, names, fontsize=9)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel("mean rank, 1 is best")
    if ax.get_legend_handles_labels()[0]:
        legend_above(ax)
    return ax


def joined_groups(ranks: ArrayLike, difference: float) -> list[tuple[int, int]]:
    """Longest runs of rising ranks whose ends are less than the difference apart, as first and last place.

    >>> joined_groups([1.0, 1.5, 2.5, 6.0], 2.0)
    [(0, 2)]
    """
    values = np.asarray(ranks, dtype=np.float64)
    groups: list[tuple[int, int]] = []
    for first, value in enumerate(values):
        last = int(np.searchsorted(values, value + difference, side="left")) - 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def _names_at_right(ax: Axes, names: Sequence[str], x: Array, y: Array, ours: Sequence[str]) -> None:
    """Each point's name beside the axes, no two on one another, with a thin line to its point."""
    from sklearn.isotonic import isotonic_regression

    low, high = ax.get_ylim()
    figure: Any = ax.figure
    order = np.argsort(y, kind="stable")
    # As shares of the height: a line of text of eight points on the figure's height in inches. Places are as near to
    # the wanted ones as they can be with a step between neighbours: places less steps must not fall.
    steps = 0.23 / float(figure.get_figheight()) * np.arange(len(y))
    places = isotonic_regression((y[order] - low) / (high - low) - steps) + steps
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "alpha": 0.7, "shrinkB": 3}
    look: dict[str, Any] = {"textcoords": "axes fraction", "fontsize": 8, "va": "center", "annotation_clip": False}
    for place, index in zip(places, order, strict=True):
        weight = "bold" if names[index] in ours else "normal"
        ax.annotate(names[index], (x[index], y[index]), (1.03, place), fontweight=weight, arrowprops=line, **look)
