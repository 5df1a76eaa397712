"""Faces and ages: miniatures with the quirks of the real files, damaged ones, and the real faces where they are."""

import os
import shutil
from pathlib import Path

import miniatures_images as miniatures
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from diffor.datasets import DATASETS, DISTRIBUTIONS, load_dataset
from diffor.datasets.splits import crossing_groups, split_samples

ROOT = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[4] / "shared" / "data"))
CACD = "CACD2000/celebrity2000_meta.mat"
MORPH = "MORPH_nonCommercial/morph_2008_nonCommercial.csv"


def survey(name, root, **options):
    return DISTRIBUTIONS[name].survey(root, **options)


def by_name(samples):
    """Rows of inputs by the name of their image, with the target."""
    table = samples.x.assign(y=samples.y)
    return table.set_index(table["path"].map(lambda path: Path(path).name))


def edit(path, change):
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


# UTKFace.


def test_utkface_tells_all_in_its_names(tmp_path):
    samples, report = survey("utkface", miniatures.write_utkface(tmp_path))
    assert (report.n_read, report.dropped, report.files) == (30, {}, [tmp_path / "UTKFace"])
    assert samples.groups is None
    faces = by_name(samples)
    assert faces.loc["1_0_0_20161219140623097.jpg.chip.jpg", ["gender", "race", "y"]].tolist() == ["male", "White", 1]
    assert faces.loc["116_1_0_20170120134921760.jpg.chip.jpg", ["gender", "y"]].tolist() == ["female", 116]
    repaired = faces.loc[[*miniatures.UTKFACE_BAD_NAMES]]
    assert repaired["y"].tolist() == [39, 61, 61, 24, 55]
    assert repaired["gender"].tolist() == ["male", "female", "female", "male", "male"]
    assert repaired["race"].tolist() == ["Black", "Black", "Indian", "Black", "White"]


def test_what_is_not_a_face_is_dropped_and_counted(tmp_path):
    root = miniatures.write_utkface(tmp_path)
    (tmp_path / "UTKFace" / "Thumbs.db").write_bytes(b"no image")
    (tmp_path / "UTKFace" / "20_1_1_20170101000000000.jpg.chip.jpg").write_bytes(b"")
    miniatures.write_photo(tmp_path / "UTKFace" / "cover.jpg", 0.5)
    miniatures.write_photo(tmp_path / "UTKFace" / "999_0_0_20170101000000000.jpg.chip.jpg", 0.5)
    samples, report = survey("utkface", root)
    assert (len(samples), report.n_read) == (30, 33)
    assert report.dropped == {"file name without an age": 2, "image file is empty": 1}


def test_the_whole_set_is_preferred_to_its_first_part(tmp_path):
    miniatures.write_utkface(tmp_path / "utk")
    shutil.copytree(tmp_path / "utk" / "UTKFace", tmp_path / "crop_part1")
    assert survey("utkface", tmp_path)[1].files == [tmp_path / "utk" / "UTKFace"]
    shutil.rmtree(tmp_path / "utk")
    assert survey("utkface", tmp_path)[1].files == [tmp_path / "crop_part1"]


def test_the_image_alone_can_be_asked_for(tmp_path):
    root = miniatures.write_morph(miniatures.write_utkface(tmp_path))
    assert [*load_dataset("utkface", root, columns=()).x] == [*load_dataset("morph", root, columns=()).x] == ["path"]
    assert [*load_dataset("utkface", root, columns=("race",)).x] == ["path", "race"]


# FG-NET.


def test_fgnet_is_read_in_either_case(tmp_path):
    root = miniatures.write_fgnet(tmp_path)
    shutil.copy(root / "FGNET" / "images" / "001A02.JPG", root / "FGNET" / "images" / "001a02.jpg")
    miniatures.write_photo(root / "FGNET" / "images" / "cover.jpg", 0.5)
    samples, report = survey("fgnet", root)
    assert (len(samples), report.n_read, report.files) == (21, 23, [tmp_path / "FGNET" / "images"])
    assert report.dropped == {"file name without person and age": 1, "photo under two spellings": 1}
    ages = by_name(samples)["y"]
    names = ["001A02.JPG", "001A43a.JPG", "001A43b.JPG", "002a04.JPG", "009A00.jpg", "082A31.JPG"]
    assert ages[names].tolist() == [2, 43, 43, 4, 0, 31]
    assert set(samples.groups) == {1, 2, 9, 10, 11, 82}
    assert [int(Path(path).name[:3]) for path in samples.x["path"]] == samples.groups.tolist()


def test_fgnet_leaves_each_person_out_once(tmp_path):
    root = miniatures.write_fgnet(tmp_path)
    samples, dataset = load_dataset("fgnet", root), DATASETS["fgnet"]
    for index, person in enumerate(sorted(set(samples.groups))):
        train, test = dataset.split(root, index)
        assert set(samples.groups[test]) == {person}
        assert sorted([*train, *test]) == list(range(len(samples)))


# MORPH.


def test_morph_reads_its_table(tmp_path):
    samples, report = survey("morph", miniatures.write_morph(tmp_path))
    assert (report.n_read, report.dropped) == (19, {"row of another width": 1})
    assert samples.y[:3].tolist() == [44, 45, 23]
    assert samples.groups[:3].tolist() == [900001, 900001, 900002]
    assert samples.x[["race", "gender"]][:3].to_numpy().tolist() == [["B", "M"], ["B", "M"], ["W", "F"]]
    assert samples.x["race"].dtype == "category"


def test_what_gives_the_age_away_is_not_an_input(tmp_path):
    root = miniatures.write_cacd(miniatures.write_morph(tmp_path))
    for column in ("dob", "doa", "age_diff", "picture_num", "age", "id_num"):
        with pytest.raises(ValueError, match=r"columns must be some of race, gender, .*but .*give the age away"):
            load_dataset("morph", root, columns=("race", column))
    for column in ("birth", "identity", "name", "age"):
        with pytest.raises(ValueError, match=r"columns must be some of year, but .*give the age away"):
            load_dataset("cacd", root, columns=("year", column))
    with pytest.raises(ValueError, match=r"columns must be some of race, gender, .* but got columns='race'"):
        load_dataset("morph", root, columns="race")


def test_bad_rows_of_morph_are_dropped_and_counted(tmp_path):
    root = miniatures.write_morph(tmp_path)
    album = root / "MORPH_nonCommercial" / "Album2"
    extra = ["900900,0,,,B,M,,,0,,Album2/a.JPG", ",0,,,B,M,,30,0,,Album2/b.JPG", "900901,0,,,B,M,,30,0,,"]
    extra += ["900902,0,,,B,M,,30.5,0,,Album2/c.JPG", "900903,0,,,B,M,,30,0,,Album2/none.JPG"]
    extra += ["900001,0,01/01/1960,01/01/2004,B,M,,44,0,,Album2/900001_0M44.JPG", ""]
    edit(root / MORPH, lambda text: text.replace("Album2/900001_0", "Album2\\900001_0") + "\n".join(extra) + "\n")
    (album / "900001_1M45.JPG").rename(album / "900001_1M45.jpg")
    samples, report = survey("morph", root)
    assert report.dropped == {
        "age missing": 2, "image listed twice": 1, "image missing": 2, "person missing": 1, "row of another width": 1,
    }  # fmt: skip
    assert len(samples) == 18
    assert samples.x["path"][1].endswith("900001_1M45.jpg")


def test_people_of_morph_are_in_one_part(tmp_path):
    samples = load_dataset("morph", miniatures.write_morph(tmp_path, n_people=40))
    for protocol in ("random", "folders"):
        for index in range(5):
            split = split_samples(samples, index, protocol)
            assert crossing_groups(split, samples.groups) == []
            assert len(split.learning) + len(split.test) == len(samples)


# CACD.


def test_cacd_finds_its_images_however_accents_are_stored(tmp_path):
    root = miniatures.write_cacd(tmp_path)
    samples, report = survey("cacd", root, columns=("year",))
    assert (report.n_read, report.dropped) == (24, {})
    assert samples.x["year"].tolist() == [2004, 2013] * 12
    assert samples.groups.tolist() == np.repeat(np.arange(1, 13), 2).tolist()
    assert samples.side["rank"].tolist() == samples.groups.tolist()
    assert [int(Path(path).name.split("_")[0]) for path in samples.x["path"]] == samples.y.tolist()
    for photo in (root / "CACD2000" / "CACD2000").glob("*Person_7_*"):
        photo.unlink()
    samples, report = survey("cacd", root)
    assert report.dropped == {"image missing": 2}
    assert len(samples.side["rank"]) == len(samples) == 22


def test_celebrities_are_divided_by_rank(tmp_path):
    root = miniatures.write_cacd(tmp_path)
    samples = load_dataset("cacd", root)
    training, validation, test = (set(samples.side["rank"][rows]) for rows in DATASETS["cacd"].parts(root, 7))
    assert (training, validation, test) == (set(range(6, 13)), {1, 2}, {3, 4, 5})


# Damage.


def deleted(folder):
    return lambda root: shutil.rmtree(root / folder)


def morph_begins(change):
    return lambda root: edit(root / MORPH, change)


def cacd_holds(change):
    def damage(root):
        struct = loadmat(root / CACD)["celebrityImageData"]
        fields = {name: struct[name][0, 0] for name in struct.dtype.names}
        change(fields)
        savemat(root / CACD, {"celebrityImageData": fields})

    return damage


ONE_ROW = r"1 rows is left: row of another width \(1\); complete"
DAMAGE = [
    ("utkface", deleted("UTKFace"), "needs images .* Open susanqq"),
    ("fgnet", deleted("FGNET/images"), "needs images .* Download FGNET.zip"),
    ("morph", deleted("MORPH_nonCommercial/Album2"), "900001_0M44.JPG, but none of 18"),
    (
        "morph",
        morph_begins(lambda text: text.replace("age_diff", "delta")),
        "Commercial.csv .* id_num,.*delta.*; fetch",
    ),
    ("morph", morph_begins(lambda text: text.split("\n")[0] + "\n1,2\n"), ONE_ROW),
    ("morph", morph_begins(lambda text: text.split("\n")[0] + "\n"), "0 rows is left: there are none; complete"),
    ("morph", morph_begins(lambda text: "<!DOCTYPE html>"), "it is a web page .* download it in a browser"),
    ("cacd", lambda root: (root / CACD).write_bytes((root / CACD).read_bytes()[:300]), "struct .*; fetch"),
    ("cacd", cacd_holds(lambda fields: fields.pop("rank")), "struct celebrityImageData .*, but .*rank.*; fetch"),
    ("cacd", cacd_holds(lambda fields: fields.update(age=fields["age"][:5])), "one length, but .*'age': 5, .*; fetch"),
    ("cacd", lambda root: (root / CACD).write_bytes(b""), "must hold data, but it is empty; fetch"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE, ids=[message for _, _, message in DAMAGE])
def test_damage_is_named_with_its_cure(tmp_path, name, damage, message):
    root = miniatures.WRITERS[name](tmp_path)
    damage(root)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        survey(name, root)
    assert len(DISTRIBUTIONS[name].check(root).errors) == 1


@pytest.mark.real_data
def test_the_real_faces_go_through_the_same_loader():
    if not (ROOT / "utkface").is_dir():
        pytest.skip("the faces are not beside the project; set DIFFOR_DATA to the folder that holds UTKFace")
    samples, report = survey("utkface", ROOT)
    n_files = len(list((ROOT / "utkface").rglob("*.jpg")))
    assert (len(samples), report.n_read, report.dropped) == (n_files, n_files, {})
    assert samples.x["path"].is_unique
    assert (samples.y.min(), samples.y.max()) == (1, 116)
    assert samples.x.isna().sum().sum() == 0
    assert samples.x["gender"].value_counts(normalize=True)["male"] == pytest.approx(0.52, abs=0.02)
    split = split_samples(samples, 0, "random")
    sizes = [len(part) for part in (split.training, split.validation, split.test)]
    assert sizes == [n_files * 8 // 10, n_files // 10, n_files // 10]
    assert len(split_samples(samples, 0, "folders").test) == n_files // 5
    checked = DISTRIBUTIONS["utkface"].check(ROOT, n_images=50)
    assert [message.split("UTKFace ")[-1] for message in checked.errors] == [
        f"must lead to 23,708 rows of utkface, but got {n_files:,}; complete the files"
    ]
