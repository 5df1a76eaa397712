"""Methods that predict, for each border between ranks, whether the target lies above it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, pad

from diffor.core.distribution import Distribution, DistributionMethod, Steps, middle_place
from diffor.core.method import Method, weighted_mean
from diffor.methods.baselines.binning import make_binning


def borders_passed(index: Tensor, n_bins: int) -> Tensor:
    """Whether each rank lies above each border. **Shape:** ``(n,)`` -> ``(n, n_bins - 1)`` bool.

    >>> borders_passed(torch.tensor([1]), n_bins=4).tolist()
    [[True, False, False]]
    """
    return index[:, None] > torch.arange(n_bins - 1, device=index.device)


def rank_probabilities(above: Tensor) -> Tensor:
    """Probability of each rank from those of lying above each border. **Shape:** ``(n, K - 1)`` -> ``(n, K)``.

    Where the probabilities of lying above rise from one border to the next, which cannot be, the lower one holds.

    >>> rank_probabilities(torch.tensor([[0.75, 0.25], [0.5, 0.75]])).tolist()
    [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]]
    """
    falling = above.cummin(dim=1).values
    return pad(falling, (1, 0), value=1.0) - pad(falling, (0, 1), value=0.0)


class SharedDirection(nn.Module):
    """One direction in the features for all borders, and a bias of its own for each.

    **Shape:** ``(n, d)`` -> ``(n, K - 1)``.
    """

    def __init__(self, n_features: int, n_borders: int) -> None:
        super().__init__()
        self.direction = nn.Linear(n_features, 1, bias=False)
        self.bias = nn.Parameter(torch.arange(n_borders, 0, -1) / n_borders)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the borders."""
        logits: Tensor = self.direction(features) + self.bias
        return logits


class RankMethod(DistributionMethod):
    """One logit for each border between ranks; what it means and which loss it has is the subclass's affair.

    With ``n_grades`` the ranks are the grades; without, they are ``n_bins`` bins of values by ``policy``. A grade is
    decided on by counting the borders that are passed more likely than not, which is the median; a value by the mean,
    because counts tie.

    NOTE[DIFF]: the biases start where they fit the training shares of the ranks. The sources start near zero, from
    where the borders of small tables do not arrive before training must stop. And borders are counted after
    probabilities that rise from border to border have been cut to fall.
    """

    family = "ranks"
    native_statistic = "own"
    head: nn.Linear | SharedDirection

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile"
    ) -> None:
        super().__init__()
        self.binning = make_binning(n_grades, n_bins, policy)
        self.head = nn.Linear(n_features, self.binning.n_bins - 1)

    def prepare(self, y: Tensor, **side: Tensor) -> None:
        """Fit the ranks and start from their shares. **Shape:** ``(n,)``."""
        self.binning.fit(y)
        with torch.no_grad():
            self.start(self.binning.shares(y))

    @abstractmethod
    def start(self, shares: Tensor) -> None:
        """Set the biases so that features of zero give these shares. **Shape:** ``(K,)``."""

    @abstractmethod
    def above(self, logits: Tensor) -> Tensor:
        """Probability of lying above each border. **Shape:** ``(n, K - 1)``, kept."""

    def logits(self, features: Tensor) -> Tensor:
        """Logits of the borders. **Shape:** ``(n, d)`` -> ``(n, K - 1)``."""
        logits: Tensor = self.head(features)
        return logits

    def distribution(self, features: Tensor, **side: Tensor) -> Distribution:
        """Steps at the grades, or bins of values. **Shape:** ``(n, d)`` -> n distributions."""
        return self.binning.distribution(rank_probabilities(self.above(self.logits(features))))

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The number of borders passed as a grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return middle_place(distribution) if isinstance(distribution, Steps) else distribution.mean


class CumulativeMethod(RankMethod):
    """A logit is that of lying above its border."""

    def start(self, shares: Tensor) -> None:
        """Biases are the logits of the shares above each border."""
        self.head.bias.copy_(shares_above(shares).logit())

    def above(self, logits: Tensor) -> Tensor:
        """The logits' own probabilities."""
        return logits.sigmoid()

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Sum over borders, mean over rows. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        rows = cumulative_penalty(self.logits(features), self.binning.index(y))
        return {"borders": weighted_mean(rows, weights)}


class IndependentBorders(CumulativeMethod):
    """OR-CNN (Niu et al., 2016): an independent yes or no for each border, from a released reimplementation."""

    title, paper, evidence = "OR-CNN", "Niu et al., CVPR 2016", "reimplementation"


class SharedBorders(CumulativeMethod):
    """CORAL (Cao et al., 2020), from the authors' code: all borders share one direction in the features.

    So the distributions of all rows are one family, shifted; none can be wider than another.

    >>> method = SharedBorders(n_features=4, n_grades=5)
    >>> [len(parameter) for parameter in method.parameters()]
    [4, 1]
    """

    title, paper, evidence = "CORAL", "Cao et al., PRL 2020", "code"

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile"
    ) -> None:
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        self.head = SharedDirection(n_features, self.binning.n_bins - 1)


class ConditionalMethod(RankMethod):
    """A logit is that of passing its border after having passed all before."""

    def start(self, shares: Tensor) -> None:
        """Biases are the logits of the shares that pass each border among those that came so far."""
        above = shares_above(shares)
        arrived = torch.cat([above.new_ones(1), above[:-1]])
        self.head.bias.copy_((above / arrived).logit())

    def above(self, logits: Tensor) -> Tensor:
        """Products of the probabilities of passing."""
        return logsigmoid(logits).cumsum(dim=1).exp()


class ConditionalBorders(ConditionalMethod):
    """CORN (Shi et al., 2021), from the authors' code: each border learns only from the rows that came so far.

    >>> method = ConditionalBorders(n_features=4, n_grades=4)
    >>> method.above(torch.zeros(1, 3)).tolist()
    [[0.5, 0.25, 0.125]]
    """

    title, paper, evidence = "CORN", "Shi et al., PAA 2023", "code"

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean over all pairs of a row and a border that it arrived at. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)``."""
        logits, index = self.logits(features), self.binning.index(y)
        asked = borders_arrived(index, self.binning.n_bins).sum(dim=1).to(logits)
        per_border = weighted_mean(asked, weights).clamp(min=torch.finfo(logits.dtype).tiny)
        return {"borders": weighted_mean(conditional_penalty(logits, index), weights) / per_border}


class ConditionalLikelihood(ConditionalMethod):
    """CONDOR (Jenkinson et al., 2022), from the authors' code, with their likelihood: CORN's up to its divisor."""

    title, paper, evidence = "CONDOR, likelihood", "Jenkinson et al., arXiv 2022", "code"

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Sum over the borders arrived at, mean over rows. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        rows = conditional_penalty(self.logits(features), self.binning.index(y))
        return {"borders": weighted_mean(rows, weights)}


class MarginalBorders(ConditionalMethod):
    """CONDOR (Jenkinson et al., 2022), from the authors' code, with their default: cross-entropy of lying above."""

    title, paper, evidence = "CONDOR", "Jenkinson et al., arXiv 2022", "code"

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Sum over borders, mean over rows. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        rows = marginal_penalty(self.logits(features), self.binning.index(y))
        return {"borders": weighted_mean(rows, weights)}


def shares_above(shares: Tensor) -> Tensor:
    """Share of the rows above each border. **Shape:** ``(K,)`` -> ``(K - 1,)``.

    >>> shares_above(torch.tensor([0.5, 0.25, 0.25])).tolist()
    [0.5, 0.25]
    """
    return shares.flip(0).cumsum(dim=0).flip(0)[1:]


def borders_arrived(index: Tensor, n_bins: int) -> Tensor:
    """Whether each rank has passed all borders before each border. **Shape:** ``(n,)`` -> ``(n, n_bins - 1)`` bool."""
    return index[:, None] >= torch.arange(n_bins - 1, device=index.device)


def cumulative_penalty(logits: Tensor, index: Tensor) -> Tensor:
    """Cross-entropies of lying above each border, summed. **Shape:** ``(n, K - 1)``, ``(n,)`` -> ``(n,)``."""
    passed = borders_passed(index, logits.shape[1] + 1).to(logits)
    return binary_cross_entropy_with_logits(logits, passed, reduction="none").sum(dim=1)


def conditional_penalty(logits: Tensor, index: Tensor) -> Tensor:
    """Cross-entropies of passing each border arrived at, summed. **Shape:** ``(n, K - 1)``, ``(n,)`` -> ``(n,)``."""
    n_bins = logits.shape[1] + 1
    each = binary_cross_entropy_with_logits(logits, borders_passed(index, n_bins).to(logits), reduction="none")
    return (each * borders_arrived(index, n_bins)).sum(dim=1)


def marginal_penalty(logits: Tensor, index: Tensor) -> Tensor:
    """Cross-entropies of lying above each border by the product of passing. **Shape:** ``(n, K - 1)``, ``(n,)``."""
    log_above = logsigmoid(logits).cumsum(dim=1)
    # Exactly zero has no logarithm of its complement; far below single precision it is finite.
    log_below = torch.log(-torch.expm1(log_above.clamp(max=-1e-30)))
    return -torch.where(borders_passed(index, logits.shape[1] + 1), log_above, log_below).sum(dim=1)


RANK_METHODS: dict[str, type[Method]] = {
    "or-cnn": IndependentBorders,
    "coral": SharedBorders,
    "corn": ConditionalBorders,
    "condor": MarginalBorders,
    "condor-nll": ConditionalLikelihood,
}
"""Methods that predict whether the target lies above each border, by name."""
