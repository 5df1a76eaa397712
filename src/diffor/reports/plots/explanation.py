"""What moves a model's answers and makes it unsure: uncertainty in parts, importances, bands over a column's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.reports.plots.drawing import (
    BLUE,
    FIGURE_SIZE,
    GREY,
    ORANGE,
    SKY,
    legend_above,
    new_axes,
    require_matplotlib,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_GROUPS = 10
"""Groups of equally many rows, from the surest to the least sure."""


def uncertainty_parts(epistemic: ArrayLike, aleatoric: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw both parts of the variance in groups of rows, from the surest tenth to the least sure.

    Bars are as high as the mean standard deviation of their rows; each is divided as the variance is.

    **Shape:** ``(n,)`` each.
    """
    known, doubt = np.asarray(epistemic, dtype=np.float64), np.asarray(aleatoric, dtype=np.float64)
    if known.shape != doubt.shape or known.ndim != 1 or not len(known):
        raise UserError(
            f"epistemic and aleatoric must hold one number for each row, but got {known.shape} and {doubt.shape}"
        )
    groups = np.array_split(np.argsort(known + doubt, kind="stable"), min(N_GROUPS, len(known)))
    heights = np.array([np.sqrt((known + doubt)[rows]).mean() for rows in groups])
    shares = np.array([known[rows].sum() / max((known + doubt)[rows].sum(), np.finfo(float).tiny) for rows in groups])
    ax = new_axes(ax, height=3.4)
    places = np.arange(len(groups))
    look: dict[str, Any] = {"width": 0.8, "edgecolor": GREY, "linewidth": 0.6}
    ax.bar(places, heights * (1 - shares), color=SKY, label="aleatoric", **look)
    ax.bar(
        places, heights * shares, bottom=heights * (1 - shares), color=ORANGE, hatch="///", label="epistemic", **look
    )
    ax.set_xticks(places, [f"{share:.0%}" for share in shares])
    ax.set(xlabel="tenths of the rows, surest first, with the epistemic share", ylabel="standard deviation")
    legend_above(ax, columns=2)
    return ax


def importances(columns: Sequence[str], crps: Sequence[float] | None, width: Sequence[float]) -> Axes:
    """Draw how important columns are for the error and, beside it, for the width of intervals; the first on top.

    **Shape:** ``(p,)`` each.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    sides = [("change of width", width, ORANGE)]
    if crps is not None:
        sides.insert(0, ("rise of CRPS", crps, BLUE))
    figure = Figure(figsize=(FIGURE_SIZE[0], 1.1 + 0.28 * len(columns)), layout="constrained")
    axes: list[Axes] = [figure.add_subplot(1, len(sides), place + 1) for place in range(len(sides))]
    places = np.arange(len(columns))[::-1]
    for place, (ax, (label, values, colour)) in enumerate(zip(axes, sides, strict=True)):
        new_axes(ax)
        ax.barh(places, values, color=colour, height=0.7)
        ax.set_yticks(places, [shortened(name) for name in columns] if place == 0 else [""] * len(columns), fontsize=9)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(label)
        ax.locator_params(axis="x", nbins=4)
    return axes[0]


def dependence_bands(bands: Sequence[tuple[str, Sequence[Any], Sequence[Sequence[float]]]]) -> Axes:
    """Draw quantiles of the answer over each column's values: two bands around a line, two panels beside each other.

    **Shape:** names, values ``(v,)``, quantiles ``(v, 5)`` of each column.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    n_rows = (len(bands) + 1) // 2
    figure = Figure(figsize=(FIGURE_SIZE[0], 0.3 + 2.0 * n_rows), layout="constrained")
    axes: list[Axes] = []
    for place, (name, values, quantiles) in enumerate(bands):
        ax = figure.add_subplot(n_rows, 2, place + 1, sharey=axes[0] if axes else None)
        new_axes(ax)
        is_number = all(isinstance(value, (int, float)) for value in values)
        x = np.array(values, dtype=np.float64) if is_number else np.arange(len(values), dtype=np.float64)
        low, lower, middle, upper, high = np.array(quantiles, dtype=np.float64).T
        if is_number and len(x) > 1:
            ax.fill_between(x, low, high, color=SKY, alpha=0.35, linewidth=0)
            ax.fill_between(x, lower, upper, color=SKY, alpha=0.7, linewidth=0)
            ax.plot(x, middle, color=BLUE, linewidth=1.6)
        else:
            ax.vlines(x, low, high, color=SKY, linewidth=3, alpha=0.6)
            ax.vlines(x, lower, upper, color=SKY, linewidth=8)
            ax.plot(x, middle, "o", color=BLUE, markersize=4)
            ax.set_xticks(x, [shortened(str(value), 10) for value in values], rotation=30, ha="right", fontsize=8)
        if is_number and len(x) > 1:
            ax.locator_params(axis="x", nbins=4)
        ax.set_xlabel(shortened(name, 24))
        axes.append(ax)
    return axes[0]


def shortened(text: str, most: int = 18) -> str:
    """A name that is not too long for a figure.

    >>> shortened("a" * 30)
    'aaaaaaaaaaaaaaaaa…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
