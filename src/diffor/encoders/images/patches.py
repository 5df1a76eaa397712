"""Encoders that look at several parts of a photo: RAPID, A-Lamp, the patches of MPada, and MUSIQ.

All are compact, begin with random weights and use none of their authors'; each says what is known and what was guessed.
They map normalised images to features ``(n, out_features)``.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.encoders.images.convnets import SmallConvNet
from diffor.errors import UserError

N_CHOSEN = 5
"""Patches that A-Lamp chooses."""
GRID = 4
"""Patches of A-Lamp are chosen among so many in each direction."""
SCALES = (1.0, 0.75, 0.5)
"""Sides of the pictures that MUSIQ reads, relative to the given one."""
HASH_GRID = 10
"""Cells of MUSIQ's positions in each direction, whatever the scale."""


def corner_patches(images: Tensor, side: int) -> Tensor:
    """The four corners and the middle of each image. **Shape:** ``(n, 3, h, w)`` -> ``(n, 5, 3, side, side)``."""
    low, left = images.shape[2] - side, images.shape[3] - side
    places = ((0, 0), (0, left), (low, 0), (low, left), (low // 2, left // 2))
    return torch.stack([images[:, :, y : y + side, x : x + side] for y, x in places], dim=1)


def pooled(network: nn.Module, images: Tensor) -> Tensor:
    """Means of a network's maps. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features)``."""
    maps: Tensor = network(images)
    return maps.mean(dim=(2, 3))


class TwoColumns(nn.Module):
    """RAPID (Lu et al., 2014), compact and without its weights: the whole photo beside a part of it in full detail.

    Known: two convolutional columns with weights of their own, whose last layers stand side by side; the first sees the
    whole photo made small, the second a random crop in its own resolution. Guessed: the columns' layers, crops of half
    the side, and the mean over four corners and the middle where predictions are made.
    """

    def __init__(self, n_channels: int = 16) -> None:
        super().__init__()
        self.whole, self.part = SmallConvNet(n_channels), SmallConvNet(n_channels)
        self.out_features = 2 * self.whole.out_features

    def forward(self, images: Tensor) -> Tensor:
        """Features of both columns. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features)``."""
        side = images.shape[2] // 2
        small = functional.interpolate(images, size=(side, side), mode="bilinear", antialias=True)
        if self.training:
            y, x = (int(torch.randint(images.shape[axis] - side + 1, ())) for axis in (2, 3))
            part = pooled(self.part, images[:, :, y : y + side, x : x + side])
        else:
            patches = corner_patches(images, side)
            part = pooled(self.part, patches.flatten(0, 1)).view(*patches.shape[:2], -1).mean(dim=1)
        return torch.cat([pooled(self.whole, small), part], dim=1)


class ChosenPatches(nn.Module):
    """A-Lamp (Ma et al., 2017), compact and without its weights: detailed patches that are chosen, and where they lie.

    Known: patches are chosen by how much they show, one network reads all of them, statistics without an order
    (minimum, maximum, median, mean) join them, and a second subnet reads a graph of positions and relations of what is
    in the photo. Guessed: what a patch shows is its variance (the source uses saliency and differences of patterns),
    the graph holds the chosen patches (the source: detected objects), and a small perceptron reads it.
    """

    def __init__(self, n_channels: int = 16, layout_width: int = 32) -> None:
        super().__init__()
        self.network = SmallConvNet(n_channels)
        n_relations = 2 * N_CHOSEN + 2 * len(list(combinations(range(N_CHOSEN), 2)))
        self.layout = nn.Sequential(nn.Linear(n_relations, layout_width), nn.ReLU())
        self.out_features = 4 * self.network.out_features + layout_width

    def forward(self, images: Tensor) -> Tensor:
        """Statistics of the patches, and their layout. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features)``."""
        patches, places = self.choose(images)
        read = pooled(self.network, patches.flatten(0, 1)).view(*patches.shape[:2], -1)  # (n, chosen, d)
        joined = [read.amin(dim=1), read.amax(dim=1), read.median(dim=1).values, read.mean(dim=1)]
        return torch.cat([*joined, self.layout(self.relations(places))], dim=1)

    def choose(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The patches with the most variance, by place, and their centres in [0, 1].

        **Shape:** ``(n, 3, h, w)`` -> ``(n, 5, 3, h / 4, w / 4)``, ``(n, 5, 2)``.
        """
        height, width = images.shape[2] // GRID, images.shape[3] // GRID
        cells = images[:, :, : GRID * height, : GRID * width].reshape(-1, 3, GRID, height, GRID, width)
        cells = cells.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # (n, GRID * GRID, 3, height, width)
        shown = cells.flatten(2).var(dim=2)
        index = shown.topk(N_CHOSEN, dim=1).indices.sort(dim=1).values
        centres = torch.stack([index // GRID, index % GRID], dim=2).to(images) / GRID + 0.5 / GRID
        return cells[torch.arange(len(images), device=images.device)[:, None], index], centres

    @staticmethod
    def relations(places: Tensor) -> Tensor:
        """Places, distances and directions of all pairs. **Shape:** ``(n, 5, 2)`` -> ``(n, 30)``."""
        pairs = list(combinations(range(N_CHOSEN), 2))
        apart = torch.stack([places[:, one] - places[:, other] for one, other in pairs], dim=1)  # (n, pairs, 2)
        angles = torch.atan2(apart[..., 0], apart[..., 1]) / torch.pi
        return torch.cat([places.flatten(1), apart.norm(dim=2), angles], dim=1)


class PatchFeatures(nn.Module):
    """The patches of MPada (Sheng et al., 2018), compact and without its weights: features of one after the other.

    The method ``mpada`` reads them patch by patch. Known: one network reads several crops of a photo. Guessed: it is
    the small one in place of a ResNet-18, and crops are the four quarters.
    """

    n_patches = 4

    def __init__(self, n_channels: int = 16) -> None:
        super().__init__()
        self.network = SmallConvNet(n_channels)
        self.out_features = self.n_patches * self.network.out_features

    def forward(self, images: Tensor) -> Tensor:
        """Features of all patches. **Shape:** ``(n, 3, h, w)`` -> ``(n, 4 * d)``."""
        patches = corner_patches(images, images.shape[2] // 2)[:, : self.n_patches]
        return pooled(self.network, patches.flatten(0, 1)).view(len(images), -1)


class MultiScalePatches(nn.Module):
    """MUSIQ (Ke et al., 2021), compact and without its weights: a transformer over patches at several sizes.

    Known: patches of one size are cut from the photo at several scales; each is embedded by a convolutional block, gets
    the embedding of its cell on a grid that all scales share (so that places agree between them) and one of its scale;
    a token of its own answers. Guessed: the sizes, widths and number of layers; photos come as squares, so the
    proportions that the source keeps are lost (NOTE[DIFF]).
    """

    def __init__(self, width: int = 96, n_layers: int = 3, n_heads: int = 4, patch: int = 16) -> None:
        super().__init__()
        if width % n_heads:
            raise UserError(f"width must be a multiple of n_heads, but got width={width}, n_heads={n_heads}")
        self.patch, self.out_features = patch, width
        self.embed = nn.Sequential(
            nn.Conv2d(3, width // 2, 7, stride=2, padding=3), nn.GroupNorm(1, width // 2), nn.ReLU(),
            nn.Conv2d(width // 2, width, patch // 2, stride=patch // 2),
        )  # fmt: skip
        self.cells = nn.Parameter(torch.randn(HASH_GRID, HASH_GRID, width) * 0.02)
        self.scales = nn.Parameter(torch.randn(len(SCALES), width) * 0.02)
        self.answer = nn.Parameter(torch.randn(width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, n_heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, images: Tensor) -> Tensor:
        """What the answering token has gathered. **Shape:** ``(n, 3, h, w)`` -> ``(n, width)``."""
        tokens = [self.answer.expand(len(images), 1, -1)]
        for place, scale in enumerate(SCALES):
            side = max(round(images.shape[2] * scale / self.patch), 1) * self.patch
            resized = functional.interpolate(images, size=(side, side), mode="bilinear", antialias=True)
            tokens.append(self.cut(resized) + self.positions(side // self.patch) + self.scales[place])
        gathered: Tensor = self.layers(torch.cat(tokens, dim=1))
        return gathered[:, 0]

    def cut(self, images: Tensor) -> Tensor:
        """Each patch embedded by itself. **Shape:** ``(n, 3, s, s)`` -> ``(n, patches, width)``."""
        count = images.shape[2] // self.patch
        cells = images.reshape(-1, 3, count, self.patch, count, self.patch)
        patches = cells.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)  # (n * patches, 3, patch, patch)
        return torch.as_tensor(self.embed(patches)).view(len(images), count * count, -1)

    def positions(self, count: int) -> Tensor:
        """Embeddings of the cells that so many patches a side fall into. **Shape:** -> ``(count * count, width)``."""
        index = torch.arange(count, device=self.cells.device) * HASH_GRID // count
        return self.cells[index][:, index].flatten(0, 1)
