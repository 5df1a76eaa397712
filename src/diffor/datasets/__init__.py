"""Data sets by name: what each is, how it is read, how it is split."""

from __future__ import annotations

from diffor.datasets.cdnow import CDNOW
from diffor.datasets.open import OPEN
from diffor.datasets.ordinal import ORDINAL
from diffor.datasets.samples import Dataset, Samples
from diffor.datasets.synthetic import SYNTHETIC, generate
from diffor.datasets.uci import UCI
from diffor.datasets.vlengagement import VLENGAGEMENT

_SHARED = (*UCI, *ORDINAL, CDNOW, VLENGAGEMENT)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (*OPEN, *_SHARED, *SYNTHETIC)}
"""Data sets by name."""

SUITES: dict[str, tuple[str, ...]] = {
    suite: tuple(dataset.name for dataset in datasets)
    for suite, datasets in {"open": OPEN, "shared": _SHARED, "synthetic": SYNTHETIC}.items()
}
"""Names of data sets by suite: ``open`` comes with packages, ``shared`` needs a root, ``synthetic`` knows the truth."""


def load_dataset(name: str, root: str | None = None) -> Samples:
    """Read a data set: ``root`` is the folder of its files, where it does not come with a package.

    >>> load_dataset("diabetes").y.shape
    (442,)
    """
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(sorted(DATASETS))}, however: name={name!r}")
    return DATASETS[name].read(root)


__all__ = ["DATASETS", "SUITES", "Dataset", "Samples", "generate", "load_dataset"]
