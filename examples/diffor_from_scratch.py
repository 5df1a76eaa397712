"""DiffoR from scratch: the paper's model in plain torch, to be read from top to bottom beside the paper.

    python examples/diffor_from_scratch.py     # learns a toy table in about a minute, draws diffor_from_scratch.svg

Nothing of the library is imported; a test holds loss and predictions equal to those of its preset ``paper``. Numbers in
brackets are the paper's equations. S is the number of increments, T of noise times, n of rows, d of features.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

# --- Targets: y in [0, 1] becomes S bounded increments, like the marks of a thermometer ---


def split(y: Tensor, count: int) -> Tensor:
    """How far y has filled each of S intervals: b_k = min(max(y - (k - 1) / S, 0), 1 / S). (n,) -> (n, S)  [5, 6]"""
    return (y[:, None] - torch.arange(count) / count).clamp(0, 1 / count)


def aggregate(increments: Tensor) -> Tensor:
    """Truncate and sum. The capacity that is left, the third bound of [17], never binds. (n, S) -> (n,)  [7, 17]"""
    return increments.clamp(0, 1 / increments.shape[-1]).sum(dim=-1).clamp(0, 1)


def aligned_times(count: int, n_times: int) -> list[int]:
    """Each increment's own time, coarse ones at high noise: t_1 = T > ... > t_S = 1  [11, 12]"""
    return [1 + (count - k) * (n_times - 1) // (count - 1) for k in range(1, count + 1)]


# --- The denoiser: what noise is in z_t, given the features c and the time t? One attention head for each increment ---


def time_waves(t: Tensor, count: int = 64) -> Tensor:
    """Times as sines and cosines. (n,) -> (n, count)"""
    rates = torch.exp(torch.arange(count // 2) * (-math.log(10_000) / (count // 2)))
    angles = t[..., None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Attention(nn.Module):
    """Head k belongs to scale k: its query comes from stream k, what it finds in all tokens goes to stream k alone."""

    def __init__(self, count: int, width: int, dropout: float) -> None:
        super().__init__()
        self.size = max(8, math.ceil(width / count))
        self.query = nn.Parameter(torch.empty(count, width, self.size).uniform_(-(width**-0.5), width**-0.5))
        self.key_value = nn.Linear(width, 2 * count * self.size)
        self.output = nn.Parameter(torch.empty(count, self.size, width).uniform_(-(self.size**-0.5), self.size**-0.5))
        self.dropout = nn.Dropout(dropout)

    def forward(self, streams: Tensor, tokens: Tensor) -> Tensor:
        """(n, S, width) each -> (n, S, width)"""
        n, count, _ = tokens.shape
        query = torch.einsum("nkw,kwd->nkd", streams, self.query)
        key, value = (
            self.key_value(tokens).view(n, count, 2, count, self.size).unbind(dim=2)
        )  # (n, tokens, heads, size)
        scores = torch.einsum("nkd,njkd->nkj", query, key) / math.sqrt(self.size)
        taken = torch.einsum("nkj,njkd->nkd", self.dropout(scores.softmax(dim=-1)), value)
        return torch.einsum("nkd,kdw->nkw", taken, self.output)


class Layer(nn.Module):
    """Attention and a feed-forward part, normalised first."""

    def __init__(self, count: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norm_streams, self.norm_tokens, self.norm = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(count, width, dropout)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, streams: Tensor, tokens: Tensor) -> Tensor:
        """(n, S, width) each -> (n, S, width)"""
        streams = streams + self.dropout(self.attention(self.norm_streams(streams), self.norm_tokens(tokens)))
        return streams + self.dropout(self.narrow(self.dropout(functional.gelu(self.wide(self.norm(streams))))))


class Denoiser(nn.Module):
    """A two-layer transformer. Token k holds the k-th noisy increment; features and time are added to every token."""

    def __init__(self, count: int, n_features: int, width: int, dropout: float) -> None:
        super().__init__()
        self.from_features, self.from_time = nn.Linear(n_features, width), nn.Linear(64, width)
        self.from_noisy = nn.Linear(1, width)
        self.scales = nn.Parameter(torch.randn(count, width) * 0.02)
        self.layers = nn.ModuleList(Layer(count, width, dropout) for _ in range(2))
        self.norm, self.to_output = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, noisy: Tensor, features: Tensor, t: Tensor) -> Tensor:
        """z_t (n, S), c (n, d), t (n,) -> epsilon-hat (n, S)"""
        told = self.from_features(features) + self.from_time(time_waves(t))
        tokens = self.from_noisy(noisy[..., None]) + self.scales + told[:, None]  # (n, S, width)
        streams = tokens
        for layer in self.layers:
            streams = layer(streams, tokens)
        return self.to_output(self.norm(streams)).squeeze(-1)


class Heads(nn.Module):
    """Increment k from the estimate at its own time: b_k-hat = sigmoid(MLP_k(z_0-hat(t_k))) / S  [10, 13]"""

    def __init__(self, count: int, hidden: int = 32) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(count, count, hidden).uniform_(-(count**-0.5), count**-0.5))
        self.first_bias = nn.Parameter(torch.zeros(count, hidden))
        self.second = nn.Parameter(torch.empty(count, hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.second_bias = nn.Parameter(torch.zeros(count))

    def forward(self, estimates: Tensor) -> Tensor:
        """Estimates at the S times (n, S, S) -> increments (n, S)"""
        hidden = functional.silu(torch.einsum("nki,kih->nkh", estimates, self.first) + self.first_bias)
        logits = (hidden * self.second).sum(dim=-1) + self.second_bias
        return torch.sigmoid(logits) / estimates.shape[-1]


# --- The model ---


class DiffoR(nn.Module):
    """The paper's model on features c (n, d). It leaves T, noise and z_0 open: 1000, linear, increments in [-1, 1]."""

    def __init__(
        self, n_features: int, count: int = 8, n_times: int = 1000, width: int = 128, dropout: float = 0.1,
        increment_weight: float = 10.0, aligned_share: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__()
        self.count, self.n_times = count, n_times
        self.increment_weight, self.aligned_share = increment_weight, aligned_share  # lambda [20], beta [14]
        self.times = aligned_times(count, n_times)
        self.denoiser, self.heads = Denoiser(count, n_features, width, dropout), Heads(count)
        variance = torch.linspace(0.1 / n_times, 20 / n_times, n_times, dtype=torch.float64)
        kept = torch.cat([torch.ones(1, dtype=torch.float64), torch.cumprod(1 - variance, dim=0)])  # alpha-bar
        self.signal, self.spread = kept.sqrt().float(), (1 - kept).sqrt().float()

    def corrupt(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """z_t = sqrt(alpha-bar_t) z_0 + sqrt(1 - alpha-bar_t) epsilon  [8]"""
        return self.signal[t][:, None] * clean + self.spread[t][:, None] * noise

    def estimate(self, noisy: Tensor, predicted: Tensor, t: Tensor) -> Tensor:
        """z_0-hat(t) = (z_t - sqrt(1 - alpha-bar_t) epsilon-hat) / sqrt(alpha-bar_t)  [9]"""
        return (noisy - self.spread[t][:, None] * predicted) / self.signal[t][:, None]

    def draw_times(self, n: int) -> Tensor:
        """A mixture of all times and the aligned ones. -> (n,)  [14]"""
        anywhere = torch.randint(1, self.n_times + 1, (n,))
        aligned = torch.tensor(self.times)[torch.randint(self.count, (n,))]
        return torch.where(torch.rand(n) < self.aligned_share, aligned, anywhere)

    def loss(self, features: Tensor, y: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Algorithm 1, lines 3 to 12, for drawn times (n,) and noise (n, S)."""
        increments = split(y, self.count)  # line 3
        clean = 2 * self.count * increments - 1  # z_0
        noisy = self.corrupt(clean, noise, t)  # line 5
        denoise = (self.denoiser(noisy, features, t) - noise).square().mean()  # line 6, L_diff  [18]
        estimates = []
        for own in self.times:  # lines 7 to 11, with the same noise
            t_k = torch.full((len(y),), own)
            noisy = self.corrupt(clean, noise, t_k)
            estimates.append(self.estimate(noisy, self.denoiser(noisy, features, t_k), t_k))
        decoded = self.heads(torch.stack(estimates, dim=1))
        increment = (increments - decoded).square().mean()  # line 12, L_mia  [19]
        return denoise + self.increment_weight * increment  # [20]; means over S, not sums, rescale both terms alike

    @torch.no_grad()
    def predict(self, features: Tensor, start: Tensor, fresh: dict[int, Tensor] | None = None) -> Tensor:
        """Algorithm 1, line 13, from z_T (n, S): run the reverse chain, cache each z_0-hat(t_k), decode, aggregate.

        With ``fresh`` noise of each time the chain is [4], over all T times; without, it visits the aligned times only,
        without noise, which is a hundred times as quick. -> y-hat (n,)
        """
        times = list(range(self.n_times, 0, -1)) if fresh else self.times
        noisy, cached = start, {}
        for t, following in zip(times, [*times[1:], 0], strict=True):
            now = torch.full((len(start),), t)
            predicted = self.denoiser(noisy, features, now)
            cached[t] = self.estimate(noisy, predicted, now)
            signal, spread = self.signal[following], self.spread[following]
            if fresh and following:
                # The standard deviation of the step, sigma_t: that of the true q(z_{t-1} | z_t, z_0).
                ratio = self.signal[t] * spread / (signal * self.spread[t])
                sigma = spread * (1 - ratio**2).clamp(min=0).sqrt()
                noisy = signal * cached[t] + (spread**2 - sigma**2).sqrt() * predicted + sigma * fresh[following]
            else:
                noisy = signal * cached[t] + spread * predicted
        return aggregate(self.heads(torch.stack([cached[t] for t in self.times], dim=1)))


# --- A toy table: the target's spread grows with the second column, and it has two modes where the third is 1 ---


def toy_table(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Columns (n, 3) and targets (n,) in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    columns = torch.rand(n, 3, generator=generator)
    columns[:, 2] = (columns[:, 2] > 0.7).float()
    mode = torch.where(torch.rand(n, generator=generator) < 0.5, 0.25, -0.25) * columns[:, 2]
    noise = 0.1 * columns[:, 1] * torch.randn(n, generator=generator)
    return columns, (0.3 + 0.4 * columns[:, 0] + mode + noise).clamp(0, 1)


def main(steps: int = 1000, out: str = "diffor_from_scratch.svg") -> float:
    """Learn the toy table, draw ten predictions of each new row, and give the mean absolute error of their median."""
    torch.manual_seed(0)
    (x, y), (x_new, y_new) = toy_table(4000, seed=1), toy_table(300, seed=2)
    encoder = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())  # c = E(x)
    model = DiffoR(32, width=32)  # a quarter of the paper's width, and four times its rate of 5e-4, to be done soon
    optimizer = torch.optim.Adam([*encoder.parameters(), *model.parameters()], lr=2e-3)
    for _ in range(steps):
        rows = torch.randint(len(y), (64,))
        loss = model.loss(encoder(x[rows]), y[rows], model.draw_times(64), torch.randn(64, model.count))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    drawn = torch.stack([model.predict(encoder(x_new), torch.randn(len(y_new), model.count)) for _ in range(10)])
    error = float((drawn.median(dim=0).values - y_new).abs().mean())
    print(f"mean absolute error {error:.3f}, of the constant {float((y.median() - y_new).abs().mean()):.3f}")
    draw_picture(x_new[:, 0], y_new, drawn, out)
    return error


def draw_picture(x: Tensor, y: Tensor, drawn: Tensor, out: str) -> None:
    """Truths and predictions over the first column."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4))
    ax.plot(x.repeat(len(drawn)), drawn.flatten(), ".", color="#56b4e9", alpha=0.3, label="ten predictions of a row")
    ax.plot(x, y, ".", color="#000000", label="its truth")
    ax.set(xlabel="first column", ylabel="target")
    ax.legend()
    figure.savefig(out)
    print(f"the picture is {out}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
