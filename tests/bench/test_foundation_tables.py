"""Our figures beside the printed ones: ratios by hand, groups, words, and a real run."""

import json
import math
import os
from pathlib import Path

import pandas as pd
import pytest

from diffor.bench.foundation_tables import (
    PRINTED_FILE,
    Printed,
    PrintedError,
    foundation_numbers,
    foundation_sections,
    read_printed,
)
from diffor.bench.leaderboard import latest_cells
from diffor.datasets import SUITES
from diffor.reports.html import Table

ROOT = Path(os.environ.get("DIFFOR_DATA", Path(__file__).parents[3] / "shared" / "data"))
NAMES = ("foundation-a-1000", "foundation-b-1000", "foundation-pol-1000", "foundation-a-5000")


def a_line(dataset, method, seed, crps, status="ok"):
    scores = {"crps_grid": crps, "coverage_90": 0.8}
    return {"dataset": dataset, "method": method, "seed": seed, "status": status, "task": "value",
            "metrics": scores if status == "ok" else {}, "calibration": {}}  # fmt: skip


def a_printed():
    crps = pd.DataFrame({"TabPFN-2.5": 1.0, "MDN": 2.0}, index=NAMES)
    crps.loc["foundation-b-1000"] = [4.0, math.nan]
    coverage = pd.DataFrame({"TabPFN-2.5": [0.91], "MDN": [math.nan]}, index=NAMES[:1]).reindex(NAMES)
    return Printed("somebody", ("Pol",), {"crps_grid": crps, "coverage_90": coverage})


@pytest.fixture
def cells():
    return latest_cells([
        a_line("foundation-a-1000", "one", 0, 0.5), a_line("foundation-a-1000", "one", 1, 1.5),
        a_line("foundation-b-1000", "one", 0, 16.0),
        a_line("foundation-a-1000", "one", 9, 99.0),
        a_line("foundation-a-1000", "two", 0, 0.5),
        a_line("foundation-b-1000", "two", 0, 0, status="failed"),
        a_line("foundation-pol-1000", "one", 0, 3.0),
        a_line("foundation-a-5000", "one", 0, 0.25),
        a_line("diabetes", "one", 0, 7.0),
    ])  # fmt: skip


def test_ratios_are_geometric_means_over_ordinary_tables(cells):
    ratios = foundation_numbers(cells, printed=a_printed())["ratios"]
    assert list(ratios) == [
        "1,000 rows, ordinary tables",
        "5,000 rows, ordinary tables",
        "1,000 rows, grid-bound tables",
    ]
    one = ratios["1,000 rows, ordinary tables"]["one"]
    assert one["TabPFN-2.5"] == {"mean": pytest.approx(math.sqrt(1 * 4)), "ahead": 0, "n_tables": 2}
    assert one["MDN"] == {"mean": pytest.approx(0.5), "ahead": 1, "n_tables": 1}
    assert ratios["1,000 rows, grid-bound tables"]["one"]["TabPFN-2.5"]["mean"] == pytest.approx(3.0)
    assert ratios["5,000 rows, ordinary tables"]["one"]["TabPFN-2.5"]["mean"] == pytest.approx(0.25)


def test_only_the_benchmarks_seeds_and_data_sets_count(cells):
    figures = foundation_numbers(cells, printed=a_printed())["figures"]
    assert list(figures) == list(NAMES)
    assert figures["foundation-a-1000"]["ours"]["one"] == {"crps_grid": 1.0, "coverage_90": 0.8, "n_seeds": 2}
    assert figures["foundation-a-1000"]["printed"]["TabPFN-2.5"] == {"crps_grid": 1.0, "coverage_90": 0.91}
    assert figures["foundation-a-1000"]["printed"]["MDN"]["coverage_90"] is None


def test_chosen_methods_only(cells):
    figures = foundation_numbers(cells, ["two"], a_printed())["figures"]
    assert {name for found in figures.values() for name in found["ours"]} == {"two"}


def test_the_page_marks_what_is_printed(cells):
    tables = [part for part in foundation_sections(cells, printed=a_printed()) if isinstance(part, Table)]
    ratios, crps, coverage = tables[:3]
    assert ratios.header == ("ours", "tables", "cells", "to TabPFN-2.5, printed", "to MDN, printed")
    assert [row[0] for row in ratios.rows] == ["two", "one"]
    assert ratios.rows[1] == ("one", "2", "3", "2.000 (0 of 2)", "0.500 (1 of 1)")
    assert crps.header == ("method", "source", "a-1000", "b-1000")
    assert crps.rows == (("two", "ours", "0.5", "-"), ("one", "ours", "1", "16"),
                         ("TabPFN-2.5", "printed", "1", "4"), ("MDN", "printed", "2", "-"))  # fmt: skip
    assert coverage.rows[2] == ("TabPFN-2.5", "printed", "0.910", "-")


def test_other_results_have_no_such_part():
    cells = latest_cells([a_line("diabetes", "one", 0, 7.0)])
    assert foundation_sections(cells) == []
    assert foundation_numbers(cells) == {}


def test_every_data_set_of_the_suite_has_printed_figures():
    printed = read_printed()
    for table in printed.figures.values():
        assert set(table.index) == set(SUITES["foundation"])
    assert printed.figures["crps_grid"].notna().all(axis=None)
    assert [name for name in printed.figures["crps_grid"].index if printed.is_grid_bound(name)] == [
        "foundation-pol-1000", "foundation-pol-5000",
    ]  # fmt: skip


@pytest.mark.real_data
def test_printed_figures_are_those_of_the_source():
    path = ROOT / "foundation" / "published.json"
    if not path.is_file():
        pytest.skip("the benchmark's figures are not on this machine")
    source = {f"foundation-{name.lower()}": found for name, found in json.loads(path.read_text()).items()}
    for ours, key in (("crps_grid", "CRPS"), ("coverage_90", "coverage_90")):
        for dataset, found in read_printed().figures[ours].iterrows():
            assert all(value == source[dataset][name][key] for name, value in found.dropna().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("grid_bound", "bound"), r"must hold source, methods, .*, but grid_bound is missing; add it"),
        (
            ("\n[crps_grid]", "\n[crps_grid]\nfoundation-x-1000 = [1.0]"),
            r"each of 12 methods, but foundation-x-1000",
        ),
        (("source =", "source"), r"the printed figures must be TOML, but got"),
    ],
)
def test_damaged_figures_are_named(tmp_path, change, message):
    path = tmp_path / "figures.toml"
    path.write_text(PRINTED_FILE.read_text().replace(*change))
    with pytest.raises(PrintedError, match=message):
        read_printed(path)
