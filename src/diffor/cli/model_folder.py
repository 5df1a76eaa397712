"""Model folders: saved and loaded with what the command line remembers, and asked about the rows of a file."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import about, first_names, require_columns
from diffor.errors import UserError, did_you_mean
from diffor.files import tables
from diffor.files.claims import wait_for
from diffor.files.guarded import read_json_file, root_of
from diffor.files.schema import ListOf, MapOf, Record, Text, optional

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from diffor.estimators.api import Estimator

NOTES = "cli.json"
"""File in a model folder that remembers which columns were target, weight and beside the features, or left out."""
LIMITS = ("lower", "upper")
"""What the command line calls columns with a limit of each row, beside the names of a method's side columns."""
_COLUMN = Text(10_000)
RULE_OF_NOTES = Record({"target": _COLUMN}, {"weight": optional(_COLUMN), "side": MapOf(_COLUMN),
                                             "dropped": optional(ListOf(_COLUMN))})  # fmt: skip


def check_model_output(out: Path, force: bool, checkpoint: str | None) -> None:
    """Refuse, before any training, a folder that could not be written after it."""
    wait_for(out)
    if out.exists() and not (force and (out / "config.json").is_file()):
        cure = "it is no model, so choose another" if force else "choose another or pass --force to replace it"
        raise UserError(f"{out} must not exist yet, but it does; {cure}")
    tables.check_parent(out)
    if checkpoint is None:
        return
    place = Path(checkpoint)
    if place.exists() and not place.is_dir():
        raise UserError(f"--checkpoint must be a folder, but {place} is a file; choose another")
    if out.resolve() in (place.resolve(), *place.resolve().parents):
        raise UserError(f"--checkpoint must lie outside the model folder {out}, but got {place}; choose another")


def save_model(model: Any, out: Path, notes: dict[str, Any] | None, force: bool) -> None:
    """Write a fitted model and, beside it, what is to be remembered of its columns, if anything is."""
    from diffor.training.checkpoint import save_folder

    # In one step: a model that does not remember its target is half a one.
    beside = {} if notes is None else {NOTES: json.dumps(notes, indent=1).encode()}
    try:
        config, tensors = model.saved_state()
        save_folder(out, config, tensors, force, beside)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}; choose another") from error


def load_model(folder: Path, may_read_images: bool = False) -> Estimator:
    """Read a model that knows its columns by name."""
    from diffor.estimators.api import load

    model = load(folder)
    if model.images_ is not None and not may_read_images:
        raise UserError(
            f"{folder} must read tables, but it reads images; ask it in Python, or fit a model on what diffor embed "
            "writes"
        )
    if not all(isinstance(column.name, str) for column in model.inputs_.columns):
        raise UserError(
            f"{folder} must know its columns by name, but it was fitted on rows without names; fit it on a table with "
            "a header"
        )
    model.verbose = 0  # the command shows the progress over the whole file
    return model


def read_notes(folder: Path) -> dict[str, Any] | None:
    """What a model's folder remembers of its columns; None where it remembers nothing, as one that Python wrote.

    It may come from a stranger: only text is taken from it.
    """
    path = folder / NOTES
    if not os.path.lexists(path):
        return None
    try:
        notes = read_json_file(path, root_of(folder))
        RULE_OF_NOTES.check(notes, "")
    except ValueError as error:
        raise UserError(
            f"{path} must hold what diffor fit noted of the columns, but it is damaged; fit again, or delete it and "
            "pass --target COL or --duration COL"
        ) from error
    return dict(notes)


def remembered_target(folder: Path) -> str:
    """The column that a model was fitted to predict."""
    notes = read_notes(folder)
    if notes is None:
        raise UserError(f"--target must be given, but {folder} does not remember one; add --target COL")
    return str(notes["target"])


def remembered_sides(folder: Path) -> dict[str, str] | None:
    """The column of each side that a model was fitted with; None where its folder remembers nothing."""
    notes = read_notes(folder)
    return None if notes is None else dict(notes.get("side", {}))


def side_columns(
    model: Any, folder: Path, arguments: argparse.Namespace, names: Sequence[str], data: Path
) -> dict[str, str]:
    """Columns of a file that the model needs or is asked with beside the features, by what it calls them.

    They are those that were named in fit, unless ``--duration``, ``--lower`` and ``--upper`` name others; all must be
    in the file.
    """
    from diffor.methods import METHODS

    name = model.settings_.method
    method = METHODS[name]
    if arguments.duration is not None and "duration" not in (*method.requires, *method.accepts):
        raise UserError(
            f"--duration is for methods that use it, but {folder} was fitted with {name!r}, which does not; leave "
            "it out"
        )
    limits = {side: column for side in LIMITS if (column := getattr(arguments, side)) is not None}
    if limits and is_classifier(model):
        raise UserError(f"--{next(iter(limits))} is for amounts, but MODEL predicts grades; leave it out")
    require_columns(list(limits.values()), names, data)
    given = limits if arguments.duration is None else {"duration": arguments.duration, **limits}
    required = [*method.requires, *(["upper"] if model.learns_share else [])]
    columns = dict(given)
    wanted = [side for side in (*required, *method.accepts) if side not in given]
    if wanted:
        remembered = remembered_sides(folder)
        if remembered is None:  # fitted in Python, where the column has the model's name for it
            remembered = {side: side for side in wanted if side in required or side in names}
        columns = {side: column for side, column in remembered.items() if side in wanted} | given
    for side, column in columns.items():
        if column not in names:
            whose = "the model" if side in LIMITS else f"method {name!r}"
            raise UserError(
                f"{data} must have the column {column!r}{did_you_mean(column, names)}, the {side} that {whose} "
                f"needs, but its columns are {first_names(names)}; add it, or name another with --{side} COL"
            )
    return columns


def side_values(column: pd.Series[Any], side: str, data: Path, first: int = 0) -> NDArray[Any]:
    """A side column as numbers; ``first`` is the place of its first row. **Shape:** ``(n,)``.

    It must be known in every row and not negative, but for a limit, which may be any number, or missing where there is
    none.
    """
    import numpy as np
    import pandas as pd

    tables.check_numbers(column, data, first)
    values = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype="float64", na_value=np.nan)
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if len(wrong) and side not in LIMITS:
        raise UserError(
            f"{side} {column.name!r} must be a finite number from 0 on in every row of {data}, but row "
            f"{first + int(wrong[0]) + 1} has {values[wrong[0]]}; correct or remove such rows"
        )
    return np.asarray(values)


def is_classifier(model: Any) -> bool:
    """Whether a fitted model predicts grades, not amounts."""
    return hasattr(model, "classes_")


def columns_by_kind(model: Any, names: Sequence[str], data: Path) -> tuple[list[str], list[str]]:
    """The model's number and category columns, all of which the file must have."""
    columns = model.inputs_.columns
    require_columns([str(column.name) for column in columns], names, data)
    kinds: tuple[list[str], list[str]] = [], []
    for column in columns:
        kinds[column.kind == "category"].append(str(column.name))
    return kinds


def answer_chunks(
    data: Path,
    columns: tuple[list[str], list[str]],
    answer: Callable[..., Any],
    keep: Sequence[str] = (),
    sides: Mapping[str, str] | None = None,
    groups: Sequence[int] | None = None,
) -> Iterator[tuple[tables.Chunk, Any]]:
    """The chunks of a file, or of some of its row ``groups``, each with the answer for it.

    ``columns`` are those of :func:`columns_by_kind`; ``keep`` names the columns to hand on; ``sides`` are those of
    :func:`side_columns`, and of ``LIMITS``, which the function ``answer(table, **side)`` gets as numbers.
    """
    sides = sides or {}
    numbers, text = columns
    extra = [column for column in sides.values() if column not in (*numbers, *text)]
    for chunk in tables.read_chunks(data, [*numbers, *extra], text, keep, tables.CHUNK_ROWS, groups):
        side = {name: side_values(chunk.table[column], name, data, chunk.first) for name, column in sides.items()}
        with about(chunk.describe(data)):
            answers = answer(chunk.table.drop(columns=extra), **side)
        yield chunk, answers


@contextmanager
def answered_chunks(
    data: Path,
    columns: tuple[list[str], list[str]],
    answer: Callable[..., Any],
    keep: Sequence[str] = (),
    sides: Mapping[str, str] | None = None,
) -> Iterator[Iterator[tuple[tables.Chunk, Any]]]:
    """What :func:`answer_chunks` gives for a whole file; the progress is silent unless on a terminal."""
    from tqdm import tqdm

    def each(advance: Callable[[int], object]) -> Iterator[tuple[tables.Chunk, Any]]:
        for chunk, answers in answer_chunks(data, columns, answer, keep, sides):
            yield chunk, answers
            advance(len(chunk))

    with tqdm(total=tables.count_rows(data), unit="row", desc="predict", disable=None) as bar:
        yield each(bar.update)
