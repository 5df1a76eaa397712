"""``diffor tune``: search settings on rows kept out of training, then fit and save the best model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.fit import add_task_arguments, check_limit, make_estimator, notes_of, read_training_rows
from diffor.cli.method_choice import check_method_choice
from diffor.cli.model_folder import check_model_output, is_classifier, save_model
from diffor.cli.options import add_command, as_count, as_seconds
from diffor.cli.usage import UsageError, library_messages
from diffor.files import tables

if TYPE_CHECKING:
    from diffor.estimators.tuning import Trial, Tuned


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "tune",
        run,
        "search settings, then fit the best model on all rows and save it in a folder",
        "diffor tune train.csv --target price --out model --trials 25",
        "diffor tune train.csv --target price --out model --time-limit 3600 --study prices.db",
        "diffor tune train.csv --target quality --grades low,mid,high --preset fast --folds 5 --out model",
    )
    add_task_arguments(command)
    command.add_argument(
        "--trials",
        type=as_count,
        metavar="N",
        help="settings to try, with those in the study (default: 25 if no time limit)",
    )
    command.add_argument(
        "--time-limit", type=as_seconds, metavar="S", help="seconds of search at most, then the best is fitted"
    )
    command.add_argument("--study", metavar="FILE", help="file from which a stopped search is continued")
    command.add_argument(
        "--folds",
        type=as_count,
        metavar="K",
        help="score on each of K parts in turn (default: once, on a fifth of DATA)",
    )
    command.add_argument("--json", action="store_true", help="print all trials as JSON instead of a table")


def run(arguments: argparse.Namespace) -> None:
    """Search, fit the best on all rows, save it."""
    out = Path(arguments.out)
    check_model_output(out, arguments.force, None)
    if arguments.study is not None:
        _check_study(Path(arguments.study), out)
    check_method_choice(arguments)
    check_limit(arguments)
    _, task, rows = read_training_rows(arguments)
    of_the_run = {"time_limit": None, "checkpoint": None, "log_to": None, "diagnose": False}
    estimator = make_estimator(argparse.Namespace(**vars(arguments) | of_the_run), task.grades)
    try:
        with library_messages():
            found = _tune(estimator, rows, arguments)
    except ImportError as error:
        raise UsageError(str(error)) from error
    save_model(found.estimator, out, notes_of(arguments, task.sides), arguments.force)
    if arguments.json:
        print(json.dumps(_facts(found), allow_nan=False))
    elif not arguments.quiet:
        print(_summary(found, out))


def _check_study(study: Path, out: Path) -> None:
    """Refuse a study that would be lost with the model's folder, or cannot be written."""
    if out.resolve() in study.resolve().parents:
        raise UsageError(f"--study must lie outside the model folder {out}, but got {study}; choose another")
    if study.is_dir():
        raise UsageError(f"--study must be a file, but {study} is a folder; choose another")
    tables.check_parent(study)


def _tune(estimator: Any, rows: Any, arguments: argparse.Namespace) -> Tuned:
    from diffor.estimators.tuning import tune

    return tune(
        estimator,
        rows.features,
        rows.targets,
        n_trials=arguments.trials,
        time_limit=arguments.time_limit,
        study=arguments.study,
        n_folds=arguments.folds,
        random_state=arguments.seed,
        verbose=0 if arguments.quiet else 1,
        sample_weight=rows.weights,
        **rows.side,
    )


def _facts(found: Tuned) -> dict[str, Any]:
    return {
        "best": {"score": found.best_score, "settings": found.best_params},
        "preset_score": found.default_score,
        "stopped": found.stopped,
        "trials": [vars(trial) for trial in found.trials],
    }


def _summary(found: Tuned, out: Path) -> str:
    measure = "RPS" if is_classifier(found.estimator) else "CRPS"
    lines = [f"{'trial':>5}  {measure:>10}  {'seconds':>8}  settings"]
    lines += [_line(trial) for trial in found.trials]
    best = ", ".join(f"{name}={_short(value)}" for name, value in found.best_params.items()) or "the preset's own"
    return "\n".join([
        *lines,
        "",
        f"search           {found.stopped}",
        f"preset           {'-' if found.default_score is None else f'{found.default_score:.4g}'}",
        f"best             {found.best_score:.4g}: {best}",
        f"saved in         {out}, fitted on all rows",
    ])  # fmt: skip


def _line(trial: Trial) -> str:
    settings = " ".join(f"{name}={_short(value)}" for name, value in trial.params.items()) or "the preset's own"
    score = trial.state if trial.score is None else f"{trial.score:.4g}"
    seconds = "" if trial.seconds is None else f"{trial.seconds:.1f}"
    message = f"  ({trial.message})" if trial.message else ""
    return f"{trial.number:>5}  {score:>10}  {seconds:>8}  {settings}{message}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
