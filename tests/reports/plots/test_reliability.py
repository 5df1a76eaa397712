import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.stats import binom, binomtest

pytest.importorskip("matplotlib")

from figure_reading import annotations, forty_rows, legend_texts, line_labelled, outside_of_figure

from diffor import metrics
from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.reports import plots
from diffor.reports.plots.reliability import LEVELS, grade_shares_by_probability, pit_shares


@pytest.fixture
def rows():
    return forty_rows()


# Calibration.


def test_achieved_coverage_is_counted_at_every_level(rows):
    y, prediction = rows
    ax = plots.calibration(y, prediction)
    achieved = line_labelled(ax, "achieved on 40 rows")
    np.testing.assert_allclose(achieved.get_xdata(), np.arange(0.05, 0.96, 0.05))
    for level, share in zip(achieved.get_xdata(), achieved.get_ydata(), strict=True):
        low, high = prediction.interval(level).T
        assert share == np.mean((low <= y) & (y <= high))
    corners = ax.collections[0].get_paths()[0].vertices
    at_half = corners[np.isclose(corners[:, 0], 0.5), 1]
    expected = binom.ppf([0.025, 0.975], 40, 0.5) / 40  # what chance allows
    assert (at_half.min(), at_half.max()) == pytest.approx(tuple(expected))


def test_calibrated_rows_lie_on_the_diagonal_and_overconfident_ones_below():
    rng = np.random.default_rng(0)
    y = rng.normal(size=2000)
    good, narrow = rng.normal(size=(2000, 200)), rng.normal(scale=0.3, size=(2000, 200))
    line = line_labelled(plots.calibration(y, Prediction(good)), "achieved")
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata(), atol=0.04)
    line = line_labelled(plots.calibration(y, Prediction(narrow)), "achieved")
    assert (line.get_ydata() < line.get_xdata()).all()


# Places of the truth.


def test_bars_are_the_shares_of_the_places_and_stand_out_where_they_leave_the_band():
    rng = np.random.default_rng(0)
    y, samples = rng.normal(size=2000), 0.4 * rng.normal(size=(2000, 50))  # too sure of itself
    ax = plots.pit_histogram(y, Prediction(samples), n_bins=5)
    expected = np.histogram(metrics.pit_values(y, samples), bins=5, range=(0, 1))[0] / 2000
    bars = [bar for bars in ax.containers for bar in bars]
    drawn = {round(bar.get_x() + bar.get_width() / 2, 6): bar.get_height() for bar in bars}
    assert [drawn[centre] for centre in sorted(drawn)] == pytest.approx(expected.tolist())
    assert sorted(drawn) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert {bar.get_hatch() for bar in bars} == {"///"}  # every share is off: hills at both ends
    assert expected[0] > 0.25
    assert expected[2] < 0.15


def test_a_calibrated_model_stays_in_the_band():
    rng = np.random.default_rng(1)
    ax = plots.pit_histogram(rng.normal(size=1000), Prediction(rng.normal(size=(1000, 50))), n_bins=4)
    assert legend_texts(ax) == ["95% range if calibrated", "ideal", "share of 1000 rows"]
    low, high = binom.ppf([0.025, 0.975], 1000, 0.25) / 1000
    (band,) = ax.patches[:1]
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((low, high))


def test_places_need_two_bins(rows):
    with pytest.raises(ValueError, match="n_bins must be at least 2, but got n_bins=1; 10 is customary"):
        plots.pit_histogram(*rows, n_bins=1)


# Coverage against width.


def test_coverage_stands_above_the_mean_width(rows):
    y, prediction = rows
    ax = plots.coverage_against_width(y, prediction)
    achieved = line_labelled(ax, "achieved on 40 rows")
    for level, width, share in zip(plots.LEVELS, *achieved.get_data(), strict=True):
        low, high = prediction.interval(level).T
        assert width == pytest.approx((high - low).mean())
        assert share == np.mean((low <= y) & (y <= high))
    promised = line_labelled(ax, "promised")
    np.testing.assert_allclose(promised.get_ydata(), plots.LEVELS)
    np.testing.assert_array_equal(promised.get_xdata(), achieved.get_xdata())
    assert [text.get_text() for text in annotations(ax)] == ["50%", "80%", "90%", "95%"]
    assert annotations(ax)[2].xy == pytest.approx((achieved.get_xdata()[17], 0.9))


# Probabilities of grades.


def test_shares_that_came_true_stand_above_the_probabilities():
    probabilities = [[0.75, 0.25]] * 4
    ax = plots.grade_calibration([0, 0, 0, 1], probabilities, n_bins=2)
    line = ax.containers[0].lines[0]
    assert line.get_xydata().tolist() == [[0.25, 0.25], [0.75, 0.75]]
    assert legend_texts(ax) == ["ideal", "came true, of 8 probabilities"]
    (bars,) = ax.containers[0].lines[2]
    ends = binomtest(1, 4).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [ends.low, ends.high])


def test_right_probabilities_lie_on_the_diagonal_and_boasts_below():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1, 1, 1], size=5000)
    codes = (rng.random((5000, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    said, share, counts = grade_shares_by_probability(codes, probabilities)
    assert counts.sum() == 15_000
    np.testing.assert_allclose(share, said, atol=0.05)
    boast = np.eye(3)[probabilities.argmax(axis=1)]
    said, share, _ = grade_shares_by_probability(codes, boast)
    assert said.tolist() == [0, 1]
    assert share[1] < 0.8


@pytest.mark.parametrize(("codes", "probabilities"), [([0], [[0.5, 0.5]] * 2), ([0, 1], [0.5, 0.5]), ([], [])])
def test_codes_and_probabilities_must_fit(codes, probabilities):
    with pytest.raises(ValueError, match=r"one row for each code .* but got codes\.shape="):
        plots.grade_calibration(codes, probabilities)


def test_figures_become_svg_and_nothing_is_clipped(rows):
    for draw in (plots.pit_histogram, plots.coverage_against_width, plots.calibration):
        ax = draw(*rows)
        assert ElementTree.fromstring(plots.figure_svg(ax)).tag == "svg"
        assert outside_of_figure(ax) == 0


def test_distributions_in_closed_form_have_places_coverage_and_widths():
    random = np.random.default_rng(0)
    prediction = CdfPrediction([0, 0, 10, 20], np.tile([0, 0.5, 0.75, 1], (2000, 1)))
    y = prediction._values_at(random.random((2000, 1)))[:, 0]
    assert pit_shares(y, prediction) == pytest.approx([0.1] * 10, abs=0.03)
    achieved = line_labelled(plots.calibration(y, prediction), "achieved").get_ydata()
    assert (achieved >= LEVELS - 0.03).all()
    assert np.abs(achieved - LEVELS)[LEVELS > 0.55].max() < 0.03  # below, the atom alone holds more
    plots.coverage_against_width(y, prediction)
    assert "samples" not in prediction.__dict__
