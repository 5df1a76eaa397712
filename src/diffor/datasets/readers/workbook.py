"""Sheets of Excel workbooks, read as text: a workbook is a zip archive of XML, so that no package is needed for it."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

from diffor.datasets.readers.data_files import CURE
from diffor.errors import UserError

_COLUMN = re.compile(r"[A-Z]+")
# Elements are compared by their local names: strict and transitional workbooks differ in their name spaces.
_REFERENCE = "{*}"


def read_sheet(path: Path, sheet: int | str = 0) -> pd.DataFrame:
    """A sheet, by its place or its name, as text cells under its first row; empty cells are empty text.

    The index counts the rows of the sheet, so that messages can name them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            rows = list(_rows(archive, _sheet_file(archive, path, sheet), _shared_texts(archive)))
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, IndexError, StopIteration, zlib.error) as error:
        raise UserError(f"{path} must be an Excel workbook (.xlsx), but got {error}; {CURE}") from error
    filled = {number: row for number, row in enumerate(rows, start=1) if any(row)}
    if len(filled) < 2:
        raise UserError(f"{path} must have a header and rows, but it has {len(filled)} rows; {CURE}")
    width = max(len(row) for row in filled.values())
    header, *body = (row + [""] * (width - len(row)) for row in filled.values())
    names = [cell.strip() for cell in header]
    table: pd.DataFrame = pd.DataFrame(body, columns=names, index=list(filled)[1:])
    return table


def _sheet_file(archive: zipfile.ZipFile, path: Path, sheet: int | str) -> str:
    sheets = ElementTree.fromstring(archive.read("xl/workbook.xml")).findall(f".//{_REFERENCE}sheet")
    names = [element.attrib["name"] for element in sheets]
    if (isinstance(sheet, str) and sheet not in names) or (isinstance(sheet, int) and sheet >= len(names)):
        raise UserError(f"{path} must have the sheet {sheet!r}, but it has {', '.join(names)}; {CURE}")
    element = sheets[names.index(sheet) if isinstance(sheet, str) else sheet]
    identifier = next(value for key, value in element.attrib.items() if key.endswith("}id"))
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    target = next(relation.attrib["Target"] for relation in relations if relation.attrib["Id"] == identifier)
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _shared_texts(archive: zipfile.ZipFile) -> list[str]:
    """Texts that cells refer to by number; a workbook may have none."""
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    root = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
    return [_text_of(item) for item in root.findall(f"{_REFERENCE}si")]


def _text_of(item: ElementTree.Element) -> str:
    # A text is one piece, or several that are formatted differently.
    pieces = item.findall(f"{_REFERENCE}t") + item.findall(f"{_REFERENCE}r/{_REFERENCE}t")
    return "".join(piece.text or "" for piece in pieces)


def _rows(archive: zipfile.ZipFile, name: str, shared: list[str]) -> Iterator[list[str]]:
    with archive.open(name) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.rpartition("}")[2] != "row":
                continue
            cells: dict[int, str] = {}
            for cell in element.findall(f"{_REFERENCE}c"):
                cells[_column_number(cell, len(cells))] = _cell_text(cell, shared)
            yield [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]
            element.clear()


def _column_number(cell: ElementTree.Element, following: int) -> int:
    """Number from 0 of the column that a cell's address names; the following one where the cell has no address."""
    letters = _COLUMN.match(cell.attrib.get("r", ""))
    if letters is None:
        return following
    number = 0
    for letter in letters.group():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _cell_text(cell: ElementTree.Element, shared: list[str]) -> str:
    kind, value = cell.attrib.get("t", "n"), cell.find(f"{_REFERENCE}v")
    if kind == "inlineStr":
        inline = cell.find(f"{_REFERENCE}is")
        return "" if inline is None else _text_of(inline)
    if value is None or value.text is None or kind == "e":
        return ""
    return shared[int(value.text)] if kind == "s" else value.text
