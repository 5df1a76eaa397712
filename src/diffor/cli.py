"""The command line: fit, predict and evaluate on CSV and Parquet files.

Wrong use ends with code 2 and one line that says the rule, the value and the cure; files are left as they were.
Only the commands themselves import the heavy packages, so that ``diffor --help`` answers at once.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import diffor
from diffor import files
from diffor.files import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from diffor.estimator import DiffoRClassifier, DiffoRRegressor

    Estimator = DiffoRRegressor | DiffoRClassifier
    Chunks = Callable[[Callable[[pd.DataFrame], Any]], Iterator[tuple[slice, Any]]]
    Scores = dict[str, tuple[float | None, float | None]]

NOTES = "cli.json"
"""File in a model folder that remembers which columns were target and weight, and which were left out."""
DISTANT = 0.5
"""How similar a word must be to be offered in place of an unknown one."""


class UsageError(Exception):
    """Wrong use of a command; the message is one line that names rule, value and cure."""


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the process's exit code."""
    try:
        arguments = _parse(sys.argv[1:] if argv is None else argv)
        with _short_warnings():
            arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except (UsageError, DataError) as error:
        print(f"diffor: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("diffor: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


# --- arguments ---


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print the usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser, commands = _make_parser()
    if argv and argv[0] in commands:
        # Before argparse, which would name the options that a misspelled one leaves missing.
        known = commands[argv[0]]._option_string_actions
        for word in argv[1 : argv.index("--") if "--" in argv else None]:
            option = word.split("=")[0]
            if option.startswith("--") and option not in known:
                raise UsageError(f"{argv[0]} has no option {option}{_did_you_mean(option, known)}; "
                                 f"see diffor {argv[0]} --help")  # fmt: skip
    return parser.parse_args(argv)


def _make_parser() -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(
        prog="diffor",
        description="Ordinal regression as continuous generation: bounded predictions with their whole distribution.",
        epilog=_examples(
            "diffor fit train.csv --target price --out model",
            "diffor predict model new.csv --out prices.csv --coverage 0.9",
            "diffor evaluate model test.csv",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"diffor {diffor.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for add in (_add_fit, _add_predict, _add_evaluate, _add_demo):
        add(commands)
    return parser, dict(commands.choices)


def _add_command(commands: Any, run: Callable[[argparse.Namespace], None], text: str, *examples: str) -> Any:
    name = run.__name__.removeprefix("_run_")
    command = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=_examples(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def _add_fit(commands: Any) -> None:
    command = _add_command(
        commands,
        _run_fit,
        "train a model on a table and save it in a folder",
        "diffor fit train.csv --target price --out model",
        "diffor fit train.csv --target delay --bounds 0 240 --transform log --out model",
        "diffor fit train.parquet --target quality --grades low,mid,high --drop id name --out model",
    )
    command.add_argument(
        "data", metavar="DATA", help="training rows: CSV (also .csv.gz) or Parquet; columns without a name are left out"
    )
    command.add_argument("--target", required=True, metavar="COL", help="column to predict")
    command.add_argument("--out", required=True, metavar="MODEL", help="folder to save the model in")
    command.add_argument(
        "--preset", default="balanced", help="fast, balanced, accurate or paper (default: %(default)s)"
    )
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--grades", type=_as_names, metavar="A,B,...", help="the target is one of these, lowest first")
    kind.add_argument("--classify", action="store_true", help="the target's numbers are grades, not amounts")
    command.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="legal range of the target")
    command.add_argument(
        "--transform", choices=("uniform", "quantile", "log"), help="how the range is spread (default: the preset's)"
    )
    command.add_argument("--drop", nargs="+", action="extend", default=[], metavar="COL", help="columns to leave out")
    command.add_argument("--weight", metavar="COL", help="column that says how much each row counts")
    command.add_argument("--valid", metavar="FILE", help="rows for early stopping (default: a tenth of DATA)")
    command.add_argument("--max-steps", type=_as_count, metavar="N", help="training steps at most")
    command.add_argument("--time-limit", type=_as_seconds, metavar="S", help="seconds of training at most")
    command.add_argument("--checkpoint", metavar="DIR", help="folder from which a stopped run is continued")
    command.add_argument("--seed", type=_as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    command.add_argument("--force", action="store_true", help="replace MODEL if it exists")
    command.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def _add_predict(commands: Any) -> None:
    command = _add_command(
        commands,
        _run_predict,
        "predict the rows of a file, however long it is",
        "diffor predict model new.csv --out answers.csv",
        "diffor predict model new.csv --out answers.parquet --coverage 0.9 --keep id",
        "diffor predict model new.csv --out - --quantiles 0.05,0.5,0.95 | head",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows to predict; columns the model does not know are ignored")
    command.add_argument("--out", required=True, metavar="FILE", help=".csv or .parquet file, or - for the screen")
    command.add_argument("--quantiles", type=_as_levels, default=[], metavar="Q,...", help="levels to add as q columns")
    command.add_argument("--coverage", type=_as_share, metavar="C", help="add the interval low, high with coverage C")
    command.add_argument("--samples", type=_as_count, metavar="N", help="samples per row (default: the model's)")
    command.add_argument(
        "--statistic",
        type=_as_statistic,
        metavar="NAME",
        help="what prediction is: median (default), mean, mode or a level; for grades median, mode or qwk",
    )
    kept = command.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep", nargs="+", action="extend", default=[], metavar="COL", help="columns of DATA to copy (CSV: as text)"
    )
    kept.add_argument("--keep-all", action="store_true", help="copy all columns of DATA")
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")


def _add_evaluate(commands: Any) -> None:
    command = _add_command(
        commands,
        _run_evaluate,
        "measure a model on rows with known targets, beside the best constant answer",
        "diffor evaluate model test.csv",
        "diffor evaluate model test.parquet --target price --coverage 0.8 --json",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows with their targets")
    command.add_argument("--target", metavar="COL", help="column of the true values (default: as in fit)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--coverage", type=_as_share, default=0.9, metavar="C", help="of the intervals (default: %(default)s)"
    )


def _add_demo(commands: Any) -> None:
    command = _add_command(
        commands,
        _run_demo,
        "train on a table that comes with scikit-learn and write a page about it",
        "diffor demo",
        "diffor demo --quick --out pages --force",
    )
    command.add_argument("--out", default=".", metavar="FOLDER", help="where the page is written (default: here)")
    command.add_argument("--seed", type=_as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    command.add_argument("--quick", action="store_true", help="train for a moment only: the figures mean nothing")
    command.add_argument("--force", action="store_true", help="replace the page if it exists")


def _examples(*lines: str) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def _as_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, however: {text!r}")
    return int(text)


def _as_seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 4294967295, however: {text!r}")
    return int(text)


def _as_seconds(text: str) -> float:
    value = _as_float(text)
    if value is None or not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, however: {text!r}")
    return value


def _as_share(text: str) -> float:
    value = _as_float(text)
    if value is None or not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, as 0.9 does, however: {text!r}")
    return value


def _as_levels(text: str) -> list[float]:
    levels = [_as_float(part) for part in text.split(",")]
    known = [level for level in levels if level is not None and 0 <= level <= 1]
    if len(set(known)) < len(levels):
        raise argparse.ArgumentTypeError(
            f"must be different levels from 0 to 1 with commas between, as 0.05,0.5,0.95 are, however: {text!r}"
        )
    return known


def _as_statistic(text: str) -> str | float:
    level = _as_float(text)
    if text in ("median", "mean", "mode", "qwk") or (level is not None and 0 <= level <= 1):
        return text if level is None else level
    raise argparse.ArgumentTypeError(f"must be median, mean, mode, qwk or a level from 0 to 1, however: {text!r}")


def _as_names(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"must list two or more different grades, lowest first, as low,mid,high, however: {text!r}"
        )
    return names


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# --- fit ---


@dataclass(frozen=True)
class _Task:
    """Which columns of a table are what, and the grades if the target is one of them."""

    features: list[str]
    target: str
    weight: str | None
    grades: list[Any] | None


def _run_fit(arguments: argparse.Namespace) -> None:
    out = Path(arguments.out)
    _check_model_output(out, arguments.force, arguments.checkpoint)
    data = Path(arguments.data)
    table = files.read_table(data)
    task = _find_task(table, arguments, data)
    parts = [table[task.features], _target_values(table, task, data)]
    weights = None if task.weight is None else _weight_values(table, task.weight, data)
    if arguments.valid is not None:
        parts += _validation_rows(table, task, Path(arguments.valid))
    with _library_messages():
        model = _make_estimator(arguments, task.grades)
        model.fit(*parts[:2], weights, *parts[2:])
    _save(model, out, arguments)
    if not arguments.quiet:
        print(_summary(model, len(table), out))


def _check_model_output(out: Path, force: bool, checkpoint: str | None) -> None:
    """Refuse, before any training, a folder that could not be written after it."""
    if out.exists() and not (force and (out / "config.json").is_file()):
        cure = "it is no model, so choose another" if force else "choose another or pass --force to replace it"
        raise UsageError(f"{out} must not exist yet, however: it does; {cure}")
    files.check_parent(out)
    if checkpoint is None:
        return
    place = Path(checkpoint)
    if place.exists() and not place.is_dir():
        raise UsageError(f"--checkpoint must be a folder, however: {place} is a file; choose another")
    if out.resolve() in (place.resolve(), *place.resolve().parents):
        raise UsageError(f"--checkpoint must lie outside the model folder {out}, however: {place}; choose another")


def _find_task(table: pd.DataFrame, arguments: argparse.Namespace, data: Path) -> _Task:
    names = [str(name) for name in table.columns]
    special = [arguments.target] if arguments.weight is None else [arguments.target, arguments.weight]
    _require_columns([*special, *arguments.drop], names, data)
    if len({*special, *arguments.drop}) < len(special) + len(set(arguments.drop)):
        raise UsageError("--target, --weight and --drop must name different columns, however: one is named twice")
    features = [name for name in names if name not in (*special, *arguments.drop)]
    if not features:
        raise UsageError(f"{data} must have columns to predict from, however: --target, --weight and --drop took all")
    grades = _find_grades(table[arguments.target], arguments)
    for option in ("bounds", "transform"):
        if grades is not None and getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is for amounts, however: the target is a grade; leave it out")
    return _Task(features, arguments.target, arguments.weight, grades)


def _find_grades(column: pd.Series[Any], arguments: argparse.Namespace) -> list[Any] | None:
    """The grades from lowest to highest, or None where the target is an amount."""
    import pandas as pd

    if _is_amount(column):
        if arguments.grades is not None:
            return _as_numeric_grades(arguments.grades, column)
        return _whole_grades(column) if arguments.classify else None
    if arguments.grades is not None:
        return list(arguments.grades)
    if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
        return [str(level) for level in column.cat.categories]
    if arguments.classify and pd.api.types.is_bool_dtype(column.dtype):
        return ["False", "True"]
    found = [str(value) for value in column.dropna().unique()[:5]]
    raise UsageError(
        f"target {column.name!r} must hold numbers unless its grades are listed, however: it holds "
        f"{', '.join(map(repr, found))}; pass --grades with all of them, lowest first"
    )


def _is_amount(column: pd.Series[Any]) -> bool:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_bool_dtype(column.dtype)
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("decimal", "integer")


def _as_numeric_grades(grades: Sequence[str], column: pd.Series[Any]) -> list[Any]:
    numbers = [_as_float(grade) for grade in grades]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        wrong = grades[numbers.index(None)]
        raise UsageError(f"--grades must be numbers as target {column.name!r} holds them, however: {wrong!r}; "
                         "list the numbers, lowest first")  # fmt: skip
    return [int(number) for number in known] if all(number.is_integer() for number in known) else known


def _whole_grades(column: pd.Series[Any]) -> list[Any]:
    values = column.dropna().astype("float64")
    fractions = values[values % 1 != 0]
    if len(fractions):
        raise UsageError(
            f"--classify needs whole numbers in target {column.name!r}, however: {fractions.iloc[0]}; "
            "list the grades with --grades, or leave --classify out to predict an amount"
        )
    return [int(value) for value in sorted(values.unique())]


def _target_values(table: pd.DataFrame, task: _Task, data: Path) -> NDArray[Any]:
    column = table[task.target]
    _refuse_missing(column, data)
    if task.grades is None or not isinstance(task.grades[0], str):
        files.check_numbers(column, data)
        return column.to_numpy(dtype="float64")
    return column.astype(object).map(str).to_numpy(dtype=object)


def _refuse_missing(column: pd.Series[Any], data: Path) -> None:
    missing = column.isna().to_numpy().nonzero()[0]
    if len(missing):
        raise UsageError(
            f"target {column.name!r} must be known in every row of {data}, however: {len(missing)} of {len(column)} "
            f"rows have none, the first is row {missing[0] + 1}; remove these rows"
        )


def _weight_values(table: pd.DataFrame, weight: str, data: Path) -> NDArray[Any]:
    import numpy as np

    files.check_numbers(table[weight], data)
    values = table[weight].to_numpy(dtype="float64", na_value=np.nan)
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise UsageError(
            f"weight {weight!r} must be a number from 0 on in every row of {data}, however: {len(wrong)} rows break "
            f"that, the first is row {wrong[0] + 1} with {values[wrong[0]]}; correct or remove them"
        )
    if not values.any():
        raise UsageError(f"weight {weight!r} must be positive in some row of {data}, however: it is 0 in all")
    return values


def _validation_rows(table: pd.DataFrame, task: _Task, path: Path) -> list[Any]:
    """Features and targets of the validation file, read with the kinds that the training columns have."""
    import pandas as pd

    wanted = [*task.features, task.target]
    text = [name for name in wanted if not pd.api.types.is_numeric_dtype(table[name].dtype)]
    _require_columns(wanted, files.column_names(path), path)
    valid = files.read_table(path, text=text)
    return [valid[task.features], _target_values(valid, task, path)]


def _make_estimator(arguments: argparse.Namespace, grades: list[Any] | None) -> Any:
    from diffor.estimator import DiffoRClassifier, DiffoRRegressor

    shared = {
        "max_steps": arguments.max_steps,
        "time_limit": arguments.time_limit,
        "checkpoint_dir": arguments.checkpoint,
        "random_state": arguments.seed,
        "verbose": 0 if arguments.quiet else 1,
    }
    if grades is not None:
        return DiffoRClassifier(arguments.preset, grades=grades, **shared)
    bounds = None if arguments.bounds is None else tuple(arguments.bounds)
    return DiffoRRegressor(arguments.preset, bounds=bounds, transform=arguments.transform, **shared)


def _save(model: Any, out: Path, arguments: argparse.Namespace) -> None:
    from diffor.checkpoint import write_atomically

    notes = {"target": arguments.target, "weight": arguments.weight, "dropped": arguments.drop}
    try:
        model.save(out, overwrite=arguments.force)
        write_atomically(out / NOTES, json.dumps(notes, indent=1).encode())
        (out / NOTES).chmod(0o644)  # temporary files, which it was a moment ago, are private
    except OSError as error:
        raise UsageError(f"{out} cannot be written, however: {error.strerror or error}; choose another") from error


def _summary(model: Any, n_rows: int, out: Path) -> str:
    words = {"number": "numeric", "category": "categorical"}
    kinds = {kind: [str(column.name) for column in model.inputs_.columns if column.kind == kind]
             for kind in words}  # fmt: skip
    listed = [f"{len(names)} {words[kind]} ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
              for kind, names in kinds.items() if names]  # fmt: skip
    history = model.history_
    score = "none, there were no validation rows"
    if history.best_score is not None:
        score = f"{history.best_score:.4g} at step {history.best_step}"
    return "\n".join([
        f"model            {type(model).__name__}, preset {model.preset}",
        f"rows             {n_rows}",
        f"columns          {', '.join(listed)}",
        f"steps            {history.steps} ({history.stopped}) in {history.seconds:.1f} s",
        f"validation CRPS  {score}",
        f"saved in         {out}",
    ])  # fmt: skip


# --- predict ---


def _run_predict(arguments: argparse.Namespace) -> None:
    data, out = Path(arguments.data), None if arguments.out == "-" else Path(arguments.out)
    names = files.column_names(data)
    if out is not None:
        files.check_table_output(out, arguments.force)
        if out.resolve() == data.resolve():
            raise UsageError(f"--out must be another file than DATA, however: both are {data}; choose another")
    model = _load(Path(arguments.model))
    outputs = _output_names(model, arguments)
    keep = _kept_columns(arguments, names, outputs, data)
    numbers, text = _columns_by_kind(model, names, data)
    with _output(out) as write, _progress(data) as advance:
        for chunk in files.read_chunks(data, numbers, text, keep, files.CHUNK_ROWS):
            with _library_messages(chunk.describe(data)):
                answers = dict(zip(outputs, _answers(model, chunk.table, arguments), strict=True))
            write(chunk.kept.reset_index(drop=True).assign(**answers))
            advance(len(chunk))


def _load(folder: Path) -> Estimator:
    with _library_messages():
        model = diffor.load(folder)
    if not all(isinstance(column.name, str) for column in model.inputs_.columns):
        raise UsageError(f"{folder} must know its columns by name, however: it was fitted on rows without names; "
                         "fit it on a table with a header")  # fmt: skip
    model.verbose = 0  # the command shows the progress over the whole file
    return model


def _is_classifier(model: Estimator) -> bool:
    return hasattr(model, "classes_")


def _output_names(model: Estimator, arguments: argparse.Namespace) -> list[str]:
    """Columns of the answer; options that do not fit the model are refused."""
    if not _is_classifier(model):
        if arguments.statistic == "qwk":
            raise UsageError("--statistic qwk is for grades, however: MODEL predicts an amount; use median or mean")
        levels = [f"q{level!r}" for level in arguments.quantiles]
        return ["prediction", *levels, *(["low", "high"] if arguments.coverage is not None else [])]
    for option in ("quantiles", "coverage"):
        if getattr(arguments, option):
            raise UsageError(f"--{option} is for amounts, however: MODEL predicts grades; use their p_ columns")
    if arguments.statistic not in (None, "median", "mode", "qwk"):
        raise UsageError(f"--statistic of grades must be median, mode or qwk, however: {arguments.statistic}")
    return ["prediction", *(f"p_{grade}" for grade in model.classes_)]


def _kept_columns(arguments: argparse.Namespace, names: list[str], outputs: list[str], data: Path) -> list[str]:
    keep = names if arguments.keep_all else list(dict.fromkeys(arguments.keep))
    _require_columns(keep, names, data)
    clashes = [name for name in keep if name in outputs]
    if clashes:
        raise UsageError(
            f"kept columns must not be called like the answer's, however: {', '.join(map(repr, clashes))}; "
            "rename them in DATA or keep others"
        )
    return keep


def _columns_by_kind(model: Estimator, names: list[str], data: Path) -> tuple[list[str], list[str]]:
    """The model's number and category columns, all of which the file must have."""
    columns = model.inputs_.columns
    _require_columns([str(column.name) for column in columns], names, data)
    kinds: tuple[list[str], list[str]] = [], []
    for column in columns:
        kinds[column.kind == "category"].append(str(column.name))
    return kinds


def _answers(model: Any, table: pd.DataFrame, arguments: argparse.Namespace) -> Iterator[NDArray[Any]]:
    """The answer's columns, in the order of :func:`_output_names`."""
    if _is_classifier(model):
        probabilities = _probabilities(model, table, arguments.samples)
        yield _decide(model, probabilities, arguments.statistic)
        yield from probabilities.T
        return
    prediction = model.predict_distribution(table, arguments.samples)
    yield prediction.statistic("median" if arguments.statistic is None else arguments.statistic)
    if arguments.quantiles:
        yield from prediction.quantile(arguments.quantiles).T
    if arguments.coverage is not None:
        yield from prediction.interval(arguments.coverage).T


def _probabilities(model: Any, table: pd.DataFrame, n_samples: int | None) -> NDArray[np.float64]:
    """Probability of each grade. **Shape:** ``(n, K)``."""
    if n_samples is not None:
        model.settings_ = replace(model.settings_, n_samples=n_samples)
    probabilities: NDArray[np.float64] = model.predict_proba(table)
    return probabilities


def _decide(model: Any, probabilities: NDArray[np.float64], decision: str | None = None) -> NDArray[Any]:
    """One grade per row, as ``model.predict`` chooses it, without running the model again. **Shape:** ``(n,)``."""
    import numpy as np

    decision = model.decision if decision is None else decision
    if decision == "mode":
        chosen = probabilities.argmax(axis=1)
    elif decision == "median":
        chosen = (probabilities.cumsum(axis=1) < 0.5).sum(axis=1)
    else:
        chosen = np.rint(probabilities @ np.arange(len(model.classes_))).astype(np.int64)
    grades: NDArray[Any] = model.classes_[np.minimum(chosen, len(model.classes_) - 1)]
    return grades


@contextmanager
def _output(out: Path | None) -> Iterator[files.Write]:
    if out is None:
        yield files.csv_writer(sys.stdout)
    else:
        with files.table_writer(out) as write:
            yield write


@contextmanager
def _progress(data: Path) -> Iterator[Callable[[int], object]]:
    """A function to call with the number of rows that were done; silent unless on a terminal."""
    from tqdm import tqdm

    with tqdm(total=files.count_rows(data), unit="row", desc="predict", disable=None) as bar:
        yield bar.update


# --- evaluate ---


def _run_evaluate(arguments: argparse.Namespace) -> None:
    data, folder = Path(arguments.data), Path(arguments.model)
    names = files.column_names(data)
    model = _load(folder)
    target = arguments.target or _remembered_target(folder)
    _require_columns([target], names, data)
    truth = _truth(model, target, data)
    score = _score_grades if _is_classifier(model) else _score_amounts
    scores = score(model, truth, _chunks(model, names, data), arguments.coverage)
    if arguments.json:
        facts = {"model": type(model).__name__, "target": target, "rows": len(truth), "nominal_coverage": None
                 if _is_classifier(model) else arguments.coverage}  # fmt: skip
        pairs = {name: {"model": ours, "constant": constant} for name, (ours, constant) in scores.items()}
        print(json.dumps({**facts, "metrics": pairs}, allow_nan=False))
    else:
        print(_score_table(scores, len(truth), target))


def _remembered_target(folder: Path) -> str:
    try:
        target = json.loads((folder / NOTES).read_text())["target"]
    except FileNotFoundError:
        raise UsageError(f"--target must be given, however: {folder} does not remember one; add --target COL") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / NOTES} must name the target, however: it is damaged; pass --target COL") from error
    return str(target)


def _truth(model: Any, target: str, data: Path) -> NDArray[Any]:
    """The true values, as numbers or as places of the grades. **Shape:** ``(n,)``."""
    import pandas as pd

    grades = model.classes_ if _is_classifier(model) else None
    spelled = grades is not None and grades.dtype.kind in "OU"
    table = files.read_table(data, [target], [target] if spelled else [])
    listed = None if grades is None else grades.tolist()
    values = _target_values(table, _Task([], target, None, listed), data)
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


def _chunks(model: Any, names: list[str], data: Path) -> Chunks:
    """A function that yields what another answers for each chunk of the file, with the rows they are."""
    numbers, text = _columns_by_kind(model, names, data)

    def each(answer: Callable[[pd.DataFrame], Any]) -> Iterator[tuple[slice, Any]]:
        with _progress(data) as advance:
            for chunk in files.read_chunks(data, numbers, text, rows=files.CHUNK_ROWS):
                with _library_messages(chunk.describe(data)):
                    answers = answer(chunk.table)
                yield slice(chunk.first, chunk.first + len(chunk)), answers
                advance(len(chunk))

    return each


def _score_amounts(model: Any, truth: NDArray[Any], each_chunk: Chunks, level: float) -> Scores:
    """Metrics of predicted amounts, each beside the best that a constant answer could reach on these rows."""
    import numpy as np

    from diffor import metrics

    median, low, high, crps = np.empty((4, len(truth)))
    for rows, prediction in each_chunk(model.predict_distribution):
        median[rows], crps[rows] = prediction.median, prediction.crps(truth[rows])
        low[rows], high[rows] = prediction.interval(level).T
    ends = np.quantile(truth, [(1 - level) / 2, (1 + level) / 2])
    constant = [np.full(len(truth), value) for value in (np.median(truth), truth.mean(), *ends)]
    varies = np.ptp(truth) > 0
    # The mean distance of two rows is the CRPS of answering every row with the distribution of all.
    ranks = 2 * np.arange(1, len(truth) + 1) - len(truth) - 1
    return {
        "mae": (metrics.mae(truth, median), metrics.mae(truth, constant[0])),
        "rmse": (metrics.rmse(truth, median), metrics.rmse(truth, constant[1])),
        "srcc": (metrics.srcc(truth, median), 0.0) if varies else (None, None),
        "xauc": (metrics.xauc(truth, median), 0.5) if varies else (None, None),
        "crps": (float(crps.mean()), float(np.sort(truth) @ ranks / len(truth) ** 2)),
        "coverage": (metrics.coverage(truth, low, high), metrics.coverage(truth, *constant[2:])),
        "interval_width": (metrics.interval_width(low, high), float(ends[1] - ends[0])),
    }


def _score_grades(model: Any, truth: NDArray[Any], each_chunk: Chunks, level: float) -> Scores:
    """Metrics of predicted grades, each beside the best that a constant answer could reach on these rows."""
    import numpy as np
    import pandas as pd

    from diffor import metrics

    del level  # grades have no intervals
    n_grades = len(model.classes_)
    probabilities = np.empty((len(truth), n_grades))
    for rows, part in each_chunk(model.predict_proba):
        probabilities[rows] = part
    chosen = pd.Index(model.classes_).get_indexer(pd.Index(_decide(model, probabilities)))
    shares = np.bincount(truth, minlength=n_grades) / len(truth)
    common, middle = shares.argmax(), np.sort(truth)[len(truth) // 2]
    return {
        "accuracy": (metrics.accuracy_off_by(truth, chosen, 0), float(shares[common])),
        "mae": (metrics.mae(truth, chosen), metrics.mae(truth, np.full(len(truth), middle))),
        "qwk": (metrics.qwk(truth, chosen, n_grades), 0.0) if np.ptp(truth) > 0 else (None, None),
        "rps": (metrics.rps(truth, probabilities), metrics.rps(truth, np.tile(shares, (len(truth), 1)))),
    }


def _score_table(scores: Scores, n_rows: int, target: str) -> str:
    lines = [f"{n_rows} rows, target {target}", "", f"{'metric':<16}{'model':>12}{'constant':>12}"]
    for name, values in scores.items():
        shown = ("-" if value is None else f"{value:.4g}" for value in values)
        lines.append(f"{name:<16}" + "".join(f"{value:>12}" for value in shown))
    return "\n".join([*lines, "", "constant: the best that one answer for all rows could reach here"])


# --- demo ---


def _run_demo(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.out)
    if not folder.is_dir():
        raise UsageError(f"--out must be an existing folder, however: {folder} is none; create it first")
    from diffor.demo import PAGE, run_demo

    files.check_output(folder / PAGE, arguments.force)
    try:
        run_demo(folder, arguments.seed, arguments.quick)
    except ImportError as error:
        if "diffor[" not in str(error):
            raise
        raise UsageError(str(error)) from error


# --- messages ---


def _require_columns(wanted: Sequence[str], known: Sequence[str], data: Path) -> None:
    missing = [name for name in wanted if name not in known]
    if missing:
        shown = ", ".join(f"{name!r}{_did_you_mean(name, known)}" for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        has = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise UsageError(f"{data} must have the column {shown}{more}, however: its columns are {has}; "
                         "check the names")  # fmt: skip


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=DISTANT)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


@contextmanager
def _library_messages(where: str = "") -> Iterator[None]:
    """Pass on what the library says about wrong values; whatever else goes wrong keeps its traceback."""
    from diffor.checkpoint import CheckpointError

    try:
        yield
    except CheckpointError as error:
        raise UsageError(where + str(error)) from error
    except FloatingPointError as error:
        raise UsageError(where + str(error)) from error
    except (ValueError, TypeError) as error:
        if "however:" not in str(error):  # the mark of messages that are meant for users
            raise
        raise UsageError(where + str(error)) from error


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the place in the code."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        print(f"diffor: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
