"""What fitting an estimator does: settings settled, rows read, and a model trained on them.

Each function takes the estimator and sets its fitted attributes, whose names end in an underscore.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from diffor.core.grades import Spread
from diffor.core.prediction import Prediction
from diffor.core.table import row_counts
from diffor.core.target import GradeScale
from diffor.encoders import TabularInputs
from diffor.errors import UserError
from diffor.estimators.cross_fitting import Table, fit_table
from diffor.estimators.ensemble import CHEAP_SAMPLES, MakeImages, ValidationScore, fit_ensemble
from diffor.estimators.rows import Given, PassedRows, choose_device, make_image_reader, match_rows, read_given
from diffor.estimators.saved_params import name_run
from diffor.estimators.settings import check_fields, choose_prior, image_choice, resolve_settings, train_on_encoder
from diffor.methods import METHODS
from diffor.methods.diffor.one_call import as_prediction
from diffor.metrics import coverage, mae
from diffor.training.batches import Batches
from diffor.training.loop import Rows, TrainConfig, limit_threads
from diffor.training.side_columns import check_validation_sides, separate_sides
from diffor.training.tracking import tracked

if TYPE_CHECKING:
    from diffor.estimators.base import OrdinalEstimator

Array = NDArray[Any]
SINGLE_REACH = 1e30
"""Single precision holds numbers of this size, and what is summed of them."""


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


def settle_settings(model: OrdinalEstimator, X_val: Any = None, y_val: Any = None) -> None:
    """Check what can be checked before looking at data, and forget what an earlier fit promised."""
    if (X_val is None) != (y_val is None):
        given, absent = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
        raise UserError(f"X_val and y_val belong together, but only {given} was given; pass {absent} too")
    check_fields(fields(model), model.get_params(deep=False))
    model.settings_ = resolve_settings(model.preset, model.get_params(deep=False))
    model.forget()


def check_method(model: OrdinalEstimator, task: str, n_grades: int | None = None) -> None:
    """Refuse a method that cannot do the task, and tell one that asks for it the number of grades."""
    name = model.settings_.method
    method = METHODS[name]
    if task not in method.tasks:
        able = [other for other in METHODS if task in METHODS[other].tasks]
        raise UserError(
            f"method {name!r} predicts {' and '.join(method.tasks)}, but the targets are "
            f"{'ordered grades' if task == 'grades' else 'values'}; use one of {', '.join(able)}"
        )
    if n_grades is not None and method.takes_n_grades and not model.settings_.cross_fits:
        given = {**model.settings_.method_settings, "n_grades": n_grades}
        model.settings_ = model.settings_.but(method_settings=given)


def fit_rows(
    model: OrdinalEstimator,
    X: Any,
    y: Array,
    sample_weight: Any,
    X_val: Any,
    y_val: Array | None,
    groups: Any,
    side: dict[str, Any],
) -> None:
    """Fit on targets in units of ``scale_``, which the caller has set."""
    started = time.monotonic()
    model.images_ = make_image_reader(model.settings_, model.encoder, choose_device(model.device))
    of_training, of_validation = separate_sides(side, X_val is not None)
    how = model.settings_.method, model.n_jobs, model.verbose
    given = read_given(model.images_, X, y, sample_weight, of_training, *how)
    training, counted = given.counted()
    # Cross-fitted networks answer tables; all else is for an encoder and a method.
    cross_fits = model.settings_.cross_fits and training.rows.table is not None and training.rows.images is None
    validation: Given | None = None
    note_columns(model, training.rows)
    model.seed_ = int(check_random_state(model.random_state).randint(2**31 - 1))
    if X_val is not None and y_val is not None:
        check_validation_sides(METHODS[model.settings_.method], of_training, of_validation)
        others = read_given(model.images_, X_val, y_val, None, of_validation, *how)
        validation = replace(others, rows=match_rows(others.rows, training.rows.column_names))
    elif not cross_fits:
        training, validation = training.split(model.validation_fraction, model.seed_)
    counts = row_counts(training.weights)
    model.data_summary_ = {
        "rows": len(training.y),
        "validation_rows": 0 if validation is None else len(validation.y),
        "target": _describe_target(model, training.y, counts),
    }
    # Networks of cross-fitting train all embeddings at every step; those of an encoder only the ones they meet.
    model.inputs_ = TabularInputs(model.settings_.max_levels, can_be_sparse=not cross_fits)
    if training.rows.table is not None:
        model.inputs_.fit(training.rows.table, counts)
    if cross_fits:
        of_rows = as_groups(groups, len(given.y))
        if of_rows is not None:
            of_rows = np.unique(of_rows[counted], return_inverse=True)[1]
        _fit_core(model, training, validation, of_rows, started)
        return
    if model.settings_.cross_fits:  # there is no table: what suits an encoder is still to be settled
        model.settings_ = train_on_encoder(model.settings_, model.get_params(deep=False))
    reader = model.reader
    held, y_held = (None, None) if validation is None else (reader.rows(validation), validation.y)
    train_members(model, reader.rows(training), held, y_held, started)


def note_columns(model: OrdinalEstimator, rows: PassedRows) -> None:
    """Remember the names and the number of columns, as scikit-learn asks of estimators of tables."""
    if model.images_ is None and rows.table is not None:
        validate_data(model, X=named_or_bare(rows.table), skip_check_array=True)
        return
    for name in ("feature_names_in_", "n_features_in_"):  # of a table that was fitted before
        if hasattr(model, name):
            delattr(model, name)


def named_or_bare(table: pd.DataFrame) -> Any:
    """A table as scikit-learn takes it: names only where all are strings."""
    return table if all(isinstance(name, str) for name in table.columns) else table.to_numpy()


def _fit_core(
    model: OrdinalEstimator, training: Given, validation: Given | None, groups: NDArray[np.int64] | None, started: float
) -> None:
    """Fit priors and cross-fitted networks on a table."""
    reader = model.reader
    data = reader.rows(training)
    length = model.scale_.high - model.scale_.low
    # Scores while training are told in the user's units, or in shares of a range that single precision has not.
    is_told = length == 0 or 1 / SINGLE_REACH < length < SINGLE_REACH
    table = Table(
        model.inputs_,
        data,
        training.rows.table,
        None if validation is None else reader.rows(validation),
        None if validation is None else validation.rows.table,
        groups,
        model.scale_.n_grades if isinstance(model.scale_, GradeScale) else None,
        max(length, np.finfo(float).tiny) if is_told else 1.0,
    )
    config = replace(_config(model, started, len(data)), evaluate_first=True)
    settings, fingerprint = model.settings_, _fingerprint(model, data)
    with limit_threads(model.n_jobs), _tracked(model, fingerprint) as (tracking, final):
        core = fit_table(table, choose_prior(settings, len(data)), settings.kinds, settings.n_folds,
                         settings.n_increments, config, fingerprint, tracking, reader.device,
                         settings.max_folds)  # fmt: skip
        model.priors_, model.model_, model.history_ = core.priors, core.model, core.history
        model.encoders_ = list(settings.kinds[: len(core.model.kinds)])
        known = ~core.out_of_fold.isnan().any(dim=1)
        if known.any():
            y, weights = training.y, training.weights
            if validation is not None:
                y = np.concatenate([y, validation.y])
                weights = None if weights is None else np.concatenate([weights, np.ones(len(validation.y))])
            prediction = as_prediction(core.model.borders, core.out_of_fold[known]).map(model.scale_.from_unit)
            _note_held_out(model, prediction, y[known.numpy()], None if weights is None else weights[known.numpy()])
        final.update(model.history_.totals())


def _note_held_out(model: OrdinalEstimator, prediction: Prediction, y: Array, weights: Array | None) -> None:
    """Score out-of-fold answers; they also tell the spread of grades, and may be kept."""
    model.history_.best_score = float(np.average(prediction.crps(y), weights=weights))
    low, high = prediction.interval(0.9).T
    model.held_out_scores_ = {
        "crps": model.history_.best_score,
        "mae": float(mae(y, prediction.statistic("median"), sample_weight=weights)),
        "coverage_90": float(coverage(y, low, high, sample_weight=weights)),
    }
    if isinstance(model.scale_, GradeScale):
        model.scale_.spread = Spread.of(prediction.grade_probabilities(model.scale_.n_grades), weights)
    if model.settings_.keep_out_of_fold:
        model.out_of_fold_ = prediction


def _describe_target(model: OrdinalEstimator, y: Array, counts: NDArray[np.int64] | None) -> dict[str, Any]:
    """How the training targets are spread, as JSON values; quantiles count rows by their weights."""
    if isinstance(model.scale_, GradeScale):
        return {"counts": np.bincount(y.astype(np.int64), minlength=model.scale_.n_grades).tolist()}
    levels = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75, "largest": 1.0}
    y = y if counts is None else np.repeat(y, counts)
    return {name: float(np.quantile(y, level)) for name, level in levels.items()}


def train_members(
    model: OrdinalEstimator,
    data: Rows,
    valid: Rows | None,
    y_valid: Array | None,
    started: float,
    batches: Batches | None = None,
    **changes: Any,
) -> None:
    """Train members; with ``batches``, data are a sample of these. ``changes`` are those of the configuration."""
    device, run = choose_device(model.device), changes.pop("run", "")
    config = replace(_config(model, started, len(data)), **changes)
    score = None
    if valid is not None and y_valid is not None:
        is_costly = METHODS[model.settings_.method].draws_are_costly
        score = ValidationScore(valid.to(device), y_valid, model.scale_, 16 if is_costly else CHEAP_SAMPLES)
    elif model.settings_.method_settings.get("decoding") == "fusion":
        raise UserError(
            "decoding='fusion' fits its weights on validation rows, but there are none; "
            "pass X_val and y_val, or more rows"
        )
    fingerprint = _fingerprint(model, data) + run
    is_first = batches is None or batches.world.is_first
    with limit_threads(model.n_jobs), _tracked(model, fingerprint, is_first) as (tracking, final):
        model.model_, model.encoders_, model.history_ = fit_ensemble(
            model.inputs_, model.settings_, data.to(device), score, config, fingerprint, network_maker(model),
            tracking, batches,
        )  # fmt: skip
        final.update(model.history_.totals())


def network_maker(model: OrdinalEstimator, fill: bool = True) -> MakeImages | None:
    """What makes a member's network of images; None where members read tables, as features of a frozen one are."""
    if model.images_ is None or model.images_.frozen is not None:
        return None
    return partial(image_choice(model.settings_, model.encoder).make, fill=fill)


def _config(model: OrdinalEstimator, started: float, n_rows: int) -> TrainConfig:
    """How to train on so many rows in the time that is left."""
    settings = model.settings_.for_training()
    if model.settings_.epochs is not None:
        settings["max_steps"] = math.ceil(model.settings_.epochs * n_rows / min(settings["batch_size"], n_rows))
    return TrainConfig(
        **settings,
        time_limit=None if model.time_limit is None else max(model.time_limit - (time.monotonic() - started), 1e-3),
        checkpoint_dir=None if model.checkpoint_dir is None else str(model.checkpoint_dir),
        seed=model.seed_,
        verbose=model.verbose,
    )


def _fingerprint(model: OrdinalEstimator, data: Rows) -> str:
    """Names data and settings where a run has a checkpoint or is watched."""
    is_named = model.checkpoint_dir is not None or model.log_to is not None
    return name_run(model.settings_, data) if is_named else ""


def _tracked(model: OrdinalEstimator, fingerprint: str, is_first: bool = True) -> Any:
    """Where the figures of a run go; only the first of several processes writes them."""
    name, settings = f"{model.preset}-{fingerprint[:12]}", vars(model.settings_) | {"seed": model.seed_}
    return tracked(model.log_to if is_first else None, name, settings)


def as_groups(groups: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Groups of rows that are held out together, as numbers from 0 on. **Shape:** ``(n,)``."""
    if groups is None:
        return None
    codes, _ = pd.factorize(np.asarray(groups).ravel(), use_na_sentinel=False)
    if len(codes) != n_rows:
        raise UserError(f"groups must have one value per row, {n_rows}, but got {len(codes)}")
    return codes
