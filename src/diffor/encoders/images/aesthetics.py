"""The AESTHETIC_ENCODERS table: networks of the paper's tables of aesthetics and of age, by name.

The compact ones begin with random weights: what they reach says nothing of their authors' trained ones, and every page
should call them "without its weights". ``maxvit`` and ``farl`` take a file of weights. None can be exported as an ONNX
program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from diffor.encoders.images import vision_transformer
from diffor.encoders.images.attention import ColourDelegates, FourWayScan
from diffor.encoders.images.networks import ImageEncoder, Weights, make_own, make_timm, with_weights
from diffor.encoders.images.patches import ChosenPatches, MultiScalePatches, PatchFeatures, TwoColumns
from diffor.encoders.images.relations import LayoutGraphs, PooledLevels, ThemeRules
from diffor.encoders.images.vision_transformer import VisionTransformer

MAXVIT = "maxvit_tiny_tf_224"


def make_farl(*, weights: Weights = None, **options: Any) -> ImageEncoder:
    """FaRL's transformer (Zheng et al., 2022), with the weights of a file of theirs or of CLIP's; reads 224 pixels."""
    colours = {"mean": vision_transformer.MEAN, "deviation": vision_transformer.DEVIATION}
    return with_weights(VisionTransformer(), weights, colours | options, ignored=(), prefix=vision_transformer.PREFIX)


AESTHETIC_ENCODERS: dict[str, Callable[..., ImageEncoder]] = {
    "rapid": partial(make_own, TwoColumns),
    "alamp": partial(make_own, ChosenPatches),
    "mpada-patches": partial(make_own, PatchFeatures),
    "mlsp": partial(make_own, PooledLevels),
    "hgcn": partial(make_own, LayoutGraphs),
    "musiq": partial(make_own, MultiScalePatches),
    "tanet": partial(make_own, ThemeRules),
    "delegate": partial(make_own, ColourDelegates),
    "aesmamba": partial(make_own, FourWayScan),
    "maxvit": partial(make_timm, MAXVIT),
    "farl": make_farl,
}
"""Networks of the paper's tables by name."""
