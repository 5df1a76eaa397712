"""What an exported file says about itself, and what is refused, with its message."""

import json
import sys

import numpy as np
import onnx
import pytest
from program_checks import mixed_table, open_program
from sklearn.exceptions import NotFittedError

import diffor
from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.encoders import tabular_inputs
from diffor.export import METADATA, ExportError, export_model

X, Y = mixed_table(60)
TINY = {"max_steps": 1, "random_state": 0, "verbose": 0, "n_samples": 6, "guide": False}


@pytest.fixture(scope="module")
def model():
    return DiffoRRegressor("fast", bounds=(-50, 50), **TINY).fit(X, Y)


def test_the_file_describes_itself(model, tmp_path):
    returned = export_model(model, tmp_path / "model.onnx", quantiles=[0.1, 0.9], coverage=0.8)
    session = open_program(tmp_path / "model.onnx")
    facts = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
    assert facts == json.loads(json.dumps(returned))
    assert facts["columns"]["numbers"] == ["size", "price", "is_new", "since"]
    assert facts["columns"]["categories"] == [{"name": "city", "levels": ["Lima", "Oslo", "Rome"]}]
    assert (facts["bounds"], facts["quantiles"], facts["coverage"]) == ([-50, 50], [0.1, 0.9], 0.8)
    assert facts["versions"]["diffor"] == diffor.__version__
    shapes = {port.name: port.shape for port in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {
        "numbers": ["rows", 4], "categories": ["rows", 1], "noise": ["rows", facts["noise_width"]],
        "point": ["rows"], "interval": ["rows", 2], "quantiles": ["rows", 2], "samples": ["rows", 6],
    }  # fmt: skip


def test_the_file_holds_standard_operators_only(model, tmp_path):
    export_model(model, tmp_path / "model.onnx")
    written = onnx.load(tmp_path / "model.onnx")
    assert {node.domain for node in written.graph.node} <= {"", "ai.onnx.ml"}


def test_a_model_must_be_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        export_model(DiffoRRegressor("fast"), tmp_path / "model.onnx")


def test_methods_that_cannot_be_exported_are_named_with_those_that_can(tmp_path):
    fitted = OrdinalRegressor("cread", preset="fast", **TINY).fit(X, np.abs(Y))
    with pytest.raises(ExportError, match=r"only the methods diffor, .*mdn.* can be exported, however: 'cread'; fit"):
        export_model(fitted, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_methods_with_side_columns_are_refused(tmp_path):
    y = np.abs(Y)
    fitted = OrdinalRegressor("d2q", preset="fast", **TINY).fit(X, y, duration=y + 1)
    with pytest.raises(ExportError, match="must need nothing beside X to be exported, however: 'd2q' uses duration"):
        export_model(fitted, tmp_path / "model.onnx")


def test_hashed_columns_are_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(tabular_inputs, "MAX_LEVELS", 2)
    fitted = DiffoRRegressor("fast", **TINY).fit(X, Y)
    with pytest.raises(ExportError, match=r"must keep a list of their levels .* however: 'city' has so many"):
        export_model(fitted, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 0}, "number of samples must be at least 1, however: 0"),
        ({"coverage": 1.0}, "coverage must lie strictly between 0 and 1, however: coverage=1.0"),
        ({"quantiles": [1.5]}, r"quantile levels must lie in \[0, 1\], however: \[1.5\]"),
        ({"quantiles": []}, r"quantile levels must lie in \[0, 1\], however: \[\]"),
        ({"n_steps": 0}, "n_steps must lie between 1 and n_times=1000 .* however: n_steps=0"),
    ],
)
def test_wrong_settings_leave_no_file(settings, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        export_model(model, tmp_path / "model.onnx", **settings)
    assert list(tmp_path.iterdir()) == []


def test_steps_are_refused_where_they_mean_nothing(tmp_path):
    quantiles = OrdinalRegressor("quantile-regression", preset="fast", **TINY).fit(X, Y)
    with pytest.raises(ExportError, match="n_steps is for DiffoR's chain, however: method='quantile-regression' has"):
        export_model(quantiles, tmp_path / "model.onnx", n_steps=3)
    fusion = DiffoRRegressor("fast", decoding="fusion", **TINY).fit(X, Y)
    with pytest.raises(ExportError, match="weights for the steps that it was fitted with, however: n_steps=9"):
        export_model(fusion, tmp_path / "model.onnx", n_steps=9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("effort", [{"n_samples": 7}, {"n_steps": 3}])
def test_a_guarantee_is_kept_to_its_samples_and_steps(effort, tmp_path):
    fitted = DiffoRRegressor("fast", **TINY).fit(X, Y).conformalize(X, Y)
    name, asked = next(iter(effort.items()))
    with pytest.raises(ExportError, match=f"needs the {name} that it was calibrated with, however: {name}={asked}"):
        export_model(fitted, tmp_path / "model.onnx", **effort)


def test_the_missing_package_is_named(model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ExportError, match=r"exporting needs the package onnx, .* pip install 'diffor\[export\]'"):
        export_model(model, tmp_path / "model.onnx")
