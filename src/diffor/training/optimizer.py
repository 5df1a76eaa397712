"""Adam over all parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


class FlatAdam:
    """Adam (with decoupled weight decay) on one vector that all parameters are views of.

    One vector means a handful of operations per step instead of a handful per layer, for the update as for the
    gradient's norm and the running average; and its state is a few vectors, which checkpoints hold as they are. Torch's
    own optimizers also import the whole compiler when the first one is made, which takes seconds in every new process.

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
