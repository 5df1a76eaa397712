"""Methods that spread each label over its neighbours: a bin close to the target is not as wrong as one far away."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from diffor.core.distribution import Distribution, decide_as_class
from diffor.core.method import Method
from diffor.methods.baselines.bins import BinMethod, moments
from diffor.methods.baselines.settings import check_not_negative, check_positive
from diffor.methods.baselines.vote_histograms import VoteMethod

LEAST_VARIANCE = 0.05
"""In squared scores: voters who all agree leave a label on one score, not one without any width."""


def spread_labels(costs: Tensor, reachable: Tensor | None = None) -> Tensor:
    """Label distributions that fall off exponentially with the cost of each bin. **Shape:** ``(n, K)``, kept.

    >>> spread_labels(torch.tensor([[0.0, 0.0, 9e9]])).tolist()
    [[0.5, 0.5, 0.0]]
    """
    return (-costs if reachable is None else (-costs).masked_fill(~reachable, -torch.inf)).softmax(dim=1)


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with label distributions. **Shape:** ``(n, K)``, ``(n, K)`` -> ``(n,)``.

    It differs from the divergence of Kullback and Leibler by the labels' entropy, so not in its gradient.
    """
    return -(labels * log_softmax(logits, dim=1)).sum(dim=1)


def distances(position: Tensor, n_bins: int) -> Tensor:
    """Distances from positions to all bins, in bins. **Shape:** ``(n,)`` -> ``(n, K)``."""
    return (torch.arange(n_bins, device=position.device) - position[:, None]).abs()


class LabelDistributionMethod(BinMethod):
    """Cross-entropy with a label distribution; how labels spread is the subclass's affair."""

    @abstractmethod
    def costs(self, y: Tensor) -> Tensor:
        """Cost of each bin, zero or least at the target. **Shape:** ``(n,)`` -> ``(n, K)``."""

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the spread labels."""
        return {"labels": soft_cross_entropy(logits, spread_labels(self.costs(y), self.binning.reachable))}


class GaussianLabels(VoteMethod, LabelDistributionMethod):
    """DLDL (Gao et al., 2017): labels spread as a normal around the target itself, not around its bin.

    Where ``votes`` are given in training, their shares are the label distribution.

    ``sigma`` is in bins; left at None it is the source's two years, which are two of its classes.

    NOTE[DIFF]: but it is at most a tenth of the number of bins: two of five grades would make all labels alike.
    """

    title, paper, evidence = "DLDL", "Gao et al., TIP 2017", "reimplementation"

    def __init__(
        self, n_features: int, *, sigma: float | None = None, n_grades: int | None = None, n_bins: int = 50,
        policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_positive(sigma=sigma)
        self.sigma = min(2.0, self.binning.n_bins / 10) if sigma is None else sigma

    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the votes."""
        return {"labels": soft_cross_entropy(logits, shares)}

    def costs(self, y: Tensor) -> Tensor:
        """Half the squared distance in units of sigma."""
        return (distances(self.binning.position(y), self.binning.n_bins) / self.sigma).square() / 2


class GaussianLabelsWithMean(GaussianLabels):
    """DLDL-v2 (Gao et al., 2018): normal labels, and the absolute error of the expectation."""

    title, paper, evidence = "DLDL-v2", "Gao et al., IJCAI 2018", "code"

    def __init__(
        self, n_features: int, *, sigma: float | None = None, mean_weight: float = 1.0, n_grades: int | None = None,
        n_bins: int = 50, policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, sigma=sigma, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_not_negative(mean_weight=mean_weight)
        self.mean_weight = mean_weight

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the spread labels, and the absolute error of the expected bin."""
        return {**super().penalties(logits, y), "mean": self.mean_penalty(logits, self.binning.position(y))}

    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the votes, and the absolute error of the expected score."""
        terms = super().vote_penalties(logits, y, shares)
        return {**terms, "mean": self.mean_penalty(logits, y * (self.binning.n_bins - 1))}

    def mean_penalty(self, logits: Tensor, position: Tensor) -> Tensor:
        """Absolute error of the expected bin, by its weight. **Shape:** ``(n, K)``, ``(n,)`` -> ``(n,)``."""
        return self.mean_weight * (moments(logits.softmax(dim=1))[0] - position).abs()


class SoftOrdinalLabels(LabelDistributionMethod):
    """SORD (Diaz and Marathe, 2019): labels fall off with the distance from the target's class.

    ``alpha`` is per bin. NOTE[DIFF]: a value is decided on by the mean; the source decides between classes, as is done
    for grades here.
    """

    title, paper, evidence = "SORD", "Diaz and Marathe, CVPR 2019", "reimplementation"
    native_statistic = "own"
    distance_power: ClassVar[int] = 1

    def __init__(
        self, n_features: int, *, alpha: float = 1.0, n_grades: int | None = None, n_bins: int = 50,
        policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_positive(alpha=alpha)
        self.alpha = alpha

    def costs(self, y: Tensor) -> Tensor:
        """Distance from the target's bin, or its square."""
        index = self.binning.index(y).to(y)
        return self.alpha * distances(index, self.binning.n_bins).pow(self.distance_power)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The most probable grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return decide_as_class(distribution)


class SquaredSoftOrdinalLabels(SoftOrdinalLabels):
    """SORD (Diaz and Marathe, 2019) with squared distances.

    >>> SquaredSoftOrdinalLabels(n_features=4, n_grades=3).costs(torch.tensor([0.0])).tolist()
    [[0.0, 1.0, 4.0]]
    """

    title = "SORD, squared distances"
    distance_power: ClassVar[int] = 2


class UnifiedLabels(VoteMethod, LabelDistributionMethod):
    """UIAA (Zeng et al., 2019): labels of all kinds as normal distributions over ten scores.

    A label is proportional to ``exp(-distance ** 2 / variance)``, with distances in scores and without the factor two
    of a normal density, as the authors' code has it. Other numbers of bins cover the same nine steps between scores.

    Where ``votes`` are given in training, a label has the mean and the variance of its own picture's, as in the source.
    ``variance`` is for rows without votes, by default near the mean of the AVA data set.

    NOTE[DIFF]: single targets have no variance of their own, so all of them share one.
    """

    title, paper, evidence = "UIAA", "Zeng et al., TIP 2019", "code"

    def __init__(
        self, n_features: int, *, variance: float = 2.0, n_grades: int | None = None, n_bins: int = 10,
        policy: str = "uniform",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_positive(variance=variance)
        self.variance = variance

    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with normal labels of each picture's own mean and variance."""
        n_bins = self.binning.n_bins
        mean, variance = moments(shares)
        costs = distances(mean, n_bins).square() / variance.clamp(min=LEAST_VARIANCE)[:, None]
        return {"labels": soft_cross_entropy(logits, spread_labels(costs))}

    def costs(self, y: Tensor) -> Tensor:
        """Squared distance in units of the variance."""
        n_bins = self.binning.n_bins
        return (distances(self.binning.position(y), n_bins) * (9 / (n_bins - 1))).square() / self.variance


LABEL_DISTRIBUTION_METHODS: dict[str, type[Method]] = {
    "dldl": GaussianLabels,
    "dldl-v2": GaussianLabelsWithMean,
    "sord": SoftOrdinalLabels,
    "sord-squared": SquaredSoftOrdinalLabels,
    "uiaa": UnifiedLabels,
}
"""Methods that spread each label over its neighbours, by name."""
