"""A model as it is served: what reads requests to it, what answers them, what is told of it; and its successor."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from diffor.estimators.chain import has_increments
from diffor.serving.server.answers import ModelAnswers, Question
from diffor.serving.server.batching import Batcher
from diffor.serving.server.columns import columns_of, example_of
from diffor.serving.server.description import Limits, describe_model
from diffor.serving.server.desk import Desk
from diffor.serving.server.drift import Drift
from diffor.serving.server.metrics import Metrics
from diffor.serving.server.requests import RequestReader
from diffor.serving.server.rows import check_rows

SHORT_HASH = 16
"""Digits of a hash that tell one model from another."""


@dataclass(frozen=True)
class Identity:
    """Which model an answer comes from."""

    name: str
    version: str | None = None
    hash: str | None = None


def identity_of(folder: Path) -> Identity:
    """The name of a model's folder, when the model was saved, and a hash of all that the folder holds."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        whole.update(f"{path.name}\0{len(content)}\0".encode())
        whole.update(content)
    saved = datetime.fromtimestamp((folder / "config.json").stat().st_mtime, timezone.utc)
    return Identity(folder.resolve().name, saved.strftime("%Y-%m-%dT%H:%M:%SZ"), whole.hexdigest()[:SHORT_HASH])


class Loaded:
    """A model that answers; requests under way are counted, so that it is not closed before they have their answers."""

    def __init__(
        self,
        model: Any,
        sides: Mapping[str, str] | None,
        limits: Limits,
        wait: float,
        facts: Mapping[str, Any],
        identity: Identity,
        metrics: Metrics,
    ) -> None:
        self.model, self.identity = model, identity
        self.columns = columns_of(model, sides)
        self.reader = RequestReader(model, self.columns, limits)
        self.drift = Drift(model, self.columns)
        # One batch has the rows of one request at least; more would keep small requests waiting.
        self.batcher = Batcher(
            ModelAnswers(model, self.drift), wait, limits.max_rows, limits.max_waiting, metrics.batch_rows.observe
        )
        self.told = describe_model(model, self.columns, limits, {**facts, "identity": asdict(identity)})
        self.has_chain = has_increments(model)
        self.document: dict[str, Any] | None = None
        """The OpenAPI document, once somebody has asked for it."""
        self._n_open = 0

    def try_out(self) -> None:
        """Ask for the answer to a typical row, so that a model that cannot answer is found before anybody asks it."""
        if self.reader.reads_images:
            return
        row = {column["name"]: example_of(column) for column in self.columns.to_json()}
        rows = check_rows([row], self.columns, max_rows=1)
        ModelAnswers(self.model)([Question(rows, self.reader.defaults)])

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the model open for a request; only the event loop's thread may ask for it."""
        self._n_open += 1
        try:
            yield
        finally:
            self._n_open -= 1

    async def close(self) -> None:
        """Wait until nobody asks the model any more, then end its thread."""
        while self._n_open:
            await asyncio.sleep(0.02)
        await self.batcher.close()


class Service:
    """What all requests share: the model that answers now, the limits, and whether the server is about to end."""

    def __init__(self, loaded: Loaded, limits: Limits, metrics: Metrics) -> None:
        self.loaded, self.limits, self.metrics = loaded, limits, metrics
        self.desk = Desk()
        self.is_ending = False
        self.guard: Any = None
        """Who is connected, if the server counts them."""
        self.n_switched = 0
        self.failure: str | None = None
        """Why the latest model in the folder is not the one that answers, if so."""
        self._closing: set[asyncio.Task[None]] = set()

    def switch(self, loaded: Loaded) -> None:
        """Answer by another model from now on, in the event loop's thread; the old one finishes what it has."""
        old, self.loaded = self.loaded, loaded
        self.n_switched += 1
        task = asyncio.get_running_loop().create_task(old.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Finish what is under way, and end all threads."""
        await asyncio.gather(self.loaded.close(), *self._closing)
        self.desk.close()


Signature = tuple[tuple[str, int, int, int], ...]


def signature_of(folder: Path) -> Signature | None:
    """What changes whenever a model is written to a folder; None while there is none."""
    try:
        found = []
        for path in sorted(folder.iterdir()):
            told = path.stat()
            if not path.name.startswith("."):
                found.append((path.name, told.st_ino, told.st_mtime_ns, told.st_size))
    except OSError:
        return None  # it is being replaced
    return tuple(found) if any(name == "config.json" for name, *_ in found) else None


class Watcher:
    """Looks at a model's folder and, where another model is written to it, loads and switches to it.

    ``load`` reads the folder in the watcher's own thread; the event loop's thread only switches.
    """

    def __init__(self, folder: Path, load: Any, seconds: float = 1.0) -> None:
        self.folder, self.load, self.seconds = folder, load, seconds
        self._seen = signature_of(folder)

    async def run(self, service: Service, say: Any) -> None:
        """Watch until the task is cancelled; ``say`` gets a line for each model that was or could not be loaded."""
        found = self._seen
        while True:
            await asyncio.sleep(self.seconds)
            before, found = found, signature_of(self.folder)
            # Only what has stayed for a moment is read: files may be copied there one after the other.
            if found is None or found == self._seen or found != before:
                continue
            try:
                loaded = await asyncio.to_thread(self.load)
                await asyncio.to_thread(loaded.try_out)
            except Exception as error:  # whatever is wrong with it, the one that answers goes on
                is_new = service.failure != str(error)
                service.failure = str(error)
                # Half of it may have been written when it was read, and a file that cannot be read may be soon.
                if signature_of(self.folder) == found and not isinstance(error, OSError):
                    self._seen = found
                if is_new:
                    say(f"{self.folder} holds another model, but it cannot be loaded: {error}; the old one answers on")
                continue
            if signature_of(self.folder) != found:
                await loaded.close()
                continue  # it changed while it was read: what was read may be neither the one nor the other
            self._seen = found
            service.failure = None
            service.switch(loaded)
            say(f"{self.folder}: answers come from the model {loaded.identity.hash} now")
