import numpy as np
import pytest
import torch

from diffor.methods.diffor import IncrementDiffusion
from diffor.methods.diffor.increments import split_increments, squeeze
from diffor.paper.theory.analysis import corrupt_rows
from diffor.paper.theory.scale_information import (
    ScaleInformation,
    cross_entropy_in_bits,
    entropy_in_bits,
    explained_variance,
    scale_information,
)

S = 4


class Denoiser(torch.nn.Module):
    """A denoiser of clean vectors that is a function of what it sees."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, noisy, features, t):
        return self.answer(noisy, t)


def make_method(answer=None, **settings):
    torch.manual_seed(0)
    base = {"n_increments": S, "width": 16, "n_layers": 1, "denoiser": "mlp", "parameterization": "clean"}
    method = IncrementDiffusion(2, **{**base, "schedule": "cosine", "decoding": "chain", **settings}).eval()
    if answer is not None:
        method.denoiser = Denoiser(answer)
    return method


def make_rows(n=400):
    generator = torch.Generator().manual_seed(1)
    y = torch.rand(n, generator=generator)
    return torch.zeros(n, 2), y, split_increments(y, S)[:, None].expand(n, 6, S)


# The parts.


def test_explained_variance_of_known_estimates():
    truth = np.random.default_rng(0).normal(size=(100, 3))
    assert explained_variance(truth, truth).tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(explained_variance(np.tile(truth.mean(axis=0), (100, 1)), truth), 0, atol=1e-12)
    np.testing.assert_allclose(explained_variance(0.5 * (truth + truth.mean(axis=0)), truth), 0.75)


def test_entropy_of_known_distributions():
    even = np.linspace(0, 1, 8, endpoint=False)[None, :, None]
    assert entropy_in_bits(even, 8).tolist() == [[3.0]]
    assert entropy_in_bits(even).tolist() == [[2.0]]
    assert entropy_in_bits(np.full((1, 5, 1), 0.3)).tolist() == [[0.0]]
    assert entropy_in_bits([[[1.0], [2.0], [-1.0], [0.0]]]).tolist() == [[1.0]]  # clipped into the outer cells


def test_cross_entropy_of_predictions_that_are_right_that_know_nothing_and_that_mislead():
    truth = np.tile([[0.0], [1.0]], (50, 1))  # one bit
    right, wrong = np.repeat(truth[:, None], 255, axis=1), np.repeat(1 - truth[:, None], 255, axis=1)
    ignorant = np.tile(np.array([0.0, 1.0] * 128)[None, :, None], (100, 1, 1))
    assert cross_entropy_in_bits(right, truth)[0] == pytest.approx(-np.log2((255 + 0.5) / 256))
    assert cross_entropy_in_bits(ignorant, truth)[0] == pytest.approx(1.0)
    assert cross_entropy_in_bits(wrong, truth)[0] == pytest.approx(9.0)


# The whole.


def test_an_identity_denoiser_explains_what_the_noise_leaves():
    """An estimate that takes what it sees for the truth misses by spread / signal, whatever the increment."""
    method = make_method()
    process = method.process
    method.denoiser = Denoiser(lambda noisy, t: noisy / process.signals[t])
    features, y, samples = make_rows(20_000)
    found = scale_information(method, features, y, samples, times=(700, 300, 1))
    stretched = 2 * S * split_increments(y, S) - 1
    for place, t in enumerate(found.times):
        noise = float((process.spreads[t] / process.signals[t]) ** 2)
        expected = 1 - noise / stretched.var(dim=0, unbiased=False).numpy()
        np.testing.assert_allclose(found.explained[place], expected, atol=0.05 * noise + 1e-4)
    assert (found.explained[-1] > 0.999).all()


def test_without_features_nothing_is_explained_at_the_highest_noise():
    features, y, samples = make_rows()
    means = (2 * S * split_increments(y, S) - 1).mean(dim=0)
    method = make_method(lambda noisy, t: means.expand_as(noisy))
    found = scale_information(method, features, y, samples)
    np.testing.assert_allclose(found.explained, 0, atol=1e-6)
    assert np.isnan(found.half_times).all()
    assert np.isnan(found.order_agreement)


def test_samples_that_are_the_truth_tell_almost_everything():
    features, y, samples = make_rows()
    found = scale_information(make_method(), features, y, samples.expand(-1, 6, -1))
    assert found.predictive_entropy.tolist() == [0.0] * S
    assert (found.entropy > 0.9).all()
    assert (found.information > 0.6 * found.entropy).all()


def test_samples_that_mislead_lose_bits_though_they_are_sure():
    features, y, samples = make_rows()
    found = scale_information(make_method(), features, y, samples.flip(0))
    assert found.predictive_entropy.tolist() == [0.0] * S
    assert found.information.sum() < 0
    assert found.entropy.sum() <= 2 * S
    coarse = scale_information(make_method(), features, y, samples, n_bins=2)
    assert coarse.entropy.sum() <= S


def make_information(explained, times=(9, 5, 1)):
    count = np.shape(explained)[1]
    bits, aligned = np.ones(count), tuple(range(2 * count, 0, -2))
    return ScaleInformation(times, aligned, np.array(explained), bits, bits, 0 * bits, 0.5 * bits)


def test_what_is_explained_at_the_heads_own_times():
    found = make_information([[0.6, 0.1, -0.5], [0.8, 0.6, 0.1], [1.0, 1.0, 0.9]], times=(6, 4, 2))
    assert found.explained_at_heads.tolist() == [0.6, 0.6, 0.9]
    elsewhere = make_information([[0.6, 0.1, -0.5]], times=(5,))
    assert np.isnan(elsewhere.explained_at_heads).all()


def test_the_order_of_half_times_is_compared_with_the_order_of_the_heads():
    with_order = make_information([[0.6, 0.1, 0.1], [0.8, 0.6, 0.1], [1.0, 1.0, 1.0]])
    assert with_order.half_times.tolist() == [9, 5, 1]
    assert with_order.order_agreement == pytest.approx(1.0)
    against = make_information([[0.1, 0.1, 0.6], [0.1, 0.6, 0.8], [1.0, 1.0, 1.0]])
    assert against.order_agreement == pytest.approx(-1.0)


def test_what_is_explained_in_all_counts_increments_by_their_variance():
    features, y, samples = make_rows()
    method = make_method()
    found = scale_information(method, features, y, samples, times=(500,))
    increments = split_increments(y.double(), S).numpy()
    (rows,) = corrupt_rows(method, features, y, (500,))
    rest = ((squeeze(rows.denoised(method)).numpy() - increments) ** 2).mean(axis=0)
    assert found.explained_in_all[0] == pytest.approx(1 - rest.sum() / increments.var(axis=0).sum())


def test_increments_that_never_change_have_no_share():
    features, y, _ = make_rows()
    y = 0.4 * y  # the last two of four increments stay empty
    samples = split_increments(y, S)[:, None]
    found = scale_information(make_method(), features, y, samples)
    assert np.isnan(found.explained[:, 2:]).all()
    assert np.isfinite(found.explained[:, :2]).all()
    constant = scale_information(make_method(), features, torch.zeros_like(y), 0 * samples)
    assert np.isnan(constant.explained_in_all).all()
