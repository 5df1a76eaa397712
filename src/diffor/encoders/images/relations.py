"""Encoders of photos by what their parts have to do with each other: MLSP, HGCN and TANet.

All are compact, use no weights of their authors', and say what is known and what was guessed. They map normalised
images to features ``(n, out_features)``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.encoders.images.convnets import ResNet, SmallConvNet

N_REGIONS = 8
"""Regions that HGCN gathers places into."""
COLOUR_SIDE = 12
"""TANet compares the colours of so many places in each direction."""


class PooledLevels(ResNet):
    """MLSP (Hosu et al., 2019), compact: the means of every block of a network, not of its last one alone.

    Known: the activations of all blocks of a frozen pretrained network are pooled over places and stand side by side,
    for a perceptron to read. Guessed: a ResNet in place of the Inception-ResNet-v2. A file of torchvision's weights
    fits; with ``freeze_backbone`` it is the source's way, without weights it learns from scratch.

    >>> PooledLevels(18).out_features
    1920
    """

    def __init__(self, n_layers: int = 18) -> None:
        super().__init__(n_layers)
        self.out_features = sum(
            64 * 2**stage * self.BLOCKS[n_layers][0].expansion * count
            for stage, count in enumerate(self.BLOCKS[n_layers][1])
        )

    def forward(self, images: Tensor) -> Tensor:
        """Means of all blocks. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features)``."""
        maps: Tensor = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        means = []
        for stage in range(4):
            for block in getattr(self, f"layer{stage + 1}"):
                maps = block(maps)
                means.append(maps.mean(dim=(2, 3)))
        return torch.cat(means, dim=1)


class LayoutGraphs(nn.Module):
    """HGCN (She et al., 2021), compact and without its weights: graphs over places of a photo, and over regions.

    Known: two graph modules after a convolutional network; the first passes messages between places, the second between
    regions that places are gathered into; both answers stand side by side. Guessed: who listens to whom is the likeness
    of projected features less a learned multiple of the distance between places; regions are soft and learned; the
    network is the small one in place of a ResNet.
    """

    def __init__(self, n_channels: int = 16, width: int = 64) -> None:
        super().__init__()
        self.network = SmallConvNet(n_channels)
        self.narrow = nn.Linear(self.network.out_features, width)
        self.query, self.key, self.pass_on = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.nearness = nn.Parameter(torch.tensor(0.0))
        self.gather, self.links, self.reason = (
            nn.Linear(width, N_REGIONS),
            nn.Linear(N_REGIONS, N_REGIONS),
            nn.Linear(width, width),
        )
        self.out_features = 2 * width

    def forward(self, images: Tensor) -> Tensor:
        """Both graphs' means. **Shape:** ``(n, 3, h, w)`` -> ``(n, 2 * width)``."""
        maps: Tensor = self.network(images)
        nodes = self.narrow(maps.flatten(2).transpose(1, 2))  # (n, places, width)
        placed = nodes + torch.relu(self.pass_on(self.listening(nodes, *maps.shape[2:]) @ nodes))
        shares = self.gather(placed).softmax(dim=1)  # how much of each place every region holds
        regions = shares.transpose(1, 2) @ placed  # (n, regions, width)
        linked = regions + self.links(regions.transpose(1, 2)).transpose(1, 2)
        return torch.cat([placed.mean(dim=1), torch.relu(self.reason(linked)).mean(dim=1)], dim=1)

    def listening(self, nodes: Tensor, height: int, width: int) -> Tensor:
        """Shares with which each place listens to all. **Shape:** ``(n, h * w, d)`` -> ``(n, h * w, h * w)``."""
        alike = self.query(nodes) @ self.key(nodes).transpose(1, 2) / nodes.shape[2] ** 0.5
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        places = torch.stack([y, x], dim=2).reshape(-1, 2).to(nodes)
        return torch.softmax(alike - functional.softplus(self.nearness) * torch.cdist(places, places), dim=2)


class ThemeRules(nn.Module):
    """TANet (He et al., 2022), compact and without its weights: what is pleasing is judged by rules of the theme.

    Known: one network understands the theme of a photo, and a hypernetwork makes of it the weights of the layer that
    judges what a second network perceives; a third part attends over the colours of places. Guessed: small networks in
    place of a ResNet-18 of Places and a MobileNetV2, which are trained together here where the source keeps the first
    as it is; the sizes; one layer of attention over 12 x 12 colours.
    """

    def __init__(self, n_channels: int = 16, width: int = 32) -> None:
        super().__init__()
        self.theme, self.perceive = SmallConvNet(max(n_channels // 2, 1)), SmallConvNet(n_channels)
        self.width, self.n_perceived = width, self.perceive.out_features
        self.about = nn.Sequential(nn.Linear(self.theme.out_features, width), nn.ReLU())
        self.rules = nn.Linear(width, width * (self.n_perceived + 1))
        self.colours = nn.Linear(3, width)
        self.attend = nn.MultiheadAttention(width, 1, batch_first=True)
        self.out_features = 3 * width

    def forward(self, images: Tensor) -> Tensor:
        """Theme, judgement and colours. **Shape:** ``(n, 3, h, w)`` -> ``(n, 3 * width)``."""
        theme = self.about(torch.as_tensor(self.theme(images)).mean(dim=(2, 3)))
        perceived = torch.as_tensor(self.perceive(images)).mean(dim=(2, 3))
        colours = functional.adaptive_avg_pool2d(images, COLOUR_SIDE).flatten(2).transpose(1, 2)
        tokens = self.colours(colours)
        attended, _ = self.attend(tokens, tokens, tokens, need_weights=False)
        return torch.cat([theme, self.judge(theme, perceived), attended.mean(dim=1)], dim=1)

    def judge(self, theme: Tensor, perceived: Tensor) -> Tensor:
        """A layer whose weights the theme makes. **Shape:** ``(n, width)``, ``(n, d)`` -> ``(n, width)``."""
        made = self.rules(theme).view(len(theme), self.width, self.n_perceived + 1)
        scaled = made[..., :-1] / self.n_perceived**0.5
        return torch.relu((scaled @ perceived[..., None])[..., 0] + made[..., -1])
