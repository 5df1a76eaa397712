"""What customers spend with a company in the year after their first day, from lines of transactions of any number.

A customer's lines may lie anywhere in the file. So the lines of the chosen companies are first divided by customer into
files that each fit into memory, and then grouped one file after the other: memory holds one of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.arrow_cache import CachedTable, kept_result
from diffor.datasets.readers.text_blocks import TextFormat

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
LINES_IN_MEMORY = 2_000_000
"""Lines of a file of customers, more or less: some hundred bytes each while they are grouped."""
DROPPED = "dropped"


def company_sizes(table: CachedTable, cache: Path, with_returns: bool) -> dict[int, int]:
    """Number of lines of each company; without returns, only lines with a positive amount count."""

    def write(path: Path, scratch: Path) -> None:
        import pyarrow
        from pyarrow import compute, parquet

        sizes: Counter[int] = Counter()
        columns = ["company"] if with_returns else ["company", "purchaseamount"]
        for batch in table.batches(columns, purpose="count companies of"):
            lines = batch if with_returns else batch.filter(compute.greater(batch.column("purchaseamount"), 0))
            for row in compute.value_counts(lines.column("company")).to_pylist():
                sizes[row["values"]] += row["counts"]
        found = {"company": list(sizes), "lines": list(sizes.values())}
        parquet.write_table(pyarrow.table(found), path)

    found = kept_result(cache, "companies", {**table.key, "with_returns": with_returns}, write)
    return dict(zip(found["company"].to_pylist(), found["lines"].to_pylist(), strict=True))


def customer_years(
    table: CachedTable,
    cache: Path,
    companies: Mapping[int, int],
    first_dates: tuple[str, str],
    horizon_days: int,
    n_lines_in_memory: int = LINES_IN_MEMORY,
) -> tuple[pd.DataFrame, dict[str, int]]:
    """One row for each customer of each company, and the lines that no row uses by reason.

    ``companies`` gives the lines of each company; rows are in the order of customer and company.
    """
    n_parts = max(1, -(-sum(companies.values()) // n_lines_in_memory))

    def write(path: Path, scratch: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        dropped = _divide(table, scratch, list(companies), n_parts)
        rows = []
        for part in sorted(scratch.iterdir()):
            found, unused = summarise(_read_part(part), first_dates, horizon_days)
            rows.append(found)
            dropped.update(unused)
        joined = pd.concat(rows).sort_values(KEY, ignore_index=True)
        found = pyarrow.Table.from_pandas(joined, preserve_index=False)
        parquet.write_table(found.replace_schema_metadata({DROPPED: json.dumps(dict(dropped))}), path)

    key = {
        **table.key,
        "companies": sorted(companies),
        "first_dates": first_dates,
        "horizon_days": horizon_days,
    }
    found = kept_result(cache, "customers", key, write)
    return found.to_pandas(), json.loads(found.schema.metadata[DROPPED.encode()])


def _divide(table: CachedTable, folder: Path, companies: Sequence[int], n_parts: int) -> Counter[str]:
    """Write the purchases from these companies into files by customer, in the order of the lines."""
    import pyarrow
    from pyarrow import compute, ipc

    columns = ["id", "company", "date", "purchaseamount", *ATTRIBUTES]
    dropped: Counter[str] = Counter()
    wanted = pyarrow.array(companies, pyarrow.int64())
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in table.batches(columns, purpose="divide"):
            chosen = batch.filter(compute.is_in(batch.column("company"), wanted))
            bought = chosen.filter(compute.greater(chosen.column("purchaseamount"), 0))
            dropped["lines of other companies"] += batch.num_rows - chosen.num_rows
            dropped["lines of returns or without an amount"] += chosen.num_rows - bought.num_rows
            part = customer_part(bought.column("id").to_numpy(), n_parts)
            order = np.argsort(part, kind="stable")
            ends = np.cumsum(np.bincount(part, minlength=n_parts)).tolist()
            ordered = bought.take(order)
            for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if end > start:
                    if number not in writers:
                        path = folder / f"customers-{number:05d}.arrow"
                        writers[number] = stack.enter_context(ipc.new_file(path, bought.schema))
                    writers[number].write_batch(ordered.slice(start, end - start))
    return dropped


def customer_part(customers: NDArray[np.int64], n_parts: int) -> NDArray[np.int64]:
    """Which file a customer's lines go to: always the same one, and all of them about equally often.

    >>> customer_part(np.array([86246, 86252, 86246]), 4).tolist()
    [2, 3, 2]
    """
    # Neighbouring numbers are sent far apart, so that a pattern in how they were given does not fill one file.
    mixed = customers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(32)) % np.uint64(n_parts), dtype=np.int64)


def _read_part(path: Path) -> pd.DataFrame:
    from pyarrow import ipc

    with ipc.open_file(path) as file:
        lines: pd.DataFrame = file.read_all().to_pandas(date_as_object=False)
    return lines


def summarise(
    lines: pd.DataFrame, first_dates: tuple[str, str], horizon_days: int
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Customers and companies from all their purchases, and the lines that are not used by reason."""
    first_date = lines.groupby(KEY)["date"].transform("min")
    since = (lines["date"] - first_date).dt.days
    is_inside = first_date.between(pd.Timestamp(first_dates[0]), pd.Timestamp(first_dates[1]))
    is_late = is_inside & (since > horizon_days)
    unused = {
        f"lines of customers who did not come first in {first_dates[0]} to {first_dates[1]}": int((~is_inside).sum()),
        f"lines later than {horizon_days} days after the first": int(is_late.sum()),
    }
    # Inputs end with the first day and the target begins after it: no purchase is on both sides.
    first_day = lines[is_inside & (since == 0)]
    later = lines[is_inside & (since > 0) & ~is_late].groupby(KEY)["purchaseamount"].sum()
    # Of lines with the same amount, the first in the file counts; what the largest line lacks, the next one gives.
    largest = first_day.sort_values("purchaseamount", ascending=False, kind="stable")
    largest = largest.assign(productmeasure=largest["productmeasure"].replace("", None))
    rows = largest.groupby(KEY)[list(ATTRIBUTES)].first()
    rows["calibration_value"] = first_day.groupby(KEY)["purchaseamount"].sum()
    rows["holdout_value"] = later.reindex(rows.index, fill_value=0.0)
    return rows.reset_index(), unused
