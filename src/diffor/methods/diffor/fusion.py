"""The best linear combination of the estimates along a chain, for ``decoding="fusion"``."""

from __future__ import annotations

import torch
from torch import Tensor


def fit_fusion(errors: Tensor) -> Tensor:
    """Weights of sum 1 that minimise the mean squared error of the combined estimate.

    The minimiser is ``C^-1 1 / (1' C^-1 1)`` with C the matrix of mean error products; C is shrunk slightly to its
    diagonal, because the errors at neighbouring times are nearly the same.

    **Shape:** errors ``(n, M)`` -> ``(M,)``.

    >>> import torch
    >>> fit_fusion(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    tensor([0.5000, 0.5000])
    """
    errors = errors.cpu().double()
    products = errors.T @ errors / len(errors)
    products = products + torch.diag(products.diagonal() * 1e-3 + 1e-12)
    weights: Tensor = torch.linalg.solve(products, torch.ones(len(products), dtype=torch.float64))
    return (weights / weights.sum()).float()
