"""Figures about the server in the text form that Prometheus reads."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

TEXT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Counter:
    """A number that only grows, for each set of labels."""

    def __init__(self) -> None:
        self._values: dict[tuple[tuple[str, str], ...], float] = {}
        self._lock = threading.Lock()

    def add(self, amount: float = 1, **labels: str) -> None:
        """Let it grow."""
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    @property
    def samples(self) -> list[Sample]:
        """Labels and values."""
        with self._lock:
            return [(dict(key), value) for key, value in self._values.items()]


class Histogram:
    """How often something was at most so large, for each limit.

    >>> seconds = Histogram([1, 5])
    >>> seconds.observe(0.5)
    >>> seconds.observe(7)
    >>> [value for _, value in seconds.buckets], seconds.total, seconds.n
    ([1, 1, 2], 7.5, 2)
    """

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = (*limits, math.inf)
        self.total, self.n = 0.0, 0
        self._counts = [0] * len(self.limits)
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        """Count one."""
        with self._lock:
            self._counts[bisect_left(self.limits, value)] += 1
            self.total, self.n = self.total + value, self.n + 1

    @property
    def buckets(self) -> list[Sample]:
        """How many were at most so large, up to the last limit, which is infinite."""
        with self._lock:
            counts, found = 0, []
            for limit, count in zip(self.limits, self._counts, strict=True):
                counts += count
                found.append(({"le": _number(limit)}, float(counts)))
        return [(labels, int(value)) for labels, value in found]


class Metrics:
    """What a server counts while it runs."""

    def __init__(self) -> None:
        self.requests, self.refusals, self.rows = Counter(), Counter(), Counter()
        self.seconds, self.batch_rows = Histogram(SECONDS), Histogram(ROWS)

    def to_text(self) -> list[str]:
        """Lines about all that is counted here."""
        return [
            *counter_lines("diffor_requests_total", "Requests by path and status.", self.requests.samples),
            *counter_lines("diffor_rows_total", "Rows that were answered.", self.rows.samples),
            *counter_lines("diffor_refusals_total", "Requests that were refused, by reason.", self.refusals.samples),
            *histogram_lines("diffor_request_seconds", "Time from a request's head to its answer, for rows.",
                             self.seconds),
            *histogram_lines("diffor_batch_rows", "Rows that were put to the model at once.", self.batch_rows),
        ]  # fmt: skip


def counter_lines(name: str, about: str, samples: Iterable[Sample]) -> list[str]:
    """A number that only grows, as text."""
    return _lines(name, "counter", about, [(name, labels, value) for labels, value in samples])


def gauge_lines(name: str, about: str, samples: Iterable[Sample]) -> list[str]:
    """A number that goes up and down, as text."""
    return _lines(name, "gauge", about, [(name, labels, value) for labels, value in samples])


def histogram_lines(name: str, about: str, histogram: Histogram) -> list[str]:
    """A histogram as text."""
    samples: list[tuple[str, Labels, float]] = [
        (f"{name}_bucket", labels, value) for labels, value in histogram.buckets
    ]
    return _lines(
        name, "histogram", about, [*samples, (f"{name}_sum", {}, histogram.total), (f"{name}_count", {}, histogram.n)]
    )


def _lines(name: str, kind: str, about: str, samples: list[tuple[str, Labels, float]]) -> list[str]:
    told = [f"{full}{_spelled(labels)} {_number(value)}" for full, labels, value in samples]
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *told] if told else []


def _spelled(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    text = value.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
