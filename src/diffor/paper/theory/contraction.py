"""The reverse chain as a sequence of maps: how much each step shrinks distances, and what that bounds.

The paper assumes a refinement whose error shrinks by a factor below one at every step, up to a term, and bounds the
last error by these factors and terms. Any sequence does that with factors of zero and the measured errors as terms, so
the assumption is empty until factors and terms are defined. Here they are: the true path of a row is its corrupted
target with the noise that its chain starts from, which the chain would follow if every estimate were the truth. The
factor of a step is the ratio of the distances between chain and true path after and before it; the term is the
distance that the step makes when it starts on the true path, which is the denoiser's own error there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from diffor.core.row_noise import start_noise
from diffor.methods.diffor.increments import split_increments, stretch
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.paper.theory.analysis import Array, Numbers


def coarse_to_fine_bound(factors: ArrayLike, terms: ArrayLike, start: ArrayLike) -> Array:
    """The paper's bound on the error after the last step, for errors that obey ``after <= factor * before + term``.

    **Shape:** factors and terms ``(..., M)`` in the order of the steps, start ``(...)`` -> ``(...)``.
    """
    ratios, added = np.asarray(factors, dtype=np.float64), np.asarray(terms, dtype=np.float64)
    error = np.asarray(start, dtype=np.float64)
    for step in range(ratios.shape[-1]):
        error = ratios[..., step] * error + added[..., step]
    return error


class ChainDistances(NamedTuple):
    """Distances of chains to their true paths, row by row, as root mean squares over increments in [-1, 1].

    **Shape:** factors and terms ``(n, M)``, start and end ``(n,)``, the others ``(M,)``.
    """

    factors: Array
    terms: Array
    start: Array
    end: Array
    between_starts: Array
    """Mean ratio of the distances between two chains of one row that start from different noise."""
    spectral: Array
    """Mean largest singular value of the Jacobian of each step, on the chain: the ratio of the worst direction."""


def contraction(method: IncrementDiffusion, features: Tensor, y: Tensor, keys: Tensor) -> Numbers:
    """Measure what every step of the chain does to distances, and bound the last error by it.

    The theorem's inequality is the triangle inequality here, so the bound with each row's own factors and terms always
    holds (``row_bound``, the mean); how loose it is, is the finding. ``uniform_bound`` takes one factor and one term
    for all rows, the largest, as the paper states it; ``expanding_steps`` have a factor that reaches 1 for some row,
    where the paper's assumption fails; ``forgetting`` is what is left at the end of a distance between two starts.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], keys ``(n,)``.
    """
    found = chain_distances(method, features, y, keys)
    largest = found.factors.max(axis=0)
    return {
        "times": list(method.chain_times),
        "mean_factors": found.factors.mean(axis=0),
        "largest_factors": largest,
        "mean_terms": found.terms.mean(axis=0),
        "between_starts": found.between_starts,
        "spectral": found.spectral,
        "final_error": float(found.end.mean()),
        "row_bound": float(coarse_to_fine_bound(found.factors, found.terms, found.start).mean()),
        "uniform_bound": float(coarse_to_fine_bound(largest, found.terms.max(axis=0), found.start.max())),
        "expanding_steps": int((largest >= 1).sum()),
        "forgetting": float(np.prod(found.between_starts)),
    }


def chain_distances(method: IncrementDiffusion, features: Tensor, y: Tensor, keys: Tensor) -> ChainDistances:
    """Run chains of rows beside their true paths, without fresh noise (``eta = 0``), whatever the method samples with.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], keys ``(n,)``.
    """
    clean = stretch(split_increments(y, method.n_increments))
    noise, other = start_noise(keys, 2, method.n_increments).to(features).unbind(dim=1)

    def true_path(t: int) -> Tensor:
        return method.process.corrupt(clean, noise, torch.tensor(t, device=clean.device))

    state, times = noise, method.chain_times
    start, steps = _distance(state, true_path(times[0])), []
    for t, following in zip(times, [*times[1:], 0], strict=True):
        path = true_path(t)
        with torch.no_grad():
            after, path_after, other_after = (
                step_map(method, features, one, t, following) for one in (state, path, other)
            )
        factor = _ratio(_distance(after, path_after), _distance(state, path))
        between = _ratio(_distance(after, other_after), _distance(state, other)).mean()
        worst = jacobian_norms(method, features, state, t, following).mean()
        steps.append((factor, _distance(path_after, true_path(following)), between, worst))
        state, other = after, other_after
    factors, terms, between_starts, spectral = (np.stack(part, axis=-1) for part in zip(*steps, strict=True))
    return ChainDistances(factors, terms, start, _distance(state, clean), between_starts, spectral)


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


def _distance(one: Tensor, other: Tensor) -> Array:
    difference = (one.double() - other.double()).square().mean(dim=-1).sqrt()
    return np.asarray(difference.cpu().numpy())


def _ratio(after: Array, before: Array) -> Array:
    """Ratio of distances; 0 where there was none before, so that there is none to shrink."""
    return np.divide(after, before, out=np.zeros_like(after), where=before > 0)
