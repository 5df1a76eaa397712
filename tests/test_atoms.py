import json

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import DiffoRRegressor, load
from diffor.atoms import MIN_ROWS, Atoms
from diffor.calibration import ValidationScore, fit_atoms
from diffor.prediction import Prediction
from diffor.target import TargetScale
from diffor.train import Rows


def halves(y: np.ndarray) -> np.ndarray:
    return np.asarray(y) / 10


def test_atoms_are_frequent_values_with_their_shares():
    y = np.array([0.0] * 30 + [3.0] * 10 + list(np.linspace(4, 10, 60)))
    atoms = Atoms.find(y, halves)
    assert atoms.values.tolist() == [0.0, 3.0]
    assert atoms.places.tolist() == [0.0, 0.3]
    assert atoms.shares == pytest.approx([0.3, 0.1])
    assert atoms.shares_below == pytest.approx([0.0, 0.3])


def test_a_few_equal_targets_of_a_short_table_are_no_atom():
    y = np.array([1.0] * (MIN_ROWS - 1) + list(np.linspace(2, 9, 16)))
    assert len(Atoms.find(y, halves)) == 0
    assert len(Atoms.find(np.append(y, 1.0), halves)) == 1


def test_rows_of_weight_zero_do_not_count():
    y = np.array([0.0] * 50 + list(np.linspace(1, 10, 50)))
    weights = np.r_[np.ones(10), np.zeros(40), np.ones(50)]
    weighted, removed = Atoms.find(y, halves, weights), Atoms.find(y[weights > 0], halves)
    assert weighted.shares == pytest.approx(removed.shares)
    assert Atoms.find(y, halves, np.r_[np.full(50, 2.0), np.ones(50)]).shares == pytest.approx([2 / 3])


def test_as_many_samples_settle_as_targets_are_equal():
    generator = np.random.default_rng(0)
    y = np.where(generator.random(4000) < 0.4, 0.0, generator.uniform(1, 10, 4000))
    near, far = generator.exponential(0.01, 40_000), generator.uniform(0.1, 1, 40_000)
    samples = np.where(generator.random(40_000) < 0.4, near, far)
    atoms = Atoms.find(y, halves).reach_for(samples)
    settled = atoms.settle(samples, samples * 10)
    assert (settled == 0).mean() == pytest.approx((y == 0).mean(), abs=2e-4)
    assert (settled[settled > 0] == samples[settled > 0] * 10).all()


def test_reaches_hold_their_atom_rise_and_do_not_overlap():
    generator = np.random.default_rng(1)
    y = generator.poisson(3, 3000).astype(float)
    scale = TargetScale().fit(y)
    samples = np.clip(scale.to_unit(y) + generator.normal(0.02, 0.03, 3000), 0, 1)
    atoms = scale.atoms.reach_for(samples)
    assert (atoms.low <= atoms.places).all()
    assert (atoms.places <= atoms.high).all()
    assert (atoms.high[:-1] <= atoms.low[1:]).all()
    unit = np.linspace(0, 1, 2001)
    assert (np.diff(atoms.settle(unit, scale.from_unit(unit))) >= 0).all()  # the map still rises


def test_without_atoms_and_before_a_reach_nothing_moves():
    unit = np.linspace(0, 1, 11)
    assert Atoms.find(np.linspace(0, 10, 100), halves).settle(unit, unit * 10).tolist() == (unit * 10).tolist()
    scale = TargetScale().fit([0.0] * 50 + list(range(1, 51)))
    assert scale.from_samples(unit) == pytest.approx(scale.from_unit(unit))


def test_a_scale_keeps_its_atoms_and_older_folders_have_none():
    scale = TargetScale().fit([0.0] * 50 + list(range(1, 51)))
    scale.atoms = scale.atoms.reach_for(np.linspace(0, 1, 101))
    unit, state = np.linspace(0, 1, 101), json.loads(json.dumps(scale.to_json()))
    assert (scale.from_samples(unit) == 0).sum() == pytest.approx(51, abs=1)
    assert TargetScale.from_json(state).from_samples(unit).tolist() == scale.from_samples(unit).tolist()
    del state["atoms"]
    assert TargetScale.from_json(state).from_samples(unit).tolist() == scale.from_unit(unit).tolist()


@pytest.mark.parametrize(("truth", "settles"), [(0.0, True), (30.0, False)])
def test_samples_settle_unless_the_score_suffers(truth, settles):
    scale = TargetScale().fit([0.0] * 50 + list(range(1, 51)))
    samples, y = np.tile(np.linspace(0.001, 1, 100), (3, 1)), np.full(3, truth)
    score = ValidationScore(Rows((), torch.zeros(3), None, torch.zeros(3)), y, scale)
    fit_atoms(Prediction(samples), score)
    assert ((scale.from_samples(samples) == 0).mean() > 0.4) == settles


def test_an_estimator_predicts_zeros_as_often_as_they_occur(tmp_path):
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"a": generator.normal(size=600), "b": generator.normal(size=600)})
    y = np.where(generator.random(600) < 0.5, 0.0, np.exp(table["a"] + generator.normal(0, 0.3, 600)))
    model = DiffoRRegressor(preset="fast", max_steps=60, random_state=0).fit(table, y)
    drawn = model.sample(table, 50)
    assert (drawn == 0).mean() == pytest.approx((y == 0).mean(), abs=0.05)
    model.conformalize(table, y)
    low, high = model.predict_interval(table, 0.9).T
    assert ((low <= y) & (y <= high)).mean() >= 0.9  # intervals are opened before samples settle
    model.save(tmp_path / "model")
    assert (load(tmp_path / "model").sample(table, 50) == drawn).all()
