"""What customers spend with a company in the year after their first day, from lines of transactions of any number.

A customer's lines may lie anywhere in the file, so it is read three times: for the companies with most lines, for the
first day of each customer, and for what is bought on that day and after it. Memory holds a block of lines and a few
numbers of each customer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from diffor.datasets.readers.arrow_cache import CachedTable, kept_result
from diffor.datasets.readers.text_tables import TextFormat

TRANSACTIONS = TextFormat(
    {
        "id": "int64", "chain": "int64", "dept": "int64", "category": "int64", "company": "int64", "brand": "int64",
        "date": "date32", "productsize": None, "productmeasure": "string", "purchasequantity": None,
        "purchaseamount": "float64",
    }
)  # fmt: skip
ATTRIBUTES = ("chain", "dept", "category", "brand", "productmeasure")
"""What is taken from the largest line of the first day."""
KEY = ["id", "company"]
N_COMPANIES = 3
"""Companies with most lines, returns among them; the paper does not name them."""
FIRST_DATES = ("2012-03-01", "2012-07-01")
"""First and last day, both included, of the first purchase from a company."""
HORIZON_DAYS = 365
"""Days after the first one whose purchases add up to the target; the last is included."""
LINES_IN_MEMORY = 2_000_000
"""Lines that are grouped at a time, some hundred bytes each."""
DROPPED = "dropped"


def customer_years(
    table: CachedTable, cache: Path, n_companies: int = N_COMPANIES, n_lines: int = LINES_IN_MEMORY
) -> tuple[pd.DataFrame, dict[str, int]]:
    """One row for each customer of each company, in their order, and the lines that no row uses by reason."""

    def make() -> Any:
        import pyarrow

        rows, dropped = _summarise(table, _largest_companies(table, n_companies), n_lines)
        found = pyarrow.Table.from_pandas(rows, preserve_index=False)
        return found.replace_schema_metadata({DROPPED: json.dumps(dropped)})

    key = [table.parts[0].path.name, dict(table.dropped), n_companies, FIRST_DATES, HORIZON_DAYS]
    found = kept_result(cache / "customers", key, make)
    return found.to_pandas(), json.loads(found.schema.metadata[DROPPED.encode()])


def _largest_companies(table: CachedTable, n_companies: int) -> list[int]:
    sizes: Counter[int] = Counter()
    for batch in table.batches(["company"], purpose="count companies of"):
        for row in batch.column("company").value_counts().to_pylist():
            sizes[row["values"]] += row["counts"]
    return sorted(sizes, key=lambda company: (-sizes[company], company))[:n_companies]


def _purchases(table: CachedTable, companies: Sequence[int], n_lines: int, dropped: Counter[str]) -> Iterator[Any]:
    """Purchases from these companies as data frames of about so many lines, in the order of the file."""
    import pyarrow
    from pyarrow import compute

    waiting: list[Any] = []
    wanted = pyarrow.array(companies, pyarrow.int64())
    columns = [*KEY, "date", "purchaseamount", *ATTRIBUTES]
    for batch in table.batches(columns, purpose="group"):
        chosen = batch.filter(compute.is_in(batch.column("company"), wanted))
        bought = chosen.filter(compute.greater(chosen.column("purchaseamount"), 0))
        dropped["lines of other companies"] += batch.num_rows - chosen.num_rows
        dropped["lines of returns or without an amount"] += chosen.num_rows - bought.num_rows
        waiting.append(bought)
        if sum(part.num_rows for part in waiting) >= n_lines:
            yield pyarrow.Table.from_batches(waiting).to_pandas(date_as_object=False)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting).to_pandas(date_as_object=False)


def _summarise(table: CachedTable, companies: Sequence[int], n_lines: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """Customers and companies from all their purchases, and the lines that are not used by reason."""
    first: pd.Series[Any] | None = None
    for lines in _purchases(table, companies, n_lines, Counter()):
        first = _combined(first, lines.groupby(KEY)["date"].min(), "min")
    assert first is not None  # a cached table has rows
    outside = f"lines of customers who did not come first in {FIRST_DATES[0]} to {FIRST_DATES[1]}"
    dropped: Counter[str] = Counter()
    largest: pd.DataFrame | None = None
    spent: pd.Series[Any] | None = None
    later: pd.Series[Any] | None = None
    for lines in _purchases(table, companies, n_lines, dropped):
        start = lines.join(first.rename("start"), on=KEY)["start"]
        is_inside = start.between(*map(pd.Timestamp, FIRST_DATES))
        since = (lines["date"] - start).dt.days
        is_late = is_inside & (since > HORIZON_DAYS)
        dropped[outside] += int((~is_inside).sum())
        dropped[f"lines later than {HORIZON_DAYS} days after the first"] += int(is_late.sum())
        # Inputs end with the first day and the target begins after it: no purchase is on both sides.
        first_day = lines[is_inside & (since == 0)]
        after = lines[is_inside & (since > 0) & ~is_late]
        largest = _largest_lines(largest, first_day)
        spent = _combined(spent, first_day.groupby(KEY)["purchaseamount"].sum(), "sum")
        later = _combined(later, after.groupby(KEY)["purchaseamount"].sum(), "sum")
    assert largest is not None
    assert later is not None
    rows = largest.groupby(KEY)[list(ATTRIBUTES)].first()
    rows["calibration_value"] = spent
    rows["holdout_value"] = later.reindex(rows.index, fill_value=0.0)
    return rows.reset_index(), dict(dropped)


def _combined(found: pd.Series[Any] | None, new: pd.Series[Any], how: str) -> pd.Series[Any]:
    """A number of each customer and company, of the blocks so far and of another one."""
    return new if found is None else pd.concat([found, new]).groupby(level=KEY).agg(how)


def _largest_lines(found: pd.DataFrame | None, new: pd.DataFrame) -> pd.DataFrame:
    """The largest line of each customer and company, and the largest that has a measure, where the first has none.

    Of lines with the same amount, the first in the file counts.
    """
    marked = new.assign(productmeasure=new["productmeasure"].replace("", None))
    both = marked if found is None else pd.concat([found, marked])
    ordered = both.sort_values("purchaseamount", ascending=False, kind="stable", ignore_index=True)
    measured = ordered[ordered["productmeasure"].notna()].drop_duplicates(KEY).index
    kept: pd.DataFrame = ordered[~ordered.duplicated(KEY) | ordered.index.isin(measured)]
    return kept
