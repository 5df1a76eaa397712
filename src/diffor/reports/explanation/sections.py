"""An explanation on a page or a terminal: tables, bars of importance, bands over values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diffor.reports import plots
from diffor.reports.explanation.measuring import LEVELS, Explanation
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table, html_page, number

MOST_NAMED = 3
"""Columns of a row whose contributions are named, and columns of a table of importance that a page shows as bars."""
MOST_BARS = 15


def explanation_page(explanation: Explanation, name: str) -> str:
    """The whole page, as HTML."""
    return html_page(f"What moves {name}", list(explanation_sections(explanation)))


def explanation_sections(
    explanation: Explanation, has_figures: bool = True, names: Sequence[str] | None = None
) -> Iterator[Section]:
    """Tables, and figures where there are to be some; ``names`` are what explained rows are called."""
    found = explanation
    yield Heading("What moves the answers")
    by = "" if found.crps is None else f", whose mean CRPS is {number(found.crps)}"
    yield Paragraph(
        f"Measured on {found.n_rows:,} rows{by}; their {found.coverage:.0%} intervals are {number(found.width)} wide "
        "on average. It is about the model, not about the world: of columns that say the same it may use either."
    )
    yield importance_table(found)
    if has_figures and found.importances:
        shown = found.importances[:MOST_BARS]
        rises = None if found.crps is None else [one.crps or 0.0 for one in shown]
        yield Figure(
            plots.figure_svg(plots.importances([one.column for one in shown], rises, [one.width for one in shown])),
            f"Importance of {len(shown)} columns for the error and for the width of intervals.",
            "How much worse the answers get without the column, and how much it has to do with how sure they are.",
        )
    if has_figures and found.bands:
        bands = [(one.column, one.values, one.quantiles) for one in found.bands]
        levels = ", ".join(f"{level:.0%}" for level in LEVELS)
        yield Heading("Answers over a column's values", level=3)
        yield Figure(
            plots.figure_svg(plots.dependence_bands(bands)),
            f"Quantiles of the answer over the values of {len(bands)} columns.",
            f"Partial dependence of the whole distribution: quantiles at {levels} where all rows have this value and "
            "are else as they are, on average. Where the band widens, so does doubt.",
        )
    if found.contributions.rows:
        yield Heading("Single rows", level=3)
        yield contribution_table(found, names)


def importance_table(explanation: Explanation) -> Table:
    """Columns by importance."""
    records = []
    for one in explanation.importances:
        error = "" if one.crps_error is None else f" ± {number(one.crps_error)}"
        rise = {} if one.crps is None else {"Rise of CRPS": number(one.crps) + error}
        records.append({"Column": one.column, **rise, "Change of width": one.width})
    if not records:
        records = [{"Column": "none", "Change of width": None}]
    rise_is = "Rise of CRPS is how much worse answers get where the column is shuffled (± standard error). "
    return Table.of(
        records,
        f"{'' if explanation.crps is None else rise_is}Change of width is how far the {explanation.coverage:.0%} "
        f"intervals' widths move then, up or down. Means of {explanation.n_repeats} shuffles.",
    )


def contribution_table(explanation: Explanation, names: Sequence[str] | None = None) -> Table:
    """Each explained row's answer and width as the mean and what its columns add to it."""
    parts = explanation.contributions
    records = []
    for place, row in enumerate(parts.rows):
        for what, mean, whole, added in (
            (explanation.statistic, parts.mean_answer, parts.answers[place], parts.centre[place]),
            ("width", parts.mean_width, parts.widths[place], parts.width[place]),
        ):
            most = np.argsort(-np.abs(added), kind="stable")[:MOST_NAMED]
            named = [f"{parts.columns[at]} {'+' if added[at] >= 0 else '-'}{number(abs(added[at]))}" for at in most]
            records.append({"Row": names[place] if names else f"row {row + 1}", "Of": what, "Is": whole,
                            "On average": mean, "Because of": ", ".join(named)})  # fmt: skip
    caption = f"What the columns of a row add to the mean (Shapley values), the {MOST_NAMED} that add most."
    return Table.of(records, caption)
