"""The ablation: what each part of the model is worth, as paired differences to the full model, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from diffor.bench.leaderboard import Cells, Measure, names_in
from diffor.bench.published import read_published
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import (
    ALL_SETS,
    COMPARED,
    CONFIDENCE,
    Contrast,
    Findings,
    contrast_table,
    contrasts,
    is_relative,
)
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section

FULL = "a-full"
VARIANTS = {
    "b-flow-matching": ("with flow matching for diffusion", "DiffoR with flow matching"),
    "c-mlp": ("with a multilayer perceptron for the transformer", "DiffoR with an MLP for the transformer"),
    "d-without-mia": ("without MIA (one increment)", "DiffoR without MIA"),
    "e-without-ddp": ("without DDP (all heads at one time)", "DiffoR without DDP"),
    "f-without-both": ("without both", "DiffoR without both"),
    "g-velocity": ("with velocity for noise prediction", ""),
}
"""Rows (b) to (f) of the paper's table and one of ours: what they are, and how the published figures are called."""
PAPER_SET = "icaa17k"


def read_ablation(cells: Cells) -> Findings:
    """What the cells of the run file ``ablation`` say."""
    present = [name for name in VARIANTS if name in names_in(cells, 1)]
    found = contrasts(cells, FULL, present)
    published = {measure.name: published_differences(measure) for measure in COMPARED}
    sections: list[Section] = [
        Heading("What each part is worth"),
        Paragraph(
            "Each variant is trained and tested on the same rows as the full model, seed by seed. Errors are compared "
            f"as shares of the full model's, correlations as differences; intervals hold {CONFIDENCE:.0%} by Student's "
            "t over the seeds, which are different splits of the same rows, so that they are a little narrow."
        ),
    ]
    for measure in COMPARED:
        chosen = [one for one in found if one.metric == measure.name]
        if chosen:
            printed = {name: _plain(value, measure) for name, value in published[measure.name].items()}
            names = ("variant", {name: f"{name} ({words})" for name, (words, _) in VARIANTS.items()})
            caption = "The paper's differences are those on ICAA17K."
            sections += [Heading(measure.heading, 3), _figure(chosen, measure, published[measure.name])]
            sections.append(contrast_table(chosen, measure, names, caption, ("paper", printed)))
    numbers = {"reference": FULL, "contrasts": [asdict(one) for one in found], "published": published}
    return Findings(numbers, sections)


def published_differences(measure: Measure) -> dict[str, float]:
    """What the paper prints for each variant less the full model, on its one data set; relative where errors are.

    >>> round(published_differences(COMPARED[0])["d-without-mia"], 3)
    0.082
    """
    figures = read_published().figures(PAPER_SET, measure.name, variants=True)
    known = {figure.method: figure.value for figure in figures}
    if "DiffoR" not in known:
        return {}
    full = known["DiffoR"]
    scale = full if is_relative(measure) else 1.0
    return {name: (known[title] - full) / scale for name, (_, title) in VARIANTS.items() if title in known}


def _plain(value: float, measure: Measure) -> str:
    return f"{100 * value:+.1f} %" if is_relative(measure) else f"{value:+.3f}"


def _figure(chosen: Sequence[Contrast], measure: Measure, published: dict[str, float]) -> Figure:
    """All differences; the paper's stand where all data sets are joined, or beside the only one."""
    sets = {one.dataset for one in chosen}
    shown = ALL_SETS if ALL_SETS in sets else min(sets)
    printed = [published.get(one.method, math.nan) if one.dataset == shown else math.nan for one in chosen]
    scale = 100 if is_relative(measure) else 1
    unit = "percent of the full model's" if is_relative(measure) else "difference"
    worse = "left" if measure.greater_is_better else "right"
    ax = figures.ablation_forest(
        [f"{one.method}, {one.dataset}" for one in chosen],
        [scale * one.mean for one in chosen],
        [scale * one.low for one in chosen],
        [scale * one.high for one in chosen],
        f"{measure.heading} less the full model's, {unit}; {worse} of zero is worse",
        [scale * value for value in printed] if published else None,
    )
    for name in ax.get_yticklabels():
        name.set_fontweight("bold" if name.get_text().endswith(ALL_SETS) else "normal")
    caption = "Crosses are the differences that the paper prints, on ICAA17K." if published else ""
    return Figure(plots.figure_svg(ax), f"{measure.heading} of the variants less that of the full model", caption)
