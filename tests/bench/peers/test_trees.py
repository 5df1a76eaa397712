from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from diffor.bench.peers import PEERS
from diffor.bench.peers.columns import TrainingColumns
from diffor.bench.peers.problem import Problem
from diffor.bench.peers.trees import fit_histogram_model


def test_catboost_spread_is_a_standard_deviation():
    """What CatBoost calls uncertainty is a variance: 90 % intervals of a known noise must cover about 90 %."""
    pytest.importorskip("catboost")
    random = np.random.default_rng(0)
    x = pd.DataFrame({"size": random.uniform(size=1500)})
    y = 300 * x["size"].to_numpy() + random.normal(size=1500) * 30
    problem = Problem(x[:900], y[:900], x[900:1200], y[900:1200])
    low, high = PEERS["catboost-uncertainty"].fit(problem).predict(x[1200:]).interval(0.9).T
    assert 0.83 < ((low <= y[1200:]) & (y[1200:] <= high)).mean() < 0.96
    few = PEERS["catboost-uncertainty"].fit(problem, iterations=2).predict(x[1200:])  # too few for virtual ensembles
    assert np.isfinite(few.samples).all()


def test_histogram_trees_take_categories_of_many_levels():
    x = pd.DataFrame({"word": pd.Categorical([f"w{i % 400}" for i in range(800)]), "size": np.arange(800.0)})
    problem = Problem(x, np.arange(800) % 2 * 1.0, x, np.arange(800) % 2 * 1.0, n_grades=2)
    assert PEERS["hist-gradient-boosting"].fit(problem, max_iter=2).predict(x[:5]).samples.shape == (5, 100)


def test_an_old_scikit_learn_is_told():
    class WithoutValidationRows:
        def fit(self, x, y):
            raise AssertionError("must not be called")

    x, y = pd.DataFrame({"size": np.arange(9.0)}), np.arange(9.0)
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.7 or later.*but .* is installed; upgrade it"):
        fit_histogram_model(Problem(x, y, x, y), WithoutValidationRows(), TrainingColumns(x), np.ones(9, dtype=bool))
