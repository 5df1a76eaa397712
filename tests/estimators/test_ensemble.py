from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import OrdinalRegressor
from diffor.core.method import OrdinalEnsemble, OrdinalModel
from diffor.encoders import TabularEncoder
from diffor.encoders.tabular.networks import WIDE_TABLE
from diffor.estimators.ensemble import name_encoder
from diffor.estimators.rows import PassedRows
from diffor.estimators.settings import PRESETS
from diffor.methods.diffor import IncrementDiffusion
from diffor.training.loop import Rows

QUICK = {"preset": "fast", "encoder": "plain", "max_steps": 10, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


def test_the_joint_loss_lets_each_member_learn_as_if_alone():
    torch.manual_seed(0)
    encoders = [TabularEncoder(2, [], width=16, n_layers=1, dropout=0.0) for _ in range(2)]
    members = [OrdinalModel(one, IncrementDiffusion(16, width=16, n_layers=1, dropout=0.0)) for one in encoders]
    inputs, y = (torch.randn(8, 2), torch.zeros(8, 0, dtype=torch.int64)), torch.rand(8)

    def gradients(model):
        members[0].zero_grad()
        torch.manual_seed(1)
        sum(model(inputs, y).values()).backward()
        return [parameter.grad.clone() for parameter in members[0].parameters()]

    together = gradients(OrdinalEnsemble(members))
    alone = gradients(members[0])
    assert all(torch.allclose(one, other, atol=1e-7) for one, other in zip(together, alone, strict=True))


def test_members_answer_together_with_samples_of_their_own():
    X, y = make_data()
    settings = {"denoiser": "mlp", "width": 16, "parameterization": "velocity", "decoding": "chain"}
    model = OrdinalRegressor("diffor-paper", method_settings=settings, n_members=3, **QUICK).fit(X, y)
    assert len(model.model_.members) == 3
    assert model.encoders_ == ["plain"] * 3
    samples = model.sample(X[:20], 30)
    parts = [samples[:, place * 10 : (place + 1) * 10] for place in range(3)]
    assert not np.allclose(parts[0].mean(axis=1), parts[1].mean(axis=1))
    assert len(np.unique(samples[0])) == 30
    assert model.sample(X[:20], 2).shape == (20, 2)  # fewer samples than members
    assert model.predict_increments(X[:5]).shape == (5, 8)


def test_members_in_closed_form_are_pooled():
    X, y = make_data()
    model = OrdinalRegressor("diffor", n_members=2, **QUICK).fit(X, y)
    inputs, keys = model.reader.tensors(PassedRows(pd.DataFrame(X)))
    cdfs = [member.predict(inputs, keys, 1).cdf(np.full(200, 0.4)) for member in model.model_.models]
    assert not np.allclose(*cdfs)
    pooled = model.predict_distribution(X).cdf(model.scale_.from_unit(np.full(200, 0.4)))
    assert pooled == pytest.approx(np.mean(cdfs, axis=0), abs=1e-5)


@pytest.mark.parametrize("wrong", [0, "many", 1.5])
def test_wrong_numbers_of_members_are_named(wrong):
    with pytest.raises(ValueError, match="n_members must be a whole number from 1 to 1000 or None, but got n_members="):
        OrdinalRegressor("dex", n_members=wrong, **QUICK).fit(*make_data())


def test_the_encoder_is_the_named_one_or_follows_the_number_of_columns():
    narrow, wide = (Rows((torch.zeros(3, n),), torch.zeros(3), None, torch.arange(3)) for n in (2, WIDE_TABLE + 1))
    assert [name_encoder(PRESETS["balanced"], rows) for rows in (narrow, wide)] == ["piecewise", "plain"]
    assert name_encoder(PRESETS["paper"], narrow) == "plain"
    assert name_encoder(PRESETS["balanced"], replace(narrow, inputs=())) == "images"
