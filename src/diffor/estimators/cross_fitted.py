"""A model of cross-fitted networks: several kinds, K networks each, their answers pooled and recalibrated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.method import KERNEL_ROWS, Inputs, fill_up
from diffor.encoders.tabular.fold_networks import FoldNetworks
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import as_prediction, falling

LEAST = 1e-6
"""Probabilities nearer to 0 and 1 than this are not told apart."""
LEAST_SPREAD = 1e-4
"""... nor are spreads below this share of the range."""


class CrossFitted(nn.Module):
    """Kinds of networks that answer together: the weighted mean of their survival functions, recalibrated.

    A kind's answer is the mean of its K networks. ``weights (kinds,)`` and ``recalibration (3,)``, for
    :func:`recalibrated`, were decided by answers to rows that the networks had not seen.
    """

    weights: Tensor
    recalibration: Tensor
    widths: Tensor

    def __init__(self, borders: Borders, kinds: Sequence[FoldNetworks]) -> None:
        super().__init__()
        self.borders, self.kinds = borders, nn.ModuleList(kinds)
        self.register_buffer("weights", torch.full((len(kinds),), 1 / max(len(kinds), 1)))
        self.register_buffer("recalibration", torch.tensor([1.0, 0.0, 0.0]))
        self.register_buffer("widths", torch.from_numpy(borders.widths).float(), persistent=False)

    @property
    def networks(self) -> list[FoldNetworks]:
        """The kinds as what they are."""
        return [kind for kind in self.kinds if isinstance(kind, FoldNetworks)]

    @torch.inference_mode()
    def each(self, inputs: Inputs) -> list[Tensor]:
        """Survival functions by each of the K networks of each kind. **Shape:** inputs of n rows -> ``(K, n, S)``."""
        filled = tuple(fill_up(part, KERNEL_ROWS) for part in inputs)
        return [falling(kind(filled))[:, : inputs[0].shape[0]] for kind in self.networks]

    @torch.inference_mode()
    def survival(self, inputs: Inputs) -> Tensor:
        """Survival functions of rows, falling. **Shape:** inputs of n rows -> ``(n, S)``."""
        n = inputs[0].shape[0]
        filled = tuple(fill_up(part, KERNEL_ROWS) for part in inputs)
        parts = [falling(kind(filled)).mean(dim=0) for kind in self.networks]
        if not parts:
            return inputs[0].new_zeros(n, len(self.borders))
        return self.pool(parts)[:n]  # the last of uneven rows would round otherwise

    def pool(self, parts: Sequence[Tensor]) -> Tensor:
        """What the kinds say together: their weighted mean, recalibrated. **Shape:** ``(n, S)`` each, kept."""
        pooled = torch.einsum("k,kns->ns", self.weights, torch.stack(list(parts)))
        return recalibrated(pooled, self.recalibration, self.widths)

    def predict(self, inputs: Inputs, keys: Tensor, n_samples: int = 0, **side: Tensor) -> CdfPrediction:
        """Distribution of each row's target in [0, 1], in closed form. **Shape:** inputs of n rows -> n rows."""
        return as_prediction(self.borders, self.survival(inputs))


def recalibrated(survival: Tensor, recalibration: Tensor, widths: Tensor) -> Tensor:
    """Survival functions whose logits are scaled by ``a spread**b`` and shifted by c; they fall as before.

    Recalibration holds a, c and b: what is sure may have to become surer and what is unsure less sure, for networks
    say too much the same of all rows. ``widths`` are those of the increments.

    **Shape:** ``(n, S)``, ``(3,)``, ``(S,)`` -> ``(n, S)``.

    >>> said, widths = torch.tensor([[0.5, 0.2]]), torch.tensor([0.5, 0.5])
    >>> recalibrated(said, torch.tensor([2.0, 0.0, 0.0]), widths).round(decimals=3)
    tensor([[0.5000, 0.0590]])
    """
    scale, shift, by_spread = recalibration.unbind()
    slope = scale * spread_of(survival, widths)[:, None] ** by_spread
    return torch.sigmoid(slope * torch.logit(survival.clamp(LEAST, 1 - LEAST)) + shift)


def spread_of(survival: Tensor, widths: Tensor) -> Tensor:
    """Half the mean distance of two draws, as a share of the range. **Shape:** ``(n, S)``, ``(S,)`` -> ``(n,)``.

    >>> spread_of(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0.5, 0.5]))
    tensor([2.5010e-01, 1.0000e-04])
    """
    return (survival * (1 - survival) * widths).sum(dim=1) + LEAST_SPREAD
