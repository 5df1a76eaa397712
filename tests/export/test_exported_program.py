"""The exported program answers as ``predict`` does: every encoder, preset, decoding, method and scale."""

import numpy as np
import pandas as pd
import pytest
from program_checks import (
    TOLERANCE,
    answers_of,
    check_grades,
    check_values,
    mixed_table,
    open_program,
    run_program,
    strange_rows,
)

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.atoms import Atoms
from diffor.export import export_model, program_inputs

X, Y = mixed_table(160)
GRADES = np.array(["low", "mid", "high", "top"])
GRADE_OF = GRADES[np.digitize(Y, [0.0, 1.0, 2.0])]
TINY = {"max_steps": 2, "random_state": 0, "verbose": 0}
SMALL = {**TINY, "width": 16, "n_attention_heads": 4, "n_samples": 8}


def regressor(preset="fast", **settings):
    return DiffoRRegressor(preset, **(TINY | settings)).fit(X, Y)


@pytest.fixture(scope="module")
def guided():
    """A model with several members, the guide's trees and curve."""
    return regressor("balanced", encoder="auto")


@pytest.fixture(scope="module")
def small():
    return regressor(guide=False, **SMALL)


# --- encoders and presets ---


@pytest.mark.parametrize("is_guided", [False, True])
@pytest.mark.parametrize("encoder", ["plain", "periodic", "piecewise"])
def test_every_encoder(encoder, is_guided, tmp_path):
    model = regressor(encoder=encoder, guide=is_guided)
    assert model.encoders_ == [encoder + "+guide" * is_guided]
    check_values(model, tmp_path, strange_rows())


def test_the_encoder_of_nothing_but_the_guide(guided, tmp_path):
    check_values(regressor(encoder="guide"), tmp_path, strange_rows())
    smooth = [float(fold.smooth) for fold in guided.guide_.folds]
    assert min(smooth) > 0  # so that the curve has a part in the next test


def test_the_preset_balanced_with_all_its_members(guided, tmp_path):
    assert len(guided.encoders_) > 1
    check_values(guided, tmp_path, strange_rows())


@pytest.mark.parametrize("preset", ["fast", "accurate", "paper"])
def test_other_presets_of_values(preset, tmp_path):
    model = regressor(preset, guide=False)
    if preset == "accurate":
        assert {type(member.method).__name__ for member in model.model_.models} >= {"IncrementDiffusion"}
        assert model.settings_.partner == "mdn"
        assert model.settings_.chains_per_sample == 3
    check_values(model, tmp_path, strange_rows())


@pytest.mark.parametrize("preset", ["fast", "balanced", "accurate", "paper"])
def test_presets_of_grades(preset, tmp_path):
    model = DiffoRClassifier(preset, grades=GRADES, guide=preset == "fast", **TINY).fit(X, GRADE_OF)
    answers = check_grades(model, tmp_path, strange_rows())
    assert set(answers["point"]) <= set(GRADES)


# --- the chain ---


@pytest.mark.parametrize(
    "settings",
    [
        {"decoding": "heads"},
        {"decoding": "fusion"},
        {"decoding": "heads", "spacing": "shared", "n_increments": 3},
        {"process": "flow_matching", "parameterization": "clean"},
        {"parameterization": "noise", "schedule": "linear"},
        {"denoiser": "transformer", "n_increments": 4},
        {"n_increments": 1},
        {"n_steps": 3},
        {"chains_per_sample": 3},
        {"eta": 0.7},
        {"eta": 1.0, "decoding": "heads", "n_increments": 4},
    ],
    ids=str,
)
def test_every_way_to_draw(settings, tmp_path):
    check_values(regressor(guide=False, **(SMALL | settings)), tmp_path, strange_rows()[:9])


def test_steps_and_samples_of_the_program_can_be_others(small, tmp_path):
    short = regressor(guide=False, **(SMALL | {"n_steps": 3}))
    short.model_.load_state_dict(small.model_.state_dict())
    answers = answers_of(small, tmp_path, X[:9], n_samples=11, n_steps=3, quantiles=[0.1, 0.9], coverage=0.5)
    expected, width = short.predict_distribution(X[:9], 11), small.scale_.high - small.scale_.low
    for name, wanted in (
        ("samples", expected.ordered),
        ("quantiles", expected.quantile([0.1, 0.9])),
        ("interval", expected.interval(0.5)),
    ):
        np.testing.assert_allclose(answers[name], wanted, rtol=0, atol=TOLERANCE * width)


def test_grades_with_few_borders_and_numbers_for_names(tmp_path):
    y = np.where(Y > 1, 5, 3)
    model = DiffoRClassifier("fast", guide=False, **TINY).fit(X, y)
    answers = check_grades(model, tmp_path, strange_rows())
    assert answers["point"].dtype == np.int64


@pytest.mark.parametrize("decision", ["mode", "qwk", "native"])
def test_every_decision(decision, tmp_path):
    model = DiffoRClassifier("fast", guide=False, grades=GRADES, decision=decision, **TINY).fit(X, GRADE_OF)
    check_grades(model, tmp_path, X)


# --- methods in closed form ---


@pytest.mark.parametrize("method", ["quantile-regression", "cqe", "mdn", "dex", "cross-entropy", "nima"])
def test_methods_of_values_in_closed_form(method, tmp_path):
    model = OrdinalRegressor(method, preset="fast", guide=False, **TINY).fit(X, Y)
    answers = check_values(model, tmp_path, strange_rows())
    assert "noise" not in program_inputs(model, X[:2])
    assert not np.allclose(answers["point"], answers["quantiles"][:, 2]) or method in ("quantile-regression",)


def test_a_method_that_decides_by_the_mean_of_its_quantiles(tmp_path):
    model = OrdinalRegressor("quantile-regression", method_settings={"decoding": "mean", "n_quantiles": 7},
                             preset="fast", guide=False, **TINY).fit(X, Y)  # fmt: skip
    check_values(model, tmp_path, strange_rows())


@pytest.mark.parametrize("method", ["quantile-regression", "mdn", "cross-entropy", "unimodal", "mean-variance"])
def test_methods_of_grades_in_closed_form(method, tmp_path):
    model = OrdinalClassifier(method, preset="fast", guide=False, grades=GRADES, **TINY).fit(X, GRADE_OF)
    check_grades(model, tmp_path, strange_rows())


# --- the target's scale ---


@pytest.mark.parametrize("transform", ["log", "quantile"])
def test_every_transform_of_the_target(transform, tmp_path):
    y = np.exp(Y)
    model = DiffoRRegressor("fast", transform=transform, guide=False, **SMALL).fit(X, y)
    assert model.scale_.transform == transform
    check_values(model, tmp_path, strange_rows())


def test_samples_settle_on_atoms(tmp_path):
    y = np.where(Y < 1, 0.0, Y)
    model = DiffoRRegressor("fast", guide=False, **SMALL).fit(X, y)
    assert len(model.scale_.atoms) == 1
    model.scale_.atoms = Atoms(*(np.array([one]) for one in (0.0, 0.0, 0.0, 0.5, 0.0, 0.3)))
    answers = check_values(model, tmp_path, X)
    assert 0.05 < (answers["samples"] == 0).mean() < 0.95


def test_samples_are_widened(small, tmp_path):
    before = float(small.model_.dispersion)
    small.model_.dispersion.fill_(1.7)
    try:
        check_values(small, tmp_path, X)
    finally:
        small.model_.dispersion.fill_(before)


@pytest.mark.parametrize("n_rows", [5, 60, 160])
def test_guaranteed_intervals(n_rows, tmp_path):
    model = regressor(guide=False, **SMALL)
    moved = Y[:n_rows] + (3.0 if n_rows == 60 else 0.0)  # targets beyond the samples open intervals far
    model.bounds = (-100.0, 100.0)
    model.conformalize(X[:n_rows], moved)
    if n_rows == 5:  # too few for the coverage: the whole range
        with pytest.warns(UserWarning, match="needs at least 9 calibration rows"):
            check_values(model, tmp_path, X)
    else:
        check_values(model, tmp_path, X)


# --- rows and columns ---


def test_a_row_is_answered_alike_alone_and_among_others(guided, tmp_path):
    export_model(guided, tmp_path / "model.onnx")
    session, rows = open_program(tmp_path / "model.onnx"), strange_rows()
    together = run_program(session, program_inputs(guided, rows))
    for place in (0, 5, 36):
        alone = run_program(session, program_inputs(guided, rows[place : place + 1]))
        width = guided.scale_.high - guided.scale_.low
        np.testing.assert_allclose(alone["samples"], together["samples"][[place]], rtol=0, atol=TOLERANCE * width)


def test_own_noise_gives_another_sample_of_the_same_distribution(small, tmp_path):
    export_model(small, tmp_path / "model.onnx", n_samples=400)
    session, inputs = open_program(tmp_path / "model.onnx"), program_inputs(small, X[:4], 400)
    noise = np.random.default_rng(0).standard_normal(inputs["noise"].shape).astype(np.float32)
    own, other = run_program(session, inputs), run_program(session, inputs | {"noise": noise})
    spread = own["samples"].std(axis=1)
    assert not np.array_equal(own["samples"], other["samples"])
    assert (np.abs(own["samples"].mean(axis=1) - other["samples"].mean(axis=1)) < 0.25 * spread).all()


def test_rows_without_names_and_an_empty_text_as_a_level(tmp_path):
    random = np.random.default_rng(0)
    rows = np.array([random.standard_normal(60), random.choice(["", "a"], 60)], dtype=object).T
    rows[0, 1] = None
    model = DiffoRRegressor("fast", guide=False, **SMALL).fit(rows, random.random(60))
    check_values(model, tmp_path, np.array([[0.1, ""], [0.2, None], [0.3, "a"], [None, "new"]], dtype=object))


def test_nothing_but_constant_columns(tmp_path):
    model = DiffoRRegressor("fast", guide=False, **SMALL).fit(np.ones((40, 2)), np.arange(40.0))
    check_values(model, tmp_path, np.ones((3, 2)))


def test_a_guide_of_many_columns_reads_some_of_them(tmp_path):
    random = np.random.default_rng(0)
    wide = pd.DataFrame(random.standard_normal((120, 300)))
    model = DiffoRRegressor("fast", **SMALL).fit(wide, wide[0] + wide[7])
    assert len(model.guide_.folds[0].chosen) == 256
    check_values(model, tmp_path, wide[:5])
