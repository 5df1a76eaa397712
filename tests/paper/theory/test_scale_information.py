import numpy as np
import pytest
import torch
from chain_methods import make_method

from diffor.methods.diffor.increments import split_increments, squeeze
from diffor.paper.theory.analysis import corrupt_rows
from diffor.paper.theory.scale_information import (
    cross_entropy_in_bits,
    entropy_in_bits,
    explained_variance,
    half_times,
    order_agreement,
    scale_information,
)

S = 4


def make_rows(n=400):
    """Features that tell nothing, targets, and samples that are the truth."""
    y = torch.rand(n, generator=torch.Generator().manual_seed(1))
    return torch.zeros(n, 2), y, split_increments(y, S)[:, None].expand(n, 6, S)


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


def test_an_identity_denoiser_explains_what_the_noise_leaves():
    """An estimate that takes what it sees for the truth misses by spread / signal, whatever the increment."""
    process = make_method().process
    method = make_method(lambda noisy, t: noisy / process.signals[t])
    features, y, samples = make_rows(20_000)
    found = scale_information(method, features, y, samples, times=(700, 300, 1))
    stretched = 2 * S * split_increments(y, S) - 1
    for place, t in enumerate(found["times"]):
        noise = float((process.spreads[t] / process.signals[t]) ** 2)
        expected = 1 - noise / stretched.var(dim=0, unbiased=False).numpy()
        np.testing.assert_allclose(found["explained"][place], expected, atol=0.05 * noise + 1e-4)
    assert (found["explained"][-1] > 0.999).all()


def test_without_features_nothing_is_explained_at_the_highest_noise():
    features, y, samples = make_rows()
    means = (2 * S * split_increments(y, S) - 1).mean(dim=0)
    found = scale_information(make_method(lambda noisy, t: means.expand_as(noisy)), features, y, samples)
    np.testing.assert_allclose(found["explained"], 0, atol=1e-6)
    assert np.isnan(found["half_times"]).all()
    assert np.isnan(found["order_agreement"])


def test_samples_that_are_the_truth_tell_almost_everything_and_those_of_other_rows_mislead():
    features, y, samples = make_rows()
    right = scale_information(make_method(), features, y, samples)
    assert right["predictive_entropy"].tolist() == [0.0] * S
    assert (right["entropy"] > 0.9).all()
    assert (right["information"] > 0.6 * right["entropy"]).all()
    wrong = scale_information(make_method(), features, y, samples.flip(0))
    assert wrong["predictive_entropy"].tolist() == [0.0] * S
    assert wrong["information"].sum() < 0
    assert wrong["entropy"].sum() <= 2 * S
    assert scale_information(make_method(), features, y, samples, n_bins=2)["entropy"].sum() <= S


def test_the_order_of_half_times_is_compared_with_the_order_of_the_heads():
    halves = half_times([[0.6, 0.1, 0.1], [0.8, 0.6, 0.1], [1.0, 1.0, 1.0]], (9, 5, 1))
    assert halves.tolist() == [9, 5, 1]
    assert order_agreement((6, 4, 2), halves) == pytest.approx(1.0)
    assert order_agreement((6, 4, 2), halves[::-1]) == pytest.approx(-1.0)
    assert np.isnan(order_agreement((6, 6, 6), halves))


def test_shares_at_the_heads_own_times_and_in_all_by_variance():
    features, y, samples = make_rows()
    method = make_method()
    found = scale_information(method, features, y, samples)
    own = [found["explained"][found["times"].index(t), k] for k, t in enumerate(method.aligned_times)]
    np.testing.assert_array_equal(found["explained_at_heads"], own)
    one = scale_information(method, features, y, samples, times=(500,))
    assert np.isnan(one["explained_at_heads"]).all()
    increments = split_increments(y.double(), S).numpy()
    (rows,) = corrupt_rows(method, features, y, (500,))
    rest = ((squeeze(rows.denoised).numpy() - increments) ** 2).mean(axis=0)
    assert one["explained_in_all"][0] == pytest.approx(1 - rest.sum() / increments.var(axis=0).sum())


def test_increments_that_never_change_have_no_share():
    features, y, _ = make_rows()
    y = 0.4 * y  # the last two of four increments stay empty
    samples = split_increments(y, S)[:, None]
    found = scale_information(make_method(), features, y, samples)
    assert np.isnan(found["explained"][:, 2:]).all()
    assert np.isfinite(found["explained"][:, :2]).all()
    constant = scale_information(make_method(), features, torch.zeros_like(y), 0 * samples)
    assert np.isnan(constant["explained_in_all"]).all()
