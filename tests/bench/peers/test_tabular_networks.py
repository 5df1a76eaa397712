"""TabM's loop is ours: what its package would give is stood for by a small network of the same shape."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import nn

from diffor.bench.peers.tabular_networks import Submodels, train_submodels
from diffor.training.batches import Rows


class Small(nn.Module):
    """Submodels as TabM has them. **Shape:** ``(n, 2)`` -> ``(n, k, outputs)``."""

    def __init__(self, n_outputs: int, k: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, k * n_outputs))
        self.shape = (k, n_outputs)

    def forward(self, x_num):
        return self.layers(x_num).unflatten(1, self.shape)


def rows_of(n, seed, is_value=True):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=generator)
    y = x[:, 0] if is_value else (x[:, 0] > 0).float()
    return Rows((x,), y, None, torch.arange(n))


def trained(is_value=True, valid=None, max_epochs=20, limit=600.0):
    torch.manual_seed(0)
    model = Submodels(Small(19 if is_value else 2), ("x_num",), is_value)
    train_submodels(model, rows_of(300, 0, is_value), valid or rows_of(100, 1, is_value), 32, 5, max_epochs, limit, 0)
    return model


@pytest.mark.parametrize("is_value", [True, False])
def test_submodels_learn_and_answer_together(is_value):
    model, test = trained(is_value), rows_of(100, 2, is_value)
    answers = model.answers(test.inputs)
    if is_value:
        assert (answers[:, 9] - test.y).abs().mean() < 0.2
    else:
        assert (answers.argmax(dim=1) == test.y).float().mean() > 0.9
        assert torch.allclose(answers.sum(dim=1), torch.ones(100))
    assert torch.equal(answers, trained(is_value).answers(test.inputs))


def test_the_best_epoch_of_the_validation_rows_is_kept():
    valid = rows_of(100, 1)
    contrary = Rows(valid.inputs, -valid.y, None, valid.keys)  # learning makes this worse
    early = trained(valid=contrary)
    assert early.score(contrary) <= trained(valid=valid).score(contrary)


def test_training_stops_when_the_time_is_up():
    start = time.monotonic()
    trained(max_epochs=10**6, limit=0.2)
    assert time.monotonic() - start < 10


def test_losses_are_those_of_the_textbook():
    value, grades = Submodels(Small(19), ("x_num",), True), Submodels(Small(2), ("x_num",), False)
    assert float(value.loss(torch.zeros(2, 19), torch.ones(2))) == pytest.approx(0.5)
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.25, 0.75]]))
    assert float(grades.loss(logits, torch.tensor([1.0, 1.0]))) == pytest.approx(-np.log([0.5, 0.75]).mean())
