"""Experiments: what the parts of a model are worth, what more of something buys, and who stands where."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.reports.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    METHOD_LOOKS,
    ORANGE,
    SKY,
    VERMILLION,
    legend_above,
    new_axes,
    plain_powers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

LINE_STYLES = ("-", "--", "-.", ":")
BAR_DISTANCE = 0.012
"""Between error bars at one position, as a share of the axis."""
MAX_NAMED_POSITIONS = 10
"""Up to so many positions, each has a tick of its own."""
HEAD_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, GREY, BLACK)
HEAD_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
"""As many as have no divisor in common with the colours: 63 heads look different."""
INK, PAPER = "#111111", "#ffffff"
"""Colours of text on a ground of its own, which do not follow the page's."""


def ablation_forest(
    names: Sequence[str], differences: ArrayLike, lows: ArrayLike, highs: ArrayLike, label: str = "",
    published: ArrayLike | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw each variant's difference to the full model with its confidence interval, one line per variant.

    A filled marker says that the interval leaves zero out, a hollow one that it does not. ``label`` stands below the
    axis and should say which side is worse. ``published`` are differences that were printed elsewhere, to stand beside
    ours; NaN where there is none.

    **Shape:** names, differences, lows, highs and published ``(v,)``.
    """
    middle, low, high = (np.asarray(values, dtype=np.float64) for values in (differences, lows, highs))
    ax = new_axes(ax, height=1.3 + 0.34 * len(names))
    ax.axvline(0, linestyle="--", color=BLACK, linewidth=1, label="the full model")
    clear, places = (low > 0) | (high < 0), np.arange(len(names))
    for chosen, colour, fill, marker, words in (
        (clear, VERMILLION, VERMILLION, "D", "interval without zero"),
        (~clear, BLUE, "none", "o", "interval with zero"),
    ):
        ax.hlines(places[chosen], low[chosen], high[chosen], colors=colour, linewidth=1.8)
        if chosen.any():
            look: dict[str, Any] = {"color": colour, "markerfacecolor": fill, "markersize": 7}
            ax.plot(middle[chosen], places[chosen], marker, label=words, **look)
    if published is not None:
        printed = np.asarray(published, dtype=np.float64)
        ax.plot(printed, places, "x", color=BLACK, markersize=7, markeredgewidth=1.6, label="the paper's")
    ax.set_yticks(places, list(names), fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    ax.set_xlabel(textwrap.fill(label or "difference to the full model", 34))
    legend_above(ax)
    return ax


def quality_curve(
    positions: ArrayLike,
    series: Mapping[str, ArrayLike],
    spreads: Mapping[str, ArrayLike] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw quality against a count, such as increments, attention heads or steps: one line per series.

    ``spreads`` are the half lengths of error bars, for all or some of the series. ``log`` makes equal ratios of the
    positions equally long.

    **Shape:** positions ``(p,)`` rising, each series and each spread ``(p,)``; unknown values are NaN.
    """
    x = np.asarray(positions, dtype=np.float64)
    bars = dict(spreads or {})
    ax = new_axes(ax)
    if log:
        ax.set_xscale("log")
    shown = _beside_each_other(x, list(series), list(bars), log)
    for place, (name, line) in enumerate(series.items()):
        colour, marker = METHOD_LOOKS[(place + 1) % len(METHOD_LOOKS)]
        style = LINE_STYLES[place % len(LINE_STYLES)]
        look: dict[str, Any] = {"color": colour, "markersize": 5.5, "linewidth": 1.5, "capsize": 3, "elinewidth": 1.2}
        ax.errorbar(shown[name], line, bars.get(name), fmt=f"{marker}{style}", label=name, **look)
    _name_positions(ax, x, log)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    legend_above(ax, columns=min(len(series), 2))
    return ax


def head_map(points: ArrayLike, heads: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw a map of embeddings, such as t-SNE's, where each head has its colour and marker.

    A head's number stands at the median of its points, or as near to it as other numbers leave room.

    **Shape:** points ``(n, 2)``, heads ``(n,)``, the head that each point belongs to.
    """
    places, owners = np.asarray(points, dtype=np.float64), np.asarray(heads)
    ax = new_axes(ax)
    names = np.unique(owners)
    size = 6.0 if len(places) <= 500 else 4.0
    for number, name in enumerate(names):
        own = places[owners == name]
        colour, marker = HEAD_COLOURS[number % len(HEAD_COLOURS)], HEAD_MARKERS[number % len(HEAD_MARKERS)]
        ax.plot(*own.T, marker, color=colour, markersize=size, alpha=0.75, markeredgewidth=0, label=f"head {name}")
    medians = np.stack([np.median(places[owners == name], axis=0) for name in names])
    ax.margins(0.06)
    for name, median, text in zip(names, medians, _apart(ax, medians), strict=True):
        if not np.allclose(median, text):
            ax.plot(*np.stack([median, text]).T, color=BLACK, linewidth=0.8)
        box: dict[str, Any] = {"boxstyle": "circle,pad=0.25", "facecolor": PAPER, "edgecolor": INK, "linewidth": 0.8}
        look: dict[str, Any] = {"color": INK, "fontsize": 9, "fontweight": "bold", "ha": "center", "va": "center"}
        ax.text(text[0], text[1], str(name), bbox=box | {"alpha": 0.9}, **look)
    ax.set(xlabel="first direction of the map", ylabel="second direction of the map")
    ax.set_xticks([])  # distances on such a map have no unit
    ax.set_yticks([])
    legend_above(ax, columns=4)
    return ax


def _beside_each_other(x: Array, names: Sequence[str], with_bars: Sequence[str], log: bool) -> dict[str, Array]:
    """The positions of each series, moved a little so that error bars of several do not cover each other."""
    if len(with_bars) < 2:
        return dict.fromkeys(names, x)
    axis = np.log(x) if log else x
    steps = BAR_DISTANCE * np.ptp(axis) * (np.arange(len(names)) - (len(names) - 1) / 2)
    return {name: np.exp(axis + step) if log else axis + step for name, step in zip(names, steps, strict=True)}


def _name_positions(ax: Axes, x: Array, log: bool) -> None:
    """A tick for each position where there are few, otherwise ticks as on any axis, spoken plainly."""
    if len(x) <= MAX_NAMED_POSITIONS:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    elif log:
        plain_powers(ax)


def _apart(ax: Axes, medians: Array, distance: float = 0.075) -> Array:
    """Places of texts near their medians, moved until none touches another. **Shape:** ``(h, 2)`` -> ``(h, 2)``."""
    low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T
    places = (medians - low) / (high - low)  # as shares of the axes
    angles = 2.4 * np.arange(len(places))  # a direction for those that coincide, different for each
    for _ in range(200):
        steps = places[:, None] - places[None]  # (h, h, 2)
        far = np.linalg.norm(steps, axis=2)
        close = (far < distance) & ~np.eye(len(places), dtype=bool)
        if not close.any():
            break
        turned = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None]
        unit = np.where(far[..., None] > 1e-9, steps / np.maximum(far, 1e-9)[..., None], turned)
        places = places + (unit * (close * (distance - far) / 2)[..., None]).sum(axis=1)
    return np.asarray(low + np.clip(places, 0.0, 1.0) * (high - low))
