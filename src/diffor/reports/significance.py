"""Whether a difference is more than chance: tests of two kinds, and what many tests at once take from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# scipy.stats takes long to import, so it is imported where it is used.


def welch(inside: Array, outside: Array) -> tuple[float, float]:
    """Welch's t of two means, and the probability of one as large or larger where they are equal. **Shape:** ``(n,)``.

    >>> t, p = welch(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    >>> round(t, 3), round(p, 3)
    (2.449, 0.035)
    """
    from scipy.stats import ttest_ind

    gap = float(inside.mean() - outside.mean())
    if np.ptp(inside) == np.ptp(outside) == 0:  # all alike on both sides: no doubt is left
        return float(np.sign(gap) * np.inf) if gap else 0.0, 0.0 if gap > 0 else 1.0
    found = ttest_ind(inside, outside, equal_var=False, alternative="greater")
    return float(found.statistic), float(found.pvalue)


def signed_rank_p(differences: Array) -> float:
    """Two-sided p of the Wilcoxon signed-rank test; zeros are left out, and nothing but zeros gives 1.

    >>> round(signed_rank_p(np.array([1.0, 2.0, 3.0, 4.0, 5.0])), 4), signed_rank_p(np.zeros(3))
    (0.0625, 1.0)
    """
    from scipy.stats import wilcoxon

    known = differences[differences != 0]
    return float(wilcoxon(known).pvalue) if len(known) else 1.0


def holm(probabilities: ArrayLike) -> Array:
    """Probabilities corrected for their number, in Holm's way, which scipy lacks. **Shape:** ``(k,)`` -> ``(k,)``.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(probabilities, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    reached = np.maximum.accumulate(values[order] * (len(values) - np.arange(len(values))))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(reached, 1.0)
    return corrected
