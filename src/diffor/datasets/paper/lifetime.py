"""Lifetime value: Criteo's sponsored search conversions and Kaggle's valued shoppers, read as their owners ship them.

Inputs are listed one by one, so that nothing else gets in. What stays out at Criteo: the three outcomes, and the price
of the product, which is 0 in every row without a sale. Of the shoppers, only the first day is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.arrow_cache import CachedTable, cached_table
from diffor.datasets.readers.customer_years import ATTRIBUTES, FIRST_DATES, TRANSACTIONS, customer_years
from diffor.datasets.readers.data_files import from_codes
from diffor.datasets.readers.published_files import PublishedFile
from diffor.datasets.readers.reading import ReadReport, cache_folder, data_root, need_below
from diffor.datasets.readers.text_tables import TextFormat
from diffor.datasets.samples import Samples
from diffor.datasets.splits import Split, random_parts
from diffor.errors import UserError

Root = str | Path | None

SHARES = (0.7, 0.1, 0.2)
"""Training, validation and test shares.

NOTE[DIFF]: the paper does not say whether a user's rows may lie on both sides. Here they stay together, else the test
would ask about people whose answers were seen."""

# Criteo.

CRITEO_OBTAIN = (
    "Download Criteo_Conversion_Search.tar.gz (2.0 GB, CC BY-NC-SA 4.0) by way of the page 'Criteo Sponsored Search "
    "Conversion Log Dataset' of ailab.criteo.com and unpack it below the root; it makes the file "
    "Criteo_Conversion_Search/CriteoSearchData (6.4 GB)."
)
HASHES = (
    "product_age_group", "device_type", "audience_id", "product_gender", "product_brand",
    *(f"product_category{number}" for number in range(1, 8)), "product_country", "product_id", "product_title",
    "partner_id", "user_id",
)  # fmt: skip
"""Columns that the owner has replaced by hashes; ``-1`` and nothing stand for a missing value."""
CLICKS = TextFormat(
    {
        "Sale": "int32", "SalesAmountInEuro": "float64", "time_delay_for_conversion": "int64",
        "click_timestamp": "int64", "nb_clicks_1week": "int32", "product_price": "float64",
        **dict.fromkeys(HASHES, "string"),
    },
    separator="\t",
    has_header=False,
    cure="take CriteoSearchData as it is in the archive: parted by tabs, without a header",
)  # fmt: skip
DAY, HOUR = 86_400, 3_600
CRITEO_FILES = (
    PublishedFile(
        ("CriteoSearchData",),
        n_bytes=6_426_808_162,
        digest=("sha256", "a2ee46feec6008f901ab1ce5e51a44b591b5194285ef86a141b5cc54dbde0567"),
    ),
)


def criteo_table(root: Root = None, on_bad_row: str = "raise") -> CachedTable:
    """The log by way of the cache."""
    top = data_root(root, "criteo", CRITEO_OBTAIN)
    source = need_below(top, "criteo", CRITEO_OBTAIN, "CriteoSearchData")
    return cached_table(source, CLICKS, cache_folder(top), on_bad_row=on_bad_row)


def survey_criteo(root: Root = None, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read Criteo's log: euros within 30 days after a click.

    Inputs are columns of the file, and ``hour`` and ``weekday`` of the click, whose clock is shifted by an unknown
    time. Every text of a column of hashes is a category of its own. Arrays are made beforehand and filled batch by
    batch, and columns of hashes are read one at a time, so that no text is in memory for long.
    """
    table = criteo_table(root, on_bad_row)
    types = {"nb_clicks_1week": np.float64, "hour": np.int8, "weekday": np.int8}
    found: dict[str, NDArray[Any]] = {name: np.empty(table.n_rows, dtype=kind) for name, kind in types.items()}
    y = np.empty(table.n_rows)
    numbers = ["nb_clicks_1week", "click_timestamp", "SalesAmountInEuro"]
    end = 0
    for batch in table.batches(numbers):
        part = slice(end, end + batch.num_rows)
        end = part.stop
        clicks, seconds, amount = (batch.column(name).to_numpy(zero_copy_only=False) for name in numbers)
        found["nb_clicks_1week"][part] = np.where(clicks == -1, np.nan, clicks)
        found["hour"][part] = seconds // HOUR % 24
        found["weekday"][part] = seconds // DAY % 7
        y[part] = np.maximum(amount, 0.0)  # -1 where nothing was sold
    inputs: dict[str, Any] = {**found, "weekday": from_codes(found["weekday"], np.arange(7))}
    inputs |= {name: exact_categories(table, name) for name in HASHES}
    groups = hashed_column(table, "user_id")[0].view(np.int64)
    return Samples(pd.DataFrame(inputs, copy=False), y, groups=groups), _report(table)


def split_criteo(root: Root, index: int) -> Split:
    """By user, drawn by the index."""
    users = hashed_column(criteo_table(root, "drop"), "user_id")[0].view(np.int64)
    return random_parts(len(users), index, SHARES, users)


def _report(table: CachedTable) -> ReadReport:
    return ReadReport([table.source], table.n_read, dict(table.dropped))


def hash_rows(column: Any) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """64 bits that stand for the text of each row, and whether it is missing; equal texts give equal bits everywhere.

    **Shape:** ``(n,)`` each, of an Arrow dictionary column.
    """
    texts = column.dictionary.to_numpy(zero_copy_only=False).astype(object)
    places = column.indices.to_numpy(zero_copy_only=False)
    bits = pd.util.hash_array(texts, categorize=False)
    return bits[places], np.isin(texts, ["-1", ""])[places]


def hashed_column(table: CachedTable, name: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The same of a whole column. **Shape:** ``(n_rows,)`` each."""
    bits, is_missing = np.empty(table.n_rows, dtype=np.uint64), np.empty(table.n_rows, dtype=bool)
    end = 0
    for batch in table.batches([name], coded=[name], purpose=f"code {name} of"):
        part = slice(end, end + batch.num_rows)
        end = part.stop
        bits[part], is_missing[part] = hash_rows(batch.column(name))
    return bits, is_missing


def exact_categories(table: CachedTable, name: str) -> pd.Categorical:
    """A column of hashes as categories, one for each text: 64 bits tell millions of them apart. **Shape:** ``(n,)``."""
    bits, is_missing = hashed_column(table, name)
    levels, codes = np.unique(bits[~is_missing], return_inverse=True)
    places = np.full(len(bits), -1, dtype=np.int32)
    places[~is_missing] = codes
    return from_codes(places, levels)


# Shoppers.

SHOPPERS_OBTAIN = (
    "Accept the rules of the Kaggle competition acquire-valued-shoppers-challenge, download its data, and put "
    "transactions.csv.gz (2.9 GB) below the root; leave it gzipped, but unpack the zip file around it."
)
SHOPPERS_FILES = (PublishedFile(("transactions.csv.gz", "transactions.csv"), TRANSACTIONS.header, n_rows=349_655_789),)


def survey_shoppers(root: Root = None, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read the shoppers: dollars in the year after the first day, one row for each customer of each company.

    NOTE[DIFF]: the paper takes the three companies with most transactions without naming them; here lines of returns
    count among these.
    """
    customers, report = _customers(root, on_bad_row)
    inputs: dict[str, Any] = {name: customers[name].astype("category") for name in ("company", *ATTRIBUTES)}
    inputs["log_calibration_value"] = np.log(customers["calibration_value"])
    y = customers["holdout_value"].to_numpy(dtype=np.float64)
    return Samples(pd.DataFrame(inputs), y, groups=customers["id"].to_numpy(dtype=np.int64)), report


def split_shoppers(root: Root, index: int) -> Split:
    """By customer, drawn by the index."""
    customers = _customers(root, "drop")[0]["id"].to_numpy(dtype=np.int64)
    return random_parts(len(customers), index, SHARES, customers)


def _customers(root: Root, on_bad_row: str) -> tuple[pd.DataFrame, ReadReport]:
    top = data_root(root, "shoppers", SHOPPERS_OBTAIN)
    source = need_below(top, "shoppers", SHOPPERS_OBTAIN, *SHOPPERS_FILES[0].names)
    table = cached_table(source, TRANSACTIONS, cache_folder(top), on_bad_row=on_bad_row)
    customers, unused = customer_years(table, cache_folder(top))
    if not len(customers):
        raise UserError(
            f"{source} must hold customers whose first purchase lies in {' to '.join(FIRST_DATES)}, but none does; "
            "fetch the whole file"
        )
    report = _report(table)
    report.drop(unused)
    return customers, report
