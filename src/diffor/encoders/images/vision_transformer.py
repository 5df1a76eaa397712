"""The vision transformer of CLIP, in its authors' names: a file of its weights, such as FaRL's, fits key by key."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffor.errors import UserError

MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of the colours that CLIP was trained with."""
PREFIX = "visual."
"""What the names of this half begin with in a file that holds the half for texts as well."""


class QuickGELU(nn.Module):
    """``x sigmoid(1.702 x)``, which the weights were trained with."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x * torch.sigmoid(1.702 * x)


class AttentionBlock(nn.Module):
    """Attention and a perceptron, each on normalised tokens and added to them. **Shape:** ``(n, tokens, width)``."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, n_heads, batch_first=True)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, 4 * width))
        self.mlp.add_module("gelu", QuickGELU())
        self.mlp.add_module("c_proj", nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens of the same shape."""
        normed = self.ln_1(tokens)
        tokens = tokens + self.attn(normed, normed, normed, need_weights=False)[0]
        return torch.as_tensor(tokens + self.mlp(self.ln_2(tokens)))


class Blocks(nn.Module):
    """A stack of blocks under the name that the files have for it."""

    def __init__(self, width: int, n_layers: int, n_heads: int) -> None:
        super().__init__()
        self.resblocks = nn.Sequential(*(AttentionBlock(width, n_heads) for _ in range(n_layers)))

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens of the same shape."""
        return torch.as_tensor(self.resblocks(tokens))


class VisionTransformer(nn.Module):
    """CLIP's vision transformer (Radford et al., 2021), by default the ViT-B/16 that FaRL trained on faces.

    It gives the token of the whole image after the last norm and the projection, as CLIP does.
    """

    def __init__(
        self, side: int = 224, patch: int = 16, width: int = 768, n_layers: int = 12, n_heads: int = 12,
        out_features: int = 512,
    ) -> None:  # fmt: skip
        super().__init__()
        if side % patch:
            raise UserError(f"side must be a multiple of patch, but got side={side}, patch={patch}")
        self.side, self.out_features = side, out_features
        self.conv1 = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(width) * width**-0.5)
        self.positional_embedding = nn.Parameter(torch.randn((side // patch) ** 2 + 1, width) * width**-0.5)
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = Blocks(width, n_layers, n_heads)
        self.proj = nn.Parameter(torch.randn(width, out_features) * width**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Features of images. **Shape:** ``(n, 3, side, side)`` -> ``(n, out_features)``."""
        if images.shape[2:] != (self.side, self.side):
            raise UserError(
                f"this transformer reads images of {self.side} x {self.side} pixels, but got "
                f"{images.shape[2]} x {images.shape[3]}; pass image_settings={{'side': {self.side}}}"
            )
        patches = self.conv1(images).flatten(2).transpose(1, 2)
        whole = self.class_embedding.expand(len(images), 1, -1)
        tokens = self.ln_pre(torch.cat([whole, patches], dim=1) + self.positional_embedding)
        return torch.as_tensor(self.ln_post(self.transformer(tokens)[:, 0]) @ self.proj)
