"""Rows per second and peak memory of reading a large text file by way of the Parquet cache.

A file in the format of Criteo's log is made in a temporary folder: no header, 23 columns parted by tabs, hashes of 32
digits, missing cells, empty titles. A process of its own then reads it twice: from text into the cache, and from the
cache into samples. Peak memory is the kernel's record for that process, with all libraries in it. For scale, the same
process also times plain reading of the file's bytes, which is the least that any reader must do. Other work on the
machine lengthens the seconds of the clock but hardly those of the processor, so both are given.

Then the cache is made once more, by a process that is killed when half of its parts are there; another one does the
rest. The rows must be those of the reading that nothing disturbed, and the parts from before the kill untouched.

    python benchmarks/streaming.py                              2 GB
    python benchmarks/streaming.py --bytes 200e6 --out x.json   a smoke check
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffor.datasets.paper.lifetime import CLICKS, HASHES, criteo_table, survey_criteo
from diffor.datasets.readers.reading import CACHE_FOLDER, Place
from diffor.files import provenance
from diffor.files.provenance import peak_mib

N_BYTES = 2_000_000_000
LIMIT_MIB = 2048
MIB = 2**20
CHUNK_ROWS = 20_000
LEVELS = {
    "product_age_group": 12, "device_type": 3, "audience_id": 20_000, "product_gender": 8, "product_brand": 50_000,
    "product_country": 18, "product_id": 2_000_000, "partner_id": 300, "user_id": 5_000_000,
}  # fmt: skip
"""About how many different hashes a column has; categories have more with each level."""
MISSING_SHARE = 0.3


# --- the file ---


def hashes(name: str, numbers: np.ndarray[Any, Any]) -> list[str]:
    """32 upper-case hexadecimal digits for each number of a column, always the same."""
    salt = np.uint64(1 + list(CLICKS.columns).index(name))
    mixed = (numbers.astype(np.uint64) * np.uint64(64) + salt) * np.uint64(0x9E3779B97F4A7C15)
    digits = np.stack([mixed, mixed * np.uint64(0xBF58476D1CE4E5B9)], axis=1).tobytes().hex().upper()
    return [digits[start : start + 32] for start in range(0, len(digits), 32)]


def column(name: str, n_rows: int, random: np.random.Generator) -> list[str]:
    """Cells of a column of hashes."""
    if name == "product_title":
        words = hashes(name, random.integers(0, 30_000, 6 * n_rows))
        counts = random.integers(0, 7, n_rows)
        return [" ".join(words[6 * place : 6 * place + count]) for place, count in enumerate(counts.tolist())]
    n_levels = LEVELS.get(name, 0) or 25 * 3 ** int(name[-1])
    cells = hashes(name, random.integers(0, n_levels, n_rows))
    if name in ("user_id", "partner_id"):
        return cells
    missing = random.random(n_rows) < MISSING_SHARE
    return ["-1" if gone else cell for cell, gone in zip(cells, missing.tolist(), strict=True)]


def lines(random: np.random.Generator, n_rows: int) -> Iterator[str]:
    """Rows of the log."""
    sold = random.random(n_rows) < 0.1
    amounts = [f"{amount:.2f}" for amount in random.lognormal(3, 1, n_rows)]
    times = random.integers(1_596_439_000, 1_604_302_000, n_rows).tolist()
    clicks = random.integers(-1, 3000, n_rows).tolist()
    hashed = [column(name, n_rows, random) for name in HASHES]
    for sale, amount, moment, click, *rest in zip(sold.tolist(), amounts, times, clicks, *hashed, strict=True):
        outcome = f"1\t{amount}\t3600\t{moment}\t{click}\t{amount}" if sale else f"0\t-1.0\t-1\t{moment}\t{click}\t0.0"
        yield outcome + "\t" + "\t".join(rest) + "\n"


def write_file(path: Path, n_bytes: int, seed: int) -> int:
    """Write a log of about this size; the answer is its number of rows."""
    random, n_rows = np.random.default_rng(seed), 0
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="ascii", newline="\n") as file:
        while file.tell() < n_bytes:
            file.writelines(lines(random, CHUNK_ROWS))
            n_rows += CHUNK_ROWS
    return n_rows


# --- the reading, in a process of its own ---


class Stage:
    """Seconds of the clock and of the processor since it was made, and the highest memory so far."""

    def __init__(self) -> None:
        self.started, self.processor_started = time.perf_counter(), time.process_time()

    def figures(self, name: str, n_rows: int) -> dict[str, float]:
        """What the stage took, under its name."""
        seconds, processor = time.perf_counter() - self.started, time.process_time() - self.processor_started
        return {
            f"{name}_seconds": seconds,
            f"{name}_cpu_seconds": processor,
            f"{name}_rows_per_second": n_rows / seconds,
            f"{name}_rows_per_cpu_second": n_rows / processor,
            f"{name}_peak_mib": peak_mib(),
        }


def read_plainly(path: Path) -> None:
    """Read the bytes of a file, and do nothing with them."""
    with path.open("rb", buffering=0) as file:
        while file.read(8 * MIB):
            pass


def read_all(root: Path) -> dict[str, Any]:
    """What reading costs: from text into the cache, and from the cache into samples."""
    import pyarrow.parquet  # noqa: F401  importing is no part of reading

    path = next(root.rglob("CriteoSearchData"))
    imported = peak_mib()
    stage = Stage()
    table = criteo_table(Place(root, "criteo"))
    found = stage.figures("cache", table.n_rows)
    stage = Stage()
    samples, report = survey_criteo(Place(root, "criteo"))
    found |= stage.figures("load", table.n_rows)
    assert report.n_kept == len(samples) == table.n_rows
    stage = Stage()
    read_plainly(path)
    found |= stage.figures("plain", table.n_rows)
    return {
        "rows": table.n_rows,
        "bytes": path.stat().st_size,
        "parts": len(table.parts),
        "cache_bytes": sum(part.path.stat().st_size for part in table.parts),
        "samples_mib": float(samples.x.memory_usage(index=False).sum() + 2 * samples.y.nbytes) / MIB,
        "imported_mib": imported,
        **found,
        "limit_mib": LIMIT_MIB,
        "within_limit": peak_mib() <= LIMIT_MIB,
    }


def read_into_cache(root: Path) -> dict[str, Any]:
    """Read the text into the cache, or what is missing there, and do no more."""
    import pyarrow.parquet  # noqa: F401

    stage = Stage()
    table = criteo_table(Place(root, "criteo"))
    return stage.figures("cache", table.n_rows)


STEPS = {"read": read_all, "cache": read_into_cache}
"""What runs in a process of its own, by the option that asks for it."""


# --- the kill ---


def parts_of(cache: Path) -> dict[str, int]:
    """The parts of a cache, and when each was written."""
    return {str(path): path.stat().st_mtime_ns for path in sorted(cache.rglob("part-*.parquet"))}


def hold_the_same(first: Path, second: Path) -> bool:
    """Whether two caches hold the same rows; a reading that was resumed divides them into other parts."""
    from pyarrow import parquet

    return all(
        parquet.read_table(list(parts_of(first)), columns=[name]).equals(
            parquet.read_table(list(parts_of(second)), columns=[name])
        )
        for name in CLICKS.columns
    )


def kill_and_resume(root: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Make the cache anew, kill the process at half of it, and let another one do the rest."""
    cache, undisturbed = root / CACHE_FOLDER, root / "undisturbed"
    cache.rename(undisturbed)
    n_half = -(-len(parts_of(undisturbed)) // 2)
    process = subprocess.Popen(own_command("--cache", root), stdout=subprocess.PIPE, env=environment)
    while len(parts_of(cache)) < n_half and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = parts_of(cache)
    found = answer_of(own_command("--cache", root), environment)
    after = parts_of(cache)
    return {
        "killed_at_parts": len(before),
        "kept_parts": sum(after.get(path) == written for path, written in before.items()),
        "resumed_seconds": found["cache_seconds"],
        "resumed_cpu_seconds": found["cache_cpu_seconds"],
        "resumed_peak_mib": found["cache_peak_mib"],
        "resumed_equals_undisturbed": hold_the_same(undisturbed, cache),
    }


def own_command(option: str, root: Path) -> list[str]:
    """This script, for one of the steps that need a process of their own."""
    return [sys.executable, __file__, option, str(root)]


def answer_of(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    """What a step says at its end."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


# --- the run ---


def measure(arguments: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    """Make a file, read it in another process, and give what that says."""
    where = provenance.origin("python benchmarks/streaming.py", words)  # it names the load before
    threads = {} if arguments.threads is None else {"OMP_NUM_THREADS": str(arguments.threads)}
    environment = dict(os.environ) | threads
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        root, started = Path(folder), time.perf_counter()
        write_file(root / "Criteo_Conversion_Search" / "CriteoSearchData", int(arguments.bytes), arguments.seed)
        print(f"file made in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        found = answer_of(own_command("--read", root), environment)
        found |= kill_and_resume(root, environment)
    return {
        **where,
        "threads": arguments.threads,
        **found,
    }


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=N_BYTES, help="size of the file (default: 2e9)")
    parser.add_argument("--folder", type=Path, help="where the file is made (default: the system's temporary folder)")
    parser.add_argument("--threads", type=int, help="threads of Arrow (default: as many as cores)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write to as well")
    for step in STEPS:
        parser.add_argument(f"--{step}", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    for step, work in STEPS.items():
        root = getattr(arguments, step)
        if root is not None:
            print(json.dumps(work(root)))
            return
    text = json.dumps(measure(arguments, words), indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
