"""Our figures beside those that a public benchmark of distributions prints for foundation models and others.

The printed figures stand in ``foundation.toml`` beside this module, whose head names their source, and are installed
with the package. They were measured on the same rows, splits and grid as ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffor.bench.leaderboard import Cells, middle_share
from diffor.errors import UserError
from diffor.files.toml_files import read_toml
from diffor.reports.html import Heading, Paragraph, Section, Table

PRINTED_FILE = Path(__file__).with_name("foundation.toml")
METRIC, COVERAGE = "crps_grid", "coverage_90"
PRINTED = "printed"
SEEDS = range(5)
"""The splits that the printed means are taken over."""


class PrintedError(UserError):
    """The printed figures cannot be read from their file; the message says why and what to do."""


@dataclass(frozen=True)
class Printed:
    """What the benchmark prints: by data set and method, only what is known."""

    source: str
    methods: tuple[str, ...]
    grid_bound: tuple[str, ...]
    crps: Mapping[str, Mapping[str, float]]
    coverage: Mapping[str, Mapping[str, float]]

    def is_grid_bound(self, dataset: str) -> bool:
        """Whether the grid is too coarse for the table."""
        return any(dataset.startswith(f"foundation-{table.lower()}-") for table in self.grid_bound)


@dataclass(frozen=True)
class Ours:
    """Our methods on one data set, means over the seeds that the benchmark has too."""

    crps: Mapping[str, float]
    coverage: Mapping[str, float]
    n_seeds: Mapping[str, int]


@dataclass(frozen=True)
class Ratio:
    """CRPS of one of our methods to a printed one: geometric mean over tables, and on how many ours is ahead."""

    mean: float
    ahead: int
    n_tables: int


def read_printed(path: Path = PRINTED_FILE) -> Printed:
    """The printed figures, checked.

    >>> read_printed().crps["foundation-kin8nm-1000"]["TabPFN-2.5"]
    0.0521223
    """
    content = read_toml(path, "the printed figures", PrintedError)
    wanted = ("source", "methods", "grid_bound", METRIC, COVERAGE)
    absent = [key for key in wanted if key not in content]
    if absent:
        raise PrintedError(f"{path.name} must hold {', '.join(wanted)}, but {absent[0]} is missing; add it")
    methods = tuple(content["methods"])
    figures = {key: _by_method(content[key], methods, f"[{key}] of {path.name}") for key in (METRIC, COVERAGE)}
    return Printed(content["source"], methods, tuple(content["grid_bound"]), figures[METRIC], figures[COVERAGE])


def _by_method(rows: Mapping[str, Any], methods: Sequence[str], where: str) -> dict[str, dict[str, float]]:
    for dataset, values in rows.items():
        if len(values) != len(methods):
            raise PrintedError(
                f"{where} must have a value for each of {len(methods)} methods, but {dataset} has {len(values)}; "
                "write nan where nothing is printed"
            )
    return {
        dataset: {name: float(value) for name, value in zip(methods, values, strict=True) if not math.isnan(value)}
        for dataset, values in rows.items()
    }


# Comparing.


def our_figures(cells: Cells, printed: Printed, methods: Sequence[str] | None = None) -> dict[str, Ours]:
    """Our methods on each data set of the benchmark that has results; ``methods`` are those to show, all if None."""
    by_method: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (dataset, method, seed), line in cells.items():
        known = line["status"] == "ok" and dataset in printed.crps and METRIC in line["metrics"]
        if known and seed in SEEDS and (methods is None or method in methods):
            scores = line["metrics"][METRIC], middle_share(line)
            by_method.setdefault(dataset, {}).setdefault(method, []).append(scores)
    return {
        dataset: Ours(
            {method: float(np.mean([score[0] for score in scores])) for method, scores in found.items()},
            {method: float(np.mean([score[1] for score in scores])) for method, scores in found.items()},
            {method: len(scores) for method, scores in found.items()},
        )
        for dataset, found in by_method.items()
    }


def ratio(ours: Mapping[str, Ours], printed: Printed, method: str, other: str) -> Ratio | None:
    """Our method to a printed one on the data sets that both have; None where there are none."""
    quotients = [
        found.crps[method] / printed.crps[dataset][other]
        for dataset, found in ours.items()
        if method in found.crps and other in printed.crps[dataset]
    ]
    if not quotients:
        return None
    mean = float(np.exp(np.mean(np.log(np.maximum(quotients, 1e-12)))))
    return Ratio(mean, sum(quotient < 1 for quotient in quotients), len(quotients))


def groups_of(ours: Mapping[str, Ours], printed: Printed) -> dict[str, dict[str, Ours]]:
    """The data sets by number of rows, ordinary tables before those that the grid is too coarse for."""
    groups: dict[str, dict[str, Ours]] = {}
    for bound in (False, True):
        for rows in sorted({int(name.rsplit("-", 1)[1]) for name in ours}):
            title = f"{rows:,} rows, {'grid-bound' if bound else 'ordinary'} tables"
            found = {name: figures for name, figures in ours.items()
                     if name.endswith(f"-{rows}") and printed.is_grid_bound(name) == bound}  # fmt: skip
            if found:
                groups[title] = found
    return groups


# As parts of a page.


def foundation_sections(
    cells: Cells, methods: Sequence[str] | None = None, printed: Printed | None = None
) -> list[Section]:
    """Heading, ratios and figures; nothing where no data set of the benchmark has results."""
    printed = read_printed() if printed is None else printed
    ours = our_figures(cells, printed, methods)
    if not ours:
        return []
    words = (
        f"Rows called printed are what the benchmark prints ({printed.source}), means over the splits 0 to 4; "
        "they were not run here. Ours are on the same rows, splits and grid of 200 points. Tables whose errors the "
        "grid cannot tell apart stand apart."
    )
    sections: list[Section] = [Heading("Beside foundation models"), Paragraph(words)]
    groups = groups_of(ours, printed)
    for title, found in groups.items():
        sections += [Heading(title, 3), _ratio_table(found, printed)]
        sections += [_figure_table(found, printed, name) for name in ("crps", "coverage")]
    return sections


def _shown(found: Mapping[str, Ours], printed: Printed) -> tuple[list[str], list[str]]:
    """Our methods, best first by the ratio to the first printed one, and the printed ones that have figures."""
    others = [name for name in printed.methods if any(name in printed.crps[dataset] for dataset in found)]
    ours = list(dict.fromkeys(method for figures in found.values() for method in figures.crps))
    first = {name: one.mean for name in ours if (one := ratio(found, printed, name, others[0])) is not None}
    return sorted(ours, key=lambda name: first.get(name, math.inf)), others


def _ratio_table(found: Mapping[str, Ours], printed: Printed) -> Table:
    ours, others = _shown(found, printed)
    rows = []
    for method in ours:
        counts = [figures.n_seeds[method] for figures in found.values() if method in figures.n_seeds]
        known = [ratio(found, printed, method, other) for other in others]
        cells = ["-" if one is None else f"{one.mean:.3f} ({one.ahead} of {one.n_tables})" for one in known]
        rows.append((method, str(len(counts)), f"{sum(counts)}", *cells))
    header = ("ours", "tables", "cells", *(f"to {name}, {PRINTED}" for name in others))
    caption = (
        "CRPS on the grid divided by the printed one, geometric mean over the tables that a method has results on, and "
        "on how many of them it is ahead. Below 1 ours is better. Cells are tables times splits; printed "
        "means have five splits."
    )
    return Table(caption, header, tuple(rows), sortable=True)


def _figure_table(found: Mapping[str, Ours], printed: Printed, name: str) -> Table:
    ours, others = _shown(found, printed)
    theirs = getattr(printed, name)
    digits = ".4g" if name == "crps" else ".3f"

    def row(method: str, source: str, figures: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
        values = (figures.get(dataset, {}).get(method) for dataset in found)
        return (method, source, *("-" if value is None else format(value, digits) for value in values))

    own = {dataset: getattr(figures, name) for dataset, figures in found.items()}
    rows = [*(row(method, "ours", own) for method in ours), *(row(method, PRINTED, theirs) for method in others)]
    what = "CRPS on the grid" if name == "crps" else "Share of the truths in the middle 90 % of their distributions"
    header = ("method", "source", *(dataset.removeprefix("foundation-") for dataset in found))
    return Table(f"{what}, mean over splits.", header, tuple(rows), sortable=True)


# As JSON.


def foundation_numbers(
    cells: Cells, methods: Sequence[str] | None = None, printed: Printed | None = None
) -> dict[str, Any]:
    """All numbers: ratios by group of tables, our method and printed method; figures by data set."""
    printed = read_printed() if printed is None else printed
    ours = our_figures(cells, printed, methods)
    ratios = {
        title: {
            method: {other: vars(one) for other in others if (one := ratio(found, printed, method, other)) is not None}
            for method in shown
        }
        for title, found in groups_of(ours, printed).items()
        for shown, others in [_shown(found, printed)]
    }
    figures = {
        dataset: {
            "ours": {name: {METRIC: found.crps[name], COVERAGE: found.coverage[name], "n_seeds": found.n_seeds[name]}
                     for name in found.crps},
            PRINTED: {name: {METRIC: value, COVERAGE: printed.coverage.get(dataset, {}).get(name)}
                      for name, value in printed.crps[dataset].items()},
        }
        for dataset, found in ours.items()
    }  # fmt: skip
    return {"source": printed.source, "ratios": ratios, "figures": figures} if ours else {}
