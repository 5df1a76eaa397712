import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import ExtraTreeRegressor

from diffor.priors import PriorRows, fit_priors
from diffor.priors.estimator import EstimatorPrior

N = 120


def make_rows(n=N, seed=0):
    x = np.random.default_rng(seed).uniform(size=(n, 2)).astype(np.float32)
    inputs = torch.from_numpy(x), torch.zeros(n, 0, dtype=torch.int64)
    return PriorRows(inputs, pd.DataFrame(x, columns=["a", "b"], index=np.arange(n) + 7))


def make_target(rows, noise=0.1, seed=1):
    wanted = rows.inputs[0][:, 0].numpy() * 0.6 + 0.2
    return np.clip(wanted + noise * np.random.default_rng(seed).normal(size=len(wanted)), 0, 1)


FOLDS = np.arange(N) % 4


def test_what_memorises_its_rows_is_asked_about_others():
    rows = make_rows()
    u = np.random.default_rng(0).uniform(size=N)  # nothing to learn: only who saw the row can be right
    fitted, seen = fit_priors(KNeighborsRegressor(1), rows, u, None, FOLDS, seed=0)
    assert fitted.names == ["KNeighborsRegressor"]
    assert (np.abs(seen[:, 0] - u) < 1e-6).mean() < 0.05
    assert np.abs(seen[:, 0] - u).mean() > 0.25
    nearest = KNeighborsRegressor(1).fit(rows.table[FOLDS != 2], u[FOLDS != 2]).predict(rows.table[FOLDS == 2])
    np.testing.assert_allclose(seen[FOLDS == 2, 0], nearest, atol=1e-6)
    # Also rows that are never held out are answered by others.
    _, seen = fit_priors(KNeighborsRegressor(1), rows, u, None, np.where(FOLDS == 0, 0, -1), seed=0)
    assert (np.abs(seen[:, 0] - u) < 1e-6).mean() < 0.05


def test_new_rows_are_answered_by_the_mean_of_the_folds():
    rows, new = make_rows(), make_rows(40, seed=5)
    u = make_target(rows)
    fitted, _ = fit_priors([LinearRegression()], rows, u, None, FOLDS, seed=0)
    each = [LinearRegression().fit(rows.table[k != FOLDS], u[k != FOLDS]).predict(new.table) for k in range(4)]
    np.testing.assert_allclose(fitted.predict(new)[:, 0], np.mean(each, axis=0), atol=1e-6)
    assert fitted.predict(new.take(np.arange(0))).shape == (0, 2)


@pytest.mark.parametrize("estimator", [BayesianRidge(), GaussianProcessRegressor(alpha=0.01)])
def test_a_spread_of_its_own_is_used(estimator):
    rows = make_rows()
    u = make_target(rows)
    prior = EstimatorPrior(estimator)
    seen = prior.fit(rows, u, None, FOLDS, seed=0)
    assert prior.spread is None
    _, std = estimator.fit(rows.table[FOLDS != 1], u[FOLDS != 1]).predict(rows.table[FOLDS == 1], return_std=True)
    np.testing.assert_allclose(seen[FOLDS == 1, 1], np.clip(std, 1e-4, 1), rtol=1e-4)


def test_otherwise_the_spread_is_learned_from_honest_answers():
    rows = make_rows()
    prior = EstimatorPrior(LinearRegression())
    seen = prior.fit(rows, make_target(rows, noise=0.05), None, FOLDS, seed=0)
    assert prior.spread is not None
    assert 0.04 < seen[:, 1].mean() < 0.06


def test_a_regressor_of_skpro_gives_its_variance():
    residual = pytest.importorskip("skpro.regression.residual")
    rows = make_rows()
    prior = EstimatorPrior(residual.ResidualDouble(LinearRegression()))
    seen = prior.fit(rows, make_target(rows), None, FOLDS, seed=0)
    assert prior.spread is None
    assert 0.03 < seen[:, 1].mean() < 0.3
    assert prior.predict(rows).shape == (N, 2)


def test_seeds_and_rows_without_a_table():
    rows = PriorRows(make_rows().inputs)
    u = make_target(rows)
    first, again, other = (
        fit_priors(ExtraTreeRegressor(max_depth=3), rows, u, None, FOLDS, seed=seed)[1] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_weights_reach_the_estimator():
    rows = make_rows()
    u = make_target(rows)
    weights = np.ones(N)
    weights[:30] = 0
    seen = EstimatorPrior(LinearRegression()).fit(rows, u, weights, FOLDS, seed=0)
    kept = (FOLDS != 1) & (weights > 0)
    without = LinearRegression().fit(rows.table[kept], u[kept]).predict(rows.table[FOLDS == 1])
    np.testing.assert_allclose(seen[FOLDS == 1, 0], without, atol=1e-6)
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        EstimatorPrior(KNeighborsRegressor()).fit(rows, u, weights + 0.5, FOLDS, seed=0)


class Wrong(DummyRegressor):
    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer

    def predict(self, X):
        return self.answer(super().predict(X))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda y: y[:-1],
            r"prior Wrong must have one number for each of 30 rows, not the shape \(29,\)",
        ),
        (lambda y: np.stack([y, y], axis=1), r"not the shape \(30, 2\)"),
        (lambda y: np.where(np.arange(len(y)) == 3, np.nan, y), r"must be finite, not nan \(row 3 of those asked\)"),
    ],
)
def test_wrong_answers_are_refused(answer, message):
    rows = make_rows()
    with pytest.raises(ValueError, match=message):
        EstimatorPrior(Wrong(answer)).fit(rows, make_target(rows), None, FOLDS, seed=0)


def test_what_cannot_be_a_prior_is_refused():
    with pytest.raises(TypeError, match="must be a name or an object with fit and predict, not 3"):
        EstimatorPrior(3)
    with pytest.raises(TypeError, match="pass a regressor such as"):
        EstimatorPrior(LinearRegression)
    rows = make_rows()
    fitted, _ = fit_priors(make_pipeline(StandardScaler(), LinearRegression()), rows, make_target(rows), None, FOLDS, 0)
    with pytest.raises(TypeError, match="cannot be saved"):
        fitted.to_tensors()
