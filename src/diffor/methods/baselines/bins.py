"""Methods that predict a probability for each bin: classification with an eye for the order of the classes."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from diffor.core.distribution import Bins, Distribution, Steps, decide_as_class, middle_place
from diffor.core.method import weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.binning import BinnedMethod, moments
from diffor.methods.baselines.settings import check_counts, check_not_negative, check_positive

N_PATCHES = 4
"""Patches that the encoder ``mpada-patches`` gives."""


class BinMethod(BinnedMethod):
    """One logit for each bin; which loss is the subclass's affair.

    With ``n_grades`` the bins are the grades; without, they are ``n_bins`` bins of values by ``policy``. Distances
    between labels are counted in bins, as the sources count them in years or scores, one class to each.

    NOTE[DIFF]: the biases start at the logarithms of the bins' training shares, not at random numbers: with fifty bins
    and few rows, training would otherwise be spent on finding them.
    """

    family, native_statistic = "bins", "mean"

    def __init__(
        self, n_features: int, *, n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile"
    ) -> None:
        super().__init__(n_grades, n_bins, policy)
        self.head = nn.Linear(n_features, self.binning.n_bins)

    def start(self, shares: Tensor) -> None:
        """Biases are the logarithms of the shares."""
        self.head.bias.copy_(shares.log())

    def logits(self, features: Tensor) -> Tensor:
        """Logits of the bins. **Shape:** ``(n, d)`` -> ``(n, K)``."""
        return self.binning.mask(self.head(features))

    @abstractmethod
    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Named loss terms of each row. **Shape:** ``(n, K)``, ``(n,)`` -> ``(n,)`` each."""

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Means of the terms. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> scalars."""
        terms = self.penalties(self.logits(features), y)
        return {name: weighted_mean(rows, weights) for name, rows in terms.items()}

    def probabilities(self, features: Tensor) -> Tensor:
        """Softmax of the logits."""
        return self.logits(features).softmax(dim=1)


class ExpectedClass(BinMethod):
    """DEX (Rothe et al., 2015): cross-entropy of the bins, and the expectation of what they stand for."""

    title, paper, evidence = "DEX", "Rothe et al., ICCV workshops 2015", "standard"

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy."""
        return {"bins": cross_entropy(logits, self.binning.index(y), reduction="none")}


class MiddleClass(ExpectedClass):
    """Cross-entropy of the bins as in the age benchmark of Paplham and Franc (2024), which decides on their median."""

    title, paper, evidence = "cross-entropy", "Paplham and Franc, CVPR 2024", "reimplementation"
    native_statistic = "median"

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The place with the least expected absolute error. **Shape:** -> ``(n,)``."""
        return middle_place(distribution) if isinstance(distribution, (Steps, Bins)) else distribution.mean


class MeanVariance(ExpectedClass):
    """Mean-Variance (Pan et al., 2018): cross-entropy, the squared error of the mean, and the variance.

    The defaults are those of a released reimplementation, in squared bins.
    """

    title, paper, evidence = "Mean-Variance", "Pan et al., CVPR 2018", "reimplementation"

    def __init__(
        self, n_features: int, *, mean_weight: float = 0.2, variance_weight: float = 0.05,
        n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_not_negative(mean_weight=mean_weight, variance_weight=variance_weight)
        self.mean_weight, self.variance_weight = mean_weight, variance_weight

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Cross-entropy, half the squared error of the mean, variance; each by its weight."""
        mean, variance = moments(logits.softmax(dim=1))
        return {
            **super().penalties(logits, y),
            "mean": self.mean_weight * (mean - self.binning.position(y)).square() / 2,
            "variance": self.variance_weight * variance,
        }


class UnimodalConcentrated(BinMethod):
    """Unimodal-Concentrated (Li et al., 2022): one peak, at the target's bin, and as narrow as the errors allow.

    The form is that of the age benchmark of Paplham and Franc (2024); the authors' code is not public. There is no
    cross-entropy in it. ``smallest_variance``, in squared bins, keeps the likelihood bounded.

    NOTE[DIFF]: the benchmark weighs a single peak by 1000. Moving a peak breaks it for a while, so with such a weight
    small tables stay at the constant. The default of 3 had the least CRPS on the validation rows of three of them.
    """

    title, paper, evidence = "Unimodal-Concentrated", "Li et al., CVPR 2022", "reimplementation"

    def __init__(
        self, n_features: int, *, unimodality_weight: float = 3.0, smallest_variance: float = 1e-3,
        n_grades: int | None = None, n_bins: int = 50, policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_not_negative(unimodality_weight=unimodality_weight)
        check_positive(smallest_variance=smallest_variance)
        self.unimodality_weight, self.smallest_variance = unimodality_weight, smallest_variance

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Falls before the target's bin and rises after it, and the normal likelihood of the target by the moments."""
        probabilities = logits.softmax(dim=1)
        rises = probabilities.diff(dim=1)
        is_before = torch.arange(rises.shape[1], device=y.device) < self.binning.index(y)[:, None]
        wrong_steps = torch.where(is_before, -rises, rises).clamp(min=0).sum(dim=1)
        mean, variance = moments(probabilities)
        bounded = variance.clamp(min=self.smallest_variance)
        return {
            "unimodality": self.unimodality_weight * wrong_steps,
            "concentration": bounded.log() / 2 + (mean - self.binning.position(y)).square() / (2 * bounded),
        }


class OrdinalLogLoss(BinMethod):
    """OLL (Castagnos et al., 2022): penalises each wrong class by its distance from the true one.

    The target's own class appears in no term, so nothing pulls towards certainty.
    """

    title, paper, evidence = "OLL", "Castagnos et al., COLING 2022", "standard"
    native_statistic = "own"

    def __init__(
        self, n_features: int, *, exponent: float = 1.5, n_grades: int | None = None, n_bins: int = 50,
        policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        check_positive(exponent=exponent)  # zero would count the target's own class
        self.exponent = exponent

    def penalties(self, logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Sum over classes of distance to a power times -log(1 - probability)."""
        probabilities, index = logits.softmax(dim=1), self.binning.index(y)
        numbers = torch.arange(probabilities.shape[1], device=index.device)
        distance = (numbers - index[:, None]).abs().to(probabilities).pow(self.exponent)
        # A wrong class of probability one would cost infinitely much.
        return {"bins": -(distance * torch.log1p(-probabilities.clamp(max=1 - 1e-6))).sum(dim=1)}

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The most probable grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return decide_as_class(distribution)


class WeightedPatches(ExpectedClass):
    """A reconstruction: MPada (Sheng et al., 2018), each patch of a picture learns for itself, the wrong ones most.

    Known: one classifier answers for every patch; a patch's cross-entropy counts the more, the less probable it takes
    the true class to be ("larger weights to misclassified patches"); a prediction is the mean over the patches.
    Guessed: the weight is ``1 - probability ** sharpness`` without a gradient; ten classes of the score in place of the
    source's two. It runs without its weights, on features of ``encoder="mpada-patches"``, which hold the patches one
    after the other; other features are cut into ``n_patches`` pieces, four where that is possible and else one.
    """

    title, paper, evidence = "MPada, without its weights", "Sheng et al., ACM MM 2018", "notes"

    def __init__(
        self, n_features: int, *, n_patches: int | None = None, sharpness: float = 1.0, n_grades: int | None = None,
        n_bins: int = 10, policy: str = "uniform",
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_grades=n_grades, n_bins=n_bins, policy=policy)
        chosen = (1 if n_features % N_PATCHES else N_PATCHES) if n_patches is None else n_patches
        check_counts(n_patches=chosen)
        check_not_negative(sharpness=sharpness)
        if n_features % chosen:
            raise UserError(
                f"n_patches must divide the number of features, but got n_patches={n_patches}, n_features={n_features}"
            )
        self.n_patches, self.sharpness = chosen, sharpness
        self.head = nn.Linear(n_features // chosen, self.binning.n_bins)

    def patch_logits(self, features: Tensor) -> Tensor:
        """Logits of each patch. **Shape:** ``(n, patches * d)`` -> ``(n, patches, K)``."""
        each: Tensor = self.head(features.reshape(len(features) * self.n_patches, -1))
        return self.binning.mask(each).view(len(features), self.n_patches, -1)

    def logits(self, features: Tensor) -> Tensor:
        """Logarithm of the patches' mean probabilities. **Shape:** ``(n, d)`` -> ``(n, K)``."""
        return self.patch_logits(features).log_softmax(dim=2).logsumexp(dim=1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean over patches of their weighted cross-entropy. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        each = self.patch_logits(features).flatten(0, 1)
        index = self.binning.index(y).repeat_interleave(self.n_patches)
        errors = cross_entropy(each, index, reduction="none") * self.attention(each, index)
        return {
            "patches": weighted_mean(errors, None if weights is None else weights.repeat_interleave(self.n_patches))
        }

    def attention(self, logits: Tensor, index: Tensor) -> Tensor:
        """How much each patch counts, from 0 where it is right to 1. **Shape:** ``(m, K)``, ``(m,)`` -> ``(m,)``."""
        right = logits.detach().softmax(dim=1).gather(1, index[:, None])[:, 0]
        return 1 - right**self.sharpness if self.sharpness else torch.ones_like(right)
