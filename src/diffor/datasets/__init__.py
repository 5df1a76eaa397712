"""Data sets by name: what each is, how it is read, how it is split."""

from __future__ import annotations

from typing import Any

from diffor.datasets.cdnow import CDNOW
from diffor.datasets.image_sets import AESTHETICS, AGE, IMAGE_DISTRIBUTIONS
from diffor.datasets.open import OPEN
from diffor.datasets.ordinal import ORDINAL
from diffor.datasets.reading import Distribution
from diffor.datasets.samples import Dataset, Samples
from diffor.datasets.synthetic import SYNTHETIC, generate
from diffor.datasets.table_sets import LIFETIME, TABLE_DISTRIBUTIONS, WATCH_TIME
from diffor.datasets.uci import UCI
from diffor.datasets.vlengagement import VLENGAGEMENT
from diffor.suggestion import did_you_mean

_SHARED = (*UCI, *ORDINAL, CDNOW, VLENGAGEMENT)
_PAPER = (*AGE, *AESTHETICS, *WATCH_TIME, *LIFETIME)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (*OPEN, *_SHARED, *SYNTHETIC, *_PAPER)}
"""Data sets by name."""

DISTRIBUTIONS: dict[str, Distribution] = {**IMAGE_DISTRIBUTIONS, **TABLE_DISTRIBUTIONS}
"""How the files of the paper's benchmarks are surveyed and checked, by name of the data set."""

SUITES: dict[str, tuple[str, ...]] = {
    suite: tuple(dataset.name for dataset in datasets)
    for suite, datasets in {"open": OPEN, "shared": _SHARED, "synthetic": SYNTHETIC, "paper": _PAPER}.items()
}
"""Names of data sets by suite: ``open`` comes with packages, ``shared`` and ``paper`` (the paper's twelve benchmarks)
need a root, ``synthetic`` knows the truth."""


def load_dataset(name: str, root: str | None = None, **options: Any) -> Samples:
    """Read a data set: ``root`` is the folder of its files, where it does not come with a package.

    ``options`` are what its reader leaves open, such as ``target="MOS"`` of SPAQ.

    >>> load_dataset("diabetes").y.shape
    (442,)
    """
    if name not in DATASETS:
        hint = did_you_mean(name, DATASETS)
        raise ValueError(f"name must be one of {', '.join(sorted(DATASETS))}, however: name={name!r}{hint}")
    return DATASETS[name].read(root, **options)


__all__ = ["DATASETS", "DISTRIBUTIONS", "SUITES", "Dataset", "Samples", "generate", "load_dataset"]
