"""Columns as Gaussian processes read them: of mean 0 and spread 1, or the normal numbers of their ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.files.schema import MisfitError
from diffor.priors.contract import check_tensor

Floats = NDArray[np.floating]

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

    def check(self, name: str, n_columns: int) -> None:
        """Refuse what does not rank so many columns."""
        n_knots = self.knots.shape[-1] if self.knots.ndim else 0
        check_tensor(f"{name}.knots", self.knots, torch.float64, (n_columns, n_knots))
        check_tensor(f"{name}.normals", self.normals, torch.float64, (n_columns, n_knots), -FAR_IN_RANKS, FAR_IN_RANKS)
        if n_knots < 2 or bool((self.knots.diff(dim=1) < 0).any()):
            raise MisfitError(f"{name}.knots must be two or more that rise, but are not")

    def transform(self, columns: Tensor) -> Tensor:
        """Normal numbers of ranks. **Shape:** ``(n, p)`` -> ``(n, p)`` float64."""
        values = columns.double().T.contiguous()
        right = torch.searchsorted(self.knots, values).clamp(1, self.knots.shape[1] - 1)
        low, high = self.knots.gather(1, right - 1), self.knots.gather(1, right)
        share = ((values - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        start = self.normals.gather(1, right - 1)
        return (start + share * (self.normals.gather(1, right) - start)).T.contiguous()


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
