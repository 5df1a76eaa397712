"""Fit a preset on UCI tables with their given splits and append one JSON line per run.

Example: ``python benchmarks/uci.py --root DATA/uci --preset balanced --splits 0 --out benchmarks/results/uci.jsonl``
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import diffor
from diffor import DATASETS, DiffoRRegressor, load_dataset, metrics
from diffor.datasets.uci import TABLES

N_SAMPLES = 128


def run(name: str, split: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit on the training rows of one split and score on its test rows."""
    samples = load_dataset(name, arguments.root)
    train, test = DATASETS[name].split(arguments.root, split)
    model = DiffoRRegressor(arguments.preset, random_state=arguments.seed, **json.loads(arguments.settings))
    started = time.perf_counter()
    model.fit(samples.x.iloc[train], samples.y[train])
    fitted = time.perf_counter()
    prediction = model.predict_distribution(samples.x.iloc[test], N_SAMPLES)
    finished = time.perf_counter()
    y, interval = samples.y[test], prediction.interval(0.9)
    heads = model.scale_.low + model.predict_increments(samples.x.iloc[test]).sum(axis=1)
    constant = np.full(len(y), np.median(samples.y[train]))
    return {
        "dataset": name,
        "split": split,
        "mae": metrics.mae(y, prediction.median),
        "mae_heads": metrics.mae(y, heads),
        "rmse": metrics.rmse(y, prediction.mean),
        "crps": metrics.crps_samples(y, prediction.samples),
        "coverage_90": metrics.coverage(y, *interval.T),
        "mae_constant_median": metrics.mae(y, constant),
        "fit_seconds": fitted - started,
        "predict_seconds": finished - fitted,
        "steps": model.history_.steps,
        "best_step": model.history_.best_step,
        "encoders": model.encoders_,
        "dispersion": float(model.model_.dispersion),
    }


def circumstances(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a figure depends on beside the data."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "preset": arguments.preset,
        "settings": json.loads(arguments.settings),
        "seed": arguments.seed,
        "command": f"benchmarks/uci.py --preset {arguments.preset} --seed {arguments.seed}",
        "commit": commit,
        "machine": f"{cpu}, {torch.get_num_threads()} threads available, 1 used",
        "versions": {"diffor": diffor.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, help="folder that holds NAME/data of each table")
    parser.add_argument("--names", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--settings", default="{}", help="further arguments of DiffoRRegressor as JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file to append one JSON line per run to")
    arguments = parser.parse_args()
    facts = circumstances(arguments)
    for name in arguments.names:
        for split in arguments.splits:
            result = run(name, split, arguments)
            figures = ", ".join(f"{key} {value:.4g}" for key, value in result.items() if isinstance(value, float))
            print(f"{name} split {split}: {figures}", flush=True)
            if arguments.out is not None:
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                with arguments.out.open("a") as file:
                    file.write(json.dumps(result | facts) + "\n")


if __name__ == "__main__":
    sys.exit(main())
