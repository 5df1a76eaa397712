"""Error-adaptive thresholds: between equally many rows and equal steps, where the two errors of CREAD are smallest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

ALPHAS = np.arange(0.001, 5, 0.1)
"""Values of alpha that are tried."""


def error_adaptive_levels(n_thresholds: int, alpha: float) -> Floats:
    """Training shares below the thresholds, denser at the top for larger alpha. **Shape:** -> ``(n_thresholds,)``.

    >>> error_adaptive_levels(4, 1.0).round(3).tolist(), error_adaptive_levels(4, 0.0).tolist()
    ([0.35, 0.622, 0.835, 1.0], [0.25, 0.5, 0.75, 1.0])
    """
    even = np.arange(1, n_thresholds + 1) / n_thresholds
    return even if alpha == 0 else np.asarray(np.expm1(-alpha * even) / np.expm1(-alpha))


def thresholds_at(ordered: Floats, levels: Floats) -> Floats:
    """Targets at or below which shares of the rows lie, each once. **Shape:** ``(n,)``, ``(M,)`` -> up to ``(M,)``."""
    # A level that rounding puts just above a whole number of rows must not take one more.
    places = np.ceil(levels * len(ordered) - 1e-9).astype(np.int64) - 1
    return np.unique(ordered[np.clip(places, 0, len(ordered) - 1)])


def discretisation_error(thresholds: Floats, shares: Floats, restoring_factor: float) -> float:
    """Error of learning plus a multiple of the error of restoring. **Shape:** ``(M,)``, shares of rows below ``(M,)``.

    >>> discretisation_error(np.array([0.5, 1.0]), np.array([0.5, 1.0]), 50.0)
    13.0
    """
    steps, masses = np.diff(thresholds, prepend=0.0), np.diff(shares, prepend=0.0)
    crowding = np.square(masses).sum()
    return float(crowding * ((np.square(steps) / masses).sum() + restoring_factor * np.square(steps).sum()))


def best_alpha(ordered: Floats, n_thresholds: int, restoring_factor: float) -> float:
    """The alpha of the grid whose thresholds promise the least error. **Shape:** ``(n,)``, from least to largest."""
    scaled = ordered / max(float(ordered[-1]), np.finfo(np.float32).tiny)
    errors = []
    for alpha in ALPHAS:
        thresholds = thresholds_at(scaled, error_adaptive_levels(n_thresholds, alpha))
        shares = np.searchsorted(scaled, thresholds, side="right") / len(scaled)
        errors.append(discretisation_error(thresholds, shares, restoring_factor))
    return float(ALPHAS[int(np.argmin(errors))])


def restored_value(exceedance: Tensor, thresholds: Tensor) -> Tensor:
    """Sum of steps, each times the probability to exceed its upper end. **Shape:** ``(n, M)``, ``(M,)`` -> ``(n,)``.

    >>> import torch
    >>> round(restored_value(torch.tensor([[0.9, 0.6, 0.3, 0.05]]), torch.tensor([1.0, 2.0, 4.0, 8.0])).item(), 4)
    2.3
    """
    return exceedance @ thresholds.diff(prepend=thresholds.new_zeros(1))


def order_losses(exceedance: Tensor) -> Tensor:
    """How far probabilities rise from threshold to threshold. **Shape:** ``(n, M)`` -> ``(n,)``."""
    return exceedance.diff(dim=1).clamp(min=0).sum(dim=1)
