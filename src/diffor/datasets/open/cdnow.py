"""CDNOW: what a customer of a record shop spends in the year after the day of the first purchase.

``<root>/cdnow/CDNOW_master.txt`` has one purchase per line and no header: customer, date as YYYYMMDD, number of CDs and
dollars, parted by blanks.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd

from diffor.datasets.readers.data_files import CURE, as_numbers, data_file, read_cells
from diffor.datasets.samples import Dataset, Samples, split_read
from diffor.errors import UserError

FILE = "cdnow/CDNOW_master.txt"
COLUMNS = ["customer", "date", "cds", "dollars"]
HORIZON_DAYS = 365


def read_cdnow(root: str | Path | None) -> Samples:
    """One row per customer, known by the first day with a purchase; the target is what the next 365 days bring."""
    purchases = _read_purchases(data_file(root, "cdnow", FILE))
    first_date = purchases.groupby("customer")["date"].transform("min")
    days_since = (purchases["date"] - first_date).dt.days
    # Inputs end with the first day and the target begins after it: no purchase is on both sides.
    first_day = purchases[days_since == 0].groupby("customer")
    later = purchases[(days_since > 0) & (days_since <= HORIZON_DAYS)].groupby("customer")["dollars"].sum()
    date = first_day["date"].first()
    inputs = pd.DataFrame(
        {
            "first_day": (date - pd.Timestamp(1997, 1, 1)).dt.days,
            "weekday": date.dt.day_name().astype("category"),
            "purchases": first_day.size(),
            "cds": first_day["cds"].sum(),
            "dollars": first_day["dollars"].sum(),
        }
    )
    spent = later.reindex(inputs.index, fill_value=0.0)
    return Samples(inputs.reset_index(drop=True), spent.to_numpy(dtype=float))


def _read_purchases(path: Path) -> pd.DataFrame:
    rows = read_cells(path, separator=None)
    if {len(row) for row in rows} != {len(COLUMNS)}:
        raise UserError(
            f"{path} must have {', '.join(COLUMNS)} in each line, but line 1 is {' '.join(rows[0])!r}; {CURE}"
        )
    cells = pd.DataFrame(rows, columns=COLUMNS, index=range(1, len(rows) + 1))
    purchases = as_numbers(cells, path)
    dates = pd.to_datetime(cells["date"], format="%Y%m%d", errors="coerce")
    if dates.isna().any():
        line = dates.index[dates.isna()][0]
        raise UserError(f"{path} must have dates as YYYYMMDD, but line {line} has {cells.loc[line, 'date']}; {CURE}")
    purchases["date"] = dates.to_numpy()
    return purchases


CDNOW = Dataset(
    name="cdnow",
    description="dollars that 23,570 customers spend in the year after their first day; half of them nothing",
    source="CDNOW purchases 1997 to 1998, brucehardie.com/datasets",
    metrics=("mae", "rmse", "srcc", "normalized_gini", "crps", "coverage"),
    read=read_cdnow,
    split=partial(split_read, read=read_cdnow),
)
