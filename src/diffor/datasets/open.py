"""Data sets that arrive with a package: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from diffor.datasets.samples import Dataset, Rows, Samples, random_split


def read_diabetes(root: str | Path | None = None) -> Samples:
    """Disease progression of 442 patients one year on, from ten measurements in their original units."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False)
    return Samples(table.data, table.target.to_numpy(dtype=float))


def split_diabetes(root: str | Path | None = None, index: int = 0) -> tuple[Rows, Rows]:
    """A fifth of the patients for testing, drawn by the index."""
    return random_split(442, 0.2, index)


OPEN = (
    Dataset(
        name="diabetes",
        description="disease progression, 442 patients",
        source="comes with scikit-learn",
        metrics=("mae", "rmse", "srcc", "crps", "coverage"),
        read=read_diabetes,
        split=split_diabetes,
    ),
)
