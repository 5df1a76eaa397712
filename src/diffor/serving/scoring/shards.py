"""Shards: input files cut into pieces of work, each with an output of its own that is whole or absent."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from diffor.errors import UserError
from diffor.files import tables
from diffor.files.atomic import writing
from diffor.files.tables import DataError

if TYPE_CHECKING:
    import pandas as pd

SHARD_ROWS = 2**18
"""Rows at which a long Parquet file is cut, at the next border of its row groups: what a kill can cost at most."""
MAX_DEATHS = 3
"""Processes that may die over one shard before it counts as failed: it may be what kills them."""
FACTS = b"diffor.shard"


@dataclass(frozen=True)
class Shard:
    """Some rows of an input file and the place of their answers, relative to the output folder."""

    source: Path
    output: str
    groups: tuple[int, ...] | None
    """Row groups of a Parquet file; None: the whole file."""
    n_rows: int | None
    """None where only reading the file would tell."""


@dataclass(frozen=True)
class Outcome:
    """What became of a shard: how many rows it has, or why it failed."""

    output: str
    n_rows: int = 0
    error: str | None = None


Answer = Callable[[Shard], "Iterator[pd.DataFrame]"]


class Work(Protocol):
    """What a process does with shards; it is sent to the process, which opens it once."""

    def open(self) -> Answer:
        """Load what is needed, and give the function that answers the rows of a shard, a piece at a time."""


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know: what to do, and the folder and the run that outputs belong to."""

    work: Work
    folder: Path
    run: str


# Planning.


def find_inputs(patterns: Iterable[str]) -> list[Path]:
    """The files that patterns name, each once and in the order of their paths."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        matched = [Path(name) for name in glob.glob(pattern, recursive=True) if Path(name).is_file()]
        if not matched:
            cure = f"name its files, as '{pattern}/*.parquet' does" if Path(pattern).is_dir() else "check the path"
            raise DataError(f"{pattern!r} must match at least one file, but it matches none; {cure}")
        for path in sorted(matched):
            found.setdefault(path.resolve(), Path(os.path.abspath(path)))  # a link is called as it is, not as its file
    return sorted(found.values())


def plan_shards(inputs: Sequence[Path], shard_rows: int = SHARD_ROWS) -> list[Shard]:
    """The shards of files, which have the same names each time; files without rows have none.

    Outputs are called as their inputs, in the same folders below the one that all inputs share.
    """
    root = common_folder(inputs)
    shards: dict[str, Shard] = {}
    for source in inputs:
        name = source.relative_to(root)
        stem = name.with_suffix("") if name.suffix == tables.PARQUET_SUFFIXES[0] else name
        for number, (groups, n_rows) in enumerate(_pieces(source, shard_rows)):
            shard = Shard(source, f"{stem.as_posix()}-{number:05d}.parquet", groups, n_rows)
            other = shards.setdefault(shard.output, shard)
            if other is not shard:
                raise DataError(
                    f"each input must have an output of its own, but {other.source} and {source} would both write "
                    f"{shard.output}; rename one of them"
                )
    if not shards:
        raise DataError(f"inputs must hold at least one row, but all {len(inputs)} are empty; check them")
    return list(shards.values())


def common_folder(inputs: Sequence[Path]) -> Path:
    """The deepest folder that all files lie below."""
    return Path(os.path.commonpath([path.parent for path in inputs]))


def _pieces(source: Path, shard_rows: int) -> Iterator[tuple[tuple[int, ...] | None, int | None]]:
    """Row groups of about ``shard_rows`` rows together, and their number of rows."""
    if tables.is_empty(source):
        return
    if not tables.is_parquet(source):
        yield None, None
        return
    groups: list[int] = []
    n_rows = 0
    for number, count in enumerate(tables.row_groups(source)):
        if groups and n_rows + count > shard_rows:
            yield tuple(groups), n_rows
            groups, n_rows = [], 0
        groups.append(number)
        n_rows += count
    if n_rows:
        yield tuple(groups), n_rows


# Doing.


def commit_shard(job: Job, answer: Answer, shard: Shard) -> Outcome:
    """Answer the rows of a shard and put them in their place in one step; nothing is done twice.

    Two workers may hold the same shard, as after a network's failure: both write the same rows, and one replaces the
    other's file.
    """
    done = committed_rows(job, shard)
    if done is not None:
        return Outcome(shard.output, done)
    path, n_rows = job.folder / shard.output, 0
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with tables.table_writer(path, {FACTS: _facts(job, shard)}, tidy=False) as write:
        for table in answer(shard):
            write(table)
            n_rows += len(table)
        if shard.n_rows not in (None, n_rows):
            raise DataError(
                f"{shard.source} must stay as it is while it is scored, but {n_rows} rows came where it had "
                f"{shard.n_rows}; start again with --force"
            )
    return Outcome(shard.output, n_rows)


def committed_rows(job: Job, shard: Shard) -> int | None:
    """Number of rows of a shard's output; None where it is not there, damaged, or of another run."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(job.folder / shard.output) as found:
            facts, n_rows = found.schema_arrow.metadata or {}, int(found.metadata.num_rows)
    except (OSError, ValueError):
        return None
    is_whole = facts.get(FACTS) == _facts(job, shard) and shard.n_rows in (None, n_rows)
    return n_rows if is_whole else None


def _facts(job: Job, shard: Shard) -> bytes:
    """What tells a shard's output from all others."""
    facts: dict[str, Any] = asdict(shard) | {"source": shard.source.name, "run": job.run}
    return json.dumps(facts).encode()


def belongs_to(path: Path, stems: Collection[str]) -> bool:
    """Whether a hidden file was made on the way to one of the outputs with these stems.

    >>> belongs_to(Path(".part-7-00000.k3_x2.parquet"), {"part-7-00000"})
    True
    """
    return path.name[1:].rsplit(".", 2)[0] in stems


def failure_of(shard: Shard, error: BaseException) -> Outcome:
    """The outcome of a shard that ended with an error; what is not meant for users is named by its kind."""
    text = " ".join(str(error).split())
    if not isinstance(error, UserError):
        text = f"{shard.source} cannot be scored ({type(error).__name__}: {text})"
    return Outcome(shard.output, error=text)


def too_many_deaths(shard: Shard, count: int, cause: str) -> str:
    """Why a shard is given up."""
    return (
        f"{shard.source} must be scored by a process that lives to its end, but {count} died over {shard.output}, "
        f"the last one {cause}; if memory ran out, use fewer --workers"
    )
