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
from diffor.cli.options import (
    add_command,
    add_effort,
    add_side_columns,
    as_levels,
    as_share,
    as_statistic,
    require_columns,
)
from diffor.errors import UserError
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
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    argument("data", metavar="DATA", help="rows to predict; columns the model does not know are ignored")
    argument("--out", required=True, metavar="FILE", help=".csv or .parquet file, or - for the screen")
    add_answer_options(command)
    argument("--force", action="store_true", help="replace FILE if it exists")


def add_answer_options(command: argparse.ArgumentParser) -> None:
    """Register what may be asked about each row, and what is copied beside the answer."""
    argument = command.add_argument
    argument("--quantiles", type=as_levels, default=[], metavar="Q,...", help="levels to add as q columns")
    coverage_help = (
        "add low and high, between which the target lies with probability C; guaranteed after fit --calibration"
    )
    argument("--coverage", type=as_share, metavar="C", help=coverage_help)
    add_effort(command)
    statistic_help = (
        "what prediction is: median (default of diffor), mean, mode, a level, or native, which the method's "
        "authors decide on (default of other methods); for grades median, mode or qwk, or native"
    )
    argument("--statistic", type=as_statistic, metavar="NAME", help=statistic_help)
    novelty_help = "add novelty: the row's columns that are unlike training, as size;city, empty where none is"
    argument("--novelty", action="store_true", help=novelty_help)
    add_side_columns(command)
    kept = command.add_mutually_exclusive_group()
    many: dict[str, Any] = {"nargs": "+", "action": "extend", "default": [], "metavar": "COL"}
    kept.add_argument("--keep", **many, help="columns to copy beside it (CSV: as text)")
    kept.add_argument("--keep-all", action="store_true", help="copy all columns")


def run(arguments: argparse.Namespace) -> None:
    """Write the answers for the rows of a file, a chunk at a time."""
    data, out = Path(arguments.data), None if arguments.out == "-" else Path(arguments.out)
    names = tables.column_names(data)
    if out is not None:
        tables.check_table_output(out, arguments.force)
        if out.resolve() == data.resolve():
            raise UserError(f"--out must be another file than DATA, but both are {data}; choose another")
    answerer = RowAnswerer(arguments)
    asked = answerer.ask(data, names)
    with _output(out) as write, tables.unchanged(data), answered_chunks(data, *asked) as chunks:
        for chunk, answers in chunks:
            write(beside_kept(chunk, answers))


class RowAnswerer:
    """A model and what it is asked about each row: what ``predict`` and ``score`` write is the same."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.folder = arguments, Path(arguments.model)
        self.model: Any = load_model(self.folder)
        self.is_graded = is_classifier(self.model)
        self._check_options()
        ends = [] if arguments.coverage is None else ["low", "high"]
        levels, grades = arguments.quantiles, self.model.grades_ if self.is_graded else ()
        self.outputs = ["prediction", *(f"q{level!r}" for level in levels), *(f"p_{grade}" for grade in grades), *ends]
        self.outputs += ["novelty"] if arguments.novelty else []
        self.threshold: float | None = None
        """How far a calibrated model's intervals or sets must be opened, where a guarantee is asked for."""
        if self.model.conformal_ is not None and ends:
            self.threshold = float(self.model.conformal_.threshold(arguments.coverage))  # once, as is its warning

    def _check_options(self) -> None:
        """Refuse options that do not fit the model."""
        model, arguments = self.model, self.arguments
        has_intervals = model.has_distribution or model.conformal_ is not None
        for option, answered, cure in (
            ("quantiles", model.has_distribution, ""),
            ("coverage", has_intervals, ", or fit with --calibration"),
        ):
            if getattr(arguments, option) and not answered:
                raise UserError(
                    f"--{option} needs a distribution, but method {model.settings_.method!r} predicts a point; leave "
                    f"--{option} out{cure}"
                )
        if not self.is_graded and arguments.statistic == "qwk":
            raise UserError("--statistic qwk is for grades, but MODEL predicts an amount; use median or mean")
        if self.is_graded and arguments.quantiles:
            raise UserError("--quantiles is for amounts, but MODEL predicts grades; use their p_ columns")
        if self.is_graded and arguments.statistic not in (None, "median", "mode", "qwk", "native"):
            raise UserError(
                f"--statistic of grades must be median, mode or qwk, or native, but got {arguments.statistic}"
            )
        if model.conformal_ is None or arguments.coverage is None:
            return
        count, steps = model.settings_.n_samples, model.settings_.method_settings.get("n_steps")
        for option, known, effort in (
            ("samples", count, f"the {count} samples per row"),
            ("steps", steps, "the steps of the chain"),
        ):
            if getattr(arguments, option) not in (None, known):
                raise UserError(
                    f"--coverage of a calibrated MODEL needs {effort} that it was calibrated with, but got "
                    f"--{option} {getattr(arguments, option)}; leave --{option} or --coverage out"
                )

    def ask(self, data: Path, names: list[str]) -> Question:
        """What :func:`answered_chunks` takes after the file; a file that lacks columns is refused."""
        keep = names if self.arguments.keep_all else list(dict.fromkeys(self.arguments.keep))
        require_columns(keep, names, data)
        clashes = [name for name in keep if name in self.outputs]
        if clashes:
            raise UserError(
                f"kept columns must not be called like the answer's, but got {', '.join(map(repr, clashes))}; "
                "rename them in DATA or keep others"
            )
        columns = columns_by_kind(self.model, names, data)
        sides = side_columns(self.model, self.folder, self.arguments, names, data)
        return columns, self.answer, keep, sides

    def answer(self, table: pd.DataFrame, **side: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The answer's columns. **Shape:** n rows -> ``(n,)`` each."""
        answers = [*(self._grades(table, side) if self.is_graded else self._amounts(table, side))]
        if self.arguments.novelty:
            answers.append(novel_names(self.model, table))
        return dict(zip(self.outputs, answers, strict=True))

    def _amounts(self, table: pd.DataFrame, side: dict[str, NDArray[Any]]) -> Iterator[NDArray[Any]]:
        model, asked = self.model, self.arguments
        prediction, opened = model.predict_opened(table, self.threshold, asked.samples, n_steps=asked.steps, **side)
        yield prediction.statistic(model.default_statistic if asked.statistic is None else asked.statistic)
        if asked.quantiles:
            yield from prediction.quantile(asked.quantiles).T
        if asked.coverage is not None:
            yield from (prediction.interval(asked.coverage) if opened is None else opened).T

    def _grades(self, table: pd.DataFrame, side: dict[str, NDArray[Any]]) -> Iterator[NDArray[Any]]:
        from diffor.estimators.conformal import open_sets, probable_sets

        model, asked = self.model, self.arguments
        prediction = model.predict_distribution(table, asked.samples, n_steps=asked.steps, **side)
        probabilities = prediction.grade_probabilities(len(model.grades_))
        yield model.grades_[model.decide(prediction, probabilities, asked.statistic)]
        yield from probabilities.T
        if asked.coverage is not None:
            if self.threshold is None:
                held = probable_sets(probabilities, asked.coverage)
            else:
                held = open_sets(probabilities, self.threshold)
            yield model.grades_[held.argmax(axis=1)]
            yield model.grades_[held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)]


def novel_names(model: Any, table: pd.DataFrame) -> NDArray[Any]:
    """The columns of each row that are unlike training, with semicolons between. **Shape:** -> ``(n,)`` of text."""
    import numpy as np

    from diffor.estimators.novelty import novelty

    found = novelty(model, table)
    names = np.array([str(name) for name in found.columns], dtype=object)
    return np.array([";".join(names[row]) for row in found.to_numpy()], dtype=object)


def beside_kept(chunk: tables.Chunk, answers: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """The columns that a chunk hands on, and beside them the answers."""
    table: pd.DataFrame = chunk.kept.reset_index(drop=True).assign(**answers)
    return table


@contextmanager
def _output(out: Path | None) -> Iterator[tables.Write]:
    if out is None:
        if sys.stdout is None:
            raise UserError("--out - needs a standard output, but it is closed; name a file")
        if isinstance(sys.stdout, io.TextIOWrapper):  # the same bytes as in a file, whatever the terminal knows
            sys.stdout.reconfigure(encoding="utf-8", errors="strict")
        yield tables.csv_writer(sys.stdout)
    else:
        with tables.table_writer(out) as write:
            yield write
