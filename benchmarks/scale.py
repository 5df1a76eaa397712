"""Rows per second and memory of work on sharded Parquet files, as the rows and the processes grow.

Files with KuaiRec's columns (7,176 users, 10,728 videos, their 22 features, the duration, the seconds watched) are made
in a temporary folder. Each measurement is a fresh start of processes with one thread each. Peak memory is the kernel's
record for a process, with all libraries in it. Other work on the machine lengthens the seconds of the clock but hardly
those of the processor, so both are given, and the load before.

Part ``fit``: one epoch of a streamed fit, with its pass of statistics and its validation, by one process and by two
under torchrun.

Part ``tables``: one step of a model with a hashed table of ids, and its memory, as the table grows.

    python benchmarks/scale.py --part fit                                         1e5, 1e6 and 1e7 rows
    python benchmarks/scale.py --part fit --rows 2000 --batch 64 --out x.json     a smoke check
    python benchmarks/scale.py --part tables                                      2**14 to 2**23 buckets
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffor.core.workers import one_thread_each
from diffor.files import provenance
from diffor.files.provenance import peak_mib

ROWS = (100_000, 1_000_000, 10_000_000)
PROCESSES = (1, 2)
SHARD_ROWS = 250_000
GROUP_ROWS = 25_000
N_USERS, N_VIDEOS, N_TAGS = 7176, 10_728, 31
USER_LEVELS = (2, 8, 20, 50, 15, 34, 3, 10, 400, 7, 5, 5, 2, 2, 2, 2, 2, 2)
"""About how many levels the 18 encoded features of users have."""
TARGET = "watched"
BATCH = 4096
"""Rows of a step of each process: with fewer, what is sent in a step counts for more."""
BUCKETS = (2**14, 2**17, 2**20, 2**23)
N_STEPS = 40


# --- the files ---


def make_shards(folder: Path, n_rows: int, seed: int = 0) -> None:
    """Write rows with KuaiRec's columns, always the same ones: users watch more of some videos than of others."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True)
    traits = np.random.default_rng(seed)
    users = {f"onehot_feat{place}": traits.integers(0, count, N_USERS) for place, count in enumerate(USER_LEVELS)}
    videos = {f"feat{place}": traits.integers(0, N_TAGS, N_VIDEOS) for place in range(4)}
    eagerness, appeal = traits.normal(0, 0.5, N_USERS), traits.normal(0, 0.6, N_VIDEOS)
    durations = traits.lognormal(2.3, 0.7, N_VIDEOS)
    spelled = [pa.array([str(number) for number in range(count)]) for count in (N_USERS, N_VIDEOS, 400)]
    for place, first in enumerate(range(0, n_rows, SHARD_ROWS)):
        n, random = min(SHARD_ROWS, n_rows - first), np.random.default_rng((seed, place))
        user, video = random.integers(0, N_USERS, n), (N_VIDEOS * random.random(n) ** 2).astype(np.int64)
        seconds = durations[video] * 0.6 * np.exp(eagerness[user] + appeal[video] + random.normal(0, 0.6, n))
        columns: dict[str, Any] = {"user_id": _levels(user, spelled[0]), "video_id": _levels(video, spelled[1])}
        columns |= {name: _levels(values[user], spelled[2]) for name, values in users.items()}
        columns |= {name: _levels(values[video], spelled[2]) for name, values in videos.items()}
        columns |= {"duration": durations[video], TARGET: np.minimum(seconds, 600)}
        parquet.write_table(pa.table(columns), folder / f"part-{place:05d}.parquet", row_group_size=GROUP_ROWS)


def _levels(codes: np.ndarray[Any, Any], spelled: Any) -> Any:
    """A column of text that is stored by the places of its levels."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), spelled)


# --- one measurement, in a process of its own ---


def fit_once(folder: Path, batch: int) -> None:
    """Fit on the files as one of the processes of a world, and print what this one took."""
    from diffor import DiffoRRegressor
    from diffor.estimators.streamed_fit import Stream, fit_stream
    from diffor.training.distributed import World

    world, started, worked = World.from_environment(), time.perf_counter(), time.process_time()
    imported = peak_mib()
    model = DiffoRRegressor("fast", bounds=(0, 600), batch_size=batch, random_state=0, verbose=0)
    fit_stream(model, Stream(str(folder), TARGET), world)
    taken = {
        "seconds": time.perf_counter() - started,
        "training_seconds": model.history_.seconds,
        "processor_seconds": time.process_time() - worked,
        "imported_mib": imported,
        "peak_mib": peak_mib(),
        "rows_learned": model.history_.rows,
        "steps": model.history_.steps,
        "validation_crps": model.history_.best_score,
    }
    everyone = world.gather(taken)
    if world.is_first:
        print(json.dumps(everyone))
    world.close()


def table_once(n_buckets: int, batch: int) -> None:
    """Steps of a model with one column of ids, hashed to so many buckets, and the memory of this process at the end."""
    import torch

    from diffor.core.method import OrdinalEnsemble, OrdinalModel
    from diffor.encoders import TabularEncoder
    from diffor.encoders.tabular.networks import table_bytes
    from diffor.methods import METHODS
    from diffor.training.loop import Rows, TrainConfig, TrainingRun

    n_rows = 64 * batch
    inputs = (torch.rand(n_rows, 1), torch.randint(2, n_buckets**2, (n_rows, 1)))
    rows = Rows(inputs, inputs[0][:, 0], None, torch.arange(n_rows))
    before = peak_mib()
    encoder = TabularEncoder(1, [n_buckets + 2], tables=[n_buckets], width=96)
    model = OrdinalEnsemble([OrdinalModel(encoder, METHODS["diffor"](96))])
    run = TrainingRun(model, rows, lambda model: 0.0, TrainConfig(batch_size=batch, verbose=0), "")
    seconds = []
    for _ in range(N_STEPS):
        started = time.process_time()
        run.step()
        seconds.append(time.process_time() - started)
    run.evaluate()  # keeps a copy of the best table
    grown = peak_mib() - before
    stated = table_bytes(n_buckets + 2) / 2**20
    print(
        json.dumps([{"step_milliseconds": 1000 * float(np.median(seconds)), "grown_mib": grown, "stated_mib": stated}])
    )


def launch(n_processes: int, words: Sequence[str]) -> list[dict[str, Any]]:
    """Start this script for one measurement, by torchrun where it takes several processes; what each of them says."""
    command = [sys.executable, __file__, *words]
    if n_processes > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
        command = [sys.executable, *torchrun, __file__, *words]
    with one_thread_each():
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- the parts ---


def measure_fit(root: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """One epoch at each number of rows, by one process and by two, and how these figures grow."""
    figures = []
    for n_rows in arguments.rows:
        folder = root / f"rows-{n_rows}"
        make_shards(folder, n_rows)
        for n_processes in PROCESSES:
            load = os.getloadavg()[0]
            everyone = launch(n_processes, ["--fit-once", str(folder), "--batch", str(arguments.batch)])
            figures.append(summary_of(everyone, n_rows, n_processes) | {"load_before": load})
            print(json.dumps(figures[-1]), file=sys.stderr, flush=True)
    return {"batch_rows_per_process": arguments.batch, "figures": figures, **growth(figures)}


def measure_tables(root: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """A step and its memory at each size of the table, in a process of its own."""
    figures = []
    for n_buckets in arguments.buckets:
        found = launch(1, ["--table-once", str(n_buckets), "--batch", str(arguments.batch)])[0]
        figures.append({"buckets": n_buckets, **found})
        print(json.dumps(figures[-1]), file=sys.stderr, flush=True)
    few, many = figures[0], figures[-1]
    return {
        "batch_rows": arguments.batch,
        "figures": figures,
        "step_ratio": many["step_milliseconds"] / few["step_milliseconds"],
        "grown_beyond_stated_mib": [each["grown_mib"] - each["stated_mib"] for each in figures],
    }


def summary_of(everyone: list[dict[str, Any]], n_rows: int, n_processes: int) -> dict[str, Any]:
    """One measurement: rows per second of the clock and of each process's processor, and the largest memory."""
    seconds, busiest = (max(each[name] for each in everyone) for name in ("seconds", "processor_seconds"))
    return {
        "rows": n_rows,
        "processes": n_processes,
        "rows_per_second": n_rows / seconds,
        "rows_per_processor_second": n_rows / busiest,
        "peak_mib": max(each["peak_mib"] for each in everyone),
        **everyone[0],
    }


def growth(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """What the figures of many rows are, as multiples of those of few, and those of two processes of those of one."""
    by = {(each["rows"], each["processes"]): each for each in figures}
    sizes = sorted({rows for rows, _ in by})
    many, few = sizes[-1], sizes[max(len(sizes) - 2, 0)]
    found: dict[str, Any] = {"rows_compared": [few, many]}
    for processes in PROCESSES:
        more, less = by[many, processes], by[few, processes]
        name = f"by_{processes}"
        found[f"seconds_per_row_ratio_{name}"] = less["rows_per_second"] / more["rows_per_second"]
        found[f"processor_per_row_ratio_{name}"] = less["rows_per_processor_second"] / more["rows_per_processor_second"]
        found[f"memory_ratio_{name}"] = more["peak_mib"] / less["peak_mib"]
    for rows in sizes:
        one, two = by[rows, 1], by[rows, 2]
        found[f"two_processes_times_one_{rows}"] = two["rows_per_second"] / one["rows_per_second"]
        # What it would be if every process had a core of its own and never waited for the other.
        found[f"two_processes_times_one_by_processor_{rows}"] = (
            two["rows_per_processor_second"] / one["rows_per_processor_second"]
        )
    return found


PARTS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "fit": measure_fit,
    "tables": measure_tables,
}
"""What can be measured: a function of a folder for files and of the arguments, which returns JSON values."""


# --- the run ---


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(PARTS), help="what to measure")
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=ROWS, help="numbers of rows")
    parser.add_argument(
        "--batch", type=int, default=BATCH, help="rows of a step of each process (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="where files are made (default: the system's temporary folder)")
    parser.add_argument("--out", type=Path, help="JSON file to write to as well; its other parts stay")
    parser.add_argument("--buckets", type=int, nargs="+", default=BUCKETS, help="sizes of tables, for the part tables")
    parser.add_argument("--fit-once", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--table-once", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    if arguments.fit_once is not None:
        fit_once(arguments.fit_once, arguments.batch)
        return
    if arguments.table_once is not None:
        table_once(arguments.table_once, arguments.batch)
        return
    if arguments.part is None:
        raise SystemExit(f"--part must be one of {', '.join(sorted(PARTS))}, but it is not given")
    where = provenance.origin("python benchmarks/scale.py", words)  # it names the load before
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = {arguments.part: {**where, **PARTS[arguments.part](Path(folder), arguments)}}
    print(json.dumps(found, indent=1))
    if arguments.out is not None:
        others = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
        arguments.out.write_text(json.dumps(others | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
