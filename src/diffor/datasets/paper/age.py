"""Faces and ages: UTKFace, FG-NET, MORPH-II and CACD, read as their owners ship them.

Inputs are a column ``path`` with the absolute paths of the images, and the side columns that are asked for: pass
``columns=()`` for the image alone, as the paper has it. Targets are ages in years. What would give the age away (dates
of birth and of the photo) is not on offer as an input. Files are searched three folders deep.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.paper.sets import image_set
from diffor.datasets.readers.data_files import CURE
from diffor.datasets.readers.image_files import Expected, choose_columns, image_names, image_samples, mark_fault
from diffor.datasets.readers.published_files import PublishedFile
from diffor.datasets.readers.reading import Place, ReadReport, folders_below, refuse_stand_in
from diffor.datasets.samples import Samples
from diffor.errors import UserError

ARCHIVE_CURE = "fetch the archive again, or take another mirror's copy"
METRICS = ("mae", "cs", "rmse", "srcc", "crps", "coverage")


def _folders_of(place: Place, name: str, example: str) -> list[Path]:
    """The folders that hold a file whose name has this form, the nearest first; there must be one."""
    form = re.compile(name, re.IGNORECASE)
    folders = folders_below(place.root)
    found = [folder for folder in folders if any(form.fullmatch(entry.name) for entry in os.scandir(folder))]
    if not found:
        raise place.lacks(f"images such as {example}")
    return found


# UTKFace: everything is in the file name, <age>_<gender>_<race>_<time>.jpg.chip.jpg.

GENDERS = ("male", "female")
RACES = ("White", "Black", "Asian", "Indian", "Others")
OLDEST = 116
REPAIRS = {
    "20170116174525125": (0, 1),
    "20170109142408075": (1, 1),
    "20170109150557335": (1, 3),
    "20170116184028385": (1, 0),
}
"""Gender and race of the photos whose names lack one of them, by the time in the name, as the field repairs them."""
_UTKFACE_NAME = re.compile(r"(\d{1,3})_(?:([01])_([0-4])_)?.*?(\d{17})?\D*")


def survey_utkface(place: Place, *, columns: Sequence[str] = ("gender", "race")) -> tuple[Samples, ReadReport]:
    """Read the aligned chips of UTKFace.

    Gender and race of the four photos whose names lack one of them are filled in, as the field does.
    """
    chosen = choose_columns(columns, ("gender", "race"))
    holding = _folders_of(place, r"\d+_.*\.chip\.jpg", "25_0_2_20170104020210475.jpg.chip.jpg")
    # Beside the whole set, some copies have the chips of its first part in a folder of their own.
    folder = min(holding, key=lambda folder: folder.name.lower() != "utkface")
    rows = pd.DataFrame(
        [(name, *_utkface_fields(name)) for name in image_names(folder)], columns=["image", "y", "gender", "race"]
    )
    mark_fault(rows, rows["y"].isna(), "file name without an age")
    for column, words in (("gender", GENDERS), ("race", RACES)):
        rows[column] = rows[column].map(dict(enumerate(words))).astype(pd.CategoricalDtype(list(words)))
    return image_samples(place, rows, [folder], chosen, folder=folder)


def _utkface_fields(name: str) -> tuple[float, float, float]:
    """Age, gender and race in a file's name, missing where it does not tell."""
    found = _UTKFACE_NAME.fullmatch(name)
    if found is None or int(found[1]) > OLDEST:
        return np.nan, np.nan, np.nan
    gender, race = REPAIRS.get(found[4] or "", (np.nan, np.nan)) if found[2] is None else (found[2], found[3])
    return float(found[1]), float(gender), float(race)


# FG-NET: person and age are in the file name, <person>A<age>[a|b].JPG.

_FGNET_NAME = r"(\d{3})a(\d{2})([a-z]?)\.jpe?g"


def survey_fgnet(place: Place) -> tuple[Samples, ReadReport]:
    """Read FG-NET: 82 people, who are the groups."""
    folder = _folders_of(place, _FGNET_NAME, "images/001A02.JPG")[0]
    rows = pd.DataFrame({"image": image_names(folder)})
    told = rows["image"].str.extract(rf"(?i)^{_FGNET_NAME}$").astype({0: float, 1: float})
    rows["person"], rows["y"] = told[0], told[1]
    mark_fault(rows, told[0].isna(), "file name without person and age")
    # Copies differ in upper and lower case, so that a folder into which two were unpacked has photos twice.
    photos = rows["image"].where(told[0].isna(), rows["image"].str.lower())
    mark_fault(rows, photos.duplicated(), "photo under two spellings")
    return image_samples(place, rows, [folder], folder=folder)


# MORPH-II: a table beside the folder Album2.

MORPH_TABLE = "morph_2008_nonCommercial.csv"
MORPH_COLUMNS = (
    "id_num", "picture_num", "dob", "doa", "race", "gender", "facial_hair", "age", "age_diff", "glasses", "photo",
)  # fmt: skip
MORPH_SIDE = ("race", "gender", "facial_hair", "glasses")


def survey_morph(place: Place, *, columns: Sequence[str] = ("race", "gender")) -> tuple[Samples, ReadReport]:
    """Read MORPH-II: people are the groups.

    ``facial_hair`` and ``glasses`` are on offer as ``columns``, too, but are mostly empty. Dates of birth and of the
    photo are not: they are the age in other words.
    """
    refused = "dob, doa, age_diff and picture_num are left out, because they give the age away"
    chosen = choose_columns(columns, MORPH_SIDE, refused)
    path = place.need(MORPH_TABLE)
    refuse_stand_in(path)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header, *lines = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    if tuple(header) != MORPH_COLUMNS:
        raise UserError(f"{path} must begin with {','.join(MORPH_COLUMNS)}, but got {','.join(header)[:200]}; {CURE}")
    width = len(MORPH_COLUMNS)
    cells = [line if len(line) == width else [""] * width for line in lines]
    rows = pd.DataFrame(cells, columns=MORPH_COLUMNS, dtype=str)
    mark_fault(rows, [len(line) != width for line in lines], "row of another width")
    for column, source, fault in (("person", "id_num", "person missing"), ("y", "age", "age missing")):
        rows[column] = pd.to_numeric(rows[source], errors="coerce")
        mark_fault(rows, ~(rows[column] >= 0) | (rows[column] % 1 != 0), fault)
    rows["image"] = rows["photo"].str.replace("\\", "/")
    for column in chosen:
        rows[column] = rows[column].where(rows[column] != "").astype("category")
    return image_samples(place, rows, [path], chosen)


# CACD: a MATLAB file beside the folder CACD2000.

CACD_FILE = "celebrity2000_meta.mat"
CACD_FIELDS = ("age", "identity", "rank", "year", "name")


def survey_cacd(place: Place, *, columns: Sequence[str] = ()) -> tuple[Samples, ReadReport]:
    """Read CACD: celebrities are the groups, and their ``rank`` is a side column, by which the owners split.

    The ``year`` of the photo is on offer as a column; the year of birth is not, as both together are the age.
    """
    chosen = choose_columns(columns, ("year",), "name, identity and birth give the age away")
    path = place.need(CACD_FILE)
    rows = _cacd_rows(path)
    mark_fault(rows, ~np.isfinite(rows["y"]), "age missing")
    return image_samples(place, rows, [path], chosen, {"rank": "rank"})


def _cacd_rows(path: Path) -> pd.DataFrame:
    from scipy.io import loadmat

    refuse_stand_in(path)
    try:
        struct = loadmat(path, variable_names=["celebrityImageData"])["celebrityImageData"]
        fields = {field: np.ravel(struct[field][0, 0]) for field in CACD_FIELDS}
    except Exception as error:  # the reader meets damage in many ways, none of which it declares
        raise UserError(
            f"{path} must hold the struct celebrityImageData with {', '.join(CACD_FIELDS)}, but {error}; {CURE}"
        ) from error
    sizes = {field: len(values) for field, values in fields.items()}
    if len(set(sizes.values())) > 1:
        raise UserError(f"{path} must hold fields of one length, but got {sizes}; {CURE}")
    names = [str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in fields.pop("name")]
    numbers: dict[str, NDArray[np.float64]] = {name: values.astype(np.float64) for name, values in fields.items()}
    table = pd.DataFrame({**numbers, "image": names})
    rows: pd.DataFrame = table.rename(columns={"age": "y", "identity": "person"})
    return rows


AGE = (
    # NOTE[DIFF]: the paper cites the five splits of an age benchmark, which were made of photos in the wild and are
    # not shipped with them. Chance divides the chips here, as no identities are known; the protocol `folders` makes
    # five splits in the benchmark's way.
    image_set(
        name="utkface",
        description="age of 23,708 aligned faces, 1 to 116 years",
        source="susanqq.github.io/UTKFace",
        size="107 MB, 23,708 images",
        licence="non-commercial research only",
        obtain="Open susanqq.github.io/UTKFace, accept non-commercial research use, download 'Aligned & Cropped Faces' "
        "(UTKFace.tar.gz, 107 MB) and unpack it, so that UTKFace/*.jpg.chip.jpg exists; the owner's link is sometimes "
        "dead.",
        metrics=METRICS,
        bounds=(0.0, 116.0),
        survey=survey_utkface,
        marks=("UTKFace.tar.gz",),
        expected=Expected(
            n_rows=23_708,
            archive=PublishedFile(
                ("UTKFace.tar.gz",),
                digest=("sha256", "2c0655397b498e81b82d685ee74bee8c2e4364a5897caf3afec6ea48929024a7"),
                is_official=False,
                cure=ARCHIVE_CURE,
            ),
        ),
    ),
    image_set(
        name="fgnet",
        description="age of 82 people on 1,002 photos, 0 to 69 years; each person is left out once",
        source="yanweifu.github.io/FG_NET_data",
        size="1,002 images",
        licence="research only, no formal licence",
        obtain="Download FGNET.zip from yanweifu.github.io/FG_NET_data (md5 1206978cac3626321b84c22b24cc8d19), for "
        "research only, and unpack it, so that FGNET/images/001A02.JPG exists.",
        metrics=METRICS,
        bounds=(0.0, 69.0),
        survey=survey_fgnet,
        protocol="one-out",
        marks=("FGNET.zip",),
        expected=Expected(
            n_rows=1_002,
            n_groups=82,
            archive=PublishedFile(
                ("FGNET.zip",), digest=("md5", "1206978cac3626321b84c22b24cc8d19"), cure=ARCHIVE_CURE
            ),
        ),
    ),
    # NOTE[DIFF]: the benchmark's folders were drawn without a seed; people are divided by chance instead. Releases
    # differ, so that the range of the ages is not known beforehand.
    image_set(
        name="morph",
        description="age of 13,600 people on 55,134 photos, 16 to 77 years; people are in one part only",
        source="University of North Carolina Wilmington, MORPH Album 2, non-commercial release",
        size="about 55,134 images",
        licence="academic licence for a fee, no redistribution",
        obtain="MORPH-II is licensed by the University of North Carolina Wilmington for a fee and an agreement; place "
        "morph_2008_nonCommercial.csv and the folder Album2 beside each other.",
        metrics=METRICS,
        survey=survey_morph,
        marks=(MORPH_TABLE,),
        expected=Expected(n_rows=55_134, counts_vary=True),
    ),
    image_set(
        name="cacd",
        description="age of 2,000 celebrities on 163,446 photos, 14 to 62 years; split by rank",
        source="bcsiriuschen.github.io/CARC",
        size="3.5 GB, 163,446 images",
        licence="academic research only",
        obtain="From bcsiriuschen.github.io/CARC fetch celebrity2000_meta.mat (817 KB) and the face images "
        "(CACD2000.tar.gz, 3.5 GB), for academic use only, so that celebrity2000_meta.mat and CACD2000/*.jpg exist. "
        "The owners advise against estimating ages from it, because the years of the photos are rough.",
        metrics=METRICS,
        bounds=(14.0, 62.0),
        survey=survey_cacd,
        protocol="rank",
        marks=(CACD_FILE,),
        expected=Expected(n_rows=163_446, n_groups=2_000),
    ),
)
"""Data sets of faces and ages."""
