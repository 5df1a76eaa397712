"""Gradients of the losses of different times, compared: what training of the paper's method can log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.methods.diffor.increments import split_increments

if TYPE_CHECKING:
    from diffor.methods.diffor.paper import IncrementDiffusion

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Interference:
    """Inner products of the gradients of M losses in the same parameters. **Shape:** products ``(M, M)``."""

    name: str
    products: Array

    @property
    def cosines(self) -> Array:
        """Cosine of each pair; 0 where a gradient is zero. **Shape:** ``(M, M)``."""
        norms = np.sqrt(np.diag(self.products))
        scale = np.outer(norms, norms)
        return np.asarray(np.divide(self.products, scale, out=np.zeros_like(scale), where=scale > 0))

    @property
    def pairs(self) -> Array:
        """Cosine of each pair once. **Shape:** ``(M (M - 1) / 2,)``."""
        return self.cosines[np.triu_indices(len(self.products), 1)]

    @property
    def mean_cosine(self) -> float:
        """Mean over the pairs; 0 where there is one loss only."""
        return float(self.pairs.mean()) if len(self.pairs) else 0.0

    @property
    def conflicts(self) -> float:
        """Share of pairs that point against each other; 0 where there is one loss only."""
        return float((self.pairs < 0).mean()) if len(self.pairs) else 0.0

    @property
    def cross_term(self) -> float:
        """``2 sum_{i<j} <g_i, g_j>``, what the squared norm of the sum has beyond the sum of the squared norms."""
        return float(self.products[~np.eye(len(self.products), dtype=bool)].sum())

    @property
    def descent(self) -> float:
        """Squared norm of the joint gradient over the sum of the squared norms; 1 where nothing interferes.

        The descent lemma promises progress in proportion to the first; below 1 the times take from each other.
        """
        alone = float(np.trace(self.products))
        return 1.0 + self.cross_term / alone if alone > 0 else 1.0


def gradient_interference(losses: Sequence[Tensor], parameters: Sequence[Tensor], name: str = "") -> Interference:
    """Compare the gradients of several losses in the same parameters; these and their ``.grad`` stay as they are.

    >>> import torch
    >>> place = torch.zeros(2, requires_grad=True)
    >>> gradient_interference([place[0], place[1] - place[0]], [place]).cosines.round(3).tolist()
    [[1.0, -0.707], [-0.707, 1.0]]
    """
    gradients = []
    for loss in losses:
        parts = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(own) if part is None else part for own, part in zip(parameters, parts, strict=True)]
        gradients.append(torch.cat([part.flatten() for part in filled]))
    stacked = torch.stack(gradients).double()
    return Interference(name, (stacked @ stacked.T).cpu().numpy())


def time_losses(
    method: IncrementDiffusion, features: Tensor, increments: Tensor, seed: int = 0
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Denoising loss and increment loss at each head's time, all with the same noise, and the estimates there.

    **Shape:** features ``(n, d)``, increments ``(n, S)`` -> S losses, S losses, ``(n, S, S)``.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(increments.shape, generator=generator).to(increments)
    misses, estimates = method.call_at_aligned_times(features, increments, noise)
    of_heads = (increments - method.heads(estimates)).square().mean(dim=0)
    return list(misses.square().mean(dim=(0, 2))), list(of_heads), estimates


def cosines_for_history(method: IncrementDiffusion, features: Tensor, y: Tensor) -> dict[str, float]:
    """What a training run logs: mean cosine and share of conflicts in the denoiser, for both kinds of losses.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1].
    """
    figures: dict[str, float] = {}
    with torch.enable_grad():
        denoising, of_heads, _ = time_losses(method, features, split_increments(y, method.n_increments))
        for name, losses in (("denoise", denoising), ("increment", of_heads)):
            found = gradient_interference(losses, list(method.denoiser.parameters()))
            figures |= {f"{name}_cosine": found.mean_cosine, f"{name}_conflicts": found.conflicts}
    return figures
