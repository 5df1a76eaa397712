"""Sheets of Excel workbooks, read as text: a workbook is a zip archive of XML.

By hand: pandas needs openpyxl for it, and takes .45 s for 10,000 rows of 8 cells where this takes .3; and it numbers no
rows, which messages about damaged files name.
"""

from __future__ import annotations

import itertools
import re
import zipfile
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

from diffor.datasets.readers.data_files import CURE
from diffor.errors import UserError

_COLUMN = re.compile(r"[A-Z]+")
_ANY = "{*}"  # strict and transitional workbooks differ in their name spaces


def read_sheet(path: Path) -> pd.DataFrame:
    """The first sheet as text cells under its first row; empty cells are empty text.

    The index counts the rows of the sheet, so that messages can name them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            shared = _shared_texts(archive)
            rows = [_cells_of(row, shared) for row in _parsed(archive, _first_sheet(archive)).iterfind(f".//{_ANY}row")]
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, IndexError, StopIteration, zlib.error) as error:
        raise UserError(f"{path} must be an Excel workbook (.xlsx), but {error}; {CURE}") from error
    filled = {number: row for number, row in enumerate(rows, start=1) if any(row)}
    if len(filled) < 2:
        raise UserError(f"{path} must have a header and rows, but it has {len(filled)} rows; {CURE}")
    header, *body = zip(*itertools.zip_longest(*filled.values(), fillvalue=""), strict=True)
    names = [cell.strip() for cell in header]
    table: pd.DataFrame = pd.DataFrame(body, columns=names, index=list(filled)[1:])
    return table


def _parsed(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(name))


def _first_sheet(archive: zipfile.ZipFile) -> str:
    element = next(_parsed(archive, "xl/workbook.xml").iterfind(f".//{_ANY}sheet"))
    identifier = next(value for key, value in element.attrib.items() if key.endswith("}id"))
    relations = _parsed(archive, "xl/_rels/workbook.xml.rels")
    target = next(relation.attrib["Target"] for relation in relations if relation.attrib["Id"] == identifier)
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _shared_texts(archive: zipfile.ZipFile) -> list[str]:
    """Texts that cells refer to by number; a workbook may have none."""
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_text_of(item) for item in _parsed(archive, "xl/sharedStrings.xml").findall(f"{_ANY}si")]


def _text_of(item: ElementTree.Element) -> str:
    # A text is one piece, or several that are formatted differently.
    pieces = item.findall(f"{_ANY}t") + item.findall(f"{_ANY}r/{_ANY}t")
    return "".join(piece.text or "" for piece in pieces)


def _cells_of(row: ElementTree.Element, shared: list[str]) -> list[str]:
    cells: dict[int, str] = {}
    for cell in row.findall(f"{_ANY}c"):
        column = len(cells)  # the following one, where the cell has no address
        if letters := _COLUMN.match(cell.attrib.get("r", "")):
            column = -1
            for letter in letters[0]:
                column = 26 * (column + 1) + ord(letter) - ord("A")
        cells[column] = _cell_text(cell, shared)
    return [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]


def _cell_text(cell: ElementTree.Element, shared: list[str]) -> str:
    kind, value, inline = cell.attrib.get("t", "n"), cell.find(f"{_ANY}v"), cell.find(f"{_ANY}is")
    if kind == "inlineStr":
        return "" if inline is None else _text_of(inline)
    if value is None or value.text is None or kind == "e":
        return ""
    return shared[int(value.text)] if kind == "s" else value.text
