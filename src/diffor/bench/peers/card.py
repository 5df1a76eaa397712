"""CARD (Han, Zheng and Zhou, 2022): diffusion of the target around the answer of a deterministic network.

Two stages: a network f(x) is trained by squared error and frozen; then a noise network learns to reverse a chain that
leads from the target to a unit normal distribution around f(x). Where this departs from the authors' settings:

- Categories: columns of at most 16 codes are one-hot; wider ones have embeddings that the first stage learns.
- Batches of 256 rows where the authors take 64; at most 20,000 steps, which is about their number of epochs on small
  tables.
- The kept weights are those with the best validation loss, where the authors keep the last ones; training ends 5,000
  steps after them.
- The running average of the weights forgets the random start while the run is short.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, softplus

from diffor.bench.peers.gradient_loop import BLOCK_ROWS, Batch, LoopSettings, StandardTarget, minimise, reproducible
from diffor.bench.peers.problem import Peer, Problem
from diffor.core.dropout import ByteDropout
from diffor.core.method import Inputs
from diffor.core.prediction import Prediction
from diffor.encoders import TabularInputs
from diffor.encoders.tabular.inputs import UNKNOWN
from diffor.encoders.tabular.networks import embedding_width
from diffor.errors import UserError

FULL_TIMES = 1000
FIRST_BETA, LAST_BETA = 1e-4, 2e-2
MIN_TIMES = 25  # with fewer, the last share of noise would come close to all of it
ONE_HOT_CODES = 16
EVALUATE_EVERY, PATIENCE = 250, 20
VALID_DRAWS = 4096
"""Draws of row, time and noise that an evaluation uses at least, however few the validation rows are."""
CHUNK_SAMPLES = 2048
"""Rows times draws that the reverse chain moves together: their activations fit into a core's cache."""
SOFTPLUS_CEILING = 80.0


class Chain:
    """The chain of noise, from a target at time 0 to a unit normal distribution around a centre.

    With fewer than 1000 times, each of them adds so much more noise that the end is the same.

    >>> chain = Chain(1000)
    >>> f"{float(chain.signal[-1]):.4f} {float(chain.spread[-1]):.4f}"
    '0.0064 1.0000'
    """

    def __init__(self, n_times: int = FULL_TIMES) -> None:
        if n_times < MIN_TIMES:
            raise UserError(f"n_times must be at least {MIN_TIMES}, but got n_times={n_times}; choose more times")
        self.n_times = n_times
        rescale = FULL_TIMES / n_times
        alpha = 1 - torch.linspace(FIRST_BETA * rescale, LAST_BETA * rescale, n_times, dtype=torch.float64)
        total = alpha.cumprod(dim=0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), total[:-1]])
        self.signal, self.spread = total.sqrt(), (1 - total).sqrt()
        # The state one time earlier, given this one, the clean target and the centre, is normal with this mean
        # (weights of the three) and this variance.
        self.of_clean = (1 - alpha) * before.sqrt() / (1 - total)
        self.of_noisy = (1 - before) * alpha.sqrt() / (1 - total)
        self.of_centre = 1 + (total.sqrt() - 1) * (alpha.sqrt() + before.sqrt()) / (1 - total)
        self.variance = (1 - alpha) * (1 - before) / (1 - total)

    def corrupt(self, clean: Tensor, centre: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """States at times ``t`` (from 0). **Shape:** all ``(n,)``."""
        signal, spread = self.signal[t].to(clean.dtype), self.spread[t].to(clean.dtype)
        return signal * clean + (1 - signal) * centre + spread * noise

    def reverse(
        self, noise_of: Callable[[Tensor, int], Tensor], centre: Tensor, state: Tensor, draw: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Lead a state at the last time back to the target, in place.

        ``noise_of(state, t)`` estimates the noise in a state, ``draw(buffer)`` fills a buffer with normal noise.

        **Shape:** ``(n, m)``, centre ``(n, 1)``.
        """
        # The clean estimate is (state - (1 - signal) centre - spread noise) / signal: all weights are known beforehand.
        to_clean = 1 / self.signal
        of_state = (self.of_clean * to_clean + self.of_noisy).tolist()
        of_centre = (self.of_centre - self.of_clean * to_clean * (1 - self.signal)).tolist()
        of_noise = (-self.of_clean * to_clean * self.spread).tolist()
        deviation, fresh = self.variance.sqrt().tolist(), torch.empty_like(state)
        for t in range(self.n_times - 1, 0, -1):
            estimate = noise_of(state, t)
            state.mul_(of_state[t]).add_(estimate, alpha=of_noise[t]).add_(centre, alpha=of_centre[t])
            state.add_(draw(fresh), alpha=deviation[t])
        signal, spread = float(self.signal[0]), float(self.spread[0])
        state.add_(noise_of(state, 0), alpha=-spread).add_(centre, alpha=signal - 1)
        return state.div_(signal)


def antithetic_times(n: int, n_times: int) -> Tensor:
    """Random times in pairs that stand as far from the start as from the end. **Shape:** ``(n,)``."""
    first = torch.randint(0, n_times, ((n + 1) // 2,))
    return torch.cat([first, n_times - 1 - first])[:n]


class InputVector(nn.Module):
    """Numbers and categories as one vector. **Shape:** numbers ``(n, p)``, codes ``(n, c)`` -> ``(n, width)``.

    >>> InputVector(1, [4])(torch.tensor([[0.5], [0.75]]), torch.tensor([[2], [0]])).tolist()
    [[0.5, 0.0, 0.0, 1.0, 0.0], [0.75, 0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, n_numbers: int, category_sizes: list[int]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(self._table(size) for size in category_sizes)
        self.width = n_numbers + sum(table.embedding_dim for table in self.tables)  # type: ignore[misc]

    @staticmethod
    def _table(n_codes: int) -> nn.Embedding:
        if n_codes > ONE_HOT_CODES:
            return nn.Embedding(n_codes, embedding_width(n_codes), padding_idx=UNKNOWN)
        table = nn.Embedding(n_codes, n_codes, padding_idx=UNKNOWN)
        with torch.no_grad():
            table.weight.copy_(torch.eye(n_codes)).requires_grad_(False)[UNKNOWN] = 0
        return table

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Put all parts beside each other."""
        return torch.cat([numbers, *(table(codes[:, place]) for place, table in enumerate(self.tables))], dim=1)


class Guide(nn.Module):
    """The deterministic network of the first stage. **Shape:** numbers, codes of n rows -> ``(n,)``."""

    def __init__(self, inputs: TabularInputs, dropout: float = 0.1) -> None:
        super().__init__()
        self.vector = InputVector(inputs.n_numbers, inputs.category_sizes)
        layers: list[nn.Module] = []
        for n_in, n_out in ((self.vector.width, 100), (100, 50)):
            layers += [nn.Linear(n_in, n_out), nn.LeakyReLU(0.01), ByteDropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(50, 1))

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Expected targets."""
        answer: Tensor = self.layers(self.vector(numbers, codes)).squeeze(1)
        return answer

    @torch.inference_mode()
    def describe(self, rows: Inputs) -> tuple[Tensor, Tensor]:
        """Input vectors and expected targets, a block of rows at a time. **Shape:** -> ``(n, width)``, ``(n,)``."""
        blocks = list(zip(*(torch.split(part, BLOCK_ROWS) for part in rows), strict=True))
        vectors = torch.cat([self.vector(*block) for block in blocks])
        return vectors, torch.cat([self(*block) for block in blocks])


class NoiseNetwork(nn.Module):
    """The noise in a state: three layers, each multiplied by a vector that is learned for every time.

    **Shape:** state ``(n,)``, centre ``(n,)``, vectors ``(n, p)``, times ``(n,)`` -> ``(n,)``.
    """

    def __init__(self, n_inputs: int, n_times: int, width: int = 128) -> None:
        super().__init__()
        self.first = nn.Linear(2 + n_inputs, width)  # reads state, centre, vector, in this order
        self.second, self.third = nn.Linear(width, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 1)
        self.gates = nn.Embedding(n_times, 3 * width)
        nn.init.uniform_(self.gates.weight)

    def forward(self, state: Tensor, centre: Tensor, vectors: Tensor, t: Tensor) -> Tensor:
        """Estimate the noise."""
        hidden = torch.cat([state[:, None], centre[:, None], vectors], dim=1)
        for layer, gate in zip((self.first, self.second, self.third), self.gates(t).chunk(3, dim=1), strict=True):
            hidden = softplus(gate * layer(hidden))
        estimate: Tensor = self.last(hidden).squeeze(1)
        return estimate


class NoiseOfRows:
    """The noise network for the draws of fixed rows, as the reverse chain needs it: ``(state (n, m), t) -> (n, m)``.

    What the first layer makes of a row is the same at all times and for all draws, so it is computed once. A time's
    vector multiplies the small weights instead of the large activations, which all live in two buffers.
    """

    def __init__(self, network: NoiseNetwork, centre: Tensor, vectors: Tensor, n_draws: int) -> None:
        self.network = network
        rows = torch.cat([centre[:, None], vectors], dim=1)
        self.of_row = torch.addmm(network.first.bias, rows, network.first.weight[:, 1:].t())
        self.of_state = network.first.weight[:, 0]
        shape = (len(centre), n_draws, self.of_row.shape[1])
        self.here, self.there = torch.empty(shape), torch.empty(shape)

    def __call__(self, state: Tensor, t: int) -> Tensor:
        """Estimate the noise in the states at one time."""
        gates = self.network.gates.weight[t].chunk(3)
        torch.addcmul((self.of_row * gates[0])[:, None], state[:, :, None], self.of_state * gates[0], out=self.here)
        here, there = _softplus_(self.here).flatten(0, 1), self.there.flatten(0, 1)
        for layer, gate in ((self.network.second, gates[1]), (self.network.third, gates[2])):
            torch.addmm(layer.bias * gate, here, (layer.weight * gate[:, None]).t(), out=there)
            here, there = _softplus_(there), here
        return torch.addmv(self.network.last.bias, here, self.network.last.weight[0]).view_as(state)


class InterpolatedNoise:
    """The same at a fraction of the cost: of a row at one time, the noise is a smooth function of the state alone.

    It is asked at a few Chebyshev points between the smallest and the largest state of the row, and all its draws are
    read off the polynomial through them.

    **Shape:** states ``(n, m)``, with any number of draws -> ``(n, m)``.
    """

    def __init__(self, network: NoiseNetwork, centre: Tensor, vectors: Tensor, n_nodes: int) -> None:
        self.noise_of = NoiseOfRows(network, centre, vectors, n_nodes)
        angles = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) * (math.pi / n_nodes)
        self.points = angles.cos().float()  # (k,) in (-1, 1)
        # The values at the points times this are the weights of the Chebyshev polynomials.
        to_weights = (angles[:, None] * torch.arange(n_nodes)).cos() * (2 / n_nodes)  # (k, k)
        to_weights[:, 0] /= 2
        self.to_weights = to_weights.float()

    def __call__(self, state: Tensor, t: int) -> Tensor:
        """Estimate the noise in the states at one time."""
        low, high = state.aminmax(dim=1, keepdim=True)
        middle, half = (low + high) / 2, ((high - low) / 2).clamp(min=torch.finfo(state.dtype).tiny)
        weights = self.noise_of(middle + half * self.points, t) @ self.to_weights  # (n, k)
        return _chebyshev_sum(weights, (state - middle) / half)


def _chebyshev_sum(weights: Tensor, place: Tensor) -> Tensor:
    """The weighted sum of Chebyshev polynomials at places in [-1, 1], by Clenshaw's recurrence.

    **Shape:** ``(n, k)`` with k of 2 or more, ``(n, m)`` -> ``(n, m)``.

    >>> _chebyshev_sum(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.5]])).item()  # 1 + 2 x + 3 (2 x^2 - 1)
    0.5
    """
    here, next_one = weights[:, -1:].expand_as(place), torch.zeros_like(place)
    for k in range(weights.shape[1] - 2, 0, -1):
        here, next_one = torch.addcmul(weights[:, k : k + 1] - next_one, place, here, value=2), here
    return torch.addcmul(weights[:, :1] - next_one, place, here)


def _softplus_(values: Tensor) -> Tensor:
    """Softplus in place, at a third of the time of torch's own; beyond 80, where nothing comes, it stays at 80."""
    return values.clamp_(max=SOFTPLUS_CEILING).exp_().add_(1).log_()


@dataclass(frozen=True)
class Card:
    """Both fitted networks and their chain."""

    inputs: TabularInputs
    guide: Guide
    network: NoiseNetwork
    chain: Chain
    scale: StandardTarget
    n_samples: int
    n_nodes: int | None
    n_threads: int
    seed: int

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Samples by the whole reverse chain."""
        with reproducible(self.seed, self.n_threads), torch.inference_mode():
            vectors, centre = self.guide.describe(self.inputs.transform(x))
            size = max(1, CHUNK_SAMPLES // (self.n_nodes or self.n_samples))
            chunks = zip(torch.split(vectors, size), torch.split(centre, size), strict=True)
            samples = torch.cat([self.sample(*chunk) for chunk in chunks])
        return Prediction(self.scale.restore(samples.numpy()))

    def sample(self, vectors: Tensor, centre: Tensor) -> Tensor:
        """Standardised samples of some rows. **Shape:** ``(n, p)``, ``(n,)`` -> ``(n, n_samples)``."""
        noise_of = (
            NoiseOfRows(self.network, centre, vectors, self.n_samples)
            if self.n_nodes is None
            else InterpolatedNoise(self.network, centre, vectors, self.n_nodes)
        )
        start = torch.randn(len(centre), self.n_samples).add_(centre[:, None])
        return self.chain.reverse(noise_of, centre[:, None], start, lambda buffer: buffer.normal_())


def fit_card(
    problem: Problem,
    *,
    n_times: int = FULL_TIMES,
    steps: int = 20_000,
    guide_steps: int = 20_000,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    n_nodes: int | None = None,
) -> Card:
    """Train the guide and then the noise network, each until its validation loss no longer falls or its steps end.

    With ``n_nodes``, the chain asks the network at so many states of a row, not at all its draws
    (:class:`InterpolatedNoise`).
    """
    if n_nodes is not None and n_nodes < 2:
        raise UserError(f"n_nodes must be at least 2, but got n_nodes={n_nodes}; 24 are plenty")
    chain, scale, inputs = Chain(n_times), StandardTarget.of(problem), TabularInputs().fit(problem.x)
    rows, valid_rows = inputs.transform(problem.x), inputs.transform(problem.x_valid)
    y, y_valid = scale.to_tensor(problem.y), scale.to_tensor(problem.y_valid)
    with reproducible(problem.seed, problem.n_threads):
        guide = Guide(inputs)
        settings = LoopSettings(guide_steps, batch_size, learning_rate, weight_decay=0.0, patience=50)
        minimise(
            guide, lambda batch: mse_loss(guide(*batch[:-1]), batch[-1]), (*rows, y), (*valid_rows, y_valid), settings
        )
        known, known_valid = (*guide.describe(rows), y), (*guide.describe(valid_rows), y_valid)
        network = NoiseNetwork(guide.vector.width, n_times)
        settings = LoopSettings(
            steps, batch_size, learning_rate, weight_decay=0.0, patience=PATIENCE, evaluate_every=EVALUATE_EVERY,
            average=0.9999, amsgrad=True,
        )  # fmt: skip
        train_noise_network(network, chain, known, known_valid, settings)
    return Card(inputs, guide, network, chain, scale, problem.n_samples, n_nodes, problem.n_threads, problem.seed)


def train_noise_network(
    network: NoiseNetwork, chain: Chain, train: Batch, valid: Batch, settings: LoopSettings
) -> None:
    """Train the second stage on vectors, centres and targets."""

    def loss_at(batch: Batch, t: Tensor, noise: Tensor) -> Tensor:
        vectors, centre, y = batch
        return mse_loss(network(chain.corrupt(y, centre, t, noise), centre, vectors, t), noise)

    def loss(batch: Batch) -> Tensor:
        n = len(batch[-1])
        return loss_at(batch, antithetic_times(n, chain.n_times), torch.randn(n))

    # All evaluations see the same times and noise, so that they differ by the weights alone.
    repeats = max(1, math.ceil(VALID_DRAWS / max(len(valid[-1]), 1)))
    repeated = tuple(part.repeat(repeats, *[1] * (part.ndim - 1)) for part in valid)
    n = len(repeated[-1])
    fixed = (*repeated, antithetic_times(n, chain.n_times), torch.randn(n))
    minimise(network, loss, train, fixed, settings, score=lambda batch: loss_at(batch[:3], batch[3], batch[4]))


CARD: tuple[Peer, ...] = (
    Peer("card", "CARD (Han 2022): diffusion around a deterministic answer, all 1000 steps", ("value",), fit_card),
)
"""Diffusion around a deterministic answer."""
