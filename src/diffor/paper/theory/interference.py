"""Do the times pull shared parameters in different directions? Gradients of each time's loss, compared in pairs.

The paper argues that separate heads avoid such conflicts. That is true of the heads' own parameters, where it follows
from their separation, and says nothing about the denoiser, which all times share in DiffoR too: so it is measured there
as well. Negative cosines alone are no harm: where training has come to rest, the gradients of all times sum to zero,
so that those in shared parameters must point against each other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffor.core.draws import OwnDraws
from diffor.methods.diffor.gradients import Interference, gradient_interference, time_losses
from diffor.methods.diffor.increments import split_increments
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.paper.theory.analysis import Numbers
from diffor.training.optimizer import FlatAdam

N_SHARED_STEPS = 200
"""Steps in which a head that all times share is fitted to the estimates of a trained denoiser."""
SHARED_RATE, SHARED_WIDTH = 1e-2, 32


def time_interference(method: IncrementDiffusion, features: Tensor, y: Tensor, seed: int = 0) -> Numbers:
    """Measure how the losses of the heads' times pull at the denoiser, at the heads, and at a head they would share.

    The denoiser is shared by all times: there the denoising losses are the paper's. The heads are separate. The shared
    head reads the estimate of any time and answers with all increments, of which each time's own is counted; it is
    also fitted for a moment, since gradients of a head that has learned nothing say little about one.

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
            *_fit_shared_head(method, estimates.detach(), increments, seed),
        )
    names = ("mean_cosine", "conflicts", "cross_term", "descent", "cosines")
    gradients = {one.name: {name: getattr(one, name) for name in names} for one in measured}
    return {"times": list(method.aligned_times), "gradients": gradients}


def _fit_shared_head(
    method: IncrementDiffusion, estimates: Tensor, increments: Tensor, seed: int
) -> tuple[Interference, Interference]:
    """Gradients of the times in a head that they share, before and after it has learned."""
    with OwnDraws(seed):
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
