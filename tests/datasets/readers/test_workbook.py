"""Excel workbooks: what a sheet holds, in the ways that programs write it, and damaged ones."""

import zipfile

import miniatures_images as miniatures
import pytest

from diffor.datasets.readers.workbook import read_sheet

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def change_part(path, part, text):
    """Replace a part of a workbook, or remove it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts.pop(part, None)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | ({part: text.encode()} if text else {})).items():
            archive.writestr(name, content)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "book.xlsx"
    miniatures.write_workbook(path, "Scores & more", [["Image name ", "MOS"], ["a<b>.jpg", 12.5], ["b.jpg", ""]])
    return path


def test_a_sheet_is_read_as_text(path):
    table = read_sheet(path)
    assert table.columns.tolist() == ["Image name", "MOS"]
    assert table.to_numpy().tolist() == [["a<b>.jpg", "12.5"], ["b.jpg", ""]]
    assert table.index.tolist() == [2, 3]


def test_cells_come_in_many_kinds(path):
    rows = """
    <row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c><c r="C1" t="str"><v>value</v></c></row>
    <row r="2"/>
    <row r="3"><c t="s"><v>0</v></c><c r="C3"><v>1E-3</v></c></row>
    <row r="4"><c r="A4" t="inlineStr"><is><r><t>x</t></r><r><t>y</t></r></is></c><c r="C4" t="e"><v>#N/A</v></c></row>
    <row r="5"><c r="A5" t="n"/><c r="AA5"><v>7</v></c></row>
    """
    change_part(path, "xl/worksheets/sheet1.xml", f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>")
    table = read_sheet(path)
    assert table.shape == (3, 27)
    assert table.columns[:3].tolist() == ["name", "", "value"]
    assert table.iloc[:, [0, 2, 26]].to_numpy().tolist() == [
        ["Image name ", "1E-3", ""],
        ["xy", "", ""],
        ["", "", "7"],
    ]
    assert table.index.tolist() == [3, 4, 5]


def test_a_workbook_may_share_no_texts(path):
    rows = "".join(f"<row><c><v>{number}</v></c></row>" for number in (1, 2))
    change_part(path, "xl/worksheets/sheet1.xml", f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>")
    change_part(path, "xl/sharedStrings.xml", "")
    assert read_sheet(path).to_numpy().tolist() == [["2"]]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("xl/workbook.xml", ""),
        ("xl/_rels/workbook.xml.rels", "<Relationships/>"),
        ("xl/worksheets/sheet1.xml", "<worksheet><sheetData><row>"),
        ("xl/sharedStrings.xml", f"<sst {MAIN}/>"),
    ],
)
def test_a_damaged_workbook_is_named(path, part, text):
    change_part(path, part, text)
    with pytest.raises(ValueError, match=r"book\.xlsx must be an Excel workbook \(\.xlsx\), but .*; fetch the file"):
        read_sheet(path)


def test_an_empty_sheet_is_named(path):
    change_part(path, "xl/worksheets/sheet1.xml", f"<worksheet {MAIN}><sheetData/></worksheet>")
    with pytest.raises(ValueError, match=r"must have a header and rows, but it has 0 rows; fetch the file again"):
        read_sheet(path)
