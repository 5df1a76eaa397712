"""OrdinalRegressor and OrdinalClassifier: any method behind one face, with side columns, settings and decisions."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import diffor
from diffor import DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.estimators.ensemble import ValidationScore
from diffor.estimators.rows import Given, PassedRows
from diffor.estimators.values import ZERO_BASED
from diffor.methods import METHODS
from diffor.methods.baselines.lifetime_mixtures import OptimalDistribution

QUICK = {"preset": "fast", "encoder": "plain", "n_members": 1, "random_state": 0, "verbose": 0}
SHORT = {**QUICK, "max_steps": 3}
LONG = {**QUICK, "max_steps": 120, "learning_rate": 0.02}


def make_views(n=160, seed=0):
    """Three columns, watch times of 20 to 100 seconds, and durations that a third of the views reach."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    y = 20 + 80 / (1 + np.exp(-X[:, 0]))
    return X, y, y + np.where(generator.random(n) < 0.3, 0, 30 * generator.random(n))


def make_grades(n=160, seed=0):
    X, y, _ = make_views(n, seed)
    return X, np.array(["low", "mid", "high", "top"])[np.digitize(y, [45, 60, 80])]


GRADES = ["low", "mid", "high", "top"]


@pytest.fixture(scope="module")
def watched():
    X, y, duration = make_views()
    return OrdinalRegressor("cwm", bounds=(0, 110), **LONG).fit(X, y, duration=duration)


# --- side columns ---


ASKED = {
    "predict": lambda model, X, **side: model.predict(X, **side),
    "mean": lambda model, X, **side: model.predict(X, statistic="mean", **side),
    "quantiles": lambda model, X, **side: model.predict_quantiles(X, [0.1, 0.9], **side),
    "interval": lambda model, X, **side: model.predict_interval(X, 0.8, **side),
    "sample": lambda model, X, **side: model.sample(X, 10, **side),
    "distribution": lambda model, X, **side: model.predict_distribution(X, 10, **side).samples,
    "probabilities": lambda model, X, **side: model.predict_proba(X, cuts=[30, 60], **side),
    "conformalize": lambda model, X, **side: clone_of(model).conformalize(X, make_views(seed=1)[1], **side),
}


def clone_of(model):
    """The same fitted estimator, to which what happens here leaves nothing."""
    copied = clone(model)
    vars(copied).update(vars(model))
    return copied


@pytest.mark.parametrize("question", ASKED)
def test_every_question_takes_side_columns_and_misses_them(watched, question):
    X, _, duration = make_views(seed=1)
    answer = ASKED[question](watched, X, duration=duration)
    if question != "conformalize":
        assert answer.shape[0] == len(X)
        assert (answer != ASKED[question](watched, X, duration=duration / 3)).any()
    with pytest.raises(ValueError, match=r"'cwm' needs the column 'duration', but it is not given; pass duration="):
        ASKED[question](watched, X)


def test_answers_end_with_the_video_in_the_units_of_the_target(watched):
    X, _, duration = make_views(seed=1)
    samples = watched.sample(X, 50, duration=duration)
    assert (samples <= duration[:, None] + 1e-4).all()
    assert (np.abs(samples.max(axis=1) - duration) < 1e-3).mean() > 0.5


def test_conformal_intervals_of_methods_with_side_columns_hold_their_share(watched):
    X, y, duration = make_views(seed=2)
    model = clone_of(watched).conformalize(X, y, duration=duration)
    X, y, duration = make_views(400, seed=3)
    low, high = model.predict_interval(X, coverage=0.8, duration=duration).T
    assert 0.72 < ((low <= y) & (y <= high)).mean() < 0.9


def test_rows_keep_their_own_side_columns_in_blocks(watched, monkeypatch):
    X, _, duration = make_views(seed=1)
    whole = watched.predict(X, duration=duration)
    monkeypatch.setattr("diffor.estimators.rows.BLOCK_ROWS", 48)
    assert watched.predict(X, duration=duration) == pytest.approx(whole, abs=1e-3)


def test_rows_keep_their_own_side_columns_when_validation_rows_are_set_aside():
    X, y, _ = make_views()
    model = OrdinalRegressor("cwm", **SHORT).fit(X, y, duration=y)
    record = model.history_.records[-1]
    assert "valid_crps" in record
    assert record["unfinished"] == 0 < record["finished"]  # all views have reached the end of their own video


def test_side_columns_may_be_lists_series_and_none_where_nothing_is_needed():
    X, y, duration = make_views()
    plain = OrdinalRegressor("cwm", **SHORT).fit(X, y, duration=duration).predict(X, duration=duration)
    model = OrdinalRegressor("cwm", **SHORT).fit(X, y, duration=duration.tolist())
    assert (model.predict(X, duration=pd.Series(duration)) == plain).all()
    assert OrdinalRegressor("dex", **SHORT).fit(X, y, duration=None).predict(X, duration=None).shape == y.shape


def test_a_method_that_only_accepts_a_column_is_bounded_where_it_is_given():
    X, y, duration = make_views()
    free, bounded = (OrdinalRegressor("swat-geometric", **SHORT) for _ in range(2))
    assert free.fit(X, y).predict(X).shape == y.shape
    bounded.fit(X, y, duration=duration)
    assert (bounded.sample(X, 20, duration=duration) <= duration[:, None] + 1e-4).all()
    with pytest.raises(ValueError, match="needs the column 'duration'"):
        bounded.predict(X)


def test_validation_rows_bring_their_own_side_columns():
    X, y, duration = make_views()
    X_val, y_val, duration_val = make_views(40, seed=1)

    def validated(**side):
        model = OrdinalRegressor("cwm", **LONG).fit(X, y, X_val=X_val, y_val=y_val, duration=duration, **side)
        return model.history_.records[0]["valid_crps"]

    assert validated(duration_val=duration_val) < validated(duration_val=duration_val / 4)


def test_a_duration_of_validation_rows_alone_is_refused():
    X, y, duration = make_views()
    rows = {"X_val": X[:40], "y_val": y[:40], "duration_val": duration[:40]}
    message = "but duration_val is given and duration is not; pass duration=..., one number for each row of X"
    with pytest.raises(ValueError, match=re.escape(message)):
        OrdinalRegressor("swat-geometric", **SHORT).fit(X, y, **rows)
    with pytest.raises(TypeError, match="but got 'duration'; it uses none"):
        OrdinalRegressor("dex", **SHORT).fit(X, y, **rows)


@pytest.mark.parametrize(
    ("method", "column", "values", "error", "message"),
    [
        ("dex", "duration", 1.0, TypeError, "side columns that it uses, but got 'duration'; it uses none"),
        ("cwm", "length", 1.0, TypeError, "side columns that it uses, but got 'length'; it uses duration"),
        ("cwm", "duration", [1.0, 2.0], ValueError, "duration must have one value per row, 160, but got 2"),
        ("cwm", "duration", np.nan, ValueError, "must be finite, but row 3 has nan; remove or fill such rows"),
        ("cwm", "duration", ["long"] * 160, ValueError, "duration must hold numbers, but "),
        ("cwm", "duration_val", 1.0, ValueError, "duration_val belongs to X_val and y_val, but these are not given"),
        ("d2q", "duration", -2.0, ValueError, "duration must not be negative, but row 3 has -2.0; remove or"),
    ],
)
def test_wrong_side_columns_are_named(method, column, values, error, message):
    X, y, duration = make_views()
    if np.ndim(values) == 0:
        values = np.where(np.arange(len(y)) == 3, values, duration)
    side = {"duration": duration} if "duration" in METHODS[method].requires else {}
    with pytest.raises(error, match=re.escape(message)):
        OrdinalRegressor(method, **SHORT).fit(X, y, **{**side, column: values})


def test_grades_refuse_side_columns_that_no_method_uses():
    X, y = make_grades()
    with pytest.raises(TypeError, match="method 'corn' must be given side columns that it uses, but got 'duration'"):
        OrdinalClassifier("corn", grades=GRADES, **SHORT).fit(X, y, duration=np.ones(len(y)))
    model = OrdinalClassifier("corn", grades=GRADES, **SHORT).fit(X, y)
    for ask in (model.predict, model.predict_proba, model.predict_set, model.sample):
        with pytest.raises(TypeError, match="it uses none"):
            ask(X, duration=np.ones(len(y)))


@pytest.mark.parametrize("transform", ["log", "quantile"])
def test_side_columns_follow_the_transform_of_the_target(transform):
    X, y, _ = make_views()
    model = OrdinalRegressor("cwm", transform=transform, **SHORT).fit(X, y, duration=y)
    assert model.history_.records[-1]["unfinished"] == 0
    assert (model.sample(X, 50, duration=y).max(axis=1) <= y + 1e-3).all()
    assert model.sample(X, 50, duration=y).max(axis=1) == pytest.approx(y, abs=1e-3)


# --- which method, with which settings ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "cred"}, "method must be one of diffor, diffor-paper, value-squared, "),
        ({"method": "cred"}, "but got method='cred' (did you mean 'cread'?)"),
        ({"method": "dex", "method_settings": {"n_bin": 9}}, "but got 'n_bin' (did you mean 'n_bins'?)"),
        ({"method": "value-squared", "method_settings": {"delta": 1}}, "must be among none, but got 'delta'"),
        ({"method": "dex", "method_settings": {"n_features": 9}}, "must be among n_grades, n_bins, policy, but"),
        ({"method": "diffor", "method_settings": {"depth": 9}}, "of 'diffor' must be among n_increments, width, "),
        ({"method": "dex", "method_settings": {"n_bins": 1}}, "there must be at least 2 bins or grades, but got 1"),
    ],
)  # fmt: skip
def test_wrong_methods_and_settings_are_named(arguments, message):
    X, y, _ = make_views()
    with pytest.raises(ValueError, match=re.escape(message)):
        OrdinalRegressor(**arguments, **SHORT).fit(X, y)


def test_a_method_of_values_is_refused_for_grades():
    X, y = make_grades()
    able = [name for name, method in METHODS.items() if "grades" in method.tasks]
    message = f"method 'cread' predicts value, but the targets are ordered grades; use one of {', '.join(able)}"
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        OrdinalClassifier("cread", grades=GRADES, **SHORT).fit(X, y)


def test_methods_that_ask_are_told_the_number_of_grades():
    X, y = make_grades()
    model = OrdinalClassifier("sord", method_settings={"alpha": 2.0}, grades=GRADES, **SHORT).fit(X, y)
    assert model.settings_.method_settings == {"alpha": 2.0, "n_grades": 4}
    assert model.get_params()["method_settings"] == {"alpha": 2.0}
    assert model.model_.members[0].method.binning.places.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert OrdinalClassifier("value-squared", grades=GRADES, **SHORT).fit(X, y).settings_.method_settings == {}


def test_grades_of_any_kind_survive_saving(tmp_path):
    X, y = make_grades()
    model = OrdinalClassifier("corn", grades=list(np.arange(4)), **SHORT).fit(X, [GRADES.index(grade) for grade in y])
    model.save(tmp_path / "model")
    assert (diffor.load(tmp_path / "model").predict(X) == model.predict(X)).all()


# --- what is answered ---


def test_values_are_answered_as_the_authors_do():
    X, y, _ = make_views()
    model = OrdinalRegressor("cross-entropy", **LONG).fit(X, y)
    prediction = model.predict_distribution(X)
    assert (model.predict(X) == prediction.point).all()
    assert (model.predict(X) == model.predict(X, statistic="native")).all()
    assert (model.predict(X, statistic="mean") == prediction.mean).all()
    places = model.scale_.from_unit(model.model_.members[0].method.binning.places.numpy())
    assert np.isin(model.predict(X), places).all()  # its authors decide for the middle one of the bins
    assert not np.isin(model.predict(X, statistic="median"), places).all()
    assert (prediction[:3].point == prediction.point[:3]).all()


def test_members_are_asked_for_their_native_values_together():
    X, y, _ = make_views()
    model = OrdinalRegressor("value-squared", **{**SHORT, "n_members": 2}).fit(X, y)
    inputs, keys = model.reader.tensors(PassedRows(pd.DataFrame(X)))
    points = [member.predict(inputs, keys, 1).point for member in model.model_.members]
    assert len(points) == 2
    assert (points[0] != points[1]).any()
    assert model.predict(X) == pytest.approx(model.scale_.from_unit(np.mean(points, axis=0)), rel=1e-5)


def test_grades_are_decided_as_the_authors_do():
    X, y = make_grades()
    model = OrdinalClassifier("oll", grades=GRADES, **SHORT).fit(X, y)
    native = model.predict(X)
    assert model.get_params()["decision"] == "native"
    assert (native == model.predict(X, decision="native")).all()
    (member,) = model.model_.members
    with torch.inference_mode():
        distribution = member.method.distribution(member.features(model.reader.tensors(PassedRows(pd.DataFrame(X)))[0]))
    assert (native == np.array(GRADES)[distribution.probabilities.argmax(dim=1).numpy()]).all()
    assert (native != model.predict(X, decision="median")).any()
    ranks = OrdinalClassifier("or-cnn", grades=GRADES, decision="median", **{**LONG, "n_samples": 400}).fit(X, y)
    assert (ranks.predict(X) == ranks.predict(X, decision="native")).mean() > 0.98  # shares of samples round


@pytest.mark.parametrize("encoder", ["auto", "plain"])
def test_diffor_by_name_is_the_estimator_of_its_own_name(encoder):
    X, y, _ = make_views()
    settings = {**SHORT, "encoder": encoder}
    by_name = OrdinalRegressor("diffor", **settings).fit(X, y)
    own = DiffoRRegressor(**{name: value for name, value in settings.items() if name != "n_members"}).fit(X, y)
    assert (by_name.sample(X) == own.sample(X)).all()
    assert (by_name.predict(X) == own.predict(X)).all()  # without a way of its own to decide, native is the median
    assert (by_name.predict_increments(X) == own.predict_increments(X)).all()


def test_points_have_no_intervals_and_quantiles_of_their_own():
    X, y, _ = make_views()
    model = OrdinalRegressor("value-absolute", **LONG).fit(X, y)
    assert not model.has_distribution
    message = "intervals need a distribution, but method 'value-absolute' predicts a point; call conformalize"
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict_interval(X)
    message = "quantiles need a distribution, but method 'value-absolute' predicts a point; use predict, or a"
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict_quantiles(X)
    X_cal, y_cal, _ = make_views(seed=1)
    X_new, y_new, _ = make_views(400, seed=2)
    low, high = model.conformalize(X_cal, y_cal).predict_interval(X_new, coverage=0.8).T
    assert (high > low).mean() > 0.9
    assert ((low <= y_new) & (y_new <= high)).mean() == pytest.approx(0.8, abs=0.08)


def test_points_have_no_sets_of_grades_of_their_own():
    X, y = make_grades()
    model = OrdinalClassifier("value-squared", grades=GRADES, **LONG).fit(X, y)
    message = "sets of grades need a distribution, but method 'value-squared' predicts a point; call conformalize"
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict_set(X)
    X_cal, y_cal = make_grades(seed=1)
    X_new, y_new = make_grades(400, seed=2)
    held = model.conformalize(X_cal, y_cal).predict_set(X_new, coverage=0.8)
    assert held[np.arange(400), [GRADES.index(grade) for grade in y_new]].mean() >= 0.75
    assert not held.all(axis=1).any()  # the model is good, so no set holds all grades


@pytest.mark.parametrize("name", ["dex", "diffor-paper", "value-squared"])
def test_increments_of_every_method_are_those_of_its_distribution(name):
    X, y, _ = make_views()
    settings = {"denoiser": "mlp", "n_increments": 4} if name == "diffor-paper" else None
    model = OrdinalRegressor(name, method_settings=settings, bounds=(0, 100), **SHORT).fit(X, y)
    increments = model.predict_increments(X, n_increments=5)
    assert increments.shape == (len(X), 5)
    assert increments.min() >= 0
    assert increments.max() <= 20 + 1e-6
    assert increments.sum(axis=1) == pytest.approx(model.predict(X, statistic="mean"), abs=1e-3)


# --- the range of the target ---


def test_bounds_are_those_given_or_found_in_the_targets():
    X, y, _ = make_views()

    def bounds(y, **arguments):
        scale = OrdinalRegressor(**arguments, **SHORT).fit(X, y).scale_
        return scale.low, scale.high

    assert bounds(y, method="cread") == (0, y.max())
    assert bounds(y, method="ziln") == (0, y.max())
    assert bounds(y, method="dex") == (y.min(), y.max())
    assert bounds(y, method="cread", bounds=(10, 200)) == (10, 200)
    assert bounds(y - 50, method="cread") == (y.min() - 50, y.max() - 50)  # below zero nothing counts from zero
    assert bounds(np.full(len(y), 7.0), method="cread") == (7, 7)
    assert all(any(method.family == family for method in METHODS.values()) for family in ZERO_BASED)


# --- training that stops and goes on ---


def test_a_resumed_run_counts_its_steps_on(tmp_path, monkeypatch):
    X, y, _ = make_views()
    settings = {"n_annealing_steps": 20, "n_warmup_steps": 10}
    arguments = {"method_settings": settings, **QUICK, "max_steps": 20, "evaluate_every": 5, "batch_size": 64}
    whole = OrdinalRegressor("optdist", **arguments).fit(X, y)
    assert whole.model_.members[0].method.n_steps >= whole.history_.best_step > 0
    loss = OptimalDistribution.loss

    def interrupted_loss(self, *batch, **side):
        if self.training and self.n_steps == 12:
            raise KeyboardInterrupt
        return loss(self, *batch, **side)

    monkeypatch.setattr(OptimalDistribution, "loss", interrupted_loss)
    with pytest.warns(UserWarning, match="interrupted at step 12"):
        broken = OrdinalRegressor("optdist", checkpoint_dir=tmp_path, **arguments).fit(X, y)
    monkeypatch.undo()
    resumed = OrdinalRegressor("optdist", checkpoint_dir=tmp_path, **arguments).fit(X, y)
    assert [record["step"] for record in resumed.history_.records] == [5, 10, 15, 20]
    expected = whole.model_.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.model_.state_dict().items())
    assert (resumed.predict(X) == whole.predict(X)).all()
    assert (broken.predict(X) != whole.predict(X)).any()


def test_the_model_that_is_left_is_the_one_that_was_best():
    X, y, _ = make_views()
    noise = np.random.default_rng(5).normal(0, 20, 2 * len(y))
    X_val, y_val, _ = make_views(seed=1)
    y, y_val = y + noise[: len(y)], y_val + noise[len(y) :]
    arguments = {**LONG, "max_steps": 200, "evaluate_every": 10, "bounds": (-100, 200)}
    model = OrdinalRegressor("dex", **arguments).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.history_.best_step < model.history_.steps
    given = Given(PassedRows(pd.DataFrame(X_val)), y_val, None, {})
    score = ValidationScore(model.reader.rows(given), y_val, model.scale_, 128)
    assert score(model.model_) == pytest.approx(model.history_.best_score, rel=1e-6)


def test_both_estimators_take_the_same_settings():
    of_values, of_grades = (
        set(inspect.signature(estimator).parameters) for estimator in (OrdinalRegressor, OrdinalClassifier)
    )
    assert of_values - of_grades == {"bounds", "limit", "transform"}
    assert of_grades - of_values == {"grades", "decision"}
