"""Experiments: what the parts of a model are worth, what more of something buys, and who stands where."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.reports.plots.drawing import (
    BLACK,
    BLUE,
    FIGURE_SIZE,
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
    if not (middle.shape == low.shape == high.shape == (len(names),)) or not len(names):
        raise UserError(
            "differences, lows and highs must hold one number for each name, but got "
            f"names={len(names)}, differences.shape={middle.shape}, lows.shape={low.shape}, highs.shape={high.shape}"
        )
    if not ((low <= middle) & (middle <= high)).all():
        place = int(np.flatnonzero(~((low <= middle) & (middle <= high)))[0])
        raise UserError(
            "each interval must hold its difference, but "
            f"{names[place]} has {middle[place]} and the interval {low[place]} to {high[place]}"
        )
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
    _check_positions(x, log)
    values, bars = _checked_series(series, len(x)), _checked_series(spreads or {}, len(x))
    unknown = [name for name in bars if name not in values]
    if not values or unknown:
        raise UserError(
            f"there must be at least one series, and each spread must belong to one, but series "
            f"{', '.join(values) or 'none'}, spreads {', '.join(bars) or 'none'}"
        )
    ax = new_axes(ax)
    if log:
        ax.set_xscale("log")
    shown = _beside_each_other(x, list(values), list(bars), log)
    for place, (name, line) in enumerate(values.items()):
        colour, marker = METHOD_LOOKS[(place + 1) % len(METHOD_LOOKS)]
        style = LINE_STYLES[place % len(LINE_STYLES)]
        look: dict[str, Any] = {"color": colour, "markersize": 5.5, "linewidth": 1.5, "capsize": 3, "elinewidth": 1.2}
        ax.errorbar(shown[name], line, bars.get(name), fmt=f"{marker}{style}", label=name, **look)
    _name_positions(ax, x, log)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    legend_above(ax, columns=min(len(values), 2))
    return ax


def head_map(points: ArrayLike, heads: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw a map of embeddings, such as t-SNE's, where each head has its colour and marker.

    A head's number stands at the median of its points, or as near to it as other numbers leave room.

    **Shape:** points ``(n, 2)``, heads ``(n,)``, the head that each point belongs to.
    """
    places, owners = np.asarray(points, dtype=np.float64), np.asarray(heads)
    if places.ndim != 2 or places.shape[1] != 2 or owners.shape != places.shape[:1] or not len(places):
        raise UserError(
            "points must be pairs (n, 2) and heads name the head of each, but got "
            f"points.shape={places.shape}, heads.shape={owners.shape}"
        )
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
        box: dict[str, Any] = {
            "boxstyle": "circle,pad=0.25",
            "facecolor": PAPER,
            "edgecolor": INK,
            "linewidth": 0.8,
            "alpha": 0.9,
        }
        ax.text(
            text[0], text[1], str(name), color=INK, fontsize=9, fontweight="bold", ha="center", va="center", bbox=box
        )
    ax.set(xlabel="first direction of the map", ylabel="second direction of the map")
    ax.set_xticks([])  # distances on such a map have no unit
    ax.set_yticks([])
    legend_above(ax, columns=4)
    return ax


def leaderboard(
    methods: Sequence[str],
    datasets: Sequence[str],
    ranks: ArrayLike,
    ours: Sequence[str] = (),
    scores: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw ranks of methods on data sets as a table of shades, best method on top, mean ranks at the right.

    With ``scores=True`` the numbers are scores, lower is better, and are turned into ranks. The mean is over what is
    known.

    **Shape:** methods ``(m,)``, datasets ``(d,)``, ranks ``(m, d)``; NaN where a method has none.
    """
    table = np.asarray(ranks, dtype=np.float64)
    if table.shape != (len(methods), len(datasets)) or not table.size or np.isnan(table).all(axis=1).any():
        raise UserError(
            "ranks must have one row for each method and one column for each data set, and one known number for each "
            f"method, but got methods={len(methods)}, datasets={len(datasets)}, ranks.shape={table.shape}"
        )
    table = rank_columns(table) if scores else table
    means = np.nanmean(table, axis=1)
    order = np.argsort(means, kind="stable")
    cells = np.concatenate([table, means[:, None]], axis=1)[order]
    width = max(FIGURE_SIZE[0], 1.8 + 0.32 * (len(datasets) + 1))
    ax = new_axes(ax, height=1.3 + 0.24 * len(methods), width=width)
    _draw_cells(ax, cells, len(methods))
    ax.axvline(len(datasets) - 0.5, color=PAPER, linewidth=4)
    ax.set_xticks(range(len(datasets) + 1), [*datasets, "mean rank"], rotation=60, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(methods)), [methods[place] for place in order])
    ax.tick_params(length=0, labelsize=9, top=True, bottom=False, labeltop=True, labelbottom=False)
    for tick in (*ax.get_yticklabels(), ax.get_xticklabels()[-1]):
        tick.set_fontweight("bold" if tick.get_text() in (*ours, "mean rank") else "normal")
    ax.spines[:].set_visible(False)
    return ax


def rank_columns(scores: ArrayLike) -> Array:
    """Ranks in each column, 1 for the lowest score; equal scores share the mean of their ranks, NaN has none.

    **Shape:** ``(m, d)`` -> ``(m, d)``.

    >>> rank_columns([[0.5], [0.1], [0.5], [float("nan")]]).ravel().tolist()
    [2.5, 1.0, 2.5, nan]
    """
    table = np.asarray(scores, dtype=np.float64)
    lower = (table[None] < table[:, None]).sum(axis=1)  # how many are better than each (m, d)
    equal = (table[None] == table[:, None]).sum(axis=1)
    return np.where(np.isnan(table), np.nan, lower + (equal + 1) / 2)


def _check_positions(x: Array, log: bool) -> None:
    if x.ndim != 1 or not len(x) or not (np.diff(x) > 0).all() or (log and not x[0] > 0):
        rule = "positions must be numbers that rise" + (", and be positive on a log scale" if log else "")
        raise UserError(f"{rule}, but got {x.tolist()}")


def _checked_series(series: Mapping[str, ArrayLike], count: int) -> dict[str, Array]:
    checked = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    for name, values in checked.items():
        if values.shape != (count,):
            raise UserError(
                f"each series and spread must have one number for each of {count} positions, but "
                f"{name} has shape {values.shape}"
            )
    return checked


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


def _draw_cells(ax: Axes, cells: Array, count: int) -> None:
    """Shades and numbers of a table of ranks; dark is good. **Shape:** ``(m, c)``."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("ranks", ["#00446B", BLUE, SKY, "#F2F2F2"])
    span = max(count - 1, 1)
    edges = [np.arange(size + 1) - 0.5 for size in reversed(cells.shape)]
    lines: dict[str, Any] = {"edgecolors": PAPER, "linewidth": 1}
    ax.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=shades, vmin=1, vmax=1 + span, **lines)
    ax.set_ylim(len(cells) - 0.5, -0.5)
    digits = 0 if np.array_equal(cells[:, :-1], np.rint(cells[:, :-1]), equal_nan=True) else 1
    for row, column in np.ndindex(*cells.shape):
        value, is_mean = cells[row, column], column == cells.shape[1] - 1
        if np.isnan(value):
            ax.text(column, row, "-", color=GREY, fontsize=8, ha="center", va="center")
            continue
        text = f"{value:.1f}" if is_mean or digits else f"{value:.0f}"
        colour = PAPER if (value - 1) / span < 0.42 else INK
        weight = "bold" if is_mean else "normal"
        ax.text(column, row, text, color=colour, fontsize=8, fontweight=weight, ha="center", va="center")
