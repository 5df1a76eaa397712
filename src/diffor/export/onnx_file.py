"""Programs as ONNX files, with what their users need to know written inside, and what they are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from diffor.core.prediction import check_open_share
from diffor.encoders.tabular.inputs import as_categories
from diffor.errors import UserError
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.values import ValueEstimator
from diffor.export.answer import Estimator, borders_of, count_features, raw_columns_of, write_grades
from diffor.export.columns import CATEGORIES, NUMBERS
from diffor.export.graph import ExportError, Graph
from diffor.export.images import PIXELS, describe_pixels
from diffor.export.values import UPPER, write_values
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
    check_open_share(coverage)
    levels = [float(level) for level in quantiles]
    if not levels or not all(0 <= level <= 1 for level in levels):
        raise UserError(f"quantile levels must lie in [0, 1], but got {levels}")
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
        write_values(graph, model, levels, coverage)
        facts |= {"bounds": [model.scale_.low, model.scale_.high], "quantiles": levels, "coverage": coverage,
                  "is_guaranteed": model.conformal_ is not None, "limit": model.limit}  # fmt: skip
    write_atomically(Path(path), graph.to_bytes({METADATA: json.dumps(facts)}))
    return facts


def program_inputs(model: Estimator, X: Any, upper: ArrayLike | None = None) -> dict[str, NDArray[Any]]:
    """Images and columns as the program of a model reads them: pixels, numbers and days as float64, all else as texts.

    ``upper`` is the limit of each row, of a model of ``limit="share"``; other programs do not read limits.

    **Shape:** -> pixels ``(n, 3, side, side)``, numbers ``(n, p)``, categories ``(n, c)``, upper ``(n,)``, where the
    program has them.
    """
    rows, columns = model.open_rows(X), raw_columns_of(model)
    inputs: dict[str, NDArray[Any]] = {} if rows.images is None else {PIXELS: rows.images[:].numpy()}
    if isinstance(model, ValueEstimator) and model.learns_share:
        inputs[UPPER] = model.row_limits(len(rows), None, upper).high
    elif upper is not None:
        raise UserError(
            "upper is read by programs of models of limit='share', but this one reads no limits; leave it out, and cut "
            "its outputs cdf and knots (docs/export.md shows how)"
        )
    if rows.table is None:
        return inputs
    table, n_features = rows.table, count_features(model)
    fitted = model.inputs_.columns[n_features:]
    numbers = [column.read(table.iloc[:, fitted.index(column)]) for column in columns.passed]
    if numbers or not n_features:
        inputs[NUMBERS] = np.stack(numbers, axis=1) if numbers else np.zeros((len(table), 0))
    if columns.categories:
        texts = [as_categories(table.iloc[:, fitted.index(column)]) for column in columns.categories]
        inputs[CATEGORIES] = np.stack(texts, axis=1)
        inputs[CATEGORIES][pd.isna(inputs[CATEGORIES])] = columns.missing
    return inputs
