"""All measurements of the paper's theory on one trained method, at one go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffor.errors import UserError
from diffor.methods.diffor.increments import aggregate_increments, squeeze
from diffor.methods.diffor.networks import MLPDenoiser
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.paper.theory.analysis import Numbers, bounds_by_count, bounds_by_time, noise_identity
from diffor.paper.theory.contraction import contraction
from diffor.paper.theory.fusion import linear_fusion
from diffor.paper.theory.interference import time_interference
from diffor.paper.theory.representation import compare_embeddings, embeddings
from diffor.paper.theory.scale_information import N_BINS, scale_information

GRADE_COUNTS = (2, 3, 4, 5, 6, 8, 10, 15, 20)
"""Numbers of even grades into which values are cut."""
N_SAMPLES, N_COSTLY_SAMPLES = 64, 16
"""Chains of each row, and fewer where the denoiser is a transformer, each call of which costs fifty times as much."""
GRADE_BINS = 2
"""Cells in which increments of grades are counted: they are empty or full."""
GRADIENT_ROWS = 512
"""Rows whose gradients and Jacobians are taken: their means settle long before the rows run out."""
CHUNK_ROWS = 128
"""Rows whose chains run at a time, so that memory does not grow with the rows."""
MIN_ROWS = 8


def diagnose(
    method: IncrementDiffusion,
    features: Tensor,
    y: Tensor,
    keys: Tensor,
    n_grades: int | None = None,
    n_samples: int | None = None,
    grade_counts: Sequence[int] = GRADE_COUNTS,
) -> Numbers:
    """Measure what the paper proves on a trained method, in evaluation mode, and rows with known targets.

    ``n_grades`` is the number of grades where targets are grades; values are cut into ``grade_counts`` even ones.
    ``n_samples`` is the number of chains of each row, as many as take seconds if None. The answer is ready for JSON:
    the number of ``rows``, and ``measurements`` by name; what does not exist or is infinite is None.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], keys ``(n,)``.
    """
    if len(y) < MIN_ROWS:
        raise UserError(f"a diagnosis needs at least {MIN_ROWS} rows, but there are {len(y)}; pass more rows")
    n_chains = n_samples or (N_SAMPLES if isinstance(method.denoiser, MLPDenoiser) else N_COSTLY_SAMPLES)
    values, samples, (single, multiple, hidden) = _run_chains(method, features, keys, n_chains)
    times, true = method.chain_times, y.cpu().double().numpy()
    few = slice(0, GRADIENT_ROWS)
    if n_grades is None:
        n_bins, ordinal = N_BINS, bounds_by_count(values[:, -1], true, grade_counts)
    else:
        n_bins, ordinal = GRADE_BINS, bounds_by_time(values, true, times, n_grades)
    measurements = {
        "noise": noise_identity(method, features, y),
        "ordinal": ordinal,
        **linear_fusion(values, true, times),
        "representation": compare_embeddings(single, multiple, hidden, true),
        "interference": time_interference(method, features[few], y[few]),
        "contraction": contraction(method, features[few], y[few], keys[few]),
        "scales": scale_information(method, features, y, samples, n_bins=n_bins),
    }
    return {"rows": len(y), "measurements": plain(measurements)}


@torch.no_grad()
def _run_chains(method: IncrementDiffusion, features: Tensor, keys: Tensor, n_samples: int) -> tuple[Any, Tensor, Any]:
    """Mean values along the chain ``(n, M)``, increments at its end ``(n, m, S)``, and the three embeddings."""
    values, samples, read = [], [], []
    for first in range(0, len(keys), CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        estimates = method.read(features[rows], keys[rows], n_samples).estimates  # (n, m, M, S)
        increments = squeeze(estimates)
        values.append(aggregate_increments(increments).mean(dim=1))
        samples.append(increments[:, :, -1])
        read.append(embeddings(method, estimates))
    joined = [np.concatenate(parts) for parts in zip(*read, strict=True)]
    return torch.cat(values).cpu().double().numpy(), torch.cat(samples), joined


def plain(value: Any) -> Any:
    """The same of Python's own lists and numbers, and None for those that JSON does not have.

    >>> plain({"mse": np.array([1.0, np.nan]), "bound": float("inf")})
    {'mse': [1.0, None], 'bound': None}
    """
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
