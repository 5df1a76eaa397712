"""Finding files below a folder, and refusing what downloads leave in their place."""

import pytest

from diffor.datasets.readers.reading import Place, data_root, find_below, refuse_stand_in


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_root_is_passed_or_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("DIFFOR_DATA", raising=False)
    assert data_root(str(tmp_path), "ava") == tmp_path
    for root in (None, ""):
        with pytest.raises(ValueError, match=r"ava is read from files, but got root=.*; pass root, or set DIFFOR_DATA"):
            data_root(root, "ava")
    with pytest.raises(FileNotFoundError, match=r"below a folder, but .*gone is none; pass root, .* Fetch it\."):
        data_root(tmp_path / "gone", "ava", "Fetch it.")
    monkeypatch.setenv("DIFFOR_DATA", str(tmp_path))
    assert data_root(None, "ava") == tmp_path
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert data_root("data", "ava") == tmp_path / "data"


def test_the_nearest_file_is_found_three_folders_deep(tmp_path):
    deep = write(tmp_path / "b" / "c" / "d" / "AVA.txt")
    assert find_below(tmp_path, "AVA.txt") == deep
    near = write(tmp_path / "z" / "AVA.txt")
    assert find_below(tmp_path, "none", "AVA.txt") == near
    assert find_below(tmp_path, "c/d/AVA.txt") == deep
    write(tmp_path / "1" / "2" / "3" / "4" / "other.txt")
    assert find_below(tmp_path, "other.txt") is None
    with pytest.raises(FileNotFoundError, match=r"ava needs the file other\.txt or more\.txt, but .* Fetch it\."):
        Place(tmp_path, "ava", "Fetch it.").need("other.txt", "more.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold data, but it is empty; fetch the file again"),
        (" \n", "but it is empty"),
        ("\ufeff\n<!DOCTYPE html>", "but it is a web page or XML, not the data; download it in a browser"),
        ("version https://git-lfs.github.com/spec/v1", "but it is a Git LFS pointer, .*git lfs pull"),
    ],
)
def test_stand_ins_are_refused(tmp_path, text, message):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"labels\.csv.*{message}"):
        refuse_stand_in(path)
    path.write_text("image,score\n")
    refuse_stand_in(path)
