"""Searching settings: what is tried, what is kept, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

optuna = pytest.importorskip("optuna", reason="optuna is an optional extra")

import diffor  # noqa: E402
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor, tune  # noqa: E402
from diffor.estimators.settings import PRESETS, Choice, resolve_settings  # noqa: E402
from diffor.estimators.tuning import Tuned, search_space  # noqa: E402
from diffor.estimators.tuning_data import TuningData  # noqa: E402
from diffor.metrics import rps  # noqa: E402

X = pd.DataFrame({"size": np.linspace(0, 1, 60), "city": ["Oslo", "Rome", "Bern"] * 20})
Y = 10 * X["size"].to_numpy()
GRADES = np.array(["low", "mid", "high"])[(X["size"] * 2.99).astype(int)]
TINY: dict[str, Any] = {"preset": "fast", "prior": None, "max_steps": 5, "verbose": 0}
PLAIN: dict[str, Any] = {"preset": "fast", "max_steps": 5, "verbose": 0}
QUIET: dict[str, Any] = {"verbose": 0, "refit": False}


def tried(found: Tuned) -> list[tuple[dict[str, Any], float | None]]:
    return [(trial.params, trial.score) for trial in found.trials if trial.state == "finished"]


# --- the space ---


@pytest.mark.parametrize("preset", PRESETS)
def test_every_space_holds_its_presets_own_settings(preset: str) -> None:
    for name, one in search_space(DiffoRRegressor(preset)).items():
        value = getattr(PRESETS[preset], name)
        assert one.nearest(value) == value, name


@pytest.mark.parametrize("preset", PRESETS)
def test_every_value_of_a_space_can_be_fitted(preset: str) -> None:
    X_few, y_few = X[:20], Y[:20]
    corners: list[dict[str, Any]] = [{}, {}, {}]
    for name, one in search_space(DiffoRRegressor(preset)).items():
        values = one.options if isinstance(one, Choice) else (one.low, one.high)
        for place, corner in enumerate(corners):
            corner[name] = values[min(place, len(values) - 1)]
    for corner in corners:
        resolve_settings(preset, corner)
        corner |= {"prior": None, "max_steps": 1, "random_state": 0, "verbose": 0}
        model = DiffoRRegressor(preset, **corner).fit(X_few, y_few)
        assert np.isfinite(model.predict(X_few)).all()


def test_what_is_given_is_not_searched() -> None:
    space = search_space(DiffoRRegressor("balanced", batch_size=256, n_increments=4))
    assert set(search_space(DiffoRRegressor("balanced"))) - set(space) == {"batch_size", "n_increments"}
    assert "n_increments" not in search_space(DiffoRClassifier("balanced"))
    assert set(search_space(OrdinalRegressor("mdn"))) == {"learning_rate", "batch_size", "weight_decay"}
    assert not {"n_increments", "batch_size"} & set(search_space(DiffoRRegressor(encoder="small")))


# --- the search ---


@pytest.fixture(scope="module")
def whole() -> Tuned:
    return tune(DiffoRRegressor(**TINY), X, Y, n_trials=4, **QUIET)


def test_the_first_trial_is_the_estimator_as_it_is_and_the_best_is_never_worse(whole: Tuned) -> None:
    assert [trial.state for trial in whole.trials] == ["finished"] * 4
    assert whole.trials[0].params == {}
    assert whole.default_score == whole.trials[0].score
    assert whole.best_score == min(score for _, score in tried(whole) if score is not None) <= whole.default_score
    rows = TuningData(DiffoRRegressor(**TINY), X, Y, None, {})
    ((fitted, held),) = rows.split(None, 0)
    assert (len(fitted), len(held), len({*fitted, *held})) == (48, 12, 60)
    model = DiffoRRegressor(**TINY, random_state=0).fit(X.iloc[fitted], Y[fitted])
    assert model.predict_distribution(X.iloc[held]).crps(Y[held]).mean() == pytest.approx(whole.default_score)


def test_the_same_seed_gives_the_same_trials_and_another_others(whole: Tuned) -> None:
    assert tried(tune(DiffoRRegressor(**TINY), X, Y, n_trials=4, **QUIET)) == tried(whole)
    other = tune(DiffoRRegressor(**TINY), X, Y, n_trials=2, random_state=1, **QUIET)
    assert tried(other)[1] != tried(whole)[1]


def test_a_search_in_two_parts_equals_one_in_one(whole: Tuned, tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    first = tune(DiffoRRegressor(**TINY), X, Y, n_trials=2, study=study, **QUIET)
    assert tried(first) == tried(whole)[:2]
    assert tried(tune(DiffoRRegressor(**TINY), X, Y, n_trials=4, study=study, **QUIET)) == tried(whole)
    assert tried(tune(DiffoRRegressor(**TINY), X, Y, n_trials=3, study=study, **QUIET)) == tried(whole)  # no more


def test_the_best_is_fitted_on_all_rows() -> None:
    found = tune(DiffoRRegressor(**TINY), X, Y, n_trials=2, verbose=0)
    expected = DiffoRRegressor(**{**TINY, **found.best_params}, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(found.estimator.predict(X), expected.predict(X))
    assert found.estimator.data_summary_["rows"] == 60


def test_folds_score_every_row_once() -> None:
    found = tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, n_folds=3, **QUIET)
    rows, scores = TuningData(DiffoRRegressor(**TINY), X, Y, None, {}), []
    parts = rows.split(3, 0)
    assert sorted(np.concatenate([held for _, held in parts])) == list(range(60))
    for fitted, held in parts:
        assert not {*fitted} & {*held}
        model = DiffoRRegressor(**TINY, random_state=0).fit(X.iloc[fitted], Y[fitted])
        scores.append(model.predict_distribution(X.iloc[held]).crps(Y[held]).mean())
    assert found.best_score == pytest.approx(np.mean(scores))


def test_grades_are_scored_by_their_ranked_probabilities() -> None:
    model = DiffoRClassifier(**TINY, grades=["low", "mid", "high"], random_state=0)
    found = tune(model, X, GRADES, n_trials=2, **QUIET)
    ((fitted, held),) = TuningData(model, X, GRADES, None, {}).split(None, 0)
    model.fit(X.iloc[fitted], GRADES[fitted])
    codes = np.array([["low", "mid", "high"].index(grade) for grade in GRADES[held]])
    shares = model.predict_proba(X.iloc[held])[:, np.searchsorted(model.classes_, model.grades_)]
    assert found.default_score == pytest.approx(rps(codes, shares))


def test_grades_that_only_rows_of_weight_zero_have_are_no_grades() -> None:
    grades, weights = GRADES.copy(), np.ones(60)
    grades[7], weights[7] = "never", 0.0
    with pytest.warns(UserWarning, match=r"from sorting: \['high', 'low', 'mid'\]"):
        rows = TuningData(DiffoRClassifier(**TINY), X, grades, weights, {})
    assert rows.grades == ["high", "low", "mid"]


def test_weights_and_side_columns_reach_fit_and_score() -> None:
    weights = np.where(X["size"] < 0.5, 1.0, 0.0)
    only = tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, sample_weight=weights, **QUIET)
    assert only.best_score != tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, **QUIET).best_score
    found = tune(OrdinalRegressor("d2q", **PLAIN), X, Y, n_trials=1, duration=Y + 1, **QUIET)
    assert np.isfinite(found.best_score)


def test_a_trial_that_fails_is_noted_and_the_search_goes_on(tmp_path: Path) -> None:
    space = {"learning_rate": Choice((1e-3, 1e30))}
    given = DiffoRRegressor(**{**TINY, "max_steps": 30})
    found = tune(given, X, Y, n_trials=5, space=space, study=tmp_path / "a.db", **QUIET)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert failed
    assert all(trial.params == {"learning_rate": 1e30} and trial.score is None for trial in failed)
    assert failed[0].message.startswith("UserError: learning_rate must be a number above 0.0")
    assert len(found.trials) == 5
    assert found.best_params in ({}, {"learning_rate": 1e-3})


def test_what_is_wrong_with_the_rows_ends_the_search_at_once() -> None:
    with pytest.raises(ValueError, match="method 'd2q' needs the column 'duration', but it is not given"):
        tune(OrdinalRegressor("d2q", **PLAIN), X, Y, n_trials=5, **QUIET)


def test_a_first_trial_that_failed_is_the_first_again(
    whole: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*arguments: Any) -> float:
        raise MemoryError("too little")

    with monkeypatch.context() as patched:
        patched.setattr(TuningData, "score", no_memory)
        with pytest.raises(MemoryError):
            tune(DiffoRRegressor(**TINY), X, Y, n_trials=2, study=tmp_path / "a.db", **QUIET)
    found = tune(DiffoRRegressor(**TINY), X, Y, n_trials=2, study=tmp_path / "a.db", **QUIET)
    assert tried(found) == tried(whole)[:2]
    assert found.trials[0].message == "MemoryError: too little"


def test_time_ends_a_search_and_what_it_cut_is_run_again(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    slow = DiffoRRegressor(**{**TINY, "max_steps": 10**6}, patience=10**6, evaluate_every=1000)
    started = time.monotonic()
    with pytest.raises(ValueError, match=r"at least one trial, but it was stopped before \(time limit"):
        tune(slow, X, Y, time_limit=1.0, study=study, **QUIET)
    assert time.monotonic() - started < 20
    stored = optuna.load_study(storage=f"sqlite:///{study}", study_name="diffor").trials
    assert [trial.state.name for trial in stored] == ["FAIL", "WAITING"]
    assert stored[0].user_attrs["cut short"] == "time limit"
    assert stored[1].user_attrs == {"as given": True}
    quick = tune(DiffoRRegressor(**TINY), X, Y, time_limit=3.0, **QUIET)
    assert quick.stopped == "time limit"
    assert len(quick.trials) > 1
    assert sum(trial.state == "cut short" for trial in quick.trials) <= 1


def test_ctrl_c_keeps_the_best_so_far(whole: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    scoring, calls = TuningData.score, []

    def score(rows: TuningData, model: Any, places: Any) -> float:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return scoring(rows, model, places)

    monkeypatch.setattr(TuningData, "score", score)
    found = tune(DiffoRRegressor(**TINY), X, Y, n_trials=50, verbose=0)
    assert found.stopped == "interrupted"
    assert tried(found) == tried(whole)[:2]
    assert [trial.state for trial in found.trials] == ["finished", "finished", "cut short"]
    assert found.estimator.predict(X).shape == (60,)


# --- kills ---

SEARCH = """
import sys
import numpy as np, pandas as pd
from diffor import DiffoRRegressor, tune
from diffor.estimators.tuning_data import TuningData
X = pd.DataFrame({"size": np.linspace(0, 1, 60), "city": ["Oslo", "Rome", "Bern"] * 20})
scoring, calls = TuningData.score, []
def score(rows, model, places):
    calls.append(1)
    print("scoring", len(calls), flush=True)
    if len(calls) == 3:
        sys.stdin.read()  # until it is killed, in the middle of the third trial
    return scoring(rows, model, places)
TuningData.score = score
tune(DiffoRRegressor("fast", prior=None, max_steps=5, verbose=0), X, 10 * X["size"].to_numpy(), n_trials=4,
     study=sys.argv[1], verbose=0, refit=False)
"""


def test_a_killed_search_is_continued_to_what_it_would_have_been(whole: Tuned, tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH, str(study)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert [process.stdout.readline().split()[1] for _ in range(3)] == ["1", "2", "3"]
    with pytest.raises(ValueError, match="must be continued by one process at a time, but another one has"):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=4, study=study, **QUIET)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    process.stdout.close()
    found = tune(DiffoRRegressor(**TINY), X, Y, n_trials=4, study=study, **QUIET)
    assert tried(found) == tried(whole)
    cut = [trial for trial in found.trials if trial.state == "cut short"]
    assert [(trial.params, trial.message) for trial in cut] == [(whole.trials[2].params, "the process ended")]


# --- wrong use ---


def test_a_study_of_another_search_or_no_study_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=study, **QUIET)
    for model, rows, targets, more in (
        (DiffoRRegressor(**TINY, patience=3), X, Y, {}),
        (DiffoRRegressor(**TINY), X.assign(size=X["size"] + 1), Y, {}),
        (DiffoRRegressor(**TINY), X, Y, {"n_folds": 2}),
        (DiffoRRegressor(**TINY), X, Y, {"random_state": 1}),
    ):
        with pytest.raises(ValueError, match="must belong to the same rows, settings and seed, but"):
            tune(model, rows, targets, n_trials=1, study=study, **more, **QUIET)
    tune(DiffoRRegressor(**TINY, n_jobs=1), X, Y, n_trials=1, study=study, **QUIET)  # threads change nothing
    (tmp_path / "text.db").write_text("no database" * 500)
    with pytest.raises(ValueError, match="study must be a file that this search can keep its trials in, but"):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=tmp_path / "text.db", **QUIET)
    with pytest.raises(ValueError, match=r"study must be a file in a folder that can be written, but .*No such file"):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=tmp_path / "no" / "a.db", **QUIET)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_trials": 0}, "n_trials must be at least 1, but got n_trials=0"),
        ({"time_limit": 0}, "time_limit must be positive seconds or None, but got time_limit=0"),
        ({"n_folds": 1}, "n_folds must be at least 2, or None for a fifth of the rows, but got n_folds=1"),
        ({"n_folds": 61}, "n_folds must be at most the number of rows, 60, but got n_folds=61"),
        (
            {"space": {"bacth_size": Choice((1,))}},
            r"space must name settings of DiffoRRegressor, but got 'bacth_size' \(did",
        ),
        ({"space": {}}, "there must be something to search, but every setting of the space is given"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(DiffoRRegressor(**TINY), X, Y, **QUIET, **given)


def test_wrong_rows_and_presets_are_refused() -> None:
    with pytest.raises(ValueError, match="tune needs at least 20 rows, but got 10; fit the preset as it is"):
        tune(DiffoRRegressor(**TINY), X[:10], Y[:10], **QUIET)
    with pytest.raises(ValueError, match="X and y must be equally long, but got 60 rows and 50 targets"):
        tune(DiffoRRegressor(**TINY), X, Y[:50], **QUIET)
    with pytest.raises(ValueError, match=r"preset must be one of .*, but got preset='fats' \(did you mean 'fast'"):
        tune(DiffoRRegressor("fats"), X, Y, **QUIET)
    with pytest.raises(ValueError, match="preset must be one of"):
        search_space(DiffoRRegressor("fats"))


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs the package optuna: pip install "diffor\[tune\]"'):
        diffor.tune(DiffoRRegressor(), X, Y)


@pytest.mark.parametrize(
    ("params", "distributions", "score", "message"),
    [
        ({"log_to": "mlflow:http://192.0.2.1/"}, {"log_to": ["mlflow:http://192.0.2.1/", "x"]}, 0.1, "sets 'log_to'"),
        ({"checkpoint_dir": "/theirs"}, {"checkpoint_dir": ["/theirs"]}, 0.1, "sets 'checkpoint_dir'"),
        ({"learning_rate": 5.0}, {"learning_rate": (3e-4, 10.0)}, 0.1, "sets 'learning_rate'"),
        ({}, {}, -float("inf"), "has the score -inf"),
    ],
)
def test_trials_that_the_search_never_made_are_refused(
    tmp_path: Path, params: dict[str, Any], distributions: dict[str, Any], score: float, message: str
) -> None:
    study = tmp_path / "study.db"
    tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=study, **QUIET)
    known = optuna.load_study(storage=f"sqlite:///{study}", study_name="diffor")
    given = {
        name: optuna.distributions.FloatDistribution(*some, log=True)
        if isinstance(some, tuple)
        else optuna.distributions.CategoricalDistribution(some)
        for name, some in distributions.items()
    }
    known.add_trial(optuna.trial.create_trial(params=params, distributions=given, value=score))
    with pytest.raises(ValueError, match=f"study must hold trials of this search, but trial 1 of .*{message}"):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=3, study=study, **QUIET)


def test_settings_in_line_that_the_search_never_asked_for_are_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=study, **QUIET)
    optuna.load_study(storage=f"sqlite:///{study}", study_name="diffor").enqueue_trial({"learning_rate": 1e9})
    with pytest.raises(
        ValueError, match=r"trial 1 of .* sets 'learning_rate', which it never does; choose another file"
    ):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=3, study=study, **QUIET)


def test_a_pipe_is_no_study(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "study.db")
    with pytest.raises(ValueError, match=r"study must be a file, but .*study\.db is none"):
        tune(DiffoRRegressor(**TINY), X, Y, n_trials=1, study=tmp_path / "study.db", **QUIET)
