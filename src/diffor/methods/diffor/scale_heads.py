"""The denoiser whose attention heads belong to scales: head k asks, reads and answers for increment k alone."""

from __future__ import annotations

import math
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.draws import ByteDropout
from diffor.methods.diffor.networks import TokenDenoiser

LEAST_HEAD_SIZE = 8
"""Numbers that a head's queries, keys and values have at least, where many heads share the width."""


class ScaleAttention(nn.Module):
    """One attention head for each increment, between that increment's stream and the tokens of all increments.

    Head k has queries, keys, values and an output of its own: its queries come from stream k, and its output goes there
    and nowhere else. Together they have about as many weights as the standard layer with as many heads.

    **Shape:** streams and tokens ``(n, S, width)`` -> ``(n, S, width)``.
    """

    def __init__(self, n_increments: int, width: int, dropout: float) -> None:
        super().__init__()
        self.size = max(LEAST_HEAD_SIZE, math.ceil(width / n_increments))
        bounds = 1 / math.sqrt(width), 1 / math.sqrt(self.size)
        self.query = nn.Parameter(torch.empty(n_increments, width, self.size).uniform_(-bounds[0], bounds[0]))
        self.key_value = nn.Linear(width, 2 * n_increments * self.size)
        self.output = nn.Parameter(torch.empty(n_increments, self.size, width).uniform_(-bounds[1], bounds[1]))
        self.dropout = ByteDropout(dropout)

    def take(self, streams: Tensor, tokens: Tensor) -> Tensor:
        """What each head takes from the tokens, in its own subspace. **Shape:** -> ``(n, S, size)``."""
        n, count, _ = tokens.shape
        query = torch.einsum("nkw,kwd->nkd", streams, self.query) / math.sqrt(self.size)
        key, value = self.key_value(tokens).view(n, count, 2, count, self.size).permute(2, 0, 3, 1, 4)
        weights = self.dropout(torch.softmax((key @ query.unsqueeze(-1)).squeeze(-1), dim=-1))  # (n, heads, tokens)
        taken: Tensor = (weights.unsqueeze(-2) @ value).squeeze(-2)
        return taken

    def forward(self, streams: Tensor, tokens: Tensor) -> Tensor:
        """What each stream is told by its own head."""
        return torch.einsum("nkd,kdw->nkw", self.take(streams, tokens), self.output)


class ScaleHeadsLayer(nn.Module):
    """Attention by scale heads and a feed-forward part, normalised first. **Shape:** as :class:`ScaleAttention`."""

    def __init__(self, n_increments: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norm_streams, self.norm_tokens, self.norm = (nn.LayerNorm(width) for _ in range(3))
        self.attention = ScaleAttention(n_increments, width, dropout)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = ByteDropout(dropout)

    def forward(self, streams: Tensor, tokens: Tensor) -> Tensor:
        """Refine each stream by what its head finds in the tokens, then by itself."""
        told = self.attention(self.norm_streams(streams), self.norm_tokens(tokens))
        streams = streams + self.dropout(told)
        fed = self.narrow(self.dropout(functional.gelu(self.wide(self.norm(streams)))))
        refined: Tensor = streams + self.dropout(fed)
        return refined


class ScaleHeadsDenoiser(TokenDenoiser):
    """The paper's denoiser: a two-layer transformer with one attention head for each increment, dropout 0.1.

    Stream k starts as token k; in each layer head k reads the tokens of all increments for it, and increment k of the
    answer is read off it. So every increment depends on all noisy ones, but only by way of its own head: without head k
    the answer for increment k changes, and no other.

    NOTE[DIFF]: the paper says that attention heads are dedicated to scales and shows it in figures, without equations.
    That heads of both layers read the tokens as they came in, rather than what other heads made of them, is our way to
    keep them apart.

    >>> import torch
    >>> denoiser = ScaleHeadsDenoiser(n_increments=8, n_features=16, width=32)
    >>> denoiser(torch.randn(5, 8), torch.randn(5, 16), torch.randint(1, 1000, (5,))).shape
    torch.Size([5, 8])
    """

    def __init__(
        self, n_increments: int, n_features: int, width: int = 128, n_layers: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__(n_increments, n_features, width)
        self.layers = nn.ModuleList(ScaleHeadsLayer(n_increments, width, dropout) for _ in range(n_layers))
        self.norm = nn.LayerNorm(width)
        self.to_output = nn.Linear(width, 1)

    def read(self, tokens: Tensor) -> Tensor:
        """Each increment of the answer, off its own stream. **Shape:** ``(n, S, width)`` -> ``(n, S)``."""
        streams = tokens
        for layer in self.layers:
            streams = layer(streams, tokens)
        output: Tensor = self.to_output(self.norm(streams)).squeeze(-1)
        return output

    def without_head(self, place: int) -> ScaleHeadsDenoiser:
        """A copy in which the attention head of one increment (counted from 0) says nothing, in any layer."""
        other = deepcopy(self)
        for part in other.modules():
            if isinstance(part, ScaleAttention):
                part.output.data[place] = 0.0
        return other
