"""The paper's theory, drawn from the measurements of a diagnosis (:mod:`diffor.paper.theory.diagnosis`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffor.errors import UserError
from diffor.reports.plots.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, legend_above, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffor.paper.theory.analysis import Numbers

TOP = 1.2
"""Height of the figure of bounds: those that are larger say nothing and are drawn at the edge."""
MOST_RISK = 3.0
"""Risks up to so many times those of the smaller embeddings are drawn in full."""
TINY = 1e-9
"""Risks below this are rounding: as many numbers as rows fit them exactly."""
MAX_CELL_NUMBERS = 12
"""With more times or increments than this, the cells of a map are too small for numbers."""


def noise_and_value_errors(measurements: Numbers) -> Axes:
    """Draw both sides of the identity at each time, and the error of the noise that one of them is made of."""
    found, ax = measurements["noise"], new_axes(None)
    times, noise_mse = found["times"], np.array(found["noise_mse"])
    other = np.array(found["amplification"]) * noise_mse
    ax.plot(times, found["clean_mse"], "o-", color=BLUE, markersize=7, label="error of the estimate")
    ax.plot(times, other, "x", color=BLACK, markersize=7, label="error of the noise, times (spread / signal)²")
    ax.plot(times, noise_mse, "s--", color=ORANGE, markersize=4.5, label="error of the noise")
    ax.set_yscale("log")
    ax.set(xlabel="time, from clean to noise", ylabel="mean squared error, log scale")
    legend_above(ax)
    return ax


def error_rates_and_bounds(measurements: Numbers) -> Axes:
    """Draw the share of wrong grades beside the bound on it; bounds above 1 say nothing and end at the edge."""
    found, ax = measurements["ordinal"], new_axes(None)
    cases = found["cases"]
    bounds = [TOP if one["bound"] is None else min(one["bound"], TOP) for one in cases]
    ax.axhspan(1, TOP, color=GREY, alpha=0.3, linewidth=0, label="a bound here says nothing")
    words = "bound: 4 / γ² times squared error"
    ax.plot(bounds, "^--", color=VERMILLION, markersize=6, label=words, clip_on=False)
    rates = [one["error_rate"] for one in cases]
    ax.plot(rates, "o-", color=BLUE, markersize=5, label="measured share of wrong grades")
    ax.set_xticks(range(len(cases)), [str(one[found["by"]]) for one in cases])
    ax.set(ylim=(0, TOP), xlabel=found["by"], ylabel="share of rows")
    legend_above(ax)
    return ax


def errors_along_the_chain(measurements: Numbers) -> Axes:
    """Draw the squared error of the value at each time of the chain, of their fusion and of the oracle of rows."""
    found, fused, ax = measurements["selection"], measurements["fusion"]["held_out_mse"], new_axes(None)
    best = found["times"].index(found["best_time"])
    ax.plot(found["mse"], "o-", color=BLUE, markersize=5, label="one time, rows that choose")
    ax.plot(found["held_out_mse"], "s--", color=SKY, markersize=5, label="one time, other rows")
    ax.plot(best, found["mse"][best], "o", color=BLACK, markersize=11, fillstyle="none", label="best time")
    ax.axhline(fused, color=VERMILLION, linestyle="-.", linewidth=1.5, label="fusion, other rows")
    ax.axhline(found["row_oracle_mse"], color=GREY, linestyle=":", linewidth=1.5, label="each row's best time")
    _time_axis(ax, found["times"])
    ax.set_ylim(0, 1.1 * max(*found["mse"], *found["held_out_mse"], fused, TINY))
    ax.set_ylabel("mean squared error of the value in [0, 1]")
    legend_above(ax, columns=2)
    return ax


def weights_of_times(measurements: Numbers) -> Axes:
    """Draw the weight of each time in the fusion; those below zero are hatched."""
    found, ax = measurements["fusion"], new_axes(None)
    weights = np.array(found["weights"])
    for sign, colour, hatch, label in ((1, BLUE, "", "adds to the answer"), (-1, ORANGE, "///", "is taken off it")):
        chosen = np.flatnonzero(np.sign(weights) == sign)
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.6}
        if len(chosen):
            ax.bar(chosen, weights[chosen], label=label, **look)
    ax.axhline(0, color=BLACK, linewidth=0.8)
    _time_axis(ax, found["times"])
    ax.set_ylabel("weight, all together 1")
    legend_above(ax, columns=2)
    return ax


def embeddings_compared(measurements: Numbers) -> Axes:
    """Draw the risk of the best linear readout of each embedding, on its own rows and on others.

    That of many numbers on few rows can be a thousand times the others: such bars end at the edge, and say so.
    """
    found, ax = measurements["representation"], new_axes(None)
    readouts = list(found.values())
    top = MOST_RISK * max(max(one["risk"], one["held_out_risk"]) for one in readouts[:2]) or None
    looks = (("risk", -0.2, SKY, "", "on the rows that fit it"), ("held_out_risk", 0.2, BLUE, "//", "on other rows"))
    for name, shift, colour, hatch, label in looks:
        heights = [one[name] for one in readouts]
        drawn = [min(height, top or height) for height in heights]
        places = np.arange(len(readouts)) + shift
        bars = ax.bar(places, drawn, 0.38, color=colour, hatch=hatch, edgecolor=BLACK, linewidth=0.6)
        bars.set_label(label)
        words = [f"{height:.2g}" if height > TINY else "0" for height in heights]
        cut = [", cut" if height > shown else "" for height, shown in zip(heights, drawn, strict=True)]
        ax.bar_label(bars, [word + end for word, end in zip(words, cut, strict=True)], fontsize=8, padding=2)
    names = [
        f"{name}\n{one['dimensions']} numbers,\neffective rank {one['nuclear_rank']:.1f}" for name, one in found.items()
    ]
    ax.set_xticks(range(len(readouts)), names, fontsize=9)
    ax.set_ylabel("mean squared error of a linear readout")
    ax.margins(y=0.1)
    legend_above(ax, columns=2)
    return ax


def gradient_cosines(measurements: Numbers) -> Axes:
    """Draw the cosine of the gradients of each pair of times, in shared and in separate parameters."""
    gradients, ax = measurements["interference"]["gradients"], new_axes(None)
    looks = ((BLUE, "o"), (SKY, "s"), (GREEN, "D"), (ORANGE, "^"), (VERMILLION, "v"))
    ax.axvline(0, color=BLACK, linewidth=0.8, linestyle="--")
    for place, (one, (colour, marker)) in enumerate(zip(gradients.values(), looks, strict=True)):
        cosines = np.array(one["cosines"])
        pairs = np.sort(cosines[np.triu_indices(len(cosines), 1)])
        heights = place + np.linspace(-0.28, 0.28, len(pairs)) if len(pairs) > 1 else np.full(len(pairs), place)
        ax.plot(pairs, heights, marker, color=colour, markersize=4, alpha=0.7)
        label = "mean of the pairs" if place == 0 else None
        ax.plot([one["mean_cosine"]] * 2, [place - 0.36, place + 0.36], "-", color=BLACK, linewidth=2.2, label=label)
    ax.set_yticks(range(len(gradients)), [name.replace(", ", ",\n") for name in gradients], fontsize=9)
    ax.set(xlim=(-1.05, 1.05), ylim=(len(gradients) - 0.5, -0.5))
    ax.set_xlabel("cosine of the gradients of two times")
    legend_above(ax)
    return ax


def cosines_in_training(records: Sequence[Mapping[str, float]]) -> Axes:
    """Draw the mean cosines that a history logged, step by step: ``History.diagnostics``."""
    known = [record for record in records if "denoise_cosine" in record]
    if not known:
        raise UserError("records must hold cosines, but there are none; fit DiffoR with diagnose=True")
    ax = new_axes(None)
    steps = [record["step"] for record in known]
    ax.axhline(0, color=BLACK, linewidth=0.8, linestyle="--")
    for name, style, colour in (("denoise", "o-", BLUE), ("increment", "s--", ORANGE)):
        values = [record[f"{name}_cosine"] for record in known]
        ax.plot(steps, values, style, color=colour, markersize=4.5, label=f"{name} losses")
    ax.set(xlabel="step", ylabel="mean cosine of the gradients of two times")
    legend_above(ax, columns=2)
    return ax


def contraction_of_steps(measurements: Numbers) -> Axes:
    """Draw the factor by which each step of the chain changes distances; above 1 they grow."""
    found, ax = measurements["contraction"], new_axes(None)
    mean, most = found["mean_factors"], found["largest_factors"]
    ax.axhline(1, color=BLACK, linestyle="--", linewidth=1, label="distances stay")
    ax.vlines(range(len(mean)), mean, most, colors=BLUE, linewidth=1.2, alpha=0.6)
    for values, style, colour, size, words in (
        (most, "_", BLUE, 9, "to the true path, largest of all rows"),
        (mean, "o-", BLUE, 5, "to the true path, mean"),
        (found["between_starts"], "s--", ORANGE, 5, "between two starts of a row, mean"),
        (found["spectral"], "^:", GREEN, 5, "worst direction (Jacobian), mean"),
    ):
        ax.plot(values, style, color=colour, markersize=size, label=words)
    _time_axis(ax, found["times"], "step that starts at time")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("distance after the step / before")
    legend_above(ax)
    return ax


def variance_by_scale(measurements: Numbers) -> Axes:
    """Draw the share of each increment's variance that is explained at each time; heads' own times are framed."""
    from matplotlib.patches import Rectangle

    found, ax = measurements["scales"], new_axes(None)
    figure: Any = ax.figure
    shown = np.clip(np.array(found["explained"], dtype=np.float64), 0, 1)
    n_times, n_scales = shown.shape
    image = ax.imshow(shown, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    if max(n_times, n_scales) <= MAX_CELL_NUMBERS:
        for (row, column), value in np.ndenumerate(shown):
            text = "-" if np.isnan(value) else f"{value:.2f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if value < 0.6 else "black")
    look: dict[str, Any] = {"fill": False, "edgecolor": VERMILLION, "linewidth": 2.2}
    label: str | None = "time of the increment's head"
    for column, t in enumerate(found["aligned_times"]):
        if t in found["times"]:
            corner = (column - 0.46, found["times"].index(t) - 0.46)
            ax.add_patch(Rectangle(corner, 0.92, 0.92, label=label, **look))
            label = None
    ax.set_xticks(range(n_scales), [str(scale + 1) for scale in range(n_scales)])
    ax.set_yticks(range(n_times), [str(t) for t in found["times"]])
    ax.set(xlabel="increment", ylabel="time, from noise to clean")
    figure.colorbar(image, ax=ax, label="share of variance explained")
    legend_above(ax)
    return ax


def bits_by_scale(measurements: Numbers) -> Axes:
    """Draw the bits of each increment over all rows, and those left within a row: by its samples, and by the truth."""
    found, ax = measurements["scales"], new_axes(None)
    places, entropy = found["increments"], np.array(found["entropy"])
    seeming = entropy - np.array(found["predictive_entropy"])
    ax.bar(places, entropy, 0.8, facecolor="none", edgecolor=GREY, label="bits over all rows")
    ax.bar(places, found["information"], 0.8, color=SKY, label="saved by a prediction")
    ax.plot(places, seeming, "D", color=VERMILLION, markersize=6, label="saved, if it were as right as it is sure")
    ax.axhline(0, color=BLACK, linewidth=0.8)
    ax.set_xticks(places)
    ax.set(xlabel="increment", ylabel="bits")
    legend_above(ax)
    return ax


def _time_axis(ax: Axes, times: Sequence[int], label: str = "time, from noise to clean") -> None:
    """Times of a chain at even distances, in its order."""
    ax.set_xticks(range(len(times)), [str(t) for t in times], fontsize=9, rotation=45 if len(times) > 8 else 0)
    ax.set_xlabel(label)
