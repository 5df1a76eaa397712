"""A limit for each row: what is predicted of a value that is known to keep to it."""

import re

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.errors import UserError, UserTypeError
from diffor.metrics import coverage

N_TRAIN, N_NEW = 300, 60


def watched(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that know nothing of the length, seconds that are watched, and the length, which no seconds exceed."""
    random = np.random.default_rng(seed)
    X, length = random.random((n, 2)), random.uniform(20, 100, n)
    return X, np.minimum(random.exponential(30 + 60 * X[:, 0], n), length), length


X, Y, _ = watched(N_TRAIN, 0)
NEW, SECONDS, LENGTH = watched(N_NEW, 1)
QUICK = {"max_steps": 30, "random_state": 0, "verbose": 0, "bounds": (0, 100)}


@pytest.fixture(scope="module")
def model() -> DiffoRRegressor:
    return DiffoRRegressor("fast", **QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def calibrated() -> DiffoRRegressor:
    model = DiffoRRegressor("fast", **QUICK).fit(X, Y)
    seen, seconds, _ = watched(200, 2)
    return model.conformalize(seen, seconds)


@pytest.fixture(scope="module")
def sampled() -> OrdinalRegressor:
    """A method that draws samples."""
    return OrdinalRegressor("mdn", preset="fast", n_samples=20, **QUICK).fit(X, Y)


def test_answers_never_exceed_the_limits(model, calibrated, sampled):
    start = 0.1 * LENGTH
    for one in (model, calibrated, sampled):
        limits = {"lower": start, "upper": LENGTH}
        answers = [
            *(one.predict(NEW, statistic, **limits)[:, None] for statistic in (None, "mean", "mode", "native", 0.99)),
            one.predict_quantiles(NEW, [0, 0.5, 1], **limits),
            one.predict_interval(NEW, 0.95, **limits),
            one.predict_distribution(NEW, **limits).samples,
            one.predict_opened(NEW, None, **limits)[0].samples,
        ]
        every = np.concatenate(answers, axis=1)
        assert (every >= start[:, None]).all()
        assert (every <= LENGTH[:, None]).all()
        assert (one.predict_quantiles(NEW, [0.99])[:, 0] > LENGTH).any()  # what they would have said without


def test_limits_belong_to_their_rows_whatever_the_block(model, monkeypatch):
    whole = model.predict(NEW, upper=LENGTH)
    with monkeypatch.context() as patched:
        patched.setattr("diffor.estimators.rows.BLOCK_ROWS", 16)
        assert np.allclose(model.predict(NEW, upper=LENGTH), whole, rtol=1e-5)
    turned = model.predict(NEW[::-1], upper=LENGTH[::-1])[::-1]
    assert np.array_equal(turned, whole)


def test_one_limit_may_be_for_all_and_missing_ones_are_none(model):
    assert model.predict(NEW, upper=20).max() <= 20
    some = np.where(np.arange(N_NEW) % 2, 20.0, np.nan)
    expected = np.where(np.arange(N_NEW) % 2, model.predict(NEW, upper=20), model.predict(NEW))
    assert np.array_equal(model.predict(NEW, upper=some), expected)
    assert np.array_equal(model.predict(NEW, upper=pd.Series(some)), expected)
    assert np.array_equal(model.predict(NEW, upper=1e6, lower=-1), model.predict(NEW))


def test_guaranteed_intervals_lose_no_target_to_the_limits(calibrated):
    free, cut = (calibrated.predict_interval(NEW, 0.8, **limits) for limits in ({}, {"upper": LENGTH}))
    assert np.array_equal(cut, np.minimum(free, LENGTH[:, None]))
    held = [(ends[:, 0] <= SECONDS) & (ends[:, 1] >= SECONDS) for ends in (free, cut)]
    assert np.array_equal(*held)
    assert coverage(SECONDS, *cut.T) == coverage(SECONDS, *free.T) > 0.7
    assert (np.diff(cut) < np.diff(free)).any()
    threshold = calibrated.conformal_.threshold(0.8)
    prediction, opened = calibrated.predict_opened(NEW, threshold, upper=LENGTH)
    assert np.array_equal(opened, cut)
    assert (prediction.quantile([1.0])[:, 0] <= LENGTH).all()


@pytest.mark.parametrize(
    ("limits", "kind", "message"),
    [
        ({"upper": LENGTH[:3]}, UserError, f"upper must be one number, or one for each of the {N_NEW} rows"),
        ({"lower": 50, "upper": LENGTH}, UserError, "lower must not be above upper, but row"),
        ({"upper": -1}, UserError, "leave some of the model's range from 0.0 to 100.0, but row 0 has upper=-1.0"),
        ({"lower": np.where(np.arange(N_NEW) == 2, 101, 0)}, UserError, "but row 2 has lower=101.0; correct the row"),
        ({"lower": "size"}, UserTypeError, "lower must hold numbers, but got 'size'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ask", ["predict", "predict_interval"])
def test_wrong_limits_are_refused_before_anything_is_predicted(limits, kind, message, ask, model, monkeypatch):
    monkeypatch.setattr(model, "_predictions", None)
    with pytest.raises(kind, match=re.escape(message)):
        getattr(model, ask)(NEW, **limits)


def test_a_range_of_one_value_needs_cuts():
    model = DiffoRRegressor("fast", **{**QUICK, "bounds": None, "max_steps": 2}).fit(X, np.full(N_TRAIN, 3.0))
    with pytest.raises(
        UserError, match=re.escape("range is as narrow as that from 3.0 to 3.0, but cuts=None; pass cuts")
    ):
        model.predict_proba(NEW, upper=4)
    assert model.predict_proba(NEW, [2, 5], upper=4).shape == (N_NEW, 3)
