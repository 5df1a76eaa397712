"""The page about a benchmark: what ran, who leads, how sure that is, what it costs, what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.foundation_tables import foundation_sections
from diffor.bench.leaderboard import (
    MEASURES,
    SIGNIFICANT,
    TASKS,
    Cells,
    Comparison,
    compare,
    compare_pairs,
    critical_difference,
    fit_seconds,
    mean_calibration,
    middle_share,
    missing_cells,
    names_in,
    of_task,
    predict_seconds,
    seconds_by_method,
    table_of,
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
        compared = [compare(cells, measure, methods) for measure in MEASURES if measure.task == task]
        known = [comparison for comparison in compared if comparison is not None]
        if known:
            sections += _task_sections(of_task(cells, task), TASK_NAMES[task], known)
    beside = [*foundation_sections(cells, methods), *paper_sections(paper_tables(cells, methods))]
    return [*sections, *beside, *_what_went_wrong(cells), *_provenance(cells)]


# What ran.


def _what_ran(cells: Cells, n_damaged: int) -> list[Section]:
    counts = (
        f"{len(cells)} cells: {len(names_in(cells, 0))} data sets, {len(names_in(cells, 1))} methods, "
        f"{len(names_in(cells, 2))} seeds. Every method was given the same training, validation and test "
        "rows and one thread. Times leave out the import of packages."
    )
    damaged = f" {n_damaged} damaged line(s) were left out." if n_damaged else ""
    return [Heading("What ran"), Paragraph(counts + damaged)]


def _provenance(cells: Cells) -> list[Section]:
    lines = list(cells.values())
    dates = sorted(str(line["date"])[:16].replace("T", " ") for line in lines if line.get("date"))
    versions = {f"{name} {version}" for line in lines for name, version in line.get("versions", {}).items()}
    rows = (
        ("commits", _listed(line.get("commit") or "unknown" for line in lines)),
        ("machines", _listed(line.get("machine") for line in lines)),
        ("finished", f"{dates[0]} to {dates[-1]} UTC" if dates else "-"),
        ("versions", ", ".join(sorted(versions))),
        ("samples per row", _listed(line.get("n_samples") for line in lines)),
        ("commands", _listed((line.get("command") for line in lines), MAX_COMMANDS)),
    )
    return [Heading("Circumstances"), Table("What the figures depend on.", ("what", "which"), rows, is_text=True)]


def _listed(values: Iterable[Any], most: int | None = None) -> str:
    found = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    rest = f", and {len(found) - most} more, which the lines name" if most is not None and len(found) > most else ""
    return (", ".join(found[:most]) or "-") + rest


# One task.


def _task_sections(cells: Cells, name: str, compared: list[Comparison]) -> list[Section]:
    """All about values, or about grades; every table has the methods in the order of the first measure's ranks."""
    main = compared[0]
    compared = [_in_order(comparison, main.methods) for comparison in compared]
    ours = [method for method in main.methods
            if any(line.get("is_ours") for (_, other, _), line in cells.items() if other == method)]  # fmt: skip
    coverage = table_of(cells, main, middle_share)
    return [
        Heading(f"{name}: leaderboard"),
        _leaderboard(cells, main, coverage),
        *_winners(main, name, ours),
        Paragraph(_who_is_compared(cells, main)),
        *_critical_figure(main, ours),
        Heading(f"{name}: measure by measure", 3),
        *_measure_tables(compared),
        Heading(f"{name}: accuracy and time", 3),
        *_time_figures(cells, main, ours),
        Heading(f"{name}: calibration", 3),
        *_calibration_figures(cells, main, coverage, ours),
        Heading(f"{name}: pair by pair", 3),
        *_pair_tables(compared[:2], ours),
        Heading(f"{name}: data set by data set", 3),
        *(_dataset_table(cells, comparison) for comparison in compared),
        *_truth_table(cells, main),
    ]


def _in_order(comparison: Comparison, methods: Sequence[str]) -> Comparison:
    order = sorted(comparison.methods, key=lambda name: methods.index(name) if name in methods else len(methods))
    return replace(comparison, means=comparison.means[order], spreads=comparison.spreads[order])


def _leaderboard(cells: Cells, main: Comparison, coverage: pd.DataFrame) -> Table:
    large = _counts(cells, main, "n_test") >= ROWS_FOR_BAND
    inside = (coverage[large] >= BAND[0]) & (coverage[large] <= BAND[1])
    ranks, wins, relative = main.ranks.mean(), main.is_best.sum(), main.relative
    shown = pd.DataFrame({
        "rank": ranks.map("{:.2f}".format),
        _far(main): relative.map(_number),
        "wins": wins.map(str),
        "in 90 %": coverage.mean().map(_number),
        "in band": inside.sum().map(f"{{}}/{large.sum()}".format) if large.any() else "-",
        "fit s": seconds_by_method(cells, main, fit_seconds).map(_seconds),
        "predict s": seconds_by_method(cells, main, predict_seconds).map(_seconds),
    })  # fmt: skip
    best = pd.DataFrame({
        "rank": ranks == ranks.min(), _far(main): relative == relative.min(), "wins": wins == wins.max(),
    })  # fmt: skip
    caption = (
        f"By {main.measure.heading}, means over {len(main.datasets)} data sets. Rank: 1 is best. Relative: score "
        "divided by the best score; behind: best score less the score. Wins: data sets on which no method is better. "
        "In 90 %: truths in the middle 90 % of their distributions. In band: sets with "
        f"{ROWS_FOR_BAND} or more test rows where that share is {BAND[0]:.0%} to {BAND[1]:.0%}. Seconds to fit, and to "
        "predict 1,000 rows: geometric means."
    )
    return _as_table(caption, "method", shown, best, fits=True)


def _far(comparison: Comparison) -> str:
    """What the distance from the best is called."""
    return "behind" if comparison.measure.greater_is_better else "relative"


def _winners(main: Comparison, name: str, ours: Sequence[str]) -> list[Section]:
    """Who is best on each data set, who comes next and how far behind, and how far ours is from the best of others."""
    if len(main.methods) < 2:
        return []
    others = [method for method in main.methods if method not in ours]
    order = np.argsort(main.errors.to_numpy(), axis=1, kind="stable")[:, :2]
    names = np.array(main.methods)[order]
    means, errors = (np.take_along_axis(table.to_numpy(), order, axis=1) for table in (main.means, main.errors))
    shown = pd.DataFrame({
        "best": names[:, 0], main.measure.heading: [_short(mean) for mean in means[:, 0]],
        "next": names[:, 1], "behind": [_gap(main, second, first) for first, second in errors],
    }, index=main.datasets)  # fmt: skip
    words = f"{main.measure.heading} on each data set: the best method, the next, and how far it is behind."
    best = None
    if ours and others:
        gaps = main.errors[ours].min(axis=1), main.errors[others].min(axis=1)
        shown["ours"] = [_gap(main, *pair) for pair in zip(*gaps, strict=True)]
        best = pd.DataFrame({"ours": gaps[0] < gaps[1]})
        n_won = int(best["ours"].sum())
        words += (f" Ours: the best of our methods beside the best of all others, which it beats on {n_won} of "
                  f"{len(shown)} sets (below 0, bold).")  # fmt: skip
    table = _as_table(words, "data set", shown, best, fits=True)
    return [Heading(f"{name}: who wins where, and by how much", 3), table]


def _gap(comparison: Comparison, error: float, other: float) -> str:
    """How far an error is above another one: in percent, or plainly where there is no ratio."""
    if comparison.measure.greater_is_better or other <= 0:
        return f"{error - other:+.3f}"
    return f"{100 * (error / other - 1):+.1f}%"


def _measure_tables(compared: list[Comparison]) -> list[Section]:
    """Mean ranks with the sets won, and distances from the best, of all methods by all measures."""
    methods = list(dict.fromkeys(method for comparison in compared for method in comparison.methods))

    def by_measure(of: Callable[[Comparison], pd.Series[Any]]) -> pd.DataFrame:
        table: pd.DataFrame = pd.DataFrame({one.measure.heading: of(one) for one in compared}).reindex(methods)
        return table

    ranks, wins = by_measure(lambda one: one.ranks.mean()), by_measure(lambda one: one.is_best.sum())
    relative = by_measure(lambda one: one.relative)
    shown = (ranks.map("{:.2f}".format) + wins.map(" ({:.0f})".format)).where(ranks.notna(), "-")
    captions = (
        "Mean rank, and in brackets the number of data sets won.",
        "Distance from the best: score divided by the best score, or, of what is better when greater, the best score "
        "less the score.",
    )
    return [
        _as_table(captions[0], "method", shown, ranks == ranks.min(), fits=True),
        _as_table(captions[1], "method", relative.map(_number), relative == relative.min(), fits=True),
    ]


def _who_is_compared(cells: Cells, main: Comparison) -> str:
    counts = sorted({len(found) for found in main.seeds.values()})
    span = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    words = [f"Means are over the seeds at which all of these methods have results ({span} for each data set)."]
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


# Figures.


def _critical_figure(main: Comparison, ours: Sequence[str]) -> list[Section]:
    critical = critical_difference(main)
    if critical is None:
        return []
    ax = plots.critical_differences(main.methods, main.ranks.mean(), critical.difference, ours)
    return [Figure(
        plots.figure_svg(ax),
        f"mean {main.measure.heading} ranks of the methods with groups that do not differ",
        f"Mean {main.measure.heading} rank over {len(main.datasets)} data sets. Friedman: chi-squared "
        f"{critical.statistic:.1f}, p {_p(critical.p)}. Nemenyi: methods joined by a bar are less than "
        f"{critical.difference:.2f} ranks apart and cannot be told apart at {SIGNIFICANT}.",
    )]  # fmt: skip


def _time_figures(cells: Cells, main: Comparison, ours: Sequence[str]) -> list[Section]:
    relative, heading = main.relative, main.measure.heading
    shown = relative.drop(CONSTANT, errors="ignore")
    if shown.empty or relative.isna().any():
        return [Paragraph("There is nothing to draw: no method but the constant has results.")]
    note = f" The constant, at {relative[CONSTANT]:.2f}, is not drawn." if CONSTANT in relative else ""
    figures: list[Section] = []
    for of, label in ((fit_seconds, "seconds to fit"), (predict_seconds, "seconds to predict 1,000 rows")):
        seconds = seconds_by_method(cells, main, of)[shown.index]
        ax = plots.score_against_seconds(
            list(shown.index), seconds, shown, ours, f"{label}, geometric mean", f"{heading} relative to the best"
        )
        caption = f"{heading} relative to the best method of each data set against {label}: low and left is good.{note}"
        figures.append(Figure(plots.figure_svg(ax), f"{heading} against {label}", caption))
    return figures


def _calibration_figures(cells: Cells, main: Comparison, coverage: pd.DataFrame, ours: Sequence[str]) -> list[Section]:
    others = [method for method in main.methods if method not in ours and method != CONSTANT]
    drawn = [*ours, *others][:MAX_CURVES]
    if not drawn:
        return []
    curves = mean_calibration(cells, main)
    ax = plots.calibration_of_methods(curves.index, {method: curves[method] for method in drawn}, ours)
    is_graded = main.measure.task == "grades"
    grades = " Intervals of grades hold whole grades, so they cover more than asked." if is_graded else ""
    first = Figure(
        plots.figure_svg(ax),
        "how far the coverage of central intervals is from nominal, at ten levels",
        f"Share of rows inside central intervals less their nominal coverage, in percentage points, mean over "
        f"{len(main.datasets)} data sets. Above the line the intervals are too wide, below it too narrow.{grades}",
    )
    few = [*ours, *others[: max(1, 5 - len(ours))]][:MAX_CURVES]
    labels = [f"{dataset} ({count:,.0f} rows)" for dataset, count in _counts(cells, main, "n_test").items()]
    ax = plots.coverage_by_dataset(labels, {method: coverage[method] for method in few}, BAND)
    second = Figure(
        plots.figure_svg(ax),
        "coverage of the 90 % intervals on each data set",
        "Share of the truths in the middle 90 % of their distributions on each data set, with its number of test rows. "
        "A truth at a point mass (a grade, a zero) counts by the part of the mass that belongs to the middle.",
    )
    return [first, second]


# Tables.


def _pair_tables(compared: list[Comparison], ours: Sequence[str]) -> list[Section]:
    sections: list[Section] = []
    for comparison in compared:
        if len(comparison.methods) > 1:
            pairs = compare_pairs(comparison)
            sections.append(_win_table(comparison, pairs))
            if ours and len(ours) < len(comparison.methods):
                sections.append(_our_pairs(comparison, pairs, ours))
    return sections or [Paragraph("There are no two methods to compare.")]


def _win_table(comparison: Comparison, pairs: Sequence[dict[str, Any]]) -> Table:
    methods = comparison.methods
    wins = pd.DataFrame("-", index=methods, columns=methods)
    best = pd.DataFrame(False, index=methods, columns=methods)
    for pair in pairs:
        ends, counts = (pair["first"], pair["second"]), (pair["wins"], pair["losses"])
        wins.loc[ends], wins.loc[ends[::-1]] = map(str, counts)
        is_sure = pair["p_holm"] < SIGNIFICANT
        best.loc[ends], best.loc[ends[::-1]] = is_sure and counts[0] > counts[1], is_sure and counts[1] > counts[0]
    caption = (
        f"{comparison.measure.heading}: on how many of {len(comparison.datasets)} data sets the method of the row is "
        f"better than that of the column. Bold: better, with p below {SIGNIFICANT} (Wilcoxon signed-rank test over "
        "data sets, Holm's correction for all pairs)."
    )
    return _as_table(caption, "", wins, best)


def _our_pairs(comparison: Comparison, pairs: Sequence[dict[str, Any]], ours: Sequence[str]) -> Table:
    rows = []
    for pair in pairs:
        names, counts = [pair["first"], pair["second"]], [str(pair[count]) for count in ("wins", "ties", "losses")]
        if (names[0] in ours) != (names[1] in ours):
            turn = 1 if names[0] in ours else -1
            rows.append((" : ".join(names[::turn]), *counts[::turn], _p(pair["p"]), _p(pair["p_holm"])))
    caption = (
        f"{comparison.measure.heading}, ours against others: data sets won, tied and lost, and p of the Wilcoxon "
        f"signed-rank test over data sets, plain and with Holm's correction for all {len(pairs)} pairs."
    )
    return Table(caption, ("pair", "won", "tied", "lost", "p", "p, Holm"), tuple(rows), sortable=True)


def _dataset_table(cells: Cells, comparison: Comparison) -> Table:
    spreads = comparison.spreads.map(lambda spread: f" ± {_short(spread)}")
    spreads.loc[[dataset for dataset, seeds in comparison.seeds.items() if len(seeds) == 1]] = ""
    shown = comparison.means.map(_short) + spreads
    shown.insert(0, "training rows", _counts(cells, comparison, "n_train").map("{:,.0f}".format))
    better = "greater is better" if comparison.measure.greater_is_better else "less is better"
    caption = f"{comparison.measure.heading} ({better}): mean and standard deviation over seeds; the best is bold."
    return _as_table(caption, "data set", shown, comparison.is_best)


def _truth_table(cells: Cells, main: Comparison) -> list[Section]:
    """How near to the true distribution the methods come, where it is known."""
    truths = table_of(cells, main, lambda line: line["metrics"].get("crps_truth", np.nan)).iloc[:, 0].dropna()
    if truths.empty:
        return []
    scores = table_of(cells, main, lambda line: line["metrics"]["crps"]).loc[truths.index]
    shown = scores.div(truths, axis=0).map(_number)
    shown.insert(0, "CRPS of the truth", truths.map(_short))
    caption = "CRPS divided by that of samples from the true distribution, where it is known: 1 cannot be beaten."
    return [_as_table(caption, "data set", shown)]


def _as_table(
    caption: str, rows: str, shown: pd.DataFrame, best: pd.DataFrame | None = None, fits: bool = False
) -> Table:
    """A frame of texts as a sortable table; ``rows`` is what its index holds, and the ``best`` cells are bold."""
    is_bold = pd.DataFrame(index=shown.index) if best is None else best
    bold = np.argwhere(is_bold.reindex(columns=shown.columns, fill_value=False).to_numpy(dtype=bool))
    strong = frozenset((row, column + 1) for row, column in bold.tolist())
    body = tuple(shown.reset_index().itertuples(index=False, name=None))
    return Table(caption, (rows, *shown.columns), body, strong, sortable=True, fits=fits)


def _counts(cells: Cells, comparison: Comparison, name: str) -> pd.Series[float]:
    """A number of rows of each data set, which is the same for all methods, at its first seed."""
    method = comparison.methods[0]
    first = {dataset: float(cells[dataset, method, seeds[0]][name]) for dataset, seeds in comparison.seeds.items()}
    counts: pd.Series[float] = pd.Series(first)
    return counts


# What went wrong.


def _what_went_wrong(cells: Cells) -> list[Section]:
    sections: list[Section] = [Heading("What went wrong")]
    failed = [(*map(str, place), _reason(line)) for place, line in cells.items() if line["status"] != "ok"]
    if failed:
        header = ("data set", "method", "seed", "error")
        sections.append(Table(f"{len(failed)} failed cells", header, tuple(failed), sortable=True, is_text=True))
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


def _reason(line: dict[str, Any]) -> str:
    text = str(line.get("error") or "unknown")
    return text if len(text) <= 300 else f"{text[:300]} ..."


# Numbers as text.


def _short(value: float) -> str:
    """Four digits that count.

    >>> _short(0.000123456), _short(12345.678), _short(1.5)
    ('0.0001235', '12350', '1.5')
    """
    return f"{float(f'{value:.4g}'):.10g}"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
