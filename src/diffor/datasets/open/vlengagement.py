"""VLEngagement: how long viewers watch a video lecture, from the lecture's content and its duration.

``<root>/vlengagement/VLEngagement_dataset_v1.csv`` has a header and one lecture per line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diffor.datasets.readers.data_files import as_numbers, data_file, with_header
from diffor.datasets.samples import Dataset, Rows, Samples
from diffor.errors import UserError

FILE = "vlengagement/VLEngagement_dataset_v1.csv"
N_FOLDS = 5
CATEGORIES = ("language", "type", "categories")
RANKS = range(1, 6)
# Inputs are listed one by one, so that nothing else gets in. What stays out: `id` and `fold` describe the table, not
# the lecture; `avg_star_rating`, `num_views`, `num_sessions` and the mean, median and spread of the engagement are
# known only after people have watched, and the last three are the target itself in other words; the addresses of the
# topics (`..._url`) are names that are nearly as many as lectures. Their scores stay.
NUMBERS = (
    "duration", "is_chunked", "freshness", "auxiliary_rate", "conjugate_rate", "normalization_rate", "tobe_verb_rate",
    "preposition_rate", "pronoun_rate", "document_entropy", "easiness", "silent_period_rate",
    "fraction_stopword_coverage", "fraction_stopword_presence", "title_word_count", "word_count", "speaker_speed",
    *(f"auth_topic_rank_{rank}_score" for rank in RANKS),
    *(f"coverage_topic_rank_{rank}_score" for rank in RANKS),
)  # fmt: skip
NEEDED = (*NUMBERS, *CATEGORIES, "fold", "med_engagement")


def read_vlengagement(root: str | Path | None) -> Samples:
    """Seconds that the median viewer watches: the share of the lecture that is watched, times its duration."""
    path = data_file(root, "vlengagement", FILE)
    cells = with_header(path, NEEDED)
    numbers = as_numbers(cells[[*NUMBERS]], path, may_miss=True)
    watched = as_numbers(cells[["med_engagement", "duration"]], path)
    names = cells[[*CATEGORIES]].reset_index(drop=True).astype("category")
    duration = watched["duration"].to_numpy()
    return Samples(numbers.join(names), watched["med_engagement"].to_numpy() * duration, side={"duration": duration})


def split_vlengagement(root: str | Path | None, index: int) -> tuple[Rows, Rows]:
    """The given folds: fold ``index + 1`` is for testing, the other four are for training."""
    if not 0 <= index < N_FOLDS:
        raise UserError(f"index must lie in 0 to {N_FOLDS - 1}, because five folds are given, but got index={index}")
    path = data_file(root, "vlengagement", FILE)
    fold = as_numbers(with_header(path, NEEDED)[["fold"]], path)["fold"].to_numpy()
    return np.flatnonzero(fold != index + 1), np.flatnonzero(fold == index + 1)


VLENGAGEMENT = Dataset(
    name="vlengagement",
    description="watch time of 4,046 video lectures in seconds, at most their duration",
    source="github.com/sahanbull/context-agnostic-engagement (research use)",
    metrics=("mae", "rmse", "xauc", "srcc", "crps", "coverage"),
    read=read_vlengagement,
    split=split_vlengagement,
)
