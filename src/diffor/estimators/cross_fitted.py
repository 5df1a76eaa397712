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


class CrossFitted(nn.Module):
    """Kinds of networks that answer together: the weighted mean of their survival functions, recalibrated.

    A kind's answer is the mean of its K networks. ``weights (kinds,)`` and ``calibration (3,)`` were decided by answers
    to rows that the networks had not seen: the pooled survival s becomes the one with the logit
    ``a log s - b log(1 - s) + c``, which rises in s.
    """

    weights: Tensor
    calibration: Tensor

    def __init__(self, borders: Borders, kinds: Sequence[FoldNetworks]) -> None:
        super().__init__()
        self.borders, self.kinds = borders, nn.ModuleList(kinds)
        self.register_buffer("weights", torch.full((len(kinds),), 1 / max(len(kinds), 1)))
        self.register_buffer("calibration", torch.tensor([1.0, 1.0, 0.0]))

    @property
    def networks(self) -> list[FoldNetworks]:
        """The kinds as what they are."""
        return [kind for kind in self.kinds if isinstance(kind, FoldNetworks)]

    @torch.inference_mode()
    def survival(self, inputs: Inputs) -> Tensor:
        """Survival functions of rows, falling. **Shape:** inputs of n rows -> ``(n, S)``."""
        n = inputs[0].shape[0]
        filled = tuple(fill_up(part, KERNEL_ROWS) for part in inputs)
        parts = [falling(kind(filled)).mean(dim=0) for kind in self.networks]
        if not parts:
            return inputs[0].new_zeros(n, len(self.borders))
        pooled = torch.einsum("k,kns->ns", self.weights, torch.stack(parts))
        return recalibrated(pooled, self.calibration)[:n]  # the last of uneven rows would round otherwise

    def predict(self, inputs: Inputs, keys: Tensor, n_samples: int = 0, **side: Tensor) -> CdfPrediction:
        """Distribution of each row's target in [0, 1], in closed form. **Shape:** inputs of n rows -> n rows."""
        return as_prediction(self.borders, self.survival(inputs))


def recalibrated(survival: Tensor, calibration: Tensor) -> Tensor:
    """Survival functions moved as calibration says; it keeps their order. **Shape:** ``(n, S)``, ``(3,)``.

    >>> recalibrated(torch.tensor([0.2, 0.5]), torch.tensor([2.0, 2.0, 0.0])).round(decimals=3)
    tensor([0.0590, 0.5000])
    """
    inner = survival.clamp(LEAST, 1 - LEAST)
    above, below, shift = calibration.unbind()
    return torch.sigmoid(above * inner.log() - below * torch.log1p(-inner) + shift)
