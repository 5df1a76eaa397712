"""Fits of cross-fitted networks that stop, go on, are watched and are kept."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.estimators.cross_fitting import Learners
from diffor.priors import BoostedTrees
from diffor.training.checkpoint import CheckpointError

QUICK = {"max_steps": 20, "evaluate_every": 5, "n_folds": 3, "prior": None, "random_state": 0, "verbose": 0}


def make_data(n: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"a": draw.normal(size=n), "b": draw.choice(["x", "y"], n)})
    return X, X["a"].to_numpy() + 0.3 * draw.normal(size=n)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Press Ctrl-C in the loss of one of the steps, counted over all kinds."""
    calls, forward = [], Learners.forward

    def interrupted(self: Learners, *batch: object) -> object:
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return forward(self, *batch)

    monkeypatch.setattr(Learners, "forward", interrupted)


def same(one: DiffoRRegressor, other: DiffoRRegressor) -> bool:
    expected = other.model_.state_dict()
    return all(torch.equal(value, expected[name]) for name, value in one.model_.state_dict().items())


# --- interrupted and resumed ---


@pytest.mark.parametrize(("call", "kinds"), [(13, ["plain"]), (33, ["plain", "advised"])])
def test_an_interrupted_fit_keeps_the_best_so_far_and_goes_on_bit_for_bit(tmp_path, monkeypatch, call, kinds):
    X, y = make_data()
    settings = {"preset": "balanced", **QUICK, "prior": "trees"}
    whole = DiffoRRegressor(**settings).fit(X, y)
    interrupt_at(monkeypatch, call)
    with pytest.warns(UserWarning, match=rf"interrupted at step {(call - 1) % 20}: the best model so far is kept"):
        broken = DiffoRRegressor(checkpoint_dir=tmp_path, **settings).fit(X, y)
    monkeypatch.undo()
    assert (broken.encoders_, broken.history_.stopped) == (kinds, "interrupted")
    assert np.isfinite(broken.predict(X)).all()
    resumed = DiffoRRegressor(checkpoint_dir=tmp_path, **settings).fit(X, y)
    assert (tmp_path / "kind-1").is_dir()
    assert same(resumed, whole)
    assert np.array_equal(resumed.predict_quantiles(X, [0.1, 0.9]), whole.predict_quantiles(X, [0.1, 0.9]))
    steps = [(record["kind"], record["step"]) for record in resumed.history_.records]
    assert steps == [(record["kind"], record["step"]) for record in whole.history_.records]


def test_a_finished_fit_is_found_again(tmp_path, monkeypatch):
    X, y = make_data()
    first = DiffoRRegressor(checkpoint_dir=tmp_path, **QUICK).fit(X, y)
    interrupt_at(monkeypatch, 1)  # no step is taken
    again = DiffoRRegressor(checkpoint_dir=tmp_path, **QUICK).fit(X, y)
    assert again.history_.records == first.history_.records
    assert same(again, first)


@pytest.mark.parametrize("change", ["groups", "validation", "prior", "n_folds"])
def test_a_checkpoint_goes_on_with_the_same_folds_and_priors_only(tmp_path, change):
    X, y = make_data()
    X = X[["a"]]
    DiffoRRegressor(checkpoint_dir=tmp_path, **QUICK).fit(X, y)
    fit, settings = {}, dict(QUICK)
    if change == "groups":
        fit = {"groups": np.arange(90) // 3}
    elif change == "validation":
        fit = {"X_val": X[:20], "y_val": y[:20]}
    else:
        settings[change] = {"prior": KNeighborsRegressor(), "n_folds": 4}[change]
    with pytest.raises(CheckpointError, match="other data or settings"):
        DiffoRRegressor(checkpoint_dir=tmp_path, **settings).fit(X, y, **fit)


# --- time ---


def test_a_time_limit_is_divided_among_the_kinds():
    X, y = make_data()
    settings = {**QUICK, "max_steps": 10**6, "patience": 10**6}
    started = time.monotonic()
    model = DiffoRRegressor("accurate", time_limit=2.0, **settings).fit(X, y)
    assert time.monotonic() - started < 12
    assert model.history_.stopped == "time limit"
    assert {record["kind"] for record in model.history_.records} == {0.0, 1.0, 2.0, 3.0}
    assert len(model.model_.kinds) == 4


def test_priors_count_for_the_time_limit(monkeypatch):
    fit = BoostedTrees.fit

    def slow(self: BoostedTrees, *arguments: object) -> object:
        time.sleep(0.7)
        return fit(self, *arguments)

    monkeypatch.setattr(BoostedTrees, "fit", slow)
    X, y = make_data()
    settings = {**QUICK, "max_steps": 10**6, "patience": 10**6, "prior": ["trees", "process", "process-ranks"]}
    model = DiffoRRegressor("fast", time_limit=1.0, **settings).fit(X, y)
    assert model.priors_.names == ["trees"]
    assert model.history_.stopped == "time limit"
    assert model.history_.seconds < 5
    assert np.isfinite(model.predict(X)).all()


# --- what is seen of it ---


def test_progress_is_shown_kind_by_kind_and_silence_is_kept(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    X, y = make_data()
    DiffoRRegressor("balanced", **{**QUICK, "verbose": 1, "max_steps": 5}).fit(X, y)
    shown = capsys.readouterr().err
    assert shown.count("fit: 100%") >= 2
    assert "valid_crps=" in shown
    DiffoRRegressor(**QUICK).fit(X, y)
    assert capsys.readouterr().err == ""


# --- kept ---


def test_a_regressor_of_the_users_own_advises_but_stays_out_of_folders(tmp_path):
    X, y = make_data()
    X = X[["a"]]
    model = DiffoRRegressor("fast", checkpoint_dir=tmp_path / "run", **{**QUICK, "prior": [KNeighborsRegressor()]})
    assert model.fit(X, y).priors_.names == ["KNeighborsRegressor"]
    with pytest.raises(TypeError, match="the prior KNeighborsRegressor of your own cannot be saved"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", [DiffoRRegressor, DiffoRClassifier, OrdinalRegressor])
def test_folders_of_older_versions_say_that_they_must_be_fitted_again(tmp_path, kind):
    X, y = make_data()
    settings = {"max_steps": 1, "encoder": "plain", "verbose": 0}
    kind(**settings).fit(X, y.round() if kind is DiffoRClassifier else y).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"format": 1, "version": "0.0.9"}))
    with pytest.raises(
        CheckpointError, match=r"has format 1, .*that wrote it \(diffor 0\.0\.9\), or fit the model again"
    ):
        diffor.load(tmp_path / "model")
    with pytest.raises(CheckpointError, match="fit the model again"):
        kind.load(tmp_path / "model")


def test_out_of_fold_answers_leave_out_what_was_never_held_out():
    X, y = make_data()
    settings = {**QUICK, "keep_out_of_fold": True}
    given = DiffoRRegressor(**settings).fit(X[:70], y[:70], X_val=X[70:], y_val=y[70:])
    assert len(given.out_of_fold_) == 20
    few = DiffoRRegressor(**{**settings, "n_folds": None}).fit(X[:6], y[:6])
    assert (few.out_of_fold_, few.history_.best_score) == (None, None)
