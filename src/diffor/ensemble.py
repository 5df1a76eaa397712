"""Fitting the members of a model together, and calibrating them on validation rows."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from diffor.encoders import TabularInputs, make_tabular_encoder
from diffor.method import OrdinalEnsemble, OrdinalModel
from diffor.methods import METHODS
from diffor.prediction import Prediction
from diffor.presets import Settings, count_members
from diffor.target import GradeScale, TargetScale
from diffor.train import History, Rows, TrainConfig, predict_in_chunks, train

MAX_VALID_ROWS = 2048
"""Rows that an evaluation during training reads at most: more cost time and hardly change which step is best."""
MIN_CALIBRATION_ROWS = 20
FINE_SAMPLES = 65_536
"""Samples that choices after training may draw of all validation rows together: a few seconds on one core."""
ENCODER_CANDIDATES = ("periodic", "plain")
"""What the members of ``encoder="auto"`` have in turn; validation rows decide which of them stay."""


class ValidationScore:
    """Mean CRPS on validation rows, in the user's units: what early stopping and calibration minimise."""

    def __init__(
        self, rows: Rows, y: NDArray[np.floating], scale: TargetScale | GradeScale, n_samples: int = 32
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
        finer = copy(self)
        finer.n_samples = int(np.clip(FINE_SAMPLES // len(self.rows), self.n_samples, 256))
        return finer

    def predict(self, model: OrdinalEnsemble) -> Prediction:
        """Predictions of the validation rows in [0, 1]."""
        return predict_in_chunks(model, self.rows, self.n_samples)

    def of(self, prediction: Prediction) -> float:
        """Score of predictions in [0, 1] of the validation rows."""
        return float(np.average(prediction.map(self.scale.from_unit).crps(self.y), weights=self.weights))

    def __call__(self, model: OrdinalEnsemble) -> float:
        """Score of a model."""
        return self.of(self.predict(model))


def make_ensemble(encoders: list[str], inputs: TabularInputs, settings: Settings, seed: int) -> OrdinalEnsemble:
    """Members with these encoders and random weights that the seed determines."""
    members = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name in encoders:
            encoder = make_tabular_encoder(
                name, inputs, settings.encoder_width, settings.encoder_layers, settings.encoder_dropout
            )
            members.append(OrdinalModel(encoder, METHODS["diffor"](encoder.out_features, **settings.for_method())))
    return OrdinalEnsemble(members)


def fit_ensemble(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str = "",
) -> tuple[OrdinalEnsemble, list[str], History]:
    """Train members, keep those that validation rows prefer, and calibrate them; also names their encoders."""
    encoders = choose_encoders(settings.encoder, count_members(settings, len(data)))
    ensemble = make_ensemble(encoders, inputs, settings, config.seed).to(data.y.device)
    for member in ensemble.members:
        member.method.prepare(data.y)  # type: ignore[union-attr, operator]
    history = train(ensemble, data, score, config, fingerprint)
    if score is not None:
        calibrate_methods(ensemble, score)
        fine = score.finer()
        encoders = keep_better(ensemble, encoders, fine)
        if settings.calibrate and len(score.rows) >= MIN_CALIBRATION_ROWS:
            ensemble.dispersion.fill_(fit_dispersion(fine.predict(ensemble), fine))
    return ensemble, encoders, history


def choose_encoders(name: str, count: int) -> list[str]:
    """The encoder of each member.

    >>> choose_encoders("auto", 3)
    ['periodic', 'plain', 'periodic']
    """
    if name != "auto":
        return [name] * count
    return [ENCODER_CANDIDATES[place % len(ENCODER_CANDIDATES)] for place in range(count)]


def keep_better(ensemble: OrdinalEnsemble, encoders: list[str], score: ValidationScore) -> list[str]:
    """Keep all members, or only those with one kind of encoder, whichever scores best; names what is kept."""
    kinds = sorted(set(encoders))
    if len(kinds) == 1:
        return encoders
    everyone, places = list(ensemble.members), range(len(encoders))
    choices = [list(places), *([place for place in places if encoders[place] == kind] for kind in kinds)]
    scores = []
    for chosen in choices:
        ensemble.members = nn.ModuleList(everyone[place] for place in chosen)
        scores.append(score(ensemble))
    best = choices[int(np.argmin(scores))]
    ensemble.members = nn.ModuleList(everyone[place] for place in best)
    return [encoders[place] for place in best]


@torch.inference_mode()
def calibrate_methods(ensemble: OrdinalEnsemble, score: ValidationScore) -> None:
    """Show the validation rows to each member's method."""
    for model, _, _ in ensemble.shares(len(ensemble.members)):
        features = model.features(score.rows.inputs)
        model.method.calibrate(features, score.rows.y, score.rows.keys, score.n_samples)


def fit_dispersion(prediction: Prediction, score: ValidationScore) -> float:
    """The factor by which samples must move away from their median for the best validation score."""
    factors = np.r_[1.0, np.geomspace(0.75, 3.0, 25)]
    return float(factors[np.argmin([score.of(prediction.widen(factor, 0.0, 1.0)) for factor in factors])])
