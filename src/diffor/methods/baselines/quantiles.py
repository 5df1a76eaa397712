"""Methods that answer with quantiles: free ones that are sorted afterwards, and ones that cannot cross."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from diffor.core.distribution import Distribution, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.errors import check_choice
from diffor.methods.baselines.densities import inverse_softplus, training_quantiles
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.settings import check_counts

STEP_ACTIVATIONS = ("softplus", "relu")
DECODINGS = ("mean", "median")


class QuantileCurve(Distribution):
    """A distribution by its quantiles: linear between the levels, flat before the first and after the last.

    **Shape:** levels ``(N,)`` strictly rising, values ``(n, N)`` rising.
    """

    def __init__(self, levels: Tensor, values: Tensor) -> None:
        self.levels = levels
        self.values = values.clamp(0, 1).contiguous()

    def cdf(self, values: Tensor) -> Tensor:
        """Highest level whose quantile does not exceed each value."""
        asked = values.expand(len(self.values), -1).contiguous()
        last = len(self.levels) - 1
        passed = torch.searchsorted(self.values, asked, right=True)  # knots at or below each value
        before, after = (passed - 1).clamp(0, last), passed.clamp(max=last)
        left, right = self.values.gather(1, before), self.values.gather(1, after)
        share = ((asked - left) / (right - left).clamp(min=torch.finfo(asked.dtype).tiny)).clamp(0, 1)
        reached = self.levels[before] + share * (self.levels[after] - self.levels[before])
        return torch.where(passed == 0, 0.0, torch.where(passed > last, 1.0, reached))

    @property
    def mean(self) -> Tensor:
        """Integral of the curve over all levels."""
        inner = ((self.values[:, 1:] + self.values[:, :-1]) / 2 * self.levels.diff()).sum(dim=1)
        return inner + self.levels[0] * self.values[:, 0] + (1 - self.levels[-1]) * self.values[:, -1]

    def quantile(self, levels: Tensor) -> Tensor:
        """The curve itself."""
        wanted = levels.expand(len(self.values), -1).contiguous()
        after = torch.searchsorted(self.levels, wanted).clamp(max=len(self.levels) - 1)
        before = (after - 1).clamp(min=0)
        gap = (self.levels[after] - self.levels[before]).clamp(min=torch.finfo(wanted.dtype).tiny)
        share = ((wanted - self.levels[before]) / gap).clamp(0, 1)
        low, high = self.values.gather(1, before), self.values.gather(1, after)
        return low + share * (high - low)


def even_levels(n_quantiles: int) -> Tensor:
    """Levels i / (N + 1). **Shape:** -> ``(N,)``."""
    return torch.arange(1, n_quantiles + 1) / (n_quantiles + 1)


def pinball_loss(y: Tensor, quantiles: Tensor, levels: Tensor) -> Tensor:
    """Mean over the levels of the loss that each quantile minimises.

    **Shape:** ``(n,)``, ``(n, N)``, ``(N,)`` -> ``(n,)``.

    >>> pinball_loss(torch.tensor([1.0, 0.0]), torch.tensor([[0.0], [1.0]]), torch.tensor([0.75])).tolist()
    [0.75, 0.25]
    """
    above = y[:, None] - quantiles
    return torch.maximum(levels * above, (levels - 1) * above).mean(dim=1)


class QuantileMethod(DistributionMethod):
    """What both quantile methods share: levels, the loss on the standardised target, and decoding.

    **Shape:** features ``(n, d)`` -> ``(n, N)`` quantiles.
    """

    levels: Tensor

    def __init__(self, n_features: int, n_quantiles: int, decoding: str) -> None:
        super().__init__()
        check_counts(2, n_quantiles=n_quantiles)
        check_choice("decoding", decoding, DECODINGS)
        self.decoding = decoding
        self.head = nn.Linear(n_features, n_quantiles)
        self.scale = StandardScale()
        self.register_buffer("levels", even_levels(n_quantiles))

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Start at the training quantiles."""
        self.scale.fit(y)
        self.start(training_quantiles(y, self.levels))

    @abstractmethod
    def start(self, places: Tensor) -> None:
        """Let features of zero give these quantiles. **Shape:** ``(N,)``."""

    @abstractmethod
    def quantiles(self, features: Tensor) -> Tensor:
        """Quantiles of the target, as the loss sees them. **Shape:** ``(n, d)`` -> ``(n, N)``."""

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Pinball loss in standard deviations of the target, averaged over the levels."""
        # NOTE[DIFF]: CQE's authors sum over the levels; the mean leaves the learning rate free of their number.
        errors = pinball_loss(y, self.quantiles(features), self.levels) / self.scale.spread
        return {"pinball": weighted_mean(errors, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> QuantileCurve:
        """The curve through the quantiles, sorted."""
        return QuantileCurve(self.levels, self.quantiles(features).sort(dim=1).values)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """Expectation or median of the curve."""
        if self.decoding == "mean":
            return distribution.mean
        return distribution.quantile(self.levels.new_tensor([0.5])).squeeze(1)


class QuantileRegression(QuantileMethod):
    """Quantile regression (Koenker and Bassett, 1978): one output for each of N levels, sorted when asked."""

    family, title = "quantiles", "Quantile regression"
    paper, evidence = "Koenker and Bassett, 1978", "standard"
    places: Tensor

    def __init__(self, n_features: int, *, n_quantiles: int = 100, decoding: str = "median") -> None:
        super().__init__(n_features, n_quantiles, decoding)
        self.register_buffer("places", even_levels(n_quantiles))

    def start(self, places: Tensor) -> None:
        """Keep the training quantiles."""
        self.places.copy_(places)

    def quantiles(self, features: Tensor) -> Tensor:
        """Training quantiles, moved by the network."""
        moves: Tensor = self.head(features)
        return self.places + self.scale.spread * moves


class ConditionalQuantiles(QuantileMethod):
    """CQE (Lin et al., 2024): quantiles as running sums of steps that are never negative, so they cannot cross."""

    family, title = "watch time", "CQE"
    paper, evidence, native_statistic = "Lin et al., 2024", "paper", "mean"
    units: Tensor

    def __init__(
        self, n_features: int, *, n_quantiles: int = 100, activation: str = "softplus", decoding: str = "mean"
    ) -> None:
        super().__init__(n_features, n_quantiles, decoding)
        check_choice("activation", activation, STEP_ACTIVATIONS)
        # NOTE[DIFF]: the authors take relu, under which a step that has once fallen to zero learns no more.
        self.activation = softplus if activation == "softplus" else torch.relu
        self.register_buffer("units", torch.full((n_quantiles,), 1 / n_quantiles))

    def start(self, places: Tensor) -> None:
        """Make steps of the training quantiles, counted in their mean, so that most are about 1."""
        if float(places[-1]) > 0:
            self.units.copy_(places[-1] / len(places))
        self.units[0] = self.scale.spread  # the first step leads from zero to where the targets begin
        # Where many targets are equal, steps are zero; they start a little above, where they still learn.
        steps = (torch.cat([places[:1], places.diff()]).to(self.units) / self.units).clamp(min=0.02)
        self.head.bias.copy_(inverse_softplus(steps) if self.activation is softplus else steps)

    def quantiles(self, features: Tensor) -> Tensor:
        """Running sums of the steps."""
        return (self.units * self.activation(self.head(features))).cumsum(dim=1)
