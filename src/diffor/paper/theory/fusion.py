"""Several times against one: which time of the chain answers best, and what their best linear combination gains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.methods.diffor.fusion import fit_fusion
from diffor.paper.theory.analysis import Array, Numbers


def gain_over(errors: Array, others: Array) -> tuple[float, float]:
    """Share by which a squared error lies below another one on the same rows, and that share's standard error.

    There is no gain where there is no error to lower. **Shape:** each ``(n,)``.
    """
    differences, level = others**2 - errors**2, float((others**2).mean())
    if level == 0:
        return 0.0, 0.0
    return float(differences.mean()) / level, float(differences.std(ddof=1)) / math.sqrt(len(errors)) / level


def linear_fusion(values: ArrayLike, y: ArrayLike, times: Sequence[int]) -> dict[str, Numbers]:
    """Measure the error at each time of the chain (``selection``), and fit the best combination of times (``fusion``).

    These are the values a prediction has, not the estimates of the theorems, which start from the corrupted truth and
    so are best at the lowest noise by construction. The first half of the rows chooses the best time and fits the
    weights, which sum to one; the other half judges, ``held_out_mse`` and gains are its. ``row_oracle_mse`` is the
    error if each row had the time that is best for it, which nobody knows without the truth. ``bound`` is the paper's
    ``sum w_i^2 v_i + 2 sum_{i<j} |w_i w_j| b_ij`` with the measured products of errors as v and b: it takes absolute
    values, so where errors at neighbouring times are nearly the same and weights have both signs, it is far above the
    error it bounds.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.
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
    gain, gain_error = gain_over(unseen[:, best], unseen[:, -1])
    over_best, over_best_error = gain_over(fused, unseen[:, best])
    over_last, over_last_error = gain_over(fused, unseen[:, -1])
    selection = {
        "times": list(times),
        "mse": (seen**2).mean(axis=0),
        "held_out_mse": (unseen**2).mean(axis=0),
        "best_time": times[best],
        "row_oracle_mse": float((seen**2).min(axis=1).mean()),
        "gain_over_last": gain,
        "gain_error": gain_error,
    }
    fusion = {
        "times": list(times),
        "weights": weights,
        "mse": float(weights @ products @ weights),
        "bound": float(np.abs(weights) @ np.abs(products) @ np.abs(weights)),
        "held_out_mse": float((fused**2).mean()),
        "gain_over_best": over_best,
        "gain_over_best_error": over_best_error,
        "gain_over_last": over_last,
        "gain_over_last_error": over_last_error,
    }
    return {"selection": selection, "fusion": fusion}
