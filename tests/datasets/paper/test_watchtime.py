"""KuaiRec and KuaiRand-Pure: miniatures in the true layout, options, splits, leaks, damage and checks."""

import dataclasses
import hashlib
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniatures_tables import LOG_HEADER, write_kuairand, write_kuairec

from diffor.datasets.paper.table_sets import TABLE_DISTRIBUTIONS, WATCH_TIME
from diffor.datasets.paper.watchtime import (
    FEEDBACK,
    KUAIRAND_FILES,
    KUAIREC_FILES,
    KuaiRand,
    KuaiRec,
    check_kuairand,
    check_kuairec,
    most_frequent_tags,
    read_kuairand,
    read_kuairec,
    split_kuairand,
    split_kuairec,
)
from diffor.datasets.readers.large_tables import LargeTable, PublishedFile, date_parts, draw_rows
from diffor.datasets.splits import crossing_groups


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Both distributions below one root, with their caches filled."""
    root = tmp_path_factory.mktemp("shipped")
    write_kuairec(root)
    write_kuairand(root)
    read_kuairec(root)
    read_kuairand(root)
    return root


@pytest.fixture
def root(shipped, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(shipped, tmp_path / "root")


def damage(root, name, old, new):
    (path,) = root.rglob(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


# KuaiRec.


def test_kuairec_is_read_as_it_is_shipped(shipped):
    samples, report = KuaiRec().survey(shipped)
    assert len(samples) == report.n_kept == report.n_read == 300
    assert [path.name for path in report.files] == ["big_matrix.csv", "small_matrix.csv"]
    assert samples.y[:3].tolist() == [13.838, 0.851, 0.851]
    assert samples.side["duration"][:3].tolist() == [10.867, 7.908, 7.908]
    assert samples.y[240:242].tolist() == [4.407, 4.381]  # the small matrix follows, with and without a date
    assert samples.groups[[0, 1, 240]].tolist() == [0, 1, 1]
    assert samples.groups.dtype == np.int64


def test_kuairec_inputs_are_those_of_the_group_that_wrote_the_paper(shipped):
    x = read_kuairec(shipped).x
    encoded = [f"onehot_feat{number}" for number in range(18)]
    assert x.columns.tolist() == ["user_id", *encoded, "video_id", "feat0", "feat1", "feat2", "feat3", "duration"]
    assert all(x[name].dtype == "category" for name in x.columns[:-1])
    assert x["onehot_feat12"][:2].isna().tolist() == [True, False]  # an empty cell of user 0
    two_tags, four_tags = x[x["video_id"] == 1].iloc[0], x[x["video_id"] == 2].iloc[0]
    assert two_tags[["feat0", "feat1"]].tolist() == ["27", "9"]
    assert two_tags[["feat2", "feat3"]].isna().all()
    assert four_tags[["feat0", "feat1", "feat2", "feat3"]].tolist() == ["5", "6", "7", "8"]


@pytest.mark.parametrize("name", ["KuaiRec/data", "my/own/folder", "."])
def test_the_folder_may_have_another_name(tmp_path, name):
    data = write_kuairec(tmp_path / "unpacked")
    (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(data, tmp_path / "root" / name, dirs_exist_ok=True)
    assert len(read_kuairec(tmp_path / "root")) == 300


def test_kuairec_units(shipped):
    seconds = read_kuairec(shipped)
    ratio = read_kuairec(shipped, target="ratio")
    normed = read_kuairec(shipped, target="normed_ratio")
    assert read_kuairec(shipped, target="milliseconds").y[0] == 13838
    assert ratio.y == pytest.approx(seconds.y / seconds.side["duration"])
    assert ratio.y[:2] == pytest.approx([1.273397, 0.107613], abs=1e-6)  # the file's own column
    for video in (0, 3):
        of_video = (seconds.x["video_id"] == video).to_numpy()
        assert normed.y[of_video].min() == 0
        assert normed.y[of_video].max() == 1
    assert "duration" not in read_kuairec(shipped, duration_as_input=False).x


def test_kuairec_learns_from_the_big_matrix_and_tests_on_the_small_one(shipped):
    train, test = split_kuairec(shipped, 0)
    assert (train.tolist(), test.tolist()) == (list(range(240)), list(range(240, 300)))
    first, again, other = (KuaiRec().split(shipped, index) for index in (0, 0, 1))
    assert len(first.validation) == 24
    assert np.array_equal(first.validation, again.validation)
    assert not np.array_equal(first.validation, other.validation)


def test_kuairec_by_date_leaves_the_small_matrix_out(shipped):
    split = KuaiRec(protocol="date").split(shipped, 0)
    dates = KuaiRec().log(shipped).columns["date"]
    assert dates[split.training].max() <= 20200826 < dates[split.validation].min()
    assert dates[split.validation].max() <= 20200831 < dates[split.test].min()
    assert len(split.learning) + len(split.test) == 240
    assert split.test.max() < 240
    assert np.isnan(dates[240])


def test_one_matrix_may_do(shipped):
    samples, report = KuaiRec(matrices=("small",)).survey(shipped)
    assert len(samples) == 60
    assert [path.name for path in report.files] == ["small_matrix.csv"]
    with pytest.raises(ValueError, match="must have training and test rows, but got 0 and 60 of them"):
        KuaiRec(matrices=("small",)).split(shipped, 0)


def test_rows_that_cannot_be_true_are_dropped_and_counted(root):
    damage(root, "big_matrix.csv", "0,3,13838,10867", "0,3,13838,0")
    damage(root, "small_matrix.csv", "1,3,4407,7013", "1,3,-4407,7013")
    samples, report = KuaiRec().survey(root)
    assert report.dropped == {"video_duration is not positive": 1, "play_duration is negative": 1}
    assert len(samples) == report.n_kept == 298
    train, test = split_kuairec(root, 0)
    assert (len(train), len(test)) == (239, 59)


def test_a_user_without_features_misses_them(root):
    (path,) = root.rglob("user_features.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("1,")) + "\n")
    x = read_kuairec(root).x
    of_user = x[x["user_id"] == 1]
    assert len(of_user)
    assert of_user["onehot_feat0"].isna().all()
    assert x["onehot_feat0"].notna().any()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("big_matrix.csv", "video_duration", "duration", "big_matrix.csv must begin with the header user_id,video_id,"),
        ("big_matrix.csv", "0,3,13838", "0,3", "must have 8 cells in each line, but line 2 has 7"),
        ("small_matrix.csv", "1,3,4407", "1,3,x", "values of type int32 in column play_duration, but line 2 has"),
        ("user_features.csv", "onehot_feat17", "onehot", "user_features.csv must begin with user_id,"),
        ("user_features.csv", "\n1,", "\n0,", "must have one line per user_id, but got 0 has several; fetch"),
        ("item_categories.csv", "0,[8]", "0,[eight]", "must hold lists of tags, but video 0 has '[eight]'; fetch"),
    ],
)
def test_damaged_kuairec_files_are_named(root, name, old, new, message):
    path = damage(root, name, old, new)
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the message is looked at below
        read_kuairec(root)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


def test_a_bad_row_can_be_dropped(root):
    damage(root, "big_matrix.csv", "0,3,13838", "0,3")
    samples, report = KuaiRec(on_bad_row="drop").survey(root)
    assert report.dropped == {"wrong number of cells": 1}
    assert (report.n_read, len(samples)) == (300, 299)


@pytest.mark.parametrize("name", ["small_matrix.csv", "user_features.csv", "item_categories.csv"])
def test_a_missing_kuairec_file_is_named(root, name):
    next(root.rglob(name)).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} must lie beside big_matrix\.csv, but it is missing; fetch"):
        read_kuairec(root)


# KuaiRand.


def test_kuairand_is_filtered_and_rounded_as_published(shipped):
    samples, report = KuaiRand().survey(shipped)
    assert report.n_read == 300
    assert report.dropped == {
        "duration is unknown": 1,
        "duration is below 5 s": 1,
        "duration is above 240 s": 1,
    }
    assert len(samples) == report.n_kept == 297
    assert samples.y[:4].tolist() == [1, 10, 4, 4]  # 25.5 s of 10.5 s count as 10.5, and halves go to the even second
    assert samples.side["duration"][:4].tolist() == [210, 10, 10, 10]
    assert (samples.y <= samples.side["duration"]).all()
    assert samples.groups[:4].tolist() == [0, 0, 2, 2]


def test_kuairand_inputs_are_the_thirteen_of_the_published_code(shipped):
    x = read_kuairand(shipped).x
    assert x.columns.tolist() == [
        "user_id", "user_active_degree", "follow_user_num_range", "fans_user_num_range", "friend_user_num_range",
        "register_days_range", "video_id", "author_id", "video_type", "upload_type", "music_id", "tag_pop", "tab",
    ]  # fmt: skip
    assert all(x[name].dtype == "category" for name in x)
    assert x.iloc[0][["author_id", "video_type", "tag_pop", "tab"]].tolist() == ["7", "NORMAL", "68", 1]
    assert x.iloc[2][["user_active_degree", "follow_user_num_range"]].isna().tolist() == [True, False]


def test_kuairand_options(shipped):
    wide = KuaiRand(max_duration=400, min_duration=4).survey(shipped)[1]
    assert wide.dropped == {"duration is unknown": 1}
    exact = read_kuairand(shipped, truncate=False, whole_seconds=False, duration_as_input=True)
    assert exact.y[:2].tolist() == [1.385, 25.5]
    assert exact.x["duration"][:2].tolist() == exact.side["duration"][:2].tolist() == [209.9, 10.5]
    with_random = KuaiRand(logs=("standard_4_08_to_4_21", "random_4_22_to_5_08")).survey(shipped)[1]
    assert with_random.n_read == 240


def test_feedback_is_an_input_only_when_it_is_named(shipped):
    assert not set(FEEDBACK) & set(read_kuairand(shipped).x)
    assert read_kuairand(shipped, leaks=("is_click", "long_view")).x["long_view"][:4].tolist() == [0, 1, 1, 1]
    with pytest.raises(ValueError, match=r"leaks must be one of is_click, .*, but got leaks='play_time_ms'"):
        KuaiRand(leaks=("play_time_ms",))


def test_kuairand_is_split_by_date(shipped):
    dates = KuaiRand().log(shipped).columns["date"]
    split = KuaiRand().split(shipped, 0)
    assert set(dates[split.validation]) == {20220422, 20220428}
    assert set(dates[split.test]) == {20220429, 20220508}
    assert dates[split.training].max() <= 20220421
    train, test = split_kuairand(shipped, 0)
    assert sorted([*train, *test]) == list(range(297))
    later = KuaiRand(last_dates=(20220428, 20220429)).split(shipped, 0)
    assert set(dates[later.test]) == {20220508}


def test_the_known_fake_is_refused(root):
    fake = "user_id,video_id,date,tab,is_click,is_like\n0,1,20220408,1,0,0\n"
    path = next(root.rglob("log_standard_4_08_to_4_21_pure.csv"))
    path.write_text(fake)
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the message is looked at below
        read_kuairand(root)
    assert f"{path} must begin with the header {LOG_HEADER}, but got 'user_id,video_id,date,tab" in str(raised.value)
    assert "take the file of KuaiRand-Pure.tar.gz: synthetic ones" in str(raised.value)
    (complaint,) = (error for error in check_kuairand(root).errors if str(path) in error)
    assert "must begin with the header" in complaint


def test_the_most_frequent_tag_is_that_of_most_videos(root):
    import pandas as pd

    tags = pd.Series(["3,1", "2,3", None, "4,5"], index=[10, 20, 30, 40])
    found = most_frequent_tags(tags)
    assert found[[10, 20, 40]].tolist() == ["3", "3", "4"]
    assert found.isna().tolist() == [False, False, True, False]


# What both share.


def test_both_are_listed():
    assert [dataset.name for dataset in WATCH_TIME] == ["kuairec", "kuairand"]
    assert all(TABLE_DISTRIBUTIONS[dataset.name].name == dataset.name for dataset in WATCH_TIME)


@pytest.mark.parametrize("name", ["kuairec", "kuairand"])
def test_the_folder_of_the_files_may_come_from_the_environment(shipped, monkeypatch, tmp_path, name):
    survey = TABLE_DISTRIBUTIONS[name].survey
    monkeypatch.setenv("DIFFOR_DATA", str(shipped))
    assert len(survey(None)[0]) > 290
    monkeypatch.delenv("DIFFOR_DATA")
    with pytest.raises(
        ValueError, match=f"{name} is read from files, but got root=None; pass root, or set DIFFOR_DATA"
    ):
        survey(None)
    with pytest.raises(FileNotFoundError, match=rf"{name} needs the file .*, but .* holds none.*zenodo\.org/records"):
        survey(tmp_path)


def test_the_cache_lies_where_it_is_asked_for(shipped, tmp_path):
    read_kuairec(shipped, cache=tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").glob("big_matrix.csv-*/part-00000.parquet"))
    assert list((shipped / ".diffor-cache").glob("big_matrix.csv-*/part-00000.parquet"))


@pytest.mark.parametrize("loader", [KuaiRec, KuaiRand])
def test_fewer_rows_are_drawn_alike_for_reading_and_splitting(shipped, loader):
    every, (some, report) = loader().survey(shipped)[0], loader(max_rows=50, seed=3).survey(shipped)
    assert report.dropped.pop("not drawn, because of max_rows") == 250
    assert len(some) == 50 - sum(report.dropped.values())
    split = loader(max_rows=50, seed=3, protocol="random").split(shipped, 0)
    assert sorted([*split.learning, *split.test]) == list(range(len(some)))
    assert set(some.y) <= set(every.y)
    again, other = loader(max_rows=50, seed=3).survey(shipped)[0], loader(max_rows=50, seed=4).survey(shipped)[0]
    assert some.x.equals(again.x)
    assert not np.array_equal(some.y, other.y)


@settings(max_examples=25, deadline=None)
@given(index=st.integers(0, 10_000), whole_users=st.booleans(), n_users=st.integers(3, 40), loader=st.integers(0, 1))
def test_random_splits_are_seeded_and_disjoint_and_keep_users_whole(index, whole_users, n_users, loader):
    options = [KuaiRec, KuaiRand][loader](whole_users=whole_users, protocol="random")
    users = np.random.default_rng(index).integers(0, n_users, 400)
    if len(np.unique(users)) < 3:
        return
    split, again = options.random_rows(users, index), options.random_rows(users, index)
    assert sorted([*split.training, *split.validation, *split.test]) == list(range(400))
    assert np.array_equal(split.test, again.test)
    if whole_users:
        assert crossing_groups(split, users) == []
    else:
        assert (len(split.training), len(split.validation), len(split.test)) == (280, 40, 80)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([20220408, 20220421, 20220422, 20220428, 20220429, np.nan]), min_size=1, max_size=30))
def test_dates_divide_all_dated_rows(dates):
    dates = np.array([20220408, 20220429, *dates], dtype=float)
    split = date_parts(dates, (20220421, 20220428))
    assert sorted([*split.learning, *split.test]) == np.flatnonzero(~np.isnan(dates)).tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KuaiRec(target="minutes"), "target must be one of seconds, .*, but got target='minutes'"),
        (lambda: KuaiRec(protocol="users"), "protocol must be one of matrix, date, random, but got protocol='users'"),
        (lambda: KuaiRec(matrices=("tiny",)), "matrices must be one of big, small, but got matrices='tiny'"),
        (lambda: KuaiRand(protocol="matrix"), "protocol must be one of date, random, but got protocol='matrix'"),
        (lambda: KuaiRand(logs=("4_08",)), "logs must be one of standard_4_08_to_4_21, .*, but got logs='4_08'"),
        (lambda: KuaiRand(min_duration=9, max_duration=5), "durations must be positive and rise, but min_dura"),
        (lambda: date_parts(np.array([1.0]), (3, 2)), r"last_dates must rise .*, but got last_dates=\(3, 2\)"),
        (lambda: draw_rows(5, 0, 0), "max_rows must be at least 1, or None for all rows, but got max_rows=0"),
        (lambda: LargeTable(shares=(0.5, 0.5, 0)).random_rows(np.arange(9), 0), "shares must be those of training,"),
    ],
)
def test_impossible_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Checks.


def published_of(files, folder):
    """What would be published of the miniature: its own numbers of rows, sizes and checksums."""
    found = []
    for known in files:
        paths = list(folder.rglob(known.names[0]))
        if paths:
            data = paths[0].read_bytes()
            digest = ("sha256", hashlib.sha256(data).hexdigest()) if known.digest else None
            n_rows = data.count(b"\n") - 1 if known.n_rows else None
            n_bytes = len(data) if known.n_bytes else None
            found.append(dataclasses.replace(known, n_rows=n_rows, n_bytes=n_bytes, digest=digest))
    return found


def test_whole_files_pass_the_check(shipped):
    assert check_kuairec(shipped, published_of(KUAIREC_FILES, shipped)).errors == []
    report = check_kuairand(shipped, published_of(KUAIRAND_FILES, shipped))
    assert report.errors == []
    assert "the default options give {'rows': 297, 'users': 16, 'videos': " in report.warnings[0]


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
    assert any(
        "kuairand needs the file video_features_basic_pure.csv, but got " in error
        for error in check_kuairand(root, published).errors
    )
    damage(root, "item_categories.csv", "video_id,feat", "<html>")
    (error,) = check_kuairec(root, published_of(KUAIREC_FILES, root)).errors
    assert "item_categories.csv must hold data, but it is a web page" in error


def test_what_only_users_report_is_a_warning(root):
    (root / "KuaiRec.zip").write_bytes(b"PK")
    report = check_kuairec(root)
    assert "KuaiRec.zip must have the md5 261550d472c48eff4990fb13c0e5bcf7, but got " in report.warnings[0]


def test_a_check_without_files_says_how_to_get_them(tmp_path, monkeypatch):
    (error,) = check_kuairec(tmp_path).errors
    assert "kuairec needs the file big_matrix.csv, but got" in error
    assert "Download KuaiRec.zip" in error
    monkeypatch.delenv("DIFFOR_DATA", raising=False)
    (error,) = check_kuairand().errors
    assert "but got root=None; pass root, or set DIFFOR_DATA" in error


def test_rows_are_counted_without_a_last_line_end(tmp_path):
    for text, n_rows in (("a\n1\n2", 2), ("a\n1\n2\n", 2), ("a\n", 0)):
        (tmp_path / "big_matrix.csv").write_text(text)
        known = PublishedFile(("big_matrix.csv",), "a", n_rows=n_rows)
        assert check_kuairec(tmp_path, [known]).errors == []
