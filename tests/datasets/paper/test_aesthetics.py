"""Photos and how they please: miniatures with the quirks of the real files, and damaged ones."""

import shutil
from pathlib import Path

import miniatures_images as miniatures
import numpy as np
import pytest

from diffor.datasets import DISTRIBUTIONS, load_dataset
from diffor.datasets.paper.aesthetics import SPAQ_SCENES
from diffor.datasets.splits import split_samples

AVA, TAD = "AVA_dataset/AVA.txt", "tad66k/labels/merge/train.csv"
ICAA, SPAQ = "icaa17k/1train.csv", "SPAQ/Annotations/MOS and Image attribute scores.xlsx"
ICAA_HEADER = "ID,color,MOS,probability\n"
SCORES = [miniatures.SPAQ_HEADER, ["00001.jpg", 1, 2, 3, 4, 5, 6]]


def survey(name, root, **options):
    return DISTRIBUTIONS[name].survey(root, **options)


def names_of(samples, rows=slice(None)):
    return [Path(path).name for path in samples.x["path"].to_numpy()[rows]]


def edit(path, change):
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


def test_ava_means_the_votes(tmp_path):
    samples, report = survey("ava", miniatures.write_ava(tmp_path), columns=("tag1", "tag2", "challenge"))
    assert (report.n_read, report.dropped) == (30, {"image missing": 1})
    assert [path.name for path in report.files] == ["AVA.txt", "generic_test.jpgl"]
    assert names_of(samples)[:3] == ["953619.jpg", "953958.jpg", "954188.jpg"]
    votes = [0, 1, 5, 17, 38, 36, 15, 6, 5, 1]
    assert samples.y[0] == pytest.approx(sum(score * count for score, count in enumerate(votes, 1)) / sum(votes))
    counted = samples.side["votes"]
    np.testing.assert_array_equal(counted[0], votes)
    np.testing.assert_allclose(counted @ np.arange(1, 11) / counted.sum(axis=1), samples.y)
    assert samples.x.loc[0, ["tag1", "tag2", "challenge"]].tolist() == ["1", "22", "1396"]
    assert samples.x["tag2"].isna().sum() == 27


def test_the_official_test_photos_of_ava_are_listed(tmp_path):
    root = miniatures.write_ava(tmp_path)
    listed = (root / "AVA_dataset" / "aesthetics_image_lists" / "generic_test.jpgl").read_text().split()
    samples = load_dataset("ava", root)
    assert names_of(samples, split_samples(samples, 0, "given").test) == [f"{number}.jpg" for number in listed]
    shutil.rmtree(root / "AVA_dataset" / "aesthetics_image_lists")
    with pytest.raises(ValueError, match="needs the side column 'test', but these samples have votes"):
        split_samples(load_dataset("ava", root), 0, "given")


def test_rows_of_ava_without_votes_or_photos_are_counted(tmp_path):
    root = miniatures.write_ava(tmp_path)
    zeros = " ".join(["0"] * 10)
    edit(root / AVA, lambda text: text + f"31 5 {zeros} 0 0 1\n32 953619 {zeros} 0 0 1\n\n")
    miniatures.write_photo(root / "AVA_dataset" / "images" / "5.jpg", 0.5)
    (root / "AVA_dataset" / "images" / "953958.jpg").write_bytes(b"")
    samples, report = survey("ava", root)
    assert report.dropped == {"image file is empty": 1, "image missing": 1, "no votes": 2}
    assert len(samples) == 28


def test_tad66k_reads_merged_tables(tmp_path):
    root = miniatures.write_tad66k(tmp_path)
    samples, report = survey("tad66k", root)
    assert (report.n_read, report.dropped) == (30, {})
    assert [path.parent.name + "/" + path.name for path in report.files] == ["merge/train.csv", "merge/test.csv"]
    assert samples.y[:2].tolist() == [3.12, 3.0]
    assert set(samples.x["theme"]) == {"flower", "sea"}
    assert split_samples(samples, 0, "given").test.tolist() == list(range(24, 30))
    shutil.rmtree(root / "tad66k" / "labels" / "unmerge")  # themes are there only where their tables are
    assert [*load_dataset("tad66k", root).x] == ["path"]


@pytest.mark.parametrize("place", [".", "images"])
def test_photos_of_tad66k_are_found_wherever_they_lie(tmp_path, place):
    root = miniatures.write_tad66k(tmp_path)
    (root / "tad66k" / place).mkdir(exist_ok=True)
    for photo in (root / "tad66k" / "TAD66K").iterdir():
        photo.rename(root / "tad66k" / place / photo.name)
    assert len(load_dataset("tad66k", root)) == 30


def test_icaa17k_reads_paths_and_either_target(tmp_path):
    root = miniatures.write_icaa17k(tmp_path)
    samples, report = survey("icaa17k", root)
    assert [path.name for path in report.files] == ["1train.csv", "1test.csv"]
    assert samples.y[0] == 6.720342636108398
    assert load_dataset("icaa17k", root, target="color").y[0] == 5.637041
    assert samples.x.loc[0, ["scheme", "colors"]].tolist() == ["complementary", "orange_blue"]
    assert [*samples.x] == ["path", "scheme", "colors"]
    assert split_samples(samples, 0, "given").test.tolist() == [27, 28, 29]
    with pytest.raises(ValueError, match="target must be one of MOS, color, but got target='probability'"):
        load_dataset("icaa17k", root, target="probability")
    with pytest.raises(ValueError, match=r"columns must be some of scheme, colors, but .*come from those who judged"):
        load_dataset("icaa17k", root, columns=("color",))


def test_a_photo_in_both_tables_is_only_learned_from(tmp_path):
    root = miniatures.write_icaa17k(tmp_path)
    row = (root / ICAA).read_text().splitlines()[1]
    edit((root / ICAA).with_name("1test.csv"), lambda text: text + row + "\n")
    samples, report = survey("icaa17k", root)
    assert report.dropped == {"image listed twice": 1}
    assert samples.side["test"][0] == 0


def test_spaq_reads_workbooks(tmp_path):
    root, rows = miniatures.write_spaq(tmp_path), miniatures.spaq_rows()
    samples = load_dataset("spaq", root)
    assert samples.y.tolist() == [row[3] for row in rows]
    assert [*samples.x] == ["path", *SPAQ_SCENES]
    assert (samples.x[[*SPAQ_SCENES]].sum(axis=1) == 1).all()
    test = split_samples(samples, 0, "given").test
    assert names_of(samples, test) == ["10001.jpg", "10002.jpg", "10003.jpg", "10004.jpg"]
    assert load_dataset("spaq", root, target="MOS").y.tolist() == [row[1] for row in rows]
    assert load_dataset("spaq", root, target="Sharpness").y.tolist() == [47.25] * 30
    with pytest.raises(ValueError, match=r"target must be one of MOS, .*, but got target='mos'"):
        load_dataset("spaq", root, target="mos")
    with pytest.raises(ValueError, match=r"columns must be some of scene, but .*those who judged"):
        load_dataset("spaq", root, columns=("MOS",))


def test_spaq_reads_tables_of_scores_divided_by_ten(tmp_path):
    one = load_dataset("spaq", miniatures.write_spaq(tmp_path / "one"), columns=())
    other = load_dataset("spaq", miniatures.write_spaq_tables(tmp_path / "other"))
    assert other.y.tolist() == pytest.approx(one.y.tolist())
    assert names_of(other) == names_of(one)
    assert other.side["test"].tolist() == one.side["test"].tolist()
    assert other.side["attributes"] == pytest.approx(one.side["attributes"])
    assert [*other.x] == ["path"]


@pytest.mark.parametrize("place", ["annotations", "."])
def test_spaq_is_found_in_other_copies(tmp_path, place):
    (miniatures.write_spaq(tmp_path / "written") / "SPAQ").rename(tmp_path / "SPAQ")
    (tmp_path / "outer").mkdir()
    top = (tmp_path / "SPAQ").rename(tmp_path / "outer" / "SPAQ")
    (top / place).mkdir(exist_ok=True)
    for path in (top / "Annotations").iterdir():
        path.rename(top / place / path.name)
    assert len(load_dataset("spaq", tmp_path)) == 30


def changed(file, old, new):
    return lambda root: edit(root / file, lambda text: text.replace(old, new))


def written(file, content):
    return lambda root: (root / file).write_bytes(content)


def sheet(*rows):
    return lambda root: miniatures.write_workbook(root / SPAQ, "Sheet1", rows)


DAMAGE = [
    ("ava", lambda root: shutil.rmtree(root / "AVA_dataset" / "images"), "953619.jpg, but none of 30 .* put or link"),
    ("ava", changed(AVA, "3 954184 0", "3 954184"), r"AVA\.txt .* line 3 is '3 954184 0 4 .*; fetch"),
    ("ava", changed(AVA, "2 953958 10", "2 953958 ten"), r"AVA\.txt .* line 2 is '2 953958 ten .*; fetch"),
    ("ava", changed(AVA, "2 953958 10", "2 953958 -1"), r"AVA\.txt .* line 2 has a negative one; fetch"),
    ("ava", written(AVA, b"version https://git-lfs.github.com/\n"), "`git lfs pull`"),
    ("tad66k", lambda root: (root / TAD).with_name("test.csv").unlink(), r"test\.csv must lie beside .*; fetch"),
    ("tad66k", changed(TAD, "image,score", "image,mos"), r"train\.csv .* image,score, but got image,mos; fetch"),
    ("tad66k", changed(TAD, "3.12", "3.1.2"), r"train\.csv .* line 2, column score is '3\.1\.2'; fetch"),
    ("tad66k", written(TAD, b"image,score\n\xff\xfe,1\n"), "a text file, but .*; fetch"),
    ("icaa17k", changed(ICAA, "orange_blue/j", "j"), r"line 2 has 'complementary/j.*; fetch"),
    ("icaa17k", written(ICAA, f"{ICAA_HEADER}a/b/c.jpg,1\n".encode()), "line 2 has 2; fetch"),
    ("icaa17k", written(ICAA, ICAA_HEADER.encode()), "two lines or more, but it has 1; fetch"),
    ("spaq", written(SPAQ, b"PK\x03\x04 cut off"), r"scores\.xlsx must be an Excel workbook .*, but .*; fetch"),
    ("spaq", sheet(["Image name", "MOS"], ["1.jpg", 1]), "but got Image name, MOS; fetch"),
    ("spaq", sheet(*SCORES, ["2.jpg", 1, 2, "", 4, 5, 6]), "line 3, column Colorfulness is ''"),
    ("spaq", sheet(*SCORES, ["2.jpg", 1, 2, 300, 4, 5, 6]), "0 to 100, but got 300; fetch"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE, ids=[message for _, _, message in DAMAGE])
def test_damage_is_named_with_its_cure(tmp_path, name, damage, message):
    root = miniatures.WRITERS[name](tmp_path)
    damage(root)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        survey(name, root)
    assert len(DISTRIBUTIONS[name].check(root).errors) == 1
