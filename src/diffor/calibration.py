"""What validation rows decide after training: which members stay, how wide their answers are, where samples settle."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from diffor.grades import Spread, grade_shares
from diffor.member_kinds import BESIDE, COARSE
from diffor.method import OrdinalEnsemble
from diffor.metrics import pit_values
from diffor.prediction import Prediction
from diffor.target import GradeScale, TargetScale
from diffor.train import Rows, predict_in_chunks

MAX_VALID_ROWS = 1024
"""Rows that an evaluation during training reads at most: more cost time and hardly change which step is best."""
MIN_CALIBRATION_ROWS = 20
HELD = 0.9 * 101 / 100
"""Share of validation rows that the middle 90 % of their distributions must hold. The interval that a user gets lies
between draws, and between m of them lies m / (m + 1) of what is meant: this makes up for a hundred."""
MIN_NARROWING_ROWS = 200
"""Validation rows from which on their coverage may narrow intervals."""
FINE_SAMPLES = 65_536
"""Samples that choices after training may draw of all validation rows together: a few seconds on one core."""
WORTH_COVERAGE = 1.01
"""Intervals that hold their share are worth this much of the best validation score."""
CLEARLY_BETTER = 0.98
"""Some of the members replace all of them where their score is at most this share of that of all ..."""
STANDARD_ERRORS = 2.0
"""... and the gain is this many times as large as the error with which the validation rows tell it."""


class ValidationScore:
    """Mean CRPS on validation rows, in the user's units: what early stopping and calibration minimise."""

    def __init__(
        self, rows: Rows, y: NDArray[np.floating], scale: TargetScale | GradeScale, n_samples: int = 16
    ) -> None:
        # Tables are often sorted, so a part of them is drawn, not cut off.
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:MAX_VALID_ROWS])
        self.rows = rows.take(torch.from_numpy(chosen).to(rows.y.device))
        self.y, self.scale, self.n_samples = y[chosen], scale, n_samples
        self.weights = None if self.rows.weights is None else self.rows.weights.cpu().numpy()

    def finer(self) -> ValidationScore:
        """The same with more samples, for choices that few would bias.

        With few samples the score punishes spread itself, and more so where members draw fewer each: it would prefer
        narrow intervals and few members.
        """
        return self.with_samples(int(np.clip(FINE_SAMPLES // len(self.rows), self.n_samples, 256)))

    def with_samples(self, n_samples: int) -> ValidationScore:
        """The same with another number of samples."""
        other = copy(self)
        other.n_samples = n_samples
        return other

    def predict(self, model: OrdinalEnsemble) -> Prediction:
        """Predictions of the validation rows in [0, 1]."""
        return predict_in_chunks(model, self.rows, self.n_samples)

    def of(self, prediction: Prediction) -> float:
        """Score of predictions in [0, 1] of the validation rows."""
        return float(np.average(self.of_each(prediction), weights=self.weights))

    def of_each(self, prediction: Prediction) -> NDArray[np.floating]:
        """Score of each validation row's prediction in [0, 1]. **Shape:** -> ``(n,)``."""
        return prediction.map(self.scale.from_samples).crps(self.y)

    def covered(self, prediction: Prediction, with_ends: bool = False) -> float:
        """Share of validation rows in the middle 90 % of their distributions, of predictions in [0, 1].

        Counted by the truth's place among the samples: an interval between few samples is a little narrow. A truth that
        samples are equal to has many places, one of which is drawn; ``with_ends``, it counts where it lies between the
        quantiles, themselves included.
        """
        answer = prediction.map(self.scale.from_samples)
        inside = np.abs(pit_values(self.y, answer.samples) - 0.5) < 0.45
        if with_ends:
            y, (low, high) = self.y.astype(answer.samples.dtype), answer.quantile([0.05, 0.95]).T
            inside |= (answer.samples == y[:, None]).any(axis=1) & (low <= y) & (y <= high)
        return float(np.average(inside, weights=self.weights))

    def __call__(self, model: OrdinalEnsemble) -> float:
        """Score of a model."""
        return self.of(self.predict(model))


def calibrate(ensemble: OrdinalEnsemble, encoders: list[str], score: ValidationScore, sets_spread: bool) -> list[str]:
    """Let validation rows decide which members stay and, where ``sets_spread``, how wide answers are; names who stays.

    What they say about single methods, the spread of grades and values that occur again and again is noted, too.
    """
    calibrate_methods(ensemble, score)
    fine = score.finer()
    encoders = keep_better(ensemble, encoders, fine)
    if isinstance(score.scale, GradeScale):
        shares = grade_shares(fine.predict(ensemble).map(score.scale.from_samples).samples, score.scale.n_grades)
        score.scale.spread = Spread.of(shares)
    if sets_spread and len(score.rows) >= MIN_CALIBRATION_ROWS:
        prediction = fine.predict(ensemble)
        fit_atoms(prediction, fine)
        ensemble.dispersion.fill_(fit_dispersion(prediction, fine))
    return encoders


def keep_better(ensemble: OrdinalEnsemble, encoders: list[str], score: ValidationScore) -> list[str]:
    """Keep all members, or only those with, or without, a trait where that is clearly better; names what is kept.

    A partner can be left out, DiffoR cannot.
    """
    places = range(len(encoders))
    choices = [list(places)]
    for trait in ("guide", COARSE, "periodic"):
        groups = [[place for place in places if (trait in encoders[place]) == wanted] for wanted in (True, False)]
        choices += groups if all(groups) else []
    own = {place for place in places if BESIDE not in encoders[place]}
    choices = [chosen for chosen in choices if own.intersection(chosen)] + [sorted(own)] * (len(own) < len(encoders))
    if len(choices) == 1:
        return encoders
    everyone = ensemble.models
    answers = [score.predict(OrdinalEnsemble([member])).samples for member in everyone]
    scores = [score.of_each(joined([answers[place] for place in chosen], score.n_samples)) for chosen in choices]
    best = choices[choose_clearly_better(np.stack(scores), score.weights)]
    ensemble.members = nn.ModuleList(everyone[place] for place in best)
    return [encoders[place] for place in best]


def choose_clearly_better(scores: NDArray[np.floating], weights: NDArray[np.floating] | None = None) -> int:
    """Place of the best scores, or 0 where they are not clearly better than the first: few rows prove little.

    The gain must be 2 % of the first's mean and twice its own standard error. **Shape:** ``(choices, n)``.

    >>> choose_clearly_better(np.array([[1.0, 1.0, 1.0], [0.1, 1.5, 0.2]]))
    0
    >>> choose_clearly_better(np.array([[1.0, 1.0, 1.0], [0.1, 0.2, 0.1]]))
    1
    """
    means = np.average(scores, axis=1, weights=weights)
    best = int(means.argmin())
    gains = scores[0] - scores[best]
    error = gains.std() / np.sqrt(len(gains))
    is_clear = means[best] <= CLEARLY_BETTER * means[0] and means[0] - means[best] >= STANDARD_ERRORS * error
    return best if is_clear else 0


def joined(answers: list[NDArray[Any]], n_samples: int) -> Prediction:
    """What members that draw their shares of the samples would answer together. **Shape:** each ``(n, n_samples)``."""
    share = max(n_samples // len(answers), 1)
    return Prediction(np.concatenate([samples[:, :share] for samples in answers], axis=1))


@torch.inference_mode()
def calibrate_methods(ensemble: OrdinalEnsemble, score: ValidationScore) -> None:
    """Show the validation rows to each member's method."""
    for model, _, _ in ensemble.shares(len(ensemble.members)):
        features = model.features(score.rows.inputs)
        model.method.calibrate(features, score.rows.y, score.rows.keys, score.n_samples, **score.rows.side)


def fit_dispersion(prediction: Prediction, score: ValidationScore) -> float:
    """The factor by which samples must move away from their median for 90 % intervals to hold their share.

    Of all factors with which the validation score is close to its best it is the smallest with which intervals between
    a hundred draws hold 90 % of the validation rows, or the largest: the score is flat around its minimum and says
    little about the spread. Few rows, on which training stopped because they went well, are no reason to be surer than
    the score asks for.

    An atom at an end of an interval belongs to it, so that with atoms intervals may hold their share where fewer than
    90 % of the truths are in the middle: that is no reason to widen, and none to narrow either.
    Samples that settle on atoms do so anew at every factor, and in the end at the one returned.
    """
    scale = score.scale
    atoms = scale.atoms if isinstance(scale, TargetScale) else None

    def widened(factor: float) -> Prediction:
        wider = prediction.widen(factor, 0.0, 1.0)
        if isinstance(scale, TargetScale) and atoms is not None and atoms.has_reach:
            scale.atoms = atoms.reach_for(wider.samples)
        return wider

    factors = np.sort(np.r_[1.0, np.geomspace(0.75, 3.0, 40)])
    scores = np.array([score.of(widened(factor)) for factor in factors])
    best = factors[scores.argmin()]
    lowest = factors[0] if len(prediction) >= MIN_NARROWING_ROWS else best
    good = factors[(scores <= WORTH_COVERAGE * scores.min()) & (factors >= lowest)]
    wanted = min(np.ceil(HELD * (len(prediction) + 1)) / len(prediction), 1.0)
    for factor in np.linspace(good[0], good[-1], 33):
        if score.covered(widened(factor), with_ends=bool(factor >= best)) >= wanted:
            break
    return float(factor)


def fit_atoms(prediction: Prediction, score: ValidationScore) -> None:
    """Let samples settle on the values that training targets have again and again, unless the score suffers.

    What a network generates near such a value is close to it but not equal, so that it would seem more surprising than
    it is; ``prediction`` is of the validation rows, in [0, 1].
    """
    scale = score.scale
    if not isinstance(scale, TargetScale) or scale.atoms is None:
        return
    before, found = score.of(prediction), scale.atoms
    scale.atoms = found.reach_for(prediction.samples)
    if score.of(prediction) > WORTH_COVERAGE * before:
        scale.atoms = found
