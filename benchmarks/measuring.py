"""What scripts that measure share: limits, memory, and the environment of child processes."""

from __future__ import annotations

import operator
import os
import resource
import threading
from dataclasses import dataclass
from pathlib import Path

SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Limit:
    """What a figure has to keep: one that is ``required``, or a ``goal``."""

    kind: str
    sign: str
    bound: float

    def verdict(self, value: float) -> str:
        """Whether the value keeps the limit, in words."""
        return f"{self.kind} {self.sign} {self.bound:g}: {'met' if self.holds(value) else 'NOT met'}"

    def holds(self, value: float) -> bool:
        """Whether the value keeps the limit."""
        return bool(SIGNS[self.sign](value, self.bound))


class Watch:
    """A thread that notes the most memory this process holds."""

    def __init__(self) -> None:
        self.most = resident_bytes()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        """Look every few milliseconds."""
        while not self.done.wait(0.005):
            self.most = max(self.most, resident_bytes())

    def stop(self) -> int:
        """End the thread and give the most bytes it saw."""
        self.done.set()
        self.thread.join()
        return max(self.most, resident_bytes())


def resident_bytes() -> int:
    """Memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def highest_bytes() -> int:
    """The most memory that this process ever held, as the kernel recorded it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def environment(threads: int) -> dict[str, str]:
    """Variables of a child process, with the number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return os.environ | dict.fromkeys(names, str(threads))
