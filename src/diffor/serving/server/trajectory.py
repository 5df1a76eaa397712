"""One row along the reverse chain: what its samples would be answered with at each step, and which increments."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from diffor.estimators.chain import own_features
from diffor.methods.diffor.increments import aggregate_increments, squeeze

N_CHAINS = 64


def follow_row(model: Any, X: Any, n_chains: int = N_CHAINS) -> dict[str, Any]:
    """The denoised estimates of one row's samples, from all noise to none, as JSON values.

    Chains are those of the first member that has any. ``values`` are in the target's units, for grades in places of
    grades; ``levels`` say how far the range is filled up to and with each increment, on average over the chains, in the
    same units: a thermometer, read at that step.
    """
    member, features, keys = own_features(model, X)
    method: Any = member.method
    with torch.inference_mode():
        estimates = squeeze(method.read(features[:1], keys[:1], n_chains).estimates[0]).cpu().double()  # (m, k, S)
        values = aggregate_increments(estimates)  # (m, k)
        levels = estimates.clamp(0.0, 1 / estimates.shape[-1]).mean(dim=0).cumsum(dim=-1)  # (k, S)
    noise = [float(method.process.spread(torch.tensor(time))) for time in method.chain_times]
    steps = [
        {"time": int(time), "noise": share, "values": _in_units(model, at), "levels": _in_units(model, filled)}
        for time, share, at, filled in zip(method.chain_times, noise, values.T.numpy(), levels.numpy(), strict=True)
    ]
    return {"n_times": int(method.process.n_times), "steps": steps}


def _in_units(model: Any, unit: Any) -> list[float]:
    # Places between grades are not rounded: the chain is on its way to one.
    values = unit * model.scale_.high if hasattr(model, "classes_") else model.scale_.from_unit(unit)
    return [float(value) for value in np.asarray(values)]
