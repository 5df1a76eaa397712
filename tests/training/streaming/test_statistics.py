from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from stream_examples import write_files

from diffor.files.tables import DataError
from diffor.training.distributed import World
from diffor.training.streaming import statistics
from diffor.training.streaming.parquet_table import ParquetTable, find_files
from diffor.training.streaming.statistics import LevelStatistics, NumberStatistics, survey

COLUMNS = ["x", "city", "user", "y"]


@pytest.fixture
def shards(tmp_path):
    return write_files(tmp_path), ParquetTable(find_files(str(tmp_path)), ids=["user"])


def test_one_pass_tells_ranges_gaps_and_levels_and_keeps_the_drawn_rows(shards):
    rows, table = shards
    keep = np.array([0, 49, 50, 200, 459])
    found = survey(table, COLUMNS, keep, World())
    numbers = found.columns["x"]
    assert (numbers.low, numbers.high) == (rows["x"].min(), rows["x"].max())
    assert numbers.n_missing == rows["x"].isna().sum()
    assert numbers.first_missing == int(rows["x"].isna().to_numpy().argmax())
    assert numbers.total == pytest.approx(rows["x"].sum())
    assert found.columns["city"].levels == set(rows["city"])
    assert found.columns["user"].levels == {str(user) for user in rows["user"]}
    assert found.kept.index.tolist() == keep.tolist()
    assert found.kept["y"].tolist() == rows["y"].iloc[keep].tolist()
    assert found.kept["city"].tolist() == rows["city"].iloc[keep].tolist()


def test_statistics_of_parts_are_put_together(shards):
    rows, _ = shards
    whole, parts = NumberStatistics(), [NumberStatistics(), NumberStatistics()]
    whole.see(rows["x"], "x", 0)
    parts[0].see(rows["x"].iloc[100:], "x", 100)
    parts[1].see(rows["x"].iloc[:100], "x", 0)
    parts[0].merge(parts[1])
    assert parts[0].total == pytest.approx(whole.total)
    parts[0].total = whole.total
    assert parts[0] == whole
    city = rows["city"].astype("category")
    levels, other = LevelStatistics(), LevelStatistics()
    levels.see(city.iloc[:3].cat.remove_unused_categories(), "city", 0)
    other.see(city.iloc[3:], "city", 3)
    levels.merge(other)
    assert levels.levels == set(rows["city"])


@pytest.mark.parametrize("n_levels", [20_000, 300_000])
def test_levels_beyond_the_list_are_counted_within_a_few_hundredths(monkeypatch, n_levels):
    monkeypatch.setattr(statistics, "MAX_LEVELS", 10_000)
    parts = [LevelStatistics(), LevelStatistics()]
    names = np.char.add("user-", np.arange(n_levels).astype(str)).astype(object)
    for place, part in enumerate(parts):
        for block in np.array_split(names[place * n_levels // 3 : (place + 2) * n_levels // 3], 7):
            part.see(pd.Series(pd.Categorical(block)), "user", 0)
    parts[0].merge(parts[1])
    assert parts[0].levels is None
    assert parts[0].count == pytest.approx(n_levels, rel=0.06)
    assert len(parts[0].sketch) == statistics.SKETCH_SIZE


def test_infinite_values_and_unreadable_columns_are_refused(tmp_path):
    parquet.write_table(pa.table({"x": [1.0, np.inf], "parts": [[1], [2]]}), tmp_path / "a.parquet")
    table = ParquetTable([tmp_path / "a.parquet"])
    with pytest.raises(ValueError, match="must not contain infinity, but column 'x' has 1 such values"):
        survey(table, ["x"], np.array([0]), World())
    with pytest.raises(DataError, match="column 'parts' must hold numbers, times or text, but it holds list<"):
        survey(table, ["parts"], np.array([0]), World())
