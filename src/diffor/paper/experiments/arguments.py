"""The paper's four arguments against other paradigms, one after the other, on data whose truth is known.

Each takes minutes, so what is found is kept as a line of a file, and a run that was stopped goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffor.bench.run import append_line, read_lines
from diffor.paper.experiments.findings import Findings
from diffor.paper.paradigms import (
    DependencyError,
    MeanCollapse,
    QuantisationError,
    VocabularyTradeoff,
    dependency_error,
    figures,
    mean_collapse,
    quantisation_error,
    rebuild,
    vocabulary_tradeoff,
)
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Paragraph, Section

DATA = "known laws"
"""What lines name as their data set."""


@dataclass(frozen=True)
class Argument:
    """One of the arguments: what it finds, how it is measured and drawn."""

    name: str
    title: str
    kind: type[Any]
    measure: Callable[[int, bool], Any]
    draw: Callable[[Any], Any]
    label: str


ARGUMENTS = (
    Argument(
        "mean_collapse",
        "Squared error answers between the modes",
        MeanCollapse,
        mean_collapse,
        figures.modes_and_answers,
        "A true density of two modes, and where methods answer",
    ),
    Argument(
        "dependency_error",
        "Independent bits lose what ties them together",
        DependencyError,
        dependency_error,
        figures.independent_bits,
        "Information lost by independent bits against their number",
    ),
    Argument(
        "vocabulary_tradeoff",
        "Tokens: a vocabulary too small or too large",
        VocabularyTradeoff,
        vocabulary_tradeoff,
        figures.vocabulary_errors,
        "Errors of token models against the size of the vocabulary",
    ),
    Argument(
        "quantisation_error",
        "Bins have a floor, increments have none",
        QuantisationError,
        quantisation_error,
        figures.bins_and_increments,
        "Errors of bins and of increments against their number",
    ),
)


def run_paradigms(
    size: str | None = None,
    seed: int = 0,
    log: Callable[[str], object] = print,
    arguments: Sequence[Argument] = ARGUMENTS,
    lines: Path | None = None,
) -> Findings:
    """Measure the arguments; ``small`` is the same as the full size, which takes an hour, ``quick`` takes seconds.

    Those whose results for this seed are in the file ``lines`` are read from there, the others are added to it.
    """
    said: list[str] = []
    numbers: dict[str, Any] = {}
    sections: list[Section] = []
    for place, argument in enumerate(arguments, start=1):
        found = None if lines is None else _read(lines, argument, seed)
        log(f"{place} of {len(arguments)}: {argument.title}{'' if found is None else f', which is in {lines} already'}")
        if found is None:
            found = argument.measure(seed, size == "quick")
            if lines is not None:
                line = {"dataset": DATA, "method": argument.name, "seed": seed, "status": "ok", "found": asdict(found)}
                append_line(lines, line)
        sentences = found.sentences()
        said += [f"{argument.title}.", *sentences]
        numbers[argument.name] = asdict(found)
        sections += [
            Heading(argument.title),
            *(Paragraph(text) for text in sentences),
            Figure(plots.figure_svg(argument.draw(found)), argument.label),
        ]
    return Findings(said, numbers, sections)


def _read(lines: Path, argument: Argument, seed: int) -> Any:
    """What the last line about an argument and a seed says; None where there is none that can be read."""
    known = read_lines(lines)[0] if lines.exists() else []
    for line in reversed(known):
        if (line["method"], line["seed"]) == (argument.name, seed):
            try:
                return rebuild(argument.kind, line["found"])
            except (KeyError, TypeError):  # of a version that measured other things
                return None
    return None
