"""What a solved Gaussian process expects of new rows, prepared so that each row costs one product and a few passes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from diffor.core.method import KERNEL_ROWS, fill_up
from diffor.priors.kernel import Kernel

PIECE = 1 << 17
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
        size = max(KERNEL_ROWS, PIECE // len(self.slopes) // KERNEL_ROWS * KERNEL_ROWS)
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
