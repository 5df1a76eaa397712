"""Result lines of a benchmark, as if it had run."""


def a_line(dataset, method, seed=0, crps=1.0, task="value", status="ok", **changes):
    """A line whose other errors are multiples of its CRPS; one that failed has no metrics."""
    scores = {"crps": crps, "mae": 2 * crps, "rmse": 3 * crps, "interval_score_90": 4 * crps, "srcc": 0.5,
              "coverage_90": 0.9}  # fmt: skip
    if task == "grades":
        scores |= {"rps": crps, "qwk": 1 - crps / 100, "accuracy": 0.5}
    line = {
        "dataset": dataset, "method": method, "seed": seed, "task": task, "status": status,
        "error": None if status == "ok" else "no luck", "metrics": scores if status == "ok" else {},
        "calibration": {"levels": [0.1, 0.5, 0.9], "coverage": [0.1, 0.5, 0.9]}, "fit_seconds": 2.0,
        "predict_seconds": 0.5, "n_test": 1000, "n_train": 12345, "n_samples": 100, "is_ours": method == "ours",
        "versions": {"numpy": "9.9"}, "commit": "abc123+changes", "machine": "a large one",
        "date": "2026-11-16T10:00:00+00:00", "command": "diffor bench run.toml",
    }  # fmt: skip
    return line | changes
