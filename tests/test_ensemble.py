from dataclasses import replace

import numpy as np
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.baselines.densities import MixtureDensity
from diffor.diffusion import IncrementDiffusion
from diffor.encoders import TabularEncoder
from diffor.ensemble import own_part, partner_part
from diffor.method import OrdinalEnsemble, OrdinalModel
from diffor.presets import PRESETS, WIDE_TABLE, count_members, settle_partner
from diffor.train import History, TrainConfig

QUICK = {"preset": "fast", "max_steps": 40, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


def test_small_tables_get_more_members_and_a_number_is_obeyed():
    assert count_members(PRESETS["balanced"], 100) == 4
    assert count_members(PRESETS["balanced"], 10**6) == 2
    assert count_members(PRESETS["fast"], 100) == 1


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
    model = DiffoRRegressor(**QUICK | {"n_members": 3, "encoder": "plain"}).fit(X, y)
    assert len(model.model_.members) == 3
    assert model.encoders_ == ["plain+guide"] * 3
    samples = model.sample(X[:20], 30)
    parts = [samples[:, place * 10 : (place + 1) * 10] for place in range(3)]
    assert not np.allclose(parts[0].mean(axis=1), parts[1].mean(axis=1))
    assert len(np.unique(samples[0])) == 30
    assert model.sample(X[:20], 2).shape == (20, 2)  # fewer samples than members
    assert model.predict_increments(X[:5]).shape == (5, 8)


@pytest.mark.parametrize("n_increments", [8, 5, 1])
def test_increments_of_coarse_and_fine_members_are_joined(n_increments):
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"n_members": 2, "n_increments": n_increments, "guide": False}).fit(X, y)
    coarse = {8: 4, 5: 5, 1: 1}[n_increments]
    counts = [coarse if "coarse" in kind else n_increments for kind in model.encoders_]
    assert [member.method.n_increments for member in model.model_.members] == counts
    assert model.predict_increments(X[:5]).shape == (5, n_increments)


@pytest.mark.parametrize("wrong", [0, "many", 1.5])
def test_wrong_numbers_of_members_are_named(wrong):
    with pytest.raises(ValueError, match="n_members must be 'auto' or at least 1, however: n_members="):
        DiffoRRegressor(**QUICK | {"n_members": wrong}).fit(*make_data())


# --- a partner ---


def test_each_member_has_a_partner_of_its_kind_and_both_draw():
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"partner": "mdn", "encoder": "plain", "n_members": 2}).fit(X, y)
    assert model.encoders_ == ["plain+guide"] * 2 + ["plain+guide+partner"] * 2
    methods = [type(member.method) for member in model.model_.members]
    assert methods == [IncrementDiffusion] * 2 + [MixtureDensity] * 2
    assert [share for _, _, share in model.model_.shares(8)] == [2] * 4
    assert {"denoise", "increment"} < model.history_.records[0].keys()  # the history is DiffoR's
    distribution = model.predict_distribution(X[:5])
    assert np.allclose(model.predict(X[:5]), distribution.median)  # not the mean that the partner alone decides by


def test_with_a_partner_increments_are_those_of_diffor_and_files_keep_all(tmp_path):
    X, y = make_data()
    settings = QUICK | {"encoder": "plain", "guide": False, "calibrate": False, "max_steps": 10}
    model = DiffoRRegressor(**settings, partner="mdn").fit(X, y)
    increments = model.predict_increments(X[:6])
    assert increments.shape == (6, 8)
    assert (increments >= 0).all()
    model.save(tmp_path / "model")
    again = DiffoRRegressor.load(tmp_path / "model")
    assert np.array_equal(again.sample(X[:6], 9), model.sample(X[:6], 9))


def test_the_accurate_preset_has_a_partner_and_none_switches_it_off():
    X, y = make_data(120)
    grades = np.digitize(y, [-0.5, 0.5])
    accurate = QUICK | {"preset": "accurate", "max_steps": 2}
    of_values = DiffoRRegressor(**accurate).fit(X, y)
    of_grades = DiffoRClassifier(**accurate).fit(X, grades)
    alone = DiffoRRegressor(**accurate, partner="none").fit(X, y)
    assert [kind.endswith("+partner") for kind in of_values.encoders_] == [False] * 4 + [True] * 4
    assert (of_values.settings_.partner, of_grades.settings_.partner) == ("mdn", "cross-entropy")
    assert of_grades.model_.members[-1].method.binning.n_bins == 3
    assert of_grades.predict_proba(X[:4]).shape == (4, 3)
    assert not any("partner" in kind for kind in alone.encoders_)


def test_many_numbers_have_another_partner_than_few():
    assert settle_partner(PRESETS["accurate"], WIDE_TABLE).partner == "mdn"
    assert settle_partner(PRESETS["accurate"], WIDE_TABLE + 1).partner == "cross-entropy"
    assert settle_partner(replace(PRESETS["accurate"], encoder="small"), 0).partner == "cross-entropy"
    assert settle_partner(replace(PRESETS["accurate"], partner="sord"), 0).partner == "sord"
    assert settle_partner(replace(PRESETS["accurate"], method="corn"), 0).partner == "none"


def test_partners_have_what_time_is_left_and_a_checkpoint_of_their_own(tmp_path):
    config = TrainConfig(time_limit=100.0, checkpoint_dir=str(tmp_path), seed=3)
    assert own_part(config, "none") == config
    assert own_part(config, "mdn").time_limit == 75
    later = partner_part(config, History(seconds=40.0))
    assert (later.time_limit, later.seed, later.checkpoint_dir) == (60, 4, str(tmp_path / "partner"))
    assert partner_part(config, History(seconds=200.0)).time_limit > 0
    assert partner_part(TrainConfig(), History(seconds=40.0)).time_limit is None


def test_a_run_with_partners_resumes_from_its_checkpoints(tmp_path):
    X, y = make_data()
    settings = QUICK | {"partner": "mdn", "encoder": "plain", "max_steps": 60, "checkpoint_dir": tmp_path}
    first = DiffoRRegressor(**settings).fit(X, y)
    assert (tmp_path / "partner").is_dir()
    again = DiffoRRegressor(**settings).fit(X, y)
    assert again.history_.records == first.history_.records
    assert np.array_equal(again.sample(X[:6], 9), first.sample(X[:6], 9))


def test_an_interrupted_partner_is_left_out(monkeypatch):
    X, y = make_data()

    def interrupt(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(MixtureDensity, "loss", interrupt)
    with pytest.warns(UserWarning, match="training was interrupted at step 0"):
        model = DiffoRRegressor(**QUICK | {"partner": "mdn", "encoder": "plain"}).fit(X, y)
    assert model.encoders_ == ["plain+guide"]
