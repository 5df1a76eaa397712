"""``diffor evaluate``: measure a model on rows with known targets, beside the best constant answer; write a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
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
from diffor.cli.options import about, add_command, add_effort, add_side_columns, as_share, check_page, require_columns
from diffor.cli.target_column import true_targets
from diffor.errors import UserError
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
        "diffor evaluate model test.csv --against lightgbm,linear --train train.csv",
        "diffor evaluate model test.csv --samples 16 --steps 4",
    )
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    argument("data", metavar="DATA", help="rows with their targets")
    argument("--target", metavar="COL", help="column of the true values (default: as in fit)")
    add_side_columns(command)
    argument("--json", action="store_true", help="print one JSON object")
    argument("--coverage", type=as_share, default=0.9, metavar="C", help="of the intervals (default: %(default)s)")
    add_effort(command)
    against_help = "baselines to train on --train and compare with: lightgbm, linear, or those of diffor bench"
    argument("--against", type=lambda text: [name.strip() for name in text.split(",")], metavar="NAME,...",
             help=against_help)  # fmt: skip
    argument("--train", metavar="FILE", help="the rows that the model was fitted on, for --against")
    argument("--report", metavar="PAGE.html", help="page about the answers to write, with figures")
    argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Print how good the model's answers are, and write a page about them if one is asked for."""
    page = check_page(arguments)
    data, folder = Path(arguments.data), Path(arguments.model)
    names = tables.column_names(data)
    model: Any = load_model(folder)
    baselines = _baselines(arguments, model)
    target = arguments.target or remembered_target(folder)
    require_columns([target], names, data)
    columns = columns_by_kind(model, names, data)
    sides = side_columns(model, folder, arguments, names, data)
    effort = {"n_samples": arguments.samples, "n_steps": arguments.steps}
    with tables.unchanged(data):
        truth = true_targets(model, target, data)
        answered = _measure(model, truth, data, columns, sides, arguments.coverage, effort, keep=page is not None)
        compared = _compare(baselines, model, answered, data, Path(arguments.train), target) if baselines else []
    if page is not None:
        _write_page(page, answered, model, folder, data, target, arguments.coverage, compared)
    held = None if is_classifier(model) else _held(answered, arguments.coverage)
    if arguments.json:
        facts = {"model": type(model).__name__, "method": model.settings_.method, "statistic": answered.statistic,
                 "target": target, "rows": len(truth), "nominal_coverage": None
                 if is_classifier(model) else arguments.coverage}  # fmt: skip
        pairs = {name: {"model": ours, "constant": constant} for name, (ours, constant) in answered.scores.items()}
        calibrated = {} if held is None else {"rows_held": held[0], "rows_held_if_calibrated": list(held[1:])}
        against = {"against": [one.to_json() for one in compared]} if compared else {}
        print(json.dumps({**facts, "metrics": pairs, **calibrated, **against}, allow_nan=False))
    else:
        heading = f"{len(truth)} rows, target {target}, answered with {answered.statistic}"
        print(_score_table(answered.scores, heading))
        if held is not None:
            print(_promise(*held, len(truth), arguments.coverage))
        if compared:
            from diffor.bench.against import as_lines

            crps, errors = _errors(model, answered)
            print("\n".join(["", *as_lines(compared, float(crps.mean()), float(errors.mean()))]))


def _baselines(arguments: argparse.Namespace, model: Any) -> dict[str, Any]:
    """What fits each baseline that is asked for; what is wrong is said before any row is answered."""
    if (arguments.against is None) != (arguments.train is None):
        given, absent = ("--against", "--train FILE") if arguments.train is None else ("--train", "--against NAME,...")
        raise UserError(f"--against and --train belong together, but only {given} was given; add {absent}")
    if arguments.against is None:
        return {}
    train = Path(arguments.train)
    if train.resolve() == Path(arguments.data).resolve():
        raise UserError(f"--train must be other rows than DATA, but both are {train}: baselines would know them")
    from diffor.bench.against import check_baselines

    with about("--against: "):
        return check_baselines(arguments.against, is_classifier(model))


def _compare(
    baselines: dict[str, Any], model: Any, answered: _Answered, data: Path, train: Path, target: str
) -> list[Any]:
    """Train the baselines on a file and compare them with the model on the rows that it has answered."""
    from diffor.bench.against import compare, make_problem, plain_columns

    tables_of = []
    for path in (train, data):
        names = tables.column_names(path)
        require_columns([target], names, path)
        numbers, text = columns_by_kind(model, names, path)
        table = tables.read_table(path, [*numbers, *text], text)
        ordered = table[[str(column.name) for column in model.inputs_.columns]]
        with about(f"{path}: "):
            tables_of.append(plain_columns(ordered, model.inputs_.columns))
    n_grades = len(model.grades_) if is_classifier(model) else None
    y = true_targets(model, target, train).astype("float64")
    with about("--train: "):
        problem = make_problem(tables_of[0], y, n_grades, None if n_grades else model.bounds)
    try:
        return compare(baselines, problem, tables_of[1], answered.answers.truth, *_errors(model, answered))
    except (ImportError, FileNotFoundError) as error:  # a package, or an environment of its own, that is not there
        raise UserError(f"--against: {error}") from error


def _errors(model: Any, answered: _Answered) -> tuple[NDArray[Any], NDArray[Any]]:
    """CRPS and absolute error of each row, of grades in grades."""
    import numpy as np

    from diffor.bench.against import graded_crps

    rows = answered.answers
    if is_classifier(model):
        return graded_crps(rows.truth, rows.probabilities), np.abs(rows.chosen - rows.truth).astype(np.float64)
    return rows.crps, np.abs(rows.answered - rows.truth)


def _record(one: Any) -> dict[str, Any]:
    """A baseline as a line of a page's table."""
    from diffor.reports.html import number

    record: dict[str, Any] = {"Method": one.name}
    for name, found in (("CRPS", one.crps), ("MAE", one.mae)):
        ends = " to ".join(map(number, found.interval))
        record |= {name: found.value, f"more {name}": f"{number(found.more)} ({ends})"}
    return record


def _held(answered: _Answered, coverage: float) -> tuple[int, int, int] | None:
    """Rows that intervals hold, and from how many to how many those of a calibrated model would hold."""
    from diffor.reports.evaluation.scores import calibrated_range

    if answered.scores["coverage"][0] is None:  # a point covers nothing
        return None
    rows = answered.answers
    inside = int(((rows.low <= rows.truth) & (rows.truth <= rows.high)).sum())
    return inside, *calibrated_range(len(rows.truth), coverage)


def _promise(inside: int, low: int, high: int, n_rows: int, coverage: float) -> str:
    """Whether coverage agrees with its promise, in a sentence.

    >>> print(_promise(70, 73, 84, 88, 0.9))
    coverage: 90 % intervals hold 70 of 88 rows, fewer than the 73 to 84 of a calibrated model: they are too narrow
    """
    verdict = f"among the {low} to {high} of a calibrated model: as promised"
    if not low <= inside <= high:
        less, words = ("fewer", "narrow") if inside < low else ("more", "wide")
        verdict = f"{less} than the {low} to {high} of a calibrated model: they are too {words}"
    return f"coverage: {100 * coverage:g} % intervals hold {inside} of {n_rows} rows, {verdict}"


@dataclass
class _Answered:
    """All that was measured, and of the rows that a page shows also their tables and distributions."""

    statistic: str
    answers: Any
    scores: Scores
    tables: list[pd.DataFrame] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)


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
    page: Path, answered: _Answered, model: Any, folder: Path, data: Path, target: str, coverage: float,
    compared: Sequence[Any] = (),
) -> None:  # fmt: skip
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
        against=[_record(one) for one in compared],
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
