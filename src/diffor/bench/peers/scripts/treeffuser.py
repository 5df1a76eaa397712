"""Treeffuser, run by worker.py in an environment of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rows = NDArray[np.float64]

LIBRARY = "treeffuser"
STATE_PLACE = 0
"""The column of the trees that holds the noisy target; those of the row follow, and the time is the last."""
TABLE_ROWS = 512
"""Rows whose score tables are held at a time: about half a megabyte each."""


def as_frame(x: Rows, n_levels: dict[str, int]) -> pd.DataFrame:
    """Codes as pandas categories, the other columns as numbers. **Shape:** ``(n, d)``."""
    columns: dict[str, Any] = {}
    for place in range(x.shape[1]):
        columns[f"x{place}"] = x[:, place]
        if str(place) in n_levels:
            codes = np.nan_to_num(x[:, place], nan=-1).astype(np.int64)
            columns[f"x{place}"] = pd.Categorical.from_codes(codes, pd.RangeIndex(n_levels[str(place)]))
    if len(n_levels) == x.shape[1]:
        columns["constant"] = np.zeros(len(x))  # it cannot scale a table that has no numbers
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def draw_starts_apart(sde: Any, seed: int) -> None:
    """Let every chunk of samples start from points of its own.

    ``sample(seed=...)`` gives the same seed to the start points of all chunks, and to the noise of the first chunk as
    well: starts repeat every ``n_parallel`` samples, and in the first chunk start and noise are the same numbers. In
    version 0.2.0 no two samples are equal all the same, because the noise of each chunk has a seed of its own, but
    seeded samples spread wider (mean standard deviation 1.8 to 3.6 in four trials; 1.7 to 1.8 without a seed, 1.95 so).
    """
    draw, chunk = sde.sample_from_theoretical_prior, count()
    sde.sample_from_theoretical_prior = lambda shape, seed=seed: draw(shape, seed=[seed, 1, next(chunk)])


def fit(task: dict[str, Any]) -> Callable[[Rows], Rows]:
    """Fit Treeffuser with its defaults. **Shape:** the function it returns, rows ``(n, d)`` -> ``(n, n_samples)``.

    The setting ``tables`` looks scores up (:class:`ScoreTables`) instead of asking LightGBM for each draw and step: the
    same distribution in seconds instead of minutes, which are then not Treeffuser's own.
    """
    library = importlib.import_module(LIBRARY)
    settings, seed = dict(task["settings"]), int(task["seed"])
    with_tables = settings.pop("tables", False)
    drawing = {name: settings.pop(name) for name in ("n_parallel", "n_steps") if name in settings}
    model = library.Treeffuser(**{"seed": seed, "n_jobs": task["n_threads"], **settings})
    # It takes no validation rows. Early stopping looks at a tenth of the rows that it is given, and it trains on those
    # too; the validation rows of the problem stay unused rather than being trained on.
    model.fit(as_frame(task["x"], task["n_levels"]), task["y"])
    prior, n_samples = model.sde.sample_from_theoretical_prior, int(task["n_samples"])
    if with_tables:
        look_scores_up(model)

    def predict(x: Rows) -> Rows:
        model.sde.sample_from_theoretical_prior = prior
        draw_starts_apart(model.sde, seed)
        frame, size = as_frame(x, task["n_levels"]), TABLE_ROWS if with_tables else len(x)
        blocks = [frame[first : first + size] for first in range(0, len(x), size)]
        # Noise is seeded by the number of the sample, beginning with the seed that is given.
        seeds = range(seed, seed + n_samples * len(blocks), n_samples)
        samples = [
            model.sample(block, n_samples, seed=own, **drawing) for block, own in zip(blocks, seeds, strict=True)
        ]
        return np.asarray(np.transpose(np.concatenate(samples, axis=1)))

    return predict


def look_scores_up(model: Any) -> None:
    """Let a fitted Treeffuser read its scores from tables, which are made anew for the rows of each call."""
    (trees,) = model.score_model.models
    tables = ScoreTables(trees.booster_)
    model.score_model.models = [tables]
    scale_rows = model._x_scaler.transform

    def scale_and_read(x: Rows) -> Rows:
        scaled: Rows = scale_rows(x)
        tables.read(scaled)
        return scaled

    model._x_scaler.transform = scale_and_read


class ScoreTables:
    """The sum of a booster's trees for fixed rows, as tables over time and state, in which draws are looked up.

    The trees read ``(state, row, time)``. For one row they are constant on rectangles of state and time, whose borders
    are thresholds of the trees, so one walk through the trees answers for all draws at all times. LightGBM walks
    through them again for every draw and step; the answers are equal but for the order of summation.
    """

    def __init__(self, booster: Any) -> None:
        model = booster.dump_model()
        self.trees = [tree["tree_structure"] for tree in model["tree_info"]]
        self.time_place = model["max_feature_idx"]
        self.state_cuts, self.time_cuts = (_thresholds(self.trees, place) for place in (STATE_PLACE, self.time_place))
        self.tables: Rows = np.empty((0, 0, 0))

    def read(self, x: Rows) -> None:
        """Make the tables of some rows. **Shape:** ``(n, d)``."""
        self.columns = np.ascontiguousarray(x.T)
        # A leaf adds its value where its rectangle begins and takes it away where it ends; sums do the rest.
        self.tables = np.zeros((len(self.time_cuts) + 2, len(self.state_cuts) + 2, len(x)))
        everywhere = (0, len(self.time_cuts) + 1), (0, len(self.state_cuts) + 1)
        for tree in self.trees:
            self._add(tree, *everywhere, np.ones(len(x), dtype=bool))
        for axis in (0, 1):
            np.cumsum(self.tables, axis=axis, out=self.tables)

    def predict(self, predictors: Rows, **_: Any) -> Rows:
        """What the booster would answer to the rows, as often as they follow each other, all at one time.

        **Shape:** ``(m * n, 1 + d + 1)`` -> ``(m * n,)``.
        """
        state = predictors[:, STATE_PLACE].reshape(-1, self.tables.shape[2])
        at_time = self.tables[np.searchsorted(self.time_cuts, predictors[0, self.time_place])]
        answer: Rows = at_time[np.searchsorted(self.state_cuts, state), np.arange(state.shape[1])].ravel()
        return answer

    def _add(self, node: Any, times: tuple[int, int], states: tuple[int, int], reached: NDArray[np.bool_]) -> None:
        """Add what the leaves below a node say about the rows that reach it, on a rectangle of places in the cuts."""
        if "leaf_value" in node:
            value = node["leaf_value"] * reached
            for time, sign in zip(times, (1, -1), strict=True):
                self.tables[time, states[0]] += sign * value
                self.tables[time, states[1]] -= sign * value
            return
        left, right, place = node["left_child"], node["right_child"], node["split_feature"]
        if place == STATE_PLACE:
            below, above = _parts(states, self.state_cuts, node["threshold"])
            self._add(left, times, below, reached)
            self._add(right, times, above, reached)
        elif place == self.time_place:
            below, above = _parts(times, self.time_cuts, node["threshold"])
            self._add(left, below, states, reached)
            self._add(right, above, states, reached)
        else:
            goes_left = _goes_left(node, self.columns[place - 1])
            for child, chosen in ((left, reached & goes_left), (right, reached & ~goes_left)):
                if chosen.any():
                    self._add(child, times, states, chosen)


def _thresholds(trees: list[Any], place: int) -> NDArray[np.float64]:
    """All values at which trees split a column, in order."""
    found, nodes = set(), list(trees)
    while nodes:
        node = nodes.pop()
        if "left_child" in node:
            nodes += [node["left_child"], node["right_child"]]
            if node["split_feature"] == place:
                found.add(node["threshold"])
    return np.array(sorted(found))


def _parts(span: tuple[int, int], cuts: NDArray[np.float64], threshold: float) -> tuple[Any, Any]:
    """The parts of a span of places that lie up to a threshold and beyond it."""
    border = min(max(int(np.searchsorted(cuts, threshold)) + 1, span[0]), span[1])
    return (span[0], border), (border, span[1])


def _goes_left(node: Any, column: Rows) -> NDArray[np.bool_]:
    """Which rows a node sends to its left child, by LightGBM's rules. **Shape:** ``(n,)``."""
    if node["decision_type"] == "==":
        return np.isin(column, [float(code) for code in node["threshold"].split("||")])
    known = column if node["missing_type"] == "NaN" else np.nan_to_num(column, nan=0.0)
    return np.where(np.isnan(known), bool(node["default_left"]), known <= node["threshold"])
