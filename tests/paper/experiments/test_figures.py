import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled, outside_of_figure
from matplotlib.colors import to_hex

from diffor.paper.experiments import figures
from diffor.reports import plots


def forest():
    return figures.ablation_forest(
        ["without one", "without two"], [1.0, 0.2], [0.5, -0.1], [1.5, 0.5], "CRPS less that of the full model"
    )


def curve(**arguments):
    return figures.quality_curve([1, 4, 16], {"A": [3, 2, 1], "B": [3, 3, 2]}, {"A": [0.1, 0.2, 0.3]}, **arguments)


def map_of(n_heads, rows=20, spread=10.0):
    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(n_heads, 2))
    points = np.concatenate([centre + rng.normal(size=(rows, 2)) for centre in centres])
    return points, np.repeat(np.arange(1, n_heads + 1), rows)


def every_figure():
    return [forest(), curve(xlabel="increments", ylabel="CRPS", log=True), figures.head_map(*map_of(14))]


def test_figures_become_the_same_svg_each_time_and_nothing_is_clipped():
    for ax, again in zip(every_figure(), every_figure(), strict=True):
        svg = plots.figure_svg(ax)
        assert ElementTree.fromstring(svg).tag == "svg"
        assert svg == plots.figure_svg(again)
        assert outside_of_figure(ax) == 0


# Ablations.


def test_variants_stand_at_their_differences_with_their_intervals():
    ax = forest()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["without one", "without two"]
    assert line_labelled(ax, "interval without zero").get_xydata().tolist() == [[1.0, 0]]
    assert line_labelled(ax, "interval with zero").get_xydata().tolist() == [[0.2, 1]]
    segments = np.concatenate([np.array(lines.get_segments()) for lines in ax.collections])
    assert segments[:, :, 0].tolist() == [[0.5, 1.5], [-0.1, 0.5]]
    assert line_labelled(ax, "the full model").get_xdata() == [0, 0]
    assert ax.get_xlabel() == "CRPS less that of the full model"


def test_clear_and_unclear_differences_look_different_also_in_grey():
    ax = forest()
    clear, unclear = line_labelled(ax, "interval without"), line_labelled(ax, "interval with zero")
    assert clear.get_marker() != unclear.get_marker()
    assert to_hex(clear.get_color()) != to_hex(unclear.get_color())
    assert clear.get_markerfacecolor() != "none"
    assert unclear.get_markerfacecolor() == "none"


def test_an_interval_that_ends_at_zero_holds_it():
    ax = figures.ablation_forest(["v"], [1.0], [0.0], [2.0])
    assert legend_texts(ax) == ["the full model", "interval with zero"]
    assert ax.get_xlabel() == "difference to the full model"


def test_published_differences_stand_beside_ours_where_there_are_some():
    ax = figures.ablation_forest(["v", "w"], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0], published=[np.nan, 3.0])
    assert line_labelled(ax, "the paper's").get_xydata()[1].tolist() == [3.0, 1.0]
    assert np.isnan(line_labelled(ax, "the paper's").get_xdata()[0])


# Curves.


def test_each_series_is_a_line_with_its_own_look():
    ax = curve(xlabel="increments", ylabel="CRPS")
    lines = [container.lines[0] for container in ax.containers]
    assert [line.get_ydata().tolist() for line in lines] == [[3, 2, 1], [3, 3, 2]]
    assert lines[0].get_xdata().tolist() == [1, 4, 16]
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(lines[0], look)() != getattr(lines[1], look)()
    assert legend_texts(ax) == ["A", "B"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("increments", "CRPS")


def test_error_bars_are_as_long_as_the_spreads_and_may_be_absent():
    with_bars, without = curve().containers
    (bars,) = with_bars.lines[2]
    ends = np.array(bars.get_segments())[:, :, 1]
    np.testing.assert_allclose(ends, [[2.9, 3.1], [1.8, 2.2], [0.7, 1.3]])
    assert without.lines[2] == ()


@pytest.mark.parametrize("log", [False, True])
def test_error_bars_of_several_series_stand_beside_each_other(log):
    series, spreads = {"A": [3, 2, 1], "B": [3, 3, 2]}, {"A": [0.1] * 3, "B": [0.2] * 3}
    ax = figures.quality_curve([1, 4, 16], series, spreads, log=log)
    first, second = (container.lines[0].get_xdata() for container in ax.containers)
    assert (first < second).all()
    np.testing.assert_allclose(np.sqrt(first * second) if log else (first + second) / 2, [1, 4, 16])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16"]


def test_many_positions_have_few_plain_ticks():
    steps = np.arange(1, 101)
    ax = figures.quality_curve(steps, {"A": 1 / steps}, log=True)
    ax.figure.draw_without_rendering()
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1", "10", "100"} <= set(shown)
    assert len(shown) < 15
    assert not any("^" in text for text in shown)


# Maps of heads.


def test_each_head_has_its_points_its_look_and_its_number():
    points, heads = map_of(14)
    ax = figures.head_map(points, heads)
    looks = set()
    for head in range(1, 15):
        line = next(line for line in ax.lines if line.get_label() == f"head {head}")
        np.testing.assert_array_equal(line.get_xydata(), points[heads == head])
        looks.add((to_hex(line.get_color()), line.get_marker()))
    assert len(looks) == 14
    assert [text.get_text() for text in annotations(ax)] == [str(head) for head in range(1, 15)]
    assert legend_texts(ax) == [f"head {head}" for head in range(1, 15)]


def test_sixty_heads_still_look_different():
    ax = figures.head_map(*map_of(60, rows=1))
    assert (
        len({(to_hex(line.get_color()), line.get_marker()) for line in ax.lines if line.get_marker() != "None"}) == 60
    )


def test_numbers_stand_at_the_medians_where_there_is_room():
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.5], [10.0, 9.0], [10.0, 9.5], [10.0, 10.0]])
    ax = figures.head_map(points, ["a", "a", "a", "b", "b", "b"])
    places = {text.get_text(): text.get_position() for text in annotations(ax)}
    assert places["a"] == pytest.approx((0.0, 0.5))
    assert places["b"] == pytest.approx((10.0, 9.5))


def test_numbers_of_heads_at_one_place_do_not_cover_each_other():
    points = np.concatenate([np.zeros((9, 2)), [[10.0, 10.0]]])
    ax = figures.head_map(points, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4])
    ax.figure.draw_without_rendering()
    places = np.array([ax.transAxes.inverted().transform(ax.transData.transform(text.get_position()))
                       for text in annotations(ax)])  # fmt: skip
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[~np.eye(4, dtype=bool)].min() > 0.06
