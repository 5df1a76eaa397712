"""A small transformer decoder over tokens that reads the features of a row as its one memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from diffor.core.draws import ByteDropout
from diffor.errors import UserError
from diffor.methods.baselines.settings import check_counts

Seen = tuple[Tensor, Tensor]
"""Keys and values of the tokens that a layer has seen so far. **Shape:** ``(n, heads, s, width / heads)``."""


class DecoderLayer(nn.Module):
    """Attention to the tokens before, to the memory, and a feed-forward part, each normalised after it is added.

    The memory is a single vector: attention to it has nothing to choose and is a linear map of it. Keys have no bias,
    because attention does not change with it.

    **Shape:** tokens ``(n, s, width)``, memory ``(n, width)`` -> as the tokens.
    """

    def __init__(self, width: int, n_heads: int, n_hidden: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.value, self.attended = nn.Linear(width, width), nn.Linear(width, width)
        self.remembered = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, n_hidden), nn.ReLU(), ByteDropout(dropout))
        self.fed = nn.Linear(n_hidden, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = ByteDropout(dropout)

    def forward(self, tokens: Tensor, memory: Tensor, seen: Seen | None = None) -> tuple[Tensor, Seen]:
        """Process tokens that follow those already seen: all of a sequence at once, or one after another."""
        query, key, value = (self.split(layer(tokens)) for layer in (self.query, self.key, self.value))
        if seen is not None:
            key, value = torch.cat([seen[0], key], dim=2), torch.cat([seen[1], value], dim=2)
        attended = scaled_dot_product_attention(query, key, value, is_causal=seen is None)
        attended = self.attended(attended.transpose(1, 2).flatten(2))
        tokens = self.norms[0](tokens + self.dropout(attended))
        tokens = self.norms[1](tokens + self.dropout(self.remembered(memory).unsqueeze(1)))
        return self.norms[2](tokens + self.dropout(self.fed(self.feed(tokens)))), (key, value)

    def split(self, tokens: Tensor) -> Tensor:
        """Give each head its part. **Shape:** ``(n, s, width)`` -> ``(n, heads, s, width / heads)``."""
        return tokens.view(*tokens.shape[:2], self.n_heads, -1).transpose(1, 2)


class SequenceDecoder(nn.Module):
    """Token embeddings and a stack of decoder layers; places in the sequence are not marked.

    **Shape:** embedded tokens ``(n, s, width)``, features ``(n, d)`` -> ``(n, s, width)``.
    """

    def __init__(
        self, n_features: int, *, n_tokens: int, width: int, n_layers: int, n_heads: int, n_hidden: int,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        check_counts(width=width, n_layers=n_layers, n_heads=n_heads, n_hidden=n_hidden)
        if width % n_heads:
            raise UserError(f"width must be a multiple of n_heads, but got width={width}, n_heads={n_heads}")
        self.memory = nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), ByteDropout(dropout))
        self.embedding = nn.Embedding(n_tokens, width)
        self.layers = nn.ModuleList(DecoderLayer(width, n_heads, n_hidden, dropout) for _ in range(n_layers))
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.uniform_(weight, -0.08, 0.08)

    def remember(self, features: Tensor) -> Tensor:
        """The memory of each row. **Shape:** ``(n, d)`` -> ``(n, width)``."""
        memory: Tensor = self.memory(features)
        return memory

    def forward(self, tokens: Tensor, memory: Tensor, seen: list[Seen] | None = None) -> tuple[Tensor, list[Seen]]:
        """Process embedded tokens after those already seen, and what is to be handed in with the next ones."""
        now_seen = []
        for place, layer in enumerate(self.layers):
            tokens, keys_and_values = layer(tokens, memory, None if seen is None else seen[place])
            now_seen.append(keys_and_values)
        return tokens, now_seen
