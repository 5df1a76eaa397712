"""Small tables of many files for tests: files of uneven sizes, whose row groups are uneven, too."""

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

SIZES = (170, 60, 230)
TINY = {"preset": "fast", "random_state": 0, "verbose": 0, "encoder": "plain"}


def make_table(n, seed, first=0):
    random = np.random.default_rng(seed)
    x, city, user = random.random(n), random.integers(0, 4, n), random.integers(0, 30, n)
    return pd.DataFrame(
        {
            "row": np.arange(first, first + n),
            "x": np.where(random.random(n) < 0.1, np.nan, x),
            "city": np.array(["Oslo", "Rome", "Bern", "Nara"])[city],
            "user": user + 1_000_000,
            "weight": random.random(n) + 0.5,
            "y": np.round(5 * x + city + 0.2 * random.normal(size=n), 3),
            "stars": city,
        }
    )


def write_files(folder, sizes=SIZES, group_rows=50):
    """Write files into a folder; returns all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, first = [], 0
    for place, n in enumerate(sizes):
        tables.append(make_table(n, place, first))
        write(tables[-1], folder / f"part-{place}.parquet", group_rows)
        first += n
    return pd.concat(tables, ignore_index=True)


def write(table, path, group_rows=50):
    parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=group_rows)
