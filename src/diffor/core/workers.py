"""Worker processes of one thread each, which die with their parent; and what ended one that died early."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import Any

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT",
              "POLARS_MAX_THREADS", "VECLIB_MAXIMUM_THREADS")  # fmt: skip
QUIET_TRACKER = "ignore:resource_tracker:UserWarning"
"""A process that is killed cannot give back its semaphores; Python does so at the end and need not speak of it."""
SECONDS_TO_DIE = 5.0


@contextmanager
def one_thread_each() -> Iterator[None]:
    """What processes that start inside read from their environment before they import anything."""
    warnings = [os.environ.get("PYTHONWARNINGS", ""), QUIET_TRACKER]
    wanted = {**dict.fromkeys(ONE_THREAD, "1"), "PYTHONWARNINGS": ",".join(filter(None, warnings))}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def lead_group() -> None:
    """Called first in a new process: whatever it starts ends with it, and it ends with the process that started it."""
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()


def end_group(process: Any) -> None:
    """End a process that leads a group, and whatever it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join(SECONDS_TO_DIE)
    if process.is_alive():  # it was stopped before it had a group of its own
        process.kill()
        process.join(SECONDS_TO_DIE)


def cause_of_death(code: int | None) -> str:
    """What an exit code says.

    >>> cause_of_death(-9), cause_of_death(3)
    ('killed by signal SIGKILL', 'the process ended with code 3 and no answer')
    """
    if code is not None and code < 0:
        try:
            return f"killed by signal {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"the process ended with code {code} and no answer"
