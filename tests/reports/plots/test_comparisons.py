import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled
from matplotlib.colors import to_hex

from diffor.reports import plots


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


def test_calibration_of_methods_is_in_points_beyond_nominal():
    ax = plots.calibration_of_methods([0.5, 0.9], {"a": [0.4, 0.85], "b": [0.5, 0.95]}, ours=["a"])
    assert line_labelled(ax, "a").get_ydata().tolist() == pytest.approx([-10, -5])
    assert line_labelled(ax, "a").get_linestyle() == "-"
    assert line_labelled(ax, "b").get_linestyle() == ":"
    assert legend_texts(ax) == ["ideal", "a", "b"]


def test_coverage_by_dataset():
    ax = plots.coverage_by_dataset(["x", "y"], {"a": [0.91, 0.8]})
    assert line_labelled(ax, "a").get_xydata().tolist() == [[0.91, 0], [0.8, 1]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "y"]
    assert legend_texts(ax) == ["87% to 93%", "nominal 90%", "a"]


def test_critical_differences_join_what_cannot_be_told_apart():
    ax = plots.critical_differences(["c", "a", "b"], [3.0, 1.0, 1.5], 1.0, ours=["a"])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    bar = line_labelled(ax, "less than 1.00 apart")
    assert bar.get_ydata().tolist() == pytest.approx([-0.15, 1.15])
    apart = plots.critical_differences(["a", "b"], [1.0, 2.0], 0.5)
    assert apart.get_legend() is None


def test_groups_are_the_longest_runs():
    assert plots.joined_groups([1.0, 2.0, 3.0, 4.0], 2.5) == [(0, 2), (1, 3)]
    assert plots.joined_groups([1.0, 2.0], 1.0) == []
    assert plots.joined_groups([1.0, 1.0, 1.0], 0.5) == [(0, 2)]
