"""Files: what is read equals what was written, in any chunks, and a file that is written is whole or absent."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffor.files import tables
from diffor.files.tables import DataError, check_numbers, column_names, read_chunks, read_table, table_writer


def write_csv(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def message_of(action, *arguments):
    with pytest.raises(DataError) as caught:
        list(action(*arguments) or ())
    assert "\n" not in str(caught.value).strip()
    return str(caught.value)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(50)],
            "a": rng.normal(size=50),
            "n": rng.integers(0, 9, size=50),
            "city": rng.choice(["Oslo", "São Paulo", 'a "b", c'], size=50),
        }
    )


@pytest.mark.parametrize(("suffix", "rows"), [(".csv", 7), (".csv", 50), (".csv.gz", 1000), (".parquet", 7)])
def test_chunks_put_together_are_the_table(tmp_path, table, suffix, rows):
    path = tmp_path / f"rows{suffix}"
    table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    chunks = list(read_chunks(path, ["a", "n"], ["city"], ["city", "id"], rows))
    assert [chunk.first for chunk in chunks] == list(range(0, 50, rows))
    assert max(len(chunk) for chunk in chunks) == min(rows, 50)
    together = pd.concat([chunk.table for chunk in chunks], ignore_index=True)
    np.testing.assert_array_equal(together["a"], table["a"])
    np.testing.assert_array_equal(together["n"], table["n"])
    assert together["city"].tolist() == table["city"].tolist()
    kept = pd.concat([chunk.kept for chunk in chunks], ignore_index=True)
    assert kept.columns.tolist() == ["city", "id"]
    assert kept["id"].tolist() == table["id"].tolist()
    whole = read_table(path, text=["id"])
    assert whole.columns.tolist() == table.columns.tolist()
    assert whole["id"].tolist() == table["id"].tolist()


def test_numbers_of_csv_are_read_to_the_last_bit(tmp_path):
    numbers = np.random.default_rng(1).normal(size=500) * 10.0 ** np.arange(-250, 250)
    path = tmp_path / "rows.csv"
    pd.DataFrame({"a": numbers}).to_csv(path, index=False)
    np.testing.assert_array_equal(read_table(path)["a"], numbers)
    chunks = [chunk.table["a"] for chunk in read_chunks(path, ["a"], [], rows=100)]
    np.testing.assert_array_equal(pd.concat(chunks), numbers)


def test_text_columns_are_text_in_every_chunk(tmp_path):
    path = write_csv(tmp_path / "rows.csv", "code,x\n01,1\n02,2\nB,3\n,4\n")
    chunks = list(read_chunks(path, ["x"], ["code"], rows=2))
    assert chunks[0].table["code"].tolist() == ["01", "02"]
    assert chunks[1].table["code"].tolist()[0] == "B"
    assert pd.isna(chunks[1].table["code"].tolist()[1])


def test_kept_columns_of_csv_are_copied_as_they_are_written(tmp_path):
    text = 'x,id,note\n1,007,NA\n2,1e3,"a, ""b"""\n3,,"two\nlines"\n4, 5 ,1.10\n'
    path = write_csv(tmp_path / "rows.csv", text)
    with table_writer(tmp_path / "copy.csv") as write:
        for chunk in read_chunks(path, ["x"], [], ["x", "id", "note"], rows=3):
            write(chunk.kept)
    assert (tmp_path / "copy.csv").read_text() == text


@pytest.mark.parametrize("as_read", [False, True])
def test_text_of_csv_is_no_formula_of_a_spreadsheet_and_numbers_stay_numbers(tmp_path, as_read):
    cells = ["=1+1", "+cmd", "-", "@x", "\tx", "-inf", "-5", "+1e3", "safe=1", None]
    rows = pd.DataFrame({"=note": cells, "change": -np.arange(10.0)})
    if as_read:  # with the types that kept columns of Parquet files have
        rows = rows.astype({"=note": pd.ArrowDtype(pytest.importorskip("pyarrow").string())})
    with table_writer(tmp_path / "out.csv") as write:
        write(rows)
    found = pd.read_csv(tmp_path / "out.csv", dtype={"'=note": str}, keep_default_na=False)
    escaped = ["'=1+1", "'+cmd", "'-", "'@x", "'\tx", "'-inf", "-5", "+1e3", "safe=1", ""]
    assert found["'=note"].tolist() == escaped
    assert found["change"].tolist() == (-np.arange(10.0)).tolist()


def test_kept_columns_of_parquet_keep_their_types(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    big = 2**53 + 1
    source = pa.table(
        {
            "x": pa.array([1.0, 2.0, None, 4.0]),
            "key": pa.array([big, None, 3, 4], pa.int64()),
            "day": pa.array([1, 2, None, 4], pa.date32()),
            "flag": pa.array([True, None, False, True]),
            "level": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "money": pa.array([None, None, None, 1]).cast(pa.decimal128(21, 2)),
            "words": pa.array([["a"], [], None, ["b", "c"]], pa.list_(pa.string())),
        }
    )
    path, copy = tmp_path / "rows.parquet", tmp_path / "copy.parquet"
    pq.write_table(source, path)
    with table_writer(copy) as write:
        for chunk in read_chunks(path, ["x"], ["key"], source.column_names, rows=2):
            write(chunk.kept)
            assert chunk.table["key"].dropna().tolist() in ([big], [3, 4])
    result = pq.read_table(copy)
    assert result.to_pylist() == source.to_pylist()
    assert {name: result.schema.field(name).type for name in ("key", "day", "flag", "money")} == {
        name: source.schema.field(name).type for name in ("key", "day", "flag", "money")
    }


def test_numbers_may_be_booleans_gaps_and_very_long(tmp_path):
    path = write_csv(tmp_path / "rows.csv", "flag,long\nTrue,99999999999999999999\n,1\nFalse,2\n")
    for chunk in read_chunks(path, ["flag", "long"], [], rows=2):
        for name in ("flag", "long"):
            chunk.table[name].to_numpy(dtype=np.float64, na_value=np.nan)
    with pytest.raises(DataError, match=r"column 'v' of rows\.csv must hold numbers, but got 'x' in row 12 after"):
        check_numbers(pd.Series(["1", "x"], name="v"), Path("rows.csv"), first=10)


def test_a_bad_number_is_named_with_its_row(tmp_path):
    path = write_csv(tmp_path / "rows.csv", "a\n" + "1.5\n" * 10 + "oops\n")
    reader = read_chunks(path, ["a"], [], rows=4)
    assert len(next(reader)) == len(next(reader)) == 4
    with pytest.raises(DataError, match="'oops' in row 11 after the header; correct the value or leave it empty"):
        next(reader)


def test_memory_holds_one_chunk_whatever_the_length(tmp_path):
    peaks = []
    for rows in (40_000, 120_000):  # both larger than the buffers of pandas, which do not grow with the file
        path = tmp_path / f"{rows}.csv"
        pd.DataFrame({"a": np.arange(rows) * 0.5, "c": "word"}).to_csv(path, index=False)
        list(read_chunks(path, ["a"], ["c"], ["c"], rows=50_000))  # imports and caches are not to be counted
        tracemalloc.start()
        for chunk in read_chunks(path, ["a"], ["c"], ["c"], rows=1000):
            assert len(chunk) <= 1000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_columns_without_a_name_are_no_columns(tmp_path, table):
    table.to_csv(tmp_path / "rows.csv")
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        assert column_names(tmp_path / name) == table.columns.tolist()
        assert read_table(tmp_path / name).columns.tolist() == table.columns.tolist()
    named = shuffled.set_index("id")
    named.to_parquet(tmp_path / "named.parquet")
    assert read_table(tmp_path / "named.parquet").columns.tolist() == ["a", "n", "city"]
    assert read_table(tmp_path / "named.parquet", ["id"])["id"].tolist() == shuffled["id"].tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"", "must hold a table, but the file is empty"),
        ("rows.csv", b"a,b\n", "must hold at least one row, but it has only a header"),
        ("rows.csv", b"a,b\n1,2,3\n4,5,6\n", "as many fields in each row as in its header"),
        ("rows.csv", b"a,b\n1,2\n3,4\n5,6,7\n", "must be a readable CSV file, but .*line 4"),
        ("rows.csv", b'a,b\n1,2\n3,"4\n', "must be a readable CSV file"),
        ("rows.csv", b"a,b\n1,\xff\xfe\n", "in UTF-8"),
        ("rows.csv", b"\x89PNG\r\n\x1a\n\x00\x00", "UTF-8|readable CSV|surplus"),
        ("rows.csv.gz", b"a,b\n1,2\n", "must be a readable CSV file"),
        ("rows.csv.gz", gzip.compress(b"a,b\n1,2\n" * 9)[:-9], "must be a readable CSV file"),
        ("rows.parquet", b"PAR1 not really", "must be a readable Parquet file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)

    def stream():
        names = column_names(path)
        list(read_chunks(path, [], names))

    with pytest.raises(DataError, match=message):
        stream()


def test_paths_that_are_no_files(tmp_path):
    assert "there is none; check the path" in message_of(column_names, tmp_path / "absent.csv")
    assert "it is a folder or a stream" in message_of(read_table, tmp_path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, table, monkeypatch):
    table.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'diffor[parquet]'" in message_of(column_names, tmp_path / "rows.parquet")
    assert "pip install 'diffor[parquet]'" in message_of(tables.check_table_output, tmp_path / "new.parquet", False)


def test_output_paths_are_checked(tmp_path):
    old = write_csv(tmp_path / "old.csv", "x\n")
    assert f"{tmp_path / 'no'} is none; create it" in message_of(tables.check_output, tmp_path / "no" / "a.csv", True)
    assert "pass --force" in message_of(tables.check_output, old, False)
    assert "something else has this name" in message_of(tables.check_output, tmp_path, True)
    assert "must end in .csv or .parquet" in message_of(tables.check_table_output, tmp_path / "a.xlsx", True)
    tables.check_table_output(old, True)
    tables.check_table_output(tmp_path / "new.parquet", False)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the administrator may write everywhere")
def test_output_in_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    assert "must be writable" in message_of(tables.check_output, tmp_path / "a.csv", False)


@pytest.mark.parametrize(
    ("suffix", "failure"),
    [(".csv", ValueError), (".csv", OSError(28, "Full")), (".parquet", KeyboardInterrupt)],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, table, suffix, failure):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"old")

    def write_half():
        with table_writer(path) as write:
            write(table)
            assert len(list(tmp_path.iterdir())) == 2
            raise failure

    with pytest.raises(DataError if isinstance(failure, OSError) else failure):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_in_pieces_is_read_as_one(tmp_path, table, suffix):
    path = tmp_path / f"out{suffix}"
    with table_writer(path) as write:
        for first in range(0, 50, 20):
            write(table.iloc[first : first + 20])
        assert not path.exists()
    assert tables.count_rows(path) == (50 if suffix == ".parquet" else None)
    result = read_table(path, text=["id"])
    pd.testing.assert_frame_equal(result, table, check_dtype=False)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.bz2", ".csv.xz"])
def test_nul_bytes_are_found_wherever_they_stand(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    opened = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}.get(suffix.rpartition(".")[2], open)
    with opened(path, "wb") as file:
        file.write(b"a,b\n" + b"1,2\n" * 200_000 + b"1\x002,3\n" + b"1,2\n" * 5)
    for read in (read_table, lambda path: list(read_chunks(path, ["a", "b"], [], keep=["a"]))):
        with pytest.raises(DataError, match="must be text in UTF-8, but byte 800006 is NUL"):
            read(path)
    path = tmp_path / "wide.csv"
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"(is NUL; convert the file to UTF-8|must be a CSV file in UTF-8)"):
        column_names(path)


def test_headers_that_name_a_column_twice_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,a\n1,2,3\n")
    for read in (column_names, read_table, lambda path: list(read_chunks(path, ["a"], []))):
        with pytest.raises(DataError, match=r"must name each column once, but 'a' stands twice in its header"):
            read(path)
    path.write_text("a,,b,\n1,2,3,4\n")  # columns without a name are none
    assert column_names(path) == ["a", "b"]
    path.write_text("a,a.1\n1,2\n")
    assert column_names(path) == ["a", "a.1"]
