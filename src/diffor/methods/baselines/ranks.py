"""Methods that predict, for each border between ranks, whether the target lies above it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, pad

from diffor.core.distribution import Distribution, Steps, middle_place
from diffor.core.method import weighted_mean
from diffor.methods.baselines.binning import BinnedMethod


def borders_passed(index: Tensor, n_borders: int) -> Tensor:
    """Whether each rank lies above each border. **Shape:** ``(n,)`` -> ``(n, n_borders)`` bool.

    >>> borders_passed(torch.tensor([1]), n_borders=3).tolist()
    [[True, False, False]]
    """
    return index[:, None] > torch.arange(n_borders, device=index.device)


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


class RankMethod(BinnedMethod):
    """One logit for each border between ranks; what it means and which loss it has is the subclass's affair.

    With ``n_grades`` the ranks are the grades; without, they are ``n_bins`` bins of values by ``policy``. A grade is
    decided on by counting the borders that are passed more likely than not, which is the median; a value by the mean,
    because counts tie.

    NOTE[DIFF]: the biases start where they fit the training shares of the ranks. The sources start near zero, from
    where the borders of small tables do not arrive before training must stop. And borders are counted after
    probabilities that rise from border to border have been cut to fall.
    """

    family, native_statistic = "ranks", "own"
    head: nn.Linear | SharedDirection

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile"
    ) -> None:
        super().__init__(n_grades, n_bins, policy)
        self.head = nn.Linear(n_features, self.binning.n_bins - 1)

    def start(self, shares: Tensor) -> None:
        """Set the biases by the shares above each border."""
        self.start_above(shares.flip(0).cumsum(dim=0).flip(0)[1:])

    @abstractmethod
    def start_above(self, above: Tensor) -> None:
        """Set the biases so that features of zero give these shares above each border. **Shape:** ``(K - 1,)``."""

    @abstractmethod
    def above(self, logits: Tensor) -> Tensor:
        """Probability of lying above each border. **Shape:** ``(n, K - 1)``, kept."""

    @abstractmethod
    def penalty(self, logits: Tensor, index: Tensor) -> Tensor:
        """Loss of each row, summed over the borders. **Shape:** ``(n, K - 1)``, ``(n,)`` -> ``(n,)``."""

    def logits(self, features: Tensor) -> Tensor:
        """Logits of the borders. **Shape:** ``(n, d)`` -> ``(n, K - 1)``."""
        logits: Tensor = self.head(features)
        return logits

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Sum over borders, mean over rows. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        return {"borders": weighted_mean(self.penalty(self.logits(features), self.binning.index(y)), weights)}

    def probabilities(self, features: Tensor) -> Tensor:
        """Differences of the probabilities of lying above, made to fall."""
        return rank_probabilities(self.above(self.logits(features)))

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The number of borders passed as a grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return middle_place(distribution) if isinstance(distribution, Steps) else distribution.mean


class IndependentBorders(RankMethod):
    """OR-CNN (Niu et al., 2016): an independent yes or no for each border, from a released reimplementation."""

    title, paper, evidence = "OR-CNN", "Niu et al., CVPR 2016", "reimplementation"

    def start_above(self, above: Tensor) -> None:
        """Biases are the logits of the shares."""
        self.head.bias.copy_(above.logit())

    def above(self, logits: Tensor) -> Tensor:
        """The logits' own probabilities."""
        return logits.sigmoid()

    def penalty(self, logits: Tensor, index: Tensor) -> Tensor:
        """Cross-entropies of lying above each border."""
        passed = borders_passed(index, logits.shape[1]).to(logits)
        return binary_cross_entropy_with_logits(logits, passed, reduction="none").sum(dim=1)


class SharedBorders(IndependentBorders):
    """CORAL (Cao et al., 2020), from the authors' code: all borders share one direction in the features.

    So the distributions of all rows are one family, shifted; none can be wider than another.
    """

    title, paper, evidence = "CORAL", "Cao et al., PRL 2020", "code"

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile"
    ) -> None:
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        self.head = SharedDirection(n_features, self.binning.n_bins - 1)


class ConditionalLikelihood(RankMethod):
    """CONDOR (Jenkinson et al., 2022), from the authors' code, with their likelihood: CORN's up to its divisor.

    A logit is that of passing its border after having passed all before.
    """

    title, paper, evidence = "CONDOR, likelihood", "Jenkinson et al., arXiv 2022", "code"

    def start_above(self, above: Tensor) -> None:
        """Biases are the logits of the shares that pass each border among those that came so far."""
        arrived = torch.cat([above.new_ones(1), above[:-1]])
        self.head.bias.copy_((above / arrived).logit())

    def above(self, logits: Tensor) -> Tensor:
        """Products of the probabilities of passing."""
        return logsigmoid(logits).cumsum(dim=1).exp()

    def arrived(self, index: Tensor) -> Tensor:
        """Whether each rank has passed all borders before each border. **Shape:** ``(n,)`` -> ``(n, K - 1)`` bool."""
        return borders_passed(index + 1, self.binning.n_bins - 1)

    def penalty(self, logits: Tensor, index: Tensor) -> Tensor:
        """Cross-entropies of passing each border arrived at."""
        passed = borders_passed(index, logits.shape[1]).to(logits)
        return (binary_cross_entropy_with_logits(logits, passed, reduction="none") * self.arrived(index)).sum(dim=1)


class ConditionalBorders(ConditionalLikelihood):
    """CORN (Shi et al., 2021), from the authors' code: each border learns only from the rows that came so far."""

    title, paper, evidence = "CORN", "Shi et al., PAA 2023", "code"

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean over all pairs of a row and a border that it arrived at. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)``."""
        asked = self.arrived(self.binning.index(y)).sum(dim=1).to(features)
        per_border = weighted_mean(asked, weights).clamp(min=torch.finfo(features.dtype).tiny)
        return {"borders": super().loss(features, y, weights)["borders"] / per_border}


class MarginalBorders(ConditionalLikelihood):
    """CONDOR (Jenkinson et al., 2022), from the authors' code, with their default: cross-entropy of lying above."""

    title = "CONDOR"

    def penalty(self, logits: Tensor, index: Tensor) -> Tensor:
        """Cross-entropies of lying above each border by the product of passing."""
        log_above = logsigmoid(logits).cumsum(dim=1)
        # Exactly zero has no logarithm of its complement; far below single precision it is finite.
        log_below = torch.log(-torch.expm1(log_above.clamp(max=-1e-30)))
        return -torch.where(borders_passed(index, logits.shape[1]), log_above, log_below).sum(dim=1)
