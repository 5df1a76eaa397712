"""What the paper's twelve benchmarks share: a row of theirs is made of a reader, a protocol and what is published.

NOTE[DIFF]: the paper's inputs are images alone. Side columns that are shipped with them are inputs here, too, where
they do not give the target away; ``columns=()`` of the readers leaves them out.
"""

from __future__ import annotations

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
Divide = Callable[[Root, int], Split]


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
    """``check(root)`` compares the files with what is published of them and gives a report."""
    glance: Callable[..., CheckReport]
    """The same without reading large files or decoding images."""
    marks: tuple[str, ...]
    """Files below the root which show that there is something, even if it cannot be read."""


def image_set(
    *, name: str, obtain: str, survey: Survey, expected: Expected, protocol: str = "random", **facts: Any
) -> PublishedSet:
    """A data set of images and labels, whose ``survey(place, **options)`` tells its groups."""
    survey = partial(_survey, name=name, obtain=obtain, survey=survey)
    return _published(
        name,
        obtain,
        survey,
        partial(_divide_samples, survey=survey, protocol=protocol),
        image_column="path",
        count_splits=partial(_count_groups, survey=survey) if protocol == "one-out" else None,
        check=partial(check_images, name=name, survey=survey, expected=expected),
        glance=partial(check_images, name=name, survey=survey, expected=expected, n_images=0),
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
    check = check or partial(check_files, name=name, obtain=obtain, files=files)
    return _published(
        name,
        obtain,
        partial(_survey, name=name, obtain=obtain, survey=survey),
        partial(_divide_table, name=name, obtain=obtain, split=split),
        check=check,
        glance=partial(check, read_all=False),
        marks=tuple(each for file in files for each in file.names),
        **facts,
    )


def _published(name: str, obtain: str, survey: Survey, divide: Divide, **facts: Any) -> PublishedSet:
    return PublishedSet(
        name=name,
        obtain=obtain,
        survey=survey,
        read=partial(_read, survey=survey),
        split=partial(_learning_and_test_rows, divide=divide),
        parts=partial(_three_parts, divide=divide),
        **facts,
    )


def _survey(root: Root = None, *, name: str, obtain: str, survey: Survey, **options: Any) -> tuple[Samples, ReadReport]:
    return survey(Place(data_root(root, name, obtain), name, obtain), **options)


def _read(root: Root = None, *, survey: Survey, **options: Any) -> Samples:
    return survey(root, **options)[0]


def _divide_samples(root: Root, index: int, survey: Survey, protocol: str) -> Split:
    return split_samples(survey(root)[0], index, protocol)


def _divide_table(root: Root, index: int, name: str, obtain: str, split: Callable[[Place, int], Split]) -> Split:
    return split(Place(data_root(root, name, obtain), name, obtain), index)


def _learning_and_test_rows(root: Root, index: int, divide: Divide) -> tuple[Rows, Rows]:
    split = divide(root, index)
    return split.learning, split.test


def _three_parts(root: Root, index: int, divide: Divide) -> tuple[Rows, Rows, Rows]:
    split = divide(root, index)
    return split.training, split.validation, split.test


def _count_groups(root: Root, survey: Survey) -> int:
    return len(np.unique(np.asarray(survey(root)[0].groups)))
