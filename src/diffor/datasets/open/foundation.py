"""Tables of a public benchmark of predicted distributions, with its rows, splits and metric.

Izbicki and Rodrigues, "Benchmarking Tabular Foundation Models for Conditional Density Estimation" (2026, repository
tabDensityComparisons) print figures of foundation models on tables of OpenML. ``<root>/foundation/<Name>.npz`` holds a
table in OpenML's order: ``X``, its columns as numbers with words spelled out as 0 and 1, and ``z``, the target;
`fetch_foundation` writes them where there is a network.

A data set is the first n rows of a fixed permutation; a split sets a quarter of them apart, drawn by its seed. Columns
are standardised by the rows to learn from, as there. What they call Bank8FM is OpenML's house_8L.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.open.openml import read_openml
from diffor.datasets.readers.data_files import CURE, data_file
from diffor.datasets.samples import Dataset, Rows, Samples
from diffor.errors import UserError
from diffor.files.atomic import replacing

METRICS_OF_BENCHMARK = ("crps_grid", "crps", "mae", "coverage")
SIZES = (1000, 5000)
TEST_SHARE = 0.25
PERMUTATION_SEED = 42


@dataclass(frozen=True)
class FoundationTable:
    """A table of the benchmark: its name there, its number at OpenML, its shape and what its target is."""

    name: str
    openml_id: int
    n_rows: int
    n_columns: int
    target: str


TABLES = (
    FoundationTable("Abalone", 183, 4177, 10, "rings of a sea snail, which are its age"),
    FoundationTable("AmesHousing", 43926, 2930, 352, "dollars for a house in Ames, Iowa"),
    FoundationTable("Bank8FM", 218, 22784, 8, "median dollars for a house in a block of the census, house_8L"),
    FoundationTable("BikeSharing", 42712, 17379, 20, "bicycles hired within an hour"),
    FoundationTable("CPS88Wages", 44984, 28155, 12, "dollars per week of a working man in 1988"),
    FoundationTable("CalHousing", 537, 20640, 8, "median dollars for a house in a block of California"),
    FoundationTable("CpuSmall", 227, 8192, 12, "percent of the time that a computer works for its users"),
    FoundationTable("Diamonds", 42225, 53940, 26, "dollars for a diamond"),
    FoundationTable("Elevators", 216, 16599, 18, "what an aeroplane's elevators are told to do"),
    FoundationTable("GridStability", 44973, 10000, 12, "how stable a power grid is"),
    FoundationTable("Kin8nm", 189, 8192, 8, "reach of a robot arm"),
    FoundationTable("Pol", 201, 15000, 48, "a signal of telecommunication in eleven steps"),
    FoundationTable("SpaceGA", 507, 3107, 6, "logarithm of the share that voted in a county in 1980"),
    FoundationTable("WhiteWine", 44971, 4898, 11, "quality of white wine as experts grade it"),
)


def read_foundation(root: str | Path | None, table: FoundationTable, n_rows: int) -> Samples:
    """The first rows of the permuted table; columns are named by their numbers."""
    origin = (
        f": it holds X and z of OpenML's table {table.openml_id}, which "
        "diffor.datasets.open.foundation.fetch_foundation(root) fetches and writes"
    )
    # One root serves all tables on disk; the folder of these alone is a root, too.
    path = data_file(root, table.name, f"foundation/{table.name}.npz", f"{table.name}.npz", origin=origin)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            x, y = (np.asarray(arrays[name], dtype=np.float64) for name in ("X", "z"))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} must hold the arrays X and z, but {error}; {CURE}") from error
    _check_shape(x, y, str(path), table)
    if len(y) > n_rows:
        # The benchmark's own generator: another would choose other rows than its figures were measured on.
        kept = np.random.RandomState(PERMUTATION_SEED).permutation(len(y))[:n_rows]
        x, y = x[kept], y[kept]
    return Samples(pd.DataFrame(x, columns=[f"x{place}" for place in range(x.shape[1])]), y)


def split_foundation(root: str | Path | None, index: int, n_rows: int) -> tuple[Rows, Rows]:
    """Three quarters to learn from and one to test on, drawn by the index and in the benchmark's order."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(n_rows), test_size=TEST_SHARE, random_state=index)
    return np.asarray(train), np.asarray(test)


def fetch_foundation(root: str | Path, names: Sequence[str] | None = None) -> list[Path]:
    """Fetch tables from OpenML, all or those of some names, and write their files; those that exist are left alone."""
    written = []
    for table in TABLES:
        path = Path(root) / "foundation" / f"{table.name}.npz"
        if path.exists() or (names is not None and table.name not in names):
            continue
        samples = read_openml(root, f"openml:{table.openml_id}")
        x = pd.get_dummies(samples.x, dtype=float).to_numpy(dtype=np.float64)
        _check_shape(x, samples.y, f"OpenML's table {table.openml_id}", table)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:  # a part of a file would be taken for the whole one ever after
            np.savez_compressed(temporary, X=x, z=samples.y)
        written.append(path)
    return written


def _check_shape(x: NDArray[np.float64], y: NDArray[np.float64], where: str, table: FoundationTable) -> None:
    if x.shape != (table.n_rows, table.n_columns) or y.shape != (table.n_rows,):
        raise UserError(
            f"{where} must hold X of {table.n_rows} rows and {table.n_columns} columns and as many z, "
            f"but {x.shape} and {y.shape}; {CURE}"
        )


FOUNDATION = tuple(
    Dataset(
        name=f"foundation-{table.name.lower()}-{n_rows}",
        description=f"{n_rows:,} rows of {table.name}: {table.target}",
        source=f"OpenML {table.openml_id}, splits of rizbicki/tabDensityComparisons",
        metrics=METRICS_OF_BENCHMARK,
        read=partial(read_foundation, table=table, n_rows=n_rows),
        split=partial(split_foundation, n_rows=n_rows),
        standardised=True,
    )
    for n_rows in SIZES
    for table in TABLES
    if table.n_rows >= n_rows
)
"""Fourteen tables with 1,000 rows, and those that have as many with 5,000."""
