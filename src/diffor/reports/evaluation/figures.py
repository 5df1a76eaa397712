"""Figures about one model, with captions that are true for any rows; what chance allows stands in the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.prediction import Prediction
from diffor.reports import plots
from diffor.reports.evaluation.scores import calibrated_range
from diffor.reports.html import Figure, Table
from diffor.reports.plots.predictions import digits_of

if TYPE_CHECKING:
    from diffor.training.loop import History

Array = NDArray[np.floating]


def typical_row(errors: ArrayLike) -> int:
    """The row whose error is the median one (the lower of two). **Shape:** ``(n,)``.

    >>> typical_row([9.0, 1.0, 4.0])
    2
    """
    values = np.asarray(errors)
    return int(np.argsort(values, kind="stable")[(len(values) - 1) // 2])


def predictions_figure(
    y: Array, prediction: Prediction, coverage: float | None, intervals: Array | None = None, n_rows: int | None = None
) -> Figure:
    """Answers against the truth; ``n_rows`` are those that the drawn ones were picked from.

    **Shape:** y ``(n,)``, prediction of n rows, intervals ``(n, 2)``.
    """
    picked = "Each row once" if n_rows in (None, len(y)) else f"{len(y):,} of {n_rows:,} rows, picked at random"
    shown = "the answer as a point." if coverage is None else (
        "the predicted median as a point, its interval as a line. Crosses are rows whose interval misses the truth."
    )  # fmt: skip
    return Figure(
        plots.figure_svg(plots.predicted_against_true(y, prediction, coverage, intervals)),
        f"Scatter plot of predicted against true values of {len(y)} rows.",
        f"{picked}: {shown}",
    )


def densities_figure(
    y: Array, prediction: Prediction, bounds: tuple[float, float] | None, names: Sequence[str] | None = None
) -> Figure:
    """Predicted densities of a few rows; ``names`` are what the rows are called.

    **Shape:** y ``(n,)``, prediction of n rows, names ``(n,)``.
    """
    ax = plots.predictive_densities(prediction, y, bounds=bounds)
    if names is not None:
        rows = [int(label.get_text().removeprefix("row ")) for label in ax.get_yticklabels()]
        ax.set_yticks(range(len(rows)), [names[row] for row in rows])
    return Figure(
        plots.figure_svg(ax),
        f"Predicted densities of {len(ax.get_yticks())} rows, with the true value of each.",
        "Rows from the lowest predicted median (bottom) to the highest (top), numbered as in the table. A narrow hill "
        "is a prediction that is sure of itself; nothing leaves the legal range.",
    )


def range_figure(y: Array, prediction: Prediction) -> Figure:
    """Errors in ranges of the true value. **Shape:** y ``(n,)``, prediction of n rows."""
    ax = plots.error_by_range(y, prediction)
    return Figure(
        plots.figure_svg(ax),
        f"Mean absolute error in {len(ax.get_yticks())} ranges of the true value.",
        "A model that is unsure answers nearer to the middle than the truth is, so the ends look worse for all models.",
    )


def coverage_table(inside: int, count: int, coverage: float) -> Table:
    """How many rows the intervals hold, and how many those of a calibrated model would.

    >>> coverage_table(60, 100, 0.9).rows
    (('90%', '60', '100', '84 to 95'),)
    """
    low, high = calibrated_range(count, coverage)
    record = {"intervals": f"{coverage:.0%}", "hold": inside, "of rows": count, "calibrated": f"{low:,} to {high:,}"}
    return Table.of([record], "A calibrated model would hold as many 19 times in 20: fewer mean that intervals are too "
                              "narrow, more that they are too wide.")  # fmt: skip


def calibration_figures(y: Array, prediction: Prediction) -> list[Figure]:
    """Coverage, places of the truth, and widths of intervals. **Shape:** y ``(n,)``, prediction of n rows."""
    return [
        Figure(
            plots.figure_svg(plots.calibration(y, prediction)),
            f"Achieved against nominal coverage of central intervals, at {len(plots.LEVELS)} levels from 5% to 95%.",
            "Below the diagonal intervals are too narrow, above it too wide. The band is for each level by itself.",
        ),
        Figure(
            plots.figure_svg(plots.pit_histogram(y, prediction)),
            "Histogram of the place of each truth in its predicted distribution, in ten equal parts.",
            "Each bar should hold a tenth of the rows. Hills at both ends mean that distributions are too narrow, a "
            "hill in the middle that they are too wide, a slope that answers are too low or too high.",
        ),
        Figure(
            plots.figure_svg(plots.coverage_against_width(y, prediction)),
            "Share of rows inside central intervals against the mean width of these intervals.",
            "Of two models that keep their promises, the one with the narrower intervals knows more.",
        ),
    ]


def grade_calibration_figure(codes: NDArray[np.int64], probabilities: Array) -> Figure:
    """How often grades come true against their probability. **Shape:** ``(n,)``, ``(n, K)``."""
    return Figure(
        plots.figure_svg(plots.grade_calibration(codes, probabilities)),
        "Share of grades that came true against their predicted probability.",
        "Below the diagonal the model is too sure, above it not sure enough.",
    )


def increments_figure(increments: Array, low: float, high: float, y: float, words: str) -> Figure:
    """The increments of one row; ``words`` say which and why. **Shape:** increments ``(S,)``."""
    reached, digits = low + float(increments.sum()), digits_of(high - low)
    return Figure(
        plots.figure_svg(plots.increments_of(increments, low, high, y)),
        f"{len(increments)} cells that fill from coarse to fine up to {reached:.{digits}f}; the true value is "
        f"{y:.{digits}f}.",
        f"{words} Cells are filled on average over the distribution, so several can be filled in part where the model "
        "is unsure.",
    )


def scales_figure(true: Array, predicted: Array) -> Figure:
    """Means and errors of all increments. **Shape:** true and predicted ``(n, S)``."""
    return Figure(
        plots.figure_svg(plots.increments_by_scale(true, predicted)),
        f"Mean of each of {true.shape[1]} increments over {len(true)} rows, true and predicted, with the mean error.",
        f"Read from {len(true):,} rows. Where the lines part, answers lean to one side in that part of the range.",
    )


def trajectory_figure(times: Sequence[int], values: Array, y: float, words: str) -> Figure:
    """One row along the reverse chain; ``words`` say which. **Shape:** times ``(k,)``, values ``(m, k)``."""
    return Figure(
        plots.figure_svg(plots.denoising_trajectory(times, values, y)),
        f"Value of {len(values)} samples along the {len(times)} steps of the reverse chain.",
        words,
    )


def history_figure(history: History) -> Figure:
    """Validation score and losses during training."""
    return Figure(
        plots.figure_svg(plots.training_history(history)),
        f"Validation CRPS and loss terms over {history.steps} training steps; step {history.best_step} was the best.",
        f"Training ended after {history.steps} steps and {history.seconds:.0f} seconds ({history.stopped}). The "
        f"weights of step {history.best_step} were kept.",
    )
