"""Which times a reverse chain visits: those of the heads, and others between them where its length is chosen."""

from __future__ import annotations

from itertools import pairwise

from diffor.errors import UserError
from diffor.methods.diffor.increments import aligned_times

SHORT_CHAIN, LONG_CHAIN = 8, 10
"""A chain of fewer steps than the first blurs what is read off its last state; the second is what it then has."""


def default_chain(aligned: tuple[int, ...], n_times: int, decoding: str = "heads") -> tuple[int, ...]:
    """The aligned times themselves where they lead from T to 1, so that a prediction costs S denoiser calls.

    A short chain whose last state is read has others between them; one increment, or shared times, lead nowhere.
    """
    if len(set(aligned)) < max(len(aligned), 2):
        return aligned_times(min(max(len(aligned), SHORT_CHAIN), n_times), n_times, "linear")
    if decoding != "chain" or len(aligned) >= SHORT_CHAIN:
        return aligned
    between = aligned_times(min(LONG_CHAIN, n_times), n_times, "linear")
    return tuple(sorted({*aligned, *between}, reverse=True))


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
        round(high - (high - low) * step / count)
        for (high, low), count in zip(gaps, parts, strict=True)
        for step in range(1, count)
    )
    return tuple(sorted({*needed, *between}, reverse=True))
