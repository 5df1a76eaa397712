"""Multi-scale increments (MIA): a target in [0, 1] as S bounded parts, and the times at which each is decoded (DDP)."""

from __future__ import annotations

import torch
from torch import Tensor

from diffor.errors import UserError, check_choice, check_least

SPACINGS = ("linear", "log", "shared")


def split_increments(y: Tensor, count: int) -> Tensor:
    """Say how far each target has filled each of ``count`` equal intervals of [0, 1].

    ``b_k = min(max(y - (k - 1) * width, 0), width)`` with ``width = 1 / count``; the increments sum to ``y``.

    **Shape:** ``(...)`` -> ``(..., count)``.

    >>> import torch
    >>> split_increments(torch.tensor([0.625]), count=4)
    tensor([[0.2500, 0.2500, 0.1250, 0.0000]])
    """
    check_least("count", count)
    width = 1.0 / count
    lower = torch.arange(count, dtype=y.dtype, device=y.device) * width
    return (y[..., None] - lower).clamp(0.0, width)


def aggregate_increments(increments: Tensor) -> Tensor:
    """Sum the usable part of each increment to a value in [0, 1].

    The paper truncates increment k to ``min(b_k, width, [1 - sum of the truncated ones before]_+)``. The first two
    bounds keep every partial sum at or below ``k * width``, so at least ``width`` is always left and the last bound
    never binds: clamp and sum is the same function.

    **Shape:** ``(..., S)`` -> ``(...)``.

    >>> import torch
    >>> aggregate_increments(torch.tensor([[0.25, 0.40, -0.10, 0.05]]))
    tensor([0.5500])
    """
    width = 1.0 / increments.shape[-1]
    return increments.clamp(0.0, width).sum(dim=-1).clamp(0.0, 1.0)  # the outer clamp removes rounding only


def aligned_times(count: int, n_times: int, spacing: str = "linear") -> tuple[int, ...]:
    """Choose the time of each increment's head: coarse increments at high noise, fine ones at low noise.

    - ``linear``: ``t_k = 1 + floor((S - k) / (S - 1) * (T - 1))``;
    - ``log``: evenly spaced in log t, moved apart to whole distinct times;
    - ``shared``: every head at t = 1, which is the model without DDP.

    NOTE[DIFF]: the paper's formula divides by zero for S = 1 (without MIA). The single head then reads the last
    denoising state, t = 1, as the paper describes a standard diffusion regressor.

    >>> aligned_times(4, 1000)
    (1000, 667, 334, 1)
    >>> aligned_times(4, 1000, "log")
    (1000, 100, 10, 1)
    """
    check_choice("spacing", spacing, SPACINGS)
    check_least("count", count)
    if spacing == "shared" or count == 1:
        return (1,) * count
    if n_times < count:
        raise UserError(
            f"distinct times need n_times >= count, but got n_times={n_times}, count={count}; "
            "use more times or fewer increments"
        )
    if spacing == "linear":
        return tuple(1 + (count - k) * (n_times - 1) // (count - 1) for k in range(1, count + 1))
    times = [1]
    for k in range(count - 1, 0, -1):  # from the finest head up
        even = round(n_times ** ((count - k) / (count - 1)))
        # Above its finer neighbour; log spacing lies below linear spacing, so each coarser head still finds a time.
        times.append(max(even, times[-1] + 1))
    return tuple(reversed(times))


def stretch(increments: Tensor) -> Tensor:
    """Increments in [0, 1 / S] to the clean vector in [-1, 1]. **Shape:** ``(..., S)``."""
    return increments * (2 * increments.shape[-1]) - 1


def squeeze(clean: Tensor) -> Tensor:
    """The inverse of :func:`stretch`; what lies outside [-1, 1] is left to the aggregation to clip."""
    return (clean + 1) / (2 * clean.shape[-1])
