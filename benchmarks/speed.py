"""Speed and memory of DiffoR on this machine, each figure beside what it is compared with.

What is compared is measured in turns (A, B, A, B, ...) in one run, so that other work on the machine slows both alike;
a ratio is taken within each turn, and its median and quartiles over the turns are reported. Models are fitted for a few
steps only: speed does not depend on the weights.

    python benchmarks/speed.py                          everything, written to benchmarks/results/speed.json
    python benchmarks/speed.py --only memory one_row    some measurements; the file keeps its other figures
    python benchmarks/speed.py --quick                  a smoke check in under a minute, written only with --out
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import operator
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import diffor
from diffor import DiffoRRegressor, circumstances
from diffor.diffusion import IncrementDiffusion
from diffor.diffusion.networks import CACHED_ROWS, ScaleLayer
from diffor.encoders import make_tabular_encoder
from diffor.method import Method, OrdinalEnsemble, OrdinalModel, weighted_mean
from diffor.prediction import Prediction
from diffor.presets import count_members
from diffor.row_noise import row_keys
from diffor.table import as_table
from diffor.train import PREDICT_ROWS, Rows, TrainConfig, TrainingRun, predict_in_chunks

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed.json"
COLUMNS = 20
ENCODERS = ("periodic", "plain")
"""What the members of the default model have in turn."""
LARGE_TABLE, SMALL_TABLE = 8192, 2048
"""Training rows; on a small table more members are fitted."""
GEMM_SIZES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (1024, 256, 256), (8192, 256, 256))
SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

Action = Callable[[], Any]
Array = NDArray[np.float64]


# --- figures ---


@dataclass(frozen=True)
class Limit:
    """What a figure has to keep: one that is ``required``, or a ``goal``."""

    kind: str
    sign: str
    bound: float

    def verdict(self, value: float) -> str:
        """Whether the value keeps the limit, in words."""
        return f"{self.kind} {self.sign} {self.bound:g}: {'met' if self.holds(value) else 'NOT met'}"

    def holds(self, value: float) -> bool:
        """Whether the value keeps the limit."""
        return bool(SIGNS[self.sign](value, self.bound))


@dataclass(frozen=True)
class Figure:
    """One measured number: the median and quartiles of its repetitions."""

    measurement: str
    name: str
    unit: str
    value: float
    quartiles: tuple[float, float]
    count: int
    limit: Limit | None = None
    note: str = ""

    def record(self) -> dict[str, Any]:
        """The figure as JSON values."""
        met = None if self.limit is None else self.limit.holds(self.value)
        return asdict(self) | {"met": met}

    def line(self) -> str:
        """The figure as a row of the printed table."""
        low, high = self.quartiles
        spread = f"{low:.4g} .. {high:.4g}" if self.count > 1 else ""
        verdict = "" if self.limit is None else self.limit.verdict(self.value)
        return f"  {self.name:<58} {self.value:>10.4g} {self.unit:<9} {spread:<20} {verdict}".rstrip()


def figure(
    measurement: str,
    name: str,
    unit: str,
    values: Array | Sequence[float] | float,
    limit: Limit | None = None,
    note: str = "",
) -> Figure:
    """Summarise repetitions of one measurement."""
    repeated = np.atleast_1d(np.asarray(values, dtype=np.float64))
    low, middle, high = (float(part) for part in np.quantile(repeated, [0.25, 0.5, 0.75]))
    return Figure(measurement, name, unit, middle, (low, high), len(repeated), limit, note)


def in_turns(
    actions: Sequence[Action], rounds: int, warm_up: int = 1, clock: Callable[[], float] = time.perf_counter
) -> Array:
    """Seconds of several actions that take turns. **Shape:** -> ``(len(actions), rounds)``."""
    seconds = np.zeros((len(actions), rounds))
    for turn in range(-warm_up, rounds):
        for place, action in enumerate(actions):
            started = clock()
            action()
            if turn >= 0:
                seconds[place, turn] = clock() - started
    return seconds


def repeat(action: Action, times: int) -> Action:
    """An action that runs another several times."""

    def run() -> None:
        for _ in range(times):
            action()

    return run


def count_flops(action: Action) -> int:
    """Floating-point operations of the matrix products that an action runs, two for each multiply and add."""
    with FlopCounterMode(display=False) as counter:
        action()
    return int(counter.get_total_flops())


# --- what is measured ---


class Gemm:
    """A float32 matrix product of one size, the yardstick of the machine."""

    def __init__(self, size: tuple[int, int, int], seed: int) -> None:
        rows, inner, columns = self.size = size
        generator = torch.Generator().manual_seed(seed)
        self.left = torch.randn(rows, inner, generator=generator)
        self.right = torch.randn(inner, columns, generator=generator)
        self.out = torch.empty(rows, columns)
        self.flops = 2 * rows * inner * columns

    def run(self) -> None:
        """Multiply once."""
        torch.mm(self.left, self.right, out=self.out)

    def lasting(self, flops: float) -> tuple[Action, int]:
        """A run of about as many operations, and how many it has."""
        times = max(1, round(flops / self.flops))
        return repeat(self.run, times), times * self.flops

    @property
    def name(self) -> str:
        """The size, rows x inner x columns."""
        return " x ".join(map(str, self.size))


class SquaredError(Method):
    """The comparison: a one-layer head trained with squared error."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean squared error of the head."""
        return {"squared": weighted_mean((self.head(features).squeeze(-1) - y).square(), weights)}

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """The head's value as a point prediction."""
        return Prediction(self.head(features).clamp(0.0, 1.0).numpy())


@dataclass
class Bench:
    """The settings of a run, and the models and the yardstick that its measurements share."""

    threads: int
    seed: int
    quick: bool

    def __post_init__(self) -> None:
        self.estimators: dict[tuple[str, int], DiffoRRegressor] = {}

    def pick(self, full: int, quick: int) -> int:
        """A count that a smoke check makes smaller."""
        return quick if self.quick else full

    def table(self, rows: int) -> Array:
        """Normal numbers. **Shape:** -> ``(rows, COLUMNS)``."""
        return np.random.default_rng(self.seed).standard_normal((rows, COLUMNS))

    def estimator(self, preset: str, rows: int = LARGE_TABLE) -> DiffoRRegressor:
        """A preset's model after a few steps, with the dearer encoder and with calibration at work."""
        if (preset, rows) not in self.estimators:
            X = self.table(rows)
            y = 1 / (1 + np.exp(-X[:, 0] - 0.1 * X[:, 1]))
            model = DiffoRRegressor(
                preset,
                encoder=ENCODERS[0],
                bounds=(0, 1),
                max_steps=10,
                random_state=self.seed,
                verbose=0,
                n_jobs=self.threads,
            ).fit(X, y, X_val=X[:64], y_val=y[:64])
            model.model_.dispersion.fill_(1.2)
            self.estimators[preset, rows] = model
        return self.estimators[preset, rows]

    def rows(self, count: int) -> Rows:
        """Rows as tensors that the balanced model reads."""
        inputs = self.estimator("balanced").inputs_.transform(as_table(self.table(count)))
        y = torch.rand(count, generator=torch.Generator().manual_seed(self.seed))
        return Rows(inputs, y, None, row_keys(inputs, self.seed))

    @cached_property
    def gemm_seconds(self) -> Array:
        """Seconds of one product of each size. **Shape:** ``(len(GEMM_SIZES), rounds)``."""
        return in_turns([Gemm(size, self.seed).run for size in GEMM_SIZES], self.pick(40, 8), warm_up=3)

    @cached_property
    def peak(self) -> Gemm:
        """The product of the size that runs fastest."""
        rates = [
            Gemm(size, self.seed).flops / spent.min() for size, spent in zip(GEMM_SIZES, self.gemm_seconds, strict=True)
        ]
        return Gemm(GEMM_SIZES[int(np.argmax(rates))], self.seed)


# --- the measurements ---


def gemm_peak(bench: Bench) -> list[Figure]:
    """The float32 matrix-product peak of this machine."""
    figures = []
    for size, spent in zip(GEMM_SIZES, bench.gemm_seconds, strict=True):
        gemm = Gemm(size, bench.seed)
        figures.append(figure("gemm_peak", gemm.name, "GFLOP/s", gemm.flops / spent / 1e9))
    best = max(
        Gemm(size, bench.seed).flops / spent.min() for size, spent in zip(GEMM_SIZES, bench.gemm_seconds, strict=True)
    )
    note = "fastest single product; fractions below are of this size's product, run in turns with what is measured"
    return [*figures, figure("gemm_peak", f"peak ({bench.peak.name})", "GFLOP/s", best / 1e9, note=note)]


def training_step(bench: Bench) -> list[Figure]:
    """A step of the balanced model against one of the same encoder with a squared-error head."""
    return [made for batch in (256, 1024) for made in _training_steps(bench, batch)]


def _training_steps(bench: Bench, batch: int) -> list[Figure]:
    settings = bench.estimator("balanced").settings_
    counts = [count_members(settings, rows) for rows in (LARGE_TABLE, SMALL_TABLE)]
    ours = [_training_run(bench, [name], batch, IncrementDiffusion) for name in ENCODERS]
    plain = [_training_run(bench, [name], batch, SquaredError) for name in ENCODERS]
    whole = [_training_run(bench, (ENCODERS * count)[:count], batch, IncrementDiffusion) for count in counts]
    flops = np.array([[count_flops(run.step)] for run in (*ours, *whole)])
    steps = bench.pick(10, 2)  # several in a row, so that each run finds its weights in the cache as in training
    gemm, gemm_flops = bench.peak.lasting(steps * int(flops[0, 0]))
    runs = [repeat(run.step, steps) for run in (*ours, *whole, *plain)]
    seconds = in_turns([*runs, gemm], bench.pick(25, 3)) / steps
    own, all_members, others = seconds[:2], seconds[2:4], seconds[4:6]
    rates = flops / seconds[:4] / 1e9
    shares = rates / (gemm_flops / steps / seconds[-1] / 1e9)
    figures = []
    for place, encoder in enumerate(ENCODERS):
        at = f"batch {batch}, {encoder} member"
        figures += _step_figures(at, own[place], rates[place], shares[place], batch, int(flops[place, 0]))
        figures += _step_ratio(f"{at} / its encoder with the head", own[place], others[place])
    for place, count in enumerate(counts):
        at = f"batch {batch}, all {count} members"
        figures += _step_figures(at, all_members[place], rates[2 + place], shares[2 + place], batch)
        encoders = (ENCODERS * count)[:count]
        same = np.sum([others[ENCODERS.index(name)] for name in encoders], axis=0)
        figures += _step_ratio(f"{at} / {count} encoders with heads", all_members[place], same)
        figures += _step_ratio(f"{at} / one {ENCODERS[0]} with the head", all_members[place], others[0])
    return figures


def _step_figures(at: str, seconds: Array, rates: Array, shares: Array, batch: int, flops: int = 0) -> list[Figure]:
    """How long a step takes, and how much of the machine it uses."""
    goal = Limit("goal", ">", 0.5) if batch == 1024 else None
    note = f"{flops / 1e6:.1f} MFLOP of matrix products per step, forward and backward" if flops else ""
    return [
        figure("training_step", f"{at}: step", "ms", seconds * 1e3),
        figure("training_step", f"{at}: achieved", "GFLOP/s", rates, note=note),
        figure("training_step", f"{at}: of GEMM peak", "", shares, goal),
    ]


def _step_ratio(name: str, seconds: Array, others: Array) -> list[Figure]:
    """How many times longer a step takes than another."""
    note = f"the other step takes {np.median(others) * 1e3:.3f} ms"
    return [figure("training_step", name, "times", seconds / others, Limit("required", "<=", 5), note)]


def _training_run(bench: Bench, encoders: Sequence[str], batch: int, method: type[Method]) -> TrainingRun:
    """A training run of members with these encoders and this method."""
    estimator = bench.estimator("balanced")
    settings, members = estimator.settings_, []
    torch.manual_seed(bench.seed)
    for name in encoders:
        encoder = make_tabular_encoder(
            name, estimator.inputs_, settings.encoder_width, settings.encoder_layers, settings.encoder_dropout
        )
        arguments = settings.for_method() if method is IncrementDiffusion else {}
        members.append(OrdinalModel(encoder, method(encoder.out_features, **arguments)))
    changed = {"batch_size": batch, "max_steps": 4000, "seed": bench.seed, "verbose": 0}
    config = TrainConfig(**(settings.for_training() | changed))
    return TrainingRun(OrdinalEnsemble(members), bench.rows(LARGE_TABLE), None, config, "")


def sampling(bench: Bench) -> list[Figure]:
    """The default chain of the balanced model."""
    model = bench.estimator("balanced").model_
    n_samples = bench.estimator("balanced").settings_.n_samples
    few, many = bench.rows(1024 // n_samples), bench.rows(PREDICT_ROWS // n_samples)
    member = model.members[0]
    return [
        *_sampling(bench, "1024 network rows", few, lambda: member.predict(few.inputs, few.keys, n_samples)),
        *_sampling(bench, f"library's chunk ({PREDICT_ROWS})", many, lambda: predict_in_chunks(model, many, n_samples)),
    ]


def _sampling(bench: Bench, at: str, rows: Rows, sample: Action) -> list[Figure]:
    n_samples = bench.estimator("balanced").settings_.n_samples
    count, flops = len(rows) * n_samples, count_flops(sample)
    gemm, gemm_flops = bench.peak.lasting(flops)
    own, yardstick = in_turns([sample, gemm], bench.pick(40 if count < 2048 else 15, 2))
    rate, peak = flops / own / 1e9, gemm_flops / yardstick / 1e9
    note = f"{len(rows)} rows x {n_samples} samples, {flops / count / 1e6:.2f} MFLOP of matrix products per sample"
    return [
        figure("sampling", f"{at}: samples per second", "1/s", count / own, note=note),
        figure("sampling", f"{at}: achieved", "GFLOP/s", rate),
        figure("sampling", f"{at}: of GEMM peak", "", rate / peak, Limit("goal", ">", 0.5)),
    ]


def attention(bench: Bench) -> list[Figure]:
    """A layer of the transformer, in training and in prediction, against torch's own with the same weights."""
    width, n_rows = 64, bench.pick(16 * CACHED_ROWS, CACHED_ROWS)
    own, standard = ScaleLayer(width, 8, 0.1), _standard_layer(width)
    standard.load_state_dict(own.state_dict())
    learned, asked = torch.randn(128, 8, width, requires_grad=True), torch.randn(n_rows, 8, width)
    steps = [lambda layer=layer: layer.train()(learned).sum().backward() for layer in (own, standard)]

    @torch.no_grad()
    def answer(layer: nn.Module, size: int) -> None:
        layer.eval()
        for rows in asked.split(size):
            layer(rows)

    answers = [
        lambda: answer(own, CACHED_ROWS),
        lambda: answer(standard, CACHED_ROWS),
        lambda: answer(standard, n_rows),
    ]
    quicker = {"a step of 128 rows": in_turns(steps, bench.pick(40, 2), clock=time.process_time)}
    spent = in_turns(answers, bench.pick(10, 2), clock=time.process_time)
    quicker[f"prediction of {n_rows} rows"] = np.stack([spent[0], np.minimum(spent[1], spent[2])])
    note = f"width {width}, 8 tokens, 8 heads; torch's predicts all rows at once or in pieces, whichever is quicker"
    return [
        figure("attention", f"{name}: torch's / ours", "times", seconds[1] / seconds[0], note=note)
        for name, seconds in quicker.items()
    ]


def _standard_layer(width: int) -> nn.Module:
    return nn.TransformerEncoderLayer(width, 8, 4 * width, 0.1, activation="gelu", batch_first=True, norm_first=True)


def predict_10000(bench: Bench) -> list[Figure]:
    """Prediction of 10,000 rows against scikit-learn's perceptron and against all ancestral steps."""
    n, full_rows, repeats = bench.pick(10_000, 256), bench.pick(64, 1), 10
    X, model, full = bench.table(n), bench.estimator("balanced"), _with_all_steps(bench.estimator("balanced"))
    network = _fitted_perceptron(X[:1000])
    actions = [
        lambda: model.predict(X),
        repeat(lambda: network.predict(X), repeats),
        lambda: full.predict(X[:full_rows]),
    ]
    in_turns([lambda: model.predict(X[:256]), actions[1]], 1)  # warm-up on fewer rows: a turn takes long
    own, other, every = in_turns(actions, bench.pick(5, 1), warm_up=0)
    name, n_times = "predict_10000", full.settings_.n_times
    faster = (every / full_rows) / (own / n)
    note = f"all {n_times} ancestral steps (eta = 1) on {full_rows} rows, cost per row compared with that of {n} rows"
    return [
        figure(name, f"{n} rows, balanced", "s", own),
        figure(name, f"{n} rows, MLPRegressor (256, 256)", "s", other / repeats),
        figure(name, "balanced / MLPRegressor", "times", own / other * repeats),
        figure(name, f"faster per row than all {n_times} steps", "times", faster, Limit("required", ">=", 50), note),
    ]


def _with_all_steps(estimator: DiffoRRegressor) -> DiffoRRegressor:
    """A copy whose chain visits every time with fresh noise."""
    full = copy.deepcopy(estimator)
    for method in full.model_.modules():
        if isinstance(method, IncrementDiffusion):
            method.chain_times, method.eta = tuple(range(method.process.n_times, 0, -1)), 1.0
    return full


def _fitted_perceptron(X: Array) -> MLPRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, which speed does not notice
        return MLPRegressor(hidden_layer_sizes=(256, 256), max_iter=2, random_state=0).fit(X, X[:, 0])


def memory(bench: Bench) -> list[Figure]:
    """Memory that predicting a large table takes, in a process of its own."""
    rows = bench.pick(1_000_000, 8192)
    with tempfile.TemporaryDirectory() as folder:
        bench.estimator("fast").save(Path(folder) / "model")
        command = [sys.executable, __file__, "--threads", str(bench.threads), "--seed", str(bench.seed)]
        command += ["--memory-child", f"{folder}/model", str(rows)]
        found = json.loads(_output(bench, command).splitlines()[-1])
    note = f"the input itself is {found['input_gib']:.3f} GiB, and not counted"
    limit = Limit("required", "<", 1)
    return [
        figure("memory", f"{rows} rows, fast: peak above start", "GiB", found["above_gib"], limit, note),
        figure("memory", f"{rows} rows, fast: rows per second", "1/s", rows / found["seconds"]),
    ]


def memory_child(bench: Bench, folder: str, rows: int) -> None:
    """Predict a table, and print how far memory rose above where it stood with table and model in place."""
    model, X = diffor.load(folder), bench.table(rows)
    model.set_params(verbose=0, n_jobs=bench.threads)
    start, highest = resident_bytes(), highest_bytes()
    watch = Watch()
    started = time.perf_counter()
    model.predict(X)
    seconds = time.perf_counter() - started
    seen, ever = watch.stop(), highest_bytes()
    peak = ever if ever > highest else seen  # the kernel's own record is exact, if this was the highest ever
    print(json.dumps({"above_gib": (peak - start) / 2**30, "input_gib": X.nbytes / 2**30, "seconds": seconds}))


class Watch:
    """A thread that notes the most memory this process holds."""

    def __init__(self) -> None:
        self.most = resident_bytes()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        """Look every few milliseconds."""
        while not self.done.wait(0.005):
            self.most = max(self.most, resident_bytes())

    def stop(self) -> int:
        """End the thread and give the most bytes it saw."""
        self.done.set()
        self.thread.join()
        return max(self.most, resident_bytes())


def resident_bytes() -> int:
    """Memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def highest_bytes() -> int:
    """The most memory that this process ever held, as the kernel recorded it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def start_up(bench: Bench) -> list[Figure]:
    """What a user waits for before anything happens, in fresh processes."""
    rounds, name = bench.pick(10, 2), "start_up"
    script = Path(sys.executable).with_name("diffor")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "diffor"]
    (help_seconds,) = in_turns([lambda: _output(bench, [*command, "--help"])], rounds)
    statements = ["import diffor", "from diffor import DiffoRRegressor"]
    lazy, eager = np.array([[_seconds_of(bench, code) for code in statements] for _ in range(rounds)]).T
    after = "to a process that has imported torch, sklearn and pandas"
    return [
        figure(name, "diffor --help", "s", help_seconds, Limit("required", "<", 0.5)),
        figure(name, f"{statements[0]} adds", "s", lazy, Limit("required", "<=", 0.3), after),
        figure(name, f"{statements[1]} adds", "s", eager, note=f"{after}; names are imported on first use"),
    ]


def _seconds_of(bench: Bench, statement: str) -> float:
    """Seconds of a statement in a fresh process; its own clock leaves out how long that process took to start."""
    code = "import time, torch, sklearn, pandas; start = time.perf_counter()"
    code = f"{code}; {statement}; print(time.perf_counter() - start)"
    return float(_output(bench, [sys.executable, "-c", code]))


def _output(bench: Bench, command: list[str]) -> str:
    env = environment(bench.threads)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def one_row(bench: Bench) -> list[Figure]:
    """How long one prediction of a single row takes."""
    X, calls = bench.table(1), bench.pick(200, 30)
    cases = [("fast", LARGE_TABLE), ("balanced", LARGE_TABLE), ("balanced", SMALL_TABLE)]
    models = [bench.estimator(preset, rows) for preset, rows in cases]
    seconds = in_turns([lambda model=model: model.predict(X) for model in models], calls, warm_up=10)
    figures = []
    for (preset, _), model, spent in zip(cases, models, seconds * 1e3, strict=True):
        name = f"{preset}, {len(model.model_.members)} members"
        figures.append(figure("one_row", f"{name}: median of {calls} calls", "ms", spent))
        figures.append(figure("one_row", f"{name}: 99th percentile", "ms", float(np.quantile(spent, 0.99))))
    return figures


MEASUREMENTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "gemm_peak": gemm_peak,
    "training_step": training_step,
    "sampling": sampling,
    "attention": attention,
    "predict_10000": predict_10000,
    "memory": memory,
    "start_up": start_up,
    "one_row": one_row,
}


# --- the run ---


def environment(threads: int) -> dict[str, str]:
    """Variables of a child process, with the number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return os.environ | dict.fromkeys(names, str(threads))


def context(bench: Bench) -> dict[str, Any]:
    """Where a figure comes from: command, seed, code and machine."""
    where = circumstances.origin("python benchmarks/speed.py", sys.argv[1:])
    return where | {"seed": bench.seed, "quick": bench.quick, "threads": bench.threads, "source_sha256": source_hash()}


def source_hash() -> str:
    """A hash of the measured code, which also tells uncommitted changes apart."""
    digest = hashlib.sha256()
    for path in sorted(Path(diffor.__file__).parent.rglob("*.py")):
        digest.update(str(path.name).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def write(path: Path, records: list[dict[str, Any]], chosen: Sequence[str]) -> None:
    """Write the figures; those of measurements that were not run stay in the file as they are."""
    kept = json.loads(path.read_text()) if path.exists() else []
    kept = [record for record in kept if record["measurement"] not in chosen]
    order = list(MEASUREMENTS)
    path.parent.mkdir(parents=True, exist_ok=True)
    everything = sorted([*kept, *records], key=lambda record: order.index(record["measurement"]))
    path.write_text(json.dumps(everything, indent=1) + "\n")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help=f"JSON file (default: {RESULTS.relative_to(ROOT)})")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--threads", type=int, default=1, help="threads of every library (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few repetitions and rows: a smoke check")
    parser.add_argument("--memory-child", nargs=2, metavar=("FOLDER", "ROWS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def run(bench: Bench, chosen: Sequence[str]) -> list[dict[str, Any]]:
    """Measure, printing each figure as soon as it is known."""
    origin = context(bench)
    print(f"{origin['machine']}, {bench.threads} threads, load {origin['load_before']}, commit {origin['commit']}")
    records = []
    for name in chosen:
        started = time.perf_counter()
        figures = MEASUREMENTS[name](bench)
        print(f"\n{name}: {MEASUREMENTS[name].__doc__}  [{time.perf_counter() - started:.0f} s]")
        for made in figures:
            print(made.line() + (f"\n      ({made.note})" if made.note else ""), flush=True)
            records.append(made.record() | origin)
    missed = [f"{record['measurement']}: {record['name']}" for record in records if record["met"] is False]
    print("\nNOT met: " + "; ".join(missed) if missed else "\nevery requirement and goal that was measured is met")
    return records


def main() -> None:
    """Measure what the command line asks for."""
    arguments = parse_arguments()
    bench = Bench(arguments.threads, arguments.seed, arguments.quick)
    torch.set_num_threads(bench.threads)
    with threadpool_limits(bench.threads):
        if arguments.memory_child is not None:
            memory_child(bench, arguments.memory_child[0], int(arguments.memory_child[1]))
            return
        chosen = [name for name in MEASUREMENTS if name in (arguments.only or MEASUREMENTS)]
        records = run(bench, chosen)
    out = arguments.out or (None if bench.quick else RESULTS)
    if out is not None:
        write(out, records, chosen)
        print(f"written to {out}")


if __name__ == "__main__":
    main()
