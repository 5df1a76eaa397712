"""A real server in a real process, and models that are fitted in a moment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pandas as pd

PLAIN: dict[str, Any] = {"max_steps": 20, "random_state": 0, "verbose": 0}
QUICK: dict[str, Any] = {**PLAIN, "prior": None}
PAPER: dict[str, Any] = {**PLAIN, "method_settings": {"n_increments": 4, "denoiser": "mlp", "width": 16}}


def make_flats(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Rows with numbers, a missing value and categories, and their prices."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"size": random.uniform(20, 120, n).round(1), "rooms": random.integers(1, 6, n)})
    table["city"] = random.choice(["Oslo", "Rome", "Bern"], n)
    price = np.clip(3 * table["size"] + 10 * table["rooms"] + random.normal(0, 20, n), 0, 500).to_numpy()
    table["size"] = table["size"].where(table.index != 3)
    return table, price


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as clients send it."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{name: value.item() if hasattr(value, "item") else value for name, value in row.items()} for row in rows]


@dataclass
class Served:
    """A server that runs, by its address and its process."""

    address: str
    process: subprocess.Popen[str]

    def client(self, **settings: Any) -> httpx.Client:
        """A client of this server."""
        return httpx.Client(base_url=self.address, timeout=60, **settings)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask the process to end and wait for its code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def make_app(model: Any, limits: Any = None, hosts: list[str] | None = None) -> Any:
    """The application of a model, in this process."""
    from diffor.serving.server.application import serve_loaded
    from diffor.serving.server.description import Limits
    from diffor.serving.server.loaded import Identity, Loaded
    from diffor.serving.server.metrics import Metrics

    limits, metrics = limits or Limits(), Metrics()
    return serve_loaded(
        Loaded(model, None, limits, 0.002, {}, Identity("model"), metrics), limits, metrics, hosts=hosts
    )


def send(model: Any, *requests: tuple[str, str, dict[str, Any]], **settings: Any) -> list[httpx.Response]:
    """The answers of a model's application to requests, each a method, a path, and what else httpx takes."""

    async def ask() -> list[httpx.Response]:
        app = make_app(model, **settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            answers = [await client.request(method, path, **more) for method, path, more in requests]
        await app.state.service.close()
        return answers

    return asyncio.run(ask())


def predict(model: Any, *bodies: dict[str, Any], **settings: Any) -> list[httpx.Response]:
    """The answers to requests for predictions, by their JSON."""
    return send(model, *(("POST", "/predict", {"json": body}) for body in bodies), **settings)


def told(answer: httpx.Response) -> str:
    """What a refusal says first."""
    return str(answer.json()["detail"][0]["msg"])


def until(condition: Callable[[], object]) -> None:
    """Wait for something to be so, half a minute at most."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within thirty seconds")


@contextlib.contextmanager
def serve_here(model: Any, places: Any = None, drain_seconds: float = 0.0) -> Iterator[Any]:
    """Run a server in a thread of this process until the block ends; its address, port and service."""
    from diffor.serving.server.running import bind, make_server

    app = make_app(model)
    server = make_server(app, places, drain_seconds)
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{port}", port=port, service=app.state.service, server=server, thread=thread
        )
    finally:
        server.should_exit = True
        thread.join(60)


@contextlib.contextmanager
def serve(folder: Path, *words: str) -> Iterator[Served]:
    """Run ``diffor serve`` on a free port until the block ends."""
    command = [sys.executable, "-m", "diffor", "serve", str(folder), "--port", "0", *words]
    environment = {name: value for name, value in os.environ.items() if name != "DIFFOR_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"on (http://\S+)/ ", line)
        if found is None:
            process.kill()
            raise RuntimeError(f"the server did not start: {line}{process.communicate()[1]}")
        yield Served(found.group(1), process)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
