"""The latency dial: steps of the chain and samples as arguments of prediction."""

import numpy as np
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.methods.diffor import IncrementDiffusion

QUICK = {"max_steps": 10, "random_state": 0, "verbose": 0}
CHAIN = {"n_increments": 4, "denoiser": "mlp", "width": 16, "decoding": "chain", "parameterization": "velocity"}
PAPER = {**QUICK, "preset": "paper", "n_samples": 16, "method_settings": CHAIN}
X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.clip(X[:, 0], -2, 2)


@pytest.fixture(scope="module")
def model():
    return OrdinalRegressor("diffor-paper", bounds=(-2, 2), n_members=2, **PAPER).fit(X, Y)


def count_calls(model, ask):
    """How often each member's denoiser is called."""
    counts = []
    for member in model.model_.models:
        calls = []
        hook = member.method.denoiser.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        counts.append((calls, hook))
    ask()
    for _, hook in counts:
        hook.remove()
    return [len(calls) for calls, _ in counts]


@pytest.mark.parametrize("n_steps", [1, 16])
def test_a_chain_has_as_many_denoiser_calls_as_asked_for(model, n_steps):
    assert count_calls(model, lambda: model.predict(X[:16], n_steps=n_steps)) == [n_steps] * len(model.model_.members)


def test_every_prediction_takes_both_and_the_model_stays_as_it_was(model):
    effort = {"n_samples": 6, "n_steps": 2}
    before = model.predict(X)
    samples = model.predict_distribution(X, **effort)
    assert samples.samples.shape == (120, 6)
    np.testing.assert_array_equal(model.sample(X, 6, n_steps=2), samples.samples)
    np.testing.assert_array_equal(model.predict(X, **effort), samples.median)
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.1, 0.9], **effort), samples.quantile([0.1, 0.9]))
    np.testing.assert_array_equal(model.predict_interval(X, 0.5, **effort), samples.interval(0.5))
    np.testing.assert_array_equal(model.predict_proba(X, [0.0], **effort), samples.probabilities([0.0]))
    np.testing.assert_array_equal(model.predict(X), before)
    assert not np.array_equal(model.predict(X, n_steps=2), before)


def test_as_many_steps_as_fitted_change_nothing(model):
    fitted = len(model.model_.models[0].method.drawing_times)
    np.testing.assert_array_equal(model.predict(X, n_steps=fitted), model.predict(X))


def test_grades_take_both():
    grades = np.digitize(Y, [-0.5, 0.5])
    model = DiffoRClassifier(**PAPER).fit(X, grades)
    assert count_calls(model, lambda: model.predict(X[:16], n_steps=5)) == [5]
    shares = model.predict_proba(X, n_samples=8, n_steps=4)
    assert np.allclose(shares * 8, np.rint(shares * 8))
    np.testing.assert_allclose(model.predict_cumproba(X, n_samples=8, n_steps=4), shares.cumsum(axis=1).clip(max=1))
    assert model.predict_set(X, n_samples=8, n_steps=4).shape == (120, 3)
    assert model.predict(X, "native", n_samples=8, n_steps=4).shape == (120,)


def test_a_guarantee_holds_for_the_effort_it_was_made_with():
    model = DiffoRRegressor(bounds=(-2, 2), **PAPER).fit(X, Y).conformalize(X, Y)
    usual = model.settings_.n_samples
    np.testing.assert_array_equal(model.predict_interval(X, n_samples=usual), model.predict_interval(X))
    with pytest.raises(ValueError, match="guarantee needs the n_steps that it was calibrated with, but got n_steps=2"):
        model.predict_interval(X, n_steps=2)
    with pytest.raises(ValueError, match=r"guarantee needs the n_samples .* but got n_samples=7; leave n_samples out"):
        model.predict_opened(X, threshold=0.5, n_samples=7)
    assert model.predict_opened(X, None, 7, n_steps=2)[0].samples.shape == (120, 7)
    grades = DiffoRClassifier(**PAPER).fit(X, Y > 0).conformalize(X, Y > 0)
    with pytest.raises(ValueError, match="guarantee needs the n_samples"):
        grades.predict_set(X, n_samples=7)


def test_wrong_effort_says_the_rule(model):
    with pytest.raises(ValueError, match="n_steps must be at least 1, but got n_steps=0"):
        model.predict(X, n_steps=0)
    with pytest.raises(ValueError, match="the number of samples must be at least 1, but got 0"):
        model.predict(X, n_samples=0)
    for other in (OrdinalRegressor("dex", **QUICK), DiffoRRegressor("fast", prior=None, **QUICK)):
        with pytest.raises(ValueError, match=r"n_steps is for methods with a chain, but method='d.*' has none"):
            other.fit(X, Y).predict(X, n_steps=4)
    with pytest.raises(ValueError, match=r"decoding='fusion' has weights for the steps .* but got n_steps=4"):
        IncrementDiffusion(4, n_increments=4, width=16, decoding="fusion").with_steps(4)
