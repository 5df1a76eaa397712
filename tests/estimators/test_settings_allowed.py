"""Every parameter says what it may be, and refuses all else before any work."""

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from torch import nn

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.errors import UserError, UserTypeError
from diffor.estimators.settings import Instance, Number, Settings, Word, check_allowed, parameter, setting

ESTIMATORS = [DiffoRRegressor, DiffoRClassifier, OrdinalRegressor, OrdinalClassifier]
NOTHING = object()
OF_ANY_KIND = [NOTHING, 1j, b"bytes", float("nan"), {1: 2}, {"a"}, [NOTHING], lambda: 0, int, Fraction(1, 2)]
"""What no parameter may be, whatever it is for."""
WRONG = {
    Number: ["x", "1", True, np.True_, -1, float("nan"), -float("inf"), [1], (), {}, np.array([1, 2]), nn.Linear(1, 1)],
    Word: ["zzz", "", 5, 1.5, True, [], ("fast",), np.array(["fast", "x"]), Number],
}


def parameters():
    for estimator in ESTIMATORS:
        for one in fields(estimator):
            if one.init:
                yield pytest.param(estimator, one, id=f"{estimator.__name__}-{one.name}")


class Untouchable:
    """Rows that may not even be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"X was looked at: {name}")


def refused(estimator, name, value):
    is_graded = estimator in (DiffoRClassifier, OrdinalClassifier)
    y = ["low", "mid", "high"] * 5 if is_graded else np.arange(15.0)
    with pytest.raises(UserError, match=name) as told:
        estimator(**{name: value}).fit(Untouchable(), y)
    assert "but got" in str(told.value) or "not " in str(told.value)
    assert len(str(told.value)) < 1500
    return told.value


@pytest.mark.parametrize(("estimator", "one"), list(parameters()))
def test_what_a_parameter_may_not_be_is_refused_before_the_rows_are_looked_at(estimator, one):
    wrong = [*OF_ANY_KIND]
    kinds = {type(allowed) for allowed in one.metadata["allowed"]}
    if kinds <= {Number, Word}:
        wrong += WRONG[Number] if Number in kinds else WRONG[Word]
    if any(isinstance(allowed, Number) and allowed.is_whole for allowed in one.metadata["allowed"]):
        wrong += [1.5, 10**400, 10**5000, 0 if one.name not in ("verbose", "random_state") else -7]
    elif Number in kinds:
        wrong += [10**400 if one.name not in ("time_limit", "gradient_clip") else -(10**400)]
    if one.metadata["allowed"] and one.name in ("keep_out_of_fold", "freeze_backbone", "diagnose"):
        wrong += [0, 1, "True", "no", 0.0]
    for value in wrong:
        if one.name == "grades" and isinstance(value, (list, tuple, np.ndarray)):
            continue  # lists of anything else are refused with the targets, which the tests of grades show
        if not any(value in allowed for allowed in one.metadata["allowed"] if not isinstance(allowed, Instance)):
            refused(estimator, one.name, value)


GIVEN = {
    "n_jobs": [0, -2, 10**9],
    "device": ["zzz", 5, "", "cuda:99", "cpu:zzz"],
    "encoder": [5, "zzz", "", nn.Linear, None],
    "validation_fraction": [0.999, -0.1],
    "weight_decay": [-1, "x", float("inf"), 1e9],
    "learning_rate": [0, -1, float("inf"), "x"],
    "time_limit": [0, -1, "x", True],
    "random_state": [-1, 2**32, "x", 1.5, np.random.default_rng(0), True],
    "preset": ["quick", "", None, 5, True],
    "log_to": ["nowhere", "tensorboard:", 5, ""],
    "checkpoint_dir": ["", 5, b"folder"],
    "method_settings": [[], "x", {1: 2}, {"no_such_setting": 1}],
    "image_settings": [[], 5],
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("estimator", [DiffoRRegressor, OrdinalClassifier])
def test_wrong_values_that_people_pass(estimator, name):
    for value in GIVEN[name]:
        refused(estimator, name, value)


OF_SOME = {
    (DiffoRRegressor, "prior"): [5, "zzz", ["trees", "zzz"], [5], {"trees": 1}, True, nn.Linear(1, 1)],
    (DiffoRRegressor, "n_folds"): [1, 0, 1001, "x", 2.5, True],
    (DiffoRRegressor, "n_increments"): [0, "x", 2.5, True, 10**9],
    (DiffoRRegressor, "bounds"): [5, "ab", (0,), (1, 0), (0, 0), (0, np.inf), ("a", "b"), (0, None), {0: 1}, (0, 1, 2)],
    (OrdinalRegressor, "method"): ["zzz", None, 5, "corn-"],
    (OrdinalRegressor, "transform"): ["zzz", None, 5],
    (OrdinalRegressor, "n_members"): [0, 1.5, "x", True, 10**9],
    (OrdinalClassifier, "decision"): ["zzz", None, 5],
    (OrdinalClassifier, "grades"): ["low", 5, {"low": 1}],
}


@pytest.mark.parametrize(("estimator", "name"), OF_SOME)
def test_wrong_values_of_what_only_some_estimators_take(estimator, name):
    for value in OF_SOME[estimator, name]:
        refused(estimator, name, value)


def test_numbers_of_numpy_are_numbers():
    X = np.random.default_rng(0).random((40, 2))
    model = DiffoRRegressor(
        "fast", prior=None, max_steps=np.int64(5), learning_rate=np.float32(0.01), n_jobs=1024, time_limit=np.inf,
        random_state=np.int32(3), keep_out_of_fold=np.False_, verbose=False,
    )  # fmt: skip
    assert model.fit(X, X[:, 0]).history_.steps == 5


def test_messages_say_what_may_be():
    with pytest.raises(UserTypeError, match=r"n must be auto or a whole number of at least 2, but got n=2.5"):
        check_allowed("n", 2.5, (Word(("auto",)), Number(2, is_whole=True)))
    with pytest.raises(UserError, match=r"rate must be a number above 0 and at most 1 or None, but got rate=0"):
        check_allowed("rate", 0, (Number(0, 1, is_above=True),), or_none=True)
    with pytest.raises(UserError, match=r"one of fast, paper, but got preset='papr' \(did you mean 'paper'\?\)"):
        check_allowed("preset", "papr", (Word(("fast", "paper")),))


def test_a_parameter_must_say_what_it_may_be():
    for make in (setting, parameter):
        with pytest.raises(TypeError, match="must say which values"):
            make("What it means.", 1)
    assert all(one.metadata["allowed"] for kind in (*ESTIMATORS, Settings) for one in fields(kind))


def test_the_presets_are_what_they_may_be():
    for one in fields(Settings):
        for value in one.metadata["presets"].values():
            if value is not None:
                check_allowed(one.name, value, one.metadata["allowed"])
