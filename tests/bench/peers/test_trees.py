from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.problem import Peer, Problem
from diffor.bench.peers.trees import TREES, TrainingColumns, _fit_histogram_model, import_package, spread_over_grades
from diffor.metrics import crps_each

QUICK: dict[str, dict[str, Any]] = {
    "lightgbm-quantile": {"n_estimators": 60, "learning_rate": 0.1, "min_data_in_leaf": 5},
    "lightgbm-classifier": {"n_estimators": 60, "learning_rate": 0.1, "min_data_in_leaf": 5},
    "catboost-uncertainty": {"iterations": 150, "learning_rate": 0.1},
    "catboost-quantile": {"iterations": 60, "learning_rate": 0.2},
    "catboost-classifier": {"iterations": 60, "learning_rate": 0.2},
    "hist-gradient-boosting": {"max_iter": 30, "learning_rate": 0.2, "min_samples_leaf": 5},
}
CASES = [pytest.param(peer, task, id=f"{peer.name}-{task}") for peer in TREES for task in peer.tasks]


def easy_table(n_rows: int, seed: int, kinds: str) -> tuple[pd.DataFrame, Any]:
    """Rows whose target a number and a category tell, with missing values in both."""
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    table = pd.DataFrame(
        {"size [cm], {x}": number, "kind": pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))}
    )
    return table.assign(whole=np.arange(n_rows) % 3), y


def easy_problem(task: str, n_rows: int = 150) -> tuple[Problem, pd.DataFrame, Any]:
    x, y = easy_table(n_rows, 0, "abc")
    x_valid, y_valid = easy_table(60, 1, "abc")
    x_test, y_test = easy_table(60, 2, "abcz")
    if task == "value":
        return Problem(x, y, x_valid, y_valid), x_test, y_test
    cuts = np.quantile(y, [0.3, 0.6, 0.8])
    # A fifth grade that no row has: the answer must still be codes of the five.
    graded = Problem(x, np.digitize(y, cuts) * 1.0, x_valid, np.digitize(y_valid, cuts) * 1.0, n_grades=5)
    return graded, x_test, np.digitize(y_test, cuts) * 1.0


@pytest.mark.parametrize(("peer", "task"), CASES)
def test_peer_beats_the_constant_and_repeats_itself(peer: Peer, task: str) -> None:
    if peer.package:
        pytest.importorskip(peer.package)
    problem, x_test, y_test = easy_problem(task)
    prediction = peer.fit(problem, **QUICK[peer.name]).predict(x_test)
    assert prediction.samples.shape == (len(x_test), problem.n_samples)
    assert np.isfinite(prediction.samples).all()
    constant = fit_constant(problem).predict(x_test)
    assert crps_each(y_test, prediction.samples).mean() < 0.7 * crps_each(y_test, constant.samples).mean()
    if task == "grades":
        assert set(np.unique(prediction.samples)) <= set(range(5))
    again = peer.fit(problem, **QUICK[peer.name]).predict(x_test)
    np.testing.assert_array_equal(prediction.samples, again.samples)


@pytest.mark.parametrize(("peer", "task"), [case for case in CASES if case.values[1] == "grades"])
def test_a_grade_that_only_validation_rows_have_does_no_harm(peer: Peer, task: str) -> None:
    if peer.package:
        pytest.importorskip(peer.package)
    problem, x_test, _ = easy_problem(task)
    y_valid = np.where(np.arange(60) < 5, 4.0, problem.y_valid)
    prediction = peer.fit(replace(problem, y_valid=y_valid), **QUICK[peer.name]).predict(x_test)
    assert set(np.unique(prediction.samples)) <= set(range(5))


def test_catboost_spread_is_a_standard_deviation() -> None:
    """What CatBoost calls uncertainty is a variance: 90 % intervals of a known noise must cover about 90 %."""
    pytest.importorskip("catboost")
    random = np.random.default_rng(0)
    x = pd.DataFrame({"size": random.uniform(size=1500)})
    y = 300 * x["size"].to_numpy() + random.normal(size=1500) * 30
    problem = Problem(x[:900], y[:900], x[900:1200], y[900:1200])
    peer = next(peer for peer in TREES if peer.name == "catboost-uncertainty")
    low, high = peer.fit(problem).predict(x[1200:]).interval(0.9).T
    assert 0.83 < ((low <= y[1200:]) & (y[1200:] <= high)).mean() < 0.96


def test_catboost_of_few_trees_goes_without_virtual_ensembles() -> None:
    pytest.importorskip("catboost")
    problem, x_test, _ = easy_problem("value")
    peer = next(peer for peer in TREES if peer.name == "catboost-uncertainty")
    prediction = peer.fit(problem, iterations=2).predict(x_test)
    assert np.isfinite(prediction.samples).all()


def test_early_stopping_looks_at_the_validation_rows() -> None:
    pytest.importorskip("lightgbm")
    problem, x_test, y_test = easy_problem("value")
    peer = next(peer for peer in TREES if peer.name == "lightgbm-quantile")
    misled = replace(problem, y_valid=np.random.default_rng(0).permutation(problem.y_valid))
    good, bad = (peer.fit(given, n_estimators=60, learning_rate=0.1, patience=5).predict(x_test)
                 for given in (problem, misled))  # fmt: skip
    assert crps_each(y_test, good.samples).mean() < 0.8 * crps_each(y_test, bad.samples).mean()


def test_histogram_trees_take_categories_of_many_levels() -> None:
    x = pd.DataFrame({"word": pd.Categorical([f"w{i % 400}" for i in range(800)]), "size": np.arange(800.0)})
    problem = Problem(x, np.arange(800) % 2 * 1.0, x, np.arange(800) % 2 * 1.0, n_grades=2)
    peer = next(peer for peer in TREES if peer.name == "hist-gradient-boosting")
    assert peer.fit(problem, max_iter=2).predict(x[:5]).samples.shape == (5, 100)


def test_an_old_scikit_learn_is_told() -> None:
    class WithoutValidationRows:
        def fit(self, x: Any, y: Any) -> None:
            raise AssertionError("must not be called")

    problem, _, _ = easy_problem("value")
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.7 or later.*but .* is installed; upgrade it"):
        _fit_histogram_model(problem, WithoutValidationRows(), TrainingColumns(problem.x), np.ones(60, dtype=bool))


def test_columns_keep_the_commonest_levels() -> None:
    x = pd.DataFrame({"kind": pd.Categorical(["b", "b", "a", "c", "c"], categories=["z", "a", "b", "c"])})
    assert TrainingColumns(x).levels[0].tolist() == ["a", "b", "c"]
    assert TrainingColumns(x.astype(pd.CategoricalDtype(list("cba")))).levels[0].tolist() == ["c", "b", "a"]
    assert TrainingColumns(x, max_levels=2).levels[0].tolist() == ["b", "c"]
    np.testing.assert_array_equal(TrainingColumns(x, max_levels=2).codes(x)[:, 0], [0, 0, np.nan, 1, 1])


def test_columns_spell_categories_and_missing_values() -> None:
    x = pd.DataFrame({"kind": pd.Categorical([3, None, 7]), "flag": [True, False, True]})
    assert TrainingColumns(x[:2]).spelled(x)["x0"].tolist() == ["3", "missing", "7"]
    assert TrainingColumns(x[:2]).spelled(x)["x1"].tolist() == [1.0, 0.0, 1.0]


def test_missing_package_names_the_extra() -> None:
    with pytest.raises(ImportError, match=r'needs the package absent-trees, however.*pip install "diffor\[bench\]"'):
        import_package("absent_trees", "absent-trees")


def test_probabilities_of_seen_classes_are_spread_over_all_grades() -> None:
    np.testing.assert_array_equal(spread_over_grades([[0.5, 0.5]], [1.0, 3.0], 4), [[0, 0.5, 0, 0.5]])
