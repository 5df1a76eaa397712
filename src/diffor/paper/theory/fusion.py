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


def gain_over(errors: Array, others: Array) -> Gain:
    """Compare errors row by row; there is no gain where there is no error to lower. **Shape:** each ``(n,)``.

    >>> gain_over(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    Gain(share=0.75, error=0.0)
    """
    differences, level = others**2 - errors**2, float((others**2).mean())
    if level == 0:
        return Gain(0.0, 0.0)
    return Gain(float(differences.mean()) / level, float(differences.std(ddof=1)) / math.sqrt(len(errors)) / level)


@dataclass(frozen=True)
class TimeSelection:
    """Mean squared error of the value at each time of the chain; one half of the rows chooses, the other judges.

    **Shape:** times, mse (rows that choose) and held_out_mse ``(M,)``, from noise to clean.
    """

    times: tuple[int, ...]
    mse: Array
    held_out_mse: Array
    row_oracle_mse: float
    """The error if each row had the time that is best for it, which nobody knows without the truth."""
    gain: Gain
    """Of the best time over the last, on held-out rows."""

    @property
    def best(self) -> int:
        """Index of the best single time."""
        return int(self.mse.argmin())

    @property
    def numbers(self) -> dict[str, Any]:
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
    """Over the best single time, on held-out rows."""
    over_last: Gain
    selection: TimeSelection

    @property
    def numbers(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "weights": self.weights.tolist(), "mse": self.mse, "bound": self.bound,
            "held_out_mse": self.held_out_mse, "gain_over_best": self.over_best.share,
            "gain_over_best_error": self.over_best.error, "gain_over_last": self.over_last.share,
            "gain_over_last_error": self.over_last.error,
        }  # fmt: skip


def linear_fusion(values: ArrayLike, y: ArrayLike, times: Sequence[int]) -> LinearFusion:
    """Measure the error at each time of the chain, and fit the combination of times with the smallest squared error.

    These are the values a prediction has, not the estimates of the theorems, which start from the corrupted truth and
    so are best at the lowest noise by construction. Weights sum to one and are fitted on the first half of the rows.
    The paper's bound takes absolute values of all products, so where errors at neighbouring times are nearly the same
    and weights have both signs, it is far above the error it bounds.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.

    >>> linear_fusion([[0.0, 0.4], [1.0, 0.5], [0.1, 0.5], [0.8, 0.5]], [0.0, 1.0, 0.0, 1.0], [9, 1]).selection.best
    0
    """
    along, true = np.asarray(values, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if along.ndim != 2 or along.shape != (len(true), len(times)) or len(true) < 4:
        raise UserError(
            "values must hold one number for each of at least 4 rows and each time, but got "
            f"values.shape={along.shape}, y.shape={true.shape}, times={len(times)}"
        )
    errors, half = along - true[:, None], len(true) // 2
    seen, unseen = errors[:half], errors[half:]
    best = int((seen**2).mean(axis=0).argmin())
    weights = fit_fusion(torch.from_numpy(seen)).double().numpy()
    weights /= weights.sum()  # of single precision before
    products, fused = seen.T @ seen / len(seen), unseen @ weights
    return LinearFusion(
        times=tuple(times),
        weights=weights,
        mse=float(weights @ products @ weights),
        bound=float(np.abs(weights) @ np.abs(products) @ np.abs(weights)),
        held_out_mse=float((fused**2).mean()),
        over_best=gain_over(fused, unseen[:, best]),
        over_last=gain_over(fused, unseen[:, -1]),
        selection=TimeSelection(
            times=tuple(times),
            mse=(seen**2).mean(axis=0),
            held_out_mse=(unseen**2).mean(axis=0),
            row_oracle_mse=float((seen**2).min(axis=1).mean()),
            gain=gain_over(unseen[:, best], unseen[:, -1]),
        ),
    )
