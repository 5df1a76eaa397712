"""Networks for ordered grades of the package skordinal: proportional odds, and ordered partitions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.ordinal_linear import LinearDesign
from diffor.bench.peers.problem import Fitted, Peer, Problem, all_rows, from_grade_probabilities
from diffor.bench.peers.trees import FittedBy, import_package, spread_over_grades
from diffor.core.prediction import Prediction


def fit_skordinal(problem: Problem, classifier: str, **settings: Any) -> Fitted:
    """A classifier of the package on all rows, validation rows too, since it has nothing to stop."""
    classifiers = import_package("skordinal.classifiers", "skordinal")
    x, y = all_rows(problem)
    design, n_grades = LinearDesign(x), int(problem.n_grades or 0)
    model = getattr(classifiers, classifier)(**{"random_state": problem.seed, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last of the allowed iterations is an answer too
        model.fit(design.matrix(x), y.astype(np.int64))

    def answer(x: pd.DataFrame) -> Prediction:
        probabilities = np.clip(model.predict_proba(design.matrix(x)), 0.0, None)
        return from_grade_probabilities(spread_over_grades(probabilities, model.classes_, n_grades), problem.n_samples)

    return FittedBy(answer)


ORDINAL_LIBRARY: tuple[Peer, ...] = tuple(
    Peer(f"skordinal-{name.lower()}", f"skordinal, {title}", ("grades",), partial(fit_skordinal, classifier=name),
         package="skordinal")
    for name, title in (
        ("NNPOM", "a network under proportional odds"),
        ("NNOP", "a network with an output for each border between grades"),
    )
)  # fmt: skip
