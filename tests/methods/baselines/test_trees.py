"""TPM, PTPM and CREAD: golden numbers, hand-computed cases, known distributions and what they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Kumaraswamy

from diffor.core.distribution import DistributionMethod
from diffor.methods.baselines.error_adaptive import (
    ALPHAS,
    best_alpha,
    discretisation_error,
    error_adaptive_levels,
    order_losses,
    restored_value,
    thresholds_at,
)
from diffor.methods.baselines.trees import (
    CREAD,
    PTPM,
    TPM,
    TREE_METHODS,
    branch_logits,
    cell_probabilities,
    common_ranks,
    leaf_log_probabilities,
    mean_and_spread,
    middles,
    nodes_that_lead_right,
    reach_losses,
)

NAMES = tuple(TREE_METHODS)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def skewed_targets(n: int, seed: int = 0) -> Tensor:
    """A long tail up to exactly 1, and some rows at exactly 0."""
    random = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=random) ** 3
    y[: n // 8] = 0
    return y / y.max()


def prepared(name: str, n: int = 64, seed: int = 0) -> tuple[DistributionMethod, Tensor, Tensor]:
    torch.manual_seed(seed)
    y = skewed_targets(n, seed)
    method = TREE_METHODS[name](n)  # type: ignore[call-arg]
    assert isinstance(method, DistributionMethod)
    method.prepare(y)
    return method, torch.eye(n), y


def descend(method: DistributionMethod, features: Tensor, y: Tensor, n_steps: int, rate: float) -> None:
    optimizer = torch.optim.Adam(method.parameters(), lr=rate)
    for _ in range(n_steps):
        optimizer.zero_grad()
        torch.stack(list(method.loss(features, y).values())).sum().backward()
        optimizer.step()


def native(method: DistributionMethod, features: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.from_numpy(method.predict(features, torch.arange(len(features)), 8).statistic("native"))


# --- the formulas ---


def test_tpm_golden_numbers() -> None:
    leaves = leaf_log_probabilities(doubles(0.6, 0.3, 0.8)[None].logit()).exp()
    assert leaves[0].tolist() == pytest.approx([0.28, 0.12, 0.12, 0.48])
    mean, spread = mean_and_spread(leaves, middles(doubles(0, 1, 2, 4, 8)))
    assert mean.item() == pytest.approx(3.56)
    assert spread.item() == pytest.approx(2.454873, abs=1e-6)


def test_cread_golden_numbers() -> None:
    assert restored_value(doubles(0.9, 0.6, 0.3, 0.05)[None], doubles(1, 2, 4, 8)).item() == pytest.approx(2.3)
    assert error_adaptive_levels(4, 1.0) == pytest.approx([0.349932, 0.622459, 0.834704, 1], abs=1e-6)


def test_branches_of_leaves_are_the_inverse() -> None:
    leaves = torch.rand(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    leaves = leaves / leaves.sum()
    assert torch.allclose(leaf_log_probabilities(branch_logits(leaves)[None]).exp()[0], leaves)


def test_only_the_questions_on_the_way_are_trained() -> None:
    logits = torch.zeros(1, 7, requires_grad=True)
    leaf_log_probabilities(logits)[0, 5].backward()
    assert logits.grad is not None
    assert logits.grad[0].nonzero()[:, 0].tolist() == [0, 2, 5]  # the root, its right half, the left quarter of that


def test_nodes_without_leaves_at_their_right() -> None:
    reachable = torch.tensor([True, True, True, False])
    assert nodes_that_lead_right(reachable).tolist() == [True, True, False]


def test_even_alpha_is_the_limit_of_small_ones() -> None:
    assert error_adaptive_levels(7, 1e-6) == pytest.approx(error_adaptive_levels(7, 0.0), abs=1e-6)


def test_repeated_quantiles_count_once() -> None:
    ordered = np.array([0.0, 0.0, 0.0, 0.5, 0.75, 1.0])
    assert thresholds_at(ordered, np.arange(1, 7) / 6).tolist() == [0.0, 0.5, 0.75, 1.0]


def test_discretisation_error_by_hand() -> None:
    # Steps 0.2 and 0.8, three quarters of the rows below the first threshold.
    learning = (0.75**2 + 0.25**2) * (0.2**2 / 0.75 + 0.8**2 / 0.25)
    restoring = (0.75**2 + 0.25**2) * (0.2**2 + 0.8**2)
    error = discretisation_error(np.array([0.2, 1.0]), np.array([0.75, 1.0]), 50.0)
    assert error == pytest.approx(learning + 50 * restoring)


def test_alpha_is_the_best_of_the_grid() -> None:
    even = (np.arange(4000) + 0.5) / 4000
    tail = even**3

    def error(alpha: float) -> float:
        thresholds = thresholds_at(tail / tail[-1], error_adaptive_levels(20, alpha))
        shares = np.array([(tail / tail[-1] <= threshold).mean() for threshold in thresholds])
        return discretisation_error(thresholds, shares, 50.0)

    chosen = best_alpha(tail, 20, 50.0)
    assert chosen == min(ALPHAS, key=error)
    # Even targets are served best by equally many rows; a tail wants finer steps there, the more so the more the error
    # of restoring counts.
    assert best_alpha(even, 20, 50.0) == ALPHAS[0] < chosen < best_alpha(tail, 20, 500.0)


def test_rising_exceedance_is_punished() -> None:
    assert order_losses(doubles(0.9, 0.5, 0.6, 0.2, 0.5)[None]).item() == pytest.approx(0.4)


def test_cells_of_personal_leaves_by_brute_force() -> None:
    random = torch.Generator().manual_seed(0)
    leaves, widths = (torch.rand(5, 8, generator=random, dtype=torch.float64).softmax(dim=1) for _ in range(2))
    ranks = torch.cat([doubles(0), torch.rand(12, generator=random, dtype=torch.float64).softmax(dim=0).cumsum(dim=0)])
    cells = cell_probabilities(leaves, widths, ranks)
    assert torch.allclose(cells.sum(dim=1), torch.ones(5, dtype=torch.float64))
    for cell in range(12):
        common = common_ranks(widths, ranks[cell].expand(5), ranks[cell + 1].expand(5))
        assert torch.allclose(cells[:, cell], (leaves / widths * common).sum(dim=1))


def test_reaching_the_nodes_by_hand() -> None:
    leaves, inside = doubles(0.1, 0.2, 0.3, 0.4)[None], doubles(0, 1, 0, 0)[None]
    by_hand = [0.3, 1 - 0.7, 1 - 0.1, 0.2, 1 - 0.3, 1 - 0.4]
    assert reach_losses(leaves, inside).item() == pytest.approx(-np.log(by_hand).mean())


# --- known truths ---


@pytest.mark.parametrize("name", NAMES)
def test_recovers_two_known_distributions(name: str) -> None:
    kind = torch.arange(1000) % 2
    truth = Kumaraswamy(torch.tensor([1.0, 3.0]), torch.tensor([4.0, 2.0]))
    levels = (torch.arange(1000) // 2 + 0.5) / 500
    first, second = truth.concentration1[kind], truth.concentration0[kind]
    y = (1 - (1 - levels) ** (1 / second)) ** (1 / first)
    method = TREE_METHODS[name](2)  # type: ignore[call-arg]
    assert isinstance(method, DistributionMethod)
    method.prepare(y)
    descend(method, torch.eye(2)[kind], y, 60, 0.1)
    with torch.no_grad():
        found = method.distribution(torch.eye(2))
    asked = torch.linspace(0.05, 0.95, 19)
    expected = 1 - (1 - asked ** truth.concentration1[:, None]) ** truth.concentration0[:, None]
    assert torch.allclose(found.cdf(asked.expand(2, -1)), expected, atol=0.04)
    assert torch.allclose(found.mean, truth.mean, atol=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_starts_with_the_distribution_of_all_rows(name: str) -> None:
    method, _, y = prepared(name, n=512)
    with torch.no_grad():
        method.output.weight.zero_()  # type: ignore[union-attr, operator]
        if isinstance(method, PTPM):
            method.output.bias.zero_()
        start = method.distribution(torch.zeros(1, 512))
    asked = torch.tensor([[0.05, 0.2, 0.5, 0.8]])
    share = (y[:, None] <= asked).float().mean(dim=0)
    assert torch.allclose(start.cdf(asked)[0], share, atol=0.03)


# --- ties ---


def test_leaves_that_no_target_reaches_have_no_probability() -> None:
    y = torch.cat([torch.zeros(80), torch.linspace(0.1, 1, 20)])
    method = TPM(3, n_leaves=32)
    method.prepare(y)
    probabilities = method.distribution(torch.randn(5, 3)).probabilities
    reachable = method.binning.reachable
    assert 2 < reachable.sum() < 32
    assert (probabilities[:, ~reachable] == 0).all()
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(5))
    assert all(term.isfinite() for term in method.loss(torch.randn(100, 3), y).values())


def test_the_largest_target_has_a_leaf() -> None:
    method = TPM(2, n_leaves=8)
    y = torch.linspace(0, 1, 100)
    method.prepare(y)
    terms = method.loss(torch.zeros(1, 2), torch.ones(1))
    last = method.distribution(torch.zeros(1, 2)).probabilities[0, -1]
    assert terms["tree"].item() == pytest.approx(-math.log(last.item()), abs=1e-5)


def test_cread_knows_how_many_targets_are_zero() -> None:
    y = torch.cat([torch.zeros(300), torch.linspace(0.1, 1, 700)])
    method = CREAD(2)
    method.prepare(y)
    with torch.no_grad():
        method.output.weight.zero_()
        answer = method.distribution(torch.zeros(1, 2))
    assert not method.distinct.all()
    assert answer.cdf(torch.zeros(1, 1)).item() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_one_and_the_same_target(name: str) -> None:
    method = TREE_METHODS[name](2)  # type: ignore[call-arg]
    assert isinstance(method, DistributionMethod)
    method.prepare(torch.zeros(10))
    terms = method.loss(torch.ones(10, 2), torch.zeros(10))
    assert all(term.isfinite() for term in terms.values())
    assert native(method, torch.ones(3, 2)).tolist() == [0, 0, 0]


# --- what distinguishes them ---


@pytest.mark.parametrize("name", ["tpm", "ptpm"])
def test_the_spread_is_trained(name: str) -> None:
    method, features, y = prepared(name)
    method.loss(features, y)["spread"].backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in method.parameters())


def test_ptpm_rows_place_their_own_cuts() -> None:
    """The same probabilities of leaves, at other places: the widths alone move the distribution."""
    method = PTPM(1, n_leaves=2, n_cells=16)
    method.prepare(torch.linspace(0, 1, 1601))
    with torch.no_grad():
        method.output.weight.copy_(torch.tensor([[0.0], [1.0], [-1.0]]))
        method.output.bias.zero_()
        answer = method.distribution(torch.tensor([[2.0], [-2.0]]))
    assert answer.mean[0] > 0.7
    assert answer.mean[1] < 0.3


def test_cread_restores_from_the_exceedances_themselves() -> None:
    method = CREAD(1, n_thresholds=4)
    method.prepare(torch.linspace(0, 1, 401))
    with torch.no_grad():
        method.output.weight.zero_()
        method.output.bias.copy_(torch.tensor([0.5, 0.8, 0.3, 0.1]).logit())  # rises once
        answer = method.distribution(torch.zeros(1, 1))
    steps = method.thresholds.diff(prepend=torch.zeros(1))
    expected = (steps * torch.tensor([0.5, 0.8, 0.3, 0.1])).sum().item()
    assert method.native(answer).item() == pytest.approx(expected)
    assert answer.probabilities[0].tolist() == pytest.approx([0.5, 0.0, 0.2, 0.3])


# --- what all of them share; what every method must do, tests/test_contracts.py checks ---
