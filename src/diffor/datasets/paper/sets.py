"""The paper's twelve benchmarks: what each is, where it comes from, how it is read, split and checked.

NOTE[DIFF]: the paper's inputs are images alone. Side columns that are shipped with them are inputs here, too, where
they do not give the target away; ``columns=()`` of the readers leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diffor.datasets.paper import aesthetics, age, lifetime, watchtime
from diffor.datasets.readers.image_files import Expected, check_images
from diffor.datasets.readers.published_files import PublishedFile, check_files
from diffor.datasets.readers.reading import PublishedSet, Survey
from diffor.datasets.samples import Rows, Samples
from diffor.datasets.splits import Split, split_samples

AGE_METRICS = ("mae", "cs", "rmse", "srcc", "crps", "coverage")
SCORE_METRICS = ("mae", "xauc", "lcc", "srcc", "crps", "coverage")
WATCH_TIME_METRICS = ("mae", "xauc", "xauc_strict", "rmse", "srcc", "crps", "coverage")
LIFETIME_METRICS = ("mae", "srcc", "rmse", "normalized_gini", "crps", "coverage")
IMAGE_COLUMN = "path"


def read_surveyed(root: str | Path | None = None, *, survey: Survey, **options: Any) -> Samples:
    """The samples of a survey, which names the options."""
    return survey(root, **options)[0]


def _divide_samples(root: str | Path | None, index: int, survey: Survey, protocol: str) -> Split:
    return split_samples(survey(root)[0], index, protocol)


Divide = Callable[[str | Path | None, int], Split]


def learning_and_test_rows(root: str | Path | None, index: int, divide: Divide) -> tuple[Rows, Rows]:
    """Rows to learn from, those for validation among them, and rows to test on."""
    split = divide(root, index)
    return split.learning, split.test


def three_parts(root: str | Path | None, index: int, divide: Divide) -> tuple[Rows, Rows, Rows]:
    """Rows to learn from, rows to stop and tune on, and rows to test on, as the protocol has them."""
    split = divide(root, index)
    return split.training, split.validation, split.test


def _count_groups(root: str | Path | None, survey: Survey) -> int:
    return len(np.unique(np.asarray(survey(root)[0].groups)))


def _images(
    name: str,
    metrics: tuple[str, ...],
    survey: Survey,
    marks: Sequence[str],
    expected: Expected,
    protocol: str = "random",
    **facts: Any,
) -> PublishedSet:
    """A data set of images and labels."""
    check = partial(check_images, name=name, survey=survey, expected=expected)
    divide = partial(_divide_samples, survey=survey, protocol=protocol)
    return PublishedSet(
        name=name,
        metrics=metrics,
        image_column=IMAGE_COLUMN,
        survey=survey,
        read=partial(read_surveyed, survey=survey),
        split=partial(learning_and_test_rows, divide=divide),
        parts=partial(three_parts, divide=divide),
        count_splits=partial(_count_groups, survey=survey) if protocol == "one-out" else None,
        check=check,
        glance=partial(check, n_images=0),
        marks=tuple(marks),
        **facts,
    )  # fmt: skip


def _table(
    name: str,
    metrics: tuple[str, ...],
    survey: Survey,
    split: Any,
    files: Sequence[PublishedFile],
    obtain: str,
    check: Any = None,
    **facts: Any,
) -> PublishedSet:
    """A large table in text files."""
    check = check or partial(check_files, name=name, obtain=obtain, files=files)
    return PublishedSet(
        name=name,
        metrics=metrics,
        survey=survey,
        read=partial(read_surveyed, survey=survey),
        split=partial(learning_and_test_rows, divide=split),
        parts=partial(three_parts, divide=split),
        check=check,
        glance=partial(check, read_all=False),
        marks=tuple(each for file in files for each in file.names),
        obtain=obtain,
        **facts,
    )  # fmt: skip


AGE = (
    # NOTE[DIFF]: the paper cites the five splits of an age benchmark, which were made of photos in the wild and are
    # not shipped with them. Chance divides the chips here, as no identities are known; the protocol `folders` makes
    # five splits in the benchmark's way.
    _images(
        "utkface", AGE_METRICS, age.survey_utkface, ["UTKFace.tar.gz"],
        Expected(
            n_rows=23_708, archive="UTKFace.tar.gz", official_digest=False,
            digest=("sha256", "2c0655397b498e81b82d685ee74bee8c2e4364a5897caf3afec6ea48929024a7"),
        ),
        description="age of 23,708 aligned faces, 1 to 116 years",
        source="susanqq.github.io/UTKFace",
        size="107 MB, 23,708 images",
        licence="non-commercial research only",
        obtain=age.UTKFACE_OBTAIN,
        bounds=(0.0, 116.0),
    ),
    _images(
        "fgnet", AGE_METRICS, age.survey_fgnet, ["FGNET.zip"],
        Expected(n_rows=1_002, n_groups=82, archive="FGNET.zip", digest=("md5", "1206978cac3626321b84c22b24cc8d19")),
        "one-out",
        description="age of 82 people on 1,002 photos, 0 to 69 years; each person is left out once",
        source="yanweifu.github.io/FG_NET_data",
        size="1,002 images",
        licence="research only, no formal licence",
        obtain=age.FGNET_OBTAIN,
        bounds=(0.0, 69.0),
    ),
    # NOTE[DIFF]: the benchmark's folders were drawn without a seed; people are divided by chance instead. Releases
    # differ, so that the range of the ages is not known beforehand.
    _images(
        "morph", AGE_METRICS, age.survey_morph, [age.MORPH_TABLE], Expected(n_rows=55_134, counts_vary=True),
        description="age of 13,600 people on 55,134 photos, 16 to 77 years; people are in one part only",
        source="University of North Carolina Wilmington, MORPH Album 2, non-commercial release",
        size="about 55,134 images",
        licence="academic licence for a fee, no redistribution",
        obtain=age.MORPH_OBTAIN,
    ),
    _images(
        "cacd", AGE_METRICS, age.survey_cacd, [age.CACD_FILE], Expected(n_rows=163_446, n_groups=2_000), "rank",
        description="age of 2,000 celebrities on 163,446 photos, 14 to 62 years; split by rank",
        source="bcsiriuschen.github.io/CARC",
        size="3.5 GB, 163,446 images",
        licence="academic research only",
        obtain=age.CACD_OBTAIN,
        bounds=(14.0, 62.0),
    ),
)  # fmt: skip
"""Data sets of faces and ages."""

AESTHETICS = (
    _images(
        # Some twenty to thirty photos were taken down before the archive was made.
        "ava", SCORE_METRICS, aesthetics.survey_ava, ["AVA.txt"], Expected(n_rows=255_530, n_missing=30),
        description="mean vote from 1 to 10 on 255,530 photos of challenges",
        source="github.com/imfing/ava_downloader",
        size="32 GB, 255,530 rows",
        licence="the photographers keep all rights; no redistribution",
        obtain=aesthetics.AVA_OBTAIN,
        bounds=(1.0, 10.0),
    ),
    _images(
        "tad66k", SCORE_METRICS, aesthetics.survey_tad66k, ["merge/train.csv"], Expected(n_rows=66_327),
        description="mean vote from 1 to 10 on 66,327 photos of 47 themes",
        source="github.com/woshidandan/TANet-image-aesthetics-and-quality-assessment",
        size="66,327 images",
        licence="none stated for the photos; research use, ask the owners",
        obtain=aesthetics.TAD66K_OBTAIN,
        bounds=(1.0, 10.0),
    ),
    _images(
        "icaa17k", SCORE_METRICS, aesthetics.survey_icaa17k, ["1train.csv"], Expected(n_rows=17_351),
        description="mean opinion of 17,351 photos, 0 to 10",
        source="github.com/woshidandan/Image-Color-Aesthetics-and-Quality-Assessment",
        size="17,351 images",
        licence="none stated for the photos; research use, ask the owners",
        obtain=aesthetics.ICAA17K_OBTAIN,
        bounds=(0.0, 10.0),
    ),
    _images(
        "spaq", SCORE_METRICS, aesthetics.survey_spaq, [aesthetics.SPAQ_TABLE, "spaqTrain.csv"],
        Expected(n_rows=11_125),
        description="colourfulness of 11,125 photos by smartphones, 0 to 100",
        source="github.com/h4nwei/SPAQ",
        size="35 GB, 11,125 images",
        licence="none stated; research use, ask the owners",
        obtain=aesthetics.SPAQ_OBTAIN,
        bounds=(0.0, 100.0),
    ),
)  # fmt: skip
"""Data sets of photos and how they please."""

WATCH_TIME = (
    _table(
        "kuairec", WATCH_TIME_METRICS, watchtime.survey_kuairec, watchtime.split_kuairec, watchtime.KUAIREC_FILES,
        watchtime.KUAIREC_OBTAIN,
        description="seconds that 7,176 users watch short videos: 12.5 million rows to learn from, 4.7 million to test",
        source="KuaiRec 2.0, kuairec.com (CC BY-SA 4.0)",
        size="1.5 GB, 12,530,806 and 4,676,570 rows",
        licence="CC BY-SA 4.0",
    ),
    _table(
        "kuairand", WATCH_TIME_METRICS, watchtime.survey_kuairand, watchtime.split_kuairand, watchtime.KUAIRAND_FILES,
        watchtime.KUAIRAND_OBTAIN, watchtime.check_kuairand,
        description="seconds that 26,988 users watch short videos, up to the duration: 1.3 million rows, split by date",
        source="KuaiRand-Pure, kuairand.com (CC BY-SA 4.0)",
        size="106 MB, 1,436,609 rows",
        licence="CC BY-SA 4.0",
    ),
)  # fmt: skip
"""Data sets of short videos and how long they are watched."""

LIFETIME = (
    _table(
        "criteo", LIFETIME_METRICS, lifetime.survey_criteo, lifetime.split_criteo, lifetime.CRITEO_FILES,
        lifetime.CRITEO_OBTAIN,
        description="euros within 30 days after each of 16 million clicks; nine in ten bring nothing",
        source="Criteo Sponsored Search Conversion Log, ailab.criteo.com (CC BY-NC-SA 4.0)",
        size="6.4 GB, 15,995,634 rows",
        licence="CC BY-NC-SA 4.0",
    ),
    _table(
        "shoppers", LIFETIME_METRICS, lifetime.survey_shoppers, lifetime.split_shoppers, lifetime.SHOPPERS_FILES,
        lifetime.SHOPPERS_OBTAIN,
        description="dollars that customers spend with a company in the year after their first day with it",
        source="Kaggle, acquire-valued-shoppers-challenge (rules of the competition)",
        size="2.9 GB gzipped, 349,655,789 rows",
        licence="rules of the competition, no redistribution",
    ),
)  # fmt: skip
"""Data sets of customers and what they bring."""
