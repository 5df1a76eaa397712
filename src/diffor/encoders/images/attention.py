"""Encoders of photos that choose where to look, or read them place by place: the Delegate transformer and AesMamba.

Both are compact, begin with random weights and use none of their authors'; each says what is known and what was
guessed. They map normalised images to features ``(n, out_features)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.encoders.images.convnets import SmallConvNet
from diffor.errors import check_least

REACH = 0.5
"""How far a point of the deformable attention may move, as a share of the photo's half."""


class DeformableAttention(nn.Module):
    """Attention to points that move to where it matters: keys and values are read at places that queries propose.

    **Shape:** ``(n, d, h, w)``, kept.

    >>> DeformableAttention(width=8, n_heads=2)(torch.zeros(2, 8, 6, 6)).shape
    torch.Size([2, 8, 6, 6])
    """

    def __init__(self, width: int, n_heads: int, n_points: int = 4) -> None:
        super().__init__()
        self.n_points = n_points
        self.propose = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=width), nn.GELU(), nn.Conv2d(width, 2, 1, bias=False)
        )
        self.attend = nn.MultiheadAttention(width, n_heads, batch_first=True)

    def points(self, maps: Tensor) -> Tensor:
        """Where to look, from -1 to 1. **Shape:** ``(n, d, h, w)`` -> ``(n, n_points, n_points, 2)``."""
        moves = torch.tanh(functional.adaptive_avg_pool2d(self.propose(maps), self.n_points)) * REACH
        even = (torch.arange(self.n_points, device=maps.device) + 0.5) * 2 / self.n_points - 1
        y, x = torch.meshgrid(even, even, indexing="ij")
        return (torch.stack([x, y], dim=2).to(maps) + moves.permute(0, 2, 3, 1)).clamp(-1, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps with what each place has taken from the points."""
        sampled = functional.grid_sample(maps, self.points(maps), align_corners=False)
        keys, queries = sampled.flatten(2).transpose(1, 2), maps.flatten(2).transpose(1, 2)
        taken, _ = self.attend(queries, keys, keys, need_weights=False)
        return torch.as_tensor(maps + taken.transpose(1, 2).reshape(maps.shape))


class ColourDelegates(nn.Module):
    """The Delegate transformer (He et al., 2023), compact and without its weights: colours send delegates to speak.

    Known: a transformer with deformable attention; the space of colours is cut into segments, and attention is given
    to the dedicated colours of a photo by tokens that stand for them. Guessed: segments are soft, around learned
    centres in the space of normalised colours; a delegate is the mean feature of its segment, weighted by how much of
    the photo it holds; the small network comes before one deformable layer.
    """

    def __init__(self, n_channels: int = 16, n_delegates: int = 16, n_heads: int = 4) -> None:
        super().__init__()
        self.network = SmallConvNet(n_channels)
        width = self.network.out_features
        self.look = DeformableAttention(width, n_heads)
        self.centres = nn.Parameter(torch.randn(n_delegates, 3))
        self.sharpness = nn.Parameter(torch.tensor(1.0))
        layer = nn.TransformerEncoderLayer(width, n_heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.confer = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out_features = 2 * width

    def segments(self, images: Tensor, height: int, width: int) -> Tensor:
        """Shares of each place's colour in the segments. **Shape:** ``(n, 3, H, W)`` -> ``(n, h * w, delegates)``."""
        colours = functional.adaptive_avg_pool2d(images, (height, width)).flatten(2).transpose(1, 2)
        apart = (colours[:, :, None] - self.centres).square().sum(dim=3)
        return torch.softmax(-functional.softplus(self.sharpness) * apart, dim=2)

    def forward(self, images: Tensor) -> Tensor:
        """Means of the places and of the delegates. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features)``."""
        maps = self.look(self.network(images))
        shares = self.segments(images, *maps.shape[2:])  # (n, places, delegates)
        held = shares.mean(dim=1)  # (n, delegates)
        means = shares.transpose(1, 2) @ maps.flatten(2).transpose(1, 2) / (shares.sum(dim=1)[..., None] + 1e-6)
        spoken = (self.confer(means) * held[..., None]).sum(dim=1)
        return torch.cat([maps.mean(dim=(2, 3)), spoken], dim=1)


class SelectiveScan(nn.Module):
    """A state-space layer whose step, input and output depend on what it reads; it reads a sequence once, in order.

    ``h_t = exp(step_t A) h_{t-1} + step_t B_t x_t`` and ``y_t = C_t h_t + D x_t``, each channel with its own states.

    **Shape:** ``(n, length, width)``, kept.

    >>> SelectiveScan(width=8)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, n_states: int = 8) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, n_states + 1)).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        self.step = nn.Linear(width, width)
        nn.init.constant_(self.step.bias, math.log(math.expm1(0.05)))  # small steps: states keep what they have read
        self.select = nn.Linear(width, 2 * n_states, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:
        """What has been read up to each place."""
        step = functional.softplus(self.step(sequence))[..., None]  # (n, length, width, 1)
        write, read = self.select(sequence).chunk(2, dim=2)  # (n, length, states) each
        kept = torch.exp(-step * self.decay.exp())
        added = step * write[:, :, None] * sequence[..., None]
        state, said = torch.zeros_like(added[:, 0]), []
        for place in range(sequence.shape[1]):
            state = kept[:, place] * state + added[:, place]
            said.append((state * read[:, place, None]).sum(dim=2))
        return torch.stack(said, dim=1) + self.skip * sequence


class FourWayScan(nn.Module):
    """AesMamba (Gao et al., 2024), compact and without its weights: photos read along four paths by state-space layers.

    Known: the encoder is VMamba, whose layers scan the places of a photo row by row and column by column, forward and
    backward, with selective state spaces, and join the four. Guessed: two such layers on the small network's maps in
    place of VMamba-tiny, with widths of our own. The source also learns from balanced levels of the score, which
    belongs to a method and not to an encoder, and is left out.
    """

    def __init__(self, n_channels: int = 16, width: int = 64, n_layers: int = 2) -> None:
        super().__init__()
        check_least("n_layers", n_layers)
        self.network = SmallConvNet(n_channels)
        self.narrow = nn.Conv2d(self.network.out_features, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(n_layers))
        self.scans = nn.ModuleList(nn.ModuleList(SelectiveScan(width) for _ in range(4)) for _ in range(n_layers))
        self.out_features = width

    def forward(self, images: Tensor) -> Tensor:
        """Mean over the places. **Shape:** ``(n, 3, h, w)`` -> ``(n, width)``."""
        maps = self.narrow(self.network(images)).permute(0, 2, 3, 1)  # (n, h, w, width)
        for norm, scans in zip(self.norms, self.scans, strict=True):
            maps = maps + self.along_four_paths(norm(maps), scans.children())
        return torch.as_tensor(maps).mean(dim=(1, 2))

    @staticmethod
    def along_four_paths(maps: Tensor, scans: Iterable[nn.Module]) -> Tensor:
        """Rows and columns, forward and backward, summed at each place. **Shape:** ``(n, h, w, d)``, kept."""
        n, height, width, depth = maps.shape
        total = torch.zeros_like(maps)
        for place, scan in enumerate(scans):
            by_column, backward = place % 2 == 1, place >= 2
            path = (maps.transpose(1, 2) if by_column else maps).reshape(n, height * width, depth)
            read = scan(path.flip(1) if backward else path)
            read = read.flip(1) if backward else read
            total = total + (
                read.reshape(n, width, height, depth).transpose(1, 2)
                if by_column
                else read.reshape(n, height, width, depth)
            )
        return total
