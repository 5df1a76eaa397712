"""XGBoost, borders by trees, quantile forest, engression and skordinal: each learns, repeats itself and is careful."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from diffor.bench.peers import find_peer
from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.cumulative_trees import grades_from_borders
from diffor.bench.peers.engression_networks import MAX_EPOCHS
from diffor.bench.peers.problem import Problem, all_rows

MODULES = {"xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost", "quantile": "quantile_forest",
           "engression": "engression", "skordinal": "skordinal"}  # fmt: skip
QUICK = {
    "xgboost-quantile": {"n_estimators": 60, "learning_rate": 0.2},
    "xgboost-classifier": {"n_estimators": 60, "learning_rate": 0.2},
    "lightgbm-cumulative": {"n_estimators": 60, "learning_rate": 0.1, "min_data_in_leaf": 5},
    "xgboost-cumulative": {"n_estimators": 60, "learning_rate": 0.2},
    "catboost-cumulative": {"iterations": 60, "learning_rate": 0.2},
    "quantile-forest": {"n_estimators": 30},
    "engression": {"num_epochs": 60, "batch_size": 32},
    "skordinal-nnpom": {},
    "skordinal-nnop": {},
}
GRADES = [name for name in QUICK if find_peer(name).tasks == ("grades",)]


def peer_of(name):
    pytest.importorskip(MODULES[name.split("-")[0]])
    return find_peer(name)


def rows_of(n_rows, seed, kinds):
    """Rows whose target a number and a category tell, with missing values in both, and awkward names."""
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    kinds_of_rows = pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))
    return pd.DataFrame({"size [cm], {x}": number, "kind": kinds_of_rows, "same": 1.0}), y


def a_problem(name, **changes):
    (x, y), (x_valid, y_valid), (x_test, y_test) = rows_of(150, 0, "abc"), rows_of(60, 1, "abc"), rows_of(60, 2, "abcz")
    if name in GRADES:
        cuts = np.quantile(y, [0.3, 0.6, 0.8])
        # A grade in the middle and one at the end that no row has: the answer must still be codes of the six.
        y, y_valid, y_test = (np.array([0.0, 1.0, 3.0, 4.0])[np.digitize(part, cuts)] for part in (y, y_valid, y_test))
        changes = {"n_grades": 6, **changes}
    return replace(Problem(x, y, x_valid, y_valid, n_samples=50), **changes), x_test, y_test


@pytest.mark.parametrize("name", QUICK)
def test_peer_beats_the_constant_and_repeats_itself(name):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem(name)
    prediction = peer.fit(problem, **QUICK[name]).predict(x_test)
    assert prediction.samples.shape == (60, 50)
    assert np.isfinite(prediction.samples).all()
    assert prediction.crps(y_test).mean() < 0.7 * fit_constant(problem).predict(x_test).crps(y_test).mean()
    if name in GRADES:
        assert set(np.unique(prediction.samples)) <= {0, 1, 3, 4}
    again = peer.fit(problem, **QUICK[name]).predict(x_test)
    np.testing.assert_array_equal(prediction.samples, again.samples)


@pytest.mark.parametrize("name", GRADES)
def test_a_grade_that_only_validation_rows_have_does_no_harm(name):
    peer = peer_of(name)
    problem, x_test, _ = a_problem(name)
    y_valid = np.where(np.arange(60) < 5, 5.0, problem.y_valid)
    samples = peer.fit(replace(problem, y_valid=y_valid), **QUICK[name]).predict(x_test).samples
    assert set(np.unique(samples)) <= set(range(6))


@pytest.mark.parametrize("name", ["xgboost-quantile", "lightgbm-cumulative", "xgboost-cumulative", "engression"])
def test_validation_rows_decide_when_to_stop(name):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem(name)
    misled = replace(problem, y_valid=np.random.default_rng(0).permutation(problem.y_valid))
    good, bad = (peer.fit(given, **QUICK[name]).predict(x_test).crps(y_test).mean() for given in (problem, misled))
    assert good < bad


@pytest.mark.parametrize("name", ["quantile-forest", "skordinal-nnpom"])
def test_methods_without_a_stop_learn_from_validation_rows_too(name):
    peer = peer_of(name)
    problem, x_test, y_test = a_problem(name)
    fitted = peer.fit(replace(problem, x=problem.x[:6], y=problem.y[:6]), **QUICK[name])
    assert len(all_rows(problem)[0]) == len(all_rows(problem)[1]) == 210
    constant = fit_constant(problem).predict(x_test).crps(y_test).mean()
    assert fitted.predict(x_test).crps(y_test).mean() < 0.8 * constant


def test_samples_of_engression_keep_known_bounds():
    peer = peer_of("engression")
    problem, x_test, _ = a_problem("engression", bounds=(45.0, 55.0))
    samples = peer.fit(problem, **QUICK["engression"]).predict(x_test).samples
    assert (samples.min(), samples.max()) == (45, 55)
    assert MAX_EPOCHS == 1000


def test_borders_that_cross_are_made_to_fall():
    shares = grades_from_borders(np.array([[0.5, 0.75, 0.1], [1.0, 1.0, 0.0]]))
    assert shares == pytest.approx(np.array([[0.375, 0.0, 0.525, 0.1], [0.0, 0.0, 1.0, 0.0]]))


@pytest.mark.parametrize(("name", "module", "package"), [
    ("xgboost-quantile", "xgboost", "xgboost-cpu"), ("xgboost-cumulative", "xgboost", "xgboost-cpu"),
    ("quantile-forest", "quantile_forest", "quantile-forest"), ("engression", "engression", "engression"),
    ("skordinal-nnop", "skordinal.classifiers", "skordinal"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_extra(name, module, package, monkeypatch):
    class Absent:
        """An environment without the package."""

        def find_spec(self, wanted, path=None, target=None):
            if wanted == module or wanted == module.split(".")[0]:
                raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

    for loaded in [key for key in sys.modules if key.split(".")[0] == module.split(".")[0]]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    problem, _, _ = a_problem(name)
    with pytest.raises(ImportError, match=rf"needs the package {package}, but .* pip install \"diffor\[bench\]\""):
        find_peer(name).fit(problem)
