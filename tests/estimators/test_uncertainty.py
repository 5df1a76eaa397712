"""Both parts of the variance: they add up, follow the law of total variance, and say what they should of known laws."""

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor, split_uncertainty
from diffor.methods.diffor.one_call import as_prediction

QUICK = {"random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def gap():
    """A smooth law with a hole in the middle and ten times the noise on the right."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 1, 500)
    x = x[(x < 0.4) | (x > 0.6)]
    return pd.DataFrame({"x": x}), np.sin(6 * x) + np.where(x > 0.6, 0.5, 0.05) * random.normal(size=len(x))


@pytest.fixture(scope="module")
def model(gap):
    return DiffoRRegressor(**QUICK).fit(*gap)


def test_networks_disagree_where_rows_are_few_and_doubt_where_noise_is(model):
    left, hole, right = 0.2, 0.5, 0.8
    parts = split_uncertainty(model, pd.DataFrame({"x": [left, hole, right]}))
    assert parts.share[1] > 3 * max(parts.share[0], parts.share[2])
    assert parts.aleatoric[2] > 20 * parts.aleatoric[0]


def test_the_parts_add_up_to_the_variance_of_the_answer(gap, model):
    parts = split_uncertainty(model, gap[0])
    np.testing.assert_allclose(parts.total, model.predict_distribution(gap[0]).std ** 2, rtol=1e-9)
    assert (parts.epistemic >= 0).all()
    assert (parts.aleatoric >= 0).all()
    np.testing.assert_allclose(parts.share * parts.total, parts.epistemic)


def test_without_recalibration_it_is_the_law_of_total_variance(gap):
    model = DiffoRRegressor("fast", max_steps=60, **QUICK).fit(*gap)
    core = model.model_
    core.recalibration.copy_(torch.tensor([1.0, 0.0, 0.0]))
    (block,) = model.row_blocks(gap[0][:50])
    answers = [as_prediction(core.borders, part).map(model.scale_.from_unit) for part in core.each(block.inputs)[0]]
    assert len(answers) > 1
    parts = split_uncertainty(model, gap[0][:50])
    np.testing.assert_allclose(parts.epistemic, np.var([one.mean for one in answers], axis=0), rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(parts.aleatoric, np.mean([one.std**2 for one in answers], axis=0), rtol=1e-4)


def test_grades_are_counted_in_grades(gap):
    table, y = gap
    model = DiffoRClassifier("fast", max_steps=60, **QUICK).fit(table, np.digitize(y, [-0.5, 0.5]))
    shares = model.predict_proba(table)
    variance = shares @ np.arange(3) ** 2 - (shares @ np.arange(3)) ** 2
    np.testing.assert_allclose(split_uncertainty(model, table).total, variance, atol=1e-6)


def test_models_without_several_networks_are_refused(gap):
    table, y = gap
    other = OrdinalRegressor("value-gaussian", preset="fast", max_steps=2, **QUICK).fit(table, y)
    with pytest.raises(ValueError, match="but this one has the method 'value-gaussian'; fit"):
        split_uncertainty(other, table)
    student = DiffoRRegressor("fast", max_steps=5, **QUICK).fit(table, y).distill(table, max_steps=5)
    with pytest.raises(ValueError, match="but this one has one network; fit DiffoRRegressor"):
        split_uncertainty(student, table)
