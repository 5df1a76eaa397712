"""Every parameter of every public class and function is documented, with its default and its value in each preset."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import diffor
from diffor.estimators.settings import NAMES, PRESETS, Settings
from diffor.export import export_model
from diffor.methods.diffor.one_call import OneCall

ROOT = Path(__file__).parents[2]
PUBLIC = [getattr(diffor, name) for name in diffor.__all__]
CLASSES = [*(one for one in PUBLIC if inspect.isclass(one)), OneCall]
ESTIMATORS = [one for one in CLASSES if hasattr(one, "conformalize")]
FUNCTIONS = [diffor.load, diffor.load_dataset, diffor.tune, export_model]


def documented(doc: str) -> dict[str, str]:
    """Parameters of a docstring in numpydoc's form, each with what is said about it."""
    section = re.search(r"Parameters\n-+\n(.*?)(?=\n\n|\n\w+\n---|\Z)", inspect.cleandoc(doc), re.DOTALL)
    entries = re.split(r"^(?=\w)", section[1], flags=re.MULTILINE) if section else []
    heads = [re.match(r"(\w+) : ([^\n]+)\n(.+)", entry, re.DOTALL) for entry in entries if entry]
    assert all(heads), entries
    return {found[1]: " ".join(f"{found[2]}. {found[3]}".split()) for found in heads if found}


def test_all_parameters_of_all_public_classes_are_documented():
    wanted = {(one.__name__, name) for one in CLASSES for name in inspect.signature(one).parameters}
    found = {(one.__name__, name) for one in CLASSES for name in documented(one.__doc__ or "")}
    assert {one.__name__ for one in CLASSES} >= {"DiffoRRegressor", "OrdinalClassifier", "CdfPrediction"}
    assert len(wanted) > 120
    assert found == wanted  # 100 %, and nothing that is not there


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_defaults_are_those_of_the_constructor(kind):
    for name, text in documented(kind.__doc__).items():
        default = inspect.signature(kind).parameters[name].default
        if default is not inspect.Parameter.empty:
            assert f"default {default!r}." in text, name
        assert len(text.split(". ", 1)[1].split()) >= 2, f"{name} is named, not explained"


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_documentation_has_the_value_of_every_preset(kind):
    known = {one.name: one.metadata["presets"] for one in fields(Settings)}
    for name, text in documented(kind.__doc__).items():
        listed = next(one.metadata for one in fields(kind) if one.name == name).get("presets")
        if listed is None:  # no preset decides it
            continue
        assert f"Presets: {listed['balanced']!r}" in text, name
        for preset in NAMES:
            assert getattr(PRESETS[preset], name) == known[name][preset]
            if known[name][preset] != listed["balanced"]:
                assert f"{preset} {known[name][preset]!r}" in text, (name, preset)


def shared_arguments(page: str, heading: str) -> set[str]:
    """Arguments that the table below a heading explains."""
    text = (ROOT / "docs" / "api" / page).read_text(encoding="utf-8")
    table = text[text.index(heading) :].split("\n:::")[0]
    return {
        name for row in re.findall(r"^\| (`.*?) \| \w", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }


def left_out() -> list[str]:
    """Patterns of the methods that the site does not show: they are for other parts of the package."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r'"!(\^\w+\$?)"', text[text.index("filters:") :])


def test_all_arguments_of_methods_stand_in_their_table():
    table = shared_arguments("estimators.md", "## Arguments that methods share")
    wanted = set()
    for kind in ESTIMATORS:
        for name, method in inspect.getmembers(kind, callable):
            is_ours = (getattr(method, "__module__", None) or "").startswith("diffor")
            if is_ours and not name.startswith("_") and not any(re.search(one, name) for one in left_out()):
                wanted |= set(inspect.signature(method).parameters) - {"self", "cls"}
    assert len(wanted) > 30
    assert wanted - table == set()
    assert table - wanted == set()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_all_arguments_of_functions_stand_in_their_table(function):
    name = function.__name__
    assert shared_arguments("functions.md", f"## {name}") >= set(inspect.signature(function).parameters)


def test_the_page_of_settings_has_every_setting_and_preset():
    pytest.importorskip("mkdocs", reason="the site is an optional extra")
    from hooks import settings_table

    rows = settings_table().splitlines()
    assert rows[0].split("|")[3:7] == [" fast ", " balanced ", " accurate ", " paper "]
    assert {re.match(r"\| `(\w+)`", row)[1] for row in rows[2:]} == {one.name for one in fields(Settings)}
    (batch,) = [row for row in rows if row.startswith("| `batch_size`")]
    assert batch.endswith("| `128` | `128` | `128` | `1024` | `256` |")
