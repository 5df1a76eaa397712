"""Random numbers of one training run: drawn from a generator of its own, so that runs in other threads change nothing.

PyTorch's layers draw first weights, noise and dropout from one generator of the whole process. Two runs in two threads
would take numbers from each other, and seeding it would change what the user's own code draws. Here a mode, which is
the thread's own, hands every function that draws a generator of the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from diffor.errors import UserError

TAKE_A_GENERATOR: frozenset[Any] = frozenset(
    [torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal, torch.bernoulli, torch.multinomial,
     torch.poisson, torch.Tensor.bernoulli, torch.Tensor.multinomial, torch.Tensor.random_, torch.Tensor.uniform_,
     torch.Tensor.normal_, torch.Tensor.bernoulli_, torch.Tensor.exponential_, torch.Tensor.cauchy_,
     torch.Tensor.geometric_, torch.Tensor.log_normal_, nn.init.uniform_, nn.init.normal_, nn.init.trunc_normal_,
     nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_,
     nn.init.orthogonal_, nn.init.sparse_]
)  # fmt: skip
"""Functions that draw from a generator that they are given."""
DRAW_INSIDE: frozenset[Any] = frozenset(
    [torch.rand_like, torch.randn_like, torch.randint_like, torch.dropout, torch.dropout_, torch.alpha_dropout,
     torch.feature_dropout, torch.feature_alpha_dropout, torch.native_dropout, torch.rrelu, functional.dropout,
     functional.dropout1d, functional.dropout2d, functional.dropout3d, functional.alpha_dropout,
     functional.feature_alpha_dropout, functional.rrelu, functional.gumbel_softmax,
     functional.scaled_dot_product_attention, functional.multi_head_attention_forward, torch.lstm, torch.gru,
     torch.rnn_tanh, torch.rnn_relu, functional.fractional_max_pool2d, functional.fractional_max_pool3d]
)  # fmt: skip
"""Functions that draw from the generator of the process, whatever they are given."""
_of_thread = threading.local()
_of_process = threading.Lock()
"""Held while the generator of the process stands in for that of a run."""


def _renew_lock() -> None:
    """In a forked process no other thread is left that could release the lock."""
    global _of_process
    _of_process = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def own_generator() -> torch.Generator | None:
    """The generator that layers which ask for one are to draw from in this thread; None for that of the process."""
    return getattr(_of_thread, "generator", None)


class OwnDraws(TorchFunctionMode):
    """While entered, all that this thread draws on the CPU comes from ``generator``.

    The numbers are those that the process's generator would give after ``torch.manual_seed`` with the same seed.

    >>> with OwnDraws(7):
    ...     first = nn.Linear(2, 2).weight
    >>> other, _ = torch.rand(3), torch.manual_seed(7)
    >>> bool((nn.Linear(2, 2).weight == first).all())
    True
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def seed(self, seed: int) -> None:
        """Begin again from a seed."""
        self.generator.manual_seed(seed)

    @contextmanager
    def for_those_that_ask(self) -> Iterator[None]:
        """Give the generator to layers that ask for it, and to nothing else: other calls cost no more than ever."""
        before = own_generator()
        _of_thread.generator = self.generator
        try:
            yield
        finally:
            _of_thread.generator = before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in TAKE_A_GENERATOR:
            if kwargs.get("generator") is None and not _is_elsewhere(args, kwargs):
                kwargs["generator"] = self.generator
        elif func in DRAW_INSIDE:
            return self._draw_inside(func, args, kwargs)
        return func(*args, **kwargs)

    def _draw_inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function that draws from the process's generator, which is as before afterwards."""
        with _of_process:
            before = torch.default_generator.get_state()
            torch.default_generator.set_state(self.generator.get_state())
            try:
                return func(*args, **kwargs)
            finally:
                self.generator.set_state(torch.default_generator.get_state())
                torch.default_generator.set_state(before)


def _is_elsewhere(args: Any, kwargs: Any) -> bool:
    """Whether numbers are drawn on another device than the CPU, which has a generator of its own."""
    device = args[0].device if args and isinstance(args[0], torch.Tensor) else kwargs.get("device")
    return device is not None and torch.device(device).type != "cpu"


class ByteDropout(nn.Module):
    """Dropout that decides each element by one random byte, where the standard one draws a whole number for it.

    On a CPU, drawing those numbers takes longer than a layer of 256 units; eight decisions per draw make it three
    times as fast. The rate is rounded to a multiple of 1 / 256 and the rest scaled by exactly that, so the expected
    output is still the input.

    >>> import torch
    >>> ByteDropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise UserError(f"dropout must lie in [0, 1), but got dropout={rate}")
        self.dropped = min(round(rate * 256), 255)  # bytes below this one drop their element

    def forward(self, values: Tensor) -> Tensor:
        """Drop elements while training. **Shape:** any, kept."""
        if not self.training or self.dropped == 0:
            return values
        n = values.numel()
        generator = own_generator() if values.device.type == "cpu" else None
        draws = torch.empty((n + 7) // 8, dtype=torch.int64, device=values.device)
        draws.random_(-(2**63), None, generator=generator)
        bytes_ = draws.view(torch.uint8)[:n].view(values.shape).to(values.dtype)
        return values * bytes_.ge_(self.dropped).mul_(256 / (256 - self.dropped))

    def extra_repr(self) -> str:
        """The effective rate."""
        return f"rate={self.dropped / 256:.4f}"
