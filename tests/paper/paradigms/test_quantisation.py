import dataclasses
import json

import numpy as np
import pytest

from diffor.paper.paradigms import QuantisationError, quantisation_error, rebuild
from diffor.paper.paradigms.quantisation import BOUNDS, Quiet, bin_floor, by_place_in_bin


@pytest.fixture(scope="module")
def found() -> QuantisationError:
    return quantisation_error(seed=0, quick=True)


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


def test_targets_against_their_own_bins_show_the_floor(found: QuantisationError) -> None:
    for floors, oracles in ((found.floor_mae, found.oracle_mae), (found.floor_rmse, found.oracle_rmse)):
        measured = [oracle.mean for oracle in oracles]
        np.testing.assert_allclose(measured, floors, rtol=0.2)
    ratios = np.array(found.floor_rmse[:-1]) / found.floor_rmse[1:]
    np.testing.assert_allclose(ratios, 2, err_msg="twice as many bins, half the error")


def test_no_answer_is_better_than_the_noise(found: QuantisationError) -> None:
    for one in (*found.bins, *found.increments):
        assert min(one.hard_rmse.mean, one.soft_rmse.mean) > found.noise_rmse
        assert min(one.hard_mae.mean, one.soft_mae.mean) > found.noise_mae


def test_bins_and_increments_are_measured_by_their_number(found: QuantisationError) -> None:
    assert [one.count for one in found.bins] == found.counts == [2, 4, 8]
    assert [(one.method, one.count) for one in found.increments] == [("diffor", 4)]


def test_the_result_is_json_and_says_what_was_found(found: QuantisationError) -> None:
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert rebuild(QuantisationError, again) == found
    text = " ".join(found.sentences())
    assert str(found.increments[0].hard_mae) in text
    assert str(found.bins[1].outer_mae) in text
    best = min(found.bins, key=lambda one: one.hard_rmse.mean)
    assert f"with {best.count} bins" in text


def test_sentences_name_the_bins_whose_expectation_is_below_the_floor(found: QuantisationError) -> None:
    better = [dataclasses.replace(one, soft_rmse=dataclasses.replace(one.soft_rmse, mean=0.0)) for one in found.bins]
    sentences = dataclasses.replace(found, bins=[better[0], *found.bins[1:]]).sentences()
    assert "lies below it with 2 bins." in " ".join(sentences)
    assert "lies above the floor" not in " ".join(sentences)
