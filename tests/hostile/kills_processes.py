"""Commands in processes of their own that are killed at any moment, and what is left of them afterwards."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path

SECONDS_FOR_ORPHANS = 60.0


def run_command(words: Sequence[str], folder: Path, kill_after: float | None = None) -> int | None:
    """Run ``diffor`` with these words in a folder, and kill it after some seconds; its exit code, None if killed.

    The process is a fork of this one, which saves it the imports. Only it is killed, as a system short of memory does:
    what it has started must notice by itself. All it says is added to the file ``said``.
    """
    return run_forked(lambda: _main(words), folder, kill_after)


def run_forked(work: Callable[[], int], folder: Path, kill_after: float | None = None) -> int | None:
    """Do some work in a forked child that leads a session of its own, and kill it after some seconds."""
    child = os.fork()
    if child == 0:
        _be_the_child(work, folder)
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while True:
        found, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if found:
            break
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        else:
            time.sleep(0.001)
    wait_for_session(child)
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _main(words: Sequence[str]) -> int:
    from diffor.cli.main import main

    return main(list(words))


def _be_the_child(work: Callable[[], int], folder: Path) -> None:
    """Does not return."""
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        forkserver._forkserver.__init__()  # the parent's server, if it has one, is no child of this process
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def wait_for_session(session: int) -> None:
    """Wait until all processes of a session have ended, as orphans must by themselves."""
    deadline = time.monotonic() + SECONDS_FOR_ORPHANS
    while members := members_of(session):
        assert time.monotonic() < deadline, f"processes outlive the one that started them: {members}"
        time.sleep(0.01)


def members_of(session: int) -> list[str]:
    """The processes of a session that are not dead, with their names."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = entry.read_text(errors="replace").rsplit(")", 1)
        except OSError:
            continue
        state, _, _, of_session = rest.split()[:4]
        if int(of_session) == session and state not in "ZX":
            found.append(name)
    return found
