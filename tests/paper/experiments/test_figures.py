import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled, outside_of_figure
from matplotlib.colors import to_hex

from diffor.paper.experiments import figures
from diffor.paper.experiments.contrasts import COMPARED, Contrast
from diffor.reports import plots

MAE = COMPARED[0]


def contrast(dataset, method, mean, low, high):
    return Contrast(dataset, method, "mae", mean, low, high, 5, 1.0, 1.0)


FOREST = [
    contrast("wine", "b", 0.01, 0.005, 0.015),
    contrast("all sets", "b", 0.002, -0.001, 0.005),
    contrast("all sets", "c", 0.01, 0.0, 0.02),
]
POSITIONS = [(1, "one"), (4, "base"), (16, "many")]
CURVE = [
    contrast("A", "one", 0.03, 0.02, 0.04), contrast("A", "many", -0.01, -0.03, 0.01),
    contrast("B", "one", 0.05, 0.02, 0.08),
]  # fmt: skip


def curve(found=CURVE, positions=POSITIONS):
    return figures.quality_curve(positions, found, MAE, "base", "increments")


def map_of(n_heads, rows=20, spread=10.0):
    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(n_heads, 2))
    points = np.concatenate([centre + rng.normal(size=(rows, 2)) for centre in centres])
    return points, np.repeat(np.arange(1, n_heads + 1), rows)


@pytest.mark.parametrize(
    "draw", [lambda: figures.ablation_forest(FOREST, MAE, {}), curve, lambda: figures.head_map(*map_of(14))]
)
def test_figures_become_the_same_svg_each_time_and_nothing_is_clipped(draw):
    ax = draw()
    svg = plots.figure_svg(ax)
    assert ElementTree.fromstring(svg).tag == "svg"
    assert svg == plots.figure_svg(draw())
    assert outside_of_figure(ax) == 0


def test_variants_stand_at_their_differences_with_their_intervals():
    ax = figures.ablation_forest(FOREST, MAE, {})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b, wine", "b, all sets", "c, all sets"]
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["normal", "bold", "bold"]
    clear, unclear = line_labelled(ax, "interval without"), line_labelled(ax, "interval with zero")
    assert clear.get_xydata().tolist() == [[1.0, 0]]
    assert unclear.get_xydata().tolist() == [[0.2, 1], [1.0, 2]]  # an interval that ends at zero holds it
    segments = np.concatenate([np.array(lines.get_segments()) for lines in ax.collections])
    np.testing.assert_allclose(segments[:, :, 0], [[0.5, 1.5], [-0.1, 0.5], [0, 2]])
    assert line_labelled(ax, "the full model").get_xdata() == [0, 0]
    assert " ".join(ax.get_xlabel().split()) == "MAE less the full model's, percent of the full model's; right of " + (
        "zero is worse"
    )
    assert clear.get_marker() != unclear.get_marker()  # to be told apart in grey as well
    assert (clear.get_markerfacecolor() != "none", unclear.get_markerfacecolor()) == (True, "none")


def test_published_differences_stand_beside_those_of_all_sets_or_of_the_only_one():
    ax = figures.ablation_forest(FOREST, MAE, {"b": 0.03})
    np.testing.assert_allclose(line_labelled(ax, "the paper's").get_xdata(), [np.nan, 3.0, np.nan])
    alone = figures.ablation_forest(FOREST[:1], MAE, {"b": 0.03})
    np.testing.assert_allclose(line_labelled(alone, "the paper's").get_xdata(), [3.0])
    assert "the paper's" not in legend_texts(figures.ablation_forest(FOREST, MAE, {}))


def test_each_series_is_a_line_with_its_own_look_and_bars_that_stand_beside_each_other():
    ax = curve([contrast("A", "one", 0.03, 0.02, 0.04), contrast("B", "one", 0.05, 0.02, 0.08)])
    first, second = (container.lines[0] for container in ax.containers)
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(first, look)() != getattr(second, look)()
    assert legend_texts(ax) == ["A", "B"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("increments", "MAE less the base's, percent; lower is better")
    np.testing.assert_allclose(
        np.array(first.get_ydata(), dtype=float), [3.0, 0.0, np.nan]
    )  # the base has no difference to itself
    ends = np.array(ax.containers[1].lines[2][0].get_segments()[0])[:, 1]
    np.testing.assert_allclose(ends, [2.0, 8.0])
    for log, positions in ((False, POSITIONS), (True, [(1, "one"), (8, "base"), (64, "many")])):
        ax = curve(positions=positions)
        low, high = (container.lines[0].get_xdata() for container in ax.containers)
        values = [value for value, _ in positions]
        assert ((low < high).all(), ax.get_xscale() == "log") == (True, log)
        np.testing.assert_allclose(np.sqrt(low * high) if log else (low + high) / 2, values)
        assert [label.get_text() for label in ax.get_xticklabels()] == [str(value) for value in values]


def test_many_positions_have_few_plain_ticks():
    steps = [(step, str(step)) for step in range(1, 101)]
    ax = curve([contrast("A", str(step), 1 / step, 0, 2) for step in range(1, 101)], steps)
    ax.figure.draw_without_rendering()
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1", "10", "100"} <= set(shown)
    assert len(shown) < 15
    assert not any("^" in text for text in shown)


def test_each_head_has_its_points_its_look_and_its_number():
    points, heads = map_of(14)
    ax = figures.head_map(points, heads)
    for head in range(1, 15):
        line = next(line for line in ax.lines if line.get_label() == f"head {head}")
        np.testing.assert_array_equal(line.get_xydata(), points[heads == head])
    assert [text.get_text() for text in annotations(ax)] == [str(head) for head in range(1, 15)]
    assert legend_texts(ax) == [f"head {head}" for head in range(1, 15)]
    many = figures.head_map(*map_of(60, rows=1))
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in many.lines if line.get_marker() != "None"}
    assert len(looks) == 60


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
