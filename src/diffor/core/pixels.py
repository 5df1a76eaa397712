"""One image of any kind to pixels: read, turned upright, freed of transparency, brought to a square.

Worker processes import this module and nothing else of the package, so it needs NumPy and Pillow only: a worker is
ready in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diffor.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

    ImageSource = str | Image.Image | NDArray[np.uint8]
    """A path, an image that is open already, or pixels ``(h, w, 3 or 1)``."""

Pixels = NDArray[np.uint8]

BACKGROUND = (128, 128, 128)
"""What shows through transparent pixels: a grey in the middle of the range, which says least to a network."""
FITS = ("crop", "stretch")
"""How an oblong image becomes a square: its central square, or the whole of it out of proportion."""
ORIENTATION = 0x0112
"""Number of the note that says how the camera was held."""
DRAFT_MARGIN = 2
"""JPEG files are decoded at a half, a quarter or an eighth of their size where this many times the side remains."""


@dataclass(frozen=True)
class BrokenImage:
    """An image that cannot be decoded: its row, what it is called, and why."""

    row: int
    name: str
    cause: str

    @property
    def message(self) -> str:
        """What to tell the user."""
        return f"{self.name} must be a whole image, but {self.cause}; fetch it again or leave it out"


class BrokenImageError(UserError):
    """An image cannot be decoded; the message names it."""


def require_pillow() -> Any:
    """Pillow's module ``Image``, or a message that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images are decoded by Pillow: pip install "diffor[images]"') from error
    return Image


def decode_images(sources: Sequence[ImageSource], side: int, fit: str) -> tuple[Pixels, dict[int, str]]:
    """Decode some images; black squares take the places of broken ones, of which it says what is wrong.

    **Shape:** -> ``(n, side, side, 3)``, and the causes by place.
    """
    pixels: Pixels = np.zeros((len(sources), side, side, 3), dtype=np.uint8)
    causes = {}
    for place, source in enumerate(sources):
        decoded = _decode_or_cause(source, side, fit)
        if isinstance(decoded, str):
            causes[place] = decoded
        else:
            pixels[place] = decoded
    return pixels, causes


def _decode_or_cause(source: ImageSource, side: int, fit: str) -> Pixels | str:
    try:
        return decode_image(source, side, fit)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers trip over damaged bytes in many ways, not all of them OSError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return str(reason) or type(error).__name__


def decode_image(source: ImageSource, side: int, fit: str = "crop") -> Pixels:
    """Decode one image to a square: upright, in red, green and blue, what is transparent on grey.

    ``fit="crop"`` scales the shorter side and cuts off what the longer one has more at both ends, ``fit="stretch"``
    scales both. Shrinking averages over all pixels that fall on one.

    **Shape:** -> ``(side, side, 3)``.

    >>> decode_image(np.full((10, 20, 1), 77, dtype=np.uint8), side=4)[0, 0].tolist()
    [77, 77, 77]
    """
    images = require_pillow()
    if isinstance(source, str):
        with images.open(source) as opened:
            opened.draft(None, (DRAFT_MARGIN * side, DRAFT_MARGIN * side))
            return _to_square(opened, side, fit)
    if isinstance(source, np.ndarray):
        return _to_square(images.fromarray(source[:, :, 0] if source.shape[2] == 1 else source), side, fit)
    return _to_square(source, side, fit)


def _to_square(image: Image.Image, side: int, fit: str) -> Pixels:
    from PIL.Image import Resampling

    upright = to_rgb(_turn_upright(image))
    width, height = upright.size
    shorter = min(width, height)
    left, top = (width - shorter) / 2, (height - shorter) / 2
    box = (left, top, left + shorter, top + shorter) if fit == "crop" else (0.0, 0.0, width, height)
    return np.asarray(upright.resize((side, side), Resampling.BILINEAR, box=box, reducing_gap=3.0))


def _turn_upright(image: Image.Image) -> Image.Image:
    """The image as its camera was held, which files of photos say beside the pixels.

    Pillow's own function also rewrites the other notes, and fails where one of these is damaged.
    """
    from PIL.Image import Transpose

    image.load()
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    turn = turns.get(image.getexif().get(ORIENTATION, 1))
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image) -> Image.Image:
    """Red, green and blue of 8 bits each, of any kind of image.

    Grey has all three alike, 16 bits are scaled down, palettes are looked up, transparent pixels show
    :data:`BACKGROUND`.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):
        image = _to_eight_bits(image)
    if image.mode == "F":
        raise UserError("its pixels are floating-point numbers without a known range; convert it to 8 or 16 bits")
    if not image.has_transparency_data:
        return image.convert("RGB")
    seen_through = image.convert("RGBA")
    below = require_pillow().new("RGBA", image.size, (*BACKGROUND, 255))
    below.alpha_composite(seen_through)
    flat: Image.Image = below.convert("RGB")
    return flat


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """A grey image of 16 bits, or of 16 bits stored in 32, as one of 8."""
    values = np.asarray(image).astype(np.int64)
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise UserError(f"its pixels reach from {values.min()} to {values.max()}; convert it to 8 or 16 bits")
    grey: Image.Image = require_pillow().fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    return grey
