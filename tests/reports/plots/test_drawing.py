import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib")

import matplotlib
from figure_reading import BOUNDS, forty_rows, legend_texts
from matplotlib.figure import Figure

from diffor.core.prediction import Prediction
from diffor.reports import plots
from diffor.training.loop import History


@pytest.fixture
def rows():
    return forty_rows()


def every_figure(rows, history, **where):
    y, prediction = rows
    return [
        plots.predicted_against_true(y, prediction, **where),
        plots.predictive_densities(prediction, y, **where),
        plots.calibration(y, prediction, **where),
        plots.increments_of([25, 10, 0, 5], *BOUNDS, **where),
        plots.training_history(history, **where),
    ]


@pytest.fixture
def history():
    records = [
        {"step": 10.0, "seconds": 1.0, "denoise": 0.5, "increment": 0.04, "valid_crps": 3.0},
        {"step": 20.0, "seconds": 2.0, "denoise": 0.3, "increment": 0.02, "valid_crps": 2.0},
        {"step": 30.0, "seconds": 3.0, "denoise": 0.2, "increment": 0.01, "valid_crps": 2.5},
    ]
    return History(records, best_step=20, best_score=2.0, steps=30)


def test_given_axes_are_drawn_on_and_returned(rows, history):
    figure = Figure()
    ax = figure.add_subplot()
    for drawn in every_figure(rows, history, ax=ax):
        assert drawn is ax


def test_new_figures_are_separate_and_leave_no_trace(rows, history):
    before = dict(matplotlib.rcParams)
    axes = every_figure(rows, history)
    assert len({id(ax.figure) for ax in axes}) == len(axes)
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_not_even_imported():
    code = (
        "import sys; from diffor.reports import plots; from diffor.core.prediction import Prediction\n"
        "plots.figure_svg(plots.predicted_against_true([1.0], Prediction([[0.0, 2.0]])))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_figure_has_labelled_axes_and_a_legend(rows, history):
    for ax in every_figure(rows, history):
        assert ax.get_xlabel()
        assert ax.get_ylabel() or [label.get_text() for label in ax.get_yticklabels()]
        assert legend_texts(ax)


def test_nothing_is_clipped_by_the_edge_of_the_figure(rows, history):
    for ax in every_figure(rows, history):
        ax.figure.draw_without_rendering()
        everything = ax.figure.get_tightbbox()  # inches
        width, height = ax.figure.get_size_inches()
        assert everything.x0 >= 0
        assert everything.y0 >= 0
        assert everything.x1 <= width
        assert everything.y1 <= height


@pytest.mark.parametrize("call", ["predicted_against_true([1.0], P)", "predictive_densities(P)"])
def test_a_missing_matplotlib_names_the_cure(call):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from diffor.reports import plots; from diffor.core.prediction import Prediction\n"
        f"P = Prediction([[0.0, 2.0]]); plots.{call}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0
    assert run.stderr.strip().endswith(
        "ImportError: figures need matplotlib: install it with pip install 'diffor[plots]'"
    )


@pytest.mark.parametrize("draw", [plots.predicted_against_true, plots.calibration])
@pytest.mark.parametrize("y", [[1.0], [[1.0, 2.0]]])
def test_a_truth_of_another_length_is_refused(draw, y):
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


def test_svg_is_the_same_for_the_same_figure(rows):
    first, second = (plots.figure_svg(plots.calibration(*rows)) for _ in range(2))
    assert first == second
