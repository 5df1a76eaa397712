"""The reverse chain of increments as part of a program, and how its states are read as targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffor.diffusion.increment_diffusion import N_READINGS, IncrementDiffusion, steps_of_chain
from diffor.diffusion.networks import IncrementHeads
from diffor.export.graph import Value
from diffor.export.networks import as_array, denoise_rows
from diffor.export.refusal import ExportError


@dataclass(frozen=True)
class ChainNoise:
    """The noise of a member's chains: where each begins, what ancestral steps add, and where grades are cut.

    All of it is standard normal, and one piece of a row of the program's input ``noise``.
    """

    n_chains: int
    n_increments: int
    times: tuple[int, ...]
    eta: float
    has_shift: bool

    @property
    def fresh_times(self) -> tuple[int, ...]:
        """Times at which ancestral steps add noise."""
        return self.times[:-1] if self.eta > 0 else ()

    @property
    def width(self) -> int:
        """Numbers of a row: each chain's start, then each step's noise, then the shift of the grades."""
        return self.n_chains * self.n_increments * (1 + len(self.fresh_times)) + self.has_shift


def noise_of_chains(method: IncrementDiffusion, n_samples: int, n_steps: int | None) -> ChainNoise:
    """What a member that draws so many samples needs; ``n_steps`` is the number of denoiser calls, if not its own."""
    times = method.drawing_times if method.decoding == "chain" else method.chain_times
    if n_steps is not None:
        if method.decoding == "fusion":
            raise ExportError(
                "decoding='fusion' has weights for the steps that it was fitted with, however: "
                f"n_steps={n_steps}; leave n_steps out, or fit with it"
            )
        times = steps_of_chain(n_steps, method.aligned_times, method.process.n_times, method.decoding)
    is_cumulative = method.decoding == "cumulative"
    n_chains = N_READINGS if is_cumulative else method.chains_per_sample * n_samples
    return ChainNoise(n_chains, method.n_increments, times, method.eta, is_cumulative)


def draw_increments(
    method: IncrementDiffusion, features: Value, noise: Value, shape: ChainNoise, n_samples: int
) -> Value:
    """Samples of a member in [0, 1], in any order. **Shape:** ``(n, d)``, ``(n, width)`` -> ``(n, n_samples)``."""
    states = _walk(method, features, noise, shape)
    if method.decoding == "cumulative":
        passing = _passing(method, states, shape)
        shift = noise.take([shape.width - 1])
        return _draw_passed(passing, shift, method.n_increments, n_samples)
    if method.decoding == "chain":
        values = _aggregate(_squeeze(states[shape.times[-1]], method.n_increments), method.n_increments)
    elif method.decoding == "heads":
        values = _aggregate(_decode(method, states), method.n_increments)
    else:
        along = [_aggregate(_squeeze(states[t], method.n_increments), method.n_increments) for t in shape.times]
        weights = noise.graph.constant(as_array(method.fusion_weights)[:, None])
        values = (noise.graph.concat([one.reshape(-1, 1) for one in along]) @ weights).clip(0.0, 1.0)
    values = values.reshape(-1, shape.n_chains)
    size = method.chains_per_sample
    if size == 1:
        return values
    return values.sorted(shape.n_chains).take(range(size // 2, shape.n_chains, size))


def _walk(method: IncrementDiffusion, features: Value, noise: Value, shape: ChainNoise) -> dict[int, Value]:
    """The estimates that are read, by time, all samples below each other. **Shape:** each ``(n * m, S)``."""
    denoise = denoise_rows(method.denoiser, features, shape.n_chains)
    count = shape.n_chains * shape.n_increments
    parts = [
        noise.take(range(first, first + count)).reshape(-1, shape.n_increments)
        for first in range(0, shape.width - shape.has_shift, count)
    ]
    noisy, fresh = parts[0], dict(zip(shape.fresh_times, parts[1:], strict=True))
    is_read = set(shape.times[-1:]) if method.decoding == "chain" else set(shape.times)
    states = {}
    for t, following in zip(shape.times, [*shape.times[1:], 0], strict=True):
        output = denoise(noisy, t)
        of_noisy, of_output = _estimate_weights(method, t)
        if t in is_read:
            states[t] = noisy * of_noisy + output * of_output
        if following > 0:
            kept, moved, added = _step_weights(method, t, following)
            noisy = noisy * kept + output * moved
            if t in fresh:
                noisy = noisy + fresh[t] * added
    return states


def _estimate_weights(method: IncrementDiffusion, t: int) -> tuple[float, float]:
    """The denoised estimate is a sum of the noisy increments and of the denoiser's output, in these shares."""
    process, (zero, one) = method.process, _zero_and_one(method)
    time = torch.tensor(t, device=one.device)
    return float(process.denoised(zero, one, time)), float(process.denoised(one, zero, time))


def _step_weights(method: IncrementDiffusion, t: int, following: int) -> tuple[float, float, float]:
    """So is the next state, which fresh noise may be added to."""
    of_noisy, of_output = _estimate_weights(method, t)
    zero, one = _zero_and_one(method)
    kept = method.process.step(one, one * of_noisy, t, following, method.eta, None)
    moved = method.process.step(zero, one * of_output, t, following, method.eta, None)
    added = method.process.step(zero, zero, t, following, method.eta, one)
    return float(kept), float(moved), float(added)


def _zero_and_one(method: IncrementDiffusion) -> tuple[Tensor, Tensor]:
    one = torch.ones(1, dtype=torch.float64, device=method.process.signals.device)
    return torch.zeros_like(one), one


def _squeeze(estimate: Value, n_increments: int) -> Value:
    """Increments of a clean vector. **Shape:** ``(N, S)``, kept."""
    return (estimate + 1.0) / (2.0 * n_increments)


def _aggregate(increments: Value, n_increments: int) -> Value:
    """The sum of the usable part of each increment. **Shape:** ``(N, S)`` -> ``(N,)``."""
    return increments.clip(0.0, 1.0 / n_increments).sum(1).clip(0.0, 1.0)


def _decode(method: IncrementDiffusion, states: dict[int, Value]) -> Value:
    """Each increment by its head at its own time. **Shape:** -> ``(N, S)`` in [0, 1 / S]."""
    heads: IncrementHeads = method.heads
    first, first_bias, second, second_bias = (
        as_array(getattr(heads, name)) for name in ("first", "first_bias", "second", "second_bias")
    )
    logits = []
    for place, t in enumerate(method.aligned_times):
        hidden = states[t].linear(first[place].T, first_bias[place]).silu()
        logits.append(hidden.linear(second[place][None], second_bias[place][None]))
    graph = logits[0].graph
    return graph.concat(logits).sigmoid() / float(method.n_increments)


def _passing(method: IncrementDiffusion, states: dict[int, Value], shape: ChainNoise) -> Value:
    """Probability of passing each border between S + 1 grades, falling. **Shape:** -> ``(n, S)``."""
    count = method.n_increments
    denoised = _squeeze(states[shape.times[0]], count).clip(0.0, 1.0 / count)
    both = (denoised + _decode(method, states)).reshape(-1, shape.n_chains, count)
    return (both.mean(1) * (count / 2)).sorted(count, descending=True)


def _draw_passed(passing: Value, shift: Value, n_increments: int, n_samples: int) -> Value:
    """Grades in the shares that the probabilities give, as places in [0, 1]. **Shape:** -> ``(n, n_samples)``."""
    graph = passing.graph
    moved = (graph.apply("Erf", shift * float(np.sqrt(0.5))) + 1.0) * 0.5  # the shift as a uniform number
    levels = (graph.constant(np.arange(n_samples, dtype=np.float32)) + moved) / float(n_samples)
    is_passed = levels.reshape(-1, n_samples, 1) < passing.reshape(-1, 1, n_increments)
    return is_passed.cast(passing.dtype).sum(2) / float(n_increments)
