"""``diffor evaluate``: measure a model on rows with known targets, beside the best constant answer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor import files
from diffor.commands.arguments import add_command, as_share
from diffor.commands.model_folder import (
    answered_chunks,
    columns_by_kind,
    decide,
    is_classifier,
    load_model,
    remembered_target,
    side_columns,
)
from diffor.commands.target_column import target_values
from diffor.commands.usage import UsageError, require_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from diffor.prediction import Prediction

    Answers = Iterator[tuple[files.Chunk, Any]]
    Scores = dict[str, tuple[float | None, float | None]]


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "evaluate",
        run,
        "measure a model on rows with known targets, beside the best constant answer",
        "diffor evaluate model test.csv",
        "diffor evaluate model test.parquet --target price --coverage 0.8 --json",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows with their targets")
    command.add_argument("--target", metavar="COL", help="column of the true values (default: as in fit)")
    command.add_argument("--duration", metavar="COL", help="column of the duration, where needed (default: as in fit)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--coverage", type=as_share, default=0.9, metavar="C", help="of the intervals (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print how good the model's answers are."""
    data, folder = Path(arguments.data), Path(arguments.model)
    names = files.column_names(data)
    model: Any = load_model(folder)
    target = arguments.target or remembered_target(folder)
    require_columns([target], names, data)
    truth = _truth(model, target, data)
    columns = columns_by_kind(model, names, data)
    sides = side_columns(model, folder, arguments.duration, names, data)
    if is_classifier(model):
        statistic = model.decision
        with answered_chunks(data, columns, _grades(model), sides=sides) as answers:
            scores = _score_grades(len(model.classes_), truth, answers)
    else:
        statistic = model.default_statistic
        with answered_chunks(data, columns, _amounts(model, arguments.coverage), sides=sides) as answers:
            scores = _score_amounts(truth, answers, arguments.coverage, statistic)
        if model.conformal_ is None and not model.has_distribution:  # a point covers nothing, and does not claim to
            scores |= {name: (None, scores[name][1]) for name in ("coverage", "interval_width")}
    if arguments.json:
        facts = {"model": type(model).__name__, "method": model.settings_.method, "statistic": statistic,
                 "target": target, "rows": len(truth), "nominal_coverage": None
                 if is_classifier(model) else arguments.coverage}  # fmt: skip
        pairs = {name: {"model": ours, "constant": constant} for name, (ours, constant) in scores.items()}
        print(json.dumps({**facts, "metrics": pairs}, allow_nan=False))
    else:
        print(_score_table(scores, f"{len(truth)} rows, target {target}, answered with {statistic}"))


def _truth(model: Any, target: str, data: Path) -> NDArray[Any]:
    """The true values, as numbers or as places of the grades. **Shape:** ``(n,)``."""
    import pandas as pd

    grades = model.classes_ if is_classifier(model) else None
    spelled = grades is not None and grades.dtype.kind in "OU"
    table = files.read_table(data, [target], [target] if spelled else [])
    listed = None if grades is None else grades.tolist()
    values = target_values(table[target], listed, data)
    if grades is None:
        return values
    places: NDArray[Any] = pd.Index(grades).get_indexer(pd.Index(values))
    wrong = (places < 0).nonzero()[0]
    if len(wrong):
        raise UsageError(
            f"target {target!r} must hold the model's grades {', '.join(map(str, listed or []))}, however: "
            f"{len(wrong)} of {len(values)} rows do not, the first is row {wrong[0] + 1} with {values[wrong[0]]!r}; "
            "remove or correct these rows"
        )
    return places


def _amounts(model: Any, level: float) -> Callable[..., tuple[Prediction, NDArray[Any]]]:
    """A function that answers rows with their distributions and their intervals, guaranteed where calibrated."""
    threshold = None if model.conformal_ is None else model.conformal_.threshold(level)

    def answer(table: Any, **side: Any) -> tuple[Prediction, NDArray[Any]]:
        prediction, opened = model.predict_opened(table, threshold, **side)
        return prediction, prediction.interval(level) if opened is None else opened

    return answer


def _grades(model: Any) -> Callable[..., tuple[NDArray[Any], NDArray[Any]]]:
    """A function that answers rows with the probabilities of the grades and the places of those it decides on."""
    from diffor.grades import grade_shares

    def answer(table: Any, **side: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        prediction = model.predict_distribution(table, **side)
        probabilities = grade_shares(prediction.samples, len(model.classes_))
        return probabilities, decide(model, prediction, probabilities, model.decision)

    return answer


def _score_amounts(truth: NDArray[Any], answers: Answers, level: float, statistic: str) -> Scores:
    """Metrics of predicted amounts, each beside the best that a constant answer could reach on these rows."""
    import numpy as np

    from diffor import metrics

    answered, low, high, crps = np.empty((4, len(truth)))
    for chunk, (prediction, interval) in answers:
        rows = slice(chunk.first, chunk.first + len(chunk))
        answered[rows], crps[rows] = prediction.statistic(statistic), prediction.crps(truth[rows])
        low[rows], high[rows] = interval.T
    ends = np.quantile(truth, [(1 - level) / 2, (1 + level) / 2])
    constant = [np.full(len(truth), value) for value in (np.median(truth), truth.mean(), *ends)]
    varies = np.ptp(truth) > 0
    # The mean distance of two rows is the CRPS of answering every row with the distribution of all.
    ranks = 2 * np.arange(1, len(truth) + 1) - len(truth) - 1
    return {
        "mae": (metrics.mae(truth, answered), metrics.mae(truth, constant[0])),
        "rmse": (metrics.rmse(truth, answered), metrics.rmse(truth, constant[1])),
        "srcc": (metrics.srcc(truth, answered), 0.0) if varies else (None, None),
        "xauc": (metrics.xauc(truth, answered), 0.5) if varies else (None, None),
        "crps": (float(crps.mean()), float(np.sort(truth) @ ranks / len(truth) ** 2)),
        "coverage": (metrics.coverage(truth, low, high), metrics.coverage(truth, *constant[2:])),
        "interval_width": (metrics.interval_width(low, high), float(ends[1] - ends[0])),
    }


def _score_grades(n_grades: int, truth: NDArray[Any], answers: Answers) -> Scores:
    """Metrics of predicted grades, each beside the best that a constant answer could reach on these rows."""
    import numpy as np

    from diffor import metrics

    probabilities, chosen = np.empty((len(truth), n_grades)), np.empty(len(truth), dtype=np.int64)
    for chunk, (part, decided) in answers:
        rows = slice(chunk.first, chunk.first + len(chunk))
        probabilities[rows], chosen[rows] = part, decided
    shares = np.bincount(truth, minlength=n_grades) / len(truth)
    common, middle = shares.argmax(), np.sort(truth)[len(truth) // 2]
    return {
        "accuracy": (metrics.accuracy_off_by(truth, chosen, 0), float(shares[common])),
        "mae": (metrics.mae(truth, chosen), metrics.mae(truth, np.full(len(truth), middle))),
        "qwk": (metrics.qwk(truth, chosen, n_grades), 0.0) if np.ptp(truth) > 0 else (None, None),
        "rps": (metrics.rps(truth, probabilities), metrics.rps(truth, np.tile(shares, (len(truth), 1)))),
    }


def _score_table(scores: Scores, heading: str) -> str:
    lines = [heading, "", f"{'metric':<16}{'model':>12}{'constant':>12}"]
    for name, values in scores.items():
        shown = ("-" if value is None else f"{value:.4g}" for value in values)
        lines.append(f"{name:<16}" + "".join(f"{value:>12}" for value in shown))
    return "\n".join([*lines, "", "constant: the best that one answer for all rows could reach here"])
