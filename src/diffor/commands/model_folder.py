"""Model folders: saved and loaded with what the command line remembers, and asked about the rows of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor import files
from diffor.commands.usage import UsageError, library_messages, require_columns

if TYPE_CHECKING:
    import pandas as pd

    from diffor.estimator import DiffoRClassifier, DiffoRRegressor

    Estimator = DiffoRRegressor | DiffoRClassifier

NOTES = "cli.json"
"""File in a model folder that remembers which columns were target and weight, and which were left out."""


def check_model_output(out: Path, force: bool, checkpoint: str | None) -> None:
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


def save_model(model: Any, out: Path, notes: dict[str, Any], force: bool) -> None:
    """Write a fitted model and, beside it, what is to be remembered of its columns."""
    from diffor.checkpoint import write_atomically

    try:
        model.save(out, overwrite=force)
        write_atomically(out / NOTES, json.dumps(notes, indent=1).encode())
    except OSError as error:
        raise UsageError(f"{out} cannot be written, however: {error.strerror or error}; choose another") from error


def load_model(folder: Path) -> Estimator:
    """Read a model that knows its columns by name."""
    from diffor.estimator import load

    with library_messages():
        model = load(folder)
    if not all(isinstance(column.name, str) for column in model.inputs_.columns):
        raise UsageError(f"{folder} must know its columns by name, however: it was fitted on rows without names; "
                         "fit it on a table with a header")  # fmt: skip
    model.verbose = 0  # the command shows the progress over the whole file
    return model


def remembered_target(folder: Path) -> str:
    """The column that a model was fitted to predict."""
    try:
        target = json.loads((folder / NOTES).read_text())["target"]
    except FileNotFoundError:
        raise UsageError(f"--target must be given, however: {folder} does not remember one; add --target COL") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / NOTES} must name the target, however: it is damaged; pass --target COL") from error
    return str(target)


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


@contextmanager
def answered_chunks(
    data: Path,
    columns: tuple[list[str], list[str]],
    answer: Callable[[pd.DataFrame], Any],
    keep: Sequence[str] = (),
) -> Iterator[Iterator[tuple[files.Chunk, Any]]]:
    """The chunks of a file, each with the answer for it; the progress is silent unless on a terminal.

    ``columns`` are those of :func:`columns_by_kind`; ``keep`` names the columns to hand on.
    """
    from tqdm import tqdm

    def each(advance: Callable[[int], object]) -> Iterator[tuple[files.Chunk, Any]]:
        for chunk in files.read_chunks(data, *columns, keep, files.CHUNK_ROWS):
            with library_messages(chunk.describe(data)):
                answers = answer(chunk.table)
            yield chunk, answers
            advance(len(chunk))

    with tqdm(total=files.count_rows(data), unit="row", desc="predict", disable=None) as bar:
        yield each(bar.update)
