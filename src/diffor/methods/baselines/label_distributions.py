"""Methods whose labels are distributions: spread over the neighbours of the target's bin, or how people voted."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from diffor.core.distribution import Distribution, decide_as_class
from diffor.core.method import weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.binning import moments
from diffor.methods.baselines.bins import BinMethod
from diffor.methods.baselines.settings import check_not_negative, check_positive

LEAST_VARIANCE = 0.05
"""In squared scores: voters who all agree leave a label on one score, not one without any width."""
TOLERANCE = 0.01
"""How far means of votes may lie from the targets, as a share of the range: files round."""


def spread_labels(costs: Tensor, reachable: Tensor | None = None) -> Tensor:
    """Label distributions that fall off exponentially with the cost of each bin. **Shape:** ``(n, K)``, kept."""
    return (-costs if reachable is None else (-costs).masked_fill(~reachable, -torch.inf)).softmax(dim=1)


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with label distributions. **Shape:** ``(n, K)``, ``(n, K)`` -> ``(n,)``.

    It differs from the divergence of Kullback and Leibler by the labels' entropy, so not in its gradient.
    """
    return -(labels * log_softmax(logits, dim=1)).sum(dim=1)


def vote_shares(votes: Tensor) -> Tensor:
    """Each row's votes as shares, all 0 where there are none. **Shape:** ``(n, K)``, kept."""
    return votes / votes.sum(dim=1, keepdim=True).clamp(min=torch.finfo(votes.dtype).tiny)


class VoteMethod(BinMethod):
    """Bins that stand for scores where ``votes`` are given: counts of each row's votes, one column for each bin.

    The scores lie evenly from one end of the range to the other, so that ten votes from 1 to 10 need
    ``bounds=(1, 10)``. The distribution is then that of a *vote*, wider than what is known about their mean; its mean
    is the prediction. Predictions need no votes. Without votes it is as if all were in the target's bin.
    """

    learns_from = ("votes",)

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Fit the bins, or make them scores, and start from their shares. **Shape:** ``(n,)``, votes ``(n, K)``."""
        if "votes" not in side:
            super().fit_targets(y)
            return
        votes, n_bins = side["votes"], self.binning.n_bins
        if votes.ndim != 2 or votes.shape[1] != n_bins:
            raise UserError(
                f"votes must have one column for each of n_bins={n_bins} scores, but their shape is "
                f"{tuple(votes.shape)}; pass n_bins={votes.shape[-1] if votes.ndim == 2 else 10}"
            )
        if bool((votes < 0).any()) or not bool((votes.sum(dim=1) > 0).all()):
            raise UserError("votes must be counts, at least one in each row, but some are negative or rows have none")
        shares = vote_shares(votes)
        places = torch.linspace(0, 1, n_bins, device=y.device)
        distance = float((shares @ places - y).abs().max())
        if distance > TOLERANCE:
            raise UserError(
                "the targets must be the means of their votes, with bounds that are the first and the last score, but "
                f"they differ by up to {distance:.3g} of the range; pass bounds=(1, {n_bins}), say"
            )
        self.binning.stand_at(places)
        self.start((shares.sum(dim=0) + 1) / (len(y) + n_bins))

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Means of the terms, which know the votes where they are given. **Shape:** as in :class:`BinMethod`."""
        if "votes" not in side:
            return super().loss(features, y, weights)
        terms = self.vote_penalties(self.logits(features), y, vote_shares(side["votes"]))
        return {name: weighted_mean(rows, weights) for name, rows in terms.items()}

    @abstractmethod
    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Named loss terms of each row, given its votes. **Shape:** ``(n, K)``, ``(n,)``, ``(n, K)`` -> ``(n,)``."""


class EarthMover(VoteMethod):
    """NIMA (Talebi and Milanfar, 2018): the earth mover's distance between predicted and true histogram of scores.

    Ten bins of one width stand for the ten scores, or with ``votes`` the ten scores themselves.

    NOTE[DIFF]: where targets are single numbers there is no histogram, so the true one has all ratings in the target's
    bin.
    """

    title, paper, evidence = "NIMA", "Talebi and Milanfar, TIP 2018", "standard"

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 10, policy: str = "uniform"
    ) -> None:
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Earth mover's distance of each row to its bin."""
        return self.vote_penalties(logits, y, one_hot(self.binning.index(y), self.binning.n_bins).to(logits))

    def vote_penalties(self, logits: Tensor, y: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Earth mover's distance of each row to its histogram: of the cumulative sums, the root of the mean square."""
        difference = (logits.softmax(dim=1) - shares).cumsum(dim=1)
        return {"earth-mover": (difference.square().mean(dim=1) + 1e-10).sqrt()}  # the root has no slope at zero


class LabelDistributionMethod(BinMethod):
    """Cross-entropy with a label distribution; how labels spread is the subclass's affair."""

    @abstractmethod
    def costs(self, y: Tensor) -> Tensor:
        """Cost of each bin, zero or least at the target. **Shape:** ``(n,)`` -> ``(n, K)``."""

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the spread labels."""
        return {"labels": soft_cross_entropy(logits, spread_labels(self.costs(y), self.binning.reachable))}

    def distances(self, position: Tensor) -> Tensor:
        """Distances from positions to all bins, in bins. **Shape:** ``(n,)`` -> ``(n, K)``."""
        return (torch.arange(self.binning.n_bins, device=position.device) - position[:, None]).abs()


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
        return (self.distances(self.binning.position(y)) / self.sigma).square() / 2


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
        return self.alpha * self.distances(self.binning.index(y).to(y)).pow(self.distance_power)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The most probable grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return decide_as_class(distribution)


class SquaredSoftOrdinalLabels(SoftOrdinalLabels):
    """SORD (Diaz and Marathe, 2019) with squared distances."""

    title, distance_power = "SORD, squared distances", 2


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
        mean, variance = moments(shares)
        costs = self.distances(mean).square() / variance.clamp(min=LEAST_VARIANCE)[:, None]
        return {"labels": soft_cross_entropy(logits, spread_labels(costs))}

    def costs(self, y: Tensor) -> Tensor:
        """Squared distance in units of the variance."""
        distances = self.distances(self.binning.position(y))
        return (distances * (9 / (self.binning.n_bins - 1))).square() / self.variance
