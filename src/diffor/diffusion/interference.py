"""Do the times pull shared parameters in different directions? Gradients of each time's loss, compared in pairs.

The paper argues that separate heads avoid such conflicts. That is true of the heads' own parameters, where it follows
from their separation, and says nothing about the denoiser, which all times share in DiffoR too: so it is measured there
as well. Negative cosines alone are no harm: where training has come to rest, the gradients of all times sum to zero,
so that those in shared parameters must point against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.diffusion.increments import split_increments
from diffor.optimizer import FlatAdam

if TYPE_CHECKING:  # which itself imports this file, for the figures it logs in training
    from diffor.diffusion.paper import IncrementDiffusion

Array = NDArray[np.floating]
N_SHARED_STEPS = 200
"""Steps in which a head that all times share is fitted to the estimates of a trained denoiser."""
SHARED_RATE, SHARED_WIDTH = 1e-2, 32


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


@dataclass(frozen=True)
class TimeInterference:
    """Gradients of the heads' times against each other, in parameters that they share and in those that they do not."""

    times: tuple[int, ...]
    denoising: Interference
    """Denoising losses in the denoiser, which all times share: the paper's losses."""
    increments: Interference
    """Losses of the heads' increments in the denoiser."""
    heads: Interference
    """Losses of the increments in the heads, which are separate."""
    shared_start: Interference
    """The same in the hidden layer of a head that all times share, before it has learned ..."""
    shared_end: Interference
    """... and after."""

    @property
    def measured(self) -> tuple[Interference, ...]:
        """All of them."""
        return self.denoising, self.increments, self.heads, self.shared_start, self.shared_end

    @property
    def figures(self) -> dict[str, Any]:
        """The measurement as plain values."""
        kinds = {
            one.name: {"mean_cosine": one.mean_cosine, "conflicts": one.conflicts, "cross_term": one.cross_term,
                       "descent": one.descent, "cosines": one.cosines.tolist()}
            for one in self.measured
        }  # fmt: skip
        return {"times": list(self.times), "gradients": kinds}

    @property
    def sentence(self) -> str:
        """What the measurement means."""
        if len(self.times) < 2:
            return "The model has one head, so no two times can pull in different directions."
        denoising, increments, shared = self.denoising, self.increments, (self.shared_start, self.shared_end)
        zero = "exactly zero" if not self.heads.cross_term else f"{self.heads.cross_term:.1e} in sum"
        return (
            f"In the denoiser, which all times share, the gradients of two times have a mean cosine of "
            f"{denoising.mean_cosine:+.2f} for denoising ({denoising.conflicts:.0%} of the pairs negative) and "
            f"{increments.mean_cosine:+.2f} for increments ({increments.conflicts:.0%} negative). The squared norm of "
            f"the joint gradient is {denoising.descent:.2f} and {increments.descent:.2f} times the sum of the single "
            f"ones: below 1 times take from each other. In the separate heads the products are {zero}, by "
            f"construction. In the hidden layer of a head that all times share the mean cosine is "
            f"{shared[0].mean_cosine:+.2f} before and {shared[1].mean_cosine:+.2f} after fitting; low figures after "
            "training are no harm by themselves, since where a shared part is at rest, its gradients cancel."
        )


def time_interference(method: IncrementDiffusion, features: Tensor, y: Tensor, seed: int = 0) -> TimeInterference:
    """Measure how the losses of the heads' times pull at the denoiser, at the heads, and at a head they would share.

    The shared head reads the estimate of any time and answers with all increments, of which each time's own is
    counted; it is fitted for a moment, since gradients of a head that has learned nothing say little about one.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1].
    """
    increments = split_increments(y, method.n_increments)
    with torch.enable_grad():
        denoising, of_heads, estimates = time_losses(method, features, increments, seed)
        denoiser, heads = list(method.denoiser.parameters()), list(method.heads.parameters())
        measured = (
            gradient_interference(denoising, denoiser, "denoiser, denoising losses"),
            gradient_interference(of_heads, denoiser, "denoiser, increment losses"),
            gradient_interference(of_heads, heads, "separate heads"),
        )
        shared = _fit_shared_head(method, estimates.detach(), increments, seed)
    return TimeInterference(method.aligned_times, *measured, *shared)


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


def _fit_shared_head(
    method: IncrementDiffusion, estimates: Tensor, increments: Tensor, seed: int
) -> tuple[Interference, Interference]:
    """Gradients of the times in a head that they share, before and after it has learned."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        count = method.n_increments
        head = nn.Sequential(nn.Linear(count, SHARED_WIDTH), nn.SiLU(), nn.Linear(SHARED_WIDTH, count))
    head.to(estimates)
    optimizer = FlatAdam(head.parameters())

    def losses() -> Tensor:
        own = torch.sigmoid(head(estimates).diagonal(dim1=1, dim2=2))  # (n, S): at head k's time the k-th increment
        return (increments - own / count).square().mean(dim=0)

    hidden = list(head[0].parameters())  # each time has its own output, which no other one touches
    start = gradient_interference(list(losses()), hidden, "shared head, untrained")
    for _ in range(N_SHARED_STEPS):
        losses().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step(SHARED_RATE)
    end = gradient_interference(list(losses()), hidden, "shared head, fitted")
    return start, end
