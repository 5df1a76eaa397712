"""Experiments: what the parts of a model are worth, what more of something buys, and who stands where."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.paper.experiments.contrasts import ALL_SETS, Contrast, is_relative
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

    from diffor.bench.leaderboard import Measure

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


def ablation_forest(found: Sequence[Contrast], measure: Measure, published: Mapping[str, float]) -> Axes:
    """Draw each variant's difference to the full model with its confidence interval, a line for each data set.

    A filled marker says that the interval leaves zero out, a hollow one that it does not. ``published`` are differences
    that were printed elsewhere, by variant: they stand where all data sets are joined, or beside the only one.
    """
    scale, unit = (100, "percent of the full model's") if is_relative(measure) else (1, "difference")
    worse = "left" if measure.greater_is_better else "right"
    middle, low, high = (scale * np.array([getattr(one, end) for one in found]) for end in ("mean", "low", "high"))
    clear, places = np.array([one.is_clear for one in found]), np.arange(len(found))
    ax = new_axes(None, height=1.3 + 0.34 * len(found))
    ax.axvline(0, linestyle="--", color=BLACK, linewidth=1, label="the full model")
    for chosen, colour, fill, marker, words in (
        (clear, VERMILLION, VERMILLION, "D", "interval without zero"),
        (~clear, BLUE, "none", "o", "interval with zero"),
    ):
        ax.hlines(places[chosen], low[chosen], high[chosen], colors=colour, linewidth=1.8)
        if chosen.any():
            look: dict[str, Any] = {"color": colour, "markerfacecolor": fill, "markersize": 7}
            ax.plot(middle[chosen], places[chosen], marker, label=words, **look)
    if published:
        sets = {one.dataset for one in found}
        shown = ALL_SETS if ALL_SETS in sets else min(sets)
        printed = [published.get(one.method, np.nan) if one.dataset == shown else np.nan for one in found]
        crosses: dict[str, Any] = {"color": BLACK, "markersize": 7, "markeredgewidth": 1.6, "label": "the paper's"}
        ax.plot(scale * np.array(printed), places, "x", **crosses)
    ax.set_yticks(places, [f"{one.method}, {one.dataset}" for one in found], fontsize=9)
    for name, one in zip(ax.get_yticklabels(), found, strict=True):
        name.set_fontweight("bold" if one.dataset == ALL_SETS else "normal")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    words = f"{measure.heading} less the full model's, {unit}; {worse} of zero is worse"
    ax.set_xlabel(textwrap.fill(words, 34))
    legend_above(ax)
    return ax


def quality_curve(
    positions: Sequence[tuple[float, str]], found: Sequence[Contrast], measure: Measure, base: str, xlabel: str
) -> Axes:
    """Draw differences to the base against a count, such as increments or steps, with intervals: a line a data set.

    ``positions`` are the rising values of the setting with the methods that have them, ``base`` being one of them, with
    no difference to itself. Equal ratios of the values are equally long where they reach far.
    """
    scale, unit = (100, ", percent") if is_relative(measure) else (1, "")
    x = np.array([value for value, _ in positions], dtype=np.float64)
    log = bool(x[0] > 0 and x[-1] / x[0] > 20)
    axis, ax = np.log(x) if log else x, new_axes(None)
    if log:
        ax.set_xscale("log")
    known = {(one.dataset, one.method): one for one in found}
    datasets = list(dict.fromkeys(one.dataset for one in found))
    for place, dataset in enumerate(datasets):
        points = [known.get((dataset, method)) for _, method in positions]
        heights = [0.0 if method == base else np.nan for _, method in positions]
        heights = [rest if one is None else scale * one.mean for one, rest in zip(points, heights, strict=True)]
        bars = [0.0 if one is None else scale * (one.high - one.mean) for one in points]
        # Error bars at one position stand beside each other, so that they do not cover each other.
        moved = axis + BAR_DISTANCE * np.ptp(axis) * (place - (len(datasets) - 1) / 2)
        colour, marker = METHOD_LOOKS[(place + 1) % len(METHOD_LOOKS)]
        look: dict[str, Any] = {"color": colour, "markersize": 5.5, "linewidth": 1.5, "capsize": 3, "elinewidth": 1.2}
        style = f"{marker}{LINE_STYLES[place % len(LINE_STYLES)]}"
        ax.errorbar(np.exp(moved) if log else moved, heights, bars, fmt=style, label=dataset, **look)
    if len(x) <= MAX_NAMED_POSITIONS:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.minorticks_off()
    elif log:
        plain_powers(ax)
    better = "higher" if measure.greater_is_better else "lower"
    ax.set(xlabel=xlabel, ylabel=f"{measure.heading} less the base's{unit}; {better} is better")
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    legend_above(ax, columns=min(len(datasets), 2))
    return ax


def head_map(points: ArrayLike, heads: ArrayLike) -> Axes:
    """Draw a map of embeddings, such as t-SNE's, where each head has its colour and marker.

    A head's number stands at the median of its points, or as near to it as other numbers leave room.

    **Shape:** points ``(n, 2)``, heads ``(n,)``, the head that each point belongs to.
    """
    places, owners = np.asarray(points, dtype=np.float64), np.asarray(heads)
    ax = new_axes(None)
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
