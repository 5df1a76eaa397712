"""Pages: results as one HTML file that needs nothing beside itself and no network.

A page with sortable tables carries one small script; without it, they are tables as they were.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from diffor.errors import UserError
from diffor.files.atomic import write_atomically

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5c5c5c; --line: #d4d4d4; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --soft: #b0b0b0; --line: #454545; --paper: #171717; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 44rem; padding: 1rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin-top: 1.75rem; }
figure { margin: 1.25rem 0; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; margin: 0 auto; }
figcaption, caption { color: var(--soft); font-size: 0.9rem; text-align: left; padding: 0.4rem 0; }
.wide { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; }
caption span { display: block; position: sticky; left: 0; max-width: min(42rem, calc(100vw - 2rem)); }
th, td { padding: 0.35rem 0.6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
tbody th { font-weight: normal; }
table.words td, table.words thead th { text-align: left; }
tbody th, td { white-space: nowrap; }
table.words td { white-space: normal; }
.wide tbody th, .wide thead th:first-child { position: sticky; left: 0; background: var(--paper); }
@media (max-width: 32rem) { tbody th { white-space: normal; } }
@media (min-width: 62rem) { .wide { width: max-content; min-width: 100%; max-width: calc(100% + 8rem); } }
thead button { all: unset; cursor: pointer; font-weight: bold; }
thead button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
thead button::after { content: "\\2195"; color: var(--soft); padding-left: 0.3em; font-weight: normal; }
th[aria-sort="ascending"] button::after { content: "\\2191"; color: inherit; }
th[aria-sort="descending"] button::after { content: "\\2193"; color: inherit; }
"""
SORT_SCRIPT = """
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0], original = [...body.rows], headers = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim(), number = parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  };
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[header.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      let rows = [...original];
      if (order) {
        header.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const known = rows.filter((row) => !["", "-"].includes(row.cells[column].textContent.trim()));
        const unknown = rows.filter((row) => !known.includes(row));
        rows = [...known.sort((a, b) => sign * compare(value(a, column), value(b, column))), ...unknown];
      }
      body.append(...rows);
    });
  });
}
"""
"""Turns the headers of sortable tables into buttons: rising, falling, as they were; unknown values stay at the end."""


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

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise UserError(
                    f"each row must have one cell for each of the {len(self.header)} columns, "
                    f"but row {place} has {len(row)}"
                )


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


def html_page(title: str, sections: Sequence[Section]) -> str:
    """One self-contained HTML page: light or dark as the reader prefers, readable on a phone, all text escaped.

    >>> page = html_page("Ages", [Heading("Errors"), Paragraph("Fewer < more.")])
    >>> "<h2>Errors</h2>" in page, "<p>Fewer &lt; more.</p>" in page
    (True, True)
    """
    body = "\n".join(_section(section, number) for number, section in enumerate(sections))
    name = escape(title)
    sorts = any(isinstance(section, Table) and section.sortable for section in sections)
    script = f"<script>{SORT_SCRIPT}</script>\n" if sorts else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{name}</h1>
{body}
</main>
{script}</body>
</html>
"""


def write_page(path: str | Path, html: str) -> None:
    """Write a page in one step, readable for everybody: whoever has the old one open never sees a part."""
    path = Path(path)
    write_atomically(path, html.encode())
    path.chmod(0o644)  # temporary files, which it was a moment ago, are private


def _section(section: Section, number: int) -> str:
    if isinstance(section, Heading):
        return f"<h{section.level}>{escape(section.text)}</h{section.level}>"
    if isinstance(section, Paragraph):
        return f"<p>{escape(section.text)}</p>"
    if isinstance(section, Table):
        return _table(section)
    return _figure(section, f"s{number}-")


def _table(table: Table) -> str:
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(_row(cells, place, table.strong) for place, cells in enumerate(table.rows))
    caption = escape(table.caption)
    mark = (' class="words"' if table.is_text else "") + (" data-sortable" if table.sortable else "")
    # A wide table scrolls in its own box, which the keyboard can reach.
    return (
        f'<div class="wide" role="region" aria-label="{caption}" tabindex="0">\n'
        f"<table{mark}>\n<caption><span>{caption}</span></caption>\n"
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _row(cells: tuple[str, ...], place: int, strong: frozenset[tuple[int, int]]) -> str:
    texts = [
        f"<strong>{escape(cell)}</strong>" if (place, column) in strong else escape(cell)
        for column, cell in enumerate(cells)
    ]
    rest = "".join(f"<td>{text}</td>" for text in texts[1:])
    return f'<tr><th scope="row">{texts[0]}</th>{rest}</tr>'


def _figure(figure: Figure, prefix: str) -> str:
    """The drawing with its ids made its own, since those of all figures share the page."""
    svg = re.sub(r'\bid="', f'id="{prefix}', figure.svg)
    svg = re.sub(r'\bhref="#', f'href="#{prefix}', svg).replace("url(#", f"url(#{prefix}")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(figure.label)}" ', 1)
    caption = f"\n<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure>\n{svg}{caption}\n</figure>"
