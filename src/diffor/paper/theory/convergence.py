"""Gradient descent on the paper's models with known constants: its lemmas, its linear rates, and where they end.

Every statement is an inequality at each step of one run. A check keeps the smallest margin by which its right side
exceeds its left, in units of the loss at the start; below zero, but for rounding, the statement is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError, check_least
from diffor.paper.theory.analysis import Array, ordinal_bound
from diffor.paper.theory.linear_heads import LeastSquares, TimeTasks
from diffor.paper.theory.tiers import upper_bound

ROUNDING = 1e-12
"""Margins may fall below zero by so much of the loss at the start."""
SETTLED = 1e-9
"""A loss above the minimum by less than this share of its start is rounding."""


class Descent(NamedTuple):
    """One run of gradient descent: parameters, losses and gradients before each step and after the last.

    **Shape:** parameters ``(K + 1, D)``, losses and squared_gradients ``(K + 1,)``.
    """

    parameters: Array
    losses: Array
    squared_gradients: Array


def descend(problem: LeastSquares, step_size: float, n_steps: int) -> Descent:
    """Walk down from zero by full gradients, with a constant step size.

    >>> walk = descend(LeastSquares(np.eye(2), np.array([1.0, 2.0]), np.ones(2)), step_size=0.25, n_steps=2)
    >>> walk.losses.tolist()
    [5.0, 1.25, 0.3125]
    """
    check_least("n_steps", n_steps)
    theta, walked = np.zeros(problem.inputs.shape[1]), []
    for _ in range(n_steps + 1):
        gradient = problem.gradient(theta)
        walked.append((theta, problem.value(theta), float(gradient @ gradient)))
        theta = theta - step_size * gradient
    return Descent(*(np.array(part) for part in zip(*walked, strict=True)))


class LinearRate(NamedTuple):
    """What the paper says of one model's gradient descent, checked at every step of a run.

    Margins are in units of the loss above the minimum at the start.
    """

    smoothness: float
    """The paper's L, the weighted sum of the times' own; the step size is its inverse unless told otherwise."""
    pl_constant: float
    """The constant in the rate: ``mu_min lambda_min`` with separate heads, that of the whole loss with a shared one."""
    step_size: float
    minimum: float
    excess: Array
    """Loss above the minimum at each step. **Shape:** ``(K + 1,)``."""
    descent_margin: float
    """Descent lemma: the next loss is at most this one less half the step size times the squared gradient."""
    pl_margin: float
    """PL bound: half the squared gradient is at least the constant times the loss above the minimum."""
    rate_margin: float
    """Linear convergence: the loss above the minimum is at most ``(1 - step * constant)^k`` times that at the start."""

    @property
    def factor(self) -> float:
        """The promised share of the loss above the minimum that a step leaves."""
        return 1 - self.step_size * self.pl_constant

    @property
    def measured_factor(self) -> float:
        """The share that a step left on average (geometric mean), until rounding is all that is left."""
        last = max(int(np.flatnonzero(self.excess > SETTLED * self.excess[0])[-1]), 1)
        return float((self.excess[last] / self.excess[0]) ** (1 / last))

    @property
    def holds(self) -> bool:
        """Whether lemma, bound and rate held at every step."""
        return min(self.descent_margin, self.pl_margin, self.rate_margin) >= -ROUNDING


def linear_rate(
    problem: LeastSquares, smoothness: float, pl_constant: float, n_steps: int, step_size: float | None = None
) -> LinearRate:
    """Run gradient descent and check descent lemma, PL bound and linear rate with the constants that are claimed.

    ``step_size`` is ``1 / smoothness`` if None, the largest that the paper's theorems allow.
    """
    step = 1 / smoothness if step_size is None else step_size
    walk = descend(problem, step, n_steps)
    minimum = problem.minimum
    excess = np.maximum(walk.losses - minimum, 0.0)
    if not excess[0] > 0:
        raise UserError(f"gradient descent must start above the minimum, but it starts at {minimum}; use other rows")
    lost = walk.losses[:-1] - step / 2 * walk.squared_gradients[:-1] - walk.losses[1:]
    steep = walk.squared_gradients / 2 - pl_constant * excess
    slower = (1 - step * pl_constant) ** np.arange(n_steps + 1) * excess[0] - excess
    margins = [float(part.min() / excess[0]) for part in (lost, steep, slower)]
    return LinearRate(smoothness, pl_constant, step, minimum, excess, *margins)


def separate_rate(tasks: TimeTasks, n_steps: int = 200, step_size: float | None = None) -> LinearRate:
    """Separate heads (MH-MT) against the paper's theorem: ``L = sum lambda_m L_m``, constant ``mu_min lambda_min``."""
    constant = min(task.pl_constant for task in tasks.tasks) * float(tasks.weights.min())
    return linear_rate(tasks.separate, summed_smoothness(tasks), constant, n_steps, step_size)


def shared_rate(tasks: TimeTasks, n_steps: int = 200, step_size: float | None = None) -> LinearRate:
    """One head for all times (SH-MT) against its theorem, whose global PL constant is known for a linear head."""
    problem = tasks.shared
    return linear_rate(problem, summed_smoothness(tasks), problem.pl_constant, n_steps, step_size)


def single_rate(tasks: TimeTasks, m: int, n_steps: int = 200, step_size: float | None = None) -> LinearRate:
    """The model of the m-th time alone (SH-1T), which is one task of the others."""
    problem = tasks.task(m)
    return linear_rate(problem, problem.smoothness, problem.pl_constant, n_steps, step_size)


def summed_smoothness(tasks: TimeTasks) -> float:
    """The paper's L, ``sum lambda_m L_m``; of separate heads the largest ``lambda_m L_m`` would do."""
    return float(sum(weight * task.smoothness for weight, task in zip(tasks.weights, tasks.tasks, strict=True)))


class OrdinalConvergence(NamedTuple):
    """The corollary at one time, at every step: wrong grades, their bound, and how it falls.

    **Shape:** arrays ``(K + 1,)``.
    """

    error_rates: Array
    bounds: Array
    """``4 / gamma^2`` times the amplification times the noise risk of that step's head."""
    excess: Array
    """Noise risk of the time above its minimum ..."""
    promised: Array
    """... and what the rate of all heads promises for it."""

    @property
    def holds(self) -> bool:
        """Whether both inequalities held at every step."""
        slack = ROUNDING * self.promised[0]
        return bool((self.error_rates <= self.bounds + ROUNDING).all() and (self.excess <= self.promised + slack).all())


def ordinal_convergence(tasks: TimeTasks, m: int, thresholds: ArrayLike, n_steps: int = 200) -> OrdinalConvergence:
    """Follow the wrong grades at the m-th time while separate heads are trained, beside the corollary's two bounds.

    ``thresholds`` cut [0, 1] into grades; the clean targets must keep a distance from all of them.

    **Shape:** thresholds ``(G - 1,)``.
    """
    rate = separate_rate(tasks, n_steps)
    walk = descend(tasks.separate, rate.step_size, n_steps)
    task, found = tasks.task(m), []
    for theta in walk.parameters:
        heads = tasks.heads(theta)
        measured, risk = ordinal_bound(tasks.estimates(heads)[:, m], tasks.clean, thresholds), task.value(heads[m])
        bound = upper_bound(tasks, m, risk, measured["gamma"])
        found.append((measured["error_rate"], bound, risk - task.minimum))
    promised = rate.factor ** np.arange(n_steps + 1) * rate.excess[0] / tasks.weights[m]
    rates, bounds, excess = np.array(found).T
    return OrdinalConvergence(rates, bounds, excess, promised)


def wavy(x: Array) -> tuple[Array, Array]:
    """``x^2 + 3 sin(x)^2`` and its slope: not convex, yet PL with the constant 1/32, its minimum 0 at 0.

    **Shape:** ``(n,)`` -> ``(n,)``, ``(n,)``.
    """
    return x**2 + 3 * np.sin(x) ** 2, 2 * x + 3 * np.sin(2 * x)


def pl_ratio(values: ArrayLike, slopes: ArrayLike, minimum: float) -> float:
    """The largest PL constant that a function of one number may have, given some of its values and slopes.

    **Shape:** ``(n,)``, ``(n,)``.
    """
    above = np.asarray(values, dtype=np.float64) - minimum
    seen = above > ROUNDING
    return float((np.asarray(slopes, dtype=np.float64)[seen] ** 2 / 2 / above[seen]).min())


def shared_pl_counterexample(function: Callable[[Array], tuple[Array, Array]] = wavy) -> tuple[float, float]:
    """PL constants of two times' losses that are each PL, and of their sum in shared parameters, which is not.

    The losses are one function with its minimum at 0 and at pi. Their sum is level at pi / 2 without being least
    there, so that gradient descent on a shared head may rest where separate heads would go on: the paper's remark that
    a global PL condition does not follow from those of the times. For the linear heads here it does follow.
    """
    grid = np.linspace(-10, 10 + np.pi, 40_001)
    grid = np.append(grid, np.pi / 2)
    (first, first_slope), (second, second_slope) = function(grid), function(grid - np.pi)
    each = min(pl_ratio(first, first_slope, 0.0), pl_ratio(second, second_slope, 0.0))
    return each, pl_ratio(first + second, first_slope + second_slope, float((first + second).min()))
