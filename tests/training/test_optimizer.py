import pytest
import torch

from diffor.training.optimizer import FlatAdam


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
