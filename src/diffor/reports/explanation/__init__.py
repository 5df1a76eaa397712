"""What moves a model's answers, and what makes it unsure: columns by importance, bands over their values, single rows.

`measuring` asks the model about changed rows, `sections` puts what it said on a page or a terminal.
"""

from __future__ import annotations

from diffor.reports.explanation.measuring import Band, Contributions, Explanation, Importance, explain
from diffor.reports.explanation.sections import explanation_page, explanation_sections

__all__ = [
    "Band",
    "Contributions",
    "Explanation",
    "Importance",
    "explain",
    "explanation_page",
    "explanation_sections",
]
