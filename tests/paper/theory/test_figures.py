"""Figures of the theory: what they draw, from results with known figures."""

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled, outside_of_figure
from matplotlib.figure import Figure

from diffor.paper.theory import figures
from diffor.paper.theory.analysis import NoiseIdentity, OrdinalBound, OrdinalBounds
from diffor.paper.theory.contraction import Contraction
from diffor.paper.theory.fusion import linear_fusion
from diffor.paper.theory.interference import Interference, TimeInterference
from diffor.paper.theory.representation import compare_embeddings
from diffor.paper.theory.scale_information import ScaleInformation
from diffor.reports import plots

TIMES = (1000, 500, 1)


def noise():
    return NoiseIdentity(TIMES, np.array([100.0, 1.0, 0.01]), np.array([0.01, 0.5, 0.9]), np.array([1, 0.5, 0.009]), ())


def ordinal():
    bounds = (OrdinalBound(2, 0.5, 0.01, 0.1), OrdinalBound(10, 0.1, 0.01, 0.6))
    return OrdinalBounds((2, 10), bounds, "number of grades")


def fusion():
    rng = np.random.default_rng(0)
    y = rng.random(60)
    common = 0.1 * rng.normal(size=60)
    return linear_fusion(y[:, None] + common[:, None] * [2.0, 1.5, 1.0] + 0.01 * rng.normal(size=(60, 3)), y, TIMES)


def representation():
    table = np.random.default_rng(0).normal(size=(100, 6))
    return compare_embeddings(table[:, :1], table[:, :2], table, table[:, :3].sum(axis=1))


def interference():
    products = np.array([[1.0, -0.5, 0.2], [-0.5, 1.0, 0.0], [0.2, 0.0, 1.0]])
    names = ("denoiser, a", "denoiser, b", "separate heads", "shared head, c", "shared head, d")
    kinds = [Interference(name, np.eye(3) if "separate" in name else products) for name in names]
    return TimeInterference(TIMES, *kinds)


def steps():
    factors = np.array([[0.5, 0.9, 1.0], [0.7, 1.3, 1.0]])
    return Contraction(
        TIMES, factors, 0 * factors, np.ones(2), np.ones(2), np.array([0.4, 0.8, 1.0]), np.array([0.6, 1.1, 1.0])
    )


def scales():
    explained = np.array([[0.1, -0.2], [0.6, np.nan], [1.0, 0.9]])
    return ScaleInformation(
        TIMES, (1000, 1), explained, np.ones(2), np.array([2.0, 1.0]), np.array([0.5, 0.9]), np.array([1.5, 1.2])
    )


RECORDS = [
    {"step": 50, "denoise_cosine": 0.5, "increment_cosine": -0.1},
    {"step": 100, "denoise_cosine": 0.3, "increment_cosine": -0.2},
]
FIGURES = {
    figures.noise_and_value_errors: noise,
    figures.error_rates_and_bounds: ordinal,
    figures.errors_along_the_chain: fusion,
    figures.weights_of_times: fusion,
    figures.embeddings_compared: representation,
    figures.gradient_cosines: interference,
    figures.cosines_in_training: lambda: RECORDS,
    figures.contraction_of_steps: steps,
    figures.variance_by_scale: scales,
    figures.bits_by_scale: scales,
}
every_figure = pytest.mark.parametrize(
    ("draw", "make"), FIGURES.items(), ids=lambda part: getattr(part, "__name__", "")
)


@every_figure
def test_given_axes_are_drawn_on_and_new_ones_hold_everything(draw, make):
    ax = Figure().add_subplot()
    assert draw(make(), ax=ax) is ax
    alone = draw(make())
    assert alone.figure is not ax.figure
    assert alone.get_xlabel() or alone.get_xticklabels()
    assert legend_texts(alone)
    assert outside_of_figure(alone) < 0.02
    assert plots.figure_svg(alone).startswith("<svg ")


def test_both_sides_of_the_identity_are_drawn():
    ax = figures.noise_and_value_errors(noise())
    np.testing.assert_allclose(line_labelled(ax, "error of the estimate").get_ydata(), [1, 0.5, 0.009])
    np.testing.assert_allclose(line_labelled(ax, "error of the noise, times").get_ydata(), [1, 0.5, 0.009])
    assert line_labelled(ax, "error of the noise").get_xdata().tolist() == list(TIMES)
    assert ax.get_yscale() == "log"


def test_bounds_that_say_nothing_end_at_the_edge():
    ax = figures.error_rates_and_bounds(ordinal())
    np.testing.assert_allclose(line_labelled(ax, "bound").get_ydata(), [0.16, figures.TOP])
    np.testing.assert_allclose(line_labelled(ax, "measured").get_ydata(), [0.1, 0.6])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "10"]
    assert ax.get_xlabel() == "number of grades"


def test_errors_of_times_fusion_and_oracle():
    found = fusion()
    ax = figures.errors_along_the_chain(found)
    np.testing.assert_array_equal(line_labelled(ax, "one time, rows that choose").get_ydata(), found.selection.mse)
    np.testing.assert_array_equal(line_labelled(ax, "one time, other rows").get_ydata(), found.selection.held_out_mse)
    assert line_labelled(ax, "best time").get_xdata()[0] == found.selection.best == 2
    assert line_labelled(ax, "fusion").get_ydata()[0] == found.held_out_mse
    assert line_labelled(ax, "each row's best").get_ydata()[0] == found.selection.row_oracle_mse
    assert ax.get_ylim()[1] > 1.05 * found.selection.mse.max()  # the ring around the best time has room


def test_weights_of_both_signs_are_told_apart():
    found = fusion()
    ax = figures.weights_of_times(found)
    heights = {round(bar.get_x() + bar.get_width() / 2): (bar.get_height(), bar.get_hatch()) for bar in ax.patches}
    for place, weight in enumerate(found.weights):
        assert heights[place][0] == pytest.approx(weight)
        assert bool(heights[place][1]) == (weight < 0)
    assert (found.weights < 0).any()


def test_risks_stand_beside_the_size_of_their_embedding():
    found = representation()
    ax = figures.embeddings_compared(found)
    heights = [bar.get_height() for bar in ax.patches]
    assert heights[:3] == [one.risk for one in found.readouts]
    assert heights[3:] == [one.held_out_risk for one in found.readouts]
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels[0].startswith("one time\n1 numbers,\neffective rank 1.0")
    assert "0" in [text.get_text() for text in annotations(ax)]  # six numbers read the target exactly


def test_a_risk_that_dwarfs_the_others_is_cut_and_said_to_be():
    found = representation()
    wild = replace(found, hidden=replace(found.hidden, held_out_risk=100 * found.single.held_out_risk))
    ax = figures.embeddings_compared(wild)
    highest = max(max(one.risk, one.held_out_risk) for one in (found.single, found.multiple))
    assert max(bar.get_height() for bar in ax.patches) == pytest.approx(3 * highest)
    assert f"{100 * found.single.held_out_risk:.2g}, cut" in [text.get_text() for text in annotations(ax)]
    assert not any("cut" in text.get_text() for text in annotations(figures.embeddings_compared(found)))


def test_every_pair_of_times_is_a_point():
    ax = figures.gradient_cosines(interference())
    points = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert sorted(points[0].get_xdata().tolist()) == [-0.5, 0.0, 0.2]
    assert points[2].get_xdata().tolist() == [0.0, 0.0, 0.0]
    means = [line.get_xdata()[0] for line in ax.lines if line.get_linewidth() == 2.2]
    np.testing.assert_allclose(means, [-0.1, -0.1, 0.0, -0.1, -0.1])
    assert [label.get_text() for label in ax.get_yticklabels()][2] == "separate heads"


def test_one_head_has_no_points():
    alone = TimeInterference((1,), *(Interference("", np.ones((1, 1))) for _ in range(5)))
    ax = figures.gradient_cosines(alone)
    assert all(len(line.get_xdata()) == 0 for line in ax.lines if line.get_linestyle() == "None")


def test_cosines_of_training_are_drawn_by_step_and_must_be_there():
    ax = figures.cosines_in_training(RECORDS)
    assert line_labelled(ax, "denoise losses").get_xydata().tolist() == [[50, 0.5], [100, 0.3]]
    assert line_labelled(ax, "increment losses").get_ydata().tolist() == [-0.1, -0.2]
    message = "records must hold cosines, but there are none; fit DiffoR with diagnose=True"
    with pytest.raises(ValueError, match=re.escape(message)):
        figures.cosines_in_training([{"step": 50}])


def test_factors_of_the_steps():
    ax = figures.contraction_of_steps(steps())
    np.testing.assert_allclose(line_labelled(ax, "to the true path, mean").get_ydata(), [0.6, 1.1, 1.0])
    np.testing.assert_allclose(line_labelled(ax, "to the true path, largest").get_ydata(), [0.7, 1.3, 1.0])
    np.testing.assert_allclose(line_labelled(ax, "between two starts").get_ydata(), [0.4, 0.8, 1.0])
    np.testing.assert_allclose(line_labelled(ax, "worst direction").get_ydata(), [0.6, 1.1, 1.0])


def test_the_map_shows_shares_and_frames_the_times_of_the_heads():
    ax = figures.variance_by_scale(scales())
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), [[0.1, 0.0], [0.6, np.nan], [1.0, 0.9]])
    assert [text.get_text() for text in annotations(ax)] == ["0.10", "0.00", "0.60", "-", "1.00", "0.90"]
    frames = [(round(patch.get_x() + 0.46), round(patch.get_y() + 0.46)) for patch in ax.patches]
    assert frames == [(0, 0), (1, 2)]
    assert legend_texts(ax) == ["time of the increment's head"]


def test_a_large_map_has_no_numbers():
    found = scales()
    wide = ScaleInformation(TIMES, (1,) * 40, np.zeros((3, 40)), *(np.ones(40) for _ in range(4)))
    assert annotations(figures.variance_by_scale(found))
    assert not annotations(figures.variance_by_scale(wide))


def test_bits_that_are_saved_and_that_seem_to_be():
    ax = figures.bits_by_scale(scales())
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, [2.0, 1.0, 0.5, -0.2])
    np.testing.assert_allclose(line_labelled(ax, "saved, if").get_ydata(), [1.5, 0.1])
