"""Our figures beside those that a public benchmark of distributions prints for foundation models and others.

The printed figures stand in ``foundation.toml`` beside this module, whose head names their source, and are installed
with the package. They were measured on the same rows, splits and grid as ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.leaderboard import Cells, good_cells, middle_share
from diffor.errors import UserError
from diffor.files.toml_files import read_toml
from diffor.reports.html import Heading, Paragraph, Section, Table

PRINTED_FILE = Path(__file__).with_name("foundation.toml")
METRIC, COVERAGE = "crps_grid", "coverage_90"
SEEDS = range(5)
"""The splits that the printed means are taken over."""
TITLES = {METRIC: "CRPS on the grid", COVERAGE: "Share of the truths in the middle 90 % of their distributions"}
FORMATS = {METRIC: "{:.4g}", COVERAGE: "{:.3f}"}


class PrintedError(UserError):
    """The printed figures cannot be read from their file; the message says why and what to do."""


@dataclass(frozen=True)
class Printed:
    """What the benchmark prints, by the names of its figures: data sets by methods, NaN where nothing is printed."""

    source: str
    grid_bound: tuple[str, ...]
    figures: Mapping[str, pd.DataFrame]

    def is_grid_bound(self, dataset: str) -> bool:
        """Whether the grid is too coarse for the table."""
        return any(dataset.startswith(f"foundation-{table.lower()}-") for table in self.grid_bound)


def read_printed(path: Path = PRINTED_FILE) -> Printed:
    """The printed figures, checked.

    >>> read_printed().figures["crps_grid"].loc["foundation-kin8nm-1000", "TabPFN-2.5"].item()
    0.0521223
    """
    content = read_toml(path, "the printed figures", PrintedError)
    wanted = ("source", "methods", "grid_bound", METRIC, COVERAGE)
    absent = [key for key in wanted if key not in content]
    if absent:
        raise PrintedError(f"{path.name} must hold {', '.join(wanted)}, but {absent[0]} is missing; add it")
    for key in (METRIC, COVERAGE):
        for dataset, values in content[key].items():
            if len(values) != len(content["methods"]):
                raise PrintedError(
                    f"[{key}] of {path.name} must have a value for each of {len(content['methods'])} methods, "
                    f"but {dataset} has {len(values)}; write nan where nothing is printed"
                )
    figures = {key: pd.DataFrame(content[key], index=content["methods"], dtype=float).T for key in (METRIC, COVERAGE)}
    return Printed(content["source"], tuple(content["grid_bound"]), figures)


# Comparing.


def our_figures(cells: Cells, printed: Printed, methods: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
    """Means over seeds of our methods on the benchmark's data sets, and ``n_seeds``: data sets by methods.

    Only the seeds that the benchmark has count; ``methods`` are those to show, all if None.
    """
    found = [
        (dataset, method, line["metrics"][METRIC], middle_share(line))
        for (dataset, method, seed), line in good_cells(cells).items()
        if dataset in printed.figures[METRIC].index and METRIC in line["metrics"] and seed in SEEDS
        and (methods is None or method in methods)
    ]  # fmt: skip
    table = pd.DataFrame(found, columns=["dataset", "method", METRIC, COVERAGE])
    grouped = table.groupby(["dataset", "method"])
    datasets, names = table["dataset"].unique(), table["method"].unique()
    tables = {METRIC: grouped[METRIC].mean(), COVERAGE: grouped[COVERAGE].mean(), "n_seeds": grouped.size()}
    return {key: values.unstack().reindex(index=datasets, columns=names) for key, values in tables.items()}


def ratios(ours: pd.DataFrame, printed: Printed) -> dict[str, dict[str, dict[str, float]]]:
    """CRPS of ours to a printed one on the tables that both have, by our method and printed method.

    ``mean`` is the geometric mean over tables, ``ahead`` on how many of ``n_tables`` ours is ahead. Our methods stand
    best first by the ratio to the first printed one.
    """
    theirs = printed.figures[METRIC].reindex(ours.index).dropna(axis=1, how="all")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for method in ours.dropna(axis=1, how="all"):
        quotients = {other: (ours[method] / theirs[other]).dropna() for other in theirs}
        found[method] = {
            other: {"mean": float(np.exp(np.log(values.clip(lower=1e-12)).mean())), "ahead": int((values < 1).sum()),
                    "n_tables": len(values)}
            for other, values in quotients.items() if len(values)
        }  # fmt: skip
    first = theirs.columns[0]
    return dict(sorted(found.items(), key=lambda item: item[1][first]["mean"] if first in item[1] else np.inf))


def groups_of(ours: pd.DataFrame, printed: Printed) -> dict[str, list[str]]:
    """The data sets by number of rows, ordinary tables before those that the grid is too coarse for."""
    groups: dict[tuple[bool, int], list[str]] = {}
    for name in ours.index:
        groups.setdefault((printed.is_grid_bound(name), int(name.rsplit("-", 1)[1])), []).append(name)
    return {f"{rows:,} rows, {'grid-bound' if bound else 'ordinary'} tables": found
            for (bound, rows), found in sorted(groups.items())}  # fmt: skip


# As parts of a page.


def foundation_sections(
    cells: Cells, methods: Sequence[str] | None = None, printed: Printed | None = None
) -> list[Section]:
    """Heading, ratios and figures; nothing where no data set of the benchmark has results."""
    printed = read_printed() if printed is None else printed
    ours = our_figures(cells, printed, methods)
    if ours[METRIC].empty:
        return []
    words = (
        f"Rows called printed are what the benchmark prints ({printed.source}), means over the splits 0 to 4; "
        "they were not run here. Ours are on the same rows, splits and grid of 200 points. Tables whose errors the "
        "grid cannot tell apart stand apart."
    )
    sections: list[Section] = [Heading("Beside foundation models"), Paragraph(words)]
    for title, datasets in groups_of(ours[METRIC], printed).items():
        found = {key: table.loc[datasets] for key, table in ours.items()}
        known = ratios(found[METRIC], printed)
        sections += [Heading(title, 3), _ratio_table(known, found["n_seeds"], printed)]
        sections += [_figure_table(found[key], printed.figures[key], list(known), key) for key in (METRIC, COVERAGE)]
    return sections


def _ratio_table(known: Mapping[str, Mapping[str, Any]], n_seeds: pd.DataFrame, printed: Printed) -> Table:
    others = printed.figures[METRIC].reindex(n_seeds.index).dropna(axis=1, how="all").columns
    rows = []
    for method, found in known.items():
        cells = ["{mean:.3f} ({ahead} of {n_tables})".format(**found[other]) if other in found else "-"
                 for other in others]  # fmt: skip
        rows.append((method, f"{n_seeds[method].count()}", f"{n_seeds[method].sum():.0f}", *cells))
    caption = (
        "CRPS on the grid divided by the printed one, geometric mean over the tables that a method has results on, and "
        "on how many of them it is ahead. Below 1 ours is better. Cells are tables times splits; printed "
        "means have five splits."
    )
    header = ("ours", "tables", "cells", *(f"to {name}, printed" for name in others))
    return Table(caption, header, tuple(rows), sortable=True)


def _figure_table(ours: pd.DataFrame, printed: pd.DataFrame, methods: Sequence[str], key: str) -> Table:
    theirs = printed.reindex(ours.index).dropna(axis=1, how="all")
    rows = [
        (method, source, *("-" if np.isnan(value) else FORMATS[key].format(value) for value in table[method]))
        for source, table, names in (("ours", ours, methods), ("printed", theirs, theirs.columns))
        for method in names
    ]
    header = ("method", "source", *(dataset.removeprefix("foundation-") for dataset in ours.index))
    return Table(f"{TITLES[key]}, mean over splits.", header, tuple(rows), sortable=True)


# As JSON.


def foundation_numbers(
    cells: Cells, methods: Sequence[str] | None = None, printed: Printed | None = None
) -> dict[str, Any]:
    """All numbers: ratios by group of tables, our method and printed method; figures by data set."""
    printed = read_printed() if printed is None else printed
    ours = our_figures(cells, printed, methods)
    if ours[METRIC].empty:
        return {}

    def figures(tables: Mapping[str, pd.DataFrame], dataset: str) -> dict[str, dict[str, float | None]]:
        rows = pd.DataFrame({key: table.loc[dataset] for key, table in tables.items()}).dropna(subset=METRIC)
        return {method: {key: None if np.isnan(value) else int(value) if key == "n_seeds" else value
                         for key, value in row.items()} for method, row in rows.to_dict("index").items()}  # fmt: skip

    return {
        "source": printed.source,
        "ratios": {
            title: ratios(ours[METRIC].loc[datasets], printed)
            for title, datasets in groups_of(ours[METRIC], printed).items()
        },
        "figures": {
            dataset: {"ours": figures(ours, dataset), "printed": figures(printed.figures, dataset)}
            for dataset in ours[METRIC].index
        },
    }
