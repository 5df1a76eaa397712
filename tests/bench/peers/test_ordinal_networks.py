import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from diffor.bench.peers.ordinal_networks import (
    ORDINAL_NETWORKS,
    exceed_of_conditional,
    exceed_of_cumulative,
    fit_coral,
    fit_corn,
    grade_probabilities,
    ranked_probability_score,
)
from diffor.bench.peers.problem import Problem
from diffor.core.prediction import Prediction

pytest.importorskip("coral_pytorch")

QUICK = {"max_steps": 300, "width": 64, "learning_rate": 3e-3, "encoder": "plain"}
CUTS = np.array([-1.0, 0.0, 1.5])


def graded(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    latent = 1.5 * table["a"].to_numpy() + rng.logistic(size=n)
    return table, np.searchsorted(CUTS, latent).astype(float)


def true_probabilities(table):
    below = stats.logistic.cdf(CUTS - 1.5 * table["a"].to_numpy()[:, None])
    return np.diff(np.concatenate([np.zeros((len(table), 1)), below, np.ones((len(table), 1))], axis=1), axis=1)


def make_problem(n_grades=4):
    (x, y), (x_valid, y_valid) = graded(800, 0), graded(300, 1)
    return Problem(x, y, x_valid, y_valid, n_grades=n_grades, n_samples=50)


def test_conditional_probabilities_multiply_and_never_underflow_to_nan():
    logits = torch.tensor([[1.0, -2.0, 0.5], [-200.0, -200.0, -200.0]])
    assert torch.allclose(exceed_of_conditional(logits), logits.sigmoid().cumprod(dim=1))
    assert torch.allclose(exceed_of_cumulative(logits), logits.sigmoid())


def test_grade_probabilities_are_differences_and_always_valid():
    exceed = torch.tensor([[0.9, 0.6, 0.1], [0.5, 0.7, 0.2]])  # the second rises on the way, which CORAL may do
    probabilities = grade_probabilities(exceed)
    assert probabilities[0] == pytest.approx([0.1, 0.3, 0.5, 0.1])
    assert probabilities[1] == pytest.approx(np.array([0.5, 0.0, 0.5, 0.2]) / 1.2)


def test_the_ranked_probability_score_is_that_of_the_distributions():
    exceed, levels = torch.tensor([[0.75, 0.25], [1.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert float(ranked_probability_score(exceed, levels)) == pytest.approx((2 * 0.25**2 + 2) / 2)


@pytest.mark.parametrize("fit", [fit_coral, fit_corn])
def test_it_learns_the_probabilities_of_grades(fit):
    table, y = graded(1000, 2)
    fitted = fit(make_problem(), **QUICK)
    probabilities = fitted.probabilities(table)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    truth = true_probabilities(table)
    marginal = np.bincount(make_problem().y.astype(int)) / 800
    assert np.abs(probabilities - truth).mean() < 0.35 * np.abs(marginal - truth).mean()
    prediction = fitted.predict(table)
    assert prediction.samples.shape == (1000, 50)
    assert set(np.unique(prediction.samples)) <= {0.0, 1.0, 2.0, 3.0}
    constant = Prediction(np.tile(np.sort(make_problem().y)[::16], (1000, 1)))
    assert prediction.crps(y).mean() < 0.85 * constant.crps(y).mean()


@pytest.mark.parametrize("fit", [fit_coral, fit_corn])
def test_grades_that_no_training_row_has_do_no_harm(fit):
    fitted = fit(make_problem(n_grades=6), **{**QUICK, "max_steps": 100})
    probabilities = fitted.probabilities(graded(50, 3)[0])
    assert probabilities.shape == (50, 6)
    assert np.isfinite(probabilities).all()


@pytest.mark.parametrize("fit", [fit_coral, fit_corn])
def test_a_seed_determines_the_answer(fit):
    settings = {**QUICK, "max_steps": 20}
    first, second = (fit(make_problem(), **settings).probabilities(graded(50, 3)[0]) for _ in range(2))
    assert np.array_equal(first, second)


def test_coral_starts_from_the_shares_of_the_grades():
    problem = make_problem()
    fitted = fit_coral(problem, **{**QUICK, "max_steps": 0})
    bias = fitted.network.head.coral_bias.detach()
    assert bias.sigmoid().tolist() == pytest.approx([(problem.y > border).mean() for border in range(3)], abs=1e-5)


@pytest.mark.parametrize(("fit", "name"), [(fit_coral, "coral"), (fit_corn, "corn")])
def test_values_are_refused(fit, name):
    with pytest.raises(ValueError, match=f"{name} needs ordered grades, but got n_grades=None; give it"):
        fit(make_problem(n_grades=None))


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "coral_pytorch", None)
    with pytest.raises(ImportError, match=r'pip install "diffor\[bench\]"'):
        fit_coral(make_problem())


def test_the_table_names_them():
    assert {peer.name: peer.fit for peer in ORDINAL_NETWORKS} == {"coral": fit_coral, "corn": fit_corn}
    assert all(peer.tasks == ("grades",) and peer.package == "coral-pytorch" for peer in ORDINAL_NETWORKS)
