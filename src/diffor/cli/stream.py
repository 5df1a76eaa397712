"""Files that ``diffor fit`` streams: its arguments for them, what they cannot be combined with, and the summary."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from diffor.cli.options import as_count, require_columns
from diffor.cli.target_column import find_grades
from diffor.errors import UserError

if TYPE_CHECKING:
    from diffor.estimators.streamed_fit import Stream

OF_STREAMS = ("epochs", "ids", "hash_buckets", "shards")
NOT_OF_STREAMS = {
    "upper": "write the share of the limit into a column and make it the target, with --bounds 0 1",
    "valid": "validation rows are drawn from DATA, so leave it out",
    "calibration": "calibrate the model in Python, with conformalize, when it is fitted",
}


def add_stream_arguments(command: argparse.ArgumentParser) -> None:
    """Add what only streamed files need."""
    group = "a folder or a quoted pattern of Parquet files as DATA is streamed, whatever its size, also by torchrun"
    argument = command.add_argument_group("streamed files", group).add_argument
    argument("--epochs", type=as_count, metavar="N", help="times that all rows are learned from (default: 1)")
    argument("--ids", nargs="+", metavar="COL", help="columns whose numbers are names: users, items")
    buckets_help = (
        "rows of the tables for ids that are too many to be listed, over 100,000 (default: about their number, "
        "131,072 to 1,048,576)"
    )
    argument("--hash-buckets", type=as_count, metavar="N", help=buckets_help)
    shards_help = (
        "parts of a batch that processes share, each of --batch-size rows: at most so many processes are of use "
        "(default: their number when the run begins)"
    )
    argument("--shards", type=as_count, metavar="N", help=shards_help)


def is_streamed(arguments: argparse.Namespace) -> bool:
    """Whether DATA is streamed; what cannot be done with it as it is read is refused."""
    from diffor.training.streaming.parquet_table import is_stream

    if is_stream(arguments.data) or (arguments.epochs is not None and arguments.data.endswith((".parquet", ".pq"))):
        for name, cure in NOT_OF_STREAMS.items():
            if getattr(arguments, name) is not None:
                raise UserError(
                    f"--{name} is for files that are read as a whole, but {arguments.data} is streamed; {cure}"
                )
        return True
    for name in OF_STREAMS:
        if getattr(arguments, name) is not None:
            raise UserError(
                f"--{name.replace('_', '-')} is for Parquet files that are streamed, but {arguments.data} is read as "
                "a whole; pass a folder or a quoted pattern of Parquet files, or leave it out"
            )
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            f"several processes must stream Parquet files, but {arguments.data} is read as a whole; pass a folder "
            "or a quoted pattern of Parquet files, or start a single process"
        )
    return False


def streamed_grades(arguments: argparse.Namespace) -> list[Any] | None:
    """The grades that the target has, none of them where the files are to tell, or None where it is an amount."""
    import pandas as pd

    from diffor.training.streaming.parquet_table import ParquetTable, find_files

    if arguments.grades is None:
        return [] if arguments.classify else None
    first = ParquetTable(find_files(arguments.data)[:1])
    require_columns([arguments.target], list(first.kinds), first.paths[0])
    kind = "float64" if first.kinds[arguments.target] == "number" else "object"
    return find_grades(pd.Series([], dtype=kind, name=arguments.target), arguments.grades, classify=False)


def stream_of(arguments: argparse.Namespace) -> Stream:
    """What the arguments say about the files."""
    from diffor.estimators.streamed_fit import Stream

    return Stream(
        arguments.data,
        arguments.target,
        weight=arguments.weight,
        drop=tuple(arguments.drop),
        ids=tuple(arguments.ids or ()),
        sides={} if arguments.duration is None else {"duration": arguments.duration},
        epochs=arguments.epochs or 1,
        shards=arguments.shards,
        hash_buckets=arguments.hash_buckets,
    )


def stream_summary(model: Any, n_processes: int) -> list[str]:
    """Lines about the rows and the tables of ids."""
    from diffor.encoders.tabular.networks import sparse_tables, table_bytes

    lines = [f"rows             {model.history_.rows} learned from, by {n_processes} process{'es' * (n_processes > 1)}"]
    tables = sparse_tables(model.model_)
    if tables:
        size = sum(table_bytes(*table.shape) for table in tables) / 2**20
        lines.append(f"tables of ids    {len(tables)} with {sum(map(len, tables))} rows, {size:.1f} MiB while training")
    return lines
