import warnings

import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor
from diffor.ensemble import (
    Member,
    ValidationScore,
    choose_encoder,
    fit_dispersion,
    keep_better,
    member_config,
)
from diffor.prediction import Prediction
from diffor.presets import PRESETS, count_members
from diffor.target import TargetScale
from diffor.train import History, Rows, TrainConfig

QUICK = {"preset": "fast", "max_steps": 40, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


def member(encoder, score):
    return Member(None, encoder, History(best_score=score, stopped="finished"))


def test_small_tables_get_more_members_and_a_number_is_obeyed():
    assert count_members(PRESETS["balanced"], 100) == 4
    assert count_members(PRESETS["balanced"], 10**6) == 2
    assert count_members(PRESETS["fast"], 100) == 1


def test_auto_tries_each_encoder_then_repeats_the_better():
    tried = [member("periodic", 2.0)]
    assert choose_encoder("auto", [], has_score=True) == "periodic"
    assert choose_encoder("auto", tried, has_score=True) == "plain"
    assert choose_encoder("auto", [*tried, member("plain", 1.0)], has_score=True) == "plain"
    assert choose_encoder("auto", [*tried, member("plain", 3.0)], has_score=True) == "periodic"
    assert choose_encoder("auto", tried, has_score=False) == "periodic"
    assert choose_encoder("plain", [], has_score=True) == "plain"


def test_an_encoder_that_is_clearly_worse_is_left_out():
    good, near, bad = member("plain", 1.0), member("periodic", 1.04), member("periodic", 1.2)
    assert keep_better([good, near]) == [good, near]
    assert keep_better([good, bad]) == [good]
    assert keep_better([bad, near, good]) == [bad, near, good]  # judged by the best of its kind


def test_members_share_time_and_have_their_own_seed_and_folder():
    config = TrainConfig(time_limit=100.0, seed=7, checkpoint_dir="runs")
    third = member_config(config, place=2, count=4, elapsed=40.0)
    assert third.time_limit == 30.0
    assert third.seed == 9
    assert third.checkpoint_dir.endswith("member-2")
    assert third.title == "fit 3/4"


def make_score(y, scale):
    rows = Rows((torch.zeros(len(y), 1),), torch.from_numpy(scale.to_unit(y)).float(), None, torch.arange(len(y)))
    return ValidationScore(rows, y, scale)


@pytest.mark.parametrize("truth", [0.5, 1.0, 2.0])
def test_dispersion_finds_the_spread_of_the_truth(truth):
    generator = np.random.default_rng(0)
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    centre = generator.normal(size=2000)
    y = centre + truth * 0.4 * generator.normal(size=2000)
    samples = centre[:, None] + 0.4 * generator.normal(size=(2000, 64))
    factor = fit_dispersion(Prediction(scale.to_unit(samples)), make_score(y, scale))
    assert factor == pytest.approx(np.clip(truth, 0.75, 3), rel=0.1)


def test_validation_rows_are_drawn_from_the_whole_table_not_cut_off():
    y = np.arange(10_000.0)
    score = make_score(y, TargetScale().fit(y))
    assert len(score.rows) == 2048
    assert score.y.mean() == pytest.approx(5000, rel=0.05)


def test_members_answer_together_with_samples_of_their_own():
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"n_members": 3, "encoder": "plain"}).fit(X, y)
    assert len(model.model_.members) == 3
    assert model.encoders_ == ["plain"] * 3
    samples = model.sample(X[:20], 30)
    parts = [samples[:, place * 10 : (place + 1) * 10] for place in range(3)]
    assert not np.allclose(parts[0].mean(axis=1), parts[1].mean(axis=1))
    assert len(np.unique(samples[0])) == 30
    assert model.sample(X[:20], 2).shape == (20, 2)  # fewer samples than members
    assert model.predict_increments(X[:5]).shape == (5, 8)
    assert {record["member"] for record in model.history_.records} == {0.0, 1.0, 2.0}


def test_calibration_can_be_left_out():
    X, y = make_data()
    model = DiffoRRegressor(calibrate=False, **QUICK).fit(X, y)
    assert float(model.model_.dispersion) == 1.0


def test_calibrated_intervals_are_no_worse_on_validation_rows():
    X, y = make_data(400)
    fitted = [
        DiffoRRegressor(calibrate=calibrate, **QUICK).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
        for calibrate in (True, False)
    ]
    assert fitted[0].history_.best_score <= fitted[1].history_.best_score


def test_an_interrupt_keeps_the_members_so_far(monkeypatch):
    import diffor.ensemble as ensemble

    calls = []

    def train_then_interrupt(*arguments):
        history = ensemble_train(*arguments)
        calls.append(history)
        if len(calls) == 2:
            history.stopped = "interrupted"
        return history

    ensemble_train = ensemble.train
    monkeypatch.setattr(ensemble, "train", train_then_interrupt)
    X, y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DiffoRRegressor(**QUICK | {"n_members": 4, "encoder": "plain"}).fit(X, y)
    assert len(model.model_.members) == 2
    assert model.history_.stopped == "interrupted"
    assert np.isfinite(model.predict(X)).all()


def test_a_time_limit_covers_all_members():
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"n_members": 3, "max_steps": 10**6}, time_limit=1.5).fit(X, y)
    assert model.history_.seconds < 10
    assert model.history_.stopped == "time limit"


@pytest.mark.parametrize("wrong", [0, "many", 1.5])
def test_wrong_numbers_of_members_are_named(wrong):
    with pytest.raises(ValueError, match="n_members must be 'auto' or at least 1, however: n_members="):
        DiffoRRegressor(**QUICK | {"n_members": wrong}).fit(*make_data())
