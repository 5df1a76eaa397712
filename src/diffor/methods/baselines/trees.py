"""Watch time as a sequence of yes-or-no questions: the trees of TPM and PTPM."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.distribution import Bins, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.binning import Binning, moments
from diffor.methods.baselines.settings import check_not_negative

TINY = 1e-12
"""What keeps logarithms and roots of probabilities and variances finite."""


class TPM(DistributionMethod):
    """Descends a binary tree of quantile ranges of the target, one predicted branch after the other.

    Lin et al., KDD 2023, from the paper and a port, whose faults are left out. Only the questions on the way to a row's
    own leaf are trained; its prediction is the expected middle of a leaf.

    **Shape:** features ``(n, d)`` -> n distributions over the leaves.
    """

    family, tasks, native_statistic = "watch time", ("value",), "mean"
    title, paper, evidence = "TPM", "Lin et al., KDD 2023", "paper"

    # NOTE[DIFF] the port sums the spread over the batch, with weight 1e-4: for 500 rows, 0.05 of the mean.
    def __init__(
        self, n_features: int, *, n_leaves: int = 32, tree_weight: float = 1.0, spread_weight: float = 0.05,
        square_weight: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        check_leaves(n_leaves)
        check_not_negative(tree_weight=tree_weight, spread_weight=spread_weight, square_weight=square_weight)
        self.tree_weight, self.spread_weight, self.square_weight = tree_weight, spread_weight, square_weight
        self.binning = Binning(n_leaves, "quantile")
        self.output = nn.Linear(n_features, n_leaves - 1)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Cut the training targets into leaves, and start at their shares."""
        self.binning.fit(y)
        with torch.no_grad():
            self.output.bias.copy_(branch_logits(self.binning.shares(y)))

    def _log_leaves(self, features: Tensor) -> Tensor:
        """Log-probabilities of the leaves; of a right branch without reachable leaves, next to nothing is left."""
        closed = ~nodes_that_lead_right(self.binning.reachable)
        return leaf_log_probabilities(self.output(features).masked_fill(closed, Binning.UNREACHABLE))

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Likelihood of the leaf, spread of the prediction, and its squared error."""
        log_leaves = self._log_leaves(features)
        own = log_leaves.gather(1, self.binning.index(y)[:, None]).squeeze(1)
        mean, variance = moments(log_leaves.exp(), (self.binning.edges[1:] + self.binning.edges[:-1]) / 2)
        return {
            "tree": self.tree_weight * weighted_mean(-own, weights),
            "spread": self.spread_weight * weighted_mean((variance + TINY).sqrt(), weights),
            "square": self.square_weight * weighted_mean((mean - y).square(), weights),
        }

    def distribution(self, features: Tensor, **side: Tensor) -> Bins:
        """Probabilities of the leaves, spread evenly inside each."""
        return Bins(self._log_leaves(features).exp(), self.binning.edges)


def check_leaves(n_leaves: int) -> None:
    """Refuse a number of leaves that no complete binary tree has."""
    if n_leaves < 2 or n_leaves & (n_leaves - 1):
        raise UserError(f"n_leaves must be a power of two, 2 at least, but got n_leaves={n_leaves}")


def leaf_log_probabilities(logits: Tensor) -> Tensor:
    """Products of branches on the way to each leaf. **Shape:** right turns, top down ``(n, L - 1)`` -> ``(n, L)``."""
    reached = torch.zeros_like(logits[:, :1])
    for level in torch.split(logits, [2**depth for depth in range((logits.shape[1] + 1).bit_length() - 1)], dim=1):
        branches = functional.logsigmoid(torch.stack([-level, level], dim=2))
        reached = (reached[:, :, None] + branches).flatten(1)
    return reached


def branch_logits(leaves: Tensor) -> Tensor:
    """Log-odds of the right branches, top down, that give leaves their shares. **Shape:** ``(L,)`` -> ``(L - 1,)``."""
    halves = [leaves.view(2**depth, 2, -1).sum(dim=2) for depth in range(len(leaves).bit_length() - 1)]
    return torch.cat([(half[:, 1] / half[:, 0]).log() for half in halves])


def nodes_that_lead_right(reachable: Tensor) -> Tensor:
    """Whether any leaf right of each node, top down, can be reached. **Shape:** ``(L,)`` -> ``(L - 1,)``, bool."""
    n_levels = len(reachable).bit_length() - 1
    return torch.cat([reachable.view(2**depth, 2, -1).any(dim=2)[:, 1] for depth in range(n_levels)])


class PTPM(DistributionMethod):
    """A reconstruction: a tree as in TPM whose cuts each row places for itself.

    Known, from the abstract and summaries of Chen et al. (CIKM 2025), whose code is not public: in place of TPM's full
    binary tree each row has a tree of its own, learned from end to end; TPM's nodes suffer from selection, as each sees
    only the rows that reach it, and a simple change undoes it. Guessed: a row divides the training ranks among the
    leaves by predicted widths, learned through the likelihood of fine quantile cells; the probability to reach each
    node is learned on all rows; the weights of the terms, and that TPM's terms for spread and square stay.

    **Shape:** features ``(n, d)`` -> n distributions over the cells.
    """

    family, tasks, native_statistic = "watch time", ("value",), "mean"
    title, paper, evidence = "PTPM", "Chen et al., CIKM 2025", "notes"
    LEAST_WIDTH: ClassVar[float] = 0.01
    """Part of all ranks that is divided evenly, so that no leaf vanishes."""
    ranks: Tensor

    def __init__(
        self, n_features: int, *, n_leaves: int = 16, n_cells: int = 64, reach_weight: float = 1.0,
        spread_weight: float = 0.05, square_weight: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        check_leaves(n_leaves)
        self.n_leaves = n_leaves
        check_not_negative(reach_weight=reach_weight, spread_weight=spread_weight, square_weight=square_weight)
        self.reach_weight, self.spread_weight, self.square_weight = reach_weight, spread_weight, square_weight
        self.binning = Binning(n_cells, "quantile")
        self.output = nn.Linear(n_features, n_leaves - 1 + n_leaves)
        self.register_buffer("ranks", torch.arange(n_cells + 1) / n_cells)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Cut the training targets into cells, and count the rows up to each edge."""
        self.binning.fit(y)
        counts = torch.bincount(self.binning.index(y), minlength=self.binning.n_bins)
        self.ranks.copy_(functional.pad(counts.cumsum(0) / len(y), (1, 0)))

    def _tree(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of the leaves, and the part of all ranks that each covers. **Shape:** ``(n, L)`` each."""
        branches, logits = torch.split(self.output(features), [self.n_leaves - 1, self.n_leaves], dim=1)
        widths = (1 - self.LEAST_WIDTH) * logits.softmax(dim=1) + self.LEAST_WIDTH / self.n_leaves
        return leaf_log_probabilities(branches).exp(), widths

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Likelihood of the cell, cross-entropy of reaching the nodes, spread of the prediction, its squared error."""
        leaves, widths = self._tree(features)
        own = self.binning.index(y)
        common = common_ranks(widths, self.ranks[own], self.ranks[own + 1])
        likelihood = (leaves / widths * common).sum(dim=1)
        inside = (common / common.sum(dim=1, keepdim=True)).detach()
        middles = (self.binning.edges[1:] + self.binning.edges[:-1]) / 2
        mean, variance = moments(cell_probabilities(leaves, widths, self.ranks), middles)
        return {
            "cell": weighted_mean(-(likelihood + TINY).log(), weights),
            "reach": self.reach_weight * weighted_mean(reach_losses(leaves, inside), weights),
            "spread": self.spread_weight * weighted_mean((variance + TINY).sqrt(), weights),
            "square": self.square_weight * weighted_mean((mean - y).square(), weights),
        }

    def distribution(self, features: Tensor, **side: Tensor) -> Bins:
        """Probabilities of the cells, spread evenly inside each."""
        return Bins(cell_probabilities(*self._tree(features), self.ranks), self.binning.edges)


def common_ranks(widths: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Length that each leaf shares with one range of ranks. **Shape:** ``(n, L)``, ``(n,)``, ``(n,)`` -> ``(n, L)``."""
    cuts = functional.pad(widths.cumsum(dim=1), (1, 0))
    return (torch.minimum(cuts[:, 1:], high[:, None]) - torch.maximum(cuts[:, :-1], low[:, None])).clamp(min=0)


def cell_probabilities(leaves: Tensor, widths: Tensor, ranks: Tensor) -> Tensor:
    """What leaves, even by rank, give to cells. **Shape:** ``(n, L)``, ``(n, L)``, edges ``(C + 1,)`` -> ``(n, C)``."""
    cuts, reached = (functional.pad(parts.cumsum(dim=1), (1, 0)) for parts in (widths, leaves))
    asked = ranks.expand(len(leaves), -1).contiguous()
    leaf = torch.searchsorted(cuts[:, 1:-1].detach().contiguous(), asked)
    inside = (asked - cuts.gather(1, leaf)) / widths.gather(1, leaf)
    return (reached.gather(1, leaf) + leaves.gather(1, leaf) * inside).diff(dim=1).clamp(min=0)


def reach_losses(leaves: Tensor, inside: Tensor) -> Tensor:
    """Mean cross-entropy of reaching each node below the root. **Shape:** ``(n, L)``, shares ``(n, L)`` -> ``(n,)``."""
    sizes = [2**depth for depth in range(1, leaves.shape[1].bit_length())]
    reached, wanted = (
        torch.cat([parts.reshape(len(parts), size, -1).sum(dim=2) for size in sizes], dim=1).clamp(0, 1)
        for parts in (leaves, inside)
    )
    return functional.binary_cross_entropy(reached, wanted, reduction="none").mean(dim=1)
