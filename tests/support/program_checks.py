"""What tests of exported programs share: a table of all kinds of columns, and the comparison with ``predict``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd

from diffor.export import export_model, program_inputs

TOLERANCE = 1e-6
"""Of the target's range, and of probabilities."""


def mixed_table(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Numbers with gaps and outliers, truths, days, texts with gaps, a constant; and targets. **Shape:** ``(n, 6)``."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": random.standard_normal(n_rows),
            "price": random.exponential(100.0, n_rows),
            "city": random.choice(["Oslo", "Rome", "Lima"], n_rows),
            "is_new": random.random(n_rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 1000, n_rows), "D"),
            "constant": 7,
        }
    )
    y = table["size"] + 2.0 * (table["city"] == "Rome") + 0.01 * table["price"] + 0.3 * random.standard_normal(n_rows)
    table.loc[random.random(n_rows) < 0.1, "size"] = np.nan
    table.loc[random.random(n_rows) < 0.1, "city"] = None
    return table, y.to_numpy()


def strange_rows() -> pd.DataFrame:
    """Rows with a level that was never seen, gaps, and values far beyond all others."""
    table, _ = mixed_table(37, seed=1)
    table.loc[0, "city"], table.loc[1, "price"], table.loc[2, "price"] = "Bonn", 1e12, -1e300
    table.loc[3, ["size", "city"]] = None
    return table


def open_program(path: Any) -> onnxruntime.InferenceSession:
    """A session of one thread that keeps its warnings to itself."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_program(session: onnxruntime.InferenceSession, inputs: dict[str, Any]) -> dict[str, Any]:
    """All outputs by name."""
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, inputs), strict=True))


def answers_of(model: Any, folder: Any, X: Any, **settings: Any) -> dict[str, Any]:
    """What the exported program of a model says about rows."""
    path = folder / "model.onnx"
    export_model(model, path, **settings)
    return run_program(open_program(path), program_inputs(model, X))


def check_values(model: Any, folder: Any, X: Any, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """The program's values are those of the estimator, and nothing is asked for but the rows."""
    answers, width = answers_of(model, folder, X), model.scale_.high - model.scale_.low
    prediction = model.predict_distribution(X)
    expected = {
        "point": model.predict(X),
        "interval": model.predict_interval(X),
        "quantiles": model.predict_quantiles(X),
    }
    for name, wanted in expected.items():
        assert answers[name].shape == wanted.shape, name
        distance = np.abs(answers[name] - wanted) / width
        # Where next to nothing is likely, a quantile moves far with the last digit of a probability.
        assert (distance <= tolerance).mean() >= 0.9, (name, distance.max())
        levels = [prediction.cdf(values.reshape(len(prediction), -1)) for values in (answers[name], wanted)]
        is_near = np.abs(levels[0] - levels[1]).reshape(distance.shape) <= 5 * tolerance
        assert ((distance <= 30 * tolerance) | is_near).all(), (name, distance.max())
    assert np.array_equal(answers["knots"], prediction.knots)
    np.testing.assert_allclose(answers["cdf"], prediction.heights, rtol=0, atol=5 * tolerance)
    return answers


def check_grades(model: Any, folder: Any, X: Any, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """The program's grades are those of the estimator."""
    answers = answers_of(model, folder, X)
    in_order = model.predict_proba(X)[:, np.searchsorted(model.classes_, model.grades_)]
    np.testing.assert_allclose(answers["probabilities"], in_order, rtol=0, atol=5 * tolerance)
    assert answers["point"].tolist() == model.predict(X).tolist()
    return answers
