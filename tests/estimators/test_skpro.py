"""The adapter for skpro, judged by skpro itself: its checks, its metrics, its tuners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

skpro = pytest.importorskip("skpro", reason="skpro is an optional extra")

from diffor import DiffoRClassifier, DiffoRRegressor  # noqa: E402
from diffor.core.cdf_prediction import CdfPrediction  # noqa: E402
from diffor.estimators.skpro import SkproRegressor  # noqa: E402
from diffor.metrics import crps_samples, pinball  # noqa: E402

TINY: dict[str, Any] = {"preset": "fast", "prior": None, "max_steps": 10, "random_state": 0, "verbose": 0}
X = pd.DataFrame({"size": np.linspace(0, 1, 60), "city": ["Oslo", "Rome", "Bern"] * 20}, index=np.arange(100, 160))
Y = pd.DataFrame({"price": 10 * X["size"]})


@pytest.fixture(scope="module")
def model() -> SkproRegressor:
    return SkproRegressor(DiffoRRegressor(**TINY), n_samples=20).fit(X, Y)


def test_skpros_own_checks_pass() -> None:
    from skpro.utils import check_estimator

    results = check_estimator(SkproRegressor, verbose=False)  # all of them, none excluded
    failed = {name: result for name, result in results.items() if result != "PASSED"}
    assert failed == {}
    assert len(results) > 40


def test_it_answers_as_the_estimator_does(model: SkproRegressor) -> None:
    inner = DiffoRRegressor(**TINY).fit(X, Y["price"])
    prediction = inner.predict_distribution(X, 20)
    np.testing.assert_allclose(model.predict(X)["price"], prediction.mean)
    np.testing.assert_allclose(model.predict_var(X)["price"], prediction.std**2)
    np.testing.assert_allclose(model.predict_quantiles(X, [0.1, 0.5]), prediction.quantile([0.1, 0.5]))
    interval = model.predict_interval(X, [0.5, 0.9])
    np.testing.assert_allclose(interval["price", 0.9], prediction.quantile([0.05, 0.95]))
    assert interval.index.equals(X.index)
    assert model.estimator.__dict__.keys() == DiffoRRegressor(**TINY).__dict__.keys()  # it stays as it was


def test_the_distribution_holds_the_samples_row_by_row(model: SkproRegressor) -> None:
    distribution = model.predict_proba(X)
    samples = model.estimator_.predict_distribution(X, 20).samples
    np.testing.assert_allclose(distribution.mean()["price"], samples.mean(axis=1, dtype=float))
    ordered = np.sort(samples, axis=1)
    np.testing.assert_allclose(distribution.ppf(pd.DataFrame(0.501, X.index, ["price"]))["price"], ordered[:, 50])
    np.testing.assert_allclose(distribution.cdf(Y)["price"], (samples <= Y.to_numpy()).mean(axis=1))


def test_skpros_metrics_equal_ours(model: SkproRegressor) -> None:
    from skpro.metrics import CRPS, PinballLoss

    samples = model.estimator_.predict_distribution(X, 20).samples
    assert CRPS()(Y, model.predict_proba(X)) == pytest.approx(crps_samples(Y["price"], samples))
    levels = [0.1, 0.5, 0.9]
    quantiles = model.predict_quantiles(X, levels)
    ours = np.mean([pinball(Y["price"], quantiles["price", level], level) for level in levels])
    assert PinballLoss()(Y, quantiles) == pytest.approx(ours)


def test_skpros_search_tunes_the_estimators_settings() -> None:
    from sklearn.model_selection import KFold
    from skpro.metrics import CRPS
    from skpro.model_selection import GridSearchCV

    cv = KFold(2, shuffle=True, random_state=0)
    grid = {"estimator__learning_rate": [1e-6, 1e-2]}
    search = GridSearchCV(
        SkproRegressor(DiffoRRegressor(**TINY)), cv=cv, param_grid=grid, scoring=CRPS(), backend="None"
    )
    search.fit(X, Y)
    assert search.best_params_ == {"estimator__learning_rate": 1e-2}
    assert search.best_estimator_.estimator_.learning_rate == 1e-2
    assert search.predict(X).shape == (60, 1)


def test_estimators_of_grades_are_refused() -> None:
    with pytest.raises(TypeError, match="estimator must be a DiffoRRegressor or an OrdinalRegressor, but got DiffoRC"):
        SkproRegressor(DiffoRClassifier(**TINY)).fit(X, Y)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "skpro.distributions.empirical", None)
    monkeypatch.delitem(sys.modules, "diffor.estimators.skpro")
    with pytest.raises(ImportError, match=r'needs the package skpro: pip install "diffor\[skpro\]"'):
        import diffor.estimators.skpro  # noqa: F401


def test_a_distribution_in_closed_form_has_exact_moments_and_even_quantiles(
    model: SkproRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = CdfPrediction([0, 0, 10, 20], np.tile([0, 0.5, 0.75, 1], (60, 1)))
    monkeypatch.setattr(model, "_prediction", lambda X: exact)
    np.testing.assert_allclose(model.predict(X)["price"], exact.mean)
    np.testing.assert_allclose(model.predict_var(X)["price"], exact.std**2)
    np.testing.assert_allclose(model.predict_quantiles(X, [0.1, 0.8]), exact.quantile([0.1, 0.8]))
    np.testing.assert_allclose(model.predict_interval(X, [0.5])["price", 0.5], exact.quantile([0.25, 0.75]))
    distribution = model.predict_proba(X)
    np.testing.assert_allclose(distribution.mean()["price"], exact.mean, atol=1e-9)
    np.testing.assert_allclose(distribution.cdf(0 * Y)["price"], 0.5)
