"""Networks for tables by other people, RealMLP and TabM: quantiles for values, classes for grades."""

from __future__ import annotations

import copy
import logging
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.bench.peers.problem import Fitted, Peer, Problem, Values, from_grade_probabilities, from_quantiles
from diffor.bench.peers.trees import LEVELS, FittedBy, TrainingColumns, import_package, spread_over_grades
from diffor.core.prediction import Prediction

MAX_ONE_HOT_LEVELS = 200
"""TabM spells categories out as one column per level: the commonest levels keep their own, the others share one."""


class FilledColumns:
    """Numbers without gaps, and codes of categories, as networks want them; all is learnt from the training rows.

    Missing numbers become the median, and a further column flags them where training rows had any. Columns with one
    value only are left out. The last code of a category stands for missing and unknown levels.

    >>> train = pd.DataFrame({"size": [1.0, None, 3.0], "kind": pd.Categorical(["a", "b", "a"])})
    >>> columns = FilledColumns(train)
    >>> columns.numbers(train).tolist(), columns.codes(train).tolist()
    ([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [[0], [1], [0]])
    """

    def __init__(self, x: pd.DataFrame, max_levels: int | None = None) -> None:
        self._columns = TrainingColumns(x, max_levels)
        table = self._columns.codes(x)
        is_number = np.array([place not in self._columns.levels for place in range(table.shape[1])], dtype=bool)
        self._categories = np.flatnonzero(~is_number)
        self.cardinalities = [len(self._columns.levels[int(place)]) + 1 for place in self._categories]
        known = [values[~np.isnan(values)] for values in table.T]
        self._numbers = np.array([j for j in np.flatnonzero(is_number) if len(np.unique(known[j])) > 1], dtype=int)
        self._medians = np.array([np.median(known[j]) for j in self._numbers])
        gaps = np.isnan(table).any(axis=0)
        self._flags = np.array([j for j in np.flatnonzero(is_number & gaps) if len(known[j])], dtype=int)

    def numbers(self, x: pd.DataFrame) -> Values:
        """Numbers and the flags of missing ones. **Shape:** ``(n, p)``."""
        table = self._columns.codes(x)
        numbers, flags = table[:, self._numbers], np.isnan(table[:, self._flags])
        return np.concatenate([np.where(np.isnan(numbers), self._medians, numbers), flags], axis=1)

    def codes(self, x: pd.DataFrame) -> NDArray[np.int64]:
        """Codes of the categories. **Shape:** ``(n, c)``."""
        codes = self._columns.codes(x)[:, self._categories]
        return np.where(np.isnan(codes), np.array(self.cardinalities) - 1, codes).astype(np.int64)

    def frame(self, x: pd.DataFrame) -> pd.DataFrame:
        """Numbers and flags, and categories as pandas knows them."""
        categories = self._columns.categories(x)[self._columns.category_names]
        table: pd.DataFrame = pd.DataFrame(self.numbers(x)).add_prefix("n").assign(**dict(categories.items()))
        return table


# RealMLP.


@contextmanager
def _silence() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning.pytorch")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def fit_realmlp(problem: Problem, time_limit: int | None = None, **settings: Any) -> Fitted:
    """RealMLP with its tuned defaults: 19 quantiles, or one class per grade; validation rows choose the epoch."""
    pytabkit = import_package("pytabkit")
    columns = FilledColumns(problem.x)
    chosen: dict[str, Any] = {"device": "cpu", "random_state": problem.seed, "n_threads": problem.n_threads}
    y, y_valid = problem.y.copy(), problem.y_valid.copy()
    if problem.n_grades is None:
        loss = f"multi_pinball({','.join(map(str, LEVELS))})"
        chosen |= {"train_metric_name": loss, "val_metric_name": loss, **settings}
        model = pytabkit.RealMLP_TD_Regressor(**chosen)
    else:
        # What its authors advise where probabilities matter and not only the likeliest class.
        chosen |= {"val_metric_name": "cross_entropy", "use_ls": False, **settings}
        model = pytabkit.RealMLP_TD_Classifier(**chosen)
        y, y_valid = y.astype(np.int64), y_valid.astype(np.int64)
    with _silence(), _torch_state(problem):
        model.fit(columns.frame(problem.x), y, X_val=columns.frame(problem.x_valid), y_val=y_valid,
                  time_to_fit_in_seconds=time_limit)  # fmt: skip

    def answer(x: pd.DataFrame) -> Prediction:
        with _silence(), _torch_state(problem):
            if problem.n_grades is None:
                return from_quantiles(LEVELS, model.predict(columns.frame(x)), problem.n_samples)
            probabilities = model.predict_proba(columns.frame(x))
        spread = spread_over_grades(probabilities, model.classes_, problem.n_grades)
        return from_grade_probabilities(spread, problem.n_samples)

    return FittedBy(answer)


# TabM.


@contextmanager
def _torch_state(problem: Problem) -> Iterator[None]:
    n_threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(problem.seed)
        torch.set_num_threads(problem.n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)


class TabMInputs:
    """Inputs as TabM's own example makes them: numbers through quantiles to a normal distribution, and codes."""

    def __init__(self, x: pd.DataFrame, max_levels: int, seed: int) -> None:
        from sklearn.preprocessing import QuantileTransformer

        self.columns = FilledColumns(x, max_levels)
        numbers = self.columns.numbers(x)
        n_quantiles = min(max(len(x) // 30, 10), 1000, len(x))
        self._scale = QuantileTransformer(
            n_quantiles=n_quantiles, output_distribution="normal", subsample=10**9, random_state=seed
        )
        if numbers.shape[1]:
            # A little noise tears ties apart, which would otherwise land far out in the tails.
            spread = np.std(numbers, axis=0) * 1e-5
            self._scale.fit(numbers + np.random.default_rng(seed).normal(size=numbers.shape) * spread)

    def tensors(self, x: pd.DataFrame) -> dict[str, Tensor]:
        """The arguments of the model, without those that the table has no columns for."""
        numbers = self.columns.numbers(x)
        inputs = {}
        if numbers.shape[1]:
            inputs["x_num"] = torch.as_tensor(self._scale.transform(numbers), dtype=torch.float32)
        if self.columns.cardinalities:
            inputs["x_cat"] = torch.as_tensor(self.columns.codes(x))
        return inputs

    def model(self, x_num: Tensor | None, n_outputs: int, settings: dict[str, Any]) -> Any:
        """A TabM with piecewise-linear embeddings of the numbers."""
        embeddings = None
        if x_num is not None:
            library = import_package("rtdl_num_embeddings")
            bins = library.compute_bins(x_num, n_bins=min(48, len(x_num) - 1))
            embeddings = library.PiecewiseLinearEmbeddings(bins, d_embedding=16, activation=False, version="B")
        return import_package("tabm").TabM.make(
            n_num_features=0 if x_num is None else x_num.shape[1],
            cat_cardinalities=self.columns.cardinalities,
            d_out=n_outputs,
            num_embeddings=embeddings,
            **settings,
        )


def pinball_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean pinball loss at the 19 levels. **Shape:** outputs ``(n, ..., 19)``, y ``(n,)``."""
    levels = torch.tensor(LEVELS)
    error = y.view(-1, *[1] * (outputs.ndim - 1)) - outputs
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy of each submodel on its own. **Shape:** outputs ``(n, k, grades)``, y ``(n,)``."""
    wanted = y.long()[:, None].expand(outputs.shape[:-1])
    return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), wanted.flatten())


def _run(model: Any, inputs: dict[str, Tensor], batch_size: int = 1024) -> Tensor:
    """Outputs of all submodels, without gradients. **Shape:** ``(n, k, outputs)``."""
    model.eval()
    n_rows = len(next(iter(inputs.values())))
    with torch.inference_mode():
        parts = [
            model(**{name: values[start : start + batch_size] for name, values in inputs.items()})
            for start in range(0, n_rows, batch_size)
        ]
    return torch.cat(parts)


class TabMTraining:
    """The loop of TabM's example: AdamW, gradients of norm 1 at most, patience on the validation loss."""

    def __init__(self, model: Any, is_value: bool, batch_size: int, patience: int, max_epochs: int) -> None:
        self.model, self.is_value = model, is_value
        self.batch_size, self.patience, self.max_epochs = batch_size, patience, max_epochs
        self.loss = pinball_loss if is_value else cross_entropy
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=3e-4)

    def validation_loss(self, inputs: dict[str, Tensor], y: Tensor) -> float:
        """Loss of the submodels' mean, which is what predicts."""
        outputs = _run(self.model, inputs)
        if self.is_value:
            return float(pinball_loss(outputs.mean(dim=1), y))
        chosen = outputs.softmax(dim=-1).mean(dim=1)[torch.arange(len(y)), y.long()]
        return float(-chosen.clamp_min(1e-12).log().mean())

    def epoch(self, inputs: dict[str, Tensor], y: Tensor, deadline: float) -> None:
        """One pass over the training rows; each submodel learns from its own error."""
        self.model.train()
        order = torch.randperm(len(y))
        for start in range(0, len(y), self.batch_size):
            rows = order[start : start + self.batch_size]
            outputs = self.model(**{name: values[rows] for name, values in inputs.items()})
            self.optimizer.zero_grad()
            self.loss(outputs, y[rows]).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            if time.monotonic() > deadline:
                return

    def run(
        self, train: tuple[dict[str, Tensor], Tensor], valid: tuple[dict[str, Tensor], Tensor], limit: float
    ) -> None:
        """Train until the validation loss no longer falls or the time is up; keep the best epoch."""
        deadline = time.monotonic() + limit
        best, best_state, waited = math.inf, copy.deepcopy(self.model.state_dict()), 0
        for _ in range(self.max_epochs):
            self.epoch(*train, deadline)
            loss = self.validation_loss(*valid)
            waited += 1
            if loss < best:
                best, best_state, waited = loss, copy.deepcopy(self.model.state_dict()), 0
            if waited >= self.patience or time.monotonic() > deadline:
                break
        self.model.load_state_dict(best_state)


def fit_tabm(
    problem: Problem,
    *,
    batch_size: int = 256,
    patience: int = 16,
    max_epochs: int = 100,
    time_limit: float = 600.0,
    max_levels: int = MAX_ONE_HOT_LEVELS,
    **settings: Any,
) -> Fitted:
    """TabM of 32 submodels: 19 quantiles each, or one class per grade; settings go to ``TabM.make``.

    Where ``time_limit`` (in seconds) ends the training, the same seed need not give the same model.
    """
    is_value = problem.n_grades is None
    centre, spread = (float(problem.y.mean()), float(problem.y.std()) or 1.0) if is_value else (0.0, 1.0)

    def with_targets(x: pd.DataFrame, y: Values) -> tuple[dict[str, Tensor], Tensor]:
        return inputs.tensors(x), torch.as_tensor((y - centre) / spread, dtype=torch.float32)

    with _silence(), _torch_state(problem):
        inputs = TabMInputs(problem.x, max_levels, problem.seed)
        train, valid = with_targets(problem.x, problem.y), with_targets(problem.x_valid, problem.y_valid)
        n_outputs = problem.n_grades or len(LEVELS)
        model = inputs.model(train[0].get("x_num"), n_outputs, {"k": 32, **settings})
        TabMTraining(model, is_value, batch_size, patience, max_epochs).run(train, valid, time_limit)

    def answer(x: pd.DataFrame) -> Prediction:
        with _torch_state(problem):
            outputs = _run(model, inputs.tensors(x))
        if is_value:
            return from_quantiles(LEVELS, centre + spread * outputs.mean(dim=1).double().numpy(), problem.n_samples)
        return from_grade_probabilities(outputs.softmax(dim=-1).mean(dim=1).numpy(), problem.n_samples)

    return FittedBy(answer)


TABULAR_NETWORKS: tuple[Peer, ...] = (
    Peer("realmlp", "RealMLP with tuned defaults, 19 quantiles or one class per grade", ("value", "grades"),
         fit_realmlp, package="pytabkit"),
    Peer("tabm", "TabM, 32 submodels that share weights, 19 quantiles or one class per grade", ("value", "grades"),
         fit_tabm, package="tabm"),
)  # fmt: skip
