"""One contract for all adapters: each learns, repeats itself, knows its grades and names the package that it lacks."""

from __future__ import annotations

import importlib
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from diffor.bench.peers import PEERS, find_peer
from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.problem import Problem, all_rows, import_package, spread_over_grades
from diffor.bench.peers.tabular_networks import fit_tabm
from diffor.bench.peers.trees import grades_from_borders

LIGHTGBM = {"n_estimators": 60, "learning_rate": 0.1, "min_data_in_leaf": 5}
TREES = {"n_estimators": 60, "learning_rate": 0.2}
CATBOOST = {"iterations": 60, "learning_rate": 0.2}
QUICK = {
    "lightgbm-quantile": LIGHTGBM,
    "lightgbm-classifier": LIGHTGBM,
    "lightgbm-cumulative": LIGHTGBM,
    "catboost-uncertainty": {"iterations": 150, "learning_rate": 0.1},
    "catboost-quantile": CATBOOST,
    "catboost-classifier": CATBOOST,
    "catboost-cumulative": CATBOOST,
    "xgboost-quantile": TREES,
    "xgboost-classifier": TREES,
    "xgboost-cumulative": TREES,
    "hist-gradient-boosting": {"max_iter": 30, "learning_rate": 0.2, "min_samples_leaf": 5},
    "quantile-forest": {"n_estimators": 30},
    "engression": {"num_epochs": 40, "batch_size": 32},
    "realmlp": {"n_epochs": 15, "hidden_sizes": [32, 32]},
    "tabm": {"max_epochs": 25, "k": 4, "d_block": 32, "batch_size": 32},
    "mord": {},
    "ordered-model": {},
    "skordinal-nnpom": {},
    "skordinal-nnop": {},
}
CASES = [(name, task) for name in QUICK for task in PEERS[name].tasks]
GRADES = [name for name, task in CASES if task == "grades"]
STOPPED = ["lightgbm-quantile", "xgboost-quantile", "lightgbm-cumulative", "engression", "tabm"]


def peer_of(name):
    """The peer, or a skip where its package is not installed; the adapter's own module is the last of its imports."""
    for module in PEERS[name].imports[:-1]:
        pytest.importorskip(module)
    return PEERS[name]


def rows_of(n_rows, seed, kinds):
    """Rows whose target a number and a category tell, with missing values, awkward names and columns of no use."""
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    kinds_of_rows = pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))
    return pd.DataFrame({"size [cm], {x}": number, "kind": kinds_of_rows, "same": 1.0, "double": 2 * number}), y


def a_problem(task, **changes):
    (x, y), (x_valid, y_valid), (x_test, y_test) = rows_of(150, 0, "abc"), rows_of(60, 1, "abc"), rows_of(60, 2, "abcz")
    if task == "grades":
        cuts = np.quantile(y, [0.3, 0.6, 0.8])
        # A grade in the middle and one at the end that no row has: the answer must still be codes of the six.
        y, y_valid, y_test = (np.array([0.0, 1.0, 3.0, 4.0])[np.digitize(part, cuts)] for part in (y, y_valid, y_test))
        changes = {"n_grades": 6, **changes}
    return replace(Problem(x, y, x_valid, y_valid, n_samples=50), **changes), x_test, y_test


def test_every_adapter_is_checked_and_can_be_imported():
    elsewhere = {"constant", "treeffuser", "ngboost", *(name for name, peer in PEERS.items() if peer.is_trained_here)}
    assert set(QUICK) | elsewhere == set(PEERS)
    for name in PEERS:
        importlib.import_module(PEERS[name].imports[-1])
        assert PEERS[name].description


@pytest.mark.parametrize(("name", "task"), CASES)
def test_peer_beats_the_constant_and_repeats_itself(name, task):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem(task)
    state, n_threads = torch.random.get_rng_state(), torch.get_num_threads()
    prediction = peer.fit(problem, **QUICK[name]).predict(x_test)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == n_threads
    assert prediction.samples.shape == (60, 50)
    assert np.isfinite(prediction.samples).all()
    assert prediction.crps(y_test).mean() < 0.7 * fit_constant(problem).predict(x_test).crps(y_test).mean()
    if task == "grades":
        assert set(np.unique(prediction.samples)) <= {0, 1, 3, 4}
    again = peer.fit(problem, **QUICK[name]).predict(x_test)
    np.testing.assert_array_equal(prediction.samples, again.samples)


@pytest.mark.parametrize("name", ["lightgbm-classifier", "xgboost-classifier", "catboost-classifier", "realmlp", "tabm",
                                  "hist-gradient-boosting"])  # fmt: skip
def test_a_grade_that_only_validation_rows_have_does_no_harm(name):
    peer = peer_of(name)
    problem, x_test, _ = a_problem("grades")
    y_valid = np.where(np.arange(60) < 5, 5.0, problem.y_valid)
    samples = peer.fit(replace(problem, y_valid=y_valid), **QUICK[name]).predict(x_test).samples
    assert set(np.unique(samples)) <= set(range(6))


@pytest.mark.parametrize("name", STOPPED)
def test_validation_rows_decide_when_to_stop(name):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem("grades" if name in GRADES and name != "tabm" else "value")
    misled = replace(problem, y_valid=np.random.default_rng(0).permutation(problem.y_valid))
    good, bad = (peer.fit(given, **QUICK[name]).predict(x_test).crps(y_test).mean() for given in (problem, misled))
    assert good < bad


@pytest.mark.parametrize(("name", "task"), [("quantile-forest", "value"), ("skordinal-nnpom", "grades")])
def test_methods_without_a_stop_learn_from_validation_rows_too(name, task):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem(task)
    fitted = peer.fit(replace(problem, x=problem.x[:6], y=problem.y[:6]), **QUICK[name])
    assert len(all_rows(problem)[0]) == len(all_rows(problem)[1]) == 210
    constant = fit_constant(problem).predict(x_test).crps(y_test).mean()
    assert fitted.predict(x_test).crps(y_test).mean() < 0.8 * constant


@pytest.mark.parametrize("name", ["realmlp", "tabm"])
@pytest.mark.parametrize("column", ["double", "kind"])
def test_tables_of_one_kind_of_columns_work(name, column):
    peer = peer_of(name)
    problem, x_test, _ = a_problem("value")
    narrow = replace(problem, x=problem.x[[column]], x_valid=problem.x_valid[[column]])
    quick = {**QUICK[name], **({"n_epochs": 1} if name == "realmlp" else {"max_epochs": 1})}
    assert np.isfinite(peer.fit(narrow, **quick).predict(x_test[[column]]).samples).all()


def test_tabm_stops_when_the_time_is_up():
    peer_of("tabm")
    problem, x_test, _ = a_problem("value")
    start = time.monotonic()
    fitted = fit_tabm(problem, max_epochs=10**6, patience=10**6, time_limit=0.2, k=2, d_block=8)
    assert time.monotonic() - start < 10
    assert np.isfinite(fitted.predict(x_test).samples).all()


def test_samples_of_engression_keep_known_bounds():
    peer = peer_of("engression")
    problem, x_test, _ = a_problem("value", bounds=(45.0, 55.0))
    samples = peer.fit(problem, **QUICK["engression"]).predict(x_test).samples
    assert (samples.min(), samples.max()) == (45, 55)


def test_ordered_model_finds_the_known_slope():
    peer = peer_of("ordered-model")
    random = np.random.default_rng(0)
    x = pd.DataFrame({"size": random.normal(size=2000)})
    y = np.digitize(2 * x["size"].to_numpy() + random.logistic(size=2000), [-1.0, 1.0]) * 1.0
    fitted = peer.fit(Problem(x, y, x, y, n_grades=3, n_samples=1000))
    samples = fitted.predict(pd.DataFrame({"size": [0.0, 1.0]})).samples
    np.testing.assert_allclose((samples == 0).mean(axis=1), 1 / (1 + np.exp([1.0, 3.0])), atol=0.03)
    np.testing.assert_allclose((samples == 2).mean(axis=1), 1 / (1 + np.exp([1.0, -1.0])), atol=0.04)


def test_the_constant_is_the_distribution_of_the_training_targets():
    table, y = pd.DataFrame({"size": np.arange(150.0)}), np.random.default_rng(0).normal(size=150)
    prediction = fit_constant(Problem(table, y, table, y)).predict(table[:7])
    np.testing.assert_allclose(prediction.median, np.median(y), atol=0.05)
    assert np.ptp(prediction.samples, axis=0).max() == 0
    grades = np.repeat([0.0, 2.0], [30, 120])
    prediction = fit_constant(Problem(table, grades, table, grades, n_grades=4)).predict(table[:1])
    np.testing.assert_array_equal(np.unique(prediction.samples, return_counts=True), [[0, 2], [20, 80]])


def test_borders_that_cross_are_made_to_fall():
    shares = grades_from_borders(np.array([[0.5, 0.75, 0.1], [1.0, 1.0, 0.0]]))
    assert shares == pytest.approx(np.array([[0.375, 0.0, 0.525, 0.1], [0.0, 0.0, 1.0, 0.0]]))


def test_probabilities_of_seen_classes_are_spread_over_all_grades():
    np.testing.assert_array_equal(spread_over_grades([[0.5, 0.5]], [1.0, 3.0], 4), [[0, 0.5, 0, 0.5]])


@pytest.mark.parametrize(("name", "task", "module"), [
    ("lightgbm-quantile", "value", "lightgbm"), ("xgboost-cumulative", "grades", "xgboost"),
    ("quantile-forest", "value", "quantile_forest"), ("skordinal-nnop", "grades", "skordinal"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_extra(name, task, module, monkeypatch):
    class Absent:
        """An environment without the package."""

        def find_spec(self, wanted, path=None, target=None):
            if wanted.split(".")[0] == module:
                raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

    for loaded in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    problem, _, _ = a_problem(task)
    package = PEERS[name].package
    with pytest.raises(ImportError, match=rf"needs the package {package}, but .* pip install \"diffor\[bench\]\""):
        find_peer(name).fit(problem)


def test_a_package_that_lacks_a_part_of_its_own_tells_so_itself(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import absent_part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_part"):
        import_package("half_installed")
