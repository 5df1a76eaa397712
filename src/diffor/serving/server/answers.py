"""Questions about rows, joined and put to the model once, and its answers as JSON values."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from diffor.encoders.images.inputs import PATH_COLUMN
from diffor.errors import RowsWarning
from diffor.estimators.chain import own_features
from diffor.estimators.conformal import open_sets, probable_sets
from diffor.estimators.novelty import Ceiling
from diffor.methods.diffor.increments import aggregate_increments, squeeze
from diffor.serving.server.drift import Drift
from diffor.serving.server.rows import CheckedRows

Array = NDArray[Any]
DEFAULT_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
DEFAULT_COVERAGE = 0.9
N_CHAINS = 64
"""Chains along which one row is followed."""
NAMES = ("point", "quantiles", "interval", "grades", "increments", "novel")
"""What an answer to a row has, in this order; None where the model has no such thing."""


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
            yield follow_row(self.model, X, side)
            return
        model, asked = self.model, questions[0].asked
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            is_guaranteed = model.conformal_ is not None and asked.coverage is not None
            threshold = float(model.conformal_.threshold(asked.coverage)) if is_guaranteed else None
            shares, opened = None, None
            if hasattr(model, "classes_"):
                prediction = model.predict_distribution(X, **side)
                shares = np.asarray(prediction.grade_probabilities(len(model.grades_)))
                opened = None if threshold is None else open_sets(shares, threshold)
            else:
                prediction, opened = model.predict_opened(X, threshold, **side)
            increments = None
            if asked.increments and model.has_distribution:
                increments = model.predict_increments(X, **side).tolist()
        if self.drift is not None and not questions[0].pictures:
            self.drift.add(X, prediction, shares)
        said = [str(one.message) for one in caught if issubclass(one.category, UserWarning)
                and not issubclass(one.category, RowsWarning)]  # fmt: skip
        first = 0
        for question in questions:
            rows = slice(first, first + len(question))
            first = rows.stop
            held = None if opened is None else opened[rows]
            if shares is None:
                told = self._value_parts(prediction[rows], held, question.asked)
            else:
                told = self._grade_parts(prediction[rows], held, question.asked, shares[rows])
            ceiling = Ceiling.of(model)
            ceiling.see(prediction[rows])  # of this question's rows alone: nobody is told of the others'
            told["novel"] = question.rows.novel or [[]] * len(question)
            if increments is not None:
                told["increments"] = increments[rows]
            yield {
                "predictions": [
                    dict(zip(NAMES, row, strict=True))
                    for row in zip(*(told.get(name) or [None] * len(question) for name in NAMES), strict=True)
                ],
                "coverage": question.asked.coverage,
                "warnings": [*question.rows.warnings, *said, *([str(ceiling.found)] if ceiling.found else [])],
            }

    def _value_parts(self, prediction: Any, opened: Any, asked: Asked) -> dict[str, list[Any]]:
        """What there is to say about rows of values, by its name."""
        points = np.asarray(prediction.statistic(self.model.default_statistic), dtype=np.float64)
        parts = {"point": points.tolist()}
        if asked.levels is not None:
            names = [repr(level) for level in asked.levels]
            found = prediction.quantile(asked.levels).tolist()
            parts["quantiles"] = [dict(zip(names, values, strict=True)) for values in found]
        if asked.coverage is not None:
            parts["interval"] = (prediction.interval(asked.coverage) if opened is None else opened).tolist()
        return parts

    def _grade_parts(self, prediction: Any, opened: Any, asked: Asked, shares: Array) -> dict[str, list[Any]]:
        """What there is to say about rows of grades, by its name."""
        classes = self.model.grades_
        names = [str(grade) for grade in classes.tolist()]
        parts = {
            "point": classes[self.model.decide(prediction, shares)].tolist(),
            "grades": [dict(zip(names, values, strict=True)) for values in shares.tolist()],
        }
        if asked.coverage is not None:
            held = probable_sets(shares, asked.coverage) if opened is None else opened
            ends = held.argmax(axis=1), held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)
            parts["interval"] = [list(pair) for pair in zip(*(classes[end].tolist() for end in ends), strict=True)]
        return parts


def join_rows(questions: Sequence[Question]) -> tuple[Any, dict[str, Array]]:
    """The rows of several questions as the model takes them, and their side columns."""
    all_rows = [question.rows for question in questions]
    side = {role: np.concatenate([rows.side[role] for rows in all_rows]) for role in all_rows[0].side}
    table = all_rows[0].table if len(all_rows) == 1 else pd.concat([rows.table for rows in all_rows], ignore_index=True)
    if not questions[0].pictures:
        return table, side
    paths = [path for question in questions for path in question.pictures]
    return table.assign(**{PATH_COLUMN: paths}) if table.shape[1] else paths, side


def follow_row(model: Any, X: Any, side: Mapping[str, Array]) -> dict[str, Any]:
    """The denoised estimates of one row's samples, from all noise to none, as JSON values.

    Chains are those of the first member that has any. ``values`` are in the target's units, for grades in places of
    grades; ``levels`` say how far the range is filled up to and with each increment, on average over the chains, in the
    same units: a thermometer, read at that step.
    """
    member, features, keys = own_features(model, X)
    method: Any = member.method
    with torch.inference_mode():
        estimates = squeeze(method.read(features[:1], keys[:1], N_CHAINS).estimates[0]).cpu().double()  # (m, k, S)
        values = aggregate_increments(estimates)  # (m, k)
        levels = estimates.clamp(0.0, 1 / estimates.shape[-1]).mean(dim=0).cumsum(dim=-1)  # (k, S)
    # Places between grades are not rounded: the chain is on its way to one.
    in_units = (lambda unit: unit * model.scale_.high) if hasattr(model, "classes_") else model.scale_.from_unit
    end = float(side["upper"][0]) if model.learns_share else 1.0
    steps = [
        {
            "time": int(time),
            "noise": float(method.process.spread(torch.tensor(time))),
            "values": (end * np.asarray(in_units(at), dtype=np.float64)).tolist(),
            "levels": (end * np.asarray(in_units(filled), dtype=np.float64)).tolist(),
        }
        for time, at, filled in zip(method.chain_times, values.T.numpy(), levels.numpy(), strict=True)
    ]
    return {"n_times": int(method.process.n_times), "steps": steps}
