"""The convergence theorems on linear heads; each is shown to break where its assumption does."""

import numpy as np
import pytest
from linear_tasks import make_tasks

from diffor.errors import UserError
from diffor.paper.theory.analysis import even_grades
from diffor.paper.theory.convergence import (
    descend,
    linear_rate,
    ordinal_convergence,
    separate_rate,
    shared_pl_counterexample,
    shared_rate,
    single_rate,
    summed_smoothness,
    wavy,
)
from diffor.paper.theory.linear_heads import LeastSquares

MODELS = {
    "separate": separate_rate,
    "shared": shared_rate,
    "single": lambda tasks, *given: single_rate(tasks, 1, *given),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", [0, 3])
def test_descent_lemma_pl_bound_and_linear_rate_hold(model, seed):
    found = MODELS[model](make_tasks(seed=seed))
    assert found.holds
    assert found.measured_factor <= found.factor < 1
    assert found.excess[-1] < 0.9 * found.excess[0]


@pytest.mark.parametrize("model", MODELS)
def test_a_step_that_is_too_long_breaks_the_descent_lemma(model):
    tasks = make_tasks()
    problem = {"separate": tasks.separate, "shared": tasks.shared, "single": tasks.task(1)}[model]
    found = MODELS[model](tasks, 60, 2.1 / problem.smoothness)
    assert found.descent_margin < -0.01
    assert not found.holds


def test_the_descent_lemma_holds_to_the_inverse_of_the_smoothness_and_is_tight_there():
    problem = make_tasks().task(0)
    direction = np.linalg.eigh(2 * problem.inputs.T @ (problem.weights[:, None] * problem.inputs))[1][:, -1]
    moved = LeastSquares(problem.inputs, problem.inputs @ direction, problem.weights)  # its minimum: along the steepest
    step = 1 / problem.smoothness
    walk = descend(moved, step, 1)
    assert walk.losses[1] == pytest.approx(walk.losses[0] - step / 2 * walk.squared_gradients[0], abs=1e-12)
    longer = descend(moved, 1.2 * step, 1)
    assert longer.losses[1] > longer.losses[0] - 0.6 * step * longer.squared_gradients[0] + 1e-3 * walk.losses[0]


def test_a_constant_that_is_too_large_breaks_the_pl_bound_and_the_rate():
    tasks = make_tasks()
    problem, smooth = tasks.separate, summed_smoothness(tasks)
    assert linear_rate(problem, smooth, problem.pl_constant, 400).holds
    false = linear_rate(problem, smooth, problem.smoothness / 2, 400)
    assert false.pl_margin < 0
    assert false.rate_margin < 0
    assert not false.holds


def test_the_papers_constant_of_separate_heads_is_sound_but_not_the_best():
    tasks = make_tasks(weights=(0.1, 2.0, 1.0))
    found = separate_rate(tasks)
    parts = [weight * task.pl_constant for weight, task in zip(tasks.weights, tasks.tasks, strict=True)]
    assert tasks.separate.pl_constant == pytest.approx(min(parts))
    assert found.pl_constant < min(parts)  # the smallest lambda and the smallest mu belong to different times
    largest = max(weight * task.smoothness for weight, task in zip(tasks.weights, tasks.tasks, strict=True))
    assert tasks.separate.smoothness == pytest.approx(largest)
    assert found.smoothness > 1.2 * largest


def test_separate_heads_reach_a_lower_minimum_and_a_shared_head_its_own_sooner():
    apart, together = separate_rate(make_tasks()), shared_rate(make_tasks())
    assert apart.minimum < together.minimum
    assert apart.factor > together.factor  # the remark's better trainability is not a better rate
    assert apart.measured_factor > together.measured_factor


def test_taking_the_weight_of_the_rate_from_another_time_breaks_it():
    # The bound needs the smallest lambda: with the largest it claims too much.
    tasks = make_tasks(weights=(1.0, 30.0, 1.0))
    least = min(task.pl_constant for task in tasks.tasks)
    assert separate_rate(tasks, 400).holds
    assert not linear_rate(tasks.separate, tasks.separate.smoothness, least * 30.0, 400).holds


@pytest.mark.parametrize("m", [0, 1, 2])
def test_wrong_grades_stay_under_a_bound_that_falls_at_the_rate(m):
    positions, thresholds = even_grades(np.random.default_rng(0).random(60), 2)
    found = ordinal_convergence(make_tasks(clean=positions, signal=3.0), m, thresholds)
    assert found.holds
    assert found.bounds[-1] < found.bounds[0]
    assert (np.diff(found.promised) < 0).all()
    assert found.excess[0] > 0


def test_the_corollary_can_fail():
    positions, thresholds = even_grades(np.random.default_rng(0).random(60), 2)
    found = ordinal_convergence(make_tasks(clean=positions), 2, thresholds)
    assert found.holds
    assert not found._replace(bounds=found.error_rates - 0.01).holds
    assert not found._replace(promised=found.excess / 2).holds


def test_two_pl_losses_may_sum_to_one_that_is_not():
    each, together = shared_pl_counterexample()
    assert each > 1 / 32
    assert together == pytest.approx(0, abs=1e-9)
    convex = shared_pl_counterexample(lambda x: (x**2, 2 * x))  # for squares, as of linear heads, the sum keeps it
    assert min(convex) == pytest.approx(2, rel=1e-3)


def test_the_wavy_slope_is_its_own():
    x, step = np.linspace(-5, 5, 101), 1e-6
    np.testing.assert_allclose((wavy(x + step)[0] - wavy(x - step)[0]) / (2 * step), wavy(x)[1], atol=1e-7)


def test_a_walk_that_has_nowhere_to_go_is_refused():
    with pytest.raises(UserError, match=r"must start above the minimum, but it starts at 0\.0"):
        linear_rate(LeastSquares(np.eye(2), np.zeros(2), np.ones(2)), 2.0, 2.0, 5)
    with pytest.raises(UserError, match="n_steps must be at least 1"):
        descend(make_tasks().shared, 0.1, 0)
