"""Figures with their captions. Every sentence is computed, so that none claims more than these rows have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor import metrics
from diffor.core.prediction import Prediction
from diffor.reports import plots
from diffor.reports.html import Figure
from diffor.reports.plots.predictions import digits_of, ranges_of
from diffor.reports.plots.reliability import grade_shares_by_probability, pit_shares

if TYPE_CHECKING:
    from diffor.training.loop import History

Array = NDArray[np.floating]


def number(value: float) -> str:
    """A number with three digits that count, or all before the point.

    >>> number(1234.56), number(12.345), number(0.0012345), number(-0.5), number(0.0)
    ('1,235', '12.3', '0.00123', '-0.500', '0')
    """
    if not np.isfinite(value) or value == 0:
        return f"{value:g}"
    size = int(np.floor(np.log10(abs(value))))
    return f"{value:,.{max(0, 2 - size)}f}" if -5 <= size < 12 else f"{value:.2e}"


def typical_row(errors: ArrayLike) -> int:
    """The row whose error is the median one (the lower of two). **Shape:** ``(n,)``.

    >>> typical_row([9.0, 1.0, 4.0])
    2
    """
    values = np.asarray(errors)
    return int(np.argsort(values, kind="stable")[(len(values) - 1) // 2])


# Values.


def predictions_figure(
    y: Array, prediction: Prediction, coverage: float | None, intervals: Array | None = None, n_rows: int | None = None
) -> Figure:
    """Answers against the truth; ``n_rows`` are those that the drawn ones were picked from.

    **Shape:** y ``(n,)``, prediction of n rows, intervals ``(n, 2)``.
    """
    ax = plots.predicted_against_true(y, prediction, coverage, intervals)
    off = np.abs(prediction.median - y)
    subject = "answers" if coverage is None else "medians"
    sentence = (
        f"Half of the {subject} are off by less than {number(float(np.median(off)))}, nine in ten by less than "
        f"{number(float(np.quantile(off, 0.9)))}."
    )
    picked = "Each row once" if n_rows in (None, len(y)) else f"{len(y):,} of {n_rows:,} rows, picked at random"
    if coverage is None:
        label = f"Scatter plot of predicted against true values of {len(y)} rows."
        return Figure(plots.figure_svg(ax), label, f"{picked}: the answer as a point. {sentence}")
    low, high = (prediction.interval(coverage) if intervals is None else np.asarray(intervals)).T
    share = metrics.coverage(y, low, high)
    return Figure(
        plots.figure_svg(ax),
        f"Scatter plot of predicted against true values of {len(y)} rows; {share:.0%} of the intervals hold the truth.",
        f"{picked}: the predicted median as a point, its interval as a line. Crosses are rows whose interval misses "
        f"the truth. {sentence}",
    )


def densities_figure(
    y: Array, prediction: Prediction, bounds: tuple[float, float] | None, names: Sequence[str] | None = None
) -> Figure:
    """Predicted densities of a few rows; ``names`` are what the rows are called.

    **Shape:** y ``(n,)``, prediction of n rows, names ``(n,)``.
    """
    ax = plots.predictive_densities(prediction, y, bounds=bounds)
    rows = [int(label.get_text().removeprefix("row ")) for label in ax.get_yticklabels()]
    if names is not None:
        ax.set_yticks(range(len(rows)), [names[row] for row in rows])
    low, high = prediction[np.array(rows)].interval(0.8).T
    widest = int((high - low).argmax())
    ratio = (high - low)[widest] / max(float((high - low).min()), 1e-12)
    words = f"row {rows[widest]}" if names is None else names[rows[widest]]
    return Figure(
        plots.figure_svg(ax),
        f"Predicted densities of {len(rows)} rows, with the true value of each.",
        "Rows from the lowest predicted median (bottom) to the highest (top), numbered as in the table. A narrow hill "
        "is a prediction that is sure of itself; nothing leaves the legal range. "
        + (f"The model is least sure about {words}" + (f", {ratio:.1f} times as wide as the surest here." if ratio < 1e6
                                                       else "."))
    )  # fmt: skip


def range_figure(y: Array, prediction: Prediction) -> Figure:
    """Errors in ranges of the true value. **Shape:** y ``(n,)``, prediction of n rows."""
    errors, ranges = np.abs(prediction.median - y), ranges_of(y, 10)
    means = [float(errors[part.rows].mean()) for part in ranges]
    worst, best = int(np.argmax(means)), int(np.argmin(means))
    digits = digits_of(float(np.ptp(y)))

    def words(place: int) -> str:
        return f"{ranges[place].low:.{digits}f} to {ranges[place].high:.{digits}f}"

    sentence = f"All {len(y)} rows are in one range." if len(ranges) == 1 else (
        f"The error is largest for true values from {words(worst)}, {number(means[worst])}, and smallest from "
        f"{words(best)}, {number(means[best])}. A model that is unsure answers nearer to the middle than the truth is, "
        "so the ends look worse for every model."
    )  # fmt: skip
    return Figure(
        plots.figure_svg(plots.error_by_range(y, prediction)),
        f"Mean absolute error in {len(ranges)} ranges of the true value.",
        sentence,
    )


# Calibration.


def judge_coverage(inside: int, count: int, coverage: float, owner: str = "the model") -> str:
    """Say whether intervals hold as many rows as they should, within what chance allows.

    >>> judge_coverage(60, 100, 0.9)[-32:]
    'so its intervals are too narrow.'
    """
    from scipy.stats import binom

    low, high = (int(binom.ppf(tail, count, coverage)) for tail in (0.025, 0.975))
    if low <= inside <= high:
        verdict = "so this one agrees with its promise"
    else:
        verdict = f"so its intervals are too {'narrow' if inside < low else 'wide'}"
    return (
        f"The {coverage:.0%} intervals of {owner} hold {inside:,} of {count:,} rows. "
        f"A calibrated model would hold {low:,} to {high:,} (19 times in 20), {verdict}."
    )


def calibration_figure(y: Array, prediction: Prediction) -> Figure:
    """Achieved against nominal coverage. **Shape:** y ``(n,)``, prediction of n rows."""
    ax = plots.calibration(y, prediction)
    line = next(line for line in ax.lines if str(line.get_label()).startswith("achieved"))
    gap = np.asarray(line.get_ydata(), dtype=np.float64) - plots.LEVELS
    worst = int(np.abs(gap).argmax())
    return Figure(
        plots.figure_svg(ax),
        f"Achieved against nominal coverage of central intervals, at {len(gap)} levels from 5% to 95%.",
        f"Below the diagonal intervals are too narrow, above it too wide. The largest gap is {gap[worst]:+.2f}, at a "
        f"nominal coverage of {plots.LEVELS[worst]:.2f}. The band is for each level by itself.",
    )


def pit_figure(y: Array, prediction: Prediction) -> Figure:
    """Places of the truth in its distribution. **Shape:** y ``(n,)``, prediction of n rows."""
    return Figure(
        plots.figure_svg(plots.pit_histogram(y, prediction)),
        "Histogram of the place of each truth in its predicted distribution, in ten equal parts.",
        f"Each bar should hold a tenth of the rows. {read_places(pit_shares(y, prediction), len(y))}",
    )


def read_places(shares: Array, count: int) -> str:
    """Say what ten shares of the places of the truth mean, as far as ``count`` rows can tell. **Shape:** ``(10,)``.

    >>> read_places(np.full(10, 0.1), 500)
    'They do, as far as 500 rows can tell.'
    """
    from scipy.stats import binom

    def judge(share: float, expected: float) -> int:
        low, high = binom.ppf([0.005, 0.995], count, expected)
        return int(round(share * count) > high) - int(round(share * count) < low)

    ends, upper = judge(float(shares[0] + shares[-1]), 0.2), judge(float(shares[5:].sum()), 0.5)
    found = []
    if ends:
        words = "more" if ends > 0 else "fewer"
        found.append(
            f"{words} than a fifth of the truths ({shares[0] + shares[-1]:.0%}) lie in the two outermost parts: the "
            f"distributions are too {'narrow' if ends > 0 else 'wide'}"
        )
    if upper:
        side, answer = ("above", "low") if upper > 0 else ("below", "high")
        share = shares[5:].sum() if upper > 0 else shares[:5].sum()
        found.append(f"{share:.0%} of the truths lie {side} the median: the answers are too {answer}")
    if not found:
        return f"They do, as far as {count:,} rows can tell."
    text = "; ".join(found)
    return f"{text[0].upper()}{text[1:]}."


def width_figure(y: Array, prediction: Prediction, coverage: float) -> Figure:
    """Coverage against the mean width of intervals. **Shape:** y ``(n,)``, prediction of n rows."""
    low, high = prediction.interval(coverage).T
    ends = np.quantile(y, [(1 - coverage) / 2, (1 + coverage) / 2])
    width, constant = float((high - low).mean()), float(ends[1] - ends[0])
    beside = f", {width / constant:.0%} of the width that one interval for all rows needs" if constant > 0 else ""
    return Figure(
        plots.figure_svg(plots.coverage_against_width(y, prediction)),
        "Share of rows inside central intervals against the mean width of these intervals.",
        f"A {coverage:.0%} interval of the model is {number(width)} wide on average{beside}. Of two models that keep "
        "their promises, the one with the narrower intervals knows more.",
    )


def grade_calibration_figure(codes: NDArray[np.int64], probabilities: Array) -> Figure:
    """How often grades come true against their probability. **Shape:** ``(n,)``, ``(n, K)``."""
    said, share, counts = grade_shares_by_probability(codes, probabilities)
    enough = counts >= min(50, int(counts.max()))
    gaps = np.where(enough, share - said, 0.0)
    worst = int(np.abs(gaps).argmax())
    direction = "less often than it says" if gaps[worst] < 0 else "more often than it says"
    return Figure(
        plots.figure_svg(plots.grade_calibration(codes, probabilities)),
        f"Share of grades that came true against their predicted probability, in {len(said)} bins.",
        f"Below the diagonal the model is too sure, above it not sure enough. The largest gap is {gaps[worst]:+.2f}: "
        f"grades to which the model gives about {said[worst]:.2f} come true {direction}, {share[worst]:.2f} of "
        f"{counts[worst]} times.",
    )


# Increments.


def increments_figure(increments: Array, low: float, high: float, y: float, words: str) -> Figure:
    """The increments of one row; ``words`` say which and why. **Shape:** increments ``(S,)``."""
    reached, digits = low + float(increments.sum()), digits_of(high - low)
    return Figure(
        plots.figure_svg(plots.increments_of(increments, low, high, y)),
        f"{len(increments)} cells that fill from coarse to fine up to {reached:.{digits}f}; the true value is "
        f"{y:.{digits}f}.",
        f"{words} Cells are filled on average over the samples, so several can be filled in part where the model is "
        f"unsure. The heads reach {reached:.{digits}f}.",
    )


def scales_figure(true: Array, predicted: Array) -> Figure:
    """Means and errors of all increments. **Shape:** true and predicted ``(n, S)``."""
    errors, gaps = np.abs(predicted - true).mean(axis=0), (predicted - true).mean(axis=0)
    worst, lean = int(errors.argmax()), int(np.abs(gaps).argmax())
    side = "too full" if gaps[lean] > 0 else "too empty"
    return Figure(
        plots.figure_svg(plots.increments_by_scale(true, predicted)),
        f"Mean of each of {true.shape[1]} increments over {len(true)} rows, true and predicted, with the mean error.",
        f"Read from {len(true):,} rows. Increment {worst + 1} is the hardest: it is off by {number(errors[worst])} on "
        f"average. On balance, increment {lean + 1} leans most: it is {side} by {number(abs(gaps[lean]))}.",
    )


def trajectory_figure(times: Sequence[int], values: Array, y: float, words: str) -> Figure:
    """One row along the reverse chain; ``words`` say which. **Shape:** times ``(k,)``, values ``(m, k)``."""
    first, last = (np.quantile(values[:, place], [0.05, 0.5, 0.95]) for place in (0, -1))
    return Figure(
        plots.figure_svg(plots.denoising_trajectory(times, values, y)),
        f"Value of {len(values)} samples along the {len(times)} steps of the reverse chain.",
        f"{words} At the highest noise nine in ten samples span {number(float(first[2] - first[0]))}, at the end "
        f"{number(float(last[2] - last[0]))}. The median goes "
        f"from {number(float(first[1]))} to {number(float(last[1]))}; the truth is {number(y)}.",
    )


def history_figure(history: History) -> Figure:
    """Validation score and losses during training."""
    return Figure(
        plots.figure_svg(plots.training_history(history)),
        f"Validation CRPS and loss terms over {history.steps} training steps; step {history.best_step} was the best.",
        f"Training ended after {history.steps} steps and {history.seconds:.0f} seconds ({history.stopped}). The "
        f"weights of step {history.best_step} were kept.",
    )
