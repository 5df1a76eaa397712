"""What a distilled student keeps of its teacher and how much faster it is, and what fewer steps and samples cost.

For each data set of values of the development suites (benchmarks/runs/development.toml, first split, its limits of
rows) the preset ``balanced`` is fitted, and distilled on the rows it was trained on, without their targets. Teacher and
student then answer the test rows with equally many samples (``n_samples`` of the run file), and are asked in turns how
many rows they answer in a second, with as many samples as the preset has. The clock is the processor's time of one
thread, so that other work on the machine matters little; ratios are taken within each turn.

The dial: for some of the data sets, the teacher answers the test rows with every pair of so many steps of its chain and
so many samples. CRPS is that of the samples, which is larger for few of them.

A record is written after each data set; those that are in the file already are not measured again.

    python benchmarks/student.py --root DATA                 written to benchmarks/results/student.json
    python benchmarks/student.py --root DATA --models DIR    teachers are kept in DIR, and found there again
    python benchmarks/student.py --datasets diabetes --dial diabetes --quick    a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from diffor import circumstances
from diffor.cell import Cell, choose_rows
from diffor.checkpoint import write_atomically
from diffor.datasets import DATASETS
from diffor.distillation import MAX_TREES
from diffor.estimator import DiffoRRegressor, load
from diffor.metrics import coverage
from diffor.run_file import read_run_file

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "student.json"
PRESET, SEED, COVERAGE = "balanced", 0, 0.9
DIAL = ("concrete", "wine-quality-red", "kin8nm")
STEPS, SAMPLES = (1, 2, 4, 8, 16), (8, 16, 32, 64, 128)
KEPT, FASTER = 0.03, 20
"""What is required: of the teacher's CRPS at most this share is lost, at so many times its speed."""
TURN_SECONDS, ROUNDS, FIRST_ROWS = 0.3, 5, 64
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A data set's rows: those trained on, the last ones of which are validation rows, and those to be answered."""

    name: str
    x: pd.DataFrame
    y: Array
    n_valid: int
    x_test: pd.DataFrame
    y_test: Array
    bounds: tuple[float, float] | None


def read_task(name: str, arguments: argparse.Namespace) -> Task:
    """The rows of the first split, limited as in the run file of the development suites."""
    plan, dataset = read_run_file(HERE / "runs" / "development.toml"), DATASETS[name]
    samples = dataset.read(arguments.root)
    limits = (200, 50) if arguments.quick else (plan.max_train_rows, plan.max_test_rows)
    cell = Cell(name, "diffor", SEED, "diffor", valid_share=plan.valid_share,
                max_train_rows=limits[0], max_test_rows=limits[1])  # fmt: skip
    parts = choose_rows(dataset, samples, cell, arguments.root)
    known = np.concatenate([parts.train, parts.valid])
    return Task(name, samples.x.iloc[known], samples.y[known], len(parts.valid),
                samples.x.iloc[parts.test], samples.y[parts.test], dataset.bounds)  # fmt: skip


def fit_teacher(task: Task, arguments: argparse.Namespace) -> Any:
    """The fitted teacher, from its folder where it is there."""
    folder = None if arguments.models is None else arguments.models / task.name
    if folder is not None and folder.exists():
        teacher = load(folder)
        teacher.verbose = 0
        return teacher
    limits = {"max_steps": 5, "n_members": 1} if arguments.quick else {}
    teacher = DiffoRRegressor(PRESET, bounds=task.bounds, random_state=SEED, verbose=0, n_jobs=1, **limits)
    cut = len(task.x) - task.n_valid
    teacher.fit(task.x[:cut], task.y[:cut], X_val=task.x[cut:], y_val=task.y[cut:])
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        teacher.save(folder)
    return teacher


# --- quality ---


def quality(model: Any, task: Task, n_samples: int, **effort: Any) -> dict[str, float]:
    """Scores of the answers to the test rows."""
    prediction = model.predict_distribution(task.x_test, n_samples, **effort)
    low, high = prediction.interval(COVERAGE).T
    return {
        "crps": float(prediction.crps(task.y_test).mean()),
        "mae": float(np.abs(prediction.median - task.y_test).mean()),
        "coverage": float(coverage(task.y_test, low, high)),
        "width": float((high - low).mean()),
    }


# --- speed ---


class Turn:
    """Something that answers rows, and the rows it answers in its turn."""

    def __init__(self, answer: Callable[[pd.DataFrame], Any], x: pd.DataFrame, seconds: float) -> None:
        self.answer, self.table = answer, x
        self.rows = self._repeated(FIRST_ROWS)
        self.run()
        while (spent := self.run()) < seconds and len(self.rows) < 8192:
            self.rows = self._repeated(int(len(self.rows) * min(seconds / spent * 1.2, 8.0)) + 1)

    def _repeated(self, count: int) -> pd.DataFrame:
        return self.table.iloc[np.resize(np.arange(len(self.table)), count)]

    def run(self) -> float:
        """Answer once; returns the processor's seconds."""
        started = time.process_time()
        self.answer(self.rows)
        return time.process_time() - started

    def rate(self) -> float:
        """Rows answered in a second."""
        return len(self.rows) / self.run()


def take_turns(turns: Sequence[Turn], rounds: int) -> Array:
    """Rows per second. **Shape:** -> ``(rounds, turns)``."""
    return np.array([[turn.rate() for turn in turns] for _ in range(rounds)])


def lone_row_milliseconds(model: Any, x: pd.DataFrame, count: int) -> float:
    """Median of the processor's time for point and interval of one row, the guide and all."""
    spent = []
    for place in range(count):
        row = x.iloc[[place % len(x)]]
        started = time.process_time()
        model.predict_distribution(row).interval(COVERAGE)
        spent.append(time.process_time() - started)
    return 1e3 * float(np.median(spent))


def speed(teacher: Any, student: Any, task: Task, arguments: argparse.Namespace) -> dict[str, Any]:
    """Rows per second of both with the teacher's number of samples, taken in turns, and one row alone."""
    turns = [
        Turn(lambda rows, model=model: model.predict_distribution(rows, teacher.settings_.n_samples),
             task.x_test, arguments.seconds)
        for model in (teacher, student)
    ]  # fmt: skip
    rates = take_turns(turns, arguments.rounds)
    ratios = rates[:, 1] / rates[:, 0]
    return {
        "n_samples": teacher.settings_.n_samples,
        "teacher_rows_per_second": float(np.median(rates[:, 0])),
        "student_rows_per_second": float(np.median(rates[:, 1])),
        "times_faster": float(np.median(ratios)),
        "times_faster_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        "teacher_one_row_ms": lone_row_milliseconds(teacher, task.x_test, 2 if arguments.quick else 9),
        "student_one_row_ms": lone_row_milliseconds(student, task.x_test, 3 if arguments.quick else 49),
    }


# --- records ---


def compare(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The record of a data set: what the student keeps, and how fast it is."""
    task, n_samples = read_task(name, arguments), 10 if arguments.quick else 100
    teacher = fit_teacher(task, arguments)
    started = time.process_time()
    limits = {"max_steps": 3} if arguments.quick else {}
    student = teacher.distill(task.x, random_state=SEED, max_trees=arguments.max_trees, **limits)
    seconds = time.process_time() - started
    scores = {who: quality(model, task, n_samples) for who, model in (("teacher", teacher), ("student", student))}
    lost = scores["student"]["crps"] / scores["teacher"]["crps"] - 1
    return {
        "dataset": name,
        "n_known": len(task.x),
        "n_test": len(task.x_test),
        "n_columns": task.x.shape[1],
        "encoders": teacher.encoders_,
        "max_trees": arguments.max_trees,
        "trees": [0 if model.guide_ is None else sum(len(fold.place.roots) + len(fold.spread.roots)
                  for fold in model.guide_.folds) for model in (teacher, student)],
        "distill_seconds": round(seconds, 2),
        "n_samples_scored": n_samples,
        **scores,
        "lost": lost,
        **speed(teacher, student, task, arguments),
    }  # fmt: skip


def turn_dial(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The record of a data set's dial: quality and speed of each pair of steps and samples, beside the preset's."""
    task = read_task(name, arguments)
    teacher = fit_teacher(task, arguments)
    cells, usual = [], teacher.settings_.n_samples
    default = Turn(lambda rows: teacher.predict_distribution(rows), task.x_test, arguments.seconds)
    for n_steps in STEPS[:2] if arguments.quick else STEPS:
        for n_samples in SAMPLES[:2] if arguments.quick else SAMPLES:
            effort = {"n_samples": n_samples, "n_steps": n_steps}
            turn = Turn(lambda rows, e=effort: teacher.predict_distribution(rows, **e), task.x_test, arguments.seconds)
            rates = take_turns([default, turn], 1 if arguments.quick else 3)
            cells.append({
                **effort,
                **quality(teacher, task, **effort),
                "rows_per_second": float(np.median(rates[:, 1])),
                "times_faster": float(np.median(rates[:, 1] / rates[:, 0])),
            })  # fmt: skip
    return {"dataset": name, "default": {"n_samples": usual, **quality(teacher, task, usual)}, "cells": cells}


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over all data sets: medians, extremes, and on how many what is required is met."""
    lost, faster = (np.array([record[name] for record in records]) for name in ("lost", "times_faster"))
    return {
        "datasets": len(records),
        "lost_mean": float(lost.mean()),
        "lost_median": float(np.median(lost)),
        "lost_worst": float(lost.max()),
        "lost_at_most_3_percent": int((lost <= KEPT).sum()),
        "times_faster_median": float(np.median(faster)),
        "times_faster_least": float(faster.min()),
        "times_faster_at_least_20": int((faster >= FASTER).sum()),
    }


def describe(record: dict[str, Any]) -> str:
    """A data set's record in a line."""
    teacher, student = record["teacher"], record["student"]
    return (
        f"{record['dataset']}: CRPS {teacher['crps']:.4g} -> {student['crps']:.4g} ({100 * record['lost']:+.1f} %), "
        f"coverage {teacher['coverage']:.3f} -> {student['coverage']:.3f}, {record['times_faster']:.1f} times faster, "
        f"one row {record['teacher_one_row_ms']:.1f} -> {record['student_one_row_ms']:.2f} ms"
    )


# --- the run ---


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    plan = read_run_file(HERE / "runs" / "development.toml")
    known = [name for name in plan.datasets if DATASETS[name].n_grades is None]
    parser.add_argument("--datasets", nargs="*", choices=known, default=known, metavar="NAME")
    parser.add_argument("--dial", nargs="*", choices=known, default=list(DIAL), metavar="NAME")
    parser.add_argument("--root", help="folder of the data sets that are read from files")
    parser.add_argument("--models", type=Path, help="folder in which teachers are kept")
    parser.add_argument("--max-trees", type=int, default=MAX_TREES, help="of the guide (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="hardly fitted models: a smoke check")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results/student.json)")
    arguments = parser.parse_args(words)
    arguments.seconds, arguments.rounds = (0.01, 1) if arguments.quick else (TURN_SECONDS, ROUNDS)
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    out = arguments.out or (None if arguments.quick else RESULTS)
    written: dict[str, Any] = {"students": [], "dial": []}
    if out is not None and out.exists():
        written |= json.loads(out.read_text(encoding="utf-8"))
    written |= circumstances.origin("python benchmarks/student.py", words) | {"threads": 1, "seed": SEED}
    with threadpool_limits(1):
        for kind, names, measure in (
            ("students", arguments.datasets, compare),
            ("dial", arguments.dial, turn_dial),
        ):
            done = {record["dataset"] for record in written[kind]}
            for name in (name for name in names if name not in done):
                record = {**measure(name, arguments), "commit": circumstances.commit()}
                written[kind].append(record)
                print(describe(record) if kind == "students" else f"{name}: dial turned", flush=True)
                if written["students"]:
                    written["summary"] = summary(written["students"])
                if out is not None:
                    out.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(out, (json.dumps(written, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
