"""CARD: diffusion of the target around the answer of a deterministic network, on the shared features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from diffor.core.draws import ByteDropout
from diffor.core.method import Method, weighted_mean
from diffor.core.prediction import Prediction
from diffor.core.row_noise import start_noise, step_noise
from diffor.errors import UserError
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.settings import check_counts

FULL_TIMES = 1000
FIRST_BETA, LAST_BETA = 1e-4, 2e-2
MIN_TIMES = 25  # with fewer, the last share of noise would come close to all of it


def noise_shares(n_times: int) -> Tensor:
    """Share of noise that each time adds: linear, and the more of it the fewer times there are.

    **Shape:** -> ``(T,)`` in double precision.
    """
    rescale = FULL_TIMES / n_times
    return torch.linspace(FIRST_BETA * rescale, LAST_BETA * rescale, n_times, dtype=torch.float64)


def reverse_weights(shares: Tensor) -> Tensor:
    """How the state one time earlier is made: weights of the clean target, the state and the centre, and a deviation.

    **Shape:** ``(T,)`` -> ``(T, 4)``; at time 0 the clean target alone is left.
    """
    kept = 1 - shares
    total = kept.cumprod(dim=0)
    before = torch.cat([torch.ones_like(total[:1]), total[:-1]])
    clean = shares * before.sqrt() / (1 - total)
    state = (1 - before) * kept.sqrt() / (1 - total)
    centre = 1 + (total.sqrt() - 1) * (kept.sqrt() + before.sqrt()) / (1 - total)
    deviation = (shares * (1 - before) / (1 - total)).sqrt()
    return torch.stack([clean, state, centre, deviation], dim=1)


def draw_times_and_noise(n: int, n_times: int) -> tuple[Tensor, Tensor]:
    """Random times, of neighbouring rows as far from the start as from the end, and normal noise.

    **Shape:** -> ``(n,)``, ``(n,)``.
    """
    # One draw for each pair of rows: the first rows of a batch have the same draws whatever rows follow.
    uniform = torch.rand((n + 1) // 2, 3)
    first = (uniform[:, 0] * n_times).long().clamp(max=n_times - 1)
    times = torch.stack([first, n_times - 1 - first], dim=1)
    noise: Tensor = torch.special.ndtri(uniform[:, 1:].clamp(2.0**-24, 1 - 2.0**-24))
    return times.flatten()[:n], noise.flatten()[:n]


class NoiseNetwork(nn.Module):
    """The noise in a state: three layers, each multiplied by a vector that is learned for every time.

    **Shape:** states ``(n, m)``, what :meth:`describe` says of the rows ``(n, width)``, times ``(n,)`` or a scalar
    -> ``(n, m)``.
    """

    def __init__(self, n_features: int, n_times: int, width: int) -> None:
        super().__init__()
        self.of_row = nn.Linear(1 + n_features, width)
        self.of_state = nn.Linear(1, width, bias=False)
        self.second, self.third, self.last = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.gates = nn.Embedding(n_times, 3 * width)
        nn.init.uniform_(self.gates.weight)

    def describe(self, centre: Tensor, features: Tensor) -> Tensor:
        """What the first layer makes of a row, the same for all its states. **Shape:** ``(n,)``, ``(n, d)``."""
        described: Tensor = self.of_row(torch.cat([centre[:, None], features], dim=1))
        return described

    def forward(self, state: Tensor, described: Tensor, t: Tensor) -> Tensor:
        """Estimate the noise."""
        gates = self.gates(t.expand(len(state))).unsqueeze(1).chunk(3, dim=2)  # each (n, 1, width)
        hidden = _softplus(gates[0] * (described.unsqueeze(1) + self.of_state(state.unsqueeze(2))))
        hidden = _softplus(gates[1] * self.second(hidden))
        hidden = _softplus(gates[2] * self.third(hidden))
        estimate: Tensor = self.last(hidden).squeeze(2)
        return estimate


def chebyshev_sum(weights: Tensor, place: Tensor) -> Tensor:
    """The weighted sum of Chebyshev polynomials at places in [-1, 1], by Clenshaw's recurrence.

    **Shape:** ``(n, k)`` with k of 2 or more, ``(n, m)`` -> ``(n, m)``.
    """
    here, after = weights[:, -1:].expand_as(place), torch.zeros_like(place)
    for k in range(weights.shape[1] - 2, 0, -1):
        here, after = torch.addcmul(weights[:, k : k + 1] - after, place, here, value=2), here
    return torch.addcmul(weights[:, :1] - after, place, here)


def _softplus(values: Tensor) -> Tensor:
    """Softplus; where no gradient is needed, in place and faster than torch's own, and flat beyond 80."""
    return softplus(values) if torch.is_grad_enabled() else values.clamp_(max=80.0).exp_().log1p_()


class DiffusionAroundMean(Method):
    """CARD (Han et al., 2022): a chain of noise leads from the target to a unit normal around what a network expects.

    NOTE[DIFF]: both stages learn side by side, where the authors first train and freeze the guide; the noise network
    sees its answer as given. There are 100 times with ten times the noise each, where the authors have 1000: a
    prediction costs a tenth. ``n_times=1000`` is theirs. Of one row at one time the noise is a smooth function of the
    state alone: with ``n_nodes``, it is asked at so many Chebyshev points between the smallest and the largest state
    of a row, and all its draws are read off the polynomial through them (24 are plenty).

    **Shape:** features ``(n, d)`` -> a chain of ``n_times`` states for each sample.
    """

    family, title = "diffusion", "CARD"
    paper, evidence, native_statistic = "Han et al., NeurIPS 2022", "code", "mean"
    signal: Tensor
    steps_back: Tensor
    nodes: Tensor
    to_weights: Tensor

    def __init__(
        self, n_features: int, *, n_times: int = 100, width: int = 128, dropout: float = 0.1, n_nodes: int | None = None
    ) -> None:
        super().__init__()
        if n_times < MIN_TIMES:
            raise UserError(f"n_times must be at least {MIN_TIMES}, but got n_times={n_times}; choose more times")
        check_counts(width=width)
        check_counts(2, n_nodes=2 if n_nodes is None else n_nodes)
        self.n_times, self.n_nodes = n_times, n_nodes
        layers: list[nn.Module] = []
        for n_in, n_out in ((n_features, 100), (100, 50)):
            layers += [nn.Linear(n_in, n_out), nn.LeakyReLU(0.01), ByteDropout(dropout)]
        self.guide = nn.Sequential(*layers, nn.Linear(50, 1))
        self.noise = NoiseNetwork(n_features, n_times, width)
        shares = noise_shares(n_times)
        self.register_buffer("signal", (1 - shares).cumprod(dim=0).sqrt().float(), persistent=False)
        self.register_buffer("steps_back", reverse_weights(shares).float(), persistent=False)
        angles = (torch.arange(n_nodes or 2, dtype=torch.float64) + 0.5) * (math.pi / (n_nodes or 2))
        to_weights = (angles[:, None] * torch.arange(len(angles))).cos() * (2 / len(angles))  # of values at the nodes
        to_weights[:, 0] /= 2
        self.register_buffer("nodes", angles.cos().float(), persistent=False)
        self.register_buffer("to_weights", to_weights.float(), persistent=False)
        self.scale = StandardScale()

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise the target."""
        self.scale.fit(y)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Squared errors of the guide, and of the noise at a random time."""
        clean, expected = self.scale(y), self.guide(features).squeeze(1)
        given = expected.detach()
        t, noise = (draws.to(y.device) for draws in draw_times_and_noise(len(y), self.n_times))
        signal = self.signal[
            t
        ]  # share of the target that the state has kept; the rest stands around the guide's answer
        state = signal * clean + (1 - signal) * given + (1 - signal.square()).sqrt() * noise
        estimate = self.noise(state[:, None], self.noise.describe(given, features), t).squeeze(1)
        return {
            "guide": weighted_mean((expected - clean).square(), weights),
            "noise": weighted_mean((estimate - noise).square(), weights),
        }

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Samples by the whole reverse chain, and their mean."""
        samples = self.scale.back(self.reverse(features, keys, n_samples)).clamp(0, 1)
        return Prediction(samples.cpu().numpy(), samples.mean(dim=1).cpu().numpy())

    @torch.no_grad()
    def reverse(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        """Lead states around the guide's answer back to targets. **Shape:** -> ``(n, n_samples)``, standardised."""
        centre: Tensor = self.guide(features)
        described = self.noise.describe(centre.squeeze(1), features)
        state = centre + start_noise(keys.cpu(), n_samples, 1).squeeze(2).to(features)
        for t in range(self.n_times - 1, -1, -1):
            signal, (of_clean, of_state, of_centre, deviation) = self.signal[t], self.steps_back[t]
            estimate = self.noise_in(state, described, torch.tensor(t, device=state.device))
            clean = (state - (1 - signal) * centre - (1 - signal.square()).sqrt() * estimate) / signal
            state = of_clean * clean + of_state * state + of_centre * centre
            if t > 0:
                state = state + deviation * step_noise(keys.cpu(), n_samples, 1, t).squeeze(2).to(state)
        return state

    def noise_in(self, state: Tensor, described: Tensor, t: Tensor) -> Tensor:
        """The noise in all states of each row at one time, asked or interpolated. **Shape:** ``(n, m)``."""
        if self.n_nodes is None:
            estimate: Tensor = self.noise(state, described, t)
            return estimate
        low, high = state.aminmax(dim=1, keepdim=True)
        middle, half = (low + high) / 2, ((high - low) / 2).clamp(min=torch.finfo(state.dtype).tiny)
        weights = self.noise(middle + half * self.nodes, described, t) @ self.to_weights
        return chebyshev_sum(weights, (state - middle) / half)
