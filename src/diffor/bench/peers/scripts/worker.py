"""A process that fits and predicts on command: ``python -I worker.py SCRIPT FOLDER``.

SCRIPT is a file beside this one that has ``fit(task) -> predict`` and names its LIBRARY. Commands come one a line on
the standard input: ``fit`` reads FOLDER/task.npz and FOLDER/task.json, ``predict`` reads FOLDER/rows.npy and writes
FOLDER/answer.npy. The reply to each is one line of JSON with the seconds of the work itself, without reading, writing
and importing. Whatever else a library prints goes to the error stream. An error ends the process, with its traceback
on the error stream.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Predict = Callable[[Rows], Rows]


def read_task(folder: Path) -> dict[str, Any]:
    """All that a script is told: the arrays x, y, x_valid, y_valid, and what task.json says beside them."""
    with np.load(folder / "task.npz") as arrays:
        return {**json.loads((folder / "task.json").read_text(encoding="utf-8")), **arrays}


def load_fit(script: Path) -> Callable[[dict[str, Any]], Predict]:
    """The function ``fit`` of a script, read under a name that cannot hide the library of the same name."""
    spec = importlib.util.spec_from_file_location("peer_script", script)
    if spec is None or spec.loader is None:
        raise ValueError(f"the script must be a Python file, but got {script}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module(module.LIBRARY)  # now, so that its time does not count as fitting
    fit: Callable[[dict[str, Any]], Predict] = module.fit
    return fit


def serve(commands: TextIO, replies: TextIO, script: Path, folder: Path) -> None:
    """Answer commands until the other side closes its end."""
    fit = load_fit(script)
    predict: Predict | None = None
    for line in commands:
        given = read_task(folder) if line.strip() == "fit" else np.load(folder / "rows.npy")
        start = time.perf_counter()
        if isinstance(given, dict):
            predict = fit(given)
        elif predict is not None:
            answer = predict(given)
        seconds = time.perf_counter() - start
        if not isinstance(given, dict):
            np.save(folder / "answer.npy", answer)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        replies.write(json.dumps({"seconds": seconds, "peak_bytes": peak}) + "\n")
        replies.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers, Path(sys.argv[1]), Path(sys.argv[2]))
