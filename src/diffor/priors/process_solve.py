"""Gaussian processes solved: exactly, or through landmarks, with each row's answer from the others in closed form."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from diffor.priors.kernel import Kernel, inverse_factor

JITTER = 1e-6
PIECE = 512
"""Rows that are summed at a time: memory does not grow with the table, and what they need stays in the cache."""


class Solution(NamedTuple):
    """What a process says about its own rows without each, and what it takes to answer others."""

    place: Tensor
    """Expected target of each row by all the others. **Shape:** ``(n,)``."""
    known: Tensor
    """Rows to which others are compared. **Shape:** ``(m, p)``."""
    slopes: Tensor
    """What likeness to each of them is worth. **Shape:** ``(m,)``."""


def solve_exactly(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> Solution:
    """All rows at once; each left out in turn by the inverse of the covariance.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, in double precision.
    """
    factor, slopes = _factor_and_slopes(kernel, rows, target, weights)
    certainty = inverse_factor(factor).square_().sum(dim=0)  # the diagonal of the inverse
    return Solution(target - slopes / certainty, rows, slopes)


def slopes_exactly(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """What likeness to each of the rows is worth. **Shape:** as of :func:`solve_exactly` -> ``(n,)``."""
    return _factor_and_slopes(kernel, rows, target, weights)[1]


def _factor_and_slopes(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The factor of the covariance, and what likeness to each row is worth. **Shape:** -> ``(n, n)``, ``(n,)``."""
    covariance = kernel.between(rows, rows)
    covariance.diagonal().add_(kernel.noise / weights)
    factor = steady_cholesky(covariance)
    return factor, torch.cholesky_solve(target[:, None], factor)[:, 0]


def solve_by_landmarks(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor, landmarks: Tensor) -> Solution:
    """Rows that know of each other through landmarks only, each with a variance of its own besides (FITC).

    This is a regression on the likeness to landmarks, so that leaving a row out is in closed form.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, landmarks ``(m, p)``, in double precision.
    """
    factor, slopes, own = _regress(kernel, rows, target, weights, landmarks)
    places = []
    for piece in _pieces(len(rows)):
        likeness = kernel.between(landmarks, rows[piece])
        said = slopes @ likeness
        share = solve_triangle(factor, likeness).square_().sum(dim=0) / own[piece]
        places.append((said - share * target[piece]) / (1 - share).clamp(min=1e-9))
    return Solution(torch.cat(places), landmarks, slopes)


def slopes_by_landmarks(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor, landmarks: Tensor) -> Tensor:
    """What likeness to each landmark is worth. **Shape:** as of :func:`solve_by_landmarks` -> ``(m,)``."""
    return _regress(kernel, rows, target, weights, landmarks)[1]


def _regress(
    kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor, landmarks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The lower factor of what landmarks know, what likeness to each is worth, and each row's own variance.

    **Shape:** -> ``(m, m)``, ``(m,)``, ``(n,)``.
    """
    among = kernel.between(landmarks, landmarks)
    among.diagonal().add_(JITTER * among.diagonal().mean())
    factor = steady_cholesky(among)
    products, along, variances = torch.eye(len(landmarks), dtype=rows.dtype), rows.new_zeros(len(landmarks)), []
    for piece in _pieces(len(rows)):
        parts = solve_triangle(factor, kernel.between(landmarks, rows[piece]))
        missed = (kernel.with_itself(rows[piece]) - parts.square().sum(dim=0)).clamp_(min=0)
        variances.append(missed + kernel.noise / weights[piece])
        along.addmv_(parts, target[piece] / variances[-1])
        add_products(products, parts.div_(variances[-1].sqrt()))
    inner = torch.linalg.cholesky(products)
    turned = torch.cholesky_solve(along[:, None], inner)
    slopes = torch.linalg.solve_triangular(factor.T, turned, upper=True)[:, 0]
    return factor @ inner, slopes, torch.cat(variances)


def solve_triangle(factor: Tensor, values: Tensor) -> Tensor:
    """A lower triangle's inverse times columns, which are lost. **Shape:** ``(m, m)``, ``(m, n)`` -> ``(m, n)``."""
    from scipy.linalg.blas import dtrsm

    # Transposed, arrays are what Fortran expects; torch's own takes half as long again.
    solved = dtrsm(1.0, factor.contiguous().numpy().T, values.contiguous().numpy().T, side=1, overwrite_b=1)
    return torch.from_numpy(solved.T)


def add_products(total: Tensor, values: Tensor) -> None:
    """Add products of rows with each other to the lower triangle of a total. **Shape:** ``(m, m)``, ``(m, n)``."""
    from scipy.linalg.blas import dsyrk

    dsyrk(1.0, values.numpy().T, beta=1.0, c=total.numpy().T, trans=1, overwrite_c=1)


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
