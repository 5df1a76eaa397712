"""Figures: functions ``(data..., ax=None) -> ax``, which draw on the given axes or on those of a new figure.

matplotlib is an optional extra, so it is imported where it is needed. Nothing here uses pyplot: no figure stays open,
no setting of the caller changes, and ``ax.figure.savefig("name.png")`` writes any result. Colours are those of Okabe
and Ito, which the colour-blind can tell apart; markers and line styles repeat what they say, for prints in grey.
"""

from __future__ import annotations

from diffor.reports.plots.comparisons import calibration_of_methods as calibration_of_methods
from diffor.reports.plots.comparisons import coverage_by_dataset as coverage_by_dataset
from diffor.reports.plots.comparisons import critical_differences as critical_differences
from diffor.reports.plots.comparisons import joined_groups as joined_groups
from diffor.reports.plots.comparisons import score_against_seconds as score_against_seconds
from diffor.reports.plots.drawing import FIGURE_SIZE as FIGURE_SIZE
from diffor.reports.plots.drawing import METHOD_LOOKS as METHOD_LOOKS
from diffor.reports.plots.drawing import figure_svg as figure_svg
from diffor.reports.plots.drawing import require_matplotlib as require_matplotlib
from diffor.reports.plots.explanation import dependence_bands as dependence_bands
from diffor.reports.plots.explanation import importances as importances
from diffor.reports.plots.explanation import uncertainty_parts as uncertainty_parts
from diffor.reports.plots.increments import denoising_trajectory as denoising_trajectory
from diffor.reports.plots.increments import increments_by_scale as increments_by_scale
from diffor.reports.plots.increments import increments_of as increments_of
from diffor.reports.plots.predictions import density as density
from diffor.reports.plots.predictions import error_by_range as error_by_range
from diffor.reports.plots.predictions import predicted_against_true as predicted_against_true
from diffor.reports.plots.predictions import predictive_densities as predictive_densities
from diffor.reports.plots.predictions import training_history as training_history
from diffor.reports.plots.reliability import LEVELS as LEVELS
from diffor.reports.plots.reliability import calibration as calibration
from diffor.reports.plots.reliability import coverage_against_width as coverage_against_width
from diffor.reports.plots.reliability import grade_calibration as grade_calibration
from diffor.reports.plots.reliability import pit_histogram as pit_histogram
