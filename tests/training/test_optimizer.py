from __future__ import annotations

import pytest
import torch
from torch import nn

from diffor.training.optimizer import FlatAdam, RowAdagrad


def make_network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def loss_of(network, step):
    generator = torch.Generator().manual_seed(step)
    X = torch.randn(20, 3, generator=generator)
    return (network(X).squeeze(1) - X[:, 0].square()).square().mean()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_takes_the_steps_of_torchs_own_adam(weight_decay):
    ours, theirs = make_network(), make_network()
    flat = FlatAdam(ours.parameters(), weight_decay=weight_decay)
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=weight_decay)
    for step in range(50):
        loss_of(ours, step).backward()
        flat.step(1e-2)
        reference.zero_grad()
        loss_of(theirs, step).backward()
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_clipping_bounds_the_norm_and_leaves_small_gradients_alone():
    network = make_network()
    flat = FlatAdam(network.parameters())
    loss_of(network, 0).backward()
    gradient = flat.gradient.clone()
    flat.clip(1e6)
    assert torch.equal(flat.gradient, gradient)
    flat.clip(0.01)
    assert flat.gradient.norm() == pytest.approx(0.01, rel=1e-5)
    assert torch.allclose(flat.gradient / flat.gradient.norm(), gradient / gradient.norm(), atol=1e-6)


def test_frozen_parameters_stay_as_they_are():
    network = make_network()
    network[0].weight.requires_grad_(False)
    before = network[0].weight.clone()
    flat = FlatAdam(network.parameters())
    loss_of(network, 0).backward()
    flat.step(0.1)
    assert torch.equal(network[0].weight, before)
    assert network[0].weight.grad is None


def test_released_parameters_no_longer_share_memory():
    network = make_network()
    flat = FlatAdam(network.parameters())
    flat.release(flat.values)
    values = [parameter.clone() for parameter in network.parameters()]
    flat.values.zero_()
    assert all(torch.equal(now, then) for now, then in zip(network.parameters(), values, strict=True))


def gradient_of(table, rows, factors):
    looked_up = nn.functional.embedding(torch.tensor(rows), table, sparse=True)
    (looked_up * torch.tensor(factors).unsqueeze(1)).sum().backward()


def test_steps_follow_the_formula_on_touched_rows_only():
    table = nn.Parameter(torch.zeros(10, 3))
    optimizer = RowAdagrad([table], epsilon=0.0)
    gradient_of(table, [2, 5, 5], [3.0, 1.0, 1.0])
    optimizer.step(0.1)
    gradient_of(table, [2], [4.0])
    optimizer.step(0.1)
    expected = torch.zeros(10, 3)
    expected[5] = -0.1  # 2 / sqrt(2**2)
    expected[2] = -0.1 - 0.1 * 4 / 5  # 3 / sqrt(3**2), then 4 / sqrt(3**2 + 4**2)
    assert torch.allclose(table.detach(), expected)
    assert optimizer.squares[0].tolist() == [0, 0, 25, 0, 0, 4, 0, 0, 0, 0]
    assert table.grad is None


def test_gradients_of_pieces_add_up():
    whole, pieces = nn.Parameter(torch.ones(6, 2)), nn.Parameter(torch.ones(6, 2))
    optimizers = [RowAdagrad([whole]), RowAdagrad([pieces])]
    gradient_of(whole, [1, 4, 1], [1.0, 2.0, 3.0])
    gradient_of(pieces, [1, 4], [1.0, 2.0])
    gradient_of(pieces, [1], [3.0])
    for optimizer in optimizers:
        optimizer.step(0.5)
    assert torch.equal(whole, pieces)


def test_a_step_without_gradients_moves_nothing():
    table = nn.Parameter(torch.ones(4, 2))
    RowAdagrad([table]).step(0.5)
    assert torch.equal(table.detach(), torch.ones(4, 2))
