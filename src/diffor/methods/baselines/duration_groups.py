"""What methods share that read the column ``duration``: its message, the scale of time, groups of similar videos.

The duration is on the scale of the target: 0 where the target is 0, 1 where the target is 1. It may exceed 1, because
nobody may have watched the longest videos to their end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.core.distribution import Bins
from diffor.errors import UserError
from diffor.methods.baselines.settings import check_counts

Floats = NDArray[np.float64]

TYPICAL_SECONDS = 20.0
"""As many of the source's seconds the median training target is taken for where the true number is not told."""
COMPLETED = 1e-6
"""Watch times that miss the duration by less than this share of the target's range miss it by rounding."""
MIN_GROUP_ROWS = 20
"""Of fewer rows, neither ranks nor mixtures can be learned."""
MAX_MIXTURE_ROWS = 2000


def required_duration(side: Mapping[str, Tensor], name: str) -> Tensor:
    """The column ``duration``, or a message that says what is missing. **Shape:** ``(n,)``."""
    if "duration" not in side:
        given = ", ".join(sorted(side)) or "no column"
        raise UserError(
            f"{name} needs the column 'duration' beside features and targets, but {given} was given; "
            "pass duration=, one positive number per row in the units of the target"
        )
    return side["duration"]


def learned_seconds(y: Tensor, range_seconds: float | None) -> float:
    """How many of the source's seconds the target's range is taken for. **Shape:** ``(n,)``."""
    if range_seconds is not None:
        return float(range_seconds)
    positive = y[y > 0]
    return TYPICAL_SECONDS / float(positive.median()) if len(positive) else 1.0


def completed(y: Tensor, duration: Tensor) -> Tensor:
    """Whether the video was watched to its end or longer. **Shape:** ``(n,)``, ``(n,)`` -> booleans ``(n,)``."""
    return y >= duration - COMPLETED


class DurationGroups(nn.Module):
    """Groups of videos of similar duration that hold about equally many training rows.

    Durations beyond the training range belong to the first and the last group.

    **Shape:** durations ``(n,)`` -> group numbers ``(n,)``.
    """

    cuts: Tensor

    def __init__(self, n_groups: int, min_rows: int = MIN_GROUP_ROWS) -> None:
        super().__init__()
        check_counts(n_groups=n_groups)
        self.n_groups, self.min_rows = n_groups, min_rows
        self.register_buffer("cuts", torch.full((n_groups - 1,), math.inf))

    def fit(self, duration: Tensor) -> None:
        """Place the cuts on training durations; equal durations stay together and no group is nearly empty."""
        ordered = np.sort(duration.detach().cpu().numpy())
        kept: list[float] = []
        reached = 0
        for wanted in np.arange(1, self.n_groups) * len(ordered) / self.n_groups:
            cut = ordered[max(math.ceil(wanted) - 1, 0)]
            below = int(np.searchsorted(ordered, cut, side="right"))
            if below - reached >= self.min_rows and len(ordered) - below >= self.min_rows:
                kept.append(float(cut))
                reached = below
        cuts = torch.full((self.n_groups - 1,), math.inf)
        cuts[: len(kept)] = torch.tensor(kept)
        self.cuts.copy_(cuts)

    @property
    def n_used(self) -> int:
        """Number of groups that hold training rows; the others cannot be reached."""
        return int(self.cuts.isfinite().sum()) + 1

    def forward(self, duration: Tensor) -> Tensor:
        """Number of each row's group."""
        return torch.searchsorted(self.cuts, duration.contiguous())


def mid_rank(y: Tensor, grid: Tensor) -> Tensor:
    """Share of views below y, counting half of equal ones. **Shape:** ``(n,)``, quantiles ``(n, q)`` -> ``(n,)``."""
    below = even_bins(grid).cdf(y[:, None])
    above = even_bins(-grid.flip(1)).cdf(-y[:, None])
    return ((below + 1 - above) / 2).squeeze(1)


def even_bins(grid: Tensor) -> Bins:
    """Bins of equal probability between quantiles."""
    n_bins = grid.shape[1] - 1
    return Bins(grid.new_full((len(grid), n_bins), 1 / n_bins), grid)


def two_levels(watched: Floats) -> Floats:
    """Means of a mixture of two Gaussians, the lower first. **Shape:** ``(n,)`` -> ``(2,)``."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    if np.ptp(watched) == 0:
        return np.repeat(watched[0], 2)
    # Evenly spread order statistics say what all rows say, in a time that does not grow with them.
    n_fitted = min(len(watched), MAX_MIXTURE_ROWS)
    fitted = np.sort(watched)[((np.arange(n_fitted) + 0.5) * len(watched) / n_fitted).astype(np.int64)]
    centre, spread = fitted.mean(), fitted.std()
    if spread == 0:
        return np.repeat(centre, 2)
    mixture = GaussianMixture(2, covariance_type="spherical", max_iter=500, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit((fitted[:, None] - centre) / spread)
    return np.sort(centre + spread * mixture.means_[:, 0])


def moving_average(levels: Floats, counts: Floats, window: int) -> Floats:
    """Centred average over ``2 * window - 1`` neighbours, each counted by its rows. **Shape:** ``(n,)`` -> ``(n,)``."""
    kernel, middle = np.ones(2 * window - 1), slice(window - 1, window - 1 + len(levels))
    return np.asarray(np.convolve(levels * counts, kernel)[middle] / np.convolve(counts, kernel)[middle])
