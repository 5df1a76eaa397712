"""Benchmarks: a grid of data sets, methods and seeds becomes one JSON line per cell.

Each cell runs in a process of its own with one thread. Whatever happens to it, an exception, a crash, a kill or a
timeout, becomes a line that says so, and the others go on. A line is on the disk before the next cell starts, so a run
that is stopped at any time continues where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from diffor.bench.cell import Cell, run_cell
from diffor.bench.peers import find_peer
from diffor.bench.plan import Plan, suite_of
from diffor.core.workers import SECONDS_TO_DIE, cause_of_death, end_group, lead_group, one_thread_each
from diffor.datasets import find_dataset
from diffor.files import provenance
from diffor.files.claims import temporary_folder
from diffor.files.locks import alone

Line = dict[str, Any]
Report = Callable[[Line], object]

KEY = ("dataset", "method", "seed", "settings", "n_samples", "valid_share", "max_train_rows", "max_test_rows",
       "images", "validation", "declared_tuning")  # fmt: skip
"""What must agree for a line to stand for a cell."""
LOG_TAIL = 1500


# Lines.


def read_lines(path: Path) -> tuple[list[Line], int]:
    """The lines of a result file, and how many were damaged, as the last one is where a run was killed writing it."""
    lines, damaged = [], 0
    for text in filter(bytes.strip, path.read_bytes().split(b"\n")):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if isinstance(line, dict) and {"dataset", "method", "seed", "status"} <= line.keys():
            lines.append(line)
        else:
            damaged += 1
    return lines, damaged


def append_line(path: Path, line: Line) -> None:
    """Write a line at the end of the file, on the disk before this returns; a damaged end is closed first.

    Two runs may share a file: their lines do not mix, unless the file is where none can be locked.
    """
    text = json.dumps(line, allow_nan=False, sort_keys=False).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path, None), path.open("ab+") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else b"\n" + text
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def line_key(line: Mapping[str, Any]) -> str:
    """What names the cell of a line, as text."""
    return json.dumps([line.get(name) for name in KEY], sort_keys=True)


def cell_facts(cell: Cell) -> Line:
    """The part of a line that names its cell."""
    facts = {name: value for name, value in asdict(cell).items() if name not in ("trials", "search")}
    facts["images"] = None if cell.images is None else cell.images.facts()
    # Lines from before protocols named the validation rows lack this, and do not stand for such cells.
    facts["validation"] = None if find_dataset(cell.dataset).parts is None else "protocol"
    declared = None if cell.trials is None else {"trials": cell.trials, "search": dict(cell.search)}
    return {**facts, "declared_tuning": declared}


def cells_to_do(cells: Iterable[Cell], lines: Iterable[Line], retry_failed: bool = False) -> list[Cell]:
    """The cells that have no line yet; failed ones count as done unless they are to be retried."""
    done = {line_key(line) for line in lines if line["status"] == "ok" or not retry_failed}
    return [cell for cell in cells if line_key(json.loads(json.dumps(cell_facts(cell)))) not in done]


# The parent.


@dataclass
class Running:
    """A cell at work: its process, the pipe it answers through, and where its output goes."""

    cell: Cell
    process: Any
    answers: Connection
    log: Path
    commit: str | None
    started: float = field(default_factory=time.monotonic)
    answer: Line | None = None


def run_grid(
    plan: Plan,
    cells: Sequence[Cell],
    jobs: int = 1,
    command: str = "",
    on_start: Callable[[Cell], object] = lambda cell: None,
    on_finish: Report = lambda line: None,
    preload: Sequence[str] = (),
) -> None:
    """Run the cells, ``jobs`` at a time; each finished one is handed to ``on_finish`` as its line.

    ``preload`` names modules that all cells need, so that they are imported once and not in each: where methods are
    compared that import different packages, none, since what a process holds in memory is part of what is compared.

    An interrupt, or an error in ``on_finish``, ends the cells at work before it goes on its way.
    """
    waiting, running = list(cells)[::-1], list[Running]()
    with temporary_folder("bench") as folder, one_thread_each():
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, *preload])  # so that it is read once, whatever becomes of the file
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.pop()
                    on_start(cell)
                    running.append(_start(context, cell, plan.root, folder / f"{len(waiting)}.log"))
                for one in _finished(running, plan.timeout_seconds):
                    running.remove(one)
                    on_finish(_line(one, plan, command))
        finally:
            for one in running:
                _end(one)


def _start(context: Any, cell: Cell, root: str | None, log: Path) -> Running:
    answers, channel = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(channel, cell, root, str(log)), daemon=False)
    commit = provenance.commit()
    process.start()
    channel.close()  # else the pipe would never end when the process does
    return Running(cell, process, answers, log, commit)


def _finished(running: Sequence[Running], timeout: float | None) -> list[Running]:
    """Wait until something happens, and say which cells have come to an end, by themselves or by the timeout."""
    now = time.monotonic()
    left = [timeout - (now - one.started) for one in running] if timeout is not None else []
    # The end of the process alone would do, but not for one that cannot end while its answer fills the pipe; the end of
    # the pipe alone would do, but not where a process that it started holds the pipe open.
    signs = [sign for one in running for sign in (one.answers, one.process.sentinel)]
    ready = wait(signs, timeout=max(0.0, min(left)) if left else None)
    ended = []
    for one in running:
        if one.answers in ready or one.process.sentinel in ready:
            with suppress(EOFError, OSError):  # the process died without a word
                if one.answers.poll():
                    one.answer = json.loads(one.answers.recv_bytes())
            one.process.join(SECONDS_TO_DIE)
            ended.append(one)
        elif timeout is not None and time.monotonic() - one.started >= timeout:
            one.answer = {"status": "failed", "error": f"timeout: not finished after {timeout:g} seconds"}
            ended.append(one)
    for one in ended:
        _end(one)
    return ended


def _end(one: Running) -> None:
    """End a cell's process and whatever it has started."""
    end_group(one.process)
    one.answers.close()


def _line(one: Running, plan: Plan, command: str) -> Line:
    dataset, peer = find_dataset(one.cell.dataset), find_peer(one.cell.peer)
    answer = dict(one.answer or {"status": "failed", "error": cause_of_death(one.process.exitcode)})
    if answer["status"] == "failed":
        answer["error"] = without_folders(answer["error"])
        answer.setdefault("where", None)
        # Of a process that could not say what ended it, its last words.
        log = one.log.read_bytes()[-LOG_TAIL:] if answer["where"] is None and one.log.exists() else b""
        answer["log"] = without_folders(log.decode(errors="replace")).strip() if answer["where"] is None else None
    return {
        "dataset": one.cell.dataset,
        "suite": suite_of(one.cell.dataset, plan.suites),
        "task": dataset.task,
        "method": one.cell.method,
        "seed": one.cell.seed,
        "status": answer.pop("status"),
        "error": answer.pop("error"),
        **cell_facts(one.cell),
        "timeout_seconds": plan.timeout_seconds,
        **answer,
        "is_ours": peer.is_ours,
        "wall_seconds": round(time.monotonic() - one.started, 2),
        "versions": provenance.versions([peer.package]),
        "commit": one.commit,
        "machine": provenance.machine(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
    }


def without_folders(text: str) -> str:
    """A text whose absolute paths are reduced to their last part: results travel, folders do not.

    >>> without_folders("/home/me/data/rows.txt does not exist, 1/2 and a/b stay")
    'rows.txt does not exist, 1/2 and a/b stay'
    """
    return re.sub(r"(?<![\w.~:/-])/(?:[^/\s\"']+/)+", "", text)


# The child.


def _work(channel: Connection, cell: Cell, root: str | None, log: str) -> None:
    """Run a cell and send what came of it; runs in a process of its own."""
    lead_group()
    # Temporary files of a method that is killed are removed with those of the run.
    tempfile.tempdir = os.environ["TMPDIR"] = str(Path(log).parent)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):  # of compiled code, too
        os.dup2(handle, stream)
    os.close(handle)
    start_mib = _peak_mib()
    try:
        answer = {"status": "ok", "error": None, **run_cell(cell, root)}
        answer |= {"peak_mib": round(max(answer["peak_mib"], _peak_mib()), 1), "start_mib": start_mib}
        message = json.dumps(answer, allow_nan=False)
    except BaseException as error:  # an exit or a memory error is a failed cell, too
        traceback.print_exception(error)
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
        message = json.dumps({"status": "failed", "error": reason, "where": where, "peak_mib": _peak_mib()})
    channel.send_bytes(message.encode())
    channel.close()


def _peak_mib() -> float:
    """Memory at its highest, of this process or of the largest that it started, whichever is more."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(max(peaks) / unit, 1)
