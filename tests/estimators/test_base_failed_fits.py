"""A fit that fails, at whatever stage, leaves the model that was there before as it was."""

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.estimators.streamed_fit import Stream, fit_stream

QUICK = {"preset": "fast", "prior": "trees", "max_steps": 10, "random_state": 0, "verbose": 0}
X = pd.DataFrame({"a": np.linspace(0, 1, 60), "b": np.tile([1.0, 2.0, 3.0], 20)})
Y = 10 * X["a"].to_numpy()
STAGES = {
    "reading columns": "diffor.estimators.fitting.TabularInputs.fit",
    "priors": "diffor.estimators.cross_fitting.fit_priors",
    "borders": "diffor.estimators.cross_fitting.place_borders",
    "training": "diffor.estimators.cross_fitting.train",
    "weights of kinds": "diffor.estimators.cross_fitting.weigh_kinds",
    "calibration": "diffor.estimators.cross_fitting.fit_calibration",
    "scores of held-out rows": "diffor.estimators.fitting.mae",
}


class InjectedError(Exception):
    """What a stage is made to raise."""


def fail(*arguments, **named):
    raise InjectedError


@pytest.fixture(scope="module", params=["values", "grades"])
def fitted(request):
    if request.param == "values":
        return DiffoRRegressor(**QUICK).fit(X, Y), 1000 * Y
    return DiffoRClassifier(**QUICK).fit(X, np.digitize(Y, [3, 7])), np.digitize(Y, [1, 2, 3, 7])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("error", [InjectedError, KeyboardInterrupt])
def test_a_failed_refit_changes_nothing(fitted, stage, error, monkeypatch):
    if error is KeyboardInterrupt and stage == "training":
        pytest.skip("Ctrl-C while training keeps the best so far, see test_cross_fitted_runs")
    model, other = fitted
    before, state = model.predict(X), dict(vars(model))

    def stop(*arguments, **named):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(STAGES[stage], stop)
        with pytest.raises(error):
            model.fit(X[["b"]], other)
    assert vars(model) == state
    np.testing.assert_array_equal(model.predict(X), before)


def test_wrong_rows_after_a_new_scale_was_found(fitted):
    model, other = fitted
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[30, 60\]"):
        model.fit(X.head(30), other)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_model_that_was_never_fitted_stays_unfitted(monkeypatch):
    model = OrdinalRegressor("or-cnn", max_steps=3, verbose=0)
    monkeypatch.setattr("diffor.estimators.fitting.fit_ensemble", fail)
    with pytest.raises(InjectedError):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


def test_a_failed_fit_on_files_changes_nothing(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    model = DiffoRRegressor(**QUICK | {"prior": "auto"}).fit(X, Y)
    before = model.predict(X)
    X.assign(target=Y).to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("diffor.estimators.streamed_fit._StreamedFit._train", fail)
    with pytest.raises(InjectedError):
        fit_stream(model, Stream(str(tmp_path / "rows.parquet"), "target"))
    np.testing.assert_array_equal(model.predict(X), before)
