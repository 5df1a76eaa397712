"""Data sets by name: what each is, how it is read, how it is split."""

from __future__ import annotations

from diffor.datasets.open import OPEN
from diffor.datasets.samples import Dataset, Samples
from diffor.datasets.uci import UCI

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (*OPEN, *UCI)}
"""Data sets by name."""


def load_dataset(name: str, root: str | None = None) -> Samples:
    """Read a data set: ``root`` is the folder of its files, where it does not come with a package.

    >>> load_dataset("diabetes").y.shape
    (442,)
    """
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(sorted(DATASETS))}, however: name={name!r}")
    return DATASETS[name].read(root)


__all__ = ["DATASETS", "Dataset", "Samples", "load_dataset"]
