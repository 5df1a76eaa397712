"""Networks side by side: each learns and answers as if alone, and begins at what priors say."""

from __future__ import annotations

import pytest
import torch

from diffor.encoders.tabular.fold_networks import FoldNetworks, NetworkSettings, fewer_edges, prior_logits

EDGES = [[-1.0, 0.0, 1.0], [0.0, 0.5, 1.0]]
POSITIONS = torch.tensor([0.2, 0.5, 0.8])


def make(n_folds: int, n_priors: int = 0, sizes: tuple[int, ...] = (), n_waves: int = 0) -> FoldNetworks:
    torch.manual_seed(0)
    settings = NetworkSettings(4, n_waves, 2, 16, 0.0, n_priors > 0)
    networks = FoldNetworks(n_folds, EDGES, list(sizes), POSITIONS, [1.0] * n_priors, settings)
    for layer in (networks.out, networks.direct):
        torch.nn.init.normal_(layer.weight)
    return networks.eval()


def rows(n: int, n_codes: int = 0, n_priors: int = 0) -> tuple[torch.Tensor, ...]:
    numbers, codes = torch.randn(n, 2), torch.randint(0, max(n_codes, 1), (n, 1 if n_codes else 0))
    prior = torch.rand(n, n_priors, 2) + 0.1
    return (numbers, codes, prior.flatten(1)) if n_priors else (numbers, codes)


@pytest.mark.parametrize("n_waves", [0, 3])
def test_blocks_are_answered_each_by_its_own_network(n_waves: int) -> None:
    networks = make(3, n_priors=1, sizes=(5,), n_waves=n_waves)
    inputs = rows(12, n_codes=5, n_priors=1)
    everything, own = networks(inputs), networks(inputs, in_blocks=True)
    assert everything.shape == (3, 12, 3)
    for network in range(3):
        block = slice(4 * network, 4 * network + 4)
        assert torch.allclose(own[network], everything[network, block], atol=1e-5)


def test_a_network_learns_from_its_own_rows_only() -> None:
    networks = make(2)
    networks(rows(8), in_blocks=True)[0].sum().backward()
    for layer in (*networks.layers, networks.out, networks.direct):
        assert layer.weight.grad is not None
        assert layer.weight.grad[0].abs().sum() > 0
        assert layer.weight.grad[1].abs().sum() == 0


def test_before_training_the_answer_is_the_priors() -> None:
    networks = FoldNetworks(2, EDGES, [], POSITIONS, [1.0])
    place, spread = 0.6, 0.1
    inputs = (*rows(4), torch.tensor([[place, spread]]).expand(4, 2))
    said = torch.sigmoid(networks.eval()(inputs))[0, 0]
    normal = 1 - torch.distributions.Normal(place, spread).cdf(POSITIONS)
    assert torch.allclose(said, normal, atol=0.01)


def test_without_priors_it_begins_with_the_training_shares() -> None:
    networks = FoldNetworks(2, EDGES, [], POSITIONS, [], NetworkSettings(uses_priors=False))
    networks.start_at(torch.tensor([0.9, 0.5, 0.1]))
    assert torch.allclose(torch.sigmoid(networks.eval()(rows(3)))[1, 2], torch.tensor([0.9, 0.5, 0.1]), atol=1e-5)


def test_a_prior_is_never_certain() -> None:
    logits = prior_logits(torch.tensor([[0.5, 1e-9]]), POSITIONS[None])
    assert logits.abs().max() == 8
    assert torch.isfinite(logits).all()


def test_a_table_without_numbers_or_of_very_many_can_be_read() -> None:
    only_codes = FoldNetworks(2, [], [4], POSITIONS, [])
    assert only_codes((torch.zeros(5, 0), torch.ones(5, 1, dtype=torch.int64))).shape == (2, 5, 3)
    wide = FoldNetworks(2, [[0.0, 1.0]] * 300, [], POSITIONS, [])
    assert wide.numbers.out == 0
    assert wide((torch.randn(5, 300), torch.zeros(5, 0, dtype=torch.int64))).shape == (2, 5, 3)


def test_fewer_edges_keep_both_ends() -> None:
    edges = [float(place) for place in range(17)]
    assert fewer_edges(edges, 8) == edges[::2]
    assert fewer_edges(edges, 3)[0] == 0
    assert fewer_edges(edges, 3)[-1] == 16
    assert fewer_edges([0.0, 1.0], 8) == [0.0, 1.0]
