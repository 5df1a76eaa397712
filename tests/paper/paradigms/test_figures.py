import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import legend_texts, line_labelled, outside_of_figure

from diffor.paper.paradigms import figures


def measured(mean):
    return {"mean": mean, "deviation": 0.1}


def collapse():
    grid = np.linspace(-3, 3, 61)
    samples = {"diffor": [-2.0] * 30 + [2.0] * 10, "diffor-heads": [0.0] * 20 + [4.0] * 20}
    return {"example": {"grid": grid, "density": np.exp(-(grid**2)), "squared": 0.25, "samples": samples}}


def dependency():
    methods = [
        {"method": method, "n_ranks": n_ranks, "joint": measured(4.0 * n_ranks), "ranks": measured(0.1 * n_ranks)}
        for method in ("or-cnn", "coral", "corn", "diffor", "truth")
        for n_ranks in (8, 64)
    ]
    exact = {"thresholds": [1, 7, 63], "correlation": [0.0, 2.0, 40.0], "impossible": [0.0, 0.5, 1.0]}
    return {**exact, "methods": methods}


def vocabulary(chosen=slice(None)):
    designs = [("gr", 10, 7, 7.0, 45.0), ("gr", 1000, 40, 0.1, 42.0), ("gr", 1000, 4, 9.0, 48.0),
               ("gor", 1000, 60, 0.2, 43.0)]  # fmt: skip
    found = [
        {"method": method, "n_units": units, "n_tokens": measured(n_tokens), "written_mae": measured(written),
         "excess": measured(excess)}
        for method, units, n_tokens, written, excess in designs[chosen]
    ]  # fmt: skip
    return {"designs": found, "diffor": {"excess": measured(41.0)}}


def quantisation():
    floors = [2.5, 1.25, 0.625]
    bins = [{"count": count, "hard_mae": measured(1.1 * floor), "soft_mae": measured(0.5)}
            for count, floor in zip((2, 4, 8), floors, strict=True)]  # fmt: skip
    ours = [{"count": count, "hard_mae": measured(0.1 * count)} for count in (4, 16)]
    return {"counts": [2, 4, 8], "floor_mae": floors, "noise_mae": 0.04, "bins": bins, "increments": ours}


def every_figure():
    return [
        figures.modes_and_answers(collapse()),
        figures.independent_bits(dependency()),
        figures.vocabulary_errors(vocabulary()),
        figures.bins_and_increments(quantisation()),
    ]


def points(ax, label):
    """Places and heights of the points with error bars that a legend calls by these words."""
    bars = next(one for one in ax.containers if one.get_label() == label)
    return bars.lines[0].get_xdata().tolist(), bars.lines[0].get_ydata().tolist()


def test_every_figure_names_its_axes_and_draws_nothing_beyond() -> None:
    for ax in every_figure():
        assert outside_of_figure(ax) < 0.02
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def test_the_collapsed_answer_stands_between_the_samples() -> None:
    ax = figures.modes_and_answers(collapse())
    answer = line_labelled(ax, "answer of squared-error")
    assert answer.get_xdata()[0] == 0.25
    assert ax.get_ylim()[0] == 0


def test_histograms_hold_all_samples_also_beyond_the_grid() -> None:
    ax = figures.modes_and_answers(collapse())
    for words, low, share in (("samples of DiffoR", -1.0, 0.75), ("... read by its heads", 3.5, 0.5)):
        stairs = next(patch for patch in ax.patches if patch.get_label() == words)
        heights, edges, _ = stairs.get_data()
        areas = heights * np.diff(edges)
        assert areas.sum() == pytest.approx(1)
        assert areas[edges[1:] < low].sum() == pytest.approx(share)
    assert ax.get_xlim() == (-3, 4)


def test_the_cost_of_independence_leaves_out_the_single_threshold() -> None:
    ax = figures.independent_bits(dependency())
    line = line_labelled(ax, "true chances")
    assert line.get_xdata().tolist() == [7, 63]
    assert line.get_ydata().tolist() == [2, 40]
    assert ax.get_yscale() == "log"


def test_methods_stand_at_their_thresholds_with_drawn_bits_and_with_ranks() -> None:
    ax = figures.independent_bits(dependency())
    assert points(ax, "OR-CNN, drawn bits") == ([7, 63], [32.0, 256.0])
    assert points(ax, "OR-CNN, its ranks") == ([7, 63], [0.8, 6.4])
    assert points(ax, "DiffoR, its samples") == points(ax, "OR-CNN, its ranks")


def test_impossible_draws_have_an_axis_of_their_own_in_percent() -> None:
    ax = figures.independent_bits(dependency())
    shares = next(other for other in ax.figure.axes if other is not ax)
    assert line_labelled(shares, "impossible").get_ydata().tolist() == [0, 50, 100]
    assert "impossible (right)" in legend_texts(ax)


def test_vocabularies_are_joined_where_their_units_are_alike() -> None:
    ax = figures.vocabulary_errors(vocabulary())
    assert points(ax, "GR, 1,000 units") == ([4, 40], [48.0, 42.0])
    assert line_labelled(ax, "GR, 1,000 units, as written").get_ydata().tolist() == [9.0, 0.1]
    assert points(ax, "GR, fewer units") == ([7], [45.0])
    assert points(ax, "GoR") == ([60], [43.0])
    assert line_labelled(ax, "DiffoR").get_ydata()[0] == 41.0
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (band.y0, band.y1) == (pytest.approx(40.9), pytest.approx(41.1))


def test_a_single_vocabulary_is_drawn_too() -> None:
    ax = figures.vocabulary_errors(vocabulary(slice(1)))
    assert points(ax, "GR, 10 units") == ([7], [45.0])
    assert not any("GoR" in words for words in legend_texts(ax))


def test_bins_have_a_floor_and_increments_do_not() -> None:
    ax = figures.bins_and_increments(quantisation())
    assert line_labelled(ax, "floor of bins").get_ydata().tolist() == [2.5, 1.25, 0.625]
    assert points(ax, "a bin's place") == ([2, 4, 8], pytest.approx([2.75, 1.375, 0.6875]))
    assert points(ax, "expectation over bins") == ([2, 4, 8], [0.5, 0.5, 0.5])
    assert points(ax, "DiffoR, increments") == ([4, 16], [0.4, 1.6])
    assert line_labelled(ax, "noise").get_ydata()[0] == 0.04
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "4", "8", "16"]


def test_error_bars_are_the_deviations() -> None:
    ax = figures.bins_and_increments(quantisation())
    bars = next(one for one in ax.containers if one.get_label() == "DiffoR, increments")
    low, high = bars.lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == (pytest.approx(0.3), pytest.approx(0.5))
