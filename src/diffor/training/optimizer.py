"""Adam over all parameters as one vector, and Adagrad on the rows of large tables that a step has touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from diffor.training.distributed import World


class FlatAdam:
    """Adam (with decoupled weight decay) on one vector that all parameters are views of.

    One vector means a handful of operations per step instead of a handful per layer, for the update as for the
    gradient's norm and the running average; and its state is a few vectors, which checkpoints hold as they are. A step
    of 24 layers with its clipping takes .2 ms, and 1.2 with ``torch.optim.AdamW``, the first of which in a process
    imports the compiler for another second.

    The update is that of ``torch.optim.AdamW``, which is ``Adam`` where ``weight_decay`` is 0.

    >>> import torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> optimizer = FlatAdam(layer.parameters())
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> optimizer.gradient.tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        epsilon: float = 1e-8,
        factors: Iterable[tuple[Sequence[nn.Parameter], float]] = (),
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.betas, self.weight_decay, self.epsilon = betas, weight_decay, epsilon
        self.values = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        self.gradient = torch.zeros_like(self.values)
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.factors = self._rate_factors(factors)
        self.steps = 0
        self.show(self.values)
        for parameter, part in zip(self.parameters, self._parts(self.gradient), strict=True):
            parameter.grad = part

    def _rate_factors(self, groups: Iterable[tuple[Sequence[nn.Parameter], float]]) -> Tensor | None:
        """Share of the learning rate that each number has; None where all have the whole of it."""
        known = {id(parameter): factor for group, factor in groups for parameter in group}
        if all(factor == 1 for factor in known.values()):
            return None
        sizes = torch.tensor([parameter.numel() for parameter in self.parameters])
        shares = torch.tensor([known.get(id(parameter), 1.0) for parameter in self.parameters])
        return shares.repeat_interleave(sizes).to(self.values)

    def _parts(self, vector: Tensor) -> list[Tensor]:
        """The vector cut into pieces of the parameters' shapes."""
        sizes = [parameter.numel() for parameter in self.parameters]
        pieces = torch.split(vector, sizes)
        return [piece.view(parameter.shape) for piece, parameter in zip(pieces, self.parameters, strict=True)]

    def show(self, vector: Tensor) -> None:
        """Let the parameters be views of this vector."""
        for parameter, part in zip(self.parameters, self._parts(vector), strict=True):
            parameter.data = part

    def release(self, vector: Tensor) -> None:
        """Give the parameters values of their own again, copied from this vector."""
        for parameter, part in zip(self.parameters, self._parts(vector), strict=True):
            parameter.data, parameter.grad = part.clone(), None

    def clip(self, largest: float) -> None:
        """Shrink the gradient to a norm of at most ``largest``."""
        norm = float(self.gradient.norm())
        if norm > largest:
            self.gradient.mul_(largest / norm)

    def step(self, learning_rate: float) -> None:
        """Move the parameters along their gradients, and clear those."""
        self.steps += 1
        rate = learning_rate if self.factors is None else learning_rate * self.factors
        self.values.mul_(1 - rate * self.weight_decay)
        self.first.lerp_(self.gradient, 1 - self.betas[0])
        self.second.mul_(self.betas[1]).addcmul_(self.gradient, self.gradient, value=1 - self.betas[1])
        scale = (self.second / (1 - self.betas[1] ** self.steps)).sqrt_().add_(self.epsilon)
        moved = self.first if self.factors is None else self.first * self.factors
        self.values.addcdiv_(moved, scale, value=-learning_rate / (1 - self.betas[0] ** self.steps))
        self.gradient.zero_()


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
