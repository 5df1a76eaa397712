"""The paper's four arguments against other ways of modelling, as figures of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
    plain_powers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffor.paper.paradigms.fitting import Found

N_HISTOGRAM_BINS = 64


def modes_and_answers(found: Found) -> Axes:
    """Draw the true density of one row with two modes, samples of DiffoR, and what squared-error regression answers."""
    ax, example = new_axes(None), found["example"]
    ax.fill_between(example["grid"], example["density"], color=GREY, alpha=0.3, linewidth=0, label="true density")
    reached = np.concatenate([example["grid"], *example["samples"].values()])
    edges = np.linspace(reached.min(), reached.max(), N_HISTOGRAM_BINS + 1)
    looks = (("diffor", VERMILLION, "-", "samples of DiffoR"), ("diffor-heads", ORANGE, "--", "... read by its heads"))
    for method, colour, style, words in looks:
        heights, _ = np.histogram(example["samples"][method], edges, density=True)
        ax.stairs(heights, edges, color=colour, linestyle=style, linewidth=1.6, label=words)
    label = "squared-error regression"
    ax.axvline(example["squared"], color=BLUE, linestyle="-.", linewidth=2, label=label)
    ax.set(xlim=(edges[0], edges[-1]), xlabel="target", ylabel="density")
    ax.set_ylim(bottom=0)
    legend_above(ax, columns=2)
    return ax


def independent_bits(found: Found) -> Axes:
    """Draw what independence of thresholds costs, in bits, against their number, and what trained methods arrive at."""
    ax = new_axes(None)
    counts, bits = np.array(found["thresholds"]), np.array(found["correlation"])
    has_cost = counts > 1  # a single threshold depends on nothing, and zero has no place on a logarithmic axis
    ax.plot(counts[has_cost], bits[has_cost], "-", color=BLACK, linewidth=1.4, label="true chances, drawn bits")
    for method, name, colour, marker, words in (
        ("or-cnn", "joint", BLUE, "o", "OR-CNN, drawn bits"),
        ("or-cnn", "ranks", SKY, "v", "OR-CNN, its ranks"),
        ("corn", "ranks", GREEN, "s", "CORN, its ranks"),
        ("diffor", "ranks", VERMILLION, "D", "DiffoR, its samples"),
        ("truth", "ranks", GREY, "x", "the law, as many draws"),
    ):
        chosen = [one for one in found["methods"] if one["method"] == method]
        _points(ax, [one["n_ranks"] - 1 for one in chosen], [one[name] for one in chosen], colour, marker, words)
    _log_scales(ax, counts.tolist())
    ax.set(xlabel="number of thresholds", ylabel="divergence from the truth, bits")
    shares = ax.twinx()
    shares.spines[["top"]].set_visible(False)
    shares.plot(counts, 100 * np.array(found["impossible"]), ":", color=GREY, linewidth=2, label="impossible (right)")
    shares.set(ylim=(0, 102), ylabel="independent draws that are impossible, %")
    legend_above(ax, columns=2, others=[shares])
    return ax


def vocabulary_errors(found: Found) -> Axes:
    """Draw what vocabularies cannot write and what token models err by, against the number of values they hold."""
    ax = new_axes(None)
    designs = sorted(found["designs"], key=lambda one: one["n_tokens"]["mean"])
    most = max(one["n_units"] for one in designs)
    for method, is_finest, colour, marker, words in (
        ("gr", True, BLUE, "o", f"GR, {most:,} units"),
        ("gr", False, GREEN, "s", "GR, fewer units"),
        ("gor", True, ORANGE, "^", "GoR"),
    ):
        chosen = [one for one in designs if one["method"] == method and (one["n_units"] == most) == is_finest]
        if chosen:
            counts = [one["n_tokens"]["mean"] for one in chosen]
            _points(ax, counts, [one["excess"] for one in chosen], colour, marker, words)
            hollow: dict[str, Any] = {"markersize": 6, "markerfacecolor": "none", "label": f"{words}, as written"}
            ax.plot(counts, [one["written_mae"]["mean"] for one in chosen], f"{marker}:", color=colour, **hollow)
    mean, deviation = (found["diffor"]["excess"][name] for name in ("mean", "deviation"))
    ax.axhline(mean, color=VERMILLION, linestyle="-", linewidth=1.6, label="DiffoR")
    ax.axhspan(mean - deviation, mean + deviation, color=VERMILLION, alpha=0.12, linewidth=0)
    ax.set_xscale("log")
    _log_scales(ax)
    plain_powers(ax)
    ax.set(xlabel="values in the vocabulary", ylabel="CRPS beyond the law's, or MAE as written")
    legend_above(ax, columns=2)
    return ax


def bins_and_increments(found: Found) -> Axes:
    """Draw errors against the number of bins, with their floor, and those of DiffoR against that of its increments."""
    ax = new_axes(None)
    ax.plot(found["counts"], found["floor_mae"], "--", color=BLACK, linewidth=1, label="floor of bins: width / 4")
    for kind, name, colour, marker, words in (
        ("bins", "hard_mae", BLUE, "o", "a bin's place"),
        ("bins", "soft_mae", SKY, "v", "expectation over bins"),
        ("increments", "hard_mae", VERMILLION, "D", "DiffoR, increments"),
    ):
        counts = [one["count"] for one in found[kind]]
        _points(ax, counts, [one[name] for one in found[kind]], colour, marker, words)
    ax.axhline(found["noise_mae"], color=GREY, linestyle=":", linewidth=2, label="noise of the data")
    _log_scales(ax, sorted({*found["counts"], *counts}))
    ax.set(xlabel="number of bins, or of increments", ylabel="mean absolute error")
    ax.set_ylim(bottom=found["noise_mae"] / 2)
    legend_above(ax, columns=2)
    return ax


def _log_scales(ax: Axes, ticks: Sequence[int] = ()) -> None:
    """A logarithmic axis upwards with numbers as they are spoken, and one to the right where ticks are given."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if ticks:
        ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
        ax.minorticks_off()
    ax.yaxis.set_minor_formatter(NullFormatter())


def _points(ax: Axes, places: Sequence[float], figures: Sequence[Found], colour: str, marker: str, words: str) -> None:
    """Means with their deviations from seed to seed, joined by a line."""
    means, deviations = ([one[name] for one in figures] for name in ("mean", "deviation"))
    look: dict[str, Any] = {"fmt": f"{marker}-", "color": colour, "markersize": 5, "linewidth": 1.2, "capsize": 2}
    ax.errorbar(places, means, deviations, label=words, **look)
