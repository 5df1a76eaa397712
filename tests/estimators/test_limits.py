"""A limit for each row: what is predicted of a value that is known to keep to it."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from diffor import DiffoRRegressor, OrdinalRegressor, load
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


# --- the share of the limit that is reached ---

LENGTHS = watched(N_TRAIN, 0)[2]
OF_LIMIT = {"max_steps": 30, "random_state": 0, "verbose": 0, "limit": "share"}


@pytest.fixture(scope="module")
def share() -> DiffoRRegressor:
    return DiffoRRegressor("fast", **OF_LIMIT).fit(X, Y, upper=LENGTHS)


def test_a_share_of_the_limit_is_learned_and_answers_are_in_the_target_s_units(share):
    by_hand = DiffoRRegressor("fast", **QUICK | {"bounds": (0, 1)}).fit(X, Y / LENGTHS)
    assert np.allclose(share.predict(NEW, upper=LENGTH), by_hand.predict(NEW) * LENGTH)
    assert np.allclose(share.predict_interval(NEW, upper=LENGTH), by_hand.predict_interval(NEW) * LENGTH[:, None])
    assert np.allclose(share.sample(NEW, 5, upper=LENGTH), by_hand.sample(NEW, 5) * LENGTH[:, None])
    assert np.allclose(share.predict_proba(NEW, upper=LENGTH), by_hand.predict_proba(NEW), atol=1e-6)
    assert np.allclose(share.predict_increments(NEW, upper=60), by_hand.predict_increments(NEW) * 60)
    answer = share.predict_distribution(NEW, upper=LENGTH)
    assert np.allclose(answer.mass(LENGTH), by_hand.predict_distribution(NEW).mass(1.0))
    assert answer.mass(LENGTH).min() > 0.05  # views pile up at the end
    assert np.allclose(answer.crps(SECONDS), by_hand.predict_distribution(NEW).crps(SECONDS / LENGTH) * LENGTH)


def test_no_answer_exceeds_the_limit_whose_share_is_learned(share):
    drawn = OrdinalRegressor("card", preset="fast", n_samples=20, **OF_LIMIT).fit(X, Y, upper=LENGTHS)
    for one in (share, drawn):
        for limits in ({"upper": LENGTH}, {"lower": 0.5 * LENGTH, "upper": LENGTH}):
            every = np.concatenate([
                one.predict_quantiles(NEW, [0, 0.5, 1], **limits), one.predict_interval(NEW, 0.95, **limits),
                one.sample(NEW, 8, **limits), one.predict(NEW, "mean", **limits)[:, None],
            ], axis=1)  # fmt: skip
            assert (every <= LENGTH[:, None]).all()
            assert (every >= np.zeros((N_NEW, 1)) + limits.get("lower", np.zeros(N_NEW))[:, None]).all()
            mean = one.predict_distribution(NEW, **limits).mean
            assert np.allclose(one.predict_increments(NEW, **limits).sum(axis=1), mean, atol=2)


def test_increments_of_cut_rows_add_up_to_the_mean(model):
    mean = model.predict(NEW, "mean", upper=LENGTH)
    assert np.allclose(model.predict_increments(NEW, upper=LENGTH).sum(axis=1), mean)
    assert (model.sample(NEW, 8, upper=LENGTH) <= LENGTH[:, None]).all()


def test_a_guarantee_for_shares_is_one_for_values(share):
    seen, seconds, length = watched(200, 2)
    one = clone(share).fit(X, Y, upper=LENGTHS).conformalize(seen, seconds, upper=length)
    ends = one.predict_interval(NEW, 0.8, upper=LENGTH)
    assert (ends <= LENGTH[:, None]).all()
    assert coverage(SECONDS, *ends.T) > 0.7
    assert np.array_equal(one.predict_opened(NEW, one.conformal_.threshold(0.8), upper=LENGTH)[1], ends)


def test_a_model_of_shares_is_saved_cloned_tuned_and_summarised(share, tmp_path):
    share.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.limit == "share"
    assert np.array_equal(again.predict(NEW, upper=LENGTH), share.predict(NEW, upper=LENGTH))
    assert "a value from 0 to the limit of its row" in share.summary()
    assert "in shares of the limit" in share.summary()
    scores = cross_val_score(clone(share).set_params(max_steps=5), X, Y, cv=2, params={"upper": LENGTHS},
                             scoring=lambda one, X, y: len(X) * one.learns_share)  # fmt: skip
    assert scores.tolist() == [N_TRAIN / 2] * 2
    student = share.distill(X, max_steps=20, verbose=0)
    assert (student.predict(NEW, upper=LENGTH) <= LENGTH).all()


@pytest.mark.parametrize(
    ("changed", "limits", "message"),
    [
        ({}, {}, "limit='share' needs the limit of each row, but upper is not given; pass upper="),
        ({}, {"upper": np.where(np.arange(N_TRAIN) == 4, np.nan, 100)}, "but row 4 has upper=nan; correct or remove"),
        ({}, {"upper": np.where(np.arange(N_TRAIN) == 4, -1, 100)}, "above 0 in every row, but row 4 has upper=-1.0"),
        ({}, {"upper": LENGTHS[:7]}, f"or one for each of the {N_TRAIN} rows, but got shape=(7,)"),
        ({}, {"upper": np.full(N_TRAIN, 1e-3)}, "y must lie from 0 to its row's limit, but 300 of 300 do not, the "
         "first is row 0 with y="),
        ({}, {"upper": LENGTHS, "X_val": X, "y_val": Y}, "but upper_val is not given; pass upper_val=..."),
        ({"bounds": (0, 100)}, {"upper": LENGTHS}, "but got bounds=(0, 100); leave bounds out"),
        ({"limit": "truncate"}, {"upper": LENGTHS}, "upper is learned from with limit='share' only"),
        ({"limit": "cut"}, {"upper": LENGTHS}, "limit must be one of truncate, share, but got limit='cut'"),
    ],
)  # fmt: skip
def test_wrong_limits_are_refused_in_training(changed, limits, message):
    with pytest.raises(UserError, match=re.escape(message)):
        DiffoRRegressor("fast", **OF_LIMIT | changed).fit(X, Y, **limits)


def test_a_method_that_takes_the_duration_itself_learns_no_shares():
    with pytest.raises(UserError, match="method 'd2q' takes it itself; use limit='truncate', or another method"):
        OrdinalRegressor("d2q", preset="fast", **OF_LIMIT).fit(X, Y, upper=LENGTHS, duration=LENGTHS)


@pytest.mark.parametrize("upper", [None, 0.0, np.nan])
def test_a_model_of_shares_refuses_rows_without_a_limit(share, upper):
    ask = {"predict": (), "sample": (), "predict_increments": (), "predict_opened": (None,), "predict_proba": ()}
    message = "upper is not given" if upper is None else f"but row 0 has upper={upper}; correct or remove it"
    for name, more in ask.items():
        with pytest.raises(UserError, match=re.escape(message)):
            getattr(share, name)(NEW, *more, upper=upper)
