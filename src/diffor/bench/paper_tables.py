"""Our figures beside the paper's: a table for each of its data sets, with what to keep in mind about single figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np

from diffor.bench.leaderboard import Cells, Line, names_in
from diffor.bench.peers import METHOD
from diffor.bench.published import Column, Figure, Published, read_published
from diffor.reports.html import Heading, Paragraph, Section, Table

OURS, PUBLISHED = "ours", "published"
INTRODUCTION = (
    "Rows called published are what the paper prints, for its own training, encoders and rows; they were not run here, "
    "and stand beside ours for scale only. Letters lead to what is known about a figure."
)


@dataclass(frozen=True)
class OurScore:
    """A metric of one of our methods: mean and standard deviation over seeds, in the units of the metric."""

    mean: float
    spread: float
    n_seeds: int


@dataclass(frozen=True)
class PaperTable:
    """A data set of the paper: our methods by metric, and the published figures by metric."""

    dataset: str
    """Its name, with what is left out of it where that is something."""
    columns: tuple[Column, ...]
    ours: dict[str, dict[str, OurScore]]
    published: dict[str, dict[str, Figure]]
    lines: tuple[Line, ...]
    """The result lines behind ``ours``."""

    @property
    def caveats(self) -> list[str]:
        """What to keep in mind about the figures, each once, in the order of the table."""
        figures = (figure for by_metric in self.published.values() for figure in by_metric.values())
        return list(dict.fromkeys(text for figure in figures for text in figure.caveats))


def paper_tables(cells: Cells, methods: Sequence[str] | None = None) -> list[PaperTable]:
    """A table for each data set of the paper that has results; ``methods`` are those of ours to show, all if None."""
    good = {place: line for place, line in cells.items() if line["status"] == "ok"}
    shown = names_in(good, 1) if methods is None else list(methods)
    paper = read_published()
    tables = []
    for dataset in names_in(good, 0):
        lines = tuple(line for (name, method, _), line in good.items() if name == dataset and method in shown)
        columns = paper.columns(lines[0]["dataset"]) if lines else ()
        if columns:
            tables.append(_table(dataset, columns, lines, paper))
    return tables


def _table(dataset: str, columns: tuple[Column, ...], lines: tuple[Line, ...], paper: Published) -> PaperTable:
    figures: dict[str, dict[str, Figure]] = {}
    for column in columns:
        for figure in paper.figures(lines[0]["dataset"], column.metric):
            figures.setdefault(figure.method, {})[column.metric] = figure
    names = dict.fromkeys(str(line["method"]) for line in lines)
    return PaperTable(
        dataset,
        columns,
        {name: _our_scores([line for line in lines if line["method"] == name], columns) for name in names},
        figures,
        lines,
    )


def _our_scores(lines: Sequence[Line], columns: Sequence[Column]) -> dict[str, OurScore]:
    scores = {}
    for column in columns:
        values = [line["metrics"][column.metric] for line in lines if column.metric in line["metrics"]]
        if values:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            scores[column.metric] = OurScore(float(np.mean(values)), spread, len(values))
    return scores


# As parts of a page.


def paper_sections(tables: Sequence[PaperTable]) -> list[Section]:
    """Heading, tables and footnotes; nothing where no data set of the paper has results."""
    if not tables:
        return []
    sections: list[Section] = [Heading("Beside the paper"), Paragraph(INTRODUCTION)]
    for table in tables:
        sections += [Heading(f"{table.dataset}: ours and published", 3), _page_table(table)]
        sections += [Paragraph(f"[{mark}] {text}") for text, mark in _marks(table).items()]
    return sections


def _page_table(table: PaperTable) -> Table:
    marks = _marks(table)
    rows = [
        (method, OURS, *(_our_cell(scores.get(column.metric), column) for column in table.columns))
        for method, scores in table.ours.items()
    ]
    rows += [
        (
            _published_name(table, method),
            PUBLISHED,
            *(_figure_cell(figures.get(c.metric), marks) for c in table.columns),
        )
        for method, figures in table.published.items()
    ]
    headings = (f"{column.metric} ({column.unit}, {column.direction} is better)" for column in table.columns)
    return Table(_caption(table), ("method", "source", *headings), tuple(rows), sortable=True)


def _marks(table: PaperTable) -> dict[str, str]:
    """A letter for each caveat, or two of them where there are many."""
    letters = [*ascii_lowercase, *(first + second for first in ascii_lowercase for second in ascii_lowercase)]
    return dict(zip(table.caveats, letters, strict=False))


def _published_name(table: PaperTable, method: str) -> str:
    """The paper's method, with the names of ours that implement it."""
    implemented = {name for figure in table.published[method].values() for name in figure.row.ours}
    here = [name for name in table.ours if name.removeprefix(METHOD) in implemented]
    return f"{method} (here {', '.join(here)})" if here else method


def _our_cell(score: OurScore | None, column: Column) -> str:
    if score is None:
        return "-"
    mean, spread = (column.in_paper_units(value) for value in (score.mean, score.spread))
    return f"{mean:.4g} ± {spread:.2g}" if score.n_seeds > 1 else f"{mean:.4g}"


def _figure_cell(figure: Figure | None, marks: dict[str, str]) -> str:
    if figure is None:
        return "-"
    notes = ", ".join(marks[text] for text in figure.caveats)
    return f"{figure.printed} [{notes}]" if notes else figure.printed


def _caption(table: PaperTable) -> str:
    n_train, n_test = (_span([int(line[name]) for line in table.lines]) for name in ("n_train", "n_test"))
    seeds = len({line["seed"] for line in table.lines})
    images = dict.fromkeys(_features(line["images"]) for line in table.lines if line.get("images"))
    words = f" Features: {'; '.join(images)}." if images else ""
    people = max(int(line.get("n_left_out") or 0) for line in table.lines)
    over = f"over the photos of {people} people, each left out once" if people else (
        f"mean and standard deviation over {seeds} seed(s)"
    )  # fmt: skip
    return (
        f"{table.dataset}. Ours: {over}, {n_train} rows to learn from, "
        f"{n_test} to test on.{words} Published: as the paper prints it."
    )


def _features(images: dict[str, Any]) -> str:
    return f"{images['encoder']} at {images.get('side')} pixels"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# As JSON.


def paper_numbers(tables: Sequence[PaperTable]) -> dict[str, Any]:
    """All numbers of the tables: data set, then ours and published by method and metric, in our units."""
    return {
        table.dataset: {
            "metrics": {column.metric: {"unit": column.unit, "better": column.direction} for column in table.columns},
            OURS: {
                method: {metric: vars(score) for metric, score in scores.items()}
                for method, scores in table.ours.items()
            },
            PUBLISHED: {
                method: {metric: _figure_numbers(figure) for metric, figure in figures.items()}
                for method, figures in table.published.items()
            },
        }
        for table in tables
    }


def _figure_numbers(figure: Figure) -> dict[str, Any]:
    return {
        "value": figure.value,
        "printed": figure.printed,
        "caveats": list(figure.caveats),
        "implemented_by": list(figure.row.ours),
        "why_quoted": figure.row.why_quoted,
    }
