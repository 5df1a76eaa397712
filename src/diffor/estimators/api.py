"""The scikit-learn face: DiffoR for values in a range and for ordered grades, and every other method beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from diffor.estimators.base import UnlistedArgument
from diffor.estimators.distillation import Teacher
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.values import ValueEstimator
from diffor.training.checkpoint import CheckpointError, load_folder
from diffor.training.tracking import Tracker


class DiffoRRegressor(Teacher, ValueEstimator):
    """Predict a value in a range, with its whole distribution.

    Parameters left at None come from the preset; after ``fit``, ``settings_`` holds what was used.

    Parameters
    ----------
    preset : ``fast``, ``balanced`` (default), ``accurate``, or ``paper``, the paper's chain to the letter.
    bounds : the legal range of the target (low, high); that of the training targets if None.
    prior : what advises the networks about every row: names (``trees``, ``process``, ``process-ranks``, ...), a
        regressor of yours, a list of these, or None for no advice; ``auto`` is the preset's.
    n_folds : parts of the rows, each held out by one network of a kind; by the number of rows if None.
    n_increments : intervals of the target's range; by the priors' error if None.
    keep_out_of_fold : whether ``out_of_fold_`` keeps the distribution of every training row by networks that never saw
        it.
    method_settings : arguments of the method's class: with ``preset="paper"`` those of
        :class:`~diffor.methods.diffor.IncrementDiffusion`, so every ablation.
    encoder : for images, a network by name (``small``, ``resnet18``, ``resnet34``, ``resnet50``,
        ``efficientnet-lite0``, ``timm:NAME``) or one of yours with ``out_features``; X is then a list of paths, a
        folder, a frame with a column ``path`` beside others, an array ``(n, height, width, 3)`` or a list of Pillow's
        images. ``plain``, ``piecewise`` and ``periodic`` are networks of tables, without priors and folds.
    max_steps, batch_size, learning_rate, weight_decay, patience, evaluate_every : how networks are trained, and how
        many evaluations without a better score end it.
    time_limit : seconds that a fit may take.
    checkpoint_dir : folder from which a fit goes on after a crash, to bit-for-bit the same weights.
    device, n_jobs : where to compute; CPU threads, one if None, all if -1.
    random_state : fixes everything.
    verbose : 0 for silence.
    log_to : where losses and scores can be watched, ``tensorboard:FOLDER``, ``mlflow:ADDRESS`` or a
        :class:`~diffor.training.tracking.Tracker`.
    n_samples : samples of a row that chains draw; answers in closed form need none.
    validation_fraction : share of the rows that networks of images, and of streams, stop on.
    encoder_weights, encoder_settings, image_settings, freeze_backbone, backbone_learning_rate, accumulate : of images,
        the file of first weights, what surrounds the network, how images are read, whether the network stays as it is,
        its own rate, and the pieces that a batch is computed in.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = 10 * X[:, 0]
    >>> model = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], coverage=0.9).shape
    ((5,), (5, 2))
    """

    def __init__(
        self,
        preset: str = "balanced",
        *,
        bounds: tuple[float, float] | None = None,
        prior: Any = "auto",
        n_folds: int | None = None,
        n_increments: int | None = None,
        keep_out_of_fold: bool = False,
        method_settings: dict[str, Any] | None = None,
        encoder: str | nn.Module = "auto",
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
        n_samples: int | None = None,
        validation_fraction: float = 0.1,
        encoder_weights: str | Path | None = None,
        encoder_settings: dict[str, Any] | None = None,
        image_settings: dict[str, Any] | None = None,
        freeze_backbone: bool | None = None,
        backbone_learning_rate: float | None = None,
        accumulate: int | None = None,
        diagnose: bool | None = None,
    ) -> None:
        self._remember(locals())


class DiffoRClassifier(Teacher, GradeEstimator):
    """Predict an ordered grade, with the probability of each.

    ``grades`` lists the grades from lowest to highest; without it the order is that of an ordered pandas category, or
    of sorting. ``decision`` is what ``predict`` answers with: the ``median`` grade (fewest steps off), the ``mode``
    (most often exactly right) or ``qwk`` (means moved apart as far as grades are, for quadratic weighted kappa). All
    other parameters mean what they mean in :class:`DiffoRRegressor`.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.array(["low", "mid", "high"])[(X[:, 0] * 2.99).astype(int)]
    >>> model = DiffoRClassifier("fast", grades=["low", "mid", "high"], max_steps=50, random_state=0, verbose=0)
    >>> model.fit(X, y).classes_.tolist(), model.predict_proba(X[:5]).shape
    (['low', 'mid', 'high'], (5, 3))
    """

    def __init__(
        self,
        preset: str = "balanced",
        *,
        grades: Any = None,
        decision: str = "median",
        prior: Any = "auto",
        n_folds: int | None = None,
        n_increments: int | None = None,
        keep_out_of_fold: bool = False,
        method_settings: dict[str, Any] | None = None,
        encoder: str | nn.Module = "auto",
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
        n_samples: int | None = None,
        validation_fraction: float = 0.1,
        encoder_weights: str | Path | None = None,
        encoder_settings: dict[str, Any] | None = None,
        image_settings: dict[str, Any] | None = None,
        freeze_backbone: bool | None = None,
        backbone_learning_rate: float | None = None,
        accumulate: int | None = None,
        diagnose: bool | None = None,
    ) -> None:
        self._remember(locals())


class OrdinalRegressor(ValueEstimator):
    """Predict a value with any method of the table: what ``diffor methods`` lists, on the same encoders.

    ``method_settings`` are arguments of the method's class; ``transform`` spreads the target over [0, 1], ``uniform``,
    ``quantile`` or ``log``; ``n_members`` networks answer together; the others mean what they mean in
    :class:`DiffoRRegressor`. ``predict`` answers as the method's authors do (``statistic="native"``) unless told
    otherwise. Side columns are keywords: ``fit(X, y, duration=d)``, ``predict(X, duration=d)``.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = OrdinalRegressor("cread", max_steps=50, random_state=0, verbose=0).fit(X, 10 * X[:, 0])
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5]).shape
    ((5,), (5, 2))
    """

    transform = UnlistedArgument()
    default_statistic = "native"

    def __init__(
        self,
        method: str = "diffor",
        *,
        method_settings: dict[str, Any] | None = None,
        preset: str = "balanced",
        bounds: tuple[float, float] | None = None,
        transform: str = "uniform",
        encoder: str | nn.Module = "auto",
        n_members: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
        n_samples: int | None = None,
        validation_fraction: float = 0.1,
        encoder_weights: str | Path | None = None,
        encoder_settings: dict[str, Any] | None = None,
        image_settings: dict[str, Any] | None = None,
        freeze_backbone: bool | None = None,
        backbone_learning_rate: float | None = None,
        accumulate: int | None = None,
    ) -> None:
        self._remember(locals())


class OrdinalClassifier(GradeEstimator):
    """Predict an ordered grade with any method of the table: what ``diffor methods`` lists, on the same encoders.

    ``method_settings`` are arguments of the method's class, the others mean what they mean in
    :class:`DiffoRClassifier` and :class:`OrdinalRegressor`; the decision ``native`` is that of the method's authors.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = (X[:, 0] * 2.99).astype(int)
    >>> model = OrdinalClassifier("corn", max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 3))
    """

    def __init__(
        self,
        method: str = "diffor",
        *,
        method_settings: dict[str, Any] | None = None,
        preset: str = "balanced",
        grades: Any = None,
        decision: str = "native",
        encoder: str | nn.Module = "auto",
        n_members: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
        n_samples: int | None = None,
        validation_fraction: float = 0.1,
        encoder_weights: str | Path | None = None,
        encoder_settings: dict[str, Any] | None = None,
        image_settings: dict[str, Any] | None = None,
        freeze_backbone: bool | None = None,
        backbone_learning_rate: float | None = None,
        accumulate: int | None = None,
    ) -> None:
        self._remember(locals())


Estimator = DiffoRRegressor | DiffoRClassifier | OrdinalRegressor | OrdinalClassifier
ESTIMATORS: dict[str, type[Estimator]] = {
    estimator.__name__: estimator
    for estimator in (DiffoRRegressor, DiffoRClassifier, OrdinalRegressor, OrdinalClassifier)
}


def load(folder: str | Path, encoder: nn.Module | None = None) -> Estimator:
    """Read whichever estimator a folder holds; ``encoder`` is the network if it was fitted with one of your own."""
    config, tensors = load_folder(Path(folder))
    name = config.get("estimator")
    if name not in ESTIMATORS:
        raise CheckpointError(f"{folder} holds an unknown estimator, {name!r}: a newer DiffoR may have written it")
    return ESTIMATORS[name]._restore(Path(folder), config, tensors, encoder)
