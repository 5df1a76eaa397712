"""Rows per second and peak memory of `diffor score`, by the number of rows and of processes.

Rows of KuaiRec's schema are generated into Parquet files: a table of users with their 30 features and a table of
videos with their tags are drawn once, and each row takes a user and a video, as the log does. A small model is fitted
on some of them. Then the real command scores all files, with one process and with two of one thread each, turn by
turn. The seconds are those of the whole command, and those beyond a command that scores one small file: importing and
loading cost the same for any number of rows. Peak memory is the kernel's record for the worker that held most. The
rows that come out are counted, and two processes must have written the same bytes as one.

Full size is 1e5 and 1e6 rows: at some 8,000 rows per second and process it ends within eight minutes on two quiet
cores. 1e7 takes about half an hour and is reached by an option.

    python benchmarks/scale_score.py                                            100,000 and 1,000,000 rows
    python benchmarks/scale_score.py --sizes 1e5 1e6 1e7                        half an hour
    python benchmarks/scale_score.py --sizes 300 600 --max-steps 2 --out x.json     a smoke check
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffor import DiffoRRegressor
from diffor.core.workers import one_thread_each
from diffor.datasets.paper.watchtime import ENCODED_USER_COLUMNS, N_TAGS, USER_COLUMNS
from diffor.files import provenance
from diffor.files.provenance import peak_mib

RESULTS = Path(__file__).resolve().parent / "results" / "scale_score.json"
SIZES, PROCESSES = (1e5, 1e6), (1, 2)
N_USERS, N_VIDEOS = 7176, 10_728
FILE_ROWS, FIT_ROWS, START_ROWS = 62_500, 20_000, 64
WANTED_SPEEDUP, WANTED_GROWTH = 1.7, 1.1
SHOWN = ("rows", "processes", "seconds", "scoring_seconds", "rows_per_second", "peak_mib")


# --- the rows ---


def draw_users(random: np.random.Generator) -> dict[str, Any]:
    """The features of users, by KuaiRec's names and about its numbers of levels."""
    levels = {"user_active_degree": 4, "follow_user_num_range": 8, "fans_user_num_range": 9,
              "friend_user_num_range": 7, "register_days_range": 8}  # fmt: skip
    users: dict[str, Any] = {}
    for place, name in enumerate(USER_COLUMNS):
        if name in levels or name in ENCODED_USER_COLUMNS:
            names = np.array([f"{name}-{level}" for level in range(levels.get(name, 2 + 3 * (place % 7)))])
            users[name] = names[random.integers(0, len(names), N_USERS)]
        elif name.startswith("is_"):
            users[name] = random.integers(0, 2, N_USERS)
        else:
            users[name] = random.geometric(0.02, N_USERS)
    return users


def draw_videos(random: np.random.Generator) -> dict[str, Any]:
    """The tags and lengths of videos."""
    tags = np.array([f"{tag}" for tag in range(31)])
    features = {f"feat{number}": tags[random.integers(0, 31, N_VIDEOS)] for number in range(N_TAGS)}
    return {**features, "duration": np.round(random.lognormal(2.3, 0.6, N_VIDEOS), 3)}


class Log:
    """A log of users who watch videos, any part of which can be drawn on its own."""

    def __init__(self, seed: int) -> None:
        self.seed, random = seed, np.random.default_rng(seed)
        self.users, self.videos = draw_users(random), draw_videos(random)
        self.patience = random.lognormal(0, 0.4, N_USERS)

    def rows(self, part: int, n_rows: int) -> pd.DataFrame:
        """Rows of the log, with the seconds watched; the same each time."""
        random = np.random.default_rng([self.seed, part])
        user, video = random.integers(0, N_USERS, n_rows), random.integers(0, N_VIDEOS, n_rows)
        columns: dict[str, Any] = {"user_id": user.astype(str), "video_id": video.astype(str)}
        columns |= {name: values[user] for name, values in self.users.items()}
        columns |= {name: values[video] for name, values in self.videos.items()}
        watched = columns["duration"] * self.patience[user] * random.gamma(2, 0.4, n_rows)
        return pd.DataFrame({"row": np.arange(n_rows) + part * FILE_ROWS, **columns, "watched": watched})


def write_files(log: Log, folder: Path, n_rows: int, n_files: int) -> None:
    """Write rows to as many files, of equal length but for the last."""
    folder.mkdir()
    size = math.ceil(n_rows / n_files)
    for part in range(n_files):
        count = min(size, n_rows - part * size)
        log.rows(part, count).to_parquet(folder / f"part-{part:05d}.parquet", index=False, row_group_size=2**14)


def fit_model(log: Log, folder: Path, arguments: argparse.Namespace) -> None:
    """Fit a model that is quick to ask, on some rows of the log."""
    rows = log.rows(10**6, arguments.fit_rows)
    settings = {"n_samples": arguments.samples, "max_steps": arguments.max_steps, "random_state": arguments.seed}
    model = DiffoRRegressor("fast", prior=None, verbose=0, **settings)
    model.fit(rows.drop(columns=["row", "watched"]), rows["watched"]).save(folder)


# --- the command ---


def score(model: Path, inputs: Path, out: Path, n_processes: int) -> dict[str, float]:
    """Run the command, and give its seconds and the most memory that a worker ever held."""
    command = [sys.executable, "-m", "diffor", "score", str(model), f"{inputs}/*.parquet", "--out", str(out),
               "--workers", str(n_processes), "--keep", "row", "--coverage", "0.9", "--quiet"]  # fmt: skip
    started, peaks = time.perf_counter(), dict[int, float]()
    with one_thread_each():
        process = subprocess.Popen(command)
    while process.poll() is None:
        for pid in descendants(process.pid):
            peaks[pid] = max(peaks.get(pid, 0.0), peak_mib(pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"diffor score ended with code {process.returncode}")
    return {"seconds": time.perf_counter() - started, "peak_mib": max(peaks.values())}


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that these started."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def rows_of(folder: Path) -> np.ndarray[Any, Any]:
    """The numbers of the rows in a folder, in the order of its files."""
    from pyarrow import parquet

    names = sorted(folder.glob("part-*.parquet"))
    return np.concatenate([parquet.read_table(name, columns=["row"])["row"].to_numpy() for name in names])


def hold_the_same(first: Path, second: Path) -> bool:
    """Whether two folders have the same outputs, byte for byte."""
    names = [sorted(path.name for path in folder.glob("part-*.parquet")) for folder in (first, second)]
    return names[0] == names[1] and all(
        (first / name).read_bytes() == (second / name).read_bytes() for name in names[0]
    )


# --- the run ---


def measure(arguments: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    """Make rows and a model, score them, and give the figures."""
    where = provenance.origin("python benchmarks/scale_score.py", words, ["pyarrow"])  # it names the load before
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        top, log = Path(folder), Log(arguments.seed)
        fit_model(log, top / "model", arguments)
        write_files(log, top / "start", START_ROWS, 1)
        start = score(top / "model", top / "start", top / "started", 1)["seconds"]
        for size in map(int, arguments.sizes):
            runs += measure_size(log, top, size, start)
    return {**where, "samples": arguments.samples, "start_seconds": start, "runs": runs, **judge(runs)}


def measure_size(log: Log, top: Path, n_rows: int, start: float) -> list[dict[str, Any]]:
    """Score as many rows with each number of processes."""
    inputs, runs = top / f"rows-{n_rows}", []
    write_files(log, inputs, n_rows, max(4, math.ceil(n_rows / FILE_ROWS)))
    outs = {count: top / f"rows-{n_rows}-by-{count}" for count in PROCESSES}
    for count, out in outs.items():
        found = score(top / "model", inputs, out, count)
        scoring = max(found["seconds"] - start, 1e-3)
        runs.append(
            {
                "rows": n_rows,
                "processes": count,
                **found,
                "scoring_seconds": scoring,
                "rows_per_second": n_rows / scoring,
                "every_row_once": bool(np.array_equal(rows_of(out), rows_of(inputs))),
                "as_one_process": hold_the_same(outs[1], out),
            }
        )
        print("  ".join(f"{name} {runs[-1][name]:,.1f}" for name in SHOWN), file=sys.stderr)
    return runs


def judge(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What more processes gain, how seconds grow with rows (1: linear), and how memory does (1: flat)."""
    by = {(run["rows"], run["processes"]): run for run in runs}
    sizes = sorted({run["rows"] for run in runs})
    low, high = by[sizes[0], 1], by[sizes[-1], 1]
    speedups = {str(size): by[size, 1]["scoring_seconds"] / by[size, 2]["scoring_seconds"] for size in sizes}
    growth = high["peak_mib"] / low["peak_mib"]
    ratio = math.log(high["scoring_seconds"] / low["scoring_seconds"])
    return {
        "speedup_of_two": speedups,
        "speedup_met": speedups[str(sizes[-1])] >= WANTED_SPEEDUP,
        "seconds_exponent": ratio / math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else None,
        "memory_growth": growth,
        "memory_flat": growth <= WANTED_GROWTH,
        "all_rows_once_and_alike": all(run["every_row_once"] and run["as_one_process"] for run in runs),
    }


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="numbers of rows (default: 1e5 1e6)")
    parser.add_argument("--samples", type=int, default=16, help="samples per row (default: %(default)s)")
    parser.add_argument("--fit-rows", type=int, default=FIT_ROWS, help="rows to fit on (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=300, help="steps of the fit (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where files are made (default: the system's temporary folder)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON file to write to (default: %(default)s)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    text = json.dumps(measure(arguments, words), indent=1)
    print(text)
    arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
