"""Attention heads that belong to scales: what head k does concerns increment k, and nothing else."""

import pytest
import torch

from diffor import DiffoRRegressor
from diffor.errors import UserError
from diffor.methods.diffor import IncrementDiffusion, ScaleHeadsDenoiser, TransformerDenoiser
from diffor.methods.diffor.scale_heads import LEAST_HEAD_SIZE, ScaleAttention


def arguments(n_increments=8, n=5):
    generator = torch.Generator().manual_seed(1)
    noisy = torch.randn(n, n_increments, generator=generator)
    return noisy, torch.randn(n, 6, generator=generator), torch.randint(1, 1000, (n,), generator=generator)


def make(n_increments=8, width=32, **settings):
    torch.manual_seed(0)
    return ScaleHeadsDenoiser(n_increments, 6, width, **settings).eval()


@pytest.mark.parametrize("n_increments", [1, 8, 12])
def test_without_head_k_increment_k_moves_and_no_other(n_increments):
    denoiser = make(n_increments)
    whole = denoiser(*arguments(n_increments))
    for place in range(n_increments):
        moved = (denoiser.without_head(place)(*arguments(n_increments)) - whole).abs().amax(dim=0)
        assert moved[place] > 1e-4
        assert moved.argmax() == place
        assert (moved == 0).sum() == n_increments - 1
    assert torch.equal(denoiser(*arguments(n_increments)), whole)  # a copy was changed


def test_only_the_loss_of_increment_k_teaches_head_k():
    denoiser = make()
    for place in range(8):
        denoiser.zero_grad()
        denoiser(*arguments())[:, place].square().sum().backward()
        for layer in denoiser.layers:
            size = layer.attention.size
            of_values = layer.attention.key_value.weight.grad.view(2, 8, size, -1)
            for gradient in (layer.attention.query.grad, layer.attention.output.grad, *of_values):
                taught = gradient.flatten(1).abs().amax(dim=1) > 0
                assert taught.tolist() == [other == place for other in range(8)]


def test_a_head_is_attention_over_the_tokens_of_all_increments():
    """Head k by a loop, from its own weights alone."""
    torch.manual_seed(0)
    attention = ScaleAttention(4, 24, dropout=0.1).eval()
    streams, tokens = torch.randn(3, 4, 24), torch.randn(3, 4, 24)
    weight, bias = (part.view(2, 4, attention.size, -1) for part in
                    (attention.key_value.weight, attention.key_value.bias))  # fmt: skip
    for k in range(4):
        key, value = (tokens @ weight[kind, k].T + bias[kind, k].flatten() for kind in (0, 1))
        query = streams[:, k] @ attention.query[k]
        told = torch.nn.functional.scaled_dot_product_attention(query[:, None], key, value)[:, 0] @ attention.output[k]
        torch.testing.assert_close(attention(streams, tokens)[:, k], told, rtol=1e-4, atol=1e-5)


def test_there_are_as_many_heads_as_scales_and_about_as_many_weights_as_in_the_standard_transformer():
    ours, standard = ScaleHeadsDenoiser(8, 16), TransformerDenoiser(8, 16)
    counts = [sum(parameter.numel() for parameter in one.parameters()) for one in (ours, standard)]
    assert counts[0] == pytest.approx(counts[1], rel=0.01)
    assert {layer.attention.size for layer in ours.layers} == {128 // 8}
    assert make(n_increments=12, width=32).layers[0].attention.size == LEAST_HEAD_SIZE


def test_the_preset_paper_has_them():
    X = torch.rand(40, 2).numpy()
    model = DiffoRRegressor("paper", max_steps=2, bounds=(0, 1), random_state=0, verbose=0).fit(X, X[:, 0])
    assert isinstance(model.model_.models[0].method.denoiser, ScaleHeadsDenoiser)


def test_another_number_of_attention_heads_is_refused():
    assert IncrementDiffusion(2, n_increments=4, n_attention_heads=4).n_increments == 4
    with pytest.raises(UserError, match="one attention head for each of the 8 increments, but got n_attention_heads=4; "
                                        "change n_increments, or choose denoiser='transformer'"):  # fmt: skip
        IncrementDiffusion(2, n_attention_heads=4)
