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

    from diffor.paper.paradigms import DependencyError, MeanCollapse, QuantisationError, VocabularyTradeoff
    from diffor.paper.paradigms.fitting import Measured

N_HISTOGRAM_BINS = 64


def modes_and_answers(found: MeanCollapse, ax: Axes | None = None) -> Axes:
    """Draw the true density of one row with two modes, samples of DiffoR, and what squared-error regression answers."""
    ax, example = new_axes(ax), found.example
    ax.fill_between(example.grid, example.density, color=GREY, alpha=0.3, linewidth=0, label="true density")
    reached = np.concatenate([example.grid, *example.samples.values()])
    edges = np.linspace(reached.min(), reached.max(), N_HISTOGRAM_BINS + 1)
    looks = (("diffor", VERMILLION, "-", "samples of DiffoR"), ("diffor-heads", ORANGE, "--", "... read by its heads"))
    for method, colour, style, words in looks:
        heights, _ = np.histogram(example.samples[method], edges, density=True)
        ax.stairs(heights, edges, color=colour, linestyle=style, linewidth=1.6, label=words)
    label = "answer of squared-error regression"
    ax.axvline(example.squared, color=BLUE, linestyle="-.", linewidth=2, label=label)
    ax.set(xlim=(edges[0], edges[-1]), xlabel="target", ylabel="density")
    ax.set_ylim(bottom=0)
    legend_above(ax, columns=2)
    return ax


def independent_bits(found: DependencyError, ax: Axes | None = None) -> Axes:
    """Draw what independence of thresholds costs, in bits, against their number, and what trained methods arrive at."""
    ax = new_axes(ax)
    counts, bits = np.array(found.thresholds), np.array(found.correlation)
    has_cost = counts > 1  # a single threshold depends on nothing, and zero has no place on a logarithmic axis
    ax.plot(counts[has_cost], bits[has_cost], "-", color=BLACK, linewidth=1.4, label="true chances, drawn bits")
    looks: tuple[tuple[str, str, str, str, str], ...] = (
        ("or-cnn", "joint", BLUE, "o", "OR-CNN, drawn bits"),
        ("or-cnn", "ranks", SKY, "v", "OR-CNN, its ranks"),
        ("corn", "ranks", GREEN, "s", "CORN, its ranks"),
        ("diffor", "ranks", VERMILLION, "D", "DiffoR, its samples"),
        ("truth", "ranks", GREY, "x", "the law, as many draws"),
    )
    for method, name, colour, marker, words in looks:
        chosen = [one for one in found.methods if one.method == method]
        _points(ax, [one.n_ranks - 1 for one in chosen], [getattr(one, name) for one in chosen], colour, marker, words)
    ax.set_xscale("log", base=2)
    _plain_log_scale(ax)
    ax.set_xticks(list(counts), [f"{count}" for count in counts])
    ax.minorticks_off()
    ax.set(xlabel="number of thresholds", ylabel="divergence from the truth, bits")
    shares = ax.twinx()
    shares.spines[["top"]].set_visible(False)
    shares.plot(counts, 100 * np.array(found.impossible), ":", color=GREY, linewidth=2, label="impossible (right)")
    shares.set(ylim=(0, 102), ylabel="independent draws that are impossible, %")
    legend_above(ax, columns=2, others=[shares])
    return ax


def vocabulary_errors(found: VocabularyTradeoff, ax: Axes | None = None) -> Axes:
    """Draw what vocabularies cannot write and what token models err by, against the number of values they hold."""
    ax = new_axes(ax)
    most = max(one.n_units for one in found.designs)
    groups = (
        (
            [one for one in found.designs if one.method == "gr" and one.n_units == most],
            BLUE,
            "o",
            f"GR, {most:,} units",
        ),
        ([one for one in found.designs if one.method == "gr" and one.n_units < most], GREEN, "s", "GR, fewer units"),
        ([one for one in found.designs if one.method == "gor"], ORANGE, "^", "GoR"),
    )
    for designs, colour, marker, words in groups:
        ordered = sorted(designs, key=lambda one: one.n_tokens.mean)
        counts = [one.n_tokens.mean for one in ordered]
        if not counts:
            continue
        _points(ax, counts, [one.excess for one in ordered], colour, marker, words)
        hollow: dict[str, Any] = {"markerfacecolor": "none", "label": f"{words}, as written"}
        ax.plot(counts, [one.written_mae.mean for one in ordered], f"{marker}:", color=colour, markersize=6, **hollow)
    ours = found.diffor["excess"]
    ax.axhline(ours.mean, color=VERMILLION, linestyle="-", linewidth=1.6, label="DiffoR")
    ax.axhspan(ours.mean - ours.deviation, ours.mean + ours.deviation, color=VERMILLION, alpha=0.12, linewidth=0)
    ax.set_xscale("log")
    _plain_log_scale(ax)
    plain_powers(ax)
    ax.set(xlabel="values in the vocabulary", ylabel="CRPS beyond the law's, or MAE as written")
    legend_above(ax, columns=2)
    return ax


def bins_and_increments(found: QuantisationError, ax: Axes | None = None) -> Axes:
    """Draw errors against the number of bins, with their floor, and those of DiffoR against that of its increments."""
    ax = new_axes(ax)
    ax.plot(found.counts, found.floor_mae, "--", color=BLACK, linewidth=1, label="floor of bins: width / 4")
    counts = [one.count for one in found.bins]
    _points(ax, counts, [one.hard_mae for one in found.bins], BLUE, "o", "a bin's place")
    _points(ax, counts, [one.soft_mae for one in found.bins], SKY, "v", "expectation over bins")
    counts = [one.count for one in found.increments]
    _points(ax, counts, [one.hard_mae for one in found.increments], VERMILLION, "D", "DiffoR, increments")
    ax.axhline(found.noise_mae, color=GREY, linestyle=":", linewidth=2, label="noise of the data")
    ax.set_xscale("log", base=2)
    _plain_log_scale(ax)
    ticks = sorted({*found.counts, *counts})
    ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="number of bins, or of increments", ylabel="mean absolute error")
    ax.set_ylim(bottom=found.noise_mae / 2)
    legend_above(ax, columns=2)
    return ax


def _plain_log_scale(ax: Axes) -> None:
    """A logarithmic axis upwards whose numbers are written as they are spoken."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _points(
    ax: Axes, places: Sequence[float], figures: Sequence[Measured], colour: str, marker: str, words: str
) -> None:
    """Means with their deviations from seed to seed, joined by a line."""
    means, deviations = [one.mean for one in figures], [one.deviation for one in figures]
    ax.errorbar(
        places, means, deviations, fmt=f"{marker}-", color=colour, markersize=5, linewidth=1.2, capsize=2, label=words
    )
