"""How long an answer takes: the exported program in onnxruntime beside eager torch, on one core.

Every model is of the same generated table (2,000 rows of 8 numbers, a robot arm as in kin8nm) and answers with the
median and a 90 % interval of 64 samples. The networks are hardly trained, as their speed does not depend on their
weights; the guide is fitted in full, because its trees cost what their number costs. Program and torch take turns in
one run (A, B, A, B, ...), so that other work on the machine slows both alike; ratios are taken within each turn.

- One row: from its raw numbers to point and interval. The program's noise is drawn by numpy inside the clock. Torch is
  asked as users ask it, by ``predict_distribution``, which also reads the table.
- Batches: many rows, the program's in blocks of 64. The fraction of GEMM peak counts the chain's matrix products only.

One row is timed by the clock on the wall, which is what users wait, and by that of the processor, which other work on
the machine hardly touches; batches by the latter.

    python benchmarks/latency.py              written to benchmarks/results/latency.json
    python benchmarks/latency.py --quick      a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from sampling import chain_flops, robot_arm
from speed import Bench, Figure, Limit, figure, in_turns
from threadpoolctl import threadpool_limits

from diffor import DiffoRRegressor, circumstances
from diffor.export import export_model, program_inputs

RESULTS = Path(__file__).resolve().parent / "results" / "latency.json"
N_SAMPLES, N_ROWS, BLOCK_ROWS = 64, 2000, 64
ANSWERS = ["point", "interval"]
DEFAULT = Limit("required", "<", 10.0)
"""Milliseconds of one row with the default preset."""
STUDENT = Limit("required", "<", 2.0)
Array = NDArray[np.float64]


@dataclass
class Case:
    """A fitted model, its exported program, and what has to be kept."""

    name: str
    model: Any
    limit: Limit | None = None
    is_chain: bool = True
    seconds: float = field(init=False)
    """What the export took."""
    size: int = field(init=False)
    """Bytes of the file."""

    def __post_init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path, started = Path(folder) / "model.onnx", time.perf_counter()
            export_model(self.model, path, n_samples=N_SAMPLES)
            self.seconds, self.size = time.perf_counter() - started, path.stat().st_size
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.random = np.random.default_rng(0)

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """Answers of the program, a block of rows at a time."""
        n_rows = len(inputs["numbers"])
        return [
            self.session.run(ANSWERS, {name: part[first : first + BLOCK_ROWS] for name, part in inputs.items()})
            for first in range(0, n_rows, BLOCK_ROWS)
        ]

    def ask_program(self, row: Array) -> list[Any]:
        """Point and interval of one row of raw numbers, with noise that is drawn for it."""
        inputs: dict[str, Any] = {"numbers": row}
        noise = next((port for port in self.session.get_inputs() if port.name == "noise"), None)
        if noise is not None:
            inputs["noise"] = self.random.standard_normal((1, noise.shape[1]), dtype=np.float32)
        return list(self.session.run(ANSWERS, inputs))

    def ask_torch(self, x: Any) -> tuple[Array, Array]:
        """The same of any rows by eager torch."""
        prediction = self.model.predict_distribution(x, N_SAMPLES)
        return prediction.statistic(self.model.default_statistic), prediction.interval(0.9)


def make_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """The models: presets, the default one with as many members as it has for many rows and for few."""
    x, y = robot_arm(N_ROWS, arguments.seed)
    for preset, members in (("fast", 1), ("balanced", 2), ("balanced", 4)):
        model = DiffoRRegressor(
            preset, n_members=members, validation_fraction=0.0, max_steps=10, random_state=arguments.seed, verbose=0,
            guide=None if not arguments.quick else False,
        ).fit(x, y)  # fmt: skip
        model.model_.dispersion.fill_(1.2)  # as a calibrated one has it
        name = f"{preset}, {members} member{'s' * (members > 1)}"
        print(f"{name}: {', '.join(model.encoders_)}", file=sys.stderr, flush=True)
        yield Case(name, model, DEFAULT if preset == "balanced" else None)
        if members == 2:
            yield Case("student of balanced, 2 members", model.distill(x, max_steps=10), STUDENT, is_chain=False)


def check(case: Case, x: Any) -> float:
    """The largest difference of program and torch, as a share of the target's range; too large a one ends the run."""
    (answer,) = case.run(program_inputs(case.model, x[:BLOCK_ROWS], N_SAMPLES))
    wanted = case.ask_torch(x[:BLOCK_ROWS])
    width = case.model.scale_.high - case.model.scale_.low
    error = max(float(np.abs(one - other).max()) for one, other in zip(answer, wanted, strict=True)) / width
    if error > 1e-5:
        raise RuntimeError(f"the program of {case.name} must answer as torch does, however: it is {error:.1e} off")
    return error


def one_row(case: Case, x: Any, calls: int) -> list[Figure]:
    """Milliseconds of one row by either clock, and how many times faster the program is."""
    row, raw = x[:1], x[:1].to_numpy()
    actions = [lambda: case.ask_program(raw), lambda: case.ask_torch(row)]
    made, clocks = [], {"": time.perf_counter, ", processor time": time.process_time}
    for word, clock in clocks.items():
        spent = in_turns(actions, calls, warm_up=10, clock=clock) * 1e3
        for name, part, limit in (("onnxruntime", spent[0], case.limit), ("eager torch", spent[1], None)):
            late = float(np.quantile(part, 0.99))
            made.append(figure("one_row", f"{case.name}: {name}, median{word}", "ms", part, limit))
            made.append(figure("one_row", f"{case.name}: {name}, 99th percentile{word}", "ms", late))
        made.append(figure("one_row", f"{case.name}: onnxruntime is faster{word}", "times", spent[1] / spent[0]))
    return made


def batches(case: Case, x: Any, rounds: int, bench: Bench) -> list[Figure]:
    """Rows per second of processor time, how many times faster the program is, and how much of the machine it uses."""
    inputs = program_inputs(case.model, x, N_SAMPLES)
    flops = [
        chain_flops(case.model.model_, N_SAMPLES, reads_features_once) * N_SAMPLES * len(x) if case.is_chain else 0.0
        for reads_features_once in (True, False)
    ]
    gemm, gemm_flops = bench.peak.lasting(flops[0])
    actions = [lambda: case.run(inputs), lambda: case.ask_torch(x), gemm]
    program, eager, yardstick = in_turns(actions, rounds, clock=time.process_time)
    made = [
        figure("batch", f"{case.name}: onnxruntime", "rows/s", len(x) / program),
        figure("batch", f"{case.name}: eager torch", "rows/s", len(x) / eager),
        figure("batch", f"{case.name}: onnxruntime is faster", "times", eager / program, Limit("required", ">", 1.0)),
    ]
    if case.is_chain:
        peak = gemm_flops / yardstick
        made += [
            figure("batch", f"{case.name}: {name}, of GEMM peak", "", done / seconds / peak)
            for name, seconds, done in (("onnxruntime", program, flops[0]), ("eager torch", eager, flops[1]))
        ]
    return made


def measure(case: Case, arguments: argparse.Namespace, bench: Bench) -> list[Figure]:
    """All figures of one model."""
    x, _ = robot_arm(max(arguments.rows, BLOCK_ROWS), arguments.seed + 1)
    note = f"largest difference of program and torch: {check(case, x):.1e} of the target's range"
    return [
        figure("export", f"{case.name}: seconds", "s", case.seconds, note=note),
        figure("export", f"{case.name}: size", "MB", case.size / 1e6),
        *one_row(case, x, arguments.calls),
        *batches(case, x[: arguments.rows], arguments.rounds, bench),
    ]


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, help="of one row (default: 300; quick: 5)")
    parser.add_argument("--rows", type=int, help="of a batch (default: 512; quick: 64)")
    parser.add_argument("--rounds", type=int, help="turns of batches (default: 7; quick: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="no guide, few calls: a smoke check")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results/latency.json)")
    arguments = parser.parse_args(words)
    for name, full, quick in (("calls", 300, 5), ("rows", 512, 64), ("rounds", 7, 1)):
        setattr(arguments, name, getattr(arguments, name) or (quick if arguments.quick else full))
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        where = circumstances.origin("python benchmarks/latency.py", words, ["onnx", "onnxruntime"]) | {"threads": 1}
        print(f"{where['machine']}, one thread, load before {where['load_before']}, commit {where['commit']}")
        bench, figures = Bench(1, arguments.seed, quick=True), []
        for case in make_cases(arguments):
            print(f"\n{case.name}")
            for made in measure(case, arguments, bench):
                figures.append(made)
                print(made.line() + (f"\n      ({made.note})" if made.note else ""), flush=True)
    missed = [made.name for made in figures if made.limit is not None and not made.limit.holds(made.value)]
    if not arguments.quick:  # of few calls nothing is judged
        print("\nNOT met: " + "; ".join(missed) if missed else "\nevery requirement that was measured is met")
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        written = {**where, "samples": N_SAMPLES, "figures": [made.record() for made in figures]}
        out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"written to {out}")


if __name__ == "__main__":
    main()
