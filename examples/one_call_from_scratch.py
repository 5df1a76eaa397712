"""The one-call core from scratch: one network, one call, the whole distribution, in plain torch.

    python examples/one_call_from_scratch.py     # learns a toy table in seconds

Nothing of the library is imported; a test holds loss and quantiles equal to those of its method ``diffor``. The library
adds borders at values that repeat, priors, and networks that are each held out from a part of the rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def place_edges(y: Tensor, count: int) -> Tensor:
    """S + 1 edges, three quarters of the way from even spacing to quantiles of the targets. (n,) -> (S + 1,)"""
    values, counts = torch.unique(y.double(), return_counts=True)
    rank = counts.cumsum(0) - counts.double() / 2
    blend = 0.75 * (rank - rank[0]) / (rank[-1] - rank[0]) + 0.25 * (values - values[0]) / (values[-1] - values[0])
    return interpolate(torch.linspace(0, 1, count + 1, dtype=torch.float64), blend, values)


def interpolate(at: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The line through points (x, y), x rising, read at other places. (m,), (k,), (k,) -> (m,)"""
    right = torch.searchsorted(x, at.contiguous()).clamp(1, len(x) - 1)
    share = (at - x[right - 1]) / (x[right] - x[right - 1]).clamp(min=1e-300)
    return y[right - 1] + share.clamp(0, 1) * (y[right] - y[right - 1])


class OneCall(nn.Module):
    """P(target above x) at S places, from features (n, d): at t = T a denoiser's estimate is nothing else."""

    def __init__(self, n_features: int, y: Tensor, count: int = 64, width: int = 128, dropout: float = 0.1) -> None:
        super().__init__()
        self.edges = place_edges(y, count)
        self.blocks = nn.ModuleList([nn.Linear(n_features, width)] + [
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout),
                          nn.Linear(width, width)) for _ in range(2)
        ])  # fmt: skip
        self.direct, self.out = nn.Linear(n_features, count), nn.Linear(width, count, bias=False)
        for layer in (self.direct.weight, self.out.weight):
            nn.init.zeros_(layer)
        shares = self.fill(y).mean(dim=0).clamp(1e-3, 1 - 1e-3)
        self.direct.bias.data.copy_(torch.logit(shares))  # training starts from the shares of all rows

    def fill(self, y: Tensor) -> Tensor:
        """How far each target has filled each interval, in [0, 1]: a thermometer. (n,) -> (n, S)"""
        low, high = self.edges[:-1].to(y), self.edges[1:].to(y)
        return ((y[:, None] - low) / (high - low)).clamp(0, 1)

    def logits(self, features: Tensor) -> Tensor:
        """A linear path and a small residual network. (n, d) -> (n, S)"""
        hidden = self.blocks[0](features)
        for block in self.blocks[1:]:
            hidden = hidden + block(hidden)
        return self.direct(features) + self.out(torch.relu(hidden))

    def loss(self, features: Tensor, y: Tensor) -> Tensor:
        """The mean of an increment is the mean probability of lying above its interval: cross-entropies are proper."""
        return functional.binary_cross_entropy_with_logits(self.logits(features), self.fill(y))

    @torch.no_grad()
    def quantiles(self, features: Tensor, levels: Tensor) -> Tensor:
        """The inverse of the distribution function, a line through 0, the middles of the intervals, and 1. -> (n, q)"""
        survival = torch.sigmoid(self.logits(features)).cummin(dim=1).values.double()  # falls, so nothing crosses
        knots = torch.cat([self.edges[:1], (self.edges[1:] + self.edges[:-1]) / 2, self.edges[-1:]])
        heights = functional.pad(1 - survival, (1, 0))
        heights = functional.pad(heights, (0, 1), value=1.0)
        return torch.stack([interpolate(levels.double(), row, knots) for row in heights])


def main(steps: int = 600) -> float:
    """Learn a toy table and give the share of new targets inside intervals that should hold 90 %."""
    torch.manual_seed(0)
    x = torch.rand(3000, 2)
    y = (0.2 + 0.6 * x[:, 0] + 0.15 * x[:, 1] * torch.randn(3000)).clamp(0.001, 0.999)
    new, y_new, x, y = x[2000:], y[2000:], x[:2000], y[:2000]
    model = OneCall(2, y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(y), (128,))
        optimizer.zero_grad()
        model.loss(x[rows], y[rows]).backward()
        optimizer.step()
    low, middle, high = model.eval().quantiles(new, torch.tensor([0.05, 0.5, 0.95])).T
    held = float(((low <= y_new) & (y_new <= high)).float().mean())
    print(f"median off by {float((middle - y_new).abs().mean()):.3f}, 90 % intervals hold {held:.0%} of new targets")
    return held


if __name__ == "__main__":
    main()
