"""The parts of a page that say what moves a model's answers, and where its uncertainty comes from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffor.errors import UserError
from diffor.estimators.uncertainty import split_uncertainty
from diffor.methods import METHODS
from diffor.reports import plots
from diffor.reports.evaluation.evaluation import Evaluation, picked_rows, row_errors
from diffor.reports.evaluation.figures import typical_row
from diffor.reports.explanation import explain, explanation_sections
from diffor.reports.html import Figure, Heading, Section, Table

MAX_ROWS = 5000
"""Rows that are taken apart: each asks every network by itself."""
FEWEST_ROWS, EXPLAINED_ROWS = 20, 300
"""Rows that there must be, and that are looked at, to say what moves answers."""
N_ROWS = 5
"""Rows that are named."""


def explained_sections(evaluation: Evaluation) -> Iterator[Section]:
    """What moves the answers, also to the typical row and to the worst; nothing where many answers take too long."""
    model, errors = evaluation.model, row_errors(evaluation)[0]
    if not model.has_distribution or METHODS[model.settings_.method].draws_are_costly or len(errors) < FEWEST_ROWS:
        return
    truth = model.grades_[evaluation.truth] if evaluation.is_graded else evaluation.truth
    places = list(dict.fromkeys([typical_row(errors), int(np.argmax(errors))]))
    try:
        found = explain(model, evaluation.table, truth, rows=places, n_rows=EXPLAINED_ROWS, n_repeats=3,
                        coverage=evaluation.coverage)  # fmt: skip
    except UserError:  # the method reads columns beside the table
        return
    yield from explanation_sections(found, names=[evaluation.row_name(place) for place in places])


def uncertainty_sections(evaluation: Evaluation) -> Iterator[Section]:
    """How much of the answers' variance is disagreement between networks; nothing for models without several."""
    shown = picked_rows(len(evaluation.truth), MAX_ROWS)
    try:
        parts = split_uncertainty(evaluation.model, evaluation.table.iloc[shown])
    except UserError:
        return
    yield Heading("Where the uncertainty comes from")
    yield Figure(
        plots.figure_svg(plots.uncertainty_parts(parts.epistemic, parts.aleatoric)),
        "Variance of answers in parts, for rows from the surest to the least sure.",
        f"Of {len(shown):,} rows. Epistemic is what networks that learned from different rows disagree about: more "
        "rows would make it smaller. Aleatoric is what each of them says there is: more rows would not help, more "
        "columns might. Networks share most of their rows, so the epistemic part is a lower bound.",
    )
    most = np.argsort(-parts.share, kind="stable")[:N_ROWS]
    records = [
        {
            "Row": evaluation.row_name(int(shown[place])),
            "Epistemic share": f"{parts.share[place]:.0%}",
            "Standard deviation": float(np.sqrt(parts.total[place])),
            "Mean answer": float(evaluation.prediction[shown[place] : shown[place] + 1].mean[0]),
        }
        for place in most
    ]
    yield Table.of(records, "The rows about which networks disagree most, for how unsure they are.")
