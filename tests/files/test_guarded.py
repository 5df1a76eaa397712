"""Files of strangers: what is no ordinary file, too large, outside its folder or no strict JSON is refused, by name."""

import os
import socket
from pathlib import Path

import pytest

from diffor.files.atomic import DataError
from diffor.files.guarded import MOST_DEPTH, read_guarded, read_json, read_json_file


def test_an_ordinary_file_and_links_inside_its_folder_are_read(tmp_path):
    (tmp_path / "one").write_bytes(b"content")
    (tmp_path / "two").symlink_to("one")
    assert read_guarded(tmp_path / "one", 7) == read_guarded(tmp_path / "two", 7, tmp_path) == b"content"
    assert read_guarded(tmp_path / "two", 2**60) == b"content"  # the size is that of the file, not of the limit


def test_a_folder_that_is_a_link_itself_is_its_users_choice(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "one").write_bytes(b"content")
    (tmp_path / "link").symlink_to("real")
    assert read_guarded(tmp_path / "link" / "one", 7, tmp_path / "link") == b"content"


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    before = os.getcwd()
    os.chdir(path.parent)  # names of sockets must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(before)


def make_loop(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_pipe, "must be an ordinary file, but it is a pipe; remove it"),
        (make_socket, "must be an ordinary file, but it is a socket"),
        (lambda path: path.mkdir(), "must be an ordinary file, but it is a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "is a link that leads out of its folder, to /dev/zero"),
        (make_loop, "cannot be read"),
        (lambda path: path.symlink_to("nowhere"), r"cannot be read \(No such file or directory\)"),
        (lambda path: path.write_bytes(bytes(11)), "must be an ordinary file of at most"),
    ],
)
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path, make, message):
    make(tmp_path / "it")
    with pytest.raises(DataError, match=message):
        read_guarded(tmp_path / "it", 10, tmp_path)


def test_a_device_is_refused_also_without_a_folder_to_stay_in():
    with pytest.raises(DataError, match="must be an ordinary file, but it is a device"):
        read_guarded(Path("/dev/null"), 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the name 'a' stands twice"),
        ('{"a": {"b": 1, "b": 1}}', "the name 'b' stands twice"),
        ("[NaN]", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ("[" * 33 + "]" * 33, f"nested more than {MOST_DEPTH} deep"),
        ("[" * 100_000, f"nested more than {MOST_DEPTH} deep"),
        ('{"a":' * 100_000, f"nested more than {MOST_DEPTH} deep"),
        ("9" * 5000, "integer string conversion"),
        ("", "Expecting value"),
        ("\ufeff1", "BOM"),
    ],
)
def test_json_is_strict(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_json(text.encode())
    (tmp_path / "it.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"it\.json is damaged"):
        read_json_file(tmp_path / "it.json")


def test_bytes_that_are_no_text_are_no_json():
    with pytest.raises(ValueError, match="utf-8"):
        read_json(b'"\xff"')
    assert read_json(b'{"a": [1.5, "\xc3\xa9", null]}') == {"a": [1.5, "é", None]}
    assert read_json(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
