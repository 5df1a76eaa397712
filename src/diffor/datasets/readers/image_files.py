"""Image files on disk: found, matched with the rows of label files, and decoded where they are checked."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from diffor.datasets.readers.published_files import PublishedFile, complaint_about
from diffor.datasets.readers.reading import CheckReport, Place, ReadReport, data_root, find_below, folders_below
from diffor.datasets.samples import Samples
from diffor.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
MISSING, EMPTY = "image missing", "image file is empty"
N_PROBED = 100
"""How many of the listed images are looked for where the folder of the images is searched."""
N_DECODED = 500
"""How many images a check decodes, spread evenly over the rows; None decodes all."""
SMALLEST_SIDE = 11
"""Pixels: some photos of the distributions are mere dots, which the field leaves out."""


def image_names(folder: Path) -> list[str]:
    """The images right inside a folder, in the order of their names."""
    return sorted(
        entry.name
        for entry in os.scandir(folder)
        if entry.name.lower().endswith(IMAGE_SUFFIXES) and not entry.name.startswith(".") and entry.is_file()
    )


def choose_columns(wanted: Sequence[str], offered: Sequence[str], refused: str = "") -> list[str]:
    """The side columns that are wanted, which must be among those on offer."""
    if isinstance(wanted, str) or not set(wanted) <= set(offered):
        raise UserError(
            f"columns must be some of {', '.join(offered) or 'none'}, but got columns={wanted!r}"
            + (f"; {refused}" if refused else "")
        )
    return list(wanted)


def mark_fault(rows: pd.DataFrame, where: Iterable[bool], fault: str) -> None:
    """Write a fault beside the rows that have none yet; a row is dropped for the first fault that is found."""
    if "fault" not in rows:
        rows["fault"] = pd.Series(None, index=rows.index, dtype=object)
    rows.loc[np.asarray(where, dtype=bool) & rows["fault"].isna().to_numpy(), "fault"] = fault


def image_samples(
    place: Place,
    rows: pd.DataFrame,
    files: Sequence[Path],
    columns: Sequence[str] = (),
    side: Mapping[str, str | list[str]] | None = None,
    folder: Path | None = None,
) -> tuple[Samples, ReadReport]:
    """Samples of the rows without a fault whose image is there, and the report that counts the others by their fault.

    ``rows`` have columns ``image`` (relative to the ``folder``, which is looked for near the first of the files), ``y``
    and perhaps ``person``, the groups; ``side`` names those of side columns.
    """
    mark_fault(rows, rows["image"] == "", MISSING)
    sound = rows["image"][rows["fault"].isna()].tolist()
    if sound:
        folder = folder or _image_folder(place, files[0], sound)
        located = locate_images(folder, rows["image"].tolist())
        rows["path"] = located["path"].to_numpy()
        rows["fault"] = rows["fault"].where(rows["fault"].notna(), located["fault"].to_numpy())
    dropped = rows["fault"].value_counts().sort_index()
    report = ReadReport(list(files), len(rows), {str(fault): int(count) for fault, count in dropped.items()})
    kept = rows[rows["fault"].isna()].reset_index(drop=True)
    if not len(kept):
        reasons = ", ".join(f"{fault} ({count})" for fault, count in report.dropped.items()) or "there are none"
        raise UserError(
            f"{files[0]} must lead to usable images, but none of its {len(rows)} rows is left: {reasons}; "
            "complete the files"
        )
    sides = {name: kept[found].to_numpy(dtype=float) for name, found in (side or {}).items()}
    groups = kept["person"].to_numpy(dtype=np.int64) if "person" in kept else None
    return Samples(kept[["path", *columns]], kept["y"].to_numpy(dtype=float), sides, groups), report


def _image_folder(place: Place, labels: Path, listed: Sequence[str]) -> Path:
    """The folder of the listed images: the nearest to the label file, up to the root."""
    probed = [listed[row] for row in np.linspace(0, len(listed) - 1, min(N_PROBED, len(listed))).astype(int)]
    stems = [(name, Path(name).suffix) for name in probed]
    probes = [name.removesuffix(end) + change(end) for name, end in stems for change in (str, str.lower, str.upper)]
    for start in (folder for folder in labels.parents if folder == place.root or place.root in folder.parents):
        for folder in folders_below(start):
            if any((folder / probe).is_file() for probe in probes):
                return folder
    raise FileNotFoundError(
        f"{place.name} needs its images, such as {listed[0]}, but none of {len(probed)} that were looked for is below "
        f"{place.root}; put or link their folder there. {place.obtain}"
    )


def locate_images(folder: Path, listed: Sequence[str]) -> pd.DataFrame:
    """Paths of the listed images below a folder, and what is wrong with each: columns ``path`` and ``fault``.

    Where no file has the very name, names are compared without regard to case and to the way accents are stored, as
    copies differ in both.
    """
    wanted = [relative.rpartition("/")[::2] for relative in listed]
    entries = [
        (parent, entry)
        for parent in sorted({parent for parent, _ in wanted})
        if (folder / parent).is_dir()
        for entry in os.scandir(folder / parent)
    ]
    exact = {(parent, entry.name): entry for parent, entry in entries}
    similar = {(parent, _key(entry.name)): entry for parent, entry in entries}
    paths, faults = [], []
    for parent, name in wanted:
        keys = () if (parent, name) in exact else _similar_keys(name)
        alike = next((similar[parent, key] for key in keys if (parent, key) in similar), None)
        entry = exact.get((parent, name), alike)
        paths.append(os.path.join(folder, parent, name) if entry is None else entry.path)
        faults.append(MISSING if entry is None else EMPTY if entry.stat().st_size == 0 else None)
    located: pd.DataFrame = pd.DataFrame({"path": paths, "fault": pd.Series(faults, dtype=object)})
    mark_fault(located, located["path"].duplicated(), "image listed twice")
    return located


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _similar_keys(name: str) -> list[str]:
    """The name, and what it was before UTF-8 was read as Latin-1, or the other way round."""
    keys = [_key(name)]
    for encoding, decoding in (("latin-1", "utf-8"), ("utf-8", "latin-1")):
        with suppress(UnicodeError):
            keys.append(_key(name.encode(encoding).decode(decoding)))
    return keys


# Checking.


@dataclass(frozen=True)
class Expected:
    """What a whole distribution is known to hold, and its archive, where that has a checksum."""

    n_rows: int
    counts_vary: bool = False
    """Copies of this distribution differ in their number of rows: another number is only worth a warning."""
    n_missing: int = 0
    """Rows without an image that are normal."""
    n_groups: int | None = None
    archive: PublishedFile | None = None


def check_images(
    root: str | Path | None,
    name: str,
    survey: Callable[..., tuple[Samples, ReadReport]],
    expected: Expected,
    *,
    read_all: bool = True,
    n_images: int | None = N_DECODED,
) -> CheckReport:
    """Read a distribution and compare it with what is expected.

    With ``read_all``, the archive's checksum is taken, and ``n_images`` images are decoded, or all where it is None.
    """
    try:
        samples, report = survey(root)
    except (ValueError, OSError) as error:
        return CheckReport.of(error)
    checked, source = CheckReport(), report.files[0]
    counts = [(report.n_read, expected.n_rows, f"rows of {name}")]
    if expected.n_groups is not None and samples.groups is not None:
        counts.append((len(np.unique(samples.groups)), expected.n_groups, "people"))
    for found, wanted, things in counts:
        if found != wanted:
            message = f"{source} must lead to {wanted:,} {things}, but got {found:,}; complete the files"
            checked.add(message, not expected.counts_vary)
    for fault, count in report.dropped.items():
        message = f"{source} loses {count:,} of {report.n_read:,} rows: {fault}"
        too_many = fault in (MISSING, EMPTY) and count > expected.n_missing
        checked.add(message + "; complete the files" * too_many, too_many)
    if not read_all:
        return checked
    if expected.archive is not None and (path := find_below(data_root(root, name), *expected.archive.names)):
        checked.add(complaint_about(path, expected.archive), expected.archive.is_official)
    checked.errors += broken_images(samples.x["path"].tolist(), n_images)
    return checked


def broken_images(paths: Sequence[str], n_images: int | None = N_DECODED) -> list[str]:
    """Decode images, spread evenly over the paths, and name those that are broken or too small to show anything."""
    if n_images is not None and n_images < 0:
        raise UserError(f"n_images must be 0 or more, or None for all, but got n_images={n_images}")
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images are decoded by Pillow: pip install "diffor[images]"') from error
    n_chosen = len(paths) if n_images is None else min(n_images, len(paths))
    messages = []
    for place in np.linspace(0, len(paths) - 1, n_chosen).astype(int):
        cause = ""
        try:
            with Image.open(paths[place]) as image:
                image.load()
                if min(image.size) < SMALLEST_SIDE:
                    cause = f"it has {image.width} x {image.height} pixels"
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            cause = str(error)
        if cause:
            messages.append(
                f"{paths[place]} must be a whole image, but {cause}; fetch the file again, or delete it: "
                "its row is then left out"
            )
    return messages
