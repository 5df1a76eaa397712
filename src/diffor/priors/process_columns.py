"""The columns that a Gaussian process reads: coded, chosen and scaled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diffor.priors.contract import Floats, Read, RowNumbers, under_prefix, with_prefix
from diffor.priors.design import choose_columns, code_by_others, level_means, read_columns, take
from diffor.priors.folds import check_coding
from diffor.priors.ranks import Ranks, Standard

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
        columns = cls(level_means(inputs[1], target, weights, rows), chosen, scale)
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
        others = self._replace(levels=level_means(inputs[1], target, weights, rows))
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
