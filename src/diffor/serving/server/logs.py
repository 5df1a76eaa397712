"""What the server writes down: a line for each request if wanted, and what went wrong, neither without end."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diffor.serving.server.metrics import Metrics
from diffor.serving.server.refusals import REFUSAL

COUNTED = frozenset(
    {"/", "/docs", "/openapi.json", "/predict", "/trajectory", "/model", "/health", "/ready", "/metrics"}
)
"""Paths that are counted each for itself; strangers can ask for any number of others."""
ASKING = frozenset({"/predict", "/trajectory"})
ROWS = "diffor.rows"
"""Where an answered request's scope has the number of its rows."""
MAX_PATH = 200
LINES_PER_SECOND, LINES_AT_ONCE = 5.0, 50.0
REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 500.0, 2000.0


class Pace:
    """Lets so many things through each second, and somewhat more at once, and counts the others.

    >>> pace = Pace(per_second=1, at_once=2, clock=lambda: 0.0)
    >>> [pace.lets_through() for _ in range(4)], pace.take_skipped()
    ([True, True, False, False], 2)
    """

    def __init__(self, per_second: float, at_once: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.at_once, self.clock = per_second, at_once, clock
        self._left, self._when, self._n_skipped = at_once, clock(), 0

    def lets_through(self) -> bool:
        """Whether there is room for one more; if not, it is counted."""
        now = self.clock()
        self._left = min(self.at_once, self._left + self.per_second * (now - self._when))
        self._when = now
        if self._left < 1:
            self._n_skipped += 1
            return False
        self._left -= 1
        return True

    def take_skipped(self) -> int:
        """How many were left out since it was last asked."""
        n, self._n_skipped = self._n_skipped, 0
        return n


class PacedFilter(logging.Filter):
    """Keeps a log from growing as fast as strangers can make mistakes."""

    def __init__(self, pace: Pace | None = None) -> None:
        super().__init__()
        self.pace = pace or Pace(LINES_PER_SECOND, LINES_AT_ONCE)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; the first after a gap says how many are missing."""
        if not self.pace.lets_through():
            return False
        skipped = self.pace.take_skipped()
        if skipped:
            record.msg, record.args = f"{record.getMessage()} (and {skipped} lines before it that are left out)", ()
        return True


def set_up_logs(stream: TextIO | None = None) -> None:
    """Send what the server has to complain about to the error stream, at a pace that no client can raise."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(PacedFilter())
    for name in ("uvicorn", "uvicorn.error", "asyncio", "diffor.serve"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)


class CountingGate:
    """Counts and times every request, and writes a line of JSON about each if there is somewhere to ``write`` it."""

    def __init__(self, app: ASGIApp, metrics: Metrics, write: Callable[[str], object] | None = None) -> None:
        self.app, self.metrics, self.write = app, metrics, write
        self.pace = Pace(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        except Exception:
            status = status or 500  # which is answered outside of here
            raise
        finally:
            self._count(scope, status, time.perf_counter() - started)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        path, n_rows, reason = scope["path"], scope.get(ROWS, 0), scope.get(REFUSAL)
        self.metrics.requests[path if path in COUNTED else "other", str(status)] += 1
        self.metrics.n_rows += n_rows
        if path in ASKING:
            self.metrics.seconds.observe(seconds)
        if reason is not None:
            self.metrics.refusals[reason] += 1
        if self.write is None or not self.pace.lets_through():
            return
        line = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "client": scope["client"][0] if scope.get("client") else None,
            "method": scope["method"][:20],
            "path": path[:MAX_PATH],
            "status": status,
            "ms": round(1000 * seconds, 2),
            "rows": n_rows,
        }
        beside = {"reason": reason, "skipped": self.pace.take_skipped()}
        self.write(json.dumps(line | {name: value for name, value in beside.items() if value}))
