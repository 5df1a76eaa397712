"""The denoising chain of a fitted model: whether it has one, and the features and noise that it would start from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diffor.core.method import OrdinalModel
from diffor.errors import UserError
from diffor.estimators.base import OrdinalEstimator
from diffor.methods import METHODS
from diffor.training.loop import limit_threads


def has_chain(model: Any) -> bool:
    """Whether a fitted model answers by a reverse chain that can be followed."""
    return METHODS[model.settings_.method].has_chain


def own_features(model: OrdinalEstimator, X: Any) -> tuple[OrdinalModel, Tensor, Tensor]:
    """The first member that is DiffoR's own, its features of the rows, and the keys of its noise for them.

    **Shape:** X of n rows -> member, ``(n, d)``, ``(n,)``.
    """
    place, member = first_own_member(model)
    features, keys = [], []
    for rows in model.row_blocks(X):
        with limit_threads(model.n_jobs):
            features.append(member.features(rows.inputs).clone())  # a copy can take part in gradients
        keys.append(rows.keys + place)  # as each member of an ensemble has noise of its own
    return member, torch.cat(features), torch.cat(keys)


def first_own_member(model: OrdinalEstimator) -> tuple[int, OrdinalModel]:
    """The first member whose method is DiffoR's, and its place among all."""
    if not has_chain(model):
        raise UserError(
            f"only a method with a chain has a theory to measure, but got method={model.settings_.method!r}; "
            "fit DiffoRRegressor('paper') or DiffoRClassifier('paper')"
        )
    return 0, model.ensemble_.models[0]
