"""Settings are told once: constructors, their documentation, presets and searches follow."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from dataclasses import KW_ONLY, fields
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.errors import UserError
from diffor.estimators.settings import (
    NAMES,
    PRESETS,
    Choice,
    Number,
    Settings,
    describe_parameters,
    resolve_settings,
    setting,
    with_parameters,
)

ESTIMATORS = [DiffoRRegressor, DiffoRClassifier, OrdinalRegressor, OrdinalClassifier]


def test_adding_a_setting_is_one_edit():
    @with_parameters
    class Wider(DiffoRRegressor):
        """An estimator with one more setting.

        {parameters}
        """

        _: KW_ONLY
        temperature: float = setting("How hot it gets.", 1.5, Number(0), paper=2.0, search=Choice((1.0, 1.5)))

    model = Wider("paper", temperature=3.0)
    assert inspect.signature(Wider).parameters["temperature"].kind is inspect.Parameter.KEYWORD_ONLY
    assert model.get_params()["temperature"] == clone(model).temperature == 3.0
    assert Wider().temperature is None
    assert "temperature : float, default None\n    How hot it gets. Presets: 1.5, paper 2.0." in Wider.__doc__
    known = {one.name: one.metadata for one in fields(Wider)}["temperature"]
    assert known["presets"] == {"balanced": 1.5, "fast": 1.5, "accurate": 1.5, "paper": 2.0}
    assert known["search"]["balanced"] == Choice((1.0, 1.5))


ADDED = """
    temperature: float = setting("How hot it gets.", 1.5, Number(0, 9), paper=2.0)
"""
USED = """
import json, sys
import diffor
from diffor.training.checkpoint import CheckpointError, signed
X = [[n / 40, n % 3] for n in range(40)]
y = [row[0] for row in X]
made = {"prior": None, "max_steps": 2, "random_state": 0, "verbose": 0}
diffor.DiffoRRegressor("fast", temperature=3.0, **made).fit(X, y).save("given")
diffor.DiffoRRegressor("fast", **made).fit(X, y).save("left")
found = {name: diffor.load(name) for name in ("given", "left")}
told = {name: [model.temperature, model.settings_.temperature] for name, model in found.items()}
whole = open("given/config.json").read()
for part in ("params", "settings"):
    config = json.loads(whole)
    config[part]["temperature"] = 10
    open("given/config.json", "w").write(json.dumps(signed(config)))
    try:
        diffor.load("given")
    except CheckpointError as error:
        told[part] = str(error)
print(json.dumps(told))
"""


def test_one_edit_of_the_source_is_enough_to_fit_save_and_load(tmp_path):
    package = shutil.copytree(Path(diffor.__file__).parent, tmp_path / "diffor")
    path = package / "estimators" / "settings.py"
    before = '    max_steps: int = setting("Training steps at most."'
    assert path.read_text().count(before) == 1
    path.write_text(path.read_text().replace(before, ADDED.lstrip("\n") + before))
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", USED], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert (told["given"], told["left"]) == ([3.0, 3.0], [None, 1.5])
    assert "params.temperature must be a number from 0 to 9 or null, but is 10" in told["params"]
    assert "settings.temperature must be a number from 0 to 9, but is 10" in told["settings"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_is_documented_and_listed(estimator):
    parameters = inspect.signature(estimator).parameters
    assert set(parameters) == set(estimator().get_params())
    assert describe_parameters(estimator) in estimator.__doc__
    for name in parameters:
        meaning = {one.name: one.metadata["meaning"] for one in fields(estimator)}[name]
        assert meaning.endswith(".")
        assert f"\n{name} : " in estimator.__doc__


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_has_at_most_five_classes_of_the_project(estimator):
    assert sum(kind.__module__.startswith("diffor") for kind in estimator.__mro__) <= 5


@pytest.mark.parametrize("preset", NAMES)
def test_what_is_given_replaces_the_presets_value_and_nothing_else(preset):
    settings = resolve_settings(preset, {"max_steps": 7, "batch_size": None})
    assert settings.max_steps == 7
    assert settings.batch_size == PRESETS[preset].batch_size
    assert PRESETS[preset].max_steps != 7  # the preset stays as it is
    assert settings == PRESETS[preset].but(max_steps=7)


def test_presets_do_not_share_what_can_be_changed():
    first, second = Settings(), Settings()
    first.method_settings["n_increments"] = 3
    assert second.method_settings == PRESETS["balanced"].method_settings == {}


def test_unknown_settings_and_presets_are_named():
    with pytest.raises(TypeError, match=r"no setting 'max_step' \(did you mean 'max_steps'\?\)"):
        Settings(max_step=3)
    with pytest.raises(TypeError, match=r"presets must be among .*'quick'"):
        setting("What it means.", 1, Number(0), quick=2)


def test_epochs_are_passes_over_the_training_rows():
    X = np.random.default_rng(0).random((105, 2))
    made = {"bounds": (0, 1), "random_state": 0, "verbose": 0, "batch_size": 30, "validation_fraction": 0.0}
    made["method_settings"] = {"denoiser": "mlp", "width": 16, "n_layers": 1}
    model = DiffoRRegressor("paper", epochs=2, **made).fit(X, X[:, 0])
    assert (model.history_.steps, model.history_.rows) == (7, 210)
    given = {"X_val": X[:10], "y_val": X[:10, 0], "evaluate_every": 5, "patience": 1}
    fit = {name: given.pop(name) for name in ("X_val", "y_val")}
    model = DiffoRRegressor("paper", epochs=3, early_stopping=False, **made, **given).fit(X, X[:, 0], **fit)
    assert (model.history_.steps, model.history_.stopped) == (11, "finished")
    with pytest.raises(UserError, match=r"epochs must be a whole number from 1 to .* or None, but got epochs=0"):
        DiffoRRegressor("paper", epochs=0).fit(X, X[:, 0])
