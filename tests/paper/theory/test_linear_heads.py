import numpy as np
import pytest
from linear_tasks import make_tasks

from diffor.errors import UserError
from diffor.methods.diffor.process import Diffusion
from diffor.paper.theory.linear_heads import LeastSquares, time_tasks


def test_gradient_and_constants_are_those_of_the_loss():
    problem, rng = make_tasks().shared, np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.normal(size=(2, problem.inputs.shape[1])) * 3
        step = 1e-6 * (b - a)
        assert (problem.value(a + step) - problem.value(a - step)) / 2 == pytest.approx(
            problem.gradient(a) @ step, rel=1e-5
        )
        distance = np.linalg.norm(problem.gradient(a) - problem.gradient(b)) / np.linalg.norm(a - b)
        assert problem.pl_constant - 1e-9 <= distance <= problem.smoothness + 1e-9
        squared = problem.gradient(a) @ problem.gradient(a) / 2
        assert squared >= problem.pl_constant * (problem.value(a) - problem.minimum) * (1 - 1e-9)


def test_the_constants_are_attained_so_that_no_better_ones_exist():
    problem = make_tasks().task(0)
    values, vectors = np.linalg.eigh(2 * problem.inputs.T @ (problem.weights[:, None] * problem.inputs))
    for value, direction in zip(values[[0, -1]], vectors.T[[0, -1]], strict=True):
        theta = problem.minimiser + direction
        ratio = problem.gradient(theta) @ problem.gradient(theta) / 2 / (problem.value(theta) - problem.minimum)
        assert ratio == pytest.approx(value)
    assert (values[0], values[-1]) == pytest.approx((problem.pl_constant, problem.smoothness))


def test_flat_directions_do_not_count():
    inputs = np.array([[1.0, 1.0], [2.0, 2.0]])  # one direction is flat
    problem = LeastSquares(inputs, np.array([1.0, 0.0]), np.ones(2))
    assert problem.pl_constant == pytest.approx(problem.smoothness) == pytest.approx(20)
    np.testing.assert_allclose(problem.gradient(problem.minimiser), 0, atol=1e-12)


def test_separate_and_shared_heads_are_weighted_sums_over_the_times():
    tasks, rng = make_tasks(), np.random.default_rng(2)
    heads = rng.normal(size=(3, tasks.inputs.shape[2]))
    apart = sum(weight * task.value(head) for weight, task, head in zip(tasks.weights, tasks.tasks, heads, strict=True))
    assert tasks.separate.value(heads.ravel()) == pytest.approx(apart)
    together = sum(weight * task.value(heads[0]) for weight, task in zip(tasks.weights, tasks.tasks, strict=True))
    assert tasks.shared.value(heads[0]) == pytest.approx(together)
    np.testing.assert_array_equal(tasks.heads(heads.ravel()), heads)
    assert tasks.separate.minimum < tasks.shared.minimum


def test_heads_take_no_gradient_from_other_times():
    tasks = make_tasks()
    theta = np.random.default_rng(3).normal(size=tasks.separate.inputs.shape[1])
    blocks = tasks.heads(tasks.separate.gradient(theta))
    for weight, task, head, block in zip(tasks.weights, tasks.tasks, tasks.heads(theta), blocks, strict=True):
        np.testing.assert_allclose(block, weight * task.gradient(head))


def test_an_error_of_the_noise_counts_in_the_estimate_as_the_paper_says():
    tasks = make_tasks()
    heads = np.random.default_rng(4).normal(size=(3, tasks.inputs.shape[2]))
    errors = ((tasks.estimates(heads) - tasks.clean[:, None]) ** 2).mean(axis=0)
    risks = [task.value(head) for task, head in zip(tasks.tasks, heads, strict=True)]
    np.testing.assert_allclose(errors, tasks.amplification * risks)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"times": (0, 10)}, "leave out 0 and T"),
        ({"times": ()}, "times must have some signal"),
        ({"weights": (1.0, -1.0)}, r"weights must be one number above 0.*\[1.0, -1.0\]"),
        ({"weights": (1.0,)}, "weights must be one number above 0 for each time"),
        ({"clean": [0.5]}, r"clean.shape=\(1,\)"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(changed, message):
    given = {"features": np.eye(4), "clean": [0, 0.2, 0.5, 1], "times": (5, 10), "weights": None} | changed
    with pytest.raises(UserError, match=message):
        time_tasks(given["features"], given["clean"], Diffusion(100), given["times"], given["weights"])
