"""Single parts of exported programs against numpy and torch: arithmetic, trees, processes, intervals."""

import numpy as np
import pytest
import torch
from program_checks import open_program, run_program

from diffor.core.cdf_prediction import CdfPrediction
from diffor.export.answer import Knots
from diffor.export.graph import DOUBLE, FLOAT, Graph
from diffor.export.priors import _likeness, _ranks, _standard
from diffor.export.trees import Forest
from diffor.export.values import Curve
from diffor.priors.kernel import start_kernel
from diffor.priors.process_columns import Ranks, Standard
from diffor.priors.trees import Growth, Task, Trees, grow_by_sklearn


def compute(write, values, width):
    """What a program of one input answers: ``write(value)`` gives its output."""
    graph = Graph()
    answer = write(graph.input("x", np.dtype(values.dtype), (None, values.shape[1])))
    graph.output("y", answer, (None, width))
    return run_program(open_program(graph.to_bytes({})), {"x": values})["y"]


def test_arithmetic_is_that_of_numpy():
    values = np.linspace(-3, 3, 12).reshape(4, 3)
    found = compute(lambda x: (1.0 - (x * 2.0 - 1.0).clip(-1.0, 2.0)) / 3.0 + x.take([2, 0, 1]).max(1), values, 3)
    np.testing.assert_allclose(found, (1 - np.clip(values * 2 - 1, -1, 2)) / 3 + values.max(axis=1, keepdims=True))


def test_the_largest_so_far_and_neighbours_taken_together():
    values = np.random.default_rng(0).random((5, 40)).astype(np.float32)
    found = compute(lambda x: x.reshape(1, -1, 40).cummax(40).reshape(-1, 40).take(range(3, 9)), values, 6)
    assert np.array_equal(found, np.maximum.accumulate(values, axis=1)[:, 3:9])


def test_equal_constants_are_kept_once():
    graph = Graph()
    value = graph.input("x", FLOAT, (None, 1))
    _ = value * 2.0 + 2.0
    _ = value.cast(DOUBLE) + 2.0
    assert len(graph.constants) == 2


@pytest.mark.parametrize("count", [1, 2, 100])
def test_limits_below_a_value_are_counted_as_by_searchsorted(count):
    random = np.random.default_rng(count)
    limits = np.unique(random.random(count))
    values = np.concatenate([random.random(50), limits, [-1.0, 2.0]])[:, None]
    forest = Forest(1)
    forest.add_steps(limits, 0)
    assert np.array_equal(compute(forest.answer, values, 1)[:, 0], np.searchsorted(limits, values[:, 0]))


def test_a_forest_answers_as_its_trees():
    random = np.random.default_rng(0)
    table = random.random((200, 3)).astype(np.float32)
    target = table[:, 0] + table[:, 1] ** 2
    task = Task(table, target, None, table[:50], target[:50], None)
    trees = grow_by_sklearn(task, Growth(rounds=20, patience=15, rate=0.1, leaves=31, min_leaf=10), seed=0)
    forest = Forest(2)
    forest.add_boosted(trees, 1, np.array([1, 3, 2]))
    moved = np.stack([np.full(200, 9.0), table[:, 0], table[:, 2], table[:, 1]], axis=1).astype(np.float64)
    found = compute(forest.answer, moved, 2)
    np.testing.assert_allclose(found[:, 1], trees.predict(torch.from_numpy(table)).numpy(), atol=1e-6)
    assert (found[:, 0] == 0).all()


def test_a_forest_without_trees_answers_with_its_base():
    nothing = torch.zeros(0, dtype=torch.int64)
    forest = Forest(1)
    forest.add_boosted(Trees(nothing, nothing, nothing, nothing, nothing, torch.tensor(0.25)), 0, np.arange(2))
    assert compute(forest.answer, np.ones((3, 2)), 1).tolist() == [[0.25]] * 3


@pytest.mark.parametrize("is_smooth", [True, False])
def test_likeness_is_that_of_the_kernel(is_smooth):
    random = torch.Generator().manual_seed(0)
    known, rows = (torch.randn(size, 3, generator=random, dtype=torch.float64) for size in (30, 7))
    rows[0], slopes = known[0], torch.randn(30, generator=random, dtype=torch.float64)
    kernel = start_kernel(3, is_smooth)
    found = compute(lambda x: _likeness(x, kernel, known.numpy(), slopes.numpy()), rows.numpy(), 1)
    np.testing.assert_allclose(found[:, 0], (kernel.between(rows, known) @ slopes).numpy(), atol=1e-6)


def test_columns_of_processes_are_scaled_as_they_were_learned():
    random = np.random.default_rng(0)
    table = np.stack([random.random(500), random.integers(0, 4, 500), random.exponential(1, 500)], axis=1)
    asked = np.concatenate([table[:20], table[:20] * 1.7 - 1])
    for kind, write in ((Ranks, _ranks), (Standard, _standard)):
        scale = kind.fit(table.astype(np.float32), np.ones(500))
        found = compute(lambda x, write=write, scale=scale: write(x, scale), asked, 3)
        np.testing.assert_allclose(found, scale.transform(torch.from_numpy(asked)).numpy(), atol=1e-9)


def heights_of(n_knots, rng):
    shares = rng.dirichlet([0.3] * (n_knots - 1), size=50)
    shares[:10] = np.where(shares[:10] < 0.1, 0, shares[:10])  # pieces and atoms that are certain not to be
    heights = np.concatenate([np.zeros((50, 1)), np.cumsum(shares, axis=1)], axis=1)
    return heights / heights[:, -1:]


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("knots", [[0, 1, 2, 5], [0, 0, 1, 2, 2, 5, 5], [0, 1, 1, 3], [-1, -1, 4, 4]])
def test_intervals_are_those_of_a_prediction(knots, coverage):
    places = np.array(knots, dtype=np.float64)
    heights = heights_of(len(knots), np.random.default_rng(0))
    described = Knots(np.arange(len(knots)), places, is_discrete=False)

    def write(value):
        curve = Curve(described, value)
        return value.graph.concat([curve.quantiles([0.01, 0.3, 0.99]), curve.ends(curve.depth(1 - coverage))])

    if (np.diff(places) > 0).all():

        def write(value):
            return Curve(described, value).quantiles([0.01, 0.3, 0.99, (1 - coverage) / 2, (1 + coverage) / 2])

    prediction = CdfPrediction(places, heights)
    expected = np.concatenate([prediction.quantile([0.01, 0.3, 0.99]), prediction.interval(coverage)], axis=1)
    np.testing.assert_allclose(compute(write, heights, 5), expected, atol=1e-9)


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.999])
def test_intervals_of_few_values_are_those_values(coverage):
    values = np.repeat([0.1, 0.7, 2.3, 9.9], 2)
    heights = np.repeat(heights_of(5, np.random.default_rng(1)), 2, axis=1)[:, 1:-1]
    described = Knots(np.arange(8), values, is_discrete=True)
    found = compute(lambda x: (c := Curve(described, x)).ends(c.depth(1 - coverage)), heights, 2)
    assert np.array_equal(found, CdfPrediction(values, heights).interval(coverage))
