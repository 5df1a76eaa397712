"""``diffor serve`` at saturation for a long time, a third of the requests bad, while models and servers change.

Two models are fitted for a few steps and take turns in one folder, which a real server watches; servers take turns
too: a new one starts on the same socket, then the old one is asked to end (SIGTERM). Clients are threads of this
process with one connection each, that ask again as soon as they have an answer. Of their requests two thirds are right:
each answer is compared with what the model whose hash it carries says in this process about the same row. One third are
bad in one of many ways, and must be refused with the status that belongs to it.

*Wrong* is an answer that is not the model's, or another status than the right one. *Lost* is a request without a whole
answer, for whatever reason; nothing is asked twice. Memory is that of the server, read from the kernel, of each server
after its warm-up and at its end.

    python benchmarks/soak.py --minutes 30                30 minutes, to benchmarks/results/soak.json
    python benchmarks/soak.py --quick --out x.json        a smoke check in half a minute
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from serve import TOLERANCE, Asked, get_ready, make_table, memory_mib

from diffor import DiffoRRegressor
from diffor.files import provenance
from diffor.serving.server.loaded import identity_of
from diffor.serving.server.running import bind

RESULTS = Path(__file__).resolve().parent / "results" / "soak.json"
JSON = {"Content-Type": "application/json"}
MAX_GROWTH = 0.10
"""Share by which a server's memory may grow between its warm-up and its end, models changed in between included."""
DRAIN_SECONDS = 2.0
BAD: tuple[tuple[int, bytes, dict[str, str]], ...] = (
    (422, b"", JSON),
    (422, b'{"rows":[{"column_0":1', JSON),
    (422, b'{"rows":[{"column_0":"x"}]}', JSON),
    (422, b'{"rows":[{' + b",".join(b'"x%d":0' % place for place in range(10_000)) + b"}]}", JSON),
    (422, b"[" * 100_000, JSON),
    (422, b'{"rows":[],"quantiles":[2]}', JSON),
    (422, b"\xff\xfe\x00", JSON),
    (413, b'{"rows":[' + b"{}," * 2000 + b"{}]}", JSON),
    (415, b'{"rows":[{}]}', {"Content-Type": "text/plain"}),
    (403, b'{"rows":[{}]}', {**JSON, "Origin": "https://elsewhere.example"}),
    (421, b'{"rows":[{}]}', {**JSON, "Host": "elsewhere.example"}),
)
"""Bodies and headers of bad requests, each with the status that it must get."""


@dataclass
class Client:
    """One client that asks until the time is over, and what it has seen."""

    port: int
    asked: dict[str, Asked]
    """What is asked and expected, by the hash of the model that answers."""
    place: int
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def run(self, is_over: threading.Event) -> None:
        """Ask about one row after the other, every third time badly."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        bodies = next(iter(self.asked.values())).bodies
        turn = self.place
        while not is_over.is_set():
            row = turn % len(bodies)
            expected, body, headers = BAD[turn // 3 % len(BAD)] if turn % 3 == 2 else (200, bodies[row], JSON)
            started = time.perf_counter()
            try:
                connection.request("POST", "/predict", body, headers)
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(repr(error))
                connection.close()
                continue
            self.seconds.append(time.perf_counter() - started)
            self.statuses[str(response.status)] += 1
            if response.status != expected:
                self.wrong.append(f"{response.status} for {expected}: {text[:200]!r}")
            elif expected == 200:
                self.compare(json.loads(text), row)
            turn += 1
        connection.close()

    def compare(self, told: dict[str, Any], row: int) -> None:
        """Note an answer that is not that of the model that it names."""
        self.models[told["model"]["hash"]] += 1
        asked = self.asked.get(told["model"]["hash"])
        answer = told["predictions"][0]
        found = np.array([answer["point"], *answer["quantiles"].values(), *answer["interval"]])
        if asked is None or not is_near(found, asked.expected[row], np.abs(asked.expected).max()):
            self.wrong.append(f"row {row} by {told['model']}: {found.tolist()}")


def is_near(found: NDArray[np.float64], expected: NDArray[np.float64], largest: float) -> bool:
    return bool(np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * largest))


@dataclass
class Turns:
    """Servers that take turns on one socket, and models that take turns in one folder."""

    folder: Path
    models: list[Path]
    listening: Any
    process: subprocess.Popen[str] | None = None
    memory: list[dict[str, float]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    n_switches: int = 0

    def start(self) -> subprocess.Popen[str]:
        """Start a server beside the one that runs, if any."""
        number = self.listening.fileno()
        command = [sys.executable, "-m", "diffor", "serve", str(self.folder), "--fd", str(number), "--watch",
                   "--drain-seconds", str(DRAIN_SECONDS)]  # fmt: skip
        process = subprocess.Popen(command, pass_fds=[number], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)  # fmt: skip
        line = process.stdout.readline() if process.stdout else ""
        if "serving" not in line:
            raise RuntimeError(f"the server must start, but it said {line!r}")
        return process

    def change_server(self, is_last: bool = False) -> None:
        """Let a new server take over, or none."""
        old, self.process = self.process, None if is_last else self.start()
        if old is not None:
            self.memory[-1]["at_the_end_mib"] = memory_mib(old.pid)
            old.terminate()
            self.errors += (old.communicate(timeout=180)[1] or "").splitlines()
            self.codes.append(old.returncode)

    def note_memory(self) -> None:
        """Read the memory of a server that has warmed up."""
        assert self.process is not None
        self.memory.append({"after_warm_up_mib": memory_mib(self.process.pid)})

    def change_model(self) -> None:
        """Put the other model into the folder, and wait until it answers."""
        assert self.process is not None
        self.n_switches += 1
        put(self.models[self.n_switches % len(self.models)], self.folder)
        line = self.process.stdout.readline() if self.process.stdout else ""
        if "answers come from the model" not in line:
            raise RuntimeError(f"the server must switch to the new model, but it said {line!r}")


def put(source: Path, folder: Path) -> None:
    """Replace a model's folder by a copy of another."""
    fresh, old = folder.with_name("fresh"), folder.with_name("old")
    shutil.copytree(source, fresh)
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit, serve, ask, and change models and servers until the time is over."""
    table, y = make_table(arguments.rows, seed=0)
    with tempfile.TemporaryDirectory() as name, bind("127.0.0.1", 0) as listening:
        folders, asked = [], {}
        for place in range(2):
            model = DiffoRRegressor(arguments.preset, max_steps=arguments.max_steps, random_state=place, verbose=0)
            model.fit(table, y if place == 0 else -y)
            folders.append(Path(name) / f"model_{place}")
            put_back = Path(name) / "fitted" / "served"
            model.save(put_back, overwrite=True)
            os.rename(put_back, folders[-1])
            asked[identity_of(folders[-1]).hash or ""] = get_ready(model, arguments.asked)
        put(folders[0], Path(name) / "served")
        turns = Turns(Path(name) / "served", folders, listening)
        turns.change_server()
        return soak(turns, asked, arguments)


def soak(turns: Turns, asked: dict[str, Asked], arguments: argparse.Namespace) -> dict[str, Any]:
    """Ask with all clients, in rounds: each changes the model a few times and then the server."""
    is_over, started = threading.Event(), time.perf_counter()
    port = turns.listening.getsockname()[1]
    clients = [Client(port, asked, 7 * place) for place in range(arguments.clients)]
    threads = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        for turn in range(arguments.servers):
            seconds = 60 * arguments.minutes / arguments.servers / (arguments.switches + 2)
            time.sleep(seconds)
            turns.change_model()  # a server holds two models while it changes, and keeps the room for them
            turns.note_memory()
            for _ in range(arguments.switches):
                time.sleep(seconds)
                turns.change_model()
            time.sleep(seconds)
            if turn < arguments.servers - 1:
                turns.change_server()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    took = time.perf_counter() - started
    turns.change_server(is_last=True)
    latencies = 1000 * np.concatenate([client.seconds for client in clients])
    growth = max(one["at_the_end_mib"] / one["after_warm_up_mib"] - 1 for one in turns.memory)
    return {
        "preset": arguments.preset,
        "clients": arguments.clients,
        "minutes": took / 60,
        "requests": len(latencies),
        "requests_per_second": len(latencies) / took,
        "statuses": dict(sorted(sum((client.statuses for client in clients), Counter()).items())),
        "answers_by_model": sorted(sum((client.models for client in clients), Counter()).values()),
        "wrong": sum(len(client.wrong) for client in clients),
        "lost": sum(len(client.lost) for client in clients),
        "first_wrong": next((text for client in clients for text in client.wrong), None),
        "first_lost": next((text for client in clients for text in client.lost), None),
        "p50_ms": float(np.quantile(latencies, 0.5)),
        "p99_ms": float(np.quantile(latencies, 0.99)),
        "largest_ms": float(latencies.max()),
        "models_switched": turns.n_switches,
        "servers": len(turns.codes),
        "codes_at_the_end": turns.codes,
        "lines_of_errors": len(turns.errors),
        "first_error": next(iter(turns.errors), None),
        "memory": turns.memory,
        "memory_growth": growth,
    }


def describe(found: dict[str, Any]) -> str:
    """The figures as lines to read."""
    is_good = found["wrong"] == found["lost"] == found["lines_of_errors"] == 0 and not any(found["codes_at_the_end"])
    return "\n".join([
        f"{found['requests']} requests in {found['minutes']:.1f} min from {found['clients']} clients, "
        f"{found['requests_per_second']:.1f}/s; p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms",
        f"statuses: {', '.join(f'{count} x {status}' for status, count in found['statuses'].items())}",
        f"{found['models_switched']} models and {found['servers']} servers took over from each other",
        f"wrong {found['wrong']}, lost {found['lost']}, lines of errors {found['lines_of_errors']} (required 0, 0, 0: "
        f"{'met' if is_good else 'NOT met'})",
        f"memory grew by {found['memory_growth']:.1%} at most (required <= {MAX_GROWTH:.0%}: "
        f"{'met' if found['memory_growth'] <= MAX_GROWTH else 'NOT met'})",
    ])  # fmt: skip


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--servers", type=int, default=3, help="servers that take over from each other")
    parser.add_argument("--switches", type=int, default=4, help="models that each of them changes to, after the first")
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--quick", action="store_true", help="a few seconds, a small model")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    arguments.rows, arguments.asked, arguments.max_steps = 8192, 256, 20
    if arguments.quick:
        arguments.rows, arguments.asked, arguments.max_steps = 300, 32, 3
        arguments.preset, arguments.servers, arguments.switches = "fast", 2, 1
        arguments.clients, arguments.minutes = min(arguments.clients, 6), min(arguments.minutes, 0.1)
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    where = provenance.origin("python benchmarks/soak.py", words, ["fastapi", "uvicorn"])
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
