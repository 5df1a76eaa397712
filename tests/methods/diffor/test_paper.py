import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from diffor.core.row_noise import row_keys, start_noise, step_noise
from diffor.methods.diffor import (
    Diffusion,
    FlowMatching,
    IncrementDiffusion,
    MLPDenoiser,
    ScaleHeadsDenoiser,
    TransformerDenoiser,
)
from diffor.methods.diffor.chain_times import LONG_CHAIN, SHORT_CHAIN, default_chain
from diffor.methods.diffor.increments import aggregate_increments, aligned_times, split_increments, squeeze, stretch
from diffor.paper.theory.fusion import fit_fusion

SIMPLE = {"denoiser": "mlp", "schedule": "cosine", "parameterization": "velocity", "objective": "one_call"}
"""What is not the paper's letter, and quick."""
SMALL = {"n_increments": 3, "n_times": 20, "width": 16, "n_layers": 1, "dropout": 0.0}


def test_the_defaults_are_the_letter_of_the_paper():
    method = IncrementDiffusion(2)
    assert isinstance(method.denoiser, ScaleHeadsDenoiser)
    assert len(method.denoiser.layers) == 2
    assert {layer.attention.query.shape[0] for layer in method.denoiser.layers} == {8}
    assert isinstance(method.process, Diffusion)
    assert (method.process.parameterization, method.process.n_times) == ("noise", 1000)
    assert (method.objective, method.decoding, method.n_draws, method.eta) == ("full", "heads", 1, 0.0)
    assert (method.n_increments, method.increment_weight, method.aligned_share) == (8, 10.0, 0.5)
    assert method.chain_times == method.aligned_times == aligned_times(8, 1000)
    other = IncrementDiffusion(2, denoiser="mlp", process="flow_matching", parameterization="clean")
    assert isinstance(other.denoiser, MLPDenoiser)
    assert isinstance(other.process, FlowMatching)
    assert other.process.parameterization == "clean"
    assert isinstance(IncrementDiffusion(2, denoiser="transformer").denoiser, TransformerDenoiser)


def small(**changes) -> IncrementDiffusion:
    torch.manual_seed(0)
    return IncrementDiffusion(2, **{**SMALL, **SIMPLE, "decoding": "chain", **changes})


def rows(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 2, generator=generator)
    return features, torch.rand(n, generator=generator), row_keys((features,), seed=0)


# The clean vector.


def test_stretch_maps_increments_onto_plus_minus_one_and_back():
    increments = split_increments(torch.rand(50), 8)
    clean = stretch(increments)
    assert clean.min() >= -1
    assert clean.max() <= 1 + 1e-6
    torch.testing.assert_close(squeeze(clean), increments)
    assert stretch(torch.tensor([0.0, 0.25, 0.125, 0.25])).tolist() == [-1, 1, 0, 1]


# The objective, by hand.


def by_hand(method: IncrementDiffusion, features, y, weights, seed):
    """Algorithm 1 with loops: S times the two terms, weighted means over rows, from the draws that ``loss`` makes."""
    S, process = method.n_increments, method.process
    increments = split_increments(y, S)
    clean = 2 * S * increments - 1
    torch.manual_seed(seed)
    t, aligned = method.draw_times(len(y), y.device)
    noise = torch.randn(*t.shape, S)

    def denoise(i, time, own_noise):
        noisy = process.signals[time] * clean[i] + process.spreads[time] * own_noise
        predicted = method.denoiser(noisy[None], features[i : i + 1], torch.tensor([time]))[0]
        return predicted, (noisy - process.spreads[time] * predicted) / process.signals[time]

    def head_error(i, k, own_noise):
        _, estimate = denoise(i, method.aligned_times[k], own_noise)
        return (increments[i, k] - method.heads(estimate.expand(S, S))[k]) ** 2

    pairs = [(j, i) for j in range(t.shape[0]) for i in range(len(y))]
    diffusion = [weights[i] * (noise[j, i] - denoise(i, int(t[j, i]), noise[j, i])[0]).square().sum() for j, i in pairs]
    if method.objective == "full":
        errors = [weights[i] * sum(head_error(i, k, noise[0, i]) for k in range(S)) for i in range(len(y))]
    else:
        chosen = [(*pairs[int(draw)], place % S) for place, draw in enumerate(aligned)]
        errors = [weights[i] * S * head_error(i, k, noise[j, i]) for j, i, k in chosen]
    return torch.stack(diffusion).mean(), torch.stack(errors).mean()


@pytest.mark.parametrize(
    ("objective", "denoiser", "n_draws"),
    [("full", "mlp", 3), ("full", "scale_heads", 1), ("one_call", "transformer", 1), ("one_call", "scale_heads", 3)],
)
def test_terms_equal_algorithm_one_by_hand(objective, denoiser, n_draws):
    weights = torch.linspace(0, 2, 12)
    settings = {"parameterization": "noise", "schedule": "linear", "objective": objective, "denoiser": denoiser}
    method = small(n_draws=n_draws, **settings)
    features, y, _ = rows(12)
    diffusion, increment = by_hand(method, features, y, weights, seed=5)
    torch.manual_seed(5)
    terms = method.loss(features, y, weights)
    torch.testing.assert_close(3 * terms["denoise"], diffusion, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(3 * terms["increment"], 10 * increment, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def mean_terms(method: IncrementDiffusion, weights, n_batches=40):
    """Mean of each loss term over many draws, with its standard error."""
    features, y, _ = rows(5)
    features, y = features.repeat(800, 1), y.repeat(800)
    torch.manual_seed(11 if method.objective == "full" else 12)
    draws = [method.loss(features, y, weights.repeat(800)) for _ in range(n_batches)]
    values = {name: torch.stack([draw[name] for draw in draws]).double() for name in draws[0]}
    return {name: (float(v.mean()), float(v.std()) / math.sqrt(n_batches)) for name, v in values.items()}


def test_one_call_objective_is_unbiased():
    weights = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0])
    one = mean_terms(small(objective="one_call", aligned_share=0.3).eval(), weights)
    full = mean_terms(small(objective="full", aligned_share=0.3).eval(), weights)
    for name in ("denoise", "increment"):
        (first, first_error), (second, second_error) = one[name], full[name]
        error = math.hypot(first_error, second_error)
        assert error < 0.02 * second  # small enough for a wrong factor to show
        assert abs(first - second) < 4.5 * error


# Times.


@pytest.mark.parametrize(("spacing", "share"), [("linear", 0.5), ("log", 0.2), ("shared", 1.0)])
def test_drawn_times_follow_the_mixture(spacing, share):
    method, n = small(spacing=spacing, aligned_share=share), 200_000
    torch.manual_seed(0)
    t, aligned = method.draw_times(n, torch.device("cpu"))
    t = t.flatten()
    expected = np.full(21, (1 - share) / 20)
    expected[0] = 0
    for t_k in method.aligned_times:
        expected[t_k] += share / 3
    frequencies = np.bincount(t.numpy(), minlength=21) / n
    assert (abs(frequencies - expected) <= 1e-4).all()  # stratified: far closer than independent draws
    heads = torch.arange(len(aligned)) % 3
    assert torch.equal(t[aligned], torch.tensor(method.aligned_times)[heads])
    assert abs(len(aligned) - share * n) <= 3
    assert len(set(aligned.tolist())) == len(aligned)


def test_times_can_be_drawn_uniformly_for_the_full_objective():
    t, aligned = small(objective="full", aligned_share=0.0).draw_times(1000, torch.device("cpu"))
    assert len(aligned) == 0
    assert np.bincount(t.flatten().numpy()).tolist() == [0] + [50] * 20  # stratified: exactly even


@pytest.mark.parametrize(("n", "n_draws"), [(1, 1), (5, 4)])
def test_every_head_has_a_draw_however_small_the_batch(n, n_draws):
    t, aligned = small(n_draws=n_draws).draw_times(n, torch.device("cpu"))
    assert t.shape[0] >= n_draws
    assert len(aligned) >= 3
    assert len(aligned) % 3 == 0


# The chain.


@pytest.mark.parametrize("n_increments", [3, 12])
@pytest.mark.parametrize("decoding", ["chain", "heads", "fusion"])
def test_a_prediction_costs_one_denoiser_call_per_increment(n_increments, decoding):
    method, calls = small(n_increments=n_increments, decoding=decoding).eval(), []
    method.denoiser.register_forward_hook(lambda module, arguments, output: calls.append(output.shape))
    features, _, keys = rows(7)
    assert method.predict(features, keys, 5).samples.shape == (7, 5)
    n_calls = n_increments
    if decoding == "chain" and n_increments < SHORT_CHAIN:  # a short chain would blur the distribution
        n_calls = len({*method.aligned_times, *aligned_times(LONG_CHAIN, 20)})
    assert calls == [(7, 5, n_increments)] * n_calls


@pytest.mark.parametrize(
    ("changes", "n_calls"),
    [({"n_increments": 1}, 8), ({"spacing": "shared"}, 8), ({"spacing": "shared", "n_increments": 12}, 12)],
)
def test_without_distinct_times_the_chain_still_leads_from_noise_to_clean(changes, n_calls):
    times = small(**changes).chain_times
    assert (times[0], times[-1], len(times)) == (20, 1, n_calls)
    assert [default_chain((1,), 1), default_chain((1, 1, 1), 2)] == [(1,), (2, 1)]


class Oracle(nn.Module):
    """A denoiser that knows the answer."""

    def __init__(self, clean):
        super().__init__()
        self.clean = clean

    def forward(self, noisy, features, t):
        return self.clean.unsqueeze(1).expand_as(noisy)


@pytest.mark.parametrize("process", ["diffusion", "flow_matching"])
@pytest.mark.parametrize("decoding", ["chain", "fusion"])
def test_a_perfect_denoiser_predicts_the_target(process, decoding):
    method = small(process=process, parameterization="clean", decoding=decoding, eta=1.0)
    features, y, keys = rows(9)
    method.denoiser = Oracle(stretch(split_increments(y, 3)))
    samples = method.predict(features, keys, 4).samples
    np.testing.assert_allclose(samples, np.repeat(y.numpy()[:, None], 4, axis=1), atol=1e-6)


@torch.no_grad()
def test_each_head_decodes_the_estimate_cached_at_its_time():
    method = small(n_steps=5).eval()
    features, _, keys = rows(4)
    assert method.aligned_times == (20, 10, 1)
    reading = method.read(features, keys, 6)
    along = dict(method.chain(features, keys, 6))
    for place, t in enumerate(method.chain_times):
        torch.testing.assert_close(reading.estimates[:, :, place], along[t])
    for k, t in enumerate(method.aligned_times):
        decoded = method.heads(along[t].unsqueeze(2).expand(4, 6, 3, 3))[..., k]
        torch.testing.assert_close(reading.increments[..., k], decoded)
    torch.testing.assert_close(method.increments(features, keys, 6), reading.increments.mean(dim=1))


@torch.no_grad()
def test_heads_decoding_aggregates_the_heads():
    method = small(decoding="heads").eval()
    features, _, keys = rows(4)
    expected = aggregate_increments(method.read(features, keys, 6).increments)
    np.testing.assert_allclose(method.predict(features, keys, 6).samples, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("decoding", ["chain", "heads", "fusion"])
def test_samples_stay_inside_the_unit_interval(decoding):
    method = small(decoding=decoding, parameterization="noise", eta=1.0).eval()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.mul_(5)  # far from anything trained
    samples = method.predict(10 * rows(20)[0], rows(20)[2], 8).samples
    assert np.isfinite(samples).all()
    assert samples.min() >= 0
    assert samples.max() <= 1


def test_predictions_repeat_and_leave_the_global_generator_alone():
    method = small(eta=1.0).eval()
    features, _, keys = rows(5)
    torch.manual_seed(0)
    first = method.predict(features, keys, 7).samples
    after = torch.rand(1)
    assert np.array_equal(method.predict(features, keys, 7).samples, first)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), after)
    assert abs(small(eta=0.0).eval().predict(features, keys, 7).samples - first).max() > 1e-3


# Fusion.


def test_fusion_weights_sum_to_one_and_beat_the_best_single_time():
    method = small(decoding="fusion", n_increments=6).eval()
    features, y, keys = rows(300)
    before = method.fusion_weights.clone()
    assert before.tolist() == [0, 0, 0, 0, 0, 1]
    with torch.no_grad():
        method.calibrate(features, y, keys, 8)
        values = method.values_along(features, keys, 8).mean(dim=1)
    single = (values - y[:, None]).square().mean(dim=0)
    fused = (values @ method.fusion_weights - y).square().mean()
    assert float(method.fusion_weights.sum()) == pytest.approx(1, abs=1e-4)
    assert fused <= 1.001 * single.min() + 1e-6
    assert fused < single[-1]


def test_independent_errors_are_weighted_by_their_precision():
    errors = torch.randn(100_000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 4.0])
    expected = torch.tensor([1.0, 1 / 4, 1 / 16]) / (1 + 1 / 4 + 1 / 16)
    torch.testing.assert_close(fit_fusion(errors), expected, rtol=0, atol=0.02)


# Ablations.


def runs(method: IncrementDiffusion) -> bool:
    features, y, keys = rows(6)
    terms = method.loss(features, y)
    sum(terms.values()).backward()
    samples = method.eval().predict(features, keys, 3).samples
    finite = all(torch.isfinite(term) for term in terms.values()) and np.isfinite(samples).all()
    return bool(finite and samples.min() >= 0 and samples.max() <= 1)


@pytest.mark.parametrize(("objective", "decoding"), [("full", "heads"), ("one_call", "chain"), ("one_call", "fusion")])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_increments": 1, "spacing": "shared"},
        {"spacing": "shared"},
        {"spacing": "log"},
        {"denoiser": "transformer", "n_increments": 7, "n_attention_heads": 4},
        {"denoiser": "scale_heads"},
        {"denoiser": "scale_heads", "n_increments": 1},
        {"process": "flow_matching"},
        {"process": "flow_matching", "parameterization": "clean"},
        {"parameterization": "noise", "schedule": "linear"},
        {"eta": 1.0},
    ],
    ids=str,
)
def test_every_ablation_runs(changes, objective, decoding):
    assert runs(small(objective=objective, decoding=decoding, **changes))


@pytest.mark.parametrize("variance", ["reverse", "forward"])
def test_the_chain_over_all_times_is_the_papers_equation_four(variance):
    """With fresh noise, each step is drawn from the mean and variance that the equation prints, time by time."""
    method = small(n_times=12, schedule="linear", parameterization="noise", decoding="heads", n_steps=12, eta=1.0,
                   chain_variance=variance)  # fmt: skip
    assert method.chain_times == tuple(range(12, 0, -1))
    features, _, keys = rows(2)
    kept = method.process.signals.double() ** 2
    noisy = start_noise(keys, 1, 3)
    for (t, estimate), following in zip(method.chain(features, keys, 1), [*range(11, 0, -1), 0], strict=True):
        predicted = method.denoiser(noisy, features[:, None], torch.tensor(t))
        expected = (noisy - (1 - kept[t]).sqrt() * predicted) / kept[t].sqrt()
        torch.testing.assert_close(estimate, expected, rtol=1e-3, atol=1e-5)
        if following:
            alpha = kept[t] / kept[t - 1]
            mean = (noisy - (1 - alpha) / (1 - kept[t]).sqrt() * predicted) / alpha.sqrt()
            share = (1 - kept[t - 1]) / (1 - kept[t]) if variance == "reverse" else 1.0
            deviation = (share * (1 - alpha)).sqrt()  # 1 - alpha is beta_t
            noisy = (mean + deviation * step_noise(keys, 1, 3, t)).float()


@pytest.mark.parametrize(
    "changes", [{"process": "flow_matching"}, {"objective": "full", "decoding": "heads", "schedule": "linear"}]
)
def test_training_finds_a_noisy_target(changes):
    method = small(n_times=100, width=48, n_increments=4, n_layers=2, **changes)
    features, noise, keys = rows(512)
    y = (torch.sigmoid(2 * features[:, 0]) + 0.1 * (noise - 0.5)).clamp(0, 1)
    optimizer = torch.optim.Adam(method.parameters(), lr=5e-3)
    for _ in range(150):
        optimizer.zero_grad()
        sum(method.loss(features, y).values()).backward()
        optimizer.step()
    prediction = method.eval().predict(features, keys, 16)
    error = abs(prediction.median - y.numpy()).mean()
    assert error < 0.05
    assert error < 0.3 * abs(y - y.median()).mean()


# The number of steps.


@pytest.mark.parametrize("decoding", ["chain", "heads", "fusion"])
@pytest.mark.parametrize("spacing", ["linear", "shared"])
@pytest.mark.parametrize("n_steps", [4, 11])
def test_a_prediction_takes_as_many_denoiser_calls_as_steps(decoding, spacing, n_steps):
    method = small(n_increments=4, n_times=20, decoding=decoding, spacing=spacing, n_steps=n_steps).eval()
    times = []
    method.denoiser.register_forward_pre_hook(lambda module, arguments: times.append(int(arguments[2])))
    features, _, keys = rows(3)
    method.predict(features, keys, 2)
    assert len(times) == n_steps
    assert (times[0], times[-1]) == (20, 1)
    assert decoding == "chain" or set(method.aligned_times) <= set(times)


def test_one_step_answers_with_the_estimate_from_noise_alone():
    method = small(n_steps=1).eval()
    features, _, keys = rows(3)
    with torch.inference_mode():
        (t, estimate), *others = method.chain(features, keys, 5, method.drawing_times)
        found = method.predict(features, keys, 5).samples
    assert (t, others) == (method.process.n_times, [])
    np.testing.assert_array_equal(found, aggregate_increments(squeeze(estimate)).numpy())


def test_increments_are_read_at_aligned_times_also_where_samples_take_fewer_steps():
    features, _, keys = rows(3)
    few, many = small(n_increments=4, n_steps=2).eval(), small(n_increments=4).eval()
    with torch.inference_mode():
        torch.testing.assert_close(few.increments(features, keys, 6), many.increments(features, keys, 6))


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoding": "last"}, "heads, chain, fusion, but got decoding='last'"),
        ({"objective": "half"}, "full, one_call, but got objective='half'"),
        ({"process": "walk"}, "diffusion, flow_matching, but got process='walk'"),
        ({"denoiser": "cnn"}, "scale_heads, transformer, mlp, but got denoiser='cnn'"),
        ({"n_draws": 0}, "but got n_draws=0"),
        ({"n_increments": 0}, "but got n_increments=0"),
        ({"n_increments": 21}, "but got n_times=20, count=21; use more times or fewer increments"),
        ({"decoding": "heads", "n_steps": 2}, "between 3 and n_times=20 where decoding='heads', but got n_steps=2; ch"),
        ({"n_steps": 21}, "between 1 and n_times=20 where decoding='chain', but got n_steps=21"),
        ({"n_steps": 0}, "where decoding='chain', but got n_steps=0"),
        ({"aligned_share": 1.5}, "[0, 1], but got aligned_share=1.5"),
        ({"aligned_share": 0.0}, "but got aligned_share=0; raise aligned_share or use objective='full'"),
        ({"increment_weight": -1.0}, "at least 0, but got increment_weight=-1.0"),
        ({"eta": -0.5}, "[0, 1], but got eta=-0.5"),
        ({"chain_variance": "big"}, "reverse, forward, but got chain_variance='big'"),
        (
            {"chain_variance": "forward", "process": "flow_matching", "parameterization": "velocity"},
            "of a diffusion, but got process='flow_matching'; leave it out",
        ),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small(**changes)
