"""DiffoR itself: the objective that trains the denoiser and its heads, and the chain that predicts with them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from diffor.diffusion.increments import aggregate_increments, aligned_times, refine_increments, split_increments
from diffor.diffusion.interference import cosines_for_history
from diffor.diffusion.networks import DENOISERS, Denoiser, IncrementHeads, MLPDenoiser, TransformerDenoiser
from diffor.diffusion.process import Diffusion, FlowMatching, NoiseProcess, check_times
from diffor.method import Method, weighted_mean
from diffor.prediction import Prediction
from diffor.row_noise import key_uniforms, sample_order, start_noise, step_noise

PROCESSES = ("diffusion", "flow_matching")
DECODINGS = ("chain", "heads", "fusion", "cumulative")
OBJECTIVES = ("one_call", "full")
INCREMENT_LOSSES = ("squared", "cross_entropy")
N_READINGS = 8
"""Starts of the chain over which the probabilities of grades are averaged."""
MINIMUM_CHAIN = 8
"""Steps of the chain where the aligned times alone do not lead from T to 1 (one increment, or shared times)."""


SHORT_CHAIN, LONG_CHAIN = 8, 10


class Reading(NamedTuple):
    """What one pass of the reverse chain saw, for each sample of each row."""

    estimates: Tensor
    """Denoised estimates along the chain. **Shape:** ``(n, m, len(chain_times), S)``."""
    increments: Tensor
    """Increments decoded by the heads, each at its aligned time. **Shape:** ``(n, m, S)``."""


class IncrementDiffusion(Method):
    """Ordinal regression as continuous generation of bounded increments.

    Ablations are arguments: ``n_increments=1`` is the model without MIA, ``spacing="shared"`` without DDP, both
    together without both, ``denoiser="mlp"`` without the transformer, ``process="flow_matching"`` without diffusion.

    - ``decoding="chain"`` reads the distribution off the chain's last state, ``"heads"`` is the paper's decoding,
      ``"fusion"`` a linear combination of the estimates along the chain, weighted on validation rows, ``"cumulative"``
      reads increments as probabilities of passing the borders between S + 1 grades (:meth:`passing`).
    - ``objective="full"`` is Algorithm 1 (1 + S denoiser calls); ``"one_call"`` an unbiased estimate of it: where the
      drawn time is aligned with head k, that head's term is counted. ``n_draws`` is how often each row of a batch is
      corrupted: more draws steady the gradient at the cost of denoiser calls, not of encoder calls.
    - ``chains_per_sample`` chains, an odd number, are run for each sample of a prediction, and the middle one of those
      that follow each other in value is kept: that steadies quantiles, and most of all the mean of a long tail.
    - ``n_steps`` is the number of denoiser calls of a chain; left out, as many as aligned times and the decoding need.
      Only where samples are the chain's last state can there be fewer than increments.

    NOTE[DIFF]: the paper does not state z_0. Here it is the increments stretched to [-1, 1], which needs no learned
    latent and keeps the chain's last state readable as a target.

    >>> import torch
    >>> method = IncrementDiffusion(n_features=16, n_increments=4, width=32)
    >>> sorted(method.loss(torch.randn(6, 16), torch.rand(6)))
    ['denoise', 'increment']
    """

    family: ClassVar[str] = "increments"
    title: ClassVar[str] = "DiffoR"
    paper: ClassVar[str] = "DiffoR, KDD 2026"
    evidence: ClassVar[str] = "paper"

    fusion_weights: Tensor

    def __init__(
        self,
        n_features: int,
        *,
        n_increments: int = 8,
        process: str = "diffusion",
        n_times: int = 1000,
        schedule: str = "cosine",
        parameterization: str = "velocity",
        spacing: str = "linear",
        denoiser: str = "mlp",
        width: int = 256,
        n_layers: int = 3,
        n_attention_heads: int = 8,
        dropout: float = 0.1,
        aligned_share: float = 0.5,
        increment_weight: float = 10.0,
        increment_loss: str = "squared",
        objective: str = "one_call",
        n_draws: int = 1,
        decoding: str = "chain",
        chains_per_sample: int = 1,
        n_steps: int | None = None,
        chain_times: tuple[int, ...] | None = None,
        eta: float = 0.0,
    ) -> None:
        super().__init__()
        if n_increments < 1:
            raise ValueError(f"n_increments must be at least 1, however: n_increments={n_increments}")
        _check_choice("decoding", decoding, DECODINGS)
        _check_choice("objective", objective, OBJECTIVES)
        _check_choice("increment_loss", increment_loss, INCREMENT_LOSSES)
        _check_shares(aligned_share, increment_weight, objective, eta)
        self.n_increments, self.aligned_share, self.increment_weight = n_increments, aligned_share, increment_weight
        self.increment_loss, self.objective, self.decoding, self.eta = increment_loss, objective, decoding, eta
        if n_draws < 1:
            raise ValueError(f"n_draws must be at least 1, however: n_draws={n_draws}")
        if chains_per_sample < 1 or chains_per_sample % 2 == 0:
            raise ValueError(
                "chains_per_sample must be an odd number from 1 on, so that one chain is in the middle, however: "
                f"chains_per_sample={chains_per_sample}; try 3"
            )
        self.n_draws, self.chains_per_sample = n_draws, chains_per_sample
        self.process = make_process(process, n_times, schedule, parameterization)
        self.aligned_times = aligned_times(n_increments, n_times, spacing)
        self.chain_times = chain_times or default_chain(self.aligned_times, n_times, decoding)
        self.drawing_times = self.chain_times
        if n_steps is not None:
            self.drawing_times = steps_of_chain(n_steps, self.aligned_times, n_times, decoding)
            # Reading increments needs every aligned time, also where samples are drawn in fewer steps.
            self.chain_times = self.chain_times if decoding == "chain" else self.drawing_times
        check_times(self.chain_times, n_times)
        if not set(self.aligned_times) <= set(self.chain_times):
            raise ValueError(
                f"chain_times must contain the aligned times {self.aligned_times}, however: {self.chain_times}"
            )
        self.denoiser = make_denoiser(denoiser, n_increments, n_features, width, n_layers, n_attention_heads, dropout)
        self.heads = IncrementHeads(n_increments)
        # One weight per time of the chain; before any are fitted, all rests on the last state.
        self.register_buffer("fusion_weights", torch.eye(len(self.chain_times))[-1].clone())

    # --- training ---

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """The two terms of the paper's objective; squared norms are means over S, which rescales both alike.

        Each row is corrupted ``n_draws`` times at times of its own; its features are made once.
        """
        increments = split_increments(y, self.n_increments)
        t, aligned = self.draw_times(len(y), y.device)  # (K, n)
        clean = stretch(increments).expand(*t.shape, -1)  # (K, n, S)
        noise = torch.randn_like(clean)
        noisy = self.process.corrupt(clean, noise, t)
        output = self.denoiser(noisy, features, t)
        denoise = (output - self.process.target(clean, noise, t)).square().mean(dim=-1)
        if self.objective == "full":
            increment = weighted_mean(self.full_increment_term(features, increments, noise[0]), weights)
        else:
            estimates = self.process.denoised(output, noisy, t)
            increment = self.aligned_increment_term(estimates, increments, aligned, weights)
        return {
            "denoise": weighted_mean(denoise.mean(dim=0), weights),
            "increment": self.increment_weight * increment,
        }

    def draw_times(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Draw times from the mixture of uniform and aligned ones, K for each of n rows.

        Both parts are spread evenly instead of independently: every head has equally many of the aligned draws, and
        the uniform times are stratified. The mixture's shares hold as closely as whole rounds of heads allow.

        **Shape:** -> time ``(K, n)``; places of the aligned draws among the K * n, in turn for heads 1 to S ``(a,)``.
        """
        n_draws = max(self.n_draws, math.ceil(2 * self.n_increments / n))  # room for one round of heads at least
        count = n_draws * n
        rounds = min(round(self.aligned_share * count / self.n_increments), count // self.n_increments)
        rounds = max(rounds, 1) if self.aligned_share > 0 else 0
        order = torch.randperm(count, device=device)
        aligned, free = torch.split(order, [rounds * self.n_increments, count - rounds * self.n_increments])
        t = torch.empty(count, dtype=torch.int64, device=device)
        t[aligned] = torch.tensor(self.aligned_times, device=device).repeat(rounds)
        strata = torch.arange(len(free), device=device) + torch.rand(len(free), device=device)
        t[free] = (strata * (self.process.n_times / max(len(free), 1))).long().clamp_(max=self.process.n_times - 1) + 1
        return t.view(n_draws, n), aligned

    def aligned_increment_term(
        self, estimates: Tensor, increments: Tensor, aligned: Tensor, weights: Tensor | None
    ) -> Tensor:
        """Mean error of the heads, each at the draws on its time. **Shape:** ``(K, n, S)``, ``(n, S)``, ``(a,)``."""
        rounds = (-1, self.n_increments, self.n_increments)
        rows = aligned % len(increments)
        # Draw k of each round belongs to head k, and of the increments of its row that head answers for the k-th.
        logits = self.heads.logits(estimates.flatten(0, 1)[aligned].view(rounds))
        own = increments[rows].view(rounds).diagonal(dim1=1, dim2=2)
        return weighted_mean(self.increment_errors(logits, own).flatten(), None if weights is None else weights[rows])

    def full_increment_term(self, features: Tensor, increments: Tensor, noise: Tensor) -> Tensor:
        """Mean over all heads, each at its own time with the same noise (Algorithm 1). **Shape:** -> ``(n,)``."""
        _, estimates = self.call_at_aligned_times(features, increments, noise)
        return self.increment_errors(self.heads.logits(estimates), increments).mean(dim=-1)

    def call_at_aligned_times(self, features: Tensor, increments: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The denoiser's errors and its estimates at the time of each head, all with the same noise.

        **Shape:** features ``(n, d)``, increments and noise ``(n, S)`` -> ``(n, S, S)`` each, the times second.
        """
        t = torch.tensor(self.aligned_times, device=increments.device)  # (S,)
        clean, noise = stretch(increments).unsqueeze(1), noise.unsqueeze(1)  # (n, 1, S), broadcast over the times
        noisy = self.process.corrupt(clean, noise, t)  # (n, S, S)
        output = self.denoiser(noisy, features.unsqueeze(1), t)
        return output - self.process.target(clean, noise, t), self.process.denoised(output, noisy, t)

    def increment_errors(self, logits: Tensor, increments: Tensor) -> Tensor:
        """Error of each head's increment. **Shape:** ``(n, S)``, ``(n, S)`` -> ``(n, S)``."""
        if self.increment_loss == "cross_entropy":
            filled = increments * self.n_increments
            return nn.functional.binary_cross_entropy_with_logits(logits, filled, reduction="none")
        return (torch.sigmoid(logits) / self.n_increments - increments).square()

    def diagnostics(self, features: Tensor, y: Tensor) -> dict[str, float]:
        """Mean cosine of the gradients of different times in the denoiser, and the share of pairs that conflict."""
        return cosines_for_history(self, features, y)

    # --- inference ---

    def chain(
        self, features: Tensor, keys: Tensor, n_samples: int, times: tuple[int, ...] | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """Run the reverse chain of every sample, one denoiser call per time. **Yields** t, ``(n, m, S)``."""
        per_row = features.unsqueeze(1)  # (n, 1, d): the samples of a row share its features
        start = start_noise(keys, n_samples, self.n_increments).to(features)

        def denoise(noisy: Tensor, t: Tensor) -> Tensor:
            return self.process.denoised(self.denoiser(noisy, per_row, t), noisy, t)

        def draw(t: int) -> Tensor:
            return step_noise(keys, n_samples, self.n_increments, t).to(features)

        return self.process.reverse(denoise, start, times or self.chain_times, self.eta, draw)

    def with_steps(self, n_steps: int) -> IncrementDiffusion:
        """The same method, all weights shared, with chains of so many denoiser calls: fewer are quicker and coarser.

        >>> IncrementDiffusion(n_features=4, n_increments=8, width=16).with_steps(3).drawing_times
        (1000, 500, 1)
        """
        if self.decoding == "fusion":
            raise ValueError(
                "decoding='fusion' has weights for the steps that it was fitted with, however: "
                f"n_steps={n_steps}; leave n_steps out, or fit with it"
            )
        other = copy(self)
        other.drawing_times = steps_of_chain(n_steps, self.aligned_times, self.process.n_times, self.decoding)
        other.chain_times = self.chain_times if self.decoding == "chain" else other.drawing_times
        return other

    def read(self, features: Tensor, keys: Tensor, n_samples: int) -> Reading:
        """Run the chain once, keeping its estimates and decoding each head at its aligned time."""
        estimates = torch.stack([estimate for _, estimate in self.chain(features, keys, n_samples)], dim=2)
        places = [self.chain_times.index(t) for t in self.aligned_times]
        return Reading(estimates, self.heads(estimates[:, :, places]))

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Distribution of each row's target, in one pass of the chain."""
        if self.decoding == "cumulative":
            values = draw_passed(self.passing(features, keys).cpu(), keys.cpu(), n_samples)
        else:
            values = self.draw(features, keys, self.chains_per_sample * n_samples).cpu()
            values = keep_middles(values, keys.cpu(), self.chains_per_sample)
        return Prediction(values.detach().numpy())

    def draw(self, features: Tensor, keys: Tensor, n_chains: int) -> Tensor:
        """The value that each chain of each row ends at, as the decoding reads it. **Shape:** -> ``(n, n_chains)``."""
        if self.decoding == "chain":
            _, last = deque(self.chain(features, keys, n_chains, self.drawing_times), maxlen=1).pop()
            return aggregate_increments(squeeze(last))
        if self.decoding == "heads":
            return aggregate_increments(self.read(features, keys, n_chains).increments)
        return (self.values_along(features, keys, n_chains) @ self.fusion_weights).clamp(0.0, 1.0)

    def passing(self, features: Tensor, keys: Tensor) -> Tensor:
        """Probability of passing each border between S + 1 grades, falling. **Shape:** -> ``(n, S)``.

        Increments of grades are 0 or full, so an expected increment is a probability. There are two estimates of it: at
        the highest noise the denoiser's, which its squared loss makes best in the ranked probability score, and the
        heads', which a logarithmic loss can train. The mean of both is taken, over few starts: they hardly differ.
        """
        reading = self.read(features, keys, N_READINGS)
        denoised = squeeze(reading.estimates[:, :, 0]).clamp(0.0, 1 / self.n_increments)
        expected = (denoised + reading.increments).mean(dim=1) * (self.n_increments / 2)
        return expected.sort(dim=1, descending=True).values

    def values_along(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        """Target value read off the estimate at each time of the chain. **Shape:** -> ``(n, m, len(chain_times))``."""
        return aggregate_increments(squeeze(self.read(features, keys, n_samples).estimates))

    def increments(self, features: Tensor, keys: Tensor, n_samples: int, refinement: int = 1) -> Tensor:
        """Expected increment of each scale, decoded by the heads. **Shape:** -> ``(n, S * refinement)``."""
        return refine_increments(self.read(features, keys, n_samples).increments, refinement).mean(dim=1)

    def calibrate(self, features: Tensor, y: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> None:
        """Fit the fusion weights on validation rows."""
        if self.decoding == "fusion":
            values = self.values_along(features, keys, n_samples).mean(dim=1)  # (n, times)
            self.fusion_weights.copy_(fit_fusion(values - y[:, None]))


def draw_passed(passing: Tensor, keys: Tensor, n_samples: int) -> Tensor:
    """Grades in the shares that the probabilities of passing each border give, as places in [0, 1].

    Levels are evenly spread with a shift of each row's own, so that shares are right on average however few they are.

    **Shape:** passing ``(n, S)`` falling, keys ``(n,)`` -> ``(n, n_samples)``.

    >>> draw_passed(torch.tensor([[0.5, 0.0]]), torch.tensor([3]), n_samples=4).sort().values.tolist()
    [[0.0, 0.0, 0.5, 0.5]]
    """
    levels = (sample_order(keys, n_samples) + uniform_shift(keys)) / n_samples  # (n, m), each row in its own order
    return (levels[:, :, None] < passing[:, None, :]).sum(dim=2) / passing.shape[1]


def uniform_shift(keys: Tensor) -> Tensor:
    """By how much of a step each row's levels are moved. **Shape:** ``(n,)`` -> ``(n, 1)`` in (0, 1)."""
    return key_uniforms(keys, torch.tensor([1 << 33]))


def keep_middles(values: Tensor, keys: Tensor, size: int) -> Tensor:
    """The middle one of each ``size`` values of a row that follow each other, in an order of the row's own.

    **Shape:** values ``(n, m * size)``, keys ``(n,)`` -> ``(n, m)``.

    >>> keep_middles(torch.tensor([[6.0, 4.0, 1.0, 5.0, 2.0, 3.0]]), torch.tensor([5]), size=3).sort().values.tolist()
    [[2.0, 5.0]]
    """
    if size == 1:
        return values
    middles = values.sort(dim=1).values[:, size // 2 :: size]
    return middles.gather(1, sample_order(keys, middles.shape[1]))


def fit_fusion(errors: Tensor) -> Tensor:
    """Weights of sum 1 that minimise the mean squared error of the combined estimate.

    The minimiser is ``C^-1 1 / (1' C^-1 1)`` with C the matrix of mean error products; C is shrunk slightly to its
    diagonal, because the errors at neighbouring times are nearly the same.

    **Shape:** errors ``(n, M)`` -> ``(M,)``.

    >>> import torch
    >>> fit_fusion(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    tensor([0.5000, 0.5000])
    """
    errors = errors.cpu().double()
    products = errors.T @ errors / len(errors)
    products = products + torch.diag(products.diagonal() * 1e-3 + 1e-12)
    weights: Tensor = torch.linalg.solve(products, torch.ones(len(products), dtype=torch.float64))
    return (weights / weights.sum()).float()


def stretch(increments: Tensor) -> Tensor:
    """Increments in [0, 1 / S] to the clean vector in [-1, 1]. **Shape:** ``(..., S)``."""
    return increments * (2 * increments.shape[-1]) - 1


def squeeze(clean: Tensor) -> Tensor:
    """The inverse of :func:`stretch`; what lies outside [-1, 1] is left to the aggregation to clip."""
    return (clean + 1) / (2 * clean.shape[-1])


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
        raise ValueError(
            f"n_steps must lie between {len(needed)} and n_times={n_times} where decoding={decoding!r}, however: "
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


def make_process(name: str, n_times: int, schedule: str, parameterization: str) -> NoiseProcess:
    """Build the noise process that a name stands for."""
    _check_choice("process", name, PROCESSES)
    if name == "diffusion":
        return Diffusion(n_times, schedule, parameterization)
    return FlowMatching(n_times, parameterization)


def make_denoiser(
    name: str, n_increments: int, n_features: int, width: int, n_layers: int, n_attention_heads: int, dropout: float
) -> Denoiser:
    """Build the denoiser that a name stands for."""
    _check_choice("denoiser", name, DENOISERS)
    if name == "transformer":
        return TransformerDenoiser(n_increments, n_features, width, n_layers, n_attention_heads, dropout)
    return MLPDenoiser(n_increments, n_features, width, n_layers, dropout)


def _check_choice(argument: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{argument} must be one of {', '.join(choices)}, however: {argument}={value!r}")


def _check_shares(aligned_share: float, increment_weight: float, objective: str, eta: float) -> None:
    if not 0 <= aligned_share <= 1:
        raise ValueError(f"aligned_share must lie in [0, 1], however: aligned_share={aligned_share}")
    if aligned_share == 0 and objective == "one_call":
        raise ValueError(
            "the one-call objective trains heads at aligned times only, however: aligned_share=0; "
            "raise aligned_share or use objective='full'"
        )
    if not increment_weight >= 0:
        raise ValueError(f"increment_weight must not be negative, however: increment_weight={increment_weight}")
    if not 0 <= eta <= 1:
        raise ValueError(f"eta must lie in [0, 1], however: eta={eta}")
