"""Programs as ONNX files, with what their users need to know written inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from diffor import circumstances
from diffor.checkpoint import write_atomically
from diffor.conformal import check_coverage
from diffor.export.answer import Estimator, members_of, raw_columns_of, write_grades, write_samples, write_values
from diffor.export.graph import Graph
from diffor.export.images import describe_pixels
from diffor.export.refusal import ExportError
from diffor.grade_estimator import GradeEstimator
from diffor.methods import METHODS

FORMAT = 1
METADATA = "diffor"
"""Name of the entry of an ONNX file's metadata that describes it, as JSON."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def export_model(
    model: Estimator,
    path: str | Path,
    n_samples: int | None = None,
    n_steps: int | None = None,
    quantiles: Sequence[float] = LEVELS,
    coverage: float = 0.9,
) -> dict[str, Any]:
    """Write a fitted model's whole answer as one ONNX program, and return what the file says about itself.

    The program reads raw columns and standard normal noise and needs neither torch nor DiffoR to run;
    :func:`~diffor.export.noise.program_inputs` gives the noise with which it answers as ``predict`` does.
    ``n_samples`` and ``n_steps`` are those of the model unless given.
    """
    check_exportable(model)
    check_effort(model, n_samples, n_steps)
    if find_spec("onnx") is None:
        raise ExportError(
            "exporting needs the package onnx, however: it is not installed; pip install 'diffor[export]'"
        )
    content, facts = as_program(model, n_samples, n_steps, quantiles, coverage)
    write_atomically(Path(path), content)
    return facts


def check_exportable(model: Estimator) -> None:
    """Refuse models that read more than images and columns of a table."""
    check_is_fitted(model, "model_")
    method = METHODS[model.settings_.method]
    if method.requires or method.accepts:
        sides = ", ".join((*method.requires, *method.accepts))
        raise ExportError(
            f"methods must need nothing beside X to be exported, however: {model.settings_.method!r} uses {sides}; "
            "fit another method"
        )


def check_effort(model: Estimator, n_samples: int | None, n_steps: int | None) -> None:
    """Refuse steps where there is no chain, and another effort than that which a guarantee was made for."""
    if n_steps is not None and model.settings_.method != "diffor":
        raise ExportError(
            f"n_steps is for DiffoR's chain, however: method={model.settings_.method!r} has none; leave n_steps out"
        )
    for name, asked in (("n_samples", n_samples), ("n_steps", n_steps)):
        if model.conformal_ is not None and asked not in (None, getattr(model.settings_, name)):
            raise ExportError(
                f"a calibrated model's guarantee needs the {name} that it was calibrated with, however: "
                f"{name}={asked}; leave {name} out, or fit and conformalize a model with it"
            )


def as_program(
    model: Estimator, n_samples: int | None, n_steps: int | None, levels: Sequence[float], coverage: float
) -> tuple[bytes, dict[str, Any]]:
    """The content of the file and what it says about itself."""
    count = model.settings_.n_samples if n_samples is None else n_samples
    if count < 1:
        raise ValueError(f"the number of samples must be at least 1, however: {count}")
    check_coverage(coverage)
    wanted = [float(level) for level in levels]
    if not wanted or not all(0 <= level <= 1 for level in wanted):
        raise ValueError(f"quantile levels must lie in [0, 1], however: {wanted}")
    graph, columns = Graph(), raw_columns_of(model)
    members = members_of(model, count, n_steps)
    unit, point = write_samples(graph, model, members, columns)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "estimator": type(model).__name__,
        "preset": model.preset,
        "columns": columns.to_json(),
        "images": None if model.images_ is None else describe_pixels(model.images_.inputs),
        "noise_width": sum(member.noise_width for member in members),
        "n_samples": count,
        "encoders": model.encoders_,
        "versions": circumstances.versions(["onnx"]),
    }
    if isinstance(model, GradeEstimator):
        write_grades(graph, model, unit, point, count)
        facts |= {"grades": [str(grade) for grade in model.classes_.tolist()], "decision": model.decision}
    else:
        write_values(graph, model, unit, point, count, wanted, coverage)
        bounds = [model.scale_.low, model.scale_.high]
        facts |= {"bounds": bounds, "quantiles": wanted, "coverage": coverage,
                  "is_guaranteed": model.conformal_ is not None}  # fmt: skip
    return graph.to_bytes({METADATA: json.dumps(facts)}), facts
