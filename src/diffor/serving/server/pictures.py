"""Images that clients upload: counted, looked at without being decoded, and kept in files while they are asked about.

The model gets a file, as in training: JPEG files are decoded at a lower resolution where that is enough, which is done
for files only, so other ways would give other pixels.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from diffor.core.pixels import require_pillow
from diffor.serving.server.refusals import Problems, refusal, show

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats that are read: Pillow knows many more, some of which start other programs or are hardly ever tried."""
MAX_PIXELS = 50_000_000
"""Pixels of an image at most: a small file can unfold to any size ..."""
MAX_PIXELS_OF_ALL = 100_000_000
"""... and so can many that are small enough each."""

Upload = tuple[str, bytes]
"""What an image is called, and its file."""


def check_pictures(uploads: Sequence[Upload], max_images: int) -> None:
    """Refuse images that are none, too many or too large."""
    if not uploads:
        raise refusal(422, "images", "a request must have an image, but it has none; send them as images", "images")
    if len(uploads) > max_images:
        raise refusal(
            413, "too_many_images",
            f"a request must have at most {max_images} images, but it has {len(uploads)}; send them in several",
            "images",
        )  # fmt: skip
    problems, n_pixels = Problems(), 0
    for place, (name, data) in enumerate(uploads):
        flaw, n = _look_at(data)
        n_pixels += n
        if flaw and problems.count():
            problems.add("image", f"image {place}, {show(name)}, {flaw}", "images", place)
    problems.refuse()
    if n_pixels > MAX_PIXELS_OF_ALL:
        raise refusal(
            413, "too_many_pixels", f"the images of a request must have at most {MAX_PIXELS_OF_ALL:,} pixels together, "
            f"but they have {n_pixels:,}; send them in several", "images",
        )  # fmt: skip


def _look_at(data: bytes) -> tuple[str, int]:
    """What is wrong with an image, as far as its header tells, empty where nothing is; and how many pixels it has."""
    try:
        with require_pillow().open(io.BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
    except ImportError:
        raise
    except Exception as error:  # Pillow's readers trip over damaged bytes in many ways
        reason = "its format is not known" if "cannot identify" in str(error) else str(error) or type(error).__name__
        return f"must be a whole image, but {reason[:200]}; send a PNG or JPEG file, say", 0
    if width * height > MAX_PIXELS:
        return f"must have at most {MAX_PIXELS:,} pixels, but it has {width} x {height}; make it smaller", 0
    return "", width * height


@contextmanager
def kept_pictures(uploads: Sequence[Upload]) -> Iterator[tuple[str, ...]]:
    """Paths of files that hold the images for a while, named by their places alone."""
    if not uploads:
        yield ()
        return
    with TemporaryDirectory(prefix="diffor-serve-") as folder:
        paths = [Path(folder) / f"image_{place}" for place in range(len(uploads))]
        for path, (_, data) in zip(paths, uploads, strict=True):
            path.write_bytes(data)
        yield tuple(str(path) for path in paths)
