"""The parts of a page that only models of grades have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from diffor.reports.evaluation import figures
from diffor.reports.evaluation.evaluation import Evaluation
from diffor.reports.html import Heading, Paragraph, Section, Table


def grade_sections(evaluation: Evaluation) -> Iterator[Section]:
    """Tables and figures of a model of grades."""
    grades = [str(grade) for grade in evaluation.model.grades_.tolist()]
    counts = np.zeros((len(grades), len(grades)), dtype=np.int64)
    np.add.at(counts, (evaluation.truth, evaluation.answered), 1)
    yield Heading("Answers and truth")
    yield confusion_table(counts, grades)
    off = np.abs(evaluation.truth - evaluation.answered)
    right, near = (f"{(off <= most).mean():.0%}" for most in (0, 1))
    yield Table.of([{"answers": "share of rows", "right": right, "at most one grade off": near}])
    if evaluation.model.has_distribution:
        yield Heading("Calibration")
        probabilities = evaluation.prediction.grade_probabilities(len(grades))
        yield figures.grade_calibration_figure(evaluation.truth, probabilities)
    else:
        yield Paragraph(
            f"The method {evaluation.model.settings_.method} predicts a point and no probabilities, so there is no "
            "figure of calibration."
        )


def confusion_table(counts: NDArray[np.int64], grades: Sequence[str]) -> Table:
    """How often each grade was answered with each. **Shape:** ``(K, K)``, ``(K,)``."""
    rows = tuple(
        (grade, *(f"{count:,}" for count in row), f"{row.sum():,}") for grade, row in zip(grades, counts, strict=True)
    )
    header = ("True grade", *(f"answered {grade}" for grade in grades), "Rows")
    right = frozenset((place, place + 1) for place in range(len(grades)))
    return Table("Rows of each true grade by the grade that the model answered with; right answers are bold.",
                 header, rows, right)  # fmt: skip
