"""Photos and how they please: AVA, TAD66K, ICAA17K and SPAQ, read as their owners ship them.

Inputs are a column ``path`` with the absolute paths of the images, and the side columns that are asked for: pass
``columns=()`` for the image alone, as the paper has it. Targets are mean scores in the units of the files. Other scores
of the same photo are never inputs: they come from the same people as the target. Every function takes the folder that
holds the files, or looks in the one that the environment variable ``DIFFOR_DATA`` names; files are searched three
folders deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE, as_numbers
from diffor.datasets.readers.image_files import (
    attach_images,
    choose_columns,
    image_folder,
    keep_sound,
    mark_fault,
    without_fault,
)
from diffor.datasets.readers.label_files import beside, exact_table, whole_numbers
from diffor.datasets.readers.reading import (
    ReadReport,
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


def survey_ava(
    root: Root = None,
    *,
    images: str | Path | None = None,
    columns: Sequence[str] = ("tag1", "tag2"),
    test_list: str = "generic_test.jpgl",
) -> tuple[Samples, ReadReport]:
    """Read AVA: the target is the mean of the votes from 1 to 10.

    ``images`` is the folder of the photos; None searches it. ``columns`` may name the two semantic tags and the
    ``challenge``. ``test_list`` is the list, in ``aesthetics_image_lists``, of the official test photos.
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
    mark_fault(rows, n_votes == 0, "no votes")
    files = [path]
    test_path = find_below(below, f"aesthetics_image_lists/{test_list}")
    if test_path is not None:
        rows["test"] = np.isin(table[:, 1], whole_numbers(test_path, 1)).astype(float)
        files.append(test_path)
    attach_images(rows, image_folder("ava", images, path, below, listed, AVA_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    return _samples(kept, chosen), report


def _ava_table(path: Path) -> NDArray[np.int64]:
    table = whole_numbers(path, AVA_WIDTH)
    if (table < 0).any():
        line = int(np.argmax((table < 0).any(axis=1))) + 1
        raise UserError(f"{path} must hold counts and numbers, but line {line} has a negative one; {CURE}")
    return table


def _samples(kept: pd.DataFrame, columns: Sequence[str]) -> Samples:
    side = {"test": kept["test"].to_numpy(dtype=float)} if "test" in kept else {}
    return Samples(kept[["path", *columns]], kept["y"].to_numpy(dtype=float), side=side)


def read_ava(root: Root = None, **options: Any) -> Samples:
    """The samples of `survey_ava`, which names the options."""
    return survey_ava(root, **options)[0]


# TAD66K: two tables, either merged or by theme; the two partitions differ and must not be mixed.

TAD66K_OBTAIN = (
    "Follow the links in the repository woshidandan/TANet-image-aesthetics-and-quality-assessment, and keep "
    "labels/merge/train.csv, labels/merge/test.csv and the folder of the images."
)
TAD66K_HEADER = ("image", "score")


def survey_tad66k(
    root: Root = None,
    *,
    partition: str = "merge",
    images: str | Path | None = None,
    columns: Sequence[str] = ("theme",),
) -> tuple[Samples, ReadReport]:
    """Read TAD66K: the target is the mean of the votes from 1 to 10.

    ``partition`` chooses the tables that name training and test photos: ``merge``, which is usual, or ``unmerge``, by
    theme; 478 photos are for testing in the first and for training in the second. The ``theme`` is a column where the
    tables by theme are there. ``images`` is the folder of the photos; None searches it.
    """
    chosen = choose_columns(columns, ("theme",))
    below = data_root(root, "tad66k", TAD66K_OBTAIN)
    by_theme = _theme_tables(below)
    rows = _tad66k_rows(_partition_tables(below, partition, by_theme))
    if partition == "merge" and by_theme:
        themes = _tad66k_rows(by_theme).drop_duplicates("image").set_index("image")["theme"]
        rows["theme"] = rows["image"].map(themes)
    rows["theme"] = rows["theme"].astype("category")
    files = [Path(file) for file in rows["file"].unique()]
    listed = rows["image"].tolist()
    attach_images(rows, image_folder("tad66k", images, files[0], below, listed, TAD66K_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    return _samples(kept, chosen if by_theme else []), report


Table = tuple[Path, float, str]
"""A label file, 1 where its photos are for testing, and its theme where it has one."""


def _partition_tables(root: Path, partition: str, by_theme: list[Table]) -> list[Table]:
    if partition == "merge":
        train = need_below(root, "tad66k", TAD66K_OBTAIN, "merge/train.csv")
        return [(train, 0.0, ""), (beside(train, "test.csv"), 1.0, "")]
    if partition != "unmerge":
        raise UserError(f"partition must be 'merge' or 'unmerge', but got partition={partition!r}")
    if not by_theme:
        raise FileNotFoundError(
            f"the partition by theme needs unmerge/train/<theme>.csv, but {root} holds none. {TAD66K_OBTAIN}"
        )
    return by_theme


def _theme_tables(root: Path) -> list[Table]:
    """The tables by theme, training before test; none where the folder ``unmerge`` is not there."""
    folder = next((folder for folder in folders_below(root) if (folder / "unmerge" / "train").is_dir()), None)
    if folder is None:
        return []
    parts = (("train", 0.0), ("test", 1.0))
    return [
        (path, is_test, path.stem)
        for part, is_test in parts
        for path in sorted((folder / "unmerge" / part).glob("*.csv"))
    ]


def _tad66k_rows(tables: list[Table]) -> pd.DataFrame:
    parts = []
    for path, is_test, theme in tables:
        cells = exact_table(path, TAD66K_HEADER)
        y = as_numbers(cells[["score"]], path)["score"].to_numpy()
        image = cells["image"].to_numpy()
        parts.append(pd.DataFrame({"image": image, "y": y, "test": is_test, "theme": theme, "file": str(path)}))
    return without_fault(pd.concat(parts, ignore_index=True))


def read_tad66k(root: Root = None, **options: Any) -> Samples:
    """The samples of `survey_tad66k`, which names the options."""
    return survey_tad66k(root, **options)[0]


# ICAA17K: two tables whose first column is the path of the image.

ICAA17K_OBTAIN = (
    "Follow the links in the repository woshidandan/Image-Color-Aesthetics-and-Quality-Assessment; the tables are in "
    "its ICAA17K_code/dataset/ICAA17K. The folder of the images must hold complementary and monochromatic."
)
ICAA17K_HEADER = ("ID", "color", "MOS", "probability")


def survey_icaa17k(
    root: Root = None,
    *,
    target: str = "MOS",
    images: str | Path | None = None,
    columns: Sequence[str] = ("scheme", "colors"),
) -> tuple[Samples, ReadReport]:
    """Read ICAA17K: the target is ``MOS``, how a photo pleases as a whole, or ``color``, how its colours do.

    The paper does not say which it used. Its errors (0.55 to 0.74) are larger than that of a constant guess of
    ``color`` (0.52) and fit ``MOS``, hence the default. ``columns`` may name the colour ``scheme`` (complementary or
    monochromatic) and the ``colors``, both from the folders. ``images`` is the folder that holds the two schemes; None
    searches it.
    """
    if target not in ("MOS", "color"):
        raise UserError(f"target must be 'MOS' or 'color', but got target={target!r}")
    chosen = choose_columns(columns, ("scheme", "colors"), "the scores and the probability come from those who judged")
    below = data_root(root, "icaa17k", ICAA17K_OBTAIN)
    train = need_below(below, "icaa17k", ICAA17K_OBTAIN, "1train.csv")
    files = [train, beside(train, "1test.csv")]
    parts = [_icaa17k_rows(path, target).assign(test=float(number)) for number, path in enumerate(files)]
    rows = without_fault(pd.concat(parts, ignore_index=True))
    rows[["scheme", "colors"]] = rows[["scheme", "colors"]].astype("category")
    listed = rows["ID"].tolist()
    attach_images(rows, image_folder("icaa17k", images, train, below, listed, ICAA17K_OBTAIN), listed)
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


def read_icaa17k(root: Root = None, **options: Any) -> Samples:
    """The samples of `survey_icaa17k`, which names the options."""
    return survey_icaa17k(root, **options)[0]


# SPAQ: Excel workbooks, or the same scores divided by ten in two tables.

SPAQ_OBTAIN = (
    "Follow the links in the repository h4nwei/SPAQ (35 GB), so that 'Annotations/MOS and Image attribute scores.xlsx' "
    "and TestImage/*.jpg exist; join a download in parts by `zip -FF SPAQ.zip --out whole.zip`."
)
SPAQ_TABLE = "MOS and Image attribute scores.xlsx"
SPAQ_SCORES = ("MOS", "Brightness", "Colorfulness", "Contrast", "Noisiness", "Sharpness")
SPAQ_SCENES = (
    "Animal", "Cityscape", "Human", "Indoor scene", "Landscape", "Night scene", "Plant", "Still-life", "Others",
)  # fmt: skip


def survey_spaq(
    root: Root = None,
    *,
    target: str = "Colorfulness",
    top: float = 100.0,
    images: str | Path | None = None,
    columns: Sequence[str] = ("scene",),
    n_first: int = 10_000,
) -> tuple[Samples, ReadReport]:
    """Read SPAQ: the target is ``MOS``, the overall quality, or one of five attributes, from 0 to ``top``.

    The paper does not say which it used. It follows a protocol that takes ``Colorfulness``, and its correlations
    (0.64 for a usual method) are far below the 0.9 that is usual for ``MOS``, hence the default. ``top=10`` gives the
    scale of the paper's errors. ``columns=("scene",)`` adds the nine probabilities of scenes where their workbook is
    there. ``images`` is the folder of the photos; None searches it. The test photos of that protocol are those with
    numbers above ``n_first``.
    """
    if target not in SPAQ_SCORES:
        raise UserError(f"target must be one of {', '.join(SPAQ_SCORES)}, but got target={target!r}")
    chosen = choose_columns(columns, ("scene",), "the scores come from those who judged")
    below = data_root(root, "spaq", SPAQ_OBTAIN)
    rows, files = _spaq_rows(below, target)
    rows["y"] = (rows["y"] * (top / 100)).round(9)
    numbers = pd.to_numeric(rows["image"].str.extract(r"(\d+)", expand=False), errors="coerce")
    rows["test"] = (numbers > n_first).astype(float)
    scenes: list[str] = []
    scene_path = files[0].parent / "Scene category labels.xlsx"
    if chosen and scene_path.is_file():
        rows = _with_scenes(rows, scene_path)
        scenes, files = list(SPAQ_SCENES), [*files, scene_path]
    listed = rows["image"].tolist()
    attach_images(rows, image_folder("spaq", images, files[0], below, listed, SPAQ_OBTAIN), listed)
    kept, report = keep_sound(rows, files)
    return _samples(kept, scenes), report


def _spaq_rows(root: Path, target: str) -> tuple[pd.DataFrame, list[Path]]:
    """Image names and scores from 0 to 100, from the workbook or, where that is not there, from the two tables."""
    path = find_below(root, SPAQ_TABLE) or need_below(root, "spaq", SPAQ_OBTAIN, SPAQ_TABLE, "spaqTrain.csv")
    if path.suffix == ".xlsx":
        files, name, factor = [path], "Image name", 1.0
        tables = [_spaq_sheet(path, (name, *SPAQ_SCORES))]
    else:
        files, name, factor = [path, beside(path, "spaqTest.csv")], "image_id", 10.0
        tables = [exact_table(file, (name, *SPAQ_SCORES)) for file in files]
    scores = [as_numbers(table[[target]], file)[target] * factor for table, file in zip(tables, files, strict=True)]
    y = pd.concat(scores, ignore_index=True)
    if not y.between(0, 100).all():
        raise UserError(f"{path} must hold scores from 0 to {100 / factor:g}, but got {y.max() / factor:g}; {CURE}")
    images = pd.concat([table[name] for table in tables], ignore_index=True).str.strip()
    return without_fault(pd.DataFrame({"image": images, "y": y})), files


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


def read_spaq(root: Root = None, **options: Any) -> Samples:
    """The samples of `survey_spaq`, which names the options."""
    return survey_spaq(root, **options)[0]
