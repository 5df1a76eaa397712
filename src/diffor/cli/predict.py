"""``diffor predict``: predict the rows of a file, however long it is."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import (
    answered_chunks,
    columns_by_kind,
    is_classifier,
    load_model,
    side_columns,
)
from diffor.cli.options import add_command, add_effort, add_side_columns, as_levels, as_share, as_statistic
from diffor.cli.usage import UsageError, require_columns
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Question = tuple[
    tuple[list[str], list[str]], Callable[..., "dict[str, NDArray[Any]]"], Sequence[str], Mapping[str, str]
]
"""Columns to compute with, what answers them, columns to hand on, and side columns."""


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "predict",
        run,
        "predict the rows of a file, however long it is",
        "diffor predict model new.csv --out answers.csv",
        "diffor predict model new.csv --out answers.parquet --coverage 0.9 --keep id",
        "diffor predict model views.csv --out seconds.csv --upper length",
        "diffor predict model new.csv --out - --quantiles 0.05,0.5,0.95 | head",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows to predict; columns the model does not know are ignored")
    command.add_argument("--out", required=True, metavar="FILE", help=".csv or .parquet file, or - for the screen")
    add_answer_options(command)
    command.add_argument("--force", action="store_true", help="replace FILE if it exists")


def add_answer_options(command: argparse.ArgumentParser) -> None:
    """Register what may be asked about each row, and what is copied beside the answer."""
    command.add_argument("--quantiles", type=as_levels, default=[], metavar="Q,...", help="levels to add as q columns")
    command.add_argument(
        "--coverage",
        type=as_share,
        metavar="C",
        help="add low and high, between which the target lies with probability C; guaranteed after fit --calibration",
    )
    add_effort(command)
    command.add_argument(
        "--statistic",
        type=as_statistic,
        metavar="NAME",
        help="what prediction is: median (default of diffor), mean, mode, a level, or native, which the method's "
        "authors decide on (default of other methods); for grades median, mode or qwk, or native",
    )
    add_side_columns(command)
    kept = command.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep", nargs="+", action="extend", default=[], metavar="COL", help="columns to copy beside it (CSV: as text)"
    )
    kept.add_argument("--keep-all", action="store_true", help="copy all columns")


def run(arguments: argparse.Namespace) -> None:
    """Write the answers for the rows of a file, a chunk at a time."""
    data, out = Path(arguments.data), None if arguments.out == "-" else Path(arguments.out)
    names = tables.column_names(data)
    if out is not None:
        tables.check_table_output(out, arguments.force)
        if out.resolve() == data.resolve():
            raise UsageError(f"--out must be another file than DATA, but both are {data}; choose another")
    answerer = RowAnswerer(arguments)
    asked = answerer.ask(data, names)
    with _output(out) as write, tables.unchanged(data), answered_chunks(data, *asked) as chunks:
        for chunk, answers in chunks:
            write(beside_kept(chunk, answers))


class RowAnswerer:
    """A model and what it is asked about each row: what ``predict`` and ``score`` write is the same."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.folder = Path(arguments.model)
        self.model = load_model(self.folder)
        self.outputs = _output_names(self.model, arguments)
        self.threshold = _threshold(self.model, arguments)  # once for all chunks, as is its warning

    def ask(self, data: Path, names: list[str]) -> Question:
        """What :func:`answered_chunks` takes after the file; a file that lacks columns is refused."""
        keep = _kept_columns(self.arguments, names, self.outputs, data)
        columns = columns_by_kind(self.model, names, data)
        sides = side_columns(self.model, self.folder, self.arguments, names, data)
        return columns, self.answer, keep, sides

    def answer(self, table: pd.DataFrame, **side: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The answer's columns. **Shape:** n rows -> ``(n,)`` each."""
        answers = _answers(self.model, table, side, self.arguments, self.threshold)
        return dict(zip(self.outputs, answers, strict=True))


def beside_kept(chunk: tables.Chunk, answers: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """The columns that a chunk hands on, and beside them the answers."""
    table: pd.DataFrame = chunk.kept.reset_index(drop=True).assign(**answers)
    return table


def _output_names(model: Any, arguments: argparse.Namespace) -> list[str]:
    """Columns of the answer; options that do not fit the model are refused."""
    ends = [] if arguments.coverage is None else ["low", "high"]
    if not model.has_distribution and (arguments.quantiles or (ends and model.conformal_ is None)):
        option, cure = ("--quantiles", "") if arguments.quantiles else ("--coverage", ", or fit with --calibration")
        raise UsageError(f"{option} needs a distribution, but method {model.settings_.method!r} predicts a point; "
                         f"leave {option} out{cure}")  # fmt: skip
    if not is_classifier(model):
        if arguments.statistic == "qwk":
            raise UsageError("--statistic qwk is for grades, but MODEL predicts an amount; use median or mean")
        levels = [f"q{level!r}" for level in arguments.quantiles]
        return ["prediction", *levels, *ends]
    if arguments.quantiles:
        raise UsageError("--quantiles is for amounts, but MODEL predicts grades; use their p_ columns")
    if arguments.statistic not in (None, "median", "mode", "qwk", "native"):
        raise UsageError(f"--statistic of grades must be median, mode or qwk, or native, but got {arguments.statistic}")
    return ["prediction", *(f"p_{grade}" for grade in model.grades_), *ends]


def _threshold(model: Any, arguments: argparse.Namespace) -> float | None:
    """How far a calibrated model's intervals or sets must be opened; None where no guarantee is asked for or given."""
    if model.conformal_ is None or arguments.coverage is None:
        return None
    count, steps = model.settings_.n_samples, model.settings_.method_settings.get("n_steps")
    if arguments.samples not in (None, count):
        raise UsageError(
            f"--coverage of a calibrated MODEL needs the {count} samples per row that it was calibrated with, but got "
            f"--samples {arguments.samples}; leave --samples or --coverage out"
        )
    if arguments.steps not in (None, steps):
        raise UsageError(
            "--coverage of a calibrated MODEL needs the steps of the chain that it was calibrated with, but got "
            f"--steps {arguments.steps}; leave --steps or --coverage out"
        )
    return float(model.conformal_.threshold(arguments.coverage))


def _kept_columns(arguments: argparse.Namespace, names: list[str], outputs: list[str], data: Path) -> list[str]:
    keep = names if arguments.keep_all else list(dict.fromkeys(arguments.keep))
    require_columns(keep, names, data)
    clashes = [name for name in keep if name in outputs]
    if clashes:
        raise UsageError(
            f"kept columns must not be called like the answer's, but got {', '.join(map(repr, clashes))}; "
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
    prediction, opened = model.predict_opened(table, threshold, arguments.samples, n_steps=arguments.steps, **side)
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
    from diffor.estimators.conformal import open_sets, probable_sets

    prediction = model.predict_distribution(table, arguments.samples, n_steps=arguments.steps, **side)
    probabilities = prediction.grade_probabilities(len(model.grades_))
    yield model.grades_[model.decide(prediction, probabilities, arguments.statistic)]
    yield from probabilities.T
    if arguments.coverage is None:
        return
    if threshold is None:
        held = probable_sets(probabilities, arguments.coverage)
    else:
        held = open_sets(probabilities, threshold)
    yield model.grades_[held.argmax(axis=1)]
    yield model.grades_[held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)]


@contextmanager
def _output(out: Path | None) -> Iterator[tables.Write]:
    if out is None:
        if sys.stdout is None:
            raise UsageError("--out - needs a standard output, but it is closed; name a file")
        if isinstance(sys.stdout, io.TextIOWrapper):  # the same bytes as in a file, whatever the terminal knows
            sys.stdout.reconfigure(encoding="utf-8", errors="strict")
        yield tables.csv_writer(sys.stdout)
    else:
        with tables.table_writer(out) as write:
            yield write
