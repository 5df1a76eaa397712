"""Programs as ONNX files, with what their users need to know written inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from diffor.errors import UserError
from diffor.estimators.conformal import check_coverage
from diffor.estimators.grades import GradeEstimator
from diffor.export.answer import Estimator, borders_of, raw_columns_of, write_grades
from diffor.export.graph import Graph
from diffor.export.images import describe_pixels
from diffor.export.refusal import ExportError
from diffor.export.values import write_values
from diffor.files import provenance
from diffor.files.atomic import write_atomically

FORMAT = 2
METADATA = "diffor"
"""Name of the entry of an ONNX file's metadata that describes it, as JSON."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def export_model(
    model: Estimator, path: str | Path, quantiles: Sequence[float] = LEVELS, coverage: float = 0.9
) -> dict[str, Any]:
    """Write a fitted model's whole answer as one ONNX program, and return what the file says about itself.

    The program reads raw columns, answers as ``predict`` does, and needs neither torch nor DiffoR to run;
    :func:`~diffor.export.program_inputs` puts the columns of a table as it reads them.
    """
    check_is_fitted(model, "model_")
    borders_of(model)  # refuses what cannot be exported before anything else
    if find_spec("onnx") is None:
        raise ExportError("exporting needs the package onnx, but it is not installed; pip install 'diffor[export]'")
    content, facts = as_program(model, quantiles, coverage)
    write_atomically(Path(path), content)
    return facts


def as_program(model: Estimator, levels: Sequence[float], coverage: float) -> tuple[bytes, dict[str, Any]]:
    """The content of the file and what it says about itself."""
    check_coverage(coverage)
    wanted = [float(level) for level in levels]
    if not wanted or not all(0 <= level <= 1 for level in wanted):
        raise UserError(f"quantile levels must lie in [0, 1], but got {wanted}")
    graph = Graph()
    facts: dict[str, Any] = {
        "format": FORMAT,
        "estimator": type(model).__name__,
        "preset": model.preset,
        "columns": raw_columns_of(model).to_json(),
        "images": None if model.images_ is None else describe_pixels(model.images_.inputs),
        "encoders": model.encoders_,
        "versions": provenance.versions(["onnx"]),
    }
    if isinstance(model, GradeEstimator):
        write_grades(graph, model)
        facts |= {"grades": [str(grade) for grade in model.grades_.tolist()], "decision": model.decision}
    else:
        write_values(graph, model, wanted, coverage)
        facts |= {"bounds": [model.scale_.low, model.scale_.high], "quantiles": wanted, "coverage": coverage,
                  "is_guaranteed": model.conformal_ is not None}  # fmt: skip
    return graph.to_bytes({METADATA: json.dumps(facts)}), facts
