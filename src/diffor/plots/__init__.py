"""Figures: functions ``(data..., ax=None) -> ax``, which draw on the given axes or on those of a new figure.

matplotlib is an optional extra, so it is imported where it is needed. Nothing here uses pyplot: no figure stays open,
no setting of the caller changes, and ``ax.figure.savefig("name.png")`` writes any result. Colours are those of Okabe
and Ito, which the colour-blind can tell apart; markers and line styles repeat what they say, for prints in grey.
"""

from __future__ import annotations

from diffor.plots.comparisons import (
    calibration_of_methods,
    coverage_by_dataset,
    critical_differences,
    joined_groups,
    score_against_seconds,
)
from diffor.plots.drawing import FIGURE_SIZE, METHOD_LOOKS, figure_svg, require_matplotlib
from diffor.plots.experiments import ablation_forest, head_map, leaderboard, quality_curve, rank_columns
from diffor.plots.increments import denoising_trajectory, increments_by_scale, increments_of
from diffor.plots.paradigms import bins_and_increments, independent_bits, modes_and_answers, vocabulary_errors
from diffor.plots.predictions import (
    density,
    error_by_range,
    predicted_against_true,
    predictive_densities,
    training_history,
)
from diffor.plots.reliability import LEVELS, calibration, coverage_against_width, grade_calibration, pit_histogram
from diffor.plots.theory import (
    bits_by_scale,
    contraction_of_steps,
    cosines_in_training,
    embeddings_compared,
    error_rates_and_bounds,
    errors_along_the_chain,
    gradient_cosines,
    noise_and_value_errors,
    variance_by_scale,
    weights_of_times,
)

__all__ = [
    "FIGURE_SIZE",
    "LEVELS",
    "METHOD_LOOKS",
    "ablation_forest",
    "bins_and_increments",
    "bits_by_scale",
    "calibration",
    "calibration_of_methods",
    "contraction_of_steps",
    "cosines_in_training",
    "coverage_against_width",
    "coverage_by_dataset",
    "critical_differences",
    "denoising_trajectory",
    "density",
    "embeddings_compared",
    "error_by_range",
    "error_rates_and_bounds",
    "errors_along_the_chain",
    "figure_svg",
    "grade_calibration",
    "gradient_cosines",
    "head_map",
    "increments_by_scale",
    "increments_of",
    "independent_bits",
    "joined_groups",
    "leaderboard",
    "modes_and_answers",
    "noise_and_value_errors",
    "pit_histogram",
    "predicted_against_true",
    "predictive_densities",
    "quality_curve",
    "rank_columns",
    "require_matplotlib",
    "score_against_seconds",
    "training_history",
    "variance_by_scale",
    "vocabulary_errors",
    "weights_of_times",
]
