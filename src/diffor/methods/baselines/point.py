"""Methods that predict the target itself: value regression by four losses, with ranked pairs, or with other scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from diffor.core.distribution import ClippedNormal, Distribution, DistributionMethod, PointMethod
from diffor.core.method import weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.settings import check_counts, check_not_negative, check_positive

SMALLEST_SCALE = 1e-8
"""What spreads less than this is taken for constant."""
LOG_SPREADS = (-7.0, 7.0)
"""Bounds of a predicted log spread, in units of the targets' own: a likelihood without them has no maximum."""


class StandardScale(nn.Module):
    """Moves targets to the mean (or median) 0 and the standard deviation 1 of the training targets, and back.

    >>> scale = StandardScale()
    >>> scale.fit(torch.tensor([0.0, 0.5, 1.0]))
    >>> [round(value, 3) for value in scale(torch.tensor([0.5, 1.0])).tolist()]
    [0.0, 1.225]
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, *, around_median: bool = False) -> None:
        super().__init__()
        self.around_median = around_median
        self.register_buffer("centre", torch.tensor(0.5))
        self.register_buffer("spread", torch.tensor(1.0))

    @torch.no_grad()
    def fit(self, y: Tensor) -> None:
        """Look at training targets; where nothing varies, or nothing is there, the spread is 1. **Shape:** ``(n,)``."""
        seen = y.double() if len(y) else y.new_zeros(1)
        spread = seen.std(correction=0)
        self.centre.copy_(seen.median() if self.around_median else seen.mean())
        self.spread.copy_(spread if spread > SMALLEST_SCALE else torch.ones_like(spread))

    def forward(self, y: Tensor) -> Tensor:
        """Standardise. **Shape:** kept."""
        return (y - self.centre) / self.spread

    def back(self, z: Tensor) -> Tensor:
        """Undo :meth:`forward`. **Shape:** kept."""
        return self.centre + self.spread * z


class ValueRegression(PointMethod):
    """One output, the standardised target; which loss is the subclass's affair.

    An output of zero is the training mean (for absolute errors the median), so training starts from the best constant.
    """

    family, paper, evidence, native_statistic = "point", "textbook", "standard", "own"
    around_median: ClassVar[bool] = False

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 1)
        self.scale = StandardScale(around_median=self.around_median)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Fit the scale. **Shape:** ``(n,)``."""
        self.scale.fit(y)

    def output(self, features: Tensor) -> Tensor:
        """Predicted target, standardised. **Shape:** ``(n, d)`` -> ``(n,)``."""
        return torch.as_tensor(self.head(features)[:, 0])

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """Predicted target. **Shape:** ``(n, d)`` -> ``(n,)``."""
        return self.scale.back(self.output(features))

    @abstractmethod
    def penalty(self, output: Tensor, target: Tensor) -> Tensor:
        """Loss of each row, both standardised. **Shape:** ``(n,)``, ``(n,)`` -> ``(n,)``."""

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """The mean penalty. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        return {"value": weighted_mean(self.penalty(self.output(features), self.scale(y)), weights)}


class SquaredValue(ValueRegression):
    """Value regression by squared errors: it learns the conditional mean."""

    title = "value regression, squared error"

    def penalty(self, output: Tensor, target: Tensor) -> Tensor:
        """Squared error."""
        return (output - target).square()


class AbsoluteValue(ValueRegression):
    """Value regression by absolute errors: it learns the conditional median."""

    title, around_median = "value regression, absolute error", True

    def penalty(self, output: Tensor, target: Tensor) -> Tensor:
        """Absolute error."""
        return (output - target).abs()


class HuberValue(ValueRegression):
    """Value regression by Huber's loss: squared errors up to ``delta`` standard deviations, absolute beyond."""

    title = "value regression, Huber loss"

    def __init__(self, n_features: int, *, delta: float = 1.0) -> None:
        super().__init__(n_features)
        check_positive(delta=delta)
        self.delta = delta

    def penalty(self, output: Tensor, target: Tensor) -> Tensor:
        """Half the squared error, going on straight beyond ``delta``."""
        return huber_loss(output, target, reduction="none", delta=self.delta)


class GaussianValue(DistributionMethod):
    """Value regression by the normal likelihood: a mean and a spread for each row."""

    family, title = "point", "value regression, normal likelihood"
    paper, evidence, native_statistic = "textbook", "standard", "own"

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 2)
        self.scale = StandardScale()

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Fit the scale. **Shape:** ``(n,)``."""
        self.scale.fit(y)

    def outputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Centre and logarithm of the spread, standardised. **Shape:** ``(n, d)`` -> ``(n,)``, ``(n,)``."""
        centre, log_spread = self.head(features).unbind(dim=1)
        return centre, log_spread.clamp(*LOG_SPREADS)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Negative log-likelihood of the standardised target, without its constant. **Shape:** -> a scalar."""
        centre, log_spread = self.outputs(features)
        each = log_spread + ((self.scale(y) - centre) * (-log_spread).exp()).square() / 2
        return {"likelihood": weighted_mean(each, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> Distribution:
        """The normal, clipped to [0, 1]. **Shape:** ``(n, d)`` -> n distributions."""
        centre, log_spread = self.outputs(features)
        return ClippedNormal(self.scale.back(centre), self.scale.spread * log_spread.exp())

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The normal's own mean, before clipping. **Shape:** -> ``(n,)``."""
        return distribution.centre if isinstance(distribution, ClippedNormal) else distribution.mean


class RankedValue(ValueRegression):
    """AADB (Kong et al., 2016): squared errors, and a hinge on all pairs of a batch that stand in the wrong order.

    The constants are those of a released reimplementation. ``margin`` is a share of the target's range, as the
    squared errors are here: the two terms keep the proportion of the source, whose scores lie in [0, 1].

    NOTE[DIFF]: the source's attributes and its pairs by one rater need labels that targets alone do not have, and
    pairs of equal targets are left out: the source pushes one of them up.
    """

    title, paper, evidence = "AADB", "Kong et al., ECCV 2016", "reimplementation"

    def __init__(self, n_features: int, *, margin: float = 0.02, rank_weight: float = 1.0) -> None:
        super().__init__(n_features)
        check_not_negative(margin=margin, rank_weight=rank_weight)
        self.margin, self.rank_weight = margin, rank_weight

    def penalty(self, output: Tensor, target: Tensor) -> Tensor:
        """Squared error in units of the range."""
        return ((output - target) * self.scale.spread).square()

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean squared error and mean hinge of the ordered pairs. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)``."""
        output = self.output(features)
        order = pair_hinge(self.scale.back(output), y, self.margin, weights)
        value = weighted_mean(self.penalty(output, self.scale(y)), weights)
        return {"value": value, "order": self.rank_weight * order}


def pair_hinge(value: Tensor, y: Tensor, margin: float, weights: Tensor | None = None) -> Tensor:
    """Mean over pairs with unequal targets of how far the values fall short of the right order by ``margin``.

    **Shape:** ``(n,)``, ``(n,)``, weights ``(n,)`` -> a scalar.
    """
    above = (y[:, None] > y[None, :]).to(value)
    if weights is not None:
        above = above * weights[:, None] * weights[None, :]
    shortfall = (margin - (value[:, None] - value[None, :])).clamp(min=0)
    return (above * shortfall).sum() / above.sum().clamp(min=torch.finfo(value.dtype).tiny)


class AttributeTasks(SquaredValue):
    """A reconstruction: MT-A (Fang et al., 2020), one network for the target and for other scores of the same picture.

    Known, from the description and the released network: a ResNet-50 whose last layer has six outputs, quality and the
    five attributes of SPAQ. Guessed: the squared error, each score standardised, and the weight of the attributes
    together. It runs without its weights, on the encoder that all methods share.

    ``attributes (n, n_attributes)`` are only learned from; predictions need none. Without them it is value regression.
    """

    title, paper, evidence = "MT-A, without its weights", "Fang et al., CVPR 2020", "notes"
    learns_from = ("attributes",)
    centre: Tensor
    spread: Tensor

    def __init__(self, n_features: int, *, n_attributes: int = 5, attribute_weight: float = 1.0) -> None:
        super().__init__(n_features)
        check_counts(n_attributes=n_attributes)
        check_not_negative(attribute_weight=attribute_weight)
        self.attribute_weight = attribute_weight
        self.head = nn.Linear(n_features, 1 + n_attributes)  # the target's is the first output
        self.register_buffer("centre", torch.zeros(n_attributes))
        self.register_buffer("spread", torch.ones(n_attributes))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Fit the scales of the target and of the attributes. **Shape:** ``(n,)``, ``(n, n_attributes)``."""
        super().fit_targets(y)
        attributes = side.get("attributes")
        if attributes is None:
            return
        if attributes.ndim != 2 or attributes.shape[1] != len(self.centre):
            raise UserError(
                f"attributes must have n_attributes={len(self.centre)} columns, but their shape is "
                f"{tuple(attributes.shape)}; pass n_attributes={attributes.shape[-1] if attributes.ndim == 2 else 1}"
            )
        spread = attributes.std(dim=0, correction=0)
        self.centre.copy_(attributes.mean(dim=0))
        self.spread.copy_(torch.where(spread > 1e-6, spread, torch.ones_like(spread)))  # a constant is only centred

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Squared error of the target, and the mean of those of the attributes. **Shape:** ``(n, d)``, ``(n,)``."""
        terms = super().loss(features, y, weights)
        if "attributes" not in side:
            return terms
        true = (side["attributes"] - self.centre) / self.spread
        errors = (self.head(features)[:, 1:] - true).square().mean(dim=1)
        return {**terms, "attributes": self.attribute_weight * weighted_mean(errors, weights)}
