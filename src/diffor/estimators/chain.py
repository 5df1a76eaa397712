"""The denoising chain of a fitted model: whether it has one, what it starts from, and the values along it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.core.method import OrdinalModel
from diffor.errors import UserError
from diffor.estimators.base import OrdinalEstimator
from diffor.methods import METHODS
from diffor.methods.diffor.increments import split_increments
from diffor.training.loop import limit_threads

Array = NDArray[np.float64]

N_CHAINS = 100


class Trajectory(NamedTuple):
    """Values of one row along the reverse chain. **Shape:** times ``(k,)`` falling, values ``(m, k)``."""

    times: tuple[int, ...]
    values: Array


def has_chain(model: Any) -> bool:
    """Whether a fitted model answers by a reverse chain that can be followed."""
    return METHODS[model.settings_.method].has_chain


def has_increments(model: Any) -> bool:
    """Whether the chain of a fitted model is one of increments, of which the paper's theorems speak."""
    return METHODS[model.settings_.method].has_increments


def own_features(model: OrdinalEstimator, X: Any) -> tuple[OrdinalModel, Tensor, Tensor]:
    """The first member of a model with a chain, its features of the rows, and the keys of its noise for them.

    **Shape:** X of n rows -> member, ``(n, d)``, ``(n,)``.
    """
    if not has_chain(model):
        raise UserError(
            f"only a method with a chain can be followed, but got method={model.settings_.method!r}; "
            "fit DiffoRRegressor('paper') or DiffoRClassifier('paper')"
        )
    member = model.ensemble_.models[0]
    features, keys = [], []
    for rows in model.row_blocks(X):
        with limit_threads(model.n_jobs):
            features.append(member.features(rows.inputs).clone())  # a copy can take part in gradients
        keys.append(rows.keys)
    return member, torch.cat(features), torch.cat(keys)


def trajectory_of(model: OrdinalEstimator, row: Any, n_chains: int = N_CHAINS) -> Trajectory:
    """Values along the chain of the first member, for a table of one row, in the target's units."""
    member, features, keys = own_features(model, row)
    method: Any = member.method
    with torch.inference_mode():
        unit = method.values_along(features, keys, n_chains)[0].cpu().double().numpy()  # (m, k)
    return Trajectory(tuple(method.chain_times), in_target_units(model, unit))


def in_target_units(model: Any, unit: Array) -> Array:
    """Values in [0, 1] in the target's units; places between grades are not rounded. **Shape:** any, kept."""
    values = unit * model.scale_.high if hasattr(model, "classes_") else model.scale_.from_unit(unit)
    return np.asarray(values, dtype=np.float64)


def true_increments(model: Any, y: Array, n_increments: int) -> Array:
    """The increments of true targets, as ``model.predict_increments`` gives those of its answers.

    **Shape:** ``(n,)``, values or codes of grades -> ``(n, n_increments)``.
    """
    unit = torch.from_numpy(np.asarray(model.scale_.to_unit(y), dtype=np.float64))
    levels = in_target_units(model, split_increments(unit, n_increments).cumsum(dim=-1).numpy())
    return np.diff(levels, axis=1, prepend=model.scale_.low)
