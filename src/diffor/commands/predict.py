"""``diffor predict``: predict the rows of a file, however long it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor import files
from diffor.commands.arguments import add_command, as_count, as_levels, as_share, as_statistic
from diffor.commands.model_folder import (
    answered_chunks,
    columns_by_kind,
    decide,
    is_classifier,
    load_model,
    side_columns,
)
from diffor.commands.usage import UsageError, require_columns

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "predict",
        run,
        "predict the rows of a file, however long it is",
        "diffor predict model new.csv --out answers.csv",
        "diffor predict model new.csv --out answers.parquet --coverage 0.9 --keep id",
        "diffor predict model new.csv --out - --quantiles 0.05,0.5,0.95 | head",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows to predict; columns the model does not know are ignored")
    command.add_argument("--out", required=True, metavar="FILE", help=".csv or .parquet file, or - for the screen")
    command.add_argument("--quantiles", type=as_levels, default=[], metavar="Q,...", help="levels to add as q columns")
    command.add_argument(
        "--coverage",
        type=as_share,
        metavar="C",
        help="add low and high, between which the target lies with probability C; guaranteed after fit --calibration",
    )
    command.add_argument("--samples", type=as_count, metavar="N", help="samples per row (default: the model's)")
    command.add_argument(
        "--statistic",
        type=as_statistic,
        metavar="NAME",
        help="what prediction is: median (default of diffor), mean, mode, a level, or native, which the method's "
        "authors decide on (default of other methods); for grades median, mode or qwk, or native",
    )
    command.add_argument("--duration", metavar="COL", help="column of the duration, where needed (default: as in fit)")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep", nargs="+", action="extend", default=[], metavar="COL", help="columns of DATA to copy (CSV: as text)"
    )
    kept.add_argument("--keep-all", action="store_true", help="copy all columns of DATA")
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the answers for the rows of a file, a chunk at a time."""
    data, out = Path(arguments.data), None if arguments.out == "-" else Path(arguments.out)
    names = files.column_names(data)
    if out is not None:
        files.check_table_output(out, arguments.force)
        if out.resolve() == data.resolve():
            raise UsageError(f"--out must be another file than DATA, however: both are {data}; choose another")
    model = load_model(Path(arguments.model))
    outputs = _output_names(model, arguments)
    keep = _kept_columns(arguments, names, outputs, data)
    columns = columns_by_kind(model, names, data)
    sides = side_columns(model, Path(arguments.model), arguments.duration, names, data)
    threshold = _threshold(model, arguments)  # once for all chunks, as is its warning

    def answer(table: pd.DataFrame, **side: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip(outputs, _answers(model, table, side, arguments, threshold), strict=True))

    with _output(out) as write, answered_chunks(data, columns, answer, keep, sides) as chunks:
        for chunk, answers in chunks:
            write(chunk.kept.reset_index(drop=True).assign(**answers))


def _output_names(model: Any, arguments: argparse.Namespace) -> list[str]:
    """Columns of the answer; options that do not fit the model are refused."""
    ends = [] if arguments.coverage is None else ["low", "high"]
    if not model.has_distribution and (arguments.quantiles or (ends and model.conformal_ is None)):
        option, cure = ("--quantiles", "") if arguments.quantiles else ("--coverage", ", or fit with --calibration")
        raise UsageError(f"{option} needs a distribution, however: method {model.settings_.method!r} predicts a point; "
                         f"leave {option} out{cure}")  # fmt: skip
    if not is_classifier(model):
        if arguments.statistic == "qwk":
            raise UsageError("--statistic qwk is for grades, however: MODEL predicts an amount; use median or mean")
        levels = [f"q{level!r}" for level in arguments.quantiles]
        return ["prediction", *levels, *ends]
    if arguments.quantiles:
        raise UsageError("--quantiles is for amounts, however: MODEL predicts grades; use their p_ columns")
    if arguments.statistic not in (None, "median", "mode", "qwk", "native"):
        raise UsageError(
            f"--statistic of grades must be median, mode or qwk, or native, however: {arguments.statistic}"
        )
    return ["prediction", *(f"p_{grade}" for grade in model.classes_), *ends]


def _threshold(model: Any, arguments: argparse.Namespace) -> float | None:
    """How far a calibrated model's intervals or sets must be opened; None where no guarantee is asked for or given."""
    if model.conformal_ is None or arguments.coverage is None:
        return None
    count = model.settings_.n_samples
    if arguments.samples not in (None, count):
        raise UsageError(
            f"--coverage of a calibrated MODEL needs the {count} samples per row that it was calibrated with, however: "
            f"--samples {arguments.samples}; leave --samples or --coverage out"
        )
    return float(model.conformal_.threshold(arguments.coverage))


def _kept_columns(arguments: argparse.Namespace, names: list[str], outputs: list[str], data: Path) -> list[str]:
    keep = names if arguments.keep_all else list(dict.fromkeys(arguments.keep))
    require_columns(keep, names, data)
    clashes = [name for name in keep if name in outputs]
    if clashes:
        raise UsageError(
            f"kept columns must not be called like the answer's, however: {', '.join(map(repr, clashes))}; "
            "rename them in DATA or keep others"
        )
    return keep


def _answers(
    model: Any,
    table: pd.DataFrame,
    side: dict[str, NDArray[Any]],
    arguments: argparse.Namespace,
    threshold: float | None,
) -> Iterator[NDArray[Any]]:
    """The answer's columns, in the order of :func:`_output_names`; without threshold, nothing is guaranteed."""
    if is_classifier(model):
        yield from _grade_answers(model, table, side, arguments, threshold)
        return
    prediction, opened = model.predict_opened(table, threshold, arguments.samples, **side)
    yield prediction.statistic(model.default_statistic if arguments.statistic is None else arguments.statistic)
    if arguments.quantiles:
        yield from prediction.quantile(arguments.quantiles).T
    if opened is not None:
        yield from opened.T
    elif arguments.coverage is not None:
        yield from prediction.interval(arguments.coverage).T


def _grade_answers(
    model: Any,
    table: pd.DataFrame,
    side: dict[str, NDArray[Any]],
    arguments: argparse.Namespace,
    threshold: float | None,
) -> Iterator[NDArray[Any]]:
    from diffor.conformal import open_sets, probable_sets
    from diffor.grades import grade_shares

    prediction = model.predict_distribution(table, arguments.samples, **side)
    probabilities = grade_shares(prediction.samples, len(model.classes_))
    decision = model.decision if arguments.statistic is None else arguments.statistic
    yield model.classes_[decide(model, prediction, probabilities, decision)]
    yield from probabilities.T
    if arguments.coverage is None:
        return
    if threshold is None:
        held = probable_sets(probabilities, arguments.coverage)
    else:
        held = open_sets(probabilities, threshold)
    yield model.classes_[held.argmax(axis=1)]
    yield model.classes_[held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)]


@contextmanager
def _output(out: Path | None) -> Iterator[files.Write]:
    if out is None:
        yield files.csv_writer(sys.stdout)
    else:
        with files.table_writer(out) as write:
            yield write
