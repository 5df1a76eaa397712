"""What happens to decoded images before an encoder: the fixed cut of a test, the random one of training.

Images are decoded once to squares somewhat larger than what the encoder sees (``stored_side``). A test takes the
middle. Training takes a random square of 80 to 100 % of the area, brings it to the encoder's side and mirrors it half
of the time. Both are functions of tensors; what is random follows from the row's key and the step, so a run can be
repeated, resumed and divided among processes.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor
from torch.nn import functional

from diffor.core.row_noise import key_uniforms

AREA = (0.8, 1.0)
"""Share of the stored area that a random crop keeps; its proportions stay those of a square."""
_N_DRAWS = 4


def stored_side(side: int, crop: float) -> int:
    """Side of the squares that images are decoded to, of which the middle ``crop`` is what a test sees.

    >>> stored_side(224, 0.875), stored_side(64, 1.0)
    (256, 64)
    """
    return round(side / crop)


def crop_centre(images: Tensor, side: int) -> Tensor:
    """The middle of each image. **Shape:** ``(n, 3, s, s)`` -> ``(n, 3, side, side)``."""
    first = (images.shape[-1] - side) // 2
    return images[..., first : first + side, first : first + side]


def augment_images(images: Tensor, keys: Tensor, step: int, side: int, mirror: bool = True) -> Tensor:
    """Crop, scale and mirror each image at random: the same for the same key and step, whatever stands beside it.

    **Shape:** ``(n, 3, s, s)`` uint8, keys ``(n,)`` -> ``(n, 3, side, side)`` uint8.

    >>> pictures = torch.randint(0, 256, (2, 3, 10, 10), dtype=torch.uint8)
    >>> augment_images(pictures, torch.tensor([5, 6]), step=0, side=8).shape
    torch.Size([2, 3, 8, 8])
    """
    counters = torch.arange(_N_DRAWS) + step * _N_DRAWS
    draws = key_uniforms(keys.cpu(), counters).to(images.device)
    low, high = AREA
    share = (low + (high - low) * draws[:, 0]).sqrt()  # of the side
    room = 1 - share  # how far the crop's centre may lie from the middle, where the image reaches from -1 to 1
    turned = torch.where(draws[:, 3] < 0.5, -1.0, 1.0) if mirror else torch.ones_like(share)
    maps = images.new_zeros(len(images), 2, 3, dtype=torch.float32)
    maps[:, 0, 0], maps[:, 1, 1] = share * turned, share
    maps[:, 0, 2], maps[:, 1, 2] = room * (2 * draws[:, 1] - 1), room * (2 * draws[:, 2] - 1)
    places = functional.affine_grid(maps, [len(images), 3, side, side], align_corners=False)
    seen = functional.grid_sample(images.float(), places, padding_mode="border", align_corners=False)
    return seen.round().to(torch.uint8)


def pixel_digests(images: Tensor) -> Tensor:
    """A number for each image that follows from its pixels, to make keys of. **Shape:** ``(n, ...)`` -> ``(n, 1)``."""
    return torch.tensor([[digest(image.contiguous().cpu().numpy().tobytes())] for image in images], dtype=torch.int64)


def digest(content: bytes) -> int:
    """A signed 64-bit number that follows from the content.

    >>> digest(b"face.jpg") == digest(b"face.jpg"), digest(b"face.jpg") == digest(b"other.jpg")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
