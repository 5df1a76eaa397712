"""Models of ordered grades from mord, statsmodels and skordinal, on a linear design of the columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from diffor.bench.peers.columns import MAX_ONE_HOT_LEVELS, LinearDesign, independent_columns
from diffor.bench.peers.problem import Fitted, Problem, all_rows, by_probabilities, import_package


def fit_mord(problem: Problem, alpha: float = 1.0, **settings: Any) -> Fitted:
    """Ordinal logistic regression with all thresholds (mord's LogisticAT). It has no use for validation rows."""
    mord = import_package("mord")
    design = LinearDesign(problem.x)
    # It wants grades without gaps, so those that no training row has are left out and get the probability zero.
    grades, codes = np.unique(problem.y.astype(np.int64), return_inverse=True)
    model = mord.LogisticAT(alpha=alpha, **settings)
    model.fit(design.matrix(problem.x), codes)
    return by_probabilities(problem, lambda x: np.clip(model.predict_proba(design.matrix(x)), 0.0, None), grades)


def fit_ordered_model(
    problem: Problem, distribution: str = "logit", max_iterations: int = 200, max_levels: int = MAX_ONE_HOT_LEVELS
) -> Fitted:
    """Ordered logit by maximum likelihood (statsmodels' OrderedModel). It has no use for validation rows."""
    ordinal_model = import_package("statsmodels.miscmodels.ordinal_model", "statsmodels")
    design = LinearDesign(problem.x, max_levels)
    matrix = design.matrix(problem.x)
    kept = independent_columns(matrix)
    grades, codes = np.unique(problem.y.astype(np.int64), return_inverse=True)
    model = ordinal_model.OrderedModel(codes, matrix[:, kept], distr=distribution)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last of the allowed iterations is an answer too
        fitted = model.fit(method="bfgs", maxiter=max_iterations, disp=False, skip_hessian=True)
    return by_probabilities(
        problem,
        lambda x: np.clip(fitted.model.predict(fitted.params, design.matrix(x)[:, kept]), 0.0, None),
        grades,
    )


def fit_skordinal(problem: Problem, classifier: str, **settings: Any) -> Fitted:
    """A network of skordinal on all rows, validation rows too, since it has nothing to stop."""
    classifiers = import_package("skordinal.classifiers", "skordinal")
    x, y = all_rows(problem)
    design = LinearDesign(x)
    model = getattr(classifiers, classifier)(**{"random_state": problem.seed, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last of the allowed iterations is an answer too
        model.fit(design.matrix(x), y.astype(np.int64))
    return by_probabilities(
        problem, lambda x: np.clip(model.predict_proba(design.matrix(x)), 0.0, None), model.classes_
    )
