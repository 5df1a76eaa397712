import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled, outside_of_figure
from matplotlib.colors import to_hex

from diffor.paper.experiments import figures
from diffor.reports import plots

METHODS, DATASETS = ["a", "b", "c"], ["x", "y"]


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


def board(**arguments):
    return figures.leaderboard(METHODS, DATASETS, [[3, 2], [1, 1], [2, 3]], ours=["b"], **arguments)


def every_figure():
    return [forest(), curve(xlabel="increments", ylabel="CRPS", log=True), figures.head_map(*map_of(14)), board()]


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


def test_long_names_leave_room_for_the_words_below():
    names = ["b-flow-matching, wine-quality-red"] * 3
    words = "MAE less the full model's, percent of the full model's; right of zero is worse"
    assert outside_of_figure(figures.ablation_forest(names, [1.0] * 3, [0.0] * 3, [2.0] * 3, words)) == 0


def test_published_differences_stand_beside_ours_where_there_are_some():
    ax = figures.ablation_forest(["v", "w"], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0], published=[np.nan, 3.0])
    assert line_labelled(ax, "the paper's").get_xydata()[1].tolist() == [3.0, 1.0]
    assert np.isnan(line_labelled(ax, "the paper's").get_xdata()[0])


def test_intervals_below_zero_are_clear_too():
    ax = figures.ablation_forest(["v"], [-1.0], [-2.0], [-0.5])
    assert legend_texts(ax) == ["the full model", "interval without zero"]


@pytest.mark.parametrize("wrong", [([1.0], [0.0, 0.0], [2.0, 2.0]), ([1.0, 1.0], [0.0], [2.0, 2.0])])
def test_each_variant_needs_its_numbers(wrong):
    with pytest.raises(ValueError, match=r"one number for each name, but got names=2, differences\.shape="):
        figures.ablation_forest(["v", "w"], *wrong)


def test_an_interval_must_hold_its_difference():
    with pytest.raises(ValueError, match=r"but w has 3\.0 and the interval 0\.0 to 2\.0"):
        figures.ablation_forest(["v", "w"], [1.0, 3.0], [0.0, 0.0], [2.0, 2.0])


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


def test_positions_are_named_on_a_log_axis_too():
    ax = curve(log=True)
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16"]
    assert curve().get_xscale() == "linear"


def test_many_positions_have_few_plain_ticks():
    steps = np.arange(1, 101)
    ax = figures.quality_curve(steps, {"A": 1 / steps}, log=True)
    ax.figure.draw_without_rendering()
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1", "10", "100"} <= set(shown)
    assert len(shown) < 15
    assert not any("^" in text for text in shown)


@pytest.mark.parametrize(
    ("positions", "log", "message"),
    [
        ([1, 1, 2], False, r"positions must be numbers that rise, but \[1\.0, 1\.0, 2\.0\]"),
        ([0, 1, 2], True, "and be positive on a log scale, but"),
        ([], False, "positions must be numbers that rise"),
    ],
)
def test_positions_must_rise(positions, log, message):
    with pytest.raises(ValueError, match=message):
        figures.quality_curve(positions, {"A": positions}, log=log)


def test_series_and_spreads_must_fit_the_positions():
    with pytest.raises(ValueError, match=r"each of 2 positions, but A has shape \(3,\)"):
        figures.quality_curve([1, 2], {"A": [1, 2, 3]})
    with pytest.raises(ValueError, match="but series A, spreads B"):
        figures.quality_curve([1, 2], {"A": [1, 2]}, {"B": [1, 2]})
    with pytest.raises(ValueError, match="at least one series"):
        figures.quality_curve([1, 2], {})


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


@pytest.mark.parametrize(
    ("points", "heads"), [([[1.0, 2.0, 3.0]], [1]), ([[1.0, 2.0]], [1, 2]), (np.empty((0, 2)), [])]
)
def test_points_must_be_pairs_with_a_head_each(points, heads):
    with pytest.raises(ValueError, match=r"points must be pairs \(n, 2\) and heads name the head of each, but"):
        figures.head_map(points, heads)


# The table of ranks.


def cells_of(ax):
    texts = {text.get_position(): text.get_text() for text in annotations(ax)}
    n_columns, n_rows = len(ax.get_xticks()), len(ax.get_yticks())
    return [[texts[column, row] for column in range(n_columns)] for row in range(n_rows)]


def test_the_best_method_is_on_top_and_means_stand_at_the_right():
    ax = board()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a", "c"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "mean rank"]
    assert cells_of(ax) == [["1", "1", "1.0"], ["3", "2", "2.5"], ["2", "3", "2.5"]]
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["bold", "normal", "normal"]
    top, bottom = ax.get_ylim()
    assert top > bottom  # the first row is drawn on top


def test_shades_follow_the_ranks_and_numbers_stay_readable():
    ax = board()
    ax.figure.draw_without_rendering()
    colours = ax.collections[0].get_facecolors().reshape(3, 3, 4)
    light = colours[:, :, :3] @ [0.299, 0.587, 0.114]
    np.testing.assert_array_equal(np.argsort(light[:, 0]), [0, 2, 1])  # ranks 1, 3, 2: in grey as well
    for text in annotations(ax):
        column, row = text.get_position()
        ink = 1.0 if to_hex(text.get_color()) == "#ffffff" else 0.07
        assert abs(ink - light[row, column]) > 0.35


def test_scores_become_ranks_and_gaps_stay_open():
    ax = figures.leaderboard(["a", "b"], ["x", "y"], [[0.5, np.nan], [0.1, 7.0]], scores=True)
    assert cells_of(ax) == [["1", "1", "1.0"], ["2", "-", "2.0"]]


def test_ranks_of_scores():
    ranks = figures.rank_columns([[3.0, 1.0], [1.0, 1.0], [2.0, np.nan]])
    np.testing.assert_array_equal(ranks, [[3, 1.5], [1, 1.5], [2, np.nan]])


@pytest.mark.parametrize("ranks", [[[1, 2]], [[1, 2], [1, 2], [np.nan, np.nan]], [1, 2, 3]])
def test_ranks_must_fit_methods_and_data_sets(ranks):
    with pytest.raises(ValueError, match=r"but got methods=3, datasets=2, ranks\.shape="):
        figures.leaderboard(METHODS, DATASETS, ranks)
