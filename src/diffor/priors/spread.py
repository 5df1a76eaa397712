"""How far targets lie from their places: small boosted trees for the logarithm of the distance."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diffor.errors import UserError
from diffor.priors.boosters import Growth, grow_by_sklearn
from diffor.priors.contract import (
    Answers,
    Floats,
    Prior,
    PriorRows,
    Read,
    RowNumbers,
    as_answers,
    check_tensor,
    under_prefix,
    with_prefix,
)
from diffor.priors.folds import FoldModels, Lesson, grow_folds, prepare

LEAST_SHARE = 1e-3
"""Of the mean distance: what is added before logarithms are taken."""
COMMON_SHARE = 0.3
"""Of the mean distance: what every row's spread is made of at least."""
NORMAL_DISTANCE = 0.7979
"""Mean distance of a standard normal number from zero."""


class SpreadModel(NamedTuple):
    """The spread of rows whose places are known, as the standard deviation of a normal law."""

    models: FoldModels
    scale: Tensor
    """What every row has in common, and the factor of the whole. **Shape:** ``(2,)``."""

    @classmethod
    def fit(cls, lesson: Lesson, target: Floats, place: Floats) -> tuple[SpreadModel, Floats]:
        """Learn from honest places; also the spread of each row by the models of other folds.

        **Shape:** target and place ``(n,)`` -> model, ``(n,)``.
        """
        missed = np.abs(target - place)
        mean = max(float(np.average(missed, weights=lesson.weights)), 1e-9)
        logs = np.log(missed + LEAST_SHARE * mean)
        growth = Growth(rounds=200, patience=10, rate=0.1, leaves=7, min_leaf=max(20, len(target) // 40), depth=4)
        models, logs = grow_folds(lesson, logs, grow_by_sklearn, growth, beside=np.clip(place, 0, 1))
        raw = np.exp(logs) + COMMON_SHARE * mean
        factor = float(np.average(missed / raw, weights=lesson.weights)) / NORMAL_DISTANCE
        return cls(models, torch.tensor([COMMON_SHARE * mean, max(factor, 1e-6)])), raw * factor

    def predict(self, inputs: tuple[Tensor, ...], place: Tensor) -> Tensor:
        """The spread of new rows around their places. **Shape:** place ``(n,)`` -> ``(n,)``."""
        logs = self.models.predict(inputs, place.clamp(0, 1))
        common, factor = self.scale.tolist()
        return logs.exp().add_(common).mul_(factor)

    def check(self, name: str, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        self.models.check(f"{name}.models", read, n_beside=1)
        check_tensor(f"{name}.scale", self.scale, torch.float32, (2,), 0, 1e6)

    def to_tensors(self) -> dict[str, Tensor]:
        """The models and the scale, by name."""
        return with_prefix(self.models.to_tensors(), "models.") | {"scale": self.scale}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> SpreadModel:
        """Rebuild the model from :meth:`to_tensors`."""
        return cls(FoldModels.from_tensors(under_prefix(tensors, "models.")), tensors["scale"])


class PlacePrior(Prior):
    """A prior that finds places, and learns the spread around them from how far honest ones were off."""

    spread: SpreadModel | None = None

    @abstractmethod
    def fit_place(self, lesson: Lesson, target: Floats) -> Floats:
        """Learn places; also an honest one for each training row. **Shape:** -> ``(n,)``."""

    @abstractmethod
    def predict_place(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Expected place of new rows. **Shape:** -> ``(n,)`` float32."""

    @abstractmethod
    def place_tensors(self) -> dict[str, Tensor]:
        """Everything needed to find places, by name."""

    def fit(self, rows: PriorRows, u: Floats, weights: Floats | None, folds: RowNumbers, seed: int) -> Answers:
        """Learn places and spreads; also each row's answer by what has not seen it. **Shape:** -> ``(n, 2)``."""
        target = np.asarray(u, dtype=np.float64)
        lesson = prepare(rows, target, weights, folds, seed)
        place = self.fit_place(lesson, target)
        self.spread, spread = SpreadModel.fit(lesson, target, place)
        return as_answers(place, spread)

    @torch.inference_mode()
    def predict(self, rows: PriorRows) -> Answers:
        """Places, and the spread that belongs to each. **Shape:** -> ``(n, 2)``."""
        spread = self._fitted_spread("predicts")
        place = self.predict_place(rows.inputs)
        return as_answers(place.numpy(), spread.predict(rows.inputs, place).numpy())

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to answer, by name."""
        spread = self._fitted_spread("is saved")
        return self.place_tensors() | with_prefix(spread.to_tensors(), "spread.")

    def check(self, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        self._fitted_spread("is checked").check(f"{self.name}.spread", read)

    def _fitted_spread(self, what: str) -> SpreadModel:
        if self.spread is None:
            raise UserError(f"the prior {self.name!r} must be fitted before it {what}: call fit")
        return self.spread
