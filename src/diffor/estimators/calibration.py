"""What validation rows decide of members that are an encoder and a method: when to stop, and how grades are spread."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.core.grades import Spread, grade_probabilities
from diffor.core.method import OrdinalEnsemble
from diffor.core.prediction import Prediction
from diffor.core.target import GradeScale, TargetScale
from diffor.training.loop import Rows, predict_in_chunks

MAX_VALID_ROWS = 1024
"""Rows that an evaluation during training reads at most: more cost time and hardly change which step is best."""
FINE_SAMPLES = 65_536
"""Samples that choices after training may draw of all validation rows together: a few seconds on one core."""


class ValidationScore:
    """Mean CRPS on validation rows, in the user's units: what early stopping minimises."""

    def __init__(
        self, rows: Rows, y: NDArray[np.floating], scale: TargetScale | GradeScale, n_samples: int = 16
    ) -> None:
        # Tables are often sorted, so a part of them is drawn, not cut off.
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:MAX_VALID_ROWS])
        self.rows = rows.take(torch.from_numpy(chosen).to(rows.y.device))
        self.y, self.scale, self.n_samples = y[chosen], scale, n_samples
        self.weights = None if self.rows.weights is None else self.rows.weights.cpu().numpy()

    def finer(self) -> ValidationScore:
        """The same with more samples, for choices that few would bias: with few, the score punishes spread itself."""
        other = copy(self)
        other.n_samples = int(np.clip(FINE_SAMPLES // len(self.rows), self.n_samples, 256))
        return other

    def predict(self, model: OrdinalEnsemble) -> Prediction:
        """Predictions of the validation rows in [0, 1]."""
        return predict_in_chunks(model, self.rows, self.n_samples)

    def of(self, prediction: Prediction) -> float:
        """Score of predictions in [0, 1] of the validation rows."""
        each = prediction.map(self.scale.from_unit).crps(self.y)
        return float(np.average(each, weights=self.weights))

    def __call__(self, model: OrdinalEnsemble) -> float:
        """Score of a model."""
        return self.of(self.predict(model))


def calibrate(ensemble: OrdinalEnsemble, score: ValidationScore) -> None:
    """Show the validation rows to each member's method, and note how far expected grades are to be moved apart."""
    calibrate_methods(ensemble, score)
    if isinstance(score.scale, GradeScale):
        prediction = score.finer().predict(ensemble).map(score.scale.from_unit)
        score.scale.spread = Spread.of(grade_probabilities(prediction, score.scale.n_grades))


@torch.inference_mode()
def calibrate_methods(ensemble: OrdinalEnsemble, score: ValidationScore) -> None:
    """Show the validation rows to each member's method."""
    for model, _, _ in ensemble.shares(len(ensemble.members)):
        features = model.features(score.rows.inputs)
        model.method.calibrate(features, score.rows.y, score.rows.keys, score.n_samples, **score.rows.side)
