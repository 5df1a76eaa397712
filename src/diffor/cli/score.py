"""``diffor score``: predict the rows of many files, by many processes or machines, and go on after a kill."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import NOTES, answer_chunks
from diffor.cli.options import add_command, as_count
from diffor.cli.predict import RowAnswerer, add_answer_options, beside_kept
from diffor.errors import UserError
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd

    from diffor.serving.scoring.shards import Answer, Job, Outcome, Shard

NOT_ANSWERED = ("command", "run", "model", "inputs", "out", "engine", "workers", "address", "force", "quiet")
"""Arguments that do not change what is written; all others belong to the run."""
MAX_FAILURES = 20
"""Failed shards after which the rest is not tried: what is wrong is wrong with all of them."""
MAX_SHOWN = 3


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "score",
        run,
        "predict the rows of many files by several processes or machines; goes on where it was stopped",
        "diffor score model 'in/*.parquet' --out out",
        "diffor score model 'in/**/*.parquet' --out out --keep id --coverage 0.9 --workers 8",
        "diffor score model 'in/*.parquet' --out out --engine ray --address auto",
    )
    argument = command.add_argument
    argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    inputs_help = "Parquet or CSV files, or patterns of them; ** goes into folders"
    argument("inputs", nargs="+", metavar="FILES", help=inputs_help)
    argument("--out", required=True, metavar="DIR", help="folder of Parquet files to write")
    engine_help = "processes of this machine (default), or Ray"
    argument("--engine", choices=("local", "ray"), default="local", help=engine_help)
    argument("--workers", type=as_count, metavar="N", help="processes of one thread each (default: as many as cores)")
    argument("--address", metavar="A", help="running Ray to use, or auto (default: start one here)")
    add_answer_options(command)
    argument("--force", action="store_true", help="start over, in the folder of another run")
    argument("--quiet", action="store_true", help="print neither progress nor summary")


def run(arguments: argparse.Namespace) -> None:
    """Write the answers for the rows of files, shard by shard, or the rest of them."""
    from diffor.serving.scoring import output_folder
    from diffor.serving.scoring.shards import Job, committed_rows, find_inputs, plan_shards

    if arguments.address is not None and arguments.engine != "ray":
        raise UserError(f"--address is for --engine ray, but got --engine {arguments.engine}; leave it out")
    inputs, folder = find_inputs(arguments.inputs), Path(os.path.abspath(arguments.out))
    output_folder.check_folder(folder, inputs)
    options = {name: value for name, value in vars(arguments).items() if name not in NOT_ANSWERED}
    work = ShardWork(argparse.Namespace(**options, model=os.path.abspath(arguments.model)))
    work.check(inputs)
    shards = plan_shards(inputs)
    plan = output_folder.describe_run(Path(work.arguments.model), NOTES, options, inputs, shards)
    job = Job(work, folder, output_folder.name_run(plan))
    with output_folder.opened_folder(folder, plan, arguments.force):
        rest = [shard for shard in shards if committed_rows(job, shard) is None]
        if rest:
            (folder / output_folder.SUCCESS).unlink(missing_ok=True)
            _score(job, shards, rest, arguments)
        summary = output_folder.finish(job, shards, inputs)
    if not arguments.quiet:
        print(f"inputs           {summary.inputs}")
        print(f"shards           {summary.shards} ({len(rest)} now, {summary.shards - len(rest)} before)")
        print(f"rows             {summary.rows_in} in, {summary.rows_out} out")
        print(f"written to       {arguments.out}")


@dataclass(frozen=True)
class ShardWork:
    """What a worker does: load the model, and answer the rows of shards as ``diffor predict`` would."""

    arguments: argparse.Namespace

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse, before anything is predicted, options that do not fit the model and files that lack columns."""
        answerer = RowAnswerer(self.arguments)
        for path in inputs:
            answerer.ask(path, tables.column_names(path))

    def open(self) -> Answer:
        """Load the model; its warnings were shown by the check."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answerer = RowAnswerer(self.arguments)
        answerer.model.n_jobs = 1  # one thread for each process, whatever it was fitted with

        def answer(shard: Shard) -> Iterator[pd.DataFrame]:
            asked = answerer.ask(shard.source, tables.column_names(shard.source))
            for chunk, answers in answer_chunks(shard.source, *asked, groups=shard.groups):
                yield beside_kept(chunk, answers)

        return answer


def _score(job: Job, shards: Sequence[Shard], rest: Sequence[Shard], arguments: argparse.Namespace) -> None:
    """Do the rest of the shards; those that fail are named at the end, when all others are done."""
    from tqdm import tqdm

    failures: list[str] = []
    n_done, disable = len(shards) - len(rest), True if arguments.quiet else None  # None: silent unless on a terminal
    with (
        tqdm(total=len(shards), initial=n_done, unit="shard", desc="score", disable=disable) as bar,
        closing(_outcomes(job, rest, arguments)) as outcomes,
    ):
        for outcome in outcomes:
            if outcome.error is None:
                bar.update()
            else:
                failures.append(outcome.error)
            if len(failures) == MAX_FAILURES:
                break
    if failures:
        more = f"; and {len(failures) - MAX_SHOWN} more" if len(failures) > MAX_SHOWN else ""
        left = "the others are done" if len(failures) < MAX_FAILURES else f"stopped after {MAX_FAILURES}"
        raise UserError(f"{len(failures)} of {len(shards)} shards failed, {left}; start again to do the rest. "
                         f"{'; '.join(failures[:MAX_SHOWN])}{more}")  # fmt: skip


def _outcomes(job: Job, rest: Sequence[Shard], arguments: argparse.Namespace) -> Generator[Outcome, None, None]:
    from diffor.serving.scoring.local_engine import score_on_processes
    from diffor.serving.scoring.ray_engine import score_on_ray

    if arguments.engine == "ray":
        return score_on_ray(job, rest, arguments.workers, arguments.address or os.environ.get("RAY_ADDRESS"))
    return score_on_processes(job, rest, arguments.workers or os.cpu_count() or 1)
