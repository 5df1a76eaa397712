"""The eight image data sets as tables: what each is, where it comes from, how it is read, split and checked.

NOTE[DIFF]: the paper's inputs are images alone. Side columns that are shipped with them are inputs here, too, where
they do not give the target away; ``columns=()`` of the readers leaves them out.
"""

from __future__ import annotations

from functools import partial

from diffor.datasets.paper import aesthetics, age
from diffor.datasets.readers.image_files import Expected, check_images
from diffor.datasets.readers.reading import Distribution, Survey
from diffor.datasets.samples import Dataset
from diffor.datasets.splits import split_files

AGE_METRICS = ("mae", "cs", "rmse", "srcc", "crps", "coverage")
SCORE_METRICS = ("mae", "xauc", "lcc", "srcc", "crps", "coverage")
IMAGE_COLUMN = "path"

AGE = (
    Dataset(
        name="utkface",
        description="age of 23,708 aligned faces, 1 to 116 years",
        source="susanqq.github.io/UTKFace",
        metrics=AGE_METRICS,
        image_column=IMAGE_COLUMN,
        read=age.read_utkface,
        # NOTE[DIFF]: the paper cites the five splits of an age benchmark, which were made of photos in the wild and are
        # not shipped with them. Chance divides the chips here, as no identities are known;
        # the protocol `folders` makes five splits in the benchmark's way.
        split=partial(split_files, survey=age.survey_utkface, protocol="random"),
        bounds=(0.0, 116.0),
    ),
    Dataset(
        name="fgnet",
        description="age of 82 people on 1,002 photos, 0 to 69 years; each person is left out once",
        source="yanweifu.github.io/FG_NET_data",
        metrics=AGE_METRICS,
        image_column=IMAGE_COLUMN,
        read=age.read_fgnet,
        split=partial(split_files, survey=age.survey_fgnet, protocol="one-out"),
        bounds=(0.0, 69.0),
    ),
    Dataset(
        name="morph",
        description="age of 13,600 people on 55,134 photos, 16 to 77 years; people are in one part only",
        source="University of North Carolina Wilmington, MORPH Album 2, non-commercial release",
        metrics=AGE_METRICS,
        image_column=IMAGE_COLUMN,
        read=age.read_morph,
        # NOTE[DIFF]: the benchmark's folders were drawn without a seed; people are divided by chance instead.
        split=partial(split_files, survey=age.survey_morph, protocol="random"),
        # Releases differ, so that the range of the ages is not known beforehand.
    ),
    Dataset(
        name="cacd",
        description="age of 2,000 celebrities on 163,446 photos, 14 to 62 years; split by rank",
        source="bcsiriuschen.github.io/CARC",
        metrics=AGE_METRICS,
        image_column=IMAGE_COLUMN,
        read=age.read_cacd,
        split=partial(split_files, survey=age.survey_cacd, protocol="rank"),
        bounds=(14.0, 62.0),
    ),
)
"""Data sets of faces and ages."""

AESTHETICS = (
    Dataset(
        name="ava",
        description="mean vote from 1 to 10 on 255,530 photos of challenges",
        source="github.com/imfing/ava_downloader",
        metrics=SCORE_METRICS,
        image_column=IMAGE_COLUMN,
        read=aesthetics.read_ava,
        split=partial(split_files, survey=aesthetics.survey_ava, protocol="random"),
        bounds=(1.0, 10.0),
    ),
    Dataset(
        name="tad66k",
        description="mean vote from 1 to 10 on 66,327 photos of 47 themes",
        source="github.com/woshidandan/TANet-image-aesthetics-and-quality-assessment",
        metrics=SCORE_METRICS,
        image_column=IMAGE_COLUMN,
        read=aesthetics.read_tad66k,
        split=partial(split_files, survey=aesthetics.survey_tad66k, protocol="random"),
        bounds=(1.0, 10.0),
    ),
    Dataset(
        name="icaa17k",
        description="mean opinion of 17,351 photos, 0 to 10",
        source="github.com/woshidandan/Image-Color-Aesthetics-and-Quality-Assessment",
        metrics=SCORE_METRICS,
        image_column=IMAGE_COLUMN,
        read=aesthetics.read_icaa17k,
        split=partial(split_files, survey=aesthetics.survey_icaa17k, protocol="random"),
        bounds=(0.0, 10.0),
    ),
    Dataset(
        name="spaq",
        description="colourfulness of 11,125 photos by smartphones, 0 to 100",
        source="github.com/h4nwei/SPAQ",
        metrics=SCORE_METRICS,
        image_column=IMAGE_COLUMN,
        read=aesthetics.read_spaq,
        split=partial(split_files, survey=aesthetics.survey_spaq, protocol="random"),
        bounds=(0.0, 100.0),
    ),
)
"""Data sets of photos and how they please."""


def _distribution(name: str, size: str, licence: str, obtain: str, survey: Survey, expected: Expected) -> Distribution:
    check = partial(check_images, name=name, survey=survey, expected=expected)
    return Distribution(name, size, licence, obtain, survey, check)


IMAGE_DISTRIBUTIONS: dict[str, Distribution] = {
    distribution.name: distribution
    for distribution in (
        _distribution(
            "utkface",
            "107 MB, 23,708 images",
            "non-commercial research only",
            age.UTKFACE_OBTAIN,
            age.survey_utkface,
            Expected(
                n_rows=23_708,
                archive="UTKFace.tar.gz",
                digest=("sha256", "2c0655397b498e81b82d685ee74bee8c2e4364a5897caf3afec6ea48929024a7"),
                official_digest=False,
            ),
        ),
        _distribution(
            "fgnet",
            "1,002 images",
            "research only, no formal licence",
            age.FGNET_OBTAIN,
            age.survey_fgnet,
            Expected(
                n_rows=1_002, n_groups=82, archive="FGNET.zip", digest=("md5", "1206978cac3626321b84c22b24cc8d19")
            ),
        ),
        _distribution(
            "morph",
            "about 55,134 images",
            "academic licence for a fee, no redistribution",
            age.MORPH_OBTAIN,
            age.survey_morph,
            Expected(n_rows=55_134, counts_vary=True),
        ),
        _distribution(
            "cacd",
            "3.5 GB, 163,446 images",
            "academic research only",
            age.CACD_OBTAIN,
            age.survey_cacd,
            Expected(n_rows=163_446, n_groups=2_000),
        ),
        _distribution(
            "ava",
            "32 GB, 255,530 rows",
            "the photographers keep all rights; no redistribution",
            aesthetics.AVA_OBTAIN,
            aesthetics.survey_ava,
            # Some twenty to thirty photos were taken down before the archive was made.
            Expected(n_rows=255_530, n_missing=30),
        ),
        _distribution(
            "tad66k",
            "66,327 images",
            "none stated for the photos; research use, ask the owners",
            aesthetics.TAD66K_OBTAIN,
            aesthetics.survey_tad66k,
            Expected(n_rows=66_327),
        ),
        _distribution(
            "icaa17k",
            "17,351 images",
            "none stated for the photos; research use, ask the owners",
            aesthetics.ICAA17K_OBTAIN,
            aesthetics.survey_icaa17k,
            Expected(n_rows=17_351),
        ),
        _distribution(
            "spaq",
            "35 GB, 11,125 images",
            "none stated; research use, ask the owners",
            aesthetics.SPAQ_OBTAIN,
            aesthetics.survey_spaq,
            Expected(n_rows=11_125),
        ),
    )
}
"""How the image data sets reach the user, by name; ``check(root, n_images=None)`` decodes all images."""
