"""CREAD: watch time by thresholds, between equally many rows and equal steps, where its two errors are smallest."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.distribution import Bins, Distribution, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.methods.baselines.settings import check_counts, check_not_negative

Floats = NDArray[np.float64]

ALPHAS = np.arange(0.001, 5, 0.1)
"""Values of alpha that are tried."""


def error_adaptive_levels(n_thresholds: int, alpha: float) -> Floats:
    """Training shares below the thresholds, denser at the top for larger alpha. **Shape:** -> ``(n_thresholds,)``."""
    even = np.arange(1, n_thresholds + 1) / n_thresholds
    return even if alpha == 0 else np.asarray(np.expm1(-alpha * even) / np.expm1(-alpha))


def thresholds_at(ordered: Floats, levels: Floats) -> Floats:
    """Targets at or below which shares of the rows lie, each once. **Shape:** ``(n,)``, ``(M,)`` -> up to ``(M,)``."""
    # A level that rounding puts just above a whole number of rows must not take one more.
    places = np.ceil(levels * len(ordered) - 1e-9).astype(np.int64) - 1
    return np.unique(ordered[np.clip(places, 0, len(ordered) - 1)])


def discretisation_error(thresholds: Floats, shares: Floats, restoring_factor: float) -> float:
    """Error of learning plus a multiple of that of restoring. **Shape:** ``(M,)``, shares of rows below ``(M,)``."""
    steps, masses = np.diff(thresholds, prepend=0.0), np.diff(shares, prepend=0.0)
    crowding = np.square(masses).sum()
    return float(crowding * ((np.square(steps) / masses).sum() + restoring_factor * np.square(steps).sum()))


def best_alpha(ordered: Floats, n_thresholds: int, restoring_factor: float) -> float:
    """The alpha of the grid whose thresholds promise the least error. **Shape:** ``(n,)``, from least to largest."""
    scaled = ordered / max(float(ordered[-1]), np.finfo(np.float32).tiny)
    errors = []
    for alpha in ALPHAS:
        thresholds = thresholds_at(scaled, error_adaptive_levels(n_thresholds, alpha))
        shares = np.searchsorted(scaled, thresholds, side="right") / len(scaled)
        errors.append(discretisation_error(thresholds, shares, restoring_factor))
    return float(ALPHAS[int(np.argmin(errors))])


def restored_value(exceedance: Tensor, thresholds: Tensor) -> Tensor:
    """Sum of steps, each times the probability to exceed its upper end. **Shape:** ``(n, M)``, ``(M,)`` -> ``(n,)``."""
    return exceedance @ thresholds.diff(prepend=thresholds.new_zeros(1))


class ThresholdBins(Bins):
    """Bins between thresholds, with the value that is restored from the exceedance probabilities themselves."""

    def __init__(self, probabilities: Tensor, edges: Tensor, restored: Tensor) -> None:
        super().__init__(probabilities, edges)
        self.restored = restored


class CREAD(DistributionMethod):
    """Predicts whether each of many thresholds is exceeded, and adds up the steps between them.

    Sun et al., AAAI 2024, from the paper and a port. The thresholds stand at training quantiles; ``alpha`` moves them
    towards the tail and is chosen on training targets, where the errors of learning and of restoring are smallest.

    **Shape:** features ``(n, d)`` -> n distributions over the bins between thresholds.
    """

    family, tasks, native_statistic = "watch time", ("value",), "own"
    title, paper, evidence = "CREAD", "Sun et al., AAAI 2024", "paper"
    thresholds: Tensor
    alpha: Tensor

    # NOTE[DIFF] the port sums the order term over the batch, with weight 2e-5: for 500 rows, 0.01 of the mean.
    def __init__(
        self, n_features: int, *, n_thresholds: int = 50, restoring_factor: float = 50.0, square_weight: float = 1.0,
        order_weight: float = 0.01,
    ) -> None:  # fmt: skip
        super().__init__()
        check_counts(2, n_thresholds=n_thresholds)
        check_not_negative(restoring_factor=restoring_factor, square_weight=square_weight, order_weight=order_weight)
        self.restoring_factor, self.square_weight, self.order_weight = restoring_factor, square_weight, order_weight
        self.output = nn.Linear(n_features, n_thresholds)
        self.register_buffer("thresholds", torch.arange(1, n_thresholds + 1) / n_thresholds)
        self.register_buffer("alpha", torch.zeros(()))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Choose alpha, place the thresholds, and start at the training rows' shares above them."""
        n_thresholds = len(self.thresholds)
        ordered = np.sort(y.detach().cpu().numpy().astype(np.float64))
        alpha = best_alpha(ordered, n_thresholds, self.restoring_factor)
        distinct = torch.from_numpy(thresholds_at(ordered, error_adaptive_levels(n_thresholds, alpha))).to(y)
        self.alpha.fill_(alpha)
        # Repeated quantiles leave fewer thresholds; the others stand at the largest target and count for nothing.
        self.thresholds.copy_(functional.pad(distinct, (0, n_thresholds - len(distinct)), value=float(distinct[-1])))
        above = torch.stack([(y > threshold).sum() for threshold in self.thresholds])
        with torch.no_grad():
            self.output.bias.copy_(((above + 1) / (len(y) - above + 1)).log())

    @property
    def distinct(self) -> Tensor:
        """Whether each threshold stands above the one before. **Shape:** ``(n_thresholds,)``, bool."""
        rises = self.thresholds[1:] > self.thresholds[:-1]
        return torch.cat([torch.ones_like(rises[:1]), rises])

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the thresholds, Huber loss of the restored value, and what breaks the falling order."""
        logits, distinct = self.output(features), self.distinct
        exceeds = (y[:, None] > self.thresholds).to(logits)
        each = functional.binary_cross_entropy_with_logits(logits, exceeds, reduction="none")
        exceedance = logits.sigmoid()
        rises = (exceedance * distinct).diff(dim=1)
        square = functional.huber_loss(restored_value(exceedance, self.thresholds), y, reduction="none")
        return {
            "threshold": weighted_mean((each * distinct).sum(dim=1) / distinct.sum(), weights),
            "square": self.square_weight * weighted_mean(square, weights),
            "order": self.order_weight * weighted_mean(rises.clamp(min=0).sum(dim=1), weights),
        }

    def distribution(self, features: Tensor, **side: Tensor) -> ThresholdBins:
        """Differences of the exceedance probabilities, made to fall and to end at 0."""
        exceedance = self.output(features).sigmoid()
        possible = exceedance * (self.thresholds < self.thresholds[-1])
        falling = functional.pad(possible.cummin(dim=1).values, (1, 0), value=1.0)
        edges = functional.pad(self.thresholds, (1, 0))
        return ThresholdBins(falling[:, :-1] - falling[:, 1:], edges, restored_value(exceedance, self.thresholds))

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The sum of the steps, each counted by the probability to exceed its upper end."""
        return cast(ThresholdBins, distribution).restored
