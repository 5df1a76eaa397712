"""The demonstration: fit, compare and draw on a table that comes with scikit-learn, and write one page about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import diffor
from diffor import metrics
from diffor.core.prediction import Prediction
from diffor.datasets import DATASETS, load_dataset
from diffor.estimators.api import DiffoRRegressor
from diffor.reports import plots
from diffor.reports.evaluation.figures import (
    calibration_figure,
    densities_figure,
    history_figure,
    increments_figure,
    judge_coverage,
    predictions_figure,
    typical_row,
)
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table, html_page, write_page

Array = NDArray[np.floating]

PAGE = "diffor-demo.html"
BOUNDS = (25.0, 346.0)
"""The range that scikit-learn's documentation gives for the target."""
COVERAGE = 0.9
N_SAMPLES = 256
N_QUANTILES = 30
"""Quantiles that boosting learns, one model each, at levels (i - 0.5) / 30: 0.05 and 0.95 are among them."""


class Split(NamedTuple):
    """The table in two parts. **Shape:** X ``(n, 10)``, y ``(n,)``."""

    X_train: Any
    X_test: Any
    y_train: Array
    y_test: Array


@dataclass(frozen=True)
class Contender:
    """What one model answers for the test rows: distributions, and the best value for each kind of error.

    **Shape:** prediction of n rows, median ``(n,)`` and mean ``(n,)``.
    """

    name: str
    prediction: Prediction
    median: Array
    mean: Array


@dataclass(frozen=True)
class Score:
    """One column of the comparison: its heading, its figure for a contender, and its ideal value."""

    heading: str
    of: Callable[[Array, Contender], float]
    ideal: float = 0.0
    digits: int = 1

    def text(self, value: float) -> str:
        """The figure as it is shown; what does not exist is a dash."""
        return "-" if np.isnan(value) else f"{value:.{self.digits}f}"


def run_demo(out: Path, seed: int = 0, quick: bool = False, log: Callable[[str], object] = print) -> Path:
    """Fit DiffoR on scikit-learn's diabetes table, compare it with two others and write a page into a folder.

    ``quick`` trains for a moment only: all parts run, the figures mean nothing. Returns the path of the page.
    """
    plots.require_matplotlib()  # before the training, not after it
    out = _folder(out)
    split = load_split(seed)
    log(f"Diabetes table: {len(split.y_train)} rows to train on, {len(split.y_test)} to test on, 10 columns.")
    log("Training DiffoR, for a moment only ..." if quick else "Training DiffoR, which takes about a minute ...")
    started = time.monotonic()
    model = fit_diffor(split, seed, quick)
    log(f"Trained in {time.monotonic() - started:.0f} seconds. Training gradient boosting ...")
    contenders = [
        answer_of(model, split),
        boosting(split, seed, n_quantiles=10 if quick else N_QUANTILES),
        constant(split),
    ]
    values = score_table(split.y_test, contenders)
    table = comparison(contenders, values)
    log("\n" + aligned((table.header, *table.rows)) + "\n")
    findings = [name_the_best(table), *read_findings(split.y_test, contenders)]
    log("\n".join(findings))
    write_page(out / PAGE, demo_page(model, split, contenders[0], table, findings))
    log("Open this page in a browser:")
    log(str(out / PAGE))
    return out / PAGE


def load_split(seed: int) -> Split:
    """The diabetes table in its natural units, four rows to train for each one to test."""
    samples = load_dataset("diabetes")
    train, test = DATASETS["diabetes"].split(None, seed)
    return Split(samples.x.iloc[train], samples.x.iloc[test], samples.y[train], samples.y[test])


# The three contenders.


def fit_diffor(split: Split, seed: int, quick: bool = False) -> DiffoRRegressor:
    """DiffoR with the settings of a preset, and nothing tuned."""
    if quick:
        model = DiffoRRegressor("fast", max_steps=60, bounds=BOUNDS, random_state=seed)
    else:
        model = DiffoRRegressor("balanced", bounds=BOUNDS, random_state=seed)
    return model.fit(split.X_train, split.y_train)


def answer_of(model: DiffoRRegressor, split: Split) -> Contender:
    """What DiffoR answers for the test rows."""
    prediction = model.predict_distribution(split.X_test, N_SAMPLES)
    return Contender("DiffoR", prediction, prediction.median, prediction.mean)


def boosting(split: Split, seed: int, n_quantiles: int = N_QUANTILES) -> Contender:
    """Gradient boosting of scikit-learn with its defaults: one model per quantile, one each for median and mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    def answer(**loss: Any) -> Array:
        model = HistGradientBoostingRegressor(random_state=seed, **loss)
        return np.asarray(model.fit(split.X_train, split.y_train).predict(split.X_test))

    # Quantiles at these levels are what Prediction takes its samples for; sorting repairs those that cross.
    levels = (np.arange(n_quantiles) + 0.5) / n_quantiles
    quantiles = np.stack([answer(loss="quantile", quantile=level) for level in levels], axis=1)
    return Contender(
        "Gradient boosting",
        Prediction(np.sort(quantiles, axis=1)),
        answer(loss="absolute_error"),
        answer(loss="squared_error"),
    )


def constant(split: Split) -> Contender:
    """The same answer for every row, whatever its columns say: the distribution of the training targets."""
    n = len(split.y_test)
    prediction = Prediction(np.broadcast_to(split.y_train, (n, len(split.y_train))))
    return Contender(
        "Constant",
        prediction,
        np.full(n, np.median(split.y_train)),
        np.full(n, split.y_train.mean()),
    )


# Scores.


def _rank_correlation(y: Array, contender: Contender) -> float:
    return metrics.srcc(y, contender.median) if np.ptp(contender.median) > 0 else float("nan")


def _coverage(y: Array, contender: Contender) -> float:
    return metrics.coverage(y, *contender.prediction.interval(COVERAGE).T)


SCORES = (
    Score("MAE", lambda y, contender: metrics.mae(y, contender.median)),
    Score("RMSE", lambda y, contender: metrics.rmse(y, contender.mean)),
    Score("SRCC", _rank_correlation, ideal=1.0, digits=3),
    Score("CRPS", lambda y, contender: float(contender.prediction.crps(y).mean())),
    Score(f"{COVERAGE:.0%} coverage", _coverage, ideal=COVERAGE, digits=3),
)


def score_table(y: Array, contenders: Sequence[Contender]) -> Array:
    """Every score of every contender; NaN where a score does not exist. **Shape:** -> ``(contenders, scores)``."""
    return np.array([[score.of(y, contender) for score in SCORES] for contender in contenders])


def comparison(contenders: Sequence[Contender], values: Array) -> Table:
    """The scores as a table; in each column all that show the best figure are bold."""
    ideals = np.array([score.ideal for score in SCORES])
    shown = np.array([[round(v, s.digits) for v, s in zip(row, SCORES, strict=True)] for row in values])
    distances = np.abs(shown - ideals).round(9)
    best = np.argwhere(distances == np.nanmin(distances, axis=0))
    rows = (
        (contender.name, *(score.text(value) for score, value in zip(SCORES, row, strict=True)))
        for contender, row in zip(contenders, values, strict=True)
    )
    caption = (
        "Scores on the test rows, the best of each column bold. MAE and SRCC (rank correlation) judge the median, RMSE "
        "the mean, CRPS the whole distribution. Lower is better, but SRCC is best at 1 and coverage at "
        f"{COVERAGE}. The constant answers every row with the training targets: their median, their mean, "
        "their distribution and its interval; it ranks nothing."
    )
    header = ("Model", *(score.heading for score in SCORES))
    return Table(caption, header, tuple(rows), frozenset((int(i), int(j) + 1) for i, j in best))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as columns of equal width: names to the left, figures to the right.

    >>> print(aligned([("Model", "MAE"), ("DiffoR", "41.2"), ("Constant", "7")]))
    Model      MAE
    DiffoR    41.2
    Constant     7
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *figures]))
    return "\n".join(lines)


# What the figures say. Every sentence is computed, so that none claims more than this run has shown.


def name_the_best(table: Table) -> str:
    """Say which row is bold in each column.

    >>> bold = frozenset({(0, 1), (1, 1), (0, 2)})
    >>> name_the_best(Table("", ("Model", "MAE", "RMSE"), (("A", "1", "2"), ("B", "1", "3")), bold))
    'Best figures: MAE by A and B, RMSE by A.'
    """
    winners = [
        " and ".join(row[0] for place, row in enumerate(table.rows) if (place, column) in table.strong)
        for column in range(1, len(table.header))
    ]
    parts = (f"{heading} by {who}" for heading, who in zip(table.header[1:], winners, strict=True))
    return f"Best figures: {', '.join(parts)}."


def read_findings(y: Array, contenders: Sequence[Contender]) -> list[str]:
    """Sentences about the first contender beside the others, and about its intervals."""
    first, *others = contenders
    sentences = [compare_crps(y, first, other) for other in others]
    return [*sentences, judge_intervals(y, first)]


def compare_crps(y: Array, first: Contender, other: Contender) -> str:
    """Say whether two contenders differ in CRPS by more than chance explains, row by row on the same rows.

    >>> near = Contender("A", Prediction([[1.0], [2.0], [3.0]]), np.zeros(3), np.zeros(3))
    >>> far = Contender("B", Prediction([[5.0], [6.0], [7.5]]), np.zeros(3), np.zeros(3))
    >>> compare_crps(np.array([1.0, 2.0, 3.0]), near, far)
    'The CRPS of A is 4.2 lower (better) than that of B; the standard error is 0.2 over 3 rows.'
    """
    differences = first.prediction.crps(y) - other.prediction.crps(y)
    gap, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(y)))
    side = "lower (better)" if gap < 0 else "higher (worse)"
    measured = f"the standard error is {error:.1f} over {len(y)} rows"
    if abs(gap) <= 2 * error:
        measured += ", so this may be chance"
    return f"The CRPS of {first.name} is {abs(gap):.2g} {side} than that of {other.name}; {measured}."


def judge_intervals(y: Array, contender: Contender) -> str:
    """Say whether the intervals hold as many rows as they should, within what chance allows."""
    return judge_coverage(round(_coverage(y, contender) * len(y)), len(y), COVERAGE, contender.name)


# The page.


def demo_page(model: DiffoRRegressor, split: Split, answer: Contender, table: Table, findings: Sequence[str]) -> str:
    """The whole page about one run, as HTML."""
    preset = f"“{model.preset}”" + (f", stopped after {model.max_steps} steps," if model.max_steps else "")
    about = (
        f"From ten measurements of a patient, predict how far diabetes has progressed a year later, on a scale from "
        f"{BOUNDS[0]:.0f} to {BOUNDS[1]:.0f}. The table comes with scikit-learn: {len(split.y_train)} rows were "
        f"trained on, {len(split.y_test)} are tested on. DiffoR {diffor.__version__} ran with its preset "
        f"{preset} and nothing tuned, gradient boosting with scikit-learn's defaults."
    )
    caution = (
        "This is one random split of a small table: another seed moves every figure, so differences of the size of "
        "the standard errors above are no ranking of methods."
    )
    sections: list[Section] = [
        Paragraph(about),
        Heading("How well it predicts"),
        table,
        *(Paragraph(sentence) for sentence in findings),
        Paragraph(caution),
        Heading("Predicted and true values"),
        predictions_figure(split.y_test, answer.prediction, COVERAGE),
        Heading("Whole distributions"),
        densities_figure(split.y_test, answer.prediction, BOUNDS),
        Heading("Calibration"),
        calibration_figure(split.y_test, answer.prediction),
        Heading("One prediction, coarse to fine"),
        typical_increments(model, split, answer),
        Heading("Training"),
        history_figure(model.history_),
    ]
    return html_page("DiffoR on the diabetes table", sections)


def typical_increments(model: DiffoRRegressor, split: Split, answer: Contender) -> Figure:
    """The increments of a typical test row."""
    row = typical_row(np.abs(answer.median - split.y_test))
    increments = model.predict_increments(split.X_test.iloc[[row]])[0]
    words = f"Test row {row}, whose error is the median error of all; its median is {answer.median[row]:.0f}."
    return increments_figure(increments, model.scale_.low, model.scale_.high, float(split.y_test[row]), words)


def _folder(out: Path) -> Path:
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"out must be a folder, but {out} is a file; choose another place")
    out.mkdir(parents=True, exist_ok=True)
    return out
