"""The paper's theory, measured on a fitted model: rows and targets in, a diagnosis and the page about it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from diffor.core.target import GradeScale
from diffor.errors import UserError
from diffor.estimators.base import OrdinalEstimator
from diffor.estimators.chain import has_increments, own_features
from diffor.paper.theory import figures
from diffor.paper.theory.analysis import Numbers
from diffor.paper.theory.diagnosis import diagnose
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table
from diffor.training.loop import History, limit_threads


def diagnose_model(model: OrdinalEstimator, X: Any, y: ArrayLike, n_samples: int | None = None) -> Numbers:
    """Measure what the paper proves on the first member of a fitted model with a chain.

    The theorems speak of one chain, so other members are left out. ``y`` holds values, or codes of grades from 0 on.
    Use rows that were not trained on. The answer is that of :func:`~diffor.paper.theory.diagnosis.diagnose`.

    **Shape:** X of n rows, y ``(n,)``.
    """
    if not has_increments(model):
        raise UserError(
            f"only a method with a chain of increments has a theory to measure, but got "
            f"method={model.settings_.method!r}; fit DiffoRRegressor('paper') or DiffoRClassifier('paper')"
        )
    member, features, keys = own_features(model, X)
    unit = torch.from_numpy(np.asarray(model.scale_.to_unit(y), dtype=np.float32)).to(features)
    if len(features) != len(unit):
        raise UserError(
            f"X and y must be equally long, but X has {len(features)} rows and y {len(unit)} targets; "
            "pass both from one table"
        )
    n_grades = model.scale_.n_grades if isinstance(model.scale_, GradeScale) else None
    method: Any = member.method
    with limit_threads(model.n_jobs):
        return diagnose(method, features, unit, keys, n_grades, n_samples)


Drawing = tuple[Callable[[Numbers], Any], str, str]
"""A figure: how it is drawn, what it shows to those who cannot see it, and its caption."""


class Explanation(NamedTuple):
    """How a measurement is to be read: what is true of any figures, the columns of its table, and its drawings."""

    title: str
    text: str
    columns: Sequence[str]
    """Names of equally long lists among its numbers."""
    drawings: Sequence[Drawing]


EXPLANATIONS = {
    "noise": Explanation(
        "From noise errors to value errors",
        "A squared error of the noise counts (spread / signal)² times in the estimate, so errors of noise cannot be "
        "compared between times. The identity is algebra: it says nothing about how good the model is; a deviation "
        "above 0.0001 of its size is more than rounding. Times without any signal are left out.",
        ("times", "amplification", "noise_mse", "clean_mse"),
        [(
            figures.noise_and_value_errors,
            "Errors of the noise and of the estimate at each time.",
            "Circles and crosses are the two sides of the identity: each pair stands on one point.",
        )],
    ),
    "ordinal": Explanation(
        "From value errors to wrong grades",
        "Estimates are the means of each row's chains. The bound on the share of wrong grades says something only "
        "where it is below 1; an error rate above its bound would mean that something is wrong.",
        (),
        [(
            figures.error_rates_and_bounds,
            "Share of wrong grades beside the bound on it.",
            "A bound of 1 or more is true of every model; triangles at the upper edge lie above it.",
        )],
    ),
    "selection": Explanation(
        "The best time of the chain",
        "One half of the rows chooses the best time, the other judges it. On the rows that choose, it is no worse than "
        "any other by definition. A gain of less than two standard errors may be chance. The best time of each row "
        "(row oracle) takes the truth to be chosen.",
        ("times", "mse", "held_out_mse"),
        [],
    ),
    "fusion": Explanation(
        "Times combined",
        "Gains are on rows that the weights were not fitted on; those of less than two standard errors may be chance. "
        "The covariance bound promises a gain only where it is below the error of the best single time.",
        ("times", "weights"),
        [(
            figures.errors_along_the_chain,
            "Squared error of the value read off the chain at each time, and of the fusion of all times.",
            "Values are means over the chains of a row. The best time of each row, here of the rows that choose, "
            "cannot be told without the truth.",
        ), (
            figures.weights_of_times,
            "Weight of each time in the fusion.",
            "Weights of both signs mean that the fusion extrapolates, from how estimates change along the chain.",
        )],
    ),
    "representation": Explanation(
        "One embedding against many",
        "The estimate at one time is a part of those at all times, so a linear readout of all cannot fit its own rows "
        "worse; only held-out rows tell whether they help. With fewer than two rows for each of its dimensions, a risk "
        "is mostly chance.",
        (),
        [(
            figures.embeddings_compared,
            "Risk of a linear readout of one time, of all times and of the heads' hidden layers.",
            "The effective rank is the squared sum of the singular values over the sum of their squares, of centred "
            "columns (nuclear rank).",
        )],
    ),
    "interference": Explanation(
        "Do times pull in different directions?",
        "Conflicts are the share of pairs of times with a negative cosine; descent is the squared norm of the joint "
        "gradient over the sum of the single ones: below 1, times take from each other. In the separate heads the "
        "products are zero by construction. Low figures after training are no harm by themselves: where a shared part "
        "is at rest, its gradients cancel. A model with one head has no pairs.",
        (),
        [(
            figures.gradient_cosines,
            "Cosines of the gradients of each pair of times, in five sets of parameters.",
            "One point for each pair of times. Left of zero a step that helps one time harms the other.",
        )],
    ),
    "contraction": Explanation(
        "From coarse to fine",
        "The paper assumes that each step shrinks the distance to the true path: factors below 1 for every row. "
        "Distances are in the range from -1 to 1, so a bound of 2 or more says nothing. The row bound takes each row's "
        "own factors and errors, the uniform bound the largest of all rows, as the paper states it. Forgetting is how "
        "many times as far apart two chains of one row end as they start: 0 would be one answer whatever the noise, "
        "with no spread to predict.",
        ("times", "mean_factors", "largest_factors", "mean_terms", "between_starts", "spectral"),
        [(
            figures.contraction_of_steps,
            "Factors by which each step of the chain changes distances.",
            "The true path is the corrupted target with the noise that the chain started from.",
        )],
    ),
    "scales": Explanation(
        "Which increments can be told at which noise",
        "At the highest noise only the features tell anything; at the lowest, estimates start from the almost "
        "uncorrupted truth. A negative share is worse than a constant. Order agreement is the rank correlation of the "
        "heads' times with the noise at which half of an increment's variance is explained; a dash means that there is "
        "no order to compare, or that an increment never changes. Negative information means that predictions mislead.",
        ("increments", "aligned_times", "explained_at_heads", "half_times", "entropy", "predictive_entropy",
         "information"),
        [(
            figures.variance_by_scale,
            "Share of each increment's variance that is explained at each time.",
            "Estimates start from the corrupted truth, so all is explained where noise is low; the upper rows are what "
            "the features tell. Increment k covers the k-th part of the range.",
        ), (
            figures.bits_by_scale,
            "Bits of each increment, and those that a prediction saves.",
            "Increments are counted one by one, although they depend on each other. Where the diamond stands above the "
            "bar, predictions are surer than they are right.",
        )],
    ),
}  # fmt: skip
"""All measurements, in the order in which they are shown."""


def diagnosis_sections(
    diagnosis: Numbers, about: str, history: History | None = None, has_figures: bool = True
) -> list[Section]:
    """The parts of a page about a diagnosis; with a history that logged cosines, also these."""
    measurements, sections = diagnosis["measurements"], list[Section]([Paragraph(about)])
    for name, (title, text, columns, drawings) in EXPLANATIONS.items():
        sections += [Heading(title), *tables_of(measurements[name], columns), Paragraph(text)]
        if has_figures:
            sections += [Figure(plots.figure_svg(draw(measurements)), *words) for draw, *words in drawings]
        if has_figures and name == "interference" and history is not None and history.diagnostics:
            svg = plots.figure_svg(figures.cosines_in_training(history.diagnostics))
            label = "Mean cosines of the gradients of two times during training."
            sections.append(Figure(svg, label, "Logged in training, in the denoiser, always on the same rows."))
    return sections


def tables_of(numbers: Numbers, columns: Sequence[str]) -> list[Table]:
    """Single numbers, lists side by side, and dicts below each other, as tables."""
    single = [
        {"number": name.replace("_", " "), "value": value}
        for name, value in numbers.items()
        if value is None or isinstance(value, int | float)
    ]
    lists = [dict(zip(columns, row, strict=True)) for row in zip(*(numbers[name] for name in columns), strict=True)]
    kinds: Numbers = numbers.get("gradients", numbers)
    named = [{"of": name, **value} for name, value in kinds.items() if isinstance(value, dict)]
    return [Table.of(rows) for rows in (single, lists, numbers.get("cases", []), named) if rows]
