"""``examples/onnx_only.py`` where neither torch nor DiffoR is installed."""

import csv
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.export import export_model

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "onnx_only.py"
TINY = {"max_steps": 2, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory):
    """The Python of a new virtual environment that holds numpy and onnxruntime only."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", "onnxruntime"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.skip(f"pip cannot install onnxruntime here: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.fixture
def table(tmp_path):
    """Rows as a CSV file, and as read back from it."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"size": random.standard_normal(300), "city": random.choice(["Oslo", "Rome"], 300),
                         "is_new": random.random(300) < 0.5})  # fmt: skip
    rows.loc[3, "size"], rows.loc[4, "city"] = np.nan, None
    rows.to_csv(tmp_path / "rows.csv", index=False)
    return pd.read_csv(tmp_path / "rows.csv")


def ask(python, folder):
    done = subprocess.run([python, "-I", SCRIPT, "model.onnx", "rows.csv"], cwd=folder, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return pd.DataFrame(list(csv.DictReader(done.stdout.splitlines())))


def test_values_are_those_of_predict_without_torch(clean_python, table, tmp_path):
    has = "import importlib.util as u; print([u.find_spec(name) is not None for name in ('torch', 'diffor', 'pandas')])"
    found = subprocess.run([clean_python, "-I", "-c", has], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[False, False, False]"
    model = DiffoRRegressor("fast", **TINY).fit(table, np.nan_to_num(table["size"]))
    export_model(model, tmp_path / "model.onnx")
    answers = ask(clean_python, tmp_path).astype(float)
    width = model.scale_.high - model.scale_.low
    np.testing.assert_allclose(answers["prediction"], model.predict(table), rtol=0, atol=1e-5 * width)
    np.testing.assert_allclose(answers[["low", "high"]], model.predict_interval(table), rtol=0, atol=1e-5 * width)
    np.testing.assert_allclose(answers.iloc[:, 3:], model.predict_quantiles(table), rtol=0, atol=1e-5 * width)


def test_grades_are_those_of_predict_without_torch(clean_python, table, tmp_path):
    grades = np.array(["low", "high"])[(table["size"].fillna(0) > 0).astype(int)]
    model = DiffoRClassifier("fast", grades=["low", "high"], **TINY).fit(table, grades)
    export_model(model, tmp_path / "model.onnx")
    answers = ask(clean_python, tmp_path)
    assert list(answers.columns) == ["prediction", "p_low", "p_high"]
    np.testing.assert_allclose(answers["p_low"].astype(float), model.predict_proba(table)[:, 1], rtol=0, atol=1e-5)
    assert (answers["prediction"] == model.predict(table)).all()
