"""Cells of small experiments."""

from diffor.bench.leaderboard import latest_cells


def line(dataset, method, seed, mae, srcc=0.5, status="ok"):
    metrics = {"mae": mae, "crps": mae / 2, "srcc": srcc}
    return {"dataset": dataset, "method": method, "seed": seed, "status": status, "metrics": metrics, "task": "value"}


def cells_of(table):
    """Cells from ``{(dataset, method): [mae of each seed]}``."""
    return latest_cells(line(*place, seed, mae) for place, values in table.items() for seed, mae in enumerate(values))
