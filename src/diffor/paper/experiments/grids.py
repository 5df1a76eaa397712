"""Experiments that are grids of cells: what each asks, the run files behind it, and how its lines are read.

A run file holds the paper's settings; its tables ``[small]`` and ``[quick]`` say what is changed to fit on two cores
within hours or minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from diffor.bench.leaderboard import Cells
from diffor.bench.left_out import pool_left_out
from diffor.bench.page import benchmark_sections
from diffor.bench.paper_tables import paper_numbers, paper_tables
from diffor.bench.plan import Plan, read_run_file
from diffor.paper.experiments.ablation import read_ablation
from diffor.paper.experiments.contrasts import Findings
from diffor.paper.experiments.sweeps import read_sweeps

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Grid:
    """An experiment that is a grid of cells: run files, and what reads their lines."""

    name: str
    description: str
    run_files: tuple[str, ...]
    read: Callable[[Cells], Findings]

    def plans(self, size: str | None = None) -> list[Plan]:
        """What the run files, which are installed with the package, describe in a size."""
        return [read_run_file(FOLDER / f"{name}.toml", size) for name in self.run_files]


def read_tables(cells: Cells) -> Findings:
    """Leaderboards of the run files ``tables_...``, then our figures beside the published ones."""
    cells = pool_left_out(cells)
    return Findings(paper_numbers(paper_tables(cells)), benchmark_sections(cells))


HEAD_NAMES = {"heads-0": "n_increments"}
"""Methods that the paper's figure puts at 0: the model without MIA."""
HEADINGS = {
    "n_increments": "Number of increments, each with an attention head",
    "spacing": "Spacing of the aligned times",
    "aligned_share": "Share of aligned times in training",
    "increment_weight": "Weight of the increments in the loss",
    "n_times": "Number of times T",
    "n_steps": "Steps of a prediction, reading the heads",
    "n_steps, eta=1.0": "Steps of a prediction with fresh noise, reading the heads",
    "n_steps, decoding=chain": "Steps of a prediction, reading the last state",
}
GRIDS = {
    grid.name: grid
    for grid in (
        Grid(
            "tables",
            "the paper's tables of four domains, our figures beside the published ones",
            ("tables_age", "tables_aesthetics", "tables_watch_time", "tables_lifetime"),
            read_tables,
        ),
        Grid("ablation", "what each part of the model is worth, rows (a) to (f)", ("ablation",), read_ablation),
        Grid(
            "heads",
            "quality against the number of attention heads, one for each increment",
            ("heads",),
            partial(read_sweeps, names=HEAD_NAMES, headings=HEADINGS),
        ),
        Grid(
            "times",
            "spacing, share and number of times, loss weight, and steps of a prediction",
            ("times",),
            partial(read_sweeps, names={}, headings=HEADINGS),
        ),
    )
}
