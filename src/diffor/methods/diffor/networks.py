"""Networks of the method: the contract of a denoiser, two that keep it, and the S increment heads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.draws import ByteDropout
from diffor.core.method import KERNEL_ROWS, fill_up
from diffor.errors import UserError

CACHED_ROWS = 128
"""Rows that the transformer takes at a time in predictions: what its layers hold of them stays in a core's cache."""


def time_waves(t: Tensor, count: int) -> Tensor:
    """Describe times by sines and cosines of falling frequency. **Shape:** ``(...)`` -> ``(..., count)``."""
    half = count // 2
    rates = torch.exp(torch.arange(half, device=t.device) * (-math.log(10_000.0) / half))
    angles = t.unsqueeze(-1).float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Denoiser(nn.Module):
    """Contract: ``(noisy (..., S), features (..., d), t (...)) -> (..., S)``; leading shapes broadcast.

    Broadcasting lets the many samples of one row share that row's features without copying them.
    """

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.n_waves = 64
        self.from_features = nn.Linear(n_features, width)
        self.from_time = nn.Linear(self.n_waves, width)

    def condition(self, features: Tensor, t: Tensor) -> Tensor:
        """What the features and the time say together. **Shape:** ``(..., d)``, ``(...)`` -> ``(..., width)``."""
        rows = features.reshape(-1, features.shape[-1])
        filled: Tensor = self.from_features(fill_up(rows, KERNEL_ROWS))  # a lone row must round as it does among others
        described: Tensor = self.from_time(time_waves(t, self.n_waves))
        return filled[: len(rows)].reshape(*features.shape[:-1], -1) + described


class MLPDenoiser(Denoiser):
    """Residual multilayer perceptron over the noisy increments, the features and the time.

    >>> import torch
    >>> denoiser = MLPDenoiser(n_increments=8, n_features=16, width=32)
    >>> denoiser(torch.randn(5, 3, 8), torch.randn(5, 1, 16), torch.tensor(10)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(
        self, n_increments: int, n_features: int, width: int = 256, n_layers: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__(n_features, width)
        self.from_noisy = nn.Linear(n_increments, width, bias=False)
        self.blocks = nn.ModuleList(ResidualBlock(width, dropout) for _ in range(n_layers))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.to_output = nn.Linear(width, n_increments)

    def forward(self, noisy: Tensor, features: Tensor, t: Tensor) -> Tensor:
        """Predict the process's target from noisy increments; shapes as in :class:`Denoiser`."""
        hidden = self.from_noisy(noisy) + self.condition(features, t)
        for block in self.blocks:
            hidden = block(hidden)
        output: Tensor = self.to_output(normed_silu(self.norm, hidden))
        return output


def normed_silu(norm: nn.LayerNorm, hidden: Tensor) -> Tensor:
    """SiLU of the normalised vector; where no gradient is needed, in one piece of memory. **Shape:** kept."""
    return functional.silu(norm(hidden), inplace=not torch.is_grad_enabled())


class ResidualBlock(nn.Module):
    """``hidden + linear(dropout(silu(norm(hidden))))``. **Shape:** ``(..., width)``, kept."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)  # the next layer scales as it likes
        self.dropout = ByteDropout(dropout)
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Refine the hidden vector; where no gradient is needed, in the memory that it has."""
        change: Tensor = self.linear(self.dropout(normed_silu(self.norm, hidden)))
        return change + hidden if torch.is_grad_enabled() else hidden.add_(change)


class ScaleLayer(nn.TransformerEncoderLayer):
    """The standard layer of self-attention, normalised first, computed as suits a few tokens on a CPU.

    Attention is normalised over as many numbers as there are tokens. Where these lie side by side, torch takes them row
    by row, which at eight tokens costs as much as the matrix products; here keys come before queries, so that all
    queries of a key lie side by side. Dropout decides by bytes (:class:`~diffor.core.draws.ByteDropout`).

    **Shape:** ``(n, S, width)``, kept.
    """

    self_attn: nn.MultiheadAttention

    def __init__(self, width: int, n_attention_heads: int, dropout: float) -> None:
        super().__init__(width, n_attention_heads, 4 * width, activation="gelu", batch_first=True, norm_first=True)
        self.dropout = self.dropout1 = self.dropout2 = ByteDropout(dropout)  # type: ignore[assignment]

    def forward(self, src: Tensor, *_: object, **__: object) -> Tensor:
        """Mix the tokens of each row; masks, which the standard layer takes, there are none."""
        tokens = src + self.dropout1(self.attend(self.norm1(src)))
        fed: Tensor = self.linear2(self.dropout(functional.gelu(self.linear1(self.norm2(tokens)))))
        mixed: Tensor = tokens + self.dropout2(fed)
        return mixed

    def attend(self, tokens: Tensor) -> Tensor:
        """What each token takes from all tokens of its row. **Shape:** ``(n, S, width)``, kept."""
        attention, (n, count, width) = self.self_attn, tokens.shape
        size = width // attention.num_heads
        joint = functional.linear(tokens, attention.in_proj_weight, attention.in_proj_bias)
        query, key, value = joint.view(n, count, 3, -1, size).permute(2, 0, 3, 1, 4)  # (n, heads, S, size) each
        scores = (key / math.sqrt(size)) @ query.transpose(-1, -2)  # (n, heads, keys, queries)
        weights = self.dropout(torch.softmax(scores, dim=-2))
        taken = (weights.transpose(-1, -2) @ value).transpose(1, 2).reshape(n, count, width)
        mixed: Tensor = attention.out_proj(taken)
        return mixed


class TokenDenoiser(Denoiser, ABC):
    """A denoiser of S scale tokens: token k holds the k-th noisy increment, features and time are added to all."""

    def __init__(self, n_increments: int, n_features: int, width: int) -> None:
        super().__init__(n_features, width)
        self.from_noisy = nn.Linear(1, width)
        self.scales = nn.Parameter(torch.randn(n_increments, width) * 0.02)

    def forward(self, noisy: Tensor, features: Tensor, t: Tensor) -> Tensor:
        """Predict the process's target from noisy increments; shapes as in :class:`Denoiser`."""
        tokens = self.from_noisy(noisy.unsqueeze(-1)) + self.scales  # (..., S, width)
        tokens = tokens + self.condition(features, t).unsqueeze(-2)
        rows = tokens.reshape(-1, *tokens.shape[-2:])  # attention takes one batch dimension
        in_one = torch.is_grad_enabled() or torch.compiler.is_compiling()
        pieces = [rows] if in_one else rows.split(CACHED_ROWS)
        return torch.cat([self.read(piece) for piece in pieces]).reshape(tokens.shape[:-1])

    @abstractmethod
    def read(self, tokens: Tensor) -> Tensor:
        """Each increment of the answer. **Shape:** ``(n, S, width)`` -> ``(n, S)``."""


class TransformerDenoiser(TokenDenoiser):
    """The standard transformer: S scale tokens, two layers of 8-head self-attention, dropout 0.1.

    NOTE[DIFF]: in the paper each attention head is dedicated to a scale, as in
    :class:`~diffor.methods.diffor.scale_heads.ScaleHeadsDenoiser`. Here every head serves all increments.

    >>> import torch
    >>> denoiser = TransformerDenoiser(n_increments=8, n_features=16, width=32, n_attention_heads=4)
    >>> denoiser(torch.randn(5, 8), torch.randn(5, 16), torch.randint(1, 1000, (5,))).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        n_increments: int,
        n_features: int,
        width: int = 128,
        n_layers: int = 2,
        n_attention_heads: int = 8,
        dropout: float = 0.1,
    ) -> None:
        if n_attention_heads < 1 or width % n_attention_heads:
            raise UserError(
                "width must be a multiple of n_attention_heads, but got "
                f"width={width}, n_attention_heads={n_attention_heads}"
            )
        super().__init__(n_increments, n_features, width)
        layer = ScaleLayer(width, n_attention_heads, dropout)
        self.layers = nn.TransformerEncoder(layer, n_layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.to_output = nn.Linear(width, 1)

    def read(self, tokens: Tensor) -> Tensor:
        """Each increment of the answer, off its own token."""
        output: Tensor = self.to_output(self.layers(tokens)).squeeze(-1)
        return output


class IncrementHeads(nn.Module):
    """S separate heads, ``increment_k = width * sigmoid(MLP_k(estimate at t_k))``, evaluated together.

    **Shape:** estimates ``(..., S, S)``, the k-th row being the estimate at head k's time -> ``(..., S)`` increments.

    >>> import torch
    >>> heads = IncrementHeads(n_increments=4)
    >>> increments = heads(torch.randn(7, 4, 4))
    >>> increments.shape, bool((increments <= 0.25).all())
    (torch.Size([7, 4]), True)
    """

    def __init__(self, n_increments: int, hidden: int = 32) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_increments)
        self.first = nn.Parameter(torch.empty(n_increments, n_increments, hidden).uniform_(-bound, bound))
        self.first_bias = nn.Parameter(torch.zeros(n_increments, hidden))
        bound = 1 / math.sqrt(hidden)
        self.second = nn.Parameter(torch.empty(n_increments, hidden).uniform_(-bound, bound))
        self.second_bias = nn.Parameter(torch.zeros(n_increments))

    def hidden(self, estimates: Tensor) -> Tensor:
        """Each head's hidden layer. **Shape:** ``(..., S, S)`` -> ``(..., S, hidden)``."""
        return nn.functional.silu(torch.einsum("...ki,kih->...kh", estimates, self.first) + self.first_bias)

    def logits(self, estimates: Tensor) -> Tensor:
        """Each head's answer before the sigmoid. **Shape:** ``(..., S, S)`` -> ``(..., S)``."""
        return (self.hidden(estimates) * self.second).sum(dim=-1) + self.second_bias

    def forward(self, estimates: Tensor) -> Tensor:
        """Decode the increments. **Shape:** ``(..., S, S)`` -> ``(..., S)`` in [0, 1 / S]."""
        return torch.sigmoid(self.logits(estimates)) / estimates.shape[-1]
