"""Full and read-only disks: every command that writes says so in one line, and leaves what was there."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from faults_disks import can_mount, mount, run_limited, small_disk
from kills_commands import COMMANDS, begun, hidden, run_well
from kills_processes import run_command

REASONS = ("File too large", "No space left", "Read-only", "must be writable", "disk I/O error", "disk is full",
           "readonly database")  # fmt: skip
LIMITS = 600, 200_000
"""Bytes between which no file may grow, or which a disk has left."""


def check_refusal(name, code, folder, before, expected):
    """One clear line where the command failed, and old or new outputs in any case."""
    said = (folder / "said").read_text()
    found = COMMANDS[name].results(folder)
    assert "Traceback" not in said, said[-3000:]
    if code == 0:
        assert found == expected
        return
    assert code == 2, said
    last = said.strip().splitlines()[-1]
    assert last.startswith("diffor: error: "), said
    assert any(reason in last for reason in REASONS), last
    for output, content in found.items():
        assert content in (before.get(output, expected[output]), expected[output]), output


def sizes(name, count):
    return np.geomspace(*LIMITS, 1000)[np.random.default_rng([*name.encode()]).integers(0, 1000, count)].astype(int)


@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_cannot_grow_are_told_of_and_old_ones_stay(name, hostile_home, whole_run, tmp_path, hostile_scale):
    expected, _ = whole_run(name)
    for size in [LIMITS[0], *sizes(name, hostile_scale - 1)]:
        folder = begun(hostile_home, tmp_path / str(size), name)
        before = COMMANDS[name].results(folder)
        code = run_limited(COMMANDS[name].words, folder, int(size))
        check_refusal(name, code, folder, before, expected)
        assert code == 2 or size > LIMITS[0]
        run_well(COMMANDS[name].words, folder)
        assert COMMANDS[name].results(folder) == expected
        assert hidden(folder) == []
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_told_of_and_old_files_stay(name, hostile_home, whole_run, tmp_path, hostile_scale):
    if not can_mount(Path(os.path.dirname(tmp_path))):
        pytest.skip("a real full disk needs a user who may mount one")
    expected, _ = whole_run(name)
    needed = sum(path.stat().st_size + 8192 for path in hostile_home.rglob("*")) // 1024
    for number, left in enumerate([0, *sizes(name, hostile_scale - 1)]):
        with small_disk(tmp_path / str(number), needed + int(left) // 1024) as folder:
            begun(hostile_home, folder, name)
            before = COMMANDS[name].results(folder)
            say_elsewhere(folder, tmp_path)
            filling = fill(folder, int(left))
            check_refusal(name, run_command(COMMANDS[name].words, folder), folder, before, expected)
            filling.unlink()
            mount("-o", f"remount,size={needed + 100_000}k", str(folder))
            run_well(COMMANDS[name].words, folder)
            assert COMMANDS[name].results(folder) == expected
            assert hidden(folder) == []


def say_elsewhere(folder, place):
    """Keep what a command says off the disk that is full."""
    (place / "said").write_text("")
    (folder / "said").symlink_to(place / "said")


def fill(folder, left):
    """A file that leaves a disk little more than these bytes."""
    place = os.statvfs(folder)
    filling = folder / "filling"
    filling.write_bytes(bytes(max(place.f_bavail * place.f_frsize - left, 0)))
    return filling


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_disk_is_told_of(name, hostile_home, whole_run, tmp_path):
    expected, _ = whole_run(name)
    if can_mount(Path(os.path.dirname(tmp_path))):
        with small_disk(tmp_path / "disk", 100_000) as disk:
            work = begun(hostile_home, disk / "work", name)
            before = COMMANDS[name].results(work)
            say_elsewhere(work, tmp_path)
            mount("-o", "remount,ro", str(disk))
            check_refusal(name, code := run_command(COMMANDS[name].words, work), work, before, expected)
            assert code == 2
        return
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere, unless it may mount a disk that is read-only")
    work = begun(hostile_home, tmp_path / "work", name)
    before = COMMANDS[name].results(work)
    (work / "said").touch()
    work.chmod(0o555)
    try:
        code = run_command(COMMANDS[name].words, work)
    finally:
        work.chmod(0o755)
    said = (work / "said").read_text()
    assert code == 2, said
    assert "Traceback" not in said
    assert COMMANDS[name].results(work) == before
