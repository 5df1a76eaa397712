"""Saved models and checkpoints: weights as safetensors and all else as JSON, whole or absent, checked when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from diffor.errors import UserError
from diffor.files.atomic import replacing_folder, writing
from diffor.files.atomic import write_atomically as write_atomically
from diffor.files.claims import MOMENTS, wait_for
from diffor.files.locks import alone

FORMAT = 2
"""Version of the folder layout; raised when an older DiffoR could not read what a newer one writes."""
CONFIG, WEIGHTS = "config.json", "model.safetensors"

Loaded = TypeVar("Loaded")


class CheckpointError(UserError):
    """A saved file cannot be used; the message says why and what to do."""


def pack(tensors: dict[str, Tensor], facts: dict[str, Any]) -> bytes:
    """Tensors and JSON facts as the bytes of one safetensors file."""
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return tensors_to_bytes(contiguous, metadata={"facts": json.dumps(facts)})


def unpack(path: Path, content: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`pack` wrote to a file, which is read unless its ``content`` is known."""
    content = _read(path) if content is None else content
    try:
        tensors = tensors_from_bytes(content)
        length = int.from_bytes(content[:8], "little")
        facts = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["facts"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged or not a DiffoR file ({error}); restore or delete it") from error
    return tensors, facts


@contextmanager
def checkpoint_lock(folder: Path) -> Iterator[None]:
    """Make a checkpoint folder, and hold it for one run."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = f"{folder} must belong to one fit at a time, but another one is at it; wait for its end, or choose " \
           "another checkpoint_dir"  # fmt: skip
    with alone(folder / ".lock", busy):
        yield


def save_folder(
    folder: Path,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    overwrite: bool = False,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write a model folder: complete or not at all; only a model folder is ever replaced, and only if asked.

    ``beside`` are further files of it, by their names.
    """
    with new_folder(Path(folder), overwrite) as fresh:
        write_files(fresh, config, tensors)
        for name, content in (beside or {}).items():
            write_atomically(fresh / name, content)


def write_files(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write the files of a model into a folder."""
    weights = pack(tensors, {"format": FORMAT})
    config = {"format": FORMAT, "weights_sha256": hashlib.sha256(weights).hexdigest(), **config}
    text = json.dumps(config, indent=1, allow_nan=False)
    write_atomically(folder / WEIGHTS, weights)
    write_atomically(folder / CONFIG, text.encode())


@contextmanager
def new_folder(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A fresh folder to write a model's files in, which takes its place when all are there, or leaves no trace."""
    wait_for(folder)
    if folder.exists() and not overwrite:
        raise FileExistsError(f"{folder} exists already: choose another folder or pass overwrite=True")
    if folder.exists() and not (folder / CONFIG).exists():
        raise FileExistsError(f"{folder} exists and is not a DiffoR model, so it is not replaced: choose another")
    with replacing_folder(folder, overwrite) as fresh:
        yield fresh


def of_one_state(read: Callable[[Path], Loaded]) -> Callable[[Path], Loaded]:
    """Read again what was replaced by another process while it was read: its files were of two states."""

    @wraps(read)
    def patient(folder: Path) -> Loaded:
        folder = Path(folder)
        for _ in range(MOMENTS):
            wait_for(folder)
            state = _state_of(folder)
            try:
                return read(folder)
            except CheckpointError:
                if state == _state_of(folder):
                    raise
        return read(folder)

    return patient


def _state_of(folder: Path) -> tuple[int, ...] | None:
    """What is another when another folder has the name."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


@of_one_state
def load_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder; nothing in it is executed."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder: pass the folder that save() or `diffor fit` wrote")
    try:
        config = json.loads(_read(folder / CONFIG))
    except ValueError as error:
        raise CheckpointError(f"{folder / CONFIG} is damaged ({error}); save the model again") from error
    if not isinstance(config, dict) or "format" not in config or "weights_sha256" not in config:
        raise CheckpointError(f"{folder / CONFIG} is not a DiffoR model's; pass the folder that save() wrote")
    if config["format"] != FORMAT:
        raise CheckpointError(
            f"{folder} has format {config['format']}, this DiffoR reads format {FORMAT}: "
            f"install the version that wrote it (diffor {config.get('version', 'newer')})"
        )
    content = _read(folder / WEIGHTS)
    if hashlib.sha256(content).hexdigest() != config["weights_sha256"]:
        raise CheckpointError(
            f"{folder / WEIGHTS} is not the file that {CONFIG} was saved with (truncated, changed or swapped): "
            "copy the whole folder again or save the model again"
        )
    return config, unpack(folder / WEIGHTS, content)[0]


def _read(path: Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); the folder is incomplete") from error
