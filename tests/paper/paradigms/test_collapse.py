from typing import Any

import numpy as np
import pandas as pd
import pytest

from diffor.datasets.open.synthetic import Bimodal
from diffor.paper.paradigms.collapse import (
    collapse_tables,
    density_at_mean,
    heavier_mode,
    in_gap,
    law_of,
    mixture_density,
    true_density,
    true_in_gap,
)
from diffor.paper.paradigms.fitting import draw_rows

Found = dict[str, Any]


@pytest.fixture
def found(quick_paradigms) -> Found:
    return quick_paradigms.mean_collapse


def test_the_density_of_a_mixture_is_one_in_all_and_at_the_mean_of_two_modes_the_papers() -> None:
    grid = np.linspace(-12, 12, 4801)
    heights = mixture_density(grid, [-3.0, 1.0, 4.0], 0.7, [0.2, 0.5, 0.3])
    assert heights.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-9)
    for distance, spread in ((4.0, 1.0), (4.0, 0.5), (1.0, 0.2)):
        papers = np.exp(-(distance**2) / (8 * spread**2)) / (np.sqrt(2 * np.pi) * spread)
        assert float(mixture_density(0.0, [-distance / 2, distance / 2], spread)) == pytest.approx(papers)


def test_the_density_at_the_mean_vanishes_between_two_modes_but_not_on_the_middle_of_three() -> None:
    shares = [density_at_mean(separation) for separation in (2, 4, 8, 16)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(2 * np.exp(-(16**2) / 8))
    assert density_at_mean(16, n_modes=3) == pytest.approx(1)
    assert density_at_mean(16, n_modes=4) < 1e-13
    assert density_at_mean(1.0) == 1.0  # modes that run together are highest at their mean


def test_the_law_has_the_separation_it_is_asked_for() -> None:
    law = law_of(8.0)
    assert 2 * law.distance / law.spread == pytest.approx(8)
    assert Bimodal().spread == 0.15, "the law of the data set is untouched"


def test_the_true_density_is_the_slope_of_the_distribution_function() -> None:
    law = law_of(6.0)
    x, y = draw_rows(law, 50, [0])
    slope = (law.cdf(x, y + 1e-5) - law.cdf(x, y - 1e-5)) / 2e-5
    np.testing.assert_allclose(true_density(law, x, y), slope, rtol=1e-5)
    np.testing.assert_allclose(true_density(law, x, np.stack([y, y], axis=1))[:, 1], slope, rtol=1e-5)


def test_values_in_the_gap_are_counted_and_their_probability_known() -> None:
    law = law_of(4.0)
    x = law.inputs(300, np.random.default_rng(0))
    assert in_gap(law, x, law.centre(x)) == 1
    assert in_gap(law, x, heavier_mode(law, x)) == 0
    drawn = law.draw(x, 2000, np.random.default_rng(1))
    assert in_gap(law, x, drawn) == pytest.approx(true_in_gap(law, x), abs=0.003)


def test_the_heavier_mode_follows_the_tilt() -> None:
    law = Bimodal()
    x = pd.DataFrame({"position": [0.0, 0.0], "tilt": [-0.5, 0.5], "idle": [0.0, 0.0]})
    np.testing.assert_allclose(heavier_mode(law, x), [-2.0, 2.0])


def answer(found: Found, method: str, statistic: str) -> Found:
    return next(one for one in found["answers"] if (one["method"], one["statistic"]) == (method, statistic))


def test_the_truths_own_answers_are_on_the_modes_and_its_mean_is_not(found: Found) -> None:
    mode, mean = (answer(found, "truth", statistic) for statistic in ("mode", "mean"))
    assert mode["density"]["mean"] == pytest.approx(1)
    assert answer(found, "truth", "sample")["in_gap"]["mean"] < 1e-6
    assert mean["density"]["mean"] < 0.05
    assert mean["rmse"]["mean"] < mode["rmse"]["mean"]


def test_every_method_is_measured_in_every_way_and_no_crps_is_below_the_truths(found: Found) -> None:
    best = answer(found, "truth", "sample")["crps"]["mean"]
    for method in ("cross-entropy", "diffor", "diffor, 32 steps", "diffor-heads"):
        assert answer(found, method, "sample")["crps"]["mean"] > best
        assert all(answer(found, method, statistic)["mae"] for statistic in ("mean", "median", "mode"))
    assert answer(found, "value-squared", "native")["crps"] is None


def test_the_example_holds_the_true_density_and_samples(found: Found) -> None:
    example = found["example"]
    assert sum(example["density"]) * (example["grid"][1] - example["grid"][0]) == pytest.approx(1, abs=1e-6)
    assert {len(samples) for samples in example["samples"].values()} == {64}


def test_the_tables_hold_every_answer(found: Found) -> None:
    shares, answers = collapse_tables(found)
    assert len(shares.rows) == len(found["separations"])
    assert [row[:2] for row in answers.rows][:2] == [("the law itself", "sample"), ("the law itself", "mean")]
    assert len(answers.rows) == len(found["answers"])
