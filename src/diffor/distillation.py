"""A student that answers in one pass what a fitted DiffoR answers by a chain: quantiles or probabilities of grades.

Each member of the teacher has a member of the student, which starts from its encoder and learns what the chains of this
one member answer. That is far easier than to learn the joint answer of all: what a chain reads of a row is the
encoder's features, so only the way from features to quantiles is new. The members' answers are joined and widened as
the teacher's are.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import log_softmax
from tqdm import tqdm

from diffor.baselines.bins import BinMethod
from diffor.baselines.quantiles import QuantileMethod, even_levels
from diffor.calibration import MAX_VALID_ROWS
from diffor.encoders import Guide
from diffor.encoders.guide import Fold
from diffor.ensemble import CHEAP_SAMPLES, make_ensemble
from diffor.grades import grade_shares
from diffor.member_kinds import BESIDE, COARSE
from diffor.method import Method, OrdinalEnsemble, weighted_mean
from diffor.ordinal_estimator import OrdinalEstimator
from diffor.passed_inputs import PassedRows
from diffor.prediction import Prediction
from diffor.target import GradeScale
from diffor.train import History, Rows, TrainConfig, in_chunks, limit_threads, train

MIN_ROWS = 20
"""Fewer rows show too little of what the teacher answers."""
VALID_SHARE = 0.1
"""Share of the rows that the student is compared with the teacher on, to keep its best weights."""
BATCH_SIZE, EVALUATE_EVERY = 256, 100
MAX_TREES = 250
"""Trees of the guide that a student usually reads: with more, most of its time would go into them."""


@dataclass(frozen=True)
class Lessons:
    """How a student is taught: as the arguments of :meth:`Teacher.distill` say."""

    n_samples: int
    max_rows: int
    max_steps: int
    learning_rate: float
    max_trees: int = MAX_TREES

    def __post_init__(self) -> None:
        for name in ("n_samples", "max_steps", "max_trees"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, however: {name}={getattr(self, name)}")
        if self.max_rows < MIN_ROWS:
            raise ValueError(f"max_rows must be at least {MIN_ROWS}, however: max_rows={self.max_rows}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, however: learning_rate={self.learning_rate}")


class Lesson(Method):
    """A student's method while it learns: its loss is the distance from what one member of the teacher answers.

    ``answers`` is a side column. **Shape:** ``(n, members, outputs)``.
    """

    def __init__(self, pupil: Method, place: int) -> None:
        super().__init__()
        self.pupil, self.place = pupil, place

    @abstractmethod
    def distances(self, features: Tensor, answers: Tensor) -> Tensor:
        """How far each row is from its answer. **Shape:** ``(n, d)``, ``(n, outputs)`` -> ``(n,)``."""

    def prepare(self, y: Tensor, **side: Tensor) -> None:
        """Start where the teacher's answers lie over all rows."""
        self.pupil.prepare(self.targets(side["answers"][:, self.place]))

    @abstractmethod
    def targets(self, answers: Tensor) -> Tensor:
        """Values in [0, 1] that are spread as the answers are. **Shape:** ``(n, outputs)`` -> ``(m,)``."""

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Mean distance from the answers of the member at this place."""
        return {"distance": weighted_mean(self.distances(features, side["answers"][:, self.place]), weights)}

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """What the student answers so far."""
        return self.pupil.predict(features, keys, n_samples)


class QuantileLesson(Lesson):
    """Quantiles are compared one by one: their mean distance is the area between the two distribution functions."""

    pupil: QuantileMethod

    def distances(self, features: Tensor, answers: Tensor) -> Tensor:
        """Mean distance of the quantiles, in standard deviations of all answers."""
        return (self.pupil.quantiles(features) - answers).abs().mean(dim=1) / self.pupil.spread

    def targets(self, answers: Tensor) -> Tensor:
        """The quantiles themselves."""
        return answers.flatten()


class GradeLesson(Lesson):
    """Probabilities of grades are compared by their cross-entropy."""

    pupil: BinMethod

    def distances(self, features: Tensor, answers: Tensor) -> Tensor:
        """Cross-entropy of the student's probabilities under the teacher's."""
        return -(answers * log_softmax(self.pupil.logits(features), dim=1)).sum(dim=1)

    def targets(self, answers: Tensor) -> Tensor:
        """Grades in the shares that they have in all answers."""
        counts = (answers.mean(dim=0) * len(answers)).round().long()
        return torch.repeat_interleave(torch.arange(len(counts)) / (len(counts) - 1), counts)


class Teacher(OrdinalEstimator):
    """An estimator whose chains a student can learn to do without."""

    def distill(
        self,
        X: Any,
        *,
        n_samples: int = 32,
        n_quantiles: int = 64,
        max_rows: int = 10_000,
        max_steps: int = 800,
        learning_rate: float = 3e-3,
        max_trees: int = MAX_TREES,
        random_state: Any = None,
        verbose: int | None = None,
    ) -> Any:
        """A student that answers in one pass, tens of times as fast, what this model answers by DiffoR's chain.

        The rows of X need no targets; those that were trained on will do, and more of the same kind help. The student
        is an :class:`~diffor.OrdinalRegressor` of ``n_quantiles`` quantiles, or an :class:`~diffor.OrdinalClassifier`,
        with the bounds, columns and grades of its teacher: it is saved, loaded and asked like any other model. Its
        intervals carry no guarantee before it is conformalized itself.

        ``n_samples`` are drawn by each member of the teacher for each of at most ``max_rows`` rows; a tenth of the rows
        are set apart to tell which of ``max_steps`` steps comes closest to the teacher; ``history_`` has the distances.
        Of the guide it reads folds with at most ``max_trees`` trees together, at least one: where the target follows
        the trees closely, more of them lose less and take longer.

        **Shape:** X ``(n, p)``.

        >>> import numpy as np
        >>> from diffor import DiffoRRegressor
        >>> X = np.linspace(0, 1, 200)[:, None]
        >>> teacher = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0)
        >>> student = teacher.fit(X, 10 * X[:, 0]).distill(X, max_steps=50)
        >>> student.settings_.method, student.predict_interval(X[:5], coverage=0.9).shape
        ('quantile-regression', (5, 2))
        """
        lessons = Lessons(n_samples, max_rows, max_steps, learning_rate, max_trees)
        check_teacher(self)
        student = self._new_student(
            n_quantiles,
            preset=self.preset,
            encoder=self.encoder,
            n_samples=self.settings_.n_samples,
            device=self.device,
            n_jobs=self.n_jobs,
            random_state=self.random_state if random_state is None else random_state,
            verbose=self.verbose if verbose is None else verbose,
        )
        distill(self, student, X, lessons)
        return student

    def _new_student(self, n_quantiles: int, **shared: Any) -> OrdinalEstimator:
        """An estimator that is not fitted yet, of a method that answers in one pass."""
        raise NotImplementedError


def check_teacher(teacher: OrdinalEstimator) -> None:
    """Refuse a model that is not fitted, or has no chain to be shortened."""
    rule = "distill needs a trained model, however: this %(name)s is not fitted yet; call fit first"
    check_is_fitted(teacher, "model_", msg=rule)
    if teacher.settings_.method != "diffor":
        raise ValueError(
            f"distill is for DiffoR's chains, however: method={teacher.settings_.method!r} has none; "
            "use the model as it is, or distill one that was fitted with DiffoR"
        )


def distill(teacher: OrdinalEstimator, student: OrdinalEstimator, X: Any, lessons: Lessons) -> None:
    """Fit a student to what the teacher answers to the rows of X; both read the same columns.

    ``student`` is a new estimator whose method answers in one pass; all that is fitted is set here.
    """
    student.seed_ = int(check_random_state(student.random_state).randint(2**31 - 1))
    rows = _draw_rows(teacher._open(X), lessons.max_rows, student.seed_)
    adopt(teacher, student, lessons)
    lesson = GradeLesson if isinstance(teacher.scale_, GradeScale) else QuantileLesson
    student.model_ = start_from(teacher, student, lesson)
    answered = ask(teacher, student, rows, lessons.n_samples)
    with limit_threads(student.n_jobs):
        student.history_ = learn(student, answered)
    for member in student.model_.models:
        member.method = cast(Lesson, member.method).pupil
    student.model_.dispersion.copy_(teacher.model_.dispersion)
    student.model_.eval()


def _draw_rows(rows: PassedRows, limit: int, seed: int) -> PassedRows:
    """All rows, or of more than the limit so many of them, in their order; too few are refused."""
    if len(rows) < MIN_ROWS:
        raise ValueError(
            f"distill needs at least {MIN_ROWS} rows, however: X has {len(rows)}; "
            "pass more, as those that were trained on: they need no targets"
        )
    if len(rows) <= limit:
        return rows
    return rows.select(np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit]))


def adopt(teacher: OrdinalEstimator, student: OrdinalEstimator, lessons: Lessons) -> None:
    """Let the student read rows and name targets as the teacher does, with a part of its guide."""
    student.scale_, student.inputs_, student.images_ = deepcopy(teacher.scale_), teacher.inputs_, teacher.images_
    for name in ("n_features_in_", "feature_names_in_", "classes_"):
        if hasattr(teacher, name):
            setattr(student, name, getattr(teacher, name))
    student.guide_ = None if teacher.guide_ is None else quicker_guide(teacher.guide_, lessons.max_trees)
    student.conformal_ = None
    student.encoders_ = [kind.replace(COARSE, "").replace(BESIDE, "") for kind in teacher.encoders_]
    params = student.get_params(deep=False)
    student.settings_ = replace(
        teacher.settings_,
        method=params["method"],
        method_settings=params["method_settings"],
        partner="none",
        # One layer more stands for what the denoiser does with features.
        encoder_layers=teacher.settings_.encoder_layers + 1,
        encoder_dropout=0.0,
        guide=student.guide_ is not None,
        n_steps=None,
        n_members=len(student.encoders_),
        max_steps=lessons.max_steps,
        batch_size=BATCH_SIZE,
        learning_rate=lessons.learning_rate,
        evaluate_every=EVALUATE_EVERY,
    )


def quicker_guide(guide: Guide, max_trees: int) -> Guide:
    """The guide's folds with the fewest trees, as many as have no more than ``max_trees`` together, at least one."""
    folds = sorted(guide.folds, key=count_trees)
    sums = np.cumsum([count_trees(fold) for fold in folds])
    return Guide(folds[: max(int((sums <= max_trees).sum()), 1)])


def count_trees(fold: Fold) -> int:
    """How many trees a fold of a guide has."""
    return len(fold.place.roots) + len(fold.spread.roots)


def start_from(teacher: OrdinalEstimator, student: OrdinalEstimator, lesson: type[Lesson]) -> OrdinalEnsemble:
    """Members with the encoders of the teacher's, each ready for its lesson."""
    maker = student._network_maker(fill=False)
    model = make_ensemble(student.encoders_, student.inputs_, student.settings_, student.seed_, 0, maker)
    for place, (member, master) in enumerate(zip(model.models, teacher.model_.models, strict=True)):
        state, known = member.encoder.state_dict(), master.encoder.state_dict()
        member.encoder.load_state_dict(state | {name: known[name] for name in state.keys() & known.keys()})
        member.method = lesson(member.method, place)
    return model.to(student._device())


def ask(teacher: OrdinalEstimator, student: OrdinalEstimator, rows: PassedRows, n_samples: int) -> Rows:
    """The rows as the student reads them, with what each member of the teacher answers beside them."""
    parts, answers = [], []
    hidden = None if teacher.verbose else True
    with tqdm(total=len(rows), desc="ask the teacher", unit="row", delay=2, disable=hidden) as bar:
        for first, block in teacher._pieces(rows):
            inputs, keys = teacher._inputs(block, first)
            asked = Rows(inputs, torch.zeros(len(keys)), None, keys).to(teacher._device())
            with limit_threads(teacher.n_jobs):
                answers.append(member_answers(teacher, student, asked, n_samples))
            parts.append(student._inputs(replace(block, pixels=None), first))
            bar.update(len(keys))
    of_rows, keys_of = zip(*parts, strict=True)
    inputs = tuple(torch.cat(columns) for columns in zip(*of_rows, strict=True))
    answered = Rows(inputs, torch.zeros(len(rows)), None, torch.cat(keys_of), {"answers": torch.cat(answers)})
    reads_pixels = teacher.images_ is not None and teacher.images_.frozen is None
    return replace(answered, images=rows.images if reads_pixels else None)


def member_answers(teacher: OrdinalEstimator, student: OrdinalEstimator, rows: Rows, n_samples: int) -> Tensor:
    """What each member of the teacher answers by itself, as the student is to. **Shape:** -> ``(n, members, c)``."""
    answers: list[NDArray[Any]] = []
    for place, member in enumerate(teacher.model_.models):
        is_cheap = not member.method.draws_are_costly or teacher.settings_.decoding == "cumulative"
        count = max(n_samples, CHEAP_SAMPLES) if is_cheap else n_samples
        drawn = [member.predict(piece.inputs, piece.keys + place, count) for piece in in_chunks(rows, n_samples)]
        prediction = Prediction.concatenate(drawn)
        if isinstance(teacher.scale_, GradeScale):
            codes = teacher.scale_.from_samples(prediction.samples)
            answers.append(grade_shares(codes, teacher.scale_.n_grades))
        else:
            answers.append(prediction.quantile(even_levels(student.settings_.method_settings["n_quantiles"]).numpy()))
    return torch.from_numpy(np.stack(answers, axis=1)).float()


def learn(student: OrdinalEstimator, rows: Rows) -> History:
    """Train the student on the teacher's answers, and keep the weights that come closest on rows set apart."""
    n_valid = max(round(VALID_SHARE * len(rows)), 1)
    order = np.random.default_rng(student.seed_).permutation(len(rows))
    device = student._device()
    training = _take_lazily(rows, order[n_valid:]).to(device)
    apart = rows.take(torch.from_numpy(order[:n_valid][:MAX_VALID_ROWS])).to(device)
    for member in student.model_.models:
        member.method.prepare(training.y, **training.side)

    @torch.inference_mode()
    def distance(model: OrdinalEnsemble) -> float:
        return float(model(apart.inputs, apart.y, None, **apart.side)["distance"]) / len(model.members)

    config = TrainConfig(**student.settings_.for_training(), seed=student.seed_, verbose=student.verbose)
    return train(student.model_, training, distance, config)


def _take_lazily(rows: Rows, index: NDArray[np.int64]) -> Rows:
    """Some of the rows, their images not decoded yet."""
    images = None if rows.images is None else rows.images.select(index)
    return replace(replace(rows, images=None).take(torch.from_numpy(index)), images=images)
