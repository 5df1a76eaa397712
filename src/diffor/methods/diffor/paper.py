"""The paper's method: ``loss`` is lines 2 to 12 of Algorithm 1, ``predict`` its line 13, the inference.

Beside each line stands the paper's, by its number. What it does not state, or does not have, is marked ``NOTE[DIFF]``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from copy import copy
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from diffor.core.method import Method, weighted_mean
from diffor.core.prediction import Prediction
from diffor.core.row_noise import start_noise, step_noise
from diffor.errors import UserError, check_choice, check_least, check_share
from diffor.methods.diffor.chain_times import default_chain, steps_of_chain
from diffor.methods.diffor.denoisers import make_denoiser
from diffor.methods.diffor.fusion import fit_fusion
from diffor.methods.diffor.gradients import cosines_for_history
from diffor.methods.diffor.increments import aggregate_increments, aligned_times, split_increments, squeeze, stretch
from diffor.methods.diffor.networks import IncrementHeads
from diffor.methods.diffor.process import make_process

DECODINGS = ("heads", "chain", "fusion")
OBJECTIVES = ("full", "one_call")
VARIANCES = ("reverse", "forward")


class Reading(NamedTuple):
    """What one pass of the reverse chain saw, for each sample of each row."""

    estimates: Tensor
    """Denoised estimates along the chain. **Shape:** ``(n, m, len(chain_times), S)``."""
    increments: Tensor
    """Increments decoded by the heads, each at its aligned time. **Shape:** ``(n, m, S)``."""


class IncrementDiffusion(Method):
    """Ordinal regression as continuous generation of bounded increments; the defaults are the paper's letter.

    Ablations are arguments: ``n_increments=1`` is the model without MIA, ``spacing="shared"`` without DDP, both
    together without both, ``denoiser="mlp"`` without the transformer, ``process="flow_matching"`` (which predicts a
    ``parameterization`` of ``velocity`` or ``clean``) without diffusion. ``n_steps=n_times, eta=1`` is the paper's
    reverse chain (its equation 4) over all T times.

    NOTE[DIFF]: the chain of the defaults visits the aligned times only, S of T, without fresh noise: T denoiser calls
    for each sample of each row would take a hundred times as long.

    NOTE[DIFF]: the paper does not state z_0. Here it is the increments stretched to [-1, 1], which needs no learned
    latent and keeps the chain's last state readable as a target. Three settings are not the paper's: the objective
    ``one_call``, ``n_draws``, and the decodings ``chain`` and ``fusion``.

    Parameters
    ----------
    n_features : int
        Width of the encoder's features; the estimators pass it.
    n_increments : int, default 8
        S, the increments that the range is cut into.
    process : str, default 'diffusion'
        How a clean vector becomes noise: ``diffusion`` or ``flow_matching``.
    n_times : int, default 1000
        T, the times from clean to noise.
    schedule : str, default 'linear'
        How the noise of diffusion grows with time: ``linear`` or ``cosine``.
    parameterization : str, default 'noise'
        What the denoiser learns to say: the ``noise``, the ``velocity`` from clean to noise, or the ``clean`` vector.
    spacing : str, default 'linear'
        Where the heads' times lie: ``linear``, ``log``, or ``shared``, all at time 1.
    denoiser : str, default 'scale_heads'
        Network that takes noise away: ``scale_heads``, with an attention head for each increment;
        ``transformer``, whose heads serve all increments; or ``mlp``.
    width : int, default 128
        Width of the denoiser.
    n_layers : int, default 2
        Layers of the denoiser.
    n_attention_heads : int or None, default None
        Attention heads of the denoiser; as many as suit it if None.
    dropout : float, default 0.1
        Share of the denoiser's values that training hides.
    aligned_share : float, default 0.5
        Share of the training times that are drawn from the heads' own.
    increment_weight : float, default 10.0
        Weight of the heads' term of the loss, the paper's lambda.
    objective : str, default 'full'
        ``full`` is Algorithm 1, which makes 1 + S denoiser calls; ``one_call`` an unbiased estimate of it: where the
        drawn time is aligned with head k, that head's term is counted.
    n_draws : int, default 1
        How often each row of a batch is corrupted: more draws steady the gradient at the cost of denoiser calls, not
        of encoder calls.
    decoding : str, default 'heads'
        What the answer is read off: the ``heads``; the ``chain``'s last state, so that it can have fewer steps than
        increments; or ``fusion``, the linear combination of the estimates along the chain of which the paper's theory
        speaks, weighted on validation rows.
    n_steps : int or None, default None
        Denoiser calls of a chain; as many as aligned times and the decoding need if None.
    eta : float, default 0.0
        Share of fresh noise in each step of the chain: 0 for none (DDIM), 1 for the ancestral chain.
    chain_variance : str, default 'reverse'
        Variance of that noise, the sigma squared of equation 4: of the true ``reverse`` step, or of the ``forward``
        step, beta_t (with ``process="diffusion"``).

    Examples
    --------
    >>> import torch
    >>> method = IncrementDiffusion(n_features=16, n_increments=4, width=32)
    >>> sorted(method.loss(torch.randn(6, 16), torch.rand(6)))
    ['denoise', 'increment']
    """

    family: ClassVar[str] = "increments"
    title: ClassVar[str] = "DiffoR, the paper's chain"
    paper: ClassVar[str] = "DiffoR, KDD 2026"
    evidence: ClassVar[str] = "paper"
    has_chain: ClassVar[bool] = True
    has_increments: ClassVar[bool] = True

    fusion_weights: Tensor

    def __init__(
        self,
        n_features: int,
        *,
        n_increments: int = 8,
        process: str = "diffusion",
        n_times: int = 1000,
        schedule: str = "linear",
        parameterization: str = "noise",
        spacing: str = "linear",
        denoiser: str = "scale_heads",
        width: int = 128,
        n_layers: int = 2,
        n_attention_heads: int | None = None,
        dropout: float = 0.1,
        aligned_share: float = 0.5,
        increment_weight: float = 10.0,
        objective: str = "full",
        n_draws: int = 1,
        decoding: str = "heads",
        n_steps: int | None = None,
        eta: float = 0.0,
        chain_variance: str = "reverse",
    ) -> None:
        super().__init__()
        check_choice("decoding", decoding, DECODINGS)
        check_choice("objective", objective, OBJECTIVES)
        check_least("n_increments", n_increments)
        check_least("n_draws", n_draws)
        check_least("increment_weight", increment_weight, 0)
        check_share("aligned_share", aligned_share)
        check_share("eta", eta)
        check_choice("chain_variance", chain_variance, VARIANCES)
        if chain_variance == "forward" and process != "diffusion":
            raise UserError(
                f"chain_variance='forward' is beta_t of a diffusion, but got process={process!r}; leave it out"
            )
        if aligned_share == 0 and objective == "one_call":
            raise UserError(
                "the one-call objective trains heads at aligned times only, but got aligned_share=0; "
                "raise aligned_share or use objective='full'"
            )
        self.n_increments, self.n_draws = n_increments, n_draws
        self.aligned_share, self.increment_weight, self.eta = aligned_share, increment_weight, eta
        self.objective, self.decoding, self.chain_variance = objective, decoding, chain_variance
        self.process = make_process(process, n_times, schedule, parameterization)
        self.aligned_times = aligned_times(n_increments, n_times, spacing)
        self.chain_times = self.drawing_times = default_chain(self.aligned_times, n_times, decoding)
        if n_steps is not None:
            self._set_steps(n_steps)
        self.denoiser = make_denoiser(denoiser, n_increments, n_features, width, n_layers, n_attention_heads, dropout)
        self.heads = IncrementHeads(n_increments)
        # One weight per time of the chain; before any are fitted, all rests on the last state.
        weights = torch.zeros(len(self.chain_times))
        weights[-1] = 1.0
        self.register_buffer("fusion_weights", weights)

    # --- Algorithm 1, lines 2 to 12: training ---

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """The two terms of the paper's objective; squared norms are means over S, which rescales both alike."""
        # 2: c = E(x), features (n, d), is the encoder's
        increments = split_increments(y, self.n_increments)  # 3: b_k (n, S)
        t, aligned = self.draw_times(len(y), y.device)  # 4: t (K, n), K draws of each row
        clean = stretch(increments).expand(*t.shape, -1)  # z_0 (K, n, S)
        noise = torch.randn_like(clean)  # 4: eps
        noisy = self.process.corrupt(clean, noise, t)  # 5: z_t
        predicted = self.denoiser(noisy, features, t)  # 6: eps-hat
        denoise = (predicted - self.process.target(clean, noise, t)).square().mean(dim=-1)  # 6: L_diff
        if self.objective == "full":
            _, estimates = self.call_at_aligned_times(features, increments, noise[0])  # 7 to 9: z_0-hat(t_k), eps again
            decoded = self.heads(estimates)  # 10: b_k-hat (n, S)
            increment = weighted_mean((increments - decoded).square().mean(dim=-1), weights)  # 12: L_mia
        else:
            estimates = self.process.denoised(predicted, noisy, t)
            increment = self.aligned_increment_term(estimates, increments, aligned, weights)
        return {  # 12: L = L_diff + lambda L_mia, which training sums
            "denoise": weighted_mean(denoise.mean(dim=0), weights),
            "increment": self.increment_weight * increment,
        }

    def call_at_aligned_times(self, features: Tensor, increments: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Lines 7 to 9 for all k at once: the denoiser's errors and its estimates at each head's time, one noise.

        **Shape:** features ``(n, d)``, increments and noise ``(n, S)`` -> ``(n, S, S)`` each, the times second.
        """
        t = torch.tensor(self.aligned_times, device=increments.device)  # 7: t_k (S,)
        clean, noise = stretch(increments).unsqueeze(1), noise.unsqueeze(1)  # (n, 1, S), broadcast over the times
        noisy = self.process.corrupt(clean, noise, t)  # 8: z_{t_k} (n, S, S)
        predicted = self.denoiser(noisy, features.unsqueeze(1), t)
        estimates = self.process.denoised(predicted, noisy, t)  # 9: z_0-hat(t_k)
        return predicted - self.process.target(clean, noise, t), estimates

    def draw_times(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Draw times from the mixture of uniform and aligned ones, K for each of n rows.

        NOTE[DIFF]: both parts are spread evenly instead of independently: every head has equally many of the aligned
        draws, and the uniform times are stratified. The mixture's shares hold as closely as whole rounds of heads
        allow.

        **Shape:** -> time ``(K, n)``; indices of the aligned draws among the K * n, in turn for heads 1 to S ``(a,)``.
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
        """L_mia of the one-call objective: each head's error at the draws on its time.

        **Shape:** ``(K, n, S)``, ``(n, S)``, ``(a,)``.
        """
        rounds = (-1, self.n_increments, self.n_increments)
        rows = aligned % len(increments)
        # Draw k of each round belongs to head k, and of the increments of its row that head answers for the k-th.
        decoded = self.heads(estimates.flatten(0, 1)[aligned].view(rounds))
        own = increments[rows].view(rounds).diagonal(dim1=1, dim2=2)
        return weighted_mean((own - decoded).square().flatten(), None if weights is None else weights[rows])

    # --- Algorithm 1, line 13: inference ---

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Distribution of each row's target: a chain for each sample."""
        return Prediction(self.draw(features, keys, n_samples).cpu().detach().numpy())

    def draw(self, features: Tensor, keys: Tensor, n_chains: int) -> Tensor:
        """The value that each chain of each row ends at, as the decoding reads it. **Shape:** -> ``(n, n_chains)``."""
        if self.decoding == "heads":
            return aggregate_increments(self.read(features, keys, n_chains).increments)  # truncate and sum: y-hat
        if self.decoding == "chain":
            _, last = deque(self.chain(features, keys, n_chains, self.drawing_times), maxlen=1).pop()
            return aggregate_increments(squeeze(last))
        return (self.values_along(features, keys, n_chains) @ self.fusion_weights).clamp(0.0, 1.0)

    def read(self, features: Tensor, keys: Tensor, n_samples: int) -> Reading:
        """Run the chain once, cache its estimates and decode each head at its aligned time."""
        estimates = torch.stack([estimate for _, estimate in self.chain(features, keys, n_samples)], dim=2)
        indices = [self.chain_times.index(t) for t in self.aligned_times]
        return Reading(estimates, self.heads(estimates[:, :, indices]))  # z_0-hat(t_k) -> b_k-hat

    def chain(
        self, features: Tensor, keys: Tensor, n_samples: int, times: tuple[int, ...] | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """Run the reverse chain of every sample, one denoiser call per time. **Yields** t, ``(n, m, S)``."""
        per_row = features.unsqueeze(1)  # (n, 1, d): the samples of a row share its features
        start = start_noise(keys, n_samples, self.n_increments).to(features)  # z_T

        def denoise(noisy: Tensor, t: Tensor) -> Tensor:
            return self.process.denoised(self.denoiser(noisy, per_row, t), noisy, t)

        def fresh(t: int) -> Tensor:
            return step_noise(keys, n_samples, self.n_increments, t).to(features)

        return self.process.reverse(denoise, start, times or self.chain_times, self.eta, fresh, self.chain_variance)

    def increments(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        """Expected increment of each scale, decoded by the heads. **Shape:** -> ``(n, S)``."""
        return self.read(features, keys, n_samples).increments.mean(dim=1)

    def values_along(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        """Target value read off the estimate at each time of the chain. **Shape:** -> ``(n, m, len(chain_times))``."""
        return aggregate_increments(squeeze(self.read(features, keys, n_samples).estimates))

    # --- beyond the algorithms ---

    def calibrate(self, features: Tensor, y: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> None:
        """Fit the fusion weights on validation rows."""
        if self.decoding == "fusion":
            values = self.values_along(features, keys, n_samples).mean(dim=1)  # (n, times)
            self.fusion_weights.copy_(fit_fusion(values - y[:, None]))

    def diagnostics(self, features: Tensor, y: Tensor) -> dict[str, float]:
        """Mean cosine of the gradients of different times in the denoiser, and the share of pairs that conflict."""
        return cosines_for_history(self, features, y)

    def with_steps(self, n_steps: int) -> IncrementDiffusion:
        """The same method, all weights shared, with chains of so many denoiser calls: fewer are quicker and coarser.

        >>> IncrementDiffusion(n_features=4, n_increments=8, width=16, decoding="chain").with_steps(3).drawing_times
        (1000, 500, 1)
        """
        if self.decoding == "fusion":
            raise UserError(
                "decoding='fusion' has weights for the steps that it was fitted with, but got "
                f"n_steps={n_steps}; leave n_steps out, or fit with it"
            )
        other = copy(self)
        other._set_steps(n_steps)
        return other

    def _set_steps(self, n_steps: int) -> None:
        self.drawing_times = steps_of_chain(n_steps, self.aligned_times, self.process.n_times, self.decoding)
        # Reading increments needs every aligned time, also where samples are drawn in fewer steps.
        self.chain_times = self.chain_times if self.decoding == "chain" else self.drawing_times
