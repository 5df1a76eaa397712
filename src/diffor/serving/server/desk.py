"""Where requests are read and answers are written, beside the event loop: what takes long there keeps all waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import Headers

from diffor.serving.server.pictures import Upload, kept_pictures
from diffor.serving.server.refusals import refusal
from diffor.serving.server.requests import SMALL_BYTES, RequestReader

SMALL_ROWS = 16


class Desk:
    """Two threads, one that reads large requests and one that writes large answers, one after the other each.

    So large requests wait for each other, their values are in memory for one of them at a time, and small ones pass.
    """

    def __init__(self) -> None:
        self._reading = ThreadPoolExecutor(1, "reading")
        self._writing = ThreadPoolExecutor(1, "writing")

    async def read(self, reader: RequestReader, content: bytes, headers: Headers, seconds: float) -> Any:
        """What a request asks."""
        if len(content) <= SMALL_BYTES and not reader.reads_images:
            return reader.read(content, headers)
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(self._reading, reader.read, content, headers)
            return await asyncio.wait_for(reading, seconds)
        except asyncio.TimeoutError as error:
            message = f"a request must be read within {seconds:g} s, but others are before it; try again in a moment"
            raise refusal(504, "time", message, "body") from error

    @asynccontextmanager
    async def keep(self, uploads: Sequence[Upload]) -> AsyncIterator[tuple[str, ...]]:
        """Paths of files that hold images for a while."""
        if not uploads:
            yield ()
            return
        loop, kept = asyncio.get_running_loop(), kept_pictures(uploads)
        paths = await loop.run_in_executor(self._reading, kept.__enter__)
        try:
            yield paths
        finally:
            await loop.run_in_executor(self._reading, kept.__exit__, None, None, None)

    async def write(self, answer: dict[str, Any]) -> bytes:
        """An answer as JSON."""
        if len(answer.get("predictions", ())) <= SMALL_ROWS:
            return as_json(answer)
        return await asyncio.get_running_loop().run_in_executor(self._writing, as_json, answer)

    def close(self) -> None:
        """End the threads."""
        self._reading.shutdown()
        self._writing.shutdown()


def as_json(answer: dict[str, Any]) -> bytes:
    """An answer as JSON, a row at a time: while one is written, no other thread goes on.

    >>> as_json({"predictions": [{"point": 1.0}, {"point": 2.0}], "coverage": 0.9})
    b'{"predictions":[{"point":1.0},{"point":2.0}],"coverage":0.9}'
    """
    parts = (f'"{name}":{_rows(value) if name == "predictions" else _dump(value)}' for name, value in answer.items())
    return ("{" + ",".join(parts) + "}").encode("utf-8", "backslashreplace")


def _rows(rows: list[Any]) -> str:
    return "[" + ",".join(_dump(row) for row in rows) + "]"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
