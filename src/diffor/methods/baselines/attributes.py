"""A method that learns several things people said of a picture at once, of which one is the target."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffor.core.method import Method, weighted_mean
from diffor.errors import UserError
from diffor.methods.baselines.point import SMALLEST_SCALE, SquaredValue
from diffor.methods.baselines.settings import check_counts, check_not_negative


class AttributeTasks(SquaredValue):
    """A reconstruction: MT-A (Fang et al., 2020), one network for the target and for other scores of the same picture.

    Known, from the description and the released network: a ResNet-50 whose last layer has six outputs, quality and the
    five attributes of SPAQ. Guessed: the squared error, each score standardised, and the weight of the attributes
    together. It runs without its weights, on the encoder that all methods share.

    ``attributes (n, n_attributes)`` are only learned from; predictions need none. Without them it is value regression.

    >>> method = AttributeTasks(n_features=4)
    >>> method.prepare(torch.tensor([0.0, 1.0]), attributes=torch.tensor([[0.0] * 5, [2.0] * 5]))
    >>> sorted(method.loss(torch.zeros(2, 4), torch.tensor([0.0, 1.0]), attributes=torch.ones(2, 5)))
    ['attributes', 'value']
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
        self.head = nn.Linear(n_features, 1 + n_attributes)
        self.register_buffer("centre", torch.zeros(n_attributes))
        self.register_buffer("spread", torch.ones(n_attributes))

    def prepare(self, y: Tensor, **side: Tensor) -> None:
        """Fit the scales of the target and of the attributes. **Shape:** ``(n,)``, ``(n, n_attributes)``."""
        super().prepare(y)
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
        self.spread.copy_(torch.where(spread > SMALLEST_SCALE, spread, torch.ones_like(spread)))

    def output(self, features: Tensor) -> Tensor:
        """Predicted target, standardised: the first output. **Shape:** ``(n, d)`` -> ``(n,)``."""
        return torch.as_tensor(self.head(features)[:, 0])

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Squared error of the target, and the mean of those of the attributes. **Shape:** ``(n, d)``, ``(n,)``."""
        terms = super().loss(features, y, weights)
        if "attributes" not in side:
            return terms
        true = (side["attributes"] - self.centre) / self.spread
        errors = (self.head(features)[:, 1:] - true).square().mean(dim=1)
        return {**terms, "attributes": self.attribute_weight * weighted_mean(errors, weights)}


ATTRIBUTE_METHODS: dict[str, type[Method]] = {"mt-a": AttributeTasks}
"""Methods that learn other scores beside the target, by name."""
