"""Several times against one: which time of the chain answers best, and what their best linear combination gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.methods.diffor.fusion import fit_fusion

Array = NDArray[np.floating]


class Gain(NamedTuple):
    """Share by which a squared error lies below another one on the same rows, and the standard error of that share."""

    share: float
    error: float

    @classmethod
    def of(cls, errors: Array, others: Array) -> Gain:
        """Compare errors row by row; there is no gain where there is no error to lower. **Shape:** each ``(n,)``.

        >>> Gain.of(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
        Gain(share=0.75, error=0.0)
        """
        differences, level = others**2 - errors**2, float((others**2).mean())
        if level == 0:
            return cls(0.0, 0.0)
        return cls(float(differences.mean()) / level, float(differences.std(ddof=1)) / math.sqrt(len(errors)) / level)

    def __str__(self) -> str:
        side = "below" if self.share >= 0 else "above"
        chance = ", so this may be chance" if abs(self.share) <= 2 * self.error else ""
        return f"{abs(self.share):.1%} {side} (standard error {self.error:.1%}{chance})"


@dataclass(frozen=True)
class TimeSelection:
    """Mean squared error of the value read off the chain's estimate at each time, and what a choice among them gains.

    **Shape:** times and mse ``(M,)``, from the first time of the chain (noise) to the last.
    """

    times: tuple[int, ...]
    mse: Array
    held_out_mse: Array
    """The same on the rows that the choice has not seen."""
    row_oracle_mse: float
    """The error if each row had the time that is best for it, which nobody knows without the truth."""
    gain: Gain
    """What the best time gains over the last, on the rows that the choice has not seen."""
    n_held_out: int

    @property
    def best(self) -> int:
        """Place of the best single time."""
        return int(self.mse.argmin())

    @property
    def sentence(self) -> str:
        """What the measurement means."""
        best, last = self.times[self.best], self.times[-1]
        if self.best == len(self.times) - 1:
            chosen = f"The last time of the chain ({last}) answers best, so a choice among times gains nothing."
        else:
            chosen = (
                f"Time {best} answers best on the rows that choose it. On {self.n_held_out} others its squared error "
                f"lies {self.gain} that of the last time, {last}."
            )
        level = float(self.mse[self.best])
        oracle = 1 - self.row_oracle_mse / level if level > 0 else 0.0
        return (
            f"{chosen} That the best time is no worse than any other is its definition. The best time of each row "
            f"would lower the squared error by {oracle:.0%}, but choosing it takes the truth."
        )

    @property
    def figures(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "mse": self.mse.tolist(), "held_out_mse": self.held_out_mse.tolist(),
            "best_time": self.times[self.best], "row_oracle_mse": self.row_oracle_mse,
            "gain_over_last": self.gain.share, "gain_error": self.gain.error,
        }  # fmt: skip


@dataclass(frozen=True)
class LinearFusion:
    """The best linear combination of the chain's values, with the paper's bound on its error.

    **Shape:** times and weights ``(M,)``.
    """

    times: tuple[int, ...]
    weights: Array
    mse: float
    bound: float
    """``sum w_i^2 v_i + 2 sum_{i<j} |w_i w_j| b_ij`` with the measured error products as v and b."""
    held_out_mse: float
    over_best: Gain
    """What fusion gains over the best single time, on the rows it was not fitted on ..."""
    over_last: Gain
    """... and over the last time."""
    selection: TimeSelection

    @property
    def sentence(self) -> str:
        """What the measurement means."""
        best = float(self.selection.mse[self.selection.best])
        if self.bound < best:
            bound = f"The covariance bound ({self.bound:.2g}) promises a part of that"
        else:
            bound = (
                f"The covariance bound ({self.bound:.2g}) lies above the best single time ({best:.2g}), so it promises "
                "no gain here"
            )
        signs = ", some of them negative," if (self.weights < 0).any() else ""
        return (
            f"Fusion with weights from {self.weights.min():.2f} to {self.weights.max():.2f}{signs} has, on "
            f"{self.selection.n_held_out} rows it was not fitted on, a squared error {self.over_best} that of the best "
            f"single time, and {self.over_last} that of the last. {bound}."
        )

    @property
    def figures(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "weights": self.weights.tolist(), "mse": self.mse, "bound": self.bound,
            "held_out_mse": self.held_out_mse, "gain_over_best": self.over_best.share,
            "gain_over_best_error": self.over_best.error, "gain_over_last": self.over_last.share,
            "gain_over_last_error": self.over_last.error,
        }  # fmt: skip


def time_selection(values: ArrayLike, y: ArrayLike, times: Sequence[int]) -> TimeSelection:
    """Measure the error at each time of the chain and what the oracles of the paper would choose.

    The first half of the rows chooses, the second half judges. These are the values a prediction has, not the
    estimates of the theorems, which start from the corrupted truth and so are best at the lowest noise by construction.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.

    >>> time_selection([[0.0, 0.4], [1.0, 0.5], [0.1, 0.5], [0.8, 0.5]], [0.0, 1.0, 0.0, 1.0], [9, 1]).best
    0
    """
    seen, unseen = _error_halves(values, y, times)
    best = int((seen**2).mean(axis=0).argmin())
    return TimeSelection(
        times=tuple(times),
        mse=(seen**2).mean(axis=0),
        held_out_mse=(unseen**2).mean(axis=0),
        row_oracle_mse=float((seen**2).min(axis=1).mean()),
        gain=Gain.of(unseen[:, best], unseen[:, -1]),
        n_held_out=len(unseen),
    )


def linear_fusion(values: ArrayLike, y: ArrayLike, times: Sequence[int]) -> LinearFusion:
    """Fit the combination of times with the smallest squared error, and measure what it gains.

    The weights sum to one and are fitted on the first half of the rows, as ``decoding="fusion"`` does on validation
    rows. The paper's bound takes absolute values of all products, so where errors at neighbouring times are nearly the
    same and weights have both signs, it is far above the error it bounds.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.
    """
    selection = time_selection(values, y, times)
    seen, unseen = _error_halves(values, y, times)
    weights = fit_fusion(torch.from_numpy(seen)).double().numpy()
    weights /= weights.sum()  # of single precision before
    products = seen.T @ seen / len(seen)
    return LinearFusion(
        times=tuple(times),
        weights=weights,
        mse=float(weights @ products @ weights),
        bound=float(np.abs(weights) @ np.abs(products) @ np.abs(weights)),
        held_out_mse=float(((unseen @ weights) ** 2).mean()),
        over_best=Gain.of(unseen @ weights, unseen[:, selection.best]),
        over_last=Gain.of(unseen @ weights, unseen[:, -1]),
        selection=selection,
    )


def _error_halves(values: ArrayLike, y: ArrayLike, times: Sequence[int]) -> tuple[Array, Array]:
    along, true = np.asarray(values, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if along.ndim != 2 or along.shape != (len(true), len(times)) or len(true) < 4:
        raise UserError(
            "values must hold one number for each of at least 4 rows and each time, but got "
            f"values.shape={along.shape}, y.shape={true.shape}, times={len(times)}"
        )
    errors = along - true[:, None]
    half = len(errors) // 2
    return errors[:half], errors[half:]
