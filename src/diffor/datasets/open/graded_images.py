"""Folders of graded pictures, ``{train,val,test}/<grade>/*.jpg``: X-rays of knees, divided by patients."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from diffor.datasets.open.packages import GRADE_METRICS
from diffor.datasets.paper.sets import image_set
from diffor.datasets.readers.image_files import Expected, image_names, image_samples, mark_fault
from diffor.datasets.readers.reading import Place, ReadReport, folders_below
from diffor.datasets.samples import Samples
from diffor.errors import UserError

PARTS = ("train", "val", "test")
BROKEN = "image file is broken or cut off"
MARKS = ((b"\xff\xd8", b"\xff\xd9"), (b"\x89PNG\r\n\x1a\n", b"IEND"))
"""What a JPEG and a PNG begin with, and what stands near their ends."""
END_BYTES = 1024


def survey_graded(place: Place, *, n_grades: int) -> tuple[Samples, ReadReport]:
    """Read pictures whose folder names their part and their grade, from 0; the side column ``part`` counts the parts.

    Pictures that are broken or cut off are left out and noted. Every grade must have a picture to learn from; parts to
    validate and test on may lack one, which is noted.
    """
    folder = _folder_of_parts(place)
    grades = [str(grade) for grade in range(n_grades)]
    found = {(part, grade.name): image_names(grade) for part in PARTS for grade in (folder / part).iterdir()
             if grade.is_dir() and not grade.name.startswith(".")}  # fmt: skip
    other = next((f"{part}/{grade}" for part, grade in found if grade not in grades), None)
    if other is not None:
        raise UserError(
            f"{folder} must hold folders named by grades, 0 to {n_grades - 1}, but {other} is none; move it"
        )
    rows = pd.DataFrame(
        [(f"{part}/{grade}/{name}", float(grade), PARTS.index(part))
         for part in PARTS for grade in grades for name in found.get((part, grade), [])],
        columns=["image", "y", "part"],
    )  # fmt: skip
    mark_fault(rows, [_is_cut_off(folder / image) for image in rows["image"]], BROKEN)
    samples, report = image_samples(place, rows, [folder], side={"part": "part"}, folder=folder)
    report.notes += [f"pictures left out: {count:,} ({fault})" for fault, count in report.dropped.items()]
    for number, part in enumerate(PARTS):
        present = np.unique(samples.y[samples.side["part"] == number])
        absent = [grade for grade in grades if float(grade) not in present]
        if absent and part == "train":
            raise UserError(
                f"{folder / part} must hold pictures of every grade, but {', '.join(absent)} has none that can be "
                "used; complete the files"
            )
        report.notes += [f"{part} has no pictures of grade {grade}" for grade in absent]
    return samples, report


def _folder_of_parts(place: Place) -> Path:
    """The nearest folder that holds the parts; of several, one whose name begins with that of the set."""
    holding = [folder for folder in folders_below(place.root) if all((folder / part).is_dir() for part in PARTS)]
    if not holding:
        raise place.lacks(f"the folders {', '.join(PARTS)}")
    return min(holding, key=lambda folder: not folder.name.lower().startswith(place.name))


def _is_cut_off(path: Path) -> bool:
    """Whether a file that is not empty lacks the beginning or the end of a picture: found without decoding it."""
    content = path.read_bytes()
    return bool(content) and not any(content.startswith(start) and end in content[-END_BYTES:] for start, end in MARKS)


GRADED_IMAGES = (
    image_set(
        name="knee",
        description="Kellgren-Lawrence grades of arthrosis in X-rays of knees, five grades, 8,260 pictures",
        source="Knee Osteoarthritis Severity Grading Dataset, P. Chen 2018 (CC BY 4.0)",
        size="8,260 images",
        licence="CC BY 4.0",
        obtain="Download the archive (CC BY 4.0) from data.mendeley.com/datasets/56rmx5bjcr and unpack it below "
        "the root; its folder kneeKL224 holds train, val and test, each with a folder for every grade.",
        metrics=GRADE_METRICS,
        n_grades=5,
        survey=partial(survey_graded, n_grades=5),
        protocol="parts",
        expected=Expected(8_260),
        marks=(),
    ),
)
"""Data sets of graded pictures."""
