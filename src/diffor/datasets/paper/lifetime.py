"""Lifetime value: Criteo's sponsored search conversions and Kaggle's valued shoppers, read as their owners ship them.

Inputs are listed one by one, so that nothing else gets in. What stays out at Criteo: the three outcomes, and the price
of the product, which is 0 in every row without a sale. Of the shoppers, only the first day is seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.paper.sets import table_set
from diffor.datasets.readers.arrow_cache import CachedTable, cached_table
from diffor.datasets.readers.customer_years import ATTRIBUTES, FIRST_DATES, TRANSACTIONS, customer_years
from diffor.datasets.readers.data_files import from_codes
from diffor.datasets.readers.published_files import PublishedFile
from diffor.datasets.readers.reading import Place, ReadReport, cache_folder
from diffor.datasets.readers.text_tables import TextFormat
from diffor.datasets.samples import Samples
from diffor.datasets.splits import Split, random_parts
from diffor.errors import UserError

METRICS = ("mae", "srcc", "rmse", "normalized_gini", "crps", "coverage")
SHARES = (0.7, 0.1, 0.2)
"""Training, validation and test shares.

NOTE[DIFF]: the paper does not say whether a user's rows may lie on both sides. Here they stay together, else the test
would ask about people whose answers were seen."""

# Criteo.

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


def criteo_table(place: Place, on_bad_row: str = "raise") -> CachedTable:
    """The log by way of the cache."""
    return cached_table(place.need("CriteoSearchData"), CLICKS, cache_folder(place.root), on_bad_row=on_bad_row)


def survey_criteo(place: Place, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read Criteo's log: euros within 30 days after a click.

    Inputs are columns of the file, and ``hour`` and ``weekday`` of the click, whose clock is shifted by an unknown
    time. Every text of a column of hashes is a category of its own. Columns are read one at a time, so that no text is
    in memory for long.
    """
    table = criteo_table(place, on_bad_row)
    clicks = table.arrays(["nb_clicks_1week"])["nb_clicks_1week"]
    inputs: dict[str, Any] = {"nb_clicks_1week": np.where(clicks == -1, np.nan, clicks)}
    seconds = table.arrays(["click_timestamp"])["click_timestamp"]
    inputs["hour"] = (seconds // HOUR % 24).astype(np.int8)
    inputs["weekday"] = from_codes((seconds // DAY % 7).astype(np.int8), np.arange(7))
    del clicks, seconds
    inputs |= {name: _categories(table, name) for name in HASHES}
    y = np.maximum(table.arrays(["SalesAmountInEuro"])["SalesAmountInEuro"], 0.0)  # -1 where nothing was sold
    return Samples(pd.DataFrame(inputs, copy=False), y, groups=_users_of(table)), _report(table)


def split_criteo(place: Place, index: int) -> Split:
    """By user, drawn by the index."""
    users = _users_of(criteo_table(place, "drop"))
    return random_parts(len(users), index, SHARES, users)


def _categories(table: CachedTable, name: str) -> pd.Categorical:
    """A column of hashes as categories, one for each text: 64 bits tell millions of them apart."""
    bits, is_missing = _hashed_column(table, name)
    levels, codes = np.unique(bits[~is_missing], return_inverse=True)
    places = np.full(len(bits), -1, dtype=np.int32)
    places[~is_missing] = codes
    return from_codes(places, levels)


def _users_of(table: CachedTable) -> NDArray[np.int64]:
    return _hashed_column(table, "user_id")[0].view(np.int64)


def _report(table: CachedTable) -> ReadReport:
    return ReadReport([table.source], table.n_read, dict(table.dropped))


def _hashed_column(table: CachedTable, name: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """64 bits that stand for the text of each row, and whether it is missing; equal texts give equal bits everywhere.

    **Shape:** ``(n_rows,)`` each.
    """
    bits, is_missing = np.empty(table.n_rows, dtype=np.uint64), np.empty(table.n_rows, dtype=bool)
    end = 0
    for batch in table.batches([name], coded=[name], purpose=f"code {name} of"):
        column, part = batch.column(name), slice(end, end + batch.num_rows)
        end = part.stop
        texts = column.dictionary.to_numpy(zero_copy_only=False).astype(object)
        places = column.indices.to_numpy(zero_copy_only=False)
        bits[part] = pd.util.hash_array(texts, categorize=False)[places]
        is_missing[part] = np.isin(texts, ["-1", ""])[places]
    return bits, is_missing


# Shoppers.

SHOPPERS_FILES = (PublishedFile(("transactions.csv.gz", "transactions.csv"), TRANSACTIONS.header, n_rows=349_655_789),)


def survey_shoppers(place: Place, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read the shoppers: dollars in the year after the first day, one row for each customer of each company.

    NOTE[DIFF]: the paper takes the three companies with most transactions without naming them; here lines of returns
    count among these.
    """
    customers, report = _customers(place, on_bad_row)
    inputs: dict[str, Any] = {name: customers[name].astype("category") for name in ("company", *ATTRIBUTES)}
    inputs["log_calibration_value"] = np.log(customers["calibration_value"])
    y = customers["holdout_value"].to_numpy(dtype=np.float64)
    return Samples(pd.DataFrame(inputs), y, groups=customers["id"].to_numpy(dtype=np.int64)), report


def split_shoppers(place: Place, index: int) -> Split:
    """By customer, drawn by the index."""
    customers = _customers(place, "drop")[0]["id"].to_numpy(dtype=np.int64)
    return random_parts(len(customers), index, SHARES, customers)


def _customers(place: Place, on_bad_row: str) -> tuple[pd.DataFrame, ReadReport]:
    source, cache = place.need(*SHOPPERS_FILES[0].names), cache_folder(place.root)
    table = cached_table(source, TRANSACTIONS, cache, on_bad_row=on_bad_row)
    customers, unused = customer_years(table, cache)
    if not len(customers):
        raise UserError(
            f"{source} must hold customers whose first purchase lies in {' to '.join(FIRST_DATES)}, but none does; "
            "fetch the whole file"
        )
    report = _report(table)
    report.drop(unused)
    return customers, report


LIFETIME = (
    table_set(
        name="criteo",
        description="euros within 30 days after each of 16 million clicks; nine in ten bring nothing",
        source="Criteo Sponsored Search Conversion Log, ailab.criteo.com (CC BY-NC-SA 4.0)",
        size="6.4 GB, 15,995,634 rows",
        licence="CC BY-NC-SA 4.0",
        obtain="Download Criteo_Conversion_Search.tar.gz (2.0 GB, CC BY-NC-SA 4.0) by way of the page 'Criteo "
        "Sponsored Search Conversion Log Dataset' of ailab.criteo.com and unpack it below the root; it makes the file "
        "Criteo_Conversion_Search/CriteoSearchData (6.4 GB).",
        metrics=METRICS,
        survey=survey_criteo,
        split=split_criteo,
        files=CRITEO_FILES,
    ),
    table_set(
        name="shoppers",
        description="dollars that customers spend with a company in the year after their first day with it",
        source="Kaggle, acquire-valued-shoppers-challenge (rules of the competition)",
        size="2.9 GB gzipped, 349,655,789 rows",
        licence="rules of the competition, no redistribution",
        obtain="Accept the rules of the Kaggle competition acquire-valued-shoppers-challenge, download its data, and "
        "put transactions.csv.gz (2.9 GB) below the root; leave it gzipped, but unpack the zip file around it.",
        metrics=METRICS,
        survey=survey_shoppers,
        split=split_shoppers,
        files=SHOPPERS_FILES,
    ),
)
"""Data sets of customers and what they bring."""
