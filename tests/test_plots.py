import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.stats import binom, norm

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from diffor import plots
from diffor.prediction import Prediction
from diffor.train import History

BOUNDS = (0.0, 100.0)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    centre = rng.uniform(10, 90, 40)
    y = np.clip(centre + rng.normal(scale=8, size=40), *BOUNDS)
    return y, Prediction(np.clip(centre[:, None] + rng.normal(scale=8, size=(40, 200)), *BOUNDS))


def line_labelled(ax, start):
    return next(line for line in ax.lines if str(line.get_label()).startswith(start))


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# All functions alike.


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
        "import sys; from diffor import plots; from diffor.prediction import Prediction\n"
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


@pytest.mark.parametrize(
    "call", ["predicted_against_true([1.0], P)", "calibration([1.0], P)", "predictive_densities(P)"]
)
def test_a_missing_matplotlib_names_the_cure(call):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from diffor import plots; from diffor.prediction import Prediction\n"
        f"P = Prediction([[0.0, 2.0]]); plots.{call}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0
    assert run.stderr.strip().endswith(
        "ImportError: figures need matplotlib: install it with pip install 'diffor[plots]'"
    )


@pytest.mark.parametrize("draw", [plots.predicted_against_true, plots.calibration])
@pytest.mark.parametrize("y", [[1.0], [[1.0, 2.0]], [1.0, 2.0, 3.0]])
def test_a_truth_of_another_length_is_refused(draw, y):
    with pytest.raises(ValueError, match="one value for each predicted row"):
        draw(y, Prediction([[0.0, 1.0], [0.0, 1.0]]))


# Predicted against true.


def test_points_stand_at_truth_and_median_in_the_group_of_their_interval(rows):
    y, prediction = rows
    ax = plots.predicted_against_true(y, prediction, coverage=0.5)
    low, high = prediction.interval(0.5).T
    inside = (low <= y) & (y <= high)
    assert 0 < inside.sum() < len(y)
    looks = []
    for start, chosen in (("interval holds", inside), ("interval misses", ~inside)):
        points = line_labelled(ax, start)
        np.testing.assert_array_equal(points.get_xdata(), y[chosen])
        np.testing.assert_array_equal(points.get_ydata(), prediction.median[chosen])
        looks.append((to_hex(points.get_color()), points.get_marker()))
    assert looks[0][0] != looks[1][0]
    assert looks[0][1] != looks[1][1]  # the groups differ in grey as well


def test_intervals_are_vertical_lines_from_low_to_high(rows):
    y, prediction = rows
    ax = plots.predicted_against_true(y, prediction, coverage=0.8)
    segments = np.concatenate([np.array(lines.get_segments()) for lines in ax.collections])
    drawn = sorted((x, low, high) for (x, low), (_, high) in segments)
    expected = sorted((t, low, high) for t, (low, high) in zip(y, prediction.interval(0.8), strict=True))
    np.testing.assert_allclose(drawn, expected)
    assert "80% interval" in ax.get_ylabel()


def test_the_legend_tells_the_achieved_share_and_the_diagonal_is_there():
    prediction = Prediction(np.tile(np.arange(101.0), (4, 1)))
    ax = plots.predicted_against_true([50, 60, 70, 99.5], prediction, coverage=0.9)
    assert legend_texts(ax)[:2] == ["interval holds the truth: 3 of 4 (75%)", "interval misses it: 1 of 4 (25%)"]
    diagonal = line_labelled(ax, "predicted = true")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    assert diagonal.get_xdata()[0] < 50
    assert diagonal.get_xdata()[1] == 99.5


def test_all_inside_is_drawn_too():
    ax = plots.predicted_against_true([1.0], Prediction([[0.0, 2.0]]))
    assert len(line_labelled(ax, "interval misses it: 0 of 1").get_xdata()) == 0


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


def test_equal_samples_are_a_narrow_hill():
    heights = plots.density([3.0] * 10, np.linspace(0, 10, 101), (0.0, 10.0))
    assert heights.argmax() == 30
    assert np.isfinite(heights).all()


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
    assert (medians[0], medians[-1]) == (prediction.median.min(), prediction.median.max())
    assert (np.diff(medians) > 0).all()
    assert legend_texts(ax) == ["predicted density"]


def test_fewer_rows_than_places_are_each_shown_once():
    ax = plots.predictive_densities(Prediction([[1.0, 2.0], [3.0, 4.0]]))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["row 0", "row 1"]


def test_samples_outside_the_bounds_are_refused():
    with pytest.raises(ValueError, match="inside bounds"):
        plots.predictive_densities(Prediction([[1.0, 12.0]]), bounds=(0, 10))


# Calibration.


def test_achieved_coverage_is_counted_at_every_level(rows):
    y, prediction = rows
    ax = plots.calibration(y, prediction)
    achieved = line_labelled(ax, "achieved on 40 rows")
    np.testing.assert_allclose(achieved.get_xdata(), np.arange(0.05, 0.96, 0.05))
    for level, share in zip(achieved.get_xdata(), achieved.get_ydata(), strict=True):
        low, high = prediction.interval(level).T
        assert share == np.mean((low <= y) & (y <= high))
    ideal = line_labelled(ax, "ideal")
    assert ideal.get_xydata().tolist() == [[0, 0], [1, 1]]


def test_the_band_is_what_chance_allows(rows):
    y, prediction = rows
    ax = plots.calibration(y, prediction)
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    at_half = corners[np.isclose(corners[:, 0], 0.5), 1]
    expected = binom.ppf([0.025, 0.975], 40, 0.5) / 40
    assert (at_half.min(), at_half.max()) == pytest.approx(tuple(expected))


def test_calibrated_rows_lie_on_the_diagonal_and_overconfident_ones_below():
    rng = np.random.default_rng(0)
    y = rng.normal(size=2000)
    good, narrow = rng.normal(size=(2000, 200)), rng.normal(scale=0.3, size=(2000, 200))
    line = line_labelled(plots.calibration(y, Prediction(good)), "achieved")
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata(), atol=0.04)
    line = line_labelled(plots.calibration(y, Prediction(narrow)), "achieved")
    assert (line.get_ydata() < line.get_xdata()).all()


# Increments.


def test_cells_tile_the_range_and_are_filled_as_far_as_the_increments():
    ax = plots.increments_of([25, 20, 10, 0], *BOUNDS, y=60)
    cells, filled = ax.containers
    assert [(bar.get_x(), bar.get_width()) for bar in cells] == [(0, 25), (25, 25), (50, 25), (75, 25)]
    assert [(bar.get_x(), bar.get_width()) for bar in filled] == [(0, 25), (25, 20), (50, 10), (75, 0)]
    so_far = line_labelled(ax, "value so far")
    assert so_far.get_xdata().tolist() == [25, 45, 55, 55]
    assert so_far.get_ydata().tolist() == [1, 2, 3, 4]
    assert line_labelled(ax, "true value 60.0").get_xdata() == [60, 60]
    assert ax.get_xlabel().endswith("reach 55.0")
    low, high = ax.get_ylim()
    assert low > high  # the first increment stands on top


def test_increments_start_at_the_lower_bound():
    ax = plots.increments_of([1.0, 0.5], 10, 12)
    assert line_labelled(ax, "value so far").get_xdata().tolist() == [11, 11.5]
    assert not any("true" in text for text in legend_texts(ax))


def test_many_increments_are_not_all_labelled():
    ax = plots.increments_of(np.full(64, 0.5), 0, 64)
    assert len(ax.containers[0]) == 64
    assert len(ax.get_yticks()) <= 16


@pytest.mark.parametrize("wrong", [[30, 0, 0, 0], [-1, 0, 0, 0]])
def test_increments_that_do_not_fit_their_cells_are_refused(wrong):
    with pytest.raises(ValueError, match="cell's width 25, however"):
        plots.increments_of(wrong, *BOUNDS)


@pytest.mark.parametrize(("increments", "low", "high"), [([[1.0]], 0, 1), ([], 0, 1), ([0.0], 1, 1)])
def test_increments_of_a_wrong_shape_or_range_are_refused(increments, low, high):
    with pytest.raises(ValueError, match="one row"):
        plots.increments_of(increments, low, high)


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


def test_history_takes_records_without_losses(history):
    history.records.append({"step": 40.0, "seconds": 4.0, "valid_crps": 2.4})
    ax = plots.training_history(history)
    assert len(line_labelled(ax, "validation CRPS").get_xdata()) == 4


def test_an_empty_history_is_refused():
    with pytest.raises(ValueError, match="at least one record"):
        plots.training_history(History())


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


# Comparisons of methods.


def annotations(ax):
    return [child for child in ax.texts if child.get_text()]


def test_scores_against_seconds():
    ax = plots.score_against_seconds(["a", "b", "c"], [1, 10, 100], [3.0, 1.0, 2.0], ours=["b"], seconds_label="s")
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "s"
    front = line_labelled(ax, "not beaten")
    assert front.get_xydata().tolist() == [[1, 3], [10, 1]]  # c is slower and worse than b
    assert [text.get_text() for text in annotations(ax)] == ["b", "c", "a"]
    assert [text.get_fontweight() for text in annotations(ax)] == ["bold", "normal", "normal"]
    points = [line for line in ax.lines if len(line.get_xydata()) == 1]
    assert [to_hex(line.get_color()) for line in points] == [c.lower() for c in ("#0072B2", "#D55E00", "#0072B2")]


def test_names_beside_the_points_do_not_touch():
    methods = [f"method {i}" for i in range(20)]
    ax = plots.score_against_seconds(methods, np.arange(1, 21), 1 + np.arange(20) * 1e-3)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in annotations(ax)]
    tops = [box.y1 for box in boxes[:-1]]
    assert all(top <= below.y0 + 1 for top, below in zip(tops, boxes[1:], strict=True))


@pytest.mark.parametrize(("seconds", "scores"), [([1], [1, 2]), ([0, 1], [1, 2]), ([], [])])
def test_scores_and_seconds_must_fit_the_methods(seconds, scores):
    with pytest.raises(ValueError, match="however: methods="):
        plots.score_against_seconds(["a", "b"][: len(scores)], seconds, scores)


def test_calibration_of_methods_is_in_points_beyond_nominal():
    ax = plots.calibration_of_methods([0.5, 0.9], {"a": [0.4, 0.85], "b": [0.5, 0.95]}, ours=["a"])
    assert line_labelled(ax, "a").get_ydata().tolist() == pytest.approx([-10, -5])
    assert line_labelled(ax, "a").get_linestyle() == "-"
    assert line_labelled(ax, "b").get_linestyle() == ":"
    assert legend_texts(ax) == ["ideal", "a", "b"]
    with pytest.raises(ValueError, match="however: c has shape"):
        plots.calibration_of_methods([0.5, 0.9], {"c": [0.5]})


def test_coverage_by_dataset():
    ax = plots.coverage_by_dataset(["x", "y"], {"a": [0.91, 0.8]})
    assert line_labelled(ax, "a").get_xydata().tolist() == [[0.91, 0], [0.8, 1]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "y"]
    assert legend_texts(ax) == ["87% to 93%", "nominal 90%", "a"]
    with pytest.raises(ValueError, match="however: b has shape"):
        plots.coverage_by_dataset(["x", "y"], {"b": [0.9]})


def test_critical_differences_join_what_cannot_be_told_apart():
    ax = plots.critical_differences(["c", "a", "b"], [3.0, 1.0, 1.5], 1.0, ours=["a"])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    bar = line_labelled(ax, "less than 1.00 apart")
    assert bar.get_ydata().tolist() == pytest.approx([-0.15, 1.15])
    apart = plots.critical_differences(["a", "b"], [1.0, 2.0], 0.5)
    assert apart.get_legend() is None
    with pytest.raises(ValueError, match="however: methods=2"):
        plots.critical_differences(["a", "b"], [1.0], 1.0)


def test_groups_are_the_longest_runs():
    assert plots.joined_groups([1.0, 2.0, 3.0, 4.0], 2.5) == [(0, 2), (1, 3)]
    assert plots.joined_groups([1.0, 2.0], 1.0) == []
    assert plots.joined_groups([1.0, 1.0, 1.0], 0.5) == [(0, 2)]


def figures_of_methods():
    return [
        plots.score_against_seconds(["a"], [1.0], [1.0]),
        plots.calibration_of_methods([0.5], {"a": [0.5]}),
        plots.coverage_by_dataset(["x"], {"a": [0.9]}),
        plots.critical_differences(["a", "b"], [1.0, 2.0], 3.0),
    ]


def test_figures_of_methods_become_the_same_svg_each_time():
    for ax, again in zip(figures_of_methods(), figures_of_methods(), strict=True):
        svg = plots.figure_svg(ax)
        assert ElementTree.fromstring(svg).tag == "svg"
        assert svg == plots.figure_svg(again)
