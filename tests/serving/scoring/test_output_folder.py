"""The output folder: it belongs to one run, is written by one at a time, and says when it is complete."""

import json
import multiprocessing

import pytest
from shard_examples import FILE_ROWS, N_FILES, Halving, hold, plan, unfinished, write_inputs

from diffor.files.tables import DataError
from diffor.serving.scoring.output_folder import (
    PLAN,
    SUCCESS,
    Summary,
    check_folder,
    describe_run,
    finish,
    name_run,
    opened_folder,
)
from diffor.serving.scoring.shards import Job, commit_shard, find_inputs

pytest.importorskip("pyarrow")


class Folder:
    """An output folder of a run that is done, beside its inputs and a model."""

    def __init__(self, top):
        self.top, self.out = top, top / "out"
        write_inputs(top / "in")
        (top / "model").mkdir()
        (top / "model" / "config.json").write_text("{}")
        self.inputs, self.shards = find_inputs([f"{top}/in/*.parquet"]), plan(top / "in")

    def describe(self, **options):
        inputs = find_inputs([f"{self.top}/in/*.parquet"])
        return describe_run(self.top / "model", "notes.json", options, inputs, self.shards)

    def score(self, **options):
        found = self.describe(**options)
        job = Job(Halving(), self.out, name_run(found))
        with opened_folder(self.out, found, force=False):
            for shard in self.shards:
                commit_shard(job, job.work.open(), shard)
            return finish(job, self.shards, self.inputs)

    def open(self, force=False, **options):
        with opened_folder(self.out, self.describe(**options), force):
            pass


@pytest.fixture
def done(tmp_path):
    folder = Folder(tmp_path)
    folder.summary = folder.score()
    return folder


def test_a_complete_folder_says_how_many_rows_it_has(done):
    assert done.summary == Summary(N_FILES, 2 * N_FILES, N_FILES * FILE_ROWS, N_FILES * FILE_ROWS)
    assert json.loads((done.out / SUCCESS).read_text())["rows_out"] == N_FILES * FILE_ROWS
    names = {path.name for path in done.out.iterdir()}
    assert names == {".lock", PLAN, SUCCESS, *(shard.output for shard in done.shards)}


def test_a_folder_that_lost_an_output_is_not_complete(done):
    (done.out / SUCCESS).unlink()
    (done.out / done.shards[2].output).unlink()
    job = Job(Halving(), done.out, name_run(done.describe()))
    with pytest.raises(DataError, match=r"part-1-00000\.parquet is missing or was changed; start again"):
        finish(job, done.shards, done.inputs)
    assert not (done.out / SUCCESS).exists()


def change_model(folder):
    (folder.top / "model" / "config.json").write_text('{"weights_sha256": "other"}')


def change_notes(folder):
    (folder.top / "model" / "notes.json").write_text('{"side": {}}')


def change_input(folder):
    path = folder.inputs[1]
    path.write_bytes(path.read_bytes() + b" ")


def add_input(folder):
    (folder.top / "in" / "part-9.parquet").write_bytes(folder.inputs[0].read_bytes())
    change_input(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_model, "MODEL is another"),
        (change_notes, "MODEL is another"),
        (change_input, r"the input part-1\.parquet changed, came or went"),
        (add_input, r"the input part-1\.parquet and 1 more changed, came or went"),
    ],
)
def test_a_folder_of_another_run_is_refused_and_left_as_it_was(done, change, reason):
    before = {path: path.stat().st_mtime_ns for path in done.out.iterdir()}
    change(done)
    with pytest.raises(DataError, match=f"must belong to this run, but {reason} since .* pass --force"):
        done.open()
    assert {path: path.stat().st_mtime_ns for path in done.out.iterdir()} == before


def test_other_options_another_cut_and_another_version_are_named(done):
    with pytest.raises(DataError, match="but got --coverage, --keep-all changed since"):
        done.open(coverage=0.9, keep_all=True)
    plan_now = done.describe()
    for changed, reason in (
        ({"outputs": []}, "the cut into shards changed"),
        ({"version": 0}, "the version of its layout has changed"),
    ):
        (done.out / PLAN).write_text(json.dumps({**plan_now, **changed}))
        with pytest.raises(DataError, match=reason):
            done.open()
    (done.out / PLAN).write_text("{")
    with pytest.raises(DataError, match=r"_plan\.json must be the plan of a run, but it is damaged; remove"):
        done.open()


def test_force_removes_what_the_other_run_wrote_and_nothing_else(done):
    (done.out / "notes.txt").write_text("mine")
    done.open(force=True, coverage=0.9)
    assert {path.name for path in done.out.iterdir()} == {".lock", PLAN, "notes.txt"}
    assert json.loads((done.out / PLAN).read_text())["options"] == {"coverage": 0.9}


def test_a_folder_of_somebody_else_is_refused_even_with_force(tmp_path):
    folder = Folder(tmp_path)
    folder.out.mkdir()
    (folder.out / "notes.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(DataError, match="must be empty or of an earlier diffor score, but it holds other"):
            folder.open(force)
    assert [path.name for path in folder.out.iterdir()] == ["notes.txt"]


def test_what_killed_workers_left_is_removed_and_other_hidden_files_stay(done):
    for name in (".part-0-00000.x7_k2.parquet", ".mine.parquet", ".part-0-00000.txt"):
        (done.out / name).write_text("half")
    done.open()
    assert unfinished(done.out) == [".mine.parquet"]
    assert (done.out / ".part-0-00000.txt").exists()


def test_a_second_run_waits_for_the_end_of_the_first_or_its_death(done):
    context = multiprocessing.get_context("forkserver")
    is_held, may_end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(done.out, done.describe(), is_held, may_end))
    other.start()
    assert is_held.wait(60)
    with pytest.raises(DataError, match="must be written by one run at a time, but another diffor score is at it"):
        done.open()
    other.kill()
    other.join(60)
    done.open()


def test_folders_that_cannot_be_written_or_hold_inputs_are_refused(done, tmp_path):
    with pytest.raises(DataError, match=r"must lie in an existing folder, but .*none is none; create it first"):
        check_folder(tmp_path / "none" / "out", done.inputs)
    with pytest.raises(DataError, match=r"--out must be a folder, but .* is a file"):
        check_folder(done.inputs[0], done.inputs)
    with pytest.raises(DataError, match=r"--out must hold no inputs, but .*part-0\.parquet lies in it"):
        check_folder(tmp_path / "in", done.inputs)
    check_folder(done.out, done.inputs)
