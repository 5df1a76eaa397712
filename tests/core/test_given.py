"""What remains of a distribution once its value is known to lie in a range: the conditional law, nothing outside."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffor import CdfPrediction, Prediction
from diffor.core.given import RowCdf, row_limits
from diffor.errors import UserError, UserTypeError

WATCHED = CdfPrediction([0, 0, 10, 20, 20], [[0, 0.2, 0.4, 0.5, 1]])


@st.composite
def cut_distributions(draw):
    """Any few rows on knots, some of them atoms, and a range for each row that may or may not touch knots."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.unique(random.integers(-8, 9, draw(st.integers(2, 7)))) / 4
    knots = np.repeat(values, 1 + (np.ones(1, dtype=int) if len(values) == 1 else random.integers(0, 2, len(values))))
    n = draw(st.integers(1, 4))
    masses = random.random((n, len(knots) - 1)) ** 3
    masses *= random.random(masses.shape) < draw(st.sampled_from([0.5, 1.0]))
    masses[:, -1] += 1e-3
    heights = np.concatenate([np.zeros((n, 1)), masses.cumsum(axis=1)], axis=1)
    at_knots, anywhere = random.choice(values, (n, 2)), random.uniform(-2.5, 2.5, (n, 2))
    ends = np.sort(np.where(random.random((n, 2)) < 0.5, at_knots, anywhere))
    low, high = np.where(random.random((n, 2)) < 0.2, np.nan, ends).T
    return CdfPrediction(knots, heights / heights[:, -1:]), low, high


def open_ends(low, high):
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def everything(prediction):
    """Every answer about places of the target, for one row or many. **Shape:** ``(n, c)``."""
    levels = prediction.quantile([0, 0.01, 0.3, 0.5, 0.9, 1])
    single = [prediction.mean, prediction.mode, prediction.median, prediction.statistic("native")]
    drawn = prediction.draw(8, torch.arange(len(prediction)))
    ends = [prediction.interval(0.5), prediction.interval(0.95), prediction.ends_at(0.1)]
    return np.concatenate([levels, np.stack(single, axis=1), drawn, *ends, prediction.samples], axis=1)


@settings(deadline=None, max_examples=100)
@given(cut_distributions())
def test_no_answer_lies_outside(case):
    prediction, low, high = case
    cut = prediction.given(low, high)
    answers, (least, most) = everything(cut), open_ends(low, high)
    assert (answers >= least[:, None]).all()
    assert (answers <= most[:, None]).all()
    assert cut.cdf_below(least) == pytest.approx(0, abs=0)
    assert cut.cdf(most) == pytest.approx(1, abs=0)


@settings(deadline=None, max_examples=100)
@given(cut_distributions())
def test_it_is_the_law_of_the_row_divided_by_that_of_the_range(case):
    prediction, low, high = case
    cut, (least, most) = prediction.given(low, high), open_ends(low, high)
    before = prediction.cdf_below(least)
    share = prediction.cdf(most) - before
    known = share > 1e-6
    places = np.unique(np.concatenate([prediction.knots, np.linspace(-3, 3, 41)]))[None]
    inside = np.clip(places, least[:, None], most[:, None])
    for read in ("cdf", "cdf_below"):
        expected = (getattr(prediction, read)(inside) - before[:, None]) / np.where(known, share, 1)[:, None]
        expected = np.where(places < least[:, None], 0, np.where(places > most[:, None], 1, expected))
        assert np.abs(getattr(cut, read)(places) - expected)[known].max(initial=0) < 1e-9
    within = (places > least[:, None]) & (places < most[:, None]) & known[:, None]
    slope = prediction.density(places) / np.where(known, share, 1)[:, None]
    assert cut.density(places)[within] == pytest.approx(slope[within], rel=1e-6)
    assert cut.atoms[1] == pytest.approx(cut.mass(cut.atoms[0][None]))


@settings(deadline=None)
@given(cut_distributions())
def test_statistics_are_those_of_many_even_quantiles(case):
    prediction, low, high = case
    cut = prediction.given(low, high)
    samples = cut.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert cut.mean == pytest.approx(samples.mean(axis=1), abs=1e-3)
    assert cut.std == pytest.approx(samples.std(axis=1), abs=1e-2)
    y = np.full(len(cut), 0.1)
    assert cut.crps(y) == pytest.approx(Prediction(samples).crps(y), abs=1e-3)
    assert cut.increments(5, -2.0, 2.0) == pytest.approx(Prediction(samples).increments(5, -2.0, 2.0), abs=1e-3)
    assert cut.probabilities([-1.0, 0.3]) == pytest.approx(Prediction(samples).probabilities([-1.0, 0.3]), abs=1e-3)
    ends = cut.interval(0.8)
    assert (cut.cdf(ends[:, 1]) - cut.cdf_below(ends[:, 0]) >= 0.8 - 1e-9).all()


@settings(deadline=None)
@given(cut_distributions())
def test_rows_do_not_depend_on_each_other(case):
    prediction, low, high = case
    whole, y = prediction.given(low, high), np.full(len(prediction), 0.25)
    for row in range(len(prediction)):
        here = slice(row, row + 1)
        alone = prediction[here].given(low[here], high[here])
        for each in (alone, whole[here]):
            assert np.array_equal(each.quantile([0.1, 0.5]), whole.quantile([0.1, 0.5])[here])
            assert np.array_equal(each.mean, whole.mean[here])
            assert np.array_equal(each.log_likelihood(y[here]), whole.log_likelihood(y)[here])
            assert np.array_equal(each.interval(0.8), whole.interval(0.8)[here])


@settings(deadline=None)
@given(cut_distributions())
def test_rows_without_limits_keep_every_digit(case):
    prediction, low, _ = case
    free = prediction.given(np.full(len(low), np.nan), np.inf)
    assert isinstance(free, RowCdf)
    assert np.array_equal(everything(free), everything(prediction))
    spots = np.linspace(-3, 3, 25)[None]
    for read in ("cdf", "cdf_below", "density", "log_likelihood"):
        assert np.allclose(getattr(free, read)(spots[:, ::2] + 0.01), getattr(prediction, read)(spots[:, ::2] + 0.01))
    assert prediction.given() is prediction


def test_an_atom_at_a_limit_belongs_to_the_range():
    cut = WATCHED.given(lower=[10], upper=[20])
    assert cut.mass([20.0]) == pytest.approx([0.5 / 0.6])
    assert WATCHED.given(upper=19.999).mass([19.999]) == pytest.approx([0.0])
    assert WATCHED.given(lower=0, upper=0).samples.tolist() == [[0.0] * 100]
    assert WATCHED.given(lower=5).mean == pytest.approx([(0.1 * 7.5 + 0.1 * 15 + 0.5 * 20) / 0.7])


def test_an_atom_that_rounding_moved_stays_in_the_range():
    third = CdfPrediction([0, 0.1 + 0.2, 0.1 + 0.2, 1], [[0, 0.25, 0.75, 1]])
    cut = third.given(upper=0.3)
    assert cut.mass([0.3]) == pytest.approx([0.5 / 0.75])
    assert cut.quantile([1.0]).tolist() == [[0.3]]


def test_a_range_without_probability_has_it_all_next_to_the_median():
    parts = CdfPrediction([0, 1, 5, 6], [[0, 0.6, 0.6, 1]])
    assert parts.given(lower=2, upper=4).median.tolist() == [2]
    assert parts.given(lower=7, upper=9).mean.tolist() == [7]
    assert parts.given(upper=-1).interval(0.9).tolist() == [[-1, -1]]
    assert parts.given(upper=-1).log_likelihood([-1.0]).tolist() == [0]
    assert parts.given(upper=-1).crps([1.0]).tolist() == [2]
    assert parts.given(lower=3, upper=3).cdf([[2.9, 3.0]]).tolist() == [[0, 1]]


def test_limits_one_after_the_other_are_limits_together():
    lower, upper = np.array([1.0]), np.array([15.0])
    one, two = WATCHED.given(lower, upper), WATCHED.given(lower).given(upper=upper)
    places = np.linspace(-1, 21, 45)[None]
    assert one.cdf(places) == pytest.approx(two.cdf(places), abs=1e-12)
    assert one.std == pytest.approx(two.std)


def test_cut_rows_stand_below_others_and_are_mapped():
    cut = WATCHED.given(upper=12)
    short = CdfPrediction([3, 4], [[0, 1]])
    for parts in ((cut, short), (short, cut)):
        joined = CdfPrediction.concatenate(parts)
        assert isinstance(joined, RowCdf)
        for row, part in enumerate(parts):
            assert joined[row : row + 1].mean == pytest.approx(part.mean)
            assert joined.interval(0.5)[row] == pytest.approx(part.interval(0.5)[0])
    doubled = cut.map(lambda seconds: 2 * seconds)
    assert doubled.mean == pytest.approx(2 * cut.mean)
    assert doubled.mass([0.0]) == pytest.approx(cut.mass([0.0]))
    with pytest.raises(UserTypeError, match="mix them first, then cut"):
        CdfPrediction.pool([cut, cut])
    assert repr(cut) == "RowCdf(rows=1, knots=5)"


def test_what_the_method_decides_on_stays_in_the_range():
    native = CdfPrediction([0, 10], [[0, 1], [0, 1]], [8, 2]).given(upper=5).statistic("native")
    assert native.tolist() == [5, 2]
    assert Prediction([[1.0, 9.0]], [9.0]).given(upper=5).statistic("native").tolist() == [5]


# Samples.


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_samples_outside_are_rejected_and_the_others_count_alike(seed, m):
    random = np.random.default_rng(seed)
    samples = np.round(random.normal(size=(5, m)), 1).astype(np.float32)
    low, high = np.sort(random.normal(size=(2, 5)), axis=0)
    cut = Prediction(samples).given(low, high)
    assert cut.samples.shape == samples.shape
    for row in range(5):
        inside = np.sort(samples[row][(samples[row] >= low[row]) & (samples[row] <= high[row])].astype(float))
        assert ((cut.samples[row] >= low[row]) & (cut.samples[row] <= high[row])).all() or not len(inside)
        if len(inside):
            values, counts = np.unique(inside, return_counts=True)
            shares = np.array([(cut.samples[row] == value).mean() for value in values])
            assert shares == pytest.approx(counts / len(inside), abs=1 / m + 1e-9)
            assert shares.sum() == pytest.approx(1)
        else:
            assert np.ptp(cut.samples[row]) == 0
            assert low[row] <= cut.samples[row, 0] <= high[row]


# Limits.


@pytest.mark.parametrize(
    ("limits", "kind", "message"),
    [
        (([1, 2, 3], None), UserError, "lower must be one number, or one for each of the 2 rows, but got shape=(3,)"),
        ((None, [[1], [2]]), UserError, "or one for each of the 2 rows, but got shape=(2, 1)"),
        (([0, 5], 4), UserError, "but row 1 has lower=5.0 and upper=4.0; correct the row"),
        ((None, [1, -np.inf]), UserError, "upper must leave something, but row 1 has upper=-inf"),
        ((np.inf, None), UserError, "lower must leave something, but row 0 has lower=inf"),
        ((None, ["1", "long"]), UserTypeError, "upper must hold numbers, but got ['1', 'long']; NaN stands"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prediction", [Prediction([[1.0], [2.0]]), CdfPrediction([0, 1], [[0, 1], [0, 1]])])
def test_wrong_limits_are_refused(limits, kind, message, prediction):
    with pytest.raises(kind, match=re.escape(message)):
        prediction.given(*limits)


def test_missing_limits_are_none():
    low, high = row_limits(np.array([np.nan, 1]), None, 2)
    assert low.tolist() == [-np.inf, 1]
    assert high.tolist() == [np.inf, np.inf]
    assert row_limits(None, pd.Series([3, pd.NA], dtype="Int64"), 2)[1].tolist() == [3, np.inf]
    assert row_limits(None, [None, 3], 2)[1].tolist() == [np.inf, 3]
