"""Figures: functions ``(data..., ax=None) -> ax``, which draw on the given axes or on those of a new figure.

matplotlib is an optional extra, so it is imported where it is needed. Nothing here uses pyplot: no figure stays open,
no setting of the caller changes, and ``ax.figure.savefig("name.png")`` writes any result. Colours are those of Okabe
and Ito, which the colour-blind can tell apart; markers and line styles repeat what they say, for prints in grey.
"""

from __future__ import annotations

from diffor.reports.plots.comparisons import (
    calibration_of_methods,
    coverage_by_dataset,
    critical_differences,
    joined_groups,
    score_against_seconds,
)
from diffor.reports.plots.drawing import FIGURE_SIZE, METHOD_LOOKS, figure_svg, require_matplotlib
from diffor.reports.plots.increments import denoising_trajectory, increments_by_scale, increments_of
from diffor.reports.plots.predictions import (
    density,
    error_by_range,
    predicted_against_true,
    predictive_densities,
    training_history,
)
from diffor.reports.plots.reliability import (
    LEVELS,
    calibration,
    coverage_against_width,
    grade_calibration,
    pit_histogram,
)

__all__ = [
    "FIGURE_SIZE",
    "LEVELS",
    "METHOD_LOOKS",
    "calibration",
    "calibration_of_methods",
    "coverage_against_width",
    "coverage_by_dataset",
    "critical_differences",
    "denoising_trajectory",
    "density",
    "error_by_range",
    "figure_svg",
    "grade_calibration",
    "increments_by_scale",
    "increments_of",
    "joined_groups",
    "pit_histogram",
    "predicted_against_true",
    "predictive_densities",
    "require_matplotlib",
    "score_against_seconds",
    "training_history",
]
