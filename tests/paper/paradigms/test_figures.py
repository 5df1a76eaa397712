"""Figures of the paradigms, drawn from the results that are committed."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import legend_texts, line_labelled, outside_of_figure

from diffor.paper.experiments.paradigms import PARADIGMS
from diffor.paper.paradigms import figures

FOUND = json.loads((Path(__file__).parents[3] / "benchmarks" / "results" / "paradigms.json").read_text())


def points(ax, label):
    """Places and heights of the points with error bars that a legend calls by these words, and the bars' ends."""
    bars = next(one for one in ax.containers if one.get_label() == label)
    ends = [segment[:, 1].tolist() for segment in bars.lines[2][0].get_segments()]
    return bars.lines[0].get_xdata().tolist(), bars.lines[0].get_ydata().tolist(), ends


def means(records, name):
    return [one[name]["mean"] for one in records]


@pytest.mark.parametrize("paradigm", PARADIGMS, ids=lambda one: one.name)
def test_committed_results_are_drawn_and_told_and_nothing_stands_beyond_the_figure(paradigm) -> None:
    ax = paradigm.draw(FOUND[paradigm.name])
    assert outside_of_figure(ax) < 0.02
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    numbers, *tables = paradigm.sections(FOUND[paradigm.name])[1:-1]
    assert ("n rows", f"{FOUND[paradigm.name]['n_rows']:,}") in numbers.rows
    assert len(tables) >= 2


def test_the_collapsed_answer_stands_between_histograms_that_hold_all_samples() -> None:
    samples = {"diffor": [-2.0] * 30 + [2.0] * 10, "diffor-heads": [0.0] * 20 + [4.0] * 20}
    grid = np.linspace(-3, 3, 61)
    example = {"grid": grid, "density": np.exp(-(grid**2)), "squared": 0.25, "samples": samples}
    ax = figures.modes_and_answers({"example": example})
    assert line_labelled(ax, "squared-error").get_xdata()[0] == 0.25
    for words, low, share in (("samples of DiffoR", -1.0, 0.75), ("... read by its heads", 3.5, 0.5)):
        stairs = next(patch for patch in ax.patches if patch.get_label() == words)
        heights, edges, _ = stairs.get_data()
        areas = heights * np.diff(edges)
        assert areas.sum() == pytest.approx(1)
        assert areas[edges[1:] < low].sum() == pytest.approx(share)
    assert (ax.get_xlim(), ax.get_ylim()[0]) == ((-3, 4), 0)


def test_methods_stand_at_their_thresholds_and_the_single_one_costs_nothing() -> None:
    found = FOUND["dependency_error"]
    ax = figures.independent_bits(found)
    line = line_labelled(ax, "true chances")
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == (found["thresholds"][1:], found["correlation"][1:])
    for words, method, name in (("OR-CNN, drawn bits", "or-cnn", "joint"), ("DiffoR, its samples", "diffor", "ranks")):
        chosen = [one for one in found["methods"] if one["method"] == method]
        assert points(ax, words)[:2] == ([7, 15, 63], means(chosen, name))
    shares = next(other for other in ax.figure.axes if other is not ax)
    impossible = line_labelled(shares, "impossible").get_ydata()  # on an axis of its own, in percent
    np.testing.assert_allclose(impossible, 100 * np.array(found["impossible"]))
    assert "impossible (right)" in legend_texts(ax)


def test_vocabularies_are_joined_where_their_units_are_alike() -> None:
    found = FOUND["vocabulary_tradeoff"]
    ax = figures.vocabulary_errors(found)
    for words, chosen in (
        ("GR, 1,000 units", [one for one in found["designs"] if (one["method"], one["n_units"]) == ("gr", 1000)]),
        ("GR, fewer units", [one for one in found["designs"] if one["n_units"] < 1000]),
        ("GoR", [one for one in found["designs"] if one["method"] == "gor"]),
    ):
        by_size = sorted(chosen, key=lambda one: one["n_tokens"]["mean"])
        assert points(ax, words)[:2] == (means(by_size, "n_tokens"), means(by_size, "excess"))
        assert line_labelled(ax, f"{words}, as written").get_ydata().tolist() == means(by_size, "written_mae")
    ours = found["diffor"]["excess"]
    assert line_labelled(ax, "DiffoR").get_ydata()[0] == ours["mean"]
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (band.y0 + band.y1, band.y1 - band.y0) == pytest.approx((2 * ours["mean"], 2 * ours["deviation"]))
    alone = figures.vocabulary_errors({**found, "designs": found["designs"][:1]})
    assert not any("GoR" in words for words in legend_texts(alone))


def test_bins_have_a_floor_and_increments_do_not() -> None:
    found = FOUND["quantisation_error"]
    ax = figures.bins_and_increments(found)
    assert line_labelled(ax, "floor of bins").get_ydata().tolist() == found["floor_mae"]
    assert points(ax, "a bin's place")[:2] == (found["counts"], means(found["bins"], "hard_mae"))
    assert points(ax, "expectation over bins")[1] == means(found["bins"], "soft_mae")
    counts, heights, ends = points(ax, "DiffoR, increments")
    assert (counts, heights) == ([2, 4, 8, 32], means(found["increments"], "hard_mae"))
    deviation = found["increments"][0]["hard_mae"]["deviation"]
    assert ends[0] == pytest.approx([heights[0] - deviation, heights[0] + deviation])
    assert line_labelled(ax, "noise").get_ydata()[0] == found["noise_mae"]
