"""The page about a benchmark: what ran, who leads, how sure that is, what it costs, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from diffor.bench.foundation_tables import foundation_sections
from diffor.bench.leaderboard import (
    MEASURES,
    SIGNIFICANT,
    TASKS,
    Array,
    Cells,
    Comparison,
    Line,
    Pair,
    compare,
    compare_pairs,
    coverage_table,
    critical_difference,
    fit_seconds,
    mean_calibration,
    missing_cells,
    names_in,
    of_task,
    predict_seconds,
    seconds_by_method,
)
from diffor.bench.paper_tables import paper_sections, paper_tables
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table

TASK_NAMES = {"value": "Values", "grades": "Grades"}
BAND = (0.87, 0.93)
"""Where the coverage of 90 % intervals should lie."""
ROWS_FOR_BAND = 500
"""Test rows from which on a coverage is sharp enough to be held against the band."""
MAX_CURVES, MAX_COMMANDS = 8, 3
CONSTANT = "constant"


def benchmark_sections(cells: Cells, n_damaged: int = 0, methods: Sequence[str] | None = None) -> list[Section]:
    """All of the page below its title; ``methods`` are those to compare, all that have enough results if None."""
    sections: list[Section] = [*_what_ran(cells, n_damaged)]
    for task in TASKS:
        own = of_task(cells, task)
        compared = [compare(own, measure, methods) for measure in MEASURES if measure.task == task]
        known = [comparison for comparison in compared if comparison is not None]
        if known:
            sections += _task_sections(own, task, known)
    beside = [*foundation_sections(cells, methods), *paper_sections(paper_tables(cells, methods))]
    return [*sections, *beside, *_what_went_wrong(cells), *_provenance(cells)]


# What ran.


def _what_ran(cells: Cells, n_damaged: int) -> list[Section]:
    lines = list(cells.values())
    counts = (
        f"{len(lines)} cells: {len(names_in(cells, 0))} data sets, {len(names_in(cells, 1))} methods, "
        f"{len({seed for _, _, seed in cells})} seeds. Every method was given the same training, validation and test "
        "rows and one thread. Times leave out the import of packages."
    )
    damaged = f" {n_damaged} damaged line(s) were left out." if n_damaged else ""
    return [Heading("What ran"), Paragraph(counts + damaged)]


def _provenance(cells: Cells) -> list[Section]:
    lines = list(cells.values())
    dates = sorted(str(line["date"]) for line in lines if line.get("date"))
    versions = {f"{name} {version}" for line in lines for name, version in line.get("versions", {}).items()}
    rows = (
        ("commits", _listed(line.get("commit") or "unknown" for line in lines)),
        ("machines", _listed(line.get("machine") for line in lines)),
        ("finished", f"{_minute(dates[0])} to {_minute(dates[-1])} UTC" if dates else "-"),
        ("versions", ", ".join(sorted(versions))),
        ("samples per row", _listed(line.get("n_samples") for line in lines)),
        ("commands", _listed((line.get("command") for line in lines), MAX_COMMANDS)),
    )
    return [Heading("Circumstances"), Table("What the figures depend on.", ("what", "which"), rows, is_text=True)]


def _minute(date: str) -> str:
    return date[:16].replace("T", " ")


def _listed(values: Iterable[Any], most: int | None = None) -> str:
    found = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    rest = f", and {len(found) - most} more, which the lines name" if most is not None and len(found) > most else ""
    return (", ".join(found[:most]) or "-") + rest


# One task.


def _task_sections(cells: Cells, task: str, compared: list[Comparison]) -> list[Section]:
    main = compared[0]
    ours = [method for method in main.methods if _is_ours(cells, method)]
    sections: list[Section] = [
        Heading(f"{TASK_NAMES[task]}: leaderboard"),
        _leaderboard(cells, compared),
        Paragraph(_who_is_compared(cells, main)),
    ]
    if critical_difference(main) is not None:
        sections.append(_critical_figure(main, ours))
    sections += [Heading(f"{TASK_NAMES[task]}: accuracy and time", 3), *_time_figures(cells, main, ours)]
    sections += [Heading(f"{TASK_NAMES[task]}: calibration", 3), *_calibration_figures(cells, main, ours)]
    sections += [Heading(f"{TASK_NAMES[task]}: pair by pair", 3), *_pair_tables(compared, ours)]
    sections += [Heading(f"{TASK_NAMES[task]}: data set by data set", 3)]
    sections += [_dataset_table(cells, comparison) for comparison in compared]
    truth = _truth_table(cells, main)
    return [*sections, truth] if truth is not None else sections


def _is_ours(cells: Cells, method: str) -> bool:
    return any(line.get("is_ours", False) for (_, name, _), line in cells.items() if name == method)


def _leaderboard(cells: Cells, compared: list[Comparison]) -> Table:
    main = compared[0]
    header = ["method"]
    columns: list[list[str]] = [list(main.methods)]
    for comparison in compared:
        order = [comparison.methods.index(method) if method in comparison.methods else None for method in main.methods]
        best = comparison.measure.heading
        far = "behind" if comparison.measure.greater_is_better else "relative"
        header += [f"{best} rank", f"{best} wins", f"{best} {far}"]
        columns += [
            [_number(values[place], digits) if place is not None else "-" for place in order]
            for values, digits in ((comparison.mean_ranks, 2), (comparison.wins, 0), (comparison.relative, 3))
        ]
    header += ["coverage 90 %", "sets in band", "fit s", "predict s per 1,000 rows"]
    columns += _coverage_columns(cells, main)
    for of in (fit_seconds, predict_seconds):
        seconds = seconds_by_method(cells, main, of)
        columns.append([_short(seconds[method]) for method in main.methods])
    rows = tuple(tuple(column[place] for column in columns) for place in range(len(main.methods)))
    caption = (
        f"Means over {len(main.datasets)} data sets. Rank: 1 is best. Wins: data sets on which no method is better. "
        "Relative: score divided by the best score; behind: best score less the score. Seconds: geometric mean. "
        "Coverage: truths in the middle 90 % of their distributions. In band: sets with "
        f"{ROWS_FOR_BAND} or more test rows whose coverage lies in {BAND[0]:.0%} to {BAND[1]:.0%}."
    )
    return Table(caption, tuple(header), rows, _bold_columns(rows, header), sortable=True)


def _coverage_columns(cells: Cells, main: Comparison) -> list[list[str]]:
    coverage = coverage_table(cells, main)
    large = np.array([_rows_of(cells, main, dataset, "n_test") >= ROWS_FOR_BAND for dataset in main.datasets])
    inside = (coverage >= BAND[0]) & (coverage <= BAND[1]) & large[:, None]
    means = [_number(value, 3) for value in coverage.mean(axis=0)]
    return [means, [f"{count} of {large.sum()}" if large.any() else "-" for count in inside.sum(axis=0)]]


def _bold_columns(rows: tuple[tuple[str, ...], ...], header: Sequence[str]) -> frozenset[tuple[int, int]]:
    """The best cell of each column of ranks, wins and distances."""
    strong = set()
    for column, name in enumerate(header):
        kind = name.rsplit(" ", 1)[-1]
        if kind not in ("rank", "wins", "relative", "behind"):
            continue
        values = [float(row[column]) if row[column] != "-" else np.nan for row in rows]
        best = np.nanmax(values) if kind == "wins" else np.nanmin(values)
        strong |= {(place, column) for place, value in enumerate(values) if value == best}
    return frozenset(strong)


def _who_is_compared(cells: Cells, main: Comparison) -> str:
    seeds = sorted({len(found) for found in main.seeds.values()})
    words = [f"Means are over the seeds at which all of these methods have results ({_span(seeds)} for each data set)."]
    if main.left_out:
        shown = "; ".join(f"{name} (no result of {', '.join(absent[:4])}{', ...' if len(absent) > 4 else ''})"
                          for name, absent in main.left_out.items())  # fmt: skip
        words.append(f"Data sets that are not compared on: {shown}.")
    else:
        words.append("No data set is left out.")
    unranked = [method for method in names_in(cells, 1) if method not in main.methods]
    if unranked:
        words.append(f"Not ranked, for want of results or by choice: {', '.join(unranked)}.")
    return " ".join(words)


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


# Figures.


def _critical_figure(main: Comparison, ours: Sequence[str]) -> Figure:
    critical = critical_difference(main)
    assert critical is not None  # the caller has asked
    ax = plots.critical_differences(main.methods, main.mean_ranks, critical.difference, ours)
    return Figure(
        plots.figure_svg(ax),
        f"mean {main.measure.heading} ranks of the methods with groups that do not differ",
        f"Mean {main.measure.heading} rank over {len(main.datasets)} data sets. Friedman: chi-squared "
        f"{critical.statistic:.1f}, p {_p(critical.p)}. Nemenyi: methods joined by a bar are less than "
        f"{critical.difference:.2f} ranks apart and cannot be told apart at {SIGNIFICANT}.",
    )


def _time_figures(cells: Cells, main: Comparison, ours: Sequence[str]) -> list[Section]:
    shown = [place for place, method in enumerate(main.methods) if method != CONSTANT]
    if not shown or np.isnan(main.relative).any():
        return [Paragraph("There is nothing to draw: no method but the constant has results.")]
    methods = [main.methods[place] for place in shown]
    figures: list[Section] = []
    for of, label in ((fit_seconds, "seconds to fit"), (predict_seconds, "seconds to predict 1,000 rows")):
        seconds = seconds_by_method(cells, main, of)
        ax = plots.score_against_seconds(
            methods,
            [seconds[method] for method in methods],
            main.relative[shown],
            ours,
            f"{label}, geometric mean",
            f"{main.measure.heading} relative to the best",
        )
        note = ""
        if CONSTANT in main.methods:
            note = f" The constant, at {main.relative[main.methods.index(CONSTANT)]:.2f}, is not drawn."
        caption = f"{main.measure.heading} relative to the best method of each data set against {label}: low and left "
        figures.append(
            Figure(plots.figure_svg(ax), f"{main.measure.heading} against {label}", f"{caption}is good.{note}")
        )
    return figures


def _calibration_figures(cells: Cells, main: Comparison, ours: Sequence[str]) -> list[Section]:
    others = [method for method in main.methods if method not in ours and method != CONSTANT]
    drawn = [*ours, *others][:MAX_CURVES]
    if not drawn:
        return []
    levels, curves = mean_calibration(cells, main)
    ax = plots.calibration_of_methods(levels, {method: curves[method] for method in drawn}, ours)
    grades = " Intervals of grades hold whole grades, so they cover more than asked." if _grades(main) else ""
    first = Figure(
        plots.figure_svg(ax),
        "how far the coverage of central intervals is from nominal, at ten levels",
        f"Share of rows inside central intervals less their nominal coverage, in percentage points, mean over "
        f"{len(main.datasets)} data sets. Above the line the intervals are too wide, below it too narrow.{grades}",
    )
    few = [*ours, *others[: max(1, 5 - len(ours))]][:MAX_CURVES]
    table = coverage_table(cells, main)
    labels = [
        f"{dataset} ({_rows_of(cells, main, dataset, 'n_test'):,.0f} rows)" for dataset in main.datasets
    ]  # fmt: skip
    chosen = {method: table[:, main.methods.index(method)] for method in few}
    ax = plots.coverage_by_dataset(labels, chosen, BAND)
    second = Figure(
        plots.figure_svg(ax),
        "coverage of the 90 % intervals on each data set",
        "Share of the truths in the middle 90 % of their distributions on each data set, with its number of test rows. "
        "A truth at a point mass (a grade, a zero) counts by the part of the mass that belongs to the middle.",
    )
    return [first, second]


def _grades(main: Comparison) -> bool:
    return main.measure.task == "grades"


# Tables.


def _pair_tables(compared: list[Comparison], ours: Sequence[str]) -> list[Section]:
    sections: list[Section] = []
    for comparison in compared[:2]:
        if len(comparison.methods) < 2:
            continue
        pairs = compare_pairs(comparison)
        sections.append(_win_table(comparison, pairs))
        if ours and len(ours) < len(comparison.methods):
            sections.append(_our_pairs(comparison, pairs, ours))
    return sections or [Paragraph("There are no two methods to compare.")]


def _win_table(comparison: Comparison, pairs: Sequence[Pair]) -> Table:
    methods = comparison.methods
    cells = {(pair.first, pair.second): (pair.wins, pair.p_holm) for pair in pairs}
    cells |= {(pair.second, pair.first): (pair.losses, pair.p_holm) for pair in pairs}
    rows = tuple(
        (row, *(str(cells[row, column][0]) if row != column else "-" for column in methods)) for row in methods
    )
    strong = frozenset(
        (i, j + 1)
        for i, row in enumerate(methods)
        for j, column in enumerate(methods)
        if row != column and cells[row, column][1] < SIGNIFICANT and cells[row, column][0] > cells[column, row][0]
    )
    caption = (
        f"{comparison.measure.heading}: on how many of {len(comparison.datasets)} data sets the method of the row is "
        f"better than that of the column. Bold: better, with p below {SIGNIFICANT} (Wilcoxon signed-rank test over "
        "data sets, Holm's correction for all pairs)."
    )
    return Table(caption, ("", *methods), rows, strong, sortable=True)


def _our_pairs(comparison: Comparison, pairs: Sequence[Pair], ours: Sequence[str]) -> Table:
    rows = []
    for pair in pairs:
        if (pair.first in ours) == (pair.second in ours):
            continue
        first, second, counts = pair.first, pair.second, (pair.wins, pair.ties, pair.losses)
        if pair.second in ours:
            first, second, counts = second, first, counts[::-1]
        rows.append((f"{first} : {second}", *map(str, counts), _p(pair.p), _p(pair.p_holm)))
    caption = (
        f"{comparison.measure.heading}, ours against others: data sets won, tied and lost, and p of the Wilcoxon "
        f"signed-rank test over data sets, plain and with Holm's correction for all {len(pairs)} pairs."
    )
    return Table(caption, ("pair", "won", "tied", "lost", "p", "p, Holm"), tuple(rows), sortable=True)


def _dataset_table(cells: Cells, comparison: Comparison) -> Table:
    rows, strong = [], set()
    for i, dataset in enumerate(comparison.datasets):
        figures = [
            f"{_short(mean)} ± {_short(spread)}" if len(comparison.seeds[dataset]) > 1 else _short(mean)
            for mean, spread in zip(comparison.means[i], comparison.spreads[i], strict=True)
        ]
        rows.append((dataset, f"{_rows_of(cells, comparison, dataset, 'n_train'):,.0f}", *figures))
        strong |= {(i, j + 2) for j in np.flatnonzero(comparison.best[i]).tolist()}
    better = "greater is better" if comparison.measure.greater_is_better else "less is better"
    caption = f"{comparison.measure.heading} ({better}): mean and standard deviation over seeds; the best is bold."
    header = ("data set", "training rows", *comparison.methods)
    return Table(caption, header, tuple(rows), frozenset(strong), sortable=True)


def _truth_table(cells: Cells, comparison: Comparison) -> Table | None:
    """How near to the true distribution the methods come, where it is known."""
    rows = []
    for dataset, seeds in comparison.seeds.items():
        known = [cells[dataset, comparison.methods[0], seed]["metrics"].get("crps_truth") for seed in seeds]
        if any(value is None for value in known):
            continue
        truth = float(np.mean(known))
        scores = [np.mean([cells[dataset, method, seed]["metrics"]["crps"] for seed in seeds])
                  for method in comparison.methods]  # fmt: skip
        rows.append((dataset, _short(truth), *(_number(float(value) / truth, 3) for value in scores)))
    if not rows:
        return None
    caption = "CRPS divided by that of samples from the true distribution, where it is known: 1 cannot be beaten."
    return Table(caption, ("data set", "CRPS of the truth", *comparison.methods), tuple(rows), sortable=True)


def _rows_of(cells: Cells, comparison: Comparison, dataset: str, name: str) -> float:
    seed = comparison.seeds[dataset][0]
    return float(cells[dataset, comparison.methods[0], seed][name])


# What went wrong.


def _what_went_wrong(cells: Cells) -> list[Section]:
    sections: list[Section] = [Heading("What went wrong")]
    failed = [line for line in cells.values() if line["status"] != "ok"]
    if failed:
        listed = tuple((str(line["dataset"]), str(line["method"]), str(line["seed"]), _reason(line)) for line in failed)
        header = ("data set", "method", "seed", "error")
        sections.append(Table(f"{len(failed)} failed cells", header, listed, sortable=True, is_text=True))
    else:
        sections.append(Paragraph("No cell failed."))
    missing = missing_cells(cells)
    if missing:
        rows = tuple((method, str(len(places)), "; ".join(places)) for method, places in missing.items())
        sections.append(
            Table("Cells without a line", ("method", "data sets", "which"), rows, sortable=True, is_text=True)
        )
    else:
        sections.append(Paragraph("No cell is missing."))
    return sections


def _reason(line: Line) -> str:
    text = str(line.get("error") or "unknown")
    return text if len(text) <= 300 else f"{text[:300]} ..."


# Numbers as text.


def _short(value: float) -> str:
    """Four digits that count.

    >>> _short(0.000123456), _short(12345.678), _short(1.5)
    ('0.0001235', '12350', '1.5')
    """
    if not np.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.4g}")
    return f"{rounded:.0f}" if abs(rounded) >= 1000 else f"{rounded:.4g}"


def _number(value: Array | float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{float(value):.{digits}f}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
