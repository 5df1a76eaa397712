"""Figures of the theory: what they draw, from measurements that are committed and from small ones that are known."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figure_reading import annotations, legend_texts, line_labelled, outside_of_figure

from diffor.paper.theory import figures
from diffor.paper.theory.model_diagnosis import EXPLANATIONS
from diffor.reports import plots

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
FOUND = json.loads((RESULTS / "diagnosis_kin8nm_paper.json").read_text())
MEASURED = FOUND["measurements"]
PLACES = range(len(MEASURED["selection"]["times"]))


def texts_of(ax):
    return [text.get_text() for text in annotations(ax)]


@pytest.mark.parametrize("draw", [draw for part in EXPLANATIONS.values() for draw, *_ in part.drawings])
def test_committed_measurements_are_drawn_and_the_figure_holds_everything(draw):
    ax = draw(MEASURED)
    assert ax.get_xlabel() or ax.get_xticklabels()
    assert legend_texts(ax)
    assert outside_of_figure(ax) < 0.02
    assert plots.figure_svg(ax).startswith("<svg ")


def test_both_sides_of_the_identity_are_drawn():
    found, ax = MEASURED["noise"], figures.noise_and_value_errors(MEASURED)
    for words in ("error of the estimate", "error of the noise, times"):
        np.testing.assert_allclose(line_labelled(ax, words).get_ydata(), found["clean_mse"], rtol=1e-5)
    assert line_labelled(ax, "error of the noise").get_xdata().tolist() == found["times"]
    assert ax.get_yscale() == "log"


def test_bounds_that_say_nothing_end_at_the_edge():
    cases = [{"time": t, "error_rate": 0.1, "bound": bound} for t, bound in ((9, 0.16), (5, 4.0), (1, None))]
    ax = figures.error_rates_and_bounds({"ordinal": {"by": "time", "cases": cases}})
    np.testing.assert_allclose(line_labelled(ax, "bound").get_ydata(), [0.16, figures.TOP, figures.TOP])
    np.testing.assert_allclose(line_labelled(ax, "measured").get_ydata(), [0.1] * 3)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["9", "5", "1"]
    assert ax.get_xlabel() == "time"


def test_errors_of_times_fusion_and_oracle():
    found, ax = MEASURED["selection"], figures.errors_along_the_chain(MEASURED)
    assert line_labelled(ax, "one time, rows that choose").get_ydata().tolist() == found["mse"]
    assert line_labelled(ax, "one time, other rows").get_ydata().tolist() == found["held_out_mse"]
    assert found["times"][line_labelled(ax, "best time").get_xdata()[0]] == found["best_time"]
    assert line_labelled(ax, "fusion").get_ydata()[0] == MEASURED["fusion"]["held_out_mse"]
    assert line_labelled(ax, "each row's best").get_ydata()[0] == found["row_oracle_mse"]
    assert ax.get_ylim()[1] > 1.05 * max(found["mse"])  # the ring around the best time has room


def test_weights_of_both_signs_are_told_apart():
    weights, ax = MEASURED["fusion"]["weights"], figures.weights_of_times(MEASURED)
    heights = {round(bar.get_x() + bar.get_width() / 2): (bar.get_height(), bar.get_hatch()) for bar in ax.patches}
    assert [heights[place][0] for place in PLACES] == pytest.approx(weights)
    assert [bool(heights[place][1]) for place in PLACES] == [weight < 0 for weight in weights]
    assert min(weights) < 0 < max(weights)


def test_risks_stand_beside_the_size_of_their_embedding_and_one_that_dwarfs_them_is_cut():
    def readout(risk, held_out):
        return {"dimensions": 8, "nuclear_rank": 2.0, "risk": risk, "held_out_risk": held_out}

    readouts = {"one time": readout(1.0, 2.0), "all times": readout(0.5, 1.5), "hidden layers": readout(0.0, 200.0)}
    ax = figures.embeddings_compared({"representation": readouts})
    assert [bar.get_height() for bar in ax.patches] == [1.0, 0.5, 0.0, 2.0, 1.5, 6.0]
    assert texts_of(ax) == ["1", "0.5", "0", "2", "1.5", "2e+02, cut"]
    assert ax.get_xticklabels()[0].get_text() == "one time\n8 numbers,\neffective rank 2.0"


def test_every_pair_of_times_is_a_point():
    gradients, ax = MEASURED["interference"]["gradients"], figures.gradient_cosines(MEASURED)
    points = [line for line in ax.lines if line.get_linestyle() == "None"]
    for line, one in zip(points, gradients.values(), strict=True):
        assert sorted(line.get_xdata()) == sorted(np.array(one["cosines"])[np.triu_indices(8, 1)])
    means = [line.get_xdata()[0] for line in ax.lines if line.get_linewidth() == 2.2]
    assert means == [one["mean_cosine"] for one in gradients.values()]
    assert [label.get_text() for label in ax.get_yticklabels()][2] == "separate heads"
    alone = {name: {"cosines": [[1.0]], "mean_cosine": 0.0} for name in gradients}  # one head has no pairs
    ax = figures.gradient_cosines({"interference": {"gradients": alone}})
    assert all(len(line.get_xdata()) == 0 for line in ax.lines if line.get_linestyle() == "None")


def test_cosines_of_training_are_drawn_by_step_and_must_be_there():
    ax = figures.cosines_in_training(FOUND["training"])
    drawn = [[record["step"], record["denoise_cosine"]] for record in FOUND["training"]]
    assert line_labelled(ax, "denoise losses").get_xydata().tolist() == drawn
    message = "records must hold cosines, but there are none; fit DiffoR with diagnose=True"
    with pytest.raises(ValueError, match=re.escape(message)):
        figures.cosines_in_training([{"step": 50}])


def test_factors_of_the_steps():
    found, ax = MEASURED["contraction"], figures.contraction_of_steps(MEASURED)
    for words, name in (
        ("to the true path, mean", "mean_factors"),
        ("to the true path, largest", "largest_factors"),
        ("between two starts", "between_starts"),
        ("worst direction", "spectral"),
    ):
        assert line_labelled(ax, words).get_ydata().tolist() == found[name]


def test_the_map_shows_shares_and_frames_the_times_of_the_heads():
    scales = {"times": [9, 5, 1], "aligned_times": [9, 1], "explained": [[0.1, -0.2], [0.6, None], [1.0, 0.9]]}
    ax = figures.variance_by_scale({"scales": scales})
    np.testing.assert_allclose(ax.images[0].get_array().filled(np.nan), [[0.1, 0.0], [0.6, np.nan], [1.0, 0.9]])
    assert texts_of(ax) == ["0.10", "0.00", "0.60", "-", "1.00", "0.90"]
    frames = [(round(patch.get_x() + 0.46), round(patch.get_y() + 0.46)) for patch in ax.patches]
    assert frames == [(0, 0), (1, 2)]
    assert legend_texts(ax) == ["time of the increment's head"]
    wide = {"times": [1], "aligned_times": [1] * 40, "explained": [[0.0] * 40]}
    assert not texts_of(figures.variance_by_scale({"scales": wide}))  # cells of a large map are too small for numbers


def test_bits_that_are_saved_and_that_seem_to_be():
    found, ax = MEASURED["scales"], figures.bits_by_scale(MEASURED)
    assert [bar.get_height() for bar in ax.patches] == [*found["entropy"], *found["information"]]
    seeming = np.array(found["entropy"]) - found["predictive_entropy"]
    np.testing.assert_allclose(line_labelled(ax, "saved, if").get_ydata(), seeming)
