"""The paper's four arguments against other paradigms, one after the other, on data whose truth is known.

Each takes minutes, so what is found is kept as a line of a file, and a run that was stopped goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffor.bench.run import append_line, read_lines
from diffor.paper.experiments.contrasts import Findings
from diffor.paper.paradigms import figures
from diffor.paper.paradigms.collapse import collapse_tables, mean_collapse
from diffor.paper.paradigms.dependency import dependency_error, dependency_tables
from diffor.paper.paradigms.quantisation import quantisation_error, quantisation_tables
from diffor.paper.paradigms.vocabulary import vocabulary_tables, vocabulary_tradeoff
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Section, Table

DATA = "known laws"
"""What lines name as their data set."""
SINGLE = "Rows that methods are trained on, seeds, whose standard deviation stands behind ±, and facts of the law."


class Paradigm(NamedTuple):
    """An argument against another paradigm: how it is measured, told and drawn."""

    name: str
    title: str
    measure: Callable[[int, bool], dict[str, Any]]
    tables: Callable[[dict[str, Any]], list[Table]]
    draw: Callable[[dict[str, Any]], Any]
    label: str

    def sections(self, found: dict[str, Any]) -> list[Section]:
        """The part of a page about it: single numbers, tables and the figure."""
        single = {name.replace("_", " "): value for name, value in found.items() if isinstance(value, int | float)}
        numbers = Table.of([{"number": name, "value": value} for name, value in single.items()], SINGLE)
        return [
            Heading(self.title),
            numbers,
            *self.tables(found),
            Figure(plots.figure_svg(self.draw(found)), self.label),
        ]


PARADIGMS = (
    Paradigm(
        "mean_collapse",
        "Squared error answers between the modes",
        mean_collapse,
        collapse_tables,
        figures.modes_and_answers,
        "A true density of two modes, and where methods answer",
    ),
    Paradigm(
        "dependency_error",
        "Independent bits lose what ties them together",
        dependency_error,
        dependency_tables,
        figures.independent_bits,
        "Information lost by independent bits against their number",
    ),
    Paradigm(
        "vocabulary_tradeoff",
        "Tokens: a vocabulary too small or too large",
        vocabulary_tradeoff,
        vocabulary_tables,
        figures.vocabulary_errors,
        "Errors of token models against the size of the vocabulary",
    ),
    Paradigm(
        "quantisation_error",
        "Bins have a floor, increments have none",
        quantisation_error,
        quantisation_tables,
        figures.bins_and_increments,
        "Errors of bins and of increments against their number",
    ),
)


def run_paradigms(
    size: str | None = None,
    seed: int = 0,
    log: Callable[[str], object] = print,
    paradigms: Sequence[Paradigm] = PARADIGMS,
    lines: Path | None = None,
) -> Findings:
    """Measure the paradigms; ``small`` is the same as the full size, which takes an hour, ``quick`` takes seconds.

    Those whose results for this seed are in the file ``lines`` are read from there, the others are added to it.
    """
    numbers: dict[str, Any] = {}
    sections: list[Section] = []
    for place, paradigm in enumerate(paradigms, start=1):
        found, parts = _known(lines, paradigm, seed)
        log(f"{place} of {len(paradigms)}: {paradigm.title}{f', which is in {lines} already' if parts else ''}")
        if not parts:
            found = paradigm.measure(seed, size == "quick")
            parts = paradigm.sections(found)
            if lines is not None:
                append_line(
                    lines, {"dataset": DATA, "method": paradigm.name, "seed": seed, "status": "ok", "found": found}
                )
        numbers[paradigm.name] = found
        sections += parts
    return Findings(numbers, sections)


def _known(lines: Path | None, paradigm: Paradigm, seed: int) -> tuple[dict[str, Any], list[Section]]:
    """What the last line about a paradigm and a seed says; nothing where there is none that can be read."""
    known = read_lines(lines)[0] if lines is not None and lines.exists() else []
    for line in reversed(known):
        if (line["method"], line["seed"]) == (paradigm.name, seed):
            try:
                return line["found"], paradigm.sections(line["found"])
            except (KeyError, TypeError):  # of a version that measured other things
                break
    return {}, []
