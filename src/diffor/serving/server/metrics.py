"""Figures about the server in the text form that Prometheus reads. Only the event loop's thread counts here."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

TEXT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """How often something was at most so large, for each limit."""

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = (*limits, math.inf)
        self.counts = [0] * len(self.limits)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.limits, value)] += 1
        self.total += value

    def to_text(self, name: str, about: str) -> list[str]:
        """Lines about it: how many were at most as large as each limit, all of them together, and their number."""
        n, lines = 0, [f"# HELP {name} {about}", f"# TYPE {name} histogram"]
        for limit, count in zip(self.limits, self.counts, strict=True):
            n += count
            lines.append(f'{name}_bucket{{le="{_number(limit)}"}} {n}')
        return [*lines, f"{name}_sum {_number(self.total)}", f"{name}_count {n}"]


class Metrics:
    """What a server counts while it runs."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, ...]] = Counter()
        """By path and status."""
        self.refusals: Counter[str] = Counter()
        """By the kind of the first problem."""
        self.n_rows = 0
        self.seconds, self.batch_rows = Histogram(SECONDS), Histogram(ROWS)

    def to_text(self) -> list[str]:
        """Lines about all that is counted here."""
        return [
            *figure("diffor_requests_total", "Requests by path and status.", self.requests, "path", "status"),
            *figure("diffor_rows_total", "Rows that were answered.", self.n_rows),
            *figure("diffor_refusals_total", "Requests that were refused, by reason.", self.refusals, "reason"),
            *self.seconds.to_text("diffor_request_seconds", "Time from a request's head to its answer, for rows."),
            *self.batch_rows.to_text("diffor_batch_rows", "Rows that were put to the model at once."),
        ]


def figure(
    name: str, about: str, values: float | Mapping[str, float] | Mapping[tuple[str, ...], float], *labels: str
) -> list[str]:
    """Lines about a number, or about one for each value of its ``labels``; names of those that only grow end in total.

    >>> figure("rows_total", "Rows.", {"/predict": 3.0}, "path")
    ['# HELP rows_total Rows.', '# TYPE rows_total counter', 'rows_total{path="/predict"} 3']
    """
    each = values if isinstance(values, Mapping) else {(): values}
    lines = []
    for key, value in each.items():
        named = zip(labels, (key,) if isinstance(key, str) else key, strict=True)
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in named)
        lines.append(f"{name}{{{inner}}} {_number(value)}" if inner else f"{name} {_number(value)}")
    kind = "counter" if name.endswith("_total") else "gauge"
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *lines] if lines else []


def _escaped(value: str) -> str:
    text = value.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
