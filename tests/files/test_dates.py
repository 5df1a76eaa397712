"""Dates that CSV files spell: which spellings are read, and which are left as text."""

import numpy as np
import pandas as pd
import pytest

from diffor.files.dates import as_times, is_unclear
from diffor.files.tables import DataError, read_chunks, read_table


@pytest.mark.parametrize(
    ("spelled", "first"),
    [
        (["2026-11-19", "1999-01-02"], "2026-11-19"),
        (["2026/11/19", None], "2026-11-19"),
        (["2026-11-19 08:30", "2026-11-20 08:30:15.25"], "2026-11-19 08:30"),
        (["2026-11-19T08:30:00Z", "2026-11-19T08:30:00+02:00"], "2026-11-19 08:30"),
        (["19.11.2026", "1.2.1999"], "2026-11-19"),
        (["9999-12-31"], "9999-12-31"),
    ],
)
def test_dates_that_mean_one_day_only_are_read(spelled, first):
    times = as_times(pd.Series(spelled, name="day"))
    assert times.name == "day"
    assert times.iloc[0] == pd.Timestamp(first)
    assert times.isna().tolist() == [text is None for text in spelled]


def test_times_of_another_zone_are_moved_to_one():
    times = as_times(pd.Series(["2026-11-19T08:30:00+02:00"]))
    assert times.iloc[0] == pd.Timestamp("2026-11-19 06:30")


@pytest.mark.parametrize(
    "spelled",
    [["3/4/2026"], ["2026-11-19", "soon"], ["2026-02-31"], ["20261119"], ["1.5"], [None, None], ["2026-11/19"]],
)
def test_everything_else_stays_text(spelled):
    assert as_times(pd.Series(spelled, dtype=object)) is None
    assert as_times(pd.Series([1.5, 2.5])) is None


def test_days_and_months_that_cannot_be_told_apart_are_noticed():
    assert is_unclear(pd.Series(["3/4/2026", "12/31/2026 10:00"]))
    assert not is_unclear(pd.Series(["2026/11/19"]))


def test_tables_and_chunks_of_them_hold_the_same_times(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("day,size,name\n2026-11-19,1,a\n,2,b\n2026-11-21,3,2026-11-21\n")
    table = read_table(path)
    assert table["day"].dt.day.tolist() == pytest.approx([19, np.nan, 21], nan_ok=True)
    assert not pd.api.types.is_datetime64_any_dtype(table["name"])
    as_written = read_table(path, text=["day"])
    assert as_written["day"].iloc[0] == "2026-11-19"
    days = [chunk.table["day"].iloc[0] for chunk in read_chunks(path, ["day", "size"], ["name"], rows=1)]
    assert [day == pd.Timestamp("2026-11-19") for day in days] == [True, False, False]
    path.write_text("day,size\n2026-11-19,1\nsoon,2\n")
    with pytest.raises(DataError, match=r"column 'day' of .* must hold numbers, but got 'soon' in row 2"):
        list(read_chunks(path, ["day", "size"], [], rows=1))
