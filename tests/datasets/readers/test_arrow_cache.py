"""Text tables by way of the Parquet cache: whole, resumed after a kill, damaged, changed."""

import gzip
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffor.datasets.readers import arrow_cache
from diffor.datasets.readers.arrow_cache import MAX_BAD_ROWS, cached_table, kept_result, locked
from diffor.datasets.readers.text_tables import TextFormat
from diffor.files.tables import DataError

FORM = TextFormat(
    {"id": "int64", "skipped": None, "price": "float64", "seen": "date32", "word": "string"}, may_be_empty=("price",)
)
HEADER = "id,skipped,price,seen,word"


def row(number):
    price = "" if number % 7 == 0 else number / 4
    return f"{number},anything,{price},2012-03-{1 + number % 28:02d},word {number % 5}"


def write(path, n_rows, *, end="\n", change=None):
    """A table of so many rows; ``change`` gives other lines by their number, the header being line 1."""
    lines = [HEADER, *map(row, range(n_rows))]
    for number, line in (change or {}).items():
        lines[number - 1] = line
    data = (end.join(lines) + end).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows_of(table):
    batches = list(table.batches(list(FORM.kept)))
    return pd.concat([batch.to_pandas(date_as_object=False) for batch in batches], ignore_index=True)


def folder_of(cache):
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    return folder


@pytest.mark.parametrize(("name", "block_bytes"), [("table.csv", 1), ("table.csv.gz", 40), ("table.csv", 2**20)])
def test_blocks_of_any_size_give_the_same_rows(tmp_path, name, block_bytes):
    path = write(tmp_path / name, 60)
    table = cached_table(path, FORM, tmp_path / "cache", block_bytes=block_bytes)
    expected = pd.read_csv(path, parse_dates=["seen"]).drop(columns="skipped")
    pd.testing.assert_frame_equal(rows_of(table), expected, check_dtype=False)
    assert (table.n_rows, table.dropped) == (60, {})
    prices = table.arrays(["id", "price"])["price"]
    assert np.isnan(prices).tolist() == [number % 7 == 0 for number in range(60)]


@pytest.mark.parametrize("change", ["crlf", "no end", "blank lines"])
def test_line_ends_do_not_matter(tmp_path, change):
    path = write(tmp_path / "table.csv", 20, end="\r\n" if change == "crlf" else "\n")
    data = path.read_bytes()
    path.write_bytes({"crlf": data, "no end": data.rstrip(b"\n"), "blank lines": data + b"\n\n"}[change])
    found = rows_of(cached_table(path, FORM, tmp_path / "cache", block_bytes=30))
    assert found["id"].tolist() == list(range(20))
    assert found["word"].iloc[-1] == "word 4"


def test_a_second_call_reads_nothing_but_the_cache(tmp_path):
    path = write(tmp_path / "table.csv", 30)
    first = cached_table(path, FORM, tmp_path / "cache", block_bytes=200)
    times = [part.path.stat().st_mtime_ns for part in first.parts]
    again = cached_table(path, FORM, tmp_path / "cache")
    assert again == first
    assert len(times) > 3
    assert [part.path.stat().st_mtime_ns for part in again.parts] == times


def test_files_of_one_name_have_caches_of_their_own_that_move_with_them(tmp_path):
    for number, name in enumerate(("a", "b")):
        (tmp_path / "root" / name).mkdir(parents=True)
        path = write(tmp_path / "root" / name / "table.csv", 10 + number)
        assert cached_table(path, FORM, tmp_path / "root" / "cache").n_rows == 10 + number
    (tmp_path / "root").rename(tmp_path / "moved")
    before = {path.name for path in (tmp_path / "moved" / "cache").iterdir()}
    assert cached_table(tmp_path / "moved" / "b" / "table.csv", FORM, tmp_path / "moved" / "cache").n_rows == 11
    assert {path.name for path in (tmp_path / "moved" / "cache").iterdir()} == before


# Resuming.

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_arrow_cache import FORM
from diffor.datasets.readers.arrow_cache import cached_table
cached_table(Path(sys.argv[1]), FORM, Path(sys.argv[2]), block_bytes=4000)
"""


def test_a_killed_process_is_resumed_where_it_was(tmp_path):
    path, cache = write(tmp_path / "table.csv.gz", 20_000), tmp_path / "cache"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(cache), str(Path(__file__).parent)])
    deadline = time.monotonic() + 60
    while not list(cache.glob("*/part-*-00004.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = folder_of(cache)
    (folder / ".part-00009.abc.parquet").write_bytes(b"half a part")  # what a kill while writing leaves
    done = {part: part.stat().st_mtime_ns for part in folder.glob("part-*")}
    assert not list(folder.glob("complete-*"))
    assert len(done) >= 5

    table = cached_table(path, FORM, cache, block_bytes=100_000)
    assert {part: part.stat().st_mtime_ns for part in done} == done
    assert table.arrays(["id"])["id"].tolist() == list(range(20_000))
    assert {path.name for path in folder.iterdir()} - {part.path.name for part in table.parts} == {
        path.name for path in folder.glob("complete-*")
    }


@pytest.mark.parametrize("damage", ["missing", "cut", "unfinished"])
def test_a_damaged_cache_is_mended(tmp_path, damage):
    path, cache = write(tmp_path / "table.csv", 60), tmp_path / "cache"
    table = cached_table(path, FORM, cache, block_bytes=200)
    whole = rows_of(table)
    if damage == "missing":
        table.parts[3].path.unlink()
    elif damage == "cut":
        table.parts[3].path.write_bytes(table.parts[3].path.read_bytes()[:-9])
    else:
        next(folder_of(cache).glob("complete-*")).unlink()
    first = table.parts[0].path.stat().st_mtime_ns
    pd.testing.assert_frame_equal(rows_of(cached_table(path, FORM, cache, block_bytes=200)), whole)
    assert table.parts[0].path.stat().st_mtime_ns == first


@pytest.mark.parametrize("change", ["content", "time", "format", "version"])
def test_a_cache_of_another_state_is_not_used(tmp_path, monkeypatch, change):
    path, cache = write(tmp_path / "table.csv", 30), tmp_path / "cache"
    first, form = cached_table(path, FORM, cache), FORM
    if change == "content":
        write(path, 31)
    elif change == "time":
        os.utime(path, ns=(1, 1))
    elif change == "format":
        form = TextFormat(dict(FORM.columns) | {"id": "string"}, may_be_empty=FORM.may_be_empty)
    else:
        monkeypatch.setattr(arrow_cache, "VERSION", arrow_cache.VERSION + 1)
    second = cached_table(path, form, cache)
    assert second.n_rows == (31 if change == "content" else 30)
    assert not first.parts[0].path.exists()


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path, cache = write(tmp_path / "table.csv", 30), tmp_path / "cache"
    parse = arrow_cache.parse_block

    def disturbed(block, form):
        write(path, 31)
        return parse(block, form)

    monkeypatch.setattr(arrow_cache, "parse_block", disturbed)
    with pytest.raises(DataError, match=r"table\.csv must not change while it is read, but it did; run again"):
        cached_table(path, FORM, cache)
    monkeypatch.undo()
    assert cached_table(path, FORM, cache).n_rows == 31


def test_only_one_process_reads_a_file_at_a_time(tmp_path):
    path, cache, found = write(tmp_path / "table.csv", 30), tmp_path / "cache", []
    cached_table(path, FORM, cache)
    folder = folder_of(cache)
    os.utime(path, ns=(1, 1))
    thread = threading.Thread(target=lambda: found.append(cached_table(path, FORM, cache)))
    with locked(folder):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert not found
    thread.join(10)
    assert found[0].n_rows == 30


# Damage.


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-3], "ended before the end-of-stream marker"),
        (lambda data: data[:-8] + b"\0\0\0\0" + data[-4:], "CRC check failed"),
        (lambda data: data[:300] + b"\xff" * 40 + data[340:], "."),
        (lambda data: data + b"more", "Not a gzipped file"),
    ],
)
def test_damaged_gzip_is_named_and_cured_by_a_whole_file(tmp_path, damage, message):
    path, cache = write(tmp_path / "table.csv.gz", 3000), tmp_path / "cache"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.raises(DataError, match=rf"table\.csv\.gz must be a whole gzip file, but .*{message}.*; fetch the"):
        cached_table(path, FORM, cache, block_bytes=20_000)
    path.write_bytes(whole)
    assert cached_table(path, FORM, cache).arrays(["id"])["id"].tolist() == list(range(3000))


@pytest.mark.parametrize(
    ("line", "message", "reason"),
    [
        ("40,anything,1.5,2012-03-01", "5 cells in each line, but line 42 has 4", "wrong number of cells"),
        ("4x,a,1.5,2012-03-01,w", "of type int64 in column id, but line 42 has '4x'", "unreadable cell in column id"),
        (",a,1.5,2012-03-01,w", "of type int64 in column id, but line 42 has ''", "unreadable cell in column id"),
        ("40,a,nan,2012-03-01,w", "float64 in column price, but line 42 has 'nan'", "unreadable cell in column price"),
        ("40,a,1.5,2012-03-32,w", "column seen, but line 42 has '2012-03-32'", "unreadable cell in column seen"),
        ('40,a,"1.5",2012-03-01,w', "column price, but line 42 has '\"1.5\"'", "unreadable cell in column price"),
    ],
)
def test_a_bad_row_is_named_or_dropped_and_counted(tmp_path, line, message, reason):
    path, cache = write(tmp_path / "table.csv", 100, change={42: line}), tmp_path / "cache"
    cure = "fetch the file again, or pass on_bad_row='drop' to leave such rows out"
    with pytest.raises(DataError, match=f"{path} must .*{message}; {cure}"):
        cached_table(path, FORM, cache, block_bytes=300)
    table = cached_table(path, FORM, cache, on_bad_row="drop", block_bytes=300)
    assert table.arrays(["id"])["id"].tolist() == [number for number in range(100) if number != 40]
    assert table.dropped == {reason: 1}
    with pytest.raises(DataError, match="but line 42 has"):  # the cache does not hide what was dropped into it
        cached_table(path, FORM, cache)


def test_text_that_is_not_utf8_is_a_bad_row(tmp_path):
    path = write(tmp_path / "table.csv", 10)
    path.write_bytes(path.read_bytes().replace(b"word 3", b"w\xffrd 3", 1))
    with pytest.raises(DataError, match="must hold UTF-8 text in column word, but line 5 has"):
        cached_table(path, FORM, tmp_path / "cache")


def test_too_many_bad_rows_are_another_format(tmp_path):
    change = dict.fromkeys(range(2, MAX_BAD_ROWS + 4), "nothing")
    path = write(tmp_path / "table.csv", MAX_BAD_ROWS + 50, change=change)
    with pytest.raises(DataError, match=f"must have at most {MAX_BAD_ROWS} rows that cannot be read, but it has"):
        cached_table(path, FORM, tmp_path / "cache", on_bad_row="drop")
    path = write(tmp_path / "short.csv", 2, change={2: "nothing", 3: "nothing"})
    with pytest.raises(DataError, match=r"short\.csv must hold rows, but it has none that can be read; fetch"):
        cached_table(path, FORM, tmp_path / "cache", on_bad_row="drop")


@pytest.mark.parametrize("start", ["id,skipped,price,seen", "<!DOCTYPE html>", "", "\0" * 1000])
def test_another_header_is_refused(tmp_path, start):
    path = tmp_path / "table.csv"
    path.write_text(start + "\n" + row(0))
    with pytest.raises(DataError, match=rf"{path} must begin with the header {HEADER}, but got '.*'; fetch"):
        cached_table(path, FORM, tmp_path / "cache")
    path.write_text(HEADER)
    with pytest.raises(DataError, match="none that can be read"):
        cached_table(path, FORM, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    path = write(tmp_path / "table.csv", 5)
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DataError, match=r"taken must be a writable folder, but .*; set DIFFOR_CACHE to another"):
        cached_table(path, FORM, tmp_path / "taken")


def test_choices_and_packages_are_checked(tmp_path, monkeypatch):
    path = write(tmp_path / "table.csv", 5)
    with pytest.raises(ValueError, match="on_bad_row must be one of raise, drop, but got on_bad_row='skip'"):
        cached_table(path, FORM, tmp_path / "cache", on_bad_row="skip")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs pyarrow, but it is not installed; pip install 'diffor\[parquet\]'"):
        cached_table(path, FORM, tmp_path / "cache")


def test_results_are_kept_by_their_key(tmp_path):
    import pyarrow

    calls = []

    def make():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("killed")
        return pyarrow.table({"n": [len(calls)]})

    with pytest.raises(RuntimeError, match="killed"):
        kept_result(tmp_path / "kept", {"a": 1}, make)
    found = [kept_result(tmp_path / "kept", {"a": number}, make)["n"].to_pylist() for number in (1, 1, 2)]
    assert found == [[2], [2], [3]]
    assert {path.suffix for path in (tmp_path / "kept").iterdir()} == {".parquet"}


def test_the_benchmark_reads_a_generated_log_within_its_limit(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    streaming = importlib.import_module("streaming")
    streaming.main(["--bytes", "1e6", "--folder", str(tmp_path), "--threads", "1", "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert found["rows"] == streaming.CHUNK_ROWS
    assert found["within_limit"]
    assert found["cache_peak_mib"] >= found["imported_mib"] > 0
    assert found["cache_rows_per_second"] > 0
    assert found["bytes"] > 1e6
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]  # the log was temporary
