"""Figures: functions ``(data..., ax=None) -> ax``, which draw on the given axes or on those of a new figure.

matplotlib is an optional extra, so it is imported where it is needed. Nothing here uses pyplot: no figure stays open,
no setting of the caller changes, and ``ax.figure.savefig("name.png")`` writes any result. Colours are those of Okabe
and Ito, which the colour-blind can tell apart; markers and line styles repeat what they say, for prints in grey.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor import metrics
from diffor.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffor.train import History

Array = NDArray[np.floating]

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#888888"
FIGURE_SIZE = (5.2, 4.2)
"""Inches. Small, so that labels of ten points stay readable where a phone narrows the figure."""
MAX_LABELLED_CELLS = 16
MAX_LARGE_POINTS = 300
LEVELS = np.arange(5, 100, 5) / 100


def require_matplotlib() -> None:
    """Raise an ImportError that names the cure where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("figures need matplotlib: install it with pip install 'diffor[plots]'") from error


def predicted_against_true(y: ArrayLike, prediction: Prediction, coverage: float = 0.9, ax: Axes | None = None) -> Axes:
    """Draw each row's median and central interval against its true value; rows whose interval misses stand out.

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    true = _truth(y, prediction)
    ax = _axes(ax)
    low, high = prediction.interval(coverage).T
    inside = (low <= true) & (true <= high)
    size = 5.0 if len(true) <= MAX_LARGE_POINTS else 2.0
    groups = (
        (inside, BLUE, "o", size, "interval holds the truth"),
        (~inside, VERMILLION, "X", 1.3 * size, "interval misses it"),
    )
    for chosen, colour, marker, big, words in groups:
        ax.vlines(true[chosen], low[chosen], high[chosen], colors=colour, alpha=0.55, linewidth=size / 4)
        label = f"{words}: {chosen.sum()} of {len(true)} ({chosen.mean():.0%})"
        ax.plot(true[chosen], prediction.median[chosen], marker, color=colour, markersize=big, label=label)
    ends = [min(true.min(), low.min()), max(true.max(), high.max())]
    ax.plot(ends, ends, "--", color=BLACK, linewidth=1, label="predicted = true")
    ax.set_xlabel("true value")
    ax.set_ylabel(f"predicted median and {coverage:.0%} interval")
    _legend_above(ax)
    return ax


def predictive_densities(
    prediction: Prediction,
    y: ArrayLike | None = None,
    rows: Sequence[int] | None = None,
    bounds: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the densities of a few rows above each other, with the truth where it is known.

    All densities have the same area. They are kernel estimates, reflected at the ``bounds`` so that none leaves them.
    Without ``rows``, up to six are shown that stand evenly between the lowest and the highest median.

    **Shape:** prediction of n rows, y ``(n,)``, rows ``(r,)`` of numbers below n.
    """
    true = None if y is None else _truth(y, prediction)
    ax = _axes(ax)
    shown = _spread_rows(prediction) if rows is None else np.asarray(rows, dtype=np.int64)
    grid = _density_grid(prediction.samples[shown], bounds)
    densities = np.stack([density(prediction.samples[row], grid, bounds) for row in shown])
    unit = 0.85 / densities.max()
    for place, (row, curve) in enumerate(zip(shown, densities * unit, strict=True)):
        ax.fill_between(grid, place, place + curve, color=SKY, alpha=0.5, linewidth=0)
        ax.plot(grid, place + curve, color=BLUE, linewidth=1.3, label="predicted density" if place == 0 else None)
        if true is not None:
            label = "true value" if place == 0 else None
            ax.plot([true[row]] * 2, [place, place + 0.6], color=VERMILLION, linewidth=1.5)
            ax.plot(true[row], place, "D", color=VERMILLION, markersize=5.5, label=label, clip_on=False)
    ax.set_yticks(range(len(shown)), [f"row {row}" for row in shown])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(-0.15, len(shown))
    ax.set_xlabel("value")
    _legend_above(ax, columns=2)
    return ax


def calibration(y: ArrayLike, prediction: Prediction, ax: Axes | None = None) -> Axes:
    """Draw how many rows the central intervals hold against how many they should, for levels 0.05 to 0.95.

    The band holds 95% of what a calibrated model would achieve at each level on as many rows (binomial).

    **Shape:** y ``(n,)``, prediction of n rows.
    """
    from scipy.stats import binom  # here, since importing scipy.stats takes long

    true = _truth(y, prediction)
    ax = _axes(ax)
    achieved = [metrics.coverage(true, *prediction.interval(float(level)).T) for level in LEVELS]
    low, high = (binom.ppf(tail, len(true), LEVELS) / len(true) for tail in (0.025, 0.975))
    ax.fill_between(LEVELS, low, high, color=GREY, alpha=0.3, linewidth=0, label="95% range of a calibrated model")
    ax.plot([0, 1], [0, 1], "--", color=BLACK, linewidth=1, label="ideal")
    ax.plot(LEVELS, achieved, "o-", color=BLUE, markersize=5, label=f"achieved on {len(true)} rows")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="nominal coverage of the interval", ylabel="share of rows inside")
    ax.set_aspect("equal")
    _legend_above(ax)
    return ax


def increments_of(
    increments: ArrayLike, low: float, high: float, y: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one prediction as a thermometer that fills from coarse to fine.

    Each line is one increment: its cell of the range, how far the cell is filled, and the value so far, which is
    ``low`` plus all increments down to that line. Cells are equally wide, as they are with ``transform="uniform"``.

    **Shape:** increments ``(S,)`` in the target's units, as one row of ``predict_increments``.
    """
    filled = np.asarray(increments, dtype=np.float64)
    width = _cell_width(filled, low, high)
    ax = _axes(ax)
    count = len(filled)
    places, left = np.arange(1, count + 1), low + width * np.arange(count)
    value = low + np.cumsum(filled)
    digits = max(0, 3 - int(np.floor(np.log10(high - low))))  # steps of a thousandth of the range are told apart
    ax.barh(places, width, 0.7, left, facecolor="none", edgecolor=GREY, linewidth=1, label="cell of an increment")
    ax.barh(places, filled, 0.7, left, color=SKY, label="filled part")
    ax.plot(value, places, "o-", color=BLUE, markersize=5, linewidth=1.2, label="value so far")
    if y is not None:
        ax.axvline(y, color=VERMILLION, linestyle="--", linewidth=1.5, label=f"true value {y:.{digits}f}")
    ax.set_xlim(low - 0.01 * (high - low), high + 0.01 * (high - low))
    ax.set_ylim(count + 0.6, 0.4)  # the coarsest increment on top
    labelled = places if count <= MAX_LABELLED_CELLS else np.unique(np.linspace(1, count, 8).astype(int))
    ax.set_yticks(labelled)
    ax.set(xlabel=f"value; all increments together reach {value[-1]:.{digits}f}", ylabel="increment, coarse to fine")
    so_far = ax.secondary_yaxis("right")
    so_far.set_yticks(labelled, [f"{value[place - 1]:.{digits}f}" for place in labelled])
    so_far.set_ylabel("value so far")
    _legend_above(ax, columns=2)
    return ax


def training_history(history: History, ax: Axes | None = None) -> Axes:
    """Draw the validation CRPS (left axis) and the loss terms (right axis) against the step, and mark the best step.

    Without validation rows there is no CRPS, and the loss terms take the left axis.
    """
    records = history.records
    if not records:
        raise ValueError("a history must hold at least one record, however: it is empty; train for at least one step")
    ax = _axes(ax)
    has_score = any("valid_crps" in record for record in records)
    losses = ax.twinx() if has_score else ax
    if has_score:
        ax.plot(*_series(records, "valid_crps"), "o-", color=BLUE, markersize=4, label="validation CRPS (left)")
        ax.axvline(history.best_step, color=BLACK, linestyle=":", linewidth=1.5, label=f"best step {history.best_step}")
        ax.set_ylabel("validation CRPS")
        losses.spines["top"].set_visible(False)
    names = [name for name in records[0] if name not in ("step", "seconds", "valid_crps")]
    looks = [("--s", ORANGE), ("-.^", GREEN), (":v", VERMILLION), ("-x", GREY)]
    for place, name in enumerate(names):
        style, colour = looks[place % len(looks)]
        label = f"{name} loss (right)" if has_score else f"{name} loss"
        losses.plot(*_series(records, name), style, color=colour, markersize=3.5, linewidth=1.2, label=label)
    losses.set_yscale("log")
    losses.set_ylabel("training loss, log scale")
    ax.set_xlabel("step")
    _legend_above(ax, columns=2, others=[losses] if has_score else [])
    return ax


def density(samples: ArrayLike, grid: ArrayLike, bounds: tuple[float, float] | None = None) -> Array:
    """Kernel estimate of the density behind samples; what would leak past the bounds is reflected into them.

    **Shape:** samples ``(m,)``, grid ``(g,)`` -> ``(g,)``.

    >>> density([0.0, 0.0], [-1.0, 0.0, 1.0], bounds=(0, 10)).round(3).tolist()
    [0.0, 7.979, 0.0]
    """
    drawn, places = np.asarray(samples, dtype=np.float64), np.asarray(grid, dtype=np.float64)
    spread = (bounds[1] - bounds[0]) if bounds is not None else float(np.ptp(drawn)) or 1.0
    width = _bandwidth(drawn, spread)
    centres = [drawn] if bounds is None else [drawn, 2 * bounds[0] - drawn, 2 * bounds[1] - drawn]
    distance = (places[:, None] - np.concatenate(centres)) / width  # (g, m or 3 m)
    heights = np.exp(-(distance**2) / 2).sum(axis=1) / (len(drawn) * width * np.sqrt(2 * np.pi))
    if bounds is not None:
        heights[(places < bounds[0]) | (places > bounds[1])] = 0.0
    return np.asarray(heights)


def figure_svg(ax: Axes) -> str:
    """The figure of some axes as one ``<svg>`` element, to stand in a page of any background.

    The same figure gives the same text. Black is written as ``currentColor``, so that it follows the page's text.
    """
    import matplotlib

    buffer = io.StringIO()
    figure: Any = ax.figure
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "diffor", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    # Comments and the namespaces that HTML implies are not needed; the style would apply to the whole page.
    text = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text).replace("xlink:href=", "href=")
    root = '<svg fill="currentColor" stroke-linejoin="round" '
    return text.replace(BLACK, "currentColor").replace("<svg ", root, 1).strip()


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure that belongs to nobody else."""
    if ax is None:
        require_matplotlib()
        from matplotlib.figure import Figure

        ax = Figure(figsize=FIGURE_SIZE, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _legend_above(ax: Axes, columns: int = 1, others: Sequence[Axes] = ()) -> None:
    """One legend of all axes, above them where it covers nothing."""
    handles, labels = [], []
    for one in (ax, *others):
        found = one.get_legend_handles_labels()
        handles += found[0]
        labels += found[1]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.3}
    ax.legend(handles, labels, frameon=False, ncols=columns, fontsize=9, handlelength=2.4, **place)


def _truth(y: ArrayLike, prediction: Prediction) -> Array:
    true = np.asarray(y, dtype=np.float64)
    if true.shape != (len(prediction),) or not len(true):
        raise ValueError(
            f"y must hold one value for each predicted row, however: y.shape={true.shape}, rows={len(prediction)}"
        )
    return true


def _spread_rows(prediction: Prediction, count: int = 6) -> NDArray[np.int64]:
    order = np.argsort(prediction.median, kind="stable")
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, count).round().astype(np.int64))])


def _density_grid(samples: Array, bounds: tuple[float, float] | None) -> Array:
    """Places at which densities are drawn: the bounds, or as far as the samples reach and a little more."""
    if bounds is not None:
        if samples.min() < bounds[0] or samples.max() > bounds[1]:
            raise ValueError(
                f"samples must lie inside bounds={bounds}, however: they reach from {samples.min()} to {samples.max()}"
            )
        return np.linspace(bounds[0], bounds[1], 400)
    margin = 0.1 * float(np.ptp(samples)) or 1.0
    return np.linspace(samples.min() - margin, samples.max() + margin, 400)


def _bandwidth(samples: Array, spread: float) -> float:
    """Silverman's rule, but never so narrow that equal samples become an invisible spike."""
    quarter, three = np.quantile(samples, [0.25, 0.75])
    scale = min(float(samples.std()), float(three - quarter) / 1.34 or np.inf)
    return float(max(0.9 * scale * len(samples) ** -0.2, 0.01 * spread))


def _cell_width(filled: Array, low: float, high: float) -> float:
    if filled.ndim != 1 or not len(filled) or not high > low:
        raise ValueError(
            f"increments must be one row (S,) and low < high, however: shape={filled.shape}, low={low}, high={high}"
        )
    width = (high - low) / len(filled)
    slack = 1e-4 * width  # rounding of single precision
    if filled.min() < -slack or filled.max() > width + slack:
        raise ValueError(
            f"each increment must lie between 0 and its cell's width {width:.4g}, however: {filled.min():.4g} to "
            f"{filled.max():.4g}; check low and high, and that the model has transform='uniform'"
        )
    return width


def _series(records: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    known = [record for record in records if name in record]
    return [record["step"] for record in known], [record[name] for record in known]
