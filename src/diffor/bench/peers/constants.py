"""The least that a method must beat: the distribution of the training targets, the same for every row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from diffor.bench.peers.problem import Peer, Problem, Values, from_grade_probabilities, quantile_levels
from diffor.core.prediction import Prediction


@dataclass(frozen=True)
class FittedConstant:
    """One distribution for all rows. **Shape:** samples ``(n_samples,)``."""

    samples: Values

    def predict(self, x: pd.DataFrame) -> Prediction:
        """The same samples for each row."""
        return Prediction(np.tile(self.samples, (len(x), 1)))


def fit_constant(problem: Problem) -> FittedConstant:
    """Quantiles of the training targets, or the shares of their grades; the columns are not looked at.

    >>> table = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0]})
    >>> problem = Problem(table, np.array([1.0, 2.0, 3.0, 10.0]), table[:0], np.array([]), n_samples=2)
    >>> fit_constant(problem).predict(table[:1]).samples.tolist()
    [[1.75, 4.75]]
    """
    if problem.n_grades is None:
        return FittedConstant(np.quantile(problem.y, quantile_levels(problem.n_samples)))
    counts = np.bincount(problem.y.astype(np.int64), minlength=problem.n_grades)
    return FittedConstant(from_grade_probabilities(counts[None, :], problem.n_samples).samples[0])


CONSTANTS: tuple[Peer, ...] = (
    Peer("constant", "distribution of the training targets, the same for every row", ("value", "grades"), fit_constant),
)
