"""The paper's tables: our figures beside the published ones, for every data set that was found."""

from __future__ import annotations

from diffor.bench.leaderboard import Cells
from diffor.bench.page import benchmark_sections
from diffor.bench.paper_tables import PaperTable, paper_numbers, paper_tables
from diffor.bench.published import Column
from diffor.paper.experiments.findings import Findings

OURS = ("diffor-paper", "diffor")


def read_tables(cells: Cells) -> Findings:
    """What the cells of the run files ``tables_...`` say; the page holds leaderboards and, at its end, the tables."""
    tables = paper_tables(cells)
    said = [sentence for table in tables for column in table.columns if (sentence := _sentence(table, column))]
    return Findings(said, paper_numbers(tables), benchmark_sections(cells))


def _sentence(table: PaperTable, column: Column) -> str:
    """Where DiffoR stands among the methods that were run, and what the paper prints for it."""
    known = {name: scores[column.metric].mean for name, scores in table.ours.items() if column.metric in scores}
    placed = sorted(known, key=lambda name: known[name], reverse=column.direction == "higher")
    own = [name for name in OURS if name in known]
    if not own:
        return ""
    places = ", ".join(f"{name} is {placed.index(name) + 1} of {len(placed)} with {_shown(column, known[name])}"
                       for name in own)  # fmt: skip
    printed = table.published.get("DiffoR", {}).get(column.metric)
    paper = f"; the paper prints {printed.printed} for DiffoR, by its own splits and encoder" if printed else ""
    best = f"; {placed[0]} is best with {_shown(column, known[placed[0]])}" if placed[0] not in own else ""
    return f"{table.dataset}, {column.metric} ({column.unit}, {column.direction} is better): {places}{best}{paper}."


def _shown(column: Column, value: float) -> str:
    return f"{column.in_paper_units(value):.4g}"
