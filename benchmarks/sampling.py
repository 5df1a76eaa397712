"""How fast DiffoR draws samples, beside Treeffuser and CARD, on one core.

Every method is fitted on the same generated table (2,000 rows of 8 numbers, a robot arm as in kin8nm) and draws 100
samples per row. The methods take turns (A, B, C, A, B, C, ...) in one run, so that other work on the machine slows all
alike; ratios are taken within each turn. A turn predicts as many rows as take a while, which is fewer for slow methods;
what is compared is samples per second. Treeffuser runs in a process of its own, whose own clock leaves out the way of
the data through files. DiffoR and Treeffuser are fitted in full, because trees cost what their number costs; CARD is
trained for a few steps, because the speed of its network does not depend on the weights.

    DIFFOR_PEERS=.venv-peers python benchmarks/sampling.py      written to benchmarks/results/sampling.json
    python benchmarks/sampling.py --methods diffor-fast card    some methods only
    python benchmarks/sampling.py --quick                       a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from speed import Bench, Figure, Gemm, Limit, count_flops, figure
from threadpoolctl import threadpool_limits
from torch import nn

from diffor import circumstances
from diffor.method import OrdinalEnsemble
from diffor.peers import Problem, find_peer
from diffor.peers.foreign import environment_python
from diffor.train import PREDICT_ROWS

RESULTS = Path(__file__).resolve().parent / "results" / "sampling.json"
N_SAMPLES = 100
N_ROWS, N_VALID = 2000, 200
OURS, PEERS = ("diffor-fast", "diffor"), ("card", "treeffuser")
SETTINGS: dict[str, dict[str, Any]] = {"card": {"steps": 50, "guide_steps": 50}}
QUICK_SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"max_steps": 10} for name in OURS},
    "card": {"steps": 5, "guide_steps": 5},
    "treeffuser": {"n_estimators": 20},
}
REQUIRED = {("diffor", "treeffuser"): 20, ("diffor", "card"): 10, ("diffor-fast", "treeffuser"): 100,
            ("diffor-fast", "card"): 50}  # fmt: skip
"""How many times faster than a peer each preset must be."""
ROW_STEP, MIN_ROWS, MAX_ROWS = 20, 80, 40_000
"""Rows come in multiples of what CARD moves together, so that no method is measured on half-filled batches. On 20 rows
Treeffuser is some 5 % slower per sample than on 80; with more rows, or more samples at once, it gains nothing."""
Array = NDArray[np.float64]
Shares = dict[str, float]
PARTS = ("inputs", "guide", "encoder", "chain", "denoiser")


def robot_arm(n_rows: int, seed: int) -> tuple[pd.DataFrame, Array]:
    """Angles of eight joints, and the noisy distance of the arm's end from a point. **Shape:** ``(n, 8)``, ``(n,)``."""
    random = np.random.default_rng(seed)
    angles = random.uniform(-np.pi / 2, np.pi / 2, (n_rows, 8))
    direction = angles.cumsum(axis=1)
    end = np.stack([np.cos(direction).mean(axis=1), np.sin(direction).mean(axis=1)])
    distance = np.hypot(end[0] - 0.1, end[1] - 0.1) + 0.1 * random.standard_normal(n_rows)
    return pd.DataFrame(angles, columns=[f"theta{place}" for place in range(1, 9)]), distance


# --- what takes turns ---


class Turn:
    """A fitted method and the rows it predicts in its turn."""

    def __init__(self, name: str, problem: Problem, settings: dict[str, Any], n_rows: int = ROW_STEP) -> None:
        self.name = name
        self.fitted: Any = find_peer(name).fit(problem, **settings)
        self.seed = problem.seed + 1
        self.x, _ = robot_arm(n_rows, self.seed)
        self.parts: dict[str, float] = {}
        """Seconds of each part of the last prediction, for methods that can be looked into."""

    def run(self) -> float:
        """Predict once; returns the seconds."""
        self.parts.clear()
        started = time.perf_counter()
        samples = self.fitted.predict(self.x).samples
        seconds = time.perf_counter() - started
        if samples.shape != (len(self.x), N_SAMPLES):
            raise RuntimeError(f"{self.name} must draw {N_SAMPLES} samples per row, however: {samples.shape}")
        return float(getattr(self.fitted, "predict_seconds", None) or seconds)

    def choose_rows(self, seconds: float) -> None:
        """Take as many rows as last about this long, and not fewer than there are."""
        while (spent := self.run()) < seconds and len(self.x) < MAX_ROWS:
            wanted = len(self.x) * min(seconds / spent * 1.1, 8.0)
            self.x, _ = robot_arm(int(min(np.ceil(wanted / ROW_STEP) * ROW_STEP, MAX_ROWS)), self.seed)

    @property
    def count(self) -> int:
        """Samples that a turn draws."""
        return len(self.x) * N_SAMPLES

    def watch(self) -> None:
        """Note from now on the seconds of the parts of DiffoR's predictions; other methods have no parts."""
        for part, owner, name in self._functions() if self.name in OURS else ():
            setattr(owner, name, self._clocked(part, getattr(owner, name)))

    def _functions(self) -> Iterator[tuple[str, Any, str]]:
        estimator = self.fitted.estimator
        yield "inputs", estimator.inputs_, "transform"
        if estimator.guide_ is not None:
            yield "guide", estimator.guide_, "transform"
        for member in estimator.model_.members:
            yield "encoder", member.encoder, "forward"
            yield "chain", member.method, "predict"
            yield "denoiser", member.method.denoiser, "forward"

    def _clocked(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            started = time.perf_counter()
            answer = function(*arguments, **keywords)
            self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - started
            return answer

        return run


class Product:
    """A matrix product that takes its turn: the yardstick."""

    def __init__(self, gemm: Gemm, seconds: float) -> None:
        gemm.run()
        started = time.perf_counter()
        gemm.run()
        self.action, self.count = gemm.lasting(gemm.flops * seconds / (time.perf_counter() - started))
        self.name, self.parts = gemm.name, dict[str, float]()

    def run(self) -> float:
        """Multiply for a while; returns the seconds."""
        started = time.perf_counter()
        self.action()
        return time.perf_counter() - started


def chain_flops(model: OrdinalEnsemble, count: int = N_SAMPLES, reads_features_once: bool = False) -> float:
    """Floating-point operations per sample of the S denoiser calls, from the sizes of the layers.

    The layer that reads the features runs once per row and call, or once per row, so the row's samples share its cost;
    what describes the time is shared by all rows.
    """
    total = 0.0
    for member, _, n_samples in model.shares(count):
        method: Any = member.method
        n_calls = len(method.chain_times)
        for name, layer in method.denoiser.named_modules():
            if isinstance(layer, nn.Linear) and name != "from_time":
                of_features = 1 if reads_features_once else n_calls
                calls = of_features if name == "from_features" else n_calls * n_samples
                total += calls * 2 * layer.in_features * layer.out_features
    return total / count


def take_turns(turns: Sequence[Turn | Product], rounds: int) -> tuple[Array, list[list[Shares]]]:
    """Samples (or operations) per second, and shares of the parts. **Shape:** ``(len(turns), rounds)`` each."""
    rates = np.zeros((len(turns), rounds))
    shares: list[list[Shares]] = [[{} for _ in range(rounds)] for _ in turns]
    for place in range(rounds):
        for turn, rate, share in zip(turns, rates, shares, strict=True):
            seconds = turn.run()
            rate[place] = turn.count / seconds
            share[place] = {part: spent / seconds for part, spent in turn.parts.items()}
        print(f"round {place + 1} of {rounds}", file=sys.stderr, flush=True)
    return rates, shares


# --- figures ---


def speed_figures(rates: dict[str, Array], is_judged: bool) -> list[Figure]:
    """Samples per second of each method, and how many times faster ours are; hardly fitted ones are not judged."""
    names = list(rates)
    made = [figure("sampling", f"{name}: samples per second", "1/s", rates[name]) for name in names]
    for own in (name for name in OURS if name in names):
        for other in (name for name in PEERS if name in names):
            limit = Limit("required", ">=", REQUIRED[own, other]) if is_judged else None
            made.append(figure("ratio", f"{own}: faster than {other}", "times", rates[own] / rates[other], limit))
    return made


def machine_figures(turn: Turn, rate: Array, shares: list[Shares], peak: Array) -> list[Figure]:
    """Where DiffoR's time goes, and how much of the machine it uses; operations are those of the layer sizes."""
    model, name = turn.fitted.estimator.model_, turn.name
    flops, counted = chain_flops(model), count_flops(turn.run) / turn.count
    part = {key: np.array([share.get(key, 0.0) for share in shares]) for key in PARTS}
    outside = np.array([1 - sum(share.get(key, 0.0) for key in PARTS[:-1]) for share in shares])
    method = model.members[0].method
    note = f"{len(method.chain_times)} calls of a denoiser of width {method.denoiser.from_features.out_features}"
    made = [
        figure(name, "matrix products of the chain", "FLOP", flops, note=f"per sample, by layer sizes: {note}"),
        figure(name, "matrix products counted in predict", "FLOP", counted, note="per sample, with encoder"),
        figure(name, "limit: samples per second at GEMM peak", "1/s", peak / flops),
        figure(name, "achieved by the chain's products, whole predict", "GFLOP/s", rate * flops / 1e9),
        figure(name, "of GEMM peak, whole predict", "", rate * flops / peak),
    ]
    if part["denoiser"].all():
        made.append(figure(name, "of GEMM peak, denoiser alone", "", rate * flops / peak / part["denoiser"]))
    made += [figure(name, f"share of time: {key}", "", part[key]) for key in PARTS]
    made.append(figure(name, "share of time: outside these", "", outside, note="the chain includes the denoiser"))
    return [*made, figure(name, "share of time: guide and encoder", "", part["guide"] + part["encoder"])]


def facts(turn: Turn) -> dict[str, Any]:
    """What was measured: rows of a turn, and what DiffoR's fit decided."""
    if turn.name not in OURS:
        return {"rows": len(turn.x)}
    return {"rows": len(turn.x), **turn.fitted.facts, "settings": asdict(turn.fitted.estimator.settings_)}


# --- the run ---


def get_ready(arguments: argparse.Namespace) -> list[Turn]:
    """Fit the methods, and choose how many rows each predicts in a turn."""
    x, y = robot_arm(N_ROWS, arguments.seed)
    cut, turns = N_ROWS - N_VALID, []
    problem = Problem(x[:cut], y[:cut], x[cut:], y[cut:], seed=arguments.seed, n_samples=N_SAMPLES, n_threads=1)
    for name in arguments.methods:
        started = time.perf_counter()
        settings, n_rows = (QUICK_SETTINGS, ROW_STEP) if arguments.quick else (SETTINGS, MIN_ROWS)
        turn = Turn(name, problem, settings.get(name, {}), n_rows)
        fitted = time.perf_counter()
        turn.choose_rows(arguments.seconds)
        turn.watch()
        turns.append(turn)
        print(f"{name}: fitted in {fitted - started:.0f} s, {len(turn.x)} rows a turn", file=sys.stderr, flush=True)
    return turns


def measure(turns: Sequence[Turn], arguments: argparse.Namespace) -> list[Figure]:
    """All figures: the methods take turns with matrix products, at peak and at the shape of each preset's layers."""
    ours = [turn for turn in turns if turn.name in OURS]
    length = arguments.seconds / 4
    peak = Product(Bench(1, arguments.seed, quick=True).peak, length)
    widths = [turn.fitted.estimator.settings_.width for turn in ours]
    shapes = [Product(Gemm((PREDICT_ROWS, width, width), arguments.seed), length) for width in widths]
    rates, shares = take_turns([*turns, peak, *shapes], arguments.rounds)
    at_peak = rates[len(turns)]
    by_name = {turn.name: rate for turn, rate in zip(turns, rates, strict=False)}
    made = [figure("gemm", f"peak ({peak.name})", "GFLOP/s", at_peak / 1e9)]
    for turn, product, rate in zip(ours, shapes, rates[len(turns) + 1 :], strict=True):
        made.append(figure("gemm", f"shape of {turn.name} ({product.name})", "GFLOP/s", rate / 1e9))
    made += speed_figures(by_name, is_judged=not arguments.quick)
    for turn, share in zip(turns, shares, strict=False):
        if turn in ours:
            made += machine_figures(turn, by_name[turn.name], share, at_peak)
    return made


def origin(words: Sequence[str], methods: Sequence[str]) -> dict[str, Any]:
    """Where the figures come from: command, code, versions and machine."""
    where = circumstances.origin("python benchmarks/sampling.py", words)
    if "treeffuser" in methods:
        code = "from importlib.metadata import version as v; print(*map(v, ('treeffuser', 'lightgbm')))"
        command = [str(environment_python("treeffuser")), "-c", code]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        where["versions"] |= dict(zip(("treeffuser", "lightgbm"), found, strict=True))
    return where | {"threads": 1}


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = (*OURS, *PEERS)
    parser.add_argument("--methods", nargs="+", choices=known, default=list(known), metavar="NAME", help=str(known))
    parser.add_argument("--rounds", type=int, help="turns of each method (default: 9; quick: 1)")
    parser.add_argument("--seconds", type=float, help="what a turn takes at least (default: 1.5; quick: 0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="hardly fitted models and one turn: a smoke check")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results/sampling.json)")
    arguments = parser.parse_args(words)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 9)
    arguments.seconds = arguments.seconds or (0.1 if arguments.quick else 1.5)
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    words = sys.argv[1:] if words is None else words
    arguments = parse_arguments(words)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        where = origin(words, arguments.methods)  # before, so that a missing environment is told at once
        turns = get_ready(arguments)
        figures = measure(turns, arguments)
    print(f"{where['machine']}, one thread, load before {where['load_before']}, commit {where['commit']}")
    for place, made in enumerate(figures):
        if place == 0 or made.measurement != figures[place - 1].measurement:
            print(f"\n{made.measurement}")
        print(made.line() + (f"\n      ({made.note})" if made.note else ""))
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        records = [made.record() for made in figures]
        written = {**where, "methods": {turn.name: facts(turn) for turn in turns}, "figures": records}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {out}")


if __name__ == "__main__":
    main()
