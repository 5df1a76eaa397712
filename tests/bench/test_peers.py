"""The table of peers, and our own among them."""

import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import diffor.bench.peers
from diffor.bench.peers import PEERS, Peer, Problem, find_peer


def test_the_table_lists_what_the_modules_hold():
    found = {}
    for module in pkgutil.iter_modules(diffor.bench.peers.__path__):
        if module.ispkg:
            continue
        for value in vars(importlib.import_module(f"diffor.bench.peers.{module.name}")).values():
            if isinstance(value, tuple) and value and all(isinstance(entry, Peer) for entry in value):
                found |= {peer.name: peer for peer in value}
    assert set(PEERS) == set(found)
    assert len(PEERS) == len(list(PEERS))
    for name in PEERS:
        assert PEERS[name] is found[name]
        assert set(PEERS[name].tasks) <= {"value", "grades"}
        assert PEERS[name].description


def test_importing_the_table_is_light():
    heavy = ("torch", "lightgbm", "sklearn")
    code = f"import sys, diffor.bench.peers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['sklearn']")


def test_unknown_peers_are_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"but got 'difor' \(did you mean 'diffor'\?\)"):
        find_peer("difor")
    with pytest.raises(ValueError, match="must be importable, but No module named 'nowhere'"):
        find_peer("nowhere:PEER")
    with pytest.raises(KeyError):
        PEERS["difor"]
    assert "difor" not in PEERS


def a_problem(n_grades=None, bounds=None):
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=120), "b": pd.Categorical(rng.choice(["u", "v"], 120))})
    y = x["a"].to_numpy() * 2
    if n_grades is not None:
        y = np.digitize(y, np.linspace(-1, 1, n_grades - 1)).astype(float)
    elif bounds is not None:
        y = np.clip(y, *bounds)
    return Problem(x[:80], y[:80], x[80:100], y[80:100], n_grades, bounds, seed=3, n_samples=7), x[100:]


@pytest.mark.parametrize("name", ["diffor", "diffor-fast", "diffor-accurate", "diffor-paper"])
def test_ours_are_the_presets(name):
    peer = PEERS[name]
    assert peer.is_ours
    problem, x = a_problem(bounds=(-1.0, 1.0))
    fitted = peer.fit(problem, max_steps=3)
    preset = {"diffor": "balanced"}.get(name, name.removeprefix("diffor-"))
    assert fitted.estimator.preset == preset
    prediction = fitted.predict(x)
    assert len(prediction) == 20
    assert -1 <= prediction.samples.min() <= prediction.samples.max() <= 1
    assert fitted.facts["steps"] == 3 * len(fitted.facts["encoders"])  # of each kind of network


def test_our_grades_are_codes_also_of_grades_that_no_row_has():
    problem, x = a_problem(n_grades=5)
    problem = Problem(**{**vars(problem), "y": np.minimum(problem.y, 3), "y_valid": np.minimum(problem.y_valid, 3)})
    fitted = PEERS["diffor-fast"].fit(problem, max_steps=3)
    prediction = fitted.predict(x)
    assert len(prediction) == 20
    assert set(np.unique(prediction.samples)) <= set(range(5))
    assert len(fitted.estimator.classes_) == 5
