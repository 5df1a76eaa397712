"""The least that a method must beat: the distribution of the training targets, the same for every row."""

from __future__ import annotations

import numpy as np

from diffor.bench.peers.problem import Fitted, FittedBy, Problem, from_grade_probabilities, quantile_levels
from diffor.core.prediction import Prediction


def fit_constant(problem: Problem) -> Fitted:
    """Quantiles of the training targets, or the shares of their grades; the columns are not looked at.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0]})
    >>> problem = Problem(table, np.array([1.0, 2.0, 3.0, 10.0]), table[:0], np.array([]), n_samples=2)
    >>> fit_constant(problem).predict(table[:1]).samples.tolist()
    [[1.75, 4.75]]
    """
    if problem.n_grades is None:
        samples = np.quantile(problem.y, quantile_levels(problem.n_samples))
    else:
        counts = np.bincount(problem.y.astype(np.int64), minlength=problem.n_grades)
        samples = from_grade_probabilities(counts[None, :], problem.n_samples).samples[0]
    return FittedBy(lambda x: Prediction(np.tile(samples, (len(x), 1))))
