"""A smooth curve through a table: ridge regression on the columns and on their nearness to some of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.method import KERNEL_ROWS, fill_up

Floats = NDArray[np.floating]

N_LANDMARKS = 400
MAX_CURVE_ROWS = 20_000
REACHES = (0.25, 1.0, 4.0)
"""Squared distances, as shares of the mean squared distance of rows, at which nearness has fallen to a third or so."""
PENALTIES = (1e-2, 1e-1, 1.0, 10.0, 100.0)
NEARNESS_WEIGHT = 5.0
"""How much less nearness is penalised than the columns themselves: its values are small where columns are many."""
PIECE = 256
CHECK_PIECE = 4096
"""Rows that are checked at a time, so that memory does not grow with the table."""
FIT_PIECE = 512
"""Rows that are fitted at a time: what is made of them fits into a core's cache, which more than halves the time."""


class Curve(NamedTuple):
    """A fitted curve; in double precision, because its parts are large and cancel."""

    centre: Tensor
    scale: Tensor
    """What is taken from each column, and what it is divided by: infinity for a constant one. **Shape:** ``(p,)``."""
    landmarks: Tensor
    """Scaled rows to which nearness is measured. **Shape:** ``(m, p)``."""
    sharpness: Tensor
    """Factor of the squared distance. **Shape:** ``()``."""
    slopes: Tensor
    """Of the columns, of the nearnesses, and the constant. **Shape:** ``(p + m + 1,)``."""

    def predict(self, columns: Tensor) -> Tensor:
        """Expected place of the target in [0, 1]. **Shape:** ``(n, p)`` -> ``(n,)``."""
        pieces = [
            self._follow(fill_up(columns[first : first + PIECE], KERNEL_ROWS))
            for first in range(0, len(columns), PIECE)
        ]
        return torch.cat(pieces)[: len(columns)] if pieces else columns.new_zeros(0)

    def _follow(self, columns: Tensor) -> Tensor:
        parts = describe((columns.double() - self.centre) / self.scale, self.landmarks, self.sharpness)
        return (parts @ self.slopes[:-1] + self.slopes[-1]).clamp(0, 1).float()


def describe(scaled: Tensor, landmarks: Tensor, sharpness: Tensor | float) -> Tensor:
    """Scaled columns and the nearness to each landmark. **Shape:** ``(n, p)``, ``(m, p)`` -> ``(n, p + m)``.

    >>> describe(torch.zeros(1, 2), torch.zeros(1, 2), 1.0).tolist()
    [[0.0, 0.0, 5.0]]
    """
    lengths = scaled.square().sum(dim=1, keepdim=True) + landmarks.square().sum(dim=1)
    distances = (lengths - 2 * scaled @ landmarks.T).clamp(min=0)
    return torch.cat([scaled, NEARNESS_WEIGHT * torch.exp(-sharpness * distances)], dim=1)


def fit_curve(
    table: Floats, target: Floats, weights: Floats | None, check: tuple[Floats, Floats, Floats | None], seed: int
) -> Curve:
    """Fit curves of several reaches and penalties and keep the one that answers the ``check`` rows best.

    At most ``MAX_CURVE_ROWS`` rows are drawn. **Shape:** table ``(n, p)``, target ``(n,)``.
    """
    some = np.random.default_rng(seed).permutation(len(table))[:MAX_CURVE_ROWS]
    columns, wanted = torch.from_numpy(table[some]).double(), torch.from_numpy(target[some]).double()
    importance = torch.ones(len(some)).double() if weights is None else torch.from_numpy(weights[some]).double()
    centre, scale = columns.mean(dim=0), columns.std(dim=0, unbiased=False)
    scale[scale < 1e-6] = torch.inf  # a constant column says nothing
    scaled = (columns - centre) / scale
    landmarks = scaled[: min(N_LANDMARKS, len(scaled) // 2)]
    overall = (importance * wanted).sum() / importance.sum().clamp(min=1e-12)
    of_check, wanted_check = torch.from_numpy(check[0]).double(), torch.from_numpy(check[1]).double()
    counted = torch.ones(len(of_check)).double() if check[2] is None else torch.from_numpy(check[2]).double()
    check_rows = (of_check - centre) / scale, wanted_check - overall, counted
    best, found = torch.inf, None
    for reach in REACHES:
        sharpness = 1 / (2 * reach * max(int(torch.isfinite(scale).sum()), 1))
        slopes = ridge_path(*sum_products(scaled, wanted - overall, importance, landmarks, sharpness))
        for error, along in zip(check_errors(slopes, *check_rows, landmarks, sharpness), slopes.T, strict=True):
            if error < best:
                all_slopes = torch.cat([along, overall[None]])
                best, found = error, Curve(centre, scale, landmarks, torch.tensor(sharpness).double(), all_slopes)
    if found is None:
        raise FloatingPointError("a curve through the table must have finite errors: look for extreme values in X")
    return found


def sum_products(
    scaled: Tensor, wanted: Tensor, weights: Tensor, landmarks: Tensor, sharpness: float
) -> tuple[Tensor, Tensor]:
    """Weighted sums of the products of a row's parts with each other and with the target, some rows at a time.

    **Shape:** scaled ``(n, p)``, wanted and weights ``(n,)``, landmarks ``(m, p)`` -> ``(q, q)``, ``(q,)``.
    """
    n_parts = scaled.shape[1] + len(landmarks)
    products, along = scaled.new_zeros(n_parts, n_parts), scaled.new_zeros(n_parts)
    for first in range(0, len(scaled), FIT_PIECE):
        rows = slice(first, first + FIT_PIECE)
        parts = describe(scaled[rows], landmarks, sharpness)
        products.addmm_(parts.T, weights[rows, None] * parts)
        along.addmv_(parts.T, weights[rows] * wanted[rows])
    return products, along


def ridge_path(products: Tensor, along: Tensor) -> Tensor:
    """Slopes of ridge regression for each penalty, from one decomposition.

    **Shape:** products of the parts with each other ``(q, q)`` and with the target ``(q,)`` -> ``(q, 5)``.
    """
    values, vectors = torch.linalg.eigh(products)
    turned = vectors.T @ along
    slopes: Tensor = vectors @ torch.stack([turned / (values.clamp(min=0) + penalty) for penalty in PENALTIES], dim=1)
    return slopes


def check_errors(
    slopes: Tensor, scaled: Tensor, wanted: Tensor, weights: Tensor, landmarks: Tensor, sharpness: float
) -> list[float]:
    """The weighted sum of squared errors of each of several slopes, some rows at a time.

    **Shape:** slopes ``(q, s)``, scaled ``(n, p)``, wanted and weights ``(n,)``, landmarks ``(m, p)`` -> s numbers.
    """
    total = slopes.new_zeros(slopes.shape[1])
    for first in range(0, len(scaled), CHECK_PIECE):
        rows = slice(first, first + CHECK_PIECE)
        missed = describe(scaled[rows], landmarks, sharpness) @ slopes - wanted[rows, None]
        total += weights[rows] @ missed.square()
    return [float(error) for error in total]
