"""What an exported file says about itself, and what is refused, with its message."""

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from program_checks import mixed_table, open_program
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor

import diffor
from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.encoders.tabular import inputs as tabular_inputs
from diffor.export import METADATA, ExportError, export_model
from diffor.methods.diffor.borders import Borders

X, Y = mixed_table(60)
TINY = {"max_steps": 1, "random_state": 0, "verbose": 0}


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
    written = onnx.load(tmp_path / "model.onnx")
    assert {node.domain for node in written.graph.node} <= {"", "ai.onnx.ml"}  # standard operators
    n_knots = len(model.predict_distribution(X[:1]).knots)
    shapes = {port.name: port.shape for port in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {
        "numbers": ["rows", 4], "categories": ["rows", 1],
        "point": ["rows"], "interval": ["rows", 2], "quantiles": ["rows", 2],
        "cdf": ["rows", n_knots], "knots": [n_knots],
    }  # fmt: skip


def test_a_model_must_be_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        export_model(DiffoRRegressor("fast"), tmp_path / "model.onnx")


@pytest.mark.parametrize("method", ["quantile-regression", "diffor-paper"])
def test_methods_that_cannot_be_exported_are_named_with_the_one_that_can(method, tmp_path):
    fitted = OrdinalRegressor(method, preset="fast", encoder="plain", **TINY).fit(X, np.abs(Y))
    with pytest.raises(ExportError, match=rf"only methods with borders .* but got '{method}'; fit diffor"):
        export_model(fitted, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_priors_of_the_users_own_are_refused(tmp_path):
    fitted = DiffoRRegressor("fast", prior=KNeighborsRegressor(), **TINY).fit(X[["price"]], Y)
    with pytest.raises(ExportError, match=r"trees or Gaussian processes .* but got EstimatorPrior; .*distill"):
        export_model(fitted, tmp_path / "model.onnx")
    export_model(fitted.distill(X[["price"]], max_steps=1), tmp_path / "model.onnx")


def test_encoders_of_the_users_own_are_refused(model, tmp_path):
    fitted = DiffoRRegressor("fast", encoder="plain", **TINY).fit(X, Y)
    fitted.model_.models[0].encoder = torch.nn.Identity()
    with pytest.raises(ExportError, match="encoders must read tables to be exported, but got Identity"):
        export_model(fitted, tmp_path / "model.onnx")


def test_members_must_share_their_borders(tmp_path):
    fitted = OrdinalRegressor("diffor", preset="fast", encoder="plain", n_members=2, **TINY).fit(X, Y)
    fitted.model_.models[1].method.set_borders(Borders.even(3))
    with pytest.raises(ExportError, match="members must share their borders to be exported, but they differ"):
        export_model(fitted, tmp_path / "model.onnx")


def test_hashed_columns_are_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(tabular_inputs, "MAX_LEVELS", 2)
    fitted = DiffoRRegressor("fast", **TINY).fit(X, Y)
    with pytest.raises(ExportError, match=r"must keep a list of their levels .* but 'city' has so many"):
        export_model(fitted, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coverage": 1.0}, "coverage must lie strictly between 0 and 1, but got coverage=1.0"),
        ({"quantiles": [1.5]}, r"quantile levels must lie in \[0, 1\], but got \[1.5\]"),
        ({"quantiles": []}, r"quantile levels must lie in \[0, 1\], but got \[\]"),
    ],
)
def test_wrong_settings_leave_no_file(settings, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        export_model(model, tmp_path / "model.onnx", **settings)
    assert list(tmp_path.iterdir()) == []


def test_the_missing_package_is_named(model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ExportError, match=r"exporting needs the package onnx, .* pip install 'diffor\[export\]'"):
        export_model(model, tmp_path / "model.onnx")
