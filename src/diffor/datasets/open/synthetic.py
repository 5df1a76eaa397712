"""Data whose conditional distribution is known: predictions can be compared with the truth itself.

Each law draws inputs, draws targets given inputs, and knows the mean and the distribution function of the target in
closed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.samples import Dataset, Samples, split_rows
from diffor.errors import UserError

Values = NDArray[np.float64]

N_ROWS = 5_000
SEED = 0
_DATA, _TRUTH = 0, 1
"""Streams of random numbers: the truth must not repeat the targets that were drawn with the same seed."""


def _logistic(score: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-score)))


def _normal_cdf(values: Values) -> Values:
    from scipy.special import ndtr  # here, since importing scipy takes longer than all of this module

    return np.asarray(ndtr(values))


def _uniform_table(columns: Sequence[str], n_rows: int, random: np.random.Generator) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(random.uniform(-1, 1, (n_rows, len(columns))), columns=list(columns))
    return table


def _with_category(table: pd.DataFrame, column: str, names: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    codes = random.integers(len(names), size=len(table))
    widened: pd.DataFrame = table.assign(**{column: pd.Categorical.from_codes(codes, categories=pd.Index(list(names)))})
    return widened


class Law(ABC):
    """A distribution of inputs and, given them, of the target."""

    name: ClassVar[str]
    description: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]] = ("mae", "rmse", "crps", "coverage", "qice")
    n_grades: ClassVar[int | None] = None
    bounds: ClassVar[tuple[float, float] | None] = None
    side: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Draw rows of inputs."""

    @abstractmethod
    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """Draw targets of each row. **Shape:** ``(n, n_samples)``."""

    @abstractmethod
    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """Probability of a target at or below ``y``. **Shape:** ``(n,)`` -> ``(n,)``."""

    @abstractmethod
    def mean(self, x: pd.DataFrame) -> Values:
        """Expected target. **Shape:** ``(n,)``."""


class Bimodal(Law):
    """Two narrow modes four units apart, whose weights depend on the inputs: the mean lies where nothing ever is."""

    name = "synthetic-bimodal"
    description = "two separate modes with known weights"
    distance = 2.0
    spread = 0.15

    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Position of both modes, the tilt to one of them, and a column that says nothing."""
        return _uniform_table(["position", "tilt", "idle"], n_rows, random)

    def centre(self, x: pd.DataFrame) -> Values:
        """Middle between the two modes."""
        return np.asarray(2 * np.sin(np.pi * x["position"].to_numpy()))

    def upper_weight(self, x: pd.DataFrame) -> Values:
        """Probability of the upper mode."""
        return np.asarray(_logistic(2 * x["tilt"].to_numpy()))

    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """Choose a mode, then a place near it."""
        shape = (len(x), n_samples)
        sign = np.where(random.random(shape) < self.upper_weight(x)[:, None], 1.0, -1.0)
        noise = self.spread * random.standard_normal(shape)
        return np.asarray(self.centre(x)[:, None] + self.distance * sign + noise)

    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """A mixture of two Gaussians."""
        weight, offset = self.upper_weight(x), y - self.centre(x)
        below, above = (_normal_cdf((offset + sign * self.distance) / self.spread) for sign in (1, -1))
        return np.asarray((1 - weight) * below + weight * above)

    def mean(self, x: pd.DataFrame) -> Values:
        """Between the modes, by their weights."""
        return self.centre(x) + self.distance * (2 * self.upper_weight(x) - 1)


class Heteroscedastic(Law):
    """A Gaussian whose spread changes thirtyfold with the inputs."""

    name = "synthetic-heteroscedastic"
    description = "Gaussian whose spread depends on the inputs"
    offsets: ClassVar[dict[str, float]] = {"a": -1.0, "b": 0.0, "c": 2.0}

    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Position of the mean, level of the noise, and a category that shifts the mean."""
        return _with_category(_uniform_table(["position", "level"], n_rows, random), "group", [*self.offsets], random)

    def mean(self, x: pd.DataFrame) -> Values:
        """A wave, shifted by the category."""
        shift = np.array([self.offsets[name] for name in x["group"].cat.categories])[x["group"].cat.codes]
        return np.asarray(3 * np.sin(np.pi * x["position"].to_numpy()) + shift)

    def spread(self, x: pd.DataFrame) -> Values:
        """Standard deviation."""
        return np.asarray(0.05 * np.exp(1.7 * (1 + x["level"].to_numpy())))

    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """Mean and noise."""
        noise = random.standard_normal((len(x), n_samples))
        return np.asarray(self.mean(x)[:, None] + self.spread(x)[:, None] * noise)

    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """Of a Gaussian."""
        return np.asarray(_normal_cdf((y - self.mean(x)) / self.spread(x)))


class ZeroInflated(Law):
    """Nothing at all, or an amount with a heavy tail: what customers spend."""

    name = "synthetic-zero-inflated"
    description = "zero, or lognormal with a heavy tail"
    metrics = ("mae", "rmse", "normalized_gini", "crps", "coverage")

    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Interest lowers the share of zeros, wealth raises the amount, the channel says nothing."""
        numbers = _uniform_table(["interest", "wealth"], n_rows, random)
        return _with_category(numbers, "channel", ["mail", "shop", "web"], random)

    def zero_share(self, x: pd.DataFrame) -> Values:
        """Probability of nothing."""
        return np.asarray(_logistic(0.3 - 2.5 * x["interest"].to_numpy()))

    def log_moments(self, x: pd.DataFrame) -> tuple[Values, Values]:
        """Mean and standard deviation of the amount's logarithm."""
        wealth = x["wealth"].to_numpy()
        return 3 + 1.5 * wealth * np.abs(wealth), np.asarray(1.0 + 0.2 * x["interest"].to_numpy())

    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """Choose whether anything, then how much."""
        centre, spread = self.log_moments(x)
        shape = (len(x), n_samples)
        amount = np.exp(centre[:, None] + spread[:, None] * random.standard_normal(shape))
        return np.where(random.random(shape) < self.zero_share(x)[:, None], 0.0, amount)

    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """A jump at zero, then lognormal."""
        centre, spread = self.log_moments(x)
        zero = self.zero_share(x)
        positive = _normal_cdf((np.log(np.maximum(y, np.finfo(float).tiny)) - centre) / spread)
        return np.where(y < 0, 0.0, zero + (1 - zero) * np.where(y > 0, positive, 0.0))

    def mean(self, x: pd.DataFrame) -> Values:
        """Share of amounts times the lognormal mean."""
        centre, spread = self.log_moments(x)
        return np.asarray((1 - self.zero_share(x)) * np.exp(centre + spread**2 / 2))


class WatchTime(Law):
    """Seconds watched until the viewer leaves or the video ends: exponential, cut off at the duration."""

    name = "synthetic-watch-time"
    description = "watch time that ends with the video"
    metrics = ("mae", "rmse", "xauc", "crps", "coverage")
    shortest, longest = 10.0, 300.0
    bounds = (0.0, longest)
    side = ("duration",)

    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Duration in seconds, two columns of how well video and viewer fit, and a column that says nothing."""
        table = _uniform_table(["topic", "taste", "idle"], n_rows, random)
        table["duration"] = random.uniform(self.shortest, self.longest, n_rows)
        return table

    def patience(self, x: pd.DataFrame) -> Values:
        """Mean seconds that the viewer would watch an endless video."""
        return np.asarray(80 * np.exp(1.5 * x["topic"].to_numpy() * x["taste"].to_numpy()))

    def completion(self, x: pd.DataFrame) -> Values:
        """Probability that the video is watched to its end."""
        return np.asarray(np.exp(-x["duration"].to_numpy() / self.patience(x)))

    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """The earlier of leaving and the end."""
        leaving = self.patience(x)[:, None] * random.standard_exponential((len(x), n_samples))
        return np.asarray(np.minimum(x["duration"].to_numpy()[:, None], leaving))

    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """Exponential, with a jump to 1 at the duration."""
        leaving = -np.expm1(-np.maximum(y, 0.0) / self.patience(x))
        return np.where(y >= x["duration"].to_numpy(), 1.0, leaving)

    def mean(self, x: pd.DataFrame) -> Values:
        """Area under the probability of still watching."""
        return self.patience(x) * (1 - self.completion(x))


class Grades(Law):
    """Five grades by an ordered logit whose score is not linear in the inputs."""

    name = "synthetic-grades"
    description = "five grades, ordered logit of a curved score"
    metrics = ("mae", "qwk", "accuracy_off_by", "crps", "coverage")
    n_grades = 5
    cuts: ClassVar[Values] = np.array([-3.0, -1.0, 0.5, 2.0])

    def inputs(self, n_rows: int, random: np.random.Generator) -> pd.DataFrame:
        """Three columns that matter, and one that says nothing."""
        return _uniform_table(["wave", "left", "right", "idle"], n_rows, random)

    def score(self, x: pd.DataFrame) -> Values:
        """A wave and a product."""
        product = x["left"].to_numpy() * x["right"].to_numpy()
        return np.asarray(2 * np.sin(np.pi * x["wave"].to_numpy()) + 4 * product)

    def cumulative(self, x: pd.DataFrame) -> Values:
        """Probability of each grade or a lower one. **Shape:** ``(n, grades)``."""
        below = _logistic(self.cuts - self.score(x)[:, None])
        return np.concatenate([below, np.ones((len(x), 1))], axis=1)

    def draw(self, x: pd.DataFrame, n_samples: int, random: np.random.Generator) -> Values:
        """A logistic score, and the cuts that it passes."""
        latent = self.score(x)[:, None] + random.logistic(size=(len(x), n_samples))
        return np.searchsorted(self.cuts, latent).astype(np.float64)

    def cdf(self, x: pd.DataFrame, y: Values) -> Values:
        """Steps at the grades."""
        grade = np.clip(np.floor(y), 0, 4).astype(np.int64)
        return np.where(y < 0, 0.0, np.take_along_axis(self.cumulative(x), grade[:, None], axis=1)[:, 0])

    def mean(self, x: pd.DataFrame) -> Values:
        """Mean grade code: the sum of the probabilities of passing each cut."""
        return np.asarray((1 - self.cumulative(x)).sum(axis=1))


LAWS: dict[str, Law] = {law.name: law for law in (Bimodal(), Heteroscedastic(), ZeroInflated(), WatchTime(), Grades())}
"""Laws by the name of their data set."""


def generate(name: str, n_rows: int, seed: int = SEED) -> Samples:
    """Draw a table of any size from a law: the same name, size and seed give the same table.

    >>> generate("synthetic-grades", 3, seed=1).x.shape
    (3, 4)
    """
    if name not in LAWS:
        raise UserError(f"name must be one of {', '.join(LAWS)}, but got name={name!r}")
    if n_rows < 1:
        raise UserError(f"n_rows must be 1 or more, but got n_rows={n_rows}")
    law, random = LAWS[name], np.random.default_rng([seed, _DATA])
    x = law.inputs(n_rows, random)
    y = law.draw(x, 1, random)[:, 0]
    return Samples(x, y, side={column: x[column].to_numpy() for column in law.side})


def draw_truth(x: pd.DataFrame, n_samples: int, seed: int, name: str) -> Values:
    """Draws from the true conditional distribution of each row. **Shape:** ``(n, n_samples)``."""
    return LAWS[name].draw(x, n_samples, np.random.default_rng([seed, _TRUTH]))


def read_synthetic(root: str | Path | None, name: str) -> Samples:
    """The 5,000 rows that the suite compares on; no files are read."""
    return generate(name, N_ROWS)


SYNTHETIC = tuple(
    Dataset(
        name=law.name,
        description=f"{law.description}, {N_ROWS:,} rows",
        source="generated",
        metrics=law.metrics,
        read=partial(read_synthetic, name=law.name),
        split=partial(split_rows, n_rows=N_ROWS),
        n_grades=law.n_grades,
        bounds=law.bounds,
        truth=partial(draw_truth, name=law.name),
    )
    for law in LAWS.values()
)
