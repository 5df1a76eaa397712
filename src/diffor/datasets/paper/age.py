"""Faces and ages: UTKFace, FG-NET, MORPH-II and CACD, read as their owners ship them.

Inputs are a column ``path`` with the absolute paths of the images, and the side columns that are asked for: pass
``columns=()`` for the image alone, as the paper has it. Targets are ages in years. What would give the age away (dates
of birth and of the photo) is not on offer as an input. Every function takes the folder that holds the files, or looks
in the one that the environment variable ``DIFFOR_DATA`` names; files are searched three folders deep.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE
from diffor.datasets.readers.image_files import (
    MISSING,
    attach_images,
    choose_columns,
    image_folder,
    image_names,
    keep_sound,
    locate_images,
    mark_fault,
    without_fault,
)
from diffor.datasets.readers.reading import ReadReport, data_root, folders_below, need_below, refuse_stand_in
from diffor.datasets.samples import Samples
from diffor.errors import UserError

Root = str | Path | None

# UTKFace: everything is in the file name, <age>_<gender>_<race>_<time>.jpg.chip.jpg.

UTKFACE_OBTAIN = (
    "Open susanqq.github.io/UTKFace, accept non-commercial research use, download 'Aligned & Cropped Faces' "
    "(UTKFace.tar.gz, 107 MB) and unpack it, so that UTKFace/*.jpg.chip.jpg exists; the owner's link is sometimes dead."
)
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


def survey_utkface(root: Root = None, *, columns: Sequence[str] = ("gender", "race")) -> tuple[Samples, ReadReport]:
    """Read the aligned chips of UTKFace.

    Gender and race of the four photos whose names lack one of them are filled in, as the field does.
    """
    chosen = choose_columns(columns, ("gender", "race"))
    folder = _utkface_folder(data_root(root, "utkface", UTKFACE_OBTAIN))
    names = image_names(folder)
    fields = pd.DataFrame([_utkface_fields(name) for name in names], columns=["y", "gender", "race"])
    rows = pd.concat([locate_images(folder, names), fields], axis=1)
    mark_fault(rows, rows["y"].isna(), "file name without an age")
    kept, report = keep_sound(rows, [folder])
    for column, words in (("gender", GENDERS), ("race", RACES)):
        kept[column] = kept[column].map(dict(enumerate(words))).astype(pd.CategoricalDtype(list(words)))
    return Samples(kept[["path", *chosen]], kept["y"].to_numpy(dtype=float)), report


def _utkface_fields(name: str) -> tuple[float, float, float]:
    """Age, gender and race in a file's name, missing where it does not tell."""
    found = _UTKFACE_NAME.fullmatch(name)
    if found is None or int(found[1]) > OLDEST:
        return np.nan, np.nan, np.nan
    if found[2] is None:
        gender, race = REPAIRS.get(found[4] or "", (np.nan, np.nan))
        return float(found[1]), gender, race
    return float(found[1]), float(found[2]), float(found[3])


def _utkface_folder(root: Path) -> Path:
    holding = [folder for folder in folders_below(root) if _holds(folder, re.compile(r"\d+_.*\.chip\.jpg"))]
    if not holding:
        raise FileNotFoundError(
            f"utkface needs images such as 25_0_2_20170104020210475.jpg.chip.jpg, but {root} holds none, down to "
            f"3 folders deep. {UTKFACE_OBTAIN}"
        )
    # Beside the whole set, some copies have the chips of its first part in a folder of their own.
    return min(holding, key=lambda folder: folder.name.lower() != "utkface")


def _holds(folder: Path, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(entry.name) for entry in os.scandir(folder))


# FG-NET: person and age are in the file name, <person>A<age>[a|b].JPG.

FGNET_OBTAIN = (
    "Download FGNET.zip from yanweifu.github.io/FG_NET_data (md5 1206978cac3626321b84c22b24cc8d19), for research only, "
    "and unpack it, so that FGNET/images/001A02.JPG exists."
)
_FGNET_NAME = re.compile(r"(\d{3})a(\d{2})([a-z]?)\.jpe?g", re.IGNORECASE)


def survey_fgnet(root: Root = None) -> tuple[Samples, ReadReport]:
    """Read FG-NET: 82 people, who are the groups."""
    below = data_root(root, "fgnet", FGNET_OBTAIN)
    folder = next((folder for folder in folders_below(below) if _holds(folder, _FGNET_NAME)), None)
    if folder is None:
        raise FileNotFoundError(
            f"fgnet needs images such as images/001A02.JPG, but {below} holds none, down to 3 folders deep. "
            f"{FGNET_OBTAIN}"
        )
    names = image_names(folder)
    rows = locate_images(folder, names)
    matches = [_FGNET_NAME.fullmatch(name) for name in names]
    rows["person"] = [np.nan if match is None else float(match[1]) for match in matches]
    rows["y"] = [np.nan if match is None else float(match[2]) for match in matches]
    mark_fault(rows, [match is None for match in matches], "file name without person and age")
    # Copies differ in upper and lower case, so that a folder into which two were unpacked has photos twice.
    photos = pd.Series([name if match is None else name.lower() for name, match in zip(names, matches, strict=True)])
    mark_fault(rows, photos.duplicated(), "photo under two spellings")
    kept, report = keep_sound(rows, [folder])
    return _people_samples(kept, []), report


def _people_samples(kept: pd.DataFrame, columns: Sequence[str]) -> Samples:
    groups = kept["person"].to_numpy(dtype=np.int64)
    return Samples(kept[["path", *columns]], kept["y"].to_numpy(dtype=float), groups=groups)


# MORPH-II: a table beside the folder Album2.

MORPH_OBTAIN = (
    "MORPH-II is licensed by the University of North Carolina Wilmington for a fee and an agreement; place "
    "morph_2008_nonCommercial.csv and the folder Album2 beside each other."
)
MORPH_TABLE = "morph_2008_nonCommercial.csv"
MORPH_COLUMNS = (
    "id_num", "picture_num", "dob", "doa", "race", "gender", "facial_hair", "age", "age_diff", "glasses", "photo",
)  # fmt: skip
MORPH_SIDE = ("race", "gender", "facial_hair", "glasses")


def survey_morph(root: Root = None, *, columns: Sequence[str] = ("race", "gender")) -> tuple[Samples, ReadReport]:
    """Read MORPH-II: people are the groups.

    ``facial_hair`` and ``glasses`` are on offer as ``columns``, too, but are mostly empty. Dates of birth and of the
    photo are not: they are the age in other words.
    """
    refused = "dob, doa, age_diff and picture_num are left out, because they give the age away"
    chosen = choose_columns(columns, MORPH_SIDE, refused)
    below = data_root(root, "morph", MORPH_OBTAIN)
    path = need_below(below, "morph", MORPH_OBTAIN, MORPH_TABLE)
    rows = _morph_rows(path)
    listed = rows["photo"].str.replace("\\", "/").tolist()
    sound = [photo for photo, faulty in zip(listed, rows["fault"].notna(), strict=True) if not faulty]
    if sound:
        folder = image_folder("morph", path, below, sound, MORPH_OBTAIN)
        attach_images(rows, folder, listed)
    kept, report = keep_sound(rows, [path])
    for column in chosen:
        kept[column] = kept[column].where(kept[column] != "").astype("category")
    return _people_samples(kept, chosen), report


def _morph_rows(path: Path) -> pd.DataFrame:
    refuse_stand_in(path)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header, *lines = [row for row in csv.reader(file) if row]
    if tuple(cell.strip() for cell in header) != MORPH_COLUMNS:
        raise UserError(f"{path} must begin with {','.join(MORPH_COLUMNS)}, but got {','.join(header)[:200]}; {CURE}")
    n_columns = len(MORPH_COLUMNS)
    cells = [[cell.strip() for cell in line] if len(line) == n_columns else [""] * n_columns for line in lines]
    rows = without_fault(pd.DataFrame(cells, columns=MORPH_COLUMNS, dtype=str))
    mark_fault(rows, [len(line) != n_columns for line in lines], "row of another width")
    for column, source, fault in (("person", "id_num", "person missing"), ("y", "age", "age missing")):
        rows[column] = pd.to_numeric(rows[source], errors="coerce")
        mark_fault(rows, ~(rows[column] >= 0) | (rows[column] % 1 != 0), fault)
    mark_fault(rows, rows["photo"] == "", MISSING)
    return rows


# CACD: a MATLAB file beside the folder CACD2000.

CACD_OBTAIN = (
    "From bcsiriuschen.github.io/CARC fetch celebrity2000_meta.mat (817 KB) and the face images (CACD2000.tar.gz, "
    "3.5 GB), for academic use only, so that celebrity2000_meta.mat and CACD2000/*.jpg exist. The owners advise "
    "against estimating ages from it, because the years of the photos are rough."
)
CACD_FILE = "celebrity2000_meta.mat"
CACD_FIELDS = ("age", "identity", "rank", "year", "name")


def survey_cacd(root: Root = None, *, columns: Sequence[str] = ()) -> tuple[Samples, ReadReport]:
    """Read CACD: celebrities are the groups, and their ``rank`` is a side column, by which the owners split.

    The ``year`` of the photo is on offer as a column; the year of birth is not, as both together are the age.
    """
    chosen = choose_columns(columns, ("year",), "name, identity and birth give the age away")
    below = data_root(root, "cacd", CACD_OBTAIN)
    path = need_below(below, "cacd", CACD_OBTAIN, CACD_FILE)
    rows = _cacd_rows(path)
    listed = rows["name"].tolist()
    folder = image_folder("cacd", path, below, listed, CACD_OBTAIN)
    mark_fault(rows, ~np.isfinite(rows["y"]), "age missing")
    attach_images(rows, folder, listed)
    kept, report = keep_sound(rows, [path])
    return replace(_people_samples(kept, chosen), side={"rank": kept["rank"].to_numpy(dtype=float)}), report


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
    names = [str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in fields["name"]]
    numbers: dict[str, NDArray[np.float64]] = {
        field: np.asarray(fields[field], dtype=np.float64) for field in CACD_FIELDS if field != "name"
    }
    table = pd.DataFrame({**numbers, "name": names})
    return without_fault(table.rename(columns={"age": "y", "identity": "person"}))
