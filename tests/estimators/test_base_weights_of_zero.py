"""A row of weight 0 is a row that is not there."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.core.grades import Spread
from diffor.core.table import check_weights, row_counts
from diffor.core.target import TargetScale
from diffor.encoders import TabularInputs
from diffor.errors import UserError
from diffor.estimators.held_out import HeldOutScore, hold_out, weigh_kinds
from diffor.methods.diffor.borders import Borders
from diffor.training.batches import Rows

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


@pytest.mark.parametrize("kind", ["text", "numbers", "listed"])
def test_grades_that_only_absent_rows_have_are_no_grades(kind):
    X, y = make_rows()
    grades = np.array(["a", "b", "c"])[np.digitize(y, [3, 6])] if kind != "numbers" else np.digitize(y, [3, 6])
    more = grades.astype(object)
    more[:5] = "never" if kind != "numbers" else 99
    more[5] = None
    weights = np.where(np.arange(len(y)) < 6, 0.0, 1.0)
    listed = ["c", "b", "a"] if kind == "listed" else None
    model = DiffoRClassifier("fast", prior=None, grades=listed, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        among = model.fit(X, more, sample_weight=weights)
        grades_found, shares = among.grades_.tolist(), among.predict_proba(X)
        alone = model.fit(X[6:], grades[6:], sample_weight=np.ones(len(y) - 6))
    assert grades_found == alone.grades_.tolist() == (listed or sorted(set(grades.tolist())))
    np.testing.assert_array_equal(shares, alone.predict_proba(X))
    with pytest.raises(UserError, match=r"none of|must be of one kind|no NaN"):
        model.fit(X, more)


def test_targets_of_absent_rows_may_be_anything_that_is_a_number_or_missing():
    X, y = make_rows()
    more = y.copy()
    more[:4] = [np.nan, np.inf, 1e308, -1e308]
    weights = np.where(np.arange(len(y)) < 4, 0.0, 1.0)
    model = DiffoRRegressor("fast", prior=None, bounds=(y.min() - 1, y.max() + 1), **QUICK)
    among = model.fit(X, more, sample_weight=weights).predict(X)
    np.testing.assert_array_equal(among, model.fit(X[4:], y[4:], sample_weight=np.ones(len(y) - 4)).predict(X))


# --- a row of weight 2 is the row twice, where nothing is random ---


def random_weights(seed, n):
    weights = np.random.default_rng(seed).choice([1.0, 2.0, 3.0], n)
    weights[:2] = 1, 2
    return weights, np.repeat(np.arange(n), weights.astype(int))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("transform", ["uniform", "quantile", "log"])
def test_the_target_s_range_and_map(seed, transform):
    y = np.random.default_rng(seed).lognormal(size=60)
    weights, twice = random_weights(seed, 60)
    by_weight = TargetScale(transform=transform).fit(y, row_counts(check_weights(weights, 60)))
    by_rows = TargetScale(transform=transform).fit(y[twice])
    np.testing.assert_allclose(by_weight.to_unit(y), by_rows.to_unit(y), rtol=1e-12)
    assert (by_weight.low, by_weight.high) == (y.min(), y.max())


@pytest.mark.parametrize("seed", range(2))
def test_statistics_of_columns(seed):
    X, _ = make_rows(60, seed)
    X.loc[3, "a"] = np.nan
    weights, twice = random_weights(seed, 60)
    counts = row_counts(check_weights(weights, 60))
    assert TabularInputs().fit(X, counts).to_json() == TabularInputs().fit(X.iloc[twice]).to_json()


@pytest.mark.parametrize("seed", range(2))
def test_borders_scores_and_calibration(seed):
    draw = np.random.default_rng(seed)
    weights, twice = random_weights(seed, 200)
    y = np.where(draw.random(200) < 0.3, 0.0, draw.random(200))
    by_weight, by_rows = Borders.place(y, 16, check_weights(weights, 200)), Borders.place(y[twice], 16)
    np.testing.assert_allclose(by_weight.edges, by_rows.edges, rtol=1e-12)
    np.testing.assert_array_equal(by_weight.is_atom, by_rows.is_atom)
    said = torch.from_numpy(np.sort(draw.random((200, len(by_weight))), axis=1)[:, ::-1].astype(np.float32).copy())
    other = torch.from_numpy(np.sort(draw.random((200, len(by_weight))), axis=1)[:, ::-1].astype(np.float32).copy())
    held = hold_out(200, 2, seed)
    rows = Rows(
        (said,), torch.from_numpy(y).float(), torch.from_numpy(weights / weights.mean()).float(), torch.arange(200)
    )
    repeated = Rows((said[twice],), rows.y[twice], None, torch.arange(len(twice)))
    one, two = (HeldOutScore.of_rows(some, by_weight, held[:, which]) for some, which in
                ((rows, slice(None)), (repeated, twice)))  # fmt: skip
    assert one.of(said) == pytest.approx(two.of(said[twice]), rel=1e-5)
    found = weigh_kinds([said, other], one)
    np.testing.assert_allclose(found, weigh_kinds([said[twice], other[twice]], two), atol=1e-4)


def test_figures_of_a_fit_and_the_spread_of_grades_count_weights():
    draw = np.random.default_rng(0)
    shares, (weights, twice) = draw.dirichlet(np.ones(4), 50), random_weights(0, 50)
    by_weight, by_rows = Spread.of(shares, weights), Spread.of(shares[twice])
    assert tuple(by_weight) == pytest.approx(tuple(by_rows))
    X, y = make_rows()
    weights = np.where(y > 5, 3.0, 1.0)
    model = DiffoRRegressor("fast", prior=None, keep_out_of_fold=True, **QUICK).fit(X, y, sample_weight=weights)
    assert model.held_out_scores_["crps"] == pytest.approx(np.average(model.out_of_fold_.crps(y), weights=weights))
    missed = np.abs(y - model.out_of_fold_.median)
    assert model.held_out_scores_["mae"] == pytest.approx(np.average(missed, weights=weights))
    assert model.data_summary_["target"]["median"] == np.median(np.repeat(y, weights.astype(int)))
