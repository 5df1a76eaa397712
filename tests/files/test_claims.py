"""Hidden files: whose they are, and which are removed; tests/hostile kills their owners at every call."""

import os
import signal
import tempfile

import pytest

from diffor.files.claims import FRESH, OLD, claimed, remove_leftovers, temporary_folder, wait_for

LEFT = ".page.diffor-0123abcd.html"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_claim_is_a_hidden_file_that_is_gone_with_its_block(tmp_path):
    with claimed(tmp_path / "page.html", b"x") as claim:
        assert claim.parent == tmp_path
        assert claim.name.startswith(".page.diffor-")
        assert claim.suffix == ".html"
        assert claim.read_bytes() == b"x"
        remove_leftovers(tmp_path)
        assert claim.exists()
    assert names(tmp_path) == []


def test_what_nobody_holds_is_removed_with_its_folders(tmp_path):
    (tmp_path / LEFT).write_text("page.html")
    for ending in (FRESH, OLD):
        (tmp_path / (LEFT + ending)).mkdir()
        (tmp_path / (LEFT + ending) / "file").touch()
    (tmp_path / "page.html").touch()  # what left its place came back, or has a successor
    (tmp_path / ".page.html").touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".page.html", "page.html"]


@pytest.mark.parametrize("act", [remove_leftovers, lambda folder: wait_for(folder / "model")])
def test_a_folder_that_left_its_place_goes_back(tmp_path, act):
    (tmp_path / ".model.diffor-0123abcd").write_bytes(b"model")
    (tmp_path / f".model.diffor-0123abcd{OLD}").mkdir()
    (tmp_path / f".model.diffor-0123abcd{OLD}" / "file").write_text("old")
    act(tmp_path)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "file").read_text() == "old"


def test_nothing_goes_back_to_elsewhere(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".model.diffor-0123abcd").write_bytes(b"../../model")
    (inner / f".model.diffor-0123abcd{OLD}").mkdir()
    remove_leftovers(inner)
    assert names(tmp_path) == ["inner"]
    assert names(inner) == ["model"]


def test_waiting_for_what_was_never_there_takes_no_time(tmp_path):
    wait_for(tmp_path / "model")
    wait_for(tmp_path / "nowhere" / "model")
    wait_for(tmp_path / "zero\0byte")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    wait_for(tmp_path / "loop")
    (tmp_path / "loop").unlink()
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["x" * 251 + ".csv", "ä" * 125 + ".csv", "ü" * 80 + "." + "ß" * 40])
def test_long_names_can_be_claimed(tmp_path, name):
    with claimed(tmp_path / name) as claim:
        os.replace(claim, tmp_path / name)
    assert names(tmp_path) == [name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a fork of this process")
def test_temporary_folders_of_the_dead_go_and_those_of_the_living_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        with temporary_folder("bench") as folder:
            (folder / "log").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(names(tmp_path)) == 2
    with temporary_folder("bench") as first, temporary_folder("bench") as second:
        assert first.stat().st_mode & 0o777 == 0o700
        assert len({path.name.removesuffix(FRESH) for path in tmp_path.iterdir()}) == 2
        (second / "log").touch()
    assert names(tmp_path) == []
