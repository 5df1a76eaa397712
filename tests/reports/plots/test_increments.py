import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import BOUNDS, legend_texts, line_labelled, outside_of_figure

from diffor.reports import plots

# Increments of one row.


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


@pytest.mark.parametrize("wrong", [[30, 0, 0, 0], [-1, 0, 0, 0]])
def test_increments_that_do_not_fit_their_cells_are_refused(wrong):
    with pytest.raises(ValueError, match="cell's width 25, but got"):
        plots.increments_of(wrong, *BOUNDS)


@pytest.mark.parametrize(("increments", "low", "high"), [([[1.0]], 0, 1), ([], 0, 1), ([0.0], 1, 1)])
def test_increments_of_a_wrong_shape_or_range_are_refused(increments, low, high):
    with pytest.raises(ValueError, match="one row"):
        plots.increments_of(increments, low, high)


# Increments of many rows.


def test_scales_show_means_and_errors():
    true, predicted = [[10.0, 4.0], [10.0, 0.0]], [[9.0, 2.0], [10.0, 4.0]]
    ax = plots.increments_by_scale(true, predicted)
    assert [bar.get_height() for bar in ax.containers[0]] == [0.5, 3.0]
    assert line_labelled(ax, "true").get_xydata().tolist() == [[1, 10], [2, 2]]
    assert line_labelled(ax, "predicted").get_xydata().tolist() == [[1, 9.5], [2, 3]]
    assert line_labelled(ax, "true").get_marker() != line_labelled(ax, "predicted").get_marker()


@pytest.mark.parametrize("predicted", [[[1.0]], [1.0, 2.0], []])
def test_scales_of_another_shape_are_refused(predicted):
    with pytest.raises(ValueError, match=r"same shape \(n, S\), but got true\.shape=\(1, 2\)"):
        plots.increments_by_scale([[1.0, 2.0]], predicted)


# Along the chain.


def test_bands_and_median_are_those_of_the_samples():
    values = np.random.default_rng(0).normal(size=(101, 3)) * [0.5, 2, 8]
    ax = plots.denoising_trajectory([1000, 500, 1], values, y=2.5)
    median = line_labelled(ax, "median")
    np.testing.assert_allclose(median.get_ydata(), np.median(values, axis=0))
    assert median.get_xdata().tolist() == [1000, 500, 1]
    for band, level in zip(ax.collections, (0.9, 0.5), strict=True):
        corners = band.get_paths()[0].vertices
        at_end = corners[corners[:, 0] == 1, 1]
        assert (at_end.min(), at_end.max()) == pytest.approx(
            tuple(np.quantile(values[:, 2], [(1 - level) / 2, (1 + level) / 2]))
        )
    assert line_labelled(ax, "true value 2.5").get_ydata() == [2.5, 2.5]


def test_a_few_samples_are_drawn_one_by_one():
    values = np.arange(30.0).reshape(10, 3)
    ax = plots.denoising_trajectory([3, 2, 1], values, n_paths=2)
    assert ax.get_xlim() == (3, 1)  # time falls from left to right
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "2", "1"]
    assert not any("true" in text for text in legend_texts(ax))
    grey = [line.get_ydata().tolist() for line in ax.lines if line.get_linewidth() == 0.8]
    assert grey == values[:2].tolist()


@pytest.mark.parametrize(("times", "values"), [([1, 2], [[1.0, 2.0]]), ([2, 1], [[1.0]]), ([2, 1], [1.0, 2.0])])
def test_times_must_fall_and_fit_the_values(times, values):
    with pytest.raises(ValueError, match=r"times must fall .* but got times="):
        plots.denoising_trajectory(times, values)


def test_figures_become_svg_and_nothing_is_clipped():
    rng = np.random.default_rng(0)
    for ax in (
        plots.increments_by_scale(rng.random((5, 64)), rng.random((5, 64))),
        plots.denoising_trajectory(np.arange(64, 0, -1), rng.random((5, 64)), y=0.5),
    ):
        assert ElementTree.fromstring(plots.figure_svg(ax)).tag == "svg"
        assert outside_of_figure(ax) == 0
        assert len(ax.get_xticks()) <= 16
