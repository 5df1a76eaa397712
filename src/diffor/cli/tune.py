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
from diffor.errors import UserError

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
    argument = command.add_argument
    trials_help = "settings to try, with those in the study (default: 25 if no time limit)"
    argument("--trials", type=as_count, metavar="N", help=trials_help)
    argument("--time-limit", type=as_seconds, metavar="S", help="seconds of search at most, then the best is fitted")
    argument("--study", metavar="FILE", help="file from which a stopped search is continued")
    folds_help = "score on each of K parts in turn (default: once, on a fifth of DATA)"
    argument("--folds", type=as_count, metavar="K", help=folds_help)
    argument("--json", action="store_true", help="print all trials as JSON instead of a table")


def run(arguments: argparse.Namespace) -> None:
    """Search, fit the best on all rows, save it."""
    from diffor.estimators.tuning import tune

    out = Path(arguments.out)
    check_model_output(out, arguments.force, None)
    if arguments.study is not None and Path(arguments.study).is_dir():
        raise UserError(f"--study must be a file, but {arguments.study} is a folder; choose another")
    if arguments.study is not None and out.resolve() in Path(arguments.study).resolve().parents:
        raise UserError(f"--study must lie outside the model folder {out}, but got {arguments.study}; choose another")
    check_method_choice(arguments)
    check_limit(arguments)
    _, task, rows = read_training_rows(arguments)
    side: dict[str, Any] = rows.side
    of_the_run = {"time_limit": None, "checkpoint": None, "log_to": None, "diagnose": False}
    estimator = make_estimator(argparse.Namespace(**vars(arguments) | of_the_run), task.grades)
    found = tune(
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
        **side,
    )
    save_model(found.estimator, out, notes_of(arguments, task.sides), arguments.force)
    if arguments.json:
        facts = {
            "best": {"score": found.best_score, "settings": found.best_params},
            "preset_score": found.default_score,
            "stopped": found.stopped,
            "trials": [vars(trial) for trial in found.trials],
        }
        print(json.dumps(facts, allow_nan=False))
    elif not arguments.quiet:
        print(_summary(found, out))


def _summary(found: Tuned, out: Path) -> str:
    measure = "RPS" if is_classifier(found.estimator) else "CRPS"
    best = _settings(found.best_params, ", ")
    return "\n".join([
        f"{'trial':>5}  {measure:>10}  {'seconds':>8}  settings",
        *(_line(trial) for trial in found.trials),
        "",
        f"search           {found.stopped}",
        f"preset           {'-' if found.default_score is None else f'{found.default_score:.4g}'}",
        f"best             {found.best_score:.4g}: {best}",
        f"saved in         {out}, fitted on all rows",
    ])  # fmt: skip


def _line(trial: Trial) -> str:
    score = trial.state if trial.score is None else f"{trial.score:.4g}"
    seconds = "" if trial.seconds is None else f"{trial.seconds:.1f}"
    message = f"  ({trial.message})" if trial.message else ""
    return f"{trial.number:>5}  {score:>10}  {seconds:>8}  {_settings(trial.params, ' ')}{message}"


def _settings(given: dict[str, Any], mark: str) -> str:
    shown = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in given.items()}
    return mark.join(f"{name}={value}" for name, value in shown.items()) or "the preset's own"
