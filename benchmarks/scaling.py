"""How the cost of a fit grows with the rows of the table: seconds, and memory above the data.

Each fit runs in a process of its own. That process first fits a small table, so that importing libraries counts neither
as time nor as memory, then draws its table from a law with a known truth, and notes the memory that it holds. What
rises above that during the fit is the memory of the fit. Other work on the machine lengthens the seconds of the clock
but hardly those of the processor, so both are given, and the exponent b of seconds ~ rows^b for both.

    python benchmarks/scaling.py                                10,000 to 1,000,000 rows, the preset balanced
    python benchmarks/scaling.py --preset balanced fast         both presets in one file
    python benchmarks/scaling.py --sizes 500 1000 --max-steps 20 --out scaling.json     a smoke check
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Limit, Watch, environment, highest_bytes, resident_bytes

from diffor import DiffoRRegressor
from diffor.core.prediction import Prediction
from diffor.datasets import DATASETS, Samples, generate
from diffor.estimators.settings import PRESETS
from diffor.files import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "scaling.json"
LAW = "synthetic-heteroscedastic"
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
TEST_ROWS, WARM_UP_ROWS = 2_000, 200
TRUTH_SAMPLES = 100
MIB = 2**20
LINEAR = Limit("required", "<=", 1.0)
SHOWN = {"rows": ",.0f", "seconds": ".1f", "cpu_seconds": ".1f", "training_seconds": ".1f", "steps": ".0f",
         "data_mib": ".1f", "loaded_mib": ".1f", "peak_mib": ".1f", "above_mib": ".1f", "crps": ".4f",
         "crps_truth": ".4f"}  # fmt: skip
"""What is printed of each fit, and how."""
WIDTHS = {name: max(len(name), 9) for name in SHOWN}


# --- one fit, in a process of its own ---


def fit_once(preset: str, n_rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit a table of a size, and give what it cost."""
    settings = {"max_steps": arguments.max_steps, "n_jobs": arguments.threads, "verbose": 0}
    small = generate(LAW, WARM_UP_ROWS, arguments.seed)
    warm_up = {**settings, "max_steps": 2, "random_state": 0}
    DiffoRRegressor(preset, **warm_up).fit(small.x, small.y).predict_distribution(small.x)
    model = DiffoRRegressor(preset, **settings, random_state=arguments.seed)
    fresh, table = generate(LAW, TEST_ROWS, arguments.seed + 1), generate(LAW, n_rows, arguments.seed)
    loaded, highest, watch = resident_bytes(), highest_bytes(), Watch()
    started, cpu_started = time.perf_counter(), time.process_time()
    model.fit(table.x, table.y)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    seen, ever = watch.stop(), highest_bytes()
    peak = ever if ever > highest else seen  # the kernel's own record is exact, if this was the highest ever
    return {
        "preset": preset,
        "rows": n_rows,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "training_seconds": model.history_.seconds,
        "steps": model.history_.steps,
        "encoders": list(model.encoders_),
        "data_mib": (table.x.memory_usage(index=False).sum() + table.y.nbytes) / MIB,
        "loaded_mib": loaded / MIB,
        "peak_mib": peak / MIB,
        "above_mib": (peak - loaded) / MIB,
        **accuracy(model, fresh, arguments.seed),
    }


def accuracy(model: DiffoRRegressor, fresh: Samples, seed: int) -> dict[str, float]:
    """CRPS on rows that were not trained on, of the model and of the law that drew them."""
    truth = DATASETS[LAW].truth
    assert truth is not None
    best = Prediction(truth(fresh.x, TRUTH_SAMPLES, seed + 2))
    answer = model.predict_distribution(fresh.x, TRUTH_SAMPLES)
    return {"crps": float(answer.crps(fresh.y).mean()), "crps_truth": float(best.crps(fresh.y).mean())}


def fit_in_process(preset: str, n_rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--one-fit", preset, str(n_rows), "--seed", str(arguments.seed)]
    command += ["--threads", str(arguments.threads)]
    command += [] if arguments.max_steps is None else ["--max-steps", str(arguments.max_steps)]
    load, env = os.getloadavg()[0], environment(arguments.threads)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "load_before": round(load, 2)}


# --- growth over the sizes ---


def growth(fits: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Exponents of seconds ~ rows^b over all sizes and between the last two, and how memory grows with the data."""
    rows, found = np.log([fit["rows"] for fit in fits]), {}
    for name in ("seconds", "cpu_seconds"):
        spent = np.log([fit[name] for fit in fits])
        found[f"exponent_{name}"] = float(np.polyfit(rows, spent, 1)[0])
        found[f"last_exponent_{name}"] = float((spent[-1] - spent[-2]) / (rows[-1] - rows[-2]))
    first, last = fits[0], fits[-1]
    more = (last["above_mib"] - first["above_mib"]) * MIB
    found["more_bytes_per_row"] = more / (last["rows"] - first["rows"])
    return found | {"more_bytes_per_byte_of_data": more / MIB / (last["data_mib"] - first["data_mib"])}


def describe(found: dict[str, float]) -> str:
    """The growth in words, with its verdict."""
    whole, end = found["exponent_seconds"], found["last_exponent_seconds"]
    cpu, cpu_end = found["exponent_cpu_seconds"], found["last_exponent_cpu_seconds"]
    return (
        f"seconds ~ rows^{whole:.2f}, between the last two sizes rows^{end:.2f} ({LINEAR.verdict(max(whole, end))})\n"
        f"processor seconds ~ rows^{cpu:.2f}, between the last two sizes rows^{cpu_end:.2f}\n"
        f"memory above the data grows by {found['more_bytes_per_row']:.0f} bytes a row, "
        f"{found['more_bytes_per_byte_of_data']:.1f} for each byte of data"
    )


# --- the run ---


def table_line(fit: dict[str, Any]) -> str:
    """What is shown of a fit, as a line of the table."""
    return "  ".join(f"{fit[name]:{form}}".rjust(WIDTHS[name]) for name, form in SHOWN.items())


def measure(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Fit every preset and size, printing and writing each as soon as it is known."""
    out: Path = arguments.out
    written: dict[str, Any] = {
        **provenance.origin("python benchmarks/scaling.py", words),
        "law": LAW,
        "threads": arguments.threads,
        "fits": [],
        "growth": {},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    for preset in arguments.preset:
        print(f"\n{preset}\n" + "  ".join(name.rjust(WIDTHS[name]) for name in SHOWN), flush=True)
        fits = []
        for n_rows in sorted(arguments.sizes):
            fits.append(fit_in_process(preset, n_rows, arguments))
            print(table_line(fits[-1]), flush=True)
            written["fits"].append(fits[-1])
            if len(fits) > 1:
                written["growth"][preset] = growth(fits)
            out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        if len(fits) > 1:
            print(describe(written["growth"][preset]))
    print(f"written to {out}")


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="ROWS", help="numbers of rows")
    parser.add_argument("--preset", nargs="+", choices=PRESETS, default=["balanced"], help="default: balanced")
    parser.add_argument("--max-steps", type=int, help="training steps at most (default: as the preset says)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every library (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="JSON file (default: benchmarks/results/scaling.json)"
    )
    parser.add_argument("--one-fit", nargs=2, metavar=("PRESET", "ROWS"), help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    if arguments.one_fit is not None:
        print(json.dumps(fit_once(arguments.one_fit[0], int(arguments.one_fit[1]), arguments)))
    else:
        measure(arguments, words)


if __name__ == "__main__":
    main()
