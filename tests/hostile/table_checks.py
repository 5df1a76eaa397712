"""What must hold of a model that was fitted on an odd table, and of a refusal."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from odd_tables import Case

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.errors import UserError
from diffor.methods import METHODS


def make_model(case: Case) -> Any:
    """The model that a case asks for."""
    of_task = {"value": (DiffoRRegressor, OrdinalRegressor), "grades": (DiffoRClassifier, OrdinalClassifier)}
    core, other = of_task[case.task]
    return core(**case.arguments) if case.method == "diffor" else other(case.method, **case.arguments)


def play(case: Case, folder: Path) -> str:
    """Fit, ask, save and load: ``answered``, or the reason of the refusal; anything else is an error of a test."""
    n = len(case.X)
    side = {name: np.full(n, 1e3) for name in METHODS[case.method].requires}
    asked = {name: np.full(len(case.new), 1e3) for name in side}
    model = make_model(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(case.X, case.y, sample_weight=case.weights, groups=case.groups, **side)
        except UserError as error:
            check_refusal(case, error, model)
            return str(error)
        assert not case.faults, f"fitted in spite of {case.faults}"
        answers = check_answers(case, model, asked)
        check_rows_are_independent(case, model, asked, answers)
        check_saving(case, model, asked, answers, folder)
    return "answered"


def check_refusal(case: Case, error: UserError, model: Any) -> None:
    """A refusal has a reason, says it briefly, and leaves the model unfitted."""
    assert case.faults or case.doubts, f"refused without reason: {error}"
    assert 10 < len(str(error)) < 2000, error
    assert not hasattr(model, "model_")


def ask(case: Case, model: Any, new: Any, side: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """All that a model answers to rows."""
    found = {"predict": model.predict(new, **side), "mean": model.predict_distribution(new, **side).mean}
    if case.task == "grades":
        found["shares"] = model.predict_proba(new, **side)
        found["below"] = model.predict_cumproba(new, **side)
        if model.has_distribution:
            found["set"] = model.predict_set(new, 0.8, **side)
        return found
    found["shares"] = model.predict_proba(new, **side)
    found["increments"] = model.predict_increments(new, 4, **side)
    found["draws"] = model.sample(new, 5, **side)
    if model.has_distribution:
        found["quantiles"] = model.predict_quantiles(new, (0.01, 0.3, 0.5, 0.9, 0.999), **side)
        found["interval"] = model.predict_interval(new, 0.8, **side)
    return found


def check_answers(case: Case, model: Any, side: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Answers are of the right shape, finite, inside the bounds, and their quantiles do not cross."""
    found, n = ask(case, model, case.new, side), len(case.new)
    assert all(len(answer) == n for answer in found.values())
    if case.task == "grades":
        shares = found["shares"]
        assert shares.shape == (n, len(model.classes_))
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
        assert shares.min() >= 0
        assert set(found["predict"].tolist()) <= set(model.grades_.tolist())
        assert sorted(model.grades_.tolist()) == model.classes_.tolist()
        assert np.isfinite(found["mean"]).all()
        assert found.get("set", np.ones((1, 1))).any(axis=1).all()
        return found
    low, high = model.scale_.low, model.scale_.high
    check_ends(case, low, high)
    for name in ("predict", "mean", "draws", "quantiles", "interval"):
        if name in found:
            assert np.isfinite(found[name]).all(), name
            slack = 1e-6 * (high - low) + 1e-12 * max(abs(low), abs(high)) if name == "mean" else 0.0
            assert found[name].min() >= low - slack, (name, found[name].min(), low)
            assert found[name].max() <= high + slack, (name, found[name].max(), high)
    for name in ("quantiles", "interval"):
        assert (np.diff(found.get(name, np.zeros((1, 2))), axis=1) >= 0).all(), name
    np.testing.assert_allclose(found["shares"].sum(axis=1), 1, atol=1e-6)
    return found


def check_ends(case: Case, low: float, high: float) -> None:
    """The range is the bounds, or that of the targets that count."""
    target = np.array([float(value) for value in np.asarray(case.y, dtype=object).ravel()])
    if case.weights is not None and np.ndim(case.weights):
        weights = np.asarray(case.weights, dtype=np.float64)
        target = target[weights >= 1e-30 * weights.max()]
    ends = case.arguments.get("bounds", (target.min(), target.max()))
    is_from_zero = METHODS[case.method].family in ("watch time", "lifetime value")
    assert (low, high) == tuple(ends) or (is_from_zero and (low, high) == (0.0, ends[1]))


def check_rows_are_independent(case: Case, model: Any, side: dict[str, Any], answers: dict[str, Any]) -> None:
    """A row's answer is the same alone and among others, in any order."""
    order = np.random.default_rng(case.seed).permutation(len(case.new))
    some = order[: max(len(order) // 2, 1)]
    new = case.new.iloc[some] if isinstance(case.new, pd.DataFrame) else [case.new[row] for row in some]
    again = ask(case, model, new, {name: column[some] for name, column in side.items()})
    for name, answer in again.items():
        assert_same(answer, answers[name][some], name, 1e-4)


def assert_same(found: Any, expected: Any, name: str, tolerance: float) -> None:
    """Equal, or for numbers nearly so in units of their range."""
    if found.dtype.kind != "f":
        differing = np.mean(found != expected)
        assert differing <= (0.1 if tolerance else 0.0), name  # a decision may turn on the last digit
        return
    reach = np.abs(expected).max() or 1.0
    np.testing.assert_allclose(found / reach, expected / reach, rtol=0, atol=tolerance, err_msg=name)


def check_saving(case: Case, model: Any, side: dict[str, Any], answers: dict[str, Any], folder: Path) -> None:
    """A model that was fitted can be saved, and answers as before after it is loaded."""
    model.save(folder, overwrite=True)
    again = diffor.load(folder)
    found = ask(case, again, case.new, side)
    assert found.keys() == answers.keys()
    for name, answer in found.items():
        assert_same(answer, answers[name], name, 0.0)
