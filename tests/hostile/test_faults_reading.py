"""Files that are cut off, replaced, lengthened or removed while they are read: all rows of one state, or a refusal."""

import os
import shutil
import threading
import time

import numpy as np
import pandas as pd
import pytest
from kills_commands import COMMANDS, begun
from kills_processes import run_command

from diffor.files import tables
from diffor.files.tables import DataError

ROWS = 400
CHUNK = 50


def write(path, value):
    """A table of one value in every row, in short row groups where there are any."""
    table = pd.DataFrame({"a": np.full(ROWS, float(value)), "b": "text", "n": np.arange(ROWS)})
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False, row_group_size=CHUNK)


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def replace(path):
    write(other := path.with_name(f"other{path.suffix}"), 2)
    os.replace(other, path)


def write_over(path):
    write(path, 2)


def lengthen(path):
    with path.open("ab") as file:
        file.write(b"1.0,text,7\n")


def remove(path):
    path.unlink()


DAMAGES = [cut_off, empty, replace, write_over, lengthen, remove]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_are_of_one_state_or_refused(damage, suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    for after in range(ROWS // CHUNK):
        write(path, 1)
        os.utime(path, ns=(1, 1))
        chunks = tables.read_chunks(path, ["a", "n"], ["b"], keep=["a"], rows=CHUNK)
        for _ in range(after + 1):
            chunk = next(chunks)
            assert chunk.table["a"].eq(1).all()
        damage(path)
        with pytest.raises(DataError, match="must stay as it is while it is read, but it was changed or removed"):
            list(chunks)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_that_lost_its_columns_since_they_were_looked_at_is_refused(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    write(path, 1)
    for columns, keep in ((["a", "gone"], []), (["a"], ["gone"])):
        with pytest.raises(DataError, match="must stay as it is while it is read"):
            list(tables.read_chunks(path, columns, [], keep))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_that_stays_is_read_and_one_that_was_damaged_before_says_how(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    write(path, 1)
    assert sum(len(chunk) for chunk in tables.read_chunks(path, ["a"], [], rows=CHUNK)) == ROWS
    empty(path)
    with pytest.raises(DataError, match=r"is empty|readable Parquet file"):
        list(tables.read_chunks(path, ["a"], [], rows=CHUNK))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["predict csv", "evaluate", "distill"])
def test_commands_answer_all_rows_or_refuse(name, damage, hostile_home, whole_run, tmp_path, hostile_scale):
    """The table that a command reads is damaged at a random moment; what it wrote before stays where it refuses."""
    if hostile_scale == 1 and DAMAGES.index(damage) % 3 != ["predict csv", "evaluate", "distill"].index(name):
        pytest.skip("a short run plays a third of these")
    expected, seconds = whole_run(name)
    for moment in np.random.default_rng(DAMAGES.index(damage)).uniform(0, 1, hostile_scale):
        folder = begun(hostile_home, tmp_path / f"{moment:.4f}", name)
        before, path = COMMANDS[name].results(folder), folder / "rows.csv"
        os.utime(path, ns=(1, 1))
        thread = threading.Thread(target=lambda at=moment, path=path: (time.sleep(at * seconds), damage(path)))
        thread.start()
        code = run_command(COMMANDS[name].words, folder)
        thread.join()
        said, found = (folder / "said").read_text(), COMMANDS[name].results(folder)
        assert "Traceback" not in said, said[-3000:]
        assert code in (0, 2)
        if code == 2:
            last = said.strip().splitlines()[-1]
            assert last.startswith("diffor: error: "), said
            assert "rows.csv" in last, said
            assert found == before
        else:
            assert found.keys() == expected.keys()
        shutil.rmtree(folder)
