"""Figures: functions ``(data..., ax=None) -> ax``, which draw on the given axes or on those of a new figure.

matplotlib is an optional extra, so it is imported where it is needed. Nothing here uses pyplot: no figure stays open,
no setting of the caller changes, and ``ax.figure.savefig("name.png")`` writes any result. Colours are those of Okabe
and Ito, which the colour-blind can tell apart; markers and line styles repeat what they say, for prints in grey.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
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
METHOD_LOOKS = (
    (VERMILLION, "D"),
    (BLUE, "o"),
    (GREEN, "s"),
    (ORANGE, "^"),
    (SKY, "v"),
    (BLACK, "x"),
    (GREY, "P"),
    (BLUE, "*"),
)
"""Colours and markers of methods that are drawn beside each other."""
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


# Comparisons of methods.


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
    if not (x.shape == y.shape == (len(methods),)) or not len(methods) or not (x > 0).all():
        raise ValueError(
            "seconds and scores must hold one number for each method, and seconds be positive, "
            f"however: methods={len(methods)}, seconds.shape={x.shape}, scores.shape={y.shape}"
        )
    ax = _axes(ax, height=max(FIGURE_SIZE[1], 1.4 + 0.19 * len(methods)))
    ax.set_xscale("log")
    front = [place for place in np.argsort(x, kind="stable") if not ((x <= x[place]) & (y < y[place])).any()]
    ax.plot(x[front], y[front], "-", color=GREY, linewidth=1, drawstyle="steps-post", label="not beaten in both")
    for place, method in enumerate(methods):
        colour, marker = (VERMILLION, "D") if method in ours else (BLUE, "o")
        ax.plot(x[place], y[place], marker, color=colour, markersize=6)
    ax.margins(0.08)
    _plain_powers(ax)
    ax.set(xlabel=seconds_label, ylabel=score_label)
    _names_at_right(ax, methods, x, y, ours)
    _legend_above(ax)
    return ax


def calibration_of_methods(
    levels: ArrayLike, achieved: Mapping[str, ArrayLike], ours: Sequence[str] = (), ax: Axes | None = None
) -> Axes:
    """Draw for each method how many rows its central intervals hold beyond what they should, in percentage points.

    **Shape:** levels ``(l,)``, achieved ``(l,)`` for each method.
    """
    nominal = np.asarray(levels, dtype=np.float64)
    ax = _axes(ax)
    ax.axhline(0, linestyle="--", color=BLACK, linewidth=1, label="ideal")
    for place, (method, values) in enumerate(achieved.items()):
        coverage = np.asarray(values, dtype=np.float64)
        if coverage.shape != nominal.shape:
            raise ValueError(
                f"each method must have one coverage for each of {len(nominal)} levels, "
                f"however: {method} has shape {coverage.shape}"
            )
        colour, marker = METHOD_LOOKS[place % len(METHOD_LOOKS)]
        line = "-" if method in ours else ":"
        beyond = 100 * (coverage - nominal)
        ax.plot(nominal, beyond, f"{marker}{line}", color=colour, markersize=4.5, linewidth=1.4, label=method)
    ax.set(xlim=(0, 1), xlabel="nominal coverage of the interval", ylabel="coverage less nominal, points")
    _legend_above(ax, columns=2)
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
    ax = _axes(ax, height=1.5 + 0.2 * len(datasets) + 0.1 * len(coverages))
    places = np.arange(len(datasets))
    ax.axvspan(*band, color=GREY, alpha=0.3, linewidth=0, label=f"{band[0]:.0%} to {band[1]:.0%}")
    ax.axvline(nominal, linestyle="--", color=BLACK, linewidth=1, label=f"nominal {nominal:.0%}")
    for place, (method, values) in enumerate(coverages.items()):
        shares = np.asarray(values, dtype=np.float64)
        if shares.shape != places.shape:
            raise ValueError(
                f"each method must have one coverage for each of {len(places)} data sets, "
                f"however: {method} has shape {shares.shape}"
            )
        colour, marker = METHOD_LOOKS[place % len(METHOD_LOOKS)]
        ax.plot(shares, places, marker, color=colour, markersize=5, alpha=0.9, label=method)
    ax.set_yticks(places, list(datasets), fontsize=8)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    ax.set_ylim(len(datasets) - 0.4, -0.6)
    ax.set_xlabel("share of rows inside their 90% interval" if nominal == 0.9 else "share of rows inside")
    _legend_above(ax, columns=2)
    return ax


def critical_differences(
    methods: Sequence[str], ranks: ArrayLike, difference: float, ours: Sequence[str] = (), ax: Axes | None = None
) -> Axes:
    """Draw mean ranks, best on top; bars join methods that differ by less than the critical difference.

    **Shape:** methods and ranks ``(m,)``.
    """
    values = np.asarray(ranks, dtype=np.float64)
    if values.shape != (len(methods),) or not len(methods) or not difference > 0:
        raise ValueError(
            "ranks must hold one number for each method and the difference be positive, "
            f"however: methods={len(methods)}, ranks.shape={values.shape}, difference={difference}"
        )
    order = np.argsort(values, kind="stable")
    values, names = values[order], [methods[place] for place in order]
    ax = _axes(ax, height=1.2 + 0.24 * len(names))
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
        _legend_above(ax)
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


def _plain_powers(ax: Axes) -> None:
    """Numbers as they are spoken on a logarithmic axis, few enough that they do not touch."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _names_at_right(ax: Axes, names: Sequence[str], x: Array, y: Array, ours: Sequence[str]) -> None:
    """Each point's name beside the axes, no two on one another, with a thin line to its point."""
    low, high = ax.get_ylim()
    # As shares of the height: a line of text of eight points on the figure's height in inches.
    figure: Any = ax.figure
    step = 0.23 / float(figure.get_figheight())
    order = np.argsort(y, kind="stable")
    wanted = (y[order] - low) / (high - low)
    places = _spread_apart(wanted, step)
    for place, index in zip(places, order, strict=True):
        bold = "bold" if names[index] in ours else "normal"
        ax.annotate(
            names[index],
            xy=(x[index], y[index]),
            xytext=(1.03, place),
            textcoords="axes fraction",
            fontsize=8,
            fontweight=bold,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "alpha": 0.7, "shrinkB": 3},
        )


def _spread_apart(wanted: Array, step: float) -> Array:
    """Rising places as near to the wanted ones as they can be with a step between neighbours."""
    # Places less multiples of the step must not fall: the nearest such sequence is the one of isotonic regression.
    values = list(wanted - step * np.arange(len(wanted)))
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and np.mean(groups[-2]) >= np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    level = np.concatenate([np.full(len(group), np.mean(group)) for group in groups])
    return np.asarray(level + step * np.arange(len(wanted)))


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


def _axes(ax: Axes | None, height: float = FIGURE_SIZE[1]) -> Axes:
    """The given axes, or those of a new figure that belongs to nobody else."""
    if ax is None:
        require_matplotlib()
        from matplotlib.figure import Figure

        ax = Figure(figsize=(FIGURE_SIZE[0], height), layout="constrained").add_subplot()
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
