"""Parameters of an estimator as JSON values, and the name of a run made of them and its data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from diffor.encoders.images.choice import NETWORK
from diffor.estimators.settings import Settings
from diffor.files.schema import MisfitError
from diffor.training.loop import Rows


def as_json_params(params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Parameters as JSON values: infinity is spelled, a generator is replaced by the seed it gave."""
    plain: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, float) and not np.isfinite(value):
            value = {"float": repr(value)}
        elif isinstance(value, (np.integer, np.floating, np.bool_)):
            value = value.item()
        elif isinstance(value, Path):
            value = str(value)
        elif isinstance(value, (tuple, np.ndarray)):
            value = {"tuple": _as_json_entry(value)}
        elif isinstance(value, dict):
            value = {"dict": as_json_params(value, seed)}
        elif isinstance(value, nn.Module):
            value = NETWORK
        elif name == "random_state" and value is not None and not isinstance(value, int):
            value = seed
        plain[name] = _as_json_entry(value)
    return plain


def _as_json_entry(value: Any) -> Any:
    """A JSON value; of a regressor of the user's, which no folder holds, its name."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return [_as_json_entry(entry) for entry in value]
    return value if isinstance(value, (str, int, float, bool, dict, type(None))) else type(value).__name__


def from_json_params(params: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`as_json_params`.

    >>> from_json_params({"ema": {"float": "inf"}, "bounds": {"tuple": [0, 1]}, "method_settings": {"dict": {"a": 1}}})
    {'ema': inf, 'bounds': (0, 1), 'method_settings': {'a': 1}}
    """
    return {name: _from_json(value, name) for name, value in params.items()}


def _from_json(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (kind, inner), *_ = value.items()
        if kind == "dict" and isinstance(inner, dict):
            return from_json_params(inner)
        if kind == "tuple" and isinstance(inner, list):
            return tuple(inner)
        if kind == "float" and inner in ("inf", "-inf", "nan"):
            return float(inner)
    raise MisfitError(f"{name[:80]} must be spelled as a dict, a tuple or a float, but is an object of {len(value)}")


def name_run(settings: Settings, data: Rows) -> str:
    """Names data and settings, so that a checkpoint is continued by the same run only."""
    digest = hashlib.sha256(json.dumps(as_json_params(vars(settings), 0), sort_keys=True).encode())
    digest.update(data.keys.numpy().tobytes())  # the keys carry the seed
    for part in (*data.inputs, data.y, *(() if data.weights is None else (data.weights,)), *data.side.values()):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()
