"""Fitting the members of a model together, and calibrating them on validation rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from diffor.batches import Batches
from diffor.diffusion import IncrementDiffusion
from diffor.encoders import TabularEncoder, TabularInputs, make_tabular_encoder
from diffor.encoders.image_choice import reads_images
from diffor.encoders.image_encoders import ImageTableEncoder
from diffor.encoders.tabular import GuideEncoder
from diffor.grades import Spread, grade_shares
from diffor.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.methods import METHODS
from diffor.metrics import pit_values
from diffor.prediction import Prediction
from diffor.presets import SMALL_TABLE, WIDE_TABLE, Settings, choose_dropout, count_members
from diffor.target import GradeScale, TargetScale
from diffor.tracking import Tracking
from diffor.train import History, Rows, TrainConfig, predict_in_chunks, train

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
GUIDED = "+guide"
"""What is added to the kind of a member whose encoder reads the guide's answer."""
IMAGES = "images"
"""The kind of a member that reads images and no table."""
COARSE = "+coarse"
"""What is added to the kind of a member with half as many increments: better where the target is mostly noise."""
CHEAP_SAMPLES = 128
"""Samples of a validation row where they cost nothing: few would only round what a method says."""
OWN_SHARE = 0.75
"""Share of a limited time that DiffoR's own members have where a partner is to come."""
BESIDE = "+partner"
"""What is added to the kind of a member whose method is the partner's."""
KINDS: dict[str, tuple[str, ...]] = {
    "many rows": ("periodic+guide", "piecewise+guide+coarse"),
    "sharp": ("piecewise+guide", "periodic+coarse", "periodic+guide", "piecewise+coarse"),
    "blurred": ("guide", "plain+guide+coarse", "periodic+guide", "piecewise+guide+coarse"),
    "many rows of grades": ("periodic+guide", "piecewise+guide"),
    "grades": ("guide", "plain+guide", "periodic+guide", "piecewise+guide"),
}
"""What the members of ``encoder="auto"`` are in turn. Where rows are few, members of many kinds are wrong in different
ways: where the guide is close to the target some do better without it, elsewhere nobody does, and one sees nothing
else. Where rows abound, the guide helps all. Grades have one increment for each border, so no member is coarse."""
SHARP, NOISY = 0.05, 0.11
"""Mean distances of the target from the guide's answer, as shares of its range: see :func:`set_fineness`."""
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

    def covered(self, prediction: Prediction) -> float:
        """Share of validation rows in the middle 90 % of their distributions, of predictions in [0, 1].

        Counted by the truth's place among the samples: an interval between few samples is a little narrow.
        """
        place = pit_values(self.y, prediction.map(self.scale.from_samples).samples)
        return float(np.average(np.abs(place - 0.5) < 0.45, weights=self.weights))

    def __call__(self, model: OrdinalEnsemble) -> float:
        """Score of a model."""
        return self.of(self.predict(model))


MakeImages = Callable[..., Encoder]
"""Makes a network of images: ``make_images(width=..., dropout=...)``."""


def make_ensemble(
    encoders: list[str],
    inputs: TabularInputs,
    settings: Settings,
    seed: int,
    n_rows: int = 0,
    make_images: MakeImages | None = None,
) -> OrdinalEnsemble:
    """Members with these encoders for ``n_rows``, with random weights that the seed determines.

    ``make_images`` makes the networks of members that read images; they may have learned before.
    """
    members = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for kind in encoders:
            encoder = make_encoder(kind, inputs, settings, n_rows, make_images)
            members.append(OrdinalModel(encoder, make_method(settings, encoder.out_features, kind)))
    return OrdinalEnsemble(members)


def make_encoder(
    kind: str, inputs: TabularInputs, settings: Settings, n_rows: int, make_images: MakeImages | None
) -> Encoder:
    """The encoder of a member: of the table, of images, or of both."""
    dropout = choose_dropout(settings, n_rows)
    if make_images is None:
        return _make_table_encoder(kind, inputs, settings, dropout)
    images = make_images(width=settings.encoder_width, dropout=dropout)
    if encoder_name(kind) == IMAGES:
        return images
    return ImageTableEncoder(images, _make_table_encoder(kind, inputs, settings, dropout))


def encoder_name(kind: str) -> str:
    """The name of the encoder in a member's kind, without what is added to it.

    >>> encoder_name("periodic+guide+coarse"), encoder_name("images+partner")
    ('periodic', 'images')
    """
    return kind.partition("+")[0]


def _make_table_encoder(
    kind: str, inputs: TabularInputs, settings: Settings, dropout: float
) -> TabularEncoder | GuideEncoder:
    return make_tabular_encoder(
        encoder_name(kind),
        inputs,
        settings.encoder_width,
        settings.encoder_layers,
        dropout,
        is_guided=GUIDED in kind,
    )


def make_method(settings: Settings, n_features: int, kind: str) -> Method:
    """The method of a member of this kind: the one that settings name or its partner; only DiffoR's can be coarse."""
    if BESIDE in kind:
        return make_partner(settings, n_features)
    if settings.method != "diffor":
        return METHODS[settings.method](n_features, **settings.method_settings)
    arguments = settings.for_method()
    if COARSE in kind:
        arguments["n_increments"] = settings.n_increments // 2
    return METHODS["diffor"](n_features, **arguments)


def make_partner(settings: Settings, n_features: int) -> Method:
    """The method that stands beside DiffoR; where increments are borders between grades, it is told their number."""
    partner = METHODS[settings.partner]
    if settings.decoding == "cumulative" and "n_grades" in inspect.signature(partner).parameters:
        return partner(n_features, n_grades=settings.n_increments + 1)
    return partner(n_features)


def fit_ensemble(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str = "",
    make_images: MakeImages | None = None,
    tracking: Tracking | None = None,
    batches: Batches | None = None,
) -> tuple[OrdinalEnsemble, list[str], History]:
    """Train members, keep those that validation rows prefer, and calibrate them; also names their encoders.

    Steps learn from ``batches`` where these are given, of which ``data`` are then a sample.
    """
    has_fineness = settings.method == "diffor" and settings.decoding != "cumulative"
    encoders = name_encoders(settings, data, has_fineness)
    fit = partial(
        train_members, inputs, settings, data, fingerprint=fingerprint, make_images=make_images, batches=batches
    )
    tracking = tracking or Tracking(None)
    ensemble, history = fit(encoders, score, own_part(config, settings.partner), tracking=tracking)
    if settings.partner != "none" and history.stopped != "interrupted":
        beside = partner_kinds(encoders)
        finer = score and score.with_samples(CHEAP_SAMPLES)
        partners, later = fit(beside, finer, partner_part(config, history), tracking=tracking.of("partner"))
        if later.stopped != "interrupted":
            ensemble, encoders = OrdinalEnsemble([*ensemble.models, *partners.models]), encoders + beside
        history.seconds += later.seconds
    if score is not None:
        calibrate_methods(ensemble, score)
        fine = score.finer()
        encoders = keep_better(ensemble, encoders, fine)
        if isinstance(score.scale, GradeScale):
            shares = grade_shares(fine.predict(ensemble).map(score.scale.from_samples).samples, score.scale.n_grades)
            score.scale.spread = Spread.of(shares)
        if settings.calibrate and has_fineness and len(score.rows) >= MIN_CALIBRATION_ROWS:
            prediction = fine.predict(ensemble)
            dispersion = fit_dispersion(prediction, fine)
            ensemble.dispersion.fill_(dispersion)
            fit_atoms(prediction.widen(dispersion, 0.0, 1.0), fine)
    return ensemble, encoders, history


def train_members(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    encoders: list[str],
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str,
    make_images: MakeImages | None,
    tracking: Tracking,
    batches: Batches | None = None,
) -> tuple[OrdinalEnsemble, History]:
    """Members of these kinds, trained side by side until their joint answer is best."""
    ensemble = make_ensemble(encoders, inputs, settings, config.seed, len(data), make_images).to(data.y.device)
    # Rows of weight zero count as if they were not there; images are not looked at.
    counted = data if data.weights is None else replace(data, images=None).take(data.weights > 0)
    for member in ensemble.models:
        member.method.prepare(counted.y, **counted.side)
    return ensemble, train(ensemble, data, score, config, fingerprint, tracking, batches)


def with_steps(ensemble: OrdinalEnsemble, n_steps: int) -> OrdinalEnsemble:
    """The same members, all weights shared, whose chains have so many steps; a partner has no chain."""
    members = [
        OrdinalModel(member.encoder, member.method.with_steps(n_steps))
        if isinstance(member.method, IncrementDiffusion)
        else member
        for member in ensemble.models
    ]
    other = OrdinalEnsemble(members).to(ensemble.dispersion.device).eval()
    other.dispersion.copy_(ensemble.dispersion)
    return other


def own_part(config: TrainConfig, partner: str) -> TrainConfig:
    """How DiffoR's members are trained: as asked, with most of the time where a partner is to come."""
    if partner == "none" or config.time_limit is None:
        return config
    return replace(config, time_limit=OWN_SHARE * config.time_limit)


def partner_part(config: TrainConfig, history: History) -> TrainConfig:
    """How the partner's members are trained: from another start, in the time that is left, with a checkpoint beside.

    They stop where they are best themselves: a logarithmic loss is learned sooner, and spoiled sooner, than increments.
    """
    left = None if config.time_limit is None else max(config.time_limit - history.seconds, 1e-3)
    folder = None if config.checkpoint_dir is None else str(Path(config.checkpoint_dir) / "partner")
    return replace(config, seed=config.seed + 1, time_limit=left, checkpoint_dir=folder)


def name_encoders(settings: Settings, data: Rows, has_fineness: bool) -> list[str]:
    """The kind of each member's encoder: as set, or what suits the rows."""
    has_guide = len(data.inputs) > 2
    spread = float(data.inputs[2][:, 1].mean()) if has_guide else None
    count = count_members(settings, len(data))
    if not data.inputs:
        return [IMAGES] * count
    if settings.encoder != "auto":
        kind = settings.encoder
        if reads_images(kind):  # then the table's: features of a frozen network are many columns, which need no waves
            kind = "plain" if data.images is None else "periodic"
        return [kind + GUIDED * has_guide] * count
    encoders = choose_encoders(count, len(data), spread, of_grades=not has_fineness)
    if has_fineness:
        encoders = [set_fineness(kind, spread, can_halve=settings.n_increments % 2 == 0) for kind in encoders]
    return [as_plain(kind) for kind in encoders] if data.inputs[0].shape[1] > WIDE_TABLE else encoders


def partner_kinds(kinds: list[str]) -> list[str]:
    """For each member's kind the same with the partner's method.

    >>> partner_kinds(["periodic+guide+coarse"])
    ['periodic+guide+partner']
    """
    return [kind.replace(COARSE, "") + BESIDE for kind in kinds]


def as_plain(kind: str) -> str:
    """A member's kind without an embedding of its numbers.

    >>> as_plain("periodic+guide+coarse"), as_plain("guide")
    ('plain+guide+coarse', 'guide')
    """
    return kind.replace("periodic", "plain").replace("piecewise", "plain")


def choose_encoders(count: int, n_rows: int, spread: float | None, of_grades: bool) -> list[str]:
    """The kind of each member's encoder; ``spread`` is that of the target around the guide, None without a guide.

    >>> choose_encoders(2, n_rows=1000, spread=0.02, of_grades=False)
    ['piecewise+guide', 'periodic+coarse']
    >>> choose_encoders(2, n_rows=1000, spread=None, of_grades=True)
    ['plain', 'periodic']
    """
    has_many_rows = n_rows >= SMALL_TABLE
    if of_grades:
        kinds = KINDS["many rows of grades" if has_many_rows else "grades"]
    elif has_many_rows:
        kinds = KINDS["many rows"]
    else:
        kinds = KINDS["sharp" if spread is None or spread < SHARP else "blurred"]
    if spread is None:
        kinds = tuple(kind.replace(GUIDED, "") for kind in kinds if kind != "guide")
    return [kinds[place % len(kinds)] for place in range(count)]


def set_fineness(kind: str, spread: float | None, can_halve: bool) -> str:
    """A member's kind with as many increments as the target's spread around the guide's answer deserves.

    Where the target is sharp, all members are fine, where it is mostly noise, all are coarse; in between, and where
    there is no guide to tell, they stay as they are.

    >>> set_fineness("periodic+coarse", 0.03, can_halve=True), set_fineness("periodic", 0.2, can_halve=True)
    ('periodic', 'periodic+coarse')
    """
    if not can_halve or (spread is not None and spread < SHARP):
        return kind.replace(COARSE, "")
    return kind if spread is None or spread <= NOISY or COARSE in kind else kind + COARSE


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
    """
    factors = np.sort(np.r_[1.0, np.geomspace(0.75, 3.0, 40)])
    scores = np.array([score.of(prediction.widen(factor, 0.0, 1.0)) for factor in factors])
    lowest = factors[0] if len(prediction) >= MIN_NARROWING_ROWS else factors[scores.argmin()]
    good = factors[(scores <= WORTH_COVERAGE * scores.min()) & (factors >= lowest)]
    wanted = min(np.ceil(HELD * (len(prediction) + 1)) / len(prediction), 1.0)
    for factor in np.linspace(good[0], good[-1], 33):
        if score.covered(prediction.widen(factor, 0.0, 1.0)) >= wanted:
            return float(factor)
    return float(good[-1])


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
