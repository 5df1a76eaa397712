"""The contract of priors: simple models that say where an unseen row's target lies, and how surely."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.files.schema import MisfitError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.floating]
Answers = NDArray[np.float32]
"""The place of each row's target in [0, 1] and its spread around it. **Shape:** ``(n, 2)``."""
RowNumbers = NDArray[np.int64]

MIN_SPREAD = 1e-4
"""No prior says that it is surer than this, as a share of the whole range."""


@dataclass(frozen=True)
class PriorRows:
    """What is known of rows: numbers and codes as networks read them, and the user's own table where it is at hand.

    >>> rows = PriorRows((torch.rand(3, 2), torch.zeros(3, 0, dtype=torch.int64)))
    >>> len(rows), len(rows.take(np.array([0, 2])))
    (3, 2)
    """

    inputs: tuple[Tensor, ...]
    """Scaled numbers ``(n, p)`` float32 and category codes ``(n, c)`` int64; what may follow is not read."""
    table: pd.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.inputs[0])

    def take(self, rows: RowNumbers) -> PriorRows:
        """Some of the rows. **Shape:** row numbers ``(r,)``."""
        index = torch.from_numpy(rows)
        table = None if self.table is None else self.table.iloc[rows]
        return PriorRows(tuple(part[index] for part in self.inputs), table)


class Prior(ABC):
    """Says of each row where its target lies in [0, 1], a place and a spread around it."""

    name: str
    """What it is called among others."""

    def prefers_even(self, rows: PriorRows, u: Floats, even: Floats, weights: Floats | None, seed: int) -> bool:
        """Whether targets are better answered as they are, rather than in the coordinate of the borders.

        There a long tail is short, but a smooth law is bent. **Shape:** u, even and weights ``(n,)``.
        """
        return False

    @abstractmethod
    def fit(self, rows: PriorRows, u: Floats, weights: Floats | None, folds: RowNumbers, seed: int) -> Answers:
        """Learn from training rows; also an honest answer to each of them, from models that have not seen its target.

        ``folds`` holds the number of the fold in which a row is held out, or -1 where it never is: such rows are
        divided among further folds, so that they too are answered by models of other rows.

        **Shape:** u, weights and folds ``(n,)`` -> ``(n, 2)``.
        """

    @abstractmethod
    def predict(self, rows: PriorRows) -> Answers:
        """Answer new rows. **Shape:** -> ``(n, 2)``."""

    @abstractmethod
    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to answer, by name."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Prior:
        """Rebuild a prior from :meth:`to_tensors`."""

    def check(self, read: Read) -> None:
        """Refuse tensors that were not learned from such rows: they may come from a file that somebody changed."""
        raise NotImplementedError(f"{type(self).__name__} does not come from files")


class Read(NamedTuple):
    """What priors read of a row: so many numbers, and for each category so many codes."""

    n_numbers: int
    code_counts: list[int]

    @property
    def n_columns(self) -> int:
        """Columns of numbers and coded categories; at least one."""
        return max(self.n_numbers + len(self.code_counts), 1)


Shape = tuple[int | None, ...]


def check_tensor(
    name: str, tensor: Tensor, dtype: torch.dtype, shape: Shape, low: float | None = None, high: float | None = None
) -> None:
    """Refuse a tensor of another kind or shape (None is any length), with NaN, or with values out of a range.

    Without a range, numbers must be finite.

    >>> check_tensor("chosen", torch.tensor([3]), torch.int64, (None,), 0, 2)
    Traceback (most recent call last):
    diffor.files.schema.MisfitError: chosen must lie from 0 to 2, but reaches from 3 to 3
    """
    fits = len(shape) == tensor.ndim and all(
        wanted in (None, given) for wanted, given in zip(shape, tensor.shape, strict=True)
    )
    kind = str(dtype).removeprefix("torch.")
    if tensor.dtype != dtype or not fits:
        wanted = tuple("any" if length is None else length for length in shape)
        raise MisfitError(f"{name} must be {kind} of shape {wanted}, but is {tensor.dtype} of {tuple(tensor.shape)}")
    if tensor.is_floating_point() and (tensor.isnan().any() or (low is None and tensor.isinf().any())):
        raise MisfitError(f"{name} must hold finite numbers, but some are not")
    if low is not None and high is not None and tensor.numel():
        least, most = tensor.min().item(), tensor.max().item()
        if least < low or most > high:
            raise MisfitError(f"{name} must lie from {low} to {high}, but reaches from {least} to {most}")


def as_answers(place: Any, spread: Any) -> Answers:
    """Place and spread side by side, within what answers may be. **Shape:** ``(n,)``, ``(n,)`` -> ``(n, 2)``.

    >>> as_answers(np.array([0.5, 2.0]), np.array([0.1, 0.0])).round(4).tolist()
    [[0.5, 0.10000000149011612], [1.0, 9.999999747378752e-05]]
    """
    pair = np.stack([np.clip(place, 0, 1), np.clip(spread, MIN_SPREAD, 1)], axis=1)
    return pair.astype(np.float32)


def whole_folds(folds: RowNumbers, seed: int) -> RowNumbers:
    """Folds in which every row is held out once: those never held out are divided among further ones.

    There are as many further folds as make five with those given, at least two; two in all of very many rows.

    >>> whole_folds(np.array([0, 0, -1, -1]), seed=0).tolist() in ([0, 0, 1, 2], [0, 0, 2, 1])
    True
    >>> whole_folds(np.array([1, 0, 1]), seed=0).tolist()
    [1, 0, 1]
    """
    never = np.flatnonzero(folds < 0)
    if not len(never):
        return folds
    n_given = int(folds.max()) + 1
    n_more = 2 if len(folds) >= 20_000 else max(2, 5 - n_given)
    n_more = min(n_more, len(never))
    whole: RowNumbers = np.array(folds, dtype=np.int64)
    whole[np.random.default_rng(seed).permutation(never)] = n_given + np.arange(len(never)) % n_more
    return whole


def counted_rows(n_rows: int, weights: Floats | None) -> RowNumbers:
    """The rows that are learned from: those with a weight. **Shape:** -> ``(r,)``.

    >>> counted_rows(3, np.array([1.0, 0.0, 2.0])).tolist()
    [0, 2]
    """
    return np.arange(n_rows) if weights is None else np.flatnonzero(weights > 0)


def means_of_others(target: Floats, counts: Floats, counted: RowNumbers) -> Floats:
    """The mean target of the other rows, where nothing else can be learned. **Shape:** ``(n,)`` -> ``(n,)``.

    >>> means_of_others(np.array([0.0, 0.5, 1.0]), np.ones(3), np.arange(3)).tolist()
    [0.75, 0.5, 0.25]
    """
    own = np.zeros_like(target)
    own[counted] = counts[counted]
    others = own.sum() - own
    sums = (own * target).sum() - own * target
    return np.asarray(np.divide(sums, others, out=np.full(len(target), 0.5), where=others > 1e-12))


def with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same tensors under names that begin with ``prefix``."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def under_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, by the rest of their names.

    >>> list(under_prefix({"a.x": torch.zeros(1), "b.y": torch.zeros(1)}, "a."))
    ['x']
    """
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
