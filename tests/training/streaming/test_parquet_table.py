from __future__ import annotations

import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from stream_examples import SIZES, make_table, write, write_files

from diffor.files.tables import DataError
from diffor.training.streaming.parquet_table import ParquetTable, find_files, is_stream


def test_row_groups_of_all_files_are_numbered_through(tmp_path):
    write_files(tmp_path)
    table = ParquetTable(find_files(str(tmp_path)))
    assert table.n_rows == sum(SIZES)
    assert [group.n_rows for group in table.groups] == [50, 50, 50, 20, 50, 10, 50, 50, 50, 50, 30]
    assert [group.first for group in table.groups][:6] == [0, 50, 100, 150, 170, 220]
    assert table.kinds == dict.fromkeys(["row", "x", "user", "weight", "y", "stars"], "number") | {"city": "text"}


@pytest.mark.parametrize("skip", [0, 7, 49])
def test_blocks_start_after_the_rows_to_skip(tmp_path, skip):
    rows = write_files(tmp_path)
    table = ParquetTable(find_files(str(tmp_path / "*.parquet")))
    group = table.groups[5 if skip < 10 else 4]
    found = [(place, table.frame(block)) for place, block in table.blocks(group, ["row", "city"], skip)]
    assert found[0][0] == skip
    read = pd.concat([frame for _, frame in found])
    wanted = rows.iloc[group.first + skip : group.first + group.n_rows]
    assert read["row"].tolist() == wanted["row"].tolist()
    assert read["city"].tolist() == wanted["city"].tolist()


def test_blocks_of_a_long_group_follow_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("diffor.training.streaming.parquet_table.BLOCK_ROWS", 16)
    write_files(tmp_path)
    table = ParquetTable(find_files(str(tmp_path)))
    places = [(place, len(block)) for place, block in table.blocks(table.groups[0], ["row"], skip=20)]
    assert places == [(20, 12), (32, 16), (48, 2)]


def test_frames_hold_text_and_ids_as_categories_and_all_else_as_numbers_and_times(tmp_path):
    columns = {
        "text": pa.array(["a", None, "a"]),
        "coded": pa.array(["b", "a", None]).dictionary_encode(),
        "id": pa.array([2**62 + 1, None, 7]),
        "whole": pa.array([1, None, 3]),
        "flag": pa.array([True, None, False]),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.25")]),
        "day": pa.array([0, 1, None], pa.date32()),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = ParquetTable([tmp_path / "a.parquet"], ids=["id"])
    frame = table.frame(next(table.blocks(table.groups[0], list(columns)))[1])
    assert frame["text"].cat.categories.tolist() == ["a"]
    assert frame["coded"].tolist()[:2] == ["b", "a"]
    assert frame["id"].cat.categories.tolist() == [2**62 + 1, 7]  # as floats, such ids would be rounded
    assert frame["whole"].tolist()[::2] == [1.0, 3.0]
    assert frame["flag"].tolist()[::2] == [1.0, 0.0]
    assert frame["price"].tolist()[::2] == [1.5, 2.25]
    assert frame["day"].iloc[1] == pd.Timestamp("1970-01-02")
    assert frame.iloc[1][["text", "id", "whole", "flag", "price"]].isna().all()


def test_the_digest_tells_files_apart(tmp_path):
    write_files(tmp_path / "a")
    write_files(tmp_path / "b")
    write_files(tmp_path / "c", group_rows=49)
    first, same, other = (ParquetTable(find_files(str(tmp_path / name))).digest for name in "abc")
    assert first == same != other


def test_a_row_is_described_by_its_file(tmp_path):
    write_files(tmp_path)
    table = ParquetTable(find_files(str(tmp_path)))
    assert table.describe(0) == f"row 1 of {tmp_path / 'part-0.parquet'}"
    assert table.describe(SIZES[0] + 55) == f"row 56 of {tmp_path / 'part-1.parquet'}"


def test_patterns_and_folders_are_streams_and_single_files_are_not(tmp_path):
    (tmp_path / "a[1].parquet").touch()
    assert is_stream(str(tmp_path))
    assert is_stream("data/**/*.pq")
    assert not is_stream(str(tmp_path / "a.parquet"))
    assert not is_stream(str(tmp_path / "a[1].parquet"))


def test_what_matches_no_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\*\.parquet must match at least one file, but none; check the pattern"):
        find_files(str(tmp_path / "*.parquet"))
    with pytest.raises(DataError, match="must match at least one file, but none; pass a folder or a pattern"):
        find_files(str(tmp_path))
    (tmp_path / "rows.csv").touch()
    with pytest.raises(DataError, match=r"must end in .parquet or .pq, but .* matches .*rows.csv; write them"):
        find_files(str(tmp_path / "*"))


def test_files_that_disagree_are_refused_by_file_and_column(tmp_path):
    rows = make_table(20, 0)
    write(rows, tmp_path / "a.parquet")
    for changed in (rows.drop(columns="city"), rows.assign(city=np.arange(20)), rows.assign(more=1)):
        write(changed, tmp_path / "b.parquet")
        name = "more" if "more" in changed else "city"
        with pytest.raises(DataError, match=rf"column '{name}' is .* in .*a\.parquet and .* in .*b\.parquet; write"):
            ParquetTable(find_files(str(tmp_path)))
    write(rows.astype({"user": "float32", "x": "float32"}), tmp_path / "b.parquet")
    assert ParquetTable(find_files(str(tmp_path))).n_rows == 40


def test_empty_and_broken_files_are_refused(tmp_path):
    write(make_table(0, 0), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="must hold at least one row, but all 1 files are empty"):
        ParquetTable([tmp_path / "a.parquet"])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"b\.parquet must be a readable Parquet file, but"):
        ParquetTable([tmp_path / "b.parquet"])


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs pyarrow, but it is not installed; pip install 'diffor\[parquet\]'"):
        ParquetTable(find_files(str(tmp_path)))
