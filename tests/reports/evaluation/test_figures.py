import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffor.core.prediction import Prediction
from diffor.reports.evaluation import figures


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    centre = rng.uniform(10, 90, 300)
    return centre + 8 * rng.normal(size=300), Prediction(centre[:, None] + 8 * rng.normal(size=(300, 100)))


def test_numbers_have_three_digits_that_count():
    assert [figures.number(value) for value in (123.4, 0.5, 9999.9, 1e-9, 2.5e15, float("inf"))] == [
        "123", "0.500", "10,000", "1.00e-09", "2.50e+15", "inf",
    ]  # fmt: skip


def test_the_caption_of_predictions_says_how_far_they_are_off(rows):
    y, prediction = rows
    off = np.abs(prediction.median - y)
    figure = figures.predictions_figure(y, prediction, 0.8, n_rows=300)
    assert figure.caption.startswith("Each row once: the predicted median")
    assert f"Half of the medians are off by less than {np.median(off):.2f}, nine in ten" in figure.caption
    low, high = prediction.interval(0.8).T
    assert f"{np.mean((low <= y) & (y <= high)):.0%} of the intervals hold the truth" in figure.label


def test_picked_rows_and_points_are_named_as_such(rows):
    y, prediction = rows
    caption = figures.predictions_figure(y, prediction, None, n_rows=5000).caption
    assert caption.startswith("300 of 5,000 rows, picked at random: the answer as a point. Half of the answers")


def test_other_intervals_count_for_the_share(rows):
    y, prediction = rows
    everything = np.tile([-100.0, 200.0], (300, 1))
    assert "100% of the intervals" in figures.predictions_figure(y, prediction, 0.9, everything).label


def test_densities_are_named_and_the_widest_is_found():
    samples = np.array([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0], [10.0, 20.0, 30.0]])
    figure = figures.densities_figure(samples.mean(axis=1), Prediction(samples), (0.0, 40.0), ["A", "B", "C"])
    assert "least sure about C, 10.0 times as wide as the surest here" in figure.caption
    assert figure.label.startswith("Predicted densities of 3 rows")
    assert "least sure about row 2" in figures.densities_figure(samples.mean(axis=1), Prediction(samples), None).caption


def test_ranges_name_the_largest_and_the_smallest_error():
    y = np.arange(100.0)
    off = np.where(y >= 90, 7.0, np.where(y < 10, 1.0, 3.0))
    caption = figures.range_figure(y, Prediction((y + off)[:, None])).caption
    assert "largest for true values from 90.0 to 99.0, 7.00, and smallest from 0.0 to 9.0, 1.00" in caption
    one = figures.range_figure(np.ones(5), Prediction(np.zeros((5, 1))))
    assert one.caption == "All 5 rows are in one range."


@pytest.mark.parametrize(
    ("inside", "verdict"),
    [(60, "so its intervals are too narrow."), (90, "so this one agrees with its promise."), (100, "are too wide.")],
)
def test_coverage_is_judged_within_what_chance_allows(inside, verdict):
    sentence = figures.judge_coverage(inside, 100, 0.9)
    assert sentence.startswith(
        f"The 90% intervals of the model hold {inside} of 100 rows. A calibrated model would hold"
    )
    assert sentence.endswith(verdict)


def test_the_largest_gap_of_the_calibration_is_named(rows):
    y, prediction = rows
    narrow = Prediction(prediction.median[:, None] + 0.2 * (prediction.samples - prediction.median[:, None]))
    caption = figures.calibration_figure(y, narrow).caption
    assert "The largest gap is -0." in caption


def shares(y, samples):
    from diffor.reports.plots.reliability import pit_shares

    return figures.read_places(pit_shares(y, Prediction(samples)), len(y))


def test_places_tell_what_is_wrong():
    rng = np.random.default_rng(0)
    y, samples = rng.normal(size=1000), rng.normal(size=(1000, 100))
    assert shares(y, samples) == "They do, as far as 1,000 rows can tell."
    assert shares(y, samples / 3).startswith("More than a fifth of the truths")
    assert shares(y, samples / 3).endswith("the distributions are too narrow.")
    assert shares(y, samples * 3).endswith("the distributions are too wide.")
    assert "of the truths lie above the median: the answers are too low" in shares(y + 0.5, samples)
    assert "of the truths lie below the median: the answers are too high" in shares(y - 0.5, samples)


def test_the_width_stands_beside_that_of_one_interval_for_all(rows):
    y, prediction = rows
    low, high = prediction.interval(0.9).T
    ends = np.quantile(y, [0.05, 0.95])
    caption = figures.width_figure(y, prediction, 0.9).caption
    share = (high - low).mean() / (ends[1] - ends[0])
    assert caption.startswith(
        f"A 90% interval of the model is {(high - low).mean():.1f} wide on average, {share:.0%} of"
    )
    assert "of the width" not in figures.width_figure(np.ones(300), prediction, 0.9).caption


def test_boasts_about_grades_are_found():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 400)
    boast = np.where(rng.random((400, 1)) < 0.5, [[0.95, 0.05]], [[0.05, 0.95]])  # it knows nothing
    caption = figures.grade_calibration_figure(codes, boast).caption
    assert "The largest gap is -0.4" in caption or "The largest gap is +0.4" in caption
    assert "grades to which the model gives about 0." in caption


def test_scales_name_the_hardest_and_the_most_leaning():
    true = np.array([[10.0, 4.0], [10.0, 0.0]])
    caption = figures.scales_figure(true, np.array([[8.0, 2.0], [8.0, 4.0]])).caption
    assert "Increment 2 is the hardest: it is off by 3.00 on average" in caption
    assert caption.endswith("increment 1 leans most: it is too empty by 2.00.")
    fuller = np.array([[13.0, 4.0], [13.0, 0.0]])
    assert figures.scales_figure(true, fuller).caption.endswith("increment 1 leans most: it is too full by 3.00.")


def test_a_trajectory_says_how_the_samples_spread():
    values = np.stack([np.full(101, 50.0), np.linspace(0, 100, 101)], axis=1)
    caption = figures.trajectory_figure([10, 1], values, 42.0, "Row 1.").caption
    assert caption.startswith("Row 1. At the highest noise nine in ten samples span 0, at the end 90.0.")
    assert caption.endswith("The median goes from 50.0 to 50.0; the truth is 42.0.")


def test_increments_say_where_they_end():
    figure = figures.increments_figure(np.array([25.0, 25.0, 5.0, 0.0]), 0.0, 100.0, 60.0, "Row 1.")
    assert figure.caption.endswith("The heads reach 55.")
    assert figure.label == "4 cells that fill from coarse to fine up to 55; the true value is 60."


def test_the_typical_row_has_the_median_error():
    assert figures.typical_row([5.0, 1.0, 3.0, 4.0]) == 2
