"""Networks filled with saved tensors: first sketched without memory, so that nothing is made that the file cannot fill.

A configuration could ask for a network of any size. It is therefore sketched first: large tensors stand on torch's
``meta`` device, where they have a shape and no memory, and the sketch is given up as soon as it has more than the file.
Only when every name, shape and kind agrees is the network made in earnest.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from diffor.core.draws import OwnDraws
from diffor.core.method import OrdinalModel
from diffor.files.schema import MisfitError
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import OneCall

Network = TypeVar("Network", bound=nn.Module)

LARGE = 2**22
"""Tensors with more numbers than this have no memory in a sketch."""
SPARE_TENSORS, SPARE_NUMBERS = 1000, 10_000_000
"""What a network may hold beside saved tensors: tables that are computed from its settings."""


def filled(make: Callable[[], Network], tensors: dict[str, Tensor]) -> Network:
    """The network that ``make`` makes, with saved tensors in it, or what does not agree."""
    with OwnDraws():  # first weights are drawn, and nobody else's draws, in other threads too, are to change by it
        with Sketching(), _no_larger_than(tensors):
            sketch = make()
            _fit_borders(sketch, tensors)
        check_agreement(sketch.state_dict(), tensors)
        del sketch
        network = make()
    check_finite(
        tensors, may_be_infinite={name for name, start in network.state_dict().items() if _has_infinity(start)}
    )
    network.load_state_dict(tensors)
    return network


class Sketching(TorchFunctionMode):
    """Makes large tensors without memory, and leaves out what fills tensors with first values, which nobody reads.

    Small ones are made as ever: without memory, torch would import its compiler to work with them.
    """

    MAKING = (torch.empty, torch.zeros, torch.ones, torch.full, torch.randn, torch.rand)
    FILLING = (torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.zero_, torch.Tensor.fill_, torch.Tensor.copy_)

    SCALING = (torch.Tensor.mul_, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make or fill as a sketch does; all else as it is."""
        kwargs = kwargs or {}
        if func in self.FILLING or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        if func in self.SCALING and args[0].is_meta:
            return args[0]
        if func in self.MAKING:
            size = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
            if math.prod(size) > LARGE:
                kwargs = kwargs | {"device": "meta"}
            if func in (torch.randn, torch.rand):
                func, kwargs = torch.empty, {name: value for name, value in kwargs.items() if name != "generator"}
        return func(*args, **kwargs)


def check_agreement(wanted: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Refuse tensors that are missing, unknown, or of another shape or kind than a network's own."""
    missing, unknown = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        names = ", ".join(name[:80] for name in (missing or unknown)[:3])
        raise MisfitError(f"the weights {'lack' if missing else 'hold what no network has:'} {names}")
    for name, own in wanted.items():
        if own.shape != tensors[name].shape or own.dtype != tensors[name].dtype:
            raise MisfitError(f"{name} must be {describe(own)}, but is {describe(tensors[name])}")


def check_finite(tensors: dict[str, Tensor], may_be_infinite: set[str] | frozenset[str] = frozenset()) -> None:
    """Refuse NaN, infinity where it has no business, and negative counts."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            if tensor.isnan().any() or (name not in may_be_infinite and tensor.isinf().any()):
                raise MisfitError(f"{name} must hold finite numbers, but some are not")
        elif tensor.dtype != torch.bool and (tensor < 0).any():
            raise MisfitError(f"{name} must hold counts or places from 0 on, but some are negative")


def describe(tensor: Tensor) -> str:
    """Shape and kind of a tensor in words.

    >>> describe(torch.zeros(2, 3))
    'float32 of shape (2, 3)'
    """
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _has_infinity(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isinf().any())


@contextmanager
def _no_larger_than(tensors: dict[str, Tensor]) -> Iterator[None]:
    """Give up networks as soon as they have more tensors, or more numbers, than a file, with something to spare."""
    count, numbers = len(tensors) + SPARE_TENSORS, sum(part.numel() for part in tensors.values()) + SPARE_NUMBERS
    left, own = {"count": count, "numbers": numbers}, threading.get_ident()

    def watch(module: nn.Module, name: str, tensor: Any) -> None:
        if tensor is None or threading.get_ident() != own:
            return
        left["count"] -= 1
        left["numbers"] -= tensor.numel()
        if min(left.values()) < 0:
            raise MisfitError("the configuration asks for a larger network than the weights are of")

    hooks = (register_module_parameter_registration_hook(watch), register_module_buffer_registration_hook(watch))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _fit_borders(sketch: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Members whose increments belong to the data get those that were saved, once they are seen to be borders."""
    for name, module in sketch.named_modules():
        if not (isinstance(module, OrdinalModel) and isinstance(module.method, OneCall)):
            continue
        parts = [tensors.get(f"{name}.method.{part}") for part in ("edges", "is_atom", "is_discrete")]
        kinds = [(torch.float64, 1), (torch.bool, 1), (torch.bool, 0)]
        for part, (dtype, ndim) in zip(parts, kinds, strict=True):
            if part is None or part.dtype != dtype or part.ndim != ndim:
                raise MisfitError(f"{name}.method must have borders of the usual kinds, but has others")
        edges, is_atom, is_discrete = (part.numpy() for part in parts if part is not None)
        borders = Borders(edges, is_atom, bool(is_discrete))
        borders.check()
        module.method.set_borders(borders)
