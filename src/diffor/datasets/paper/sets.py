"""What the paper's twelve benchmarks share: a row of theirs is made of a reader, a protocol and what is published.

NOTE[DIFF]: the paper's inputs are images alone. Side columns that are shipped with them are inputs here, too, where
they do not give the target away; ``columns=()`` of the readers leaves them out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diffor.datasets.readers.image_files import Expected, check_images
from diffor.datasets.readers.published_files import PublishedFile, check_files
from diffor.datasets.readers.reading import CheckReport, Place, ReadReport, data_root
from diffor.datasets.samples import Dataset, Rows, Samples
from diffor.datasets.splits import Split, split_samples

Root = str | Path | None
Survey = Callable[..., tuple[Samples, ReadReport]]
"""Reads a data set and says what it met."""


@dataclass(frozen=True, kw_only=True)
class PublishedSet(Dataset):
    """A data set whose files come from its owners: how to get them, how to read them and how to check them."""

    size: str
    licence: str
    obtain: str
    """What to do to get the files."""
    survey: Survey
    """``survey(root, **options)`` gives the samples and a report of what was read and dropped."""
    check: Callable[..., CheckReport]
    """``check(root)`` compares the files with what is published of them and gives a report; with ``read_all=False`` it
    neither reads large files nor decodes images."""
    marks: tuple[str, ...]
    """Files below the root which show that there is something, even if it cannot be read."""


@dataclass(frozen=True)
class _Reader:
    """Reads and divides one set below a root, by functions that are told the place of its files."""

    name: str
    obtain: str
    survey_place: Survey
    divide_place: Callable[[Place, int], Split] | None = None
    protocol: str = "random"

    def place(self, root: Root) -> Place:
        return Place(data_root(root, self.name, self.obtain), self.name, self.obtain)

    def survey(self, root: Root = None, **options: Any) -> tuple[Samples, ReadReport]:
        return self.survey_place(self.place(root), **options)

    def read(self, root: Root = None, **options: Any) -> Samples:
        samples, report = self.survey(root, **options)
        for note in report.notes:
            warnings.warn(f"{self.name}: {note}", stacklevel=2)
        return samples

    def divide(self, root: Root, index: int) -> Split:
        if self.divide_place is None:
            return split_samples(self.read(root), index, self.protocol)
        return self.divide_place(self.place(root), index)

    def split(self, root: Root, index: int) -> tuple[Rows, Rows]:
        split = self.divide(root, index)
        return split.learning, split.test

    def parts(self, root: Root, index: int) -> tuple[Rows, Rows, Rows]:
        split = self.divide(root, index)
        return split.training, split.validation, split.test

    def count_groups(self, root: Root) -> int:
        return len(np.unique(np.asarray(self.read(root).groups)))

    def published(self, **facts: Any) -> PublishedSet:
        return PublishedSet(
            name=self.name,
            obtain=self.obtain,
            survey=self.survey,
            read=self.read,
            split=self.split,
            parts=self.parts,
            **facts,
        )


def image_set(
    *, name: str, obtain: str, survey: Survey, expected: Expected, protocol: str = "random", **facts: Any
) -> PublishedSet:
    """A data set of images and labels, which ``survey(place, **options)`` reads."""
    reader = _Reader(name, obtain, survey, protocol=protocol)
    return reader.published(
        image_column="path",
        count_splits=reader.count_groups if protocol == "one-out" else None,
        check=partial(check_images, name=name, survey=reader.survey, expected=expected),
        **facts,
    )


def table_set(
    *,
    name: str,
    obtain: str,
    survey: Survey,
    split: Callable[[Place, int], Split],
    files: Sequence[PublishedFile],
    check: Callable[..., CheckReport] | None = None,
    **facts: Any,
) -> PublishedSet:
    """A large table in text files, which ``survey(place, **options)`` reads and ``split(place, index)`` divides."""
    return _Reader(name, obtain, survey, split).published(
        check=check or partial(check_files, name=name, obtain=obtain, files=files),
        marks=tuple(each for file in files for each in file.names),
        **facts,
    )
