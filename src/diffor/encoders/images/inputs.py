"""What users pass as images, read as lazy rows: paths, a folder, a data frame, arrays, Pillow's images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.core.pixels import FITS, BrokenImage, require_pillow
from diffor.core.table import as_table
from diffor.encoders.images.lazy import ImageDecoder, LazyImages
from diffor.encoders.images.transforms import stored_side
from diffor.errors import UserError, UserTypeError, check_choice, check_least

if TYPE_CHECKING:
    from diffor.core.pixels import ImageSource

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
"""Files that a folder is searched for; lists and data frames may name files of any kind that Pillow reads."""
BROKEN_CHOICES = ("raise", "skip")
PATH_COLUMN = "path"


@dataclass(frozen=True)
class ImageRows:
    """Images that were passed: the lazy pixels, the other columns of their rows, and what was left out."""

    images: LazyImages
    table: pd.DataFrame | None
    """The columns beside the paths, for the same rows; None where there are none."""
    kept: NDArray[np.int64]
    """Places, in what was passed, of the rows that are here: all of them unless broken ones are skipped."""
    skipped: list[BrokenImage]

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ImageInputs:
    """How images become tensors; ``transform`` reads any of the forms in which they are passed.

    Each image is decoded to a square: its shorter side is scaled to ``side / crop`` and the longer one cut
    (``fit="stretch"`` scales both). A test sees the middle of it, ``side`` pixels wide; training sees random parts, see
    :mod:`diffor.encoders.images.transforms`, or the middle too, without ``augment``. ``crop=1`` suits images that are
    cut already, such as aligned faces.

    NOTE[DIFF]: the paper names no augmentation; ``augment=False`` is its letter.

    A broken image is an error that names it when it is needed (``broken="raise"``), or it is left out
    (``broken="skip"``), for which all images are decoded at once, since targets must go with it. Images are decoded in
    ``n_workers`` processes (None: one fewer than there are cores, at least one; 0: in this one), and kept in memory
    where all fit into ``cache_bytes``.

    >>> rows = ImageInputs(side=4, crop=1.0).transform(np.full((2, 8, 8, 1), 200, dtype=np.uint8))
    >>> rows.images[0:2].shape, rows.images[0:2].unique().tolist()
    (torch.Size([2, 3, 4, 4]), [200])
    """

    side: int = 224
    crop: float = 0.875
    fit: str = "crop"
    broken: str = "raise"
    n_workers: int | None = None
    cache_bytes: int = 2**31
    augment: bool = True

    def __post_init__(self) -> None:
        check_least("side", self.side)
        if not 0 < self.crop <= 1:
            raise UserError(f"crop must be a share above 0, at most 1, but got crop={self.crop}")
        check_choice("fit", self.fit, FITS)
        check_choice("broken", self.broken, BROKEN_CHOICES)
        if self.n_workers is not None and self.n_workers < 0:
            raise UserError(f"n_workers must be 0 or more, or None, but got n_workers={self.n_workers}")

    def transform(self, X: Any, root: str | Path | None = None, verbose: int = 1) -> ImageRows:
        """Lazy images of a list of paths, a folder, a data frame with a column ``path``, arrays or Pillow's images.

        Relative paths start from ``root``, or from the folder the process runs in.
        """
        require_pillow()
        names, sources, table = read_sources(X, root)
        if not sources:
            raise UserError("X must hold at least one image, but it has none; check the list or the folder")
        n_workers = count_workers() if self.n_workers is None else self.n_workers
        decoder = ImageDecoder(names, sources, stored_side(self.side, self.crop), self.fit, n_workers, self.cache_bytes)
        kept = np.arange(len(sources))
        images = LazyImages(decoder, kept, self.side, augment=self.augment)
        skipped = images.find_broken(verbose) if self.broken == "skip" else []
        if skipped:
            kept = np.setdiff1d(kept, [image.row for image in skipped])
            images, table = images.select(kept), None if table is None else table.iloc[kept]
        if not len(kept):
            raise UserError(f"at least one image must be whole, but all are broken, such as {skipped[0].message}")
        return ImageRows(images, table, kept, skipped)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> ImageInputs:
        """Rebuild settings from :meth:`to_json`."""
        return cls(**state)


def count_workers() -> int:
    """Worker processes that leave a core to the network, at least one."""
    import joblib  # type: ignore[import-untyped]

    return max(1, int(joblib.cpu_count()) - 1)  # which knows the limits of containers


def read_sources(X: Any, root: str | Path | None = None) -> tuple[list[str], list[ImageSource], pd.DataFrame | None]:
    """Names and sources of the images that are passed, and the other columns where they come in a data frame.

    A name is the path as it was passed, below the folder if it was a folder; images without a path are named by their
    number.
    """
    if isinstance(X, (str, os.PathLike)):
        folder = Path(X)
        names = find_images(folder)
        return names, [str(folder / name) for name in names], None
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OUS":
        return (*_read_items(_check_pixels(X, ("n", "height", "width", "3 or 1")), root), None)
    if isinstance(X, (pd.Series, np.ndarray, list, tuple)):
        return (*_read_items(X, root), None)
    table = as_table(X)
    if PATH_COLUMN not in table.columns:
        raise UserError(
            f"a data frame of images must have a column {PATH_COLUMN!r}, but its columns are "
            f"{', '.join(map(repr, table.columns[:5]))}; rename the one that holds the paths"
        )
    others = table.drop(columns=PATH_COLUMN)
    return (*_read_items(table[PATH_COLUMN], root), others if others.shape[1] else None)


def find_images(folder: Path) -> list[str]:
    """Images anywhere below a folder, by their paths from there, in the order of these; hidden ones are left out."""
    if not folder.is_dir():
        raise UserError(
            f"a single path must be a folder of images, but {folder} is none; pass a list of paths for files"
        )
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(parent, name).relative_to(folder).as_posix()
            for name in files
            if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith(".")
        ]
    return sorted(found)


def _read_items(items: Iterable[Any], root: str | Path | None) -> tuple[list[str], list[ImageSource]]:
    """Names and sources of paths, arrays and Pillow's images, in any mixture."""
    listed = list(items)
    names = [os.fspath(item) if _is_path(item) else f"image {row}" for row, item in enumerate(listed)]
    return names, [_check_item(item, row, root) for row, item in enumerate(listed)]


def _is_path(item: Any) -> bool:
    return isinstance(item, (str, os.PathLike))


def _check_item(item: Any, row: int, root: str | Path | None) -> ImageSource:
    if _is_path(item):
        return os.fspath(item) if root is None else os.path.join(root, item)
    if isinstance(item, require_pillow().Image):
        opened: ImageSource = item
        return opened
    if not isinstance(item, np.ndarray):
        raise UserTypeError(
            f"an image must be a path, an array or one of Pillow's, but row {row} has {item!r}; "
            "fill it in or drop the row"
        )
    return _check_pixels(item, ("height", "width", "3 or 1"), f" in row {row}")


def _check_pixels(array: NDArray[Any], axes: Sequence[str], where: str = "") -> NDArray[np.uint8]:
    """Pixels of one image, or of several if the first axis is ``n``, of which there may be none."""
    if array.ndim != len(axes) or array.shape[-1] not in (1, 3) or array.dtype != np.uint8 or 0 in array.shape[-3:]:
        raise UserError(
            f"images as arrays must have the shape ({', '.join(axes)}) and hold uint8 from 0 to 255, but got "
            f"shape={array.shape}, dtype={array.dtype}{where}; put colours last, scale to 255, and use astype('uint8')"
        )
    return array
