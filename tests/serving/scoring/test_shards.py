"""Shards: how inputs are cut and named, and that an output is committed as a whole or not at all."""

import os

import pandas as pd
import pytest
from shard_examples import FILE_ROWS, GROUP_ROWS, Halving, plan, unfinished, write_inputs

from diffor.errors import UserError
from diffor.files.tables import DataError
from diffor.serving.scoring.shards import (
    Job,
    Outcome,
    Shard,
    commit_shard,
    committed_rows,
    failure_of,
    find_inputs,
    plan_shards,
)

pytest.importorskip("pyarrow")


@pytest.fixture
def job(tmp_path):
    write_inputs(tmp_path / "in")
    (tmp_path / "out").mkdir()
    return Job(Halving(), tmp_path / "out", "run")


def test_files_are_cut_at_row_groups_and_outputs_are_called_as_they_are(job, tmp_path):
    shards = plan(tmp_path / "in")
    assert [(shard.output, shard.groups, shard.n_rows) for shard in shards[:3]] == [
        ("part-0-00000.parquet", (0, 1), 2 * GROUP_ROWS),
        ("part-0-00001.parquet", (2,), GROUP_ROWS),
        ("part-1-00000.parquet", (0, 1), 2 * GROUP_ROWS),
    ]
    assert shards == plan(tmp_path / "in")
    (one,) = plan_shards(find_inputs([f"{tmp_path}/in/part-3.parquet"]))
    assert (one.groups, one.n_rows) == ((0, 1, 2), FILE_ROWS)


def test_a_row_group_longer_than_a_shard_stays_whole(job, tmp_path):
    shards = plan_shards(find_inputs([f"{tmp_path}/in/part-0.parquet"]), shard_rows=1)
    assert [shard.n_rows for shard in shards] == [GROUP_ROWS] * 3


def test_folders_below_the_common_one_are_kept_and_files_without_rows_left_out(tmp_path):
    for day in ("day=1", "day=2"):
        (tmp_path / day).mkdir()
        pd.DataFrame({"x": [1.0]}).to_csv(tmp_path / day / "rows.csv", index=False)
    pd.DataFrame({"x": [1.0]})[:0].to_parquet(tmp_path / "day=1" / "empty.parquet")
    (tmp_path / "day=2" / "empty.csv").write_text("x\n")
    shards = plan_shards(find_inputs([f"{tmp_path}/**/*.csv", f"{tmp_path}/day=1/*.parquet"]))
    outputs = ["day=1/rows.csv-00000.parquet", "day=2/rows.csv-00000.parquet"]
    assert [(shard.output, shard.groups, shard.n_rows) for shard in shards] == [(name, None, None) for name in outputs]


def test_inputs_are_found_once_and_called_as_they_are_named(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(tmp_path / "in" / "part-0.parquet", tmp_path / "monday.parquet")
    found = find_inputs(["in/part-0.parquet", "in/part-[01].parquet", "in/../in/part-1.parquet"])
    assert found == [tmp_path / "in" / "part-0.parquet", tmp_path / "in" / "part-1.parquet"]
    assert find_inputs(["monday.parquet"]) == [tmp_path / "monday.parquet"]


def test_inputs_that_are_none_or_empty_or_clash_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"'none/\*\.parquet' must match at least one file, but .*; check the path"):
        find_inputs(["none/*.parquet"])
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match=r"'in' must match .* none; name its files, as 'in/\*\.parquet' does"):
        find_inputs(["in"])
    (tmp_path / "in" / "empty.csv").write_text("x\n")
    with pytest.raises(DataError, match="must hold at least one row, but all 1 are empty"):
        plan_shards(find_inputs(["in/*.csv"]))
    for name in ("a.pq", "a.pq.parquet"):
        pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "in" / name)
    with pytest.raises(DataError, match=r"a\.pq and .*a\.pq\.parquet would both write a\.pq-00000\.parquet; rename"):
        plan_shards(find_inputs(["in/a*"]))


def test_a_shard_is_committed_once(job, tmp_path):
    first, second = plan(tmp_path / "in")[:2]
    assert committed_rows(job, first) is None
    assert commit_shard(job, job.work.open(), first) == Outcome(first.output, 2 * GROUP_ROWS)
    written = (job.folder / first.output).stat().st_mtime_ns

    def refuse(shard):
        raise AssertionError("nothing must be computed again")

    assert commit_shard(job, refuse, first) == Outcome(first.output, 2 * GROUP_ROWS)
    assert (job.folder / first.output).stat().st_mtime_ns == written
    assert pd.read_parquet(job.folder / first.output)["id"].tolist() == list(range(2 * GROUP_ROWS))
    assert commit_shard(job, job.work.open(), second).n_rows == GROUP_ROWS
    assert pd.read_parquet(job.folder / second.output)["id"].tolist() == list(range(2 * GROUP_ROWS, FILE_ROWS))


def test_outputs_that_are_damaged_or_of_another_run_do_not_count(job, tmp_path):
    first, second = plan(tmp_path / "in")[:2]
    commit_shard(job, job.work.open(), first)
    assert committed_rows(Job(job.work, job.folder, "another"), first) is None
    (job.folder / first.output).rename(job.folder / second.output)
    assert committed_rows(job, second) is None
    (job.folder / second.output).write_bytes(b"PAR1 and no more")
    assert committed_rows(job, second) is None
    assert commit_shard(job, job.work.open(), second).n_rows == GROUP_ROWS


def test_an_input_that_loses_rows_meanwhile_is_an_error_that_leaves_nothing(job, tmp_path):
    first = plan(tmp_path / "in")[0]
    with pytest.raises(DataError, match="must stay as it is while it is scored, but 40 rows came where it had 41"):
        commit_shard(job, job.work.open(), Shard(first.source, first.output, first.groups, 41))
    assert not list(job.folder.iterdir())
    assert not unfinished(job.folder)


def test_failures_name_the_file(tmp_path):
    shard = Shard(tmp_path / "rows.parquet", "rows-00000.parquet", None, 1)
    assert failure_of(shard, UserError("x must be\n 1, but got 2")).error == "x must be 1, but got 2"
    assert failure_of(shard, KeyError("lost")).error == f"{shard.source} cannot be scored (KeyError: 'lost')"
