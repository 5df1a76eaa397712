"""Image files: matched with the rows that name them, and told apart when they are whole and when they are not."""

import hashlib
import sys
from pathlib import Path

import miniatures_images as miniatures
import numpy as np
import pandas as pd
import pytest

from diffor.datasets.readers.image_files import (
    Expected,
    broken_images,
    check_images,
    image_names,
    image_samples,
    locate_images,
    mark_fault,
)
from diffor.datasets.readers.published_files import PublishedFile
from diffor.datasets.readers.reading import Place, ReadReport
from diffor.datasets.samples import Samples


@pytest.fixture
def folder(tmp_path):
    for name in ("a.jpg", "b.JPG", "deep/c.png", "Renée.jpg"):
        miniatures.write_photo(tmp_path / name, 0.5)
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / ".hidden.jpg").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    return tmp_path


def test_only_images_are_listed(folder):
    assert image_names(folder) == ["Renée.jpg", "a.jpg", "b.JPG", "empty.jpg"]


def test_listed_images_are_found_with_their_faults(folder):
    listed = ["a.jpg", "b.jpg", "deep/c.png", "gone.jpg", "none/d.jpg", "empty.jpg", "Rene\u0301e.jpg", "RenÃ©e.jpg"]
    located = locate_images(folder, listed)
    assert [Path(path).relative_to(folder).as_posix() for path in located["path"][:4]] == [
        "a.jpg", "b.JPG", "deep/c.png", "gone.jpg",
    ]  # fmt: skip
    assert located["fault"].fillna("").tolist() == [
        "", "", "", "image missing", "image missing", "image file is empty", "", "image listed twice",
    ]  # fmt: skip


def test_the_very_name_wins_over_a_similar_one(folder):
    miniatures.write_photo(folder / "A.jpg", 0.9)
    located = locate_images(folder, ["A.jpg", "a.jpg"])
    assert [Path(path).name for path in located["path"]] == ["A.jpg", "a.jpg"]
    assert located["fault"].isna().all()


def test_the_first_fault_of_a_row_is_kept(folder):
    images = ["a.jpg", "gone.jpg", "gone.jpg", ""]
    rows = pd.DataFrame({"image": images, "y": [1.0, 2.0, 3.0, 4.0], "person": 7, "votes": 2})
    mark_fault(rows, [False, True, False, False], "label missing")
    samples, report = image_samples(Place(folder, "mine"), rows, [folder], ["votes"], {"v": "votes"}, folder)
    assert (samples.y.tolist(), samples.groups.tolist(), samples.side["v"].tolist()) == ([1], [7], [2])
    assert [*samples.x] == ["path", "votes"]
    assert report == ReadReport([folder], 4, {"image missing": 2, "label missing": 1})
    assert report.n_kept == 1


def test_images_are_looked_for_near_their_labels_first(tmp_path):
    for place in ("other/images", "mine/photos"):
        miniatures.write_photo(tmp_path / place / "1.JPG", 0.5)

    def path_of(labels, *images):
        (tmp_path / labels).parent.mkdir(parents=True, exist_ok=True)
        rows = pd.DataFrame({"image": images, "y": 0.0})
        return image_samples(Place(tmp_path, "mine", "Fetch it."), rows, [tmp_path / labels])[0].x["path"].tolist()

    assert path_of("other/labels/table.csv", "0.jpg", "1.jpg") == [str(tmp_path / "other/images/1.JPG")]
    assert path_of("third/table.csv", "1.jpg") == [str(tmp_path / "mine/photos/1.JPG")]
    with pytest.raises(FileNotFoundError, match=r"such as 2\.jpg, but none of 1 .*; put or link .*Fetch it\."):
        path_of("mine/table.csv", "2.jpg")


def test_broken_images_are_named(tmp_path):
    paths = [str(tmp_path / f"{number}.jpg") for number in range(6)]
    for path in paths:
        miniatures.write_photo(Path(path), 0.5)
    data = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(data[:-40])
    Path(paths[2]).write_text("<html>not found</html>")
    from PIL import Image

    Image.new("RGB", (40, 4)).save(paths[3])
    Path(paths[4]).unlink()
    messages = broken_images(paths, None)
    assert [message.split(" must")[0] for message in messages] == paths[1:5]
    assert "truncated" in messages[0].lower()
    assert "but cannot identify image file" in messages[1]
    assert "but it has 40 x 4 pixels; fetch the file again, or delete it" in messages[2]
    assert broken_images([paths[0], paths[5]], None) == []


def test_only_some_images_are_decoded_where_asked(tmp_path):
    paths = [str(tmp_path / f"{number}.jpg") for number in range(9)]
    assert [message.split(" must")[0] for message in broken_images(paths, 3)] == [paths[0], paths[4], paths[8]]
    with pytest.raises(ValueError, match="n_images must be 0 or more, or None for all, but got n_images=-1"):
        broken_images(paths, -1)


def test_a_missing_pillow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "diffor\[images\]"'):
        broken_images(["a.jpg"])


def survey_of(folder, n_read=3, dropped=None):
    samples = Samples(pd.DataFrame({"path": [str(folder / "a.jpg")]}), np.zeros(1), groups=np.array([4]))
    return lambda root: (samples, ReadReport([folder], n_read, dropped or {}))


def test_a_whole_distribution_passes(folder):
    expected = Expected(n_rows=3, n_groups=1, n_missing=2)
    checked = check_images(folder, "mine", survey_of(folder, 3, {"image missing": 2}), expected)
    assert checked.errors == []
    assert checked.warnings == [f"{folder} loses 2 of 3 rows: image missing"]


@pytest.mark.parametrize("vary", [False, True])
def test_other_counts_are_errors_unless_copies_differ(folder, vary):
    checked = check_images(folder, "mine", survey_of(folder), Expected(n_rows=5, n_groups=2, counts_vary=vary))
    messages = [
        f"{folder} must lead to 5 rows of mine, but got 3; complete the files",
        f"{folder} must lead to 2 people, but got 1; complete the files",
    ]
    assert (checked.warnings if vary else checked.errors) == messages
    assert (checked.errors if vary else checked.warnings) == []


def test_too_many_missing_images_are_an_error(folder):
    checked = check_images(
        folder, "mine", survey_of(folder, 3, {"image missing": 2, "no votes": 9}), Expected(n_rows=3)
    )
    assert checked.errors == [f"{folder} loses 2 of 3 rows: image missing; complete the files"]
    assert checked.warnings == [f"{folder} loses 9 of 3 rows: no votes"]


@pytest.mark.parametrize("official", [True, False])
def test_the_archive_is_known_by_its_sum(folder, official):
    (folder / "mine.zip").write_bytes(b"archive")
    right = hashlib.md5(b"archive").hexdigest()

    def check(digest, **options):
        archive = PublishedFile(("mine.zip",), digest=("md5", digest), is_official=official)
        checked = check_images(folder, "mine", survey_of(folder), Expected(n_rows=3, archive=archive), **options)
        return (checked.errors, checked.warnings) if official else (checked.warnings, checked.errors)

    assert check(right) == check("0" * 32, read_all=False) == ([], [])
    (message,), others = check("0" * 32)
    assert message == f"{folder / 'mine.zip'} must have the md5 {'0' * 32}, but got {right}; fetch the file again"
    assert others == []
