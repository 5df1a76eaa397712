"""Our figures beside the paper's: a table for each of its data sets, with what to keep in mind about single figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase
from typing import Any

import numpy as np

from diffor.bench.leaderboard import Cells, Line, good_cells, names_in
from diffor.bench.peers import METHOD
from diffor.bench.published import Column, Figure, read_published
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
    def marks(self) -> dict[str, str]:
        """What to keep in mind about the figures, each once in the order of the table, with its letter or two."""
        figures = (figure for by_metric in self.published.values() for figure in by_metric.values())
        letters = [*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2))]
        return dict(zip(dict.fromkeys(text for one in figures for text in one.caveats), letters, strict=False))


def paper_tables(cells: Cells, methods: Sequence[str] | None = None) -> list[PaperTable]:
    """A table for each data set of the paper that has results; ``methods`` are those of ours to show, all if None."""
    good = {place: line for place, line in good_cells(cells).items() if methods is None or place[1] in methods}
    tables = []
    for title in names_in(good, 0):
        lines = tuple(line for place, line in good.items() if place[0] == title)
        dataset = lines[0]["dataset"]
        columns = read_published().columns(dataset)
        if not columns:
            continue
        figures: dict[str, dict[str, Figure]] = {}
        for column in columns:
            for figure in read_published().figures(dataset, column.metric):
                figures.setdefault(figure.method, {})[column.metric] = figure
        ours: dict[str, dict[str, OurScore]] = {str(line["method"]): {} for line in lines}
        for method, column in product(ours, columns):
            of_method = [line["metrics"] for line in lines if line["method"] == method]
            values = [metrics[column.metric] for metrics in of_method if column.metric in metrics]
            if values:
                spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                ours[method][column.metric] = OurScore(float(np.mean(values)), spread, len(values))
        tables.append(PaperTable(title, columns, ours, figures, lines))
    return tables


# As parts of a page.


def paper_sections(tables: Sequence[PaperTable]) -> list[Section]:
    """Heading, tables and footnotes; nothing where no data set of the paper has results."""
    if not tables:
        return []
    sections: list[Section] = [Heading("Beside the paper"), Paragraph(INTRODUCTION)]
    for table in tables:
        sections += [Heading(f"{table.dataset}: ours and published", 3), _page_table(table)]
        sections += [Paragraph(f"[{mark}] {text}") for text, mark in table.marks.items()]
    return sections


def _page_table(table: PaperTable) -> Table:
    marks, columns = table.marks, table.columns

    def ours(score: OurScore | None, column: Column) -> str:
        if score is None:
            return "-"
        mean, spread = (column.in_paper_units(value) for value in (score.mean, score.spread))
        return f"{mean:.4g} ± {spread:.2g}" if score.n_seeds > 1 else f"{mean:.4g}"

    def published(figure: Figure | None) -> str:
        if figure is None:
            return "-"
        notes = ", ".join(marks[text] for text in figure.caveats)
        return f"{figure.printed} [{notes}]" if notes else figure.printed

    rows = [(method, OURS, *(ours(scores.get(column.metric), column) for column in columns))
            for method, scores in table.ours.items()]  # fmt: skip
    for method, figures in table.published.items():
        implemented = {name for figure in figures.values() for name in figure.ours}
        here = [name for name in table.ours if name.removeprefix(METHOD) in implemented]
        title = f"{method} (here {', '.join(here)})" if here else method
        rows.append((title, PUBLISHED, *(published(figures.get(column.metric)) for column in columns)))
    headings = (f"{column.metric} ({column.unit}, {column.direction} is better)" for column in columns)
    return Table(_caption(table), ("method", "source", *headings), tuple(rows), sortable=True)


def _caption(table: PaperTable) -> str:
    def span(name: str) -> str:
        counts = [int(line[name]) for line in table.lines]
        return " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))

    seeds = len({line["seed"] for line in table.lines})
    people = max(int(line.get("n_left_out") or 0) for line in table.lines)
    over = (f"over the photos of {people} people, each left out once" if people
            else f"mean and standard deviation over {seeds} seed(s)")  # fmt: skip
    images = dict.fromkeys(f"{found['encoder']} at {found.get('side')} pixels"
                           for line in table.lines if (found := line.get("images")))  # fmt: skip
    features = f" Features: {'; '.join(images)}." if images else ""
    return (
        f"{table.dataset}. Ours: {over}, {span('n_train')} rows to learn from, "
        f"{span('n_test')} to test on.{features} Published: as the paper prints it."
    )


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
                method: {
                    metric: {
                        "value": figure.value,
                        "printed": figure.printed,
                        "caveats": list(figure.caveats),
                        "implemented_by": list(figure.ours),
                        "why_quoted": figure.why_quoted,
                    }
                    for metric, figure in figures.items()
                }
                for method, figures in table.published.items()
            },
        }
        for table in tables
    }
