"""A user's own regressor as a prior: cloned for each fold, asked about the rows that it has not seen."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from diffor.errors import UserError, UserTypeError
from diffor.priors.contract import Answers, Floats, Prior, PriorRows, RowNumbers, as_answers, counted_rows
from diffor.priors.folds import SpreadModel, prepare

ONE_SPREAD = (0.1587, 0.8413)
"""Levels of a normal law one standard deviation below and above its middle."""


class EstimatorPrior(Prior):
    """Anything with ``fit`` and ``predict``, such as a regressor of scikit-learn or skpro, on the user's own table.

    Its spread is its own where it knows one (``predict(X, return_std=True)``, ``predict_var``, ``predict_quantiles``),
    otherwise it is learned from how far its honest answers were off. Where no table is at hand, it reads the scaled
    numbers and the codes of categories. Targets are positions in [0, 1]. Such a prior cannot be saved.
    """

    def __init__(self, estimator: Any) -> None:
        if isinstance(estimator, type) or not all(
            callable(getattr(estimator, need, None)) for need in ("fit", "predict")
        ):
            raise UserTypeError(
                f"a prior must be a name or an object with fit and predict, not {estimator!r}; "
                "pass a regressor such as KNeighborsRegressor()"
            )
        self.estimator = estimator
        self.name = type(estimator).__name__
        self.models: list[Any] = []
        self.spread: SpreadModel | None = None

    def fit(self, rows: PriorRows, u: Floats, weights: Floats | None, folds: RowNumbers, seed: int) -> Answers:
        """Fit a clone for each fold; also each row's answer by one that has not seen it. **Shape:** -> ``(n, 2)``."""
        target = np.asarray(u, dtype=np.float64)
        lesson = prepare(rows, target, weights, folds, seed)
        counted, whole, table = counted_rows(len(target), weights), lesson.whole, self._table(rows)
        self.models, self.spread = [], None
        place, spread = np.zeros(len(target)), np.full(len(target), np.nan)
        for fold in range(int(whole.max()) + 1):
            rest, held = counted[whole[counted] != fold], np.flatnonzero(whole == fold)
            rest = rest if len(rest) else counted  # the only fold: there are no other rows
            model = self._clone(seed + fold)
            self._fit_one(model, table.iloc[rest], target[rest], None if weights is None else weights[rest])
            self.models.append(model)
            if len(held):
                place[held], own = self._ask(model, table.iloc[held])
                spread[held] = np.nan if own is None else own
        if np.isnan(spread).any():
            self.spread, spread = SpreadModel.fit(lesson, target, place)
        return as_answers(place, spread)

    def predict(self, rows: PriorRows) -> Answers:
        """The mean of the clones. **Shape:** -> ``(n, 2)``."""
        if not self.models:
            raise UserError(f"the prior {self.name} must be fitted before it predicts: call fit")
        if not len(rows):
            return np.zeros((0, 2), dtype=np.float32)
        answers = [self._ask(model, self._table(rows)) for model in self.models]
        place = np.mean([answer[0] for answer in answers], axis=0)
        if self.spread is not None:
            learned = self.spread.predict(rows.inputs, torch.from_numpy(place.astype(np.float32)))
            return as_answers(place, learned.numpy())
        return as_answers(place, np.mean([answer[1] for answer in answers if answer[1] is not None], axis=0))

    def to_tensors(self) -> dict[str, Tensor]:
        """Refused: nothing is known of how a foreign object is kept."""
        raise UserTypeError(
            f"a model with the prior {self.name} of your own cannot be saved: folders hold numbers, no pickles; "
            "fit it with named priors, or keep it with pickle yourself"
        )

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> EstimatorPrior:
        """Refused, as :meth:`to_tensors` is."""
        raise UserTypeError("a prior of your own cannot be read from a folder: fit the model again")

    def _table(self, rows: PriorRows) -> pd.DataFrame:
        if rows.table is not None:
            return rows.table
        numbers, codes = (pd.DataFrame(part.numpy()) for part in rows.inputs[:2])
        joined: pd.DataFrame = pd.concat([numbers.add_prefix("number"), codes.add_prefix("code")], axis=1)
        return joined

    def _clone(self, seed: int) -> Any:
        """The estimator, unfitted, with a seed where it takes one and was given none."""
        if not hasattr(self.estimator, "get_params"):
            return copy.deepcopy(self.estimator)
        from sklearn.base import clone

        model = clone(self.estimator)
        states = {name: seed % 2**31 for name, value in model.get_params().items() if _is_open_seed(name, value)}
        return model.set_params(**states) if states else model

    def _fit_one(self, model: Any, table: pd.DataFrame, target: Floats, weights: Floats | None) -> None:
        wanted = pd.DataFrame({"target": target}, index=table.index) if hasattr(model, "predict_var") else target
        if weights is None:
            model.fit(table, wanted)
        elif "sample_weight" in inspect.signature(model.fit).parameters:
            model.fit(table, wanted, sample_weight=weights)
        else:
            warnings.warn(f"the prior {self.name} takes no sample_weight: it learns without weights", stacklevel=2)
            model.fit(table, wanted)

    def _ask(self, model: Any, table: pd.DataFrame) -> tuple[Floats, Floats | None]:
        """What a clone says about rows: places, and spreads where it knows them. **Shape:** -> ``(n,)`` each."""
        if "return_std" in inspect.signature(model.predict).parameters:
            place, spread = model.predict(table, return_std=True)
        else:
            place, spread = model.predict(table), _own_spread(model, table)
        checked = self._check(place, len(table), "predict")
        return checked, None if spread is None else self._check(spread, len(table), "spread")

    def _check(self, answer: Any, n_rows: int, what: str) -> Floats:
        """The answer as numbers, or what is wrong with it. **Shape:** -> ``(n,)``."""
        numbers = np.asarray(answer, dtype=np.float64)
        if numbers.size != n_rows or len(numbers) != n_rows:
            raise UserError(
                f"the {what} of the prior {self.name} must have one number for each of {n_rows} rows, "
                f"not the shape {numbers.shape}; look at what it returns for one target"
            )
        if not np.isfinite(numbers).all():
            first = int(np.flatnonzero(~np.isfinite(numbers.ravel()))[0])
            raise UserError(
                f"the {what} of the prior {self.name} must be finite, not {numbers.ravel()[first]} (row {first} "
                "of those asked); handle missing values before it, for example in a pipeline with an imputer"
            )
        return numbers.ravel()


def _own_spread(model: Any, table: pd.DataFrame) -> Any:
    """The spread that an estimator knows by itself, or None."""
    if hasattr(model, "predict_var"):
        return np.sqrt(np.maximum(np.asarray(model.predict_var(table), dtype=np.float64), 0))
    if hasattr(model, "predict_quantiles"):
        low, high = np.asarray(model.predict_quantiles(table, list(ONE_SPREAD)), dtype=np.float64).T
        return (high - low) / 2
    if "quantiles" in inspect.signature(model.predict).parameters:
        low, high = np.asarray(model.predict(table, quantiles=list(ONE_SPREAD)), dtype=np.float64).T
        return (high - low) / 2
    return None


def _is_open_seed(name: str, value: Any) -> bool:
    return value is None and (name == "random_state" or name.endswith("__random_state"))
