"""Death and errors at every call of the system while something is written: the old or the new, never neither."""

import errno
import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from faults_syscalls import can_trace, traced
from faults_writers import WRITERS, save_model, save_model_by_renames

from diffor.training.checkpoint import load_folder

needs_tracing = pytest.mark.skipif(not can_trace(), reason="no child process can be traced here")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.EPERM, errno.EINVAL)
CLEAR = re.compile(r"diffor\.\S*(Data|User|Checkpoint)Error: .* cannot be \w+.*; .*|(OS|Permission)Error: \[Errno .*")
"""Errors for users; of lines of a benchmark the system's own, which the command line words."""
READER = """
import json, sys
from pathlib import Path
from diffor.training.checkpoint import load_folder
model, end = Path(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
absent = failed = loaded = 0
while not end.exists():
    for _ in range(50):
        absent += not model.exists()
    try:
        config, tensors = load_folder(model)
        assert tensors["a"].eq(config["number"]).all()
        loaded += 1
    except Exception as error:
        failed += 1
        print(type(error).__name__, error, file=sys.stderr)
print(json.dumps([loaded, failed, absent]))
"""


def hidden(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name != ".lock"]


@needs_tracing
@pytest.mark.parametrize("before", [0, 1], ids=["first", "again"])
@pytest.mark.parametrize("name", WRITERS)
def test_death_at_any_call_leaves_the_old_or_the_new(name, before, tmp_path):
    writer, seen = WRITERS[name], set()
    for at in count():
        folder = tmp_path / str(at)
        folder.mkdir()
        if before:
            writer.write(folder, 1)
        ending = traced(lambda folder=folder: writer.write(folder, 2), at)
        if ending.code is not None:
            break
        found = writer.read(folder)
        assert found in (before, 2), f"killed at call {at} ({ending.calls[-1]})"
        seen.add(found)
        writer.write(folder, 3)  # the next run removes what the dead one left
        assert writer.read(folder) == 3
        assert sorted(path.name for path in folder.iterdir()) == sorted(writer.names), f"call {at}: {ending.calls[-1]}"
        assert hidden(folder) == []
    assert ending.code == 0, ending.said
    assert len(ending.calls) == at > 2
    print(f"{name}: killed at each of {at} calls", file=sys.stderr)
    assert seen == {before, 2} or name == "lines"  # a line is there with its last byte, after which nothing is called


@needs_tracing
@pytest.mark.parametrize("name", WRITERS)
def test_an_error_at_any_call_leaves_the_old_or_the_new_and_is_told(name, tmp_path, hostile_scale):
    writer = WRITERS[name]
    for error in ERRORS[:hostile_scale]:
        for at in count():
            folder = tmp_path / f"{error}-{at}"
            folder.mkdir()
            writer.write(folder, 1)
            ending = traced(lambda folder=folder: writer.write(folder, 2), at, error)
            told = ending.said.strip().splitlines()[-1:]
            assert ending.code in (0, 3), f"killed by {errno.errorcode[error]} at call {at}"
            found, where = writer.read(folder), f"{errno.errorcode[error]} at call {at} ({ending.calls[at:][:1]})"
            assert found == 2 if ending.code == 0 else found in (1, 2), where
            assert all(CLEAR.match(line) for line in told), where
            writer.write(folder, 3)
            assert writer.read(folder) == 3
            assert hidden(folder) == []
            if len(ending.calls) <= at:
                break
        assert ending.code == 0
        print(f"{name}: {errno.errorcode[error]} at each of {at} calls", file=sys.stderr)


@pytest.mark.parametrize("save", [save_model, save_model_by_renames])
def test_a_reader_never_finds_a_model_absent_or_mixed(save, tmp_path, hostile_scale):
    save_model(tmp_path, 1)
    words = [sys.executable, "-c", READER, str(tmp_path / "model"), str(tmp_path / "end")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "ready\n"
        _save_in_a_child(save, tmp_path, 100 * hostile_scale)
        (tmp_path / "end").touch()
        out, errors = reader.communicate(timeout=120)
    loaded, failed, absent = map(int, out.strip("[]\n").split(","))
    print(f"{loaded} loads, {failed} failed, {absent} times absent", file=sys.stderr)
    assert failed == 0, errors
    assert loaded > 0
    assert absent == 0 or save is save_model_by_renames
    assert hidden(tmp_path) == []


def _save_in_a_child(save, folder, times):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number in range(times):
                save(folder, number)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_the_living_are_left_alone(tmp_path):
    """Two writers into one folder: neither takes the other's hidden file for a leftover."""
    from diffor.files.atomic import replacing, replacing_folder, write_atomically

    with replacing(tmp_path / "slow.csv") as temporary, replacing_folder(tmp_path / "slow") as fresh:
        temporary.write_text("one")
        (fresh / "file").write_text("two")
        child = os.fork()
        if child == 0:
            os._exit(0 if write_atomically(tmp_path / "quick", b"") is None else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "slow.csv").read_text() == "one"
    assert (tmp_path / "slow" / "file").read_text() == "two"
    assert hidden(tmp_path) == []


def test_files_of_others_are_no_leftovers(tmp_path):
    from diffor.files.atomic import write_atomically

    kept = [".page.original.html", ".page.diffor-12345.html", "page.diffor-0123abcd.html", ".diffor", ".gitignore"]
    for name in kept:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".page.diffor-0123abcd.html").symlink_to(tmp_path / ".gitignore")
    write_atomically(tmp_path / "page.html", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*kept, ".page.diffor-0123abcd.html", "page.html"]
    )


@needs_tracing
def test_a_model_that_left_its_place_is_put_back_when_it_is_loaded(tmp_path):
    save_model(tmp_path, 1)
    for at in count():
        ending = traced(lambda: save_model_by_renames(tmp_path, 2), at)
        if not (tmp_path / "model").exists():
            break
        assert ending.code is None, "it never left its place"
    assert load_folder(tmp_path / "model")[0]["number"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
