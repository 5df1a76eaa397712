"""Networks for tables by other people: RealMLP and TabM with quantiles or classes, engression with samples."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from diffor.bench.peers.columns import FilledColumns, LinearDesign
from diffor.bench.peers.problem import (
    LEVELS,
    Fitted,
    FittedBy,
    Problem,
    Values,
    by_probabilities,
    by_quantiles,
    import_package,
)
from diffor.core.prediction import Prediction
from diffor.methods.baselines.quantiles import pinball_loss
from diffor.training.batches import Rows
from diffor.training.loop import TrainConfig, limit_threads, train

MAX_ONE_HOT_LEVELS = 200
"""TabM spells categories out as one column per level: the commonest levels keep their own, the others share one."""
BLOCK_ROWS = 1024
MAX_ENGRESSION_EPOCHS, MAX_ENGRESSION_STEPS = 1000, 15_000


@contextmanager
def reproducible(problem: Problem) -> Iterator[None]:
    """Torch's random numbers and threads as the problem wants them, for a while; both are put back after."""
    with limit_threads(problem.n_threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(problem.seed)
        yield


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings, and nothing below an error in any log, for a while."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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
    with _silence(), reproducible(problem):
        model.fit(columns.frame(problem.x), y, X_val=columns.frame(problem.x_valid), y_val=y_valid,
                  time_to_fit_in_seconds=time_limit)  # fmt: skip

    def outputs(x: pd.DataFrame) -> Any:
        with _silence(), reproducible(problem):
            return (model.predict if problem.n_grades is None else model.predict_proba)(columns.frame(x))

    if problem.n_grades is None:
        return by_quantiles(problem, outputs)
    return by_probabilities(problem, outputs, model.classes_)


def fit_engression(problem: Problem, batch_size: int = 256, **settings: Any) -> Fitted:
    """Engression (Shen and Meinshausen, JRSS B 2024): noise among the inputs, and the energy score as the loss.

    Validation rows choose the epoch, and samples are the answer.

    With its own defaults, a rate of 1e-4 for 500 steps, it is far from what it can do; these are from longer training.
    """
    engression = import_package("engression")
    design = LinearDesign(problem.x)
    steps_per_epoch = -(-len(problem.y) // batch_size)
    n_epochs = max(1, min(MAX_ENGRESSION_EPOCHS, MAX_ENGRESSION_STEPS // steps_per_epoch))
    chosen = {"num_layer": 3, "lr": 1e-3, "num_epochs": n_epochs, "batch_size": batch_size, **settings}
    with reproducible(problem):
        model = engression.engression(
            design.matrix(problem.x), problem.y[:, None], x_val=design.matrix(problem.x_valid),
            y_val=problem.y_valid[:, None], verbose=False, **chosen,
        )  # fmt: skip

    def answer(x: pd.DataFrame) -> Prediction:
        with reproducible(problem):
            samples = model.sample(design.matrix(x), sample_size=problem.n_samples)
        values = samples.reshape(len(x), problem.n_samples).double().numpy()
        return Prediction(values if problem.bounds is None else np.clip(values, *problem.bounds))

    return FittedBy(answer)


# TabM: its package has layers and no loop, so it learns in ours, by the settings of its authors' example.


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


class Submodels(nn.Module):
    """Submodels that share weights, as the training loop wants a model: called, it gives the loss of each on its own.

    **Shape:** ``model(**inputs)`` of n rows -> ``(n, k, outputs)``.
    """

    n_members = 1

    def __init__(self, model: nn.Module, names: tuple[str, ...], is_value: bool) -> None:
        super().__init__()
        self.model, self.names, self.is_value = model, names, is_value

    def forward(self, inputs: tuple[Tensor, ...], y: Tensor, weights: Tensor | None = None) -> dict[str, Tensor]:
        """Mean pinball loss or cross-entropy over rows and submodels."""
        outputs = self.model(**dict(zip(self.names, inputs, strict=True)))
        return {"loss": self.loss(outputs.flatten(0, 1), y.repeat_interleave(outputs.shape[1]))}

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean loss of answers. **Shape:** ``(m, outputs)``, ``(m,)``."""
        if self.is_value:
            return pinball_loss(y, outputs, torch.tensor(LEVELS)).mean()
        return cross_entropy(outputs, y.long())

    @torch.inference_mode()
    def answers(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """What the submodels say together: mean quantiles, or mean probabilities. **Shape:** -> ``(n, outputs)``."""
        blocks = zip(*(torch.split(part, BLOCK_ROWS) for part in inputs), strict=True)
        parts = [self.model(**dict(zip(self.names, block, strict=True))) for block in blocks]
        outputs = torch.cat(parts)
        return (outputs if self.is_value else outputs.softmax(dim=-1)).mean(dim=1)

    def score(self, rows: Rows) -> float:
        """Loss of the joint answer, which training stops on."""
        answers = self.answers(rows.inputs)
        return float(self.loss(answers if self.is_value else answers.clamp_min(1e-12).log(), rows.y))


def train_submodels(
    model: Submodels, rows: Rows, valid: Rows, batch_size: int, patience: int, max_epochs: int, limit: float, seed: int
) -> None:
    """Train until the validation loss, asked once an epoch, no longer falls or the time is up; keep the best epoch."""
    n_steps = -(-len(rows) // batch_size)
    config = TrainConfig(
        max_steps=max_epochs * n_steps, batch_size=batch_size, learning_rate=2e-3, weight_decay=3e-4, warmup_share=0.0,
        decay=False, ema=0.0, gradient_clip=1.0, evaluate_every=n_steps, patience=patience, time_limit=limit,
        seed=seed, verbose=0,
    )  # fmt: skip
    train(model, rows, lambda trained: trained.score(valid), config)


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
    with _silence(), reproducible(problem):
        inputs = TabMInputs(problem.x, max_levels, problem.seed)

        def rows_of(x: pd.DataFrame, y: Values) -> Rows:
            target = torch.as_tensor((y - centre) / spread, dtype=torch.float32)
            return Rows(tuple(inputs.tensors(x).values()), target, None, torch.arange(len(y)))

        named = inputs.tensors(problem.x)
        network = inputs.model(named.get("x_num"), problem.n_grades or len(LEVELS), {"k": 32, **settings})
        model = Submodels(network, tuple(named), is_value)
        rows, valid = rows_of(problem.x, problem.y), rows_of(problem.x_valid, problem.y_valid)
        train_submodels(model, rows, valid, batch_size, patience, max_epochs, time_limit, problem.seed)

    def outputs(x: pd.DataFrame) -> Values:
        with reproducible(problem):
            answers: Values = model.answers(tuple(inputs.tensors(x).values())).double().numpy()
        return centre + spread * answers

    return by_quantiles(problem, outputs) if is_value else by_probabilities(problem, outputs)
