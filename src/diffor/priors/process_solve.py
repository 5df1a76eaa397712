"""Gaussian processes: solved exactly or through landmarks (kernel ridge), and asked about rows old and new.

By hand: Nystroem and Ridge of scikit-learn take .2 s for 3,000 rows and 300 landmarks, since each row's answer from the
others costs them folds; here that answer comes with the solution, in .03 s.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from diffor.core.method import KERNEL_ROWS, fill_up
from diffor.priors.kernel import Kernel, inverse_factor, learn_kernel, learn_sums

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


LIKENESSES = 1 << 17
"""Likenesses that are found at a time: they stay in the processor's cache."""


class ProcessAnswer(NamedTuple):
    """Known rows and what likeness to each is worth, ready to be asked."""

    view: Tensor
    """What columns become before they are compared. **Shape:** ``(p, p + r)``."""
    known: Tensor
    """Known rows so seen, their squared length, and 1: a product gives squared distances. ``(p + r + 2, m)``."""
    slopes: Tensor
    """What nearness to each known row is worth. **Shape:** ``(m,)``."""
    line: Tensor
    """What each column is worth by itself. **Shape:** ``(p,)``."""
    is_smooth: bool

    @classmethod
    def of(cls, kernel: Kernel, known: Tensor, slopes: Tensor) -> ProcessAnswer:
        """Prepare a process, in the precision of its known rows. **Shape:** ``(m, p)``, ``(m,)``."""
        near, linear, _ = kernel.log_scales.exp().tolist()
        is_smooth = bool(kernel.is_smooth)
        view = kernel.scaled(torch.eye(known.shape[1], dtype=torch.float64)).to(known.dtype)
        view *= 1 if is_smooth else math.sqrt(5)
        scaled = known @ view
        squares = scaled.square().sum(dim=1, keepdim=True)
        beside = torch.cat([-2 * scaled, squares, torch.ones_like(squares)], dim=1).T.contiguous()
        line = known.T @ slopes * (linear / max(known.shape[1], 1))
        return cls(view, beside, near * slopes, line, is_smooth)

    def predict(self, columns: Tensor) -> Tensor:
        """The expected target. **Shape:** ``(n, p)`` -> ``(n,)``."""
        size = max(KERNEL_ROWS, LIKENESSES // len(self.slopes) // KERNEL_ROWS * KERNEL_ROWS)
        pieces = [
            self._answer(fill_up(columns[first : first + size], KERNEL_ROWS)) for first in range(0, len(columns), size)
        ]
        return torch.cat(pieces)[: len(columns)] if pieces else columns.new_zeros(0)

    def _answer(self, columns: Tensor) -> Tensor:
        scaled = columns @ self.view
        squares = scaled.square().sum(dim=1, keepdim=True)
        apart = (torch.cat([scaled, torch.ones_like(squares), squares], dim=1) @ self.known).clamp_(min=0)
        if self.is_smooth:
            likeness = apart.mul_(-0.5).exp_()
        else:
            root = apart.sqrt()
            likeness = apart.mul_(1 / 3).add_(root).add_(1).mul_(root.neg_().exp_())
        return likeness @ self.slopes + columns @ self.line


MIN_HALF = 50
"""Of fewer rows no half is set aside: they are answered by the kernel that they taught."""
ROWS_PER_COLUMN = 10
"""With fewer, sums of columns are not tried."""


class LearnedKernel(NamedTuple):
    """A kernel learned on all rows, and each row's place by the others under a kernel that the row had no part in.

    A kernel has a length for each column: on few rows it knows some of them by heart, and then an answer that leaves a
    row out is not honest although its target takes no part in it. So each half of the rows is answered under the kernel
    that the other half taught. Those answers also decide whether sums of columns are worth knowing.
    """

    kernel: Kernel
    place: Tensor
    """**Shape:** ``(n,)``."""

    @classmethod
    def of(cls, rows: Tensor, target: Tensor, weights: Tensor, n_sums: int = 0) -> LearnedKernel:
        """Learn from rows in an order of no meaning. **Shape:** ``(n, p)``, ``(n,)``, ``(n,)`` float64.

        >>> rows = torch.rand(40, 2, dtype=torch.float64)
        >>> LearnedKernel.of(rows, rows.sum(dim=1), torch.ones(40, dtype=torch.float64)).place.shape
        torch.Size([40])
        """
        data = rows, target, weights
        kernel, start = learn_kernel(*data)
        half = len(rows) // 2
        if half < MIN_HALF:
            return cls(kernel, solve_exactly(kernel, *data).place)
        of_parts = [(rows[part], target[part], weights[part]) for part in (slice(None, half), slice(half, None))]
        halves = [learn_kernel(*part, starts=(start,))[0] for part in of_parts]
        place = _answer(halves, *data)
        if n_sums and 1 < rows.shape[1] <= len(rows) // ROWS_PER_COLUMN:
            further = [learn_sums(one, n_sums, *part) for one, part in zip(halves, of_parts, strict=True)]
            other = _answer(further, *data)
            if _missed(other, target, weights) < _missed(place, target, weights):
                return cls(learn_sums(kernel, n_sums, *data), other)
        return cls(kernel, place)


def _answer(halves: list[Kernel], rows: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Each half's rows by all others under the kernel of the other half. **Shape:** -> ``(n,)``."""
    half = len(rows) // 2
    first, second = (solve_exactly(kernel, rows, target, weights).place for kernel in halves)
    return torch.cat([second[:half], first[half:]])


def _missed(place: Tensor, target: Tensor, weights: Tensor) -> float:
    return float(((place - target).abs() * weights).sum())
