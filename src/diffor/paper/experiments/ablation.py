"""The ablation: what each part of the model is worth, as paired differences to the full model, beside the paper's."""

from __future__ import annotations

from dataclasses import asdict

from diffor.bench.leaderboard import Cells, Measure, names_in
from diffor.bench.published import read_published
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import COMPARED, Findings, amount, contrast_table, contrasts, is_relative
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
HOW = (
    "Each variant is trained and tested on the same rows as the full model, seed by seed. Errors are compared as "
    "shares of the full model's, correlations as differences; intervals hold 95 % by Student's t over the seeds, which "
    "are different splits of the same rows, so that they are a little narrow."
)
CROSSES = "Crosses are the differences that the paper prints, on ICAA17K."
PRINTED = "The paper's differences are those on ICAA17K."


def read_ablation(cells: Cells) -> Findings:
    """What the cells of the run file ``ablation`` say."""
    found = contrasts(cells, FULL, [name for name in VARIANTS if name in names_in(cells, 1)])
    published = {measure.name: published_differences(measure) for measure in COMPARED}
    titles = {name: f"{name} ({words})" for name, (words, _) in VARIANTS.items()}
    sections: list[Section] = [Heading("What each part is worth"), Paragraph(HOW)]
    for measure in COMPARED:
        chosen, differences = [one for one in found if one.metric == measure.name], published[measure.name]
        if chosen:
            svg = plots.figure_svg(figures.ablation_forest(chosen, measure, differences))
            label = f"{measure.heading} of the variants less that of the full model"
            printed = {name: amount(measure, value) for name, value in differences.items()}
            sections += [
                Heading(measure.heading, 3),
                Figure(svg, label, CROSSES if differences else ""),
                contrast_table(chosen, measure, ("variant", titles), PRINTED, ("paper", printed)),
            ]
    numbers = {"reference": FULL, "contrasts": [asdict(one) for one in found], "published": published}
    return Findings(numbers, sections)


def published_differences(measure: Measure) -> dict[str, float]:
    """What the paper prints for each variant less the full model, on its one data set; relative where errors are."""
    figures = read_published().figures(PAPER_SET, measure.name, variants=True)
    known = {figure.method: figure.value for figure in figures}
    if "DiffoR" not in known:
        return {}
    full = known["DiffoR"]
    scale = full if is_relative(measure) else 1.0
    return {name: (known[title] - full) / scale for name, (_, title) in VARIANTS.items() if title in known}
