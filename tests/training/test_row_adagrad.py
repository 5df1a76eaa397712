from __future__ import annotations

import torch
from torch import nn

from diffor.training.row_adagrad import RowAdagrad


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
