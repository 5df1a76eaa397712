"""Networks of images as parts of a program: pixels in, features out; batch norms are part of their convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from diffor.core.method import Encoder
from diffor.encoders.images.convnets import BasicBlock, Bottleneck, ResNet, SmallConvNet
from diffor.encoders.images.efficientnet import EfficientNetLite0, SamePadConv
from diffor.encoders.images.inputs import ImageInputs
from diffor.encoders.images.networks import IMAGE_ENCODERS, ImageEncoder
from diffor.export.graph import BYTE, FLOAT, ExportError, Graph, Value
from diffor.export.networks import as_array, linear

PIXELS = "pixels"
"""Name of the program's input of images."""


def read_pixels(graph: Graph, inputs: ImageInputs) -> Value:
    """Images as they come out of :class:`ImageInputs`. **Shape:** -> ``(n, 3, side, side)`` uint8."""
    return graph.input(PIXELS, BYTE, (None, 3, inputs.side, inputs.side))


def describe_pixels(inputs: ImageInputs) -> dict[str, Any]:
    """What those who fill the input must know."""
    return {"side": inputs.side, "crop": inputs.crop, "fit": inputs.fit, "axes": "row, red green blue, height, width"}


def check_network(encoder: Encoder) -> None:
    """Refuse networks whose layers are not written in ONNX operators here."""
    backbone = encoder.backbone if isinstance(encoder, ImageEncoder) else encoder
    if type(backbone) not in BACKBONES:
        raise ExportError(
            f"networks of images must be among {', '.join(IMAGE_ENCODERS)} to be exported, but got "
            f"{type(backbone).__name__}; fit one of these, or export a model of the features that diffor embed writes"
        )


def encode_images(encoder: Encoder, pixels: Value) -> Value:
    """Features of images, as :class:`ImageEncoder` has them. **Shape:** ``(n, 3, h, w)`` uint8 -> ``(n, d)``."""
    check_network(encoder)
    assert isinstance(encoder, ImageEncoder)
    graph = pixels.graph
    scale, shift = (graph.constant(as_array(part)) for part in (encoder.scale, encoder.shift))
    maps = BACKBONES[type(encoder.backbone)](encoder.backbone, pixels.cast(FLOAT) * scale + shift)
    pools = ["GlobalAveragePool", "GlobalMaxPool"][: len(encoder.pooling.split("+"))]
    count = len(pools) * int(encoder.backbone.out_features)  # type: ignore[arg-type]
    features = graph.concat([graph.apply(pool, maps) for pool in pools]).reshape(-1, count)
    if not isinstance(encoder.neck, nn.Sequential):
        return features
    norm: Any = encoder.neck[0]
    layer: Any = encoder.neck[1]
    return linear(features.normed(as_array(norm.weight), as_array(norm.bias)), layer).silu()


# --- layers ---


def _convolve(maps: Value, layer: Any, norm: Any) -> Value:
    """A convolution and the norm after it, with fixed statistics. **Shape:** ``(n, c, ...)`` -> ``(n, d, ...)``."""
    weight, scale, shift, mean, variance = (
        as_array(part).astype(np.float64)
        for part in (layer.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var)
    )
    rate = scale / np.sqrt(variance + norm.eps)
    numbers = (weight * rate[:, None, None, None], shift - mean * rate)
    constants = [maps.graph.constant(part.astype(np.float32)) for part in numbers]
    around: dict[str, Any] = {"pads": 2 * [*layer.padding]}
    if isinstance(layer, SamePadConv):  # sides that are padded unevenly have what is more at their end
        around = {"auto_pad": "SAME_UPPER"}
    return maps.graph.apply("Conv", maps, *constants, strides=[*layer.stride], group=layer.groups, **around)


def _small(network: Any, maps: Value) -> Value:
    for layer in network.layers:
        if isinstance(layer, nn.Sequential):
            maps = _convolve(maps, layer[0], layer[1]).relu()
        else:
            first, norm, _, second, last = layer.change
            maps = (maps + _convolve(_convolve(maps, first, norm).relu(), second, last)).relu()
    return maps


def _resnet(network: Any, maps: Value) -> Value:
    maps = _convolve(maps, network.conv1, network.bn1).relu()
    pool = network.maxpool
    maps = maps.graph.apply("MaxPool", maps, kernel_shape=[pool.kernel_size] * 2, strides=[pool.stride] * 2,
                            pads=[pool.padding] * 4)  # fmt: skip
    for stage in range(1, 5):
        for block in getattr(network, f"layer{stage}"):
            maps = _residual(block, maps)
    return maps


def _residual(block: BasicBlock | Bottleneck, maps: Value) -> Value:
    around = maps
    if isinstance(block.downsample, nn.Sequential):
        around = _convolve(maps, block.downsample[0], block.downsample[1])
    change = _convolve(maps, block.conv1, block.bn1).relu()
    if isinstance(block, Bottleneck):
        change = _convolve(_convolve(change, block.conv2, block.bn2).relu(), block.conv3, block.bn3)
    else:
        change = _convolve(change, block.conv2, block.bn2)
    return (change + around).relu()


def _efficientnet(network: Any, maps: Value) -> Value:
    maps = _convolve(maps, network._conv_stem, network._bn0).clip(0.0, 6.0)
    for block in network._blocks:
        wide = maps
        if hasattr(block, "_expand_conv"):
            wide = _convolve(maps, block._expand_conv, block._bn0).clip(0.0, 6.0)
        wide = _convolve(wide, block._depthwise_conv, block._bn1).clip(0.0, 6.0)
        narrow = _convolve(wide, block._project_conv, block._bn2)
        maps = narrow + maps if block.is_residual else narrow
    return _convolve(maps, network._conv_head, network._bn1).clip(0.0, 6.0)


BACKBONES: dict[type[nn.Module], Callable[[Any, Value], Value]] = {
    SmallConvNet: _small,
    ResNet: _resnet,
    EfficientNetLite0: _efficientnet,
}
"""Networks that can be written, from normalised images to maps of features."""
