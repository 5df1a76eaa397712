"""Photos and how they please: AVA, TAD66K, ICAA17K and SPAQ, read as their owners ship them.

Inputs are a column ``path`` with the absolute paths of the images, and the side columns that are asked for: pass
``columns=()`` for the image alone, as the paper has it. Targets are mean scores in the units of the files. Other scores
of the same photo are never inputs: they come from the same people as the target. Every function takes the folder that
holds the files, or looks in the one that the environment variable ``DIFFOR_DATA`` names; files are searched three
folders deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE, as_numbers, beside, exact_table, whole_numbers
from diffor.datasets.readers.image_files import (
    attach_images,
    choose_columns,
    image_folder,
    keep_sound,
    mark_fault,
    without_fault,
)
from diffor.datasets.readers.reading import (
    ReadReport,
    check_choice,
    data_root,
    find_below,
    folders_below,
    need_below,
    refuse_stand_in,
)
from diffor.datasets.readers.workbook import read_sheet
from diffor.datasets.samples import Samples
from diffor.errors import UserError

Root = str | Path | None

# AVA: a table of votes without a header, and lists of image numbers.

AVA_OBTAIN = (
    "AVA.txt and the lists are in the repository imfing/ava_downloader, which links the images (32 GB); their "
    "copyright stays with the photographers. AVA.txt and images/<id>.jpg must exist."
)
AVA_WIDTH = 15
AVA_SIDE = ("tag1", "tag2", "challenge")
AVA_VOTES = tuple(f"votes for {score}" for score in range(1, 11))


def survey_ava(root: Root = None, *, columns: Sequence[str] = ("tag1", "tag2")) -> tuple[Samples, ReadReport]:
    """Read AVA: the target is the mean of the votes from 1 to 10, whose counts are the side column ``votes (n, 10)``.

    ``columns`` may name the two semantic tags and the ``challenge``. The official test photos are known where their
    list is there.
    """
    chosen = choose_columns(columns, AVA_SIDE)
    below = data_root(root, "ava", AVA_OBTAIN)
    path = need_below(below, "ava", AVA_OBTAIN, "AVA.txt")
    table = _ava_table(path)
    listed = [f"{number}.jpg" for number in table[:, 1]]
    n_votes = table[:, 2:12].sum(axis=1)
    total = table[:, 2:12] @ np.arange(1.0, 11.0)
    rows = without_fault(pd.DataFrame({"y": total / np.maximum(n_votes, 1)}))
    for place, column in zip((12, 13, 14), AVA_SIDE, strict=True):
        # 0 stands for no tag.
        rows[column] = pd.Series(table[:, place].astype(str)).where(table[:, place] > 0).astype("category")
    rows[list(AVA_VOTES)] = table[:, 2:12].astype(float)
    mark_fault(rows, n_votes == 0, "no votes")
    files = [path]
    test_path = find_below(below, "aesthetics_image_lists/generic_test.jpgl")
    if test_path is not None:
        rows["test"] = np.isin(table[:, 1], whole_numbers(test_path, 1)).astype(float)
        files.append(test_path)
    attach_images(rows, image_folder("ava", path, below, listed, AVA_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    samples = _samples(kept, chosen)
    return replace(samples, side=samples.side | {"votes": kept[list(AVA_VOTES)].to_numpy(dtype=float)}), report


def _ava_table(path: Path) -> NDArray[np.int64]:
    table = whole_numbers(path, AVA_WIDTH)
    if (table < 0).any():
        line = int(np.argmax((table < 0).any(axis=1))) + 1
        raise UserError(f"{path} must hold counts and numbers, but line {line} has a negative one; {CURE}")
    return table


def _samples(kept: pd.DataFrame, columns: Sequence[str]) -> Samples:
    side = {"test": kept["test"].to_numpy(dtype=float)} if "test" in kept else {}
    return Samples(kept[["path", *columns]], kept["y"].to_numpy(dtype=float), side=side)


# TAD66K: two tables, either merged or by theme; the two partitions differ and must not be mixed.

TAD66K_OBTAIN = (
    "Follow the links in the repository woshidandan/TANet-image-aesthetics-and-quality-assessment, and keep "
    "labels/merge/train.csv, labels/merge/test.csv and the folder of the images."
)
TAD66K_HEADER = ("image", "score")


def survey_tad66k(root: Root = None, *, columns: Sequence[str] = ("theme",)) -> tuple[Samples, ReadReport]:
    """Read TAD66K: the target is the mean of the votes from 1 to 10.

    The merged tables name training and test photos, as is usual; those by theme give only the column ``theme``, as 478
    photos are for testing in the first and for training in the second.
    """
    chosen = choose_columns(columns, ("theme",))
    below = data_root(root, "tad66k", TAD66K_OBTAIN)
    train = need_below(below, "tad66k", TAD66K_OBTAIN, "merge/train.csv")
    files = [train, beside(train, "test.csv")]
    rows = _tad66k_rows(files)
    rows["test"] = (rows["file"] == 1).astype(float)
    by_theme = _theme_tables(below)
    if by_theme:
        themed = _tad66k_rows(by_theme).drop_duplicates("image").set_index("image")["file"]
        themes = themed.map(dict(enumerate(path.stem for path in by_theme)))
        rows["theme"] = rows["image"].map(themes).astype("category")
    listed = rows["image"].tolist()
    attach_images(rows, image_folder("tad66k", files[0], below, listed, TAD66K_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    return _samples(kept, chosen if by_theme else []), report


def _theme_tables(root: Path) -> list[Path]:
    """The tables by theme, training before test; none where the folder ``unmerge`` is not there."""
    folder = next((folder for folder in folders_below(root) if (folder / "unmerge" / "train").is_dir()), None)
    if folder is None:
        return []
    return [path for part in ("train", "test") for path in sorted((folder / "unmerge" / part).glob("*.csv"))]


def _tad66k_rows(paths: Sequence[Path]) -> pd.DataFrame:
    """Images and scores of several tables; ``file`` counts the tables from 0."""
    parts = []
    for number, path in enumerate(paths):
        cells = exact_table(path, TAD66K_HEADER)
        y = as_numbers(cells[["score"]], path)["score"].to_numpy()
        parts.append(pd.DataFrame({"image": cells["image"].to_numpy(), "y": y, "file": number}))
    return without_fault(pd.concat(parts, ignore_index=True))


# ICAA17K: two tables whose first column is the path of the image.

ICAA17K_OBTAIN = (
    "Follow the links in the repository woshidandan/Image-Color-Aesthetics-and-Quality-Assessment; the tables are in "
    "its ICAA17K_code/dataset/ICAA17K. The folder of the images must hold complementary and monochromatic."
)
ICAA17K_HEADER = ("ID", "color", "MOS", "probability")


def survey_icaa17k(
    root: Root = None, *, target: str = "MOS", columns: Sequence[str] = ("scheme", "colors")
) -> tuple[Samples, ReadReport]:
    """Read ICAA17K: the target is ``MOS``, how a photo pleases as a whole, or ``color``, how its colours do.

    The paper does not say which it used. Its errors (0.55 to 0.74) are larger than that of a constant guess of
    ``color`` (0.52) and fit ``MOS``, hence the default. ``columns`` may name the colour ``scheme`` (complementary or
    monochromatic) and the ``colors``, both from the folders.
    """
    check_choice("target", target, ("MOS", "color"))
    chosen = choose_columns(columns, ("scheme", "colors"), "the scores and the probability come from those who judged")
    below = data_root(root, "icaa17k", ICAA17K_OBTAIN)
    train = need_below(below, "icaa17k", ICAA17K_OBTAIN, "1train.csv")
    files = [train, beside(train, "1test.csv")]
    parts = [_icaa17k_rows(path, target).assign(test=float(number)) for number, path in enumerate(files)]
    rows = without_fault(pd.concat(parts, ignore_index=True))
    rows[["scheme", "colors"]] = rows[["scheme", "colors"]].astype("category")
    listed = rows["ID"].tolist()
    attach_images(rows, image_folder("icaa17k", train, below, listed, ICAA17K_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    return _samples(kept, chosen), report


def _icaa17k_rows(path: Path, target: str) -> pd.DataFrame:
    cells = exact_table(path, ICAA17K_HEADER)
    pieces = cells["ID"].str.split("/")
    odd = cells["ID"].str.count("/") != 2
    if odd.any():
        line = odd.index[odd][0]
        raise UserError(
            f"{path} must name images as scheme/colors/file.jpg, but line {line} has {cells.loc[line, 'ID']!r}; {CURE}"
        )
    y = as_numbers(cells[[target]], path)[target].to_numpy()
    rows: pd.DataFrame = pd.DataFrame({"ID": cells["ID"], "scheme": pieces.str[0], "colors": pieces.str[1], "y": y})
    return rows


# SPAQ: Excel workbooks, or the same scores divided by ten in two tables.

SPAQ_OBTAIN = (
    "Follow the links in the repository h4nwei/SPAQ (35 GB), so that 'Annotations/MOS and Image attribute scores.xlsx' "
    "and TestImage/*.jpg exist; join a download in parts by `zip -FF SPAQ.zip --out whole.zip`."
)
SPAQ_TABLE = "MOS and Image attribute scores.xlsx"
SPAQ_LEARNED = 10_000
SPAQ_SCORES = ("MOS", "Brightness", "Colorfulness", "Contrast", "Noisiness", "Sharpness")
SPAQ_SCENES = (
    "Animal", "Cityscape", "Human", "Indoor scene", "Landscape", "Night scene", "Plant", "Still-life", "Others",
)  # fmt: skip


def survey_spaq(
    root: Root = None, *, target: str = "Colorfulness", columns: Sequence[str] = ("scene",)
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
    below = data_root(root, "spaq", SPAQ_OBTAIN)
    rows, files = _spaq_rows(below, target)
    rows["y"] = rows["y"].round(9)
    numbers = pd.to_numeric(rows["image"].str.extract(r"(\d+)", expand=False), errors="coerce")
    rows["test"] = (numbers > SPAQ_LEARNED).astype(float)
    scenes: list[str] = []
    scene_path = files[0].parent / "Scene category labels.xlsx"
    if chosen and scene_path.is_file():
        rows = _with_scenes(rows, scene_path)
        scenes, files = list(SPAQ_SCENES), [*files, scene_path]
    listed = rows["image"].tolist()
    attach_images(rows, image_folder("spaq", files[0], below, listed, SPAQ_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    samples = _samples(kept, scenes)
    others = kept[[name for name in SPAQ_SCORES if name != target]].to_numpy(dtype=float)
    return replace(samples, side=samples.side | {"attributes": others}), report


def _spaq_rows(root: Path, target: str) -> tuple[pd.DataFrame, list[Path]]:
    """Image names and scores from 0 to 100, from the workbook or, where that is not there, from the two tables."""
    path = find_below(root, SPAQ_TABLE) or need_below(root, "spaq", SPAQ_OBTAIN, SPAQ_TABLE, "spaqTrain.csv")
    if path.suffix == ".xlsx":
        files, name, factor = [path], "Image name", 1.0
        tables = [_spaq_sheet(path, (name, *SPAQ_SCORES))]
    else:
        files, name, factor = [path, beside(path, "spaqTest.csv")], "image_id", 10.0
        tables = [exact_table(file, (name, *SPAQ_SCORES)) for file in files]
    read = [as_numbers(table[list(SPAQ_SCORES)], file) * factor for table, file in zip(tables, files, strict=True)]
    scores = pd.concat(read, ignore_index=True)
    y = scores[target]
    if not y.between(0, 100).all():
        raise UserError(f"{path} must hold scores from 0 to {100 / factor:g}, but got {y.max() / factor:g}; {CURE}")
    images = pd.concat([table[name] for table in tables], ignore_index=True).str.strip()
    return without_fault(scores.assign(image=images, y=y)), files


def _spaq_sheet(path: Path, header: Sequence[str]) -> pd.DataFrame:
    refuse_stand_in(path)
    sheet = read_sheet(path)
    if tuple(sheet.columns) != tuple(header):
        raise UserError(f"{path} must begin with {', '.join(header)}, but got {', '.join(sheet.columns)}; {CURE}")
    return sheet


def _with_scenes(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    sheet = _spaq_sheet(path, ("Image name", *SPAQ_SCENES))
    scenes = as_numbers(sheet[list(SPAQ_SCENES)], path)
    scenes["image"] = sheet["Image name"].str.strip().to_numpy()
    joined: pd.DataFrame = rows.merge(scenes.drop_duplicates("image"), on="image", how="left")
    return joined
