"""Atoms: target values that occur again and again, such as the zeros of purchases or whole numbers of visits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
MIN_SHARE = 0.02
"""A value is an atom where this share of the training rows has it ..."""
MIN_ROWS = 5
"""... and at least so many, since in a short table any value may occur twice."""


@dataclass(frozen=True)
class Atoms:
    """Values with a probability of their own, each with the reach in [0, 1] from which samples settle on it.

    A network that generates values comes close to such a value without being it. The reach of an atom is chosen so that
    of all samples together as large a share settles on it as of the training targets is equal to it.

    **Shape:** all ``(k,)``, from lowest to highest; ``shares_below`` and ``shares`` are of the training targets.

    >>> atoms = Atoms.find(np.array([0.0] * 60 + list(range(1, 41))), places=lambda y: y / 40)
    >>> atoms.values, atoms.shares
    (array([0.]), array([0.6]))
    >>> reaching = atoms.reach_for(np.linspace(0.0, 1.0, 101))
    >>> reaching.settle(np.array([0.3, 0.9]), np.array([12.0, 36.0]))
    array([ 0., 36.])
    """

    values: Array
    places: Array
    shares_below: Array
    shares: Array
    low: Array
    high: Array

    @classmethod
    def find(cls, y: Array, places: Callable[[Array], Array], weights: Array | None = None) -> Atoms:
        """The atoms among training targets, without a reach yet; ``places`` maps targets to [0, 1].

        **Shape:** y and weights ``(n,)``.
        """
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        y, weights = y[weights > 0], weights[weights > 0]
        values, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        shares = np.bincount(codes, weights, minlength=len(values)) / max(weights.sum(), np.finfo(np.float64).tiny)
        below = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
        chosen = (shares >= MIN_SHARE) & (counts >= MIN_ROWS)
        where = np.asarray(places(values[chosen]), dtype=np.float64)
        return cls(values[chosen], where, below[chosen], shares[chosen], where, where)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_reach(self) -> bool:
        """Whether samples that are not equal to an atom settle on it, too."""
        return bool(np.any(self.high > self.low))

    def reach_for(self, samples: Array) -> Atoms:
        """The same atoms, with reaches that fit these samples in [0, 1] of many rows. **Shape:** any."""
        ordered = np.sort(np.asarray(samples, dtype=np.float64), axis=None)
        low = np.minimum(self._quantile(ordered, self.shares_below), self.places)
        high = np.maximum(self._quantile(ordered, self.shares_below + self.shares), self.places)
        # Where two reaches meet, each ends half way, but neither beyond the other's atom.
        between = np.clip((high[:-1] + low[1:]) / 2, self.places[:-1], self.places[1:])
        meet = high[:-1] > low[1:]
        high[:-1], low[1:] = np.where(meet, between, high[:-1]), np.where(meet, between, low[1:])
        return Atoms(self.values, self.places, self.shares_below, self.shares, low, high)

    @staticmethod
    def _quantile(ordered: Array, levels: Array) -> Array:
        """The samples up to which these shares of them lie. **Shape:** ``(m,)``, ``(k,)`` -> ``(k,)``."""
        rank = np.rint(levels * len(ordered)).astype(np.int64)
        return np.asarray(ordered[np.clip(rank, 0, len(ordered) - 1)])

    def settle(self, unit: Array, y: Array) -> Array:
        """The values ``y`` of samples ``unit``, those within reach of an atom being equal to it. **Shape:** any."""
        if not len(self):
            return y
        place = np.minimum(np.searchsorted(self.high, unit), len(self) - 1)
        within = (self.low[place] <= unit) & (unit <= self.high[place])
        return np.asarray(np.where(within, self.values[place], y))

    def to_json(self) -> dict[str, list[float]]:
        """All of it as JSON values."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, state: dict[str, list[float]]) -> Atoms:
        """Rebuild atoms from :meth:`to_json`."""
        return cls(**{name: np.array(numbers, dtype=np.float64) for name, numbers in state.items()})
