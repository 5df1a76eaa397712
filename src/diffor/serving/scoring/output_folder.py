"""The output folder of a scoring run: what it belongs to, who writes to it, and whether it is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffor.files.atomic import write_atomically, writing
from diffor.files.locks import alone
from diffor.files.tables import DataError
from diffor.serving.scoring.shards import Job, Shard, belongs_to, committed_rows, common_folder
from diffor.training.checkpoint import CONFIG

PLAN, SUCCESS = "_plan.json", "_SUCCESS"
"""Readers of folders of Parquet files pass over names that begin so."""
VERSION = 1


@dataclass(frozen=True)
class Summary:
    """What a complete folder holds."""

    inputs: int
    shards: int
    rows_in: int
    rows_out: int


def describe_run(
    model: Path, notes: str, options: dict[str, Any], inputs: Sequence[Path], shards: Sequence[Shard]
) -> dict[str, Any]:
    """What the outputs depend on: the model, what it is asked, and the input files with their sizes and times.

    ``notes`` is a file in the model's folder beside its own, which need not be there.
    """
    digest = hashlib.sha256((model / CONFIG).read_bytes())
    digest.update((model / notes).read_bytes() if (model / notes).is_file() else b"")
    root = common_folder(inputs)
    states = [(path, path.stat()) for path in inputs]
    plan = {
        "version": VERSION,
        "model": digest.hexdigest(),  # its weights, too: their digest is in the file
        "options": options,
        "inputs": [[path.relative_to(root).as_posix(), at.st_size, at.st_mtime_ns] for path, at in states],
        "outputs": [shard.output for shard in shards],
    }
    return json.loads(json.dumps(plan))  # type: ignore[no-any-return]


def name_run(plan: dict[str, Any]) -> str:
    """A digest of what :func:`describe_run` gives."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def check_folder(folder: Path, inputs: Sequence[Path]) -> None:
    """Refuse an output folder that is none, whose parent is missing, or that holds inputs."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"--out must be a folder, but {folder} is a file; choose another")
    if not folder.parent.is_dir():
        raise DataError(f"{folder} must lie in an existing folder, but {folder.parent} is none; create it first")
    place = folder.resolve()
    inside = next((path for path in inputs if place in path.resolve().parents), None)
    if inside is not None:
        raise DataError(f"--out must hold no inputs, but {inside} lies in it; choose another folder")


@contextmanager
def opened_folder(folder: Path, plan: dict[str, Any], force: bool) -> Iterator[None]:
    """The output folder, for this run alone; what killed runs left unfinished is gone.

    A folder of another run is refused, or emptied of that run's outputs where ``force`` says so.
    """
    with writing(folder):
        folder.mkdir(exist_ok=True)
    if not (folder / PLAN).is_file() and _holds_others(folder):
        raise DataError(f"{folder} must be empty or of an earlier diffor score, but it holds other files; "
                        "choose another folder")  # fmt: skip
    busy = f"{folder} must be written by one run at a time, but another diffor score is at it; wait for its end, " \
           "or choose another folder"  # fmt: skip
    with alone(folder / ".lock", busy):
        before = _read_plan(folder)
        if before is not None and (force or before != plan):
            if not force:
                raise DataError(
                    f"{folder} must belong to this run, but {_difference(before, plan)} since it was begun; "
                    "choose another folder, or pass --force to start over"
                )
            _remove_outputs(folder, before)
        remove_unfinished(folder, plan["outputs"])
        write_atomically(folder / PLAN, json.dumps(plan, indent=1).encode())
        yield


def _holds_others(folder: Path) -> bool:
    """Whether there is anything that a run killed at its very start would not have left."""
    return any(not path.name.startswith(".") for path in folder.iterdir())


def _read_plan(folder: Path) -> dict[str, Any] | None:
    path = folder / PLAN
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        return {**plan, "outputs": list(plan["outputs"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} must be the plan of a run, but it is damaged; remove {folder}") from error


def _difference(before: dict[str, Any], plan: dict[str, Any]) -> str:
    """What is another than before, in words."""
    if before.get("version") != plan["version"]:
        return "the version of its layout has changed"
    if before["model"] != plan["model"]:
        return "MODEL is another"
    if before["options"] != plan["options"]:
        old, new = before["options"], plan["options"]
        names = [name for name in new if old.get(name) != new[name]]
        return f"--{', --'.join(name.replace('_', '-') for name in names)} changed"
    old, new = ({name: state for name, *state in each["inputs"]} for each in (before, plan))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"the input {changed[0]}{more} changed, came or went" if changed else "the cut into shards changed"


def _remove_outputs(folder: Path, plan: dict[str, Any]) -> None:
    """Remove what a run has written, and nothing else."""
    (folder / SUCCESS).unlink(missing_ok=True)
    remove_unfinished(folder, plan["outputs"])
    for output in plan["outputs"]:
        (folder / output).unlink(missing_ok=True)


def remove_unfinished(folder: Path, outputs: Sequence[str]) -> None:
    """Remove what killed workers left beside outputs."""
    stems = {Path(output).stem for output in outputs}
    for place in {(folder / output).parent for output in outputs}:
        for path in place.glob(".*.parquet"):
            if belongs_to(path, stems):
                path.unlink(missing_ok=True)


def finish(job: Job, shards: Sequence[Shard], inputs: Sequence[Path]) -> Summary:
    """Count the rows of all outputs, which must be those of the inputs, and mark the folder as complete."""
    rows = [committed_rows(job, shard) for shard in shards]
    lost = [shard.output for shard, count in zip(shards, rows, strict=True) if count is None]
    if lost:
        raise DataError(f"{job.folder} must keep its outputs, but {lost[0]} is missing or was changed; start again")
    counts = [count for count in rows if count is not None]
    expected = [count if shard.n_rows is None else shard.n_rows for shard, count in zip(shards, counts, strict=True)]
    summary = Summary(len(inputs), len(shards), sum(expected), sum(counts))
    remove_unfinished(job.folder, [shard.output for shard in shards])
    write_atomically(job.folder / SUCCESS, json.dumps(asdict(summary)).encode())
    return summary
