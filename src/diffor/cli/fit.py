"""``diffor fit``: train a model on a table and save it in a folder."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.method_choice import DIFFOR, add_method_arguments, check_method_choice, method_settings
from diffor.cli.model_folder import check_model_output, save_model, side_values
from diffor.cli.options import about, add_command, as_count, as_names, as_seconds, as_seed, require_columns
from diffor.cli.stream import add_stream_arguments, is_streamed, stream_of, stream_summary, streamed_grades
from diffor.cli.table_facts import describe_table, kind_of, list_kinds
from diffor.cli.target_column import find_grades, target_values
from diffor.errors import UserError
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "fit",
        run,
        "train a model on a table and save it in a folder",
        "diffor fit train.csv --target price --out model",
        "diffor fit train.csv --target delay --bounds 0 240 --transform log --out model",
        "diffor fit train.parquet --target quality --grades low,mid,high --drop id name --out model",
        "diffor fit train.csv --target price --calibration kept_out.csv --out model",
        "diffor fit train.csv --target watched --method d2q --method-setting n_groups=50 --duration length --out model",
        "diffor fit 'data/*.parquet' --target watched --ids user_id video_id --epochs 2 --out model",
        "torchrun --nproc-per-node 4 -m diffor fit 'data/*.parquet' --target watched --checkpoint run --out model",
    )
    add_task_arguments(command)
    argument = command.add_argument
    argument("--valid", metavar="FILE", help="rows for early stopping (default: a tenth of DATA)")
    argument(
        "--calibration", metavar="FILE", help="rows of their own, from which predict --coverage gets its guarantee"
    )
    argument("--time-limit", type=as_seconds, metavar="S", help="seconds of training at most")
    add_stream_arguments(command)
    argument("--checkpoint", metavar="DIR", help="folder from which a stopped run is continued")
    diagnose_help = "note how gradients of different times agree, for diffor diagnose --out"
    argument("--diagnose", action="store_true", help=diagnose_help)
    log_help = "watch training: tensorboard:FOLDER, or mlflow:ADDRESS as in mlflow:sqlite:///a.db"
    argument("--log-to", metavar="PLACE", help=log_help)


def add_task_arguments(command: argparse.ArgumentParser) -> None:
    """Add what says which model is to be made of which columns."""
    argument = command.add_argument
    data_help = (
        "training rows: CSV (also .csv.gz) or Parquet; left out are columns without a name, and the paths beside the "
        "features that embed wrote"
    )
    argument("data", metavar="DATA", help=data_help)
    argument("--target", required=True, metavar="COL", help="column to predict")
    argument("--out", required=True, metavar="MODEL", help="folder to save the model in")
    argument("--preset", default="balanced", help="fast, balanced, accurate or paper (default: %(default)s)")
    add_method_arguments(command)
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--grades", type=as_names, metavar="A,B,...", help="the target is one of these, lowest first")
    kind.add_argument("--classify", action="store_true", help="the target's numbers are grades, not amounts")
    argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="legal range of the target")
    upper_help = (
        "column of a limit of each row, which no answer exceeds; it stays a feature, too, unless --drop names it"
    )
    argument("--upper", metavar="COL", help=upper_help)
    limit_help = "learn which share of --upper is reached; without it, --upper is for predict, where it cuts answers"
    argument("--limit", choices=("share",), help=limit_help)
    transform_help = "how the range is spread, for other methods than diffor (default: uniform)"
    argument("--transform", choices=("uniform", "quantile", "log"), help=transform_help)
    argument("--drop", nargs="+", action="extend", default=[], metavar="COL", help="columns to leave out")
    argument("--weight", metavar="COL", help="column that says how much each row counts")
    argument("--no-prior", action="store_true", help="networks alone, not advised by trees and processes")
    argument("--batch-size", type=as_count, metavar="N", help="rows of a step (default: the preset's)")
    argument("--max-steps", type=as_count, metavar="N", help="training steps at most")
    argument("--seed", type=as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    argument("--force", action="store_true", help="replace MODEL if it exists")
    argument("--quiet", action="store_true", help="print neither progress nor summary")


@dataclass(frozen=True)
class Task:
    """Which columns of a table are what, and the grades if the target is one of them."""

    features: list[str]
    target: str
    sides: dict[str, str]
    """Columns that the model needs beside the features, by what it calls them; they may be features, too."""
    grades: list[Any] | None


@dataclass(frozen=True)
class Rows:
    """The parts of a table. **Shape:** features ``(n, p)``, targets, each side column and weights ``(n,)``."""

    features: pd.DataFrame
    targets: NDArray[Any]
    side: dict[str, NDArray[Any]]
    weights: NDArray[Any] | None = None


def run(arguments: argparse.Namespace) -> None:
    """Train a model and save it."""
    out = Path(arguments.out)
    check_model_output(out, arguments.force, arguments.checkpoint)
    _check_options(arguments)
    check_method_choice(arguments)
    check_limit(arguments)
    if is_streamed(arguments):
        _run_streamed(arguments, out)
        return
    table, task, rows = read_training_rows(arguments)
    validation = {}
    if arguments.valid is not None:
        others = _further_rows(table, task, Path(arguments.valid))
        validation = {"X_val": others.features, "y_val": others.targets}
        validation |= {f"{side}_val": values for side, values in others.side.items()}
    calibration = None if arguments.calibration is None else _calibration_rows(table, task, arguments)
    model = make_estimator(arguments, task.grades)
    if not arguments.quiet:
        print("\n".join(_introduce(arguments, table, task, rows)), flush=True)
    model.fit(rows.features, rows.targets, rows.weights, **validation, **rows.side)
    if calibration is not None:
        model.conformalize(calibration.features, calibration.targets, **calibration.side)
    save_model(model, out, notes_of(arguments, task.sides), arguments.force)
    if not arguments.quiet:
        print(_summary(model, [], out))


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse, before any row is read, options that belong to another method, and places that are not to be used."""
    from diffor.training.tracking import make_tracker

    is_own, is_paper = arguments.method == DIFFOR, arguments.preset == "paper"
    chosen = f"--method is {arguments.method} and --preset {arguments.preset}; leave it out"
    if arguments.diagnose and not (is_own and is_paper):
        raise UserError(f"--diagnose is for the paper's chain, whose theory is measured, but {chosen}")
    if arguments.no_prior and (is_paper or not is_own):
        raise UserError(f"--no-prior is for diffor's own presets, but {chosen}")
    if arguments.transform is not None and is_own:
        raise UserError(f"--transform is for other methods, since diffor's borders follow the data, but {chosen}")
    make_tracker(arguments.log_to)
    for option, given in (("DATA", arguments.data), ("--valid", arguments.valid)):
        path = arguments.calibration
        if None not in (given, path) and Path(given).resolve() == Path(path).resolve():
            raise UserError(
                f"--calibration must be rows that training does not see, but {path} is {option} too; "
                "keep some rows out for it"
            )


def check_limit(arguments: argparse.Namespace) -> None:
    """Refuse, before any row is read, half of what a limit of each row needs, and a range beside it."""
    if arguments.upper is None and arguments.limit is not None:
        raise UserError("--upper and --limit belong together, but only --limit share is given; add --upper COL")
    if arguments.upper is not None and arguments.limit is None:
        raise UserError(
            "--upper and --limit belong together, but only --upper is given; add --limit share, or give --upper to "
            "predict alone"
        )
    if arguments.upper is not None and arguments.bounds is not None:
        raise UserError(
            "--bounds is for one range of all rows, but --limit share ends it at each row's own limit; leave it out"
        )


def _introduce(arguments: argparse.Namespace, table: pd.DataFrame, task: Task, rows: Rows) -> list[str]:
    """What was read, as lines to print before training; columns and targets that cannot be learned are refused."""
    from diffor.core.grades import grade_codes
    from diffor.encoders import TabularInputs
    from diffor.estimators.fitting import settle_settings

    trial = make_estimator(arguments, task.grades)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fit will say it, once
        settle_settings(trial)
        if task.grades is None:
            trial.settle_scale(trial.learned_values(rows.targets, rows.side.get("upper")), rows.weights)
        else:
            trial.settle_grades(rows.targets)
            grade_codes(rows.targets, trial.grades_, "y")
        TabularInputs().fit(rows.features)
    scale: Any = None
    if task.grades is not None:
        scale = trial.grades_.tolist()
    elif not trial.learns_share:
        scale = (float(trial.scale_.low), float(trial.scale_.high))
    return describe_table(table[task.features], table[task.target], scale, arguments.bounds is not None)


def _run_streamed(arguments: argparse.Namespace, out: Path) -> None:
    """Train a model on files that are streamed, in one process or many, of which the first saves it."""
    from diffor.estimators.streamed_fit import fit_stream
    from diffor.training.distributed import World

    stream, world = stream_of(arguments), World.from_environment()
    grades = streamed_grades(arguments)
    _refuse_ranges(arguments, grades)
    model = fit_stream(make_estimator(arguments, grades), stream, world)
    if world.is_first:
        save_model(model, out, notes_of(arguments, dict(stream.sides)), arguments.force)
        if not arguments.quiet:
            print(_summary(model, [*stream_summary(model, world.size), f"columns          {_columns_of(model)}"], out))
    world.close()


def notes_of(arguments: argparse.Namespace, sides: dict[str, str]) -> dict[str, Any]:
    """What the model folder is to remember of the columns."""
    notes = {"target": arguments.target, "weight": arguments.weight, "dropped": arguments.drop}
    return notes | {"side": sides} if sides else notes


def read_training_rows(arguments: argparse.Namespace) -> tuple[pd.DataFrame, Task, Rows]:
    """The table of training rows, which of its columns are what, and its parts."""
    data = Path(arguments.data)
    table = tables.read_table(data)
    _leave_out_paths(table, arguments)
    task = _find_task(table, arguments, data)
    return table, task, _parts(table, task, data, arguments.weight)


def _leave_out_paths(table: pd.DataFrame, arguments: argparse.Namespace) -> None:
    """Drop the paths that stand beside the features of images: they would be learned by heart."""
    from diffor.encoders.images.embedding import is_embedding
    from diffor.encoders.images.inputs import PATH_COLUMN

    used = (arguments.target, arguments.weight, arguments.duration, *arguments.drop)
    if is_embedding([str(name) for name in table.columns]) and PATH_COLUMN not in used:
        arguments.drop = [*arguments.drop, PATH_COLUMN]


def _find_task(table: pd.DataFrame, arguments: argparse.Namespace, data: Path) -> Task:
    names = [str(name) for name in table.columns]
    special = [arguments.target] if arguments.weight is None else [arguments.target, arguments.weight]
    sides = {side: column for side in ("duration", "upper") if (column := getattr(arguments, side)) is not None}
    require_columns([*special, *sides.values(), *arguments.drop], names, data)
    if len({*special, *arguments.drop}) < len(special) + len(set(arguments.drop)):
        raise UserError("--target, --weight and --drop must name different columns, but one is named twice")
    for side, column in sides.items():
        if column in special:
            raise UserError(
                f"--{side} must be another column than --target and --weight, but {column!r} is named twice"
            )
    features = [name for name in names if name not in (*special, *arguments.drop)]
    if not features:
        raise UserError(f"{data} must have columns to predict from, but --target, --weight and --drop took all")
    grades = find_grades(table[arguments.target], arguments.grades, arguments.classify)
    _refuse_ranges(arguments, grades)
    return Task(features, arguments.target, sides, grades)


def _refuse_ranges(arguments: argparse.Namespace, grades: list[Any] | None) -> None:
    """Refuse options of amounts where the target is a grade."""
    for option in ("bounds", "transform", "upper"):
        if grades is not None and getattr(arguments, option) is not None:
            raise UserError(f"--{option} is for amounts, but the target is a grade; leave it out")


def _parts(table: pd.DataFrame, task: Task, data: Path, weight: str | None = None) -> Rows:
    side = {name: side_values(table[column], name, data) for name, column in task.sides.items()}
    weights = None if weight is None else side_values(table[weight], "weight", data)
    return Rows(table[task.features], target_values(table[task.target], task.grades, data), side, weights)


def _further_rows(table: pd.DataFrame, task: Task, path: Path) -> Rows:
    """The parts of another file than DATA, read with the kinds that the training columns have."""
    wanted = list(dict.fromkeys([*task.features, task.target, *task.sides.values()]))
    is_typed = {name: kind_of(table[name]) != "categorical" for name in wanted}  # numbers and times are recognised
    text = [name for name in wanted if not is_typed[name]]
    require_columns(wanted, tables.column_names(path), path)
    return _parts(tables.read_table(path, text=text), task, path)


def _calibration_rows(table: pd.DataFrame, task: Task, arguments: argparse.Namespace) -> Rows:
    """The parts of the calibration file; what is wrong with them is said before training, not after it."""
    import numpy as np

    from diffor.core.grades import grade_codes
    from diffor.core.target import check_inside
    from diffor.encoders import TabularInputs
    from diffor.estimators.limits import shares_of

    path = Path(arguments.calibration)
    rows = _further_rows(table, task, path)
    inputs = TabularInputs().fit(table[task.features])
    with about(f"{path}: "):
        inputs.transform(rows.features)
        if task.grades is None:
            low, high = arguments.bounds or (-np.inf, np.inf)
            check_inside(rows.targets, (low, high), "y_cal")
            if arguments.upper is not None:
                shares_of(rows.targets, rows.side["upper"], "y_cal")
        else:
            grade_codes(rows.targets, np.asarray(task.grades), "y_cal")
    return rows


def make_estimator(arguments: argparse.Namespace, grades: list[Any] | None) -> Any:
    """The estimator that the options describe, not fitted yet."""
    from diffor.estimators.api import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor

    shared = {
        "preset": arguments.preset,
        "batch_size": arguments.batch_size,
        "max_steps": arguments.max_steps,
        "time_limit": arguments.time_limit,
        "checkpoint_dir": arguments.checkpoint,
        "log_to": arguments.log_to,
        "random_state": arguments.seed,
        "verbose": 0 if arguments.quiet else 1,
    }
    bounds = None if arguments.bounds is None else tuple(arguments.bounds)
    if arguments.method == DIFFOR:
        shared |= {"diagnose": arguments.diagnose or None, "prior": None if arguments.no_prior else "auto"}
        if grades is not None:
            return DiffoRClassifier(grades=grades or None, **shared)
        return DiffoRRegressor(bounds=bounds, limit=arguments.limit or "truncate", **shared)
    shared["method_settings"] = method_settings(arguments)
    if grades is not None:
        return OrdinalClassifier(arguments.method, grades=grades or None, **shared)
    shared["limit"] = arguments.limit or "truncate"
    return OrdinalRegressor(arguments.method, bounds=bounds, transform=arguments.transform or "uniform", **shared)


def _columns_of(model: Any) -> str:
    """The columns of a model by kind."""
    words = {"numeric": "number", "categorical": "category"}
    columns = model.inputs_.columns
    return list_kinds({word: [str(one.name) for one in columns if one.kind == kind] for word, kind in words.items()})


def _summary(model: Any, rows: list[str], out: Path) -> str:
    history = model.history_
    scored = "validation CRPS  none, there were no validation rows"
    if history.best_score is not None:
        scored = f"validation CRPS  {history.best_score:.4g} at step {history.best_step}"
    if model.held_out_scores_ is not None:
        found = model.held_out_scores_
        scored = (
            f"held-out rows    CRPS {found['crps']:.4g}, MAE {found['mae']:.4g}"
            f"{' in shares of the limit' if model.learns_share else ''}, "
            f"90 % intervals hold {100 * found['coverage_90']:.0f} %"
        )
    calibrated = []
    if model.conformal_ is not None:
        calibrated = [f"coverage         calibrated on {model.conformal_.n_rows} rows"]
    method = "" if model.settings_.method == DIFFOR else f", method {model.settings_.method}"
    return "\n".join([
        f"model            {type(model).__name__}{method}, preset {model.preset}",
        *rows,
        f"steps            {history.steps} ({history.stopped}) in {history.seconds:.1f} s",
        scored,
        *calibrated,
        f"saved in         {out}",
    ])  # fmt: skip
