"""The core: one call of a network at the highest noise is the whole predictive distribution.

Increments are a thermometer: how far a target has filled each interval. At t = T the noisy vector says nothing, so the
estimate of increment k is the mean over interval k of the probability that the target lies above: the survival
function. A cross-entropy is proper for means in [0, 1], so the estimates can be learned by it, and one call is enough,
without a chain and without samples.

NOTE[DIFF]: the paper trains a squared loss at all times and predicts by a reverse chain
(:class:`~diffor.methods.diffor.IncrementDiffusion`). For one target the times below T add nothing that could be
measured (docs/one_call.md).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.draws import ByteDropout
from diffor.core.method import Method, weighted_mean
from diffor.errors import check_least
from diffor.methods.diffor.borders import Borders


class OneCall(Method):
    """Survival functions on borders where the data are, learned by cross-entropies from any encoder's features.

    Logits are a direct linear path from the features plus a small residual network; both begin at zero, so that
    training starts from the shares of all training rows.

    Parameters
    ----------
    n_features : int
        Width of the encoder's features; the estimators pass it.
    n_increments : int, default 64
        Intervals of the range, to which steps at values that repeat are added.
    width : int, default 128
        Width of the residual network.
    n_layers : int, default 2
        Its blocks; 0 for the linear path alone.
    dropout : float, default 0.1
        Share of its values that training hides.
    n_grades : int or None, default None
        Number of grades, where targets are grades: there is then a step for each border between them.

    Examples
    --------
    >>> import torch
    >>> method = OneCall(n_features=16, n_increments=8)
    >>> method.prepare(torch.rand(100))
    >>> sorted(method.loss(torch.randn(6, 16), torch.rand(6)))
    ['cross_entropy']
    """

    family: ClassVar[str] = "increments"
    title: ClassVar[str] = "DiffoR, one call"
    paper: ClassVar[str] = "DiffoR, KDD 2026, read at t = T"
    evidence: ClassVar[str] = "standard"
    draws_are_costly: ClassVar[bool] = False
    has_borders: ClassVar[bool] = True
    cross_fits: ClassVar[bool] = True

    edges: Tensor
    is_atom: Tensor
    is_discrete: Tensor

    def __init__(
        self,
        n_features: int,
        *,
        n_increments: int = 64,
        width: int = 128,
        n_layers: int = 2,
        dropout: float = 0.1,
        n_grades: int | None = None,
    ) -> None:
        super().__init__()
        check_least("n_increments", n_increments)
        check_least("n_layers", n_layers, 0)
        self.n_features, self.n_increments, self.n_grades = n_features, n_increments, n_grades
        self.width = width if n_layers else 0
        blocks = [
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), ByteDropout(dropout),
                          nn.Linear(width, width))
            for _ in range(n_layers)
        ]  # fmt: skip
        self.blocks = nn.ModuleList([nn.Linear(n_features, width), *blocks] if n_layers else [])
        self.set_borders(Borders.even(n_increments) if n_grades is None else grade_borders(n_grades))

    def set_borders(self, borders: Borders) -> None:
        """Use other borders, with output layers for their increments."""
        self.borders = borders
        for name in ("edges", "is_atom", "is_discrete"):
            self.register_buffer(name, torch.as_tensor(getattr(borders, name)))
        self.direct = nn.Linear(self.n_features, len(borders))
        self.out = nn.Linear(self.width, len(borders), bias=False)
        for layer in (self.direct.weight, self.direct.bias, self.out.weight):
            nn.init.zeros_(layer)

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Place the borders where the targets are, and begin with their shares. **Shape:** ``(n,)``."""
        device = self.edges.device
        if self.n_grades is None:
            self.set_borders(Borders.place(y.double().cpu().numpy(), self.n_increments))
            self.to(device)
        shares = self.borders.fill(y).mean(dim=0).clamp(1e-3, 1 - 1e-3)
        self.direct.bias.data.copy_(torch.logit(shares))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        # The number of increments belongs to the data, so layers are made for what was saved.
        edges, is_atom, is_discrete = (state_dict[prefix + name] for name in ("edges", "is_atom", "is_discrete"))
        self.set_borders(Borders(edges.double().cpu().numpy(), is_atom.cpu().numpy(), bool(is_discrete)))
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def logits(self, features: Tensor) -> Tensor:
        """Logits of every increment. **Shape:** ``(n, d)`` -> ``(n, S)``."""
        logits: Tensor = self.direct(features)
        if not len(self.blocks):
            return logits
        hidden = self.blocks[0](features)
        for block in list(self.blocks)[1:]:
            hidden = hidden + block(hidden)
        return logits + torch.nn.functional.linear(torch.relu(hidden), self.out.weight)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the increments, on average over them; 0 of a target that is always the same."""
        if not len(self.borders):
            return {"cross_entropy": self.direct(features).sum()}
        filled = self.borders.fill(y)
        errors = nn.functional.binary_cross_entropy_with_logits(self.logits(features), filled, reduction="none")
        return {"cross_entropy": weighted_mean(errors.mean(dim=1), weights)}

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> CdfPrediction:
        """Distribution of each row's target, in closed form."""
        return as_prediction(self.borders, falling(self.logits(features)))


def grade_borders(n_grades: int) -> Borders:
    """A step for each border between evenly spaced grades.

    They stand where targets do, which are in single precision: else one of 5 / 6 would lie below its own step.

    >>> borders = grade_borders(7)
    >>> (torch.arange(7) / 6).double().numpy() == borders.edges
    array([ True,  True,  True,  True,  True,  True,  True])
    """
    return Borders.at_values(np.linspace(0, 1, n_grades).astype(np.float32) if n_grades > 1 else [0.0])


def falling(logits: Tensor) -> Tensor:
    """Survival functions of logits, falling from increment to increment. **Shape:** ``(..., S)``, kept.

    >>> falling(torch.tensor([2.0, -1.0, 0.0])).round(decimals=2)
    tensor([0.8800, 0.2700, 0.2700])
    """
    return torch.sigmoid(logits).cummin(dim=-1).values if logits.shape[-1] else logits


def as_prediction(borders: Borders, survival: Tensor) -> CdfPrediction:
    """Distributions on the borders, from falling survival functions. **Shape:** ``(n, S)`` -> n rows."""
    return CdfPrediction(borders.layout.knots, borders.heights(survival.detach().double().cpu().numpy()))
