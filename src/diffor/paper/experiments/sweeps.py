"""Sweeps of one hyperparameter each: what it is worth, all others staying as they are.

The cells themselves say which setting a method changes: the one in which it differs from the method ``base``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from diffor.bench.leaderboard import Cells, names_in
from diffor.errors import UserError
from diffor.estimators.settings import PRESETS
from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import COMPARED, Findings, contrast_table, contrasts
from diffor.reports import plots
from diffor.reports.html import Figure, Heading, Section, Table

BASE, STEPS = "base", "n_steps"
Value = float | str


@dataclass(frozen=True)
class Sweep:
    """A setting and the methods that differ from the base in it alone, by the value that they give it."""

    setting: str
    methods: Mapping[Value, str]
    base_value: Value | None
    """None where the base has no such value, as a number of steps of another decoding."""

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers, so that a curve can be drawn over them."""
        return not any(isinstance(value, str) for value in self.methods)

    def positions(self) -> list[tuple[Value, str]]:
        """All values with their methods, the base among them, numbers in rising order."""
        known = dict(self.methods)
        if self.base_value is not None:
            known.setdefault(self.base_value, BASE)
        return sorted(known.items(), key=lambda pair: pair[0]) if self.is_numeric else list(known.items())


def read_sweeps(cells: Cells, names: Mapping[str, str], headings: Mapping[str, str]) -> Findings:
    """What the cells say about each setting that is swept.

    ``names`` are methods that stand for the value 0 of another setting, as "no attention" does for 0 attention heads;
    ``headings`` say what settings mean.
    """
    sweeps = find_sweeps(cells, names)
    methods = [name for name in names_in(cells, 1) if any(name in sweep.methods.values() for sweep in sweeps)]
    found, times = contrasts(cells, BASE, methods), {method: prediction_time(cells, method) for method in methods}
    sections: list[Section] = []
    for sweep in sweeps:
        title, positions = headings.get(sweep.setting, sweep.setting), sweep.positions()
        base = "" if sweep.base_value is None else f"The base has {sweep.base_value}. "
        caption = f"{base}Everything else is as in the base, and rows are the same, seed by seed."
        values = (sweep.setting, {method: value for value, method in sweep.methods.items()})
        sections.append(Heading(title))
        for measure in COMPARED:
            own = [one for one in found if one.metric == measure.name and one.method in sweep.methods.values()]
            if own and sweep.is_numeric and len(positions) > 2:
                counts = [(float(value), method) for value, method in positions]
                ax = figures.quality_curve(counts, own, measure, BASE, title)
                sections.append(Figure(plots.figure_svg(ax), f"{measure.heading} against {title}"))
            if own:
                sections.append(contrast_table(own, measure, values, caption))
        taken = [(str(value), times[method]) for value, method in positions if method != BASE]
        if STEPS in sweep.setting and all(time is not None for _, time in taken):
            records = [{sweep.setting: value, "time of a prediction": time} for value, time in taken]
            sections.append(Table.of(records, "As a multiple of the base's."))
    numbers = {
        "base": BASE,
        "sweeps": {sweep.setting: dict(sweep.positions()) for sweep in sweeps},
        "prediction_time": times,
        "contrasts": [asdict(one) for one in found],
    }
    return Findings(numbers, sections)


def prediction_time(cells: Cells, method: str) -> float | None:
    """How many times as long as the base a method takes to predict: the median over the cells that both have."""
    ratios = []
    for (dataset, name, seed), line in cells.items():
        base = cells.get((dataset, BASE, seed), {})
        if name == method and line.get("predict_seconds") and base.get("predict_seconds"):
            ratios.append(line["predict_seconds"] / base["predict_seconds"])
    return float(np.median(ratios)) if ratios else None


def find_sweeps(cells: Cells, names: Mapping[str, str] | None = None) -> list[Sweep]:
    """The settings that methods change, in the order of the lines; decoding may change beside the steps."""
    names = names or {}
    lines = {method: line for (_, method, _), line in cells.items()}
    if BASE not in lines:
        raise UserError(f"there must be cells of the method {BASE!r}, but methods are {', '.join(lines)}")
    base, of_method = lines[BASE]["settings"], inspect.signature(IncrementDiffusion).parameters
    found: dict[str, Sweep] = {}
    for method, line in lines.items():
        changed = {key: value for key, value in line["settings"].items() if base.get(key) != value}
        if method == BASE or not changed:
            continue
        *beside, setting = changed
        value, base_value = changed[setting], None
        if method in names:
            setting, value = names[method], 0
        elif beside:
            setting = f"{setting}, {', '.join(f'{key}={changed[key]}' for key in beside)}"
        if not beside:
            preset = of_method[setting].default if setting in of_method else getattr(PRESETS["paper"], setting, None)
            base_value = base.get(setting, preset)
        methods = found[setting].methods if setting in found else {}
        found[setting] = Sweep(setting, {**methods, value: method}, base_value)
    return list(found.values())
