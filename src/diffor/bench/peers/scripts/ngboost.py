"""NGBoost, run by worker.py in an environment of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

LIBRARY = "ngboost"
MAX_ONE_HOT_LEVELS = 20


def as_numbers(x: Rows, n_levels: dict[str, int]) -> Rows:
    """One column for each level of small categories; codes of large ones; numbers as they are. **Shape:** ``(n, d)``.

    Missing numbers stay missing, because the trees beneath know what to do with them.
    """
    columns = []
    for place in range(x.shape[1]):
        levels = n_levels.get(str(place), MAX_ONE_HOT_LEVELS + 1)
        if levels <= MAX_ONE_HOT_LEVELS:
            columns.append((x[:, [place]] == np.arange(levels)).astype(np.float64))
        else:
            columns.append(x[:, [place]])
    return np.concatenate(columns, axis=1)


def fit(task: dict[str, Any]) -> Callable[[Rows], Rows]:
    """Fit NGBoost: a normal distribution for values, a categorical one for grades, stopped by the validation rows.

    **Shape:** the function it returns, rows ``(n, d)`` -> ``(n, 2)`` mean and standard deviation, or ``(n, grades)``.
    """
    library = importlib.import_module(LIBRARY)
    np.random.seed(task["seed"])  # noqa: NPY002 (its trees break ties by the global generator)
    n_levels, n_grades = task["n_levels"], task["n_grades"]
    settings = {"random_state": task["seed"], "verbose": False, **task["settings"]}
    patience = settings.pop("patience", 50)
    y, y_valid = task["y"], task["y_valid"]
    # A grade that no training row has cannot be learnt, and its share of zero has no logarithm.
    grades = np.unique(y)
    known = np.isin(y_valid, grades) if n_grades else np.ones(len(y_valid), dtype=bool)
    if n_grades:
        categorical = importlib.import_module("ngboost.distns").k_categorical(len(grades))
        model = library.NGBClassifier(**{"Dist": categorical, **settings})
        y, y_valid = np.searchsorted(grades, y), np.searchsorted(grades, y_valid)
    else:
        model = library.NGBRegressor(**settings)
    x, x_valid = as_numbers(task["x"], n_levels), as_numbers(task["x_valid"], n_levels)
    model.fit(x, y, X_val=x_valid[known], Y_val=y_valid[known], early_stopping_rounds=patience)
    n_trees = None if model.best_val_loss_itr is None else model.best_val_loss_itr + 1

    def predict(rows: Rows) -> Rows:
        distribution = model.pred_dist(as_numbers(rows, n_levels), max_iter=n_trees)
        if not n_grades:
            return np.stack([distribution.loc, distribution.scale], axis=1)
        probabilities = np.zeros((len(rows), n_grades))
        probabilities[:, grades.astype(int)] = distribution.class_probs()
        return probabilities

    return predict
