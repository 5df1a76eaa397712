"""Watch time of short videos: KuaiRec and KuaiRand-Pure, read as their owners ship them.

Inputs are listed one by one, so that nothing else gets in. What stays out: in KuaiRand the feedback that comes with the
watching (``is_click``, ``is_like``, ``long_view``, ``profile_stay_time`` and the like) and the video statistics of the
whole month; in KuaiRec the daily statistics of the videos, which count the very row that is to be predicted, and
``watch_ratio``, which is the target in other words.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE
from diffor.datasets.readers.label_files import beside
from diffor.datasets.readers.large_tables import (
    LargeTable,
    PublishedFile,
    check_choice,
    check_files,
    date_parts,
    from_codes,
)
from diffor.datasets.readers.reading import CheckReport, ReadReport, data_root, need_below
from diffor.datasets.readers.text_blocks import TextFormat
from diffor.datasets.readers.watch_log import Log, look_up, read_features, read_log
from diffor.datasets.samples import Rows, Samples
from diffor.datasets.splits import Split, named_test_rows
from diffor.errors import UserError

USER_COLUMNS = (
    "user_active_degree", "is_lowactive_period", "is_live_streamer", "is_video_author", "follow_user_num",
    "follow_user_num_range", "fans_user_num", "fans_user_num_range", "friend_user_num", "friend_user_num_range",
    "register_days", "register_days_range", *(f"onehot_feat{number}" for number in range(18)),
)  # fmt: skip
USER_HEADER = ",".join(["user_id", *USER_COLUMNS])

# KuaiRec.

KUAIREC_OBTAIN = (
    "Download KuaiRec.zip (432 MB, CC BY-SA 4.0) from zenodo.org/records/18164998 and unpack it below the root; "
    "it makes the folder 'KuaiRec 2.0/data' with big_matrix.csv and small_matrix.csv."
)
MATRIX = TextFormat(
    {
        "user_id": "int32", "video_id": "int32", "play_duration": "int32", "video_duration": "int32", "time": None,
        "date": "float64", "timestamp": None, "watch_ratio": None,
    },
    may_be_empty=("date",),  # 181,992 rows of the small matrix have no time; its dates are written 20200705.0
)  # fmt: skip
ENCODED_USER_COLUMNS = tuple(f"onehot_feat{number}" for number in range(18))
TAGS_HEADER = "video_id,feat"
N_TAGS = 4
MATRICES = ("big", "small")
KUAIREC_FILES = (
    PublishedFile(("big_matrix.csv",), MATRIX.header, n_rows=12_530_806),
    PublishedFile(("small_matrix.csv",), MATRIX.header, n_rows=4_676_570),
    PublishedFile(("user_features.csv",), USER_HEADER, n_rows=7_176),
    PublishedFile(("item_categories.csv",), TAGS_HEADER, n_rows=10_728),
    PublishedFile(
        ("KuaiRec.zip",), digest=("md5", "261550d472c48eff4990fb13c0e5bcf7"), is_needed=False, is_official=False
    ),
)


@dataclass(frozen=True)
class KuaiRec(LargeTable):
    """How KuaiRec is read and split; each field is a choice that the publications leave open."""

    matrices: tuple[str, ...] = MATRICES
    """The sparse ``big`` matrix of 12.5 million rows, the dense ``small`` one of 4.7 million, or both."""
    target: str = "seconds"
    """``seconds`` watched, ``milliseconds``, ``ratio`` to the duration, or ``normed_ratio``: the ratio scaled to 0 to 1
    by its range in each video. The paper gives no unit; its errors of about 3 fit seconds. The last one is what a
    script of the same group does: it looks at the test rows, and nothing else here does."""
    duration_as_input: bool = True
    protocol: str = "matrix"
    """``matrix``: learn from the big matrix, test on the small one. ``date``: by date within the big matrix.
    ``random``: by ``shares``."""
    validation_share: float = 0.1
    """Share of the big matrix that the protocol ``matrix`` sets apart for validation."""
    last_dates: tuple[int, int] = (20200826, 20200831)
    """Last dates of training and of validation in the protocol ``date``: two of the three blocks of days to learn from,
    and half of the third each for validation and test."""

    def __post_init__(self) -> None:
        check_choice("target", self.target, ("seconds", "milliseconds", "ratio", "normed_ratio"))
        check_choice("protocol", self.protocol, ("matrix", "date", "random"))
        for matrix in self.matrices:
            check_choice("matrices", matrix, MATRICES)

    def survey(self, root: str | Path | None = None) -> tuple[Samples, ReadReport]:
        """The samples, and what was read and dropped."""
        log = self.log(root)
        first = log.report.files[0]
        users = read_features(beside(first, "user_features.csv"), USER_HEADER, ENCODED_USER_COLUMNS)
        videos = read_tags(beside(first, "item_categories.csv"))
        columns = log.columns
        duration = columns["video_duration"] / 1000
        inputs: dict[str, Any] = look_up(columns["user_id"], "user_id", users)
        inputs |= look_up(columns["video_id"], "video_id", videos)
        if self.duration_as_input:
            inputs["duration"] = duration
        y = self._target(columns["play_duration"].astype(np.float64), duration, inputs["video_id"].codes)
        groups = columns["user_id"].astype(np.int64)
        return Samples(pd.DataFrame(inputs, copy=False), y, {"duration": duration}, groups), log.report

    def split(self, root: str | Path | None, index: int) -> Split:
        """The rows of :meth:`survey` by the protocol; what is drawn is drawn by the index."""
        columns = self.log(root).columns
        users, dates, tables = (columns.pop(name) for name in ("user_id", "date", "table"))
        columns.clear()  # what a split of millions of rows needs beside them is much already
        is_small = np.array([matrix == "small" for matrix in self.matrices])[tables]
        if self.protocol == "random":
            return self.random_rows(users, index)
        if self.protocol == "date":
            return date_parts(np.where(is_small, np.nan, dates), self.last_dates)
        return named_test_rows(is_small, index, self.validation_share)

    def log(self, root: str | Path | None) -> Log:
        """The rows of the matrices."""
        top = data_root(root, "kuairec", KUAIREC_OBTAIN)
        first = need_below(top, "kuairec", KUAIREC_OBTAIN, f"{self.matrices[0]}_matrix.csv")
        tables = [self.open(beside(first, f"{matrix}_matrix.csv"), MATRIX, top) for matrix in self.matrices]
        log = read_log(tables, list(MATRIX.kept), self)
        return log.keep(
            {
                "video_duration is not positive": log.columns["video_duration"] <= 0,
                "play_duration is negative": log.columns["play_duration"] < 0,
            }
        )

    def _target(
        self, played: NDArray[np.float64], duration: NDArray[np.float64], video: NDArray[Any]
    ) -> NDArray[np.float64]:
        if self.target == "milliseconds":
            return played
        seconds = played / 1000
        if self.target == "seconds":
            return seconds
        ratio: NDArray[np.float64] = seconds / duration
        return ratio if self.target == "ratio" else _scale_within(ratio, video)


def _scale_within(values: NDArray[np.float64], member: NDArray[Any]) -> NDArray[np.float64]:
    """Values scaled to 0 to 1 by the range of their group; 0 where a group has but one value. **Shape:** ``(n,)``."""
    low, high = np.full(int(member.max()) + 1, np.inf), np.full(int(member.max()) + 1, -np.inf)
    np.minimum.at(low, member, values)
    np.maximum.at(high, member, values)
    width = np.where(high > low, high - low, 1.0)
    return np.asarray((values - low[member]) / width[member])


def read_tags(path: Path) -> pd.DataFrame:
    """The first four tags of each video, which the file gives as a list such as ``"[27, 9]"``."""
    lists = read_features(path, TAGS_HEADER, ["feat"])["feat"].fillna("[]")
    rows: list[list[str | None]] = []
    for video, text in lists.items():
        try:
            found = [str(int(tag)) for tag in ast.literal_eval(text)]
        except (ValueError, SyntaxError, TypeError) as error:
            raise UserError(f"{path} must hold lists of tags, but video {video} has {text!r}; {CURE}") from error
        rows.append([*found, *[None] * N_TAGS][:N_TAGS])
    tags: pd.DataFrame = pd.DataFrame(rows, index=lists.index, columns=[f"feat{number}" for number in range(N_TAGS)])
    return tags


def read_kuairec(root: str | Path | None = None, **options: Any) -> Samples:
    """Watch time in KuaiRec, with the options of :class:`KuaiRec`."""
    return KuaiRec(**options).survey(root)[0]


def split_kuairec(root: str | Path | None, index: int, **options: Any) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test on, with the options of :class:`KuaiRec`."""
    split = KuaiRec(**options).split(root, index)
    return split.learning, split.test


def check_kuairec(root: str | Path | None = None, published: Sequence[PublishedFile] = KUAIREC_FILES) -> CheckReport:
    """Headers and numbers of rows, and the checksum of the archive where it is kept."""
    return check_files(root, "kuairec", KUAIREC_OBTAIN, published)


# KuaiRand-Pure.

KUAIRAND_OBTAIN = (
    "Download KuaiRand-Pure.tar.gz (47 MB, CC BY-SA 4.0) from zenodo.org/records/10439422 and unpack it below the "
    "root; it makes the folder KuaiRand-Pure/data."
)
FAKE_CURE = "take the file of KuaiRand-Pure.tar.gz: synthetic ones of the same name, with other columns, are about"
FEEDBACK = ("is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "long_view",
            "profile_stay_time", "comment_stay_time", "is_profile_enter")  # fmt: skip
"""Columns that are known only when the watching is over: no inputs, unless ``leaks`` names them."""
WATCH_LOG = TextFormat(
    {
        "user_id": "int32", "video_id": "int32", "date": "int32", "hourmin": None, "time_ms": None,
        **dict.fromkeys(FEEDBACK[:7], "int32"), "play_time_ms": "int32", "duration_ms": "int32",
        **dict.fromkeys(FEEDBACK[7:], "int32"), "is_rand": None, "tab": "int32",
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
STANDARD_LOGS = ("standard_4_08_to_4_21", "standard_4_22_to_5_08")
LOGS = (*STANDARD_LOGS, "random_4_22_to_5_08")
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


@dataclass(frozen=True)
class KuaiRand(LargeTable):
    """How KuaiRand-Pure is read and split; the defaults are those of the publications that give the paper's counts."""

    logs: tuple[str, ...] = STANDARD_LOGS
    """Log files, without ``log_`` and ``_pure.csv``: the two standard ones, or also the one of random exposure."""
    min_duration: int = 5
    max_duration: int = 240
    """Durations that are kept, in whole seconds and with both ends. Published code has 240 as well as 400 above, under
    the same counts."""
    truncate: bool = True
    """Whether watching longer than the video lasts, again and again, counts as watching it once."""
    whole_seconds: bool = True
    """Whether watch time and duration are rounded to whole seconds, halves to the even one."""
    duration_as_input: bool = False
    leaks: tuple[str, ...] = ()
    """Columns of the feedback to take as inputs, although they are not known before the target is."""
    protocol: str = "date"
    """``date``: by date. ``random``: by ``shares``."""
    last_dates: tuple[int, int] = (20220421, 20220428)
    """Last dates of training and of validation in the protocol ``date``."""

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, ("date", "random"))
        for log in self.logs:
            check_choice("logs", log, LOGS)
        for leak in self.leaks:
            check_choice("leaks", leak, FEEDBACK)
        if not 0 < self.min_duration <= self.max_duration:
            raise UserError(
                "durations must be positive and rise, but got "
                f"min_duration={self.min_duration}, max_duration={self.max_duration}"
            )

    def survey(self, root: str | Path | None = None) -> tuple[Samples, ReadReport]:
        """The samples, and what was read and dropped."""
        log = self.log(root)
        first = log.report.files[0]
        users = read_features(beside(first, "user_features_pure.csv"), USER_HEADER, RANGE_COLUMNS)
        videos = read_features(beside(first, "video_features_basic_pure.csv"), VIDEO_HEADER, VIDEO_COLUMNS)
        videos["tag_pop"] = most_frequent_tags(videos.pop("tag"))
        columns = log.columns
        inputs: dict[str, Any] = look_up(columns["user_id"], "user_id", users)
        inputs |= look_up(columns["video_id"], "video_id", videos)
        inputs["tab"] = from_codes(*np.unique(columns["tab"], return_inverse=True)[::-1])
        inputs |= {name: columns[name] for name in self.leaks}
        duration, played = self._seconds(columns["duration_ms"]), columns["play_time_ms"]
        if self.duration_as_input:
            inputs["duration"] = duration
        y = self._seconds(np.minimum(played, columns["duration_ms"]) if self.truncate else played)
        groups = columns["user_id"].astype(np.int64)
        return Samples(pd.DataFrame(inputs, copy=False), y, {"duration": duration}, groups), log.report

    def split(self, root: str | Path | None, index: int) -> Split:
        """The rows of :meth:`survey` by the protocol; what is drawn is drawn by the index."""
        columns = self.log(root).columns
        if self.protocol == "random":
            return self.random_rows(columns["user_id"], index)
        return date_parts(columns["date"].astype(np.float64), self.last_dates)

    def log(self, root: str | Path | None) -> Log:
        """The rows of the logs whose duration is kept."""
        top = data_root(root, "kuairand", KUAIRAND_OBTAIN)
        first = need_below(top, "kuairand", KUAIRAND_OBTAIN, f"log_{self.logs[0]}_pure.csv")
        tables = [self.open(beside(first, f"log_{name}_pure.csv"), WATCH_LOG, top) for name in self.logs]
        log = read_log(tables, list(WATCH_LOG.kept), self)
        duration = np.round(log.columns["duration_ms"] / 1000)
        return log.keep(
            {
                "duration is unknown": log.columns["duration_ms"] <= 0,
                f"duration is below {self.min_duration} s": duration < self.min_duration,
                f"duration is above {self.max_duration} s": duration > self.max_duration,
                "play_time_ms is negative": log.columns["play_time_ms"] < 0,
            }
        )

    def _seconds(self, milliseconds: NDArray[Any]) -> NDArray[np.float64]:
        seconds: NDArray[np.float64] = milliseconds / 1000
        return np.round(seconds) if self.whole_seconds else seconds


def most_frequent_tags(tags: pd.Series[str]) -> pd.Series[str]:
    """Of each video's tags, such as ``39,68``, the one that most videos have; the first of several such.

    >>> most_frequent_tags(pd.Series(["39,68", "68", None])).tolist()
    ['68', '68', nan]
    """
    each = tags.str.split(",").explode()
    counts = each.map(each.value_counts())
    best = each[counts.groupby(level=0).rank(method="first", ascending=False) == 1]
    return best.reindex(tags.index)


def read_kuairand(root: str | Path | None = None, **options: Any) -> Samples:
    """Watch time in KuaiRand-Pure, with the options of :class:`KuaiRand`."""
    return KuaiRand(**options).survey(root)[0]


def split_kuairand(root: str | Path | None, index: int, **options: Any) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to test on, with the options of :class:`KuaiRand`."""
    split = KuaiRand(**options).split(root, index)
    return split.learning, split.test


def check_kuairand(root: str | Path | None = None, published: Sequence[PublishedFile] = KUAIRAND_FILES) -> CheckReport:
    """Headers, sizes and checksums; where they are right, also the counts that publications report."""
    report = check_files(root, "kuairand", KUAIRAND_OBTAIN, published)
    if not report.errors:
        x = read_kuairand(root).x
        found = {"rows": len(x), "users": x["user_id"].nunique(), "videos": x["video_id"].nunique()}
        if found != COUNTS:
            report.warnings.append(
                f"publications report {COUNTS}, but the default options give {found}; another max_duration, "
                "such as 400, may give them"
            )
    return report
