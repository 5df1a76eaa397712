import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib")

import matplotlib
from figure_reading import BOUNDS, a_history, forty_rows, legend_texts, outside_of_figure
from matplotlib.figure import Figure

from diffor.core.prediction import Prediction
from diffor.reports import plots


@pytest.fixture
def rows():
    return forty_rows()


def every_figure(rows, **where):
    y, prediction = rows
    return [
        plots.predicted_against_true(y, prediction, **where),
        plots.predictive_densities(prediction, y, **where),
        plots.calibration(y, prediction, **where),
        plots.increments_of([25, 10, 0, 5], *BOUNDS, **where),
        plots.training_history(a_history(), **where),
    ]


def test_given_axes_are_drawn_on_and_returned(rows):
    figure = Figure()
    ax = figure.add_subplot()
    for drawn in every_figure(rows, ax=ax):
        assert drawn is ax


def test_new_figures_are_separate_labelled_and_leave_no_trace(rows):
    before = dict(matplotlib.rcParams)
    axes = every_figure(rows)
    assert len({id(ax.figure) for ax in axes}) == len(axes)
    assert dict(matplotlib.rcParams) == before
    for ax in axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel() or [label.get_text() for label in ax.get_yticklabels()]
        assert legend_texts(ax)
        assert outside_of_figure(ax) == 0


def test_pyplot_is_not_even_imported():
    code = (
        "import sys; from diffor.reports import plots; from diffor.core.prediction import Prediction\n"
        "plots.figure_svg(plots.predicted_against_true([1.0], Prediction([[0.0, 2.0]])))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_matplotlib_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (lambda one: plots.predicted_against_true([1.0], one), plots.predictive_densities):
        with pytest.raises(ImportError, match=r"need matplotlib: install it with pip install 'diffor\[plots\]'"):
            draw(Prediction([[0.0, 2.0]]))


@pytest.mark.parametrize("y", [[1.0], [[1.0, 2.0]]])
def test_a_truth_of_another_length_is_refused(y):
    for draw in (plots.predicted_against_true, plots.calibration, plots.pit_histogram, plots.coverage_against_width):
        with pytest.raises(ValueError, match="one value for each predicted row"):
            draw(y, Prediction([[0.0, 1.0], [0.0, 1.0]]))


# SVG.


def test_svg_is_one_clean_element(rows):
    svg = plots.figure_svg(plots.predicted_against_true(*rows))
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    assert "http" not in svg
    assert "<style" not in svg  # it would apply to the page around it
    assert "currentColor" in svg
    assert "#000000" not in svg
    linked = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert {first or second for first, second in linked} <= ids
