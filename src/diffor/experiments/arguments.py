"""The paper's four arguments against other paradigms, one after the other, on data whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from diffor import plots
from diffor.experiments.findings import Findings
from diffor.paradigms import dependency_error, mean_collapse, quantisation_error, vocabulary_tradeoff
from diffor.report import Figure, Heading, Paragraph, Section


@dataclass(frozen=True)
class Argument:
    """One of the arguments: how it is measured and drawn."""

    name: str
    title: str
    measure: Callable[[int, bool], Any]
    draw: Callable[[Any], Any]
    label: str


ARGUMENTS = (
    Argument(
        "mean_collapse",
        "Squared error answers between the modes",
        mean_collapse,
        plots.modes_and_answers,
        "A true density of two modes, and where methods answer",
    ),
    Argument(
        "dependency_error",
        "Independent bits lose what ties them together",
        dependency_error,
        plots.independent_bits,
        "Information lost by independent bits against their number",
    ),
    Argument(
        "vocabulary_tradeoff",
        "Tokens: a vocabulary too small or too large",
        vocabulary_tradeoff,
        plots.vocabulary_errors,
        "Errors of token models against the size of the vocabulary",
    ),
    Argument(
        "quantisation_error",
        "Bins have a floor, increments have none",
        quantisation_error,
        plots.bins_and_increments,
        "Errors of bins and of increments against their number",
    ),
)


def run_paradigms(
    size: str | None = None,
    seed: int = 0,
    log: Callable[[str], object] = print,
    arguments: Sequence[Argument] = ARGUMENTS,
) -> Findings:
    """Measure the arguments; ``small`` is the same as the full size, which takes minutes, ``quick`` takes seconds."""
    said: list[str] = []
    numbers: dict[str, Any] = {}
    sections: list[Section] = []
    for place, argument in enumerate(arguments, start=1):
        log(f"{place} of {len(arguments)}: {argument.title}")
        found = argument.measure(seed, size == "quick")
        sentences = found.sentences()
        said += [f"{argument.title}.", *sentences]
        numbers[argument.name] = asdict(found)
        sections += [
            Heading(argument.title),
            *(Paragraph(text) for text in sentences),
            Figure(plots.figure_svg(argument.draw(found)), argument.label),
        ]
    return Findings(said, numbers, sections)
