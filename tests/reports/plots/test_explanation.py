"""Figures of what moves a model: they show the numbers that they were given."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffor.reports import plots


def test_bars_of_uncertainty_are_divided_as_the_variance_is():
    ax = plots.uncertainty_parts(np.full(40, 1.0), np.linspace(3, 15, 40))
    heights = [bar.get_height() for bar in ax.patches]
    assert len(heights) == 20  # aleatoric below, epistemic above
    first = np.array([4.0, *(4 + 12 / 39 * np.arange(1, 4))])
    assert heights[0] + heights[10] == pytest.approx(np.sqrt(first).mean())
    assert heights[10] / (heights[0] + heights[10]) == pytest.approx(1 / first.mean())
    assert ax.get_xticklabels()[0].get_text() == f"{1 / first.mean():.0%}"


def test_parts_of_other_rows_are_refused():
    with pytest.raises(ValueError, match=r"one number for each row, but got \(3,\) and \(2,\)"):
        plots.uncertainty_parts(np.ones(3), np.ones(2))


def test_bars_of_importance_are_the_numbers_given():
    ax = plots.importances(["size", "a" * 30], [2.0, -0.5], [1.0, 3.0])
    left, right = ax.figure.axes
    assert [bar.get_width() for bar in left.patches] == [2.0, -0.5]
    assert [bar.get_width() for bar in right.patches] == [1.0, 3.0]
    assert [label.get_text() for label in left.get_yticklabels()] == ["size", "a" * 17 + "…"]
    assert len(plots.importances(["size"], None, [1.0]).figure.axes) == 1  # without targets there is no error


def test_bands_are_drawn_over_numbers_and_beside_each_other_for_names():
    quantiles = [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
    ax = plots.dependence_bands([("size", [10.0, 20.0], quantiles), ("city", ["Oslo", "Rome"], quantiles)])
    over, beside = ax.figure.axes
    assert over.lines[0].get_xydata().tolist() == [[10.0, 2.0], [20.0, 3.0]]
    assert len(over.collections) == 2
    assert [label.get_text() for label in beside.get_xticklabels()] == ["Oslo", "Rome"]
    assert [axes.get_xlabel() for axes in (over, beside)] == ["size", "city"]
