"""The report on one model: scores with their uncertainty, figures, and where the model is wrong.

`scores` measures answers and resamples rows, `slices` compares parts of the table, `reading` asks DiffoR's own models
how they came to an answer,
`figures` draws and reads what is drawn, `page` joins all of it about one `evaluation`.
"""

from __future__ import annotations

from diffor.reports.evaluation.evaluation import MAX_ROWS, Evaluation, picked_rows
from diffor.reports.evaluation.page import model_page
from diffor.reports.evaluation.slices import Slice, worst_slices

__all__ = ["MAX_ROWS", "Evaluation", "Slice", "model_page", "picked_rows", "worst_slices"]
