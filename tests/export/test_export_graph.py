"""Single parts of exported programs against numpy and torch: arithmetic, trees, quantiles."""

import numpy as np
import pytest
import torch
from program_checks import open_program, run_program

from diffor.baselines.distribution import Bins, Steps
from diffor.encoders.boosted_trees import Trees, boost_trees
from diffor.export.distributions import _along_bins, _along_steps
from diffor.export.graph import DOUBLE, FLOAT, Graph
from diffor.export.intervals import central_interval, quantiles
from diffor.export.trees import Forest, count_below
from diffor.prediction import Prediction


def compute(write, values, width):
    """What a program of one input answers: ``write(value)`` gives its output."""
    graph = Graph()
    answer = write(graph.input("x", np.dtype(values.dtype), (None, values.shape[1])))
    graph.output("y", answer, (None, width))
    return run_program(open_program(graph.to_bytes({})), {"x": values})["y"]


def test_arithmetic_is_that_of_numpy():
    values = np.linspace(-3, 3, 12).reshape(4, 3)
    found = compute(
        lambda x: (x * 2.0 - 1.0).clip(-1.0, 2.0).cumsum(1) / 3.0 + x.sorted(3).mean(1).reshape(-1, 1), values, 3
    )
    expected = np.clip(values * 2 - 1, -1, 2).cumsum(axis=1) / 3 + values.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected)


def test_equal_constants_are_kept_once():
    graph = Graph()
    value = graph.input("x", FLOAT, (None, 1))
    _ = value * 2.0 + 2.0
    _ = value.cast(DOUBLE) + 2.0
    assert len(graph.constants) == 2


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_limits_below_a_value_are_counted_as_by_searchsorted(count):
    random = np.random.default_rng(count)
    limits = np.unique(random.random(count).astype(np.float32))
    values = np.concatenate([random.random(50).astype(np.float32), limits, [-1.0, 2.0]]).astype(np.float32)[:, None]
    found = compute(lambda x: count_below(x, limits, 1), values, 1)
    assert np.array_equal(found[:, 0], np.searchsorted(limits, values[:, 0]))


def test_a_forest_answers_as_its_trees():
    random = np.random.default_rng(0)
    table = random.random((200, 3)).astype(np.float32)
    target = table[:, 0] + table[:, 1] ** 2
    trees = boost_trees(table, target, None, (table[:50], target[:50], None), rounds=20, seed=0)
    forest = Forest(n_answers=2)
    forest.add_boosted(trees, answer=1, share=0.25, first_column=1)
    shifted = np.concatenate([np.full((200, 1), 9.0, dtype=np.float32), table], axis=1)
    found = compute(forest.answer, shifted, 2)
    np.testing.assert_allclose(found[:, 1], 0.25 * trees.predict(torch.from_numpy(table)).numpy(), atol=1e-6)
    assert (found[:, 0] == 0).all()


def test_a_forest_without_trees_answers_with_its_base():
    nothing = torch.zeros(0, dtype=torch.int64)
    forest = Forest(n_answers=1)
    forest.add_boosted(Trees(nothing, nothing, nothing, nothing, nothing, torch.tensor(0.5)), 0, 0.5, 0)
    assert compute(forest.answer, np.ones((3, 2), dtype=np.float32), 1).tolist() == [[0.25]] * 3


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_quantiles_are_those_of_a_prediction(count):
    samples, levels = np.random.default_rng(0).random((4, count)), [0.0, 0.05, 0.5, 0.51, 1.0]
    found = compute(lambda x: quantiles(x.sorted(count), levels, count), samples, len(levels))
    np.testing.assert_allclose(found, Prediction(samples).quantile(levels))


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_intervals_are_those_of_a_prediction(count, coverage):
    rng = np.random.default_rng(0)
    with_equals = rng.integers(0, 4, size=(40, count)).astype(float)
    mostly_zero = np.maximum(rng.normal(size=(40, count)), 0)
    samples = np.concatenate([rng.random((4, count)), with_equals, mostly_zero, 1 - mostly_zero])
    found = compute(lambda x: central_interval(x.sorted(count), coverage, count), samples, 2)
    np.testing.assert_allclose(found, Prediction(samples).interval(coverage), atol=1e-12)


def probabilities():
    shares = np.random.default_rng(0).dirichlet([0.3] * 5, size=6).astype(np.float32)
    shares[0] = [1, 0, 0, 0, 0]
    shares[1] = [0, 0.5, 0, 0, 0.5]
    return shares


def test_steps_are_those_of_the_distribution():
    places = np.linspace(0, 1, 5, dtype=np.float32)
    found = compute(lambda x: _along_steps(x.cumsum(1), places, 9), probabilities(), 9)
    steps = Steps(torch.from_numpy(probabilities()), torch.from_numpy(places))
    expected = steps.quantile((torch.arange(9) + 0.5) / 9).numpy()
    np.testing.assert_allclose(found, expected)


def test_bins_are_those_of_the_distribution():
    edges = np.array([0.0, 0.1, 0.4, 0.4, 0.8, 1.0], dtype=np.float32)  # one of them an atom
    places = np.array([0.1, 0.2, 0.4, 0.5, 0.95], dtype=np.float32)  # one at its edge
    found = compute(lambda x: _along_bins(x, edges, places, 9), probabilities(), 9)
    bins = Bins(*(torch.from_numpy(part) for part in (probabilities(), edges, places)))
    expected = bins.quantile((torch.arange(9) + 0.5) / 9).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
