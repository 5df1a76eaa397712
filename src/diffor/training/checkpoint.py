"""Saved models and checkpoints: weights as safetensors and all else as JSON, whole or absent, checked when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from diffor.errors import UserError
from diffor.files.atomic import DataError, replacing_folder, writing
from diffor.files.atomic import write_atomically as write_atomically
from diffor.files.claims import MOMENTS, wait_for
from diffor.files.guarded import MOST_JSON, physical_memory, read_guarded, read_json, root_of
from diffor.files.locks import alone

FORMAT = 2
"""Version of the folder layout; raised when an older DiffoR could not read what a newer one writes."""
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class CheckpointError(UserError):
    """A saved file cannot be used; the message says why and what to do."""


def pack(tensors: dict[str, Tensor], facts: dict[str, Any]) -> bytes:
    """Tensors and JSON facts as the bytes of one safetensors file."""
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return tensors_to_bytes(contiguous, metadata={"facts": json.dumps(facts)})


def unpack(path: Path, content: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`pack` wrote to a file, which is read unless its ``content`` is known."""
    content = _read(path, physical_memory()) if content is None else content
    try:
        length = int.from_bytes(content[:8], "little")
        facts = json.loads(read_json(content[8 : 8 + length])["__metadata__"]["facts"])
        tensors = tensors_from_bytes(content)
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} is damaged or not a DiffoR file ({reason}); restore or delete it") from error
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path} is damaged or not a DiffoR file (its facts are no object); restore or delete it")
    return tensors, facts


def digest_of(tensors: dict[str, Tensor], facts: dict[str, Any]) -> str:
    """The SHA-256 of tensors, with their names and kinds, and of JSON facts beside them."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def signed(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the SHA-256 of all else that it holds: of JSON values, however they are laid out in a file.

    It tells damage and mixtures of folders, not forgery: whoever changes a value can also change the digest.

    >>> signed({"a": 1, "b": [2.5]}) == signed({"b": [2.5], "a": 1, "config_sha256": "old"})
    True
    """
    others = {name: value for name, value in config.items() if name != "config_sha256"}
    text = json.dumps(others, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {"config_sha256": hashlib.sha256(text.encode()).hexdigest(), **others}


@contextmanager
def checkpoint_lock(folder: Path) -> Iterator[None]:
    """Make a checkpoint folder, and hold it for one run."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"{folder} must belong to one fit at a time, but another one is at it; wait for its end, or choose another "
        "checkpoint_dir"
    )
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
    text = json.dumps(signed(config), indent=1, allow_nan=False)
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


def _state_of(folder: Path) -> tuple[int, ...] | None:
    """What is another when another folder has the name."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def load_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder; nothing in it is executed.

    Only ordinary files are read, and links only where they stay in the folder (or in the hub's cache, whose folders
    consist of links). Configuration and weights must be those that were saved together, undamaged.
    """
    folder = Path(folder)
    for _ in range(MOMENTS):
        wait_for(folder)
        state = _state_of(folder)
        try:
            return _load_once(folder)
        except CheckpointError:
            if state == _state_of(folder):  # else its files were of two states: another process replaced it meanwhile
                raise
    return _load_once(folder)


def _load_once(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder: pass the folder that save() or `diffor fit` wrote")
    config = _read_config(folder)
    content = _read(folder / WEIGHTS, physical_memory(), root_of(folder))
    if hashlib.sha256(content).hexdigest() != config["weights_sha256"]:
        raise CheckpointError(
            f"{folder / WEIGHTS} is not the file that {CONFIG} was saved with (truncated, changed or swapped): "
            "copy the whole folder again or save the model again"
        )
    return config, unpack(folder / WEIGHTS, content)[0]


def _read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model folder, of this format and undamaged."""
    path = folder / CONFIG
    try:
        config = read_json(_read(path, MOST_JSON, root_of(folder)))
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged ({error}); save the model again") from error
    if not isinstance(config, dict) or "format" not in config or "weights_sha256" not in config:
        raise CheckpointError(f"{path} is not a DiffoR model's; pass the folder that save() wrote")
    if config["format"] != FORMAT:
        raise CheckpointError(
            f"{folder} has format {str(config['format'])[:40]}, this DiffoR reads format {FORMAT}: install the version "
            f"that wrote it (diffor {str(config.get('version', 'newer'))[:40]}), or fit the model again"
        )
    try:
        expected = signed(config)["config_sha256"]
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged ({error}); save the model again") from error
    if config.get("config_sha256") != expected:
        raise CheckpointError(
            f"{path} is not as it was saved: its config_sha256 does not belong to what it holds (damaged, changed or "
            "mixed with another); copy the whole folder again or save the model again"
        )
    return config


def _read(path: Path, most_bytes: int, root: Path | None = None) -> bytes:
    try:
        return read_guarded(Path(path), most_bytes, root)
    except DataError as error:
        raise CheckpointError(str(error)) from error
