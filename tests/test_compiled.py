"""``compile=True``: the same answers from compiled networks, and what happens where there is no compiler."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffor
from diffor import DiffoRRegressor

SETTINGS = {
    "preset": "fast", "guide": False, "encoder": "plain", "max_steps": 2, "n_samples": 8, "width": 16, "n_layers": 1,
    "random_state": 0, "verbose": 0,
}  # fmt: skip
FAILING = """
import sys, warnings
import numpy as np
from diffor import DiffoRRegressor
X = np.linspace(0, 1, 60)[:, None]
plain = DiffoRRegressor(**{settings}).fit(X, X[:, 0])
model = DiffoRRegressor(**{settings}, compile=True).fit(X, X[:, 0])
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    answers = [model.predict(X) for _ in range(2)]
print([str(one.message) for one in told if "compile=True" in str(one.message)])
print(all(np.array_equal(answer, plain.predict(X)) for answer in answers))
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for CPUs with g++, which is not here")
def test_compiled_networks_answer_alike():
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = DiffoRRegressor(**SETTINGS).fit(X, X[:, 0])
    expected = model.predict_distribution(X).samples
    model.set_params(compile=True)
    width = model.scale_.high - model.scale_.low
    for n_rows in (60, 32):
        found = model.predict_distribution(X[:n_rows]).samples
        np.testing.assert_allclose(found, expected[:n_rows], rtol=0, atol=1e-5 * width)
    networks = [(member.encoder, member.method.denoiser) for member in model.model_.models]
    assert all(network._compiled_call_impl is not None for pair in networks for network in pair)
    again = pickle.loads(pickle.dumps(model.set_params(compile=False)))  # what is compiled stays behind
    assert np.array_equal(again.predict_distribution(X).samples, expected)


def test_without_a_compiler_networks_are_used_as_they_are_and_that_is_said_once(tmp_path):
    environment = {
        **os.environ, "CXX": "/bin/false", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "PYTHONPATH": str(Path(diffor.__file__).parents[1]),
    }  # fmt: skip
    script = FAILING.replace("{settings}", repr(SETTINGS))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, is_same = done.stdout.strip().splitlines()[-2:]
    assert told.count("compile=True needs a C++ compiler that torch can use, however: compiling failed") == 1
    assert "install a compiler, or leave compile out" in told
    assert is_same == "True"
