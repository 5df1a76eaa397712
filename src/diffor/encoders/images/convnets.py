"""Convolutional networks: a small one that CPUs train from scratch, and ResNets that read torchvision's weights.

Each maps images, normalised, to maps of features ``(n, out_features, h, w)``;
:class:`~diffor.encoders.images.networks.ImageEncoder` does what comes before and after.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from diffor.errors import UserError, check_least

MAX_NAMED = 5


class SmallConvNet(nn.Module):
    """Four halvings of the side, with a residual block after each but the first; meant for about 64 pixels.

    Normalises over the batch. Norms over groups of channels, over whole images or of the weights need no statistics to
    be kept, but learn more slowly: with 16 channels and after four epochs of 4,000 faces (one seed) the mean error of
    the age was 10.4 years with batch norms, and 12.8, 13.3 and 14.5 with the others.

    **Shape:** ``(n, 3, h, w)`` -> ``(n, 8 * n_channels, h / 16, w / 16)``.

    >>> SmallConvNet(n_channels=8)(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 64, 4, 4])
    """

    def __init__(self, n_channels: int = 32) -> None:
        super().__init__()
        check_least("n_channels", n_channels)
        widths = [n_channels * 2**place for place in range(4)]
        layers = [_halve(3, n_channels)]
        for before, after in pairwise(widths):
            layers += [_halve(before, after), _Residual(after)]
        self.layers = nn.Sequential(*layers)
        self.out_features = widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Maps of features. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features, h / 16, w / 16)``."""
        maps: Tensor = self.layers(images)
        return maps


def _halve(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class _Residual(nn.Module):
    """Two convolutions whose result is added to what went in, at first with no weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        last = nn.BatchNorm2d(width)
        nn.init.zeros_(last.weight)  # the block starts as the identity, which trains faster
        self.change = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            last,
        )

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the same shape."""
        return torch.relu(maps + self.change(maps))


# ResNets, in torchvision's names: a file of its weights fits key by key.


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a way around them."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(before, width, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of ``width`` channels."""
        change = torch.relu(self.bn1(self.conv1(maps)))
        return torch.relu(self.bn2(self.conv2(change)) + self.downsample(maps))


class Bottleneck(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1, which make channels few before it and many after it.

    Where the side is halved, the middle one does it, as in torchvision.
    """

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of ``4 * width`` channels."""
        change = torch.relu(self.bn1(self.conv1(maps)))
        change = torch.relu(self.bn2(self.conv2(change)))
        return torch.relu(self.bn3(self.conv3(change)) + self.downsample(maps))


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    """The way around a block: nothing where shapes agree, so that it has no keys there."""
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))


class ResNet(nn.Module):
    """ResNet of 18, 34 or 50 layers, without its last one.

    **Shape:** ``(n, 3, h, w)`` -> ``(n, 512 or 2048, h / 32, w / 32)``.
    """

    BLOCKS: ClassVar[dict[int, tuple[type[BasicBlock | Bottleneck], tuple[int, int, int, int]]]] = {
        18: (BasicBlock, (2, 2, 2, 2)),
        34: (BasicBlock, (3, 4, 6, 3)),
        50: (Bottleneck, (3, 4, 6, 3)),
    }

    def __init__(self, n_layers: int = 18) -> None:
        super().__init__()
        if n_layers not in self.BLOCKS:
            known = ", ".join(map(str, self.BLOCKS))
            raise UserError(f"a ResNet must have one of {known} layers, but got n_layers={n_layers}")
        block, counts = self.BLOCKS[n_layers]
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = 64
        for stage, count in enumerate(counts):
            width, blocks = 64 * 2**stage, []
            for place in range(count):
                blocks.append(block(before, width, stride=2 if stage and place == 0 else 1))
                before = width * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.out_features = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Maps of features. **Shape:** ``(n, 3, h, w)`` -> ``(n, out_features, h / 32, w / 32)``."""
        maps: Tensor = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        for stage in range(4):
            maps = getattr(self, f"layer{stage + 1}")(maps)
        return maps


def load_weights(network: nn.Module, path: str | Path, ignored: Iterable[str] = ("fc.",), prefix: str = "") -> None:
    """Fill a network from a file of its state, ``.safetensors`` or what ``torch.save`` wrote; no code in it is run.

    Keys that start with one of ``ignored``, such as those of a classifier's last layer, are left out. Where keys start
    with ``prefix``, these alone are the network's, and are called as what follows it.
    """
    state = _read_state(Path(path))
    if prefix and any(name.startswith(prefix) for name in state):
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    found = {name: tensor for name, tensor in state.items() if not name.startswith(tuple(ignored))}
    own = network.state_dict()
    unfit = [name for name, tensor in found.items() if tensor.is_floating_point() and not bool(tensor.isfinite().all())]
    # Files from before torch 0.4 do not count batches, and nothing depends on the count.
    missing = [name for name in own if name not in found and not name.endswith("num_batches_tracked")]
    faults = {
        "missing": missing,
        "unexpected": [name for name in found if name not in own],
        "of another shape": [name for name in found if name in own and found[name].shape != own[name].shape],
        "not finite": unfit,
    }
    if any(faults.values()):
        told = "; ".join(f"{fault}: {_name_some(names)}" for fault, names in faults.items() if names)
        raise UserError(
            f"{path} must hold the weights of this {type(network).__name__}, but got {told}; pass the file of the "
            "same network"
        )
    network.load_state_dict(own | found)


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor holds its numbers one by one: none that is sparse, quantised or without memory."""
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized


def _name_some(names: list[str]) -> str:
    rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + rest


def _read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, freed of the wrapping that training scripts put around them."""
    if not path.is_file():
        raise FileNotFoundError(f"weights must be a file, but {path} is none; pass the path of a state dict")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # readers fail in many ways, and torch's message says how to load what is not safe
        raise UserError(
            f"{path} must be a state dict that torch.save or safetensors wrote, but it is damaged or holds more "
            "than tensors; fetch it again"
        ) from error
    for wrapping in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(wrapping), dict):
            state = state[wrapping]
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"{path} must be a state dict, but it is a {type(state).__name__}; save state_dict()")
    strange = [name for name, tensor in state.items() if not isinstance(name, str) or not _is_plain(tensor)]
    if strange:
        raise UserError(
            f"{path} must hold plain tensors by name, but has others: {_name_some([str(name) for name in strange])}; "
            "save state_dict() of the network as it was trained"
        )
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}
