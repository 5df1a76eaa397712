"""The scikit-learn face: ``DiffoRRegressor`` for values in a range, ``DiffoRClassifier`` for ordered grades."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
from tqdm import tqdm

import diffor
from diffor.checkpoint import CheckpointError, load_folder, save_folder
from diffor.diffusion import IncrementDiffusion
from diffor.encoders import TabularInputs
from diffor.ensemble import ValidationScore, fit_ensemble, make_ensemble
from diffor.method import OrdinalEnsemble, OrdinalModel
from diffor.prediction import Prediction
from diffor.presets import Settings, resolve_settings
from diffor.row_noise import row_keys
from diffor.table import as_table, check_weights, match_columns
from diffor.target import GradeScale, TargetScale, check_bounds, check_inside
from diffor.train import History, Rows, TrainConfig, in_chunks, limit_threads, predict_in_chunks

Array = NDArray[Any]
Self = TypeVar("Self", bound="OrdinalEstimator")

BLOCK_ROWS = 8192
"""Rows that are turned into tensors at a time in prediction: memory does not grow with the table."""


class _Unlisted:
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


class OrdinalEstimator(BaseEstimator):
    """What regressor and classifier share: tables in, training, distributions out, saving."""

    scale_: TargetScale | GradeScale
    settings_: Settings
    model_: OrdinalEnsemble
    encoders_: list[str]
    inputs_: TabularInputs
    history_: History
    seed_: int
    preset: str
    validation_fraction: float
    time_limit: float | None
    checkpoint_dir: str | Path | None
    device: str
    n_jobs: int | None
    random_state: Any
    verbose: int

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
            raise ValueError(f"X_val and y_val belong together, however: only {given} was given; pass {absent} too")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must lie in [0, 1), however: validation_fraction={self.validation_fraction}"
            )
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError(f"time_limit must be positive seconds or None, however: time_limit={self.time_limit}")
        self.settings_ = resolve_settings(self.preset, self.get_params(deep=False))

    def _fit(self: Self, X: Any, y: Array, sample_weight: Any, X_val: Any, y_val: Array | None) -> Self:
        """Fit on targets in units of ``scale_``, which the caller has set."""
        table = as_table(X)
        check_consistent_length(table, y)
        validate_data(self, X=table if _has_names(table) else table.to_numpy(), skip_check_array=True)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        weights = check_weights(sample_weight, len(y))
        if X_val is not None and y_val is not None:
            parts = (table, y, weights), (match_columns(as_table(X_val), list(table.columns)), y_val, None)
        else:
            parts = self._split(table, y, weights)
        self.inputs_ = TabularInputs().fit(parts[0][0])
        data, valid = (self._rows(*part) if part is not None else None for part in parts)
        assert data is not None
        self._train(data, valid, None if parts[1] is None else parts[1][1])
        return self

    def _split(self, table: pd.DataFrame, y: Array, weights: Array | None) -> Any:
        """Set validation rows aside for early stopping; too few rows are all trained on."""
        n_valid = round(self.validation_fraction * len(y))
        if n_valid < 5:
            return (table, y, weights), None
        order = np.random.default_rng(self.seed_).permutation(len(y))
        return tuple(
            (table.iloc[rows], y[rows], None if weights is None else weights[rows])
            for rows in (np.sort(order[n_valid:]), np.sort(order[:n_valid]))
        )

    def _rows(self, table: pd.DataFrame, y: Array, weights: Array | None) -> Rows:
        inputs = self.inputs_.transform(table)
        unit = torch.from_numpy(self.scale_.to_unit(y).astype(np.float32))
        weight = None if weights is None else torch.from_numpy(weights.astype(np.float32))
        return Rows(inputs, unit, weight, row_keys(inputs, self.seed_))

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    def _train(self, data: Rows, valid: Rows | None, y_valid: Array | None) -> None:
        device = self._device()
        config = TrainConfig(
            **self.settings_.for_training(),
            time_limit=self.time_limit,
            checkpoint_dir=None if self.checkpoint_dir is None else str(self.checkpoint_dir),
            seed=self.seed_,
            verbose=self.verbose,
        )
        score = None
        if valid is not None and y_valid is not None:
            score = ValidationScore(valid.to(device), y_valid, self.scale_)
        elif self.settings_.decoding == "fusion":
            raise ValueError(
                "decoding='fusion' fits its weights on validation rows, however: there are none; "
                "pass X_val and y_val, or more rows"
            )
        fingerprint = _fingerprint(self.settings_, data) if self.checkpoint_dir is not None else ""
        with limit_threads(self.n_jobs):
            self.model_, self.encoders_, self.history_ = fit_ensemble(
                self.inputs_, self.settings_, data.to(device), score, config, fingerprint
            )

    # --- predicting ---

    def _blocks(self, X: Any) -> Iterator[Rows]:
        """The rows of X in pieces, with progress where it takes long."""
        table = match_columns(as_table(X), [column.name for column in self.inputs_.columns])
        validate_data(self, X=table if _has_names(table) else table.to_numpy(), reset=False, skip_check_array=True)
        device = self._device()
        with tqdm(total=len(table), desc="predict", unit="row", delay=2, disable=None if self.verbose else True) as bar:
            for first in range(0, len(table), BLOCK_ROWS):
                inputs = self.inputs_.transform(table.iloc[first : first + BLOCK_ROWS], first)
                n = len(inputs[0])
                yield Rows(inputs, torch.zeros(n), None, row_keys(inputs, self.seed_)).to(device)
                bar.update(n)

    def _predictions(self, X: Any, n_samples: int | None = None) -> Iterator[Prediction]:
        """Predictions of the rows of X in the user's units, a block at a time."""
        check_is_fitted(self, "model_")
        count = self.settings_.n_samples if n_samples is None else n_samples
        if count < 1:
            raise ValueError(f"the number of samples must be at least 1, however: {count}")
        for rows in self._blocks(X):
            with limit_threads(self.n_jobs):
                prediction = predict_in_chunks(self.model_, rows, count)
            yield prediction.map(self.scale_.from_unit)

    def predict_distribution(self, X: Any, n_samples: int | None = None) -> Prediction:
        """The whole predictive distribution of each row, as a :class:`~diffor.prediction.Prediction`."""
        return Prediction.concatenate(list(self._predictions(X, n_samples)))

    def sample(self, X: Any, n: int = 100) -> Array:
        """Draws from each row's distribution. **Shape:** -> ``(rows, n)``."""
        return self.predict_distribution(X, n).samples

    def predict_increments(self, X: Any) -> Array:
        """Expected increment of each scale, in the target's units: the coarse-to-fine reading of a prediction.

        ``lower bound + increments.sum(axis=1)`` is the value that the heads decode. **Shape:** -> ``(rows, S)``.
        """
        check_is_fitted(self, "model_")
        count = self.settings_.n_samples
        parts = [
            self.model_.average(_increments_of, piece.inputs, piece.keys, count).cpu().double().numpy()
            for rows in self._blocks(X)
            for piece in in_chunks(rows, count)
        ]
        levels = np.cumsum(np.concatenate(parts), axis=1)
        low = np.full((len(levels), 1), self.scale_.low)
        return np.diff(np.concatenate([low, self._value_of_unit(levels)], axis=1), axis=1)

    def _value_of_unit(self, unit: Array) -> Array:
        return self.scale_.from_unit(unit)

    # --- saving ---

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the fitted estimator to a folder: safetensors and JSON, no training rows, no code."""
        check_is_fitted(self, "model_")
        config = {
            "version": diffor.__version__,
            "estimator": type(self).__name__,
            "params": _as_json_params(self.get_params(deep=False), self.seed_),
            "settings": _as_json_params(asdict(self.settings_), self.seed_),
            "columns": self.inputs_.to_json(),
            "named_columns": hasattr(self, "feature_names_in_"),
            "scale": self.scale_.to_json(),
            "encoders": self.encoders_,
            "seed": self.seed_,
            "history": asdict(self.history_),
            **self._extra_state(),
        }
        save_folder(Path(folder), config, self.model_.state_dict(), overwrite)

    def _extra_state(self) -> dict[str, Any]:
        return {}

    def _restore_extra(self, config: dict[str, Any]) -> None:
        self.scale_ = TargetScale.from_json(config["scale"])

    @classmethod
    def load(cls: type[Self], folder: str | Path) -> Self:
        """Read an estimator that :meth:`save` wrote; loading runs no code from the folder."""
        config, tensors = load_folder(Path(folder))
        if config.get("estimator") != cls.__name__:
            raise CheckpointError(
                f"{folder} holds a {config.get('estimator')}, not a {cls.__name__}: use diffor.load(folder)"
            )
        try:
            return cls._from_config(config, tensors)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CheckpointError(f"{folder}/config.json does not describe its weights ({reason})") from error

    @classmethod
    def _from_config(cls: type[Self], config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Self:
        estimator = cls(**_from_json_params(config["params"]))
        if estimator.device.startswith("cuda") and not torch.cuda.is_available():
            estimator.device = "auto"  # trained on a GPU, used where there is none
        estimator.settings_ = Settings(**_from_json_params(config["settings"]))
        estimator.inputs_ = TabularInputs.from_json(config["columns"])
        estimator.seed_ = int(config["seed"])
        estimator.history_ = History(**config["history"])
        estimator.n_features_in_ = len(estimator.inputs_.columns)
        if config["named_columns"]:
            names = [column.name for column in estimator.inputs_.columns]
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator._restore_extra(config)
        estimator.encoders_ = list(config["encoders"])
        estimator.model_ = make_ensemble(estimator.encoders_, estimator.inputs_, estimator.settings_, 0)
        estimator.model_.load_state_dict(tensors)
        estimator.model_.to(estimator._device()).eval()
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class DiffoRRegressor(RegressorMixin, OrdinalEstimator):
    """Predict a value in a range, with its whole distribution.

    Parameters left at None come from the preset (``fast``, ``balanced``, ``accurate`` or ``paper``); after ``fit``,
    ``settings_`` holds what was used. ``bounds`` are the legal range of the target (found in the data if None) and
    ``transform`` spreads it over [0, 1]: ``uniform``, ``quantile`` or ``log``. ``n_jobs`` is the number of CPU threads:
    one if None, all if -1, which pays for large tables on an idle machine.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = 10 * X[:, 0]
    >>> model = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], coverage=0.9).shape
    ((5,), (5, 2))
    """

    scale_: TargetScale
    bounds: tuple[float, float] | None
    transform = _Unlisted()

    def __init__(
        self,
        preset: str = "balanced",
        *,
        encoder: str = "auto",
        n_increments: int | None = None,
        process: str | None = None,
        denoiser: str | None = None,
        parameterization: str | None = None,
        spacing: str | None = None,
        bounds: tuple[float, float] | None = None,
        transform: str | None = None,
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        schedule: str | None = None,
        n_times: int | None = None,
        width: int | None = None,
        n_layers: int | None = None,
        n_attention_heads: int | None = None,
        dropout: float | None = None,
        aligned_share: float | None = None,
        increment_weight: float | None = None,
        increment_loss: str | None = None,
        objective: str | None = None,
        decoding: str | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        calibrate: bool | None = None,
        validation_fraction: float = 0.1,
    ) -> None:
        self._remember(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> DiffoRRegressor:
        """Train on a table and its targets; validation rows for early stopping are split off unless given.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight ``(n,)``.
        """
        self._resolve(X_val, y_val)
        if self.bounds is not None:
            check_bounds(self.bounds)
        target = _as_values(y, "y")
        target_val = None if y_val is None else _as_values(y_val, "y_val")
        for values, name in ((target, "y"), (target_val, "y_val")):
            if values is not None:
                check_inside(values, self.bounds or (-np.inf, np.inf), name)
        self.scale_ = TargetScale(self.bounds, self.settings_.transform).fit(target)
        return self._fit(X, target, sample_weight, X_val, target_val)

    def predict(self, X: Any, statistic: str | float = "median") -> Array:
        """One value per row: ``median``, ``mean``, ``mode`` or a quantile level. **Shape:** -> ``(rows,)``."""
        return np.concatenate([part.statistic(statistic) for part in self._predictions(X)])

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles at the levels ``q``; they never cross. **Shape:** -> ``(rows, len(q))``."""
        return np.concatenate([part.quantile(q) for part in self._predictions(X)])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Central interval that holds ``coverage`` of the probability. **Shape:** -> ``(rows, 2)``."""
        return np.concatenate([part.interval(coverage) for part in self._predictions(X)])

    def predict_proba(self, X: Any, cuts: ArrayLike | None = None) -> Array:
        """Probability of each range between the rising ``cuts``, which may be chosen after training.

        Without cuts, the ranges are the intervals of the increments.

        **Shape:** -> ``(rows, len(cuts) + 1)``: at or below the first cut, between the cuts, above the last.
        """
        check_is_fitted(self, "model_")
        if cuts is None:
            count = max(self.settings_.n_increments, 2)  # one increment has no inner edge: halve the range
            cuts = self.scale_.from_unit(np.arange(1, count) / count)
        return np.concatenate([part.probabilities(cuts) for part in self._predictions(X)])


class DiffoRClassifier(ClassifierMixin, OrdinalEstimator):
    """Predict an ordered grade, with the probability of each.

    ``grades`` lists the grades from lowest to highest; without it the order is that of an ordered pandas category, or
    of sorting. ``decision`` is what ``predict`` answers with: the ``median`` grade (fewest steps off), the ``mode``
    (most often exactly right) or ``qwk`` (smallest squared distance, for quadratic weighted kappa).

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.array(["low", "mid", "high"])[(X[:, 0] * 2.99).astype(int)]
    >>> model = DiffoRClassifier("fast", grades=["low", "mid", "high"], max_steps=50, random_state=0, verbose=0)
    >>> model.fit(X, y).classes_.tolist(), model.predict_proba(X[:5]).shape
    (['low', 'mid', 'high'], (5, 3))
    """

    scale_: GradeScale
    classes_: Array
    grades: Any
    decision: str

    def __init__(
        self,
        preset: str = "balanced",
        *,
        encoder: str = "auto",
        n_increments: int | None = None,
        process: str | None = None,
        denoiser: str | None = None,
        parameterization: str | None = None,
        spacing: str | None = None,
        grades: Any = None,
        decision: str = "median",
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        schedule: str | None = None,
        n_times: int | None = None,
        width: int | None = None,
        n_layers: int | None = None,
        n_attention_heads: int | None = None,
        dropout: float | None = None,
        aligned_share: float | None = None,
        increment_weight: float | None = None,
        increment_loss: str | None = None,
        objective: str | None = None,
        decoding: str | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        calibrate: bool | None = None,
        validation_fraction: float = 0.1,
    ) -> None:
        self._remember(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> DiffoRClassifier:
        """Train on a table and its grades; validation rows for early stopping are split off unless given.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight ``(n,)``.
        """
        self._resolve(X_val, y_val)
        _check_decision(self.decision)
        self.classes_ = _find_grades(y, self.grades)
        self.scale_ = GradeScale(len(self.classes_))
        codes = _grade_codes(y, self.classes_, "y")
        codes_val = None if y_val is None else _grade_codes(y_val, self.classes_, "y_val")
        return self._fit(X, codes, sample_weight, X_val, codes_val)

    def predict(self, X: Any, decision: str | None = None) -> Array:
        """One grade per row, by the constructor's ``decision`` or the one given here. **Shape:** -> ``(n,)``."""
        check_is_fitted(self, "model_")
        decision = self.decision if decision is None else decision
        return np.asarray(self.classes_[decide_grades(self.predict_proba(X), decision)])

    def predict_proba(self, X: Any) -> Array:
        """Probability of each grade, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        check_is_fitted(self, "model_")
        parts = []
        for part in self._predictions(X):
            counts = [(part.samples == grade).sum(axis=1) for grade in range(len(self.classes_))]
            parts.append(np.stack(counts, axis=1) / part.samples.shape[1])
        return np.concatenate(parts)

    def predict_cumproba(self, X: Any) -> Array:
        """Probability of each grade or a lower one, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        return np.asarray(np.minimum(self.predict_proba(X).cumsum(axis=1), 1.0))

    def _value_of_unit(self, unit: Array) -> Array:
        # Increments are parts of grades, so they are not rounded to whole ones.
        return np.asarray(unit * self.scale_.high)

    def _extra_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.str}

    def _restore_extra(self, config: dict[str, Any]) -> None:
        self.scale_ = GradeScale.from_json(config["scale"])
        self.classes_ = np.array(config["classes"], dtype=np.dtype(config["classes_dtype"]))


DECISIONS = ("median", "mode", "qwk")
ESTIMATORS: dict[str, type[DiffoRRegressor] | type[DiffoRClassifier]] = {
    "DiffoRRegressor": DiffoRRegressor,
    "DiffoRClassifier": DiffoRClassifier,
}


def decide_grades(probabilities: Array, decision: str) -> NDArray[np.int64]:
    """Choose a grade for each row: the ``median``, the ``mode``, or the nearest to the mean (``qwk``).

    **Shape:** ``(n, K)`` -> ``(n,)``, positions among the grades.

    >>> decide_grades(np.array([[0.4, 0.1, 0.1, 0.4]]), "median")
    array([1])
    """
    _check_decision(decision)
    if decision == "mode":
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
    if decision == "median":
        below_half = probabilities.cumsum(axis=1) < 0.5 - 1e-9  # sums of shares may round just below a half
        return np.asarray(below_half[:, :-1].sum(axis=1), dtype=np.int64)
    return np.rint(probabilities @ np.arange(probabilities.shape[1])).astype(np.int64)


def _check_decision(decision: str) -> None:
    if decision not in DECISIONS:
        raise ValueError(f"decision must be one of {', '.join(DECISIONS)}, however: decision={decision!r}")


def load(folder: str | Path) -> DiffoRRegressor | DiffoRClassifier:
    """Read whichever estimator a folder holds."""
    name = load_folder(Path(folder))[0].get("estimator")
    if name not in ESTIMATORS:
        raise CheckpointError(f"{folder} holds an unknown estimator, {name!r}: a newer DiffoR may have written it")
    return ESTIMATORS[name].load(folder)


def _increments_of(member: OrdinalModel) -> Callable[..., torch.Tensor]:
    return cast(IncrementDiffusion, member.method).increments


def _has_names(table: pd.DataFrame) -> bool:
    return all(isinstance(name, str) for name in table.columns)


def _as_values(y: Any, name: str) -> NDArray[np.float64]:
    """Targets as float64. **Shape:** ``(n,)``."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    column = column_or_1d(y, warn=True)
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, however: {error}; grades belong to DiffoRClassifier") from error


def _find_grades(y: Any, grades: Any) -> Array:
    """The grades from lowest to highest. **Shape:** ``(K,)``."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if grades is not None:
        listed = np.asarray(grades)
        if listed.ndim != 1 or len(np.unique(listed)) != len(listed):
            raise ValueError(f"grades must list each grade once, lowest first, however: grades={grades!r}")
        return listed
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return np.asarray(dtype.categories)
    column = column_or_1d(y, warn=True)
    if pd.isna(column).any():
        _grade_codes(column, np.unique(column[~pd.isna(column)]), "y")
    check_classification_targets(column)
    found = np.unique(column)
    if found.dtype.kind in "OUS" and len(found) > 2:
        warnings.warn(
            f"the order of text grades is taken from sorting: {found.tolist()}; pass grades=[lowest, ..., highest]",
            stacklevel=3,
        )
    return np.asarray(found)


def _grade_codes(y: Any, classes: Array, name: str) -> NDArray[np.int64]:
    """Position of each target among the grades. **Shape:** ``(n,)``."""
    column = pd.Series(np.asarray(y, dtype=object) if hasattr(y, "cat") else column_or_1d(y))
    codes = pd.Index(classes).get_indexer(column)
    wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        shown = ", ".join(f"row {row}: {column.iloc[row]!r}" for row in wrong[:3])
        raise ValueError(
            f"{name} must hold grades only, no NaN or inf, however: {len(wrong)} of {len(codes)} values are none of "
            f"{classes.tolist()} ({shown}{', ...' if len(wrong) > 3 else ''}); correct them or list them in grades"
        )
    return codes.astype(np.int64)


def _fingerprint(settings: Settings, data: Rows) -> str:
    """Names data and settings, so that a checkpoint is continued by the same run only."""
    digest = hashlib.sha256(json.dumps(_as_json_params(asdict(settings), 0), sort_keys=True).encode())
    digest.update(data.keys.numpy().tobytes())  # the keys carry the seed
    for part in (*data.inputs, data.y, *(() if data.weights is None else (data.weights,))):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _as_json_params(params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Parameters as JSON values: infinity is spelled, a generator is replaced by the seed it gave."""
    plain: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, float) and not np.isfinite(value):
            value = {"float": repr(value)}
        elif isinstance(value, (np.integer, np.floating, np.bool_)):
            value = value.item()
        elif isinstance(value, Path):
            value = str(value)
        elif isinstance(value, (tuple, np.ndarray)):
            value = {"tuple": np.asarray(value).tolist()}
        elif name == "random_state" and value is not None and not isinstance(value, int):
            value = seed
        plain[name] = value
    return plain


def _from_json_params(params: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`_as_json_params`."""
    restored: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            value = float(value["float"]) if "float" in value else tuple(value["tuple"])
        restored[name] = value
    return restored
