from typing import Any

import numpy as np
import pytest

from diffor.paper.paradigms.quantisation import (
    BOUNDS,
    Quiet,
    bin_floor,
    by_place_in_bin,
    quantisation_tables,
)

Found = dict[str, Any]


@pytest.fixture
def found(quick_paradigms) -> Found:
    return quick_paradigms.quantisation_error


def test_the_floor_is_that_of_an_even_density() -> None:
    width = 0.5
    places = (np.arange(200_000) + 0.5) / 200_000 * width - width / 2
    mean_square, mean_distance = bin_floor(width)
    assert mean_square == pytest.approx((places**2).mean(), rel=1e-6)
    assert mean_distance == pytest.approx(np.abs(places).mean(), rel=1e-6)


def test_targets_near_the_edges_of_bins_are_three_times_as_far_from_their_middles() -> None:
    y = np.linspace(*BOUNDS, 400_000, endpoint=False)
    width = (BOUNDS[1] - BOUNDS[0]) / 5
    middles = BOUNDS[0] + (np.floor((y - BOUNDS[0]) / width) + 0.5) * width
    inner, outer = by_place_in_bin(np.abs(y - middles), y, 5)
    assert inner == pytest.approx(width / 8, rel=1e-3)
    assert outer == pytest.approx(3 * width / 8, rel=1e-3)


def test_the_quiet_law_has_little_noise_and_stays_inside_the_bounds() -> None:
    law = Quiet()
    x = law.inputs(5000, np.random.default_rng(0))
    y = law.draw(x, 1, np.random.default_rng(1))[:, 0]
    assert (y - law.mean(x)).std() == pytest.approx(law.noise, rel=0.05)
    assert BOUNDS[0] < y.min() < y.max() < BOUNDS[1]


def test_targets_against_their_own_bins_show_the_floor(found: Found) -> None:
    for name in ("mae", "rmse"):
        measured = [oracle["mean"] for oracle in found[f"oracle_{name}"]]
        np.testing.assert_allclose(measured, found[f"floor_{name}"], rtol=0.2)
    ratios = np.array(found["floor_rmse"][:-1]) / found["floor_rmse"][1:]
    np.testing.assert_allclose(ratios, 2, err_msg="twice as many bins, half the error")


def test_no_answer_is_better_than_the_noise(found: Found) -> None:
    for one in (*found["bins"], *found["increments"]):
        for name in ("mae", "rmse"):
            assert min(one[f"hard_{name}"]["mean"], one[f"soft_{name}"]["mean"]) > found[f"noise_{name}"]


def test_the_tables_hold_every_number_of_bins(found: Found) -> None:
    floors, errors = quantisation_tables(found)
    assert [row[0] for row in floors.rows] == ["2", "4", "8"]
    assert [row[:2] for row in errors.rows] == [
        *(("cross-entropy of bins", count) for count in "248"),
        ("DiffoR", "4"),
    ]
