"""Which times a reverse chain visits: those of the heads, and others between them where its length is chosen."""

from __future__ import annotations

from itertools import pairwise

from diffor.errors import UserError
from diffor.methods.diffor.increments import aligned_times

MINIMUM_CHAIN = 8
"""Steps of the chain where the aligned times alone do not lead from T to 1 (one increment, or shared times)."""
SHORT_CHAIN, LONG_CHAIN = 8, 10


def default_chain(aligned: tuple[int, ...], n_times: int, decoding: str = "heads") -> tuple[int, ...]:
    """The aligned times themselves where they lead from T to 1, so that a prediction costs S denoiser calls.

    Where the distribution is read off the chain's last state, fewer than ``SHORT_CHAIN`` steps blur it: others are put
    between them.
    """
    if len(aligned) > 1 and len(set(aligned)) == len(aligned):
        if decoding != "chain" or len(aligned) >= SHORT_CHAIN:
            return aligned
        between = aligned_times(min(LONG_CHAIN, n_times), n_times, "linear")
        return tuple(sorted({*aligned, *between}, reverse=True))
    return aligned_times(min(max(len(aligned), MINIMUM_CHAIN), n_times), n_times, "linear")


def steps_of_chain(n_steps: int, aligned: tuple[int, ...], n_times: int, decoding: str) -> tuple[int, ...]:
    """Times of a chain of ``n_steps`` denoiser calls; those that heads are aligned with are among them where they read.

    >>> steps_of_chain(3, (1000, 667, 334, 1), 1000, "chain")
    (1000, 500, 1)
    >>> steps_of_chain(6, (1000, 667, 334, 1), 1000, "heads")
    (1000, 834, 667, 500, 334, 1)
    """
    # A chain that heads read along goes from all noise to none, by way of their times.
    needed = {n_times} if decoding == "chain" else {*aligned, n_times, 1}
    if not len(needed) <= n_steps <= n_times:
        raise UserError(
            f"n_steps must lie between {len(needed)} and n_times={n_times} where decoding={decoding!r}, but got "
            f"n_steps={n_steps}" + ("" if decoding == "chain" else "; choose decoding='chain', which can do with 1")
        )
    if decoding == "chain":
        return aligned_times(n_steps, n_times, "linear") if n_steps > 1 else (n_times,)
    gaps = list(pairwise(sorted(needed, reverse=True)))
    parts = [1] * len(gaps)
    while sum(parts) + 1 < n_steps:  # part the gap whose parts are widest, the noisiest of equal ones
        widths = [(high - low) / count for (high, low), count in zip(gaps, parts, strict=True)]
        parts[widths.index(max(widths))] += 1
    between = (
        round(high - (high - low) * place / count)
        for (high, low), count in zip(gaps, parts, strict=True)
        for place in range(1, count)
    )
    return tuple(sorted({*needed, *between}, reverse=True))
