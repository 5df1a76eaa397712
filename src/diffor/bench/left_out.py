"""Sets that leave each person out once: a method's figure is that over all rows, whichever split tested them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffor.bench.leaderboard import Cells, Line, common_seeds, good_cells, names_in

MEANS = ("mae", "mae_native", "cs", "crps", "crps_truth", "coverage_90", "width_90", "interval_score_90", "held_90",
         "held_width_90", "accuracy", "rps")  # fmt: skip
"""Metrics that are means over rows, so that those of all rows follow from those of the parts. What orders rows, as a
correlation does, does not follow, and is left out."""

JOINED: dict[str, Callable[[Sequence[float]], Any]] = {
    "n_train": np.mean, "n_valid": np.mean, "fit_seconds": np.mean, "predict_seconds": np.sum,
}  # fmt: skip
"""What becomes of the other numbers of the parts."""


def pool_left_out(cells: Cells) -> Cells:
    """The cells, with one in place of all splits of a set that tests each row once, for every method.

    Every row counts once, not every split: a person with ten photos counts ten times as much as one with a single one.
    Methods are pooled over the splits that all of them have. Where these are not all that the set has, its name says
    so.
    """
    pooled: Cells = {}
    for dataset in names_in(cells, 0):
        own = {place: line for place, line in cells.items() if place[0] == dataset}
        good = good_cells(own)
        n_splits = max((line.get("n_splits") or 0 for line in good.values()), default=0)
        methods = names_in(good, 1)
        seeds = common_seeds(good, dataset, methods)
        if not n_splits or not seeds:
            pooled |= own
            continue
        title = dataset if len(seeds) == n_splits else f"{dataset} ({len(seeds)} of {n_splits} left out)"
        for method in methods:
            pooled[title, method, 0] = pool([good[dataset, method, seed] for seed in seeds], len(seeds))
        pooled |= {(title, *place[1:]): line for place, line in own.items() if line["status"] != "ok"}
    return pooled


def pool(lines: Sequence[Line], n_left_out: int) -> Line:
    """One line for the rows of several.

    >>> parts = [{"n_test": 1, "metrics": {"mae": 4.0}}, {"n_test": 3, "metrics": {"mae": 8.0}}]
    >>> pool(parts, 2)["metrics"]["mae"]
    7.0
    """
    rows = np.array([line["n_test"] for line in lines], dtype=np.float64)

    def over_rows(values: Sequence[Any]) -> Any:
        return np.tensordot(rows / rows.sum(), np.array(values, dtype=np.float64), axes=1).tolist()

    scores = [line["metrics"] for line in lines]
    known = set.intersection(*map(set, scores))
    joined = {name: over_rows([score[name] for score in scores]) for name in MEANS if name in known}
    if "rmse" in known:
        joined["rmse"] = float(np.sqrt(over_rows([score["rmse"] ** 2 for score in scores])))
    one = {**lines[0], "metrics": joined, "n_test": int(rows.sum()), "n_left_out": n_left_out}
    parts = [line.get("calibration") or {} for line in lines]
    of_levels = [name for name in ("coverage", "pit") if all(name in part for part in parts)]
    if of_levels:
        shares = {name: over_rows([part[name] for part in parts]) for name in of_levels}
        one["calibration"] = {**parts[0], **shares}
    for name, join in JOINED.items():
        if all(name in line for line in lines):
            one[name] = float(join([line[name] for line in lines]))
    return one
