"""Questions about rows, joined and put to the model once, and its answers as JSON values."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.images.inputs import PATH_COLUMN
from diffor.estimators.conformal import open_sets, probable_sets
from diffor.serving.server.drift import Drift
from diffor.serving.server.rows import CheckedRows
from diffor.serving.server.trajectory import N_CHAINS, follow_row

Array = NDArray[Any]
DEFAULT_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
DEFAULT_COVERAGE = 0.9


@dataclass(frozen=True)
class Asked:
    """What is to be known about each row beside its point.

    ``levels`` are those of the quantiles (None: there are none to be had), ``coverage`` that of the interval.
    """

    levels: tuple[float, ...] | None = DEFAULT_LEVELS
    coverage: float | None = DEFAULT_COVERAGE
    increments: bool = True


@dataclass(frozen=True)
class Question:
    """Rows of one request, and what is asked about them; ``pictures`` are paths, one for each row.

    Its length is the number of its rows, or of rows that cost as much.
    """

    rows: CheckedRows
    asked: Asked = field(default_factory=Asked)
    pictures: tuple[str, ...] = ()
    along_chain: bool = False
    """Whether the one row is to be followed along the reverse chain instead."""

    def __len__(self) -> int:
        # A row along the chain costs as much as many, so as many wait as could be answered in time.
        return N_CHAINS if self.along_chain else len(self.pictures) or len(self.rows)


class ModelAnswers:
    """Answers questions by a fitted model, those together that can be; ``drift`` counts tables and their answers."""

    def __init__(self, model: Any, drift: Drift | None = None) -> None:
        self.model, self.drift = model, drift

    def __call__(self, questions: Sequence[Question]) -> list[Any]:
        """The answer to each question: a dictionary of JSON values."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for place, question in enumerate(questions):
            groups[self._joined_with(place, question)].append(place)
        answers: list[Any] = [None] * len(questions)
        for places in groups.values():
            for place, answer in zip(places, self._answer([questions[place] for place in places]), strict=True):
                answers[place] = answer
        return answers

    def _joined_with(self, place: int, question: Question) -> Any:
        """Questions for which this is the same can be put to the model as one."""
        if question.along_chain:
            return place
        # Guaranteed intervals are opened while samples are drawn, so these must agree about their coverage.
        coverage = None if self.model.conformal_ is None else question.asked.coverage
        return frozenset(question.rows.side), coverage, question.asked.increments

    def _answer(self, questions: list[Question]) -> Iterator[dict[str, Any]]:
        X, side = join_rows(questions)
        if questions[0].along_chain:
            yield follow_row(self.model, X)
            return
        asked = questions[0].asked
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            threshold = self._threshold(asked.coverage)
            drawn = self._draw(X, side, threshold)
        if self.drift is not None and not questions[0].pictures:
            self.drift.add(X, drawn.prediction, drawn.shares)
        said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        wants_increments = asked.increments and self.model.has_distribution
        increments = self.model.predict_increments(X, **side) if wants_increments else None
        first = 0
        for question in questions:
            rows = slice(first, first + len(question))
            predictions = self._as_json(drawn.select(rows), question.asked)
            if increments is not None:
                for prediction, parts in zip(predictions, increments[rows], strict=True):
                    prediction["increments"] = parts.tolist()
            yield {
                "predictions": predictions,
                "coverage": question.asked.coverage,
                "warnings": [*question.rows.warnings, *said],
            }
            first = rows.stop

    def _threshold(self, coverage: float | None) -> float | None:
        if self.model.conformal_ is None or coverage is None:
            return None
        return float(self.model.conformal_.threshold(coverage))

    def _draw(self, X: Any, side: dict[str, Array], threshold: float | None) -> _Drawn:
        model = self.model
        if not hasattr(model, "classes_"):
            return _Drawn(*model.predict_opened(X, threshold, **side))
        prediction = model.predict_distribution(X, **side)
        shares = prediction.grade_probabilities(len(model.grades_))
        return _Drawn(prediction, None if threshold is None else open_sets(shares, threshold), shares)

    def _as_json(self, drawn: _Drawn, asked: Asked) -> list[dict[str, Any]]:
        parts = self._value_parts(drawn, asked) if drawn.shares is None else self._grade_parts(drawn, asked)
        names = ("point", "quantiles", "interval", "grades")
        return [dict(zip(names, row, strict=True)) | {"increments": None} for row in zip(*parts, strict=True)]

    def _value_parts(self, drawn: _Drawn, asked: Asked) -> tuple[list[Any], ...]:
        """Points, quantiles, intervals and grades, which values do not have, of each row."""
        prediction = drawn.prediction
        nothing = [None] * len(prediction)
        points = np.asarray(prediction.statistic(self.model.default_statistic), dtype=np.float64).tolist()
        quantiles: list[Any] = nothing
        if asked.levels is not None:
            names = [repr(level) for level in asked.levels]
            found = prediction.quantile(asked.levels).tolist()
            quantiles = [dict(zip(names, values, strict=True)) for values in found]
        intervals: list[Any] = nothing
        if drawn.opened is not None:
            intervals = drawn.opened.tolist()
        elif asked.coverage is not None:
            intervals = prediction.interval(asked.coverage).tolist()
        return points, quantiles, intervals, nothing

    def _grade_parts(self, drawn: _Drawn, asked: Asked) -> tuple[list[Any], ...]:
        """Points, quantiles, which grades do not have, intervals and probabilities of each row."""
        classes, shares = self.model.grades_, drawn.shares
        nothing = [None] * len(drawn.prediction)
        points = classes[self.model.decide(drawn.prediction, shares)].tolist()
        names = [str(grade) for grade in classes.tolist()]
        grades = [dict(zip(names, values, strict=True)) for values in np.asarray(shares).tolist()]
        intervals: list[Any] = nothing
        if asked.coverage is not None:
            held = probable_sets(shares, asked.coverage) if drawn.opened is None else drawn.opened
            lowest, highest = held.argmax(axis=1), held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)
            intervals = [list(pair) for pair in zip(classes[lowest].tolist(), classes[highest].tolist(), strict=True)]
        return points, nothing, intervals, grades


@dataclass(frozen=True)
class _Drawn:
    """What the model said about rows: distributions, guaranteed intervals or sets, and probabilities of grades."""

    prediction: Any
    opened: Array | None = None
    shares: Any = None

    def select(self, rows: slice) -> _Drawn:
        """The same for some of the rows."""
        return _Drawn(
            self.prediction[rows],
            None if self.opened is None else self.opened[rows],
            None if self.shares is None else self.shares[rows],
        )


def join_rows(questions: Sequence[Question]) -> tuple[Any, dict[str, Array]]:
    """The rows of several questions as the model takes them, and their side columns."""
    side = {
        role: np.concatenate([question.rows.side[role] for question in questions]) for role in questions[0].rows.side
    }
    tables = [question.rows.table for question in questions]
    table = tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)
    if not questions[0].pictures:
        return table, side
    paths = [path for question in questions for path in question.pictures]
    if table.shape[1] == 0:
        return paths, side
    return table.assign(**{PATH_COLUMN: paths}), side
