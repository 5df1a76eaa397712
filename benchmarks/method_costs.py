"""What one training step and one prediction of each method cost, beside those of value regression.

All methods stand on the same encoder (plain, as wide as in the preset ``balanced``), with their default settings, and
learn from the same generated table of values with many zeros and a long tail. A step is the whole update of a batch of
256 rows; a prediction draws 100 samples for each of 256 rows. In every round each method takes its turn right after
value regression; what is counted is the time of the processor, with one thread, so that other work on the machine
matters little. Ratios are taken within the turn, and their medians and quartiles over the rounds are reported. Every
turn goes on training, a few steps in all: only of methods that write token by token does the cost of a prediction
depend a little on what was learned. Methods that draw sample by sample take most of the time: a round of all methods
lasts about a minute.

    python benchmarks/method_costs.py                           all methods, to benchmarks/results/method_costs.json
    python benchmarks/method_costs.py --methods dex cread       some methods only
    python benchmarks/method_costs.py --quick                   a smoke check, written only with --out
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
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from diffor.core.row_noise import row_keys
from diffor.core.table import as_table
from diffor.encoders import TabularInputs
from diffor.estimators.ensemble import make_ensemble
from diffor.estimators.settings import resolve_settings
from diffor.files import provenance
from diffor.methods import METHODS
from diffor.training.loop import Rows, TrainConfig, TrainingRun, predict_in_chunks

RESULTS = Path(__file__).resolve().parent / "results" / "method_costs.json"
YARDSTICK = "value-squared"
N_COLUMNS, N_TRAINING, N_PREDICTED, N_SAMPLES = 20, 4096, 256, 100
ROUNDS, STEPS, ANSWERS = 7, 10, 10
"""Rounds; steps in a row, so that each method finds its weights in the cache as in training; and predictions in a row
of methods that do not run a network for each sample."""
PARTS = ("step", "prediction")
Array = NDArray[np.float64]


def make_rows(count: int, seed: int, inputs: TabularInputs | None = None) -> tuple[TabularInputs, Rows]:
    """Normal columns; targets in [0, 1] that are zero or log-normal; durations that no target exceeds."""
    random = np.random.default_rng(seed)
    table = as_table(random.standard_normal((count, N_COLUMNS)))
    values = np.exp(table.to_numpy()[:, 0] + 0.5 * random.standard_normal(count)) / 40
    y = np.where(random.random(count) < 0.2, 0.0, values).clip(max=1)
    duration = np.maximum(y, random.uniform(0.02, 1.0, count))
    inputs = TabularInputs().fit(table) if inputs is None else inputs
    numbers = inputs.transform(table)
    unit, beside = (torch.from_numpy(column.astype(np.float32)) for column in (y, duration))
    return inputs, Rows(numbers, unit, None, row_keys(numbers, seed), {"duration": beside})


class Costs:
    """A method on the common encoder, and what it does in its turn."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.name = name
        settings = resolve_settings("balanced", {"method": name, "encoder": "plain", "n_members": 1})
        inputs, data = make_rows(N_TRAINING, arguments.seed)
        _, self.rows = make_rows(arguments.rows, arguments.seed + 1, inputs)
        self.model = make_ensemble(["plain"], inputs, settings, arguments.seed, N_TRAINING)
        (member,) = self.model.members
        self.method = member.method
        used = (*METHODS[name].requires, *METHODS[name].accepts)
        if not used:
            data, self.rows = (Rows(part.inputs, part.y, None, part.keys) for part in (data, self.rows))
        self.method.prepare(data.y, **data.side)
        changed = {"max_steps": 10_000, "seed": arguments.seed, "verbose": 0}
        self.run = TrainingRun(self.model, data, None, TrainConfig(**(settings.for_training() | changed)), "")
        self.n_steps, self.n_answers = arguments.steps, 1 if METHODS[name].draws_are_costly else ANSWERS

    def seconds_of_a_step(self) -> float:
        """Time of the processor for one step, from several in a row."""
        started = time.process_time()
        for _ in range(self.n_steps):
            self.run.step()
        return (time.process_time() - started) / self.n_steps

    def seconds_of_an_answer(self) -> float:
        """Time of the processor to predict all rows, from several times where that is quick."""
        self.model.eval()
        started = time.process_time()
        for _ in range(self.n_answers):
            predict_in_chunks(self.model, self.rows, N_SAMPLES)
        return (time.process_time() - started) / self.n_answers

    def warm_up(self) -> None:
        """Learn and predict a little, which is not counted."""
        self.run.step()
        self.model.eval()
        predict_in_chunks(self.model, self.rows.take(slice(0, 32)), N_SAMPLES)


def take_turns(costs: Sequence[Costs], arguments: argparse.Namespace) -> tuple[Array, Array]:
    """Processor seconds of a step and of a prediction of each method, and of value regression right before.

    **Shape:** -> twice ``(methods, parts, rounds)``.
    """
    yardstick = Costs(YARDSTICK, arguments)
    shape = (len(costs), len(PARTS), arguments.rounds)
    own, common = np.zeros(shape), np.zeros(shape)
    for one in (yardstick, *costs):
        one.warm_up()
    for turn in range(arguments.rounds):
        for place, one in enumerate(costs):
            common[place, 0, turn], own[place, 0, turn] = (each.seconds_of_a_step() for each in (yardstick, one))
            common[place, 1, turn], own[place, 1, turn] = (each.seconds_of_an_answer() for each in (yardstick, one))
        print(f"round {turn + 1} of {arguments.rounds} is done", file=sys.stderr, flush=True)
    return own, common


def record(one: Costs, own: Array, common: Array) -> dict[str, Any]:
    """The figures of one method. **Shape:** seconds ``(parts, rounds)``, of the method and of value regression."""
    made: dict[str, Any] = {
        "method": one.name,
        "title": METHODS[one.name].title,
        "parameters": sum(parameter.numel() for parameter in one.method.parameters()),
    }
    for part, seconds, others in zip(PARTS, own, common, strict=True):
        low, middle, high = np.quantile(seconds / others, [0.25, 0.5, 0.75])
        made[part] = {
            "milliseconds": float(np.median(seconds) * 1e3),
            "ratio": float(middle),
            "quartiles": [float(low), float(high)],
        }
    return made


HEAD = f"{'method':<20} {'parameters':>10} {'step, ms':>9} {'times':>7} {'':<15} {'predict, ms':>11} {'times':>7}"


def line(made: dict[str, Any]) -> str:
    """A method's row of the printed table."""
    step, prediction = (made[part] for part in PARTS)
    ranges = [f"({of['quartiles'][0]:.2f} .. {of['quartiles'][1]:.2f})" for of in (step, prediction)]
    return (
        f"{made['method']:<20} {made['parameters']:>10} {step['milliseconds']:>9.2f} {step['ratio']:>7.2f} "
        f"{ranges[0]:<15} {prediction['milliseconds']:>11.1f} {prediction['ratio']:>7.2f} {ranges[1]}"
    )


def as_markdown(made: Sequence[dict[str, Any]]) -> str:
    """The table of a report, from the cheapest step to the dearest."""
    lines = [
        "| method | title | parameters | step, ms | times | prediction, ms | times |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for one in sorted(made, key=lambda one: one["step"]["ratio"]):
        step, prediction = (one[part] for part in PARTS)
        lines.append(
            f"| {one['method']} | {one['title']} | {one['parameters']} | {step['milliseconds']:.2f} "
            f"| {step['ratio']:.2f} | {prediction['milliseconds']:.1f} | {prediction['ratio']:.2f} |"
        )
    return "\n".join(lines)


def origin(words: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Where the figures come from: command, code, versions, machine, and what was measured."""
    return {
        **provenance.origin("python benchmarks/method_costs.py", words),
        "threads": 1,
        "clock": "processor time",
        "yardstick": YARDSTICK,
        "rounds": arguments.rounds,
        "batch_rows": TrainConfig().batch_size,
        "predicted_rows": arguments.rows,
        "samples": N_SAMPLES,
    }


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ", ".join(METHODS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME", help=known)
    parser.add_argument("--rounds", type=int, help=f"turns of each method (default: {ROUNDS}; quick: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few steps, rows and rounds: a smoke check")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results/method_costs.json)")
    arguments = parser.parse_args(words)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else ROUNDS)
    arguments.rows, arguments.steps = (32, 2) if arguments.quick else (N_PREDICTED, STEPS)
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    where = origin(words, arguments)
    with threadpool_limits(1):
        costs = [Costs(name, arguments) for name in arguments.methods]
        own, common = take_turns(costs, arguments)
    made = [record(*parts) for parts in zip(costs, own, common, strict=True)]
    print(f"{where['machine']}, one thread, load before {where['load_before']}, commit {where['commit']}\n")
    if arguments.markdown:
        print(as_markdown(made))
    else:
        print("\n".join([HEAD, *(line(one) for one in sorted(made, key=lambda one: one["step"]["ratio"]))]))
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**where, "methods": made}, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {out}")


if __name__ == "__main__":
    main()
