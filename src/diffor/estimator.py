"""The scikit-learn face: DiffoR for values in a range and for ordered grades, and every other method beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from diffor.checkpoint import CheckpointError, load_folder
from diffor.distillation import Teacher
from diffor.grade_estimator import GradeEstimator
from diffor.ordinal_estimator import UnlistedArgument
from diffor.tracking import Tracker
from diffor.value_estimator import ValueEstimator


class TeacherOfValues(Teacher, ValueEstimator):
    """An estimator of values that a student of quantiles can learn from."""

    def _new_student(self, n_quantiles: int, **shared: Any) -> OrdinalRegressor:
        settings = {"n_quantiles": n_quantiles}
        return OrdinalRegressor(
            "quantile-regression",
            method_settings=settings,
            bounds=self.bounds,
            transform=self.scale_.transform,
            **shared,
        )


class TeacherOfGrades(Teacher, GradeEstimator):
    """An estimator of grades that a student of their probabilities can learn from."""

    def _new_student(self, n_quantiles: int, **shared: Any) -> OrdinalClassifier:
        settings = {"n_grades": len(self.classes_)}
        return OrdinalClassifier(
            "cross-entropy", method_settings=settings, grades=self.grades, decision=self.decision, **shared
        )


class DiffoRRegressor(TeacherOfValues):
    """Predict a value in a range, with its whole distribution.

    Parameters left at None come from the preset (``fast``, ``balanced``, ``accurate`` or ``paper``); after ``fit``,
    ``settings_`` holds what was used. ``bounds`` are the legal range of the target (found in the data if None) and
    ``transform`` spreads it over [0, 1]: ``uniform``, ``quantile``, ``log``, or ``auto`` (``log`` for heavy right
    tails). ``guide`` lets boosted trees advise the networks. ``partner`` names a method whose members answer beside
    DiffoR's own, one for each: ``auto`` in the preset ``accurate``, elsewhere ``none``. ``n_jobs`` is the number of CPU
    threads: one if None, all if -1, which pays for large tables on an idle machine. ``compile`` predicts with networks
    that torch compiles in the first prediction, or, where it cannot, warns and does without. ``diagnose`` notes at
    every evaluation how far the gradients of different times agree, in ``history_.diagnostics``. ``log_to`` writes
    losses and scores where they can be watched: ``tensorboard:FOLDER``, ``mlflow:ADDRESS`` or a
    :class:`~diffor.tracking.Tracker`.

    With an ``encoder`` of images (``small``, ``resnet18``, ``resnet34``, ``resnet50``, ``efficientnet-lite0``,
    ``timm:NAME``, or a network with ``out_features``) X is a list of paths, a folder, a data frame with a column
    ``path``, whose other columns are features too, an array ``(n, height, width, 3)`` or a list of Pillow's images.
    ``encoder_weights`` is the file of its first weights, ``freeze_backbone`` keeps these, so that features are computed
    once, and ``backbone_learning_rate`` is its own rate where it learns; ``accumulate`` computes a batch in so many
    pieces. ``image_settings`` say how images are read (:class:`~diffor.encoders.ImageInputs`), ``encoder_settings``
    what surrounds the network (:class:`~diffor.encoders.image_encoders.ImageEncoder`).

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = 10 * X[:, 0]
    >>> model = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], coverage=0.9).shape
    ((5,), (5, 2))
    """

    transform = UnlistedArgument()

    def __init__(
        self,
        preset: str = "balanced",
        *,
        encoder: str | nn.Module = "auto",
        guide: bool | None = None,
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
        compile: bool = False,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
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
        n_draws: int | None = None,
        decoding: str | None = None,
        chains_per_sample: int | None = None,
        n_steps: int | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        partner: str | None = None,
        calibrate: bool | None = None,
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


class DiffoRClassifier(TeacherOfGrades):
    """Predict an ordered grade, with the probability of each.

    ``grades`` lists the grades from lowest to highest; without it the order is that of an ordered pandas category, or
    of sorting. ``decision`` is what ``predict`` answers with: the ``median`` grade (fewest steps off), the ``mode``
    (most often exactly right) or ``qwk`` (means moved apart as far as grades are, for quadratic weighted kappa).

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
        encoder: str | nn.Module = "auto",
        guide: bool | None = None,
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
        compile: bool = False,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
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
        n_draws: int | None = None,
        decoding: str | None = None,
        chains_per_sample: int | None = None,
        n_steps: int | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        partner: str | None = None,
        calibrate: bool | None = None,
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


class OrdinalRegressor(TeacherOfValues):
    """Predict a value with any method of the table: what ``diffor methods`` lists, on the same encoders.

    ``method_settings`` are arguments of the method's class, the others mean what they mean in
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
        guide: bool | None = None,
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        compile: bool = False,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
        validation_fraction: float = 0.1,
        encoder_weights: str | Path | None = None,
        encoder_settings: dict[str, Any] | None = None,
        image_settings: dict[str, Any] | None = None,
        freeze_backbone: bool | None = None,
        backbone_learning_rate: float | None = None,
        accumulate: int | None = None,
    ) -> None:
        self._remember(locals())


class OrdinalClassifier(TeacherOfGrades):
    """Predict an ordered grade with any method of the table: what ``diffor methods`` lists, on the same encoders.

    ``method_settings`` are arguments of the method's class, the others mean what they mean in
    :class:`DiffoRClassifier`; the decision ``native`` is that of the method's authors.

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
        guide: bool | None = None,
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        compile: bool = False,
        random_state: Any = None,
        verbose: int = 1,
        log_to: str | Tracker | None = None,
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
