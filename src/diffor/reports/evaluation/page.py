"""The page about one model: what it answers on rows with known targets, how sure it may be, and where it is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import diffor
from diffor.estimators.chain import has_chain, trajectory_of, true_increments
from diffor.estimators.values import N_RANGES
from diffor.reports.evaluation import figures
from diffor.reports.evaluation.evaluation import Evaluation, picked_rows, row_errors
from diffor.reports.evaluation.figures import typical_row
from diffor.reports.evaluation.grades import grade_sections
from diffor.reports.evaluation.slices import Slice, worst_slices
from diffor.reports.evaluation.uncertainty import explained_sections, uncertainty_sections
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table, html_page, number

Array = NDArray[np.float64]

MAX_POINTS = 1000
"""Points of a scatter plot: more make a page heavy and hide each other."""
MAX_READ = 2000
"""Rows whose increments are read: each costs another run of the chain."""
N_WORST = 10


def model_page(evaluation: Evaluation) -> str:
    """The whole page, as HTML."""
    parts = grade_sections(evaluation) if evaluation.is_graded else value_sections(evaluation)
    sections = [*about(evaluation), Heading("How well it predicts"), score_table(evaluation)]
    if evaluation.against:
        caption = (
            "Baselines that were trained on the same rows, with what their mean errors are more than the model's; in "
            "brackets, 95% of 1,000 resamples of the rows: where both ends are above 0, the model is better."
        )
        sections += [Heading("Beside other methods", level=3), Table.of(evaluation.against, caption)]
    sections += [*parts, *slice_sections(evaluation), *explained_sections(evaluation)]
    sections += [*uncertainty_sections(evaluation), *increment_sections(evaluation)]
    if evaluation.model.history_.records:
        sections += [Heading("Training"), figures.history_figure(evaluation.model.history_)]
    return html_page(f"Model report: {evaluation.name}", sections)


# What all models have.


def about(evaluation: Evaluation) -> list[Section]:
    """Which model and which rows this page is about."""
    model, n_columns = evaluation.model, evaluation.table.shape[1]
    answer = "its method's own decision" if evaluation.statistic == "native" else f"the {evaluation.statistic}"
    text = (
        f"This model ({type(model).__name__}, method {model.settings_.method}, DiffoR {diffor.__version__}) predicts "
        f"{evaluation.target} from {n_columns} {'column' if n_columns == 1 else 'columns'}. It is measured here on "
        f"{evaluation.n_rows:,} rows of {evaluation.data}, where it answers with {answer}. The figures "
        "say something about other rows only if these were kept out of training."
    )
    paragraphs: list[Section] = [Paragraph(text)]
    if len(evaluation.rows) < evaluation.n_rows:
        paragraphs.append(
            Paragraph(
                f"The scores are those of all {evaluation.n_rows:,} rows. Figures and slices look at "
                f"{len(evaluation.rows):,} of them, picked at random."
            )
        )
    return paragraphs


def score_table(evaluation: Evaluation) -> Table:
    """The metrics with their intervals, beside those of the constant; bold where chance does not explain a gain."""
    records = [
        {
            "Metric": score.title,
            "Model": score.value,
            "95% interval": None if score.interval is None else " to ".join(map(number, score.interval)),
            "Constant": score.constant,
        }
        for score in evaluation.scores
    ]
    nominal = "" if evaluation.is_graded else f" Intervals should hold {evaluation.coverage:.0%} of the rows."
    caption = (
        "95% intervals are from 1,000 resamples of the rows. The constant is the best that one answer for all rows "
        "could reach here. Bold where the model is better than it beyond what chance explains; others are worse, or "
        f"not told apart by as many rows.{nominal}"
    )
    clear = frozenset((place, 1) for place, score in enumerate(evaluation.scores) if score.is_clear)
    return replace(Table.of(records, caption), strong=clear)


def slice_sections(evaluation: Evaluation) -> Iterator[Section]:
    """The parts of the table about which the model is most wrong."""
    errors, words = row_errors(evaluation)
    parts = worst_slices(evaluation.table, errors)
    worse = [part for part in parts if part.statistic > 0][:N_WORST]
    yield Heading("Where it is wrong")
    if worse:
        yield slice_table(worse, words, len(parts))
    else:
        yield Paragraph("No part of at least 20 rows of any column is worse than the rest.")


def slice_table(parts: Sequence[Slice], words: str, n_parts: int) -> Table:
    """Slices with their errors; where chance does not explain them, p is bold."""
    records = [
        {
            "Column and values": f"{part.column}: {part.values}",
            "Rows": part.n_rows,
            "Error": part.error,
            "Elsewhere": part.elsewhere,
            "Ratio": f"{part.ratio:.2f}",
            "p": f"{part.p:.3f}" if part.p >= 0.001 else "< 0.001",
        }
        for part in parts
    ]
    caption = (
        f"Mean {words} of the rows with these values, and of all others; the worst of {n_parts} parts. Columns are cut "
        "into their categories, or numbers into up to five parts of about equally many rows. p is how often chance "
        "alone would give such a difference or a larger one in any of them (Welch's test, Holm's correction); bold "
        "below 0.05."
    )
    clear = frozenset((place, 5) for place, part in enumerate(parts) if part.p < 0.05)
    return replace(Table.of(records, caption), strong=clear, sortable=True)


# Values.


def value_sections(evaluation: Evaluation) -> Iterator[Section]:
    """Figures of a model of values."""
    y, prediction, model = evaluation.truth, evaluation.prediction, evaluation.model
    is_sure = model.has_distribution
    coverage = evaluation.coverage if is_sure or model.conformal_ is not None else None
    shown: Any = picked_rows(len(y), MAX_POINTS)
    opened = None if evaluation.intervals is None else evaluation.intervals[shown]
    yield Heading("Predicted and true values")
    yield figures.predictions_figure(y[shown], prediction[shown], coverage, opened, len(y))
    yield Heading("Error by range of the target")
    yield figures.range_figure(y, prediction)
    if not is_sure:
        yield Paragraph(
            f"The method {model.settings_.method} predicts a point and no distribution, so there are no densities and "
            "no figures of calibration."
        )
        return
    yield Heading("Whole distributions")
    names = [evaluation.row_name(place) for place in range(len(y))]
    ends = model.scale_.low, model.scale_.high
    if model.learns_share:  # each row has an end of its own
        ends = 0.0, float(prediction.quantile([1.0]).max())
    yield figures.densities_figure(y, prediction, ends, names)
    yield Heading("Calibration")
    low, high = (prediction.interval(evaluation.coverage) if evaluation.intervals is None else evaluation.intervals).T
    inside = int(((low <= y) & (y <= high)).sum())
    yield figures.coverage_table(inside, len(y), evaluation.coverage)
    if model.conformal_ is not None:
        yield Paragraph(
            "These intervals are opened as far as calibration rows asked for. The figures below show the model's own "
            "distributions, which they did not change."
        )
    yield from figures.calibration_figures(y, prediction)


# Increments.


def increment_sections(evaluation: Evaluation) -> Iterator[Section]:
    """How far answers fill each part of the range, over many rows and for a typical one, and how a chain gets there."""
    model = evaluation.model
    if not model.has_distribution or not model.scale_.high > model.scale_.low or model.learns_share:
        return
    shown = picked_rows(len(evaluation.truth), MAX_READ)
    truth, table = np.asarray(evaluation.truth, dtype=np.float64), evaluation.table
    predicted = np.asarray(model.predict_increments(table.iloc[shown]))
    true = true_increments(model, truth[shown], N_RANGES)
    yield Heading("From coarse to fine")
    yield figures.scales_figure(true, predicted)
    typical = typical_row(row_errors(evaluation)[0][shown])
    place = int(shown[typical])
    why = f"Of {evaluation.row_name(place)}, whose error is the median error of all."
    yield _increments_of(model, predicted[typical], truth[place], why)
    if not has_chain(model):
        return
    path = trajectory_of(model, table.iloc[[place]])
    words = f"The same row, along the chain of the model's first member: each step takes noise away.{_unit_note(model)}"
    yield figures.trajectory_figure(path.times, path.values, float(truth[place]), words)


def _unit_note(model: Any) -> str:
    return " Grades are counted from 0." if hasattr(model, "classes_") else ""


def _increments_of(model: Any, increments: Array, y: float, why: str) -> Figure:
    """One row's increments, in the target's units or, where its scale is bent, as parts of the scale."""
    scale = model.scale_
    if getattr(scale, "transform", "uniform") == "uniform":
        return figures.increments_figure(increments, scale.low, scale.high, float(y), why + _unit_note(model))
    levels = scale.to_unit(scale.low + np.cumsum(increments))
    words = f"{why} The target's scale is bent ({scale.transform}), so parts of the whole scale are shown."
    return figures.increments_figure(np.diff(levels, prepend=0.0), 0.0, 1.0, float(scale.to_unit(y)), words)
