"""Data sets by name: what each is, how it is read, how it is split."""

from __future__ import annotations

from typing import Any

from diffor.core.registry import Registry
from diffor.datasets.open.cdnow import CDNOW
from diffor.datasets.open.confirmation import CONFIRMATION
from diffor.datasets.open.foundation import FOUNDATION
from diffor.datasets.open.openml import PREFIX, openml_dataset
from diffor.datasets.open.ordinal import ORDINAL
from diffor.datasets.open.packages import OPEN
from diffor.datasets.open.synthetic import SYNTHETIC, generate
from diffor.datasets.open.uci import UCI
from diffor.datasets.open.vlengagement import VLENGAGEMENT
from diffor.datasets.paper.aesthetics import AESTHETICS
from diffor.datasets.paper.age import AGE
from diffor.datasets.paper.lifetime import LIFETIME
from diffor.datasets.paper.sets import PublishedSet
from diffor.datasets.paper.watchtime import WATCH_TIME
from diffor.datasets.samples import Dataset, Samples
from diffor.errors import UserError, did_you_mean

_SHARED = (*UCI, *ORDINAL, CDNOW, VLENGAGEMENT)
_PAPER = (*AGE, *AESTHETICS, *WATCH_TIME, *LIFETIME)

_SUITES: dict[str, tuple[Dataset, ...]] = {
    "open": OPEN,
    "shared": _SHARED,
    "synthetic": SYNTHETIC,
    "paper": _PAPER,
    "foundation": FOUNDATION,
    "confirmation": CONFIRMATION,
}


def _fault(name: str, thing: object) -> str:
    is_one = isinstance(thing, Dataset) and thing.name == name
    return "" if is_one else f"it must be a Dataset of that name, not {getattr(thing, 'name', thing)!r}"


DATASETS = Registry(
    "diffor.datasets", {dataset.name: dataset for suite in _SUITES.values() for dataset in suite}, _fault
)
"""Data sets by name, those of installed packages (entry points of ``diffor.datasets``) among them."""

DISTRIBUTIONS: dict[str, PublishedSet] = {dataset.name: dataset for dataset in _PAPER}
"""The paper's benchmarks, whose files are surveyed and checked, by name."""

SUITES: dict[str, tuple[str, ...]] = {
    suite: tuple(dataset.name for dataset in datasets) for suite, datasets in _SUITES.items()
}
"""Names of data sets by suite: ``open`` and ``confirmation`` (which nothing was chosen on) come with packages,
``shared``, ``paper`` (the paper's twelve benchmarks) and ``foundation`` (a public benchmark of distributions) need a
root, ``synthetic`` knows the truth."""


def all_suites() -> dict[str, tuple[str, ...]]:
    """The suites, and ``installed`` with the data sets that other packages register, if there are any."""
    return {**SUITES, **({"installed": tuple(DATASETS.registered)} if DATASETS.registered else {})}


def load_dataset(name: str, root: str | None = None, **options: Any) -> Samples:
    """Read a data set: ``root`` is the folder of its files, where it does not come with a package.

    ``options`` are what its reader leaves open, such as ``target="MOS"`` of SPAQ. ``openml:537`` reads that table of
    OpenML, from the network at first.

    >>> load_dataset("diabetes").y.shape
    (442,)
    """
    return find_dataset(name).read(root, **options)


def find_dataset(name: str) -> Dataset:
    """The data set of a name; ``openml:ID`` is a table of OpenML.

    >>> find_dataset("era").n_grades
    9
    """
    if name in DATASETS:
        return DATASETS[name]
    if name.startswith(PREFIX):
        return openml_dataset(name)
    hint = did_you_mean(name, DATASETS)
    raise UserError(f"name must be one of {', '.join(sorted(DATASETS))}, or openml:ID, but got name={name!r}{hint}")


__all__ = [
    "DATASETS",
    "DISTRIBUTIONS",
    "PREFIX",
    "SUITES",
    "Dataset",
    "PublishedSet",
    "Samples",
    "all_suites",
    "find_dataset",
    "generate",
    "load_dataset",
]
