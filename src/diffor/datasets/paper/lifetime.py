"""Lifetime value: Criteo's sponsored search conversions and Kaggle's valued shoppers, read as their owners ship them.

Inputs are listed one by one, so that nothing else gets in. What stays out at Criteo: the three outcomes, and the price
of the product, which is 0 in every row without a sale. Of the shoppers, only the first day is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.arrow_cache import CachedTable
from diffor.datasets.readers.customer_years import ATTRIBUTES, TRANSACTIONS, company_sizes, customer_years
from diffor.datasets.readers.large_tables import (
    LargeTable,
    PublishedFile,
    check_choice,
    check_files,
    draw_rows,
    from_codes,
)
from diffor.datasets.readers.reading import CheckReport, ReadReport, data_root, need_below
from diffor.datasets.readers.text_blocks import TextFormat
from diffor.datasets.samples import Rows, Samples
from diffor.datasets.splits import Split
from diffor.errors import UserError

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
CRITEO_INPUTS = ("nb_clicks_1week", "hour", "weekday", *HASHES)
CRITEO_LEAKS = ("Sale", "time_delay_for_conversion", "product_price")
"""Outcomes, and a price that is known only of what was sold: no inputs, unless ``leaks`` names them."""
DAY, HOUR = 86_400, 3_600
CRITEO_FILES = (
    PublishedFile(
        ("CriteoSearchData",),
        n_bytes=6_426_808_162,
        digest=("sha256", "a2ee46feec6008f901ab1ce5e51a44b591b5194285ef86a141b5cc54dbde0567"),
    ),
)


@dataclass(frozen=True)
class Criteo(LargeTable):
    """How Criteo's log is read and split; each field is a choice that the publications leave open."""

    inputs: tuple[str, ...] = CRITEO_INPUTS
    """Columns of the file, and ``hour`` and ``weekday`` of the click, whose clock is shifted by an unknown time."""
    n_buckets: int = 10_000
    """Categories of each column of hashes: millions of them are sent to so many, by a fixed rule."""
    max_amount: float | None = None
    """Rows with a larger amount, in euros, are dropped; None keeps all, up to some 60,000."""
    leaks: tuple[str, ...] = ()
    """Columns to take as inputs, although they are not known before the target is."""

    def __post_init__(self) -> None:
        for name in self.inputs:
            check_choice("inputs", name, CRITEO_INPUTS)
        for leak in self.leaks:
            check_choice("leaks", leak, CRITEO_LEAKS)
        if not 2 <= self.n_buckets < 2**31:
            raise UserError(f"n_buckets must lie in 2 to 2**31 - 1, but got n_buckets={self.n_buckets}")

    def survey(self, root: str | Path | None = None) -> tuple[Samples, ReadReport]:
        """The samples, and what was read and dropped."""
        found, report = self._rows(root, [*self.inputs, *self.leaks])
        inputs = {name: self._input(name, found[name]) for name in [*self.inputs, *self.leaks]}
        return Samples(pd.DataFrame(inputs, copy=False), found["y"], groups=found["groups"]), report

    def split(self, root: str | Path | None, index: int) -> Split:
        """The rows of :meth:`survey`, divided by chance; the index draws."""
        return self.random_rows(self._rows(root, [])[0]["groups"], index)

    def _rows(self, root: str | Path | None, names: Sequence[str]) -> tuple[dict[str, NDArray[Any]], ReadReport]:
        """Inputs as numbers or codes, the target ``y`` and the users' ``groups``."""
        top = data_root(root, "criteo", CRITEO_OBTAIN)
        path = need_below(top, "criteo", CRITEO_OBTAIN, "CriteoSearchData")
        table = self.open(path, CLICKS, top)
        rows = draw_rows(table.n_rows, self.max_rows, self.seed)
        found = self._fill(table, rows, names)
        dropped = dict(table.dropped)
        n_read = table.n_rows + sum(dropped.values())
        if rows is not None:
            dropped["not drawn, because of max_rows"] = table.n_rows - len(rows)
        is_large = found["y"] > (np.inf if self.max_amount is None else self.max_amount)
        if is_large.any():
            dropped[f"SalesAmountInEuro is above {self.max_amount}"] = int(is_large.sum())
            found = {name: values[~is_large] for name, values in found.items()}
        return found, ReadReport([path], n_read, dropped)

    def _fill(self, table: CachedTable, rows: Rows | None, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Read batch by batch into arrays that are made beforehand, so that nothing is in memory twice."""
        n_rows = table.n_rows if rows is None else len(rows)
        found = {name: np.empty(n_rows, dtype=self._type(name)) for name in [*names, "y", "groups"]}
        hashed = [name for name in names if name in HASHES]
        sources = {"hour": "click_timestamp", "weekday": "click_timestamp", "y": "SalesAmountInEuro"}
        columns = dict.fromkeys([*(sources.get(name, name) for name in [*names, "y"]), "user_id"])
        place = 0
        for batch in table.batches(list(columns), rows=rows, coded=[*hashed, "user_id"]):
            part = slice(place, place + batch.num_rows)
            place = part.stop
            for name in hashed:
                found[name][part] = bucket_codes(batch.column(name), self.n_buckets)
            found["groups"][part] = hash_rows(batch.column("user_id"))[0].view(np.int64)
            for name in set(found).difference(hashed, ["groups"]):
                found[name][part] = _number(name, batch.column(sources.get(name, name)).to_numpy(zero_copy_only=False))
        return found

    def _type(self, name: str) -> type[np.generic]:
        if name in HASHES:
            return np.int16 if self.n_buckets < 2**15 else np.int32
        types: dict[str, type[np.generic]] = {"hour": np.int8, "weekday": np.int8, "groups": np.int64}
        return types.get(name, np.float64)

    def _input(self, name: str, values: NDArray[Any]) -> Any:
        if name in HASHES:
            return from_codes(values, np.arange(self.n_buckets))
        return from_codes(values, np.arange(7)) if name == "weekday" else values


def _number(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """A column of numbers as it is used. **Shape:** ``(n,)``."""
    if name == "y":
        return np.asarray(np.maximum(values, 0.0))  # -1 where nothing was sold
    if name == "hour":
        return np.asarray(values // HOUR % 24)
    if name == "weekday":
        return np.asarray(values // DAY % 7)
    return np.where(values == -1, np.nan, values) if name == "nb_clicks_1week" else values


def hash_rows(column: Any) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """64 bits that stand for the text of each row, and whether it is missing; equal texts give equal bits everywhere.

    **Shape:** ``(n,)`` each, of an Arrow dictionary column.
    """
    texts = column.dictionary.to_numpy(zero_copy_only=False).astype(object)
    places = column.indices.to_numpy(zero_copy_only=False)
    bits = pd.util.hash_array(texts, categorize=False)
    return bits[places], np.isin(texts, ["-1", ""])[places]


def bucket_codes(column: Any, n_buckets: int) -> NDArray[np.int64]:
    """Buckets of the texts of an Arrow dictionary column, -1 for missing ones. **Shape:** ``(n,)``."""
    bits, is_missing = hash_rows(column)
    return np.where(is_missing, -1, (bits % np.uint64(n_buckets)).astype(np.int64))


def read_criteo(root: str | Path | None = None, **options: Any) -> Samples:
    """Euros within 30 days after a click, with the options of :class:`Criteo`."""
    return Criteo(**options).survey(root)[0]


def split_criteo(root: str | Path | None, index: int, **options: Any) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test on, with the options of :class:`Criteo`."""
    split = Criteo(**options).split(root, index)
    return split.learning, split.test


def check_criteo(root: str | Path | None = None, published: Sequence[PublishedFile] = CRITEO_FILES) -> CheckReport:
    """Size and checksum of the log."""
    return check_files(root, "criteo", CRITEO_OBTAIN, published)


# Shoppers.

SHOPPERS_OBTAIN = (
    "Accept the rules of the Kaggle competition acquire-valued-shoppers-challenge, download its data, and put "
    "transactions.csv.gz (2.9 GB) below the root; leave it gzipped, but unpack the zip file around it."
)
SHOPPERS_FILES = (PublishedFile(("transactions.csv.gz", "transactions.csv"), TRANSACTIONS.header, n_rows=349_655_789),)


@dataclass(frozen=True)
class Shoppers(LargeTable):
    """How the shoppers are read and split; each field is a choice that the publications leave open."""

    companies: tuple[int, ...] | None = None
    """Companies by number; None for the ``n_companies`` with most lines, which the paper does not name."""
    n_companies: int = 3
    with_returns: bool = True
    """Whether lines without a positive amount count when the companies with most lines are chosen."""
    first_dates: tuple[str, str] = ("2012-03-01", "2012-07-01")
    """First and last day, both included, of the first purchase from a company."""
    horizon_days: int = 365
    """Days after the first one whose purchases add up to the target; the last is included."""

    def __post_init__(self) -> None:
        if self.companies is None and self.n_companies < 1:
            raise UserError(f"n_companies must be at least 1, but got n_companies={self.n_companies}")
        if self.horizon_days < 1:
            raise UserError(f"horizon_days must be at least 1, but got horizon_days={self.horizon_days}")
        try:
            first, last = (pd.Timestamp(date) for date in self.first_dates)
        except ValueError as error:
            raise UserError(
                f"first_dates must be two dates as YYYY-MM-DD, but got first_dates={self.first_dates}"
            ) from error
        if first > last:
            raise UserError(f"first_dates must rise, but got first_dates={self.first_dates}")

    def survey(self, root: str | Path | None = None) -> tuple[Samples, ReadReport]:
        """The samples, one for each customer of each company, and which lines were read and dropped."""
        customers, report = self.customers(root)
        inputs: dict[str, Any] = {name: customers[name].astype("category") for name in ("company", *ATTRIBUTES)}
        inputs["log_calibration_value"] = np.log(customers["calibration_value"])
        y = customers["holdout_value"].to_numpy(dtype=np.float64)
        return Samples(pd.DataFrame(inputs), y, groups=customers["id"].to_numpy(dtype=np.int64)), report

    def split(self, root: str | Path | None, index: int) -> Split:
        """The rows of :meth:`survey`, divided by chance; the index draws."""
        return self.random_rows(self.customers(root)[0]["id"].to_numpy(dtype=np.int64), index)

    def customers(self, root: str | Path | None) -> tuple[pd.DataFrame, ReadReport]:
        """Customers and companies: the first day, and ``holdout_value``, the spending of the days after it."""
        top = data_root(root, "shoppers", SHOPPERS_OBTAIN)
        path = need_below(top, "shoppers", SHOPPERS_OBTAIN, "transactions.csv.gz", "transactions.csv")
        table = self.open(path, TRANSACTIONS, top)
        cache = self.cache_folder(top)
        companies = self._choose(company_sizes(table, cache, self.with_returns), path)
        customers, dropped = customer_years(table, cache, companies, self.first_dates, self.horizon_days)
        if not len(customers):
            raise UserError(
                f"{path} must hold customers whose first purchase lies in {' to '.join(self.first_dates)}, but "
                f"none of companies {', '.join(map(str, companies))} does; change first_dates or companies"
            )
        report = ReadReport([path], table.n_rows + sum(table.dropped.values()), {**table.dropped, **dropped})
        rows = draw_rows(len(customers), self.max_rows, self.seed)
        return customers if rows is None else customers.iloc[rows].reset_index(drop=True), report

    def _choose(self, sizes: dict[int, int], path: Path) -> dict[int, int]:
        if self.companies is None:
            order = sorted(sizes, key=lambda company: (-sizes[company], company))
            return {company: sizes[company] for company in order[: self.n_companies]}
        absent = [company for company in self.companies if company not in sizes]
        if absent:
            raise UserError(f"companies must be in {path}, but {absent[0]} is not; choose others")
        return {company: sizes[company] for company in self.companies}


def read_shoppers(root: str | Path | None = None, **options: Any) -> Samples:
    """Dollars in the year after the first day with a company, with the options of :class:`Shoppers`."""
    return Shoppers(**options).survey(root)[0]


def split_shoppers(root: str | Path | None, index: int, **options: Any) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test on, with the options of :class:`Shoppers`."""
    split = Shoppers(**options).split(root, index)
    return split.learning, split.test


def check_shoppers(root: str | Path | None = None, published: Sequence[PublishedFile] = SHOPPERS_FILES) -> CheckReport:
    """Header and number of lines of the transactions."""
    return check_files(root, "shoppers", SHOPPERS_OBTAIN, published)
