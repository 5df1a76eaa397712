"""Latency, throughput and memory of ``diffor serve`` on this machine, beside the model's own speed in a process.

A model of the default preset is fitted for a few steps (speed does not depend on the weights), saved, and served by a
real process on a free port of the loopback device. Clients are threads of this process, each with one connection; each
asks about one row at a time, for its point, five quantiles and an interval, and again as soon as it has the answer.
Every answer is compared with what the model says in this process about the same row. Before and after each number of
clients, the model answers the same rows here, one at a time and 64 at a time: what the server's figures stand beside.
The memory of the server is read from the kernel after a warm-up with all clients, and all along.

    python benchmarks/serve.py                          all, in about three minutes, to benchmarks/results/serve.json
    python benchmarks/serve.py --quick --out x.json     a smoke check in a few seconds
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from diffor import DiffoRRegressor
from diffor.files import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "serve.json"
CLIENTS = (1, 8, 64)
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
BATCH = 64
TOLERANCE = 1e-5
"""Relative: where kernels round differently, answers differ in the last digits of single precision."""
MAX_GROWTH = 0.05
"""Share by which the server's memory may grow after the warm-up."""
N_COLUMNS, N_TRAINING, N_ROWS = 20, 8192, 512


@dataclass(frozen=True)
class Asked:
    """Rows to ask about, as a table, as bodies of requests, and what the model says about them here."""

    table: pd.DataFrame
    bodies: list[bytes]
    expected: NDArray[np.float64]
    """Point, quantiles, interval of each row. **Shape:** ``(n, 8)``."""


def make_table(n: int, seed: int) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Twenty columns of numbers and a target that depends on some of them."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n, N_COLUMNS)), columns=[f"column_{place}" for place in range(N_COLUMNS)])
    y = table["column_0"] + np.sin(2 * table["column_1"]) + 0.3 * random.normal(size=n)
    return table, y.to_numpy()


def local_answer(model: DiffoRRegressor, table: pd.DataFrame) -> NDArray[np.float64]:
    """What the model says in this process. **Shape:** n rows -> ``(n, 8)``."""
    prediction = model.predict_distribution(table)
    parts = [prediction.statistic("median")[:, None], prediction.quantile(LEVELS), prediction.interval(0.9)]
    return np.concatenate(parts, axis=1)


def get_ready(model: DiffoRRegressor, n_rows: int) -> Asked:
    table, _ = make_table(n_rows, seed=1)
    bodies = [
        json.dumps({"rows": [row], "quantiles": LEVELS, "increments": False}).encode()
        for row in table.to_dict("records")
    ]
    return Asked(table, bodies, local_answer(model, table))


# --- the server ---


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, int, int]]:
    """A process that serves the model: its host, port and process id."""
    command = [sys.executable, "-m", "diffor", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"http://([\d.]+):(\d+)/", line)
        if found is None:
            raise RuntimeError(f"the server must start, but it said {line!r}")
        yield found.group(1), int(found.group(2)), process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def memory_mib(pid: int) -> float:
    """Memory that a process holds, as the kernel counts it."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else float("nan")


@dataclass
class Client:
    """One connection that asks until the time is over, and what it has seen."""

    host: str
    port: int
    asked: Asked
    place: int
    seconds: list[float] = field(default_factory=list)
    n_wrong: int = 0
    n_exact: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self, until: float) -> None:
        """Ask about one row after the other."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        place = self.place
        while time.perf_counter() < until:
            started = time.perf_counter()
            connection.request("POST", "/predict", self.asked.bodies[place], {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            self.seconds.append(time.perf_counter() - started)
            if response.status == 200:
                self.compare(json.loads(text)["predictions"][0], self.asked.expected[place])
            else:
                self.failures.append(f"{response.status}: {text[:200]!r}")
            place = (place + 1) % len(self.asked.bodies)
        connection.close()

    def compare(self, told: dict[str, Any], expected: NDArray[np.float64]) -> None:
        """Count an answer that is not the model's."""
        found = np.array([told["point"], *told["quantiles"].values(), *told["interval"]])
        self.n_exact += bool((found == expected).all())
        self.n_wrong += not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())


def load(address: tuple[str, int, int], asked: Asked, n_clients: int, seconds: float) -> dict[str, Any]:
    """Latency and throughput with so many clients, and the server's memory at the end."""
    host, port, pid = address
    step = max(len(asked.bodies) // n_clients, 1)
    clients = [Client(host, port, asked, place * step % len(asked.bodies)) for place in range(n_clients)]
    started = time.perf_counter()
    threads = [threading.Thread(target=client.run, args=(started + seconds,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    latencies = 1000 * np.concatenate([client.seconds for client in clients])
    return {
        "clients": n_clients,
        "requests": len(latencies),
        "requests_per_second": len(latencies) / took,
        "p50_ms": float(np.quantile(latencies, 0.5)),
        "p99_ms": float(np.quantile(latencies, 0.99)),
        "wrong": sum(client.n_wrong for client in clients),
        "equal_to_the_bit": sum(client.n_exact for client in clients),
        "failed": sum(len(client.failures) for client in clients),
        "first_failure": next((text for client in clients for text in client.failures), None),
        "memory_mib": memory_mib(pid),
    }


# --- the model in this process ---


def local_speed(model: DiffoRRegressor, asked: Asked, seconds: float) -> dict[str, float]:
    """Rows per second and latency of the model here, one row at a time and many at a time."""

    def times(ask: Callable[[int], object]) -> NDArray[np.float64]:
        taken, until = [], time.perf_counter() + seconds / 2
        while time.perf_counter() < until or len(taken) < 3:
            started = time.perf_counter()
            ask(len(taken))
            taken.append(time.perf_counter() - started)
        return np.array(taken)

    n = len(asked.table)
    single = times(lambda turn: local_answer(model, asked.table.iloc[[turn % n]]))
    many = asked.table.iloc[np.arange(BATCH) % n]
    batched = times(lambda turn: local_answer(model, many))
    return {
        "one_row_p50_ms": float(1000 * np.median(single)),
        "one_row_p99_ms": float(1000 * np.quantile(single, 0.99)),
        "one_row_rows_per_second": float(1 / np.median(single)),
        f"batch_of_{BATCH}_rows_per_second": float(BATCH / np.median(batched)),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit, serve, and ask with each number of clients, the model's own speed in between."""
    table, y = make_table(arguments.rows, seed=0)
    model = DiffoRRegressor(arguments.preset, max_steps=arguments.max_steps, random_state=0, verbose=0).fit(table, y)
    asked = get_ready(model, arguments.asked)
    stages, local = [], []
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        with server(Path(folder) / "model") as address:
            warm_up = load(address, asked, max(arguments.clients), max(arguments.seconds / 4, 0.5))
            local.append(local_speed(model, asked, arguments.seconds / 4))
            for n_clients in arguments.clients:
                stages.append(load(address, asked, n_clients, arguments.seconds))
                local.append(local_speed(model, asked, arguments.seconds / 4))
    before, after = warm_up["memory_mib"], stages[-1]["memory_mib"]
    names = list(local[0])
    return {
        "preset": arguments.preset,
        "kinds": model.encoders_,
        "n_samples": model.settings_.n_samples,
        "columns": N_COLUMNS,
        "stages": stages,
        "in_process": {name: float(np.median([one[name] for one in local])) for name in names},
        "in_process_each": local,
        "memory": {
            "after_warm_up_mib": before, "at_the_end_mib": after, "growth": after / before - 1,
            "requests_in_between": sum(stage["requests"] for stage in stages),
        },
        "wrong": warm_up["wrong"] + sum(stage["wrong"] for stage in stages),
        "failed": warm_up["failed"] + sum(stage["failed"] for stage in stages),
    }  # fmt: skip


def describe(found: dict[str, Any]) -> str:
    """The figures as lines to read."""
    here, memory = found["in_process"], found["memory"]
    lines = [f"{'clients':>8} {'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'requests':>9} {'wrong':>6} {'MiB':>7}"]
    lines += [
        f"{one['clients']:>8} {one['requests_per_second']:>11.1f} {one['p50_ms']:>8.1f} {one['p99_ms']:>8.1f} "
        f"{one['requests']:>9} {one['wrong']:>6} {one['memory_mib']:>7.0f}"
        for one in found["stages"]
    ]
    single, batched = here["one_row_rows_per_second"], here[f"batch_of_{BATCH}_rows_per_second"]
    best = max(one["requests_per_second"] for one in found["stages"])
    lines += [
        f"in this process: one row {here['one_row_p50_ms']:.1f} ms ({single:.1f} rows/s), {BATCH} at a time "
        f"{batched:.1f} rows/s",
        f"served at best: {best / single:.2f} x one row at a time here, {best / batched:.2f} x {BATCH} at a time here",
        f"wrong answers: {found['wrong']}, failed requests: {found['failed']} (required 0 and 0: "
        f"{'met' if found['wrong'] == found['failed'] == 0 else 'NOT met'})",
        f"memory after warm-up {memory['after_warm_up_mib']:.0f} MiB, at the end {memory['at_the_end_mib']:.0f} MiB, "
        f"growth {memory['growth']:.1%} (required <= {MAX_GROWTH:.0%}: "
        f"{'met' if memory['growth'] <= MAX_GROWTH else 'NOT met'})",
    ]
    return "\n".join(lines)


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS), metavar="N")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds for each number of clients")
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--quick", action="store_true", help="a few seconds, a small model")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    arguments.rows, arguments.asked, arguments.max_steps = N_TRAINING, N_ROWS, 20
    if arguments.quick:
        arguments.rows, arguments.asked, arguments.max_steps = 300, 32, 3
        arguments.preset, arguments.seconds = "fast", min(arguments.seconds, 1.0)
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    where = provenance.origin("python benchmarks/serve.py", words, ["fastapi", "uvicorn"])
    found = measure(arguments)
    print(f"{where['machine']}, load before {where['load_before']}, commit {where['commit']}")
    print(describe(found))
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**where, **found}, indent=1) + "\n", encoding="utf-8")
        print(f"written to {out}")


if __name__ == "__main__":
    main()
