"""Our estimators as peers: presets, methods on the shared encoder, and the short names of some of these."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from diffor.bench.cell import ask
from diffor.bench.peers import PEERS, find_peer
from diffor.bench.peers.methods import count_units
from diffor.bench.peers.problem import Problem
from diffor.metrics import mae

QUICK = {"preset": "fast", "max_steps": 40, "encoder": "plain"}


def make_problem(n_grades=None, bounds=None):
    generator = np.random.default_rng(0)
    x = pd.DataFrame({"a": generator.uniform(size=200), "b": pd.Categorical(generator.choice(["u", "v"], 200))})
    duration = 60 + 60 * generator.uniform(size=200)
    y = np.minimum(100 * x["a"].to_numpy(), duration)
    y = np.floor(x["a"].to_numpy() * n_grades) if n_grades else y if bounds is None else np.clip(y, *bounds)
    train, valid, test = slice(0, 120), slice(120, 150), slice(150, 200)
    side = {"duration": duration, "price": duration}
    problem = Problem(
        x[train], y[train], x[valid], y[valid], n_grades=n_grades, bounds=bounds, seed=3, n_samples=20,
        side={name: column[train] for name, column in side.items()},
        side_valid={name: column[valid] for name, column in side.items()},
    )  # fmt: skip
    return problem, x[test], y[test], {name: column[test] for name, column in side.items()}


@pytest.mark.parametrize("name", ["value-absolute", "cread", "swat-geometric", "diffor"])
def test_methods_are_fitted_with_the_side_columns_that_they_use(name):
    problem, x, y, side = make_problem()
    fitted = find_peer(f"method:{name}").fit(problem, **QUICK)
    prediction = ask(fitted, x, side)
    assert len(prediction) == 50
    assert mae(y, prediction.median) < np.abs(y - np.median(problem.y)).mean()
    assert fitted.facts["encoders"] == ["plain"]


@pytest.mark.parametrize("name", ["diffor", "diffor-fast", "diffor-accurate", "diffor-paper"])
def test_ours_are_the_presets(name):
    problem, x, _, _ = make_problem(bounds=(20.0, 60.0))
    small = {"n_increments": 2, "n_layers": 1, "width": 16, "n_times": 20} if name == "diffor-paper" else {}
    quick = small if name in ("diffor-fast", "diffor-paper") else {"prior": None}
    fitted = PEERS[name].fit(problem, max_steps=3, **quick)
    assert PEERS[name].is_ours
    assert fitted.estimator.preset == {"diffor": "balanced"}.get(name, name.removeprefix("diffor-"))
    samples = fitted.predict(x).samples
    assert 20 <= samples.min() <= samples.max() <= 60
    kinds = fitted.facts["encoders"]
    assert fitted.facts["steps"] == 3 * (len(kinds) + ("deep" in kinds))  # of each kind of network, deep ones twice


@pytest.mark.parametrize("name", ["diffor-fast", "coral", "corn"])
def test_grades_are_codes_also_of_grades_that_no_row_has(name):
    problem, x, _, _ = make_problem(n_grades=5)
    rows = {"y": np.minimum(problem.y, 3), "y_valid": np.minimum(problem.y_valid, 3)}
    fitted = PEERS[name].fit(Problem(**{**vars(problem), **rows}), max_steps=3)
    assert set(np.unique(fitted.predict(x).samples)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert len(fitted.estimator.classes_) == 5


@pytest.mark.parametrize(
    ("name", "method", "tasks", "settings", "members"),
    [
        ("mdn", "mdn", ("value",), {"n_components": 3}, 1),
        ("deep-ensemble", "value-gaussian", ("value",), {}, 5),
        ("card", "card", ("value",), {"n_nodes": 8}, 1),
        ("coral", "coral", ("grades",), {}, 1),
        ("corn", "corn", ("grades",), {}, 1),
    ],
)
def test_short_names_are_methods_and_settings_find_their_way(name, method, tasks, settings, members):
    peer = PEERS[name]
    assert (peer.tasks, peer.is_ours, peer.is_trained_here, peer.package) == (tasks, False, True, None)
    problem, x, _, _ = make_problem(n_grades=4 if tasks == ("grades",) else None)
    fitted = peer.fit(problem, **{**QUICK, "max_steps": 2, **settings})
    assert fitted.estimator.method == method
    assert settings.items() <= fitted.estimator.settings_.method_settings.items()
    assert fitted.estimator.model_.n_members == members
    if name == "card":
        assert fitted.estimator.settings_.method_settings["n_times"] == 1000
    assert len(fitted.predict(x[:4])) == 4


def test_groups_are_not_torn_apart(monkeypatch):
    seen = {}
    problem, _, _, _ = make_problem()
    groups = np.arange(150) // 5
    problem = Problem(**{**vars(problem), "groups": groups[:120], "groups_valid": groups[120:]})
    fit = "diffor.bench.peers.methods.DiffoRRegressor.fit"
    monkeypatch.setattr(fit, lambda self, *rows, **named: seen.update(named))
    PEERS["diffor"].fit(problem)
    assert seen["groups"].tolist() == groups.tolist()


def test_reconstructions_say_so_and_unknown_methods_are_named():
    assert find_peer("method:ptpm").description.startswith("A reconstruction: PTPM")
    assert find_peer("method:ptpm").tasks == ("value",)
    assert find_peer("method:diffor").is_ours
    assert not find_peer("method:corn").is_ours
    with pytest.raises(ValueError, match=r"must name a method .* but got 'creed' \(did you mean 'cread'\?\)"):
        find_peer("method:creed")


def test_ages_have_one_class_for_each_year():
    generator = np.random.default_rng(0)
    x = pd.DataFrame({"a": generator.uniform(size=300)})
    ages = generator.integers(0, 117, 300).astype(float)
    ages[:117] = np.arange(117)
    problem = Problem(x[:250], ages[:250], x[250:], ages[250:], bounds=(0.0, 116.0), seed=0, n_samples=5)
    fitted = find_peer("method:or-cnn").fit(problem, **QUICK | {"max_steps": 2}, n_bins="units")
    binning = fitted.estimator.model_.models[0].method.binning
    index = binning.index(torch.arange(117) / 116)
    assert index.tolist() == list(range(117))  # every year has a class of its own ...
    assert binning.n_bins == 117  # ... and there is no other
    assert binning.places[:117].mul(116).numpy() == pytest.approx(np.arange(117), abs=1e-3)
    assert count_units(replace(problem, bounds=None)) == 117
