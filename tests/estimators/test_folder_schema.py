"""The schema of configurations: every setting and argument has a rule, and every preset keeps to it."""

from dataclasses import fields

import pytest

from diffor.estimators.api import ESTIMATORS
from diffor.estimators.folder_schema import MAY_BE_NULL, VALUES, _rule_of
from diffor.estimators.settings import PRESETS, Settings
from diffor.methods import METHODS


def test_every_setting_and_argument_has_a_rule_and_no_other():
    arguments = {name for kind in ESTIMATORS.values() for name in kind._get_param_names()}
    assert set(VALUES) == arguments | {one.name for one in fields(Settings)}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_keep_to_the_rules(preset):
    for name, value in vars(PRESETS[preset]).items():
        if value is not None or name not in MAY_BE_NULL:
            VALUES[name].check(value, name)


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_defaults_keep_to_the_rules(kind):
    for name, value in kind().get_params(deep=False).items():
        if value is not None:
            VALUES[name].check(value, name)


@pytest.mark.parametrize("name", METHODS)
def test_settings_of_every_method_have_a_rule_that_their_defaults_keep_to(name):
    import inspect

    for one in inspect.signature(METHODS[name]).parameters.values():
        if one.name != "n_features":
            _rule_of(str(one.annotation), 10_000).check(one.default, one.name)
