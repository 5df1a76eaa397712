"""Watch time of short videos: KuaiRec and KuaiRand-Pure, read as their owners ship them.

Inputs are listed one by one, so that nothing else gets in. What stays out: in KuaiRand the feedback that comes with the
watching (``is_click``, ``is_like``, ``long_view``, ``profile_stay_time`` and the like) and the video statistics of the
whole month; in KuaiRec the daily statistics of the videos, which count the very row that is to be predicted, and
``watch_ratio``, which is the target in other words.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.paper.sets import Root, table_set
from diffor.datasets.readers.arrow_cache import cached_table
from diffor.datasets.readers.data_files import CURE, as_numbers, beside, exact_table, from_codes
from diffor.datasets.readers.published_files import PublishedFile, check_files
from diffor.datasets.readers.reading import CheckReport, Place, ReadReport, cache_folder, data_root
from diffor.datasets.readers.text_tables import TextFormat
from diffor.datasets.samples import Samples
from diffor.datasets.splits import Split, date_parts, named_test_rows
from diffor.errors import UserError

METRICS = ("mae", "xauc", "xauc_strict", "rmse", "srcc", "crps", "coverage")
UNKNOWN = ("", "UNKNOWN", "-124", "-124.0")
"""Cells of the tables of features that stand for a missing value."""
USER_COLUMNS = (
    "user_active_degree", "is_lowactive_period", "is_live_streamer", "is_video_author", "follow_user_num",
    "follow_user_num_range", "fans_user_num", "fans_user_num_range", "friend_user_num", "friend_user_num_range",
    "register_days", "register_days_range", *(f"onehot_feat{number}" for number in range(18)),
)  # fmt: skip
USER_HEADER = ",".join(["user_id", *USER_COLUMNS])

Columns = dict[str, NDArray[Any]]


def _read_logs(place: Place, files: Sequence[str], form: TextFormat, on_bad_row: str) -> tuple[Columns, ReadReport]:
    """The rows of log files that lie beside the first; ``table`` says from which each is, counting from 0."""
    first, cache = place.need(files[0]), cache_folder(place.root)
    tables = [cached_table(beside(first, file), form, cache, on_bad_row=on_bad_row) for file in files]
    found = [table.arrays(list(form.kept)) for table in tables]
    columns = {name: np.concatenate([part.pop(name) for part in found]) for name in form.kept}
    columns["table"] = np.repeat(np.arange(len(tables), dtype=np.int8), [table.n_rows for table in tables])
    report = ReadReport([table.source for table in tables], sum(table.n_read for table in tables))
    for table in tables:
        report.drop(table.dropped)
    return columns, report


def _drop_rows(columns: Columns, report: ReadReport, reasons: Mapping[str, NDArray[np.bool_]]) -> Columns:
    """Columns without the rows that any of the reasons names, each of which counts under the first."""
    is_kept = np.ones(len(columns["table"]), dtype=bool)
    for reason, concerned in reasons.items():
        report.drop({reason: int((concerned & is_kept).sum())})
        is_kept &= ~concerned
    return columns if is_kept.all() else {name: values[is_kept] for name, values in columns.items()}


def _read_features(path: Path, header: str, columns: Sequence[str]) -> pd.DataFrame:
    """Columns of a table of features as text, missing ones as NaN; the first of the header, a number, is the index."""
    names = header.split(",")
    cells = exact_table(path, names)
    keys = as_numbers(cells[names[:1]], path)[names[0]].astype(np.int64)
    if keys.duplicated().any():
        repeated = keys[keys.duplicated()].iloc[0]
        raise UserError(f"{path} must have one line per {names[0]}, but {repeated} has several; {CURE}")
    features: pd.DataFrame = cells[list(columns)].set_axis(pd.Index(keys), axis=0)
    known: pd.DataFrame = features.mask(features.isin(UNKNOWN))
    return known


def _look_up(keys: NDArray[Any], name: str, features: pd.DataFrame) -> dict[str, Any]:
    """The key itself and its features as categories, one for each row; what has no features misses them."""
    levels, place = np.unique(keys, return_inverse=True)
    found = {name: from_codes(place, levels)}
    for column, values in features.reindex(levels).items():
        category = values.astype("category").cat
        found[str(column)] = from_codes(category.codes.to_numpy()[place], category.categories)
    return found


# KuaiRec.

MATRIX = TextFormat(
    {
        "user_id": "int32", "video_id": "int32", "play_duration": "int32", "video_duration": "int32",
        # 181,992 rows of the small matrix have no time.
        "time": None, "date": None, "timestamp": None, "watch_ratio": None,
    },
)  # fmt: skip
ENCODED_USER_COLUMNS = tuple(f"onehot_feat{number}" for number in range(18))
TAGS_HEADER = "video_id,feat"
N_TAGS = 4
KUAIREC_FILES = (
    PublishedFile(("big_matrix.csv",), MATRIX.header, n_rows=12_530_806),
    PublishedFile(("small_matrix.csv",), MATRIX.header, n_rows=4_676_570),
    PublishedFile(("user_features.csv",), USER_HEADER, n_rows=7_176),
    PublishedFile(("item_categories.csv",), TAGS_HEADER, n_rows=10_728),
    PublishedFile(
        ("KuaiRec.zip",), digest=("md5", "261550d472c48eff4990fb13c0e5bcf7"), is_needed=False, is_official=False
    ),
)


def survey_kuairec(place: Place, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read KuaiRec: the target is the seconds that a video is watched.

    NOTE[DIFF]: the paper gives no unit; its errors of about 3 fit seconds.
    """
    columns, report = _kuairec_log(place, on_bad_row)
    users = _read_features(beside(report.files[0], "user_features.csv"), USER_HEADER, ENCODED_USER_COLUMNS)
    videos = _read_tags(beside(report.files[0], "item_categories.csv"))
    duration = columns["video_duration"] / 1000
    inputs = _look_up(columns["user_id"], "user_id", users) | _look_up(columns["video_id"], "video_id", videos)
    x = pd.DataFrame(inputs | {"duration": duration}, copy=False)
    y = columns["play_duration"] / 1000
    return Samples(x, y, {"duration": duration}, columns["user_id"].astype(np.int64)), report


def split_kuairec(place: Place, index: int) -> Split:
    """Learn from the big matrix, of which the index draws a tenth for validation, and test on the small one."""
    columns, _ = _kuairec_log(place, "drop")
    return named_test_rows(columns.pop("table") == 1, index)


def _kuairec_log(place: Place, on_bad_row: str) -> tuple[Columns, ReadReport]:
    """The rows of the big and then the small matrix."""
    columns, report = _read_logs(place, ("big_matrix.csv", "small_matrix.csv"), MATRIX, on_bad_row)
    reasons = {
        "video_duration is not positive": columns["video_duration"] <= 0,
        "play_duration is negative": columns["play_duration"] < 0,
    }
    return _drop_rows(columns, report, reasons), report


def _read_tags(path: Path) -> pd.DataFrame:
    """The first four tags of each video, which the file gives as a list such as ``"[27, 9]"``."""
    lists = _read_features(path, TAGS_HEADER, ["feat"])["feat"].fillna("[]")
    rows: list[list[str | None]] = []
    for video, text in lists.items():
        try:
            found = [str(int(tag)) for tag in ast.literal_eval(text)]
        except (ValueError, SyntaxError, TypeError) as error:
            raise UserError(f"{path} must hold lists of tags, but video {video} has {text!r}; {CURE}") from error
        rows.append([*found, *[None] * N_TAGS][:N_TAGS])
    columns = [f"feat{number}" for number in range(N_TAGS)]
    tags: pd.DataFrame = pd.DataFrame(rows, index=lists.index, columns=columns)
    return tags


# KuaiRand-Pure.

KUAIRAND_OBTAIN = (
    "Download KuaiRand-Pure.tar.gz (47 MB, CC BY-SA 4.0) from zenodo.org/records/10439422 and unpack it below the "
    "root; it makes the folder KuaiRand-Pure/data."
)
FAKE_CURE = "take the file of KuaiRand-Pure.tar.gz: synthetic ones of the same name, with other columns, are about"
FEEDBACK = ("is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "long_view",
            "profile_stay_time", "comment_stay_time", "is_profile_enter")  # fmt: skip
"""Columns that are known only when the watching is over: no inputs."""
WATCH_LOG = TextFormat(
    {
        "user_id": "int32", "video_id": "int32", "date": "int32", "hourmin": None, "time_ms": None,
        **dict.fromkeys(FEEDBACK[:7]), "play_time_ms": "int32", "duration_ms": "int32",
        **dict.fromkeys(FEEDBACK[7:]), "is_rand": None, "tab": "int32",
    },
    cure=FAKE_CURE,
)  # fmt: skip
VIDEO_COLUMNS = ("author_id", "video_type", "upload_type", "music_id", "tag")
VIDEO_HEADER = (
    "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,server_width,server_height,"
    "music_id,music_type,tag"
)
RANGE_COLUMNS = ("user_active_degree", "follow_user_num_range", "fans_user_num_range", "friend_user_num_range",
                 "register_days_range")  # fmt: skip
LOGS = ("log_standard_4_08_to_4_21_pure.csv", "log_standard_4_22_to_5_08_pure.csv")
SHORTEST, LONGEST = 5, 240
"""Durations that are kept, in whole seconds and with both ends. Published code has 240 as well as 400 above, under the
same counts."""
LAST_DATES = {LOGS: (20220421, 20220428), LOGS[1:]: (20220428, 20220430), LOGS[:1]: (20220417, 20220419)}
"""Last dates of training and of validation by the logs that are there. NOTE[DIFF]: one log is divided, too."""
DAYS = pd.date_range("2022-04-08", "2022-05-08").strftime("%Y%m%d").astype(int)
N_LOGGED = 1_436_609
"""Rows of both logs."""
COUNTS = {"rows": 1_266_560, "users": 26_988, "videos": 6_598}
"""What publications report of the filtered logs."""
KUAIRAND_FILES = tuple(
    PublishedFile((name,), header, None, n_bytes, ("sha256", digest), is_needed, FAKE_CURE)
    for name, header, n_bytes, digest, is_needed in (
        ("log_standard_4_08_to_4_21_pure.csv", WATCH_LOG.header, 83_961_282,
         "5bb6eb0b3d9f47e5436cb5dc82ee1899b845ebf9750a5560b801e929e18bd41c", True),
        ("log_standard_4_22_to_5_08_pure.csv", WATCH_LOG.header, 21_765_075,
         "429e3b948828942e572f2c3a5be5a25799ffe75591d22d18cf417b9b534d31fd", True),
        ("user_features_pure.csv", USER_HEADER, 3_519_028,
         "dc729a656301b4c6d07f713fe41d05ec9bfaab670b90e531c70037caf033c011", True),
        ("video_features_basic_pure.csv", VIDEO_HEADER, 626_669,
         "a6f7ee02684c5777422306cdc416e170302288aa89aca9dfea995edbd625bcc2", True),
        ("log_random_4_22_to_5_08_pure.csv", WATCH_LOG.header, 87_086_116,
         "60b80994da969cd53da4d50c37ba3dafd6fb185df804c92c8410df34845a9d2c", False),
    )
)  # fmt: skip


def survey_kuairand(place: Place, *, on_bad_row: str = "raise") -> tuple[Samples, ReadReport]:
    """Read KuaiRand-Pure as the publications do that give the paper's counts.

    Watch time and duration are whole seconds, halves rounded to the even one, and watching longer than the video lasts
    counts as watching it once. One of the two standard logs is enough; the report then notes which days are missing.
    """
    columns, report = _kuairand_log(place, on_bad_row)
    users = _read_features(beside(report.files[0], "user_features_pure.csv"), USER_HEADER, RANGE_COLUMNS)
    videos = _read_features(beside(report.files[0], "video_features_basic_pure.csv"), VIDEO_HEADER, VIDEO_COLUMNS)
    videos["tag_pop"] = most_frequent_tags(videos.pop("tag"))
    inputs = _look_up(columns["user_id"], "user_id", users) | _look_up(columns["video_id"], "video_id", videos)
    inputs["tab"] = from_codes(*np.unique(columns["tab"], return_inverse=True)[::-1])
    y = _whole_seconds(np.minimum(columns["play_time_ms"], columns["duration_ms"]))
    side = {"duration": _whole_seconds(columns["duration_ms"])}
    return Samples(pd.DataFrame(inputs, copy=False), y, side, columns["user_id"].astype(np.int64)), report


def split_kuairand(place: Place, index: int) -> Split:
    """By date, whatever the index."""
    dates = _kuairand_log(place, "drop")[0]["date"].astype(np.float64)
    return date_parts(dates, LAST_DATES[_present_logs(place)])


def _kuairand_log(place: Place, on_bad_row: str) -> tuple[Columns, ReadReport]:
    """The rows of the standard logs that are there whose duration is kept."""
    logs = _present_logs(place)
    columns, report = _read_logs(place, logs, WATCH_LOG, on_bad_row)
    if report.n_read != N_LOGGED:
        report.notes.append(_what_is_missing(columns["date"], report.n_read, LAST_DATES[logs]))
    duration = _whole_seconds(columns["duration_ms"])
    reasons = {
        "duration is zero or negative": columns["duration_ms"] <= 0,
        f"duration is below {SHORTEST} s": duration < SHORTEST,
        f"duration is above {LONGEST} s": duration > LONGEST,
        "play_time_ms is negative": columns["play_time_ms"] < 0,
    }
    return _drop_rows(columns, report, reasons), report


def _present_logs(place: Place) -> tuple[str, ...]:
    """The standard logs in the nearest folder that has one."""
    folder = place.need(*LOGS).parent
    return tuple(log for log in LOGS if (folder / log).is_file())


def _what_is_missing(dates: NDArray[Any], n_rows: int, last_dates: tuple[int, int]) -> str:
    """What to say of logs that are not whole: rows, days without any, and how the rows are divided."""
    absent = np.flatnonzero(~DAYS.isin(np.unique(dates)))
    spans = np.split(absent, np.flatnonzero(np.diff(absent) > 1) + 1) if len(absent) else []
    days = ", ".join(str(DAYS[span[0]]) + (f" to {DAYS[span[-1]]}" if len(span) > 1 else "") for span in spans)
    return (
        f"{n_rows:,} of {N_LOGGED:,} rows are here, days without any: {days or 'none'}; figures are not the published "
        f"ones. Training is up to {last_dates[0]}, validation up to {last_dates[1]}, testing after it"
    )


def _whole_seconds(milliseconds: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.round(milliseconds / 1000))


def most_frequent_tags(tags: pd.Series[str]) -> pd.Series[str]:
    """Of each video's tags, such as ``39,68``, the one that most videos have; the first of several such.

    >>> most_frequent_tags(pd.Series(["39,68", "68", None])).tolist()
    ['68', '68', nan]
    """
    each = tags.str.split(",").explode()
    counts = each.map(each.value_counts())
    best = each[counts.groupby(level=0).rank(method="first", ascending=False) == 1]
    return best.reindex(tags.index)


def check_kuairand(
    root: Root = None, published: Sequence[PublishedFile] = KUAIRAND_FILES, *, read_all: bool = True
) -> CheckReport:
    """Headers, sizes and checksums; where they are right, also the counts that publications report."""
    report = check_files(root, "kuairand", KUAIRAND_OBTAIN, published, read_all=read_all, shown_by=LOGS)
    if not report.errors and read_all:
        x = survey_kuairand(Place(data_root(root, "kuairand"), "kuairand"))[0].x
        found = {"rows": len(x), "users": x["user_id"].nunique(), "videos": x["video_id"].nunique()}
        if found != COUNTS:
            report.add(f"publications report {COUNTS}, but these files give {found}; fetch them again", False)
    return report


WATCH_TIME = (
    table_set(
        name="kuairec",
        description="seconds that 7,176 users watch short videos: 12.5 million rows to learn from, 4.7 million to test",
        source="KuaiRec 2.0, kuairec.com (CC BY-SA 4.0)",
        size="1.5 GB, 12,530,806 and 4,676,570 rows",
        licence="CC BY-SA 4.0",
        obtain="Download KuaiRec.zip (432 MB, CC BY-SA 4.0) from zenodo.org/records/18164998 and unpack it below the "
        "root; it makes the folder 'KuaiRec 2.0/data' with big_matrix.csv and small_matrix.csv.",
        metrics=METRICS,
        survey=survey_kuairec,
        split=split_kuairec,
        files=KUAIREC_FILES,
    ),
    table_set(
        name="kuairand",
        description="seconds that 26,988 users watch short videos, up to the duration: 1.3 million rows, split by date",
        source="KuaiRand-Pure, kuairand.com (CC BY-SA 4.0)",
        size="106 MB, 1,436,609 rows",
        licence="CC BY-SA 4.0",
        obtain=KUAIRAND_OBTAIN,
        metrics=METRICS,
        survey=survey_kuairand,
        split=split_kuairand,
        files=KUAIRAND_FILES,
        check=check_kuairand,
    ),
)
"""Data sets of short videos and how long they are watched."""
