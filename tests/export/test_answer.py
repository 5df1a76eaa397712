"""The exported program answers as ``predict`` does: every preset, kind of column, prior, encoder and target."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
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

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.core.cdf_prediction import CdfPrediction
from diffor.errors import UserError
from diffor.export import export_model, program_inputs

X, Y = mixed_table(160)
GRADES = np.array(["low", "mid", "high", "top"])
GRADE_OF = GRADES[np.digitize(Y, [0.0, 1.0, 2.0])]
TINY = {"max_steps": 10, "random_state": 0, "verbose": 0}
OF_PROCESS = 1e-4
"""What ``predict`` itself is off where a process answers in single precision; the program has double precision."""


def regressor(preset="fast", y=Y, **settings):
    return DiffoRRegressor(preset, **(TINY | settings)).fit(X, y)


@pytest.fixture(scope="module")
def fast():
    return regressor()


@pytest.fixture(scope="module")
def balanced():
    """A model with two kinds of networks, trees and processes."""
    return regressor("balanced")


# --- networks and priors ---


def test_trees_advise_networks_of_one_kind(fast, tmp_path):
    assert fast.priors_.names == ["trees", "process"]
    check_values(fast, tmp_path, strange_rows(), OF_PROCESS)


def test_several_kinds_of_networks_with_trees_and_processes(balanced, tmp_path):
    assert len(balanced.model_.networks) > 1
    assert {"trees", "process", "process-ranks"} == set(balanced.priors_.names)
    check_values(balanced, tmp_path, strange_rows(), OF_PROCESS)


def test_weights_and_recalibration(tmp_path):
    model = regressor("balanced", prior=None)
    model.model_.weights.copy_(torch.tensor([0.3, 0.7]))
    model.model_.recalibration.copy_(torch.tensor([0.7, 0.2, -0.3]))
    check_values(model, tmp_path, strange_rows())


def test_processes_are_those_of_double_precision(balanced, tmp_path):
    answers = answers_of(balanced, tmp_path, X)
    for prior in balanced.priors_.priors[1:]:  # the reference: the same process, every number in double precision
        prior.known, prior.slopes = prior.known.double(), prior.slopes.double()
        prior.predict_place = lambda inputs, own=prior: place_in_double(own, inputs)
    try:
        width = balanced.scale_.high - balanced.scale_.low
        np.testing.assert_allclose(answers["point"], balanced.predict(X), rtol=0, atol=TOLERANCE * width)
        np.testing.assert_allclose(answers["interval"], balanced.predict_interval(X), rtol=0, atol=TOLERANCE * width)
    finally:
        for prior in balanced.priors_.priors[1:]:
            prior.known, prior.slopes = prior.known.float(), prior.slopes.float()
            del prior.predict_place


def place_in_double(prior, inputs):
    mean, spread = prior.target_scale.tolist()
    kernel = prior.kernel._replace(
        log_lengths=-(-prior.kernel.log_lengths.float()).exp().double().log(),
        log_scales=prior.kernel.log_scales.float().exp().double().log(),
    )
    return (kernel.between(prior.columns.read(inputs), prior.known) @ prior.slopes * spread + mean).float()


def test_trees_of_another_library(tmp_path):
    pytest.importorskip("lightgbm")
    check_values(regressor(prior="lightgbm"), tmp_path, strange_rows())


def test_a_student_is_one_network_without_priors(fast, tmp_path):
    check_values(fast.distill(X, max_steps=20), tmp_path, strange_rows())


def test_the_preset_accurate(tmp_path):
    check_values(regressor("accurate", prior="trees"), tmp_path, strange_rows())


@pytest.mark.parametrize("encoder", ["plain", "periodic", "piecewise"])
def test_the_one_call_on_every_encoder_of_tables(encoder, tmp_path):
    members = {"n_members": 2} if encoder == "plain" else {}  # which are pooled
    model = OrdinalRegressor("diffor", encoder=encoder, preset="fast", **members, **TINY).fit(X, Y)
    assert model.encoders_ == [encoder] * len(model.model_.models)
    check_values(model, tmp_path, strange_rows())


# --- targets ---


REPEATED = {
    "zeros": np.where(Y < 1, 0.0, Y),
    "ends": np.clip(Y, 0.0, 2.0),
    "few values": np.round(Y),
    "some values": np.where(np.arange(len(Y)) % 3 == 0, np.round(Y), Y),
    "equal": np.full(len(Y), 3.0),
}


@pytest.mark.parametrize("target", REPEATED)
def test_values_that_repeat(target, tmp_path):
    model = regressor(y=REPEATED[target], prior=None, bounds=(0, 10) if target == "equal" else None)
    answers = check_values(model, tmp_path, strange_rows())
    if target == "few values":
        assert np.isin(answers["quantiles"], answers["knots"]).all()
    width = model.scale_.high - model.scale_.low
    for coverage in (0.05, 0.999):
        answers = answers_of(model, tmp_path, X, coverage=coverage, quantiles=[0.0, 0.3, 1.0])
        own = CdfPrediction(answers["knots"], answers["cdf"])
        for name, wanted in (("interval", own.interval(coverage)), ("quantiles", own.quantile([0.0, 0.3, 1.0]))):
            np.testing.assert_allclose(answers[name], wanted, rtol=0, atol=1e-9 * width, err_msg=name)


@pytest.mark.parametrize("n_rows", [5, 60, 160])
def test_guaranteed_intervals(n_rows, tmp_path):
    model = regressor(prior=None)
    moved = Y[:n_rows] + (3.0 if n_rows == 60 else 0.0)  # targets beyond what is likely open intervals far
    model.bounds = (-100.0, 100.0)
    model.conformalize(X[:n_rows], moved)
    if n_rows == 5:  # too few for the coverage: the whole range
        with pytest.warns(UserWarning, match="needs at least 9 calibration rows"):
            check_values(model, tmp_path, X)
    else:
        check_values(model, tmp_path, X)


def test_guaranteed_intervals_with_a_transform_of_the_target(tmp_path):
    model = OrdinalRegressor("diffor", transform="quantile", encoder="plain", preset="fast", **TINY).fit(X, np.exp(Y))
    check_values(model, tmp_path, X)
    check_values(model.conformalize(X, np.exp(Y)), tmp_path, X)


# --- grades ---


def test_every_decision(tmp_path):
    model = DiffoRClassifier("fast", grades=GRADES, prior=None, **TINY).fit(X, GRADE_OF)
    for decision in ("median", "mode", "qwk", "native"):
        model.decision = decision
        assert set(check_grades(model, tmp_path, strange_rows())["point"]) <= set(GRADES)


def test_grades_by_all_priors_and_by_an_encoder(tmp_path):
    model = DiffoRClassifier("balanced", grades=GRADES, **TINY).fit(X, GRADE_OF)
    check_grades(model, tmp_path, X, OF_PROCESS)
    check_grades(DiffoRClassifier("fast", encoder="plain", grades=GRADES, **TINY).fit(X, GRADE_OF), tmp_path, X)


def test_two_grades_with_numbers_for_names(tmp_path):
    model = DiffoRClassifier("fast", **TINY).fit(X, np.where(Y > 1, 5, 3))
    answers = check_grades(model, tmp_path, strange_rows())
    assert answers["point"].dtype == np.int64


# --- rows and columns ---


def test_a_row_is_answered_alike_alone_and_among_others_and_where_it_hardly_differs(balanced, tmp_path):
    export_model(balanced, tmp_path / "model.onnx")
    session, rows = open_program(tmp_path / "model.onnx"), strange_rows()
    together = run_program(session, program_inputs(balanced, rows))
    for place in (0, 5, 36):
        alone = run_program(session, program_inputs(balanced, rows[place : place + 1]))
        np.testing.assert_allclose(alone["cdf"], together["cdf"][[place]], rtol=0, atol=TOLERANCE)
    inputs = program_inputs(balanced, X)
    moved = inputs | {"numbers": inputs["numbers"] * (1 + 1e-12)}
    before, after = (run_program(session, one)["point"] for one in (inputs, moved))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)


def test_rows_without_names_and_an_empty_text_as_a_level(tmp_path):
    random = np.random.default_rng(0)
    rows = np.array([random.standard_normal(60), random.choice(["", "a"], 60)], dtype=object).T
    rows[0, 1] = None
    model = DiffoRRegressor("fast", prior=["trees"], **TINY).fit(rows, random.random(60))
    check_values(model, tmp_path, np.array([[0.1, ""], [0.2, None], [0.3, "a"], [None, "new"]], dtype=object))


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_nothing_but_constant_columns(preset, tmp_path):
    model = DiffoRRegressor(preset, **TINY).fit(np.ones((40, 2)), np.arange(40.0))
    check_values(model, tmp_path, np.ones((3, 2)), OF_PROCESS)


def test_nothing_but_categories(tmp_path):
    check_values(DiffoRRegressor("balanced", **TINY).fit(X[["city"]], Y), tmp_path, X[["city"]], OF_PROCESS)


def test_of_many_columns_priors_read_some(tmp_path):
    random = np.random.default_rng(0)
    wide = pd.DataFrame(random.standard_normal((60, 300)))
    model = DiffoRRegressor("balanced", **TINY).fit(wide, wide[0] + wide[7])
    check_values(model, tmp_path, wide[:5], OF_PROCESS)


def test_a_share_of_each_row_s_limit(tmp_path):
    limit = np.abs(Y) + np.linspace(0.0, 5.0, len(Y)) + 0.1
    shares = DiffoRRegressor("fast", **TINY, limit="share").fit(X, np.abs(Y), upper=limit)
    for model in (shares, deepcopy(shares).conformalize(X, np.abs(Y), upper=limit)):
        export_model(model, tmp_path / "model.onnx")
        answers = run_program(open_program(tmp_path / "model.onnx"), program_inputs(model, X, upper=limit))
        for name, wanted in (
            ("point", model.predict(X, upper=limit)), ("interval", model.predict_interval(X, upper=limit)),
            ("quantiles", model.predict_quantiles(X, upper=limit)),
            ("knots", model.predict_distribution(X, upper=limit).knots),
        ):  # fmt: skip
            far = np.abs(answers[name] - wanted).reshape(len(X), -1).max(axis=1) / limit
            assert (far <= TOLERANCE).mean() > 0.9, name
            assert far.max() <= 30 * TOLERANCE, name
            assert (answers[name].reshape(len(X), -1) <= limit[:, None]).all(), name
    with pytest.raises(UserError, match="upper is not given"):
        program_inputs(shares, X)


def test_other_programs_read_no_limits_and_their_distribution_is_cut(fast, tmp_path):
    with pytest.raises(
        UserError, match="but this one reads no limits; leave it out, and cut its outputs cdf and knots"
    ):
        program_inputs(fast, X, upper=1.0)
    answers, limit = answers_of(fast, tmp_path, X), np.quantile(Y, 0.6)
    cut = CdfPrediction(answers["knots"], answers["cdf"]).given(upper=limit)
    width = fast.scale_.high - fast.scale_.low
    assert np.abs(cut.median - fast.predict(X, upper=limit)).max() <= 30 * TOLERANCE * width
