"""How long a whole distribution takes: DiffoR in torch and exported, its student, LightGBM and CatBoost, on one core.

Every model is of the same generated table (2,000 rows of 8 numbers, a robot arm as in kin8nm) and answers with 19
quantiles of each row, from .05 to .95: DiffoR reads them off its distribution function, LightGBM has a model for each
level, CatBoost one for all. DiffoR and CatBoost are fitted as by default, LightGBM with 300 rounds, because trees cost
what their number costs. All take turns in one run (A, B, C, A, B, C, ...), so that other work on the machine slows all
alike.

- One row: from its raw numbers to its quantiles, by the clock on the wall; a turn is some calls, and its first ones,
  which find the processor's caches full of another's weights, are not counted. Torch, LightGBM and CatBoost are asked
  as users ask them.
- Batches: rows per second of processor time.

    python benchmarks/latency.py              written to benchmarks/results/latency.json
    python benchmarks/latency.py --quick      a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from diffor import DiffoRRegressor
from diffor.export import export_model, program_inputs
from diffor.files import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "latency.json"
N_ROWS, WARM_CALLS = 2000, 3
NAMES = [f"theta{place}" for place in range(1, 9)]
LEVELS = [round(0.05 * place, 2) for place in range(1, 20)]
GOALS = {
    ("student, exported", "ms"): 0.1,
    ("balanced, torch", "ms"): 1.0,
    ("student, exported", "rows/s"): 50_000,
    ("balanced, torch", "rows/s"): 50_000,
}
"""At most so many milliseconds, at least so many rows."""
Array = NDArray[np.float64]
Ask = Callable[[Any], Any]


def robot_arm(n_rows: int, seed: int) -> tuple[pd.DataFrame, Array]:
    """Angles of eight joints, and the noisy distance of the arm's end from a point. **Shape:** ``(n, 8)``, ``(n,)``."""
    random = np.random.default_rng(seed)
    angles = random.uniform(-np.pi / 2, np.pi / 2, (n_rows, 8))
    direction = angles.cumsum(axis=1)
    end = np.stack([np.cos(direction).mean(axis=1), np.sin(direction).mean(axis=1)])
    distance = np.hypot(end[0] - 0.1, end[1] - 0.1) + 0.1 * random.standard_normal(n_rows)
    return pd.DataFrame(angles, columns=NAMES), distance


# --- what takes turns: each is asked with raw numbers, (n, 8), and answers with quantiles, (n, 19) ---


def exported(model: Any) -> tuple[Ask, dict[str, float]]:
    """A model's program, and what exporting it took."""
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder) / "model.onnx", time.perf_counter()
        export_model(model, path, quantiles=LEVELS)
        facts = {"export_seconds": time.perf_counter() - started, "megabytes": path.stat().st_size / 1e6}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(["quantiles"], {"numbers": rows})[0], facts


def of_lightgbm(x: Array, y: Array, rounds: int) -> Ask:
    """A model for each level."""
    import lightgbm  # extra `bench`, as CatBoost is

    settings = {"objective": "quantile", "num_threads": 1, "verbosity": -1, "deterministic": True}
    data = lightgbm.Dataset(x, y)
    models = [lightgbm.train({**settings, "alpha": level}, data, rounds) for level in LEVELS]
    return lambda rows: np.stack([model.predict(rows, num_threads=1) for model in models], axis=1)


def of_catboost(x: Array, y: Array, rounds: int) -> Ask:
    """One model of all levels."""
    import catboost

    loss = f"MultiQuantile:alpha={','.join(map(str, LEVELS))}"
    model = catboost.CatBoostRegressor(
        iterations=rounds, loss_function=loss, thread_count=1, verbose=0, allow_writing_files=False, random_seed=0
    ).fit(x, y)
    return lambda rows: model.predict(rows, thread_count=1)


def check(name: str, model: Any, program: Ask, x: pd.DataFrame) -> float:
    """The largest difference of program and torch, as a share of the range; too large a one ends the run."""
    wanted = model.predict_quantiles(x, LEVELS)
    error = float(np.abs(program(program_inputs(model, x)["numbers"]) - wanted).max())
    error /= model.scale_.high - model.scale_.low
    if error > 1e-3:
        raise RuntimeError(f"the program of {name} must answer as torch does, but it is {error:.1e} off")
    return error


def make_rivals(arguments: argparse.Namespace) -> tuple[dict[str, Ask], dict[str, Any]]:
    """Everything that takes turns, by name, and facts about the programs."""
    x, y = robot_arm(N_ROWS, arguments.seed)
    raw, steps = x.to_numpy(), {"max_steps": 5} if arguments.quick else {}
    settings = {"random_state": arguments.seed, "verbose": 0, "n_jobs": 1}
    teacher = DiffoRRegressor("balanced", **settings, **steps).fit(x, y)
    rivals: dict[str, Ask] = {}
    facts: dict[str, Any] = {}
    for name, model in (("balanced", teacher), ("student", teacher.distill(x, **steps))):
        program, about = exported(model)
        facts[name] = about | {"error": check(name, model, program, robot_arm(256, arguments.seed + 1)[0])}
        rivals[f"{name}, torch"] = lambda rows, own=model: own.predict_quantiles(
            pd.DataFrame(rows, columns=NAMES), LEVELS
        )
        rivals[f"{name}, exported"] = program
        print(f"{name}: {json.dumps(facts[name])}", file=sys.stderr, flush=True)
    rivals["LightGBM, 19 models"] = of_lightgbm(raw, y, 5 if arguments.quick else 300)
    rivals["CatBoost, MultiQuantile"] = of_catboost(raw, y, 5 if arguments.quick else 1000)
    return rivals, facts


# --- figures ---


def one_row(ask: Ask, rows: Array, calls: int) -> list[float]:
    """Milliseconds of each call with one row; the first ones only fill the caches."""
    spent = []
    for place in range(-WARM_CALLS, calls):
        row = rows[[place]]
        started = time.perf_counter()
        ask(row)
        if place >= 0:
            spent.append((time.perf_counter() - started) * 1e3)
    return spent


def batch(ask: Ask, rows: Array) -> float:
    """Rows per second of processor time."""
    started = time.process_time()
    ask(rows)
    return len(rows) / max(time.process_time() - started, 1e-9)


def measure(rivals: dict[str, Ask], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Milliseconds of one row and rows per second of all, as they took turns."""
    rows = robot_arm(max(arguments.rows, arguments.calls), arguments.seed + 2)[0].to_numpy()
    spent: dict[tuple[str, str], list[float]] = {(name, unit): [] for unit in ("ms", "rows/s") for name in rivals}
    for turn in range(-1, arguments.rounds):
        for name, ask in rivals.items():
            found = one_row(ask, rows, arguments.calls), batch(ask, rows[: arguments.rows])
            if turn >= 0:
                spent[name, "ms"] += found[0]
                spent[name, "rows/s"].append(found[1])
    return [figure(name, unit, values) for (name, unit), values in spent.items()]


def figure(name: str, unit: str, values: list[float]) -> dict[str, Any]:
    """Median and quartiles of what was measured, beside the goal."""
    low, middle, high = (float(part) for part in np.quantile(values, [0.25, 0.5, 0.75]))
    goal = GOALS.get((name, unit))
    met = None if goal is None else middle <= goal if unit == "ms" else middle >= goal
    print(
        f"  {name:<26} {middle:>12.4g} {unit:<7} {low:.4g} .. {high:.4g}" + ("" if goal is None else f"  goal {goal:g}")
    )
    made = {"measurement": "one_row" if unit == "ms" else "batch", "name": name, "unit": unit, "value": middle}
    return made | {"quartiles": [low, high], "count": len(values), "goal": goal, "met": met}


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, help="of one row in each turn (default: 50; quick: 3)")
    parser.add_argument("--rows", type=int, help="of a batch (default: 1024; quick: 32)")
    parser.add_argument("--rounds", type=int, help="turns (default: 9; quick: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few steps, rounds and calls: a smoke check")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results/latency.json)")
    arguments = parser.parse_args(words)
    for name, full, quick in (("calls", 50, 3), ("rows", 1024, 32), ("rounds", 9, 1)):
        setattr(arguments, name, getattr(arguments, name) or (quick if arguments.quick else full))
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    packages = ["onnx", "onnxruntime", "lightgbm", "catboost"]
    with threadpool_limits(1):
        where = provenance.origin("python benchmarks/latency.py", words, packages) | {"threads": 1}
        print(f"{where['machine']}, one thread, load before {where['load_before']}, commit {where['commit']}")
        rivals, facts = make_rivals(arguments)
        figures = measure(rivals, arguments)
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        written = {**where, "levels": LEVELS, "programs": facts, "figures": figures}
        out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"written to {out}")


if __name__ == "__main__":
    main()
