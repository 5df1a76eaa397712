"""Priors: simple models whose answer about each row, a place and a spread, the networks are given."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from tqdm import tqdm

from diffor.errors import UserError, did_you_mean
from diffor.files.schema import MisfitError
from diffor.priors.boosting import BoostedTrees, CatBoostTrees, LightGBMTrees
from diffor.priors.contract import Answers, Floats, Prior, PriorRows, Read, RowNumbers, under_prefix, with_prefix
from diffor.priors.estimator import EstimatorPrior
from diffor.priors.forest import Forest
from diffor.priors.gaussian_process import GaussianProcess, RankProcess

__all__ = ["PRIORS", "FittedPriors", "Prior", "PriorRows", "Read", "fit_priors", "make_prior"]

PRIORS: dict[str, type[Prior]] = {
    kind.name: kind for kind in (BoostedTrees, LightGBMTrees, CatBoostTrees, GaussianProcess, RankProcess, Forest)
}
"""The priors that have names."""


class FittedPriors:
    """Several fitted priors, asked together."""

    def __init__(self, priors: Sequence[Prior], are_even: Sequence[bool] = ()) -> None:
        self.priors, self.are_even = list(priors), list(are_even)

    @property
    def names(self) -> list[str]:
        """The name of each prior."""
        return [prior.name for prior in self.priors]

    def predict(self, rows: PriorRows) -> Answers:
        """Place and spread by each prior in turn. **Shape:** -> ``(n, 2 P)`` float32."""
        answers = [prior.predict(rows) for prior in self.priors]
        return np.concatenate([np.zeros((len(rows), 0), dtype=np.float32), *answers], axis=1)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to answer; all names begin with ``prior.``, a number and the prior's name."""
        tensors: dict[str, Tensor] = {}
        for place, prior in enumerate(self.priors):
            owned = {name: tensor.clone() for name, tensor in prior.to_tensors().items()}  # no two share their memory
            tensors |= with_prefix(owned, f"prior.{place}.{prior.name}.")
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], read: Read | None = None) -> FittedPriors:
        """Rebuild priors from :meth:`to_tensors`; other tensors may stand beside them.

        Where ``read`` says what they read, they are checked to the last tensor: they may come from a stranger.
        """
        owned = under_prefix(tensors, "prior.")
        names = dict(sorted((int(key.split(".")[0]), key.split(".")[1]) for key in owned))
        fitted = cls(
            [make_kind(name).from_tensors(under_prefix(owned, f"{place}.{name}.")) for place, name in names.items()]
        )
        if read is not None:
            unused = {f"prior.{name}" for name in owned} - fitted.to_tensors().keys()
            if list(names) != list(range(len(names))) or unused:
                raise MisfitError(f"priors must be numbered from 0 on, each with its own tensors, but got {min(unused)}"
                                  if unused else "priors must be numbered from 0 on")  # fmt: skip
            for prior in fitted.priors:
                prior.check(read)
        return fitted


def fit_priors(
    chosen: Any,
    rows: PriorRows,
    u: Floats,
    weights: Floats | None,
    folds: RowNumbers,
    seed: int,
    until: float | None = None,
    verbose: int = 0,
    even: Floats | None = None,
) -> tuple[FittedPriors, Answers]:
    """Fit one or several priors, names or objects, to targets in [0, 1]; also what each says about rows not seen.

    ``u`` are targets in the coordinate of the borders, ``even`` as they are; each prior has one of the two, and
    ``are_even`` of the answer says which. Once the clock of :func:`time.monotonic` has passed ``until``, those after
    the first are left out.

    **Shape:** u, even, weights and folds ``(n,)`` -> priors, ``(n, 2 P)`` float32.

    >>> import torch
    >>> rows = PriorRows((torch.rand(60, 2), torch.zeros(60, 0, dtype=torch.int64)))
    >>> fitted, seen = fit_priors(["trees", "process"], rows, np.linspace(0, 1, 60), None, np.arange(60) % 3, seed=0)
    >>> fitted.names, seen.shape
    (['trees', 'process'], (60, 4))
    """
    listed = [] if chosen is None else list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
    priors = [make_prior(entry) for entry in listed]
    seen: list[Answers] = []
    are_even: list[bool] = []
    hidden = None if verbose else True
    for place, prior in enumerate(tqdm(priors, desc="priors", unit="prior", delay=2, disable=hidden)):
        if seen and until is not None and time.monotonic() > until:
            break
        are_even.append(even is not None and prior.prefers_even(rows, u, even, weights, seed + place))
        target = even if even is not None and are_even[-1] else u
        seen.append(prior.fit(rows, target, weights, folds, seed + place))
    return FittedPriors(priors[: len(seen)], are_even), np.concatenate(
        [np.zeros((len(rows), 0), dtype=np.float32), *seen], axis=1
    )


def make_prior(entry: Any) -> Prior:
    """A prior by its name, a copy of one, or one of any regressor with ``fit`` and ``predict``.

    >>> make_prior("trees").name
    'trees'
    """
    if isinstance(entry, str):
        return make_kind(entry)()
    return copy.deepcopy(entry) if isinstance(entry, Prior) else EstimatorPrior(entry)


def make_kind(name: str) -> type[Prior]:
    """The class of a prior by its name."""
    if name not in PRIORS:
        raise UserError(f"prior must be one of {', '.join(PRIORS)}, not {name!r}{did_you_mean(name, PRIORS)}")
    return PRIORS[name]
