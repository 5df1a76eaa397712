"""Images that are decoded when they are asked for: here, or ahead of time in worker processes.

What is decoded stays in memory as long as all images together fit there, so later epochs cost no decoding.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from diffor.core.pixels import BrokenImage, BrokenImageError, Pixels, decode_images
from diffor.encoders.images.transforms import augment_images, crop_centre, digest

if TYPE_CHECKING:
    from diffor.core.pixels import ImageSource

TASK_IMAGES = 16
"""Images that a worker decodes at a time."""
MIN_FOR_WORKERS = 4 * TASK_IMAGES
"""Fewer images than this are decoded before a worker process has started."""
LOAD_IMAGES = 512
IDLE_SECONDS = 60
"""After this long without work the worker processes end; new ones start when they are needed."""

Rows = NDArray[Any] | Tensor | slice
_pools: dict[tuple[int, int], Any] = {}


class ImageDecoder:
    """Decodes images by their places, with what is known already kept in memory where all of them fit.

    With ``n_workers=0`` all happens in this process. The workers need no main module, so scripts without a guard and
    notebooks can have them, and they are new processes, not copies of this one with its threads and locks.
    """

    def __init__(
        self,
        names: Sequence[str],
        sources: Sequence[ImageSource],
        side: int,
        fit: str,
        n_workers: int,
        cache_bytes: int,
    ) -> None:
        self.names, self.sources, self.side, self.fit = names, sources, side, fit
        self.n_workers = 0 if len(sources) < MIN_FOR_WORKERS or current_process().daemon else n_workers
        fits = len(sources) * side * side * 3 <= cache_bytes
        self.kept: Pixels | None = np.empty((len(sources), side, side, 3), dtype=np.uint8) if fits else None
        self.is_kept = np.zeros(len(sources), dtype=bool)
        self.causes: dict[int, str] = {}
        self.advice = ", or skip such images with broken='skip'"
        """What else than its cure may be done about a broken image."""
        self._pending: dict[int, tuple[Any, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_pending": {}}  # what workers are at belongs to this process

    def expect(self, places: NDArray[np.int64]) -> None:
        """Let workers decode these soon to be asked for; does nothing where there are none."""
        if not self.n_workers:
            return
        # What is in memory need not travel, and what is decoded or being decoded need not be done again.
        wanted = [
            place
            for place in dict.fromkeys(places.tolist())
            if isinstance(self.sources[place], str)
            and not (self.is_kept[place] or place in self.causes or place in self._pending)
        ]
        for first in range(0, len(wanted), TASK_IMAGES):
            task = wanted[first : first + TASK_IMAGES]
            future = self._submit([self.sources[place] for place in task])
            self._pending |= {place: (future, position) for position, place in enumerate(task)}

    def _submit(self, sources: list[ImageSource]) -> Any:
        try:
            return worker_pool(self.n_workers).submit(decode_images, sources, self.side, self.fit)
        except BrokenProcessPool:  # killed while they had nothing to do: nothing is lost
            forget_pool(self.n_workers)
            return worker_pool(self.n_workers).submit(decode_images, sources, self.side, self.fit)

    def decode(self, places: NDArray[np.int64]) -> Pixels:
        """Pixels of the images at these places; those of broken ones are black, and ``causes`` says why.

        **Shape:** ``(k,)`` -> ``(k, side, side, 3)``.
        """
        if self.kept is not None and self.is_kept[places].all():
            return self.kept[places]
        self.expect(places)
        pixels: Pixels = np.zeros((len(places), self.side, self.side, 3), dtype=np.uint8)
        for row, place in enumerate(places.tolist()):
            if self.kept is not None and self.is_kept[place]:
                pixels[row] = self.kept[place]
            elif place not in self.causes:
                pixels[row] = self._decode_one(place)
        # Not before all are copied: a place may be asked for twice.
        for place in places.tolist():
            self._pending.pop(place, None)
        return pixels

    def broken(self, places: NDArray[np.int64]) -> list[BrokenImage]:
        """Which of these images, that were decoded, are broken; their rows count within these."""
        return [
            BrokenImage(row, self.names[place], self.causes[place])
            for row, place in enumerate(places.tolist() if self.causes else ())
            if place in self.causes
        ]

    def digest(self, place: int) -> int:
        """A number that tells the image at a place from others, found without decoding a file."""
        source = self.sources[place]
        if isinstance(source, str):
            return digest(os.fsencode(self.names[place]))
        pixels, _ = decode_images([source], self.side, self.fit)
        return digest(pixels.tobytes())

    def _decode_one(self, place: int) -> Pixels:
        future, position = self._pending.get(place, (None, 0))
        try:
            if future is None:
                decoded, causes = decode_images([self.sources[place]], self.side, self.fit)
            else:
                decoded, causes = future.result()
        except BrokenProcessPool as error:
            self._pending.clear()
            forget_pool(self.n_workers)
            raise RuntimeError(
                f"worker processes must live while they decode, but one of {self.n_workers} was killed, mostly "
                "for want of memory; choose fewer with n_workers, or 0"
            ) from error
        if position in causes:
            self.causes[place] = causes[position]
        elif self.kept is not None:
            self.kept[place], self.is_kept[place] = decoded[position], True
        return np.asarray(decoded[position])


class LazyImages:
    """Rows of images that look like a tensor of them: an index gives pixels, a subset and a device stay lazy.

    ``images[rows]`` is what an encoder reads in a test, ``images.training_rows(rows, keys, step)`` what it reads in a
    step of training, ``images.expect(rows)`` announces rows to the worker processes.
    """

    def __init__(
        self,
        decoder: ImageDecoder,
        places: NDArray[np.int64],
        side: int,
        device: torch.device | None = None,
        augment: bool = True,
    ) -> None:
        self.decoder, self.places, self.side, self.augment = decoder, places, side, augment
        self.device = torch.device("cpu") if device is None else device

    def __len__(self) -> int:
        return len(self.places)

    @property
    def shape(self) -> torch.Size:
        """Shape of the tensor of all images."""
        return torch.Size((len(self), 3, self.side, self.side))

    @property
    def names(self) -> list[str]:
        """The images' paths, or their numbers where they came without."""
        return [self.decoder.names[place] for place in self.places]

    @property
    def digests(self) -> Tensor:
        """A number for each image that follows from its path as it was passed, or from its pixels where it has none.

        Keys are made of it. **Shape:** -> ``(n, 1)`` int64.
        """
        return torch.tensor([[self.decoder.digest(place)] for place in self.places.tolist()], dtype=torch.int64)

    def to(self, device: torch.device) -> LazyImages:
        """The same rows, to be decoded to a device."""
        return LazyImages(self.decoder, self.places, self.side, device, self.augment)

    def select(self, rows: Rows) -> LazyImages:
        """Some of the rows, still lazy; they share what is decoded already."""
        return LazyImages(self.decoder, self._places(rows), self.side, self.device, self.augment)

    def expect(self, rows: Rows) -> None:
        """Let worker processes decode rows that will be asked for next."""
        self.decoder.expect(self._places(rows))

    def __getitem__(self, rows: Rows) -> Tensor:
        """The middle of the images, as a test sees them. **Shape:** -> ``(k, 3, side, side)`` uint8."""
        return crop_centre(self._stored(rows), self.side)

    def training_rows(self, rows: Rows, keys: Tensor, step: int) -> Tensor:
        """The images as a step of training sees them; keys of these rows make what is random.

        **Shape:** keys ``(k,)`` -> ``(k, 3, side, side)`` uint8.
        """
        return augment_images(self._stored(rows), keys, step, self.side) if self.augment else self[rows]

    def find_broken(self, verbose: int = 1) -> list[BrokenImage]:
        """Decode all images and name those that are broken; what fits into memory is kept there."""
        with tqdm(total=len(self), desc="decode", unit="image", delay=2, disable=None if verbose else True) as bar:
            for first in range(0, len(self), LOAD_IMAGES):
                self.expect(slice(first, first + 2 * LOAD_IMAGES))
                bar.update(len(self.decoder.decode(self.places[first : first + LOAD_IMAGES])))
        return self.decoder.broken(self.places)

    def _places(self, rows: Rows) -> NDArray[np.int64]:
        chosen = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return self.places[chosen]

    def whole(self, rows: Rows) -> tuple[Tensor, list[BrokenImage]]:
        """The middle of those images that are whole, and which are not; their rows count within the ones asked for.

        **Shape:** -> ``(k, 3, side, side)`` uint8.
        """
        stored, broken = self._decode(rows)
        sound = torch.ones(len(stored), dtype=torch.bool, device=self.device)
        sound[[image.row for image in broken]] = False
        return crop_centre(stored[sound] if broken else stored, self.side), broken

    def _stored(self, rows: Rows) -> Tensor:
        """The images as they are decoded, or an error that names one that is broken."""
        stored, broken = self._decode(rows)
        if broken:
            raise BrokenImageError(broken[0].message + self.decoder.advice)
        return stored

    def _decode(self, rows: Rows) -> tuple[Tensor, list[BrokenImage]]:
        places = self._places(rows)
        pixels = self.decoder.decode(places)
        # Colours stay last in memory, which convolutions on CPUs and GPUs like best.
        return torch.from_numpy(pixels).permute(0, 3, 1, 2).to(self.device), self.decoder.broken(places)


def worker_pool(n_workers: int) -> Any:
    """This process's pool of so many workers, started when it is first needed."""
    key = (os.getpid(), n_workers)  # a process that was forked has no workers yet
    if key not in _pools:
        # joblib comes with scikit-learn. Its processes do not import the user's script again.
        from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]

        _pools[key] = ProcessPoolExecutor(n_workers, timeout=IDLE_SECONDS, env={"OMP_NUM_THREADS": "1"})
    return _pools[key]


def forget_pool(n_workers: int) -> None:
    """Drop a pool that broke, so that the next one is a new one."""
    _pools.pop((os.getpid(), n_workers), None)
