"""What targets may be: numbers, of whatever type; what is none is refused by name before any work."""

import decimal
import fractions
import warnings

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.core.table import check_weights
from diffor.errors import UserError
from diffor.estimators.values import as_values, warn_of_outliers

X = np.random.default_rng(0).random((60, 2))
QUICK = {"max_steps": 5, "random_state": 0, "verbose": 0}
REFUSED = {
    "whole numbers beyond doubles": ([10**400, *range(59)], "below 1e308"),
    "dates": (np.arange(60).astype("datetime64[D]"), "turn times into numbers"),
    "times with a zone": (pd.Series(pd.date_range("2020", periods=60, tz="UTC")), "turn times into numbers"),
    "dates of Python": ([d.date() for d in pd.date_range("2020", periods=60)], "turn times into numbers"),
    "numbers as text": ([str(n) for n in range(60)], "turn text into numbers"),
    "text among numbers": (np.array([*range(59), "3"], dtype=object), "turn text into numbers"),
    "categories of text": (pd.Series([str(n) for n in range(60)], dtype="category"), "turn text into numbers"),
    "complex": (np.arange(60) * 1j, "one number for each row"),
    "lists": (pd.Series([[1]] * 60), "one number for each row"),
    "two columns": (np.zeros((60, 2)), "one number for each row"),
    "missing": ([None, *range(59)], "NaN"),
    "missing of pandas": (pd.Series([pd.NA, *range(59)], dtype="Int64"), "NaN"),
    "infinite": ([np.inf, *range(59)], "infinity"),
    "near the end": ([1e308, *range(59)], "divide by a constant"),
    "all the way": ([1e308, -1e308, *range(58)], "divide by a constant"),
    "next to nothing": ([5e-324, *np.zeros(59)], "multiply by a constant"),
}


@pytest.mark.parametrize(("y", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_targets_that_are_no_numbers_are_refused(y, reason):
    with pytest.raises(UserError, match=reason):
        DiffoRRegressor("fast", prior=None, **QUICK).fit(X, y)


@pytest.mark.parametrize(
    "y",
    [
        [True, False, True], np.array([1, 2, 3], dtype=np.uint8), [decimal.Decimal("1.5"), decimal.Decimal(2)],
        [fractions.Fraction(1, 2), 1], pd.Series([1, 2, 3], dtype="Int64"), pd.Series([1.5, 2], dtype="category"),
        np.array([1, 2.5, True], dtype=object), np.array([[1.0], [2.0]]), np.float16([1, 2]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_numbers_of_all_types_are_numbers(y):
    expected = [float(value) for value in np.asarray(y, dtype=object).ravel()]
    assert as_values(y, "y").tolist() == expected


@pytest.mark.parametrize("large", [1e120, 1e-120])
def test_large_and_small_units_change_nothing(large):
    y = X[:, 0] + 0.1
    plain = DiffoRRegressor("fast", **QUICK).fit(X, y)
    scaled = DiffoRRegressor("fast", **QUICK).fit(X, y * large)
    np.testing.assert_allclose(scaled.predict_quantiles(X), plain.predict_quantiles(X) * large, rtol=1e-4)


def test_a_target_far_from_all_others_is_named():
    y = X[:, 0].copy()
    y[17] = 1e9
    for transform in ("uniform", "quantile"):
        with pytest.warns(UserWarning, match=r"1 of 60 targets lie far .* \(row 17: 1000000000.0\): correct or remove"):
            OrdinalRegressor("or-cnn", transform=transform, **QUICK).fit(X, y)
    weights = np.ones(60)
    weights[17] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OrdinalRegressor("or-cnn", **QUICK).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("draw", ["lognormal", "standard_cauchy", "zeros"])
def test_long_tails_are_no_outliers(draw):
    random = np.random.default_rng(0)
    y = np.where(random.random(2000) < 0.97, 0, random.lognormal(3, 2, 2000)) if draw == "zeros" else None
    y = getattr(random, draw)(size=2000) if y is None else y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_outliers(y, np.arange(2000))


@pytest.mark.parametrize(
    "weights", [[1e308, 1e308, 5e307], [5e-324, 5e-324, 0], [1e308, 1.0, 1e308], [1e-310, 2e-310, 0]]
)
def test_weights_at_the_ends_of_double_precision(weights):
    found = check_weights(weights, 3)
    assert found.mean() == pytest.approx(1)
    assert np.isfinite(found).all()
    expected = np.array(weights) / max(weights)
    expected[expected < 1e-30] = 0
    np.testing.assert_allclose(found / found.max(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "weights", [["a"] * 60, [None, *np.ones(59)], [10**400] * 60, np.ones(59), [-1] * 60, [0] * 60]
)
def test_wrong_weights_are_refused(weights):
    with pytest.raises(UserError, match="sample_weight must"):
        DiffoRRegressor("fast", prior=None, **QUICK).fit(X, X[:, 0], sample_weight=weights)


def test_columns_at_the_end_of_double_precision_are_named():
    table = pd.DataFrame({"a": X[:, 0], "far": X[:, 1]})
    for far in (np.where(np.arange(60) % 2, 1.7e308, -1.7e308), np.where(np.arange(60) % 9, 1.7e308, -1.7e308)):
        with pytest.raises(UserError, match=r"column 'far' must have differences below 1e308, but reaches from -1\.7e"):
            DiffoRRegressor("fast", prior=None, **QUICK).fit(table.assign(far=far), X[:, 0])
    table.loc[3, "far"] = 1.7e308  # one wild value is like any other
    model = DiffoRRegressor("fast", **QUICK).fit(table, X[:, 0])
    table.loc[5, "far"] = -1.7e308
    assert np.isfinite(model.predict(table)).all()


@pytest.mark.parametrize("y", [np.full(60, 3.25), 1e15 + 0.125 * (np.arange(60) % 3)])
@pytest.mark.parametrize("make", [lambda: DiffoRRegressor("fast", **QUICK), lambda: OrdinalRegressor("dex", **QUICK)])
def test_ranges_of_targets_that_hardly_differ(y, make):
    shares = make().fit(X, y).predict_proba(X)
    assert shares.shape == (60, 8)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    if len(set(y)) == 1:
        assert (shares[:, 0] == 1).all()


@pytest.mark.parametrize("given", [59, 61, 0])
def test_rows_and_targets_must_be_equally_many(given):
    with pytest.raises(
        UserError, match=r"inconsistent numbers of samples: \[60, [0-9]+\]; pass equally many|at least one target"
    ):
        DiffoRRegressor("fast", prior=None, **QUICK).fit(X, np.arange(float(given)))
