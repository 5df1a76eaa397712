import pytest
import torch

from diffor.methods.diffor.networks import (
    CACHED_ROWS,
    IncrementHeads,
    MLPDenoiser,
    ScaleLayer,
    TransformerDenoiser,
)
from diffor.methods.diffor.scale_heads import ScaleHeadsDenoiser

MAKERS = {
    "mlp": lambda **sizes: MLPDenoiser(**{"n_increments": 4, "n_features": 6, "width": 16, **sizes}),
    "transformer": lambda **sizes: TransformerDenoiser(
        **{"n_increments": 4, "n_features": 6, "width": 16, "n_attention_heads": 4, **sizes}
    ),
    "scale_heads": lambda **sizes: ScaleHeadsDenoiser(**{"n_increments": 4, "n_features": 6, "width": 16, **sizes}),
}
every_denoiser = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


# Denoisers.


@every_denoiser
@pytest.mark.parametrize(
    ("noisy", "features", "times"),
    [
        ((5, 3), (5, 1), ()),
        ((5, 3), (5, 3), (5, 3)),
        ((5, 1), (5, 3), (1, 3)),
        ((1,), (7,), ()),
    ],
)
def test_broadcasting_equals_repetition(make, noisy, features, times):
    torch.manual_seed(0)
    denoiser = make().eval()
    noisy, features = torch.randn(*noisy, 4), torch.randn(*features, 6)
    t = torch.randint(1, 100, times)
    lead = torch.broadcast_shapes(noisy.shape[:-1], features.shape[:-1], t.shape)
    repeated = denoiser(
        noisy.expand(*lead, 4).reshape(-1, 4), features.expand(*lead, 6).reshape(-1, 6), t.expand(lead).reshape(-1)
    )
    output = denoiser(noisy, features, t)
    assert output.shape == (*lead, 4)
    torch.testing.assert_close(output.reshape(-1, 4), repeated, rtol=1e-4, atol=1e-5)


@every_denoiser
def test_output_depends_on_noise_features_and_time(make):
    torch.manual_seed(0)
    denoiser = make().eval()
    noisy, features, t = torch.randn(5, 4), torch.randn(5, 6), torch.full((5,), 10)
    output = denoiser(noisy, features, t)
    for changed in (
        denoiser(noisy + 1, features, t),
        denoiser(noisy, features + 1, t),
        denoiser(noisy, features, t + 40),
    ):
        assert (changed - output).abs().max() > 1e-3
    alone = denoiser(noisy + torch.eye(4)[3], features, t)  # every increment sees every other
    assert ((alone - output).abs().amax(dim=0) > 0).all()


@every_denoiser
def test_dropout_acts_while_training_only(make):
    torch.manual_seed(0)
    denoiser = make(dropout=0.5)
    arguments = torch.randn(5, 4), torch.randn(5, 6), torch.tensor(10)
    assert not torch.allclose(denoiser.train()(*arguments), denoiser(*arguments))
    assert torch.equal(denoiser.eval()(*arguments), denoiser(*arguments))


@pytest.mark.parametrize("count", [1, 8])
def test_the_layer_of_scales_is_the_standard_one(count):
    torch.manual_seed(0)
    layer = ScaleLayer(width=24, n_attention_heads=3, dropout=0.1).eval()
    standard = torch.nn.TransformerEncoderLayer(24, 3, 96, activation="gelu", batch_first=True, norm_first=True).eval()
    standard.load_state_dict(layer.state_dict())
    tokens = torch.randn(5, count, 24, requires_grad=True)
    gradients = [torch.autograd.grad(one(tokens).square().sum(), tokens)[0] for one in (layer, standard)]
    torch.testing.assert_close(layer(tokens), standard(tokens), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-4)


@every_denoiser
def test_predictions_in_pieces_are_those_of_all_rows_at_once(make):
    torch.manual_seed(0)
    denoiser = make().eval()
    noisy, features = torch.randn(CACHED_ROWS + 40, 4), torch.randn(CACHED_ROWS + 40, 6)
    whole = denoiser(noisy, features, torch.tensor(10)).detach()
    with torch.no_grad():
        torch.testing.assert_close(denoiser(noisy, features, torch.tensor(10)), whole, rtol=1e-5, atol=1e-5)


def test_the_standard_transformer_is_as_large_as_the_papers():
    layers = TransformerDenoiser(n_increments=8, n_features=16).layers.layers
    assert [(layer.self_attn.num_heads, layer.dropout.dropped) for layer in layers] == [(8, round(0.1 * 256))] * 2


@pytest.mark.parametrize(("width", "heads"), [(16, 0), (16, 3)])
def test_a_width_that_heads_cannot_share_is_refused(width, heads):
    with pytest.raises(ValueError, match=f"multiple .*width={width}, n_attention_heads={heads}"):
        TransformerDenoiser(4, 6, width=width, n_attention_heads=heads)


@every_denoiser
def test_an_output_does_not_change_a_bit_with_the_number_of_rows(make):
    torch.manual_seed(0)
    denoiser = make(n_features=48, width=64).eval()
    noisy, features = torch.randn(40, 16, 4), torch.randn(40, 1, 48)
    with torch.no_grad():
        together = denoiser(noisy, features, torch.tensor(10))
        alone = denoiser(noisy[:1], features[:1], torch.tensor(10))
    assert torch.equal(alone, together[:1])


# Heads.


@pytest.mark.parametrize("count", [1, 5])
def test_heads_answer_within_the_width(count):
    increments = IncrementHeads(count)(100 * torch.randn(50, count, count))
    assert increments.shape == (50, count)
    assert increments.min() >= 0
    assert increments.max() <= 1 / count


def test_head_k_reads_only_the_estimate_at_its_time():
    torch.manual_seed(0)
    estimates = torch.randn(1, 5, 5, requires_grad=True)
    increments = IncrementHeads(5)(estimates)
    for k in range(5):
        gradient = torch.autograd.grad(increments[0, k], estimates, retain_graph=True)[0][0]
        assert (gradient[k] != 0).all()
        assert (gradient[torch.arange(5) != k] == 0).all()


def test_each_head_has_its_own_weights():
    torch.manual_seed(0)
    heads = IncrementHeads(5)
    for k in range(5):
        heads.zero_grad()
        heads(torch.randn(3, 5, 5))[:, k].sum().backward()
        for parameter in heads.parameters():
            moved = parameter.grad.flatten(1).abs().sum(dim=1) if parameter.grad.ndim > 1 else parameter.grad.abs()
            assert moved.nonzero().squeeze(1).tolist() == [k]
    assert len(heads(torch.ones(1, 5, 5)).unique()) == 5


def test_heads_are_the_papers_formula():
    torch.manual_seed(0)
    heads, estimates = IncrementHeads(3, hidden=4), torch.randn(2, 5, 3, 3)
    for k in range(3):
        hidden = torch.nn.functional.silu(estimates[..., k, :] @ heads.first[k] + heads.first_bias[k])
        logit = hidden @ heads.second[k] + heads.second_bias[k]
        torch.testing.assert_close(heads(estimates)[..., k], torch.sigmoid(logit) / 3)
        torch.testing.assert_close(heads.logits(estimates)[..., k], logit)
