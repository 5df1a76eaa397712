import numpy as np
import pandas as pd
import pytest

from diffor.bench.cell import ask
from diffor.bench.peers import find_peer
from diffor.bench.peers.problem import Problem
from diffor.metrics import mae

QUICK = {"preset": "fast", "max_steps": 40, "encoder": "plain"}


def make_problem(n_grades=None):
    generator = np.random.default_rng(0)
    x = pd.DataFrame({"a": generator.uniform(size=200), "b": generator.uniform(size=200)})
    duration = 60 + 60 * generator.uniform(size=200)
    y = np.minimum(100 * x["a"].to_numpy(), duration)
    if n_grades:
        y = np.floor(x["a"].to_numpy() * n_grades)
    parts = slice(0, 120), slice(120, 150), slice(150, 200)
    train, valid, test = parts
    side = {"duration": duration, "price": duration}
    problem = Problem(
        x[train],
        y[train],
        x[valid],
        y[valid],
        n_grades=n_grades,
        n_samples=20,
        side={name: column[train] for name, column in side.items()},
        side_valid={name: column[valid] for name, column in side.items()},
    )
    return problem, x[test], y[test], {name: column[test] for name, column in side.items()}


@pytest.mark.parametrize("name", ["value-absolute", "cread", "d2q", "swat-geometric", "diffor", "diffor-paper"])
def test_methods_are_fitted_with_the_side_columns_that_they_use(name):
    problem, x, y, side = make_problem()
    peer = find_peer(f"method:{name}")
    fitted = peer.fit(problem, **QUICK)
    prediction = ask(fitted, x, side)
    assert len(prediction) == 50
    assert mae(y, prediction.median) < np.abs(y - np.median(problem.y)).mean()
    assert fitted.facts["encoders"] == ["plain"]


def test_grades_are_answered_with_codes():
    problem, x, _, side = make_problem(n_grades=4)
    prediction = ask(find_peer("method:corn").fit(problem, **QUICK), x, side)
    assert set(np.unique(prediction.samples)) <= {0.0, 1.0, 2.0, 3.0}
    assert prediction.point is not None


def test_a_method_that_needs_nothing_beside_the_table_predicts_without():
    problem, x, _, _ = make_problem()
    assert len(find_peer("method:value-squared").fit(problem, **QUICK).predict(x)) == 50


def test_reconstructions_say_so_and_unknown_methods_are_named():
    assert find_peer("method:ptpm").description.startswith("A reconstruction: PTPM")
    assert find_peer("method:ptpm").tasks == ("value",)
    with pytest.raises(ValueError, match=r"must name a method .* but got 'creed' \(did you mean 'cread'\?\)"):
        find_peer("method:creed")
