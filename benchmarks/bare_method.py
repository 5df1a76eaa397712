"""The bare method: one network on a plain encoder, no priors, no folds, against rivals with a head as deep.

Every method has the same encoder, the same training and the same head: two residual blocks of 128 and a direct path
from the features, so that they differ in what the last layer says and in the loss only. The one call is trained at
t = T alone, and in ways that use noise below T or stand for it:

- `all levels`: half of the draws at T, the others at noise levels of a cosine schedule, where the noisy increments and
  Bayes' evidence of them are known;
- `teacher`: the same, and at T the network learns half from the truth, half from what it says at the noise level;
- `self-conditioning`: a second pass is told what the first one said, and answers;
- `noisy features`: normal noise on the features while training.

    python benchmarks/bare_method.py --root DATA     written to benchmarks/results/bare_method.json
    python benchmarks/bare_method.py --quick         a smoke check, written only with --out
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from diffor.bench.cell import Cell, run_cell
from diffor.core.draws import ByteDropout
from diffor.core.method import Method, weighted_mean
from diffor.files import provenance
from diffor.methods import METHODS
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import OneCall, as_prediction, falling

RESULTS = Path(__file__).resolve().parent / "results" / "bare_method.json"
DATASETS = ["concrete", "wine-quality-red", "kin8nm", "power-plant", "vlengagement", "cdnow"]
RIVALS = ["or-cnn", "condor", "corn", "mdn", "cross-entropy", "sord"]
WIDTH, N_LAYERS, DROPOUT = 128, 2, 0.1
FEATURE_NOISE, LARGEST_EVIDENCE = 0.2, 12.0
REFERENCE = "T only"


class BelowT(OneCall):
    """The one call with further inputs: increments, noisy or said before, and the time."""

    variant = REFERENCE

    def set_borders(self, borders: Borders) -> None:
        """Also make the layer that reads increments."""
        super().set_borders(borders)
        self.reads = nn.Linear(2 * len(borders) + 2, self.width)

    def asked(self, features: Tensor, increments: Tensor | None = None, t: Tensor | None = None) -> Tensor:
        """Logits given increments at a time, or nothing. **Shape:** ``(n, d)``, ``(n, S)``, ``(n, 1)``."""
        logits = self.direct(features)
        hidden = self.blocks[0](features)
        if increments is not None:
            time_said = torch.ones_like(features[:, :1]) if t is None else t
            hidden = hidden + self.reads(
                torch.cat([increments, torch.tanh(6 * increments), time_said, 1 - time_said], dim=1)
            )
        for block in list(self.blocks)[1:]:
            hidden = hidden + block(hidden)
        return logits + nn.functional.linear(torch.relu(hidden), self.out.weight)

    def logits(self, features: Tensor) -> Tensor:
        """At t = T; the second of two passes where the method conditions on itself."""
        first = self.asked(features)
        if self.variant != "self-conditioning":
            return first
        return self.asked(features, 2 * torch.sigmoid(first).detach() - 1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy at T, and what a variant adds."""
        filled = self.borders.fill(y)
        if self.variant == "noisy features":
            scale = FEATURE_NOISE * features.detach().std(dim=0, keepdim=True)
            features = features + scale * torch.randn_like(features)
        terms = {"cross_entropy": entropy(self.logits(features), filled, weights)}
        if self.variant == "self-conditioning":
            terms["first"] = entropy(self.asked(features), filled, weights)
        if self.variant in ("all levels", "teacher"):
            t = torch.rand(len(y), 1, device=y.device).clamp(0.02, 0.98)
            signal, spread = torch.cos(math.pi / 2 * t), torch.sin(math.pi / 2 * t)
            clean = 2 * filled - 1
            noisy = signal * clean + spread * torch.randn_like(clean)
            evidence = (2 * signal * noisy / spread.square()).clamp(-LARGEST_EVIDENCE, LARGEST_EVIDENCE)
            below = self.asked(features, noisy, t) + evidence
            terms["below"] = entropy(below, filled, weights)
            if self.variant == "teacher":
                softened = (filled + torch.sigmoid(below).detach()) / 2
                terms["cross_entropy"] = entropy(self.logits(features), softened, weights)
        return terms

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Any:
        """The distribution read at t = T."""
        return as_prediction(self.borders, falling(self.logits(features)))


def entropy(logits: Tensor, filled: Tensor, weights: Tensor | None) -> Tensor:
    """Cross-entropy of increments, on average."""
    errors = nn.functional.binary_cross_entropy_with_logits(logits, filled, reduction="none")
    return weighted_mean(errors.mean(dim=1), weights)


def variant_of(name: str) -> type[Method]:
    """The one call, trained in a way."""
    return type("BelowT", (BelowT,), {"variant": name})


def with_deep_head(base: Any) -> type[Method]:
    """A method whose last layer reads the features and two residual blocks behind them, as the one call does."""

    class Deep(base):  # type: ignore[misc]
        def __init__(self, n_features: int, **settings: Any) -> None:
            super().__init__(n_features + WIDTH, **settings)
            blocks = [
                nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), ByteDropout(DROPOUT),
                              nn.Linear(WIDTH, WIDTH))
                for _ in range(N_LAYERS)
            ]  # fmt: skip
            self.trunk = nn.ModuleList([nn.Linear(n_features, WIDTH), *blocks])

        def deepened(self, features: Tensor) -> Tensor:
            hidden = self.trunk[0](features)
            for block in list(self.trunk)[1:]:
                hidden = hidden + block(hidden)
            return torch.cat([features, torch.relu(hidden)], dim=1)

        def loss(self, features: Tensor, *arguments: Any, **side: Tensor) -> dict[str, Tensor]:
            terms: dict[str, Tensor] = super().loss(self.deepened(features), *arguments, **side)
            return terms

        def predict(self, features: Tensor, *arguments: Any, **side: Tensor) -> Any:
            return super().predict(self.deepened(features), *arguments, **side)

        def calibrate(self, features: Tensor, *arguments: Any, **side: Tensor) -> None:
            super().calibrate(self.deepened(features), *arguments, **side)

    return Deep


def entries() -> dict[str, Callable[[], type[Method]]]:
    """What is compared, by name."""
    variants = (REFERENCE, "all levels", "teacher", "self-conditioning", "noisy features")
    own = {name: (lambda name=name: variant_of(name)) for name in variants}
    deep = {f"{name}, deep": (lambda name=name: with_deep_head(METHODS[name])) for name in RIVALS}
    return {**own, **deep, **{name: (lambda name=name: METHODS[name]) for name in RIVALS}}


def measure(dataset: str, name: str, seed: int, root: str | None, settings: dict[str, Any]) -> dict[str, float]:
    """CRPS, MAE and seconds of one fit on the rows of the development run."""
    METHODS["bare"] = entries()[name]()
    cell = Cell(dataset, name, seed, "method:bare", {"encoder": "plain", **settings}, valid_share=0.1,
                max_train_rows=10_000, max_test_rows=1000)  # fmt: skip
    started = time.process_time()
    try:
        line = run_cell(cell, root)
    finally:
        del METHODS["bare"]
    return {
        "crps": line["metrics"]["crps"], "mae": line["metrics"]["mae"],
        "seconds": round(time.process_time() - started, 2),
    }  # fmt: skip


def against(lines: list[dict[str, Any]], metric: str) -> dict[str, dict[str, float]]:
    """Each entry relative to the reference: mean of logarithms over data sets, its standard error over them."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(line["entry"] for line in lines):
        ratios = []
        for dataset in dict.fromkeys(line["dataset"] for line in lines):
            own = [line for line in lines if line["dataset"] == dataset]
            of = {entry: {line["seed"]: line[metric] for line in own if line["entry"] == entry}
                  for entry in (name, REFERENCE)}  # fmt: skip
            shared = of[name].keys() & of[REFERENCE].keys()
            if shared:
                ratios.append(np.mean([math.log(of[name][seed] / of[REFERENCE][seed]) for seed in shared]))
        error = float(np.std(ratios, ddof=1) / math.sqrt(len(ratios))) if len(ratios) > 1 else math.nan
        found[name] = {"ratio": float(np.exp(np.mean(ratios))), "error": error, "data_sets": len(ratios)}
    return found


def main(argv: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=5, help="splits, from 0 on")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--entries", nargs="+", choices=list(entries()), default=list(entries()))
    parser.add_argument("--quick", action="store_true", help="one small table and a few steps")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    where = provenance.origin("python benchmarks/bare_method.py", sys.argv[1:] if argv is None else argv)
    if options.quick:
        options.datasets, options.seeds = ["diabetes"], 1
    settings = {"max_steps": 20} if options.quick else {}
    torch.set_num_threads(1)
    lines = []
    for dataset in options.datasets:
        for seed in range(options.seeds):
            for name in options.entries:
                found = measure(dataset, name, seed, options.root, settings)
                lines.append({"dataset": dataset, "seed": seed, "entry": name, **found})
                print(f"{dataset} {seed} {name}: CRPS {found['crps']:.5g}, MAE {found['mae']:.5g}", flush=True)
    summary = {metric: against(lines, metric) for metric in ("crps", "mae")}
    for name, figures in summary["crps"].items():
        print(
            f"{name:24} CRPS {figures['ratio']:.4f} +- {figures['error']:.4f}, MAE {summary['mae'][name]['ratio']:.4f}"
        )
    out = options.out or (None if options.quick else RESULTS)
    if out is not None:
        out.write_text(
            json.dumps(where | {"relative_to": REFERENCE, "summary": summary, "lines": lines}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
