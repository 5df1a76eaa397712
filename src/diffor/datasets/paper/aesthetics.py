"""Photos and how they please: AVA, TAD66K, ICAA17K and SPAQ, read as their owners ship them.

Inputs are a column ``path`` with the absolute paths of the images, and the side columns that are asked for: pass
``columns=()`` for the image alone, as the paper has it. Targets are mean scores in the units of the files. Other scores
of the same photo are never inputs: they come from the same people as the target. Files are searched three folders deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from diffor.datasets.paper.sets import image_set
from diffor.datasets.readers.data_files import CURE, as_numbers, beside, exact_table, whole_numbers
from diffor.datasets.readers.image_files import Expected, choose_columns, image_samples, mark_fault
from diffor.datasets.readers.reading import Place, ReadReport, folders_below, refuse_stand_in
from diffor.datasets.readers.workbook import read_sheet
from diffor.datasets.samples import Samples
from diffor.errors import UserError, check_choice

METRICS = ("mae", "xauc", "lcc", "srcc", "crps", "coverage")

# AVA: a table of votes without a header, and lists of image numbers.

AVA_WIDTH = 15
AVA_SIDE = ("tag1", "tag2", "challenge")
AVA_VOTES = [f"votes for {score}" for score in range(1, 11)]


def survey_ava(place: Place, *, columns: Sequence[str] = ("tag1", "tag2")) -> tuple[Samples, ReadReport]:
    """Read AVA: the target is the mean of the votes from 1 to 10, whose counts are the side column ``votes (n, 10)``.

    ``columns`` may name the two semantic tags and the ``challenge``. The official test photos are known where their
    list is there.
    """
    chosen = choose_columns(columns, AVA_SIDE)
    path = place.need("AVA.txt")
    table = whole_numbers(path, AVA_WIDTH)
    if (table < 0).any():
        line = int(np.argmax((table < 0).any(axis=1))) + 1
        raise UserError(f"{path} must hold counts and numbers, but line {line} has a negative one; {CURE}")
    votes = table[:, 2:12].astype(float)
    n_votes = votes.sum(axis=1)
    rows = pd.DataFrame(votes, columns=AVA_VOTES)
    rows["image"] = [f"{number}.jpg" for number in table[:, 1]]
    rows["y"] = votes @ np.arange(1.0, 11.0) / np.maximum(n_votes, 1)
    for number, column in zip(table[:, 12:].T, AVA_SIDE, strict=True):
        rows[column] = pd.Series(number.astype(str)).where(number > 0).astype("category")  # 0 stands for no tag
    mark_fault(rows, n_votes == 0, "no votes")
    files, side = [path], {"votes": AVA_VOTES}
    test_path = place.find("aesthetics_image_lists/generic_test.jpgl")
    if test_path is None:
        return image_samples(place, rows, files, chosen, side)
    rows["test"] = np.isin(table[:, 1], whole_numbers(test_path, 1))
    return image_samples(place, rows, [*files, test_path], chosen, {"test": "test", **side})


# TAD66K: two tables, either merged or by theme; the two partitions differ and must not be mixed.


def survey_tad66k(place: Place, *, columns: Sequence[str] = ("theme",)) -> tuple[Samples, ReadReport]:
    """Read TAD66K: the target is the mean of the votes from 1 to 10.

    The merged tables name training and test photos, as is usual; those by theme give only the column ``theme``, as 478
    photos are for testing in the first and for training in the second.
    """
    chosen = choose_columns(columns, ("theme",))
    train = place.need("merge/train.csv")
    files = [train, beside(train, "test.csv")]
    rows = _tad66k_rows(files)
    rows["test"] = rows["file"] == 1
    unmerged = next((each / "unmerge" for each in folders_below(place.root) if (each / "unmerge/train").is_dir()), None)
    if unmerged is None:
        return image_samples(place, rows, files, side={"test": "test"})
    by_theme = [path for part in ("train", "test") for path in sorted((unmerged / part).glob("*.csv"))]
    themed = _tad66k_rows(by_theme).drop_duplicates("image").set_index("image")["file"]
    themes = themed.map(dict(enumerate(path.stem for path in by_theme)))
    rows["theme"] = rows["image"].map(themes).astype("category")
    return image_samples(place, rows, files, chosen, {"test": "test"})


def _tad66k_rows(paths: Sequence[Path]) -> pd.DataFrame:
    """Images and scores of several tables; ``file`` counts the tables from 0."""
    parts = []
    for number, path in enumerate(paths):
        cells = exact_table(path, ("image", "score"))
        y = as_numbers(cells[["score"]], path)["score"].to_numpy()
        parts.append(pd.DataFrame({"image": cells["image"].to_numpy(), "y": y, "file": number}))
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return rows


# ICAA17K: two tables whose first column is the path of the image.


def survey_icaa17k(
    place: Place, *, target: str = "MOS", columns: Sequence[str] = ("scheme", "colors")
) -> tuple[Samples, ReadReport]:
    """Read ICAA17K: the target is ``MOS``, how a photo pleases as a whole, or ``color``, how its colours do.

    The paper does not say which it used. Its errors (0.55 to 0.74) are larger than that of a constant guess of
    ``color`` (0.52) and fit ``MOS``, hence the default. ``columns`` may name the colour ``scheme`` (complementary or
    monochromatic) and the ``colors``, both from the folders.
    """
    check_choice("target", target, ("MOS", "color"))
    chosen = choose_columns(columns, ("scheme", "colors"), "the scores and the probability come from those who judged")
    train = place.need("1train.csv")
    files = [train, beside(train, "1test.csv")]
    parts = []
    for number, path in enumerate(files):
        cells = exact_table(path, ("ID", "color", "MOS", "probability"))
        odd = cells["ID"].str.count("/") != 2
        if odd.any():
            line = odd.index[odd][0]
            raise UserError(
                f"{path} must name images as scheme/colors/file.jpg, but line {line} has {cells.loc[line, 'ID']!r}; "
                f"{CURE}"
            )
        y = as_numbers(cells[[target]], path)[target].to_numpy()
        parts.append(pd.DataFrame({"image": cells["ID"], "y": y, "test": number}))
    rows = pd.concat(parts, ignore_index=True)
    rows[["scheme", "colors"]] = rows["image"].str.split("/", expand=True)[[0, 1]].astype("category")
    return image_samples(place, rows, files, chosen, {"test": "test"})


# SPAQ: Excel workbooks, or the same scores divided by ten in two tables.

SPAQ_TABLE = "MOS and Image attribute scores.xlsx"
SPAQ_LEARNED = 10_000
SPAQ_SCORES = ("MOS", "Brightness", "Colorfulness", "Contrast", "Noisiness", "Sharpness")
SPAQ_SCENES = (
    "Animal", "Cityscape", "Human", "Indoor scene", "Landscape", "Night scene", "Plant", "Still-life", "Others",
)  # fmt: skip


def survey_spaq(
    place: Place, *, target: str = "Colorfulness", columns: Sequence[str] = ("scene",)
) -> tuple[Samples, ReadReport]:
    """Read SPAQ: the target is ``MOS``, the overall quality, or one of five attributes, from 0 to 100.

    The other five are the side column ``attributes (n, 5)``, in the order of the files: to learn from, never inputs.

    The paper does not say which it used. It follows a protocol that takes ``Colorfulness``, and its correlations
    (0.64 for a usual method) are far below the 0.9 that is usual for ``MOS``, hence the default. The paper's errors are
    on a scale to 10. ``columns=("scene",)`` adds the nine probabilities of scenes where their workbook is there. The
    test photos of that protocol are those with numbers above 10,000.
    """
    check_choice("target", target, SPAQ_SCORES)
    chosen = choose_columns(columns, ("scene",), "the scores come from those who judged")
    rows, files = _spaq_rows(place)
    highest = 100.0 if files[0].suffix == ".xlsx" else 10.0
    if not rows[target].between(0, highest).all():
        raise UserError(f"{files[0]} must hold scores from 0 to {highest:g}, but got {rows[target].max():g}; {CURE}")
    rows[list(SPAQ_SCORES)] *= 100 / highest
    rows["y"] = rows[target].round(9)
    numbers = pd.to_numeric(rows["image"].str.extract(r"(\d+)", expand=False), errors="coerce")
    rows["test"] = numbers > SPAQ_LEARNED
    scenes = files[0].parent / "Scene category labels.xlsx"
    inputs: list[str] = []
    if chosen and scenes.is_file():
        inputs, files = list(SPAQ_SCENES), [*files, scenes]
        sheet = _spaq_sheet(scenes, ("Image name", *SPAQ_SCENES))
        found = as_numbers(sheet[inputs], scenes).assign(image=sheet["Image name"].str.strip().to_numpy())
        rows = rows.merge(found.drop_duplicates("image"), on="image", how="left")
    others = [name for name in SPAQ_SCORES if name != target]
    return image_samples(place, rows, files, inputs, {"test": "test", "attributes": others})


def _spaq_rows(place: Place) -> tuple[pd.DataFrame, list[Path]]:
    """Image names and scores from the workbook or, where that is not there, from the two tables."""
    path = place.find(SPAQ_TABLE) or place.need(SPAQ_TABLE, "spaqTrain.csv")
    if path.suffix == ".xlsx":
        files, name = [path], "Image name"
        tables = [_spaq_sheet(path, (name, *SPAQ_SCORES))]
    else:
        files, name = [path, beside(path, "spaqTest.csv")], "image_id"
        tables = [exact_table(file, (name, *SPAQ_SCORES)) for file in files]
    read = [
        as_numbers(table[list(SPAQ_SCORES)], file).assign(image=table[name].str.strip().to_numpy())
        for table, file in zip(tables, files, strict=True)
    ]
    return pd.concat(read, ignore_index=True), files


def _spaq_sheet(path: Path, header: Sequence[str]) -> pd.DataFrame:
    refuse_stand_in(path)
    sheet = read_sheet(path)
    if tuple(sheet.columns) != tuple(header):
        raise UserError(f"{path} must begin with {', '.join(header)}, but got {', '.join(sheet.columns)}; {CURE}")
    return sheet


AESTHETICS = (
    image_set(
        name="ava",
        description="mean vote from 1 to 10 on 255,530 photos of challenges",
        source="github.com/imfing/ava_downloader",
        size="32 GB, 255,530 rows",
        licence="the photographers keep all rights; no redistribution",
        obtain="AVA.txt and the lists are in the repository imfing/ava_downloader, which links the images (32 GB); "
        "their copyright stays with the photographers. AVA.txt and images/<id>.jpg must exist.",
        metrics=METRICS,
        bounds=(1.0, 10.0),
        survey=survey_ava,
        marks=("AVA.txt",),
        # Some twenty to thirty photos were taken down before the archive was made.
        expected=Expected(n_rows=255_530, n_missing=30),
    ),
    image_set(
        name="tad66k",
        description="mean vote from 1 to 10 on 66,327 photos of 47 themes",
        source="github.com/woshidandan/TANet-image-aesthetics-and-quality-assessment",
        size="66,327 images",
        licence="none stated for the photos; research use, ask the owners",
        obtain="Follow the links in the repository woshidandan/TANet-image-aesthetics-and-quality-assessment, and keep "
        "labels/merge/train.csv, labels/merge/test.csv and the folder of the images.",
        metrics=METRICS,
        bounds=(1.0, 10.0),
        survey=survey_tad66k,
        marks=("merge/train.csv",),
        expected=Expected(n_rows=66_327),
    ),
    image_set(
        name="icaa17k",
        description="mean opinion of 17,351 photos, 0 to 10",
        source="github.com/woshidandan/Image-Color-Aesthetics-and-Quality-Assessment",
        size="17,351 images",
        licence="none stated for the photos; research use, ask the owners",
        obtain="Follow the links in the repository woshidandan/Image-Color-Aesthetics-and-Quality-Assessment; the "
        "tables are in its ICAA17K_code/dataset/ICAA17K. The folder of the images must hold complementary and "
        "monochromatic.",
        metrics=METRICS,
        bounds=(0.0, 10.0),
        survey=survey_icaa17k,
        marks=("1train.csv",),
        expected=Expected(n_rows=17_351),
    ),
    image_set(
        name="spaq",
        description="colourfulness of 11,125 photos by smartphones, 0 to 100",
        source="github.com/h4nwei/SPAQ",
        size="35 GB, 11,125 images",
        licence="none stated; research use, ask the owners",
        obtain="Follow the links in the repository h4nwei/SPAQ (35 GB), so that 'Annotations/MOS and Image attribute "
        "scores.xlsx' and TestImage/*.jpg exist; join a download in parts by `zip -FF SPAQ.zip --out whole.zip`.",
        metrics=METRICS,
        bounds=(0.0, 100.0),
        survey=survey_spaq,
        marks=(SPAQ_TABLE, "spaqTrain.csv"),
        expected=Expected(n_rows=11_125),
    ),
)
"""Data sets of photos and how they please."""
