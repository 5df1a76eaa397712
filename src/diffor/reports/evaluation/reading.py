"""What DiffoR's own models can be asked beside their answers: increments, and values along the reverse chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_CHAINS = 100


class Trajectory(NamedTuple):
    """Values of one row along the reverse chain. **Shape:** times ``(k,)`` falling, values ``(m, k)``."""

    times: tuple[int, ...]
    values: Array


def true_increments(model: Any, y: Array, n_increments: int) -> Array:
    """The increments of true targets, as ``model.predict_increments`` gives those of its answers.

    **Shape:** ``(n,)``, values or places of grades -> ``(n, n_increments)``.
    """
    import torch

    from diffor.methods.diffor import split_increments

    unit = torch.from_numpy(np.asarray(model.scale_.to_unit(y), dtype=np.float64))
    levels = split_increments(unit, n_increments).cumsum(dim=-1).numpy()
    return in_target_units(model, levels)


def in_target_units(model: Any, levels: Array) -> Array:
    """Steps between rising levels in [0, 1], the first from 0, in the target's units. **Shape:** ``(n, S)``."""
    # Increments of grades are parts of grades, so they are not rounded to whole ones.
    values = levels * model.scale_.high if hasattr(model, "classes_") else model.scale_.from_unit(levels)
    low = np.full((len(levels), 1), model.scale_.low)
    return np.asarray(np.diff(np.concatenate([low, values], axis=1), axis=1))


def trajectory_of(model: Any, row: pd.DataFrame, n_chains: int = N_CHAINS) -> Trajectory:
    """Values along the chain of the first member that has one, for a table of one row, in the target's units."""
    import torch

    from diffor.estimators.chain import own_features

    member, features, keys = own_features(model, row)
    method: Any = member.method
    with torch.inference_mode():
        unit = method.values_along(features, keys, n_chains)[0]
    values = np.asarray(unit.cpu().double().numpy())  # (m, k)
    scaled = values * model.scale_.high if hasattr(model, "classes_") else model.scale_.from_unit(values)
    return Trajectory(tuple(method.chain_times), np.asarray(scaled, dtype=np.float64))
