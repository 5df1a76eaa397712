"""What a student costs and gains: CRPS on test rows and rows per second, beside its teacher, the default preset.

Rows and splits are those of the development run. Teacher and student answer the same test rows in turns of one run, on
one thread; each one's rate is the median of the turns.

    python benchmarks/distill.py --root DATA     written to benchmarks/results/distill.json
    python benchmarks/distill.py --quick         a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits

from diffor import DiffoRRegressor
from diffor.bench.cell import Cell, choose_rows
from diffor.datasets import find_dataset
from diffor.files import provenance
from diffor.metrics import coverage

RESULTS = Path(__file__).resolve().parent / "results" / "distill.json"
DATASETS = [
    "diabetes",
    "house-prices",
    "concrete",
    "wine-quality-red",
    "vlengagement",
    "kin8nm",
    "power-plant",
    "movies",
]
GOALS = {"loss": 0.01, "ratio": 4.0}
"""At most so much of the CRPS lost, at least so many times as quick."""
BATCH, N_TURNS = 2000, 5


def measure(name: str, seed: int, root: str | None, steps: int | None) -> dict[str, Any]:
    """One teacher and its student on one split."""
    dataset = find_dataset(name)
    samples = dataset.read(root)
    cell = Cell(name, "distill", seed, "diffor", valid_share=0.1, max_train_rows=10_000, max_test_rows=1000)
    parts = choose_rows(dataset, samples, cell, root)
    train = np.concatenate([parts.train, parts.valid])
    x, y = samples.x.iloc[train], samples.y[train]
    x_test, y_test = samples.x.iloc[parts.test], samples.y[parts.test]
    steps_of = {} if steps is None else {"max_steps": steps}
    teacher = DiffoRRegressor(bounds=dataset.bounds, random_state=seed, verbose=0, **steps_of).fit(x, y)
    started = time.process_time()
    student = teacher.distill(x, **steps_of)
    found: dict[str, Any] = {"dataset": name, "seed": seed, "rows": len(train)}
    found["distill_seconds"] = round(time.process_time() - started, 2)
    for label, model in (("teacher", teacher), ("student", student)):
        prediction = model.predict_distribution(x_test)
        low, high = prediction.interval(0.9).T
        found[label] = {
            "crps": float(prediction.crps(y_test).mean()),
            "coverage_90": coverage(y_test, low, high),
        }
    batch = pd.concat([x_test] * -(-BATCH // len(x_test))).head(BATCH)
    seconds = {"teacher": [], "student": []}
    for _ in range(N_TURNS):
        for label, model in (("teacher", teacher), ("student", student)):
            started = time.process_time()
            model.predict_quantiles(batch)
            seconds[label].append(time.process_time() - started)
    for label, taken in seconds.items():
        found[label]["rows_per_second"] = round(BATCH / float(np.median(taken)))
    found["loss"] = found["student"]["crps"] / found["teacher"]["crps"] - 1
    found["ratio"] = float(np.median(np.array(seconds["teacher"]) / np.array(seconds["student"])))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", type=int, default=1, help="splits, from 0 on")
    parser.add_argument("--quick", action="store_true", help="one small table and a few steps")
    parser.add_argument("--out", type=Path)
    words = list(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(words)
    if options.quick:
        options.datasets, options.seeds = ["diabetes"], 1
    where = provenance.origin("python benchmarks/distill.py", words)
    torch.set_num_threads(1)
    lines = []
    with threadpool_limits(1):
        for name in options.datasets:
            for seed in range(options.seeds):
                found = measure(name, seed, options.root, 20 if options.quick else None)
                lines.append(found)
                print(f"{name} {seed}: CRPS {found['loss']:+.2%}, {found['ratio']:.1f} times as quick, "
                      f"{found['student']['rows_per_second']:,} rows/s", flush=True)  # fmt: skip
    kept = [line for line in lines if line["loss"] <= GOALS["loss"] and line["ratio"] >= GOALS["ratio"]]
    print(f"both goals kept on {len(kept)} of {len(lines)}")
    out = options.out or (None if options.quick else RESULTS)
    if out is not None:
        out.write_text(json.dumps(where | {"goals": GOALS, "lines": lines}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
