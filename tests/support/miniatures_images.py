"""Tiny copies of the image data sets as their owners ship them, quirks included.

Each function writes below a folder and returns it: the root that the loaders take. All eight can share one folder.
Photos are grey squares, the brighter the larger the target, so that there is something to learn.
"""

from __future__ import annotations

import csv
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

SIDE = 16


def write_photo(path: Path, brightness: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(round(1000 * brightness)).normal(0, 8, (SIDE, SIDE, 3))
    pixels = np.clip(30 + 200 * brightness + noise, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


def write_lines(path: Path, lines: Iterable[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + end for line in lines), encoding="utf-8", newline="")


UTKFACE_BAD_NAMES = (
    "39_1_20170116174525125.jpg.chip.jpg",
    "61_1_20170109142408075.jpg.chip.jpg",
    "61_1_20170109150557335.jpg.chip.jpg",
    "24_0_1_20170116220224657 .jpg.chip.jpg",
    "55_0_0_20170116232725357jpg.chip.jpg",
)


def write_utkface(folder: Path, n_rows: int = 30) -> Path:
    """Aligned chips with the five bad names; 30 rows or more."""
    names = ["1_0_0_20161219140623097.jpg.chip.jpg", "116_1_0_20170120134921760.jpg.chip.jpg", *UTKFACE_BAD_NAMES]
    ages = np.linspace(2, 90, n_rows - len(names)).astype(int)
    names += [f"{age}_{row % 2}_{row % 5}_2017011000000{row:04d}.jpg.chip.jpg" for row, age in enumerate(ages)]
    for name in names:
        write_photo(folder / "UTKFace" / name, int(name.split("_")[0]) / 116)
    return folder


UTKFACE_WILD = {
    "part1": ("61_1_20170109142408075.jpg", "61_3_20170109150557335.jpg", "9_1_2_20161219204347420.jpg"),
    "part2": ("39_1_20170116174525125.jpg", "53__0_20170116184028385.jpg"),
    "part3": ("24_0_1_20170116220224657 .jpg", "110_0_0_20170116220224658.jpg"),
}


def write_utkface_wild(folder: Path) -> Path:
    """Photos in the wild with their bad names."""
    for part, names in UTKFACE_WILD.items():
        for name in names:
            write_photo(folder / "UTKFace" / part / name, int(name.split("_")[0]) / 116)
    return folder


def write_fgnet(folder: Path, n_people: int = 6) -> Path:
    """Photos of six people or more in upper and lower case, landmarks and the files that say nothing."""
    names = ["001A02.JPG", "001A43a.JPG", "001A43b.JPG", "002a04.JPG", "009A00.jpg", "082A31.JPG"]
    for person in [2, 9, 82, *range(10, 6 + n_people)]:
        names += [f"{person:03d}A{age:02d}.JPG" for age in (10 + person % 7, 30, 55)]
    for name in names:
        write_photo(folder / "FGNET" / "images" / name, int(name[4:6]) / 69)
        stem = Path(name).stem.lower()
        points = ["version: 1", "n_points: 68", "{", *(f"{i}.5 {i}.25" for i in range(68)), "}"]
        write_lines(folder / "FGNET" / "points" / f"{stem}.pts", points, "\r\n")
        write_lines(folder / "FGNET" / "Data_files" / f"{stem}.dat", ["!"], "")
    return folder


MORPH_HEADER = "id_num,picture_num,dob,doa,race,gender,facial_hair,age,age_diff,glasses,photo"


def write_morph(folder: Path, n_people: int = 10) -> Path:
    """A table with people of one to three photos, and a row that has a field too many."""
    rows = [
        "900001,0,01/01/1960,01/01/2004,B,M,,44,0,,Album2/900001_0M44.JPG",
        "900001,1,01/01/1960,01/01/2005,B,M,,45,366,,Album2/900001_1M45.JPG",
        "900002,03,02/02/1980,02/02/2003,W,F,,23,0,,Album2/900002_03F23.JPG",
    ]
    for person in range(900_003, 900_001 + n_people):
        for picture in range(1 + person % 3):
            age = 16 + (7 * (person - 900_000)) % 50 + picture
            photo = f"{person:06d}_{picture}M{age}.JPG"
            rows.append(f"{person},{picture},03/03/1970,03/03/2006,H,M,,{age},{365 * picture},,Album2/{photo}")
    top = folder / "MORPH_nonCommercial"
    for row in rows:
        cells = row.split(",")
        write_photo(top / cells[-1], int(cells[7]) / 77)
    inconsistent = "900001,2,01/01/1960,01/01/2006,B,M,,46,731,,,Album2/900001_2M46.JPG"
    write_lines(top / "morph_2008_nonCommercial.csv", [MORPH_HEADER, *rows, inconsistent])
    return folder


def write_cacd(folder: Path, n_people: int = 12) -> Path:
    """A MATLAB file with two structs, ranks from 1, and names with accents, a quote and a dot.

    On disk one accent is stored decomposed, as some file systems do, and one as Latin-1 read from UTF-8.
    """
    from scipy.io import savemat

    people = ["Renée_Zellweger", "Beyoncé_Knowles", "Harry_Connick_Jr.", "Shaquille_O'Neal"]
    people += [f"Person_{number}" for number in range(n_people - len(people))]
    records = []
    for identity, person in enumerate(people, start=1):
        birth, rank = 1950 + 3 * identity % 40, identity
        for photo, year in enumerate((2004, 2013), start=1):
            name = f"{year - birth}_{person}_{photo:04d}.jpg"
            records.append((year - birth, identity, year, rank, birth, name))
            write_photo(folder / "CACD2000" / "CACD2000" / _name_on_disk(name), (year - birth) / 80)
    age, identities, years, ranks, births, names = zip(*records, strict=True)
    image_data = {
        "age": _column(age), "identity": _column(identities), "year": _column(years), "feature": np.zeros((0, 0)),
        "rank": _column(ranks), "lfw": _column([0] * len(records)), "birth": _column(births), "name": _cells(names),
    }  # fmt: skip
    numbers = range(1, len(people) + 1)
    celebrities = {"name": _cells(people), "identity": _column(numbers), "birth": _column(numbers),
                   "rank": _column(numbers), "lfw": _column(numbers)}  # fmt: skip
    path = folder / "CACD2000" / "celebrity2000_meta.mat"
    savemat(path, {"celebrityData": celebrities, "celebrityImageData": image_data}, do_compression=True)
    return folder


def _name_on_disk(name: str) -> str:
    if "Renée" in name:
        return unicodedata.normalize("NFD", name)
    return name.encode("utf-8").decode("latin-1") if "Beyoncé" in name else name


def _column(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.uint16)[:, None]


def _cells(texts: Sequence[str]) -> np.ndarray:
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = list(texts)
    return cells


def write_ava(folder: Path, n_rows: int = 30) -> Path:
    """Votes without a header, of which the third has no photo, and the official list of test photos."""
    lines = [
        "1 953619 0 1 5 17 38 36 15 6 5 1 1 22 1396",
        "2 953958 10 7 15 26 26 21 10 8 1 2 1 21 1396",
        "3 954184 0 0 4 8 41 56 10 3 4 0 0 0 1396",
    ]
    for row in range(4, n_rows + 1):
        votes = np.random.default_rng(row).multinomial(100, np.exp(-0.5 * (np.arange(10) - row % 10) ** 2 / 4) / 5.1)
        lines.append(f"{row} {954184 + row} {' '.join(map(str, votes))} {row % 66 + 1} 0 {1000 + row % 3}")
    top = folder / "AVA_dataset"
    write_lines(top / "AVA.txt", lines)
    write_lines(top / "tags.txt", ["1 Abstract", "22 Black and White", "21 Still Life"])
    write_lines(top / "challenges.txt", ["1396 Best Of 2010"])
    numbers = [line.split()[1] for line in lines]
    write_lines(top / "aesthetics_image_lists" / "generic_test.jpgl", numbers[1::5])
    for line in lines:
        number, *votes = map(int, line.split()[1:12])
        if number != 954184:
            mean = np.dot(votes, np.arange(1, 11)) / np.sum(votes)
            write_photo(top / "images" / f"{number}.jpg", (mean - 1) / 9)
    return folder


def write_tad66k(folder: Path, n_rows: int = 30) -> Path:
    """Tables with CR LF, merged and by theme, where one photo of flowers is for testing in the first only."""
    names = [f"29411395@N0355269799{row:02d}.jpg" for row in range(n_rows)]
    scores = ["3.12", "3", *(f"{1.2 + 8 * row / n_rows:.2f}" for row in range(2, n_rows))]
    rows = [f"{name},{score}" for name, score in zip(names, scores, strict=True)]
    labels, n_train = folder / "tad66k" / "labels", round(0.8 * n_rows)
    tables = {
        "merge/train": rows[:n_train],
        "merge/test": rows[n_train:],
        "unmerge/train/flower": [*rows[: n_train // 2], rows[n_train]],
        "unmerge/train/sea": rows[n_train // 2 : n_train],
        "unmerge/test/flower": rows[n_train + 1 : n_train + 3],
        "unmerge/test/sea": rows[n_train + 3 :],
    }
    for name, lines in tables.items():
        write_lines(labels / f"{name}.csv", ["image,score", *lines], "\r\n")
    for name, score in zip(names, scores, strict=True):
        write_photo(folder / "tad66k" / "TAD66K" / name, (float(score) - 1) / 9)
    return folder


def write_icaa17k(folder: Path, n_rows: int = 30) -> Path:
    """Tables whose first column holds paths below the folder of the images."""
    places = ("complementary/orange_blue", "complementary/red_green", "monochromatic/violet")
    rows = ["complementary/orange_blue/juiedesai19391601268.jpg,5.637041,6.720342636108398,0.6935510635375977"]
    for row in range(1, n_rows):
        mos = 1 + 7.5 * row / n_rows
        rows.append(f"{places[row % 3]}/photo{row:04d}.jpg,{5.9 + 0.05 * (row % 9):.6f},{mos:.10f},0.6{row:03d}")
    top, n_train = folder / "icaa17k", round(0.9 * n_rows)
    for name, lines in {"1all": rows, "1train": rows[:n_train], "1test": rows[n_train:]}.items():
        write_lines(top / f"{name}.csv", ["ID,color,MOS,probability", *lines])
    for row in rows:
        image, _, mos, _ = row.split(",")
        write_photo(top / "images" / image, float(mos) / 10)
    return folder


SPAQ_HEADER = ["Image name", "MOS", "Brightness", "Colorfulness", "Contrast", "Noisiness", "Sharpness"]
SCENES = ["Animal", "Cityscape", "Human", "Indoor scene", "Landscape", "Night scene", "Plant", "Still-life", "Others"]


def spaq_rows(n_rows: int = 30) -> list[list[str | float]]:
    """Scores from 0 to 100 of photos on both sides of number 10,000."""
    numbers = [*range(1, n_rows - 3), *range(10_001, 10_005)]
    return [
        [f"{number:05d}.jpg", round(5 + 85 * row / n_rows, 2), 50.5, round(90 - 80 * row / n_rows, 2), 49, 48, 47.25]
        for row, number in enumerate(numbers)
    ]


def write_spaq(folder: Path, n_rows: int = 30) -> Path:
    """Three workbooks and the photos."""
    rows = spaq_rows(n_rows)
    annotations = folder / "SPAQ" / "Annotations"
    write_workbook(annotations / "MOS and Image attribute scores.xlsx", "Sheet1", [SPAQ_HEADER, *rows])
    scenes = [
        [row[0], *(1.0 if column == number % 9 else 0.0 for column in range(9))] for number, row in enumerate(rows)
    ]
    write_workbook(annotations / "Scene category labels.xlsx", "Sheet1", [["Image name", *SCENES], *scenes])
    exif = [["Image name", "Focal length", "Exposure time"], *([row[0], 4.2, 1_000_000] for row in rows)]
    write_workbook(annotations / "EXIF_tags.xlsx", "Source EXIF tags", exif)
    for row in rows:
        write_photo(folder / "SPAQ" / "TestImage" / str(row[0]), float(row[3]) / 100)
    return folder


def write_spaq_tables(folder: Path, n_rows: int = 30) -> Path:
    """The same scores divided by ten in two tables, as another repository ships them, and the photos."""
    rows = spaq_rows(n_rows)
    for name, chosen in {"spaqTrain": rows[:-4], "spaqTest": rows[-4:]}.items():
        path = folder / "SPAQ" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["image_id", *SPAQ_HEADER[1:]])
            writer.writerows([[row[0], *(f"{float(score) / 10:.3f}" for score in row[1:])] for row in chosen])
    for row in rows:
        write_photo(folder / "SPAQ" / "TestImage" / str(row[0]), float(row[3]) / 100)
    return folder


def write_workbook(path: Path, sheet: str, rows: Sequence[Sequence[str | float]]) -> None:
    """An Excel workbook of one sheet: texts are shared, as Excel writes them, and empty cells are left out."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    texts = list(dict.fromkeys(cell for row in rows for cell in row if isinstance(cell, str) and cell))
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = []
        for column, cell in zip("ABCDEFGHIJ", row, strict=False):
            kind, value = (' t="s"', texts.index(cell)) if isinstance(cell, str) and cell else ("", cell)
            cells.append(f'<c r="{column}{number}"{kind}><v>{value}</v></c>' if value != "" else "")
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        f'<sheet name="{escape(sheet)}" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}"><Relationship Id="rId1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{shared}</sst>',
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + text)


WRITERS = {
    "utkface": write_utkface,
    "fgnet": write_fgnet,
    "morph": write_morph,
    "cacd": write_cacd,
    "ava": write_ava,
    "tad66k": write_tad66k,
    "icaa17k": write_icaa17k,
    "spaq": write_spaq,
}


def write_image_sets(folder: Path) -> Path:
    """All eight below one folder."""
    for write in WRITERS.values():
        write(folder)
    return folder
