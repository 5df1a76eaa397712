"""The tables of the public benchmark: its rows, proven by a figure that it prints, and what is said where they fail."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from diffor import DATASETS, load_dataset
from diffor.bench.cell import Cell, choose_rows, standardised
from diffor.datasets.open.foundation import FOUNDATION, TABLES
from diffor.metrics import crps_grid, training_grid

ROOT = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[4] / "shared" / "data"))
NAMES = [dataset.name for dataset in FOUNDATION]
KIN8NM = next(table for table in TABLES if table.name == "Kin8nm")
needs_tables = pytest.mark.skipif(
    not (ROOT / "foundation" / "Kin8nm.npz").is_file(), reason="the tables of the benchmark are not on this machine"
)


def write_kin8nm(folder, n_rows=KIN8NM.n_rows, **arrays):
    folder.mkdir(parents=True, exist_ok=True)
    given = {"X": np.arange(8.0 * n_rows).reshape(n_rows, 8), "z": np.arange(float(n_rows))}
    np.savez(folder / "Kin8nm.npz", **given | arrays)
    return folder


def linear_normals(x, y, x_test):
    """Least squares and a normal whose spread is that of residuals out of fold, as the benchmark fits it."""
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(5, shuffle=True, random_state=42)
    spread = np.std(y - cross_val_predict(LinearRegression(), x, y, cv=folds), ddof=1)
    return LinearRegression().fit(x, y).predict(x_test)[:, None], spread


def cdf_by_trapezoids(density):
    """What the benchmark makes of densities on an even grid. Shape: (n, g), kept."""
    steps = np.cumsum(density[:, 1:] + density[:, :-1], axis=1)
    return np.concatenate([np.zeros((len(density), 1)), steps / steps[:, -1:]], axis=1)


@pytest.mark.real_data
@needs_tables
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_the_printed_figures(name):
    """The printed linear baseline comes out to its last digit, so rows, splits, scaling, grid and metric are right."""
    from scipy.stats import norm

    table = next(table for table in TABLES if table.name.lower() == name.split("-")[1])
    printed = json.loads((ROOT / "foundation" / "published.json").read_text())
    baseline = printed[f"{table.name}-{name.split('-')[2]}"]["LinearGauss-Homo"]["CRPS"]
    dataset, raw = DATASETS[name], load_dataset(name, str(ROOT))
    scores, by_cdf = [], []
    for seed in range(5):
        train, test = dataset.split(None, seed)
        samples = standardised(raw, train)
        x, y = samples.x.to_numpy(), samples.y
        centre, spread = linear_normals(x[train], y[train], x[test])
        grid = training_grid(y[train])
        scores.append(crps_grid(y[test], cdf_by_trapezoids(norm.pdf(grid, centre, spread)), grid))
        by_cdf.append(crps_grid(y[test], norm.cdf(grid, centre, spread), grid))
    assert float(f"{np.mean(scores):.6g}") == pytest.approx(baseline, rel=1e-6)
    # Our metric reads the distribution function itself; a spread of a few cells is all that trapezoids are right for.
    assert name.startswith("foundation-cpusmall") or np.mean(by_cdf) == pytest.approx(baseline, rel=3e-4)


@pytest.mark.real_data
@needs_tables
def test_all_rows_to_learn_from_are_told_to_the_method():
    name = "foundation-kin8nm-1000"
    cell = Cell(dataset=name, method="constant", seed=0, peer="constant")
    parts = choose_rows(DATASETS[name], load_dataset(name, str(ROOT)), cell)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (675, 75, 250)
    train, test = DATASETS[name].split(None, 0)
    assert parts.test.tolist() == test.tolist()
    assert set(parts.train) | set(parts.valid) == set(train)


def test_there_are_fourteen_tables_in_two_sizes():
    assert len(TABLES) == 14
    assert sum(name.endswith("-1000") for name in NAMES) == 14
    assert sum(name.endswith("-5000") for name in NAMES) == 10
    assert all(DATASETS[name].metrics[0] == "crps_grid" for name in NAMES)


@pytest.mark.parametrize("below", ["", "foundation"])
def test_the_first_rows_of_the_benchmarks_permutation_are_read(tmp_path, below):
    write_kin8nm(tmp_path / below)
    samples = load_dataset("foundation-kin8nm-1000", str(tmp_path))
    kept = np.random.RandomState(42).permutation(8192)[:1000]
    assert samples.y.tolist() == kept.tolist()
    assert samples.x["x0"].tolist() == (8 * kept).tolist()


def test_splits_keep_the_benchmarks_order():
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(1000), test_size=0.25, random_state=3)
    found = DATASETS["foundation-pol-1000"].split(None, 3)
    assert [each.tolist() for each in found] == [train.tolist(), test.tolist()]


def test_an_absent_table_is_named_with_its_origin(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"Kin8nm.npz does not exist: .* OpenML's table 189, .*fetch_foundation"
    ):
        load_dataset("foundation-kin8nm-1000", str(tmp_path))
    with pytest.raises(ValueError, match=r"Kin8nm is read from files, but got root=None; .* OpenML's table 189"):
        load_dataset("foundation-kin8nm-1000")


def test_damaged_tables_are_named(tmp_path):
    (tmp_path / "Kin8nm.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"Kin8nm.npz must hold the arrays X and z, but .*fetch the file again"):
        load_dataset("foundation-kin8nm-1000", str(tmp_path))
    np.savez(tmp_path / "Kin8nm.npz", X=np.zeros((3, 8)))
    with pytest.raises(ValueError, match=r"must hold the arrays X and z, but 'z is not a file in the archive'"):
        load_dataset("foundation-kin8nm-1000", str(tmp_path))
    write_kin8nm(tmp_path, n_rows=7)
    with pytest.raises(ValueError, match=r"8192 rows and 8 columns and as many z, but \(7, 8\) and \(7,\)"):
        load_dataset("foundation-kin8nm-1000", str(tmp_path))
