"""Adagrad on the rows of large tables that a step has touched."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffor.training.distributed import World


class RowAdagrad:
    """Adagrad with one learning rate per row, on tables with sparse gradients.

    A row's rate falls with the mean square of all gradients that it has had, so rows of rare ids still move when they
    are met. Time and memory of a step depend on the rows that it touched, not on the length of the table; the state is
    one number per row.

    >>> import torch
    >>> table = torch.nn.Parameter(torch.zeros(1000, 2))
    >>> optimizer = RowAdagrad([table])
    >>> torch.nn.functional.embedding(torch.tensor([7, 7]), table, sparse=True).sum().backward()
    >>> optimizer.step(learning_rate=0.5)
    >>> table.data[6:8].tolist()
    [[0.0, 0.0], [-0.5, -0.5]]
    """

    def __init__(self, tables: Sequence[nn.Parameter], world: World | None = None, epsilon: float = 1e-12) -> None:
        self.tables, self.world, self.epsilon = list(tables), world or World(), epsilon
        self.squares = [torch.zeros(len(table), device=table.device) for table in self.tables]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move the touched rows along their gradients, summed over all processes, and clear those."""
        if not self.tables:
            return
        found = [_touched(table) for table in self.tables]
        if self.world.size > 1:
            found = self._exchanged(found)
        for table, squares, (rows, gradient) in zip(self.tables, self.squares, found, strict=True):
            squares[rows] += gradient.square().mean(dim=1)
            table[rows] -= learning_rate * gradient / (squares[rows] + self.epsilon).sqrt().unsqueeze(1)
            table.grad = None

    def _exchanged(self, found: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Rows of each table that any process has touched, and the sums of their gradients; tables have one width.

        All tables are sent as one, a row's number as two columns of its gradient: each message takes a while.
        """
        firsts = torch.tensor([0, *(len(table) for table in self.tables)], device=found[0][0].device).cumsum(0)
        rows = torch.cat([rows + first for (rows, _), first in zip(found, firsts[:-1], strict=True)])
        numbers = rows.view(torch.float32).view(-1, 2)
        sent = self.world.gather_rows(torch.cat([numbers, torch.cat([part for _, part in found])], dim=1))
        # The same numbers in the same order everywhere, so that all processes round alike.
        rows, gradient = _summed(sent[:, :2].contiguous().view(torch.int64).flatten(), sent[:, 2:])
        sizes = torch.searchsorted(rows, firsts).diff().tolist()
        parts = zip(torch.split(rows, sizes), torch.split(gradient, sizes), firsts[:-1], strict=True)
        return [(part - first, values) for part, values, first in parts]

    def release(self) -> None:
        """Forget gradients, which would keep memory."""
        for table in self.tables:
            table.grad = None


def _touched(table: nn.Parameter) -> tuple[Tensor, Tensor]:
    """Rows of a table that this process has touched, and their gradients. **Shape:** ``(k,)``, ``(k, width)``."""
    if table.grad is None:
        return torch.empty(0, dtype=torch.int64, device=table.device), table.new_empty(0, table.shape[1])
    return _summed(table.grad._indices()[0], table.grad._values())


def _summed(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Each row once, with the sum of its values. **Shape:** ``(m,)``, ``(m, w)`` -> ``(k,)``, ``(k, w)``."""
    once, place = torch.unique(rows, return_inverse=True)
    return once, values.new_zeros(len(once), values.shape[1]).index_add_(0, place, values)
