"""Folders of graded pictures: parts and grades by folder, broken files noted, empty grades refused before any work."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")

from miniatures_images import write_photo

from diffor.datasets import DATASETS, DISTRIBUTIONS, load_dataset

survey = DISTRIBUTIONS["knee"].survey
SIZES = {"train": 4, "val": 2, "test": 3}


@pytest.fixture
def root(tmp_path):
    """Pictures of five grades, beside a set of another name that has the same parts."""
    for part, size in SIZES.items():
        (tmp_path / "birds" / part).mkdir(parents=True)
        for grade in range(5):
            for number in range(size):
                write_photo(tmp_path / "knee" / part / str(grade) / f"{number}.jpg", grade / 5 + number / 100)
    return tmp_path


def test_folders_name_parts_and_grades(root):
    samples, report = survey(root)
    assert (len(samples), report.n_read, report.dropped, report.notes) == (45, 45, {}, [])
    for part, rows in zip(SIZES, DATASETS["knee"].parts(root, 0), strict=True):
        assert samples.y[rows].tolist() == np.repeat(range(5), SIZES[part]).tolist()
        assert {Path(path).parts[-3] for path in samples.x["path"].iloc[rows]} == {part}
    assert len(DATASETS["knee"].split(root, 0)[0]) == 30
    assert load_dataset("knee", root / "knee").x.equals(samples.x)  # the folder itself may be the root
    (root / "knee").rename(root / "kneeKL224")  # as it is in the archive
    assert len(load_dataset("knee", root)) == 45


def test_broken_pictures_are_left_out_and_noted(root):
    train = root / "knee" / "train"
    (train / "0" / "0.jpg").write_bytes((train / "0" / "0.jpg").read_bytes()[:-100])
    (train / "1" / "0.jpg").write_text("<html>no picture</html>")
    (train / "2" / "0.jpg").write_bytes(b"")
    samples, report = survey(root)
    assert (len(samples), report.dropped) == (
        42, {"image file is broken or cut off": 2, "image file is empty": 1}
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"knee: pictures left out: 2 \(image file is broken or cut off\)"):
        load_dataset("knee", root)


@pytest.mark.parametrize("damage", [shutil.rmtree, lambda folder: [path.write_bytes(b"") for path in folder.iterdir()]])
def test_a_grade_without_pictures_is_refused_to_learn_from_and_noted_elsewhere(root, damage):
    damage(root / "knee" / "test" / "4")
    assert "test has no pictures of grade 4" in survey(root)[1].notes
    damage(root / "knee" / "train" / "3")
    with pytest.raises(
        ValueError, match="train must hold pictures of every grade, but 3 has none that can be used; com"
    ):
        survey(root)


def test_folders_that_are_no_grades_or_no_parts_are_named(root):
    write_photo(root / "knee" / "val" / "5" / "0.jpg", 0.5)
    with pytest.raises(ValueError, match="knee must hold folders named by grades, 0 to 4, but val/5 is none; move it"):
        survey(root)
    shutil.rmtree(root / "knee" / "val")
    shutil.rmtree(root / "birds")
    with pytest.raises(
        FileNotFoundError, match=r"knee needs the folders train, val, test, but .* Download the archive"
    ):
        survey(root)
    assert DISTRIBUTIONS["knee"].check(root).is_absent


@pytest.mark.real_data
def test_the_real_xrays_are_whole():
    root = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[4] / "shared" / "data"))
    if not (root / "knee").is_dir():
        pytest.skip("the X-rays are not beside the project; set DIFFOR_DATA to the folder that holds knee")
    samples, report = survey(root)
    assert (len(samples), report.dropped, report.notes) == (8260, {}, [])
    assert [len(rows) for rows in DATASETS["knee"].parts(root, 0)] == [5778, 826, 1656]
    assert np.bincount(samples.y.astype(int)).tolist() == [3253, 1495, 2175, 1086, 251]
    assert DISTRIBUTIONS["knee"].check(root, n_images=50).errors == []
