"""TPM, PTPM and CREAD: golden numbers, hand-computed cases, known distributions and what they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from method_checks import descend
from torch import Tensor
from torch.distributions import Kumaraswamy

from diffor.methods import METHODS
from diffor.methods.baselines.binning import moments
from diffor.methods.baselines.thresholds import (
    ALPHAS,
    CREAD,
    best_alpha,
    discretisation_error,
    error_adaptive_levels,
    restored_value,
    thresholds_at,
)
from diffor.methods.baselines.trees import (
    PTPM,
    TPM,
    branch_logits,
    cell_probabilities,
    common_ranks,
    leaf_log_probabilities,
    nodes_that_lead_right,
    reach_losses,
)

NAMES = ("tpm", "ptpm", "cread")


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


# --- the formulas ---


def test_tpm_golden_numbers() -> None:
    leaves = leaf_log_probabilities(doubles(0.6, 0.3, 0.8)[None].logit()).exp()
    assert leaves[0].tolist() == pytest.approx([0.28, 0.12, 0.12, 0.48])
    mean, variance = moments(leaves, doubles(0.5, 1.5, 3, 6))  # middles of edges at 0, 1, 2, 4, 8
    assert mean.item() == pytest.approx(3.56)
    assert variance.sqrt().item() == pytest.approx(2.454873, abs=1e-6)


def test_cread_golden_numbers() -> None:
    assert restored_value(doubles(0.9, 0.6, 0.3, 0.05)[None], doubles(1, 2, 4, 8)).item() == pytest.approx(2.3)
    assert error_adaptive_levels(4, 1.0) == pytest.approx([0.349932, 0.622459, 0.834704, 1], abs=1e-6)
    assert error_adaptive_levels(7, 1e-6) == pytest.approx(error_adaptive_levels(7, 0.0), abs=1e-6)


def test_branches_of_leaves_are_the_inverse_and_only_those_on_the_way_are_trained() -> None:
    leaves = torch.rand(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    leaves = leaves / leaves.sum()
    assert torch.allclose(leaf_log_probabilities(branch_logits(leaves)[None]).exp()[0], leaves)
    logits = torch.zeros(1, 7, requires_grad=True)
    leaf_log_probabilities(logits)[0, 5].backward()
    assert logits.grad is not None
    assert logits.grad[0].nonzero()[:, 0].tolist() == [0, 2, 5]  # the root, its right half, the left quarter of that
    assert nodes_that_lead_right(torch.tensor([True, True, True, False])).tolist() == [True, True, False]


def test_repeated_quantiles_count_once() -> None:
    ordered = np.array([0.0, 0.0, 0.0, 0.5, 0.75, 1.0])
    assert thresholds_at(ordered, np.arange(1, 7) / 6).tolist() == [0.0, 0.5, 0.75, 1.0]


def test_alpha_is_the_best_of_the_grid() -> None:
    # By hand: steps 0.2 and 0.8, three quarters of the rows below the first threshold.
    learning = (0.75**2 + 0.25**2) * (0.2**2 / 0.75 + 0.8**2 / 0.25)
    restoring = (0.75**2 + 0.25**2) * (0.2**2 + 0.8**2)
    found = discretisation_error(np.array([0.2, 1.0]), np.array([0.75, 1.0]), 50.0)
    assert found == pytest.approx(learning + 50 * restoring)
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
    method = METHODS[name](2)
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
    y = torch.rand(512, generator=torch.Generator().manual_seed(0)) ** 3
    y[:64] = 0
    method = METHODS[name](1)
    method.prepare(y)
    with torch.no_grad():
        method.output.weight.zero_()
        if isinstance(method, PTPM):
            method.output.bias.zero_()
        start = method.distribution(torch.zeros(1, 1))
    asked = torch.tensor([[0.05, 0.2, 0.5, 0.8, 0.0]])[:, : 5 if name == "cread" else 4]  # it knows how many are zero
    assert torch.allclose(start.cdf(asked)[0], (y[:, None] <= asked).float().mean(dim=0), atol=0.03)


# --- what distinguishes them ---


def test_leaves_that_no_target_reaches_have_no_probability_and_the_largest_target_has_one() -> None:
    y = torch.cat([torch.zeros(80), torch.linspace(0.1, 1, 20)])
    method = TPM(3, n_leaves=32)
    method.prepare(y)
    probabilities = method.distribution(torch.randn(5, 3)).probabilities
    reachable = method.binning.reachable
    assert 2 < reachable.sum() < 32
    assert (probabilities[:, ~reachable] == 0).all()
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(5))
    terms = method.loss(torch.zeros(1, 3), torch.ones(1))
    last = method.distribution(torch.zeros(1, 3)).probabilities[0, reachable.sum() - 1]
    assert terms["tree"].item() == pytest.approx(-math.log(last.item()), abs=1e-5)


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


def test_cread_restores_from_the_exceedances_themselves_and_punishes_those_that_rise() -> None:
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
    assert method.loss(torch.zeros(1, 1), torch.zeros(1))["order"].item() == pytest.approx(0.01 * 0.3)
