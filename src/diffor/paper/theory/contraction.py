"""The reverse chain as a sequence of maps: how much each step shrinks distances, and what that bounds.

The paper assumes a refinement whose error shrinks by a factor below one at every step, up to a term, and bounds the
last error by these factors and terms. Any sequence does that with factors of zero and the measured errors as terms, so
the assumption is empty until factors and terms are defined. Here they are: the true path of a row is its corrupted
target with the noise that its chain starts from, which the chain would follow if every estimate were the truth. The
factor of a step is the ratio of the distances between chain and true path after and before it; the term is the
distance that the step makes when it starts on the true path, which is the denoiser's own error there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diffor.core.row_noise import start_noise
from diffor.methods.diffor.increments import split_increments, stretch
from diffor.methods.diffor.paper import IncrementDiffusion

Array = NDArray[np.floating]


def coarse_to_fine_bound(factors: ArrayLike, terms: ArrayLike, start: ArrayLike) -> Array:
    """The paper's bound on the error after the last step, for errors that obey ``after <= factor * before + term``.

    **Shape:** factors and terms ``(..., M)`` in the order of the steps, start ``(...)`` -> ``(...)``.

    >>> float(coarse_to_fine_bound([0.5, 0.5], [0.0, 0.1], 1.0))
    0.35
    """
    ratios, added = np.asarray(factors, dtype=np.float64), np.asarray(terms, dtype=np.float64)
    error = np.asarray(start, dtype=np.float64)
    for step in range(ratios.shape[-1]):
        error = ratios[..., step] * error + added[..., step]
    return error


@dataclass(frozen=True)
class Contraction:
    """Factors and terms of every step of the chain, row by row, and the bound that they give.

    Distances are root mean squares over the increments, stretched to [-1, 1].

    **Shape:** times ``(M,)``, factors and terms ``(n, M)``, start and end ``(n,)``, the others ``(M,)``.
    """

    times: tuple[int, ...]
    factors: Array
    terms: Array
    start: Array
    end: Array
    between_starts: Array
    """Mean ratio of the distances between two chains of one row that start from different noise."""
    spectral: Array
    """Mean largest singular value of the Jacobian of each step, on the chain: the ratio of the worst direction."""

    @property
    def row_bound(self) -> Array:
        """The bound with each row's own factors and terms. **Shape:** ``(n,)``."""
        return coarse_to_fine_bound(self.factors, self.terms, self.start)

    @property
    def uniform_bound(self) -> float:
        """The bound as the paper states it, with one factor and one term for all rows: the largest."""
        return float(coarse_to_fine_bound(self.factors.max(axis=0), self.terms.max(axis=0), self.start.max()))

    @property
    def expanding(self) -> tuple[int, ...]:
        """Times whose factor reaches 1 for some row, where the paper's assumption fails."""
        return tuple(t for t, factor in zip(self.times, self.factors.max(axis=0), strict=True) if factor >= 1)

    @property
    def forgetting(self) -> float:
        """What is left at the end of a distance between two starts of one row."""
        return float(np.prod(self.between_starts))

    @property
    def numbers(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "mean_factors": self.factors.mean(axis=0).tolist(),
            "largest_factors": self.factors.max(axis=0).tolist(), "mean_terms": self.terms.mean(axis=0).tolist(),
            "between_starts": self.between_starts.tolist(), "spectral": self.spectral.tolist(),
            "final_error": float(self.end.mean()), "row_bound": float(self.row_bound.mean()),
            "uniform_bound": self.uniform_bound, "expanding_steps": len(self.expanding), "forgetting": self.forgetting,
        }  # fmt: skip


def contraction(method: IncrementDiffusion, features: Tensor, y: Tensor, keys: Tensor) -> Contraction:
    """Run chains of rows beside their true paths, and measure what every step does to distances.

    Measured on the chain without fresh noise (``eta = 0``), whatever the method samples with. The theorem's inequality
    is the triangle inequality here, so the row-wise bound always holds; how loose it is, is the finding.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], keys ``(n,)``.
    """
    clean = stretch(split_increments(y, method.n_increments))
    starts = start_noise(keys, 2, method.n_increments).to(features)  # (n, 2, S)
    noise, other = starts[:, 0], starts[:, 1]
    state, times = noise, method.chain_times
    start = _distance(state, _true_path(method, clean, noise, times[0]))
    factors, terms, between, spectral = [], [], [], []
    for t, following in zip(times, [*times[1:], 0], strict=True):
        path, path_next = (_true_path(method, clean, noise, at) for at in (t, following))
        with torch.no_grad():
            after, path_after, other_after = (step_map(method, features, one, t, following)
                                              for one in (state, path, other))  # fmt: skip
        factors.append(_ratio(_distance(after, path_after), _distance(state, path)))
        terms.append(_distance(path_after, path_next))
        between.append(_ratio(_distance(after, other_after), _distance(state, other)).mean())
        spectral.append(jacobian_norms(method, features, state, t, following).mean())
        state, other = after, other_after
    return Contraction(
        times=times,
        factors=np.stack(factors, axis=1),
        terms=np.stack(terms, axis=1),
        start=start,
        end=_distance(state, clean),
        between_starts=np.array(between),
        spectral=np.array(spectral),
    )


def step_map(method: IncrementDiffusion, features: Tensor, state: Tensor, t: int, following: int) -> Tensor:
    """One step of the chain without fresh noise; the step to time 0 is the estimate. **Shape:** ``(n, S)``, kept."""
    time = torch.tensor(t, device=state.device)
    estimate = method.process.denoised(method.denoiser(state, features, time), state, time)
    return method.process.step(state, estimate, t, following, 0.0, None) if following > 0 else estimate


def jacobian_norms(method: IncrementDiffusion, features: Tensor, state: Tensor, t: int, following: int) -> Array:
    """Largest singular value of each row's Jacobian of a step, exactly: increments are few. **Shape:** -> ``(n,)``."""
    with torch.enable_grad():
        at = state.detach().clone().requires_grad_()
        after = step_map(method, features, at, t, following)
        # Rows do not mix, so the gradient of a sum over rows holds each row's own.
        parts = [torch.autograd.grad(after[:, k].sum(), at, retain_graph=True)[0] for k in range(after.shape[1])]
    return np.asarray(torch.linalg.svdvals(torch.stack(parts, dim=1).double())[:, 0].cpu().numpy())


def _true_path(method: IncrementDiffusion, clean: Tensor, noise: Tensor, t: int) -> Tensor:
    return method.process.corrupt(clean, noise, torch.tensor(t, device=clean.device))


def _distance(one: Tensor, other: Tensor) -> Array:
    difference = (one.double() - other.double()).square().mean(dim=-1).sqrt()
    return np.asarray(difference.cpu().numpy())


def _ratio(after: Array, before: Array) -> Array:
    """Ratio of distances; 0 where there was none before, so that there is none to shrink."""
    return np.divide(after, before, out=np.zeros_like(after), where=before > 0)
