"""Pages: results as one HTML file that needs nothing beside itself and no network, or as text for a terminal.

A page with sortable tables carries one small script; without it, they are tables as they were. ``string.Template`` and
f-strings fill the page: jinja2 is a dependency of no extra, and would not be shorter for four kinds of sections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from textwrap import fill
from typing import Any

import numpy as np

from diffor.errors import UserError
from diffor.files.atomic import write_atomically

FILES = Path(__file__).parent / "page_files"
"""The template of a page, its style, and the script of sortable tables."""
TEXT_WIDTH = 100


@dataclass(frozen=True)
class Heading:
    """The title of a part (level 2) or of a part of it (level 3)."""

    text: str
    level: int = 2

    def __post_init__(self) -> None:
        if self.level not in (2, 3):
            raise UserError(f"level must be 2 or 3, since the page's title is level 1, but got level={self.level}")


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows below a header; the first cell of a row names it, and the cells in ``strong`` are set bold.

    The reader can sort a ``sortable`` table by any of its columns.

    **Shape:** header ``(c,)``, rows ``(r, c)``, strong: pairs (row, column), counted from 0.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()
    sortable: bool = False
    is_text: bool = False
    """Whether the cells are words, which stand at the left, and not numbers."""
    fits: bool = False
    """Whether all columns are to be seen at once, in smaller letters where the page is narrow."""

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise UserError(
                    f"each row must have one cell for each of the {len(self.header)} columns, "
                    f"but row {place} has {len(row)}"
                )

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], caption: str = "") -> Table:
        """A table of records with the same keys, which become its header; lists among the values are left out.

        >>> Table.of([{"method": "gr", "mean_error": 0.12345, "rows": 1200, "crps": None}]).rows
        (('gr', '0.123', '1,200', '-'),)
        """
        keys = [key for key, value in records[0].items() if not isinstance(value, list)]
        rows = tuple(tuple(_cell(record[key]) for key in keys) for record in records)
        return cls(caption, tuple(key.replace("_", " ") for key in keys), rows)


@dataclass(frozen=True)
class Figure:
    """A drawing: an ``<svg>`` element that is inserted as it is, what it shows in words, and a caption."""

    svg: str
    label: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.svg.startswith("<svg "):
            raise UserError(f"svg must be one <svg> element, as figure_svg makes it, but got {self.svg[:40]!r}")


Section = Heading | Paragraph | Table | Figure


def number(value: float) -> str:
    """A number with three digits that count, or all before the point; a dash where there is none.

    >>> number(1234.56), number(12.345), number(0.0012345), number(-0.5), number(0.0), number(float("nan"))
    ('1,235', '12.3', '0.00123', '-0.500', '0', '-')
    """
    if np.isnan(value):
        return "-"
    if np.isinf(value) or value == 0:
        return f"{value:g}"
    size = int(np.floor(np.log10(abs(value))))
    return f"{value:,.{max(0, 2 - size)}f}" if -5 <= size < 12 else f"{value:.2e}"


def html_page(title: str, sections: Sequence[Section]) -> str:
    """One self-contained HTML page: light or dark as the reader prefers, readable on a phone, all text escaped.

    >>> page = html_page("Ages", [Heading("Errors"), Paragraph("Fewer < more.")])
    >>> "<h2>Errors</h2>" in page, "<p>Fewer &lt; more.</p>" in page
    (True, True)
    """
    sorts = any(isinstance(section, Table) and section.sortable for section in sections)
    return Template((FILES / "page.html").read_text()).substitute(
        title=escape(title),
        style=(FILES / "page.css").read_text(),
        body="\n".join(_section(section, place) for place, section in enumerate(sections)),
        script=f"<script>\n{(FILES / 'sort.js').read_text()}</script>\n" if sorts else "",
    )


def write_page(path: str | Path, html: str) -> None:
    """Write a page in one step: whoever has the old one open never sees a part."""
    # Names of files that the system's language cannot read are kept as their bytes.
    write_atomically(Path(path), html.encode("utf-8", "surrogateescape"))


def as_text(sections: Sequence[Section]) -> str:
    """Headings, paragraphs and tables for a terminal: names to the left, numbers to the right; figures are left out.

    >>> print(as_text([Heading("Errors"), Table("Lower is better.", ("", "MAE"), (("DiffoR", "41.2"), ("none", "7")))]))
    Errors
    <BLANKLINE>
             MAE
    DiffoR  41.2
    none       7
    Lower is better.
    """
    return "\n\n".join(_text(section) for section in sections if not isinstance(section, Figure))


def _text(section: Heading | Paragraph | Table) -> str:
    if not isinstance(section, Table):
        return fill(section.text, TEXT_WIDTH)
    rows = [section.header, *section.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([name.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True))])
        for name, *cells in rows
    ]
    return "\n".join([*lines, *([fill(section.caption, TEXT_WIDTH)] if section.caption else [])])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _section(section: Section, place: int) -> str:
    if isinstance(section, Heading):
        return f"<h{section.level}>{escape(section.text)}</h{section.level}>"
    if isinstance(section, Paragraph):
        return f"<p>{escape(section.text)}</p>"
    return _table(section) if isinstance(section, Table) else _figure(section, f"s{place}-")


def _table(table: Table) -> str:
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(_row(cells, place, table.strong) for place, cells in enumerate(table.rows))
    caption, label = escape(table.caption), escape(table.caption or ", ".join(table.header))
    shown = f"<caption><span>{caption}</span></caption>\n" if caption else ""
    kinds = " ".join(["words"] * table.is_text + ["fits"] * table.fits)
    mark = (f' class="{kinds}"' if kinds else "") + (" data-sortable" if table.sortable else "")
    # A wide table scrolls in its own box, which the keyboard can reach.
    return (
        f'<div class="wide" role="region" aria-label="{label}" tabindex="0">\n'
        f"<table{mark}>\n{shown}"
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _row(cells: tuple[str, ...], place: int, strong: frozenset[tuple[int, int]]) -> str:
    name, *rest = (
        f"<strong>{escape(cell)}</strong>" if (place, column) in strong else escape(cell)
        for column, cell in enumerate(cells)
    )
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text}</td>" for text in rest)}</tr>'


def _figure(figure: Figure, prefix: str) -> str:
    """The drawing with its ids made its own, since those of all figures share the page."""
    svg = re.sub(r'\bid="', f'id="{prefix}', figure.svg)
    svg = re.sub(r'\bhref="#', f'href="#{prefix}', svg).replace("url(#", f"url(#{prefix}")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(figure.label)}" ', 1)
    caption = f"\n<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure>\n{svg}{caption}\n</figure>"
