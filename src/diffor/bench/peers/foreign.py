"""Methods whose packages cannot live beside ours: each runs as a process in an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from diffor.bench.peers.columns import TrainingColumns
from diffor.bench.peers.problem import Problem, Values, from_grade_probabilities, quantile_levels
from diffor.core.prediction import Prediction

SCRIPTS = Path(__file__).parent / "scripts"
REQUIREMENTS = {
    "treeffuser": ("treeffuser", "numpy<2", "pandas<3"),
    "ngboost": ("ngboost", "pandas<3"),
}
"""What each environment must have installed."""
N_ERROR_LINES = 15


def environments_folder() -> Path:
    """The folder that holds one environment per method: ``DIFFOR_PEERS``, or ``.venv-peers`` in the current folder."""
    return Path(os.environ.get("DIFFOR_PEERS") or ".venv-peers")


def environment_python(name: str) -> Path:
    """The Python of a method's environment, or an error with the commands that make it."""
    folder = environments_folder() / name
    python = folder / "bin" / "python"
    if python.exists():
        return python.absolute()
    wanted = " ".join(f'"{requirement}"' for requirement in REQUIREMENTS.get(name, (name,)))
    raise FileNotFoundError(
        f"{name} runs in an environment of its own, but there is none at {folder}; create it with\n"
        f"  python -m venv {folder}\n"
        f"  {python} -m pip install {wanted}\n"
        "or set DIFFOR_PEERS to the folder that holds it"
    )


class ForeignProcess:
    """A child process that fits and predicts in another environment; data go through files in a folder of its own."""

    def __init__(self, name: str, n_threads: int) -> None:
        python = environment_python(name)
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"diffor-{name}-"))
        self._errors = self.folder / "errors.txt"
        counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                # Isolated (-I): the folder of the scripts must not hide the libraries that they are named after.
                [str(python), "-I", str(SCRIPTS / "worker.py"), str(SCRIPTS / f"{name}.py"), str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **dict.fromkeys(counts, str(n_threads))},
            )
        self._finalizer = weakref.finalize(self, _end, self._process, self.folder)

    def ask(self, command: str) -> dict[str, float]:
        """Send a command and wait for its reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._finalizer.alive:
            raise RuntimeError(f"the process of {self.name} must be running, but it was closed; fit again")
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            reply = self._process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if reply:
            answer: dict[str, float] = json.loads(reply)
            return answer
        status = self._process.wait()
        last = "\n".join(self._errors.read_text(encoding="utf-8", errors="replace").splitlines()[-N_ERROR_LINES:])
        self.close()
        raise RuntimeError(
            f"the process of {self.name} must answer {command!r}, but it ended with status {status}:\n{last}"
        )

    def close(self) -> None:
        """End the process and remove its folder."""
        self._finalizer()


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            with contextlib.suppress(BrokenPipeError):  # the process died with a command unread
                stream.close()
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


class FittedForeign(ForeignProcess):
    """A method fitted in another process, which ends when this object is closed or forgotten.

    ``fit_seconds``, ``predict_seconds`` (of the last call) and ``peak_bytes`` are the process's own measurements, which
    leave out its start and the way of the data through files.
    """

    def __init__(
        self, name: str, problem: Problem, settings: dict[str, Any], read: Callable[[Values], Prediction]
    ) -> None:
        super().__init__(name, problem.n_threads)
        self._columns, self._read = TrainingColumns(problem.x), read
        np.savez(self.folder / "task.npz", x=self._columns.codes(problem.x), y=problem.y,
                 x_valid=self._columns.codes(problem.x_valid), y_valid=problem.y_valid)  # fmt: skip
        n_levels = {place: len(levels) for place, levels in self._columns.levels.items()}
        told = {"n_levels": n_levels, "n_grades": problem.n_grades, "n_samples": problem.n_samples,
                "seed": problem.seed, "n_threads": problem.n_threads, "settings": settings}  # fmt: skip
        (self.folder / "task.json").write_text(json.dumps(told), encoding="utf-8")
        reply = self.ask("fit")
        self.fit_seconds, self.peak_bytes = reply["seconds"], reply["peak_bytes"]
        self.predict_seconds: float | None = None

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target."""
        if self.folder.exists():
            np.save(self.folder / "rows.npy", self._columns.codes(x))
        reply = self.ask("predict")
        self.predict_seconds, self.peak_bytes = reply["seconds"], reply["peak_bytes"]
        return self._read(np.load(self.folder / "answer.npy"))


def fit_treeffuser(problem: Problem, **settings: Any) -> FittedForeign:
    """Treeffuser with its defaults; settings go to it, and ``n_parallel`` and ``n_steps`` to its sampler."""
    return FittedForeign("treeffuser", problem, settings, Prediction)


def fit_ngboost(problem: Problem, **settings: Any) -> FittedForeign:
    """NGBoost with its defaults: a normal distribution for values, a categorical one for grades.

    Settings go to its constructor, and ``patience`` (50 rounds) to early stopping by the validation rows.
    """
    standard = ndtri(quantile_levels(problem.n_samples))

    def normal(parameters: Values) -> Prediction:
        return Prediction(parameters[:, :1] + parameters[:, 1:] * standard)

    def grades(probabilities: Values) -> Prediction:
        return from_grade_probabilities(probabilities, problem.n_samples)

    return FittedForeign("ngboost", problem, settings, normal if problem.n_grades is None else grades)
