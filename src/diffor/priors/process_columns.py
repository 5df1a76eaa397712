"""The columns that a Gaussian process reads: coded, chosen, and scaled or ranked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diffor.files.schema import MisfitError
from diffor.priors.contract import Floats, Read, RowNumbers, check_tensor, under_prefix, with_prefix
from diffor.priors.design import choose_columns, code_by_others, read_columns, take, target_encoding
from diffor.priors.folds import check_coding

FAR, FAR_IN_RANKS = 5.0, 2.5
"""Where numbers end."""
N_KNOTS = 200


class Standard(NamedTuple):
    """Columns less their mean, by their spread."""

    centre: Tensor
    scale: Tensor
    """Infinity for a constant column. **Shape:** ``(p,)``."""

    @classmethod
    def fit(cls, table: Floats, weights: Floats) -> Standard:
        """Learn means and spreads. **Shape:** ``(n, p)``, ``(n,)``."""
        values = table.astype(np.float64)
        centre = np.average(values, axis=0, weights=weights)
        scale = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=weights))
        scale[scale < 1e-6] = np.inf
        return cls(torch.from_numpy(centre), torch.from_numpy(scale))

    def check(self, name: str, n_columns: int) -> None:
        """Refuse what does not scale so many columns."""
        check_tensor(f"{name}.centre", self.centre, torch.float64, (n_columns,))
        check_tensor(f"{name}.scale", self.scale, torch.float64, (n_columns,), 1e-6, float("inf"))

    def transform(self, columns: Tensor) -> Tensor:
        """Scaled columns. **Shape:** ``(n, p)`` -> ``(n, p)`` float64."""
        return ((columns.double() - self.centre) / self.scale).clamp(-FAR, FAR)


class Ranks(NamedTuple):
    """Columns as the normal numbers of their ranks among training rows, between knots by straight lines."""

    knots: Tensor
    """Values of each column, in order, repeated at the end where there are fewer. **Shape:** ``(p, k)``."""
    normals: Tensor
    """**Shape:** ``(p, k)``."""

    @classmethod
    def fit(cls, table: Floats, weights: Floats) -> Ranks:
        """Learn the knots: equal values share their mean rank. **Shape:** ``(n, p)``, ``(n,)``."""
        pairs = [_knots(table[:, place].astype(np.float64), weights) for place in range(table.shape[1])]
        knots, normals = (torch.from_numpy(np.stack(part)) for part in zip(*pairs, strict=True))
        return cls(knots, normals)

    def transform(self, columns: Tensor) -> Tensor:
        """Normal numbers of ranks. **Shape:** ``(n, p)`` -> ``(n, p)`` float64."""
        values = columns.double().T.contiguous()
        right = torch.searchsorted(self.knots, values).clamp(1, self.knots.shape[1] - 1)
        low, high = self.knots.gather(1, right - 1), self.knots.gather(1, right)
        share = ((values - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        start = self.normals.gather(1, right - 1)
        return (start + share * (self.normals.gather(1, right) - start)).T.contiguous()

    def check(self, name: str, n_columns: int) -> None:
        """Refuse what does not rank so many columns."""
        n_knots = self.knots.shape[-1] if self.knots.ndim else 0
        check_tensor(f"{name}.knots", self.knots, torch.float64, (n_columns, n_knots))
        check_tensor(f"{name}.normals", self.normals, torch.float64, (n_columns, n_knots), -FAR_IN_RANKS, FAR_IN_RANKS)
        if n_knots < 2 or bool((self.knots.diff(dim=1) < 0).any()):
            raise MisfitError(f"{name}.knots must be two or more that rise, but are not")


def _knots(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Values of a column and the normal numbers of their ranks. **Shape:** ``(n,)`` -> ``(N_KNOTS,)`` each."""
    distinct, place = np.unique(values, return_inverse=True)
    count = np.bincount(place, weights=weights)
    ranks = (np.cumsum(count) - count / 2) / count.sum()
    if len(distinct) > N_KNOTS:
        some = np.searchsorted(ranks, np.linspace(0, 1, N_KNOTS)).clip(0, len(distinct) - 1)
        some[0], some[-1] = 0, len(distinct) - 1
        distinct, ranks = distinct[some], ranks[some]
    normals = torch.special.ndtri(torch.from_numpy(ranks)).clamp(-FAR_IN_RANKS, FAR_IN_RANKS).numpy()
    missing = N_KNOTS - len(distinct)
    return np.pad(distinct, (0, missing), mode="edge"), np.pad(normals, (0, missing), mode="edge")


MAX_PROCESS_COLUMNS = 256


class ProcessColumns(NamedTuple):
    """How rows become the columns of a process."""

    levels: list[Tensor]
    """Mean target of each category's levels."""
    chosen: Tensor
    """Which columns are read. **Shape:** ``(k,)``."""
    scale: Standard | Ranks

    @classmethod
    def fit(
        cls,
        scaling: type[Standard] | type[Ranks],
        inputs: tuple[Tensor, ...],
        target: Floats,
        weights: Floats | None,
        rows: RowNumbers,
        seed: int,
    ) -> tuple[ProcessColumns, Tensor]:
        """Learn from some rows; also their columns, categories coded by other rows. **Shape:** -> ``(r, k)`` float64.

        Of too many columns those are chosen that go with the target most; constant ones are left out.
        """
        table = code_by_others(inputs, target, weights, rows, np.random.default_rng(seed))
        of_rows = np.ones(len(rows)) if weights is None else weights[rows]
        varied = np.ptp(table, axis=0) > 0
        at_most = min(MAX_PROCESS_COLUMNS, max(1, int(varied.sum())))
        chosen = choose_columns(np.where(varied, table, 0.0), target[rows], of_rows, at_most)
        scale = scaling.fit(table[:, chosen.numpy()], of_rows)
        columns = cls(target_encoding(inputs[1], target, weights, rows), chosen, scale)
        return columns, scale.transform(torch.from_numpy(table)[:, chosen])

    def code(
        self,
        inputs: tuple[Tensor, ...],
        target: Floats,
        weights: Floats | None,
        rows: RowNumbers,
        held: RowNumbers,
        seed: int,
    ) -> tuple[Tensor, Tensor]:
        """Columns of some rows, coded by other ones of them, and of held-out rows, coded by those rows alone.

        **Shape:** -> ``(r, k)``, ``(h, k)`` float64.
        """
        table = code_by_others(inputs, target, weights, rows, np.random.default_rng(seed))
        others = self._replace(levels=target_encoding(inputs[1], target, weights, rows))
        return self.scale.transform(torch.from_numpy(table)[:, self.chosen]), others.read(take(inputs, held))

    def read(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The columns of any rows. **Shape:** -> ``(n, k)`` float64."""
        return self.scale.transform(read_columns(inputs, self.levels, self.chosen))

    def check(self, name: str, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        check_coding(name, read, self.levels, self.chosen)
        self.scale.check(f"{name}.scale", len(self.chosen))

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything by name."""
        levels = {f"levels.{place}": means for place, means in enumerate(self.levels)}
        return levels | {"chosen": self.chosen} | with_prefix(self.scale._asdict(), "scale.")

    @classmethod
    def from_tensors(cls, scaling: type[Standard] | type[Ranks], tensors: dict[str, Tensor]) -> ProcessColumns:
        """Rebuild from :meth:`to_tensors`."""
        levels = under_prefix(tensors, "levels.")
        scale = scaling(**under_prefix(tensors, "scale."))
        return cls([levels[str(place)] for place in range(len(levels))], tensors["chosen"], scale)
