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


def test_picked_rows_and_points_are_named_as_such(rows):
    assert figures.predictions_figure(*rows, 0.8, n_rows=300).caption.startswith("Each row once: the predicted median")
    caption = figures.predictions_figure(*rows, None, n_rows=5000).caption
    assert caption == "300 of 5,000 rows, picked at random: the answer as a point."


def test_densities_and_ranges_say_how_many_there_are():
    samples = np.array([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0], [10.0, 20.0, 30.0]])
    figure = figures.densities_figure(samples.mean(axis=1), Prediction(samples), (0.0, 40.0), ["A", "B", "C"])
    assert figure.label.startswith("Predicted densities of 3 rows")
    y = np.arange(100.0)
    assert "in 10 ranges" in figures.range_figure(y, Prediction(y[:, None])).label
    assert "in 1 ranges" in figures.range_figure(np.ones(5), Prediction(np.zeros((5, 1)))).label


def test_calibration_is_shown_in_three_ways(rows):
    words = ("Achieved against nominal", "Histogram of the place", "Share of rows inside")
    found = figures.calibration_figures(*rows)
    assert all(figure.label.startswith(start) for figure, start in zip(found, words, strict=True))


def test_increments_say_where_they_end():
    figure = figures.increments_figure(np.array([25.0, 25.0, 5.0, 0.0]), 0.0, 100.0, 60.0, "Row 1.")
    assert figure.caption.startswith("Row 1. Cells are filled on average")
    assert figure.label == "4 cells that fill from coarse to fine up to 55; the true value is 60."
