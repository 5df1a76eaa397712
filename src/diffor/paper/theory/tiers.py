"""What several heads are promised beside one: the inclusion of function classes, UB(t; R), and the three tiers.

The paper's remark names a safety floor (the model of many times contains that of one), an oracle ceiling (the best time
is no worse than any) and fusion (a linear combination of times). On linear heads all three are exact, and it shows what
each is worth: the first is an equality that joint training need not keep, the second is what one head at the best time
has as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.paper.theory.analysis import Array
from diffor.paper.theory.linear_heads import TimeTasks

ROUNDING = 1e-9


def upper_bound(tasks: TimeTasks, m: int, risk: float, gamma: float) -> float:
    """The paper's ``UB(t; R) = 4 / gamma^2 * (1 - abar_t) / abar_t * R`` on the share of wrong grades.

    ``risk`` is the mean squared error of the noise at the m-th time; ``gamma`` is twice the least distance of a true
    position from the thresholds (:func:`~diffor.paper.theory.analysis.ordinal_bound`).
    """
    return float(4 * tasks.amplification[m] * risk / gamma**2) if gamma > 0 else float("inf")


class Inclusion(NamedTuple):
    """Least noise risks at one time: of a model of that time alone, of many heads, and of many heads trained jointly.

    An encoder is chosen out of a family with the heads: by the risk at the one time, or by that of all times.
    """

    time: int
    single: float
    """SH-1T: the best encoder and head for this time."""
    multiple: float
    """MH-MT: the least risk at this time over all its parameters; the other heads are of no account."""
    joint: float
    """MH-MT as it is trained: the risk at this time with the encoder that suits all times together."""
    single_encoder: int
    joint_encoder: int

    @property
    def holds(self) -> bool:
        """Whether many heads can be as good at this time as the model of it alone."""
        return self.multiple <= self.single + ROUNDING

    @property
    def cost_of_sharing(self) -> float:
        """By how much joint training is worse at this time than the model of it alone; the theorem leaves it open."""
        return self.joint - self.single


def inclusion(families: Sequence[TimeTasks], m: int) -> Inclusion:
    """Measure the paper's inclusion theorem at the m-th time, for a family of encoders with linear heads.

    ``families`` holds the same times and targets under the features of each encoder.
    """
    if not families or len({one.times for one in families}) != 1:
        raise UserError("families must hold at least one encoder, all with the same times; make them in one loop")
    own = [one.task(m).minimum for one in families]
    of_many = [one.risk_of_separate_heads(m).minimum for one in families]
    together = int(np.argmin([one.separate.minimum for one in families]))
    return Inclusion(families[0].times[m], min(own), min(of_many), own[together], int(np.argmin(own)), together)


class Tiers(NamedTuple):
    """The three tiers on trained heads: squared errors of the target's estimate on the rows that trained them.

    **Shape:** times, single and separate ``(M,)``.
    """

    times: tuple[int, ...]
    single: Array
    """Of a model of each time alone."""
    separate: Array
    """Of each head of the model with a head for each time."""
    fused: float
    """Of the linear combination of the heads, with weights that sum to one."""
    fusion_bound: float
    """``sum w_m^2 v_m + 2 sum_{i<j} |w_i w_j| b_ij`` with the measured products of errors."""

    @property
    def best(self) -> int:
        """The oracle's time: index of the smallest error."""
        return int(self.separate.argmin())

    @property
    def safe(self) -> bool:
        """First tier: no head is worse than the model of its time alone."""
        return bool((self.separate <= self.single * (1 + ROUNDING)).all())

    @property
    def oracle_holds(self) -> bool:
        """Second tier: the best time is no worse than any."""
        return bool((self.separate[self.best] <= self.separate).all())

    @property
    def oracle_over_single(self) -> float:
        """What the oracle gains on the best model of one time alone, as a share: nothing on a fixed encoder."""
        return float(1 - self.separate[self.best] / self.single.min())

    @property
    def fusion_holds(self) -> bool:
        """Third tier: the fused error is within its bound."""
        return self.fused <= self.fusion_bound * (1 + ROUNDING)


def three_tiers(tasks: TimeTasks, heads: ArrayLike | None = None, weights: ArrayLike | None = None) -> Tiers:
    """Measure the three tiers of the paper's remark for linear heads on a fixed encoder.

    ``heads`` are those of MH-MT, at their minimum if None; ``weights`` of the fusion sum to one, the best if None.

    **Shape:** heads ``(M, D)``, weights ``(M,)``.
    """
    separate = tasks.heads(tasks.separate.minimiser) if heads is None else np.asarray(heads, dtype=np.float64)
    alone = np.stack([task.minimiser for task in tasks.tasks])
    errors = tasks.estimates(separate) - tasks.clean[:, None]
    products = errors.T @ errors / len(errors)
    mixed = best_weights(products) if weights is None else np.asarray(weights, dtype=np.float64)
    if mixed.shape != (len(tasks.times),) or not np.isclose(mixed.sum(), 1):
        raise UserError(f"weights must be one for each time and sum to 1, but got weights={mixed.tolist()}")
    return Tiers(
        times=tasks.times,
        single=((tasks.estimates(alone) - tasks.clean[:, None]) ** 2).mean(axis=0),
        separate=np.diag(products).copy(),
        fused=float(((errors @ mixed) ** 2).mean()),
        fusion_bound=float(np.abs(mixed) @ np.abs(products) @ np.abs(mixed)),
    )


def best_weights(products: ArrayLike) -> Array:
    """Weights that sum to one and make the error of a combination smallest. **Shape:** ``(M, M)`` -> ``(M,)``."""
    table = np.asarray(products, dtype=np.float64)
    count = len(table)
    system = np.ones((count + 1, count + 1))
    system[:count, :count], system[count, count] = table / np.abs(table).max(), 0.0
    # With a multiplier for the sum; the shortest answer where several combinations are as good.
    return np.asarray(np.linalg.lstsq(system, np.r_[np.zeros(count), 1.0], rcond=None)[0][:count])
