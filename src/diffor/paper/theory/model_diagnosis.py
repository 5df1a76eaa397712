"""The paper's theory, measured on a fitted model: rows and targets in, a diagnosis and the page about it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from diffor.core.target import GradeScale
from diffor.errors import UserError
from diffor.estimators.base import OrdinalEstimator
from diffor.estimators.chain import own_features
from diffor.paper.theory import figures
from diffor.paper.theory.diagnosis import Diagnosis, diagnose
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section
from diffor.training.loop import History, limit_threads


def diagnose_model(model: OrdinalEstimator, X: Any, y: ArrayLike, n_samples: int | None = None) -> Diagnosis:
    """Measure what the paper proves on the first member of a fitted model with a chain.

    The theorems speak of one chain, so other members are left out. ``y`` holds values, or places of grades from 0 on.
    Use rows that were not trained on.

    **Shape:** X of n rows, y ``(n,)``.
    """
    member, features, keys = own_features(model, X)
    unit = torch.from_numpy(np.asarray(model.scale_.to_unit(y), dtype=np.float32)).to(features)
    if len(features) != len(unit):
        raise UserError(
            f"X and y must be equally long, but got {len(features)} rows and {len(unit)} targets; "
            "pass both from one table"
        )
    n_grades = model.scale_.n_grades if isinstance(model.scale_, GradeScale) else None
    method: Any = member.method
    with limit_threads(model.n_jobs):
        return diagnose(method, features, unit, keys, n_grades, n_samples)


class _Drawing(NamedTuple):
    """A figure of a diagnosis: how it is drawn, what it shows to those who cannot see it, and its caption."""

    measurement: str
    draw: Callable[[Any], Any]
    label: str
    caption: str


DRAWINGS = (
    _Drawing(
        "noise",
        figures.noise_and_value_errors,
        "Errors of the noise and of the estimate at each time.",
        "Circles and crosses are the two sides of the identity: each pair stands on one point.",
    ),
    _Drawing(
        "ordinal",
        figures.error_rates_and_bounds,
        "Share of wrong grades beside the bound on it.",
        "A bound of 1 or more is true of every model; triangles at the upper edge lie above it.",
    ),
    _Drawing(
        "fusion",
        figures.errors_along_the_chain,
        "Squared error of the value read off the chain at each time, and of the fusion of all times.",
        "Values are means over the chains of a row. The best time of each row, here of the rows that "
        "choose, cannot be told without the truth.",
    ),
    _Drawing(
        "fusion",
        figures.weights_of_times,
        "Weight of each time in the fusion.",
        "Weights of both signs mean that the fusion extrapolates: it uses how estimates change along the chain.",
    ),
    _Drawing(
        "representation",
        figures.embeddings_compared,
        "Risk of a linear readout of one time, of all times and of the heads' hidden layers.",
        "More numbers always fit the rows they are fitted on better; only the other rows tell whether they help. The "
        "effective rank is the squared sum of the singular values over the sum of their squares, of centred columns.",
    ),
    _Drawing(
        "interference",
        figures.gradient_cosines,
        "Cosines of the gradients of each pair of times, in five sets of parameters.",
        "One point for each pair of times. Left of zero a step that helps one time harms the other.",
    ),
    _Drawing(
        "contraction",
        figures.contraction_of_steps,
        "Factors by which each step of the chain changes distances.",
        "The true path is the corrupted target with the noise that the chain started from.",
    ),
    _Drawing(
        "scales",
        figures.variance_by_scale,
        "Share of each increment's variance that is explained at each time.",
        "Estimates start from the corrupted truth, so all is explained where noise is low; the upper rows are what "
        "the features tell. Increment k covers the k-th part of the range.",
    ),
    _Drawing(
        "scales",
        figures.bits_by_scale,
        "Bits of each increment, and those that a prediction saves.",
        "Increments are counted one by one, although they depend on each other. Where the diamond stands above the "
        "bar, predictions are surer than they are right.",
    ),
)


def diagnosis_sections(diagnosis: Diagnosis, about: str, history: History | None = None) -> list[Section]:
    """The parts of a page about a diagnosis; with a history that logged cosines, also these."""
    sections: list[Section] = [Paragraph(about)]
    # Choosing a time and combining times are one figure, which stands where both were read.
    for found in diagnosis.findings:
        sections += [Heading(found.title), Paragraph(found.sentence)]
        for drawing in DRAWINGS:
            if drawing.measurement == found.name:
                svg = plots.figure_svg(drawing.draw(getattr(diagnosis, found.name)))
                sections.append(Figure(svg, drawing.label, drawing.caption))
        if found.name == "interference" and history is not None and history.diagnostics:
            svg = plots.figure_svg(figures.cosines_in_training(history.diagnostics))
            label = "Mean cosines of the gradients of two times during training."
            sections.append(Figure(svg, label, "Logged in training, in the denoiser, always on the same rows."))
    return sections
