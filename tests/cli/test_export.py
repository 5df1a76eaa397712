"""``diffor export``: the command, its answers, and what it refuses."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.cli.main import main
from diffor.export import program_inputs

TINY = {"max_steps": 1, "random_state": 0, "verbose": 0}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a model of values and one of grades; the process runs in it."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"size": np.linspace(0, 1, 40), "city": ["Oslo", "Rome"] * 20})
    DiffoRRegressor("fast", **TINY).fit(table, np.linspace(0, 1, 40)).save("model")
    DiffoRClassifier("fast", **TINY).fit(table, np.arange(40) % 3).save("grades")
    return table


def test_the_file_answers_as_the_model_does(home, capsys):
    assert main(["export", "model", "--out", "m.onnx", "--quantiles", "0.5", "--coverage", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "m.onnx: 1 numbers and 1 categories in for each row; " in said
    assert "limits of rows are not read: cut the outputs cdf and knots to them (docs/export.md shows how)" in said
    model = diffor.load("model")
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    point, interval = session.run(["quantiles", "interval"], program_inputs(model, home))
    np.testing.assert_allclose(point[:, 0], model.predict(home), rtol=0, atol=1e-5)
    np.testing.assert_allclose(interval, model.predict_interval(home, 0.5), rtol=0, atol=1e-5)


def test_grades_are_exported_too_and_a_file_is_replaced_where_asked(home, tmp_path):
    (tmp_path / "g.onnx").write_bytes(b"old")
    assert main(["export", "grades", "--out", "g.onnx", "--force"]) == 0
    session = onnxruntime.InferenceSession("g.onnx", providers=["CPUExecutionProvider"])
    model = diffor.load("grades")
    (found,) = session.run(["probabilities"], program_inputs(model, home))
    shares = model.predict_proba(home)[:, np.searchsorted(model.classes_, model.grades_)]
    np.testing.assert_allclose(found, shares, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model", "--out", "m.bin"], "m.bin must end in .onnx, but it does not; rename it"),
        (["model", "--out", "there.onnx"], "there.onnx must not exist yet, but it does; choose another or pass"),
        (["none", "--out", "m.onnx"], "none is not a folder"),
        (["grades", "--out", "m.onnx", "--coverage", "0.9"], "--coverage is for amounts, but MODEL predicts gr"),
        (["grades", "--out", "m.onnx", "--quantiles", "0.9"], "--quantiles is for amounts, but MODEL predicts g"),
        (["model", "--out", "m.onnx", "--coverage", "1"], "but got '1'"),
    ],
)
def test_wrong_use_ends_with_one_line_and_leaves_files_alone(home, words, message, tmp_path, refused):
    (tmp_path / "there.onnx").write_bytes(b"kept")
    assert message in refused("export", *words)
    assert (tmp_path / "there.onnx").read_bytes() == b"kept"
    assert not (tmp_path / "m.onnx").exists()
