"""The demonstration: fit, compare and draw on a table that comes with scikit-learn, and write one page about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from diffor.reports.evaluation import figures
from diffor.reports.html import Heading, Paragraph, Section, Table, as_text, html_page, write_page

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


class Contender(NamedTuple):
    """What one model answers for the test rows: distributions, and the best value for each kind of error.

    **Shape:** prediction of n rows, median ``(n,)`` and mean ``(n,)``.
    """

    name: str
    prediction: Prediction
    median: Array
    mean: Array


def run_demo(out: Path, seed: int = 0, quick: bool = False, log: Callable[[str], object] = print) -> Path:
    """Fit DiffoR on scikit-learn's diabetes table, compare it with two others and write a page into a folder.

    ``quick`` trains for a moment only: all parts run, the figures mean nothing. Returns the path of the page.
    """
    plots.require_matplotlib()  # before the training, not after it
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"out must be a folder, but {out} is a file; choose another place")
    out.mkdir(parents=True, exist_ok=True)
    split = load_split(seed)
    log(f"Diabetes table: {len(split.y_train)} rows to train on, {len(split.y_test)} to test on, 10 columns.")
    log("Training DiffoR, for a moment only ..." if quick else "Training DiffoR, which takes about a minute ...")
    started = time.monotonic()
    model = fit_diffor(split, seed, quick)
    log(f"Trained in {time.monotonic() - started:.0f} seconds. Training gradient boosting ...")
    answer = answer_of(model, split)
    others = [boosting(split, seed, n_quantiles=10 if quick else N_QUANTILES), constant(split)]
    table = comparison(split.y_test, [answer, *others])
    log("\n" + as_text([table]) + "\n")
    write_page(out / PAGE, demo_page(model, split, answer, table))
    log("Open this page in a browser:")
    log(str(out / PAGE))
    return out / PAGE


def load_split(seed: int) -> Split:
    """The diabetes table in its natural units, four rows to train for each one to test."""
    samples = load_dataset("diabetes")
    train, test = DATASETS["diabetes"].split(None, seed)
    return Split(samples.x.iloc[train], samples.x.iloc[test], samples.y[train], samples.y[test])


def fit_diffor(split: Split, seed: int, quick: bool = False) -> DiffoRRegressor:
    """DiffoR with the settings of a preset, and nothing tuned."""
    model = DiffoRRegressor(bounds=BOUNDS, random_state=seed)
    if quick:
        model.set_params(preset="fast", max_steps=60)
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
    quantiles = np.sort(np.stack([answer(loss="quantile", quantile=level) for level in levels], axis=1), axis=1)
    median, mean = answer(loss="absolute_error"), answer(loss="squared_error")
    return Contender("Gradient boosting", Prediction(quantiles), median, mean)


def constant(split: Split) -> Contender:
    """The same answer for every row, whatever its columns say: the distribution of the training targets."""
    n, y = len(split.y_test), split.y_train
    prediction = Prediction(np.broadcast_to(y, (n, len(y))))
    return Contender("Constant", prediction, np.full(n, np.median(y)), np.full(n, y.mean()))


def comparison(y: Array, contenders: Sequence[Contender]) -> Table:
    """Scores of the contenders, and how far the CRPS of each is from that of the first, row by row."""
    first, records = contenders[0].prediction.crps(y), []
    for one in contenders:
        crps = one.prediction.crps(y)
        gap, error = float((crps - first).mean()), float((crps - first).std(ddof=1) / np.sqrt(len(y)))
        records.append({
            "Model": one.name,
            "MAE": metrics.mae(y, one.median),
            "RMSE": metrics.rmse(y, one.mean),
            "SRCC": metrics.srcc(y, one.median) if np.ptp(one.median) > 0 else None,
            "CRPS": float(crps.mean()),
            "CRPS less the first's": None if one is contenders[0] else f"{gap:+.2f} ± {error:.2f}",
            f"{COVERAGE:.0%} coverage": metrics.coverage(y, *one.prediction.interval(COVERAGE).T),
        })  # fmt: skip
    return Table.of(
        records,
        "Scores on the test rows. MAE and SRCC (rank correlation) judge the median, RMSE the mean, CRPS the whole "
        "distribution. Lower is better, but SRCC is best at 1 and coverage at its level. ± is the standard error of a "
        "difference: one of less than two may be chance. The constant answers every row with the training targets: "
        "their median, their mean, their distribution and its interval; it ranks nothing.",
    )


def demo_page(model: DiffoRRegressor, split: Split, answer: Contender, table: Table) -> str:
    """The whole page about one run, as HTML."""
    y, prediction = split.y_test, answer.prediction
    steps = f", stopped after {model.max_steps} steps," if model.max_steps else ""
    about = (
        f"From ten measurements of a patient, predict how far diabetes has progressed a year later, on a scale from "
        f"{BOUNDS[0]:.0f} to {BOUNDS[1]:.0f}. The table comes with scikit-learn: {len(split.y_train)} rows were "
        f"trained on, {len(y)} are tested on. DiffoR {diffor.__version__} ran with its preset “{model.preset}”{steps} "
        "and nothing tuned, gradient boosting with scikit-learn's defaults."
    )
    caution = (
        "This is one random split of a small table: another seed moves every figure, so differences of the size of "
        "the standard errors above are no ranking of methods."
    )
    low, high = prediction.interval(COVERAGE).T
    row = figures.typical_row(np.abs(answer.median - y))
    increments = model.predict_increments(split.X_test.iloc[[row]])[0]
    words = f"Test row {row}, whose error is the median error of all; its median is {answer.median[row]:.0f}."
    sections: list[Section] = [
        Paragraph(about),
        Heading("How well it predicts"),
        table,
        Paragraph(caution),
        Heading("Predicted and true values"),
        figures.predictions_figure(y, prediction, COVERAGE),
        Heading("Whole distributions"),
        figures.densities_figure(y, prediction, BOUNDS),
        Heading("Calibration"),
        figures.coverage_table(int(((low <= y) & (y <= high)).sum()), len(y), COVERAGE),
        figures.calibration_figures(y, prediction)[0],
        Heading("One prediction, coarse to fine"),
        figures.increments_figure(increments, model.scale_.low, model.scale_.high, float(y[row]), words),
        Heading("Training"),
        figures.history_figure(model.history_),
    ]
    return html_page("DiffoR on the diabetes table", sections)
