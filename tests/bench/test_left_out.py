"""FG-NET's figure: all people there, each left out once, and the mean over photographs rather than people."""

import miniatures_images
import numpy as np
import pytest

from diffor.bench.cell import Cell, run_cell
from diffor.bench.leaderboard import latest_cells, missing_cells
from diffor.bench.left_out import pool_left_out
from diffor.bench.paper_tables import paper_sections, paper_tables
from diffor.bench.plan import plan_from

pytest.importorskip("PIL")


def a_line(dataset, method, seed, mae, n_test, n_splits=3, status="ok"):
    return {"dataset": dataset, "method": method, "seed": seed, "status": status, "task": "value", "n_test": n_test,
            "n_train": 10, "n_valid": 2, "n_splits": n_splits, "fit_seconds": 1.0, "predict_seconds": 1.0,
            "metrics": {"mae": mae, "rmse": mae, "srcc": 0.5, "cs": 1 / n_test} if status == "ok" else {},
            "calibration": {"levels": [0.5], "coverage": [mae / 10], "pit": [0.05] * 20}}  # fmt: skip


def test_photographs_count_and_not_people():
    lines = [a_line("fgnet", "a", 0, 2.0, 1), a_line("fgnet", "a", 1, 4.0, 4), a_line("fgnet", "a", 2, 6.0, 5)]
    ((place, line),) = pool_left_out(latest_cells(lines)).items()
    assert place == ("fgnet", "a", 0)
    assert line["metrics"] == {"mae": pytest.approx(4.8), "cs": pytest.approx(0.3), "rmse": pytest.approx(24.8**0.5)}
    assert line["calibration"]["coverage"] == [pytest.approx(0.48)]
    assert (line["n_test"], line["n_left_out"], line["predict_seconds"]) == (10, 3, 3.0)


def test_pooled_figures_are_those_of_all_photographs(tmp_path):
    root = str(miniatures_images.write_fgnet(tmp_path))
    plan = plan_from({"datasets": {"names": ["fgnet"], "fgnet": {"seeds": "all"}}, "methods": ["constant"],
                      "root": root})  # fmt: skip
    assert [cell.seed for cell in plan.cells()] == list(range(6))
    cell = Cell(dataset="fgnet", method="constant", seed=0, peer="constant")
    lines = [{**vars(cell), "seed": seed, "status": "ok", "task": "value",
              **run_cell(Cell(dataset="fgnet", method="constant", seed=seed, peer="constant"), root)}
             for seed in range(6)]  # fmt: skip
    ((place, line),) = pool_left_out(latest_cells(lines)).items()
    assert place[0] == "fgnet"
    counts = np.array([one["n_test"] for one in lines])
    assert line["n_test"] == counts.sum()
    assert len(set(counts)) > 1
    errors = [one["metrics"]["mae"] * count for one, count in zip(lines, counts, strict=True)]
    assert line["metrics"]["mae"] == pytest.approx(sum(errors) / counts.sum())


def test_fewer_than_all_are_named_in_the_title():
    pytest.importorskip("matplotlib")
    lines = [a_line("fgnet", name, seed, 2.0, 2) for name in "ab" for seed in (0, 1)]
    lines.append(a_line("fgnet", "b", 2, 2.0, 2, status="failed"))
    lines.append(a_line("utkface", "a", 0, 2.0, 2, n_splits=None))
    cells = pool_left_out(latest_cells(lines))
    assert {place[0] for place, line in cells.items() if line["status"] == "ok"} == {
        "fgnet (2 of 3 left out)", "utkface",
    }  # fmt: skip
    (table,) = [one for one in paper_tables(cells) if "fgnet" in one.dataset]
    assert table.dataset == "fgnet (2 of 3 left out)"
    assert table.published["DiffoR"]["mae"].printed == "4.29"
    words = str(paper_sections([table]))
    assert "fgnet (2 of 3 left out): ours and published" in words
    assert "over the photos of 2 people, each left out once" in words
    assert missing_cells(cells)["b"] == ["utkface (seed 0)"]


def test_methods_are_pooled_over_the_people_that_all_have():
    lines = [a_line("fgnet", "a", seed, float(seed), 1) for seed in range(3)] + [a_line("fgnet", "b", 1, 5.0, 1)]
    cells = pool_left_out(latest_cells(lines))
    assert {place: line["metrics"]["mae"] for place, line in cells.items()} == {
        ("fgnet (1 of 3 left out)", "a", 0): 1.0,
        ("fgnet (1 of 3 left out)", "b", 0): 5.0,
    }


def test_a_set_with_seeds_of_its_own_ends_earlier():
    content = {"datasets": {"names": ["diabetes", "movies"], "movies": {"seeds": 1}}, "seeds": 3}
    cells = plan_from({**content, "methods": ["constant"]}).cells()
    assert [(cell.dataset, cell.seed) for cell in cells] == [
        ("diabetes", 0), ("movies", 0), ("diabetes", 1), ("diabetes", 2),
    ]  # fmt: skip
