"""``diffor evaluate``: measure a model on rows with known targets, beside the best constant answer; write a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import (
    answered_chunks,
    columns_by_kind,
    is_classifier,
    load_model,
    remembered_target,
    side_columns,
)
from diffor.cli.options import add_command, add_effort, add_side_columns, as_share
from diffor.cli.target_column import true_targets
from diffor.cli.usage import UsageError, require_columns, require_figures
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from diffor.core.prediction import Prediction

    Answers = Iterator[tuple[tables.Chunk, Any]]
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
        "diffor evaluate model test.csv --report page.html",
        "diffor evaluate model test.csv --samples 16 --steps 4",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows with their targets")
    command.add_argument("--target", metavar="COL", help="column of the true values (default: as in fit)")
    add_side_columns(command)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--coverage", type=as_share, default=0.9, metavar="C", help="of the intervals (default: %(default)s)"
    )
    add_effort(command)
    command.add_argument("--report", metavar="PAGE.html", help="page about the answers to write, with figures")
    command.add_argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Print how good the model's answers are, and write a page about them if one is asked for."""
    page = _page_path(arguments)
    data, folder = Path(arguments.data), Path(arguments.model)
    names = tables.column_names(data)
    model: Any = load_model(folder)
    target = arguments.target or remembered_target(folder)
    require_columns([target], names, data)
    columns = columns_by_kind(model, names, data)
    sides = side_columns(model, folder, arguments, names, data)
    effort = {"n_samples": arguments.samples, "n_steps": arguments.steps}
    with tables.unchanged(data):
        truth = true_targets(model, target, data)
        answered = _measure(model, truth, data, columns, sides, arguments.coverage, effort, keep=page is not None)
    if page is not None:
        _write_page(page, answered, model, folder, data, target, arguments.coverage)
    if arguments.json:
        facts = {"model": type(model).__name__, "method": model.settings_.method, "statistic": answered.statistic,
                 "target": target, "rows": len(truth), "nominal_coverage": None
                 if is_classifier(model) else arguments.coverage}  # fmt: skip
        pairs = {name: {"model": ours, "constant": constant} for name, (ours, constant) in answered.scores.items()}
        print(json.dumps({**facts, "metrics": pairs}, allow_nan=False))
    else:
        heading = f"{len(truth)} rows, target {target}, answered with {answered.statistic}"
        print(_score_table(answered.scores, heading))


@dataclass
class _Answered:
    """All that was measured, and of the rows that a page shows also their tables and distributions."""

    statistic: str
    answers: Any
    scores: Scores
    tables: list[pd.DataFrame] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)


def _page_path(arguments: argparse.Namespace) -> Path | None:
    """Where the page goes, if there is to be one that can be drawn and written."""
    if arguments.report is None:
        if arguments.force:
            raise UsageError("--force is for --report, but no page is asked for; add --report PAGE.html")
        return None
    page = Path(arguments.report)
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--report must be a page whose name ends in .html, but got {page}; rename it")
    tables.check_output(page, arguments.force)
    require_figures()
    return page


def _measure(
    model: Any,
    truth: NDArray[Any],
    data: Path,
    columns: tuple[list[str], list[str]],
    sides: dict[str, str],
    level: float,
    effort: dict[str, int | None],
    keep: bool,
) -> _Answered:
    """Answer all rows of the file and measure the answers; what a page needs of its rows is kept where asked for."""
    from diffor.reports.evaluation import picked_rows

    shown = picked_rows(len(truth)) if keep else None
    if is_classifier(model):
        answered = _Answered(model.decision, None, {})
        with answered_chunks(data, columns, _grades(model, effort), sides=sides) as answers:
            _score_grades(answered, len(model.grades_), truth, _keeping(answers, answered, columns, shown))
        return answered
    answered = _Answered(model.default_statistic, None, {})
    with answered_chunks(data, columns, _amounts(model, level, effort), sides=sides) as answers:
        _score_amounts(answered, truth, _keeping(answers, answered, columns, shown), level)
    if model.conformal_ is None and not model.has_distribution:  # a point covers nothing, and does not claim to
        scores = answered.scores
        answered.scores = scores | {name: (None, scores[name][1]) for name in ("coverage", "interval_width")}
    return answered


def _keeping(
    answers: Answers, answered: _Answered, columns: tuple[list[str], list[str]], shown: NDArray[Any] | None
) -> Answers:
    """The same answers; of the rows in ``shown`` their columns and distributions are kept on the way."""
    for chunk, answer in answers:
        if shown is not None:
            places = shown[(shown >= chunk.first) & (shown < chunk.first + len(chunk))] - chunk.first
            answered.tables.append(chunk.table[[*columns[0], *columns[1]]].iloc[places])
            answered.predictions.append(answer[0][places])
        yield chunk, answer


def _write_page(
    page: Path, answered: _Answered, model: Any, folder: Path, data: Path, target: str, coverage: float
) -> None:
    """Write the page about the answers, and say where it is."""
    import pandas as pd

    from diffor.core.prediction import Prediction
    from diffor.reports.evaluation import Evaluation, model_page, picked_rows
    from diffor.reports.evaluation.scores import AMOUNT_MEASURES, GRADE_MEASURES, with_intervals
    from diffor.reports.html import write_page

    answers, of_grades = answered.answers, is_classifier(model)
    rows = picked_rows(len(answers.truth))
    shown = answers.take(rows)
    measures: Any = GRADE_MEASURES if of_grades else AMOUNT_MEASURES
    prediction = Prediction.concatenate(answered.predictions)
    if not of_grades and not model.has_distribution:
        prediction = Prediction(shown.answered[:, None])
    evaluation = Evaluation(
        model=model,
        name=folder.resolve().name,
        data=data.name,
        target=target,
        n_rows=len(answers.truth),
        scores=with_intervals(answers, measures, answered.scores),
        rows=rows,
        table=pd.concat(answered.tables, ignore_index=True),
        truth=shown.truth,
        prediction=prediction,
        answered=shown.chosen if of_grades else shown.answered,
        statistic=answered.statistic,
        intervals=None if of_grades or model.conformal_ is None else _ends(shown),
        coverage=coverage,
    )
    write_page(page, model_page(evaluation))
    print(f"the page is {page}", file=sys.stderr)


def _ends(amounts: Any) -> NDArray[Any]:
    import numpy as np

    return np.stack([amounts.low, amounts.high], axis=1)


def _amounts(model: Any, level: float, effort: dict[str, int | None]) -> Callable[..., tuple[Prediction, NDArray[Any]]]:
    """A function that answers rows with their distributions and their intervals, guaranteed where calibrated."""
    threshold = None if model.conformal_ is None else model.conformal_.threshold(level)

    def answer(table: Any, **side: Any) -> tuple[Prediction, NDArray[Any]]:
        prediction, opened = model.predict_opened(table, threshold, **effort, **side)
        return prediction, prediction.interval(level) if opened is None else opened

    return answer


def _grades(model: Any, effort: dict[str, int | None]) -> Callable[..., tuple[Prediction, NDArray[Any], NDArray[Any]]]:
    """A function that answers rows with distributions, probabilities of grades and places of those it decides on."""

    def answer(table: Any, **side: Any) -> tuple[Prediction, NDArray[Any], NDArray[Any]]:
        prediction = model.predict_distribution(table, **effort, **side)
        probabilities = prediction.grade_probabilities(len(model.grades_))
        return prediction, probabilities, model.decide(prediction, probabilities)

    return answer


def _score_amounts(answered: _Answered, truth: NDArray[Any], answers: Answers, level: float) -> None:
    """Metrics of predicted amounts, each beside the best that a constant answer could reach on these rows."""
    import numpy as np

    from diffor.reports.evaluation.scores import AMOUNT_MEASURES, Amounts, constant_amounts, plain_scores

    values, low, high, crps = np.empty((4, len(truth)))
    for chunk, (prediction, interval) in answers:
        rows = slice(chunk.first, chunk.first + len(chunk))
        values[rows], crps[rows] = prediction.statistic(answered.statistic), prediction.crps(truth[rows])
        low[rows], high[rows] = interval.T
    answered.answers = Amounts(truth, values, low, high, crps)
    answered.scores = plain_scores(answered.answers, AMOUNT_MEASURES, constant_amounts(truth, level))


def _score_grades(answered: _Answered, n_grades: int, truth: NDArray[Any], answers: Answers) -> None:
    """Metrics of predicted grades, each beside the best that a constant answer could reach on these rows."""
    import numpy as np

    from diffor.reports.evaluation.scores import GRADE_MEASURES, Graded, constant_grades, plain_scores

    probabilities, chosen = np.empty((len(truth), n_grades)), np.empty(len(truth), dtype=np.int64)
    for chunk, (_, part, decided) in answers:
        rows = slice(chunk.first, chunk.first + len(chunk))
        probabilities[rows], chosen[rows] = part, decided
    answered.answers = Graded(truth, chosen, probabilities)
    answered.scores = plain_scores(answered.answers, GRADE_MEASURES, constant_grades(truth, n_grades))


def _score_table(scores: Scores, heading: str) -> str:
    lines = [heading, "", f"{'metric':<16}{'model':>12}{'constant':>12}"]
    for name, values in scores.items():
        shown = ("-" if value is None else f"{value:.4g}" for value in values)
        lines.append(f"{name:<16}" + "".join(f"{value:>12}" for value in shown))
    return "\n".join([*lines, "", "constant: the best that one answer for all rows could reach here"])
