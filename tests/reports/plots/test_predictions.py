import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

pytest.importorskip("matplotlib")

from figure_reading import BOUNDS, a_history, forty_rows, legend_texts, line_labelled
from matplotlib.colors import to_hex

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.reports import plots
from diffor.reports.plots.predictions import mean_densities, ranges_of
from diffor.training.loop import History


@pytest.fixture
def rows():
    return forty_rows()


@pytest.fixture
def history():
    return a_history()


# Predicted against true.


def test_points_and_intervals_stand_in_the_group_that_they_belong_to(rows):
    y, prediction = rows
    ax = plots.predicted_against_true(y, prediction, coverage=0.5)
    low, high = prediction.interval(0.5).T
    inside = (low <= y) & (y <= high)
    looks = []
    for words, chosen in (("holds the truth", inside), ("misses it", ~inside)):
        points = line_labelled(ax, f"interval {words}: {chosen.sum()} of 40 ({chosen.mean():.0%})")
        np.testing.assert_array_equal(points.get_xydata(), np.stack([y, prediction.median], axis=1)[chosen])
        looks.append((to_hex(points.get_color()), points.get_marker()))
    assert all(one != other for one, other in zip(*looks, strict=True))  # the groups differ in grey as well
    segments = np.concatenate([np.array(lines.get_segments()) for lines in ax.collections])
    expected = sorted(zip(y, low, high, strict=True))
    np.testing.assert_allclose(sorted((x, start, end) for (x, start), (_, end) in segments), expected)
    assert "50% interval" in ax.get_ylabel()
    diagonal = line_labelled(ax, "predicted = true")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [min(*y, *low), max(*y, *high)]


def test_all_inside_is_drawn_too():
    ax = plots.predicted_against_true([1.0], Prediction([[0.0, 2.0]]))
    assert len(line_labelled(ax, "interval misses it: 0 of 1").get_xdata()) == 0


def test_other_intervals_can_be_drawn_and_must_fit():
    y, prediction = np.array([1.0, 2.0]), Prediction([[0.0, 2.0], [0.0, 2.0]])
    ax = plots.predicted_against_true(y, prediction, intervals=[[0.5, 1.5], [0.5, 1.5]])
    assert legend_texts(ax)[0] == "interval holds the truth: 1 of 2 (50%)"
    segments = np.concatenate([np.array(lines.get_segments()) for lines in ax.collections])
    assert segments[:, :, 1].tolist() == [[0.5, 1.5], [0.5, 1.5]]
    with pytest.raises(ValueError, match=r"two ends for each predicted row, but got shape=\(1, 2\), rows=2"):
        plots.predicted_against_true(y, prediction, intervals=[[0.0, 1.0]])


def test_points_alone_have_no_intervals():
    ax = plots.predicted_against_true([1.0, 4.0], Prediction([[2.0], [3.0]]), coverage=None)
    assert line_labelled(ax, "2 rows").get_xydata().tolist() == [[1, 2], [4, 3]]
    assert not ax.collections
    assert ax.get_ylabel() == "predicted value"
    assert line_labelled(ax, "predicted = true").get_xdata().tolist() == [1, 4]


# Densities.


@pytest.mark.parametrize("bounds", [(0.0, 100.0), (-5.0, 400.0)])
def test_a_density_has_area_one_inside_its_bounds(bounds):
    samples = np.clip(np.random.default_rng(0).normal(5, 10, 500), 0, 100)  # many at the lower bound
    grid = np.linspace(*bounds, 5001)
    heights = plots.density(samples, grid, bounds)
    area = ((heights[1:] + heights[:-1]) / 2 * np.diff(grid)).sum()
    assert area == pytest.approx(1, abs=0.001)
    outside = plots.density(samples, [bounds[0] - 1e-6, bounds[1] + 1e-6], bounds)
    assert outside.tolist() == [0, 0]


def test_a_density_finds_the_normal_one():
    samples = norm.ppf((np.arange(2000) + 0.5) / 2000)  # without the noise of drawing them
    grid = np.linspace(-3, 3, 31)
    np.testing.assert_allclose(plots.density(samples, grid), norm.pdf(grid), atol=0.01)


def test_the_ridge_shows_the_rows_asked_for_with_their_truth(rows):
    y, prediction = rows
    ax = plots.predictive_densities(prediction, y, rows=[7, 3, 20], bounds=BOUNDS)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["row 7", "row 3", "row 20"]
    truths = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "D"]
    assert truths == [[y[7], 0], [y[3], 1], [y[20], 2]]
    assert legend_texts(ax) == ["predicted density", "true value"]


def test_ridges_stay_in_the_bounds_and_below_the_next_one():
    samples = np.clip(np.random.default_rng(0).normal([[0.0], [50.0], [100.0]], 15, (3, 300)), *BOUNDS)
    ax = plots.predictive_densities(Prediction(samples), rows=[0, 1, 2], bounds=BOUNDS)
    for place, line in enumerate(ax.lines):
        x, height = line.get_xdata(), line.get_ydata() - place
        assert (x.min(), x.max()) == BOUNDS
        assert height.min() >= 0
        assert height.max() < 1
    peaks = [line.get_xdata()[line.get_ydata().argmax()] for line in ax.lines]
    assert peaks == pytest.approx([0, 50, 100], abs=8)


def test_rows_are_chosen_from_the_lowest_median_to_the_highest(rows):
    _, prediction = rows
    ax = plots.predictive_densities(prediction)
    shown = [int(label.get_text().split()[1]) for label in ax.get_yticklabels()]
    medians = prediction.median[shown]
    assert len(shown) == 6
    few = plots.predictive_densities(Prediction([[1.0, 2.0], [3.0, 4.0]]))
    assert [label.get_text() for label in few.get_yticklabels()] == ["row 0", "row 1"]
    assert (medians[0], medians[-1]) == (prediction.median.min(), prediction.median.max())
    assert (np.diff(medians) > 0).all()
    assert legend_texts(ax) == ["predicted density"]


@pytest.mark.parametrize("prediction", [Prediction([[1.0, 12.0]]), CdfPrediction([0, 12], [[0, 1]])])
def test_samples_outside_the_bounds_are_refused(prediction):
    with pytest.raises(ValueError, match="samples must lie inside bounds"):
        plots.predictive_densities(prediction, bounds=(0, 10))


# History.


def test_history_shows_score_and_losses_and_the_best_step(history):
    ax = plots.training_history(history)
    score = line_labelled(ax, "validation CRPS")
    assert score.get_xydata().tolist() == [[10, 3], [20, 2], [30, 2.5]]
    assert line_labelled(ax, "best step 20").get_xdata() == [20, 20]
    losses = next(other for other in ax.figure.axes if other is not ax)
    assert line_labelled(losses, "denoise").get_ydata().tolist() == [0.5, 0.3, 0.2]
    assert line_labelled(losses, "increment").get_ydata().tolist() == [0.04, 0.02, 0.01]
    assert len(legend_texts(ax)) == 4


def test_history_without_validation_rows_has_one_axis():
    records = [{"step": 1.0, "seconds": 1.0, "denoise": 0.5}, {"step": 2.0, "seconds": 1.0, "denoise": 0.4}]
    ax = plots.training_history(History(records, best_step=2))
    assert len(ax.figure.axes) == 1
    assert legend_texts(ax) == ["denoise loss"]


def test_a_look_before_the_first_step_hides_no_losses_and_kinds_are_drawn_apart():
    kind = [{"step": 0.0, "valid_crps": 3.0}, {"step": 5.0, "valid_crps": 2.0, "cross_entropy": 0.4}]
    ax = plots.training_history(History([{**record, "kind": place} for place in (0.0, 1.0) for record in kind]))
    assert np.isnan(line_labelled(ax, "validation CRPS").get_ydata()).tolist() == [False, False, True, False, False]
    losses = next(other for other in ax.figure.axes if other is not ax)
    assert line_labelled(losses, "cross_entropy").get_ydata().tolist() == [0.4, 0.4]
    assert not any("kind" in text for text in legend_texts(ax))


def test_an_empty_history_is_refused():
    with pytest.raises(ValueError, match="at least one record"):
        plots.training_history(History())


# Errors by range.


def test_ranges_hold_equally_many_rows_and_their_mean_errors():
    y = np.arange(40.0)
    off = np.where(y < 20, 1.0, 5.0)
    ax = plots.error_by_range(y, Prediction((y + off)[:, None]), n_bins=4)
    points = ax.containers[0].lines[0]
    assert points.get_xdata().tolist() == [1, 1, 5, 5]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "0.0 to 9.0  (10 rows)", "10.0 to 19.0  (10 rows)", "20.0 to 29.0  (10 rows)", "30.0 to 39.0  (10 rows)",
    ]  # fmt: skip
    assert line_labelled(ax, "all 40 rows").get_xdata() == [3, 3]


def test_bars_are_two_standard_errors_long():
    y, errors = np.arange(8.0), np.array([1.0, 2.0, 3.0, 6.0, 0.0, 0.0, 4.0, 4.0])
    ax = plots.error_by_range(y, Prediction((y + errors)[:, None]), n_bins=2)
    (bars,) = ax.containers[0].lines[2]
    low, high = np.array(bars.get_segments())[:, :, 0].T
    expected = [2 * errors[:4].std(ddof=1) / 2, 2 * errors[4:].std(ddof=1) / 2]
    np.testing.assert_allclose((high - low) / 2, expected)


def test_equal_values_share_a_range_and_one_row_has_no_bar():
    ax = plots.error_by_range([1.0, 2.0, 2.0, 2.0, 2.0, 3.0], Prediction(np.zeros((6, 2))), n_bins=3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1.00 to 2.00  (5 rows)", "3.00 to 3.00  (1 rows)"]
    ax = plots.error_by_range([2.0], Prediction([[0.0, 1.0]]))
    assert ax.containers[0].lines[0].get_xydata().tolist() == [[1.5, 0]]


def test_ranges_need_a_positive_number():
    with pytest.raises(ValueError, match="n_bins must be at least 1, but got n_bins=0; 10 is customary"):
        plots.error_by_range([1.0], Prediction([[0.0, 1.0]]), n_bins=0)


@settings(max_examples=30)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.integers(1, 12))
def test_ranges_part_all_rows_in_order(values, n_bins):
    parts = ranges_of(np.array(values, dtype=float), n_bins)
    assert len(parts) <= n_bins
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(len(values)))
    assert all(part.high < after.low for part, after in itertools.pairwise(parts))
    for part in parts:
        inside = np.array(values)[part.rows]
        assert (inside.min(), inside.max()) == (part.low, part.high)


# Distributions in closed form.


@pytest.mark.parametrize(("bounds", "share"), [((0.0, 10.0), 0.05), ((-2.0, 12.0), 0.9)])
def test_mean_densities_have_area_one_and_show_atoms(bounds, share):
    prediction = CdfPrediction([0, 0, 4, 10, 10], [[0, share / 2, 0.5, 1 - share / 2, 1]])
    grid = np.linspace(*bounds, 20_001)
    heights = mean_densities(prediction, grid, bounds)[0]
    assert heights.mean() * (bounds[1] - bounds[0]) == pytest.approx(1, abs=5e-3)
    assert heights[np.searchsorted(grid, 2)] == pytest.approx((0.5 - share / 2) / 4)
    assert heights[np.searchsorted(grid, 0)] > share / 2 / 0.4


def test_densities_in_closed_form_are_drawn_without_samples(rows):
    y, drawn = rows
    knots = np.linspace(*BOUNDS, 60)
    heights = norm.cdf((knots - drawn.mean[:, None]) / 8)
    heights[:, 0], heights[:, -1] = 0, 1
    prediction = CdfPrediction(knots, heights)
    ax = plots.predictive_densities(prediction, y, rows=[7, 0, 1], bounds=BOUNDS)
    curves = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 400]
    assert len(curves) == 3
    peaks = [ax.lines[0].get_xdata()[curve.argmax()] for curve in curves]
    np.testing.assert_allclose(peaks, drawn.mean[[7, 0, 1]], atol=2.5)
    assert "samples" not in prediction.__dict__
    assert plots.predictive_densities(prediction).get_xlabel() == "value"


def test_values_in_closed_form_are_drawn_against_the_truth():
    prediction = CdfPrediction([0, 0, 10], [[0, 0.5, 1]] * 3)
    ax = plots.predicted_against_true([0.0, 5.0, 9.0], prediction, coverage=0.8)
    np.testing.assert_allclose(np.array(ax.collections[0].get_segments())[:, 1, 1], 6)
    plots.error_by_range([0.0, 5.0, 9.0], prediction)
