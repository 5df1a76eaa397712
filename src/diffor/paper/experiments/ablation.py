"""The ablation: what each part of the model is worth, as paired differences to the full model, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from diffor.bench.leaderboard import Cells, Measure, names_in
from diffor.bench.published import read_published
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import (
    ALL_SETS,
    COMPARED,
    CONFIDENCE,
    Contrast,
    amount,
    as_numbers,
    contrasts,
    is_relative,
    level_cells,
)
from diffor.paper.experiments.findings import Findings
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section, Table

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
            sections += [Heading(measure.heading, 3), _figure(chosen, measure, published[measure.name])]
            sections.append(_table(chosen, measure, published[measure.name]))
    numbers = {"reference": FULL, "contrasts": as_numbers(found), "published": published}
    return Findings(sentences(found, published), numbers, sections)


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


def sentences(found: Sequence[Contrast], published: dict[str, dict[str, float]]) -> list[str]:
    """A sentence for each variant, over all data sets where there are several."""
    said = []
    for name, (words, _) in VARIANTS.items():
        own = [one for one in found if one.method == name]
        pooled = [one for one in own if one.dataset == ALL_SETS] or own
        parts = []
        for measure in COMPARED:
            one = next((one for one in pooled if one.metric == measure.name), None)
            if one is not None:
                paper = published.get(measure.name, {}).get(name)
                beside = "" if paper is None else f"; the paper prints {_plain(paper, measure)}"
                verdict = one.verdict(measure.greater_is_better)
                parts.append(f"{measure.heading} {amount(one, measure)}, {verdict}{beside}")
        if parts:
            said.append(f"{words[0].upper()}{words[1:]}: {'. '.join(parts)}.")
    return said


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


def _table(chosen: Sequence[Contrast], measure: Measure, published: dict[str, float]) -> Table:
    rows = tuple(
        (
            one.method,
            one.dataset,
            *level_cells(one, measure),
            amount(one, measure),
            str(one.n_seeds),
            _plain(published[one.method], measure) if one.method in published else "-",
        )
        for one in chosen
    )
    strong = frozenset((place, 4) for place, one in enumerate(chosen) if one.is_clear)
    header = ("variant", "data set", "full", "here", "difference", "seeds", "paper")
    direction = "higher" if measure.greater_is_better else "lower"
    caption = (
        f"{measure.heading}, {direction} is better. Bold where the interval leaves zero out. The paper's differences "
        "are those on ICAA17K."
    )
    return Table(caption, header, rows, strong)
