"""What the library writes, each with its old state, the write, and how to tell the state that a fault left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from diffor.bench.run import append_line, read_lines
from diffor.files import atomic, tables
from diffor.files.atomic import replacing, write_atomically
from diffor.reports.html import write_page
from diffor.training.checkpoint import load_folder, pack, save_folder, unpack

ROWS = 3000
"""Enough rows that a file takes several calls to be written."""


@dataclass(frozen=True)
class Writer:
    """A kind of output: ``write(folder, number)`` writes state 1, 2, ...; ``read(folder)`` says which one is there.

    Before the first write the state is 0. What is of no state at all makes ``read`` fail.
    """

    write: Callable[[Path, int], object]
    read: Callable[[Path], int]
    names: tuple[str, ...]


def weights_of(number: int) -> dict[str, Tensor]:
    return {"a": torch.full((ROWS,), float(number))}


def save_model(folder: Path, number: int) -> None:
    save_folder(folder / "model", {"number": number}, weights_of(number), True, {"cli.json": str(number).encode()})


def save_model_by_renames(folder: Path, number: int) -> None:
    """As on a system that cannot exchange names."""
    before, atomic._renameat2 = atomic._renameat2, None
    try:
        save_model(folder, number)
    finally:
        atomic._renameat2 = before


def read_model(folder: Path) -> int:
    """The number that all files of a model agree on."""
    if not (folder / "model").exists() and not any(path.name.endswith("-old") for path in folder.iterdir()):
        return 0
    config, tensors = load_folder(folder / "model")
    assert tensors["a"].eq(config["number"]).all()
    assert json.loads((folder / "model" / "cli.json").read_text()) == config["number"]
    return int(config["number"])


def write_table(name: str) -> Callable[[Path, int], None]:
    def write(folder: Path, number: int) -> None:
        with tables.table_writer(folder / name) as append:
            for _ in range(2):
                append(pd.DataFrame({"a": np.full(ROWS, number), "b": "text"}))

    return write


def read_written_table(name: str) -> Callable[[Path], int]:
    def read(folder: Path) -> int:
        if not (folder / name).exists():
            return 0
        table = tables.read_table(folder / name)
        assert len(table) == 2 * ROWS
        (number,) = table["a"].unique()
        return int(number)

    return read


def read_whole_text(name: str) -> Callable[[Path], int]:
    def read(folder: Path) -> int:
        if not (folder / name).exists():
            return 0
        (number,) = set((folder / name).read_text().split())
        assert (folder / name).read_text() == f"{number} " * ROWS
        return int(number)

    return read


def write_state(folder: Path, number: int) -> None:
    write_atomically(folder / "run" / "training.safetensors", pack(weights_of(number), {"number": number}))


def read_state(folder: Path) -> int:
    path = folder / "run" / "training.safetensors"
    if not path.exists():
        return 0
    tensors, facts = unpack(path)
    assert tensors["a"].eq(facts["number"]).all()
    return int(facts["number"])


def write_arrays(folder: Path, number: int) -> None:
    with replacing(folder / "table.npz") as temporary:
        np.savez_compressed(temporary, X=np.full(ROWS, number))


def read_arrays(folder: Path) -> int:
    if not (folder / "table.npz").exists():
        return 0
    with np.load(folder / "table.npz") as arrays:
        (number,) = np.unique(arrays["X"])
    return int(number)


def add_line(folder: Path, number: int) -> None:
    line = {"dataset": "d", "method": "m", "seed": number, "status": "ok", "text": "x" * ROWS}
    append_line(folder / "lines.jsonl", line)


def read_last_line(folder: Path) -> int:
    """The number of whole lines, which must be those that were written, in their order."""
    path = folder / "lines.jsonl"
    lines, damaged = read_lines(path) if path.exists() else ([], 0)
    assert damaged <= 1
    seeds = [line["seed"] for line in lines]
    assert all(line["text"] == "x" * ROWS for line in lines)
    assert seeds == sorted(seeds)
    return max(seeds, default=0)


WRITERS = {
    "model": Writer(save_model, read_model, ("model",)),
    "model by renames": Writer(save_model_by_renames, read_model, ("model",)),
    "csv": Writer(write_table("answers.csv"), read_written_table("answers.csv"), ("answers.csv",)),
    "parquet": Writer(write_table("answers.parquet"), read_written_table("answers.parquet"), ("answers.parquet",)),
    "page": Writer(lambda folder, number: write_page(folder / "page.html", f"{number} " * ROWS),
                   read_whole_text("page.html"), ("page.html",)),
    "checkpoint": Writer(write_state, read_state, ("run",)),
    "arrays": Writer(write_arrays, read_arrays, ("table.npz",)),
    "lines": Writer(add_line, read_last_line, ("lines.jsonl",)),
}  # fmt: skip
