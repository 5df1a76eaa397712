"""Dials: what one setting is worth, all others staying as they are.

The cells themselves say which setting a method turns: the one in which it differs from the method ``base``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffor.bench.leaderboard import Cells, Measure, names_in
from diffor.errors import UserError
from diffor.estimators.settings import PRESETS
from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import (
    ALL_SETS,
    COMPARED,
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

BASE, STEPS = "base", "n_steps"
Value = float | str


@dataclass(frozen=True)
class Dial:
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


def read_dials(cells: Cells, names: Mapping[str, str], headings: Mapping[str, str]) -> Findings:
    """What the cells say about each setting that is turned.

    ``names`` are methods that stand for a place on another setting's dial, as "no attention" does for 0 attention
    heads; ``headings`` say what settings mean.
    """
    dials = find_dials(cells, names)
    methods = [name for name in names_in(cells, 1) if any(name in dial.methods.values() for dial in dials)]
    found = contrasts(cells, BASE, methods)
    sections: list[Section] = []
    said = []
    for dial in dials:
        title = headings.get(dial.setting, dial.setting)
        sections += [Heading(title), Paragraph(_base_words(dial))]
        for measure in COMPARED:
            own = [one for one in found if one.metric == measure.name and one.method in dial.methods.values()]
            if own:
                sections += _figures(cells, dial, own, measure, title)
                sections.append(_table(dial, own, measure))
        own_words = [*_sentences(dial, found, title), *_latency_words(cells, dial, title)]
        sections += [Paragraph(text) for text in own_words]
        said += own_words
    numbers = {"base": BASE, "dials": {dial.setting: dict(dial.positions()) for dial in dials},
               "prediction_time": {method: prediction_time(cells, method) for method in methods},
               "contrasts": as_numbers(found)}  # fmt: skip
    return Findings(said, numbers, sections)


def prediction_time(cells: Cells, method: str) -> float | None:
    """How many times as long as the base a method takes to predict: the median over the cells that both have."""
    ratios = []
    for (dataset, name, seed), line in cells.items():
        base = cells.get((dataset, BASE, seed), {})
        if name == method and line.get("predict_seconds") and base.get("predict_seconds"):
            ratios.append(line["predict_seconds"] / base["predict_seconds"])
    return float(np.median(ratios)) if ratios else None


def find_dials(cells: Cells, names: Mapping[str, str] | None = None) -> list[Dial]:
    """The settings that methods turn, in the order of the lines; a method may turn its decoding beside its steps."""
    names = names or {}
    lines = {method: line for (_, method, _), line in cells.items()}
    if BASE not in lines:
        raise UserError(f"there must be cells of the method {BASE!r}, but methods are {', '.join(lines)}")
    base = lines[BASE]["settings"]
    turned: dict[str, dict[Value, str]] = {}
    values: dict[str, Value | None] = {}
    for method, line in lines.items():
        changed = {key: value for key, value in line["settings"].items() if base.get(key) != value}
        if method == BASE or not line["settings"] or not changed:
            continue
        setting, value = _turned(method, changed, names)
        turned.setdefault(setting, {})[value] = method
        values[setting] = _base_value(setting, base, len(changed) > 1)
    return [Dial(setting, methods, values[setting]) for setting, methods in turned.items()]


def _turned(method: str, changed: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, Value]:
    """The setting that a method turns, and how far."""
    if method in names:
        return names[method], 0
    *beside, last = changed
    name = f"{last}, {', '.join(f'{key}={changed[key]}' for key in beside)}" if beside else last
    return name, changed[last]


def _base_value(setting: str, base: Mapping[str, Any], is_beside: bool) -> Value | None:
    """What the base has there: as its cells say, or as its preset does."""
    if is_beside:
        return None
    of_method = inspect.signature(IncrementDiffusion).parameters
    preset = of_method[setting].default if setting in of_method else getattr(PRESETS["paper"], setting, None)
    value: Value | None = base.get(setting, preset)
    return value


def _base_words(dial: Dial) -> str:
    turned = ", ".join(str(value) for value, _ in dial.positions())
    base = f"; the base has {dial.base_value}" if dial.base_value is not None else ""
    return f"Values {turned}{base}. Everything else is as in the base, and rows are the same, seed by seed."


def _figures(cells: Cells, dial: Dial, own: Sequence[Contrast], measure: Measure, title: str) -> list[Section]:
    """A curve over the dial's values, one line per data set; nothing for values that are words."""
    positions = dial.positions()
    if not dial.is_numeric or len(positions) < 3:
        return []
    scale, unit = (100, ", percent") if is_relative(measure) else (1, "")
    better = "higher" if measure.greater_is_better else "lower"
    known = {(one.dataset, one.method): one for one in own}
    series, bars = {}, {}
    for dataset in [name for name in names_in(cells, 0) if any(one.dataset == name for one in own)]:
        points = [known.get((dataset, method)) for _, method in positions]
        series[dataset] = [_height(one, method, scale) for one, (_, method) in zip(points, positions, strict=True)]
        bars[dataset] = [0.0 if one is None else scale * (one.high - one.mean) for one in points]
    values = [float(value) for value, _ in positions]
    log = values[0] > 0 and values[-1] / values[0] > 20
    label = f"{measure.heading} less the base's{unit}; {better} is better"
    ax = figures.quality_curve(values, series, bars, title, label, log)
    return [Figure(plots.figure_svg(ax), f"{measure.heading} against {title}")]


def _height(one: Contrast | None, method: str, scale: float) -> float:
    if one is not None:
        return scale * one.mean
    return 0.0 if method == BASE else float(np.nan)


def _table(dial: Dial, own: Sequence[Contrast], measure: Measure) -> Table:
    places = {method: value for value, method in dial.methods.items()}
    rows = tuple(
        (str(places[one.method]), one.dataset, *level_cells(one, measure), amount(one, measure), str(one.n_seeds))
        for one in own
    )  # fmt: skip
    strong = frozenset((place, 4) for place, one in enumerate(own) if one.is_clear)
    direction = "higher" if measure.greater_is_better else "lower"
    caption = f"{measure.heading}, {direction} is better. Bold where the interval leaves zero out."
    return Table(caption, (dial.setting, "data set", "base", "here", "difference", "seeds"), rows, strong)


def _latency_words(cells: Cells, dial: Dial, title: str) -> list[str]:
    """What steps cost in time, for the dials that turn their number."""
    times = [(value, prediction_time(cells, method)) for value, method in dial.positions() if method != BASE]
    if STEPS not in dial.setting or any(taken is None for _, taken in times):
        return []
    parts = [f"{value}: {taken:.2f}" for value, taken in times]
    return [f"{title}, time of a prediction as a multiple of the base's: {'; '.join(parts)}."]


def _sentences(dial: Dial, found: Sequence[Contrast], title: str) -> list[str]:
    """One sentence for each dial: how the CRPS of each of its values differs from that of the base."""
    own = [one for one in found if one.metric == "crps" and one.method in dial.methods.values()]
    pooled = [one for one in own if one.dataset == ALL_SETS] or own
    if not pooled:
        return []
    places = {method: value for value, method in dial.methods.items()}
    measure = next(measure for measure in COMPARED if measure.name == "crps")
    parts = [f"{places[one.method]}: {amount(one, measure)}, {one.verdict()}" for one in pooled]
    base = f" against {dial.base_value}" if dial.base_value is not None else " against the base"
    return [f"{title}, CRPS{base}: {'; '.join(parts)}."]
