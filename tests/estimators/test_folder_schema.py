"""The schema of configurations: settings and arguments are held to their fields, and every preset keeps to them."""

from dataclasses import fields

import pytest

from diffor import DiffoRRegressor
from diffor.estimators.api import ESTIMATORS
from diffor.estimators.folder_schema import _rule_of
from diffor.estimators.settings import PRESETS, Settings, saved_rules
from diffor.files.schema import MisfitError
from diffor.methods import METHODS


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_every_argument_has_a_rule_and_no_other(kind):
    assert set(saved_rules(fields(kind))) == set(kind._get_param_names())


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_keep_to_the_rules(preset):
    rules = saved_rules(fields(Settings), is_resolved=True)
    for name, value in vars(PRESETS[preset]).items():
        rules[name].check(value, name)


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_defaults_keep_to_the_rules(kind):
    rules = saved_rules(fields(kind))
    for name, value in kind().get_params(deep=False).items():
        rules[name].check(value, name)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("n_members", 10**9), ("n_folds", 10**9), ("max_folds", 10**9), ("n_increments", 10**9), ("n_samples", 10**9),
        ("encoder_width", 10**9), ("encoder_layers", 10**9), ("max_steps", None), ("max_steps", True),
        ("learning_rate", float("nan")), ("learning_rate", 0), ("prior", ["trees"] * 101), ("prior", [["trees"]]),
        ("kinds", ["plain"] * 100), ("kinds", ["x"]), ("encoder", "x"), ("encoder", "timm:/etc"), ("encoder", "timm:"),
        ("method", "x"), ("method_settings", {"n": {}}), ("method_settings", {"n": 10**9 + 1}),
        ("encoder_weights", "A" * 100_000), ("freeze_backbone", 1), ("encoder_dropout", 1.0), ("preset", "x"),
        ("n_jobs", 10**9), ("n_jobs", 0), ("device", "meta"), ("device", "cuda:" + "9" * 11), ("device", ""),
        ("log_to", "mlflow:http://192.0.2.1/"), ("random_state", -1), ("bounds", [0]), ("bounds", [0, float("inf")]),
        ("checkpoint_dir", {}), ("verbose", 10**9), ("time_limit", 0), ("validation_fraction", 1),
    ],
)  # fmt: skip
def test_what_a_file_may_not_ask_for(name, wrong):
    rules = saved_rules(fields(DiffoRRegressor)) | saved_rules(fields(Settings), is_resolved=True)
    with pytest.raises(MisfitError, match=rf"{name}.* must be .*, but is"):
        rules[name].check(wrong, name)


def test_what_stands_for_objects_in_a_file_is_not_run():
    rules = saved_rules(fields(DiffoRRegressor))
    for name, value in {"device": "cuda:7", "prior": ["MyRegressor"], "encoder": "network"}.items():
        rules[name].check(value, name)  # none of which there is here


@pytest.mark.parametrize("name", METHODS)
def test_settings_of_every_method_have_a_rule_that_their_defaults_keep_to(name):
    import inspect

    for one in inspect.signature(METHODS[name]).parameters.values():
        if one.name != "n_features":
            _rule_of(str(one.annotation), 10_000).check(one.default, one.name)
