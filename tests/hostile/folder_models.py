"""Tiny fitted models of every kind, saved with rows to ask them about and what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.encoders.images.convnets import SmallConvNet
from diffor.estimators.streamed_fit import Stream, fit_stream
from diffor.training.checkpoint import pack, write_atomically

QUICK: dict[str, Any] = {"max_steps": 4, "evaluate_every": 2, "random_state": 0, "verbose": 0}
N_ROWS = 60
PROBES = 6


def make_table(n: int = N_ROWS) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers with gaps, text, ids, days and yes or no, and a target that hangs on them."""
    draw = np.random.default_rng(0)
    size = draw.normal(50, 20, n)
    city = draw.choice(["Oslo", "Rome", "Lima"], n)
    table = pd.DataFrame(
        {
            "size": np.where(draw.random(n) < 0.1, np.nan, size),
            "rooms": draw.integers(1, 6, n),
            "city": np.where(draw.random(n) < 0.1, None, city),
            "user": [f"u{number}" for number in draw.integers(0, 20, n)],
            "built": pd.Timestamp("2001-02-03") + pd.to_timedelta(draw.integers(0, 9000, n), unit="D"),
            "is_new": draw.random(n) < 0.5,
        }
    )
    return table, np.clip(size + 10 * (city == "Rome") + draw.normal(0, 3, n), 0, 120)


def make_models(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Fitted models of every kind by name, each with rows to ask it about."""
    table, y = make_table()
    grades = np.array(["low", "mid", "high"])[np.digitize(y, [40, 60])]
    pictures = np.random.default_rng(0).integers(0, 255, (24, 16, 16, 3), dtype=np.uint8)
    shades = pictures[..., 0].mean(axis=(1, 2))
    known = ["low", "mid", "high"]
    crossed = DiffoRRegressor("fast", prior=["trees", "process"], bounds=(0, 120), **QUICK).fit(table, y)
    crossed.conformalize(table[:30], y[:30])
    weights = folder / "small.safetensors"
    write_atomically(weights, pack(SmallConvNet(2).state_dict(), {}))
    images = {"encoder": "small", "encoder_settings": {"n_channels": 2},
              "image_settings": {"side": 16, "n_workers": 0, "crop": 1.0}}  # fmt: skip
    frozen = images | {"encoder_weights": weights, "freeze_backbone": True}
    chain = {"n_increments": 3, "n_times": 20, "width": 16}
    made = {
        "crossed": crossed,
        "graded": DiffoRClassifier("fast", prior=["trees", "process-ranks", "forest"], grades=known, **QUICK).fit(
            table, grades
        ),
        "distilled": crossed.distill(table, max_steps=3, random_state=0, verbose=0),
        "paper": DiffoRRegressor("paper", method_settings=chain, **QUICK).fit(table, y),
        "one_call": DiffoRRegressor("fast", encoder="piecewise", **QUICK).fit(table, y),
        "cread": OrdinalRegressor("cread", transform="quantile", **QUICK).fit(table, y),
        "tokens": OrdinalRegressor("gr", n_members=2, **QUICK).fit(table, y),
        "corn": OrdinalClassifier("corn", encoder="periodic", **QUICK).fit(table, np.digitize(y, [40, 60])),
    }
    models: dict[str, tuple[Any, Any]] = {name: (model, table[:PROBES]) for name, model in made.items()}
    models["streamed"] = make_streamed(folder)
    models["images"] = DiffoRRegressor("fast", **QUICK, **images).fit(pictures, shades), pictures[:PROBES]
    models["frozen"] = DiffoRRegressor("fast", **QUICK, **frozen).fit(pictures, shades), pictures[:PROBES]
    return models


def make_streamed(folder: Path) -> tuple[Any, Any]:
    """A model of a file with more ids than are listed, so that they share rows of a table, and rows to ask it about."""
    n = 100_002
    users = [f"u{number}" for number in range(n)]
    table = pd.DataFrame({"user": users, "size": np.linspace(0, 1, n), "city": ["Oslo", "Rome"] * (n // 2)})
    (folder / "shards.parquet").unlink(missing_ok=True)
    table.assign(y=table["size"]).to_parquet(folder / "shards.parquet")
    stream = Stream(str(folder / "shards.parquet"), "y", ids=["user"], hash_buckets=64)
    return fit_stream(DiffoRRegressor("fast", **QUICK), stream), table[:PROBES]


def answers_of(model: Any, probes: Any) -> np.ndarray:
    """What a model answers, all of it: points, quantiles or probabilities, and guaranteed intervals."""
    if hasattr(model, "classes_"):
        grades = pd.Index(model.classes_).get_indexer(pd.Index(model.predict(probes)))
        parts = [model.predict_proba(probes), grades]
    else:
        parts = [model.predict(probes), model.predict_quantiles(probes, [0.1, 0.9])]
        if model.conformal_ is not None:
            parts.append(model.predict_interval(probes, 0.8))
    return np.concatenate([np.asarray(part, dtype=float).reshape(len(probes), -1) for part in parts], axis=1)


def save_models(folder: Path) -> list[str]:
    """Save every model with its probes and answers; the names of the folders."""
    names = []
    for name, (model, probes) in make_models(folder).items():
        model.save(folder / name)
        place = folder / f"{name}.probes.{'parquet' if isinstance(probes, pd.DataFrame) else 'npy'}"
        if isinstance(probes, pd.DataFrame):
            probes.to_parquet(place)
        else:
            np.save(place, probes)
        np.save(folder / f"{name}.answers.npy", answers_of(model, probes))
        names.append(name)
    return names
