"""What every estimator shares: what it takes, and how it predicts, is saved and passed on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.method import OrdinalEnsemble
from diffor.core.prediction import Prediction
from diffor.core.table import as_table, match_columns
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.errors import UserError, UserTypeError
from diffor.estimators import hub, summary
from diffor.estimators.conformal import Calibration
from diffor.estimators.cross_fitted import CrossFitted
from diffor.estimators.ensemble import with_steps
from diffor.estimators.fitting import fit_rows, named_or_bare, settle_settings, unchanged_by_failure
from diffor.estimators.folder import restore, state_of
from diffor.estimators.limits import Limits
from diffor.estimators.novelty import Ceiling
from diffor.estimators.rows import ImageReader, PassedRows, RowReader, choose_device
from diffor.estimators.settings import (
    FLAG,
    PATH,
    Instance,
    Number,
    Settings,
    TrainingSettings,
    Word,
    parameter,
    with_parameters,
)
from diffor.files.schema import Text
from diffor.methods import METHODS
from diffor.priors import FittedPriors
from diffor.training.checkpoint import CheckpointError, load_folder, save_folder
from diffor.training.loop import History, Rows, limit_threads, predict_in_chunks
from diffor.training.tracking import Tracker, make_tracker

Array = NDArray[Any]
SAVED_DEVICE = Text(pattern=r"(auto|cpu|cuda|mps|xpu)(:\d{1,3})?")
"""Where a model was fitted, perhaps on another machine."""
Self = TypeVar("Self", bound="OrdinalEstimator")


class NoMembersError(UserTypeError, AttributeError):
    """A cross-fitted model has no members; an AttributeError too, so that ``dir`` and notebooks pass over it."""


@with_parameters
class OrdinalEstimator(TrainingSettings, BaseEstimator):
    """What regressor and classifier share: tables or images in, distributions out, saving."""

    default_statistic: ClassVar[str] = "median"

    _: KW_ONLY
    time_limit: float | None = parameter("Seconds that a fit may take.", None, Number(0.0, is_above=True))
    checkpoint_dir: str | Path | None = parameter(
        "Folder from which a fit goes on after a crash, to bit-for-bit the same weights.", None, PATH
    )
    device: str = parameter(
        "Where to compute; ``auto`` takes a GPU if there is one.",
        "auto",
        Instance(str, "'auto', 'cpu', 'cuda' or 'cuda:NUMBER'", choose_device, SAVED_DEVICE),
    )
    n_jobs: int | None = parameter(
        "CPU threads, never more than there are CPUs; one if None, all if -1.",
        None,
        Word((-1,)),
        Number(1, 1024, is_whole=True),
    )
    random_state: Any = parameter(
        "Fixes everything.",
        None,
        Number(0, 2**32 - 1, is_whole=True),
        Instance(np.random.RandomState, "a numpy.random.RandomState"),
    )
    verbose: int = parameter("0 for silence.", 1, Number(0, 100, is_whole=True), FLAG)
    log_to: str | Tracker | None = parameter(
        "Where losses and scores can be watched: ``tensorboard:FOLDER``, ``mlflow:ADDRESS``, or a "
        ":class:`~diffor.training.tracking.Tracker`.",
        None,
        Instance((str, Tracker), "a place such as 'tensorboard:runs' or a Tracker", make_tracker),
    )
    validation_fraction: float = parameter(
        "Share of the rows that networks of images, and methods on an encoder, stop on.", 0.1, Number(0.0, 0.9)
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: vars(self)[name] for name in self._get_param_names()}

    def forget(self) -> None:
        """Drop what an earlier fit found; scores and guarantees of another model promise nothing."""
        self.settings_: Settings
        self.scale_: TargetScale | GradeScale
        self.inputs_: TabularInputs
        self.seed_: int
        self.model_: OrdinalEnsemble | CrossFitted
        self.encoders_: list[str]
        self.history_: History
        self.priors_: FittedPriors | None = None
        self.images_: ImageReader | None = None
        self.conformal_: Calibration | None = None
        self.out_of_fold_: Prediction | None = None
        self.held_out_scores_: dict[str, float] | None = None
        self.data_summary_: dict[str, Any] | None = None

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        **side: Any,
    ) -> Self:
        """Train on a table and its targets; rows to stop on are held out in turn, or split off, unless given.

        Rows of one of the ``groups`` are held out together.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight and groups ``(n,)``, side columns ``(n,)`` (``_val`` for
        X_val).
        """
        with unchanged_by_failure(self):
            settle_settings(self, X_val, y_val)
            target, target_val = self._settle_targets(y, sample_weight, y_val)
            fit_rows(self, X, target, sample_weight, X_val, target_val, groups, side)
        return self

    @abstractmethod
    def _settle_targets(self, y: Any, sample_weight: Any, y_val: Any) -> tuple[Array, Array | None]:
        """Fit ``scale_``; targets of training and of validation rows in its units."""

    # --- rows ---

    @property
    def reader(self) -> RowReader:
        """What reads rows as this model was fitted to read them."""
        return RowReader(
            self.inputs_, self.priors_, self.images_, self.scale_, self.settings_.method, self.seed_,
            choose_device(self.device), self.n_jobs, self.verbose,
        )  # fmt: skip

    def open_rows(self, X: Any) -> PassedRows:
        """The rows of X: a table with its columns as they were fitted, or images that are not decoded yet."""
        names = [column.name for column in self.inputs_.columns]
        if self.images_ is not None:
            return self.images_.open(X, names)
        table = as_table(X)
        if table.columns.tolist() != names:  # in another order, or without names, of which scikit-learn warns
            table = match_columns(table, names)
            validate_data(self, X=named_or_bare(table), reset=False, skip_check_array=True)
        return PassedRows(table)

    def _count_rows(self, X: Any) -> int:
        return len(as_table(X) if self.images_ is None else self.open_rows(X))

    def row_blocks(self, X: Any, side: dict[str, Any] | None = None) -> Iterator[Rows]:
        """The rows of X in blocks as members read them, with progress where it takes long."""
        return self.reader.blocks(self.open_rows(X), side)

    @property
    def ensemble_(self) -> OrdinalEnsemble:
        """The members of a model that is an encoder and a method."""
        if not isinstance(self.model_, OrdinalEnsemble):
            raise NoMembersError("members of an encoder and a method are asked for, but this model is cross-fitted")
        return self.model_

    # --- predicting ---

    def _predictions(
        self, X: Any, side: dict[str, Any], n_samples: int | None = None, n_steps: int | None = None
    ) -> Iterator[Prediction]:
        """Predictions of the rows of X in the user's units, a block at a time."""
        return (part.map(self.scale_.from_unit) for part in self._unit_predictions(X, side, n_samples, n_steps))

    def _unit_predictions(
        self, X: Any, side: dict[str, Any], n_samples: int | None = None, n_steps: int | None = None
    ) -> Iterator[Prediction]:
        """Predictions of the rows of X in [0, 1], a block at a time."""
        return (unit for _, unit in self._answers(X, side, n_samples, n_steps))

    def _answers(
        self, X: Any, side: dict[str, Any], n_samples: int | None, n_steps: int | None
    ) -> Iterator[tuple[Rows, Prediction]]:
        """Rows of X, a block at a time, with their predictions in [0, 1]."""
        check_is_fitted(self, "model_")
        count = self.settings_.n_samples if n_samples is None else n_samples
        if count < 1:
            raise UserError(f"the number of samples must be at least 1, but got {count}")
        model, ceiling = self._with_steps(n_steps), Ceiling.of(self)
        for rows in self.row_blocks(X, side):
            with limit_threads(self.n_jobs):
                unit = predict_in_chunks(model, rows, count)
            ceiling.see(unit)
            yield rows, unit
        ceiling.warn()

    def _with_steps(self, n_steps: int | None) -> OrdinalEnsemble | CrossFitted:
        """The model as it is, or with chains of another length, all weights shared."""
        if n_steps is None:
            return self.model_
        if not METHODS[self.settings_.method].has_chain or isinstance(self.model_, CrossFitted):
            raise UserError(
                f"n_steps is for methods with a chain, but method={self.settings_.method!r} has none; leave n_steps out"
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
        return Prediction.concatenate(list(self._predictions(X, side, n_samples, n_steps)))

    def sample(self, X: Any, n: int = 100, *, n_steps: int | None = None, **side: Any) -> Array:
        """Draws from each row's distribution. **Shape:** -> ``(rows, n)``."""
        return self._draws(X, n, n_steps, side)

    def _draws(self, X: Any, n: int, n_steps: int | None, side: dict[str, Any], limits: Limits | None = None) -> Array:
        parts, first = [], 0
        for rows, unit in self._answers(X, side, n, n_steps):
            part = unit.map(self.scale_.from_unit)
            part = part if limits is None else limits.apply(part, first)
            parts.append(part.draw(n, rows.keys) if isinstance(part, CdfPrediction) else part.samples)
            first += len(part)
        return np.concatenate(parts)

    @property
    def has_distribution(self) -> bool:
        """Whether the fitted method says how sure it is, rather than naming one value only."""
        check_is_fitted(self, "model_")
        return METHODS[self.settings_.method].has_distribution

    @property
    def learns_share(self) -> bool:
        """Whether the model learns which share of each row's limit is reached."""
        return False

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
        return self._increments(self._unit_predictions(X, side), n_increments)

    def _increments(self, units: Iterator[Prediction], n_increments: int) -> Array:
        parts = [part.increments(n_increments, 0.0, 1.0) for part in units]
        levels = np.concatenate(parts).cumsum(axis=1)
        low = np.full((len(levels), 1), self.scale_.low)
        return np.diff(np.concatenate([low, self.scale_.unrounded(levels)], axis=1), axis=1)

    def _check_conformalize(self, X_cal: Any, y_cal: Any) -> None:
        """Refuse calibration rows that are none, or do not fit each other, and models without training."""
        rule = "conformalize needs a trained model, but this %(name)s is not fitted yet; call fit first"
        check_is_fitted(self, "model_", msg=rule)
        n_targets = 0 if y_cal is None else np.size(y_cal)
        if n_targets == 0:
            raise UserError(
                "conformalize needs at least one row, but y_cal has 0; pass rows that were kept out of training"
            )
        n_rows = self._count_rows(X_cal)
        if n_rows != n_targets:
            raise UserError(
                f"X_cal and y_cal must be equally long, but got {n_rows} rows and {n_targets} targets; "
                "pass both from one table"
            )

    # --- saving ---

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the fitted estimator to a folder: safetensors and JSON, no training rows, no code."""
        save_folder(Path(folder), *self.saved_state(), overwrite)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What :meth:`save` writes: JSON values and tensors."""
        check_is_fitted(self, "model_")
        return state_of(self)

    @classmethod
    def load(cls: type[Self], folder: str | Path, encoder: nn.Module | None = None) -> Self:
        """Read an estimator that :meth:`save` wrote; loading runs no code from the folder.

        ``encoder`` is the network where it was fitted with one of your own; its weights are replaced by the saved ones.
        """
        config, tensors = load_folder(Path(folder))
        if config.get("estimator") != cls.__name__:
            raise CheckpointError(
                f"{folder} holds a {config.get('estimator')!s:.80}, not a {cls.__name__}: use diffor.load(folder)"
            )
        model: Self = restore(cls, Path(folder), config, tensors, encoder)
        return model

    def save_pretrained(self, folder: str | Path, overwrite: bool = False, **card: Any) -> None:
        """Write the fitted estimator with its card, README.md, to a folder: what :meth:`push_to_hub` uploads.

        ``card`` are arguments of :func:`~diffor.estimators.model_card.model_card`, as ``metrics={"mae": 1.2}``.
        """
        hub.save_pretrained(self, folder, overwrite, card)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        branch: str | None = None,
        create_pr: bool | None = None,
        commit_message: str = "A DiffoR model",
        **card: Any,
    ) -> str:
        """Upload the fitted estimator with its card to a repository, which is made if it does not exist.

        Returns the address of the commit. ``card`` are arguments of :func:`~diffor.estimators.model_card.model_card`.
        """
        place = {"revision": branch, "create_pr": create_pr, "commit_message": commit_message}
        return hub.push_to_hub(self, repo_id, private, token, place, card)

    @classmethod
    def from_pretrained(
        cls: type[Self],
        place: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        encoder: Any = None,
    ) -> Self:
        """Read an estimator from a folder, or from a repository of the hub, as ``"name/model"``.

        A folder needs neither network nor huggingface_hub. ``encoder`` is the network where it was fitted with one of
        your own.
        """
        options = {"revision": revision, "token": token, "cache_dir": cache_dir, "force_download": force_download,
                   "local_files_only": local_files_only}  # fmt: skip
        model: Self = hub.from_pretrained(cls, place, options, encoder)
        return model

    def distill(
        self: Self,
        X: Any,
        *,
        max_rows: int = 20_000,
        max_steps: int = 2_000,
        learning_rate: float = 3e-3,
        random_state: Any = None,
        verbose: int | None = None,
    ) -> Self:
        """A student that answers in one pass of one network what this model answers by priors and many of them.

        The rows of X need no targets; those that were trained on will do, and more of the same kind help. The student
        is a model of the same class, with the bounds, columns and grades of its teacher: it is saved, loaded and asked
        like any other. Its intervals carry no guarantee before it is conformalized itself.

        At most ``max_rows`` are shown; a tenth of them are set apart to tell which of ``max_steps`` steps comes closest
        to the teacher; ``history_`` has the distances.

        **Shape:** X ``(n, p)``.

        >>> import numpy as np
        >>> from diffor import DiffoRRegressor
        >>> X = np.linspace(0, 1, 200)[:, None]
        >>> teacher = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0)
        >>> student = teacher.fit(X, 10 * X[:, 0]).distill(X, max_steps=50)
        >>> student.encoders_, student.predict_interval(X[:5], coverage=0.9).shape
        (['student'], (5, 2))
        """
        from diffor.estimators.distillation import Lessons, distill

        return distill(self, X, Lessons(max_rows, max_steps, learning_rate), random_state, verbose)

    # --- looking at it ---

    def summary(self) -> str:
        """What the fitted estimator is, a line each: target, rows, columns, scores on rows held out, networks, time."""
        check_is_fitted(self, "model_")
        return summary.as_text(self)

    def _html_repr(self) -> str:
        """What notebooks show: the summary where there is one, scikit-learn's picture of the settings where not."""
        is_fitted = getattr(self, "model_", None) is not None
        return summary.as_html(self) if is_fitted else str(estimator_html_repr(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
