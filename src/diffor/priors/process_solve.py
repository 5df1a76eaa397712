"""Gaussian processes solved: exactly, or through landmarks, with each row's answer from the others in closed form."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from diffor.priors.kernel import Kernel, inverse_factor

JITTER = 1e-6
PIECE = 4096
"""Rows that are summed at a time, so that memory does not grow with the table."""


class Solution(NamedTuple):
    """What a process says about its own rows without each, and what it takes to answer others."""

    place: Tensor
    """Expected target of each row by all the others. **Shape:** ``(n,)``."""
    variance: Tensor
    """Variance of each row's target by all the others, of a row of weight 1. **Shape:** ``(n,)``."""
    known: Tensor
    """Rows to which others are compared. **Shape:** ``(m, p)``."""
    slopes: Tensor
    """What likeness to each of them is worth. **Shape:** ``(m,)``."""


def solve_exactly(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> Solution:
    """All rows at once; each left out in turn by the inverse of the covariance.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, in double precision.
    """
    noise = kernel.noise / weights
    covariance = kernel.between(rows, rows)
    covariance.diagonal().add_(noise)
    factor = steady_cholesky(covariance)
    slopes = torch.cholesky_solve(target[:, None], factor)[:, 0]
    certainty = inverse_factor(factor).square().sum(dim=0)  # the diagonal of the inverse
    place = target - slopes / certainty
    return Solution(place, (1 / certainty - noise).clamp(min=0) + kernel.noise, rows, slopes)


def slopes_exactly(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """What likeness to each of the rows is worth. **Shape:** as of :func:`solve_exactly` -> ``(n,)``."""
    covariance = kernel.between(rows, rows)
    covariance.diagonal().add_(kernel.noise / weights)
    return torch.cholesky_solve(target[:, None], steady_cholesky(covariance))[:, 0]


def solve_by_landmarks(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor, landmarks: Tensor) -> Solution:
    """Rows that know of each other through landmarks only, each with a variance of its own besides (FITC).

    This is a regression on the likeness to landmarks, so that leaving a row out is in closed form.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, landmarks ``(m, p)``, in double precision.
    """
    among = kernel.between(landmarks, landmarks)
    among.diagonal().add_(JITTER * among.diagonal().mean())
    factor = steady_cholesky(among)
    products, along = torch.eye(len(landmarks), dtype=rows.dtype), rows.new_zeros(len(landmarks))
    for piece in _pieces(len(rows)):
        parts, own = _describe(kernel, rows[piece], weights[piece], landmarks, factor)
        products.addmm_(parts.T / own, parts)
        along.addmv_(parts.T, target[piece] / own)
    inner = torch.linalg.cholesky(products)
    turned = torch.cholesky_solve(along[:, None], inner)[:, 0]
    places, variances = [], []
    for piece in _pieces(len(rows)):
        parts, own = _describe(kernel, rows[piece], weights[piece], landmarks, factor)
        share = torch.linalg.solve_triangular(inner, parts.T, upper=False).square().sum(dim=0) / own
        rest = (1 - share).clamp(min=1e-9)
        places.append((parts @ turned - share * target[piece]) / rest)
        variances.append((own / rest - kernel.noise / weights[piece]).clamp(min=0) + kernel.noise)
    slopes = torch.linalg.solve_triangular(factor.T, turned[:, None], upper=True)[:, 0]
    return Solution(torch.cat(places), torch.cat(variances), landmarks, slopes)


def steady_cholesky(covariance: Tensor) -> Tensor:
    """The lower factor of a covariance, with as much added to its diagonal as it takes. **Shape:** ``(n, n)``."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(covariance)
    added = JITTER * float(covariance.diagonal().mean())
    while bool(failed) or not bool(torch.isfinite(factor.diagonal()).all()):
        if not added < 1e6:
            raise FloatingPointError("the covariance of a process must be finite: look for extreme values in X")
        covariance = covariance + added * torch.eye(len(covariance), dtype=covariance.dtype)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        added *= 10
    return factor


def _pieces(n_rows: int) -> list[slice]:
    return [slice(first, first + PIECE) for first in range(0, n_rows, PIECE)]


def _describe(
    kernel: Kernel, rows: Tensor, weights: Tensor, landmarks: Tensor, factor: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows as regression on landmarks reads them, and each row's own variance. **Shape:** -> ``(n, m)``, ``(n,)``."""
    parts = torch.linalg.solve_triangular(factor, kernel.between(landmarks, rows), upper=False).T
    missed = (kernel.with_itself(rows) - parts.square().sum(dim=1)).clamp(min=0)
    return parts, missed + kernel.noise / weights
