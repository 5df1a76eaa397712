import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from diffor.bench.peers.gradient_loop import (
    MAX_VALID_ROWS,
    FlatAmsgrad,
    LoopSettings,
    NetworkSettings,
    StandardTarget,
    TableNetwork,
    mean_over_blocks,
    minimise,
    reproducible,
    train_table_network,
)
from diffor.bench.peers.problem import Problem
from diffor.encoders import TabularInputs


def linear_rows(n, noise=0.1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator)
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + noise * torch.randn(n, generator=generator)


def squared_error(network):
    return lambda batch: (network(batch[0]).squeeze(1) - batch[1]).square().mean()


def fit_linear(settings, valid=None, seed=0):
    with reproducible(seed, 1):
        network = nn.Linear(3, 1)
        valid = linear_rows(100, seed=1) if valid is None else valid
        return network, minimise(network, squared_error(network), linear_rows(500), valid, settings)


def test_it_finds_the_least_squares_solution():
    network, result = fit_linear(LoopSettings(max_steps=1500, learning_rate=1e-2, weight_decay=0.0))
    assert network.weight.flatten().tolist() == pytest.approx([1.0, -2.0, 0.5], abs=0.03)
    assert result.best_score == pytest.approx(0.01, rel=0.4)  # the variance of the noise
    assert not network.training


def test_it_stops_when_patience_ends_and_restores_the_best_weights():
    generator = torch.Generator().manual_seed(5)
    contrary = (torch.randn(100, 3, generator=generator), torch.zeros(100))  # learning makes this worse
    settings = LoopSettings(max_steps=1000, learning_rate=1e-2, patience=3, evaluate_every=10)
    network, result = fit_linear(settings, contrary)
    assert result.steps == result.best_step + 30 < 1000
    with torch.no_grad():
        assert float(squared_error(network)(contrary)) == pytest.approx(result.best_score, rel=1e-5)


def test_without_patience_it_takes_all_steps():
    contrary = (torch.ones(10, 3), torch.zeros(10))
    _, result = fit_linear(LoopSettings(max_steps=70, patience=None, evaluate_every=10), contrary)
    assert result.steps == 70


def test_without_validation_rows_the_last_weights_stay():
    nothing = (torch.zeros(0, 3), torch.zeros(0))
    network, result = fit_linear(LoopSettings(max_steps=1500, learning_rate=1e-2, weight_decay=0.0), nothing)
    assert result.steps == 1500
    assert network.weight.flatten().tolist() == pytest.approx([1.0, -2.0, 0.5], abs=0.05)


def test_the_kept_average_lies_between_start_and_end():
    settings = LoopSettings(max_steps=200, patience=None, evaluate_every=200)
    plain, _ = fit_linear(settings)
    averaged, _ = fit_linear(LoopSettings(max_steps=200, patience=None, evaluate_every=200, average=0.9999))
    with reproducible(0, 1):
        start = nn.Linear(3, 1)
    moved = (plain.weight - start.weight).flatten()
    share = ((averaged.weight - start.weight).flatten() / moved).tolist()
    assert all(0.5 < one < 1 for one in share)  # a memory of 0.9999 from the first step on would leave 0.01


def test_a_seed_determines_the_run_and_leaves_the_global_state_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second, other = (fit_linear(LoopSettings(max_steps=30), seed=seed)[0].weight for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_threads_are_put_back():
    before = torch.get_num_threads()
    with reproducible(0, before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_loss_that_is_not_finite_is_refused():
    network = nn.Linear(3, 1)
    x, y = linear_rows(20)
    with pytest.raises(FloatingPointError, match=r"must stay finite, but got nan at step 1; lower learning_rate"):
        minimise(network, squared_error(network), (x, y * float("nan")), (x, y), LoopSettings())


def test_amsgrad_takes_the_steps_of_torchs_own():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))

    ours, theirs = make(), make()
    flat = FlatAmsgrad(ours.parameters())
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-2, amsgrad=True)
    for step in range(60):
        rows = linear_rows(20, noise=10.0 / (1 + step), seed=step)  # gradients shrink, so that the maximum matters
        squared_error(ours)(rows).backward()
        flat.step(1e-2)
        reference.zero_grad()
        squared_error(theirs)(rows).backward()
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_blocks_are_weighted_by_their_rows():
    values = torch.arange(5000.0)
    assert mean_over_blocks(lambda batch: batch[0].mean(), (values,)) == pytest.approx(2499.5)


def test_large_validation_sets_are_drawn_from_not_cut():
    seen = []

    def score(batch):
        seen.append(batch[0][:, 0])
        return torch.zeros(())

    network = nn.Linear(3, 1)
    n = 3 * MAX_VALID_ROWS
    valid = (torch.arange(float(n))[:, None].expand(n, 3), torch.zeros(n))
    minimise(network, squared_error(network), linear_rows(50), valid, LoopSettings(max_steps=1), score)
    rows = torch.cat(seen)
    assert len(rows) == MAX_VALID_ROWS
    assert float(rows.max()) > 0.99 * n


def test_targets_are_standardised_by_training_rows_and_come_back():
    y = np.array([1.0, 2.0, 6.0])
    problem = Problem(pd.DataFrame({"a": y}), y, pd.DataFrame({"a": y}), y)
    scale = StandardTarget.of(problem)
    assert float(scale.to_tensor(y).mean()) == pytest.approx(0, abs=1e-6)
    assert float(scale.to_tensor(y).std(correction=0)) == pytest.approx(1)
    assert scale.restore(scale.to_tensor(y).numpy()) == pytest.approx(y)


def test_a_constant_target_has_a_scale():
    y = np.full(3, 7.0)
    scale = StandardTarget.of(Problem(pd.DataFrame({"a": y}), y, pd.DataFrame({"a": y}), y))
    assert scale.restore(scale.to_tensor(y).numpy()).tolist() == [7.0, 7.0, 7.0]


def test_auto_keeps_the_encoder_that_validation_rows_prefer():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(-1, 1, 400)})
    y = torch.from_numpy(np.sin(12 * table["a"].to_numpy())).float()  # waves see this, a short plain run does not
    inputs = TabularInputs().fit(table)
    rows = (*inputs.transform(table), y)
    settings = NetworkSettings(max_steps=80, width=32, dropout=0.0, learning_rate=5e-3)

    def loss(outputs, targets):
        return (outputs[:, 0] - targets).square().mean()

    with reproducible(0, 1):
        network = train_table_network(inputs, lambda width: nn.Linear(width, 1), loss, rows, rows, settings)
    assert isinstance(network, TableNetwork)
    assert network.encoder_name == "periodic"
    assert float(loss(network.outputs(*rows[:-1]), y)) < 0.5 * float(y.var())


def test_outputs_in_blocks_are_those_of_one_call():
    table = pd.DataFrame({"a": np.random.default_rng(0).normal(size=5000)})
    inputs = TabularInputs().fit(table)
    network = TableNetwork(inputs, "plain", lambda width: nn.Linear(width, 2), NetworkSettings(width=16)).eval()
    rows = inputs.transform(table)
    with torch.no_grad():
        assert torch.allclose(network.outputs(*rows), network(*rows), atol=1e-6)
