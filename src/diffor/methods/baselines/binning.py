"""Bins of [0, 1]: the classes that methods made for classification are given in place of a target."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from diffor.core.distribution import Bins, DistributionMethod, Steps
from diffor.errors import UserError, check_choice

POLICIES = ("grades", "uniform", "quantile")


class Binning(nn.Module):
    """Rising bins of [0, 1], fitted to training targets, with one place that stands for each.

    - ``"grades"``: the bins are K ordered grades; grade k lies at ``k / (K - 1)``, and that is its place.
    - ``"uniform"``: bins of one width.
    - ``"quantile"``: bins that hold equally many training targets. Where targets repeat, fewer bins are left; the
      others stand at the upper end, without width, and no target falls into them: they are not ``reachable``.

    A bin holds its lower edge; the last one holds both. What lies beyond the edges counts as in the first or last bin.
    For values, the place of a bin is the mean of its training targets, or its middle where there are none.

    **Shape:** ``edges (n_bins + 1,)``, ``places (n_bins,)``.

    >>> binning = Binning(2, "quantile")
    >>> binning.fit(torch.tensor([0.0, 0.1, 0.2, 0.4, 1.0]))
    >>> [round(edge, 2) for edge in binning.edges.tolist()], [round(place, 2) for place in binning.places.tolist()]
    ([0.0, 0.2, 1.0], [0.05, 0.53])
    """

    UNREACHABLE: ClassVar[float] = -1e4
    """Logit of a bin that no target falls into: far below all others, and still finite, so that its gradient is."""

    edges: Tensor
    places: Tensor

    def __init__(self, n_bins: int, policy: str = "quantile") -> None:
        super().__init__()
        check_choice("policy", policy, POLICIES)
        if n_bins < 2:
            raise UserError(f"there must be at least 2 bins or grades, but got {n_bins}")
        self.n_bins, self.policy = n_bins, policy
        self.register_buffer("edges", torch.arange(n_bins + 1) / n_bins)
        self.register_buffer("places", (self.edges[1:] + self.edges[:-1]) / 2)
        if policy == "grades":
            self.stand_at(torch.arange(n_bins) / (n_bins - 1))

    @torch.no_grad()
    def fit(self, y: Tensor) -> None:
        """Look at the training targets; grades need not be looked at. **Shape:** ``(n,)``."""
        if self.policy == "grades":
            return
        if self.policy == "quantile":  # targets at even ranks, each once, the largest repeated to the full number
            ranks = torch.linspace(0, len(y) - 1, self.n_bins + 1, dtype=torch.float64, device=y.device).round().long()
            edges = torch.unique(y.to(self.edges).sort().values[ranks])
            self.edges.copy_(torch.cat([edges, edges[-1:].expand(self.n_bins + 1 - len(edges))]))
        index = self.index(y)
        counts = torch.bincount(index, minlength=self.n_bins)
        # Sums of many single-precision numbers lose digits, and a place must not leave its bin.
        sums = torch.bincount(index, y.double(), minlength=self.n_bins)
        means = (sums / counts.clamp(min=1)).to(self.places)
        low, high = self.edges[:-1], self.edges[1:]
        self.places.copy_(torch.where(counts > 0, means, (low + high) / 2).clamp(low, high))

    @torch.no_grad()
    def stand_at(self, places: Tensor) -> None:
        """Let the bins stand for rising places from 0 to 1, with edges half way between. **Shape:** ``(n_bins,)``."""
        self.places.copy_(places)
        self.edges[1:-1].copy_((places[1:] + places[:-1]) / 2)

    @property
    def reachable(self) -> Tensor:
        """Whether targets can fall into each bin. **Shape:** ``(n_bins,)`` bool."""
        has_width = self.edges[1:] > self.edges[:-1]
        return has_width | (torch.arange(self.n_bins, device=self.edges.device) == 0)

    def index(self, y: Tensor) -> Tensor:
        """The bin that each target falls into. **Shape:** ``(n,)`` -> ``(n,)`` int64."""
        if self.policy == "grades":
            return (y * (self.n_bins - 1)).round().long().clamp(0, self.n_bins - 1)
        place = torch.searchsorted(self.edges[1:-1].contiguous(), y.to(self.edges).contiguous(), right=True)
        return place.minimum(self.reachable.sum() - 1)

    def position(self, y: Tensor) -> Tensor:
        """Where each target lies, counted in bins: k at the middle of bin k, k + 0.5 at its upper edge.

        This is the unit in which methods made for classes know distances between labels. **Shape:** ``(n,)``, kept.
        """
        if self.policy == "grades":
            return y * (self.n_bins - 1)
        index = self.index(y)
        low, high = self.edges[index], self.edges[index + 1]
        share = torch.where(high > low, (y - low) / (high - low), 0.5).clamp(0, 1)
        return index + share - 0.5

    def shares(self, y: Tensor) -> Tensor:
        """Share of each bin among the targets, as if each held one more. **Shape:** ``(n,)`` -> ``(n_bins,)``."""
        counts = torch.bincount(self.index(y), minlength=self.n_bins).to(self.edges)
        return (counts + 1) / (len(y) + self.n_bins)

    def mask(self, logits: Tensor) -> Tensor:
        """Logits with those of unreachable bins far below all others. **Shape:** ``(n, n_bins)``, kept."""
        return logits if self.policy != "quantile" else logits.masked_fill(~self.reachable, self.UNREACHABLE)

    def distribution(self, probabilities: Tensor) -> Steps | Bins:
        """Steps at the grades, or bins of values, whose mean is that of the places. **Shape:** ``(n, n_bins)``."""
        if self.policy == "grades":
            return Steps(probabilities, self.places)
        reached = probabilities * self.reachable
        total = reached.sum(dim=1, keepdim=True)
        # Where all of the probability lies in bins that no target falls into, it goes to the last one before them.
        last = torch.arange(self.n_bins, device=reached.device) == self.reachable.sum() - 1
        return Bins(torch.where(total > 0, reached / total, last.to(reached)), self.edges, self.places)


class BinnedMethod(DistributionMethod):
    """A method of classes: the grades where there are grades, else ``n_bins`` bins of values by the policy."""

    def __init__(self, n_grades: int | None, n_bins: int, policy: str) -> None:
        super().__init__()
        if n_grades is None and policy == "grades":
            raise UserError("policy='grades' needs the number of grades, but got n_grades=None; pass n_grades")
        self.binning = Binning(n_bins, policy) if n_grades is None else Binning(n_grades, "grades")

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Fit the bins and start from their shares. **Shape:** ``(n,)``."""
        self.binning.fit(y)
        self.start(self.binning.shares(y))

    def start(self, shares: Tensor) -> None:
        """Set what features of zero give to the shares of the bins. **Shape:** ``(K,)``."""

    @abstractmethod
    def probabilities(self, features: Tensor) -> Tensor:
        """Probability of each bin. **Shape:** ``(n, d)`` -> ``(n, K)``."""

    def distribution(self, features: Tensor, **side: Tensor) -> Steps | Bins:
        """Steps at the grades, or bins of values. **Shape:** ``(n, d)`` -> n distributions."""
        return self.binning.distribution(self.probabilities(features))


def moments(probabilities: Tensor, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and variance on places, or of the bin's number. **Shape:** ``(n, K)``, ``(K,)`` -> ``(n,)``, ``(n,)``.

    >>> [moment.tolist() for moment in moments(torch.tensor([[0.5, 0.0, 0.5]]))]
    [[1.0], [1.0]]
    """
    if places is None:
        places = torch.arange(probabilities.shape[1], device=probabilities.device).to(probabilities)
    mean = probabilities @ places
    return mean, (probabilities * (places - mean[:, None]).square()).sum(dim=1)
