"""What every estimator shares: tables or images in, training, distributions out, saving."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.distribution import PointMethod
from diffor.core.grades import Spread, grade_probabilities
from diffor.core.method import OrdinalEnsemble
from diffor.core.prediction import Prediction
from diffor.core.table import as_table
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.errors import UserError, UserTypeError
from diffor.estimators.calibration import ValidationScore
from diffor.estimators.conformal import Calibration
from diffor.estimators.cross_fitted import CrossFitted
from diffor.estimators.cross_fitting import Table, fit_table
from diffor.estimators.ensemble import CHEAP_SAMPLES, MakeImages, fit_ensemble, with_steps
from diffor.estimators.folder import estimator_of, state_of
from diffor.estimators.hub import HubMethods
from diffor.estimators.inputs import Given, match_rows
from diffor.estimators.rows import RowReading
from diffor.estimators.saved_params import check_network, name_run
from diffor.estimators.settings import choose_prior, image_choice, resolve_settings, train_on_encoder
from diffor.methods import METHODS
from diffor.methods.diffor.one_call import as_prediction
from diffor.metrics import coverage, mae
from diffor.training.batches import Batches
from diffor.training.checkpoint import CheckpointError, load_folder, save_folder
from diffor.training.loop import History, Rows, TrainConfig, limit_threads, predict_in_chunks
from diffor.training.side_columns import check_validation_sides, separate_sides
from diffor.training.tracking import Tracker, make_tracker, tracked

Array = NDArray[Any]
Self = TypeVar("Self", bound="OrdinalEstimator")


class UnlistedArgument:
    """A constructor argument that is kept but not shown as an attribute.

    scikit-learn takes every object with a ``transform`` attribute for a transformer; the argument of that name is a
    setting, read with ``get_params()``.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise AttributeError(f"{self.name} is a setting, not a method: read get_params()[{self.name!r}]")


@contextmanager
def unchanged_by_failure(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was where fitting it fails, so that a model it had goes on answering as before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class OrdinalEstimator(HubMethods, RowReading):
    """What regressor and classifier share: tables or images in, training, distributions out, saving."""

    model_: OrdinalEnsemble | CrossFitted
    out_of_fold_: Prediction | None = None
    held_out_scores_: dict[str, float] | None = None
    encoders_: list[str]
    history_: History
    data_summary_: dict[str, Any] | None = None
    conformal_: Calibration | None = None
    preset: str
    time_limit: float | None
    checkpoint_dir: str | Path | None
    random_state: Any
    log_to: str | Tracker | None

    def _remember(self, arguments: dict[str, Any]) -> None:
        """Keep constructor arguments as they are, which is what scikit-learn asks of estimators."""
        for name, value in arguments.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: vars(self)[name] for name in self._get_param_names()}

    # --- fitting ---

    def _resolve(self, X_val: Any, y_val: Any) -> None:
        """Check what can be checked before looking at data, and settle the preset's settings."""
        if (X_val is None) != (y_val is None):
            given, absent = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
            raise UserError(f"X_val and y_val belong together, but only {given} was given; pass {absent} too")
        if not 0 <= self.validation_fraction < 1:
            raise UserError(
                f"validation_fraction must lie in [0, 1), but got validation_fraction={self.validation_fraction}"
            )
        if self.time_limit is not None and not self.time_limit > 0:
            raise UserError(f"time_limit must be positive seconds or None, but got time_limit={self.time_limit}")
        make_tracker(self.log_to)
        self.settings_ = resolve_settings(self.preset, self.get_params(deep=False))

    def _check_method(self, task: str, n_grades: int | None = None) -> None:
        """Refuse a method that cannot do the task, and tell one that asks for it the number of grades."""
        name = self.settings_.method
        method = METHODS[name]
        if task not in method.tasks:
            able = [other for other in METHODS if task in METHODS[other].tasks]
            raise UserError(
                f"method {name!r} predicts {' and '.join(method.tasks)}, but the targets are "
                f"{'ordered grades' if task == 'grades' else 'values'}; use one of {', '.join(able)}"
            )
        if (
            n_grades is not None
            and "n_grades" in inspect.signature(method).parameters
            and not self.settings_.cross_fits
        ):
            given = {**self.settings_.method_settings, "n_grades": n_grades}
            self.settings_ = replace(self.settings_, method_settings=given)

    def _fit(
        self: Self,
        X: Any,
        y: Array,
        sample_weight: Any,
        X_val: Any,
        y_val: Array | None,
        groups: Any,
        side: dict[str, Any],
    ) -> Self:
        """Fit on targets in units of ``scale_``, which the caller has set."""
        started = time.monotonic()
        self.conformal_ = self.out_of_fold_ = self.held_out_scores_ = None  # scores of another model promise nothing
        self.images_ = self._make_reader()
        of_training, of_validation = separate_sides(side, X_val is not None)
        given = self._read(X, y, sample_weight, of_training)
        training, counted = given.counted()
        validation: Given | None = None
        self._note_columns(training.rows)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        if X_val is not None and y_val is not None:
            check_validation_sides(METHODS[self.settings_.method], of_training, of_validation)
            others = self._read(X_val, y_val, None, of_validation)
            validation = replace(others, rows=match_rows(others.rows, training.rows.column_names))
        elif not self._cross_fits(training):
            training, validation = self._split(training)
        self.data_summary_ = {
            "rows": len(training.y),
            "validation_rows": 0 if validation is None else len(validation.y),
            "target": self._describe_target(training.y),
        }
        table = training.rows.table
        self.inputs_ = TabularInputs() if table is None else TabularInputs().fit(table)
        self.priors_ = None
        if self._cross_fits(training):
            of_rows = as_groups(groups, len(given.y))
            if of_rows is not None:
                of_rows = np.unique(of_rows[counted], return_inverse=True)[1]
            self._fit_core(training, validation, of_rows, started)
        else:
            if self.settings_.cross_fits:  # there is no table: what suits an encoder is still to be settled
                self.settings_ = train_on_encoder(self.settings_, self.get_params(deep=False))
            data = self._rows(training)
            if validation is None:
                self._train(data, None, None, started)
            else:
                self._train(data, self._rows(validation), validation.y, started)
        return self

    def _cross_fits(self, given: Given) -> bool:
        """Whether these rows are a table that cross-fitted networks answer."""
        return self.settings_.cross_fits and given.rows.table is not None and given.rows.images is None

    def _fit_core(
        self, training: Given, validation: Given | None, groups: NDArray[np.int64] | None, started: float
    ) -> None:
        """Fit priors and cross-fitted networks on a table."""
        data = self._rows(training)
        table = Table(
            self.inputs_,
            data,
            training.rows.table,
            None if validation is None else self._rows(validation),
            None if validation is None else validation.rows.table,
            groups,
            self.scale_.n_grades if isinstance(self.scale_, GradeScale) else None,
            max(self.scale_.high - self.scale_.low, np.finfo(float).tiny),
        )
        config = replace(self._config(started), evaluate_first=True)
        settings, fingerprint = self.settings_, self._fingerprint(data)
        with limit_threads(self.n_jobs), self._tracked(fingerprint) as (tracking, final):
            core = fit_table(table, choose_prior(settings, len(data)), settings.kinds, settings.n_folds,
                             settings.n_increments, config, fingerprint, tracking, self._device(),
                             settings.max_folds)  # fmt: skip
            self.priors_, self.model_, self.history_ = core.priors, core.model, core.history
            self.encoders_ = list(settings.kinds[: len(core.model.kinds)])
            known = ~core.out_of_fold.isnan().any(dim=1)
            if known.any():
                y = training.y if validation is None else np.concatenate([training.y, validation.y])
                prediction = as_prediction(core.model.borders, core.out_of_fold[known]).map(self.scale_.from_unit)
                self._note_held_out(prediction, y[known.numpy()])
            final.update(self.history_.totals())

    def _note_held_out(self, prediction: Prediction, y: Array) -> None:
        """Score what networks say about rows that they have not seen; it tells the spread of grades and may be kept."""
        self.history_.best_score = float(prediction.crps(y).mean())
        low, high = prediction.interval(0.9).T
        self.held_out_scores_ = {
            "crps": self.history_.best_score,
            "mae": mae(y, prediction.statistic("median")),
            "coverage_90": coverage(y, low, high),
        }
        if isinstance(self.scale_, GradeScale):
            self.scale_.spread = Spread.of(grade_probabilities(prediction, self.scale_.n_grades))
        if self.settings_.keep_out_of_fold:
            self.out_of_fold_ = prediction

    def _describe_target(self, y: Array) -> dict[str, Any]:
        """How the training targets are spread, as JSON values."""
        levels = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75, "largest": 1.0}
        return {name: float(np.quantile(y, level)) for name, level in levels.items()}

    def _train(
        self,
        data: Rows,
        valid: Rows | None,
        y_valid: Array | None,
        started: float,
        batches: Batches | None = None,
        **changes: Any,
    ) -> None:
        """Fit the model; with ``batches``, data are a sample of these. ``changes`` are those of the configuration."""
        device, config = self._device(), self._config(started)
        run = changes.pop("run", "")
        config = replace(config, **changes)
        score = None
        if valid is not None and y_valid is not None:
            is_costly = METHODS[self.settings_.method].draws_are_costly
            score = ValidationScore(valid.to(device), y_valid, self.scale_, 16 if is_costly else CHEAP_SAMPLES)
        elif self.settings_.method_settings.get("decoding") == "fusion":
            raise UserError(
                "decoding='fusion' fits its weights on validation rows, but there are none; "
                "pass X_val and y_val, or more rows"
            )
        fingerprint = self._fingerprint(data) + run
        maker = self._network_maker()
        is_first = batches is None or batches.world.is_first
        with limit_threads(self.n_jobs), self._tracked(fingerprint, is_first) as (tracking, final):
            self.model_, self.encoders_, self.history_ = fit_ensemble(
                self.inputs_, self.settings_, data.to(device), score, config, fingerprint, maker, tracking, batches
            )
            final.update(self.history_.totals())

    def _config(self, started: float) -> TrainConfig:
        """How to train in the time that is left."""
        left = None if self.time_limit is None else max(self.time_limit - (time.monotonic() - started), 1e-3)
        return TrainConfig(
            **self.settings_.for_training(),
            time_limit=left,
            checkpoint_dir=None if self.checkpoint_dir is None else str(self.checkpoint_dir),
            seed=self.seed_,
            verbose=self.verbose,
        )

    def _fingerprint(self, data: Rows) -> str:
        """Names data and settings where a run has a checkpoint or is watched."""
        is_named = self.checkpoint_dir is not None or self.log_to is not None
        return name_run(self.settings_, data) if is_named else ""

    def _tracked(self, fingerprint: str, is_first: bool = True) -> Any:
        """Where the figures of a run go; only the first of several processes writes them."""
        name, settings = f"{self.preset}-{fingerprint[:12]}", asdict(self.settings_) | {"seed": self.seed_}
        return tracked(self.log_to if is_first else None, name, settings)

    @property
    def ensemble_(self) -> OrdinalEnsemble:
        """The members of a model that is an encoder and a method."""
        if not isinstance(self.model_, OrdinalEnsemble):
            raise UserTypeError("members of an encoder and a method are asked for, but this model is cross-fitted")
        return self.model_

    def _network_maker(self, fill: bool = True) -> MakeImages | None:
        """What makes a member's network of images; None where members read tables, as features of a frozen one are."""
        if self.images_ is None or self.images_.frozen is not None:
            return None
        return partial(image_choice(self.settings_, self.encoder).make, fill=fill)

    # --- predicting ---

    def _predictions(
        self,
        X: Any,
        n_samples: int | None = None,
        side: dict[str, Any] | None = None,
        n_steps: int | None = None,
    ) -> Iterator[Prediction]:
        """Predictions of the rows of X in the user's units, a block at a time."""
        return (part.map(self.scale_.from_unit) for part in self._unit_predictions(X, n_samples, side, n_steps))

    def _unit_predictions(
        self,
        X: Any,
        n_samples: int | None = None,
        side: dict[str, Any] | None = None,
        n_steps: int | None = None,
    ) -> Iterator[Prediction]:
        """Predictions of the rows of X in [0, 1], a block at a time."""
        check_is_fitted(self, "model_")
        count = self.settings_.n_samples if n_samples is None else n_samples
        if count < 1:
            raise UserError(f"the number of samples must be at least 1, but got {count}")
        model = self._with_steps(n_steps)
        for rows in self.row_blocks(X, side):
            with limit_threads(self.n_jobs):
                prediction = predict_in_chunks(model, rows, count)
            yield prediction

    def _with_steps(self, n_steps: int | None) -> OrdinalEnsemble | CrossFitted:
        """The model as it is, or with chains of another length, all weights shared."""
        if n_steps is None:
            return self.model_
        if not METHODS[self.settings_.method].has_chain or isinstance(self.model_, CrossFitted):
            raise UserError(
                f"n_steps is for methods with a chain, but got method={self.settings_.method!r} has none; "
                "leave n_steps out"
            )
        if n_steps < 1:
            raise UserError(f"n_steps must be at least 1, but got n_steps={n_steps}")
        return with_steps(self.model_, n_steps)

    def _check_as_calibrated(self, n_samples: int | None, n_steps: int | None) -> None:
        """Refuse another effort than that which the guarantee of a calibrated model was made for."""
        known = {"n_samples": self.settings_.n_samples, "n_steps": self.settings_.method_settings.get("n_steps")}
        for name, asked in (("n_samples", n_samples), ("n_steps", n_steps)):
            if asked not in (None, known[name]):
                raise UserError(
                    f"a calibrated model's guarantee needs the {name} that it was calibrated with, but got "
                    f"{name}={asked}; leave {name} out, or fit and conformalize a model with it"
                )

    def predict_distribution(
        self, X: Any, n_samples: int | None = None, *, n_steps: int | None = None, **side: Any
    ) -> Prediction:
        """The whole predictive distribution of each row, as a :class:`~diffor.core.prediction.Prediction`.

        Here and in all that predicts, ``n_samples`` is the number of samples of each row and ``n_steps`` that of the
        denoiser calls of DiffoR's chain, both as fitted if None. Less of either is quicker and less exact
        (docs/latency.md has figures).
        """
        return Prediction.concatenate(list(self._predictions(X, n_samples, side, n_steps)))

    def sample(self, X: Any, n: int = 100, *, n_steps: int | None = None, **side: Any) -> Array:
        """Draws from each row's distribution. **Shape:** -> ``(rows, n)``."""
        check_is_fitted(self, "model_")
        if n < 1:
            raise UserError(f"the number of samples must be at least 1, but got {n}")
        model, parts = self._with_steps(n_steps), []
        for rows in self.row_blocks(X, side):
            with limit_threads(self.n_jobs):
                part = predict_in_chunks(model, rows, n).map(self.scale_.from_unit)
            parts.append(part.draw(n, rows.keys) if isinstance(part, CdfPrediction) else part.samples)
        return np.concatenate(parts)

    @property
    def has_distribution(self) -> bool:
        """Whether the fitted method says how sure it is, rather than naming one value only."""
        check_is_fitted(self, "model_")
        return not issubclass(METHODS[self.settings_.method], PointMethod)

    def _check_distribution(self, wanted: str, cure: str) -> None:
        """Refuse what only a distribution can answer, where the method predicts a point."""
        if not self.has_distribution:
            raise UserError(
                f"{wanted} need a distribution, but method {self.settings_.method!r} predicts a point; {cure}"
            )

    def predict_increments(self, X: Any, n_increments: int = 8, **side: Any) -> Array:
        """Expected increments of equal intervals of the range, in the target's units: how far each is filled.

        ``lower bound + increments.sum(axis=1)`` is the mean. **Shape:** -> ``(rows, n_increments)``.
        """
        parts = [part.increments(n_increments, 0.0, 1.0) for part in self._unit_predictions(X, side=side)]
        levels = np.concatenate(parts).cumsum(axis=1)
        low = np.full((len(levels), 1), self.scale_.low)
        return np.diff(np.concatenate([low, self._value_of_unit(levels)], axis=1), axis=1)

    def _value_of_unit(self, unit: Array) -> Array:
        return self.scale_.from_unit(unit)

    def _check_conformalize(self, X_cal: Any, y_cal: Any) -> None:
        """Refuse calibration rows that are none, or do not fit each other, and models without training."""
        rule = "conformalize needs a trained model, but this %(name)s is not fitted yet; call fit first"
        check_is_fitted(self, "model_", msg=rule)
        n_targets = 0 if y_cal is None else np.size(y_cal)
        if n_targets == 0:
            raise UserError(
                "conformalize needs at least one row, but y_cal has 0; pass rows that were kept out of training"
            )
        n_rows = len(as_table(X_cal) if self.images_ is None else self._open(X_cal))
        if n_rows != n_targets:
            raise UserError(
                f"X_cal and y_cal must be equally long, but {n_rows} rows and {n_targets} targets; "
                "pass both from one table"
            )

    # --- saving ---

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the fitted estimator to a folder: safetensors and JSON, no training rows, no code."""
        save_folder(Path(folder), *self._saved_state(), overwrite)

    def _saved_state(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        check_is_fitted(self, "model_")
        return state_of(self)

    def _extra_state(self) -> dict[str, Any]:
        return {}

    def _restore_extra(self, config: dict[str, Any]) -> None:
        self.scale_ = TargetScale.from_json(config["scale"])

    @classmethod
    def load(cls: type[Self], folder: str | Path, encoder: nn.Module | None = None) -> Self:
        """Read an estimator that :meth:`save` wrote; loading runs no code from the folder.

        ``encoder`` is the network where it was fitted with one of your own; its weights are replaced by the saved ones.
        """
        config, tensors = load_folder(Path(folder))
        if config.get("estimator") != cls.__name__:
            raise CheckpointError(
                f"{folder} holds a {config.get('estimator')}, not a {cls.__name__}: use diffor.load(folder)"
            )
        return cls._restore(Path(folder), config, tensors, encoder)

    @classmethod
    def _restore(
        cls: type[Self],
        folder: Path,
        config: dict[str, Any],
        tensors: dict[str, torch.Tensor],
        encoder: nn.Module | None = None,
    ) -> Self:
        """Rebuild an estimator from what its folder holds, or say that the parts do not fit."""
        check_network(folder, config, encoder)
        try:
            estimator: Self = estimator_of(cls, config, tensors, encoder)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CheckpointError(f"{folder}/config.json does not describe its weights ({reason})") from error
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def as_groups(groups: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Groups of rows that are held out together, as numbers from 0 on. **Shape:** ``(n,)``."""
    if groups is None:
        return None
    codes, _ = pd.factorize(np.asarray(groups).ravel(), use_na_sentinel=False)
    if len(codes) != n_rows:
        raise UserError(f"groups must have one value per row, {n_rows}, but got {len(codes)}")
    return np.asarray(codes, dtype=np.int64)
