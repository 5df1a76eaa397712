"""The kernel of a Gaussian process, and answers to its rows by kernels that were learned without them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from diffor.priors.kernel import Kernel, learn_kernel, learn_sums
from diffor.priors.process_solve import solve_exactly

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
