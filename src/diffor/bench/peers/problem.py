"""The contract of a peer: the problem that every method is given, and what it must answer with."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.core.prediction import Prediction

Values = NDArray[np.float64]
LEVELS: tuple[float, ...] = tuple(round(0.05 * i, 2) for i in range(1, 20))
"""The 19 quantile levels 0.05, 0.10, ..., 0.95 of every method that learns quantiles."""


@dataclass(frozen=True)
class Problem:
    """What every method is told, the same for all: rows to learn from, rows to stop and tune on, the target's nature.

    Columns are numbers or pandas categories, with missing values where the data have them. Where ``n_grades`` is given
    the targets are grade codes 0 to ``n_grades - 1``; else they are values, inside ``bounds`` where those are known.
    """

    x: pd.DataFrame
    y: Values
    x_valid: pd.DataFrame
    y_valid: Values
    n_grades: int | None = None
    bounds: tuple[float, float] | None = None
    seed: int = 0
    n_samples: int = 100
    """Samples per row of a predicted distribution, the same for all methods."""
    n_threads: int = 1
    side: Mapping[str, Values] = field(default_factory=dict)
    side_valid: Mapping[str, Values] = field(default_factory=dict)
    """What some methods need beside the table, such as ``duration``, of either rows. **Shape:** each ``(n,)``."""
    groups: NDArray[np.int64] | None = None
    groups_valid: NDArray[np.int64] | None = None
    """Persons or the like whose rows a method must not tear apart, where the splits do not. **Shape:** ``(n,)``."""
    keeps_validation: bool = False
    """Whether the set's own protocol names the validation rows: then no method learns from them."""


def all_rows(problem: Problem) -> tuple[pd.DataFrame, Values]:
    """Training and validation rows together, for methods that have nothing to stop or to tune.

    Where the set's own protocol names the validation rows, these stay apart.
    """
    if problem.keeps_validation:
        return problem.x, problem.y
    return pd.concat([problem.x, problem.x_valid]), np.concatenate([problem.y, problem.y_valid])


class Fitted(Protocol):
    """A fitted method; one that needs side columns of the rows has ``predict_beside(x, side)`` too."""

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target: values, or grade codes where the problem has grades."""


@dataclass(frozen=True)
class Peer:
    """A method that can be compared: what it is, what it can do, and the function that fits it."""

    name: str
    description: str
    tasks: tuple[str, ...]
    """``value``, ``grades`` or both."""
    fit: Callable[..., Fitted]
    """``fit(problem, **settings) -> Fitted``."""
    package: str | None = None
    """The package it needs beyond the core, as pip names it."""
    imports: tuple[str, ...] = ()
    """Modules to import before the clock starts: a process made for one fit would pay for them, a user does so once."""
    is_ours: bool = False
    is_trained_here: bool = False
    """Whether it is an estimator of ours, and knows the settings that those share."""


@dataclass(frozen=True)
class FittedBy:
    """A fitted method whose answer a function computes."""

    answer: Callable[[pd.DataFrame], Prediction]

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target."""
        return self.answer(x)


def by_quantiles(problem: Problem, quantiles: Callable[[pd.DataFrame], Any]) -> Fitted:
    """A fitted method that answers with the 19 quantiles at ``LEVELS``. **Shape:** ``(n, 19)``."""
    return FittedBy(lambda x: from_quantiles(LEVELS, quantiles(x), problem.n_samples))


def by_probabilities(problem: Problem, probabilities: Callable[[pd.DataFrame], Any], classes: Any = None) -> Fitted:
    """A fitted method that answers with the probabilities of ``classes``, all grades if None. **Shape:** ``(n, c)``."""

    def answer(x: pd.DataFrame) -> Prediction:
        given = probabilities(x)
        if classes is not None:
            given = spread_over_grades(given, classes, int(problem.n_grades or 0))
        return from_grade_probabilities(given, problem.n_samples)

    return FittedBy(answer)


def import_package(module: str, package: str | None = None) -> Any:
    """Import an optional package, or say how to install it.

    >>> import_package("math").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A package that is there but lacks one of its own parts tells more by its own message.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"this method needs the package {package or module}, but it is not installed; "
            'install it with pip install "diffor[bench]"'
        ) from error


def quantile_levels(n_samples: int) -> Values:
    """Levels in the middle of equal shares: quantiles at these levels stand for a distribution as samples do.

    >>> quantile_levels(4).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    return (np.arange(n_samples) + 0.5) / n_samples


def spread_over_grades(probabilities: Any, classes: Any, n_grades: int) -> Values:
    """Probabilities of the classes that were seen, as those of all grades. **Shape:** ``(n, c)`` -> ``(n, grades)``.

    >>> spread_over_grades([[0.25, 0.75]], [0, 2], 3).tolist()
    [[0.25, 0.0, 0.75]]
    """
    given = np.asarray(probabilities, dtype=np.float64)
    table = np.zeros((len(given), n_grades))
    table[:, np.asarray(classes, dtype=np.int64)] = given
    return table


def from_grade_probabilities(probabilities: Any, n_samples: int) -> Prediction:
    """Grade codes as samples, in the shares that the probabilities give. **Shape:** ``(n, grades)``.

    >>> from_grade_probabilities([[0.25, 0.75, 0.0]], 4).samples.tolist()
    [[0.0, 1.0, 1.0, 1.0]]
    """
    cumulative = np.cumsum(np.asarray(probabilities, dtype=np.float64), axis=1)
    cumulative /= cumulative[:, -1:]
    codes = (quantile_levels(n_samples)[None, :, None] > cumulative[:, None, :-1]).sum(axis=2)
    return Prediction(codes.astype(np.float64))


def from_quantiles(levels: Any, quantiles: Any, n_samples: int) -> Prediction:
    """Samples of the distribution whose quantiles at rising ``levels`` are given; crossing ones are put in order.

    Between the levels the quantile function is linear, beyond the outermost it is flat.

    **Shape:** levels ``(q,)``, quantiles ``(n, q)`` -> samples ``(n, n_samples)``.

    >>> from_quantiles([0.25, 0.75], [[0.0, 1.0]], 4).samples.tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    ordered = np.sort(np.asarray(quantiles, dtype=np.float64), axis=1)
    place = np.interp(quantile_levels(n_samples), levels, np.arange(len(levels)))
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, len(levels) - 1)
    share = place - below
    return Prediction(ordered[:, below] * (1 - share) + ordered[:, above] * share)
