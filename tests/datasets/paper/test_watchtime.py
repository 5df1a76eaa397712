"""KuaiRec and KuaiRand-Pure: miniatures in the true layout, splits, leaks, damage and checks."""

import dataclasses
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from miniatures_tables import LOG_HEADER, write_kuairec

from diffor.datasets import DATASETS, DISTRIBUTIONS, load_dataset
from diffor.datasets.paper.watchtime import FEEDBACK, KUAIRAND_FILES, KUAIREC_FILES, check_kuairand, most_frequent_tags
from diffor.datasets.readers.published_files import PublishedFile, check_files

survey_kuairec, survey_kuairand = DISTRIBUTIONS["kuairec"].survey, DISTRIBUTIONS["kuairand"].survey


def damage(root, name, old, new):
    (path,) = root.rglob(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def check_kuairec(root, published=KUAIREC_FILES):
    return check_files(root, "kuairec", "", published)


# KuaiRec.


def test_kuairec_is_read_as_it_is_shipped(shipped):
    samples, report = survey_kuairec(shipped)
    assert len(samples) == report.n_kept == report.n_read == 300
    assert [path.name for path in report.files] == ["big_matrix.csv", "small_matrix.csv"]
    assert samples.y[:3].tolist() == [13.838, 0.851, 0.851]
    assert samples.side["duration"][:3].tolist() == [10.867, 7.908, 7.908]
    assert samples.y[240:242].tolist() == [4.407, 4.381]  # the small matrix follows, with and without a date
    assert samples.groups[[0, 1, 240]].tolist() == [0, 1, 1]
    assert samples.groups.dtype == np.int64


def test_kuairec_inputs_are_those_of_the_group_that_wrote_the_paper(shipped):
    x = load_dataset("kuairec", shipped).x
    encoded = [f"onehot_feat{number}" for number in range(18)]
    assert x.columns.tolist() == ["user_id", *encoded, "video_id", "feat0", "feat1", "feat2", "feat3", "duration"]
    assert all(x[name].dtype == "category" for name in x.columns[:-1])
    assert x["onehot_feat12"][:2].isna().tolist() == [True, False]  # an empty cell of user 0
    two_tags, four_tags = x[x["video_id"] == 1].iloc[0], x[x["video_id"] == 2].iloc[0]
    assert two_tags[["feat0", "feat1"]].tolist() == ["27", "9"]
    assert two_tags[["feat2", "feat3"]].isna().all()
    assert four_tags[["feat0", "feat1", "feat2", "feat3"]].tolist() == ["5", "6", "7", "8"]


@pytest.mark.parametrize("name", ["my/own/folder", "."])
def test_the_folder_may_have_another_name(tmp_path, name):
    data = write_kuairec(tmp_path / "unpacked")
    (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(data, tmp_path / "root" / name, dirs_exist_ok=True)
    assert len(load_dataset("kuairec", tmp_path / "root")) == 300


def test_kuairec_learns_from_the_big_matrix_and_tests_on_the_small_one(shipped):
    train, test = DATASETS["kuairec"].split(shipped, 0)
    assert (train.tolist(), test.tolist()) == (list(range(240)), list(range(240, 300)))
    first, again, other = (DATASETS["kuairec"].parts(shipped, index)[1].tolist() for index in (0, 0, 1))
    assert len(first) == 24
    assert first == again != other


def test_rows_that_cannot_be_true_are_dropped_and_counted(root):
    damage(root, "big_matrix.csv", "0,3,13838,10867", "0,3,13838,0")
    damage(root, "small_matrix.csv", "1,3,4407,7013", "1,3,-4407,7013")
    samples, report = survey_kuairec(root)
    assert report.dropped == {"video_duration is not positive": 1, "play_duration is negative": 1}
    assert len(samples) == report.n_kept == 298
    train, test = DATASETS["kuairec"].split(root, 0)
    assert (len(train), len(test)) == (239, 59)


def test_a_user_without_features_misses_them(root):
    (path,) = root.rglob("user_features.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("1,")) + "\n")
    x = load_dataset("kuairec", root).x
    assert x["onehot_feat0"].isna().tolist() == (x["user_id"] == 1).tolist()


DAMAGE = [
    ("big_matrix.csv", "video_duration", "duration", "begin with the header user_id,video_id,"),
    ("big_matrix.csv", "0,3,13838", "0,3", "8 cells in each line, but line 2 has 7; fetch"),
    ("small_matrix.csv", "1,3,4407", "1,3,x", "int32 in column play_duration, but line 2 has 'x'; fetch"),
    ("user_features.csv", "onehot_feat17", "onehot", "begin with user_id,"),
    ("user_features.csv", "\n1,", "\n0,", "one line per user_id, but 0 has several; fetch"),
    ("item_categories.csv", "0,[8]", "0,[eight]", r"lists of tags, but video 0 has '\[eight\]'; fetch"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), DAMAGE)
def test_damaged_kuairec_files_are_named(root, name, old, new, message):
    path = damage(root, name, old, new)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        survey_kuairec(root)


def test_a_bad_row_can_be_dropped(root):
    damage(root, "big_matrix.csv", "0,3,13838", "0,3")
    samples, report = survey_kuairec(root, on_bad_row="drop")
    assert report.dropped == {"wrong number of cells": 1}
    assert (report.n_read, len(samples)) == (300, 299)
    assert len(load_dataset("kuairec", root, on_bad_row="drop")) == sum(map(len, DATASETS["kuairec"].split(root, 0)))


@pytest.mark.parametrize("name", ["small_matrix.csv", "user_features.csv", "item_categories.csv"])
def test_a_missing_kuairec_file_is_named(root, name):
    next(root.rglob(name)).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} must lie beside big_matrix\.csv, but it is missing; fetch"):
        survey_kuairec(root)


# KuaiRand.


def test_kuairand_is_filtered_and_rounded_as_published(shipped):
    samples, report = survey_kuairand(shipped)
    assert report.n_read == 300
    assert report.dropped == {"duration is zero or negative": 1, "duration is below 5 s": 1,
                              "duration is above 240 s": 1}  # fmt: skip
    assert len(samples) == report.n_kept == 297
    assert samples.y[:4].tolist() == [1, 10, 4, 4]  # 25.5 s of 10.5 s count as 10.5, and halves go to the even second
    assert samples.side["duration"][:4].tolist() == [210, 10, 10, 10]
    assert (samples.y <= samples.side["duration"]).all()
    assert samples.groups[:4].tolist() == [0, 0, 2, 2]


def test_kuairand_inputs_are_the_thirteen_of_the_published_code(shipped):
    x = load_dataset("kuairand", shipped).x
    assert x.columns.tolist() == [
        "user_id", "user_active_degree", "follow_user_num_range", "fans_user_num_range", "friend_user_num_range",
        "register_days_range", "video_id", "author_id", "video_type", "upload_type", "music_id", "tag_pop", "tab",
    ]  # fmt: skip
    assert not set(FEEDBACK) & set(x)
    assert all(x[name].dtype == "category" for name in x)
    assert x.iloc[0][["author_id", "video_type", "tag_pop", "tab"]].tolist() == ["7", "NORMAL", "68", 1]
    assert x.iloc[2][["user_active_degree", "follow_user_num_range"]].isna().tolist() == [True, False]


def test_kuairand_is_split_by_date(shipped):
    late = "log_standard_4_22_to_5_08_pure.csv"  # 25 rows of each date, none of them dropped
    dates = pd.read_csv(next(shipped.rglob(late)))["date"].to_numpy()
    training, validation, test = DATASETS["kuairand"].parts(shipped, 0)
    assert training.tolist() == list(range(197))
    assert set(dates[validation - 197]) == {20220422, 20220428}
    assert set(dates[test - 197]) == {20220429, 20220508}


EARLY, LATE = "log_standard_4_08_to_4_21_pure.csv", "log_standard_4_22_to_5_08_pure.csv"


@pytest.mark.parametrize(
    ("absent", "missing", "last_dates", "sizes"),
    [
        (
            EARLY,
            "100 of 1,436,609 rows are here, days without any: 20220408 to 20220421, 20220423",
            (28, 30),
            (50, 25, 25),
        ),
        (LATE, "200 of 1,436,609 rows are here, days without any: 20220408, 20220422 to 20220508;", (17, 19), None),
    ],
)
def test_one_log_is_enough_and_what_is_missing_is_said(root, absent, missing, last_dates, sizes):
    next(root.rglob(absent)).unlink()
    samples, report = survey_kuairand(root)
    assert len(report.files) == 1
    (note,) = report.notes
    assert note.startswith(missing)
    first, second = (int("202204" + str(day)) for day in last_dates)
    assert note.endswith(
        f"figures are not the published ones. Training is up to {first}, validation up to {second}, testing after it"
    )
    with pytest.warns(UserWarning, match="kuairand: .* rows are here"):
        assert len(load_dataset("kuairand", root)) == len(samples)
    parts = DATASETS["kuairand"].parts(root, 0)
    assert sorted(np.concatenate(parts)) == list(range(len(samples)))
    assert sizes is None or tuple(map(len, parts)) == sizes
    assert f"kuairand needs the file {absent}, but" in " ".join(check_kuairand(root, read_all=False).errors)


def test_without_any_log_both_are_named(root):
    for name in (EARLY, LATE):
        next(root.rglob(name)).unlink()
    with pytest.raises(FileNotFoundError, match=f"kuairand needs the file {EARLY} or {LATE}, but"):
        survey_kuairand(root)


@pytest.mark.parametrize("name", [EARLY, LATE])
def test_a_log_with_a_wrong_column_is_refused(root, name):
    path = damage(root, name, "play_time_ms", "play_time")
    with pytest.raises(ValueError, match=f"{path} must begin with the header .*play_time_ms,.* but got '.*play_time,"):
        survey_kuairand(root)


@pytest.mark.real_data
def test_the_real_log_is_read_and_split_by_date(tmp_path, monkeypatch):
    root = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[4] / "shared" / "data")) / "kuairand"
    if not root.is_dir():
        pytest.skip("the log is not beside the project; set DIFFOR_DATA to the folder that holds kuairand")
    monkeypatch.setenv("DIFFOR_CACHE", str(tmp_path))
    samples, report = survey_kuairand(root)
    (path,) = report.files
    log = pd.read_csv(path)
    assert report.n_read == len(log) == 228_329
    seconds = (log["duration_ms"] / 1000).round()
    n_zero, n_long = int((log["duration_ms"] <= 0).sum()), int((seconds > 240).sum())
    assert report.dropped == {"duration is zero or negative": n_zero, "duration is above 240 s": n_long}
    assert n_zero == 3_568
    assert "days without any: 20220408 to 20220424; figures are not the published ones" in report.notes[0]
    kept = log[seconds.between(5, 240)]
    assert samples.x["user_id"].astype(int).tolist() == kept["user_id"].tolist()
    assert (samples.y <= samples.side["duration"]).all()
    assert samples.y.tolist() == (kept[["play_time_ms", "duration_ms"]].min(axis=1) / 1000).round().tolist()
    filled = samples.x.notna().mean()
    assert filled[["user_id", "video_id", "tab", "author_id", "user_active_degree", "tag_pop"]].min() > 0.9
    dates = kept["date"].to_numpy()
    training, validation, test = (set(dates[rows]) for rows in DATASETS["kuairand"].parts(root, 0))
    assert (max(training), min(validation), max(validation), min(test)) == (20220428, 20220429, 20220430, 20220501)


def test_the_known_fake_is_refused(root):
    path = next(root.rglob("log_standard_4_08_to_4_21_pure.csv"))
    path.write_text("user_id,video_id,date,tab,is_click,is_like\n0,1,20220408,1,0,0\n")
    with pytest.raises(ValueError, match="synthetic ones of the same name") as raised:
        survey_kuairand(root)
    assert f"{path} must begin with the header {LOG_HEADER}, but got 'user_id,video_id,date,tab" in str(raised.value)
    assert str(raised.value) in check_kuairand(root).errors


def test_the_most_frequent_tag_is_that_of_most_videos():
    tags = pd.Series(["3,1", "2,3", None, "4,5"], index=[10, 20, 30, 40])
    found = most_frequent_tags(tags)
    assert found[[10, 20, 40]].tolist() == ["3", "3", "4"]
    assert found.isna().tolist() == [False, False, True, False]


# Checks.


def published_of(files, folder):
    """What would be published of the miniature: its own numbers of rows, sizes and checksums."""
    found = []
    for known in files:
        for path in list(folder.rglob(known.names[0]))[:1]:
            data = path.read_bytes()
            digest = ("sha256", hashlib.sha256(data).hexdigest()) if known.digest else None
            n_rows = data.count(b"\n") - 1 if known.n_rows else None
            n_bytes = len(data) if known.n_bytes else None
            found.append(dataclasses.replace(known, n_rows=n_rows, n_bytes=n_bytes, digest=digest))
    return found


def test_whole_files_pass_the_check(shipped):
    assert check_kuairec(shipped, published_of(KUAIREC_FILES, shipped)).errors == []
    report = check_kuairand(shipped, published_of(KUAIRAND_FILES, shipped))
    assert report.errors == []
    assert "these files give {'rows': 297, 'users': 16, 'videos': " in report.warnings[0]


def test_miniatures_are_not_the_published_files(shipped):
    errors = check_kuairec(shipped).errors
    assert len(errors) == 4
    assert "big_matrix.csv must have 12,530,806 rows, but it has 240; fetch the file again" in errors[0]
    errors = check_kuairand(shipped).errors
    assert len(errors) == 5
    assert "log_standard_4_08_to_4_21_pure.csv must have 83,961,282 bytes, but it has" in errors[0]


def test_checks_say_what_is_wrong(root):
    published = published_of(KUAIRAND_FILES, root)
    path = damage(root, "user_features_pure.csv", "high_active", "HIGH_active")
    (error,) = check_kuairand(root, published).errors
    assert f"{path} must have the sha256" in error
    next(root.rglob("video_features_basic_pure.csv")).unlink()
    next(root.rglob("log_random_4_22_to_5_08_pure.csv")).unlink()  # is not needed
    _, error = check_kuairand(root, published).errors
    assert "kuairand needs the file video_features_basic_pure.csv, but " in error
    damage(root, "item_categories.csv", "video_id,feat", "<html>")
    (error,) = check_kuairec(root, published_of(KUAIREC_FILES, root)).errors
    assert "item_categories.csv must hold data, but it is a web page" in error
    (root / "KuaiRec.zip").write_bytes(b"PK")  # what only users report is a warning
    assert "KuaiRec.zip must have the md5 261550d472c48eff4990fb13c0e5bcf7, but" in check_kuairec(root).warnings[0]


def test_rows_are_counted_without_a_last_line_end(tmp_path):
    for text, n_rows in (("a\n1\n2", 2), ("a\n1\n2\n", 2), ("a\n", 0)):
        (tmp_path / "big_matrix.csv").write_text(text)
        assert check_kuairec(tmp_path, [PublishedFile(("big_matrix.csv",), "a", n_rows=n_rows)]).errors == []
