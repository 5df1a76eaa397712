"""K networks side by side, one for each part of the rows that it does not learn from."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from diffor.core.draws import ByteDropout
from diffor.core.method import Inputs
from diffor.encoders.tabular.inputs import UNKNOWN
from diffor.encoders.tabular.networks import WIDE_TABLE, PiecewiseEmbedding, embedding_width

LARGEST_LOGIT = 8.0
"""What a prior may say at most: it is never certain."""
WAVE_SPREAD = 0.2
"""Standard deviation of the first frequencies, for columns whose own is about 1."""
LOGIT_OF_NORMAL = 1.7
"""A normal distribution function is close to a logistic one of this many times its argument."""


class NetworkSettings(NamedTuple):
    """What one kind of network is made of."""

    n_pieces: int = 8
    """Pieces that each number's range is coded in at most."""
    n_waves: int = 0
    """Sines and cosines that each number is coded by in place of pieces, their frequencies learned."""
    n_layers: int = 2
    width: int = 192
    dropout: float = 0.1
    uses_priors: bool = True


DEFAULT = NetworkSettings()


class FoldLinear(nn.Module):
    """A linear layer of each of K networks. **Shape:** ``(K or 1, n, d)`` -> ``(K, n, out)``."""

    def __init__(self, n_folds: int, n_in: int, n_out: int, is_zero: bool = False) -> None:
        super().__init__()
        bound = 0.0 if is_zero else 0.7 * math.sqrt(6 / max(n_in, 1))
        self.weight = nn.Parameter(torch.empty(n_folds, n_in, n_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_folds, 1, n_out))

    def forward(self, values: Tensor) -> Tensor:
        """Multiply each network's rows by its own weights."""
        if values.shape[0] != self.weight.shape[0]:
            values = values.expand(self.weight.shape[0], -1, -1)
        return torch.baddbmm(self.bias, values, self.weight)


class FoldNetworks(nn.Module):
    """K small networks of a table that answer with logits of every increment, trained in step.

    Numbers are coded by how far they fill pieces of their range, or by waves, categories by embeddings. The logits are
    a sum of a multilayer perceptron, a direct linear path from the coded inputs, and what the priors say, each prior
    with a factor that is learned: the networks start from the priors' answer and improve it.

    ``edges`` are the ends of each number's pieces, ``category_sizes`` the codes of each category, ``positions`` where
    the increments stand on the scale that priors answer on, ``(S,)`` or ``(P, S)`` where each has its own, and
    ``factors`` how much each prior counts at first.

    >>> import torch
    >>> networks = FoldNetworks(3, [[0.0, 0.5, 1.0]], [], torch.tensor([0.25, 0.75]), [1.0])
    >>> numbers, codes = torch.rand(6, 1), torch.zeros(6, 0, dtype=torch.int64)
    >>> networks((numbers, codes, torch.rand(6, 2) + 0.1)).shape
    torch.Size([3, 6, 2])
    """

    positions: Tensor

    def __init__(
        self,
        n_folds: int,
        edges: list[list[float]],
        category_sizes: list[int],
        positions: Tensor,
        factors: list[float],
        settings: NetworkSettings = DEFAULT,
    ) -> None:
        super().__init__()
        self.n_folds, self.settings = n_folds, settings
        n_waves = settings.n_waves if len(edges) <= WIDE_TABLE else 0
        coded = edges if len(edges) <= WIDE_TABLE and not n_waves else []
        self.numbers = PiecewiseEmbedding([fewer_edges(ends, settings.n_pieces) for ends in coded])
        self.frequencies = nn.Parameter(WAVE_SPREAD * torch.randn(n_folds, 1, len(edges), n_waves))
        widths = [embedding_width(size) for size in category_sizes]
        self.tables = nn.ParameterList(
            0.1 * torch.randn(n_folds, size, width) for size, width in zip(category_sizes, widths, strict=True)
        )
        for table in self.tables:
            table.data[:, UNKNOWN] = 0.0  # the centre of the others
        n_in = self.numbers.out + len(edges) * (1 + 2 * n_waves) + sum(widths)
        sizes = [n_in, *[settings.width] * settings.n_layers]
        self.layers = nn.ModuleList(FoldLinear(n_folds, size, settings.width) for size in sizes[:-1])
        self.dropout = ByteDropout(settings.dropout)
        self.n_increments = positions.shape[-1]
        self.out = FoldLinear(n_folds, sizes[-1], self.n_increments, is_zero=True)
        self.direct = FoldLinear(n_folds, n_in, self.n_increments, is_zero=True)
        used = factors if settings.uses_priors else []
        self.register_buffer("positions", positions.expand(len(factors), self.n_increments)[: len(used)].clone())
        self.factors = nn.Parameter(torch.tensor(used, dtype=torch.float32).repeat(n_folds, 1))

    def start_at(self, shares: Tensor) -> None:
        """Begin with the training shares, for networks without priors. **Shape:** ``(S,)`` in [0, 1]."""
        if not self.factors.shape[1]:
            self.out.bias.data.copy_(torch.logit(shares.clamp(1e-3, 1 - 1e-3)).expand_as(self.out.bias))

    def forward(self, inputs: Inputs, in_blocks: bool = False) -> Tensor:
        """Logits of every increment; ``in_blocks``, each network is asked about its own K-th of the rows only.

        **Shape:** inputs of n rows -> ``(K, n or n / K, S)``.
        """
        blocks = self.n_folds if in_blocks else 1
        numbers, codes = inputs[0], inputs[1]
        shape = blocks, len(numbers) // blocks
        coded = torch.cat([self.numbers(numbers), numbers], dim=1).view(*shape, self.numbers.out + numbers.shape[1])
        has_waves = self.frequencies.numel() > 0
        parts = [coded.expand(self.n_folds, -1, -1)] if len(self.tables) or has_waves else [coded]
        if has_waves:
            angles = (2 * math.pi) * numbers.view(*shape, -1, 1) * self.frequencies  # (K, n, p, waves)
            parts += [angles.sin().flatten(2), angles.cos().flatten(2)]
        for place, table in enumerate(self.tables):
            column = codes[:, place].view(shape).expand(self.n_folds, -1)
            first = torch.arange(self.n_folds, device=codes.device)[:, None] * table.shape[1]
            parts.append(nn.functional.embedding(column + first, table.flatten(0, 1)))
        values = torch.cat(parts, dim=2) if len(parts) > 1 else coded
        hidden = values
        for layer in self.layers:
            hidden = self.dropout(nn.functional.silu(layer(hidden)))
        logits: Tensor = self.out(hidden) + self.direct(values)
        if self.factors.shape[1]:
            said = (
                prior_logits(inputs[2], self.positions)
                .view(*shape, *self.positions.shape)
                .expand(self.n_folds, -1, -1, -1)
            )
            logits = logits + (said * self.factors[:, None, :, None]).sum(dim=2)
        return logits


def prior_logits(prior: Tensor, positions: Tensor) -> Tensor:
    """What each prior's place and spread say about each increment.

    **Shape:** ``(n, 2 P)``, positions of the increments on each prior's scale ``(P, S)`` -> ``(n, P, S)``.
    """
    place, spread = prior.view(len(prior), prior.shape[1] // 2, 2, 1).unbind(dim=2)
    return ((place - positions) * (LOGIT_OF_NORMAL / spread)).clamp(-LARGEST_LOGIT, LARGEST_LOGIT)


def fewer_edges(edges: list[float], n_pieces: int) -> list[float]:
    """At most so many pieces, their ends among the given ones.

    >>> fewer_edges([0.0, 1.0, 2.0, 3.0, 4.0], 2)
    [0.0, 2.0, 4.0]
    """
    if len(edges) - 1 <= n_pieces:
        return edges
    return [edges[round(place)] for place in np.linspace(0, len(edges) - 1, n_pieces + 1)]
