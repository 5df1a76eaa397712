"""A row of weight 0 is a row that is not there."""

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor

QUICK = {"max_steps": 15, "random_state": 0, "verbose": 0}


def make_rows(n=80, seed=0):
    random = np.random.default_rng(seed)
    X = pd.DataFrame({"a": random.random(n), "kind": random.choice(["x", "y"], n)})
    return X, 10 * X["a"].to_numpy() + random.normal(0, 0.5, n)


def with_absent(X, y, seed=1):
    """The rows among others that must not count: far outside, of another kind."""
    n = len(y) // 2
    absent = pd.DataFrame({"a": np.full(n, 1e6), "kind": "z"})
    place = np.random.default_rng(seed).permutation(len(y) + n)
    order = np.sort(place[: len(y)])
    is_there = np.zeros(len(y) + n, dtype=bool)
    is_there[order] = True
    table = pd.concat([X, absent], ignore_index=True)
    rows = np.empty(len(is_there), dtype=int)
    rows[is_there], rows[~is_there] = np.arange(len(y)), len(y) + np.arange(n)
    return table.iloc[rows].reset_index(drop=True), np.r_[y, np.full(n, y.max())][rows], is_there.astype(float)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiffoRRegressor("fast", prior=("trees", "process"), **QUICK),
        lambda: DiffoRRegressor("fast", n_folds=3, prior=None, **QUICK),
        lambda: OrdinalRegressor("or-cnn", **QUICK),
    ],
)
def test_values(make):
    X, y = make_rows()
    outlier = 1e4
    more_X, more_y, weights = with_absent(X, y)
    more_y = np.where(weights > 0, more_y, outlier)
    alone = make().fit(X, y, sample_weight=np.ones(len(y)))
    among = make().fit(more_X, more_y, sample_weight=weights)
    assert among.scale_.high == alone.scale_.high < outlier
    np.testing.assert_array_equal(among.predict(X), alone.predict(X))


def test_grades_and_groups():
    X, y = make_rows()
    grades, groups = np.digitize(y, [3, 6]), np.arange(len(y)) // 4
    more_X, _, weights = with_absent(X, y)
    more_grades, more_groups = np.zeros(len(weights), dtype=int), np.full(len(weights), 999)
    more_grades[weights > 0], more_groups[weights > 0] = grades, groups
    model = DiffoRClassifier("fast", prior="trees", **QUICK)
    alone = model.fit(X, grades, sample_weight=np.ones(len(y)), groups=groups).predict_proba(X)
    among = model.fit(more_X, more_grades, sample_weight=weights, groups=more_groups).predict_proba(X)
    np.testing.assert_array_equal(among, alone)
