"""The paper's theory, drawn: one figure for each result of :mod:`diffor.paper.theory.diagnosis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffor.errors import UserError
from diffor.reports.plots.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, legend_above, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffor.paper.theory.analysis import NoiseIdentity, OrdinalBounds
    from diffor.paper.theory.contraction import Contraction
    from diffor.paper.theory.fusion import LinearFusion
    from diffor.paper.theory.interference import TimeInterference
    from diffor.paper.theory.representation import Representation
    from diffor.paper.theory.scale_information import ScaleInformation

TOP = 1.2
"""Height of the figure of bounds: those that are larger say nothing and are drawn at the edge."""
MOST_RISK = 3.0
"""Risks up to so many times those of the smaller embeddings are drawn in full."""
TINY = 1e-9
"""Risks below this are rounding: as many numbers as rows fit them exactly."""
MAX_CELL_NUMBERS = 12
"""With more times or increments than this, the cells of a map are too small for numbers."""


def noise_and_value_errors(found: NoiseIdentity, ax: Axes | None = None) -> Axes:
    """Draw both sides of the identity at each time, and the error of the noise that one of them is made of."""
    ax = new_axes(ax)
    ax.plot(found.times, found.clean_mse, "o-", color=BLUE, markersize=7, label="error of the estimate")
    other = found.amplification * found.noise_mse
    ax.plot(found.times, other, "x", color=BLACK, markersize=7, label="error of the noise, times (spread / signal)²")
    ax.plot(found.times, found.noise_mse, "s--", color=ORANGE, markersize=4.5, label="error of the noise")
    ax.set_yscale("log")
    ax.set(xlabel="time, from clean to noise", ylabel="mean squared error, log scale")
    legend_above(ax)
    return ax


def error_rates_and_bounds(found: OrdinalBounds, ax: Axes | None = None) -> Axes:
    """Draw the share of wrong grades beside the bound on it; bounds above 1 say nothing and end at the edge."""
    ax = new_axes(ax)
    places = np.arange(len(found.cases))
    rates, bounds = ([getattr(one, name) for one in found.bounds] for name in ("error_rate", "bound"))
    ax.axhspan(1, TOP, color=GREY, alpha=0.3, linewidth=0, label="a bound here says nothing")
    words = "bound: 4 / γ² times squared error"
    ax.plot(places, np.minimum(bounds, TOP), "^--", color=VERMILLION, markersize=6, label=words, clip_on=False)
    ax.plot(places, rates, "o-", color=BLUE, markersize=5, label="measured share of wrong grades")
    ax.set_xticks(places, [str(case) for case in found.cases])
    ax.set(ylim=(0, TOP), xlabel=found.case_name, ylabel="share of rows")
    legend_above(ax)
    return ax


def errors_along_the_chain(found: LinearFusion, ax: Axes | None = None) -> Axes:
    """Draw the squared error of the value at each time of the chain, of their fusion and of the oracle of rows."""
    ax = new_axes(ax)
    selection = found.selection
    places = np.arange(len(found.times))
    ax.plot(places, selection.mse, "o-", color=BLUE, markersize=5, label="one time, rows that choose")
    ax.plot(places, selection.held_out_mse, "s--", color=SKY, markersize=5, label="one time, other rows")
    best = selection.best
    ax.plot(best, selection.mse[best], "o", color=BLACK, markersize=11, fillstyle="none", label="best time")
    ax.axhline(found.held_out_mse, color=VERMILLION, linestyle="-.", linewidth=1.5, label="fusion, other rows")
    ax.axhline(selection.row_oracle_mse, color=GREY, linestyle=":", linewidth=1.5, label="each row's best time")
    _time_axis(ax, found.times)
    ax.set_ylim(0, 1.1 * max(*selection.mse, *selection.held_out_mse, found.held_out_mse, TINY))
    ax.set_ylabel("mean squared error of the value in [0, 1]")
    legend_above(ax, columns=2)
    return ax


def weights_of_times(found: LinearFusion, ax: Axes | None = None) -> Axes:
    """Draw the weight of each time in the fusion; those below zero are hatched."""
    ax = new_axes(ax)
    for sign, colour, hatch in ((1, BLUE, ""), (-1, ORANGE, "///")):
        chosen = np.flatnonzero(np.sign(found.weights) == sign)
        label = "adds to the answer" if sign > 0 else "is taken off it"
        if len(chosen):
            ax.bar(
                chosen, found.weights[chosen], color=colour, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=label
            )
    ax.axhline(0, color=BLACK, linewidth=0.8)
    _time_axis(ax, found.times)
    ax.set_ylabel("weight, all together 1")
    legend_above(ax, columns=2)
    return ax


def embeddings_compared(found: Representation, ax: Axes | None = None) -> Axes:
    """Draw the risk of the best linear readout of each embedding, on its own rows and on others.

    That of many numbers on few rows can be a thousand times the others: such bars end at the edge, and say so.
    """
    ax = new_axes(ax)
    top = MOST_RISK * max(max(one.risk, one.held_out_risk) for one in (found.single, found.multiple)) or None
    places = np.arange(len(found.readouts))
    looks = (("risk", -0.2, SKY, "", "on the rows that fit it"), ("held_out_risk", 0.2, BLUE, "//", "on other rows"))
    for name, shift, colour, hatch, label in looks:
        heights = [getattr(one, name) for one in found.readouts]
        drawn = [min(height, top or height) for height in heights]
        bars = ax.bar(places + shift, drawn, 0.38, color=colour, hatch=hatch, edgecolor=BLACK, linewidth=0.6)
        bars.set_label(label)
        words = [f"{height:.2g}" if height > TINY else "0" for height in heights]
        cut = [f"{word}, cut" if height > shown else word
               for word, height, shown in zip(words, heights, drawn, strict=True)]  # fmt: skip
        ax.bar_label(bars, cut, fontsize=8, padding=2)
    names = [f"{one.name}\n{one.dimensions} numbers,\neffective rank {one.rank.nuclear:.1f}" for one in found.readouts]
    ax.set_xticks(places, names, fontsize=9)
    ax.set_ylabel("mean squared error of a linear readout")
    ax.margins(y=0.1)
    legend_above(ax, columns=2)
    return ax


def gradient_cosines(found: TimeInterference, ax: Axes | None = None) -> Axes:
    """Draw the cosine of the gradients of each pair of times, in shared and in separate parameters."""
    ax = new_axes(ax)
    looks = ((BLUE, "o"), (SKY, "s"), (GREEN, "D"), (ORANGE, "^"), (VERMILLION, "v"))
    ax.axvline(0, color=BLACK, linewidth=0.8, linestyle="--")
    for place, (one, (colour, marker)) in enumerate(zip(found.measured, looks, strict=True)):
        pairs = np.sort(one.pairs)
        heights = place + np.linspace(-0.28, 0.28, len(pairs)) if len(pairs) > 1 else np.full(len(pairs), place)
        ax.plot(pairs, heights, marker, color=colour, markersize=4, alpha=0.7)
        label = "mean of the pairs" if place == 0 else None
        ax.plot([one.mean_cosine] * 2, [place - 0.36, place + 0.36], "-", color=BLACK, linewidth=2.2, label=label)
    ax.set_yticks(range(len(found.measured)), [one.name.replace(", ", ",\n") for one in found.measured], fontsize=9)
    ax.set(xlim=(-1.05, 1.05), ylim=(len(found.measured) - 0.5, -0.5))
    ax.set_xlabel("cosine of the gradients of two times")
    legend_above(ax)
    return ax


def cosines_in_training(records: Sequence[Mapping[str, float]], ax: Axes | None = None) -> Axes:
    """Draw the mean cosines that a history logged, step by step: ``History.diagnostics``."""
    known = [record for record in records if "denoise_cosine" in record]
    if not known:
        raise UserError("records must hold cosines, but there are none; fit DiffoR with diagnose=True")
    ax = new_axes(ax)
    steps = [record["step"] for record in known]
    ax.axhline(0, color=BLACK, linewidth=0.8, linestyle="--")
    for name, style, colour in (("denoise", "o-", BLUE), ("increment", "s--", ORANGE)):
        values = [record[f"{name}_cosine"] for record in known]
        ax.plot(steps, values, style, color=colour, markersize=4.5, label=f"{name} losses")
    ax.set(xlabel="step", ylabel="mean cosine of the gradients of two times")
    legend_above(ax, columns=2)
    return ax


def contraction_of_steps(found: Contraction, ax: Axes | None = None) -> Axes:
    """Draw the factor by which each step of the chain changes distances; above 1 they grow."""
    ax = new_axes(ax)
    places = np.arange(len(found.times))
    ax.axhline(1, color=BLACK, linestyle="--", linewidth=1, label="distances stay")
    mean, most = found.factors.mean(axis=0), found.factors.max(axis=0)
    ax.vlines(places, mean, most, colors=BLUE, linewidth=1.2, alpha=0.6)
    ax.plot(places, most, "_", color=BLUE, markersize=9, label="to the true path, largest of all rows")
    ax.plot(places, mean, "o-", color=BLUE, markersize=5, label="to the true path, mean")
    ax.plot(places, found.between_starts, "s--", color=ORANGE, markersize=5, label="between two starts of a row, mean")
    ax.plot(places, found.spectral, "^:", color=GREEN, markersize=5, label="worst direction (Jacobian), mean")
    _time_axis(ax, found.times, "step that starts at time")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("distance after the step / before")
    legend_above(ax)
    return ax


def variance_by_scale(found: ScaleInformation, ax: Axes | None = None) -> Axes:
    """Draw the share of each increment's variance that is explained at each time; heads' own times are framed."""
    ax = new_axes(ax)
    figure: Any = ax.figure
    n_times, n_scales = found.explained.shape
    shown = np.clip(found.explained, 0, 1)
    image = ax.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    if max(n_times, n_scales) <= MAX_CELL_NUMBERS:
        for (row, column), value in np.ndenumerate(shown):
            text = "-" if np.isnan(value) else f"{value:.2f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if value < 0.6 else "black")
    _frame_cells(ax, [(scale, found.times.index(t)) for scale, t in enumerate(found.aligned_times) if t in found.times])
    ax.set_xticks(range(n_scales), [str(scale + 1) for scale in range(n_scales)])
    ax.set_yticks(range(n_times), [str(t) for t in found.times])
    ax.set(xlabel="increment", ylabel="time, from noise to clean")
    figure.colorbar(image, ax=ax, label="share of variance explained")
    legend_above(ax)
    return ax


def bits_by_scale(found: ScaleInformation, ax: Axes | None = None) -> Axes:
    """Draw the bits of each increment over all rows, and those left within a row: by its samples, and by the truth."""
    ax = new_axes(ax)
    places = np.arange(1, len(found.entropy) + 1)
    ax.bar(places, found.entropy, 0.8, facecolor="none", edgecolor=GREY, label="bits over all rows")
    ax.bar(places, found.information, 0.8, color=SKY, label="saved by a prediction")
    ax.plot(places, found.entropy - found.predictive_entropy, "D", color=VERMILLION, markersize=6,
            label="saved, if it were as right as it is sure")  # fmt: skip
    ax.axhline(0, color=BLACK, linewidth=0.8)
    ax.set_xticks(places)
    ax.set(xlabel="increment", ylabel="bits")
    legend_above(ax)
    return ax


def _frame_cells(ax: Axes, cells: Sequence[tuple[int, int]]) -> None:
    """Frames around cells of a map, given as column and row; the first is named in the legend."""
    from matplotlib.patches import Rectangle

    for number, (column, row) in enumerate(cells):
        label = "time of the increment's head" if number == 0 else None
        place = (column - 0.46, row - 0.46)
        ax.add_patch(Rectangle(place, 0.92, 0.92, fill=False, edgecolor=VERMILLION, linewidth=2.2, label=label))


def _time_axis(ax: Axes, times: Sequence[int], label: str = "time, from noise to clean") -> None:
    """Times of a chain at even distances, in its order."""
    ax.set_xticks(range(len(times)), [str(t) for t in times], fontsize=9, rotation=45 if len(times) > 8 else 0)
    ax.set_xlabel(label)
